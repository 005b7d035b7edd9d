/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of frames, in memory that the test fills as the kernel does, and filled by the kernel
 * with the frames of a veth pair.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/kernel.h"
#include "pair/pair_frames.h"
#include "support/netns.h"
#include "wire/bytes.h"

enum {
	BLOCKS = 3,
	FRAMES_OFFSET = 48,
	FRAME_ROOM = 256,
	MAC_OFFSET = 130, /* not aligned, as in most frames */
	GSO_UDP_L4 = 5,
	IP_OFFSET = 14,
	UDP_OFFSET = IP_OFFSET + 20,
	DATA_OFFSET = UDP_OFFSET + 8,
	PORT = 9,
	BATCHES = 80, /* each takes a block or more */
	BATCH = 50, /* on its way for less time than the ring lasts */
	TIMEOUT_MS = 60000,
};

/* Clocks of the kernel and of this test may differ by some ticks. */
#define SLACK_NS 100000000u

static _Alignas(TPACKET_ALIGNMENT) uint8_t memory[BLOCKS * PAIR_FRAMES_BLOCK_BYTES];
static int home, other;

static struct tpacket_block_desc *block_at(uint32_t index)
{
	return (void *)(memory + (size_t)index * PAIR_FRAMES_BLOCK_BYTES);
}

/* Hand over block `index` with `count` frames. The first byte of each is its number of all. */
static void block_fill(uint32_t index, uint32_t count, uint8_t first)
{
	struct tpacket_block_desc *block = block_at(index);
	uint8_t *at = (uint8_t *)block + FRAMES_OFFSET;

	block->hdr.bh1.num_pkts = count;
	block->hdr.bh1.offset_to_first_pkt = FRAMES_OFFSET;
	for (uint32_t i = 0; i < count; i++, at += FRAME_ROOM) {
		const struct tpacket3_hdr head = {
			.tp_next_offset = i + 1 < count ? FRAME_ROOM : 0,
			.tp_sec = 7,
			.tp_nsec = first + i,
			.tp_snaplen = 60,
			.tp_len = 60 + i,
			.tp_mac = MAC_OFFSET,
		};
		const struct sockaddr_ll from = {
			.sll_pkttype = i % 2 ? PACKET_OUTGOING : PACKET_HOST};
		const struct virtio_net_hdr segments = {
			.gso_type = i % 2 ? GSO_UDP_L4 : VIRTIO_NET_HDR_GSO_TCPV4,
			.gso_size = 1000};

		memcpy(at, &head, sizeof(head));
		memcpy(at + TPACKET_ALIGN(sizeof(head)), &from, sizeof(from));
		memcpy(at + MAC_OFFSET - sizeof(segments), &segments, sizeof(segments));
		at[MAC_OFFSET] = (uint8_t)(first + i);
	}
	block->hdr.bh1.block_status = TP_STATUS_USER;
}

static struct pair_frames frames_of_memory(bool knows_segments)
{
	memset(memory, 0, sizeof(memory));
	return (struct pair_frames){.fd = -1,
		.knows_segments = knows_segments,
		.blocks = memory,
		.block_count = BLOCKS};
}

static void frames_of_several_blocks_come_in_order_and_once(void **state)
{
	struct pair_frames frames = frames_of_memory(false);
	struct pair_frame frame;
	uint8_t number = 0;

	(void)state;
	for (uint32_t round = 0; round < 2; round++) {
		block_fill(0, 3, number);
		block_fill(1, 0, 0);
		block_fill(2, 1, (uint8_t)(number + 3));
		for (uint32_t i = 0; i < 4; i++, number++) {
			assert_true(pair_frames_next(&frames, &frame));
			assert_int_equal(frame.bytes[0], number);
			assert_int_equal(frame.time_ns, 7000000000u + number);
			assert_int_equal(frame.count, 60);
			assert_int_equal(frame.whole, 60 + i % 3);
			assert_int_equal(frame.is_outbound, i == 1);
			assert_int_equal(frame.segment_bytes, 0);
		}
		assert_false(pair_frames_next(&frames, &frame));
		assert_true(pair_frames_is_empty(&frames));
	}
}

static void block_is_given_back_after_its_last_frame(void **state)
{
	struct pair_frames frames = frames_of_memory(false);
	struct pair_frame frame;

	(void)state;
	block_fill(0, 2, 0);
	assert_true(pair_frames_next(&frames, &frame));
	assert_true(pair_frames_next(&frames, &frame));
	assert_int_equal(block_at(0)->hdr.bh1.block_status, TP_STATUS_USER);
	assert_false(pair_frames_is_empty(&frames));
	assert_false(pair_frames_next(&frames, &frame));
	assert_int_equal(block_at(0)->hdr.bh1.block_status, TP_STATUS_KERNEL);
	assert_true(pair_frames_is_empty(&frames));
}

static void half_of_the_blocks_with_frames_is_half_full(void **state)
{
	struct pair_frames frames = frames_of_memory(false);
	struct pair_frame frame;

	(void)state;
	block_fill(0, 1, 0);
	assert_false(pair_frames_is_half_full(&frames));
	block_fill(1, 1, 1);
	assert_true(pair_frames_is_half_full(&frames));
	assert_true(pair_frames_next(&frames, &frame));
	assert_true(pair_frames_next(&frames, &frame));
	assert_false(pair_frames_is_half_full(&frames));
}

static void frames_of_an_open_block_are_awaited(void **state)
{
	struct pair_frames frames = frames_of_memory(false);
	struct pair_frame frame;

	(void)state;
	block_fill(0, 1, 0);
	block_at(0)->hdr.bh1.block_status = TP_STATUS_KERNEL;
	assert_false(pair_frames_next(&frames, &frame));
	assert_false(pair_frames_is_empty(&frames));
}

static void super_packet_has_the_length_of_its_segments(void **state)
{
	struct pair_frames frames = frames_of_memory(true);
	struct pair_frame frame;

	(void)state;
	block_fill(0, 2, 0);
	assert_true(pair_frames_next(&frames, &frame));
	assert_int_equal(frame.segment_bytes, 0);
	assert_true(pair_frames_next(&frames, &frame));
	assert_int_equal(frame.segment_bytes, 1000);
}

/* --- the kernel's --- */

static int socket_to(const char *address)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(inet_pton(AF_INET, address, &to.sin_addr), 1);
	assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* A refused datagram before it may have left an error in the socket. */
static void datagram_send(int fd, const void *bytes, size_t count)
{
	while (send(fd, bytes, count, 0) < 0)
		continue;
}

/* The next datagram to PORT. */
static void datagram_await(struct pair_frames *frames, struct pair_frame *frame)
{
	struct pollfd ready = {.fd = frames->fd, .events = POLLIN};

	do {
		while (!pair_frames_next(frames, frame))
			assert_int_equal(poll(&ready, 1, TIMEOUT_MS), 1);
	} while (frame->count < DATA_OFFSET + sizeof(uint32_t) || frame->bytes[IP_OFFSET] != 0x45 ||
		frame->bytes[IP_OFFSET + 9] != IPPROTO_UDP ||
		get_be16(frame->bytes + UDP_OFFSET + 2) != PORT);
}

static void frames_of_both_directions_are_seen_and_none_is_lost(void **state)
{
	uint64_t begin_ns = clock_epoch_ns() + clock_now_ns() - SLACK_NS;
	uint32_t next[2] = {0, 0}, number;
	struct pair_frames frames;
	struct pair_frame frame;
	int here, there;

	(void)state;
	netns_switch(other);
	there = socket_to("10.99.0.1");
	netns_switch(home);
	here = socket_to("10.99.0.2");
	assert_int_equal(
		pair_frames_open(&frames, if_nametoindex("va"), kernel_knows_super_packets()), 0);
	for (uint32_t sent = 0; sent < BATCHES * BATCH;) {
		for (uint32_t end = sent + BATCH; sent < end; sent++) {
			datagram_send(here, &sent, sizeof(sent));
			datagram_send(there, &sent, sizeof(sent));
		}
		while (next[0] < sent || next[1] < sent) {
			datagram_await(&frames, &frame);
			memcpy(&number, frame.bytes + DATA_OFFSET, sizeof(number));
			assert_int_equal(number, next[frame.is_outbound]);
			assert_true(frame.time_ns >= begin_ns);
			assert_true(frame.time_ns <= clock_epoch_ns() + clock_now_ns() + SLACK_NS);
			next[frame.is_outbound]++;
		}
	}
	assert_int_equal(pair_frames_dropped(&frames), 0);
	pair_frames_close(&frames);
	close(here);
	close(there);
}

static void super_packet_of_the_kernel_is_seen_as_one(void **state)
{
	static const uint8_t bytes[3000];
	int segment_bytes = 1000, fd;
	struct pair_frames frames;
	struct pair_frame frame;

	(void)state;
	if (!kernel_knows_super_packets())
		skip();
	netns_switch(home);
	fd = socket_to("10.99.0.2");
	assert_int_equal(
		setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment_bytes, sizeof(segment_bytes)), 0);
	assert_int_equal(pair_frames_open(&frames, if_nametoindex("va"), true), 0);
	datagram_send(fd, bytes, sizeof(bytes));
	datagram_await(&frames, &frame);
	assert_true(frame.is_outbound);
	assert_int_equal(frame.segment_bytes, segment_bytes);
	assert_int_equal(frame.count, DATA_OFFSET + sizeof(bytes));
	pair_frames_close(&frames);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_of_several_blocks_come_in_order_and_once),
		cmocka_unit_test(block_is_given_back_after_its_last_frame),
		cmocka_unit_test(half_of_the_blocks_with_frames_is_half_full),
		cmocka_unit_test(frames_of_an_open_block_are_awaited),
		cmocka_unit_test(super_packet_has_the_length_of_its_segments),
	};
	const struct CMUnitTest real_tests[] = {
		cmocka_unit_test(frames_of_both_directions_are_seen_and_none_is_lost),
		cmocka_unit_test(super_packet_of_the_kernel_is_seen_as_one),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	home = netns_enter_new();
	other = home < 0 ? -1 : netns_enter_new();
	if (other < 0 || netns_join(home, other, 1500))
		return failed ? failed : 77;
	return cmocka_run_group_tests(real_tests, NULL, NULL) + failed;
}
