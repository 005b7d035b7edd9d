/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The time of a round trip between two processors. No exchange of the same kind can take less.
 *
 *     roundtrip line|lines|pipe [CPU CPU]
 *
 * `line`: both sides poll and write one cache line. `lines`: each side writes a line of its own and
 * polls that of the other side, like the buffers of two programs that write to each other. `pipe`:
 * each side sends a byte through a pipe to the other side, which sleeps. Prints the median of many
 * short runs, in nanoseconds per round trip.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 301, LINE_TRIPS = 2000, PIPE_TRIPS = 50 };
/* The distance of the two lines in words: too far for prefetchers of adjacent lines. */
enum { APART = 32 };

static _Atomic uint64_t *there, *back;
static int pipes[2][2]; /* [0]: there, [1]: back */

static double now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void await(const _Atomic uint64_t *word, uint64_t value)
{
	while (atomic_load_explicit(word, memory_order_acquire) != value)
		;
}

static void put(int fd)
{
	if (write(fd, "", 1) != 1)
		fail("write");
}

static void get(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		fail("read");
}

static void trip(bool is_pipe, uint64_t number)
{
	if (is_pipe) {
		put(pipes[0][1]);
		get(pipes[1][0]);
	} else {
		atomic_store_explicit(there, 2 * number + 1, memory_order_release);
		await(back, 2 * number + 2);
	}
}

static void answer(bool is_pipe, uint64_t number)
{
	if (is_pipe) {
		get(pipes[0][0]);
		put(pipes[1][1]);
	} else {
		await(there, 2 * number + 1);
		atomic_store_explicit(back, 2 * number + 2, memory_order_release);
	}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double measure(bool is_pipe)
{
	int trips = is_pipe ? PIPE_TRIPS : LINE_TRIPS;
	double runs[RUNS];
	uint64_t number = 0;

	for (int run = 0; run < RUNS; run++) {
		double start = now_ns();

		for (int i = 0; i < trips; i++)
			trip(is_pipe, number++);
		runs[run] = (now_ns() - start) / trips;
	}
	qsort(runs, RUNS, sizeof(*runs), by_size);
	return runs[RUNS / 2];
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	bool is_pipe = strcmp(what, "pipe") == 0, are_two = strcmp(what, "lines") == 0;
	pid_t other;

	if (!is_pipe && !are_two && strcmp(what, "line") != 0) {
		fprintf(stderr, "usage: roundtrip line|lines|pipe [CPU CPU]\n");
		return 1;
	}
	there = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (there == MAP_FAILED)
		fail("mmap");
	back = there + (are_two ? APART : 0);
	if (pipe(pipes[0]) || pipe(pipes[1]))
		fail("pipe");
	other = fork();
	if (other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(argc > 3 ? atoi(argv[3]) : 1);
		for (uint64_t number = 0;; number++)
			answer(is_pipe, number);
	}
	pin(argc > 3 ? atoi(argv[2]) : 0);
	double round_trip_ns = measure(is_pipe);

	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	printf("{\"round_trip_nsec\": %.1f}\n", round_trip_ns);
	return 0;
}
