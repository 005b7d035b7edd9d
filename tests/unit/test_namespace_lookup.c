/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lookup of an urnicd in another network namespace: which users may look up what, and that
 * hostile listeners and clients achieve nothing. Runs in network namespaces and with a /run of its
 * own.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "agent/namespace_lookup.h"
#include "agent/place.h"
#include "os/setting.h"
#include "support/urnicd.h"

#define DIRECTORY "/run/urnic"

static const struct gid absent = {{[10] = 0xff, [11] = 0xff, 192, 0, 2, 1}};

static int here, there; /* network namespaces; tests begin and end here */
static int memory; /* NIC memory of the process there */

/* What namespace_lookup() says. */
struct answers {
	unsigned count;
	struct agent_process last; /* its memory is that of `bytes` */
	off_t memory_bytes; /* -1: none */
	bool is_content;
};

static bool visit(void *context, const struct agent_process *process)
{
	struct answers *answers = context;

	answers->count++;
	answers->last = *process;
	answers->memory_bytes = process->memory < 0 ? -1 : lseek(process->memory, 0, SEEK_END);
	return answers->is_content;
}

static struct answers ask(uint8_t slot, const struct gid *gid)
{
	const struct namespace_id own = namespace_id_own();
	struct answers answers = {0};

	namespace_lookup(&own, slot, gid, visit, &answers);
	return answers;
}

static unsigned count_entries(const char *path)
{
	DIR *entries = opendir(path);
	const struct dirent *entry;
	unsigned count = 0;

	while (entries && (entry = readdir(entries)))
		count += entry->d_name[0] != '.';
	if (entries)
		closedir(entries);
	return count;
}

static void there_path(char *ret_path, size_t bytes)
{
	uint64_t netns;

	netns_switch(there);
	assert_int_equal(place_netns(&netns), 0);
	netns_switch(here);
	snprintf(ret_path, bytes, DIRECTORY "/net-%llx", (unsigned long long)netns);
}

/* A process there with a slot and NIC memory of 4321 bytes. */
static uint8_t process_open(struct agent_client *client)
{
	uint8_t slot;

	memory = memfd_create("nic", MFD_CLOEXEC);
	assert_int_equal(ftruncate(memory, 4321), 0);
	netns_switch(there);
	assert_int_equal(agent_client_connect(client), 0);
	assert_int_equal(agent_client_attach(client, memory, &slot), 0);
	netns_switch(here);
	return slot;
}

/* Kill urnicd and wait until all its sockets are closed. */
static void urnicd_kill(struct agent_client *client)
{
	int fd = (int)syscall(SYS_pidfd_open, client->agent_pid, 0);
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	assert_int_equal(kill((pid_t)client->agent_pid, SIGKILL), 0);
	assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
	close(fd);
	wait_for_hangup(client);
}

static void process_close(struct agent_client *client)
{
	urnicd_kill(client);
	agent_client_done(client);
	close(memory);
}

static void process_is_found_by_slot_and_address(void **state)
{
	struct agent_client client;
	struct answers answers;
	uint8_t slot = process_open(&client);

	(void)state;
	answers = ask(slot, &loopback.gid);
	assert_int_equal(answers.count, 1);
	assert_int_equal(answers.last.pid, getpid());
	assert_int_equal(answers.last.uid, geteuid());
	assert_int_equal(answers.memory_bytes, 4321);
	assert_int_equal(ask((uint8_t)(slot + 1), &loopback.gid).count, 0);
	assert_int_equal(ask(slot, &absent).count, 0);
	/* Who is there finds it by the other way. */
	netns_switch(there);
	assert_int_equal(ask(slot, &loopback.gid).count, 0);
	netns_switch(here);
	process_close(&client);
	assert_int_equal(ask(slot, &loopback.gid).count, 0);
}

static void link_local_address_is_found_on_any_interface(void **state)
{
	const struct gid link_local = {{0xfe, 0x80, [14] = 9, 9}};
	struct agent_client client;
	uint8_t slot = process_open(&client);

	(void)state;
	assert_int_equal(ask(slot, &link_local).count, 0);
	netns_switch(there);
	assert_int_equal(netns_run("ip addr add fe80::909/64 dev lo nodad"), 0);
	netns_await("fe80::909");
	netns_switch(here);
	assert_int_equal(ask(slot, &link_local).count, 1);
	process_close(&client);
}

static void other_host_identity_is_another_host(void **state)
{
	struct agent_client client;
	uint8_t slot = process_open(&client);

	(void)state;
	setenv("URNIC_HOST_ID", "another", 1);
	settings_read();
	assert_int_equal(ask(slot, &loopback.gid).count, 0);
	process_close(&client);
	slot = process_open(&client);
	assert_int_equal(ask(slot, &loopback.gid).count, 1);
	setenv("URNIC_HOST_ID", "anothes", 1);
	settings_read();
	assert_int_equal(ask(slot, &loopback.gid).count, 0);
	unsetenv("URNIC_HOST_ID");
	settings_read();
	assert_int_equal(ask(slot, &loopback.gid).count, 0);
	process_close(&client);
}

static void survivor_of_a_killed_urnicd_is_found_again(void **state)
{
	struct agent_client client;
	uint8_t slot = process_open(&client);

	(void)state;
	urnicd_kill(&client);
	assert_int_equal(ask(slot, &loopback.gid).count, 0);
	netns_switch(there);
	assert_int_equal(agent_client_resume(&client), 0);
	netns_switch(here);
	assert_int_equal(ask(slot, &loopback.gid).count, 1);
	process_close(&client);
}

/* --- who comes, and asks for more --- */

static int foreign_connection(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	there_path(address.sun_path, sizeof(address.sun_path));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* Is it cut, or answered? */
static bool is_cut(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	struct agent_message message;
	bool is_over;

	assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
	is_over = recv(fd, &message, sizeof(message), MSG_DONTWAIT) <= 0;
	close(fd);
	return is_over;
}

static bool is_request_cut(const struct agent_message *request, const int *fds, uint32_t fd_count)
{
	int fd = foreign_connection();

	assert_int_equal(agent_message_send(fd, request, NULL, fds, fd_count, 0), 0);
	return is_cut(fd);
}

static void foreigner_may_ask_for_processes_and_nothing_else(void **state)
{
	struct agent_client client;
	uint8_t slot = process_open(&client);
	const struct agent_message find = {
		.version = AGENT_VERSION,
		.type = AGENT_FIND,
		.find = {.gid = loopback.gid, .slot = slot},
	};
	struct agent_message message = {.version = AGENT_VERSION};
	struct agent_counters counters;
	int fd;

	(void)state;
	assert_false(is_request_cut(&find, NULL, 0));
#define AGENT_MESSAGE(NAME, name, number, descriptors, sentence)         \
	message.type = AGENT_##NAME;                                     \
	if (message.type != AGENT_FIND && message.type != AGENT_FORWARD) \
		assert_true(is_request_cut(&message, NULL, 0));
#include "agent/agent_messages.def"
#undef AGENT_MESSAGE
	message = find;
	message.find.slot = 0;
	assert_true(is_request_cut(&message, NULL, 0));
	message.find.slot = AGENT_SLOTS;
	assert_true(is_request_cut(&message, NULL, 0));
	message = find;
	message.status = 1;
	assert_true(is_request_cut(&message, NULL, 0));
	assert_true(is_request_cut(&find, (const int[]){0}, 1));
	fd = foreign_connection();
	assert_int_equal(send(fd, &find, sizeof(find) - 1, 0), sizeof(find) - 1);
	assert_true(is_cut(fd));
	/* No process there was affected. */
	assert_int_equal(agent_client_stat(&client, &counters), 0);
	assert_int_equal(ask(slot, &loopback.gid).count, 1);
	process_close(&client);
}

static void crowd_of_foreigners_keeps_nobody_out_who_belongs_there(void **state)
{
	enum { CROWD = 120 };
	struct agent_client client, another;
	uint8_t slot = process_open(&client);
	int fds[CROWD];

	(void)state;
	for (unsigned i = 0; i < CROWD; i++)
		fds[i] = foreign_connection();
	netns_switch(there);
	assert_int_equal(agent_client_connect_running(&another), 0);
	netns_switch(here);
	assert_int_equal(ask(slot, &loopback.gid).count, 0);
	for (unsigned i = 0; i < CROWD; i++)
		close(fds[i]);
	for (unsigned i = 0; i < 6000 && ask(slot, &loopback.gid).count == 0; i++)
		sleep_ms(10);
	assert_int_equal(ask(slot, &loopback.gid).count, 1);
	agent_client_done(&another);
	process_close(&client);
}

static void random_questions_do_not_hurt(void **state)
{
	struct agent_client client;
	uint8_t slot = process_open(&client);

	(void)state;
	srandom(1);
	for (unsigned round = 0; round < 1000; round++) {
		struct agent_message message;
		int fd = foreign_connection();

		for (size_t i = 0; i < sizeof(message); i++)
			((uint8_t *)&message)[i] = (uint8_t)(random() % 4 ? 0 : random());
		message.version = AGENT_VERSION;
		message.type = random() % 4 ? AGENT_FIND : (uint32_t)(random() % 16);
		message.status = 0;
		if (random() % 2)
			message.find.slot = (uint32_t)random() % AGENT_SLOTS;
		send(fd, &message, random() % 8 ? sizeof(message) : (size_t)random() % 250,
			MSG_DONTWAIT | MSG_NOSIGNAL);
		close(fd);
	}
	/* A question finds no room until urnicd has accepted the connections before it. */
	for (unsigned tries = 0; tries < 1000 && ask(slot, &loopback.gid).count != 1; tries++)
		usleep(10000);
	assert_int_equal(ask(slot, &loopback.gid).count, 1);
	process_close(&client);
}

/* --- who answers something else --- */

enum lie {
	LIE_NONE,
	LIE_HANG_UP,
	LIE_SHORT,
	LIE_OTHER_TYPE,
	LIE_NEGATIVE_STATUS,
	LIE_ENDLESS_SENTENCE,
	LIE_TWO_DESCRIPTORS,
	LIE_OTHER_VERSION,
	LIE_NO_ANSWER,
	LIE_COUNT,
};

static void answer_once(int listener, enum lie lie)
{
	struct pollfd wait = {.fd = listener, .events = POLLIN};
	struct agent_message message;
	struct passed_fds descriptors;
	size_t bytes = sizeof(message);
	int fd;

	poll(&wait, 1, WAIT_MS);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (lie == LIE_HANG_UP ||
		agent_message_receive(fd, true, &message, NULL, &descriptors, 0) != 0)
		_exit(0);
	memset(message.why, 'x', sizeof(message.why));
	message.find.pid = 1;
	message.find.uid = 4242;
	if (lie == LIE_SHORT)
		bytes--;
	if (lie == LIE_OTHER_TYPE)
		message.type = AGENT_STAT;
	if (lie == LIE_NEGATIVE_STATUS)
		message.status = -1;
	if (lie == LIE_ENDLESS_SENTENCE)
		message.status = EPERM;
	if (lie == LIE_OTHER_VERSION)
		message.version++;
	if (lie == LIE_TWO_DESCRIPTORS)
		agent_message_send(fd, &message, NULL, (const int[]){0, 0}, 2, 0);
	else if (lie != LIE_NO_ANSWER)
		send(fd, &message, bytes, 0);
	recv(fd, &message, sizeof(message), 0); /* until it has gone */
	_exit(0);
}

static void hostile_answers_are_not_believed(void **state)
{
	unsigned open_before = count_entries("/proc/self/fd");

	(void)state;
	for (enum lie lie = LIE_NONE; lie < LIE_COUNT; lie++) {
		struct place_listener listener;
		struct answers answers;
		int status;
		pid_t child;

		netns_switch(there);
		assert_int_equal(place_listen(PLACE_URNICD, false, &listener), 0);
		netns_switch(here);
		child = fork();
		if (child == 0)
			answer_once(listener.socket, lie);
		answers = ask(1, &loopback.gid);
		assert_int_equal(answers.count, lie == LIE_NONE);
		if (lie == LIE_NONE) {
			assert_int_equal(answers.last.uid, 4242);
			assert_int_equal(answers.memory_bytes, -1);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		place_leave(&listener);
		assert_int_equal(count_entries("/proc/self/fd"), open_before);
	}
}

static int prepare(void)
{
	there = urnicd_prepare() ? -1 : open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	here = there < 0 ? -1 : netns_enter_new();
	if (here < 0)
		return 77;
	if (unshare(CLONE_NEWNS) || mount("", "/", NULL, MS_PRIVATE | MS_REC, NULL) ||
		mount("tmpfs", "/run", "tmpfs", 0, "mode=755")) {
		printf("skipped: no /run of our own: %s\n", strerror(errno));
		return 77;
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(process_is_found_by_slot_and_address),
		cmocka_unit_test(link_local_address_is_found_on_any_interface),
		cmocka_unit_test(other_host_identity_is_another_host),
		cmocka_unit_test(survivor_of_a_killed_urnicd_is_found_again),
		cmocka_unit_test(foreigner_may_ask_for_processes_and_nothing_else),
		cmocka_unit_test(crowd_of_foreigners_keeps_nobody_out_who_belongs_there),
		cmocka_unit_test(random_questions_do_not_hurt),
		cmocka_unit_test(hostile_answers_are_not_believed),
	};

	if (prepare())
		return 77;
	unsetenv("URNIC_HOST_ID");
	settings_read();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
