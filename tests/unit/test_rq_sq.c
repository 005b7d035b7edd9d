/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "queue/rq.h"
#include "queue/rq_taker.h"
#include "queue/sq.h"
#include "support/arena_memory.h"
#include "support/sim_random.h"

enum { ARENA_BYTES = 1 << 20, SGE_MAX = 3, INLINE_MAX = 100 };

static uint8_t *arena_memory;
static struct arena arena;

static int setup(void **state)
{
	(void)state;
	if (arena_memory)
		arena_memory_free(arena_memory, ARENA_BYTES);
	arena_memory = arena_memory_new(ARENA_BYTES);
	arena_init(&arena, arena_memory, ARENA_BYTES);
	return 0;
}

static void rq_requests_come_back_whole_and_in_order(void **state)
{
	uint64_t offset = rq_create(&arena, 5, SGE_MAX);
	struct recv_queue *rq = arena_at(&arena, offset);
	struct sim_random random = {1};
	uint64_t posted = 0;
	uint64_t taken = 0;

	(void)state;
	for (uint32_t step = 0; step < 20000; step++) {
		if (sim_random_below(&random, 2)) {
			struct sge sge[SGE_MAX] = {{posted, 7, 1}, {posted + 1, 8, 2}, {3, 9, 3}};
			struct recv_wr wr = {posted, sge, (uint32_t)posted % (SGE_MAX + 1)};
			int error = rq_post(rq, &wr);

			assert_int_equal(error, posted - taken == 5 ? -ENOMEM : 0);
			posted += !error;
		} else {
			static const uint64_t bytes[] = {0, 7, 15, 24};
			struct recv_wqe wqe;

			assert_int_equal(rq_take(rq, &wqe), posted != taken);
			if (posted == taken)
				continue;
			assert_int_equal(wqe.wr_id, taken);
			assert_int_equal(wqe.sge_count, taken % (SGE_MAX + 1));
			assert_int_equal(wqe.total_bytes, bytes[wqe.sge_count]);
			if (wqe.sge_count)
				assert_int_equal(wqe.sge[0].address, taken);
			taken++;
		}
		assert_int_equal(rq_count(rq), posted - taken);
	}
	rq_destroy(&arena, offset);
	assert_int_equal(arena.live_bytes, 0);
}

static void rq_of_depth_zero_takes_nothing(void **state)
{
	struct recv_queue *rq = arena_at(&arena, rq_create(&arena, 0, 0));
	struct recv_wr wr = {0};

	(void)state;
	assert_int_equal(rq_post(rq, &wr), -ENOMEM);
}

static void rq_after_reset_is_empty(void **state)
{
	struct recv_queue *rq = arena_at(&arena, rq_create(&arena, 4, 1));
	struct recv_wr wr = {0};
	struct recv_wqe wqe;

	(void)state;
	assert_int_equal(rq_post(rq, &wr), 0);
	rq_reset(rq);
	assert_false(rq_take(rq, &wqe));
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(rq_post(rq, &wr), 0);
}

/* --- takers in other processes --- */

enum { TAKERS = 2, REQUESTS = 20000 };

struct shared {
	uint8_t *memory;
	_Atomic uint32_t takes[REQUESTS]; /* of each request */
	_Atomic uint32_t mistakes;
	_Atomic uint32_t is_over;
};

static void take_borrowed(struct shared *shared, struct recv_queue *rq)
{
	struct recv_wqe wqe;

	while (!atomic_load(&shared->is_over) || rq_count(rq)) {
		if (!rq_take_borrowed(rq, shared->memory, ARENA_BYTES, &wqe)) {
			sched_yield();
			continue;
		}
		atomic_fetch_add(&shared->takes[wqe.wr_id], 1);
		if (wqe.sge_count != 2 || wqe.sge[0].address != wqe.wr_id ||
			wqe.sge[1].address != ~wqe.wr_id || wqe.total_bytes != 12)
			atomic_fetch_add(&shared->mistakes, 1);
	}
	_exit(0);
}

static void post_until_taken(
	struct shared *shared, struct arena *at, struct recv_queue *rq, uint64_t wr_id)
{
	struct sge sge[] = {{wr_id, 5, 1}, {~wr_id, 7, 2}};
	struct recv_wr wr = {wr_id, sge, 2};
	struct recv_wqe wqe;

	for (uint32_t tries = 0; rq_post(rq, &wr); tries++) {
		if (tries % 3 == 0)
			rq_resize(at, rq, 4 + (uint32_t)wr_id % 40);
		sched_yield();
	}
	/* The owner takes, too. */
	if (wr_id % 7 == 0 && rq_take(rq, &wqe)) {
		atomic_fetch_add(&shared->takes[wqe.wr_id], 1);
	}
	if (wr_id % 11 == 0)
		rq_resize(at, rq, 4 + (uint32_t)wr_id % 60);
}

static void rq_request_is_taken_by_one_of_many_processes_while_slots_move(void **state)
{
	struct shared *shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t children[TAKERS];
	struct recv_queue *rq;

	(void)state;
	assert_ptr_not_equal(shared, MAP_FAILED);
	shared->memory = arena_memory_map(ARENA_BYTES, MAP_SHARED);
	arena_init(&arena, shared->memory, ARENA_BYTES);
	rq = arena_at(&arena, rq_create_shared(&arena, 8, SGE_MAX));
	for (int i = 0; i < TAKERS; i++) {
		children[i] = fork();
		if (!children[i])
			take_borrowed(shared, rq);
		assert_true(children[i] > 0);
	}
	for (uint64_t i = 0; i < REQUESTS; i++)
		post_until_taken(shared, &arena, rq, i);
	atomic_store(&shared->is_over, 1);
	for (int i = 0; i < TAKERS; i++)
		assert_int_equal(waitpid(children[i], NULL, 0), children[i]);
	for (uint64_t i = 0; i < REQUESTS; i++)
		assert_int_equal(atomic_load(&shared->takes[i]), 1);
	assert_int_equal(atomic_load(&shared->mistakes), 0);
	arena_memory_free(shared->memory, ARENA_BYTES);
	munmap(shared, sizeof(*shared));
}

static void rq_taker_afar_believes_nothing_that_is_out_of_bounds(void **state)
{
	struct recv_queue *rq = arena_at(&arena, rq_create(&arena, 4, 1));
	struct recv_wr wr = {0};
	struct recv_wqe wqe;

	(void)state;
	assert_int_equal(rq_post(rq, &wr), 0);
	rq->slots_distance += ARENA_BYTES;
	assert_false(rq_take_borrowed(rq, arena_memory, ARENA_BYTES, &wqe));
	rq->slots_distance -= ARENA_BYTES - 4; /* misaligned */
	assert_false(rq_take_borrowed(rq, arena_memory, ARENA_BYTES, &wqe));
	rq->slots_distance -= 4;
	assert_int_equal(rq_post(rq, &wr), 0);
	atomic_fetch_add(&rq_takers(rq)->taken, 1ull << 32); /* its slots are being moved */
	assert_false(rq_take_borrowed(rq, arena_memory, ARENA_BYTES, &wqe));
	atomic_fetch_add(&rq_takers(rq)->taken, 1ull << 32);
	assert_true(rq_take_borrowed(rq, arena_memory, ARENA_BYTES, &wqe));
	assert_true(rq_take_borrowed(rq, arena_memory, ARENA_BYTES, &wqe));
	assert_false(rq_take_borrowed(rq, arena_memory, ARENA_BYTES, &wqe));
}

/* Requests that were taken when the queue shrank do not wait again, whatever takers write. */
static void rq_that_was_resized_has_no_more_requests_than_slots(void **state)
{
	struct recv_queue *rq = arena_at(&arena, rq_create_shared(&arena, 128, 1));
	struct recv_wr wr = {0};
	struct recv_wqe wqe;

	(void)state;
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(rq_post(rq, &wr), 0);
	for (uint32_t i = 0; i < 90; i++)
		assert_true(rq_take_borrowed(rq, arena_memory, ARENA_BYTES, &wqe));
	assert_int_equal(rq_resize(&arena, rq, 16), 0);
	atomic_store(&rq_takers(rq)->taken, (uint64_t)rq->moves << 32 | 5);
	rq_mend(rq);
	assert_int_equal(rq_count(rq), 10);
	assert_int_equal(rq_resize(&arena, rq, 128), 0);
	assert_int_equal(rq_count(rq), 10);
}

/* A taker sets the count of those taken back, or says that it has taken one that waits still. */
static void rq_request_that_has_completed_is_not_taken_again(void **state)
{
	struct recv_queue *rq = arena_at(&arena, rq_create_shared(&arena, 4, 1));
	struct recv_wqe wqe;

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(rq_post(rq, &(struct recv_wr){.wr_id = 10 + i}), 0);
	assert_true(rq_take_borrowed(rq, arena_memory, ARENA_BYTES, &wqe));
	assert_true(rq_redeem(rq, 0, &wqe));
	assert_true(rq_redeem(rq, 2, &wqe));
	atomic_store(&rq_takers(rq)->taken, 0);
	assert_true(rq_take(rq, &wqe));
	assert_int_equal(wqe.wr_id, 11);
	assert_true(rq_take(rq, &wqe));
	assert_int_equal(wqe.wr_id, 13);
	assert_false(rq_take(rq, &wqe));
}

static void sq_is_full_until_completions_are_polled(void **state)
{
	struct send_queue *sq = arena_at(&arena, sq_create(&arena, 3, SGE_MAX, 0));
	struct send_wr wr = {.opcode = WR_SEND};

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(sq_post(sq, &wr, 0), 0);
	assert_int_equal(sq_post(sq, &wr, 0), -ENOMEM);
	sq->completed = 2; /* done is not enough */
	assert_int_equal(sq_post(sq, &wr, 0), -ENOMEM);
	sq_release(sq, 1);
	assert_int_equal(sq_post(sq, &wr, 0), 0);
	assert_int_equal(sq_post(sq, &wr, 0), 0);
	assert_int_equal(sq_post(sq, &wr, 0), -ENOMEM);
}

static void sq_indices_wrap_around_32_bits(void **state)
{
	struct send_queue *sq = arena_at(&arena, sq_create(&arena, 4, SGE_MAX, 0));
	struct send_wr wr = {.opcode = WR_SEND};

	(void)state;
	sq->posted = sq->completed = UINT32_MAX - 1;
	sq_release(sq, UINT32_MAX - 2);
	for (uint32_t i = 0; i < 20; i++) {
		uint32_t index = sq->posted;

		wr.wr_id = i;
		assert_int_equal(sq_post(sq, &wr, 0), 0);
		assert_int_equal(sq_at(sq, index)->wr_id, i);
		sq_release(sq, index);
	}
}

static void sq_slots_hold_the_longest_list_and_inline_data(void **state)
{
	struct send_queue *sq = arena_at(&arena, sq_create(&arena, 8, SGE_MAX, INLINE_MAX));
	uint8_t data[INLINE_MAX];
	struct sge list[SGE_MAX] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
	struct sge inline_list[2] = {{(uintptr_t)data, 60, 0}, {(uintptr_t)data + 60, 40, 0}};
	struct send_wr with_list = {.sge = list, .sge_count = SGE_MAX};
	struct send_wr with_inline = {.flags = SEND_INLINE, .sge = inline_list, .sge_count = 2};

	(void)state;
	for (uint32_t i = 0; i < INLINE_MAX; i++)
		data[i] = (uint8_t)i;
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(sq_post(sq, i % 2 ? &with_inline : &with_list, 100), 0);
	memset(data, 0xff, sizeof(data)); /* the application may use it again at once */
	for (uint32_t i = 0; i < 8; i++) {
		if (i % 2 == 0)
			assert_memory_equal(sq_at(sq, i)->sge, list, sizeof(list));
		for (uint32_t j = 0; i % 2 && j < INLINE_MAX; j++)
			assert_int_equal(sq_at(sq, i)->inline_bytes[j], j);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(rq_requests_come_back_whole_and_in_order, setup),
		cmocka_unit_test_setup(rq_of_depth_zero_takes_nothing, setup),
		cmocka_unit_test_setup(rq_after_reset_is_empty, setup),
		cmocka_unit_test_setup(
			rq_request_is_taken_by_one_of_many_processes_while_slots_move, setup),
		cmocka_unit_test_setup(rq_taker_afar_believes_nothing_that_is_out_of_bounds, setup),
		cmocka_unit_test_setup(rq_that_was_resized_has_no_more_requests_than_slots, setup),
		cmocka_unit_test_setup(rq_request_that_has_completed_is_not_taken_again, setup),
		cmocka_unit_test_setup(sq_is_full_until_completions_are_polled, setup),
		cmocka_unit_test_setup(sq_indices_wrap_around_32_bits, setup),
		cmocka_unit_test_setup(sq_slots_hold_the_longest_list_and_inline_data, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
