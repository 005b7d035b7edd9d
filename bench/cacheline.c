/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long a cache line takes from one processor to another and back: what no exchange through memory can be faster than.
 *
 *     cacheline [CPU CPU]
 *
 * Prints the median of many short runs, in nanoseconds.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 301, TRIPS = 2000 };

static double now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("sched_setaffinity");
		exit(1);
	}
}

static void await(_Atomic uint64_t *word, uint64_t value)
{
	while (atomic_load_explicit(word, memory_order_acquire) != value)
		;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	_Atomic uint64_t *word =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double runs[RUNS];
	uint64_t value = 0;
	pid_t other;

	if (word == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	other = fork();
	if (other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(argc > 2 ? atoi(argv[2]) : 1);
		for (uint64_t asked = 1;; asked += 2) {
			await(word, asked);
			atomic_store_explicit(word, asked + 1, memory_order_release);
		}
	}
	pin(argc > 2 ? atoi(argv[1]) : 0);
	for (int run = 0; run < RUNS; run++) {
		double start = now_ns();

		for (int trip = 0; trip < TRIPS; trip++, value += 2) {
			atomic_store_explicit(word, value + 1, memory_order_release);
			await(word, value + 2);
		}
		runs[run] = (now_ns() - start) / TRIPS;
	}
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	qsort(runs, RUNS, sizeof(*runs), by_size);
	printf("{\"round_trip_nsec\": %.1f}\n", runs[RUNS / 2]);
	return 0;
}
