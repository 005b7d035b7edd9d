/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random words in shared NIC memory: fuzz_scribble [--rounds N] [--seed N] [--seconds N].
 *
 * Round number i has the seed SEED + i. A failing round says its seed; --rounds 1 --seed N replays
 * it, but for the rounds in which a thread writes (every eighth one), which may need many attempts.
 */
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arith.h"
#include "scenes.h"
#include "support/sanitizer.h"

enum {
	ROUNDS_DEFAULT = 1000,
	HANG_SECONDS = 60,
	PAUSES_MAX = 100000, /* in one operation */
	STEPPED_ONE_IN = 64, /* operations of a round with steps */
};

#define OPERATION_NS 2000000000ull

struct scene scene;
uint64_t slowest_ns;

static uint64_t seed, began_ns;
static char crash_text[64]; /* what crash_handle() writes */
static bool is_stepped;

uint32_t draw(uint32_t limit)
{
	return (uint32_t)sim_random_below(&scene.random, limit);
}

static uint64_t clock_read(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

_Noreturn void scene_fail(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "seed %llu: ", (unsigned long long)seed);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	abort();
}

/* Says the seed of a round that crashes or hangs. A handler may not call snprintf(). */
static void crash_handle(int number)
{
	const char digits[] = {(char)('0' + number / 10), (char)('0' + number % 10), '\n'};

	(void)!write(STDERR_FILENO, crash_text, strlen(crash_text));
	(void)!write(STDERR_FILENO, digits, sizeof(digits));
	signal(SIGABRT, SIG_DFL);
	abort();
}

void operation_begin(void)
{
	scene.pauses = 0;
	scene.is_dead = draw_once_in(4);
	scene.is_restless = draw_attack(1);
	if (draw_attack(1))
		words_scribble(&scene.words, draw(4) ? draw(3) : draw(16));
	is_stepped = (scene.kind == ROUND_STEPS || scene.kind == ROUND_HOSTILE_OWNER) &&
		draw_once_in(STEPPED_ONE_IN);
	began_ns = clock_read(CLOCK_THREAD_CPUTIME_ID);
	if (is_stepped)
		words_step_begin(&scene.words);
}

void operation_end(void)
{
	uint64_t spent_ns;

	if (is_stepped)
		words_step_end();
	spent_ns = clock_read(CLOCK_THREAD_CPUTIME_ID) - began_ns;
	if (spent_ns > slowest_ns)
		slowest_ns = spent_ns;
	if (spent_ns > OPERATION_NS)
		scene_fail("an operation took %llu ms", (unsigned long long)spent_ns / 1000000);
}

void scene_pause(void)
{
	scene.now_ns += 50000;
	words_scribble(&scene.words, draw_attack(2));
	if (++scene.pauses > PAUSES_MAX)
		scene_fail("an operation waits for ever");
}

static void round_play(uint64_t number)
{
	static const enum round_kind kinds[] = {ROUND_PLAIN, ROUND_STEPS, ROUND_PLAIN,
		ROUND_HOSTILE_OWNER, ROUND_STEPS, ROUND_PLAIN, ROUND_HOSTILE_OWNER, ROUND_THREAD};
	static void (*const rounds[])(void) = {connected_round, datagram_round, borrower_round};

	seed = number;
	snprintf(crash_text, sizeof(crash_text), "seed %llu: signal ", (unsigned long long)seed);
	alarm(HANG_SECONDS);
	scene.random.state = seed;
	scene.kind = kinds[seed % ARRAY_COUNT(kinds)];
	scene.now_ns = 1000000000;
	scene.calm = 1u << draw(6);
	words_begin(&scene.words, ~seed);
	rounds[seed / ARRAY_COUNT(kinds) % ARRAY_COUNT(rounds)]();
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"rounds", required_argument, NULL, 'n'},
		{"seed", required_argument, NULL, 'r'},
		{"seconds", required_argument, NULL, 's'},
		{0},
	};
	uint64_t rounds = ROUNDS_DEFAULT, first = 1, seconds = UINT32_MAX, played = 0;
	uint64_t start_ns = clock_read(CLOCK_MONOTONIC);
	int letter;

	while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (letter == 'n')
			rounds = strtoull(optarg, NULL, 0);
		else if (letter == 'r')
			first = strtoull(optarg, NULL, 0);
		else if (letter == 's')
			seconds = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	if (HAS_THREAD_SANITIZER) {
		printf("an attacker's words are races\n");
		return 77;
	}
	signal(SIGALRM, crash_handle);
	signal(SIGSEGV, crash_handle);
	signal(SIGBUS, crash_handle);
	signal(SIGFPE, crash_handle);
	signal(SIGABRT, crash_handle);
	while (played < rounds && clock_read(CLOCK_MONOTONIC) - start_ns < seconds * 1000000000u)
		round_play(first + played++);
	printf("%llu rounds from seed %llu, %llu words; slowest operation %llu us\n",
		(unsigned long long)played, (unsigned long long)first,
		(unsigned long long)scene.words.written, (unsigned long long)slowest_ns / 1000);
	return 0;
}
