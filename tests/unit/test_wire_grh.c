/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "wire/grh.h"

static const struct gid here_ipv6 = {{0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
static const struct gid there_ipv6 = {{0x20, 0x01, 0x0d, 0xb8, [15] = 2}};

static void grh_assert_equal(const struct ip_header *a, const struct ip_header *b)
{
	assert_int_equal(a->traffic_class, b->traffic_class);
	assert_int_equal(a->flow_label, b->flow_label);
	assert_int_equal(a->payload_bytes, b->payload_bytes);
	assert_int_equal(a->next_header, b->next_header);
	assert_int_equal(a->hop_limit, b->hop_limit);
	assert_true(gid_is_equal(&a->sgid, &b->sgid));
	assert_true(gid_is_equal(&a->dgid, &b->dgid));
}

static void grh_of_ipv6_gids_has_the_layout_of_an_ipv6_header(void **state)
{
	const struct ip_header grh = {.traffic_class = 0x12,
		.flow_label = 0x34567,
		.payload_bytes = 0x89a,
		.next_header = GRH_NEXT_HEADER_IB,
		.hop_limit = 64,
		.sgid = here_ipv6,
		.dgid = there_ipv6};
	static const uint8_t start[8] = {0x61, 0x23, 0x45, 0x67, 0x08, 0x9a, 0x1b, 64};
	uint8_t bytes[GRH_BYTES];
	struct ip_header decoded;

	(void)state;
	grh_encode(&grh, bytes);
	assert_memory_equal(bytes, start, sizeof(start));
	assert_memory_equal(bytes + 8, here_ipv6.raw, 16);
	assert_memory_equal(bytes + 24, there_ipv6.raw, 16);
	assert_true(grh_decode(&decoded, bytes));
	grh_assert_equal(&decoded, &grh);
}

/* The header of a packet that the Linux driver sent, but for the identification. */
static void grh_of_ipv4_gids_is_an_ipv4_header_with_its_checksum(void **state)
{
	static const uint8_t here[4] = {10, 77, 0, 3};
	static const uint8_t there[4] = {10, 77, 0, 2};
	static const uint8_t expected[20] = {0x45, 0, 0x01, 0x34, 0, 0, 0x40, 0, 0x40, 0x11, 0x25,
		0x1b, 10, 77, 0, 3, 10, 77, 0, 2};
	static const uint8_t zero[20];
	const struct ip_header grh = {.payload_bytes = 0x134 - 20,
		.next_header = IP_PROTOCOL_UDP,
		.hop_limit = 64,
		.sgid = gid_from_ipv4(here),
		.dgid = gid_from_ipv4(there)};
	uint8_t bytes[GRH_BYTES];
	struct ip_header decoded;

	(void)state;
	memset(bytes, 0xff, sizeof(bytes));
	grh_encode(&grh, bytes);
	assert_memory_equal(bytes, zero, 20);
	assert_memory_equal(bytes + 20, expected, 20);
	assert_true(grh_decode(&decoded, bytes));
	grh_assert_equal(&decoded, &grh);
}

static void grh_of_neither_form_is_refused(void **state)
{
	static const uint8_t address[4] = {192, 0, 2, 1};
	const struct ip_header grh = {
		.sgid = gid_from_ipv4(address), .dgid = gid_from_ipv4(address)};
	uint8_t bytes[GRH_BYTES];
	struct ip_header decoded = {.hop_limit = 7};

	(void)state;
	grh_encode(&grh, bytes);
	for (size_t bit = 20 * 8; bit < 40 * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(grh_decode(&decoded, bytes));
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	memset(bytes, 0, sizeof(bytes));
	assert_false(grh_decode(&decoded, bytes));
	assert_int_equal(decoded.hop_limit, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grh_of_ipv6_gids_has_the_layout_of_an_ipv6_header),
		cmocka_unit_test(grh_of_ipv4_gids_is_an_ipv4_header_with_its_checksum),
		cmocka_unit_test(grh_of_neither_form_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
