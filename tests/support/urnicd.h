/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_URNICD_H
#define URNIC_TESTS_SUPPORT_URNICD_H

/*
 * Clients of urnicd, for tests that start without one and kill the one that they started. A test
 * program includes this in its one source.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent_client.h"
#include "agent/agent_start.h"
#include "os/setting.h"
#include "port/address.h"
#include "port/udp/udp_channel.h"
#include "support/netns.h"
#include "wire/roce.h"

enum { SLOTS = 8, PACKETS = 1000, PACKET_BYTES = 64, WAIT_MS = 60000 };

static const struct agent_address loopback = {
	.gid = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}},
};
static const struct agent_address loopback_v6 = {.gid = {{[15] = 1}}};

static inline void sleep_ms(long ms)
{
	const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&pause, NULL);
}

static inline int is_running(void)
{
	struct agent_client client;

	if (agent_client_connect_running(&client) != 0)
		return 0;
	agent_client_done(&client);
	return 1;
}

/* urnicd has died: the client learns it from its connection. */
static inline void wait_for_hangup(struct agent_client *client)
{
	struct pollfd fd = {.fd = agent_client_fd(client), .events = POLLIN};
	struct agent_packet packet;

	assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
	assert_int_equal(agent_client_receive(client, &packet), -ECONNRESET);
}

static inline int end_urnicd(void **state)
{
	struct agent_client client;

	(void)state;
	if (agent_client_connect_running(&client) == 0) {
		kill((pid_t)client.agent_pid, SIGKILL);
		wait_for_hangup(&client);
		agent_client_done(&client);
	}
	return 0;
}

/* A process with some slots open on an address. */
struct holder {
	struct agent_client client;
	uint8_t slots[SLOTS];
	int sockets[SLOTS];
	unsigned count;
};

static inline void holder_open(
	struct holder *holder, unsigned count, const struct agent_address *address)
{
	int rc = agent_client_connect(&holder->client);

	if (rc)
		print_error("%s\n", holder->client.why);
	assert_int_equal(rc, 0);
	holder->count = count;
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(agent_client_attach(&holder->client, -1, &holder->slots[i]), 0);
		rc = agent_client_open(
			&holder->client, holder->slots[i], address, &holder->sockets[i]);
		if (rc)
			print_error("%s\n", holder->client.why);
		assert_int_equal(rc, 0);
	}
}

static inline void holder_close(struct holder *holder)
{
	for (unsigned i = 0; i < holder->count; i++)
		close(holder->sockets[i]);
	agent_client_done(&holder->client);
}

static inline int sender_socket(
	const struct agent_address *address, union socket_address *to, socklen_t *to_bytes)
{
	int fd;

	*to_bytes = socket_address_make(to, &address->gid, 0, ROCE_UDP_PORT);
	fd = socket(to->base.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	return fd;
}

/* Send one packet for `slot` that says so in its last byte too. */
static inline void send_to_slot(const struct agent_address *address, uint8_t slot)
{
	uint8_t packet[PACKET_BYTES] = {[5] = slot, [PACKET_BYTES - 1] = slot};
	union socket_address to;
	socklen_t to_bytes;
	int fd = sender_socket(address, &to, &to_bytes);

	assert_int_equal(sendto(fd, packet, sizeof(packet), 0, &to.base, to_bytes), sizeof(packet));
	close(fd);
}

/* Read all packets of a slot's socket, or channel; each must be for it. Returns how many. */
static inline unsigned read_all(int fd, uint8_t slot)
{
	uint8_t message[sizeof(struct udp_channel_head) + PACKET_BYTES];
	ssize_t bytes;
	unsigned count = 0;

	while ((bytes = recv(fd, message, sizeof(message), MSG_DONTWAIT)) >= PACKET_BYTES) {
		assert_int_equal(message[bytes - PACKET_BYTES + 5], slot);
		count++;
	}
	return count;
}

static inline void assert_steers(const struct holder *holder, const struct agent_address *address)
{
	unsigned received = 0;

	for (unsigned i = 0; i < PACKETS; i++) {
		send_to_slot(address, holder->slots[i % holder->count]);
		if (i % 50 == 49) {
			for (unsigned k = 0; k < holder->count; k++)
				received += read_all(holder->sockets[k], holder->slots[k]);
		}
	}
	/* What comes by way of urnicd takes a moment. */
	for (unsigned i = 0; i < WAIT_MS && received < PACKETS; i++) {
		sleep_ms(1);
		for (unsigned k = 0; k < holder->count; k++)
			received += read_all(holder->sockets[k], holder->slots[k]);
	}
	assert_int_equal(received, PACKETS);
}

/*
 * Run the tests of a program in a network namespace of its own. Returns 77 if there can be none, or
 * if urnicd is missing.
 */
static inline int urnicd_prepare(void)
{
	char path[4096];

	setenv("URNICD_IDLE_S", "1", 1);
	settings_read();
	if (agent_find(path, sizeof(path)) != 0) {
		printf("skipped: the program urnicd is not built\n");
		return 77;
	}
	return netns_enter_new() < 0 ? 77 : 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, end_urnicd)

#endif
