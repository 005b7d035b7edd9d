/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lives and deaths of urnicd and its clients, in a network namespace of their own. Each test starts
 * without an urnicd.
 */
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cm/cm.h"
#include "segment/nic_public.h"
#include "support/urnicd.h"

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
		while (!is_running())
			sleep_ms(10);
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

/* A client that leaves one last message: a disconnect, to be said to the loopback's QP1. */
static void connect_with_last_message(struct agent_client *client)
{
	const struct nic_public public = {
		.magic = NIC_PUBLIC_MAGIC,
		.version = NIC_PUBLIC_VERSION,
		.last_messages_offset = NIC_PUBLIC_OFFSET + sizeof(public),
	};
	struct cm_last_message last_message = {
		.attribute = CM_DREQ,
		.remote_comm_id = 1,
		.local = loopback.gid,
		.remote = loopback.gid,
	};
	int memory = memfd_create("test", MFD_CLOEXEC);
	uint8_t slot;

	assert_int_equal(agent_client_connect(client), 0);
	assert_int_equal(ftruncate(memory,
				 (off_t)(public.last_messages_offset +
					 CM_LAST_MESSAGES_MAX * sizeof(last_message))),
		0);
	assert_int_equal(agent_client_attach(client, memory, &slot), 0);
	last_message.local_comm_id = (uint32_t)slot << 24 | 1;
	assert_int_equal(
		pwrite(memory, &public, sizeof(public), NIC_PUBLIC_OFFSET), sizeof(public));
	assert_int_equal(pwrite(memory, &last_message, sizeof(last_message),
				 (off_t) public.last_messages_offset),
		sizeof(last_message));
	close(memory);
}

static uint64_t last_messages_executed(struct agent_client *client)
{
	struct agent_counters counters;

	assert_int_equal(agent_client_stat(client, &counters), 0);
	return counters.gsi_last_messages;
}

static void last_message_is_executed_when_its_process_has_ended(void **state)
{
	struct agent_client cut_off, ended;
	struct holder holder;

	(void)state;
	holder_open(&holder, 1, &loopback);
	connect_with_last_message(&cut_off);
	assert_int_equal(send(cut_off.fd, "?", 1, 0), 1);
	wait_for_hangup(&cut_off);
	assert_int_equal(last_messages_executed(&holder.client), 0);
	agent_client_done(&cut_off);
	connect_with_last_message(&ended);
	agent_client_done(&ended);
	assert_int_equal(last_messages_executed(&holder.client), 1);
	holder_close(&holder);
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
	for (unsigned i = 0; i < 6000 && leased_slots(&holder.client) > 1; i++)
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
	/* The returned slot is leased last, after all others. */
	for (unsigned i = 0; i < AGENT_SLOTS; i++) {
		assert_int_equal(agent_client_attach(&client, -1, &slot), 0);
		if (i == 0) {
			first = slot;
			assert_int_equal(agent_client_open(&client, slot, &loopback, &fd), 0);
		}
		if (i > 0 && i < AGENT_SLOTS - 1)
			assert_int_not_equal(slot, first);
		if (i == 0) {
			/* Packets that are queued when the owner ends, and later ones. */
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

static bool low_ports_drop(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) != 0)
		return false;
	data[0].effective &= ~(1u << CAP_NET_BIND_SERVICE);
	return syscall(SYS_capset, &header, data) == 0;
}

/*
 * Runs in a process of its own, which survives urnicd and has no privilege then. Returns 0, or the
 * number of the failed step.
 */
static int survive(bool has_low_port)
{
	static struct agent_claim claims[] = {
		{.service_id = 0x01060000 + 80}, {.service_id = 0x01060000 + 81}};
	struct agent_client client;
	uint8_t slot;

	if (agent_client_connect(&client) != 0 || agent_client_attach(&client, -1, &slot) != 0)
		return 1;
	if (has_low_port && agent_client_claim(&client, &claims[0]) != 0)
		return 2;
	if (!low_ports_drop() || kill((pid_t)client.agent_pid, SIGKILL) != 0)
		return 3;
	wait_for_hangup(&client);
	if (agent_client_resume(&client) != 0 || !agent_slots_has(&client.slots, slot))
		return 4;
	if (!has_low_port)
		return agent_client_claim(&client, &claims[1]) != -EACCES ? 5 : 0;
	claims[0].flags = AGENT_CLAIM_LISTENS;
	return agent_client_claim(&client, &claims[0]) != 0 ? 6 : 0;
}

static void survivor_has_low_ports_only_if_it_had_some(void **state)
{
	(void)state;
	for (int has_low_port = 0; has_low_port < 2; has_low_port++) {
		pid_t child = fork();
		int status;

		if (child == 0)
			_exit(survive(has_low_port));
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
}

/*
 * Kill urnicd, let `newcomer` make the next one lease all slots and the port of `taken` to it, and
 * resume `client`. Returns in `text` what was logged meanwhile.
 */
static void newcomer_takes_all(struct agent_client *client, struct agent_client *newcomer,
	struct agent_claim *taken, char *text, size_t bytes_max)
{
	int log = memfd_create("log", MFD_CLOEXEC), real_stderr = dup(STDERR_FILENO);
	uint8_t slot;
	ssize_t bytes;
	int rc;

	assert_int_equal(kill((pid_t)client->agent_pid, SIGKILL), 0);
	wait_for_hangup(client);
	assert_int_equal(agent_client_connect(newcomer), 0);
	for (unsigned i = 1; i < AGENT_SLOTS; i++)
		assert_int_equal(agent_client_attach(newcomer, -1, &slot), 0);
	assert_int_equal(agent_client_claim(newcomer, taken), 0);
	dup2(log, STDERR_FILENO);
	rc = agent_client_resume(client);
	dup2(real_stderr, STDERR_FILENO);
	assert_int_equal(rc, 0);
	bytes = pread(log, text, bytes_max - 1, 0);
	text[bytes > 0 ? bytes : 0] = 0;
	close(log);
	close(real_stderr);
}

static void slot_and_port_that_another_process_has_now_are_reported(void **state)
{
	static struct agent_claim claims[] = {
		{.service_id = 0x01060000 + 7000, .flags = AGENT_CLAIM_LISTENS},
		{.service_id = 0x01060000 + 7001, .flags = AGENT_CLAIM_LISTENS}};
	static struct agent_claim taken = {.service_id = 0x01060000 + 7000};
	struct agent_client client, newcomer;
	char text[1024], expected[64];
	uint8_t slot;

	(void)state;
	assert_int_equal(agent_client_connect(&client), 0);
	assert_int_equal(agent_client_attach(&client, -1, &slot), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(agent_client_claim(&client, &claims[i]), 0);
	newcomer_takes_all(&client, &newcomer, &taken, text, sizeof(text));
	assert_true(agent_slots_has(&client.lost, slot));
	snprintf(expected, sizeof(expected), "slot %u of this process", slot);
	assert_non_null(strstr(text, expected));
	assert_non_null(strstr(text, "port 7000 of rdma_cm"));
	assert_null(strstr(text, "port 7001"));
	agent_client_done(&client);
	agent_client_done(&newcomer);
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

static void racing_first_clients_share_one_urnicd(void **state)
{
	enum { RACERS = 6 };
	pid_t served_by[RACERS];
	int results[2], all_served[2];

	(void)state;
	assert_int_equal(pipe(results), 0);
	assert_int_equal(pipe(all_served), 0);
	for (unsigned i = 0; i < RACERS; i++) {
		if (fork() == 0) {
			struct holder holder;
			pid_t pid;

			close(results[0]);
			close(all_served[1]);
			holder_open(&holder, 2, &loopback);
			pid = (pid_t)holder.client.agent_pid;
			if (write(results[1], &pid, sizeof(pid)) != sizeof(pid))
				_exit(1);
			close(results[1]);
			_exit(read(all_served[0], &pid, 1) != 0);
		}
	}
	/* No racer ends before the last one is served; a racer that fails ends at once. */
	close(results[1]);
	close(all_served[0]);
	for (unsigned i = 0; i < RACERS; i++) {
		assert_int_equal(read(results[0], &served_by[i], sizeof(pid_t)), sizeof(pid_t));
		assert_int_equal(served_by[i], served_by[0]);
	}
	close(all_served[1]);
	for (unsigned i = 0; i < RACERS; i++) {
		int status;

		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	close(results[0]);
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
	assert_int_equal(holder.client.fd_store, -1);
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
	for (unsigned i = 0; i < 3000 && !is_running(); i++)
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
	/* Its idle time is a second, which looking begins anew: look ever more rarely. */
	for (unsigned i = 1; i <= 10 && is_running(); i++)
		sleep_ms(1500 * (long)i);
	assert_int_equal(bind(fd, &address.base, bytes), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(killed_urnicd_is_replaced_and_steering_stays_right),
		TEST(newcomer_after_the_kill_waits_for_the_survivor),
		TEST(request_that_meets_a_dead_urnicd_resumes_by_itself),
		TEST(urnicd_killed_again_and_again_loses_nothing),
		TEST(last_message_is_executed_when_its_process_has_ended),
		TEST(killed_client_frees_its_slots_and_bars_their_sockets),
		TEST(reused_slot_delivers_nothing_of_its_former_owner),
		TEST(survivor_has_low_ports_only_if_it_had_some),
		TEST(slot_and_port_that_another_process_has_now_are_reported),
		TEST(survivor_that_does_not_come_back_is_named),
		TEST(racing_first_clients_share_one_urnicd),
		TEST(starting_urnicd_leaves_no_trace_in_the_program),
		TEST(system_urnicd_serves_users_apart_and_outlives_its_server),
		TEST(idle_urnicd_leaves_and_frees_the_port),
	};

	if (urnicd_prepare())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
