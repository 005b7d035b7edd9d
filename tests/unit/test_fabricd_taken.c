/* SPDX-License-Identifier: BSD-2-Clause */
/* Hosts of a fabric that a client takes for another machine. */
#include "fabricd_fixture.h"

enum { PORT_DOWN = 1, FOREIGN_QPN = 0x771234 };

static struct fabric_frames *host_take(struct fabric_client *client)
{
	struct fabric_frames *frames;
	char why[ATTACH_TEXT_BYTES];

	assert_int_equal(fabric_frames_take_host(client, &frames, why), 0);
	return frames;
}

static uint32_t mad_make(uint8_t *frame, uint16_t dlid)
{
	const struct mad_frame headers = {.dlid = dlid,
		.slid = pair_.ports[0].lid,
		.pkey = 0xffff,
		.dest_qpn = GSI_QPN,
		.source_qpn = GSI_QPN,
		.qkey = GSI_QKEY};
	const uint8_t mad[MAD_BYTES] = {1, 0x32, 1};

	return mad_frame_encode(&headers, mad, frame);
}

/* A frame from the taken host to the other one's channel. */
static void answer_pass(struct fabric_frames *taken, struct fabric_frames *frames)
{
	const uint32_t qpn = fabric_frames_lease(frames) << ATTACH_LEASE_QPN_SHIFT;
	uint8_t frame[MAD_FRAME_BYTES_MAX];
	uint32_t bytes = frame_make(frame, qpn, pair_.ports[0].lid);

	frame_send(taken, frame, bytes);
	frame_await(frames, frame, bytes);
}

static void taken_host_gets_each_frame_and_sends_any(void **state)
{
	struct fabric_frames *frames, *taken;
	uint8_t frame[MAD_FRAME_BYTES_MAX];
	uint32_t bytes;

	(void)state;
	pair_begin();
	assert_int_equal(fabric_frames_open(pair_.clients[0], &frames), 0);
	taken = host_take(pair_.clients[1]);
	bytes = frame_make(frame, FOREIGN_QPN, pair_.ports[1].lid);
	frame_send(frames, frame, bytes);
	frame_await(taken, frame, bytes);
	/* A management datagram, too, which the fabric's agents would have taken. */
	bytes = mad_make(frame, pair_.ports[1].lid);
	frame_send(frames, frame, bytes);
	frame_await(taken, frame, bytes);
	answer_pass(taken, frames);
	fabric_frames_close(taken);
	fabric_frames_close(frames);
	pair_end();
}

static void taken_host_has_one_client(void **state)
{
	struct fabric_client *first = client_make("b"), *second = client_make("b"), *third;
	char place[ATTACH_TEXT_BYTES], why[ATTACH_TEXT_BYTES];
	struct fabric_frames *taken;
	int rc = -EBUSY;

	(void)state;
	assert_int_equal(fabric_frames_take_host(first, &taken, why), -EBUSY);
	assert_non_null(strstr(why, "programs on the fabric's own machine use the host"));
	fabric_client_close(second);
	for (unsigned i = 0; i < WAIT_MS && rc; i++) {
		rc = fabric_frames_take_host(first, &taken, why);
		usleep(PAUSE_US);
	}
	assert_int_equal(rc, 0);
	snprintf(place, sizeof(place), "%s:b", fabric_name);
	assert_int_equal(fabric_client_open(place, &third, why), -EBUSY);
	assert_non_null(strstr(why, "\"b\" is on another machine"));
	fabric_frames_close(taken);
	fabric_client_close(first);
}

static char *console_ask(const char *command)
{
	struct fabric_client *console = client_make("");
	char why[ATTACH_TEXT_BYTES], *text;

	assert_int_equal(fabric_client_console(console, command, &text, why), 0);
	fabric_client_close(console);
	return text;
}

static void cable_of_a_taken_host_is_cut_until_it_is_taken_again(void **state)
{
	struct fabric_client *client = client_make("b");
	struct fabric_frames *taken = host_take(client);
	struct attach_port port;
	char *text;

	(void)state;
	await_state(client, PORT_ACTIVE, &port);
	/* As at the end of a process: the connection closes, and no request comes before. */
	fabric_client_forget(client);
	fabric_frames_forget(taken);
	for (;;) {
		char place[ATTACH_TEXT_BYTES], why[ATTACH_TEXT_BYTES];

		snprintf(place, sizeof(place), "%s:b", fabric_name);
		if (fabric_client_open(place, &client, why) == 0)
			break;
		usleep(PAUSE_US);
	}
	await_state(client, PORT_DOWN, &port);
	text = console_ask("dump s");
	assert_non_null(strstr(text, "[2]\tDown"));
	free(text);
	taken = host_take(client);
	await_state(client, PORT_ACTIVE, &port);
	fabric_frames_close(taken);
	await_state(client, PORT_DOWN, &port);
	free(console_ask("relink b"));
	await_state(client, PORT_ACTIVE, &port);
	fabric_client_close(client);
}

static void cable_that_a_console_has_cut_stays_cut(void **state)
{
	struct fabric_client *client = client_make("b");
	struct attach_port port;

	(void)state;
	free(console_ask("unlink b"));
	fabric_frames_close(host_take(client));
	fabric_frames_close(host_take(client));
	await_state(client, PORT_DOWN, &port);
	free(console_ask("relink b"));
	await_state(client, PORT_ACTIVE, &port);
	fabric_client_close(client);
}

static void taken_host_has_no_flows(void **state)
{
	struct fabric_frames *frames, *taken;
	uint8_t frame[MAD_FRAME_BYTES_MAX];
	struct attach_event event;
	struct fabric_flow *flow;
	int events[2];
	uint32_t bytes;

	(void)state;
	pair_begin();
	for (unsigned i = 0; i < 2; i++) {
		events[i] = fabric_client_events(pair_.clients[i]);
		assert_true(events[i] >= 0);
	}
	assert_int_equal(fabric_frames_open(pair_.clients[0], &frames), 0);
	taken = host_take(pair_.clients[1]);
	for (unsigned i = 0; i < 3; i++) {
		bytes = frame_make(frame, FOREIGN_QPN, pair_.ports[1].lid);
		frame_send(frames, frame, bytes);
		frame_await(taken, frame, bytes);
		answer_pass(taken, frames);
	}
	for (unsigned i = 0; i < 2; i++) {
		while (fabric_client_event(events[i], &event, &flow) == 0)
			assert_true(event.type < ATTACH_EVENT_FLOW_IN);
		close(events[i]);
	}
	fabric_frames_close(taken);
	fabric_frames_close(frames);
	pair_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(taken_host_gets_each_frame_and_sends_any),
		cmocka_unit_test(taken_host_has_one_client),
		cmocka_unit_test(cable_of_a_taken_host_is_cut_until_it_is_taken_again),
		cmocka_unit_test(cable_that_a_console_has_cut_stays_cut),
		cmocka_unit_test(taken_host_has_no_flows),
	};

	return cmocka_run_group_tests(tests, server_begin, server_end);
}
