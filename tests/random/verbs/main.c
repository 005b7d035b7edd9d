/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random programs against one process's own devices: fuzz_verbs [--seconds N] [--threads N] [--seed
 * N].
 *
 * Each thread makes random verbs calls, right ones and wrong ones, in its own world (world.h) and
 * on objects that all threads share (commons.h), in a network namespace with two interfaces. The
 * program ends with 0 after the given seconds. It fails when a call has another result than the
 * model's, when a sanitizer reports a crash, leak or race, or when a call exceeds its time limit.
 * Threads share objects, so a seed replays the calls of each thread but not their order.
 */
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "commons.h"
#include "support/netns.h"

enum { THREADS_MAX = 16, HANG_SECONDS = 60, COMMONS_PERCENT = 25 };

static struct world worlds[THREADS_MAX];
static pthread_t threads[THREADS_MAX];
static _Atomic bool is_ending;
static _Atomic unsigned running;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void begin(struct world *world, struct ibv_device **devices, int device_count)
{
	world->call = "begin";
	sim_random_next(&world->random);
	world->buffer = calloc(1, BUFFER_BYTES);
	CHECK(world, world->buffer, "memory");
	for (int i = 0; i < OPENINGS; i++) {
		struct opening *opening = &world->openings[i];

		opening->context = ibv_open_device(devices[i / 2 % device_count]);
		CHECK(world, opening->context, "open_device");
		CHECK(world, !ibv_query_gid(opening->context, 1, 0, &opening->gid), "query_gid");
		fcntl(opening->context->async_fd, F_SETFL, O_NONBLOCK);
	}
}

static void *run(void *argument)
{
	struct world *world = argument;

	while (!is_ending)
		if (percent(world, COMMONS_PERCENT))
			commons_step(world);
		else
			world_step(world);
	world_end(world);
	for (int i = 0; i < OPENINGS; i++)
		CHECK(world, !ibv_close_device(world->openings[i].context), "close_device");
	free(world->buffer);
	running--;
	return NULL;
}

/* Wait until `until`, or until all threads have ended. */
static void watch(double until)
{
	uint64_t beats[THREADS_MAX] = {0};
	double since[THREADS_MAX] = {0};

	while (now() < until && running) {
		usleep(50000);
		for (unsigned i = 0; i < THREADS_MAX && threads[i]; i++) {
			if (worlds[i].beats != beats[i] || since[i] == 0) {
				beats[i] = worlds[i].beats;
				since[i] = now();
			}
			if (now() - since[i] > HANG_SECONDS && running) {
				fprintf(stderr, "thread %u hangs in %s\n", i, worlds[i].call);
				abort();
			}
		}
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"seconds", required_argument, NULL, 's'},
		{"threads", required_argument, NULL, 't'},
		{"seed", required_argument, NULL, 'r'},
		{0},
	};
	double seconds = 5;
	unsigned thread_count = 3;
	uint64_t seed = 1;
	uint64_t calls = 0;
	struct ibv_device **devices;
	int device_count;
	int letter;

	while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (letter == 's')
			seconds = atof(optarg);
		else if (letter == 't')
			thread_count = min_u32((uint32_t)atoi(optarg), THREADS_MAX);
		else if (letter == 'r')
			seed = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	if (netns_enter_new() < 0)
		return 77;
	netns_run(
		"ip link add second type veth peer name third && ip addr add 10.98.0.1/24 dev second && "
		"ip link set third up && ip link set second up");
	devices = ibv_get_device_list(&device_count);
	if (!devices || device_count < 1) {
		fprintf(stderr, "no device\n");
		return 1;
	}
	commons_begin(devices[0]);
	running = thread_count;
	for (unsigned i = 0; i < thread_count; i++) {
		worlds[i].seed = seed;
		worlds[i].thread = i;
		worlds[i].random.state = seed * 1000 + i;
		begin(&worlds[i], devices, device_count);
	}
	for (unsigned i = 0; i < thread_count; i++)
		if (pthread_create(&threads[i], NULL, run, &worlds[i]))
			return 1;
	watch(now() + seconds);
	is_ending = true;
	watch(now() + 1e9);
	for (unsigned i = 0; i < thread_count; i++) {
		pthread_join(threads[i], NULL);
		calls += worlds[i].call_count;
	}
	commons_end();
	ibv_free_device_list(devices);
	printf("seed %llu: %llu calls of %u threads on %d devices\n", (unsigned long long)seed,
		(unsigned long long)calls, thread_count, device_count);
	return 0;
}
