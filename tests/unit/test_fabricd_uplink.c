/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fabric's process whose subnet is behind an uplink: the channels of its clients share what the
 * uplink has room for.
 */
#include "fabricd_fixture.h"

#include <stdatomic.h>
#include <sys/eventfd.h>

enum { FRAMES = 600, ROOM_OF_TURN = 8, ENDS = 2, FIRST_QPN = 0x100 };

static struct {
	_Atomic bool is_open; /* the uplink takes frames */
	_Atomic bool server_ends;
	uint32_t room; /* of this turn */
	uint32_t run; /* frames of one end in a row, since another end had one */
	uint32_t longest_run;
	uint32_t last;
	_Atomic uint32_t sent[ENDS];
} link_;

static void uplink_send(void *context, uint32_t node, uint32_t port, uint32_t violation,
	const uint8_t *frame, uint32_t frame_bytes)
{
	const uint32_t end = get_be24(frame + LRH_BYTES + 5) - FIRST_QPN;

	(void)context;
	(void)node;
	assert_int_equal(port, 1);
	assert_int_equal(violation, 0);
	assert_true(end < ENDS && frame_bytes > 0 && link_.room > 0);
	link_.room--;
	link_.run = end == link_.last ? link_.run + 1 : 1;
	link_.last = end;
	/* When one end has no frame left, the other one is alone. */
	if (link_.sent[0] < FRAMES && link_.sent[1] < FRAMES)
		link_.longest_run = max_u32(link_.longest_run, link_.run);
	link_.sent[end]++;
}

static bool uplink_has_room(const void *context)
{
	(void)context;
	return link_.room > 0;
}

static void uplink_set_issm(void *context, uint32_t node, uint32_t port, bool is_open)
{
	(void)context;
	(void)node;
	(void)port;
	(void)is_open;
}

static int uplink_run(void *context)
{
	(void)context;
	link_.room = link_.is_open ? ROOM_OF_TURN : 0;
	return 0;
}

static void *turns_run(void *argument)
{
	(void)argument;
	while (!link_.server_ends)
		assert_true(fabric_server_turn(server) >= 0);
	return NULL;
}

static void channels_share_the_room_of_an_uplink(void **state)
{
	static const char text[] = "Ca 1 \"a\"\n\nCa 1 \"b\"\n";
	static const char *const nodes[ENDS] = {"a", "b"};
	const struct fabric_uplink uplink = {.send = uplink_send,
		.has_room = uplink_has_room,
		.set_issm = uplink_set_issm,
		.run = uplink_run,
		.descriptor = eventfd(0, EFD_CLOEXEC)};
	const struct fabric_server_settings settings = {
		.name = fabric_name, .is_unmanaged = true, .uplink = &uplink};
	struct fabric_client *clients[ENDS];
	struct fabric_frames *channels[ENDS];
	char why[ATTACH_TEXT_BYTES], topology_why[TOPOLOGY_WHY_BYTES];
	uint8_t frame[MAD_FRAME_BYTES_MAX];
	struct subnet_topology *topology;
	uint32_t line, bytes;

	(void)state;
	snprintf(fabric_name, sizeof(fabric_name), "unit-%d", getpid());
	assert_int_equal(
		subnet_topology_read(text, strlen(text), &topology, &line, topology_why), 0);
	assert_int_equal(fabric_server_create(&settings, topology, &server, why), 0);
	subnet_topology_destroy(topology);
	assert_int_equal(pthread_create(&server_thread, NULL, turns_run, NULL), 0);
	for (uint32_t i = 0; i < ENDS; i++) {
		clients[i] = client_make(nodes[i]);
		assert_int_equal(fabric_frames_open(clients[i], &channels[i]), 0);
		bytes = frame_make(frame, FIRST_QPN + i, 5);
		for (uint32_t j = 0; j < FRAMES; j++)
			frame_send(channels[i], frame, bytes);
	}
	link_.is_open = true;
	for (uint32_t i = 0; i < ENDS; i++)
		for (uint32_t j = 0; j < WAIT_MS && link_.sent[i] < FRAMES; j++)
			usleep(PAUSE_US);
	for (uint32_t i = 0; i < ENDS; i++) {
		fabric_frames_close(channels[i]);
		fabric_client_close(clients[i]);
	}
	link_.server_ends = true;
	pthread_join(server_thread, NULL);
	assert_int_equal(link_.sent[0], FRAMES);
	assert_int_equal(link_.sent[1], FRAMES);
	assert_in_range(link_.longest_run, 1, 2 * ROOM_OF_TURN);
	fabric_server_destroy(server);
	close(uplink.descriptor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(channels_share_the_room_of_an_uplink),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
