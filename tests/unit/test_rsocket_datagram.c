/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Headers of datagram rsockets, and pieces of the application's memory. tests/e2e/rsocket.sh tests
 * transfers.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "front/rsocket/datagram/datagram_protocol.h"
#include "front/rsocket/pieces.h"
#include "support/sim_random.h"

static union datagram_name name_of(int family, const char *address, uint16_t port)
{
	union datagram_name name;

	memset(&name, 0, sizeof(name));
	name.base.sa_family = (sa_family_t)family;
	if (family == AF_INET) {
		assert_int_equal(inet_pton(AF_INET, address, &name.ipv4.sin_addr), 1);
		name.ipv4.sin_port = htons(port);
	} else {
		assert_int_equal(inet_pton(AF_INET6, address, &name.ipv6.sin6_addr), 1);
		name.ipv6.sin6_port = htons(port);
	}
	return name;
}

/* Laid out by hand, after rdma-core's structures. */
static void headers_are_laid_out_as_rdma_core_does(void **state)
{
	static const uint8_t ipv4[] = {4, 8, 0x1c, 0x06, 10, 0, 0, 7};
	static const uint8_t ipv6[] = {6, 24, 0x1c, 0x06, 0, 0, 0, 0, 0xfd, [22] = 0, 7};
	static const uint8_t udp_ipv4[] = {
		0x55, 0x55, 0x55, 0x55, 4, 7, 16, 0, 0, 0x12, 0x34, 0x56, 10, 0, 0, 7};
	static const uint8_t udp_ipv6[28] = {
		0x55, 0x55, 0x55, 0x55, 6, 0, 28, 0, 0, 0, 0, 1, 0xfd, [27] = 7};
	const struct datagram_udp_header ctrl = {DATAGRAM_OP_CTRL, 0x123456};
	const struct datagram_udp_header data = {DATAGRAM_OP_DATA, 1};
	union datagram_name name = name_of(AF_INET, "10.0.0.7", 7174);
	uint8_t bytes[DATAGRAM_UDP_HEADER_BYTES_MAX];

	(void)state;
	assert_int_equal(datagram_header_encode(bytes, &name), sizeof(ipv4));
	assert_memory_equal(bytes, ipv4, sizeof(ipv4));
	assert_int_equal(datagram_udp_header_encode(bytes, &ctrl, &name), sizeof(udp_ipv4));
	assert_memory_equal(bytes, udp_ipv4, sizeof(udp_ipv4));
	name = name_of(AF_INET6, "fd00::7", 7174);
	assert_int_equal(datagram_header_encode(bytes, &name), sizeof(ipv6));
	assert_memory_equal(bytes, ipv6, sizeof(ipv6));
	assert_int_equal(datagram_udp_header_encode(bytes, &data, &name), sizeof(udp_ipv6));
	assert_memory_equal(bytes, udp_ipv6, sizeof(udp_ipv6));
}

static void name_of_a_socket_of_both_families_travels_as_ipv4(void **state)
{
	union datagram_name mapped = name_of(AF_INET6, "::ffff:10.0.0.7", 9), plain, back;
	uint8_t bytes[DATAGRAM_HEADER_BYTES_MAX];

	(void)state;
	assert_int_equal(datagram_header_encode(bytes, &mapped), 8);
	assert_int_equal(datagram_header_decode(&plain, bytes, 8), 8);
	assert_int_equal(plain.base.sa_family, AF_INET);
	back = datagram_name_mapped(&plain, AF_INET6);
	assert_memory_equal(&back, &mapped, sizeof(mapped));
	back = datagram_name_mapped(&plain, AF_INET);
	assert_memory_equal(&back, &plain, sizeof(plain));
}

static void header_that_is_cut_off_or_of_no_version_is_none(void **state)
{
	const struct datagram_udp_header data = {DATAGRAM_OP_DATA, 1};
	uint8_t header[DATAGRAM_HEADER_BYTES_MAX], udp[DATAGRAM_UDP_HEADER_BYTES_MAX];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		union datagram_name name =
			i ? name_of(AF_INET6, "fd00::7", 1) : name_of(AF_INET, "10.0.0.7", 1);
		size_t bytes = datagram_header_encode(header, &name);
		size_t udp_bytes = datagram_udp_header_encode(udp, &data, &name);
		struct datagram_udp_header got;

		for (size_t cut = 0; cut < bytes; cut++)
			assert_int_equal(datagram_header_decode(&name, header, cut), 0);
		for (size_t cut = 0; cut < udp_bytes; cut++)
			assert_int_equal(datagram_udp_header_decode(&got, udp, cut), 0);
		header[0] ^= 1;
		assert_int_equal(datagram_header_decode(&name, header, bytes), 0);
		for (size_t at = 0; at < 7; at++) {
			udp[at] ^= 3;
			assert_int_equal(datagram_udp_header_decode(&got, udp, udp_bytes), 0);
			udp[at] ^= 3;
		}
		assert_int_equal(datagram_udp_header_decode(&got, udp, udp_bytes), udp_bytes);
	}
}

/* A twin that copies byte by byte. */
static void pieces_copy_as_one_piece_would(void **state)
{
	struct sim_random random = {7};
	uint8_t memory[64], ring[16], expected[64];

	(void)state;
	for (unsigned run = 0; run < 1000; run++) {
		struct iovec list[5];
		int count = 1 + (int)sim_random_below(&random, ARRAY_COUNT(list));
		uint32_t offset = (uint32_t)sim_random_below(&random, sizeof(ring));
		uint32_t bytes = 0, part;
		struct pieces pieces;

		for (int i = 0; i < count; i++) {
			list[i].iov_base = memory + bytes;
			list[i].iov_len = sim_random_below(&random, 4);
			bytes += (uint32_t)list[i].iov_len;
		}
		assert_int_equal(pieces_bytes(list, count), bytes);
		for (size_t i = 0; i < sizeof(memory); i++)
			memory[i] = (uint8_t)sim_random_next(&random);
		memcpy(expected, memory, sizeof(memory));
		part = (uint32_t)sim_random_below(&random, bytes + 1u);
		pieces = pieces_begin(list, count);
		pieces_copy_ring(&pieces, ring, sizeof(ring), offset, part, PIECES_OUT);
		pieces_copy_ring(&pieces, ring, sizeof(ring), (offset + part) % sizeof(ring),
			bytes - part, PIECES_OUT);
		for (uint32_t i = 0; i < bytes; i++)
			assert_int_equal(ring[(offset + i) % sizeof(ring)], expected[i]);
		memset(memory, 0, bytes);
		pieces = pieces_begin(list, count);
		pieces_copy_ring(&pieces, ring, sizeof(ring), offset, bytes, PIECES_IN);
		assert_memory_equal(memory, expected, sizeof(memory));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_are_laid_out_as_rdma_core_does),
		cmocka_unit_test(name_of_a_socket_of_both_families_travels_as_ipv4),
		cmocka_unit_test(header_that_is_cut_off_or_of_no_version_is_none),
		cmocka_unit_test(pieces_copy_as_one_piece_would),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
