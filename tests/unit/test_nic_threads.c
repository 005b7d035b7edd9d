/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads on one NIC of several lanes, over the loopback interface of a namespace of their
 * own: no data, completion, wake-up or acknowledgement gets lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { THREADS = 4, ROUNDS = 300, SLOT_BYTES = 512, TIMEOUT_33_MS = 13 };

static struct ibv_context *context;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&time, NULL);
}

static void in_threads(void *(*body)(void *), void *const arguments[], int count)
{
	pthread_t threads[2 * THREADS];

	for (int i = 0; i < count; i++)
		MUST(!pthread_create(&threads[i], NULL, body, arguments[i]));
	for (int i = 0; i < count; i++)
		MUST(!pthread_join(threads[i], NULL));
}

/* --- a pair each ---------------------------------------------------------------------------- */

struct job {
	uint32_t seed;
	bool has_events; /* waits on its channel instead of polling */
};

static struct ibv_wc next(const struct job *job, struct verbs_end *end)
{
	return job->has_events ? verbs_wait_one(end) : verbs_poll_one(end->cq);
}

/* One message of each kind, of a length that changes, and what came is what went. */
static void exchange(const struct job *job, struct verbs_pair *pair, uint32_t round)
{
	uint32_t bytes = 1 + (round * 977 + job->seed * 4099) % (PAIR_BYTES / 2);

	verbs_pattern_fill(pair->a.buffer, bytes, job->seed + round);
	verbs_post_recv(&pair->b, round, 0, bytes);
	MUST(!verbs_post(&pair->a, IBV_WR_SEND, NULL, 0, bytes));
	struct ibv_wc wc = next(job, &pair->b);
	MUST(wc.status == IBV_WC_SUCCESS && wc.wr_id == round && wc.byte_len == bytes);
	MUST(verbs_pattern_is(pair->b.buffer, bytes, job->seed + round));
	MUST(next(job, &pair->a).status == IBV_WC_SUCCESS);

	verbs_pattern_fill(pair->b.buffer, bytes, job->seed ^ round);
	MUST(!verbs_post(&pair->a, IBV_WR_RDMA_READ, &pair->b, 0, bytes));
	MUST(next(job, &pair->a).status == IBV_WC_SUCCESS);
	MUST(verbs_pattern_is(pair->a.buffer, bytes, job->seed ^ round));
}

static void *exchange_all(void *argument)
{
	const struct job *job = argument;
	struct verbs_pair pair;

	verbs_pair_make(&pair, context);
	for (uint32_t round = 0; round < ROUNDS; round++)
		exchange(job, &pair, round);
	verbs_pair_unmake(&pair);
	return NULL;
}

static void threads_with_a_pair_each_find_their_bytes(void **state)
{
	struct job jobs[THREADS] = {{1, false}, {2, true}, {3, false}, {4, true}};
	void *arguments[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		arguments[i] = &jobs[i];
	in_threads(exchange_all, arguments, THREADS);
}

/* --- a completion queue for all ------------------------------------------------------------- */

/* Every `a` has a lane of its own, and sends to a `b` that completes in the one shared queue. */
struct sender {
	struct verbs_end a;
	struct verbs_end b;
	uint32_t index;
	uint32_t received; /* under shared_lock; messages of a pair come in order */
};

enum { SLOTS = PAIR_BYTES / SLOT_BYTES, MESSAGES = 1500 };

static struct sender senders[THREADS];
static struct ibv_cq *shared_cq;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t received_total;

static void *send_all(void *argument)
{
	struct sender *sender = argument;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		uint32_t offset = i % SLOTS * SLOT_BYTES;

		verbs_pattern_fill(sender->a.buffer + offset, SLOT_BYTES, sender->index ^ i);
		MUST(!verbs_post(&sender->a, IBV_WR_SEND, NULL, offset, SLOT_BYTES));
		if (i % SLOTS >= SLOTS / 2) /* so another thread always waits for its turn */
			MUST(verbs_poll_one(sender->a.cq).status == IBV_WC_SUCCESS);
		if (i % SLOTS == SLOTS - 1)
			for (uint32_t left = SLOTS / 2; left; left--)
				MUST(verbs_poll_one(sender->a.cq).status == IBV_WC_SUCCESS);
	}
	return NULL;
}

/* Poll and look under one lock: messages are looked at in the order in which they were polled. */
static void receive_one(void)
{
	struct ibv_wc wc;

	pthread_mutex_lock(&shared_lock);
	if (ibv_poll_cq(shared_cq, 1, &wc) == 1) {
		MUST(wc.status == IBV_WC_SUCCESS);
		struct sender *sender = &senders[wc.wr_id];
		uint32_t offset = sender->received % SLOTS * SLOT_BYTES;

		MUST(wc.qp_num == sender->b.qp->qp_num);
		MUST(verbs_pattern_is(
			sender->b.buffer + offset, SLOT_BYTES, sender->index ^ sender->received));
		sender->received++;
		verbs_post_recv(&sender->b, sender->index, offset, SLOT_BYTES);
		received_total++;
	}
	pthread_mutex_unlock(&shared_lock);
}

static void *receive_all(void *argument)
{
	uint64_t until_ms = now_ms() + (uint64_t)PAIR_TIMEOUT_S * 1000;

	(void)argument;
	while (received_total < THREADS * MESSAGES) {
		receive_one();
		MUST(now_ms() < until_ms);
	}
	return NULL;
}

static void *send_or_receive(void *argument)
{
	return argument ? send_all(argument) : receive_all(NULL);
}

static void threads_that_share_a_completion_queue_get_each_message_once(void **state)
{
	void *arguments[THREADS + 2] = {NULL};

	(void)state;
	shared_cq = ibv_create_cq(context, THREADS * PAIR_DEPTH, NULL, NULL, 0);
	assert_non_null(shared_cq);
	for (uint32_t i = 0; i < THREADS; i++) {
		struct sender *sender = &senders[i];

		sender->index = i;
		verbs_end_make(&sender->a, context, NULL);
		verbs_end_make(&sender->b, context, shared_cq);
		verbs_ends_connect(&sender->a, &sender->b, TIMEOUT_33_MS);
		for (uint32_t slot = 0; slot < SLOTS; slot++)
			verbs_post_recv(&sender->b, i, slot * SLOT_BYTES, SLOT_BYTES);
		arguments[i] = sender;
	}
	in_threads(send_or_receive, arguments, THREADS + 2);
	for (uint32_t i = 0; i < THREADS; i++) {
		assert_int_equal(senders[i].received, MESSAGES);
		verbs_end_unmake(&senders[i].a);
		verbs_end_unmake(&senders[i].b);
	}
	assert_int_equal(ibv_destroy_cq(shared_cq), 0);
}

/* --- threads that are busy elsewhere -------------------------------------------------------- */

/* After each pause the NIC threads sleep without limit, and everybody else on a channel. */
static void *exchange_with_pauses(void *argument)
{
	const struct job *job = argument;
	struct verbs_pair pair;

	verbs_pair_make(&pair, context);
	for (uint32_t round = 0; round < 8; round++) {
		sleep_ms(25 + round);
		exchange(job, &pair, round);
	}
	verbs_pair_unmake(&pair);
	return NULL;
}

static void threads_that_sleep_are_woken(void **state)
{
	struct job jobs[THREADS] = {{5, true}, {6, true}, {7, true}, {8, true}};
	void *arguments[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		arguments[i] = &jobs[i];
	in_threads(exchange_with_pauses, arguments, THREADS);
}

/* --- signals -------------------------------------------------------------------------------- */

static void ignore(int signal)
{
	(void)signal;
}

/* Every system call that waits is interrupted, none is restarted. */
static void signals_of_a_timer_disturb_nobody(void **state)
{
	static const struct itimerval often = {{0, 200}, {0, 200}}, never;
	static const struct job job = {9, false};
	struct sigaction action = {.sa_handler = ignore};
	struct verbs_pair pair;

	(void)state;
	MUST(!sigaction(SIGALRM, &action, NULL));
	MUST(!setitimer(ITIMER_REAL, &often, NULL));
	for (int i = 0; i < 5; i++) {
		verbs_pair_make(&pair, context);
		for (uint32_t round = 0; round < ROUNDS; round++)
			exchange(&job, &pair, round);
		verbs_pair_unmake(&pair);
	}
	MUST(!setitimer(ITIMER_REAL, &never, NULL));
}

/* --- programs that look away ---------------------------------------------------------------- */

static _Atomic bool is_answered;

/* Posts as fast as it can, mostly without success, and ignores the results. */
static void *post_without_polling(void *argument)
{
	struct verbs_pair *pair = argument;

	while (!is_answered)
		verbs_post_unsignaled(&pair->b, IBV_WR_RDMA_WRITE, &pair->a, SLOT_BYTES, 8);
	return NULL;
}

static void message_is_acknowledged_by_a_program_that_only_posts(void **state)
{
	struct verbs_pair pair;
	pthread_t thread;

	(void)state;
	verbs_end_make(&pair.a, context, NULL);
	verbs_end_make(&pair.b, context, NULL);
	verbs_ends_connect(&pair.a, &pair.b, TIMEOUT_33_MS);
	verbs_post_recv(&pair.b, 0, 0, 100);
	is_answered = false;
	MUST(!pthread_create(&thread, NULL, post_without_polling, &pair));
	sleep_ms(20);
	MUST(!verbs_post(&pair.a, IBV_WR_SEND, NULL, 0, 100));
	assert_int_equal(verbs_wait_one(&pair.a).status, IBV_WC_SUCCESS);
	is_answered = true;
	MUST(!pthread_join(thread, NULL));
	verbs_pair_unmake(&pair);
}

static int open_context(void **state)
{
	(void)state;
	context = verbs_pair_open();
	return 0;
}

static int close_context(void **state)
{
	(void)state;
	return ibv_close_device(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_with_a_pair_each_find_their_bytes),
		cmocka_unit_test(threads_that_share_a_completion_queue_get_each_message_once),
		cmocka_unit_test(threads_that_sleep_are_woken),
		cmocka_unit_test(signals_of_a_timer_disturb_nobody),
		cmocka_unit_test(message_is_acknowledged_by_a_program_that_only_posts),
	};

	if (netns_enter_new() < 0)
		return 77;
	setenv("URNIC_LANES", "4", 1);
	settings_read();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
