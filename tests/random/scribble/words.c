/* SPDX-License-Identifier: BSD-2-Clause */
#include "words.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "support/sanitizer.h"

/* --- what is written --- */

void words_begin(struct words *words, uint64_t seed)
{
	words->random.state = seed;
	words->place_count = 0;
	words->value_count = 0;
	words->is_undone = false;
	words->change_count = 0;
}

void words_add(struct words *words, void *start, uint64_t bytes)
{
	if (words->place_count < WORDS_PLACES_MAX && bytes >= sizeof(uint64_t))
		words->place[words->place_count++] =
			(struct words_place){start, bytes & ~(uint64_t)7};
}

void words_add_value(struct words *words, uint64_t value)
{
	if (words->value_count < WORDS_VALUES_MAX)
		words->value[words->value_count++] = value;
}

static uint64_t draw_below(struct words *words, uint64_t limit)
{
	return sim_random_below(&words->random, limit);
}

/* Most objects have what steers them at their start. */
static uint64_t *draw_word(struct words *words)
{
	const struct words_place *place = &words->place[draw_below(words, words->place_count)];
	uint64_t count = place->bytes / sizeof(uint64_t);

	if (count > 32 && draw_below(words, 2))
		count = 32;
	return (uint64_t *)(void *)place->start + draw_below(words, count);
}

static uint64_t word_read(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

uint64_t words_value(struct words *words, uint64_t near)
{
	uint64_t value =
		words->value_count ? words->value[draw_below(words, words->value_count)] : 0;

	switch (draw_below(words, 12)) {
	case 0:
		return sim_random_next(&words->random);
	case 1:
		return near ^ 1ull << draw_below(words, 64);
	case 2:
		return draw_below(words, 300);
	case 3:
		return near + draw_below(words, 5) - 2;
	case 4:
		return words->place_count ? word_read(draw_word(words)) : near;
	case 5:
		return value;
	case 6:
		return value + (draw_below(words, 65) - 32) * 64;
	case 7:
		return (near & ~(uint64_t)UINT32_MAX) | (uint32_t)sim_random_next(&words->random);
	case 8:
		return (near & UINT32_MAX) | sim_random_next(&words->random) << 32;
	case 9:
		return near + (draw_below(words, 5) - 2) * (1ull << 32);
	case 10:
		return draw_below(words, 2) ? UINT64_MAX : 0;
	default:
		return value << 32 | (uint32_t)near;
	}
}

static void word_write(struct words *words, uint64_t *word)
{
	uint64_t before = word_read(word);

	if (words->is_undone && words->change_count == WORDS_UNDO_MAX)
		return;
	if (words->is_undone)
		words->change[words->change_count++] = (struct words_change){word, before};
	__atomic_store_n(word, words_value(words, before), __ATOMIC_RELAXED);
	words->written++;
}

void words_scribble(struct words *words, uint32_t count)
{
	for (uint32_t i = 0; words->place_count && i < count; i++)
		word_write(words, draw_word(words));
}

void words_undo(struct words *words)
{
	while (words->change_count) {
		const struct words_change *change = &words->change[--words->change_count];

		__atomic_store_n(change->word, change->before, __ATOMIC_RELAXED);
	}
}

/* --- after an instruction --- */

#if defined(__x86_64__) && !HAS_THREAD_SANITIZER

enum { FLAG_TRAP = 0x100, STEPS_MAX = 4096, STEP_WORDS = 4 };

static struct words *stepped;
static uint32_t steps_left, writes_left;

static void step_handle(int number, siginfo_t *info, void *context)
{
	ucontext_t *user = context;

	(void)number;
	(void)info;
	if (steps_left && --steps_left) {
		if (writes_left && draw_below(stepped, steps_left) < writes_left) {
			writes_left--;
			words_scribble(stepped, 1);
		}
		if (writes_left)
			return;
	}
	user->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)FLAG_TRAP;
}

void words_step_begin(struct words *words)
{
	struct sigaction action = {.sa_sigaction = step_handle, .sa_flags = SA_SIGINFO};

	sigaction(SIGTRAP, &action, NULL);
	stepped = words;
	steps_left = (uint32_t)draw_below(words, STEPS_MAX >> draw_below(words, 8)) + 2;
	writes_left = (uint32_t)draw_below(words, STEP_WORDS) + 1;
	/* The stack below its pointer may be in use. */
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq %0, (%%rsp)\n\tpopfq\n\t"
			 "lea 128(%%rsp), %%rsp"
			 :
			 : "i"(FLAG_TRAP)
			 : "memory", "cc");
}

void words_step_end(void)
{
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq %0, (%%rsp)\n\tpopfq\n\t"
			 "lea 128(%%rsp), %%rsp"
			 :
			 : "i"(~FLAG_TRAP)
			 : "memory", "cc");
	steps_left = 0;
}

#else

void words_step_begin(struct words *words)
{
	(void)words;
}

void words_step_end(void)
{
}

#endif

/* --- at the same time --- */

static struct words beside; /* the thread's */
static _Atomic bool is_wanted;
static sem_t begun, ended;
static pthread_t thread;

static void *thread_run(void *argument)
{
	(void)argument;
	for (;;) {
		sem_wait(&begun);
		while (atomic_load(&is_wanted))
			words_scribble(&beside, 1);
		sem_post(&ended);
	}
	return NULL;
}

void words_thread_begin(const struct words *words, uint64_t seed)
{
	words_begin(&beside, seed);
	for (uint32_t i = 0; i < words->place_count; i++)
		words_add(&beside, words->place[i].start, words->place[i].bytes);
	for (uint32_t i = 0; i < words->value_count; i++)
		words_add_value(&beside, words->value[i]);
	beside.written = 0;
	if (!thread &&
		(sem_init(&begun, 0, 0) || sem_init(&ended, 0, 0) ||
			pthread_create(&thread, NULL, thread_run, NULL)))
		abort();
	atomic_store(&is_wanted, true);
	sem_post(&begun);
}

uint64_t words_thread_end(void)
{
	atomic_store(&is_wanted, false);
	sem_wait(&ended);
	return beside.written;
}
