/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Set-up calls of a process that has no descriptor left: each one fails with EMFILE, and with a
 * sentence that says what is missing and what to do.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/gsi_socket.h"
#include "front/rdmacm/address.h"
#include "nic/nic_probe.h"
#include "port/address.h"
#include "port/socket.h"
#include "port/tcp.h"
#include "port/udp/udp.h"

enum { SLOT = 3, SAID_BYTES = 1024 };

static const struct gid own = {{[10] = 0xff, 0xff, 127, 0, 0, 1}};
static char said[SAID_BYTES]; /* what the last try() has logged */

/* Call `act` while the process can open nothing. Returns what it returns. */
static int try(int (*act)(void))
{
	int log = memfd_create("log", MFD_CLOEXEC), kept = dup(STDERR_FILENO), next, result;
	struct rlimit all, none;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	assert_return_code(dup2(log, STDERR_FILENO), errno);
	next = dup(STDERR_FILENO); /* the lowest one that is free */
	close(next);
	none = (struct rlimit){(rlim_t)next, all.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	result = act();
	setrlimit(RLIMIT_NOFILE, &all);
	dup2(kept, STDERR_FILENO);
	memset(said, 0, sizeof(said));
	assert_return_code(pread(log, said, sizeof(said) - 1, 0), errno);
	close(kept);
	close(log);
	return result;
}

static void fails_and_says(int (*act)(void), const char *what)
{
	assert_int_equal(try(act), -EMFILE);
	if (!strstr(said, what) || !strstr(said, "Too many open files: raise the limit on open"))
		fail_msg("%s: said '%s'", what, said);
	assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
}

static struct port_udp *port;

static int path_open(void)
{
	const struct port_udp_path settings = {.destination_slot = SLOT, .remote = own};
	uint32_t path;

	return port_udp_path_open(port, &settings, &path);
}

/* ibv_modify_qp() to RTR, and ibv_create_ah(), open a path. */
static void path_to_a_peer_says_so(void **state)
{
	union socket_address name;
	socklen_t bytes = socket_address_make(&name, &own, 0, 0);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct port_udp_counters counters = {0};

	(void)state;
	assert_int_equal(bind(fd, &name.base, bytes), 0);
	assert_int_equal(port_udp_create(SLOT, &counters, &port), 0);
	assert_int_equal(port_udp_add_address(port, &own, 0, fd), 0);
	fails_and_says(path_open, "no packets to a peer: socket: ");
	assert_int_equal(path_open(), 0);
	port_udp_destroy(port);
}

static int messages_open(void)
{
	const struct agent_address address = {.gid = own};
	struct gsi_socket gsi;

	return gsi_socket_open(&gsi, &address);
}

static void connection_manager_says_so(void **state)
{
	(void)state;
	fails_and_says(messages_open, "no messages of the connection manager: socket: ");
}

static int listener_open(void)
{
	const struct port_tcp_address address = {.gid = own};

	return port_tcp_listen(&address, false, 1);
}

static int connection_open(void)
{
	const struct port_tcp_address from = {.gid = own}, to = {.gid = own, .port = 9};

	return port_tcp_connect(&from, &to, 0);
}

static void iwarp_says_so(void **state)
{
	(void)state;
	fails_and_says(listener_open, "no listener for iWARP connections: socket: ");
	fails_and_says(connection_open, "no iWARP connection: socket: ");
}

static int source_find(void)
{
	struct sockaddr_in remote = {.sin_family = AF_INET};
	struct sockaddr_storage local = {.ss_family = AF_INET};

	remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address_source((struct sockaddr *)&remote, 0, &local);
}

static void resolution_of_an_address_says_so(void **state)
{
	(void)state;
	fails_and_says(source_find, "the route to a peer is not known: socket: ");
}

static int probe(void)
{
	return nic_probe(&own, &own);
}

/* What is only tried is not missed. */
static void probe_of_a_peer_says_nothing(void **state)
{
	(void)state;
	assert_int_equal(try(probe), 0);
	assert_string_equal(said, "");
}

static int listener_of_a_taken_port(void)
{
	struct port_tcp_address address = {.gid = own};
	int first = port_tcp_listen(&address, false, 1), result;
	struct sockaddr_in name = {0};
	socklen_t bytes = sizeof(name);

	assert_true(first >= 0);
	assert_return_code(getsockname(first, (struct sockaddr *)&name, &bytes), errno);
	address.port = ntohs(name.sin_port);
	result = port_tcp_listen(&address, false, 1);
	close(first);
	return result;
}

/* The program reports by its errno that a port is taken. */
static void listener_of_a_taken_port_says_nothing(void **state)
{
	int log = memfd_create("log", MFD_CLOEXEC), kept = dup(STDERR_FILENO);

	(void)state;
	assert_return_code(dup2(log, STDERR_FILENO), errno);
	assert_int_equal(listener_of_a_taken_port(), -EADDRINUSE);
	dup2(kept, STDERR_FILENO);
	assert_int_equal(lseek(log, 0, SEEK_END), 0);
	close(kept);
	close(log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path_to_a_peer_says_so),
		cmocka_unit_test(connection_manager_says_so),
		cmocka_unit_test(iwarp_says_so),
		cmocka_unit_test(resolution_of_an_address_says_so),
		cmocka_unit_test(probe_of_a_peer_says_nothing),
		cmocka_unit_test(listener_of_a_taken_port_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
