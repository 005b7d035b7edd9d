/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Failures that are kept: which reason the responder and requester report, with which facts, and
 * what the sentences say. tests/mistakes has the reasons that whole programs can provoke.
 */
#include <stdio.h>
#include <string.h>

#include "ib/rc/rc.h"
#include "os/failure_text.h"
#include "support/rc_script.h"

static struct failures failures;
static uint32_t noted;

static void failure_count(const struct failure *failure, uint32_t place)
{
	assert_ptr_equal(
		&failures.list[place], &failures.list[(failure->number - 1) % FAILURES_MAX]);
	noted++;
}

static void keep(void)
{
	memset(&failures, 0, sizeof(failures));
	failures.noted = failure_count;
	noted = 0;
	script.lane.failures = &failures;
}

/* Failure `number`, from 1, has this reason. */
static const struct failure *kept(uint64_t number, enum reason reason)
{
	const struct failure *failure = &failures.list[(number - 1) % FAILURES_MAX];

	assert_true(number <= failures.count);
	assert_int_equal(failure->number, number);
	assert_int_equal(failure->reason, reason);
	return failure;
}

static uint64_t fact_of(const struct failure *failure, enum fact fact)
{
	uint64_t value;

	assert_true(failure_fact(failure, fact, &value));
	return value;
}

static bool says(const struct failure *failure, const char *part)
{
	char text[REASON_SENTENCE_BYTES];

	reason_tell(failure, text, sizeof(text));
	if (strstr(text, part))
		return true;
	for (uint32_t i = 0; i < failure->facts.count; i++)
		if (reason_tell_fact(failure, i, text, sizeof(text)) && strstr(text, part))
			return true;
	print_message("%s\n", text);
	return false;
}

/* --- the list --- */

static void failures_of_a_flood_leave_the_last_ones(void **state)
{
	struct failure failure = {.reason = REASON_REMOTE_ACCESS};

	(void)state;
	keep();
	for (uint32_t i = 1; i <= 1000; i++) {
		failure.wr_id = i;
		failures_add(&failures, &failure);
	}
	for (uint64_t number = 1000 - FAILURES_MAX + 1; number <= 1000; number++)
		assert_int_equal(kept(number, REASON_REMOTE_ACCESS)->wr_id, number);
	assert_int_equal(noted, 1000);
}

static void failure_that_repeats_itself_is_counted(void **state)
{
	struct failure first = {.reason = REASON_LOCAL_KEY, .qpn = 1};
	struct failure failure = {.reason = REASON_FLUSHED, .is_repeated = true, .qpn = 1};

	(void)state;
	keep();
	failures_add(&failures, &first);
	for (uint32_t i = 0; i < 1000; i++)
		failures_add(&failures, &failure);
	failure.qpn = 2;
	failures_add(&failures, &failure);
	assert_int_equal(failures.count, 3);
	kept(1, REASON_LOCAL_KEY);
	assert_int_equal(kept(2, REASON_FLUSHED)->count, 1000);
	assert_int_equal(kept(3, REASON_FLUSHED)->count, 1);
	/* The first, and each power of two up to 512. */
	assert_int_equal(noted, 1 + 10 + 1);
}

/* A flood is counted as failures_add() counts it, and the owner hears as often. */
static void repetition_of_the_newest_failure_is_counted_alone(void **state)
{
	struct failure drop = {.reason = REASON_DROPPED_NO_RECEIVE, .is_repeated = true, .qpn = 1};

	(void)state;
	keep();
	for (uint32_t i = 0; i < 1000; i++)
		if (!failures_count(&failures, drop.reason, drop.qpn, i))
			failures_add(&failures, &drop);
	assert_int_equal(kept(1, REASON_DROPPED_NO_RECEIVE)->count, 1000);
	assert_int_equal(kept(1, REASON_DROPPED_NO_RECEIVE)->at_ns, 999);
	assert_int_equal(noted, 10);
	assert_false(failures_count(&failures, drop.reason, 2, 0));
	assert_false(failures_count(&failures, REASON_DROPPED_QKEY, drop.qpn, 0));
}

static void failure_with_too_many_facts_keeps_the_first(void **state)
{
	struct failure failure = {.reason = REASON_FLUSHED};

	(void)state;
	for (uint32_t i = 0; i < 2 * FAILURE_FACTS_MAX; i++)
		failure_facts_add(&failure.facts, FACT_bytes, i);
	assert_int_equal(failure.facts.count, FAILURE_FACTS_MAX);
	assert_int_equal(fact_of(&failure, FACT_bytes), 0);
}

/* --- sentences --- */

static void facts_fill(struct failure *failure, const char *sentence)
{
	for (int fact = 0; fact < FACT_COUNT; fact++) {
		char name[64];

		snprintf(name, sizeof(name), "{%s}", fact_rows[fact].name);
		if (strstr(sentence, name))
			failure_facts_add(&failure->facts, (enum fact)fact, 1);
	}
}

/* Each name in braces is a fact, so with these facts no "?" is left. */
static void sentence_is_whole(struct failure *failure, const char *text)
{
	if (strchr(text, '{') || strchr(text, '}') || strchr(text, '?'))
		fail_msg("reason %u says: %s", failure->reason, text);
}

static void sentences_name_facts_that_exist(void **state)
{
	char text[REASON_SENTENCE_BYTES];

	(void)state;
	for (uint32_t i = 0; i < reason_count; i++) {
		struct failure failure = {
			.reason = reason_rows[i].number, .count = 2, .text = "a call"};

		if (reason_rows[i].seen)
			facts_fill(&failure, reason_rows[i].seen);
		reason_tell(&failure, text, sizeof(text));
		sentence_is_whole(&failure, text);
		assert_true(strlen(text) < sizeof(text) - 1);
	}
	for (int fact = 0; fact < FACT_COUNT; fact++) {
		struct failure failure = {.reason = (uint32_t)fact};

		failure_facts_add(&failure.facts, (enum fact)fact, 1);
		if (!fact_rows[fact].sentence)
			continue;
		facts_fill(&failure, fact_rows[fact].sentence);
		assert_true(reason_tell_fact(&failure, 0, text, sizeof(text)));
		sentence_is_whole(&failure, text);
	}
}

static void reasons_have_one_row_each(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < reason_count; i++) {
		const struct reason_row *row = &reason_rows[i];

		assert_ptr_equal(reason_find(row->number), row);
		assert_true(row->number < 100 || row->kind != REASON_KIND_FAULT);
		if (row->number)
			assert_true(row->look && row->fix);
	}
	assert_null(reason_find(99));
}

static void sentence_of_an_unknown_reason_says_so(void **state)
{
	struct failure failure = {.reason = 99};

	(void)state;
	assert_true(says(&failure, "reason 99, of another version of urnic"));
}

/* --- the responder --- */

/* The peer sends a WRITE of `bytes` at `address` by `key`, which is refused. */
static void write_refused(uint64_t address, uint32_t key, uint32_t bytes)
{
	struct packet packet = script_packet(&script, OPCODE_RC_WRITE_ONLY, 0);

	packet_set_payload(&packet, NULL, bytes);
	packet.reth = (struct reth){address, key, bytes};
	script_send(&script, &packet);
	assert_int_equal(script.qp->state, QP_ERR);
}

static void responder_reports_the_region_that_a_range_leaves(void **state)
{
	const struct failure *failure;
	uint64_t end = (uintptr_t)script.memory + SCRIPT_MEMORY_BYTES;

	(void)state;
	keep();
	write_refused(end - 8, script.key, 20);
	failure = kept(1, REASON_REGION_BOUNDS);
	assert_int_equal(fact_of(failure, FACT_byte), 8);
	assert_int_equal(fact_of(failure, FACT_region_bytes), SCRIPT_MEMORY_BYTES);
	assert_int_equal(fact_of(failure, FACT_region_start), (uintptr_t)script.memory);
	assert_int_equal(failure->qpn, script.qp->qpn);
	assert_int_equal(failure->dest_qpn, SCRIPT_PEER_QPN);
}

static uint64_t now_of_removal(void)
{
	return script.now_ns;
}

static void responder_reports_when_a_region_was_deregistered(void **state)
{
	const struct failure *failure;

	(void)state;
	keep();
	script.mrs.now_ns = now_of_removal;
	assert_int_equal(mr_table_remove(&script.mrs, script.key, SCRIPT_PD), 0);
	script_pass(&script, 3 * SCRIPT_MS);
	write_refused((uintptr_t)script.memory, script.key, 20);
	failure = kept(1, REASON_REGION_KEY);
	assert_int_equal(fact_of(failure, FACT_gone), 3 * SCRIPT_MS);
	assert_true(says(failure, "was deregistered 3.0 ms before"));
}

static void responder_reports_the_nearest_region_of_a_wrong_key(void **state)
{
	struct mr_region far = {
		.pd = SCRIPT_PD, .access = 0, .iova = 4096, .bytes = 64, .address = script.memory};
	const struct failure *failure;
	uint32_t key;

	(void)state;
	keep();
	assert_int_equal(mr_table_add(&script.mrs, &far, 7, &key), 0);
	write_refused((uintptr_t)script.memory + SCRIPT_MEMORY_BYTES + 100, script.key ^ 1, 20);
	failure = kept(1, REASON_REGION_KEY);
	assert_int_equal(fact_of(failure, FACT_distance), 100);
	assert_int_equal(fact_of(failure, FACT_region_key), script.key);
}

static void responder_reports_a_key_in_the_other_byte_order(void **state)
{
	(void)state;
	keep();
	write_refused((uintptr_t)script.memory, __builtin_bswap32(script.key), 20);
	assert_int_equal(fact_of(kept(1, REASON_REGION_KEY), FACT_swapped_key), script.key);
}

static bool nothing_is_mapped(void *address, uint64_t bytes, bool is_written)
{
	(void)address;
	(void)bytes;
	(void)is_written;
	return false;
}

static void responder_reports_memory_on_demand_that_is_gone(void **state)
{
	struct mr_region region = {
		.pd = SCRIPT_PD,
		.access = MR_LOCAL_WRITE | MR_REMOTE_WRITE | MR_ON_DEMAND,
		.iova = 4096,
		.bytes = 4096,
		.address = script.memory,
	};
	uint32_t key;

	(void)state;
	keep();
	script.mrs.touch = nothing_is_mapped;
	assert_int_equal(mr_table_add(&script.mrs, &region, 7, &key), 0);
	write_refused(4096, key, 20);
	kept(1, REASON_REGION_PAGE);
}

static void responder_reports_a_packet_out_of_sequence(void **state)
{
	(void)state;
	keep();
	script_send_data(&script, OPCODE_RC_SEND_LAST, 0, 5);
	kept(1, REASON_MALFORMED);
}

static void responder_reports_the_receive_request_of_a_message_cut_by_an_error(void **state)
{
	(void)state;
	keep();
	script_post_receive(&script, 1000);
	script_send_data(&script, OPCODE_RC_SEND_FIRST, 0, SCRIPT_MTU_BYTES);
	script_drain(&script);
	script_send_write(&script, OPCODE_RC_WRITE_ONLY, 1, 1, 1);
	kept(1, REASON_MALFORMED);
	assert_int_equal(kept(2, REASON_PEER_PROTOCOL)->wr_id, 1000);
	assert_int_equal(script.qp->first_reason, REASON_MALFORMED);
}

static void responder_reports_the_receive_request_of_a_refused_write_with_imm(void **state)
{
	struct packet packet = script_packet(&script, OPCODE_RC_WRITE_ONLY_IMM, 0);

	(void)state;
	keep();
	script_post_receive(&script, 0);
	packet_set_payload(&packet, NULL, 5);
	packet.reth = (struct reth){(uintptr_t)script.memory, script.key ^ 1, 5};
	script_send(&script, &packet);
	kept(1, REASON_REGION_KEY);
	assert_int_equal(kept(2, REASON_WRITE_ACCESS)->wr_id, 1000);
}

static void responder_reports_a_key_that_cannot_be_invalidated(void **state)
{
	struct packet packet = script_packet(&script, OPCODE_RC_SEND_ONLY_INV, 0);

	(void)state;
	keep();
	script_post_receive(&script, 100);
	packet_set_payload(&packet, NULL, 5);
	packet.ieth.rkey = script.key;
	script_send(&script, &packet);
	assert_int_equal(kept(1, REASON_REMOTE_INVALIDATE)->wr_id, 1000);
}

static void packet_of_another_partition_is_reported(void **state)
{
	struct packet packet = script_packet(&script, OPCODE_RC_SEND_ONLY, 0);

	(void)state;
	keep();
	packet.bth.pkey = 0xfffe;
	script_send(&script, &packet);
	script_send(&script, &packet);
	assert_true(says(kept(1, REASON_DROPPED_PKEY),
		"2 packets were dropped: the first has P_Key 0xfffe"));
	assert_int_equal(failures.count, 1);
}

static void responder_counts_messages_without_a_receive_request(void **state)
{
	const struct failure *failure;

	(void)state;
	keep();
	script_post_receive(&script, 100);
	script_send_data(&script, OPCODE_RC_SEND_ONLY, 0, 5);
	for (uint32_t i = 0; i < 5; i++)
		script_send_data(&script, OPCODE_RC_SEND_ONLY, 1, 5);
	failure = kept(1, REASON_NO_RECEIVE);
	assert_int_equal(failure->count, 5);
	assert_int_equal(fact_of(failure, FACT_posted), 1);
	assert_int_equal(fact_of(failure, FACT_taken), 1);
	assert_int_equal(failures.count, 1);
}

/* The peer was told to wait although a request is posted, as when memory has to be looked up. */
static void responder_that_is_not_ready_itself_blames_nobody(void **state)
{
	struct packet packet = script_packet(&script, OPCODE_RC_SEND_ONLY, 0);

	(void)state;
	keep();
	script_post_receive(&script, 100);
	rc_report_refusal(rc_from_qp(script.qp), &packet, REFUSED_NOT_READY, script.now_ns);
	assert_int_equal(failures.count, 0);
}

/* --- the requester --- */

static void requester_reports_the_naks_of_its_peer(void **state)
{
	const struct {
		enum aeth_nak code;
		enum reason reason;
	} rows[] = {
		{AETH_NAK_INVALID_REQUEST, REASON_REMOTE_INVALID},
		{AETH_NAK_REMOTE_ACCESS, REASON_REMOTE_ACCESS},
		{AETH_NAK_REMOTE_OPERATIONAL, REASON_REMOTE_OPERATIONAL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		restart(NULL);
		keep();
		script_post(&script, WR_RDMA_WRITE, 10, SEND_SIGNALED);
		script_drain(&script);
		script_send_nak(&script, 0, rows[i].code);
		assert_int_equal(kept(1, rows[i].reason)->wr_id, 0);
		assert_int_equal(fact_of(kept(1, rows[i].reason), FACT_bytes), 10);
	}
}

static void requester_reports_a_response_of_wrong_length(void **state)
{
	(void)state;
	keep();
	script_post(&script, WR_RDMA_READ, 10, SEND_SIGNALED);
	script_drain(&script);
	script_send_response(&script, OPCODE_RC_READ_RESPONSE_ONLY, 0, 11);
	kept(1, REASON_RESPONSE_LENGTH);
}

static void requester_reports_memory_on_demand_that_is_gone(void **state)
{
	struct mr_region region = {
		.pd = SCRIPT_PD,
		.access = MR_LOCAL_WRITE | MR_ON_DEMAND,
		.iova = 4096,
		.bytes = 4096,
		.address = script.memory,
	};
	struct sge sge = {4096, 16, 0};
	struct send_wr wr = {.opcode = WR_SEND, .wr_id = 5, .sge = &sge, .sge_count = 1};
	uint32_t posted;

	(void)state;
	keep();
	script.mrs.touch = nothing_is_mapped;
	assert_int_equal(mr_table_add(&script.mrs, &region, 7, &sge.lkey), 0);
	assert_int_equal(engine_post_send(script.qp, &wr, 1, &posted, script.now_ns), 0);
	script_drain(&script);
	assert_int_equal(kept(1, REASON_LOCAL_PAGE)->wr_id, 5);
}

static void requester_reports_what_it_has_heard_of_a_silent_peer(void **state)
{
	const struct script_options options = {.retry_cnt = 1, .timeout = 5};
	const struct failure *failure;

	(void)state;
	restart(&options);
	keep();
	script_post(&script, WR_SEND, 10, SEND_SIGNALED);
	script_drain(&script);
	for (uint32_t i = 0; i < 10000 && script.qp->state == QP_RTS; i++) {
		script_pass(&script, SCRIPT_MS);
		script_drain(&script);
	}
	failure = kept(1, REASON_RETRY_EXCEEDED);
	assert_int_equal(fact_of(failure, FACT_retry_cnt), 1);
	assert_int_equal(fact_of(failure, FACT_timeout), 5);
	assert_true(says(failure, "no packet ever came from its address"));
	assert_true(fact_of(failure, FACT_waited) < fact_of(failure, FACT_longer));
}

static void flushed_requests_name_the_first_failure(void **state)
{
	const struct failure *failure;
	uint64_t value;

	(void)state;
	keep();
	for (uint32_t i = 0; i < 3; i++)
		script_post(&script, WR_RDMA_WRITE, 10, SEND_SIGNALED);
	script_drain(&script);
	script_send_nak(&script, 0, AETH_NAK_REMOTE_ACCESS);
	failure = kept(2, REASON_FLUSHED);
	assert_int_equal(failure->count, 2);
	assert_int_equal(fact_of(failure, FACT_first), REASON_REMOTE_ACCESS);
	assert_true(says(failure, "its first failure: REMOTE_ACCESS"));
	/* The facts of the first failure are its own. */
	assert_false(failure_fact(failure, FACT_remote_address, &value));
}

static void state_change_while_draining_is_explained(void **state)
{
	struct failure failure;

	(void)state;
	script.qp->is_sq_draining = true;
	qp_modify_explain(script.qp, QP_RTS, ATTR_STATE, &script.qp->attr, &failure);
	assert_int_equal(failure.reason, REASON_MODIFY_DRAINING);
	assert_true(says(&failure, "the send queue is still draining"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(failures_of_a_flood_leave_the_last_ones),
		TEST(failure_that_repeats_itself_is_counted),
		TEST(repetition_of_the_newest_failure_is_counted_alone),
		TEST(failure_with_too_many_facts_keeps_the_first),
		TEST(sentences_name_facts_that_exist),
		TEST(reasons_have_one_row_each),
		TEST(sentence_of_an_unknown_reason_says_so),
		TEST(responder_reports_the_region_that_a_range_leaves),
		TEST(responder_reports_when_a_region_was_deregistered),
		TEST(responder_reports_the_nearest_region_of_a_wrong_key),
		TEST(responder_reports_a_key_in_the_other_byte_order),
		TEST(responder_reports_memory_on_demand_that_is_gone),
		TEST(responder_reports_a_packet_out_of_sequence),
		TEST(responder_reports_the_receive_request_of_a_message_cut_by_an_error),
		TEST(responder_reports_the_receive_request_of_a_refused_write_with_imm),
		TEST(responder_reports_a_key_that_cannot_be_invalidated),
		TEST(packet_of_another_partition_is_reported),
		TEST(responder_counts_messages_without_a_receive_request),
		TEST(responder_that_is_not_ready_itself_blames_nobody),
		TEST(requester_reports_the_naks_of_its_peer),
		TEST(requester_reports_a_response_of_wrong_length),
		TEST(requester_reports_memory_on_demand_that_is_gone),
		TEST(requester_reports_what_it_has_heard_of_a_silent_peer),
		TEST(flushed_requests_name_the_first_failure),
		TEST(state_change_while_draining_is_explained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
