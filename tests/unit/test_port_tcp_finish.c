/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP connections that are closed before the peer has read all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <time.h>

#include "base/arith.h"
#include "os/clock.h"
#include "port/tcp.h"

enum { WAIT_MS = 10000, GIVE_UP_MS = 1000, PIECE_BYTES = 16384 };

static const struct gid loopback[] = {
	{{[10] = 0xff, 0xff, 127, 0, 0, 1}},
	{{[15] = 1}},
};
static uint8_t piece[PIECE_BYTES];

struct pair {
	int near, far;
};

static uint16_t port_of(int fd)
{
	struct sockaddr_in6 address = {0}; /* an IPv4 address has its port at the same place */
	socklen_t bytes = sizeof(address);

	assert_false(getsockname(fd, (struct sockaddr *)&address, &bytes));
	return ntohs(address.sin6_port);
}

/* A connection whose far end has room for few bytes. */
static struct pair connect_pair(const struct gid *gid)
{
	struct port_tcp_address near = {.gid = *gid}, far = near;
	const int few_bytes = 4096;
	int listener = port_tcp_listen(&far, true, 1);
	struct pollfd ready = {.fd = listener, .events = POLLIN};
	struct pair pair;

	assert_true(listener >= 0);
	assert_false(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &few_bytes, sizeof(few_bytes)));
	far.port = port_of(listener);
	pair.near = port_tcp_connect(&near, &far, 0);
	assert_true(pair.near >= 0);
	assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
	pair.far = port_tcp_accept(listener);
	assert_true(pair.far >= 0);
	assert_false(port_tcp_connected(pair.near));
	close(listener);
	return pair;
}

/* Sends until the kernel takes no more. Returns how much it took. */
static int64_t fill(int fd)
{
	const struct iovec one = {piece, sizeof(piece)};
	int64_t sum = 0, bytes;

	while ((bytes = port_tcp_send(fd, &one, 1)) > 0)
		sum += bytes;
	assert_int_equal(bytes, -EAGAIN);
	return sum;
}

static int64_t say(int fd)
{
	const struct iovec little = {piece, 10};

	return port_tcp_send(fd, &little, 1);
}

/* Waits until the socket has input. */
static void await_input(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};

	assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
}

/* Reads to the end, and answers each piece. Returns the number of bytes. */
static int64_t read_all(int fd)
{
	int64_t sum = 0, bytes;

	do {
		await_input(fd);
		bytes = port_tcp_receive_one(fd, piece, sizeof(piece));
		sum += bytes > 0 ? bytes : 0;
		if (bytes > 0)
			say(fd);
	} while (bytes > 0);
	assert_int_equal(bytes, 0);
	return sum;
}

static void finished_connection_delivers_all_that_was_taken(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ARRAY_COUNT(loopback); i++) {
		struct pair pair = connect_pair(&loopback[i]);
		int64_t taken = fill(pair.near);

		say(pair.far);
		await_input(pair.near);
		port_tcp_finish(pair.near, WAIT_MS);
		close(pair.near);
		assert_int_equal(read_all(pair.far), taken);
		close(pair.far);
	}
}

/* A reset could make the far end lose what it has not read yet. */
static void finished_connection_takes_input_in_silence_for_a_while(void **state)
{
	struct pair pair = connect_pair(&loopback[0]);
	const struct timespec pause = {.tv_nsec = 50000000};

	(void)state;
	fill(pair.near);
	port_tcp_finish(pair.near, WAIT_MS);
	close(pair.near);
	read_all(pair.far);
	for (unsigned i = 0; i < 4; i++) {
		nanosleep(&pause, NULL);
		assert_int_equal(say(pair.far), 10);
	}
	close(pair.far);
}

/* The far end hears of it when it says something. */
static void finished_connection_ends_when_the_peer_reads_nothing(void **state)
{
	struct pair pair = connect_pair(&loopback[0]);
	const struct timespec pause = {.tv_nsec = 50000000};
	uint64_t start_ns = clock_now_ns();
	int64_t sent = 0;

	(void)state;
	fill(pair.near);
	say(pair.far);
	await_input(pair.near);
	port_tcp_finish(pair.near, GIVE_UP_MS);
	close(pair.near);
	assert_true(clock_now_ns() - start_ns < 500000000);
	while (sent >= 0 && clock_now_ns() - start_ns < WAIT_MS * 1000000ull) {
		nanosleep(&pause, NULL);
		sent = say(pair.far);
	}
	assert_int_equal(sent, -ECONNRESET);
	close(pair.far);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finished_connection_delivers_all_that_was_taken),
		cmocka_unit_test(finished_connection_takes_input_in_silence_for_a_while),
		cmocka_unit_test(finished_connection_ends_when_the_peer_reads_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
