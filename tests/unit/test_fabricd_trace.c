/* SPDX-License-Identifier: BSD-2-Clause */
/* A fabric whose frames are traced: none passes its process by. */
#include "fabricd_fixture.h"

enum { FRAMES = 200, HOPS = 2 };

static _Atomic uint32_t traced;
static _Atomic uint32_t traced_bytes; /* the fabric's thread reads it */

/* Count the frames between the two hosts, which are datagrams of QKEY, at both cables. */
static void frame_trace(
	void *context, uint32_t node, uint32_t port, const uint8_t *frame, uint32_t frame_bytes)
{
	const uint32_t qkey_at = LRH_BYTES + BTH_BYTES;

	assert_ptr_equal(context, &traced);
	assert_true(node < 3 && port >= 1 && port <= 2);
	if (frame_bytes != traced_bytes || get_be32(frame + qkey_at) != QKEY)
		return;
	traced++;
}

static int traced_begin(void **state)
{
	static const char text[] = "Switch 4 \"s\"\n[1] \"host 1\"[1]\n[2] \"b\"[1]\n\n"
				   "Ca 1 \"host 1\"\n\nCa 1 \"b\"\n";
	struct fabric_server_settings settings = {.name = fabric_name,
		.console = console_run,
		.trace = frame_trace,
		.trace_context = &traced};
	char why[ATTACH_TEXT_BYTES], topology_why[TOPOLOGY_WHY_BYTES];
	struct subnet_topology *read;
	uint32_t line;

	(void)state;
	snprintf(fabric_name, sizeof(fabric_name), "unit-%d", getpid());
	if (subnet_topology_read(text, strlen(text), &read, &line, topology_why) ||
		fabric_server_create(&settings, read, &server, why))
		return -1;
	subnet_topology_destroy(read);
	return pthread_create(&server_thread, NULL, server_run, NULL);
}

static void traced_frames_pass_the_process(void **state)
{
	struct fabric_frames *from, *to;
	struct attach_event event;
	struct fabric_flow *flow;
	uint8_t frame[MAD_FRAME_BYTES_MAX];
	int events[2];

	(void)state;
	pair_begin();
	for (unsigned i = 0; i < 2; i++) {
		events[i] = fabric_client_events(pair_.clients[i]);
		assert_true(events[i] >= 0);
	}
	assert_int_equal(fabric_frames_open(pair_.clients[0], &from), 0);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &to), 0);
	traced_bytes = frame_make(
		frame, fabric_frames_lease(to) << ATTACH_LEASE_QPN_SHIFT | 7, pair_.ports[1].lid);
	for (uint32_t i = 0; i < FRAMES; i++) {
		frame_send(from, frame, traced_bytes);
		frame_await(to, frame, traced_bytes);
	}
	assert_int_equal(traced, FRAMES * HOPS);
	/* Without the trace, the first frame makes the process offer a flow to the receiver. */
	while (fabric_client_event(events[1], &event, &flow) != -EAGAIN)
		assert_null(flow);
	fabric_frames_close(from);
	fabric_frames_close(to);
	close(events[0]);
	close(events[1]);
	pair_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(traced_frames_pass_the_process),
	};

	return cmocka_run_group_tests(tests, traced_begin, server_end);
}
