/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ends on lanes of their own, in one process, that exchange data without packets: memory is its
 * owner's alone once its region or queue pair is destroyed, and a poll finds what was complete
 * before it. ThreadSanitizer detects missing order, also of payloads (tests/tsan_within.supp).
 *
 * WITHIN_ROUNDS: how many regions and queue pairs are destroyed, 16 unless set.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "nic/nic_internal.h"
#include "os/setting.h"
#include "support/netns.h"
#include "support/sim_random.h"
#include "support/verbs_pair.h"

enum {
	TIMEOUT_4_MS = 10,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC,
};

static struct ibv_context *context;

/* --- what goes away --- */

struct writer {
	struct verbs_end *from;
	struct verbs_end to; /* a copy, whose key stays when the region is gone */
	struct ibv_mr mr;
};

/* WRITE without a pause until that fails. */
static void *write_until_it_fails(void *argument)
{
	struct writer *writer = argument;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	while (wc.status == IBV_WC_SUCCESS) {
		MUST(!verbs_post(writer->from, IBV_WR_RDMA_WRITE, &writer->to, 0, PAIR_BYTES));
		wc = verbs_poll_one(writer->from->cq);
	}
	return NULL;
}

/*
 * The other end's memory is its owner's alone as soon as its region is deregistered, or its queue
 * pair destroyed.
 */
static void take_away(bool takes_region, struct sim_random *random)
{
	struct timespec pause = {0, (long)sim_random_below(random, 2000000)};
	struct verbs_pair pair;
	struct writer writer;
	pthread_t thread;

	verbs_end_make(&pair.a, context, NULL);
	verbs_end_make(&pair.b, context, NULL);
	verbs_ends_connect(&pair.a, &pair.b, TIMEOUT_4_MS);
	writer = (struct writer){&pair.a, pair.b, *pair.b.mr};
	writer.to.mr = &writer.mr;
	MUST(!pthread_create(&thread, NULL, write_until_it_fails, &writer));
	nanosleep(&pause, NULL);
	if (takes_region)
		MUST(!ibv_dereg_mr(pair.b.mr));
	else
		MUST(!ibv_destroy_qp(pair.b.qp));
	memset(pair.b.buffer, 0x5a, PAIR_BYTES);
	MUST(!pthread_join(thread, NULL));
	for (uint32_t i = 0; i < PAIR_BYTES; i++)
		MUST(pair.b.buffer[i] == 0x5a);
	if (takes_region)
		MUST(pair.b.mr = ibv_reg_mr(pair.b.pd, pair.b.buffer, PAIR_BYTES, ACCESS));
	else
		MUST(pair.b.qp = ibv_create_qp(pair.b.pd,
			     &(struct ibv_qp_init_attr){.send_cq = pair.b.cq,
				     .recv_cq = pair.b.cq,
				     .cap = {1, 1, 1, 1, 0},
				     .qp_type = IBV_QPT_RC}));
	verbs_pair_unmake(&pair);
}

static void memory_is_left_alone_when_its_region_or_queue_pair_is_gone(void **state)
{
	const char *rounds = getenv("WITHIN_ROUNDS");
	uint32_t count = rounds ? (uint32_t)strtoul(rounds, NULL, 0) : 16;
	struct sim_random random = {1};

	(void)state;
	for (uint32_t i = 0; i < count; i++)
		take_away(i % 2, &random);
}

/* --- what a poll finds --- */

/* Holds the lock of an end's lane, as a NIC thread that is preempted does. */
struct holder {
	struct worker *worker;
	_Atomic bool is_holding;
	_Atomic bool shall_release;
	pthread_t thread;
};

static void *hold(void *argument)
{
	const struct timespec meanwhile = {0, 20000000};
	struct holder *holder = argument;

	worker_lock(holder->worker);
	atomic_store(&holder->is_holding, true);
	while (!atomic_load(&holder->shall_release))
		sched_yield();
	nanosleep(&meanwhile, NULL);
	worker_unlock(holder->worker);
	return NULL;
}

static struct worker *worker_of(const struct ibv_qp *qp)
{
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		if (nic.worker[i] && nic.worker[i]->lane.slot == qp->qp_num >> 16)
			return nic.worker[i];
	verbs_pair_give_up(__FILE__, __LINE__, "a lane has the queue pair");
}

static void poll_finds_what_was_complete_at_the_peer_before_it(void **state)
{
	struct verbs_pair pair;
	struct holder holder = {0};
	struct ibv_wc wc;

	(void)state;
	verbs_pair_make(&pair, context);
	for (uint32_t i = 0; i < 2; i++)
		verbs_post_recv(&pair.b, i, 0, 8);
	MUST(!verbs_post(&pair.a, IBV_WR_SEND, NULL, 0, 8));
	MUST(verbs_poll_one(pair.a.cq).status == IBV_WC_SUCCESS);
	MUST(verbs_poll_one(pair.b.cq).status == IBV_WC_SUCCESS);
	holder.worker = worker_of(pair.b.qp);
	MUST(holder.worker != worker_of(pair.a.qp));
	MUST(!pthread_create(&holder.thread, NULL, hold, &holder));
	while (!atomic_load(&holder.is_holding))
		sched_yield();
	MUST(!verbs_post(&pair.a, IBV_WR_SEND, NULL, 0, 8));
	MUST(verbs_poll_one(pair.a.cq).status == IBV_WC_SUCCESS);
	atomic_store(&holder.shall_release, true);
	assert_int_equal(ibv_poll_cq(pair.b.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 1);
	MUST(!pthread_join(holder.thread, NULL));
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
		cmocka_unit_test(poll_finds_what_was_complete_at_the_peer_before_it),
		cmocka_unit_test(memory_is_left_alone_when_its_region_or_queue_pair_is_gone),
	};

	if (netns_enter_new() < 0)
		return 77;
	setenv("URNIC_LANES", "2", 1);
	settings_read();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
