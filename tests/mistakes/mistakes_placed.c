/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that wait for a WRITE by polling its memory: wrong ones, and right ones (right.def). The
 * polling thread makes no call of verbs, so the WRITE is placed meanwhile.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mistake.h"

enum { LONG_BYTES = 2000, TARGET_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

struct exchange {
	struct mistake *m;
	struct ibv_mr *own, *target;
	volatile char *memory; /* of the target; all zeros before the WRITE */
};

static struct exchange exchange_begin(struct mistake *m)
{
	struct exchange exchange = {.m = m, .memory = m->target_memory};

	exchange.own = mistake_register(m, m->memory, NULL, 0);
	exchange.target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);
	memset(m->memory, 1, REGION_BYTES);
	memset(m->target_memory, 0, REGION_BYTES);
	mistake_connect(m);
	return exchange;
}

static void write_bytes(const struct exchange *exchange, uint32_t offset, uint32_t bytes)
{
	struct mistake *m = exchange->m;

	MUST(!mistake_post(m, IBV_WR_RDMA_WRITE,
		mistake_entry(m->memory + offset, bytes, exchange->own->lkey),
		(uintptr_t)m->target_memory + offset, exchange->target->rkey));
}

static int bytes_sum(const struct exchange *exchange, uint32_t bytes)
{
	int sum = 0;

	for (uint32_t i = 0; i < bytes; i++)
		sum += exchange->memory[i];
	return sum;
}

static void success_await(const struct exchange *exchange)
{
	MUST(mistake_poll(exchange->m->cq).status == IBV_WC_SUCCESS);
}

/* The thread that posts may place the WRITE itself, and then nothing is seen: it tries again. */
enum { ROUNDS = 40 };

static bool round_begin(const struct exchange *exchange, uint32_t *round, uint32_t bytes)
{
	if (*round > 0)
		success_await(exchange);
	if ((*round)++ == ROUNDS)
		return false;
	memset(exchange->m->target_memory, 0, REGION_BYTES);
	write_bytes(exchange, 0, bytes);
	return true;
}

void mistake_waits_for_first_byte(struct mistake *m)
{
	struct exchange exchange = exchange_begin(m);
	uint32_t round = 0;
	int sum = 0;

	while (round_begin(&exchange, &round, MESSAGE_BYTES)) {
		while (exchange.memory[0] == 0) /* wrong: waits_for_first_byte */
			;
		sum += bytes_sum(&exchange, MESSAGE_BYTES);
	}
	printf("%d of %d bytes\n", sum, ROUNDS * MESSAGE_BYTES);
}

void mistake_waits_for_header(struct mistake *m)
{
	struct exchange exchange = exchange_begin(m);
	volatile uint32_t *length = (volatile uint32_t *)(void *)m->target_memory;
	uint32_t round = 0;
	char copy[LONG_BYTES];

	while (round_begin(&exchange, &round, LONG_BYTES)) {
		while (length[0] == 0) /* wrong: waits_for_header */
			;
		memcpy(copy, m->target_memory + sizeof(*length), LONG_BYTES - sizeof(*length));
	}
	printf("the last byte is %d\n", copy[LONG_BYTES - sizeof(*length) - 1]);
}

void mistake_waits_in_the_middle(struct mistake *m)
{
	struct exchange exchange = exchange_begin(m);
	volatile char *flag = exchange.memory + MESSAGE_BYTES / 2;
	uint32_t round = 0;

	while (round_begin(&exchange, &round, MESSAGE_BYTES)) {
		while (*flag == 0) /* wrong: waits_in_the_middle */
			;
		MUST(bytes_sum(&exchange, MESSAGE_BYTES / 2) > 0);
		write_bytes(&exchange, MESSAGE_BYTES, 1);
		success_await(&exchange);
	}
}

void right_waits_for_last_byte(struct mistake *m)
{
	struct exchange exchange = exchange_begin(m);

	write_bytes(&exchange, 0, MESSAGE_BYTES);
	while (exchange.memory[MESSAGE_BYTES - 1] == 0)
		;
	MUST(bytes_sum(&exchange, MESSAGE_BYTES) == MESSAGE_BYTES);
	success_await(&exchange);
}

void right_waits_for_first_and_last_byte(struct mistake *m)
{
	struct exchange exchange = exchange_begin(m);

	write_bytes(&exchange, 0, MESSAGE_BYTES);
	while (exchange.memory[0] == 0)
		;
	while (exchange.memory[MESSAGE_BYTES - 1] == 0)
		;
	MUST(bytes_sum(&exchange, MESSAGE_BYTES) == MESSAGE_BYTES);
	success_await(&exchange);
}

void right_compares_all_bytes(struct mistake *m)
{
	struct exchange exchange = exchange_begin(m);

	write_bytes(&exchange, 0, MESSAGE_BYTES);
	while (bytes_sum(&exchange, MESSAGE_BYTES) != MESSAGE_BYTES)
		;
	success_await(&exchange);
}

/* The words are independent, and each is looked at by itself. */
void right_watches_counters(struct mistake *m)
{
	enum { COUNTERS = 4 };
	struct exchange exchange = exchange_begin(m);
	volatile uint64_t *counters = (volatile uint64_t *)(void *)m->target_memory;
	uint32_t seen = 0;

	write_bytes(&exchange, 0, COUNTERS * sizeof(*counters));
	while (seen != (1u << COUNTERS) - 1)
		for (uint32_t i = 0; i < COUNTERS; i++)
			seen |= counters[i] ? 1u << i : 0;
	success_await(&exchange);
}

/* A flag of its own follows the data. */
void right_waits_for_flag(struct mistake *m)
{
	struct exchange exchange = exchange_begin(m);

	write_bytes(&exchange, 0, MESSAGE_BYTES);
	write_bytes(&exchange, MESSAGE_BYTES, 1);
	while (exchange.memory[MESSAGE_BYTES] == 0)
		;
	MUST(bytes_sum(&exchange, MESSAGE_BYTES) == MESSAGE_BYTES);
	success_await(&exchange);
	success_await(&exchange);
}

static void trap_take(int number)
{
	(void)number;
	_exit(1);
}

/* It blocks all signals, and has a handler for the one that single steps end with. */
void right_waits_with_signals_of_its_own(struct mistake *m)
{
	sigset_t all;

	sigfillset(&all);
	MUST(signal(SIGTRAP, trap_take) == SIG_DFL);
	MUST(!pthread_sigmask(SIG_BLOCK, &all, NULL));
	right_waits_for_first_and_last_byte(m);
	MUST(signal(SIGTRAP, SIG_DFL) == trap_take);
}

enum { IDLE_US = 300000, WAIT_S = 60 };

static const struct exchange *loading;

/* What the constructor of mistake_loaded.so calls, while this thread has the loader's lock. */
void mistake_loaded(void)
{
	const time_t until = time(NULL) + WAIT_S;

	write_bytes(loading, 0, MESSAGE_BYTES);
	while (loading->memory[MESSAGE_BYTES - 1] == 0)
		MUST(time(NULL) < until);
}

/* The adapter serves a program that loads a library. Its own threads sleep at first. */
void right_waits_while_loading(struct mistake *m)
{
	struct exchange exchange = exchange_begin(m);
	char path[4096];
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - sizeof("_loaded.so"));

	MUST(bytes > 0);
	strcpy(path + bytes, "_loaded.so");
	loading = &exchange;
	usleep(IDLE_US);
	MUST(dlopen(path, RTLD_NOW));
	success_await(&exchange);
}
