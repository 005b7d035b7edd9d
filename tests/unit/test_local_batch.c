/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plain WRITEs and SENDs, posted together and executed in a batch, and posted one by one.
 */
#include "support/local_ends.h"

enum { WORD_BYTES = 8 };

static struct sge lists[DEPTH];
static struct send_wr wrs[DEPTH];

/*
 * Make `count` WRITEs of a word each, from this end's memory to the same offset of the target's.
 * Every tenth is signaled.
 */
static void writes_make(uint32_t count)
{
	ends[0].peer.ops = &mapped_ops;
	for (uint32_t i = 0; i < count; i++) {
		memset(ends[0].memory + i * WORD_BYTES, (int)(1 + i % 255), WORD_BYTES);
		lists[i] = (struct sge){
			(uintptr_t)ends[0].memory + i * WORD_BYTES, WORD_BYTES, ends[0].key};
		wrs[i] = (struct send_wr){
			.wr_id = i,
			.opcode = WR_RDMA_WRITE,
			.flags = i % 10 == 9 ? SEND_SIGNALED : 0,
			.rkey = ends[1].key,
			.remote_address = (uintptr_t)ends[1].memory + i * WORD_BYTES,
			.sge = &lists[i],
			.sge_count = 1,
		};
	}
}

static bool are_posted_alone;

static int setup_alone(void **state)
{
	are_posted_alone = true;
	return setup(state);
}

static int teardown_alone(void **state)
{
	are_posted_alone = false;
	return teardown(state);
}

/* Once more, each by itself. */
#define TEST_ALONE(name) cmocka_unit_test_setup_teardown(name, setup_alone, teardown_alone)

static void writes_post(uint32_t count)
{
	uint32_t step = are_posted_alone ? 1 : count;
	uint32_t posted;

	for (uint32_t i = 0; i < count; i += step)
		assert_int_equal(engine_post_send(ends[0].qp, &wrs[i], step, &posted, NOW_NS), 0);
}

static bool is_there(uint32_t word)
{
	return memcmp(ends[1].memory + word * WORD_BYTES, ends[0].memory + word * WORD_BYTES,
		       WORD_BYTES) == 0;
}

static uint64_t counted(enum counter counter)
{
	return counter_read(ends[0].qp->counters, counter);
}

static void row_is_there_and_complete_when_posting_returns(void **state)
{
	(void)state;
	writes_make(DEPTH);
	writes_post(DEPTH);
	for (uint32_t i = 0; i < DEPTH; i++)
		assert_true(is_there(i));
	for (uint32_t i = 9; i < DEPTH; i += 10)
		assert_int_equal(poll_sent().wr_id, i);
	assert_true(cq_is_empty(&ends[0].send_cq));
	assert_false(has_packets(0));
	assert_int_equal(counted(COUNTER_local_requests), DEPTH);
	assert_int_equal(channel_of(1)->writes, DEPTH);
	assert_int_equal(channel_of(1)->bytes, DEPTH * WORD_BYTES);
	assert_int_equal(channel_of(1)->in_use, CHANNEL_IS_FREE);
}

static void inline_data_goes_in_a_row(void **state)
{
	(void)state;
	writes_make(DEPTH);
	for (uint32_t i = 0; i < DEPTH; i++)
		wrs[i].flags |= SEND_INLINE;
	writes_post(DEPTH);
	for (uint32_t i = 0; i < DEPTH; i++)
		assert_true(is_there(i));
}

/* What is written is what is read back: requests are executed in their order. */
static void other_requests_have_their_place_between_rows(void **state)
{
	(void)state;
	writes_make(30);
	wrs[15].opcode = WR_RDMA_READ;
	wrs[15].remote_address = (uintptr_t)ends[1].memory + 14 * WORD_BYTES;
	writes_post(30);
	assert_memory_equal(
		ends[0].memory + 15 * WORD_BYTES, ends[1].memory + 14 * WORD_BYTES, WORD_BYTES);
	for (uint32_t i = 16; i < 30; i++)
		assert_true(is_there(i));
	assert_int_equal(counted(COUNTER_local_requests), 30);
}

static void row_ends_before_what_may_not_be_written(void **state)
{
	(void)state;
	writes_make(30);
	wrs[20].remote_address = (uintptr_t)ends[1].memory + MEMORY_BYTES - WORD_BYTES + 1;
	writes_post(30);
	for (uint32_t i = 0; i < 20; i++)
		assert_true(is_there(i));
	for (uint32_t i = 20; i < 30; i++)
		assert_false(is_there(i));
	assert_true(has_packets(0));
	assert_int_equal(counted(COUNTER_local_requests), 20);
}

static void other_key_in_a_row_is_looked_up_by_itself(void **state)
{
	struct mr_region region = {
		PD, MR_LOCAL_WRITE, (uintptr_t)ends[1].memory, MEMORY_BYTES, ends[1].memory};
	uint32_t key;

	(void)state;
	assert_int_equal(mr_table_add(&ends[1].mrs, &region, 0, &key), 0);
	writes_make(10);
	wrs[5].rkey = key; /* which grants nothing to peers */
	writes_post(10);
	assert_true(is_there(4));
	assert_false(is_there(5));
	assert_true(has_packets(0));
}

static uint32_t looked_up;

/* What is looked up is marked. */
static uint8_t *map_marked(
	struct peer *peer, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	uint64_t mark = atomic_load(&channel_of(1)->in_use);

	assert_true(mark & CHANNEL_USES_KEY);
	assert_ptr_equal(mr_region_of(&ends[0].peer.mrs, (uint32_t)mark), region);
	looked_up++;
	return map_all(peer, region, address, bytes);
}

static const struct peer_ops marked_ops = {far_write, far_read, map_marked, kick, NULL, NULL};

static uint32_t other_region_add(uint32_t number)
{
	struct mr_region region = {
		PD, ACCESS, (uintptr_t)ends[number].memory, MEMORY_BYTES, ends[number].memory};
	uint32_t key;

	assert_int_equal(mr_table_add(&ends[number].mrs, &region, 0, &key), 0);
	return key;
}

static void keys_may_take_turns(void **state)
{
	uint32_t key = other_region_add(1), own = other_region_add(0);

	(void)state;
	writes_make(20);
	for (uint32_t i = 0; i < 20; i++) {
		wrs[i].rkey = i / 3 % 2 ? key : ends[1].key;
		lists[i].lkey = i / 2 % 2 ? own : ends[0].key;
	}
	ends[0].peer.ops = &marked_ops;
	looked_up = 0;
	writes_post(20);
	assert_int_equal(looked_up, 7 * 2); /* and once more to keep it */
	for (uint32_t i = 0; i < 20; i++)
		assert_true(is_there(i));
	assert_false(has_packets(0));
	assert_int_equal(counted(COUNTER_local_requests), 20);
}

static void key_that_went_is_not_used_for_another_row(void **state)
{
	(void)state;
	writes_make(10);
	writes_post(10);
	assert_int_equal(mr_table_remove(&ends[1].mrs, ends[1].key, PD), 0);
	memset(ends[1].memory, 0, MEMORY_BYTES);
	writes_post(10);
	assert_false(is_there(0));
	assert_true(has_packets(0));
}

static void row_needs_the_right_of_the_queue_pair(void **state)
{
	(void)state;
	writes_make(10);
	writes_post(10);
	memset(ends[1].memory, 0, MEMORY_BYTES);
	atomic_store(&channel_of(1)->access, MR_REMOTE_READ);
	writes_post(10);
	assert_false(is_there(0));
	assert_true(has_packets(0));
}

static void row_does_not_enter_a_closed_channel(void **state)
{
	(void)state;
	writes_make(10);
	writes_post(10);
	memset(ends[1].memory, 0, MEMORY_BYTES);
	channel_close(channel_of(1), ring_of(1));
	writes_post(10);
	assert_false(is_there(0));
	assert_true(has_packets(0));
}

/* Owners that ask for it are told of each batch: how many requests was the longest one? */
static uint64_t executed;
static uint64_t longest;

static void kick_noted(struct peer *peer, uint32_t lane)
{
	uint64_t writes = atomic_load(&channel_of(1)->writes);

	(void)peer;
	(void)lane;
	longest = max_u64(longest, writes - executed);
	executed = writes;
}

/* A deregistration waits for no more bytes than those of one batch. */
static void batch_of_long_writes_ends_at_four_mebibytes(void **state)
{
	enum { BYTES = MEMORY_BYTES, COUNT = 100, BATCH = (4 << 20) / BYTES };
	struct peer_ops noting = mapped_ops;

	(void)state;
	noting.kick = kick_noted;
	writes_make(COUNT);
	writes_post(COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		lists[i] = (struct sge){(uintptr_t)ends[0].memory, BYTES, ends[0].key};
		wrs[i].remote_address = (uintptr_t)ends[1].memory;
	}
	ends[0].peer.ops = &noting;
	longest = 0;
	executed = COUNT;
	atomic_store(&channel_of(1)->wants_first, 1);
	writes_post(COUNT);
	assert_int_equal(longest, BATCH);
	assert_int_equal(counted(COUNTER_local_requests), 2 * COUNT);
	assert_int_equal(channel_of(1)->bytes, COUNT * (WORD_BYTES + BYTES));
	assert_memory_equal(ends[0].memory, ends[1].memory, BYTES);
}

/* --- messages --- */

enum { ROOM_BYTES = 16, MESSAGES = 100 };

/* Receive request `number`, with that many bytes of room, each beside the one before. */
static void room_post(uint32_t number, uint32_t bytes)
{
	struct sge sge = {(uintptr_t)ends[1].memory + number * ROOM_BYTES, bytes, ends[1].key};
	struct recv_wr wr = {100 + number, &sge, 1};

	assert_int_equal(qp_post_recv(ends[1].qp, &wr), 0);
}

/* There is room for one message more before them. */
static void messages_make(uint32_t count)
{
	writes_make(count);
	post_receive(0);
	post(WR_SEND, WORD_BYTES);
	assert_int_equal(collect(), 1);
	poll_received();
	poll_sent();
	for (uint32_t i = 0; i < count; i++)
		wrs[i].opcode = WR_SEND;
}

static bool has_come(uint32_t number)
{
	return memcmp(ends[1].memory + number * ROOM_BYTES, ends[0].memory + number * WORD_BYTES,
		       WORD_BYTES) == 0;
}

static void messages_in_a_row_fill_receive_requests_in_turn(void **state)
{
	(void)state;
	messages_make(MESSAGES);
	for (uint32_t i = 0; i < MESSAGES; i++)
		room_post(i, ROOM_BYTES);
	writes_post(MESSAGES);
	assert_int_equal(collect(), MESSAGES);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct cqe cqe = poll_received();

		assert_true(has_come(i));
		assert_int_equal(cqe.wr_id, 100 + i);
		assert_int_equal(cqe.opcode, WC_RECV);
		assert_int_equal(cqe.byte_count, WORD_BYTES);
	}
	for (uint32_t i = 9; i < MESSAGES; i += 10)
		assert_int_equal(poll_sent().wr_id, i);
	assert_false(has_packets(0));
	assert_int_equal(counted(COUNTER_local_requests), 1 + MESSAGES);
	assert_int_equal(channel_of(1)->bytes, (1 + MESSAGES) * WORD_BYTES);
	assert_int_equal(channel_of(1)->in_use, CHANNEL_IS_FREE);
}

static void receive_requests_may_be_for_several_regions(void **state)
{
	uint32_t keys[2];

	(void)state;
	messages_make(20);
	keys[0] = ends[1].key;
	keys[1] = other_region_add(1);
	for (uint32_t i = 0; i < 20; i++) {
		ends[1].key = keys[i / 3 % 2];
		room_post(i, ROOM_BYTES);
	}
	ends[0].peer.ops = &marked_ops;
	writes_post(20);
	assert_int_equal(collect(), 20);
	for (uint32_t i = 0; i < 20; i++) {
		assert_true(has_come(i));
		assert_int_equal(poll_received().wr_id, 100 + i);
	}
	assert_false(has_packets(0));
}

static void messages_end_before_a_request_without_room(void **state)
{
	(void)state;
	messages_make(4);
	for (uint32_t i = 0; i < 4; i++)
		room_post(i, i == 2 ? WORD_BYTES - 1 : ROOM_BYTES);
	writes_post(4);
	assert_int_equal(collect(), 2);
	assert_true(has_come(1));
	assert_false(has_come(2));
	assert_true(has_packets(0));
}

static void message_that_nobody_takes_yet_waits(void **state)
{
	(void)state;
	messages_make(3);
	for (uint32_t i = 0; i < 2; i++)
		room_post(i, ROOM_BYTES);
	writes_post(3);
	assert_int_equal(collect(), 2);
	assert_false(has_packets(0));
	room_post(2, ROOM_BYTES);
	engine_expire(&ends[0].lane, NOW_NS + MS);
	while (has_packets(0))
		carry(0);
	assert_int_equal(collect(), 1);
	assert_true(has_come(2));
	assert_int_equal(counted(COUNTER_local_requests), 4);
}

static void solicited_message_is_told_to_who_waits_for_one(void **state)
{
	(void)state;
	messages_make(2);
	for (uint32_t i = 0; i < 2; i++)
		room_post(i, ROOM_BYTES);
	cq_arm(&ends[1].recv_cq, CQ_ARM_SOLICITED);
	writes_post(1);
	assert_int_equal(collect(), 1);
	assert_true(cq_is_armed(&ends[1].recv_cq));
	wrs[0].flags = SEND_SOLICITED;
	writes_post(1);
	assert_int_equal(collect(), 1);
	assert_false(cq_is_armed(&ends[1].recv_cq));
}

static void memory_that_went_gets_no_message(void **state)
{
	(void)state;
	messages_make(2);
	for (uint32_t i = 0; i < 2; i++)
		room_post(i, ROOM_BYTES);
	writes_post(1);
	assert_int_equal(mr_table_remove(&ends[1].mrs, ends[1].key, PD), 0);
	wrs[0] = wrs[1];
	writes_post(1);
	assert_int_equal(collect(), 1);
	assert_false(has_come(1));
	assert_true(has_packets(0));
}

static void messages_do_not_enter_a_closed_channel(void **state)
{
	(void)state;
	messages_make(2);
	for (uint32_t i = 0; i < 2; i++)
		room_post(i, ROOM_BYTES);
	writes_post(1);
	channel_close(channel_of(1), ring_of(1));
	wrs[0] = wrs[1];
	writes_post(1);
	assert_false(has_come(1));
	assert_int_equal(channel_of(1)->in_use, CHANNEL_IS_FREE);
	assert_true(has_packets(0));
}

/* --- alone --- */

static uint32_t asked;

static bool can_execute_noted(struct qp *qp, const struct send_wqe *wqe)
{
	asked++;
	return local_can_execute(qp, wqe);
}

static void plain_request_takes_the_fast_path(void **state)
{
	struct qp_local_ops noting = *ends[0].qp->local->ops;

	(void)state;
	noting.can_execute = can_execute_noted;
	messages_make(2);
	wrs[1].opcode = WR_RDMA_WRITE;
	wrs[1].flags = SEND_SIGNALED;
	room_post(0, ROOM_BYTES);
	writes_post(2); /* what they name is kept from here on */
	poll_sent();
	memset(ends[1].memory, 0, MEMORY_BYTES);
	room_post(0, ROOM_BYTES);
	ends[0].qp->local->ops = &noting;
	asked = 0;
	writes_post(2);
	assert_int_equal(asked, 0);
	assert_memory_equal(ends[1].memory, ends[0].memory, WORD_BYTES);
	assert_true(is_there(1));
	assert_int_equal(poll_sent().wr_id, 1);
	lists[0].address++; /* this one leaves it */
	lists[0].bytes = MEMORY_BYTES;
	writes_post(1);
	assert_true(asked > 0);
}

static void request_at_a_rate_goes_by_packets(void **state)
{
	(void)state;
	writes_make(2);
	writes_post(2);
	assert_int_equal(qp_set_rate(ends[0].qp, 1000, 0), 0);
	memset(ends[1].memory, 0, MEMORY_BYTES);
	writes_post(1);
	assert_false(is_there(0));
}

static void request_after_the_end_of_a_rate_takes_the_fast_path(void **state)
{
	(void)state;
	writes_make(1);
	assert_int_equal(qp_set_rate(ends[0].qp, 1000, 0), 0);
	assert_int_equal(qp_set_rate(ends[0].qp, 0, 0), 0);
	writes_post(1);
	assert_true(is_there(0));
}

static void request_that_is_posted_in_sqd_waits(void **state)
{
	(void)state;
	writes_make(2);
	writes_post(2);
	memset(ends[1].memory, 0, MEMORY_BYTES);
	qp_set_state(ends[0].qp, QP_SQD, NOW_NS);
	writes_post(1);
	assert_false(is_there(0));
}

static void queue_is_full_of_what_nobody_has_polled(void **state)
{
	uint32_t posted;

	(void)state;
	writes_make(1);
	wrs[0].flags = SEND_SIGNALED;
	for (uint32_t i = 0; i < DEPTH; i++)
		writes_post(1);
	assert_int_equal(engine_post_send(ends[0].qp, wrs, 1, &posted, NOW_NS), -ENOMEM);
	poll_sent();
	writes_post(1);
	assert_int_equal(engine_post_send(ends[0].qp, wrs, 1, &posted, NOW_NS), -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(row_is_there_and_complete_when_posting_returns),
		TEST(inline_data_goes_in_a_row),
		TEST(other_requests_have_their_place_between_rows),
		TEST(row_ends_before_what_may_not_be_written),
		TEST(other_key_in_a_row_is_looked_up_by_itself),
		TEST(keys_may_take_turns),
		TEST(key_that_went_is_not_used_for_another_row),
		TEST(row_needs_the_right_of_the_queue_pair),
		TEST(row_does_not_enter_a_closed_channel),
		TEST(batch_of_long_writes_ends_at_four_mebibytes),
		TEST(messages_in_a_row_fill_receive_requests_in_turn),
		TEST(receive_requests_may_be_for_several_regions),
		TEST(messages_end_before_a_request_without_room),
		TEST(message_that_nobody_takes_yet_waits),
		TEST(solicited_message_is_told_to_who_waits_for_one),
		TEST(memory_that_went_gets_no_message),
		TEST(messages_do_not_enter_a_closed_channel),
		TEST_ALONE(row_is_there_and_complete_when_posting_returns),
		TEST_ALONE(inline_data_goes_in_a_row),
		TEST_ALONE(other_requests_have_their_place_between_rows),
		TEST_ALONE(row_ends_before_what_may_not_be_written),
		TEST_ALONE(other_key_in_a_row_is_looked_up_by_itself),
		TEST_ALONE(key_that_went_is_not_used_for_another_row),
		TEST_ALONE(row_needs_the_right_of_the_queue_pair),
		TEST_ALONE(row_does_not_enter_a_closed_channel),
		TEST_ALONE(messages_in_a_row_fill_receive_requests_in_turn),
		TEST_ALONE(receive_requests_may_be_for_several_regions),
		TEST_ALONE(messages_end_before_a_request_without_room),
		TEST_ALONE(message_that_nobody_takes_yet_waits),
		TEST_ALONE(memory_that_went_gets_no_message),
		TEST_ALONE(messages_do_not_enter_a_closed_channel),
		TEST_ALONE(plain_request_takes_the_fast_path),
		TEST_ALONE(request_at_a_rate_goes_by_packets),
		TEST_ALONE(request_after_the_end_of_a_rate_takes_the_fast_path),
		TEST_ALONE(request_that_is_posted_in_sqd_waits),
		TEST_ALONE(queue_is_full_of_what_nobody_has_polled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
