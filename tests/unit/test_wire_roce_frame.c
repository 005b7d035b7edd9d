/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "wire/roce_frame.h"

enum { DATA = 40, IPV4_HEADERS = 42, IPV6_HEADERS = 62, IP = 14, SOURCE_PORT = 0xc123 };

static const uint8_t macs[ROCE_MACS_BYTES] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
static uint8_t bytes[IPV6_HEADERS + DATA];
static struct roce_frame frame;

static struct gid gid(bool is_ipv4, uint8_t host)
{
	struct gid ipv6 = {{0xfd, 0, 0, 0x99, [15] = host}};

	return is_ipv4 ? gid_from_ipv4((uint8_t[]){10, 99, 0, host}) : ipv6;
}

/* Returns the length of the whole frame. */
static size_t write_frame(bool is_ipv4)
{
	const struct gid source = gid(is_ipv4, 1), dest = gid(is_ipv4, 2);
	struct roce_frame_headers headers;

	memset(bytes, 0, sizeof(bytes));
	roce_frame_headers_init(&headers, &source, &dest, SOURCE_PORT, 0xba, 61, 0x12345);
	roce_frame_headers_write(&headers, macs, DATA, bytes);
	assert_int_equal(headers.count, is_ipv4 ? IPV4_HEADERS : IPV6_HEADERS);
	return headers.count + DATA;
}

static uint32_t sum_of(uint32_t sum, size_t from, size_t count)
{
	for (size_t i = from; i < from + count; i += 2)
		sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	while (sum >> 16)
		sum = (sum >> 16) + (sum & 0xffff);
	return sum;
}

static void headers_that_were_written_are_read(void **state)
{
	(void)state;
	for (int is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
		const struct gid source = gid(is_ipv4, 1), dest = gid(is_ipv4, 2);
		size_t count = write_frame(is_ipv4);

		assert_memory_equal(bytes, macs, sizeof(macs));
		assert_true(roce_frame_decode(&frame, bytes, count));
		assert_true(gid_is_equal(&frame.sgid, &source));
		assert_true(gid_is_equal(&frame.dgid, &dest));
		assert_int_equal(frame.source_port, SOURCE_PORT);
		assert_int_equal(frame.tos, 0xba);
		assert_int_equal(frame.hop_limit, 61);
		assert_ptr_equal(frame.data, bytes + count - DATA);
		assert_int_equal(frame.data_bytes, DATA);
	}
}

/*
 * RFC 1071: a header with its checksum sums up to all ones; a pseudo-header's sum is not inverted
 * yet.
 */
static void checksums_are_right(void **state)
{
	(void)state;
	write_frame(true);
	assert_int_equal(sum_of(0, IP, 20), 0xffff);
	assert_int_equal(sum_of(17 + 8 + DATA, IP + 12, 8), sum_of(0, IPV4_HEADERS - 2, 2));
	write_frame(false);
	assert_int_equal(sum_of(17 + 8 + DATA, IP + 8, 32), sum_of(0, IPV6_HEADERS - 2, 2));
}

/* The sums of a whole frame, which the receiver's network stack checks. */
static void completed_frame_has_its_checksums(void **state)
{
	(void)state;
	for (int is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
		const struct gid source = gid(is_ipv4, 1), dest = gid(is_ipv4, 2);
		uint32_t pseudo = 17 + 8 + DATA;
		struct roce_frame_headers headers;

		for (uint32_t value = 0; value < 256; value++) {
			write_frame(is_ipv4);
			roce_frame_headers_init(
				&headers, &source, &dest, SOURCE_PORT, 0xba, 61, 0x12345);
			memset(bytes + headers.count, (int)value, DATA);
			roce_frame_complete(&headers, 0x1234, DATA, bytes);
			if (is_ipv4) {
				assert_int_equal(sum_of(0, IP, 20), 0xffff);
				assert_int_equal(bytes[IP + 4] << 8 | bytes[IP + 5], 0x1234);
			}
			assert_int_equal(
				sum_of(sum_of(pseudo, is_ipv4 ? IP + 12 : IP + 8, is_ipv4 ? 8 : 32),
					headers.count - 8u, 8 + DATA),
				0xffff);
		}
	}
}

static void padding_behind_the_ip_packet_is_not_data(void **state)
{
	size_t count = write_frame(true);

	(void)state;
	assert_true(roce_frame_decode(&frame, bytes, count + 6));
	assert_int_equal(frame.data_bytes, DATA);
}

static void frame_that_is_cut_off_is_refused(void **state)
{
	(void)state;
	for (int is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
		size_t count = write_frame(is_ipv4);

		for (size_t i = 0; i < count; i++)
			assert_false(roce_frame_decode(&frame, bytes, i));
	}
}

/* One byte of a good frame is another. */
static void assert_refused(bool is_ipv4, size_t offset, uint8_t value)
{
	size_t count = write_frame(is_ipv4);

	assert_int_not_equal(bytes[offset], value);
	bytes[offset] = value;
	assert_false(roce_frame_decode(&frame, bytes, count));
}

static void anything_but_plain_udp_to_the_port_is_refused(void **state)
{
	(void)state;
	assert_refused(true, 12, 0x81); /* VLAN tag */
	assert_refused(true, IP, 0x46); /* options */
	assert_refused(true, IP + 6, 0x20); /* more fragments */
	assert_refused(true, IP + 7, 1); /* not the first */
	assert_refused(true, IP + 9, 6); /* TCP */
	assert_refused(true, IP + 3, 19); /* an IP packet shorter than its header */
	assert_refused(true, IP + 20 + 3, 0xb8); /* another port */
	assert_refused(true, IP + 20 + 5, 7); /* a datagram shorter than its header */
	assert_refused(true, IP + 20 + 5, DATA + 9); /* longer than its IP packet */
	assert_refused(false, IP, 0x50);
	assert_refused(false, IP + 6, 0); /* hop-by-hop options */
	assert_refused(false, IP + 5, DATA + 9);
}

static void ipv4_address_in_an_ipv6_header_is_refused(void **state)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	(void)state;
	for (size_t address = IP + 8; address <= IP + 24; address += 16) {
		size_t count = write_frame(false);

		memcpy(bytes + address, mapped, sizeof(mapped));
		assert_false(roce_frame_decode(&frame, bytes, count));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_that_were_written_are_read),
		cmocka_unit_test(checksums_are_right),
		cmocka_unit_test(completed_frame_has_its_checksums),
		cmocka_unit_test(padding_behind_the_ip_packet_is_not_data),
		cmocka_unit_test(frame_that_is_cut_off_is_refused),
		cmocka_unit_test(anything_but_plain_udp_to_the_port_is_refused),
		cmocka_unit_test(ipv4_address_in_an_ipv6_header_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
