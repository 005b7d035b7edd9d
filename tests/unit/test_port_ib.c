/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The InfiniBand port: packets on paths with and without GRH, what a subnet manager changes, and
 * frames of a hostile peer. Two ports exchange frames by a queue of the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/arith.h"
#include "os/kick.h"
#include "port/infiniband/ib.h"
#include "wire/bth.h"
#include "wire/grh.h"
#include "wire/infiniband/crc.h"
#include "wire/infiniband/lid_address.h"
#include "wire/infiniband/lrh.h"

enum {
	FRAMES_MAX = 256,
	FRAME_BYTES_MAX = 4400,
	LID_A = 0x14,
	LID_B = 0x20,
	PKEY_SHARED = 0x8123,
	QPN = 0x010203,
};

/* One end: its port, and the frames that wait for it. */
struct end {
	struct port_ib *port;
	struct port_ib_wire wire;
	struct port_ib_state state;
	struct end *peer;
	bool is_waiting, is_full;
	struct port_ib_route full; /* the route that has no room while `is_full` */
	uint32_t first, count, flushes;
	uint32_t waits; /* calls of wait_begin and wait_end */
	uint32_t bytes[FRAMES_MAX];
	uint8_t frames[FRAMES_MAX][FRAME_BYTES_MAX];
	/* The last packet that its port passed on, and their number. */
	uint32_t packets;
	uint8_t data[FRAME_BYTES_MAX];
	uint32_t data_bytes;
	struct gid source, destination;
	struct link_origin link;
	uint16_t pkey;
	bool refuses; /* on_packet() reports a wrong Q_Key */
	uint32_t violations;
	uint32_t violation_bytes; /* of the last frame that was reported */
};

static struct end a, b;
static uint8_t payload[64 * 1024];

static bool end_send(
	void *context, uint32_t port, const struct record_piece *pieces, uint32_t count)
{
	struct end *from = context, *to = from->peer;
	uint32_t at = (to->first + to->count) % FRAMES_MAX, bytes = 0;

	assert_int_equal(port, 1);
	if (to->count == FRAMES_MAX)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		memcpy(to->frames[at] + bytes, pieces[i].bytes, pieces[i].count);
		bytes += pieces[i].count;
	}
	to->bytes[at] = bytes;
	to->count++;
	return true;
}

static bool end_has_room(void *context, uint32_t bytes)
{
	(void)bytes;
	return !((struct end *)context)->is_full;
}

static bool end_route_has_room(void *context, const struct port_ib_route *route, uint32_t bytes)
{
	const struct end *end = context;
	const struct port_ib_route *full = &end->full;

	(void)bytes;
	return !end->is_full || route->port != full->port || route->dlid != full->dlid ||
		route->pkey != full->pkey || route->sl != full->sl || route->slot != full->slot;
}

static void end_flush(void *context)
{
	struct end *from = context;

	from->flushes++;
	if (from->peer->is_waiting)
		kick_raise(from->peer->wire.fd);
	from->peer->is_waiting = false;
}

static void end_violate(void *context, uint32_t port, enum port_ib_violation violation,
	const uint8_t *frame, uint32_t bytes)
{
	struct end *end = context;

	(void)frame;
	assert_int_equal(port, 1);
	assert_int_equal(violation, PORT_IB_BAD_QKEY);
	end->violations++;
	end->violation_bytes = bytes;
}

static int end_receive(void *context, uint8_t *to, uint32_t *ret_port)
{
	struct end *end = context;
	uint32_t at = end->first;

	if (!end->count)
		return 0;
	memcpy(to, end->frames[at], end->bytes[at]);
	*ret_port = 1;
	end->first = (at + 1) % FRAMES_MAX;
	end->count--;
	return (int)end->bytes[at];
}

static bool end_wait_begin(void *context)
{
	struct end *end = context;

	end->waits++;
	end->is_waiting = end->count == 0;
	return end->is_waiting;
}

static void end_wait_end(void *context)
{
	struct end *end = context;

	end->waits++;
	end->is_waiting = false;
	kick_clear(end->wire.fd);
}

static bool on_packet(void *context, const struct port_ib_packet *packet)
{
	struct end *end = context;

	end->packets++;
	memcpy(end->data, packet->data, packet->data_bytes);
	end->data_bytes = packet->data_bytes;
	end->source = *packet->origin.source;
	end->destination = *packet->origin.destination;
	end->link = *packet->origin.link;
	end->pkey = packet->pkey;
	if (end->refuses)
		port_ib_violate(end->port, PORT_IB_BAD_QKEY);
	return true;
}

static void end_kick(void *context)
{
	kick_raise(((struct end *)context)->wire.fd);
}

static struct gid gid_of(uint16_t lid)
{
	return (struct gid){{0xfe, 0x80, [14] = (uint8_t)(lid >> 8), [15] = (uint8_t)lid}};
}

static void end_open(struct end *end, struct end *peer, uint16_t lid)
{
	memset(end, 0, sizeof(*end));
	end->peer = peer;
	end->wire = (struct port_ib_wire){
		.context = end,
		.send = end_send,
		.has_room = end_has_room,
		.route_has_room = end_route_has_room,
		.flush = end_flush,
		.receive = end_receive,
		.wait_begin = end_wait_begin,
		.wait_end = end_wait_end,
		.violate = end_violate,
		.kick = end_kick,
		.fd = kick_create("no test"),
	};
	end->state = (struct port_ib_state){
		.lid = lid,
		.gid_count = 1,
		.gids = {gid_of(lid)},
		.pkey_count = 2,
		.pkeys = {0x7fff, PKEY_SHARED},
	};
	assert_int_equal(port_ib_create(&end->wire, &end->port), 0);
	port_ib_set_state(end->port, 1, &end->state);
	port_ib_watch(end->port, true);
}

static int ends_open(void **state)
{
	(void)state;
	end_open(&a, &b, LID_A);
	end_open(&b, &a, LID_B);
	for (uint32_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7 + i / 256);
	return 0;
}

static int ends_close(void **state)
{
	(void)state;
	port_ib_destroy(a.port);
	port_ib_destroy(b.port);
	close(a.wire.fd);
	close(b.wire.fd);
	return 0;
}

static uint32_t path_open(bool has_grh)
{
	struct qp_path path = {
		.local = gid_of(LID_A),
		.remote = gid_of(LID_B),
		.service_level = 3,
		.traffic_class = 0x28,
		.flow_label = 0xabcde,
		.hop_limit = 9,
		.ib = {.dlid = LID_B, .port = 1, .has_grh = has_grh},
	};
	uint32_t id;

	assert_int_equal(port_ib_path_open(a.port, &path, 1, &id), 0);
	return id;
}

/* Send a run of packets of `bytes` bytes, of which the last `borrowed` are at `payload`. */
static void run_send(uint32_t path, uint32_t packets, uint32_t bytes, uint32_t borrowed)
{
	const struct bth bth = {.pkey = 1, .dest_qpn = {QPN}};
	uint32_t capacity_bytes;
	uint8_t *buffer = port_ib_buffer(a.port, &capacity_bytes);
	struct packet_run run = {.buffer = buffer,
		.packets = packets,
		.path = path,
		.borrowed_bytes = borrowed,
		.borrowed = borrowed ? payload : NULL};

	assert_int_equal(capacity_bytes, PORT_IB_BUFFER_BYTES);
	for (uint32_t i = 0; i < packets; i++, buffer += bytes - borrowed + IB_ICRC_BYTES) {
		bth_encode(&bth, buffer);
		memcpy(buffer + BTH_BYTES, payload, bytes - borrowed - BTH_BYTES);
	}
	port_ib_send_run(a.port, bytes, &run);
}

static unsigned b_receive(void)
{
	return port_ib_receive(b.port, on_packet, &b);
}

static bool is_readable(int fd)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1;
}

/* Its frame may have been taken meanwhile; a waiter must not spin. */
static void late_wake_up_does_not_stay(void **state)
{
	unsigned looks = 0;

	(void)state;
	assert_int_equal(b_receive(), 0);
	assert_false(is_readable(b.wire.fd));
	kick_raise(b.wire.fd);
	while (is_readable(b.wire.fd)) {
		assert_int_equal(b_receive(), 0);
		assert_true(++looks <= 64);
	}
	run_send(path_open(false), 1, 256, 0);
	assert_int_equal(port_ib_flush(a.port), 0);
	assert_true(is_readable(b.wire.fd));
	assert_int_equal(b_receive(), 1);
}

static void packet_without_grh_names_lids(void **state)
{
	const struct gid source = lid_address_remote(LID_A), destination = lid_address_local(1, 0);
	struct lrh lrh;

	(void)state;
	run_send(path_open(false), 1, 256, 0);
	lrh_decode(&lrh, b.frames[0]);
	assert_int_equal(lrh.next, LRH_BTH);
	assert_int_equal(lrh.words * 4, b.bytes[0]);
	assert_int_equal(b.bytes[0], LRH_BYTES + 256 + IB_ICRC_BYTES);
	assert_int_equal(b_receive(), 1);
	assert_int_equal(b.packets, 1);
	assert_int_equal(b.data_bytes, 256);
	assert_memory_equal(b.data + BTH_BYTES, payload, 256 - BTH_BYTES);
	assert_int_equal(b.link.slid, LID_A);
	assert_int_equal(b.link.service_level, 3);
	assert_false(b.link.has_grh);
	assert_int_equal(b.pkey, PKEY_SHARED);
	assert_true(gid_is_equal(&b.source, &source));
	assert_true(gid_is_equal(&b.destination, &destination));
}

static void packet_with_grh_names_gids(void **state)
{
	const struct gid source = gid_of(LID_A), destination = gid_of(LID_B);

	(void)state;
	run_send(path_open(true), 1, 64, 0);
	assert_int_equal(b.bytes[0], LRH_BYTES + GRH_BYTES + 64 + IB_ICRC_BYTES);
	assert_int_equal(b_receive(), 1);
	assert_int_equal(b.packets, 1);
	assert_true(b.link.has_grh);
	assert_int_equal(b.link.flow_label, 0xabcde);
	assert_true(gid_is_equal(&b.source, &source));
	assert_true(gid_is_equal(&b.destination, &destination));
}

static void borrowed_payloads_arrive(void **state)
{
	uint8_t last[FRAME_BYTES_MAX];

	(void)state;
	run_send(path_open(false), 8, BTH_BYTES + 4096, 4096);
	assert_int_equal(b_receive(), 8);
	assert_int_equal(b.packets, 8);
	assert_int_equal(b.data_bytes, BTH_BYTES + 4096);
	memcpy(last, payload + 7 * 4096, 4096);
	assert_memory_equal(b.data + BTH_BYTES, last, 4096);
}

static void paths_follow_the_subnet_manager(void **state)
{
	uint32_t path = path_open(false);

	(void)state;
	a.state.lid = 0x70;
	a.state.lmc = 2;
	port_ib_set_state(a.port, 1, &a.state);
	run_send(path, 1, 64, 0);
	b_receive();
	assert_int_equal(b.link.slid, 0x70);
	a.state.lid = 0;
	port_ib_set_state(a.port, 1, &a.state);
	run_send(path, 1, 64, 0);
	assert_int_equal(b.count, 0);
	assert_int_equal(port_ib_counters(a.port)->tx_no_lid, 1);
}

static void closed_path_loses_its_packets(void **state)
{
	uint32_t path = path_open(false), other;

	(void)state;
	port_ib_path_close(a.port, path);
	other = path_open(false);
	assert_int_not_equal(path, other);
	run_send(path, 3, 64, 0);
	assert_int_equal(b.count, 0);
	assert_int_equal(port_ib_counters(a.port)->tx_path_closed, 3);
	run_send(UINT32_MAX, 1, 64, 0);
	assert_int_equal(port_ib_counters(a.port)->tx_path_closed, 4);
}

static void packet_of_another_partition_is_refused_and_counted(void **state)
{
	(void)state;
	b.state.pkeys[1] = 0x8124;
	port_ib_set_state(b.port, 1, &b.state);
	run_send(path_open(false), 1, 64, 0);
	b_receive();
	assert_int_equal(b.packets, 0);
	assert_int_equal(port_ib_counters(b.port)->rx_pkey, 1);
}

/* --- hostile frames --- */

#define HOSTILE(what) offsetof(struct port_ib_counters, what)

/* A change of one byte of a good frame, and the counter that refuses it. The ICRC is made anew. */
static const struct {
	bool has_grh;
	uint32_t offset;
	uint8_t value;
	size_t counter;
} changes[] = {
	{false, 0, 0xf0, HOSTILE(rx_malformed)}, /* virtual lane 15 */
	{false, 0, 0x01, HOSTILE(rx_malformed)}, /* link version */
	{false, 1, LRH_RAW, HOSTILE(rx_malformed)},
	{false, 1, LRH_RAW_GRH, HOSTILE(rx_malformed)},
	{false, 1, LRH_GRH, HOSTILE(rx_malformed)}, /* and no GRH */
	{false, 5, 0xff, HOSTILE(rx_malformed)}, /* length */
	{false, 3, LID_B + 1, HOSTILE(rx_misrouted)},
	{false, 2, 0xc0, HOSTILE(rx_misrouted)}, /* multicast without GRH */
	{false, 2, 0xff, HOSTILE(rx_misrouted)},
	{false, 6, 0xc0, HOSTILE(rx_misrouted)}, /* a multicast LID as the source */
	{true, LRH_BYTES, 0x40, HOSTILE(rx_malformed)}, /* IP version */
	{true, LRH_BYTES + 5, 1, HOSTILE(rx_malformed)}, /* payload length */
	{true, LRH_BYTES + 6, 17, HOSTILE(rx_malformed)}, /* next header */
	{true, LRH_BYTES + 39, 1, HOSTILE(rx_misrouted)}, /* destination GID */
	{true, 2, 0xc0, HOSTILE(rx_misrouted)}, /* multicast LID, unicast GID */
	{false, LRH_BYTES + 3, 0x24, HOSTILE(rx_pkey)},
};

static void changed_frames_are_refused(void **state)
{
	const uint32_t paths[] = {path_open(false), path_open(true)};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
		const uint8_t *counters = (const uint8_t *)port_ib_counters(b.port);
		uint64_t before, after;
		uint8_t *frame = b.frames[b.first];

		memcpy(&before, counters + changes[i].counter, sizeof(before));
		run_send(paths[changes[i].has_grh], 1, 128, 0);
		frame[changes[i].offset] = changes[i].value;
		ib_icrc_seal(frame, b.bytes[b.first] - IB_ICRC_BYTES);
		b_receive();
		memcpy(&after, counters + changes[i].counter, sizeof(after));
		if (after != before + 1)
			print_error("change %zu is not counted\n", i);
		assert_int_equal(after, before + 1);
	}
	assert_int_equal(b.packets, 0);
}

static void frames_of_every_length_are_safe(void **state)
{
	(void)state;
	for (uint32_t bytes = 0; bytes < 100; bytes++) {
		run_send(path_open(bytes % 2), 1, 64, 0);
		b.bytes[b.first] = min_u32(bytes, b.bytes[b.first] - 1);
		b_receive();
	}
	assert_int_equal(b.packets, 0);
	run_send(path_open(false), 1, 64, 0);
	b.frames[b.first][40] ^= 1;
	b_receive();
	assert_int_equal(b.packets, 0);
	assert_int_equal(port_ib_counters(b.port)->rx_bad_icrc, 1);
}

/* --- sleeping --- */

static void frame_that_a_queue_pair_refuses_is_reported_as_it_came(void **state)
{
	(void)state;
	b.refuses = true;
	run_send(path_open(true), 2, 64, 0);
	assert_int_equal(b_receive(), 2);
	assert_int_equal(b.violations, 2);
	assert_int_equal(b.violation_bytes, LRH_BYTES + GRH_BYTES + 64 + IB_ICRC_BYTES);
}

static void descriptor_is_readable_while_frames_wait(void **state)
{
	uint32_t path = path_open(false);

	(void)state;
	assert_int_equal(b_receive(), 0);
	assert_false(is_readable(b.wire.fd));
	run_send(path, 100, 64, 0);
	assert_int_equal(port_ib_flush(a.port), 0);
	assert_true(is_readable(b.wire.fd));
	assert_int_equal(b_receive(), 64);
	assert_true(is_readable(b.wire.fd)); /* 36 are left */
	assert_int_equal(b_receive(), 36);
	assert_false(is_readable(b.wire.fd));
	assert_int_equal(port_ib_flush(a.port), 0); /* nothing was sent since */
	assert_int_equal(a.flushes, 1);
}

/* A lane whose program polls makes no system call for a frame. */
static void frames_of_an_unwatched_port_make_no_call(void **state)
{
	uint32_t path = path_open(false), waits;

	(void)state;
	port_ib_watch(b.port, false);
	run_send(path, 1, 64, 0);
	assert_int_equal(port_ib_flush(a.port), 0);
	assert_int_equal(b_receive(), 1); /* it was still armed */
	waits = b.waits;
	for (unsigned i = 0; i < 200; i++) {
		run_send(path, 1, 64, 0);
		assert_int_equal(port_ib_flush(a.port), 0);
		assert_false(is_readable(b.wire.fd));
		assert_int_equal(b_receive(), 1);
		assert_int_equal(b_receive(), 0);
	}
	assert_int_equal(b.waits, waits);
	run_send(path, 100, 64, 0);
	assert_int_equal(b_receive(), 64);
	assert_false(is_readable(b.wire.fd));
}

static void port_that_is_watched_again_is_readable(void **state)
{
	uint32_t path = path_open(false);

	(void)state;
	port_ib_watch(b.port, false);
	run_send(path, 1, 64, 0);
	assert_int_equal(port_ib_flush(a.port), 0);
	assert_int_equal(b_receive(), 1);
	/* A frame that came before, and one that comes after. */
	run_send(path, 1, 64, 0);
	assert_int_equal(port_ib_flush(a.port), 0);
	assert_false(is_readable(b.wire.fd));
	port_ib_watch(b.port, true);
	assert_true(is_readable(b.wire.fd));
	assert_int_equal(b_receive(), 1);
	assert_false(is_readable(b.wire.fd));
	run_send(path, 1, 64, 0);
	assert_int_equal(port_ib_flush(a.port), 0);
	assert_true(is_readable(b.wire.fd));
}

static void full_route_blocks_its_path(void **state)
{
	struct qp_path to_b = {.service_level = 3, .ib = {.dlid = LID_B, .port = 1}};
	uint32_t path = path_open(false), datagrams, capacity_bytes;

	(void)state;
	assert_int_equal(port_ib_path_open(a.port, &to_b, PORT_IB_PKEY_OF_PACKET, &datagrams), 0);
	a.is_full = true;
	a.full = (struct port_ib_route){1, LID_B, PKEY_SHARED, 3, QPN >> 16};
	port_ib_buffer(a.port, &capacity_bytes);
	assert_int_equal(capacity_bytes, PORT_IB_BUFFER_BYTES);
	assert_true(port_ib_is_blocked(a.port));
	/* The full route is a path to one process; the P_Key may be the packet's. */
	assert_false(port_ib_path_has_room(a.port, path, 0, QPN));
	assert_true(port_ib_path_has_room(a.port, path, 0, QPN + (1 << 16)));
	assert_false(port_ib_path_has_room(a.port, datagrams, 1, QPN));
	assert_true(port_ib_path_has_room(a.port, datagrams, 0, QPN));
	/* Packets of a closed path are dropped. */
	port_ib_path_close(a.port, path);
	assert_true(port_ib_path_has_room(a.port, path, 0, QPN));
	assert_int_equal(port_ib_flush(a.port), -EAGAIN);
	a.is_full = false;
	assert_int_equal(port_ib_flush(a.port), 0);
	assert_false(port_ib_is_blocked(a.port));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_open, ends_close)
	const struct CMUnitTest tests[] = {
		TEST(late_wake_up_does_not_stay),
		TEST(packet_without_grh_names_lids),
		TEST(packet_with_grh_names_gids),
		TEST(borrowed_payloads_arrive),
		TEST(paths_follow_the_subnet_manager),
		TEST(closed_path_loses_its_packets),
		TEST(packet_of_another_partition_is_refused_and_counted),
		TEST(changed_frames_are_refused),
		TEST(frames_of_every_length_are_safe),
		TEST(frame_that_a_queue_pair_refuses_is_reported_as_it_came),
		TEST(descriptor_is_readable_while_frames_wait),
		TEST(frames_of_an_unwatched_port_make_no_call),
		TEST(port_that_is_watched_again_is_readable),
		TEST(full_route_blocks_its_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
