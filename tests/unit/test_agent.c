/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnicd and its client together, in a network namespace of their own: hand-out and steering,
 * deaths on either side, and what stands in the way of port 4791. Each test starts without an
 * urnicd.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arith.h"
#include "port/address.h"
#include "runtime/agent_client.h"
#include "runtime/agent_start.h"
#include "support/netns.h"
#include "wire/roce.h"

enum { SLOTS = 8, PACKETS = 1000, PACKET_BYTES = 64, WAIT_MS = 3000 };

static const struct agent_address loopback = {
	.gid = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}},
};
static const struct agent_address loopback_v6 = {.gid = {{[15] = 1}}};

static void sleep_ms(long ms)
{
	const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&pause, NULL);
}

static int is_running(void)
{
	struct agent_client client;

	if (agent_client_connect_running(&client) != 0)
		return 0;
	agent_client_done(&client);
	return 1;
}

/* urnicd has died: the client learns it from its connection. */
static void wait_for_hangup(struct agent_client *client)
{
	struct pollfd fd = {.fd = agent_client_fd(client), .events = POLLIN};
	struct agent_packet packet;

	assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
	assert_int_equal(agent_client_receive(client, &packet), -ECONNRESET);
}

static int end_urnicd(void **state)
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

static void holder_open(struct holder *holder, unsigned count, const struct agent_address *address)
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

static void holder_close(struct holder *holder)
{
	for (unsigned i = 0; i < holder->count; i++)
		close(holder->sockets[i]);
	agent_client_done(&holder->client);
}

static int sender_socket(
	const struct agent_address *address, union socket_address *to, socklen_t *to_bytes)
{
	int fd;

	*to_bytes = socket_address_make(to, &address->gid, 0, ROCE_UDP_PORT);
	fd = socket(to->base.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	return fd;
}

/* Send one packet for `slot` that says so in its last byte too. */
static void send_to_slot(const struct agent_address *address, uint8_t slot)
{
	uint8_t packet[PACKET_BYTES] = {[5] = slot, [PACKET_BYTES - 1] = slot};
	union socket_address to;
	socklen_t to_bytes;
	int fd = sender_socket(address, &to, &to_bytes);

	assert_int_equal(sendto(fd, packet, sizeof(packet), 0, &to.base, to_bytes), sizeof(packet));
	close(fd);
}

/* Read all packets of a slot's socket; each must be for it. Returns how many. */
static unsigned read_all(int fd, uint8_t slot)
{
	uint8_t packet[PACKET_BYTES];
	unsigned count = 0;

	while (recv(fd, packet, sizeof(packet), MSG_DONTWAIT) == (ssize_t)sizeof(packet)) {
		assert_int_equal(packet[5], slot);
		count++;
	}
	return count;
}

static void assert_steers(const struct holder *holder, const struct agent_address *address)
{
	unsigned received = 0;

	for (unsigned i = 0; i < PACKETS; i++) {
		send_to_slot(address, holder->slots[i % holder->count]);
		if (i % 50 == 49) {
			for (unsigned k = 0; k < holder->count; k++)
				received += read_all(holder->sockets[k], holder->slots[k]);
		}
	}
	assert_int_equal(received, PACKETS);
}

static void fresh_client_starts_urnicd_and_gets_what_is_for_its_slots(void **state)
{
	struct holder holder;

	(void)state;
	holder_open(&holder, SLOTS, &loopback);
	assert_steers(&holder, &loopback);
	holder_close(&holder);
}

static void ipv6_address_is_steered_too(void **state)
{
	struct holder holder;

	(void)state;
	holder_open(&holder, 3, &loopback_v6);
	assert_steers(&holder, &loopback_v6);
	holder_close(&holder);
}

static void two_processes_get_each_its_own(void **state)
{
	struct holder one, two;

	(void)state;
	holder_open(&one, 3, &loopback);
	holder_open(&two, 3, &loopback);
	assert_int_equal((pid_t)one.client.agent_pid, (pid_t)two.client.agent_pid);
	assert_steers(&one, &loopback);
	assert_steers(&two, &loopback);
	holder_close(&one);
	assert_steers(&two, &loopback);
	holder_close(&two);
}

static void slot_beyond_the_sockets_goes_to_urnicd_itself(void **state)
{
	struct agent_counters counters;
	struct holder holder;

	(void)state;
	holder_open(&holder, 1, &loopback);
	send_to_slot(&loopback, 200);
	send_to_slot(&loopback, 0);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(agent_client_stat(&holder.client, &counters), 0);
		if (counters.datagrams_slot0 == 2)
			break;
		sleep_ms(10);
	}
	assert_int_equal(counters.datagrams_slot0, 2);
	holder_close(&holder);
}

static void killed_urnicd_is_replaced_and_steering_stays_right(void **state)
{
	struct holder one, two, fresh;
	pid_t first;

	(void)state;
	holder_open(&one, 3, &loopback);
	holder_open(&two, 3, &loopback);
	first = (pid_t)one.client.agent_pid;
	/* A slot in the middle was free when urnicd died. */
	agent_client_detach(&one.client, one.slots[1]);
	close(one.sockets[1]);
	assert_int_equal(kill(first, SIGKILL), 0);
	wait_for_hangup(&one.client);
	assert_steers(&two, &loopback);
	assert_int_equal(agent_client_resume(&two.client), 0);
	assert_int_not_equal((pid_t)two.client.agent_pid, first);
	assert_steers(&two, &loopback);
	/* A newcomer must not get the slot of a survivor that is slow to come back. */
	holder_open(&fresh, 3, &loopback);
	for (unsigned i = 0; i < fresh.count; i++) {
		assert_int_not_equal(fresh.slots[i], one.slots[0]);
		assert_int_not_equal(fresh.slots[i], one.slots[2]);
	}
	assert_steers(&fresh, &loopback);
	assert_int_equal(agent_client_resume(&one.client), 0);
	for (unsigned i = 0; i < AGENT_SLOTS; i++)
		assert_false(agent_slots_has(&one.client.lost, (uint8_t)i));
	assert_int_equal(
		agent_client_open(&one.client, one.slots[0], &loopback_v6, &one.sockets[1]), 0);
	one.count = 1;
	assert_steers(&one, &loopback);
	close(one.sockets[1]);
	close(one.sockets[2]);
	holder_close(&one);
	holder_close(&two);
	holder_close(&fresh);
}

static void newcomer_after_the_kill_waits_for_the_survivor(void **state)
{
	struct holder survivor, fresh;
	int ready[2];
	pid_t child;
	int status;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		/* The survivor notices only when the newcomer's urnicd is already there. */
		holder_open(&survivor, 3, &loopback);
		if (write(ready[1], survivor.slots, 3) != 3)
			_exit(1);
		wait_for_hangup(&survivor.client);
		sleep_ms(300);
		if (agent_client_resume(&survivor.client) != 0)
			_exit(2);
		sleep_ms(500);
		assert_steers(&survivor, &loopback);
		_exit(0);
	}
	assert_int_equal(read(ready[0], survivor.slots, 3), 3);
	assert_int_equal(agent_client_connect_running(&fresh.client), 0);
	assert_int_equal(kill((pid_t)fresh.client.agent_pid, SIGKILL), 0);
	wait_for_hangup(&fresh.client);
	agent_client_done(&fresh.client);
	holder_open(&fresh, 2, &loopback);
	for (unsigned i = 0; i < fresh.count; i++) {
		for (unsigned k = 0; k < 3; k++)
			assert_int_not_equal(fresh.slots[i], survivor.slots[k]);
	}
	assert_steers(&fresh, &loopback);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	holder_close(&fresh);
	close(ready[0]);
	close(ready[1]);
}

static void request_that_meets_a_dead_urnicd_resumes_by_itself(void **state)
{
	struct holder holder;

	(void)state;
	holder_open(&holder, 2, &loopback);
	assert_int_equal(kill((pid_t)holder.client.agent_pid, SIGKILL), 0);
	wait_for_hangup(&holder.client);
	assert_int_equal(agent_client_attach(&holder.client, -1, &holder.slots[2]), 0);
	assert_int_equal(
		agent_client_open(&holder.client, holder.slots[2], &loopback, &holder.sockets[2]),
		0);
	holder.count = 3;
	assert_steers(&holder, &loopback);
	holder_close(&holder);
}

static void urnicd_killed_again_and_again_loses_nothing(void **state)
{
	struct holder holder;

	(void)state;
	holder_open(&holder, 4, &loopback);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(kill((pid_t)holder.client.agent_pid, SIGKILL), 0);
		wait_for_hangup(&holder.client);
		assert_int_equal(agent_client_resume(&holder.client), 0);
		assert_steers(&holder, &loopback);
	}
	holder_close(&holder);
}

/* How many slots all processes lease. */
static unsigned leased_slots(struct agent_client *client)
{
	struct agent_process process;
	uint32_t index = 0;
	unsigned count = 0;

	while (agent_client_list(client, &index, &process) == 0) {
		for (unsigned slot = 1; slot < AGENT_SLOTS; slot++)
			count += agent_slots_has(&process.slots, (uint8_t)slot);
		if (process.memory >= 0)
			close(process.memory);
	}
	return count;
}

static void killed_client_frees_its_slots_and_bars_their_sockets(void **state)
{
	struct holder holder, dead;
	int ready[2];
	pid_t child, grandchild;

	(void)state;
	holder_open(&holder, 1, &loopback);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		holder_open(&dead, 3, &loopback);
		/* A grandchild keeps the connection and the sockets open. */
		grandchild = fork();
		if (grandchild > 0 &&
			write(ready[1], &grandchild, sizeof(grandchild)) != sizeof(grandchild))
			_exit(1);
		pause();
	}
	assert_int_equal(read(ready[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	assert_int_equal(leased_slots(&holder.client), 4);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	for (unsigned i = 0; i < 100 && leased_slots(&holder.client) > 1; i++)
		sleep_ms(10);
	assert_int_equal(leased_slots(&holder.client), 1);
	assert_steers(&holder, &loopback);
	assert_int_equal(kill(grandchild, SIGKILL), 0);
	holder_close(&holder);
	close(ready[0]);
	close(ready[1]);
}

static void reused_slot_delivers_nothing_of_its_former_owner(void **state)
{
	struct agent_client client;
	uint8_t first = 0, slot = 0;
	int fd;

	(void)state;
	assert_int_equal(agent_client_connect(&client), 0);
	/* The slot that was given back comes last: after all the others. */
	for (unsigned i = 0; i < AGENT_SLOTS; i++) {
		assert_int_equal(agent_client_attach(&client, -1, &slot), 0);
		if (i == 0) {
			first = slot;
			assert_int_equal(agent_client_open(&client, slot, &loopback, &fd), 0);
		}
		if (i > 0 && i < AGENT_SLOTS - 1)
			assert_int_not_equal(slot, first);
		if (i == 0) {
			/* What is queued when the owner goes, and what comes after. */
			send_to_slot(&loopback, slot);
			agent_client_detach(&client, slot);
			close(fd);
			send_to_slot(&loopback, slot);
		}
	}
	assert_int_equal(slot, first);
	assert_int_equal(agent_client_attach(&client, -1, &slot), -ENOSPC);
	assert_non_null(strstr(client.why, "slots"));
	assert_int_equal(agent_client_open(&client, first, &loopback, &fd), 0);
	send_to_slot(&loopback, first);
	assert_int_equal(read_all(fd, first), 1);
	close(fd);
	agent_client_done(&client);
}

static void survivor_that_does_not_come_back_is_named(void **state)
{
	struct holder stopped;
	struct agent_client client;
	uint8_t slot;
	int fd;

	(void)state;
	holder_open(&stopped, 1, &loopback);
	assert_int_equal(kill((pid_t)stopped.client.agent_pid, SIGKILL), 0);
	wait_for_hangup(&stopped.client);
	assert_int_equal(agent_client_connect(&client), 0);
	assert_int_equal(agent_client_attach(&client, -1, &slot), 0);
	assert_int_equal(agent_client_open(&client, slot, &loopback, &fd), -EADDRINUSE);
	assert_non_null(strstr(client.why, "stopped"));
	/* Its socket was in use all the time. */
	send_to_slot(&loopback, stopped.slots[0]);
	assert_int_equal(read_all(stopped.sockets[0], stopped.slots[0]), 1);
	agent_client_done(&client);
	holder_close(&stopped);
}

static void foreign_socket_on_the_port_is_named(void **state)
{
	struct agent_client client;
	union socket_address address;
	socklen_t bytes = socket_address_make(&address, &loopback.gid, 0, ROCE_UDP_PORT);
	int squatter = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char process[32];
	uint8_t slot;
	int fd;

	(void)state;
	assert_int_equal(bind(squatter, &address.base, bytes), 0);
	assert_int_equal(agent_client_connect(&client), 0);
	assert_int_equal(agent_client_attach(&client, -1, &slot), 0);
	assert_int_equal(agent_client_open(&client, slot, &loopback, &fd), -EADDRINUSE);
	snprintf(process, sizeof(process), "process %d", getpid());
	assert_non_null(strstr(client.why, process));
	assert_non_null(strstr(client.why, "127.0.0.1"));
	close(squatter);
	assert_int_equal(agent_client_open(&client, slot, &loopback, &fd), 0);
	close(fd);
	agent_client_done(&client);
}

static void absent_address_is_refused_with_a_sentence(void **state)
{
	const struct agent_address absent = {.gid = {{[10] = 0xff, [11] = 0xff, 192, 0, 2, 1}}};
	struct agent_client client;
	uint8_t slot;
	int fd;

	(void)state;
	assert_int_equal(agent_client_connect(&client), 0);
	assert_int_equal(agent_client_attach(&client, -1, &slot), 0);
	assert_int_equal(agent_client_open(&client, slot, &absent, &fd), -EADDRNOTAVAIL);
	assert_non_null(strstr(client.why, "192.0.2.1"));
	assert_int_equal(agent_client_open(&client, (uint8_t)(slot + 1), &loopback, &fd), -EINVAL);
	agent_client_done(&client);
}

static void sockets_stay_below_what_other_programs_may_pass(void **state)
{
	struct rlimit saved, files;
	struct agent_client client;
	struct agent_address address = loopback;
	unsigned opened = 0;
	uint8_t slot;
	int fd, rc;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
	files = saved;
	files.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	assert_int_equal(agent_client_connect(&client), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
	assert_int_equal(agent_client_attach(&client, -1, &slot), 0);
	while ((rc = agent_client_open(&client, slot, &address, &fd)) == 0) {
		close(fd);
		address.gid.raw[15]++;
		opened++;
	}
	assert_int_equal(rc, -ENOSPC);
	assert_int_equal(opened, 3); /* of 16 sockets each, 48 being three quarters of 64 */
	assert_non_null(strstr(client.why, "limit"));
	agent_client_done(&client);
}

static void forwarded_packet_reaches_the_owner_of_its_slot(void **state)
{
	struct agent_forward head = {
		.sgid = loopback.gid, .source_port = 0xc001, .tos = 3, .data_bytes = 20};
	const uint8_t data[20] = {1, 2, 3, [19] = 9};
	struct holder one, two;
	struct agent_packet packet;
	struct agent_counters counters;
	struct pollfd fd;

	(void)state;
	holder_open(&one, 1, &loopback);
	holder_open(&two, 1, &loopback);
	head.slot = two.slots[0];
	assert_int_equal(agent_client_forward(&one.client, &head, data), 0);
	fd = (struct pollfd){.fd = agent_client_fd(&two.client), .events = POLLIN};
	assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
	assert_int_equal(agent_client_receive(&two.client, &packet), 0);
	assert_memory_equal(&packet.head, &head, sizeof(head));
	assert_memory_equal(packet.data, data, sizeof(data));
	assert_int_equal(agent_client_receive(&two.client, &packet), -EAGAIN);
	head.slot = 99;
	assert_int_equal(agent_client_forward(&one.client, &head, data), 0);
	assert_int_equal(agent_client_stat(&one.client, &counters), 0);
	assert_int_equal(counters.packets_forwarded, 1);
	assert_int_equal(counters.packets_unowned, 1);
	holder_close(&one);
	holder_close(&two);
}

static void listed_process_shows_its_slots_and_its_memory(void **state)
{
	struct agent_client client, looker;
	struct agent_process process;
	int memory = memfd_create("nic", MFD_CLOEXEC);
	uint32_t index = 0;
	bool is_found = false;
	uint8_t slot;

	(void)state;
	assert_int_equal(ftruncate(memory, 12345), 0);
	assert_int_equal(agent_client_connect(&client), 0);
	assert_int_equal(agent_client_attach(&client, memory, &slot), 0);
	assert_int_equal(kill((pid_t)client.agent_pid, SIGKILL), 0);
	wait_for_hangup(&client);
	assert_int_equal(agent_client_resume(&client), 0);
	assert_int_equal(agent_client_connect_running(&looker), 0);
	while (agent_client_list(&looker, &index, &process) == 0) {
		if (!agent_slots_has(&process.slots, slot))
			continue;
		is_found = true;
		assert_int_equal(process.pid, getpid());
		assert_int_equal(process.uid, geteuid());
		assert_true(strlen(process.comm) > 0);
		assert_int_equal(lseek(process.memory, 0, SEEK_END), 12345);
		close(process.memory);
	}
	assert_true(is_found);
	agent_client_done(&looker);
	agent_client_done(&client);
	close(memory);
}

static void racing_first_clients_share_one_urnicd(void **state)
{
	enum { RACERS = 6 };
	pid_t served_by[RACERS];
	int results[2];

	(void)state;
	assert_int_equal(pipe(results), 0);
	for (unsigned i = 0; i < RACERS; i++) {
		if (fork() == 0) {
			struct holder holder;
			pid_t pid;

			holder_open(&holder, 2, &loopback);
			pid = (pid_t)holder.client.agent_pid;
			sleep_ms(500);
			_exit(write(results[1], &pid, sizeof(pid)) != sizeof(pid));
		}
	}
	for (unsigned i = 0; i < RACERS; i++) {
		int status;

		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
		assert_int_equal(read(results[0], &served_by[i], sizeof(pid_t)), sizeof(pid_t));
		assert_int_equal(served_by[i], served_by[0]);
	}
	close(results[0]);
	close(results[1]);
}

static unsigned child_signals;

static void on_child(int signal_number)
{
	(void)signal_number;
	child_signals++;
}

static void starting_urnicd_leaves_no_trace_in_the_program(void **state)
{
	struct agent_client client;

	(void)state;
	signal(SIGCHLD, on_child);
	child_signals = 0;
	assert_int_equal(agent_client_connect(&client), 0);
	assert_int_equal(child_signals, 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	signal(SIGCHLD, SIG_DFL);
	agent_client_done(&client);
}

static void missing_program_is_reported(void **state)
{
	const char *saved = getenv("URNIC_URNICD");
	struct agent_client client;
	char path[4096] = "";

	(void)state;
	if (saved)
		snprintf(path, sizeof(path), "%s", saved);
	setenv("URNIC_URNICD", "/nowhere/urnicd", 1);
	assert_int_equal(agent_client_connect(&client), -ENOENT);
	assert_non_null(strstr(client.why, "URNIC_URNICD"));
	setenv("URNIC_URNICD", "/bin/false", 1);
	assert_int_equal(agent_client_connect(&client), -ECANCELED);
	if (saved)
		setenv("URNIC_URNICD", path, 1);
	else
		unsetenv("URNIC_URNICD");
}

/* A connection that may send what it likes. */
static int hostile_connection(void)
{
	struct sockaddr_un address;
	socklen_t bytes = agent_socket_name(&address, geteuid());
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&address, bytes), 0);
	return fd;
}

static void assert_cut(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	struct agent_message message;

	for (;;) {
		assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
		if (recv(fd, &message, sizeof(message), MSG_DONTWAIT) <= 0)
			break;
	}
	close(fd);
}

static void malformed_messages_cut_the_connection_and_nothing_else(void **state)
{
	struct agent_message message = {
		.version = AGENT_VERSION, .type = AGENT_HELLO, .sequence = 1};
	struct holder holder;
	int fds[2] = {0, 1};
	int fd;

	(void)state;
	holder_open(&holder, 2, &loopback);
	fd = hostile_connection();
	assert_int_equal(send(fd, "x", 1, 0), 1);
	assert_cut(fd);
	fd = hostile_connection();
	message.version = 77;
	assert_int_equal(agent_message_send(fd, &message, NULL, NULL, 0, 0), 0);
	assert_cut(fd);
	/* Before a HELLO, and a second HELLO. */
	fd = hostile_connection();
	message.version = AGENT_VERSION;
	message.type = AGENT_STAT;
	assert_int_equal(agent_message_send(fd, &message, NULL, NULL, 0, 0), 0);
	assert_cut(fd);
	fd = hostile_connection();
	message.type = AGENT_HELLO;
	assert_int_equal(agent_message_send(fd, &message, NULL, NULL, 0, 0), 0);
	assert_int_equal(agent_message_send(fd, &message, NULL, NULL, 0, 0), 0);
	assert_cut(fd);
	/* Descriptors where none belong, a slot out of range, a type that is none. */
	fd = hostile_connection();
	assert_int_equal(agent_message_send(fd, &message, NULL, fds, 2, 0), 0);
	assert_cut(fd);
	fd = hostile_connection();
	assert_int_equal(agent_message_send(fd, &message, NULL, NULL, 0, 0), 0);
	message.type = AGENT_DETACH;
	message.detach.slot = 256;
	assert_int_equal(agent_message_send(fd, &message, NULL, NULL, 0, 0), 0);
	assert_cut(fd);
	fd = hostile_connection();
	message.type = 1000;
	assert_int_equal(agent_message_send(fd, &message, NULL, NULL, 0, 0), 0);
	assert_cut(fd);
	assert_steers(&holder, &loopback);
	holder_close(&holder);
}

static void random_messages_do_not_hurt(void **state)
{
	struct holder holder;

	(void)state;
	holder_open(&holder, 2, &loopback);
	srandom(1);
	for (unsigned round = 0; round < 3000; round++) {
		struct agent_message message;
		int fd = hostile_connection();

		for (size_t i = 0; i < sizeof(message); i++)
			((uint8_t *)&message)[i] = (uint8_t)(random() % 4 ? 0 : random());
		message = (struct agent_message){.version = AGENT_VERSION, .type = AGENT_HELLO};
		agent_message_send(fd, &message, NULL, NULL, 0, MSG_DONTWAIT);
		for (size_t i = 16; i < sizeof(message); i++)
			((uint8_t *)&message)[i] = (uint8_t)(random() % 4 ? 0 : random());
		message.type = (uint32_t)(1 + random() % 8);
		/* Packets are limited by their length, the rest by meaning. */
		send(fd, &message, random() % 8 ? sizeof(message) : (size_t)random() % 250,
			MSG_DONTWAIT | MSG_NOSIGNAL);
		close(fd);
	}
	assert_steers(&holder, &loopback);
	holder_close(&holder);
}

/* Run `body` as another user. Returns its exit status. */
static int run_as(uid_t uid, int (*body)(void))
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(setresuid(uid, uid, uid) == 0 ? body() : 99);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

/* An ordinary user's program, while the system's urnicd dies and is replaced. */
static int use_system_urnicd(void)
{
	struct agent_process process;
	struct holder holder;
	uint32_t index = 0;

	holder_open(&holder, 3, &loopback);
	assert_int_equal(holder.client.bag, -1);
	assert_steers(&holder, &loopback);
	while (agent_client_list(&holder.client, &index, &process) == 0)
		assert_int_equal(process.memory, -1);
	/* To be killed by root. */
	if (write(STDOUT_FILENO, &holder.client.agent_pid, sizeof(uint32_t)) != sizeof(uint32_t))
		return 1;
	wait_for_hangup(&holder.client);
	if (agent_client_resume(&holder.client) != 0)
		return 2;
	assert_steers(&holder, &loopback);
	for (unsigned i = 0; i < holder.count; i++) {
		if (!agent_slots_has(&holder.client.slots, holder.slots[i]))
			return 3;
	}
	holder_close(&holder);
	return 0;
}

/* Another user gets neither the first one's slots nor what is sent to them. */
static int claim_slots_of_others(void)
{
	struct agent_client client;

	if (agent_client_connect(&client) != 0)
		return 1;
	for (unsigned slot = 1; slot <= 3; slot++)
		agent_slots_add(&client.slots, (uint8_t)slot);
	if (agent_client_resume(&client) != 0)
		return 2;
	for (unsigned slot = 1; slot <= 3; slot++) {
		if (!agent_slots_has(&client.lost, (uint8_t)slot))
			return 3;
	}
	agent_client_done(&client);
	return 0;
}

static void system_urnicd_serves_users_apart_and_outlives_its_server(void **state)
{
	char path[4096];
	int channel[2];
	uint32_t server;
	pid_t keeper, user;
	int status;

	(void)state;
	if (run_as(65534, is_running) == 99)
		skip(); /* not root, or only in a user namespace of one user */
	assert_int_equal(agent_find(path, sizeof(path)), 0);
	keeper = fork();
	if (keeper == 0) {
		execl(path, path, "--system", "--foreground", (char *)NULL);
		_exit(1);
	}
	for (unsigned i = 0; i < 100 && !is_running(); i++)
		sleep_ms(20);
	assert_int_equal(pipe(channel), 0);
	user = fork();
	if (user == 0) {
		dup2(channel[1], STDOUT_FILENO);
		_exit(run_as(65534, use_system_urnicd));
	}
	assert_int_equal(read(channel[0], &server, sizeof(server)), sizeof(server));
	assert_int_equal(kill((pid_t)server, SIGKILL), 0);
	assert_int_equal(waitpid(user, &status, 0), user);
	assert_int_equal(status, 0);
	assert_int_equal(run_as(65533, claim_slots_of_others), 0);
	assert_int_equal(kill(keeper, SIGTERM), 0);
	assert_int_equal(waitpid(keeper, &status, 0), keeper);
	assert_int_equal(status, 0);
	close(channel[0]);
	close(channel[1]);
}

static void idle_urnicd_leaves_and_frees_the_port(void **state)
{
	struct holder holder;
	union socket_address address;
	socklen_t bytes = socket_address_make(&address, &loopback.gid, 0, ROCE_UDP_PORT);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)state;
	holder_open(&holder, 1, &loopback);
	holder_close(&holder);
	/* Its idle time is a second, which looking begins anew. */
	for (unsigned i = 0; i < 20 && is_running(); i++)
		sleep_ms(1500);
	assert_int_equal(bind(fd, &address.base, bytes), 0);
	close(fd);
}

#define TEST(name) cmocka_unit_test_teardown(name, end_urnicd)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fresh_client_starts_urnicd_and_gets_what_is_for_its_slots),
		TEST(ipv6_address_is_steered_too),
		TEST(two_processes_get_each_its_own),
		TEST(slot_beyond_the_sockets_goes_to_urnicd_itself),
		TEST(killed_urnicd_is_replaced_and_steering_stays_right),
		TEST(newcomer_after_the_kill_waits_for_the_survivor),
		TEST(request_that_meets_a_dead_urnicd_resumes_by_itself),
		TEST(urnicd_killed_again_and_again_loses_nothing),
		TEST(killed_client_frees_its_slots_and_bars_their_sockets),
		TEST(reused_slot_delivers_nothing_of_its_former_owner),
		TEST(survivor_that_does_not_come_back_is_named),
		TEST(foreign_socket_on_the_port_is_named),
		TEST(absent_address_is_refused_with_a_sentence),
		TEST(sockets_stay_below_what_other_programs_may_pass),
		TEST(forwarded_packet_reaches_the_owner_of_its_slot),
		TEST(listed_process_shows_its_slots_and_its_memory),
		TEST(racing_first_clients_share_one_urnicd),
		TEST(starting_urnicd_leaves_no_trace_in_the_program),
		TEST(missing_program_is_reported),
		TEST(malformed_messages_cut_the_connection_and_nothing_else),
		TEST(random_messages_do_not_hurt),
		TEST(system_urnicd_serves_users_apart_and_outlives_its_server),
		TEST(idle_urnicd_leaves_and_frees_the_port),
	};
	char path[4096];

	setenv("URNICD_IDLE_S", "1", 1);
	if (agent_find(path, sizeof(path)) != 0) {
		printf("skipped: the program urnicd is not built\n");
		return 77;
	}
	if (netns_enter_new() < 0)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
