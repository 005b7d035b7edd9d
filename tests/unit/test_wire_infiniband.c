/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "wire/bytes.h"
#include "wire/infiniband/attribute.h"
#include "wire/infiniband/mad_frame.h"
#include "wire/infiniband/multicast_row.h"
#include "wire/infiniband/pkey.h"
#include "wire/infiniband/smp.h"

/* The polynomial 0x100b, its register of ones, and the complement (IBTA 7.8.2), bit by bit. */
static uint16_t vcrc_by_bits(const uint8_t *bytes, uint32_t count)
{
	uint16_t crc = 0xffff, reversed = 0;

	for (uint32_t i = 0; i < count * 8; i++) {
		const unsigned bit = bytes[i / 8] >> i % 8 & 1;

		crc = (uint16_t)(crc << 1 ^ ((crc >> 15 ^ bit) & 1 ? 0x100b : 0));
	}
	for (unsigned i = 0; i < 16; i++)
		reversed |= (uint16_t)((crc >> i & 1) << (15 - i));
	return (uint16_t)~reversed;
}

static void vcrc_is_that_of_its_polynomial(void **state)
{
	uint8_t bytes[61];

	(void)state;
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * i + 7);
	for (uint32_t count = 0; count <= sizeof(bytes); count++)
		assert_int_equal(ib_vcrc(bytes, count), vcrc_by_bits(bytes, count));
}

static void icrc_of_a_frame_ignores_what_switches_change(void **state)
{
	const struct mad_frame frame = {.dlid = 2,
		.slid = 1,
		.vl = 0,
		.pkey = 0xffff,
		.dest_qpn = GSI_QPN,
		.source_qpn = GSI_QPN,
		.qkey = GSI_QKEY,
		.has_grh = true};
	uint8_t mad[MAD_BYTES] = {1, 4, 1, 1}, bytes[MAD_FRAME_BYTES_MAX];
	const uint32_t count = mad_frame_encode(&frame, mad, bytes);

	(void)state;
	assert_int_equal(count, MAD_FRAME_BYTES_MAX);
	assert_true(ib_icrc_verify(bytes, count));
	lrh_set_vl(bytes, 7);
	bytes[LRH_BYTES + 7]--; /* hop limit */
	assert_true(ib_icrc_verify(bytes, count));
	bytes[3] ^= 1; /* DLID */
	assert_false(ib_icrc_verify(bytes, count));
}

static void frame_of_a_mad_decodes_to_what_was_encoded(void **state)
{
	const struct mad_frame frame = {.dlid = 0xfffe,
		.slid = 1,
		.sl = 3,
		.vl = 5,
		.pkey = 0x8001,
		.dest_qpn = GSI_QPN,
		.source_qpn = 0x123456,
		.qkey = GSI_QKEY,
		.psn = 9};
	uint8_t mad[MAD_BYTES] = {1, 4, 1, 1, [255] = 7}, bytes[MAD_FRAME_BYTES_MAX];
	const uint32_t count = mad_frame_encode(&frame, mad, bytes);
	struct ib_frame headers;
	struct mad_frame decoded;
	const uint8_t *found;

	(void)state;
	assert_true(ib_frame_decode(&headers, bytes, count));
	assert_true(mad_frame_decode(&decoded, &headers, bytes, count, &found));
	assert_memory_equal(found, mad, MAD_BYTES);
	assert_int_equal(decoded.dlid, 0xfffe);
	assert_int_equal(decoded.sl, 3);
	assert_int_equal(decoded.vl, 5);
	assert_int_equal(decoded.pkey, 0x8001);
	assert_int_equal(decoded.source_qpn, 0x123456);
	assert_int_equal(decoded.psn, 9);
	assert_false(ib_frame_decode(&headers, bytes, count - 4));
	assert_false(ib_frame_decode(&headers, bytes, 7));
}

/* Each byte of PortInfo is a field's or reserved, so most survive a decoding. */
static void port_info_encodes_to_the_bytes_that_it_was_decoded_from(void **state)
{
	uint8_t from[IB_PORT_INFO_BYTES], to[IB_PORT_INFO_BYTES];
	struct ib_port_info info;

	(void)state;
	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 37 + 11);
	from[34] &= 0xc7; /* reserved bits */
	from[52] &= 0x1f;
	from[56] = 0;
	from[63] &= 0x1f;
	ib_port_info_decode(&info, from);
	ib_port_info_encode(&info, to);
	assert_memory_equal(from, to, sizeof(from));
	assert_int_equal(info.lid, from[16] << 8 | from[17]);
	assert_int_equal(info.port_state, from[32] & 0xf);
	assert_int_equal(info.lmc, from[34] & 7);
}

/* A packet over two switches and back, as its first node and both switches move the pointer. */
static void directed_route_leads_there_and_back(void **state)
{
	uint8_t mad[MAD_BYTES] = {1, MAD_CLASS_SUBN_DIRECTED, 1, MAD_METHOD_GET, [7] = 3};
	struct smp_step step;

	(void)state;
	put_be16(mad + SMP_DR_SLID, LID_PERMISSIVE);
	put_be16(mad + SMP_DR_DLID, LID_PERMISSIVE);
	memcpy(mad + SMP_INITIAL_PATH, (uint8_t[]){0, 1, 8, 9}, 4);
	step = smp_step(mad, false, 0);
	assert_true(step.way == SMP_BY_PORT && step.port == 1);
	step = smp_step(mad, true, 4);
	assert_true(step.way == SMP_BY_PORT && step.port == 8);
	step = smp_step(mad, true, 5);
	assert_true(step.way == SMP_BY_PORT && step.port == 9);
	step = smp_step(mad, false, 2);
	assert_int_equal(step.way, SMP_HERE);
	assert_memory_equal(mad + SMP_RETURN_PATH, ((uint8_t[]){0, 4, 5, 2}), 4);
	smp_turn(mad, 0);
	step = smp_step(mad, false, 0);
	assert_true(step.way == SMP_BY_PORT && step.port == 2);
	step = smp_step(mad, true, 9);
	assert_true(step.way == SMP_BY_PORT && step.port == 5);
	step = smp_step(mad, true, 8);
	assert_true(step.way == SMP_BY_PORT && step.port == 4);
	step = smp_step(mad, false, 1);
	assert_int_equal(step.way, SMP_HERE);
	assert_int_equal(mad[6], 0);
}

static void directed_route_without_hops_stays_at_the_node(void **state)
{
	uint8_t mad[MAD_BYTES] = {1, MAD_CLASS_SUBN_DIRECTED, 1, MAD_METHOD_GET};

	(void)state;
	assert_int_equal(smp_step(mad, false, 0).way, SMP_HERE);
	smp_turn(mad, 0);
	assert_int_equal(smp_step(mad, false, 0).way, SMP_HERE);
}

static void directed_route_through_an_adapter_ends_there(void **state)
{
	uint8_t mad[MAD_BYTES] = {1, MAD_CLASS_SUBN_DIRECTED, 1, MAD_METHOD_GET, [6] = 1, [7] = 2};

	(void)state;
	assert_int_equal(smp_step(mad, false, 1).way, SMP_DISCARD);
	assert_int_equal(smp_step(mad, true, 1).way, SMP_BY_PORT);
}

static void directed_route_with_an_impossible_pointer_is_discarded(void **state)
{
	uint8_t mad[MAD_BYTES] = {1, MAD_CLASS_SUBN_DIRECTED, 1, MAD_METHOD_GET};

	(void)state;
	mad[6] = 5;
	mad[7] = 3;
	assert_int_equal(smp_step(mad, true, 1).way, SMP_DISCARD);
	mad[6] = 63;
	mad[7] = 64;
	assert_int_equal(smp_step(mad, true, 1).way, SMP_DISCARD);
	put_be16(mad + 4, SMP_STATUS_DIRECTION);
	mad[7] = 255;
	assert_int_equal(smp_step(mad, true, 1).way, SMP_DISCARD);
}

static void pkeys_match_if_one_side_is_a_full_member(void **state)
{
	static const uint16_t table[] = {0x0123, 0x8124, 0x0000};
	static const uint16_t others[] = {0x0124, 0x0123};

	(void)state;
	assert_true(pkey_matches(0x8123, 0x0123));
	assert_true(pkey_matches(0x0123, 0x8123));
	assert_true(pkey_matches(0x8123, 0x8123));
	assert_false(pkey_matches(0x0123, 0x0123));
	assert_false(pkey_matches(0x8123, 0x8124));
	assert_false(pkey_matches(0, 0x8000));
	assert_true(pkey_table_matches(table, 3, 0x8123));
	assert_false(pkey_table_matches(table, 3, 0x0123));
	assert_true(pkey_table_matches(table, 3, 0x0124));
	assert_false(pkey_table_matches(table, 3, 0x8000));
	assert_false(pkey_table_matches(table, 0, 0x8123));
	assert_int_equal(pkey_find_common(table, 3, others, 2), 0x8124);
	assert_int_equal(pkey_find_common(table, 1, others, 2), 0);
}

static void multicast_packet_goes_to_the_ports_of_its_row_but_never_back(void **state)
{
	struct multicast_row rows[3] = {{{0}}};
	struct multicast_row copies;

	(void)state;
	multicast_row_set(&rows[1], 0, true);
	multicast_row_set(&rows[1], 63, true);
	multicast_row_set(&rows[1], 64, true);
	multicast_row_set(&rows[1], 254, true);
	copies = multicast_copies(rows, 3, 0xc001, 64);
	for (uint32_t port = 0; port < MULTICAST_PORTS_MAX; port++)
		assert_int_equal(
			multicast_row_has(&copies, port), port == 0 || port == 63 || port == 254);
	copies = multicast_copies(rows, 3, 0xc001, 7);
	assert_true(multicast_row_has(&copies, 64));
	multicast_row_set(&rows[1], 64, false);
	copies = multicast_copies(rows, 3, 0xc001, 7);
	assert_false(multicast_row_has(&copies, 64));
	/* A row that is not set, one behind the table, and LIDs that are no group's. */
	assert_int_equal(multicast_copies(rows, 3, 0xc000, 7).ports[0], 0);
	assert_null(multicast_row_find(rows, 3, 0xc003));
	assert_null(multicast_row_find(rows, 3, 0xbfff));
	assert_null(multicast_row_find(rows, 0x4000, 0xffff));
	assert_int_equal(multicast_copies(rows, 3, 0xc003, 7).ports[0], 0);
}

static void pkey_is_found_by_its_partition_as_a_full_member_first(void **state)
{
	static const uint16_t pkeys[] = {0x7fff, 0x0001, 0x8001, 0x0000, 0x8001, 0xffff, 0x0002};

	(void)state;
	assert_int_equal(pkey_index_find(pkeys, 7, 0x8001), 2);
	assert_int_equal(pkey_index_find(pkeys, 7, 0x0001), 2);
	assert_int_equal(pkey_index_find(pkeys, 7, 0xffff), 5);
	assert_int_equal(pkey_index_find(pkeys, 5, 0xffff), 0);
	assert_int_equal(pkey_index_find(pkeys, 7, 0x8002), 6);
	assert_int_equal(pkey_index_find(pkeys, 7, 0x8003), 0);
	assert_int_equal(pkey_index_find(pkeys, 7, 0), 0);
	assert_int_equal(pkey_index_find(pkeys, 0, 0xffff), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pkeys_match_if_one_side_is_a_full_member),
		cmocka_unit_test(multicast_packet_goes_to_the_ports_of_its_row_but_never_back),
		cmocka_unit_test(pkey_is_found_by_its_partition_as_a_full_member_first),
		cmocka_unit_test(vcrc_is_that_of_its_polynomial),
		cmocka_unit_test(icrc_of_a_frame_ignores_what_switches_change),
		cmocka_unit_test(frame_of_a_mad_decodes_to_what_was_encoded),
		cmocka_unit_test(port_info_encodes_to_the_bytes_that_it_was_decoded_from),
		cmocka_unit_test(directed_route_leads_there_and_back),
		cmocka_unit_test(directed_route_without_hops_stays_at_the_node),
		cmocka_unit_test(directed_route_through_an_adapter_ends_there),
		cmocka_unit_test(directed_route_with_an_impossible_pointer_is_discarded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
