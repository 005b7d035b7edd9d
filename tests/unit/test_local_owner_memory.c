/* SPDX-License-Identifier: BSD-2-Clause */
/* Access to memory of another process, in an imported protection domain. */
#include "support/owner_ends.h"

static void keys_are_the_owner_s(void **state)
{
	(void)state;
	script.key = key;
	script.memory = memory;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_expect_ack(&script, 0, 1);
	assert_int_equal(memory[9], (uint8_t)(SCRIPT_RQ_PSN + 9));
	script_send_read(&script, 1, 0, 10);
	assert_memory_equal(
		script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 1)->payload, memory, 10);
	assert_int_equal((uint32_t)marks_seen, key);
	is_mapped = true;
	memset(memory, 0, sizeof(memory));
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 2, 64, 5, 0);
	script_send_atomic(&script, OPCODE_RC_COMPARE_SWAP, 3, 64, 9, 5);
	assert_int_equal(
		script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 2)->atomicacketh.original, 0);
	assert_int_equal(
		script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 3)->atomicacketh.original, 5);
	assert_int_equal(memory[64], 9);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY_IMM, 4, 10, 10);
	script_expect_rnr(&script, 4);
	assert_int_equal(memory[3], 0);
	post(3, 0);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY_IMM, 4, 10, 10);
	script_expect_ack(&script, 4, 5);
	assert_int_equal(memory[3], (uint8_t)(SCRIPT_RQ_PSN + 4 + 3));
	collect();
	assert_int_equal(completion().opcode, WC_RECV_RDMA_WITH_IMM);
}

/* While it moves its memory, say. */
static void key_that_the_owner_suspends_is_waited_for(void **state)
{
	(void)state;
	script.key = key;
	script.memory = memory;
	mr_table_suspend(&mrs);
	resumes_in = 5;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_expect_ack(&script, 0, 1);
	assert_int_equal(pauses, 5);
	assert_int_equal(memory[9], (uint8_t)(SCRIPT_RQ_PSN + 9));
	mr_table_suspend(&mrs);
	resumes_in = 10;
	script_send_read(&script, 1, 0, 10);
	assert_memory_equal(
		script_expect(&script, OPCODE_RC_READ_RESPONSE_ONLY, 1)->payload, memory, 10);
	mr_table_suspend(&mrs);
	resumes_in = 0;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 2, 10, 10);
	script_expect_refusal(&script, 2, AETH_NAK_REMOTE_ACCESS);
	assert_int_equal(marks(), 0);
	mr_table_resume(&mrs);
}

static void key_of_the_borrower_is_none_of_the_owner_s(void **state)
{
	(void)state;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_expect_refusal(&script, 0, AETH_NAK_REMOTE_ACCESS);
}

static void range_beyond_the_owner_s_region_is_refused(void **state)
{
	(void)state;
	script.key = key;
	script.memory = memory + BYTES - 5;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_expect_refusal(&script, 0, AETH_NAK_REMOTE_ACCESS);
	assert_int_equal(memory[BYTES - 1], 0);
}

static void other_domain_of_the_owner_is_refused(void **state)
{
	(void)state;
	domain.pd++;
	script.key = key;
	script.memory = memory;
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 0, 10, 10);
	script_expect_refusal(&script, 0, AETH_NAK_REMOTE_ACCESS);
}

static void atomic_on_memory_that_is_not_mapped_is_the_owner_s_to_do(void **state)
{
	uint64_t value = 7;

	(void)state;
	memcpy(memory + 64, &value, sizeof(value));
	script.key = key;
	script.memory = memory;
	comes_in = 3;
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 0, 64, 5, 0);
	assert_int_equal(
		script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0)->atomicacketh.original, 7);
	assert_int_equal(memory[64], 12);
	assert_int_equal(kicks, 1);
	pauses = 0;
	script_send_atomic(&script, OPCODE_RC_COMPARE_SWAP, 1, 64, 9, 12);
	assert_int_equal(
		script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 1)->atomicacketh.original, 12);
	assert_int_equal(memory[64], 9);
}

static void atomic_that_the_owner_does_not_come_to_is_not_ready(void **state)
{
	(void)state;
	script.key = key;
	script.memory = memory;
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 0, 64, 5, 0);
	script_expect_rnr(&script, 0);
	local_collect(&lane, &local_lane, NOW_NS); /* too late: it was taken back */
	assert_int_equal(memory[64], 0);
	pauses = 0;
	comes_in = 1;
	script_send_atomic(&script, OPCODE_RC_FETCH_ADD, 0, 64, 5, 0);
	script_expect(&script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0);
	assert_int_equal(memory[64], 5);
}

static void atomic_is_checked_by_the_owner_that_does_it(void **state)
{
	uint64_t before;
	struct mr_word word = {MR_WORD_FETCH_ADD, 0, 1};

	(void)state;
	comes_in = 1;
	assert_int_equal(borrowed_apply(&domain, key + 1, 0, MR_REMOTE_ATOMIC, (uintptr_t)memory,
				 &word, &before),
		MR_FAULT_KEY);
	assert_int_equal(borrowed_apply(&domain, key, 0, MR_REMOTE_ATOMIC,
				 (uintptr_t)memory + BYTES, &word, &before),
		MR_FAULT_BOUNDS);
	owner.doorbell_offset[OWNER_LANE] = 0; /* it has nobody who could */
	assert_int_equal(borrowed_apply(&domain, key, 0, MR_REMOTE_ATOMIC, (uintptr_t)memory, &word,
				 &before),
		MR_FAULT_PAGE);
}

static void deregistration_waits_for_borrowers(void **state)
{
	struct request_channel *channel = borrower_channel_take(borrowers, &peer, BORROWER);

	(void)state;
	assert_non_null(channel);
	borrower_channel_enter(channel, CHANNEL_USES_KEY | key);
	leaves_in = 3;
	assert_true(borrower_quiesce(&surroundings, &mrs, key, 1));
	assert_int_equal(atomic_load(&channel->in_use), CHANNEL_IS_FREE);
	borrower_channel_enter(channel, CHANNEL_USES_KEY | key);
	leaves_in = 0; /* it is dead: nobody is waited for */
	assert_true(borrower_quiesce(&surroundings, &mrs, key, 1));
}

static uint64_t all_time(void)
{
	return UINT64_MAX;
}

/* Another mark each time, of an unknown key. */
static bool wait_and_mark(uint32_t who, uint32_t round)
{
	(void)who;
	borrower_channel_enter(&borrowers->channel[0], CHANNEL_USES_KEY | (0x1000 + round));
	return ++waits < 10000; /* else it would never end */
}

static void deregistration_does_not_wait_for_marks_that_keep_changing(void **state)
{
	(void)state;
	assert_non_null(borrower_channel_take(borrowers, &peer, BORROWER));
	waits = 0;
	wait_and_mark(BORROWER, 0);
	surroundings.wait = wait_and_mark;
	surroundings.now_ns = all_time;
	assert_false(borrower_quiesce(&surroundings, &mrs, key, 1));
	assert_in_range(waits, 1, 1000);
}

/* A hostile process can set the marks of all channels. */
static void owner_waits_for_all_channels_at_once(void **state)
{
	(void)state;
	atomic_store(&borrowers->used_count, BORROWER_CHANNEL_COUNT);
	for (uint32_t i = 0; i < BORROWER_CHANNEL_COUNT; i++)
		borrower_channel_enter(&borrowers->channel[i], CHANNEL_PUBLISHES);
	leaves_in = UINT32_MAX;
	waits = 0;
	assert_false(borrower_wait(&surroundings));
	assert_in_range(waits, 1, 3000);
}

static void bytes_are_moved_again_when_the_mark_was_revoked(void **state)
{
	uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {0};

	(void)state;
	is_mapped = false;
	revokes_in = 1;
	assert_int_equal(
		borrowed_put(&domain, key, 0, MR_REMOTE_WRITE, (uintptr_t)memory, 8, bytes), MR_OK);
	assert_memory_equal(memory, bytes, 8);
	revokes_in = 1;
	assert_int_equal(
		borrowed_get(&domain, key, 0, MR_REMOTE_READ, (uintptr_t)memory, 8, back), MR_OK);
	assert_memory_equal(back, bytes, 8);
	assert_int_equal(marks(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keys_are_the_owner_s),
		TEST(key_that_the_owner_suspends_is_waited_for),
		TEST(key_of_the_borrower_is_none_of_the_owner_s),
		TEST(range_beyond_the_owner_s_region_is_refused),
		TEST(other_domain_of_the_owner_is_refused),
		TEST(atomic_on_memory_that_is_not_mapped_is_the_owner_s_to_do),
		TEST(atomic_that_the_owner_does_not_come_to_is_not_ready),
		TEST(atomic_is_checked_by_the_owner_that_does_it),
		TEST(deregistration_waits_for_borrowers),
		TEST(deregistration_does_not_wait_for_marks_that_keep_changing),
		TEST(owner_waits_for_all_channels_at_once),
		TEST(bytes_are_moved_again_when_the_mark_was_revoked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
