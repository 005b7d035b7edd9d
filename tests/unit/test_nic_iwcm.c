/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager for iWARP, before a queue pair has a connection: the order in which
 * requests reach a listener. The other end is a plain socket.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection/nic_iwcm.h"

enum { CONNS = 3, LATE = 4, WAIT_MS = 60000 };

static struct nic_iw_conn conns[CONNS];
static _Atomic uint32_t refusals; /* of conns[0], when the last other connection failed */
static int taken_fds[CONNS]; /* by request_take() */
static uint32_t taken_count;
static int failed[2]; /* a pipe: the numbers of the connections that failed, in their order */

static int requested[2]; /* a pipe: the ports of the peers whose requests arrived, in their order */
static _Atomic bool is_held; /* the manager waits after each request */

/* The manager is locked. */
static void on_event(enum nic_iw_event event, struct nic_iw_conn *conn)
{
	char number = (char)(conn - conns);

	if (event == NIC_IW_REQUESTED) {
		(void)!write(requested[1], &conn->remote.port, sizeof(conn->remote.port));
		while (atomic_load(&is_held))
			sched_yield();
		return;
	}
	if (event != NIC_IW_FAILED)
		return;
	atomic_store(&refusals, conns[0].refusals);
	(void)!write(failed[1], &number, 1);
}

static void await_input(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
}

static int await_failure(void)
{
	char number;

	await_input(failed[0]);
	assert_int_equal(read(failed[0], &number, 1), 1);
	return number;
}

/* A socket that has a port, and refuses connections until listen(). */
static int port_open(uint16_t *ret_port)
{
	struct sockaddr_in name = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_return_code(bind(fd, (struct sockaddr *)&name, sizeof(name)), errno);
	assert_return_code(getsockname(fd, (struct sockaddr *)&name, &bytes), errno);
	*ret_port = ntohs(name.sin_port);
	return fd;
}

/* The request of connection i has i as its private data. */
static void connect_to(uint32_t i, uint16_t port)
{
	const struct mpa_policy policy = {.revision = 1};
	const struct mpa_reads reads = {1, 1};
	const struct gid here = gid_from_ipv4((uint8_t[]){127, 0, 0, 1});
	const uint8_t number = (uint8_t)i;

	memset(&conns[i], 0, sizeof(conns[i]));
	conns[i].local.gid = here;
	conns[i].remote = (struct port_tcp_address){.gid = here, .port = port};
	mpa_connect(&conns[i].mpa, &policy, &reads, &number, 1);
	assert_int_equal(nic_iwcm_connect(&conns[i], 0), 0);
}

/* Connection 0 is refused, and the manager will try again. */
static void connect_refused(uint16_t port)
{
	uint16_t other_port;
	int listener = port_open(&other_port);

	assert_return_code(listen(listener, CONNS), errno);
	atomic_store(&refusals, 0);
	connect_to(0, port);
	do {
		connect_to(1, other_port);
		await_input(listener);
		close(accept(listener, NULL, NULL));
		assert_int_equal(await_failure(), 1);
	} while (!atomic_load(&refusals));
	close(listener);
}

/* The number of the connection whose request arrives next. */
static uint8_t request_take(int listener)
{
	uint8_t frame[MPA_FRAME_BYTES + 1] = {0};
	size_t taken = 0;
	ssize_t bytes;
	int fd;

	await_input(listener);
	fd = accept(listener, NULL, NULL);
	assert_return_code(fd, errno);
	while (taken < sizeof(frame)) {
		await_input(fd);
		bytes = read(fd, frame + taken, sizeof(frame) - taken);
		assert_true(bytes > 0);
		taken += (size_t)bytes;
	}
	taken_fds[taken_count++] = fd;
	return frame[MPA_FRAME_BYTES];
}

static void close_all(void)
{
	for (uint32_t i = 0; i < CONNS; i++)
		nic_iwcm_close(&conns[i]);
	while (taken_count)
		close(taken_fds[--taken_count]);
}

static void requests_reach_a_listener_in_the_order_of_the_calls(void **state)
{
	uint16_t port;
	int listener = port_open(&port);

	(void)state;
	connect_refused(port);
	assert_return_code(listen(listener, CONNS), errno);
	connect_to(1, port);
	connect_to(2, port);
	for (unsigned i = 0; i < CONNS; i++)
		assert_int_equal(request_take(listener), i);
	close(listener);
	close_all();
}

static void connection_that_fails_lets_the_next_one_try(void **state)
{
	uint16_t port;
	int nobody = port_open(&port);

	(void)state;
	connect_to(0, port);
	connect_to(1, port);
	assert_int_equal(await_failure(), 0);
	assert_int_equal(await_failure(), 1);
	assert_int_equal(conns[1].error, -ECONNREFUSED);
	close(nobody);
	close_all();
}

static void connection_that_is_closed_lets_the_next_one_try(void **state)
{
	uint16_t port;
	int listener = port_open(&port);

	(void)state;
	connect_refused(port);
	connect_to(1, port);
	connect_to(2, port);
	nic_iwcm_close(&conns[0]);
	nic_iwcm_close(&conns[1]);
	assert_return_code(listen(listener, CONNS), errno);
	assert_int_equal(request_take(listener), 2);
	close(listener);
	close_all();
}

/* Connect to a port and send an MPA request. Returns the socket's own port. */
static uint16_t request_send(uint16_t port, int *ret_fd)
{
	static const uint8_t frame[] = "MPA ID Req Frame\x40\x01\x00"; /* the final 0 counts, too */
	struct sockaddr_in name = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(port)};
	socklen_t bytes = sizeof(name);

	*ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_return_code(connect(*ret_fd, (struct sockaddr *)&name, sizeof(name)), errno);
	assert_int_equal(write(*ret_fd, frame, sizeof(frame)), sizeof(frame));
	assert_return_code(getsockname(*ret_fd, (struct sockaddr *)&name, &bytes), errno);
	return ntohs(name.sin_port);
}

static uint16_t await_request(void)
{
	uint16_t port;

	await_input(requested[0]);
	assert_int_equal(read(requested[0], &port, sizeof(port)), sizeof(port));
	return port;
}

static void requests_that_wait_are_reported_in_the_order_of_their_arrival(void **state)
{
	const struct port_tcp_address here = {.gid = gid_from_ipv4((uint8_t[]){127, 0, 0, 1})};
	struct nic_iw_listener listener = {.fd = -1};
	struct sockaddr_in name = {0};
	socklen_t bytes = sizeof(name);
	uint16_t ports[LATE + 1];
	int fds[LATE + 1];

	(void)state;
	assert_int_equal(nic_iwcm_listen(&listener, &here, false, LATE + 1), 0);
	assert_return_code(getsockname(listener.fd, (struct sockaddr *)&name, &bytes), errno);
	atomic_store(&is_held, true);
	for (uint32_t i = 0; i <= LATE; i++) {
		ports[i] = request_send(ntohs(name.sin_port), &fds[i]);
		if (i == 0)
			assert_int_equal(await_request(), ports[0]);
	}
	atomic_store(&is_held, false);
	for (uint32_t i = 1; i <= LATE; i++)
		assert_int_equal(await_request(), ports[i]);
	for (uint32_t i = 0; i <= LATE; i++)
		close(fds[i]);
	nic_iwcm_unlisten(&listener);
}

static int start(void **state)
{
	(void)state;
	return pipe(failed) || pipe(requested) || nic_iwcm_start(on_event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_reach_a_listener_in_the_order_of_the_calls),
		cmocka_unit_test(connection_that_fails_lets_the_next_one_try),
		cmocka_unit_test(connection_that_is_closed_lets_the_next_one_try),
		cmocka_unit_test(requests_that_wait_are_reported_in_the_order_of_their_arrival),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
