/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnicd and its client together, in a network namespace of their own: leases and steering, other
 * holders of port 4791, and messages that no client of ours would send. test_agent_lives.c tests
 * starts and deaths.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/place.h"
#include "os/setting.h"
#include "support/urnicd.h"

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
	send_to_slot(&loopback, holder.slots[0] == 200 ? 201 : 200);
	send_to_slot(&loopback, 0);
	for (unsigned i = 0; i < 6000; i++) {
		assert_int_equal(agent_client_stat(&holder.client, &counters), 0);
		if (counters.datagrams_slot0 == 2)
			break;
		sleep_ms(10);
	}
	assert_int_equal(counters.datagrams_slot0, 2);
	holder_close(&holder);
}

/* The sockets on port 4791 of this network namespace. */
static unsigned sockets_open(void)
{
	FILE *table = fopen("/proc/thread-self/net/udp", "re");
	unsigned count = 0, port;
	char line[256];

	assert_non_null(table);
	while (fgets(line, sizeof(line), table))
		count += sscanf(line, " %*d: %*[0-9A-F]:%x", &port) == 1 && port == ROCE_UDP_PORT;
	fclose(table);
	return count;
}

static void all_slots_are_steered_whatever_their_order(void **state)
{
	static int fds[AGENT_SLOTS];
	struct agent_client client;
	uint8_t slots[AGENT_SLOTS];
	unsigned in_order = 0;

	(void)state;
	assert_int_equal(agent_client_connect(&client), 0);
	for (unsigned i = 1; i < AGENT_SLOTS; i++) {
		assert_int_equal(agent_client_attach(&client, -1, &slots[i]), 0);
		assert_int_equal(agent_client_open(&client, slots[i], &loopback, &fds[i]), 0);
		in_order += i > 1 && slots[i] == slots[i - 1] + 1;
	}
	assert_true(in_order < 20);
	assert_int_equal(sockets_open(), AGENT_SLOTS);
	for (unsigned i = 1; i < AGENT_SLOTS; i++) {
		send_to_slot(&loopback, slots[i]);
		assert_int_equal(read_all(fds[i], slots[i]), 1);
	}
	for (unsigned i = 1; i < AGENT_SLOTS; i++)
		assert_int_equal(read_all(fds[i], slots[i]), 0);
	for (unsigned i = 1; i < AGENT_SLOTS; i++)
		close(fds[i]);
	agent_client_done(&client);
}

static void sockets_are_as_many_as_slots_in_use_at_one_time(void **state)
{
	struct holder lasting;
	struct agent_client client;
	uint8_t slot;
	int fd;

	(void)state;
	holder_open(&lasting, 1, &loopback);
	assert_int_equal(agent_client_connect(&client), 0);
	for (unsigned i = 0; i < 600; i++) {
		assert_int_equal(agent_client_attach(&client, -1, &slot), 0);
		assert_int_equal(agent_client_open(&client, slot, &loopback, &fd), 0);
		send_to_slot(&loopback, slot);
		assert_int_equal(read_all(fd, slot), 1);
		close(fd);
		agent_client_detach(&client, slot);
	}
	assert_int_equal(sockets_open(), 4);
	assert_steers(&lasting, &loopback);
	agent_client_done(&client);
	holder_close(&lasting);
}

static void addresses_that_have_gone_leave_room_for_others(void **state)
{
	struct agent_address address = {.gid = {{[10] = 0xff, [11] = 0xff, 10, 7}}};
	struct holder lasting;
	struct agent_client client;
	uint8_t slot;
	int fd, rc;

	(void)state;
	holder_open(&lasting, 2, &loopback);
	assert_int_equal(agent_client_connect(&client), 0);
	for (unsigned i = 1; i <= 150; i++) {
		address.gid.raw[15] = (uint8_t)i;
		assert_int_equal(netns_run("ip addr add 10.7.0.%u/32 dev lo", i), 0);
		assert_int_equal(agent_client_attach(&client, -1, &slot), 0);
		rc = agent_client_open(&client, slot, &address, &fd);
		if (rc)
			print_error("%u: %s\n", i, client.why);
		assert_int_equal(rc, 0);
		close(fd);
		assert_int_equal(netns_run("ip addr del 10.7.0.%u/32 dev lo", i), 0);
		/* It is in use as long as a process has it. */
		if (i > 3)
			agent_client_detach(&client, slot);
	}
	assert_steers(&lasting, &loopback);
	/* The next urnicd finds what is left, and in no other order. */
	assert_int_equal(kill((pid_t)client.agent_pid, SIGKILL), 0);
	wait_for_hangup(&lasting.client);
	assert_int_equal(agent_client_resume(&lasting.client), 0);
	assert_steers(&lasting, &loopback);
	agent_client_done(&client);
	holder_close(&lasting);
}

/* Interfaces keep them. An address at which a program listens is in use. */
static void addresses_that_no_program_uses_leave_room_for_others(void **state)
{
	struct agent_address address = {.gid = {{[10] = 0xff, [11] = 0xff, 10, 8}}};
	const struct agent_address listens = {.gid = {{[10] = 0xff, [11] = 0xff, 10, 8, 1, 1}}};
	struct agent_client listener, client;
	struct agent_counters counters;
	uint64_t before;
	uint8_t slot;
	int fd, rc;

	(void)state;
	assert_int_equal(netns_run("ip addr add 10.8.1.1/32 dev lo"), 0);
	assert_int_equal(agent_client_connect(&listener), 0);
	assert_int_equal(agent_client_attach(&listener, -1, &slot), 0);
	assert_int_equal(agent_client_gsi_open(&listener, slot, &fd), 0);
	close(fd);
	assert_int_equal(agent_client_gsi_address(&listener, &listens), 0);
	assert_int_equal(agent_client_connect(&client), 0);
	for (unsigned i = 1; i <= 130; i++) {
		address.gid.raw[15] = (uint8_t)i;
		assert_int_equal(netns_run("ip addr add 10.8.0.%u/32 dev lo", i), 0);
		assert_int_equal(agent_client_attach(&client, -1, &slot), 0);
		rc = agent_client_open(&client, slot, &address, &fd);
		if (rc)
			print_error("%u: %s\n", i, client.why);
		assert_int_equal(rc, 0);
		close(fd);
		agent_client_detach(&client, slot);
	}
	assert_int_equal(agent_client_stat(&client, &counters), 0);
	before = counters.datagrams_slot0;
	send_to_slot(&listens, 0);
	for (unsigned i = 0; i < 6000 && counters.datagrams_slot0 == before; i++) {
		sleep_ms(10);
		assert_int_equal(agent_client_stat(&client, &counters), 0);
	}
	assert_int_equal(counters.datagrams_slot0, before + 1);
	agent_client_done(&client);
	agent_client_done(&listener);
	for (unsigned i = 1; i <= 130; i++)
		assert_int_equal(netns_run("ip addr del 10.8.0.%u/32 dev lo", i), 0);
	assert_int_equal(netns_run("ip addr del 10.8.1.1/32 dev lo"), 0);
}

static void all_addresses_in_use_is_said(void **state)
{
	struct agent_address address = loopback;
	struct agent_client client;
	uint8_t slot;
	int fd, rc;

	(void)state;
	assert_int_equal(agent_client_connect(&client), 0);
	assert_int_equal(agent_client_attach(&client, -1, &slot), 0);
	while ((rc = agent_client_open(&client, slot, &address, &fd)) == 0) {
		close(fd);
		address.gid.raw[15]++;
	}
	assert_int_equal(rc, -EUSERS);
	assert_non_null(strstr(client.why, "maximum of 64 addresses"));
	agent_client_done(&client);
}

/*
 * Runs in a process of its own, which has the privilege and then drops it. Returns 0, or the number
 * of the failed step.
 */
static int claim_low_ports(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	struct agent_claim claims[] = {
		{.service_id = 0x01060000 + 80}, {.service_id = 0x01060000 + 81}};
	struct agent_client client;

	if (agent_client_connect(&client) != 0 || agent_client_claim(&client, &claims[0]) != 0)
		return 1;
	if (syscall(SYS_capget, &header, data) != 0)
		return 2;
	data[0].effective &= ~(1u << CAP_NET_BIND_SERVICE);
	if (syscall(SYS_capset, &header, data) != 0)
		return 3;
	if (agent_client_claim(&client, &claims[1]) != -EACCES || !strstr(client.why, "port 81"))
		return 4;
	/* It may change its own claims, and every user may have ports from 1024 on. */
	claims[0].flags = AGENT_CLAIM_LISTENS;
	if (agent_client_claim(&client, &claims[0]) != 0)
		return 5;
	claims[1].service_id = 0x01060000 + 1024;
	return agent_client_claim(&client, &claims[1]) != 0 ? 6 : 0;
}

static void port_below_1024_takes_a_privilege(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0)
		_exit(claim_low_ports());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
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
	slot = slot == 1 ? 2 : 1;
	assert_int_equal(agent_client_open(&client, slot, &loopback, &fd), -EINVAL);
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
	assert_int_equal(opened, 12); /* of 4 sockets each, 48 being three quarters of 64 */
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
	head.slot = 1;
	while (head.slot == one.slots[0] || head.slot == two.slots[0])
		head.slot++;
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

static void missing_program_is_reported(void **state)
{
	const char *saved = getenv("URNIC_URNICD");
	struct agent_client client;
	char path[4096] = "";

	(void)state;
	if (saved)
		snprintf(path, sizeof(path), "%s", saved);
	setenv("URNIC_URNICD", "/nowhere/urnicd", 1);
	settings_read();
	assert_int_equal(agent_client_connect(&client), -ENOENT);
	assert_non_null(strstr(client.why, "URNIC_URNICD"));
	setenv("URNIC_URNICD", "/bin/false", 1);
	settings_read();
	assert_int_equal(agent_client_connect(&client), -ECANCELED);
	if (saved)
		setenv("URNIC_URNICD", path, 1);
	else
		unsetenv("URNIC_URNICD");
	settings_read();
}

/* An urnicd that answers one HELLO, as one of another version would. */
static void *answer_in_another_version(void *socket)
{
	struct agent_message message = {.version = 0};
	int fd = accept4(*(int *)socket, NULL, NULL, SOCK_CLOEXEC);

	assert_true(fd >= 0);
	assert_true(recv(fd, &message, sizeof(message), 0) >= AGENT_HEAD_BYTES);
	assert_int_equal(message.version, AGENT_VERSION);
	message.version = AGENT_VERSION + 1;
	assert_int_equal(send(fd, &message, sizeof(message), 0), sizeof(message));
	close(fd);
	return NULL;
}

/* It comes first: no other urnicd runs yet. */
static void urnicd_of_another_version_is_named(void **state)
{
	struct agent_client client;
	struct place_listener listener;
	char process[32];
	pthread_t thread;

	(void)state;
	assert_int_equal(place_listen(PLACE_URNICD, false, &listener), 0);
	assert_int_equal(fcntl(listener.socket, F_SETFL, 0), 0);
	assert_int_equal(
		pthread_create(&thread, NULL, answer_in_another_version, &listener.socket), 0);
	assert_int_equal(agent_client_connect(&client), -EPROTONOSUPPORT);
	snprintf(process, sizeof(process), "(process %d)", getpid());
	assert_non_null(strstr(client.why, process));
	assert_non_null(strstr(client.why, "another version"));
	pthread_join(thread, NULL);
	place_leave(&listener);
}

/* A connection that may send what it likes. */
static int hostile_connection(void)
{
	char path[PLACE_PATH_BYTES];
	int fd = place_connect(PLACE_URNICD, PLACE_OWN, WAIT_MS, path);

	assert_true(fd >= 0);
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
	assert_int_equal(recv(fd, &message, sizeof(message), 0), sizeof(message));
	assert_int_equal(message.version, AGENT_VERSION);
	assert_int_equal(message.status, EPROTONOSUPPORT);
	assert_cut(fd);
	/* Before a HELLO, and a second HELLO. */
	fd = hostile_connection();
	message =
		(struct agent_message){.version = AGENT_VERSION, .type = AGENT_STAT, .sequence = 1};
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
		message.type = (uint32_t)(1 + random() % 13);
		/* Packets are limited by their length, the rest by meaning. */
		send(fd, &message, random() % 8 ? sizeof(message) : (size_t)random() % 250,
			MSG_DONTWAIT | MSG_NOSIGNAL);
		close(fd);
	}
	assert_steers(&holder, &loopback);
	holder_close(&holder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(urnicd_of_another_version_is_named),
		TEST(fresh_client_starts_urnicd_and_gets_what_is_for_its_slots),
		TEST(ipv6_address_is_steered_too),
		TEST(two_processes_get_each_its_own),
		TEST(slot_beyond_the_sockets_goes_to_urnicd_itself),
		TEST(all_slots_are_steered_whatever_their_order),
		TEST(sockets_are_as_many_as_slots_in_use_at_one_time),
		TEST(addresses_that_have_gone_leave_room_for_others),
		TEST(addresses_that_no_program_uses_leave_room_for_others),
		TEST(all_addresses_in_use_is_said),
		TEST(port_below_1024_takes_a_privilege),
		TEST(foreign_socket_on_the_port_is_named),
		TEST(absent_address_is_refused_with_a_sentence),
		TEST(sockets_stay_below_what_other_programs_may_pass),
		TEST(forwarded_packet_reaches_the_owner_of_its_slot),
		TEST(listed_process_shows_its_slots_and_its_memory),
		TEST(missing_program_is_reported),
		TEST(malformed_messages_cut_the_connection_and_nothing_else),
		TEST(random_messages_do_not_hurt),
	};

	if (urnicd_prepare())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
