/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An initiator, a target and the host of the shared receive queue that requests name, each with a thread of its own, in one process: what
 * three processes do in each other's NIC memory, before the eyes of ThreadSanitizer. In the end the target's queue pair fails, or the host takes its
 * memory back, at any moment.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "local/guest.h"
#include "support/hosted_ends.h"

enum { ROUNDS = 20, SLOTS = 32, SLOT_BYTES = 128, MESSAGE_BYTES = 100 };

static _Atomic uint32_t posted; /* receive requests */
static _Atomic bool is_over;
static bool is_posted[SLOTS];
static uint32_t completed;
static bool takes_memory;
static uint64_t random_state;

static void quiet_kick(struct peer *peer, uint32_t index)
{
	(void)peer;
	(void)index;
}

static const struct peer_ops quiet_ops = {far_write, far_read, map_all, quiet_kick, NULL};

static bool patience(uint32_t who, uint32_t round)
{
	(void)who;
	(void)round;
	sched_yield();
	return true;
}

static void sleep_a_while(void)
{
	struct timespec pause = {0, 0};

	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	pause.tv_nsec = (long)(random_state >> 33) % 1000000;
	nanosleep(&pause, NULL);
}

/* --- the initiator --- */

/* Until one is not executed here any more. */
static void *initiate(void *argument)
{
	uint32_t messages = 0;
	struct cqe cqe;

	(void)argument;
	while (!has_packets(0)) {
		bool is_message = atomic_load_explicit(&posted, memory_order_relaxed) != messages;

		memset(ends[0].memory, (int)messages, MESSAGE_BYTES);
		send_to(HOST_SRQN, is_message ? WR_SEND : WR_RDMA_READ, MESSAGE_BYTES);
		if (has_packets(0))
			break;
		if (cq_poll(&ends[0].send_cq, &ends[0].arena, 1, &cqe) != 1 || cqe.status)
			abort();
		messages += is_message;
	}
	return NULL;
}

/* --- the host --- */

static void slot_post(uint32_t slot)
{
	struct sge sge = {(uintptr_t)memory + 4096 + slot * SLOT_BYTES, SLOT_BYTES, key};
	struct recv_wr wr = {slot, &sge, 1};

	is_posted[slot] = true;
	if (srq_post(&srqs[0], &wr))
		abort();
	atomic_fetch_add_explicit(&posted, 1, memory_order_relaxed);
}

static void slot_complete(const struct cqe *cqe)
{
	const uint8_t *bytes = memory + 4096 + cqe->wr_id * SLOT_BYTES;

	if (!is_posted[cqe->wr_id])
		abort();
	is_posted[cqe->wr_id] = false;
	completed++;
	if (cqe->status != WC_SUCCESS)
		return;
	for (uint32_t i = 1; i < MESSAGE_BYTES; i++)
		if (bytes[i] != bytes[0])
			abort();
	slot_post((uint32_t)cqe->wr_id);
}

static void collect_all(void)
{
	struct cqe cqe;

	host_collect();
	while (cq_poll(&cq, &arena, 1, &cqe) == 1)
		slot_complete(&cqe);
}

static void *serve(void *argument)
{
	(void)argument;
	while (!atomic_load_explicit(&is_over, memory_order_relaxed))
		collect_all();
	if (takes_memory) {
		if (mr_table_remove(&mrs, key, HOST_PD))
			abort();
		const struct inbox_patience for_ever = {1, no_time};

		guest_quiesce(guests, patience, &mrs, key, &for_ever);
		memset(memory, 0, HOST_BYTES);
	}
	return NULL;
}

/* --- rounds --- */

static void round_run(void)
{
	pthread_t threads[2];

	posted = completed = 0;
	is_over = false;
	leaves_in = UINT32_MAX; /* whoever is inside */
	initiator.peer.ops = target.peer.ops = &quiet_ops;
	for (uint32_t i = 0; i < SLOTS; i++)
		slot_post(i);
	if (pthread_create(&threads[0], NULL, initiate, NULL) ||
		pthread_create(&threads[1], NULL, serve, NULL))
		abort();
	sleep_a_while();
	if (takes_memory)
		is_over = true;
	else
		qp_set_state(ends[1].qp, QP_ERR, NOW_NS);
	pthread_join(threads[0], NULL);
	is_over = true;
	pthread_join(threads[1], NULL);
}

/* But for one that the initiator had taken, perhaps, when it was not waited for any longer. */
static void request_completes_once_when_the_target_fails(void **state)
{
	uint32_t left;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		setup_hosted(state);
		get_acquainted();
		round_run();
		collect_all();
		left = atomic_load(&posted) - completed;
		assert_in_range(left - rq_count(srqs[0].rq), 0, 1);
		teardown_hosted(state);
	}
}

static void memory_is_left_alone_when_its_host_has_it_back(void **state)
{
	takes_memory = true;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		setup_hosted(state);
		get_acquainted();
		round_run();
		for (uint32_t byte = 0; byte < HOST_BYTES; byte++)
			assert_int_equal(memory[byte], 0);
		teardown_hosted(state);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_completes_once_when_the_target_fails),
		cmocka_unit_test(memory_is_left_alone_when_its_host_has_it_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
