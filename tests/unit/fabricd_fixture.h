/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: a fabric's process, in a thread, and its clients. Two hosts are at a switch, which the
 * embedded subnet manager sets up.
 */
#ifndef URNIC_TESTS_FABRICD_FIXTURE_H
#define URNIC_TESTS_FABRICD_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arith.h"
#include "fabricd/client/fabric_client_internal.h"
#include "fabricd/console/console.h"
#include "fabricd_make.h"
#include "wire/cm/cm_message.h"
#include "wire/infiniband/mad_frame.h"
#include "wire/packet.h"

enum { WAIT_MS = 120000, PAUSE_US = 1000, PORT_ACTIVE = 4, SERVICE = 0x1234, QKEY = 0x11111111 };

static struct fabric_server *server;
static pthread_t server_thread;
static char fabric_name[32];

static void *server_run(void *argument)
{
	(void)argument;
	assert_int_equal(fabric_server_run(server), 0);
	return NULL;
}

__attribute__((unused)) static int server_begin(void **state)
{
	static const char text[] = "Switch 4 \"s\"\n[1] \"host 1\"[1]\n[2] \"b\"[1]\n\n"
				   "Ca 1 \"host 1\"\n\nCa 1 \"b\"\n";

	(void)state;
	snprintf(fabric_name, sizeof(fabric_name), "unit-%d", getpid());
	server = fabricd_make(fabric_name, text, console_run);
	return server ? pthread_create(&server_thread, NULL, server_run, NULL) : -1;
}

/* The process's signals are blocked, so the server's descriptor gets the signal. */
__attribute__((unused)) static int server_end(void **state)
{
	(void)state;
	kill(getpid(), SIGTERM);
	pthread_join(server_thread, NULL);
	fabric_server_destroy(server);
	return 0;
}

static struct fabric_client *client_make(const char *node)
{
	char place[ATTACH_TEXT_BYTES], why[ATTACH_TEXT_BYTES];
	struct fabric_client *client;

	snprintf(place, sizeof(place), "%s:%s", fabric_name, node);
	assert_int_equal(fabric_client_open(place, &client, why), 0);
	return client;
}

/* Wait until a client's port is in that state. */
static void await_state(struct fabric_client *client, uint8_t wanted, struct attach_port *ret_port)
{
	for (unsigned i = 0; i < WAIT_MS; i++) {
		assert_int_equal(fabric_client_port(client, 1, ret_port), 0);
		if (ret_port->state == wanted)
			return;
		usleep(PAUSE_US);
	}
	fail_msg("the port is not in state %u", wanted);
}

static void await_readable(int fd)
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};

	assert_int_equal(poll(&polled, 1, WAIT_MS), 1);
	assert_true(polled.revents & POLLIN);
}

/* Two hosts with active ports. */
static struct {
	struct fabric_client *clients[2];
	struct attach_port ports[2];
} pair_;

__attribute__((unused)) static void pair_begin(void)
{
	pair_.clients[0] = client_make("host 1");
	pair_.clients[1] = client_make("b");
	for (unsigned i = 0; i < 2; i++)
		await_state(pair_.clients[i], PORT_ACTIVE, &pair_.ports[i]);
}

__attribute__((unused)) static void pair_end(void)
{
	fabric_client_close(pair_.clients[0]);
	fabric_client_close(pair_.clients[1]);
}

__attribute__((unused)) static uint32_t frame_make(uint8_t *frame, uint32_t dest_qpn, uint16_t dlid)
{
	const struct mad_frame headers = {.dlid = dlid,
		.slid = pair_.ports[0].lid,
		.pkey = 0xffff,
		.dest_qpn = dest_qpn,
		.source_qpn = 5,
		.qkey = QKEY,
		.psn = 9};
	const uint8_t payload[MAD_BYTES] = "a datagram";

	return mad_frame_encode(&headers, payload, frame);
}

__attribute__((unused)) static void frame_await(
	struct fabric_frames *frames, const uint8_t *wanted, uint32_t bytes)
{
	uint8_t frame[RECORD_BYTES_MAX];
	uint32_t port;
	int count;

	while (fabric_frames_wait_begin(frames)) {
		await_readable(fabric_frames_fd(frames));
		fabric_frames_wait_end(frames);
	}
	count = fabric_frames_receive(frames, frame, &port);
	assert_int_equal(count, bytes);
	assert_int_equal(port, 1);
	assert_memory_equal(frame, wanted, bytes);
	assert_int_equal(fabric_frames_receive(frames, frame, &port), 0);
}

static void frame_send(struct fabric_frames *frames, const uint8_t *frame, uint32_t bytes)
{
	const struct record_piece pieces[] = {{frame, 20}, {frame + 20, bytes - 20}};

	assert_true(fabric_frames_send(frames, 1, pieces, 2));
	fabric_frames_flush(frames);
}

#endif
