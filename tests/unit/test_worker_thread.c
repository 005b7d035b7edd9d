/* SPDX-License-Identifier: BSD-2-Clause */
/* A lane whose program sleeps: how often its thread wakes up, by the kernel's count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "support/arena_memory.h"
#include "support/permutation.h"
#include "support/udp_ends.h"
#include "worker/worker.h"

enum {
	ARENA_BYTES = 1 << 20,
	PACKETS = 50,
	/* Longer than ticks last, and than spinning could bridge. */
	PAUSE_NS = 4000000,
	IDLE_NS = 100000000,
	/*
	 * A mutex, a page fault or a signal may put the thread to sleep, too. A thread that
	 * wakes up in ticks exceeds this many times over.
	 */
	OTHER_SLEEPS = 5,
};

/* Of the lane's thread, and of no other one here. */
#define THREAD_NAME "urnic"

static struct arena arena;
static struct mr_table mrs;
static struct nic_public_lane public;
static struct worker *worker;
static struct sockaddr_in address;
static int sender;

static void pause_for(long ns)
{
	const struct timespec time = {.tv_nsec = ns};

	nanosleep(&time, NULL);
}

static void ignore_signal(struct worker *of, struct signal *signal, uint32_t events)
{
	(void)of;
	(void)signal;
	(void)events;
}

static int set_up(void **state)
{
	static const struct worker_hooks hooks = {.signal = ignore_signal};
	const struct gid here = gid_from_ipv4((uint8_t[]){127, 0, 0, 1});
	void *memory = arena_memory_new(ARENA_BYTES);
	socklen_t bytes = sizeof(address);
	int socket_of_lane = udp_bound_socket(&here, 0);

	(void)state;
	memset(&public, 0, sizeof(public));
	arena_init(&arena, memory, ARENA_BYTES);
	assert_int_equal(mr_table_init(&mrs, &arena, 4, test_permutation(1)), 0);
	assert_int_equal(worker_create(&arena, &mrs, 1, 0, &public, &hooks, &worker), 0);
	assert_int_equal(getsockname(socket_of_lane, (struct sockaddr *)&address, &bytes), 0);
	worker_lock(worker);
	assert_int_equal(worker_address_add(worker, &here, 0, socket_of_lane), 0);
	worker_unlock(worker);
	sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return sender < 0 ? -1 : worker_start(worker);
}

static int tear_down(void **state)
{
	(void)state;
	close(sender);
	worker_destroy(worker, false);
	mr_table_done(&mrs);
	arena_memory_free(arena.base, ARENA_BYTES);
	return 0;
}

/* How often the thread `tid` has slept; -1: it is not the lane's, or the file has no such line. */
static long sleeps_read(const char *tid)
{
	char path[300], line[200], name[16] = "";
	long count = -1;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	FILE *file = fopen(path, "r");
	while (file && count < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "Name: %15s", name) != 1 && strcmp(name, THREAD_NAME) == 0)
			sscanf(line, "voluntary_ctxt_switches: %ld", &count);
	if (file)
		fclose(file);
	return count;
}

/* How often the lane's thread has slept. Sanitizers may have threads of their own. */
static long thread_sleeps(void)
{
	DIR *tasks = opendir("/proc/self/task");
	long count = -1;

	assert_non_null(tasks);
	for (struct dirent *task; count < 0 && (task = readdir(tasks));)
		if (task->d_name[0] != '.')
			count = sleeps_read(task->d_name);
	closedir(tasks);
	if (count < 0)
		skip();
	return count;
}

/* A sandbox's /proc may count nothing. */
static void skip_without_counts(void)
{
	long before = thread_sleeps();

	pause_for(IDLE_NS);
	if (thread_sleeps() == 0 && before == 0)
		skip();
}

/* The holder of the lane's lock counts. */
static uint64_t datagrams_received(void)
{
	uint64_t count;

	worker_lock(worker);
	count = public.port.rx_datagrams;
	worker_unlock(worker);
	return count;
}

/* Send a packet of no queue pair, and wait until the lane has received it. */
static void packet_exchange(void)
{
	const uint8_t packet[32] = {[5] = 1};
	uint64_t before = datagrams_received();

	assert_int_equal(sendto(sender, packet, sizeof(packet), 0,
				 (const struct sockaddr *)&address, sizeof(address)),
		sizeof(packet));
	while (datagrams_received() == before)
		pause_for(100000);
}

static void thread_of_a_sleeping_program_wakes_up_once_for_each_packet(void **state)
{
	long before;

	(void)state;
	skip_without_counts();
	before = thread_sleeps();
	for (unsigned i = 0; i < PACKETS; i++) {
		packet_exchange();
		pause_for(PAUSE_NS);
	}
	assert_in_range(thread_sleeps() - before, PACKETS, PACKETS + OTHER_SLEEPS);
}

static void thread_of_an_idle_program_does_not_wake_up(void **state)
{
	long before;

	(void)state;
	skip_without_counts();
	packet_exchange();
	before = thread_sleeps();
	pause_for(IDLE_NS);
	assert_in_range(thread_sleeps() - before, 0, OTHER_SLEEPS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			thread_of_a_sleeping_program_wakes_up_once_for_each_packet, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			thread_of_an_idle_program_does_not_wake_up, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
