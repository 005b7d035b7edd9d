/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows: frames that pass the fabric's process by. They stay in order and are counted, a sender
 * cannot misuse them, and they end with their route.
 */
#include "fabricd_fixture.h"

#include <sys/eventfd.h>

#include "fabricd/client/fabric_flows.h"

enum { FRAMES = 1000, FEW = 16 };

static struct {
	struct fabric_frames *from, *to;
	int events[2]; /* of the sender's client, and of the receiver's */
	struct fabric_flow *out, *in; /* the last ones that were opened; their channels own them */
	uint8_t frame[MAD_FRAME_BYTES_MAX];
	uint32_t bytes;
} ends;

/* The next event that is about a flow. */
static struct fabric_flow *flow_await(unsigned end, struct attach_event *ret_event)
{
	struct fabric_flow *flow = NULL;
	int error;

	while (!flow) {
		await_readable(ends.events[end]);
		error = fabric_client_event(ends.events[end], ret_event, &flow);
		assert_true(error == 0 || error == -EAGAIN);
	}
	return flow;
}

static void frame_pass(void)
{
	frame_send(ends.from, ends.frame, ends.bytes);
	frame_await(ends.to, ends.frame, ends.bytes);
}

/* A frame goes through the fabric, which then opens a flow. The receiver may be asleep. */
static void flow_begin_for(bool is_asleep)
{
	struct attach_event event;

	frame_pass();
	ends.in = flow_await(1, &event);
	assert_int_equal(event.type, ATTACH_EVENT_FLOW_IN);
	if (is_asleep) {
		fabric_frames_wait_end(ends.to);
		assert_true(fabric_frames_wait_begin(ends.to));
	}
	fabric_frames_add(ends.to, ends.in);
	assert_int_equal(fabric_flow_ready(pair_.clients[1], &event.flow), 0);
	ends.out = flow_await(0, &event);
	assert_int_equal(event.type, ATTACH_EVENT_FLOW_OUT);
	fabric_frames_add(ends.from, ends.out);
	while (!fabric_frames_has_room(ends.from, ends.bytes))
		usleep(PAUSE_US);
}

static void flow_begin(void)
{
	flow_begin_for(false);
}

static void ends_begin(void)
{
	pair_begin();
	for (unsigned i = 0; i < 2; i++) {
		ends.events[i] = fabric_client_events(pair_.clients[i]);
		assert_true(ends.events[i] >= 0);
	}
	assert_int_equal(fabric_frames_open(pair_.clients[0], &ends.from), 0);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &ends.to), 0);
	ends.bytes = frame_make(ends.frame,
		fabric_frames_lease(ends.to) << ATTACH_LEASE_QPN_SHIFT | 7, pair_.ports[1].lid);
}

static void ends_close(void)
{
	fabric_frames_close(ends.from);
	fabric_frames_close(ends.to);
	close(ends.events[0]);
	close(ends.events[1]);
	pair_end();
}

static uint64_t ring_written(void)
{
	return atomic_load(&ends.out->shared->ring.written);
}

static char *console_ask(const char *command)
{
	struct fabric_client *console = client_make("");
	char why[ATTACH_TEXT_BYTES], *text;

	assert_int_equal(fabric_client_console(console, command, &text, why), 0);
	fabric_client_close(console);
	return text;
}

/* The number of packets that a port has sent. */
static unsigned long packets_sent(const char *node)
{
	char *text = console_ask(node), *at = strstr(text, " packets out");
	unsigned long packets;

	assert_non_null(at);
	while (at[-1] >= '0' && at[-1] <= '9')
		at--;
	packets = strtoul(at, NULL, 10);
	free(text);
	return packets;
}

/* The frames that all ports have discarded. */
static unsigned long frames_discarded(void)
{
	static const char name[] = "\"port_xmit_discards\": ";
	char *text = console_ask("dump --json");
	unsigned long sum = 0;

	for (const char *at = text; (at = strstr(at, name));) {
		at += sizeof(name) - 1;
		sum += strtoul(at, NULL, 10);
	}
	free(text);
	return sum;
}

static void frames_of_a_flow_pass_the_process_by_in_order(void **state)
{
	uint8_t got[RECORD_BYTES_MAX];
	uint32_t port;

	(void)state;
	ends_begin();
	flow_begin();
	for (uint32_t i = 0; i < FRAMES; i++) {
		put_be32(ends.frame + 60, i);
		frame_send(ends.from, ends.frame, ends.bytes);
	}
	assert_true(ring_written() > (uint64_t)FRAMES * ends.bytes);
	for (uint32_t i = 0; i < FRAMES; i++) {
		assert_int_equal(fabric_frames_receive(ends.to, got, &port), ends.bytes);
		assert_int_equal(get_be32(got + 60), i);
		assert_int_equal(port, 1);
	}
	assert_int_equal(fabric_frames_receive(ends.to, got, &port), 0);
	ends_close();
}

static void frames_of_a_flow_are_counted_at_each_port(void **state)
{
	unsigned long before, packets;

	(void)state;
	ends_begin();
	flow_begin();
	before = packets_sent("dump \"host 1\"");
	for (uint32_t i = 0; i < FRAMES; i++)
		frame_send(ends.from, ends.frame, ends.bytes);
	packets = packets_sent("dump \"host 1\"");
	assert_int_equal(packets - before, FRAMES);
	ends_close();
}

static void receiver_of_a_flow_is_woken(void **state)
{
	struct pollfd polled;

	(void)state;
	ends_begin();
	flow_begin_for(true);
	/* A new flow is no reason to wake up, its first frame is. */
	polled = (struct pollfd){.fd = fabric_frames_fd(ends.to), .events = POLLIN};
	assert_int_equal(poll(&polled, 1, 0), 0);
	frame_send(ends.from, ends.frame, ends.bytes);
	await_readable(fabric_frames_fd(ends.to));
	fabric_frames_wait_end(ends.to);
	frame_await(ends.to, ends.frame, ends.bytes);
	for (unsigned i = 0; i < 100; i++) {
		fabric_frames_wait_end(ends.to);
		assert_true(fabric_frames_wait_begin(ends.to));
		frame_pass();
	}
	ends_close();
}

/* So a program that polls finds the answer with the acknowledgement before it. */
static void frames_of_a_flow_become_visible_together(void **state)
{
	const struct record_piece piece = {ends.frame, MAD_FRAME_BYTES};
	uint8_t got[RECORD_BYTES_MAX];
	uint32_t port, sent = 0, received = 0;

	(void)state;
	ends_begin();
	flow_begin();
	for (unsigned i = 0; i < 3; i++)
		assert_true(fabric_frames_send(ends.from, 1, &piece, 1));
	assert_int_equal(fabric_frames_receive(ends.to, got, &port), 0);
	fabric_frames_flush(ends.from);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(fabric_frames_receive(ends.to, got, &port), piece.count);
	assert_int_equal(fabric_frames_receive(ends.to, got, &port), 0);
	/* The receiver of a long message need not wait for its end. */
	while (!fabric_frames_receive(ends.to, got, &port)) {
		assert_true(fabric_frames_send(ends.from, 1, &piece, 1));
		assert_true(++sent < 1000);
	}
	/* The end of a flow loses no frame. */
	assert_true(fabric_frames_send(ends.from, 1, &piece, 1));
	atomic_store(&ends.from->shared->out[ends.out->about.slot].serial, 0);
	fabric_frames_has_room(ends.from, 1);
	assert_int_equal(ends.from->out.count, 0);
	while (fabric_frames_receive(ends.to, got, &port))
		received++;
	assert_int_equal(received, sent);
	ends_close();
}

/* A wake-up of the fabric's process takes longer than a frame of a flow. */
static void frames_of_a_flow_do_not_wake_the_process(void **state)
{
	int wake;
	eventfd_t unused;

	(void)state;
	ends_begin();
	flow_begin();
	wake = ends.from->wake_fabric;
	ends.from->wake_fabric = eventfd(0, EFD_NONBLOCK);
	for (unsigned i = 0; i < FRAMES; i++) {
		atomic_store(&ends.from->shared->is_fabric_waiting, 1);
		frame_send(ends.from, ends.frame, ends.bytes);
	}
	assert_int_equal(eventfd_read(ends.from->wake_fabric, &unused), -1);
	/* One that goes through the process wakes it. */
	atomic_store(&ends.from->shared->is_fabric_waiting, 1);
	ends.out->is_active = false;
	frame_send(ends.from, ends.frame, ends.bytes);
	assert_int_equal(eventfd_read(ends.from->wake_fabric, &unused), 0);
	close(ends.from->wake_fabric);
	ends.from->wake_fabric = wake;
	eventfd_write(wake, 1);
	ends_close();
}

/* The receiver takes what came through the fabric before what it finds in a flow. */
static void frames_through_the_process_are_older(void **state)
{
	uint8_t got[RECORD_BYTES_MAX];
	uint32_t port;

	(void)state;
	ends_begin();
	flow_begin();
	ends.out->is_active = false;
	for (uint32_t i = 0; i < 3; i++) {
		put_be32(ends.frame + 60, i);
		while (i == 2 && !fabric_frames_has_room(ends.from, ends.bytes))
			usleep(PAUSE_US);
		frame_send(ends.from, ends.frame, ends.bytes);
	}
	assert_true(ends.out->is_active);
	for (uint32_t i = 0; i < 3; i++) {
		while (fabric_frames_wait_begin(ends.to)) {
			await_readable(fabric_frames_fd(ends.to));
			fabric_frames_wait_end(ends.to);
		}
		assert_int_equal(fabric_frames_receive(ends.to, got, &port), ends.bytes);
		assert_int_equal(get_be32(got + 60), i);
	}
	ends_close();
}

/* --- hostile senders --- */

/* What a sender has put into the ring itself is refused. */
static void assert_refused(const uint8_t *frame, uint32_t bytes)
{
	const struct record_piece piece = {frame, bytes};
	uint8_t got[RECORD_BYTES_MAX];
	uint32_t port;

	assert_true(
		record_ring_put_sized(&ends.out->shared->ring, ATTACH_FLOW_RING_BYTES, &piece, 1));
	assert_int_equal(fabric_frames_receive(ends.to, got, &port), -EPROTO);
	assert_int_equal(fabric_frames_receive(ends.to, got, &port), 0);
}

static void frame_of_another_route_is_refused(void **state)
{
	uint8_t frame[ATTACH_FRAME_BYTES_MAX + 4] = {0};

	(void)state;
	ends_begin();
	flow_begin();
	const struct {
		uint32_t offset;
		uint8_t value;
	} changes[] = {
		{1, 0x12}, /* another service level */
		{1, 0x00}, /* no BTH */
		{3, 0xff}, /* another LID */
		{2, 0xc0}, /* a group's LID */
		{10, 0x12}, /* another P_Key */
		{13, 0}, /* QP0 to QP65535, such as those of management */
		{13, 0xff}, /* a queue pair of another channel, or of a group */
	};
	for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
		memcpy(frame, ends.frame, ends.bytes);
		frame[changes[i].offset] = changes[i].value;
		assert_refused(frame, ends.bytes);
	}
	memcpy(frame, ends.frame, ends.bytes);
	assert_refused(frame, 20);
	assert_refused(frame, sizeof(frame));
	/* A GRH that the frame has no room for. */
	frame[1] |= 3;
	assert_refused(frame, 40);
	frame_pass();
	ends_close();
}

static void ring_with_impossible_indices_is_emptied(void **state)
{
	uint8_t got[RECORD_BYTES_MAX];
	uint32_t port;

	(void)state;
	ends_begin();
	flow_begin();
	atomic_fetch_add(&ends.out->shared->ring.written, 2 * ATTACH_FLOW_RING_BYTES);
	assert_int_equal(fabric_frames_receive(ends.to, got, &port), -EPROTO);
	assert_int_equal(fabric_frames_receive(ends.to, got, &port), 0);
	frame_pass();
	/* The receiver's index: no frame fits, and none is written beyond the ring. */
	atomic_fetch_add(&ends.in->shared->ring.read, 2 * ATTACH_FLOW_RING_BYTES);
	ends.out->shared->ring.read_seen = atomic_load(&ends.in->shared->ring.read);
	const struct record_piece piece = {ends.frame, ends.bytes};
	assert_false(fabric_frames_send(ends.from, 1, &piece, 1));
	ends_close();
}

/* --- credits --- */

static uint32_t ring_fill(void)
{
	uint32_t count = 0;

	while (fabric_frames_has_room(ends.from, 1 << 16)) {
		frame_send(ends.from, ends.frame, ends.bytes);
		count++;
	}
	return count;
}

static void slow_receiver_makes_its_sender_wait(void **state)
{
	uint8_t got[RECORD_BYTES_MAX];
	uint32_t port, count;

	(void)state;
	ends_begin();
	flow_begin();
	ends.out->about.lifetime_ns = UINT64_MAX;
	count = ring_fill();
	assert_false(fabric_frames_has_room(ends.from, 1 << 16));
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(fabric_frames_receive(ends.to, got, &port), ends.bytes);
	assert_true(fabric_frames_has_room(ends.from, 1 << 16));
	frame_pass();
	ends_close();
}

static bool route_has_room(uint8_t sl)
{
	struct attach_flow route = ends.out->about;

	route.sl = sl;
	return fabric_frames_route_has_room(ends.from, &route, 1 << 16);
}

/* Each service level has a ring of its own, as a lane has credits of its own. */
static void full_route_leaves_other_service_levels_alone(void **state)
{
	struct fabric_flow *full;
	uint8_t plain[MAD_FRAME_BYTES_MAX], got[RECORD_BYTES_MAX];
	uint32_t port;

	(void)state;
	ends_begin();
	flow_begin();
	full = ends.out;
	memcpy(plain, ends.frame, ends.bytes);
	ends.frame[1] |= 1 << 4; /* service level 1 */
	ends.frame[0] |= 1 << 4; /* and the lane that it gets */
	flow_begin();
	assert_ptr_not_equal(full, ends.out);
	full->about.lifetime_ns = UINT64_MAX;
	while (fabric_frames_has_room(ends.from, 1 << 16))
		frame_send(ends.from, plain, ends.bytes);
	assert_false(route_has_room(0));
	assert_true(route_has_room(1));
	assert_true(route_has_room(2)); /* through the fabric's process */
	for (uint32_t i = 0; i < FRAMES; i++)
		frame_send(ends.from, ends.frame, ends.bytes);
	assert_int_equal(atomic_load(&ends.from->shared->out[ends.out->about.slot].discards), 0);
	while (fabric_frames_receive(ends.to, got, &port))
		;
	assert_true(fabric_frames_has_room(ends.from, 1 << 16));
	assert_true(route_has_room(0));
	ends_close();
}

/* Its frames are dropped and counted, and the sender's other frames go on. */
static void receiver_that_stands_still_stops_nobody(void **state)
{
	const struct record_piece piece = {ends.frame, MAD_FRAME_BYTES};
	unsigned long before = frames_discarded();

	(void)state;
	ends_begin();
	flow_begin();
	ends.out->about.lifetime_ns = UINT64_MAX;
	ring_fill();
	ends.out->about.lifetime_ns = 0;
	assert_true(fabric_frames_has_room(ends.from, 1 << 16));
	while (fabric_frames_send(ends.from, 1, &piece, 1))
		;
	assert_int_equal(frames_discarded(), before + 1);
	ends_close();
}

/* Fill the rings of sender and receiver through the process. Returns the number of frames. */
static uint32_t rings_fill(void)
{
	const struct record_piece piece = {ends.frame, ends.bytes};
	uint32_t count = 0, before = UINT32_MAX;

	/* The process goes on for a while after the sender's ring is full. */
	while (count != before) {
		before = count;
		for (; fabric_frames_send(ends.from, 1, &piece, 1); count++)
			;
		fabric_frames_flush(ends.from);
		usleep(100 * PAUSE_US);
	}
	return count;
}

/* The client opens no socket of events, so the fabric opens no flows. */
static void plain_begin(void)
{
	pair_begin();
	assert_int_equal(fabric_frames_open(pair_.clients[0], &ends.from), 0);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &ends.to), 0);
	ends.bytes = frame_make(ends.frame,
		fabric_frames_lease(ends.to) << ATTACH_LEASE_QPN_SHIFT | 7, pair_.ports[1].lid);
}

static void plain_end(void)
{
	fabric_frames_close(ends.from);
	fabric_frames_close(ends.to);
	pair_end();
}

static void frames_through_the_process_wait_for_a_slow_receiver(void **state)
{
	const unsigned long before = frames_discarded();
	uint8_t got[RECORD_BYTES_MAX];
	uint32_t port, count, received = 0;

	(void)state;
	plain_begin();
	count = rings_fill();
	assert_true(count > RECORD_RING_BYTES / RECORD_BYTES_MAX);
	while (received < count) {
		if (fabric_frames_receive(ends.to, got, &port) > 0)
			received++;
		else
			assert_int_equal(frames_discarded(), before);
	}
	plain_end();
}

static void frames_through_the_process_are_dropped_after_their_lifetime(void **state)
{
	const unsigned long before = frames_discarded();

	(void)state;
	plain_begin();
	rings_fill();
	while (frames_discarded() == before)
		usleep(PAUSE_US);
	/* The sender goes on. */
	while (!fabric_frames_has_room(ends.from, RECORD_RING_BYTES / 2))
		usleep(PAUSE_US);
	plain_end();
}

static uint64_t room_of(struct record_ring *ring)
{
	return RECORD_RING_BYTES - (atomic_load(&ring->written) - atomic_load(&ring->read));
}

static void frames_send(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		frame_send(ends.from, ends.frame, ends.bytes);
}

/* Its last frame is for another receiver, and is behind frames for one that has no room. */
static void channel_that_ends_does_not_wait_for_a_slow_receiver(void **state)
{
	uint8_t last[MAD_FRAME_BYTES_MAX], got[RECORD_BYTES_MAX];
	struct fabric_frames *other;
	uint32_t bytes, port;
	int count;

	(void)state;
	plain_begin();
	assert_int_equal(fabric_frames_open(pair_.clients[1], &other), 0);
	bytes = frame_make(
		last, fabric_frames_lease(other) << ATTACH_LEASE_QPN_SHIFT | 7, pair_.ports[1].lid);
	while (room_of(&ends.to->shared->to_client) >= FEW * 2 * ends.bytes) {
		frames_send(FEW);
		while (!record_ring_is_empty(&ends.from->shared->to_fabric))
			usleep(PAUSE_US);
	}
	/* Some of these have no room. */
	frames_send(2 * FEW + 2);
	frame_send(ends.from, last, bytes);
	fabric_frames_close(ends.from);
	count = fabric_frames_receive(other, got, &port);
	assert_int_equal(count, bytes);
	assert_memory_equal(got, last, bytes);
	fabric_frames_close(other);
	assert_int_equal(fabric_frames_open(pair_.clients[0], &ends.from), 0);
	plain_end();
}

/* --- the end of a flow --- */

static void route_mend(void)
{
	struct attach_port port;

	free(console_ask("relink b[1]"));
	await_state(pair_.clients[0], PORT_ACTIVE, &port);
	await_state(pair_.clients[1], PORT_ACTIVE, &port);
	assert_true(fabric_frames_has_room(ends.from, ends.bytes));
}

static void flow_ends_with_its_route(void **state)
{
	uint8_t got[RECORD_BYTES_MAX];
	uint32_t number;
	uint64_t written;

	(void)state;
	ends_begin();
	flow_begin();
	frame_send(ends.from, ends.frame, ends.bytes);
	free(console_ask("unlink b[1]"));
	/* What was sent before arrives, what a hostile sender adds does not. */
	const struct record_piece piece = {ends.frame, ends.bytes};
	record_ring_put_sized(&ends.out->shared->ring, ATTACH_FLOW_RING_BYTES, &piece, 1);
	assert_int_equal(fabric_frames_receive(ends.to, got, &number), ends.bytes);
	assert_int_equal(fabric_frames_receive(ends.to, got, &number), 0);
	/* An honest sender goes back to the fabric, which drops the frame. */
	written = ring_written();
	frame_send(ends.from, ends.frame, ends.bytes);
	assert_int_equal(ring_written(), written);
	route_mend();
	flow_begin();
	frame_pass();
	ends_close();
}

/* Both of the ring's indices are the sender's to change, before the end and after it. */
static void sender_that_turns_indices_back_gets_no_frame_through(void **state)
{
	const struct record_piece piece = {ends.frame, MAD_FRAME_BYTES};
	uint8_t got[RECORD_BYTES_MAX];
	uint32_t port, received = 0;
	struct record_ring *ring;

	(void)state;
	ends_begin();
	flow_begin();
	ring = &ends.out->shared->ring;
	frame_send(ends.from, ends.frame, ends.bytes);
	free(console_ask("unlink b[1]"));
	for (unsigned i = 0; i < FRAMES && ends.to->in.count; i++) {
		const uint64_t read = atomic_load(&ring->read);

		received += fabric_frames_receive(ends.to, got, &port) > 0;
		atomic_store(&ring->read, read);
	}
	assert_in_range(received, 1, ATTACH_FLOW_RING_BYTES / MAD_FRAME_BYTES);
	route_mend();
	flow_begin();
	ring = &ends.out->shared->ring;
	atomic_store(&ring->read, UINT64_MAX / 2);
	atomic_store(&ring->written, UINT64_MAX / 2);
	free(console_ask("unlink b[1]"));
	atomic_store(&ring->read, 0);
	atomic_store(&ring->written, 0);
	assert_true(record_ring_put_sized(ring, ATTACH_FLOW_RING_BYTES, &piece, 1));
	assert_int_equal(fabric_frames_receive(ends.to, got, &port), 0);
	free(console_ask("relink b[1]"));
	ends_close();
}

static void flow_ends_with_either_channel(void **state)
{
	uint8_t got[RECORD_BYTES_MAX];
	uint32_t port;
	uint64_t written;

	(void)state;
	ends_begin();
	flow_begin();
	/* The sender's last frames arrive. */
	frame_send(ends.from, ends.frame, ends.bytes);
	fabric_frames_close(ends.from);
	assert_int_equal(fabric_frames_receive(ends.to, got, &port), ends.bytes);
	assert_int_equal(fabric_frames_open(pair_.clients[0], &ends.from), 0);
	flow_begin();
	fabric_frames_close(ends.to);
	written = ring_written();
	frame_send(ends.from, ends.frame, ends.bytes);
	assert_int_equal(ring_written(), written);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &ends.to), 0);
	ends_close();
}

/* Counters that a sender cannot have are left out. */
static void counts_that_cannot_be_are_left_out(void **state)
{
	unsigned long before;

	(void)state;
	ends_begin();
	flow_begin();
	before = packets_sent("dump \"host 1\"");
	struct attach_frames *shared = ends.from->shared;
	atomic_fetch_add(&shared->out[ends.out->about.slot].words, 1000000);
	atomic_fetch_add(&shared->out[ends.out->about.slot].packets, 1);
	assert_int_equal(packets_sent("dump \"host 1\""), before);
	atomic_fetch_add(&shared->out[ends.out->about.slot].packets, UINT64_MAX / 2);
	assert_int_equal(packets_sent("dump \"host 1\""), before);
	before = frames_discarded();
	atomic_fetch_add(&shared->out[ends.out->about.slot].discards, UINT64_MAX / 2);
	assert_int_equal(frames_discarded(), before);
	ends_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_of_a_flow_pass_the_process_by_in_order),
		cmocka_unit_test(frames_of_a_flow_are_counted_at_each_port),
		cmocka_unit_test(receiver_of_a_flow_is_woken),
		cmocka_unit_test(frames_of_a_flow_become_visible_together),
		cmocka_unit_test(frames_of_a_flow_do_not_wake_the_process),
		cmocka_unit_test(frames_through_the_process_are_older),
		cmocka_unit_test(frame_of_another_route_is_refused),
		cmocka_unit_test(ring_with_impossible_indices_is_emptied),
		cmocka_unit_test(full_route_leaves_other_service_levels_alone),
		cmocka_unit_test(slow_receiver_makes_its_sender_wait),
		cmocka_unit_test(receiver_that_stands_still_stops_nobody),
		cmocka_unit_test(frames_through_the_process_wait_for_a_slow_receiver),
		cmocka_unit_test(frames_through_the_process_are_dropped_after_their_lifetime),
		cmocka_unit_test(channel_that_ends_does_not_wait_for_a_slow_receiver),
		cmocka_unit_test(flow_ends_with_its_route),
		cmocka_unit_test(sender_that_turns_indices_back_gets_no_frame_through),
		cmocka_unit_test(flow_ends_with_either_channel),
		cmocka_unit_test(counts_that_cannot_be_are_left_out),
	};

	return cmocka_run_group_tests(tests, server_begin, server_end);
}
