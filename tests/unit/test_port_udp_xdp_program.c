/* SPDX-License-Identifier: BSD-2-Clause */
/* The XDP program: which frames it redirects. The kernel runs it on each, without an interface. */
#include <errno.h>
#include <linux/bpf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "port/udp/udp_xdp_program.h"
#include "support/udp_ends.h"
#include "wire/bth.h"
#include "wire/bytes.h"
#include "wire/roce_frame.h"

enum { SLOT = 7, DATA = BTH_BYTES + ROCE_ICRC_BYTES, IP = ROCE_ETHERNET_BYTES };

static const uint8_t macs[ROCE_MACS_BYTES] = {2, 1, 2, 3, 4, 5, 2, 6, 7, 8, 9, 10};
static struct xdp_program program;
static int program_fd;
static struct gid ours[2]; /* IPv6, IPv4 */
static uint8_t frame[XDP_FRAME_BYTES_MAX + 1];

static uint32_t frame_write(bool is_ipv4, uint32_t data_bytes)
{
	const struct gid peer = udp_gid(is_ipv4 ? "10.0.0.9" : "fd00::9");
	struct roce_frame_headers headers;

	memset(frame, 0, sizeof(frame));
	roce_frame_headers_init(&headers, &peer, &ours[is_ipv4], 0xc000, 2, 64, 0);
	roce_frame_headers_write(&headers, macs, data_bytes, frame);
	frame[headers.count + 5] = SLOT;
	return headers.count + data_bytes;
}

/* What the program says of the first bytes of `frame`. */
static uint32_t verdict(uint32_t bytes)
{
	uint8_t out[sizeof(frame) + 64];
	union bpf_attr attr = {.test = {
				       .prog_fd = (uint32_t)program_fd,
				       .data_size_in = bytes,
				       .data_in = (uint64_t)(uintptr_t)frame,
				       .data_size_out = sizeof(out),
				       .data_out = (uint64_t)(uintptr_t)out,
			       }};

	assert_int_equal(syscall(SYS_bpf, BPF_PROG_TEST_RUN, &attr, sizeof(attr)), 0);
	assert_int_equal(attr.test.data_size_out, bytes);
	assert_memory_equal(out, frame, bytes);
	return attr.test.retval;
}

static void packet_for_the_lane_is_redirected(void **state)
{
	(void)state;
	for (int is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
		assert_int_equal(verdict(frame_write(is_ipv4, DATA)), XDP_REDIRECT);
		assert_int_equal(verdict(frame_write(is_ipv4, 1024)), XDP_REDIRECT);
	}
}

static void packet_that_is_cut_off_passes(void **state)
{
	(void)state;
	for (int is_ipv4 = 0; is_ipv4 < 2; is_ipv4++) {
		uint32_t bytes = frame_write(is_ipv4, DATA);

		for (uint32_t i = ROCE_ETHERNET_BYTES; i < bytes; i++)
			assert_int_equal(verdict(i), XDP_PASS);
	}
}

/* Any other byte in the place of one that decides. */
static void all_else_passes(void **state)
{
	static const struct {
		bool is_ipv4;
		uint32_t from, to; /* bytes of the frame */
	} fields[] = {
		{true, 0, 6}, /* the interface's Ethernet address */
		{true, 12, 15}, /* EtherType, version and length of the header */
		{true, IP + 7, IP + 8}, /* fragment offset */
		{true, IP + 9, IP + 10}, /* protocol */
		{true, IP + 16, IP + 20}, /* our address */
		{true, IP + 22, IP + 24}, /* port */
		{true, IP + 28 + 5, IP + 28 + 6}, /* slot */
		{false, 0, 6},
		{false, 12, 14},
		{false, IP + 6, IP + 7},
		{false, IP + 24, IP + 40},
		{false, IP + 42, IP + 44},
		{false, IP + 48 + 5, IP + 48 + 6},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		for (uint32_t at = fields[i].from; at < fields[i].to; at++) {
			uint32_t bytes = frame_write(fields[i].is_ipv4, 64);

			for (int other = 1; other < 256; other++) {
				frame[at] ^= (uint8_t)other;
				assert_int_equal(verdict(bytes), XDP_PASS);
				frame[at] ^= (uint8_t)other;
			}
		}
	uint32_t bytes = frame_write(true, 64);
	frame[IP + IPV4_FLAGS] = 0x20; /* more fragments */
	assert_int_equal(verdict(bytes), XDP_PASS);
}

static void address_that_was_removed_passes(void **state)
{
	(void)state;
	xdp_program_pass(&program, 0, &ours[1], SLOT);
	assert_int_equal(verdict(frame_write(true, DATA)), XDP_PASS);
	assert_int_equal(verdict(frame_write(false, DATA)), XDP_REDIRECT);
	assert_int_equal(xdp_program_redirect(&program, 0, &ours[1], SLOT, macs), 0);
	assert_int_equal(verdict(frame_write(true, DATA)), XDP_REDIRECT);
}

/* A killed lane cannot remove its addresses, and its socket is gone. */
static void next_lane_of_a_queue_inherits_nothing(void **state)
{
	int old = socket(AF_XDP, SOCK_RAW, 0);
	int new = socket(AF_XDP, SOCK_RAW, 0);

	(void)state;
	assert_int_equal(xdp_program_take_queue(&program, 0, old), 0);
	assert_int_equal(verdict(frame_write(true, DATA)), XDP_PASS);
	assert_int_equal(xdp_program_redirect(&program, 0, &ours[1], SLOT, macs), 0);
	assert_int_equal(verdict(frame_write(true, DATA)), XDP_REDIRECT);
	close(old);
	assert_int_equal(verdict(frame_write(true, DATA)), XDP_PASS);
	assert_int_equal(xdp_program_take_queue(&program, 0, new), 0);
	assert_int_equal(verdict(frame_write(true, DATA)), XDP_PASS);
	close(new);
}

static bool can_load(int *ret_socket)
{
	*ret_socket = socket(AF_XDP, SOCK_RAW, 0);
	program_fd = *ret_socket < 0 ? -errno : xdp_program_load(&program, false, 1);
	if (program_fd < 0)
		printf("skipped: no XDP program here: %s\n", strerror(-program_fd));
	return program_fd >= 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packet_for_the_lane_is_redirected),
		cmocka_unit_test(packet_that_is_cut_off_passes),
		cmocka_unit_test(all_else_passes),
		cmocka_unit_test(address_that_was_removed_passes),
		cmocka_unit_test(next_lane_of_a_queue_inherits_nothing),
	};
	int socket, error;

	if (!can_load(&socket))
		return 77;
	ours[0] = udp_gid("fd00::1");
	ours[1] = udp_gid("10.0.0.1");
	error = xdp_program_take_queue(&program, 0, socket);
	for (int i = 0; i < 2 && !error; i++)
		error = xdp_program_redirect(&program, 0, &ours[i], SLOT, macs);
	return error ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
