/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel does with the bytes of a socket that is closed, as when its process is killed
 * (port/tcp.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include "port/tcp.h"

enum { PIECE_BYTES = 65536, WAIT_MS = 60000, FULL_MS = 200 };

static uint8_t bytes[PIECE_BYTES];

struct ends {
	int listener, sender, receiver;
};

static void await_events(int fd, short events)
{
	struct pollfd wait = {.fd = fd, .events = events};

	assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
}

static struct ends ends_open(void)
{
	struct port_tcp_address address = {.gid = {{[10] = 0xff, 0xff, 127, 0, 0, 1}}};
	struct port_tcp_address any = address;
	struct sockaddr_in name = {0};
	socklen_t name_bytes = sizeof(name);
	struct ends ends = {.listener = port_tcp_listen(&address, false, 1)};

	assert_true(ends.listener >= 0);
	assert_return_code(
		getsockname(ends.listener, (struct sockaddr *)&name, &name_bytes), errno);
	address.port = ntohs(name.sin_port);
	ends.sender = port_tcp_connect(&any, &address, 0);
	assert_true(ends.sender >= 0);
	await_events(ends.sender, POLLOUT);
	assert_int_equal(port_tcp_connected(ends.sender), 0);
	await_events(ends.listener, POLLIN);
	ends.receiver = port_tcp_accept(ends.listener);
	assert_true(ends.receiver >= 0);
	return ends;
}

/* Send until the receiver's kernel takes no more, and this one is full. Returns how much. */
static uint64_t send_all(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	const struct iovec piece = {bytes, sizeof(bytes)};
	uint64_t sent = 0;

	while (poll(&wait, 1, FULL_MS) > 0) {
		int64_t taken = port_tcp_send(fd, &piece, 1);

		sent += taken > 0 ? (uint64_t)taken : 0;
	}
	return sent;
}

/* Returns how much came; how the stream ended: 0, or -errno. */
static uint64_t receive_all(int fd, int64_t *ret_end)
{
	uint64_t received = 0;

	for (;;) {
		await_events(fd, POLLIN);
		*ret_end = port_tcp_receive_one(fd, bytes, sizeof(bytes));
		if (*ret_end <= 0)
			return received;
		received += (uint64_t)*ret_end;
	}
}

static void closed_socket_sends_what_it_has(void **state)
{
	struct ends ends = ends_open();
	uint64_t sent;
	int64_t end;

	(void)state;
	port_tcp_set_dropping(ends.sender, true);
	port_tcp_set_dropping(ends.sender, false);
	sent = send_all(ends.sender);
	close(ends.sender);
	assert_int_equal(receive_all(ends.receiver, &end), sent);
	assert_int_equal(end, 0);
	close(ends.receiver);
	close(ends.listener);
}

static void closed_dropping_socket_resets_the_connection(void **state)
{
	struct ends ends = ends_open();
	uint64_t sent;
	int64_t end;

	(void)state;
	port_tcp_set_dropping(ends.sender, true);
	sent = send_all(ends.sender);
	close(ends.sender);
	assert_true(receive_all(ends.receiver, &end) < sent);
	assert_int_equal(end, -ECONNRESET);
	close(ends.receiver);
	close(ends.listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closed_socket_sends_what_it_has),
		cmocka_unit_test(closed_dropping_socket_resets_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
