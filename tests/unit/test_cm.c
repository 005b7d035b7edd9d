/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager against a scripted peer: each message in states where it belongs and where
 * it does not; the active side, and what is the same on both. The simulator (sim cm) has the
 * histories.
 */
#include "support/cm_script.h"

/* --- the active side --- */

static void active_side_connects_and_disconnects(void **state)
{
	struct cm_message drep = peer_message(CM_DREP, &conn);

	(void)state;
	go_connected();
	assert_int_equal(conn.state, CM_STATE_ESTABLISHED);
	assert_int_equal(cm_disconnect(&cm, &conn, now_ns), 0);
	struct cm_message dreq = said();
	assert_int_equal(dreq.attribute, CM_DREQ);
	assert_int_equal(dreq.dreq.remote_qpn, PEER_QPN);
	assert_int_equal(dreq.dreq.remote_comm_id, PEER_COMM_ID);
	hear(&drep);
	told(CM_EVENT_DREP);
	wait_until_due();
	told(CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(conn.state, CM_STATE_IDLE);
}

static void request_names_both_ends_and_the_slot(void **state)
{
	const struct cm_path path = path_to_peer();
	const struct cm_req req = {.service_id = SERVICE, .local_qpn = QPN};
	struct cm_message message;

	(void)state;
	cm_connect(&cm, &conn, &path, &req, now_ns);
	message = said();
	assert_int_equal(cm_comm_id_slot(message.req.local_comm_id), 5);
	assert_memory_equal(message.req.primary_local_gid, path.local.raw, 16);
	assert_memory_equal(message.req.primary_remote_gid, path.remote.raw, 16);
	assert_int_equal(message.req.max_cm_retries, 15);
	assert_int_equal(message.req.local_ca_guid, 0xabcdef);
}

static void request_without_an_answer_is_repeated_and_given_up_after_all_timeouts(void **state)
{
	uint64_t start_ns = now_ns;
	struct cm_message message = {0};
	unsigned repetitions = 0;

	(void)state;
	go_req_sent();
	while (conn.state == CM_STATE_REQ_SENT) {
		wait_until_due();
		message = said();
		repetitions += message.attribute == CM_REQ;
	}
	assert_int_equal(message.attribute, CM_REJ);
	assert_int_equal(message.rej.reason, CM_REJECT_TIMEOUT);
	told(CM_EVENT_REQ_TIMEOUT);
	assert_true(repetitions >= 15);
	/* 16 response timeouts of 4.3 s. */
	assert_in_range(now_ns - start_ns, 68 * SECOND_NS, 69 * SECOND_NS);
}

static void mra_makes_the_active_side_wait_and_then_ask_again(void **state)
{
	struct cm_message mra = {.attribute = CM_MRA,
		.mra = {.local_comm_id = PEER_COMM_ID,
			.message = CM_ANSWERED_REQ,
			.service_timeout = 24}};
	uint64_t start_ns = now_ns;

	(void)state;
	go_req_sent();
	mra.mra.remote_comm_id = conn.local_comm_id;
	hear(&mra);
	assert_int_equal(conn.state, CM_STATE_MRA_REQ_RCVD);
	wait_until_due();
	assert_in_range(now_ns - start_ns, 68 * SECOND_NS, 69 * SECOND_NS);
	assert_int_equal(said().attribute, CM_REQ);
	told_nothing();
}

static void mra_about_another_message_is_dropped(void **state)
{
	struct cm_message mra = {.attribute = CM_MRA,
		.mra = {.local_comm_id = PEER_COMM_ID,
			.message = CM_ANSWERED_REP,
			.service_timeout = 24}};

	(void)state;
	go_req_sent();
	mra.mra.remote_comm_id = conn.local_comm_id;
	hear(&mra);
	assert_int_equal(conn.state, CM_STATE_REQ_SENT);
}

/* Two such MRAs made the table of the peers' IDs a loop, in which the next lookup never ended. */
static void mra_without_an_id_is_malformed(void **state)
{
	struct cm_message mra = {
		.attribute = CM_MRA, .mra = {.message = CM_ANSWERED_REQ, .service_timeout = 24}};

	(void)state;
	go_req_sent();
	mra.mra.remote_comm_id = conn.local_comm_id;
	hear(&mra);
	hear(&mra);
	assert_int_equal(conn.state, CM_STATE_REQ_SENT);
	assert_false(list_is_linked(&conn.by_remote));
	assert_int_equal(cm.counters.messages_malformed, 2);
}

static void reject_is_told_with_its_reason(void **state)
{
	struct cm_message rej = {.attribute = CM_REJ, .rej = {.reason = CM_REJECT_CONSUMER}};

	(void)state;
	go_req_sent();
	rej.rej.remote_comm_id = conn.local_comm_id;
	hear(&rej);
	assert_int_equal(told(CM_EVENT_REJ).message.rej.reason, CM_REJECT_CONSUMER);
	assert_int_equal(conn.state, CM_STATE_IDLE);
}

static void refused_request_may_be_made_again(void **state)
{
	struct cm_message mra = {.attribute = CM_MRA, .mra = {.local_comm_id = 99}};
	struct cm_message rej = {.attribute = CM_REJ, .rej = {.local_comm_id = 99}};
	struct cm_message rep = peer_message(CM_REP, &conn);

	(void)state;
	go_req_sent();
	mra.mra.remote_comm_id = conn.local_comm_id;
	hear(&mra);
	rej.rej.remote_comm_id = conn.local_comm_id;
	hear(&rej);
	told(CM_EVENT_REJ);
	go_req_sent();
	hear(&rep);
	told(CM_EVENT_REP);
}

static void request_to_a_host_without_anybody_is_refused(void **state)
{
	struct cm_path path = path_to_peer();
	uint8_t mad[MAD_BYTES];

	(void)state;
	go_req_sent();
	cm_message_encode(&conn.sent, mad);
	path.remote.raw[15]++;
	cm_undeliverable(&cm, &path, true, mad);
	told_nothing();
	path.remote.raw[15]--;
	cm_undeliverable(&cm, &path, true, mad);
	told_nothing();
	assert_int_equal(conn.state, CM_STATE_REQ_SENT);
	wait_until_due();
	assert_int_equal(said().attribute, CM_REQ);
	cm_undeliverable(&cm, &path, true, mad);
	assert_int_equal(told(CM_EVENT_REJ).message.rej.reason, CM_REJECT_INVALID_SERVICE_ID);
	assert_int_equal(conn.state, CM_STATE_IDLE);
}

static void request_to_a_host_that_is_not_there_is_unreachable(void **state)
{
	const struct cm_path path = path_to_peer();
	uint8_t mad[MAD_BYTES];

	(void)state;
	go_req_sent();
	cm_message_encode(&conn.sent, mad);
	cm_undeliverable(&cm, &path, false, mad);
	told(CM_EVENT_UNREACHABLE);
	cm_undeliverable(&cm, &path, false, mad);
	told_nothing();
}

static void connection_does_not_end_by_word_of_the_network(void **state)
{
	const struct cm_path path = path_to_peer();
	struct cm_message rep = peer_message(CM_REP, &conn);
	uint8_t mad[MAD_BYTES];

	(void)state;
	go_req_sent();
	cm_message_encode(&conn.sent, mad);
	hear(&rep);
	told(CM_EVENT_REP);
	cm_undeliverable(&cm, &path, true, mad);
	assert_int_equal(conn.state, CM_STATE_REP_RCVD);
	told_nothing();
}

static void duplicate_rep_repeats_the_rtu(void **state)
{
	struct cm_message rep = peer_message(CM_REP, &conn);

	(void)state;
	go_connected();
	hear(&rep);
	assert_int_equal(said().attribute, CM_RTU);
	told_nothing();
}

static void duplicate_rep_before_the_program_is_ready_asks_for_time(void **state)
{
	struct cm_message rep = peer_message(CM_REP, &conn);

	(void)state;
	go_req_sent();
	hear(&rep);
	told(CM_EVENT_REP);
	hear(&rep);
	assert_int_equal(said().attribute, CM_MRA);
	assert_int_equal(cm_ready(&cm, &conn, now_ns), 0);
	assert_int_equal(said().attribute, CM_RTU);
}

/* --- both sides --- */

static void message_from_another_address_or_with_another_id_is_dropped(void **state)
{
	struct cm_message dreq = peer_message(CM_DREQ, &conn);
	struct cm_path path = path_to_peer();

	(void)state;
	go_connected();
	path.remote.raw[15]++;
	hear_from(&path, &dreq);
	path = path_to_peer();
	path.local.raw[15]++;
	hear_from(&path, &dreq);
	dreq.dreq.local_comm_id++;
	hear(&dreq);
	dreq.dreq.local_comm_id--;
	dreq.dreq.remote_qpn++;
	hear(&dreq);
	assert_int_equal(conn.state, CM_STATE_ESTABLISHED);
	assert_int_equal(cm.counters.messages_foreign, 3);
	told_nothing();
	said_nothing();
}

static void disconnects_that_cross_end_at_once(void **state)
{
	struct cm_message dreq = peer_message(CM_DREQ, &conn);

	(void)state;
	go_connected();
	cm_disconnect(&cm, &conn, now_ns);
	said();
	hear(&dreq);
	assert_int_equal(said().attribute, CM_DREP);
	told(CM_EVENT_DREP);
	assert_int_equal(conn.state, CM_STATE_TIMEWAIT);
}

static void duplicate_dreq_in_time_wait_is_answered(void **state)
{
	struct cm_message dreq = peer_message(CM_DREQ, &conn);

	(void)state;
	go_connected();
	hear(&dreq);
	told(CM_EVENT_DREQ);
	cm_disconnect(&cm, &conn, now_ns);
	assert_int_equal(said().attribute, CM_DREP);
	hear(&dreq);
	assert_int_equal(said().attribute, CM_DREP);
	told_nothing();
}

static void dreq_without_an_answer_ends_in_three_timeouts(void **state)
{
	uint64_t start_ns = now_ns;

	(void)state;
	go_connected();
	cm_disconnect(&cm, &conn, now_ns);
	while (conn.state == CM_STATE_DREQ_SENT)
		wait_until_due();
	told(CM_EVENT_DREQ_TIMEOUT);
	assert_in_range(now_ns - start_ns, 12 * SECOND_NS, 13 * SECOND_NS);
}

static void path_change_is_declined(void **state)
{
	struct cm_message lap = peer_message(CM_LAP, &conn);
	struct cm_message apr;

	(void)state;
	go_connected();
	hear(&lap);
	apr = said();
	assert_int_equal(apr.attribute, CM_APR);
	assert_int_equal(apr.apr.status, CM_APR_UNSUPPORTED);
	assert_int_equal(conn.state, CM_STATE_ESTABLISHED);
}

static void message_of_an_unknown_connection_is_answered_as_it_deserves(void **state)
{
	struct cm_message message;

	(void)state;
	message = peer_message(CM_DREQ, &conn);
	message.dreq.remote_comm_id ^= 1;
	hear(&message);
	assert_int_equal(said().attribute, CM_DREP);
	message = peer_message(CM_REP, &conn);
	message.rep.remote_comm_id ^= 1;
	hear(&message);
	assert_int_equal(said().rej.reason, CM_REJECT_INVALID_COMM_ID);
	message = peer_message(CM_DREP, &conn);
	message.drep.remote_comm_id ^= 1;
	hear(&message);
	said_nothing();
	told_nothing();
}

static void release_says_what_the_state_asks_for(void **state)
{
	struct cm_conn *passive;

	(void)state;
	passive = go_req_rcvd();
	cm_release(&cm, passive, now_ns);
	assert_int_equal(said().rej.reason, CM_REJECT_CONSUMER);
	assert_ptr_equal(told(CM_EVENT_RELEASED).conn, passive);
	go_connected();
	cm_release(&cm, &conn, now_ns);
	assert_int_equal(said().attribute, CM_DREQ);
	told_nothing();
	while (conn.state != CM_STATE_IDLE)
		wait_until_due();
	told(CM_EVENT_RELEASED);
}

/*
 * This side does not know the peer's communication ID yet. The peer finds the request by our
 * communication ID and our GUID.
 */
static void last_message_of_a_request_says_that_time_is_out(void **state)
{
	static struct cm_last_message last_messages[4];
	struct cm_message mra = {.attribute = CM_MRA,
		.mra = {.local_comm_id = PEER_COMM_ID, .service_timeout = 20}};
	struct cm_message message;

	(void)state;
	memset(last_messages, 0, sizeof(last_messages));
	cm_keep_last_messages(&cm, last_messages, 4);
	go_req_sent();
	mra.mra.remote_comm_id = conn.local_comm_id;
	assert_true(cm_last_message_build(&last_messages[0], &message));
	assert_int_equal(message.attribute, CM_REJ);
	assert_int_equal(message.rej.reason, CM_REJECT_TIMEOUT);
	assert_int_equal(message.rej.local_comm_id, conn.local_comm_id);
	assert_int_equal(message.rej.remote_comm_id, 0);
	assert_int_equal(message.rej.info_bytes, 8);
	/* As when the program gives up, the reason stays when the peer has told its ID. */
	hear(&mra);
	assert_int_equal(conn.state, CM_STATE_MRA_REQ_RCVD);
	assert_true(cm_last_message_build(&last_messages[0], &message));
	assert_int_equal(message.rej.reason, CM_REJECT_TIMEOUT);
	assert_int_equal(message.rej.remote_comm_id, PEER_COMM_ID);
	cm_release(&cm, &conn, now_ns);
	assert_false(cm_last_message_build(&last_messages[0], &message));
}

static void last_message_follows_the_state(void **state)
{
	static struct cm_last_message last_messages[4];
	struct cm_message message;
	struct cm_conn *passive;

	(void)state;
	memset(last_messages, 0, sizeof(last_messages));
	cm_keep_last_messages(&cm, last_messages, 4);
	assert_false(cm_last_message_build(&last_messages[0], &message));
	passive = go_rep_sent();
	assert_true(cm_last_message_build(&last_messages[0], &message));
	assert_int_equal(message.attribute, CM_REJ);
	message = peer_message(CM_RTU, passive);
	hear(&message);
	assert_true(cm_last_message_build(&last_messages[0], &message));
	assert_int_equal(message.attribute, CM_DREQ);
	assert_int_equal(message.dreq.remote_comm_id, PEER_COMM_ID);
	message = peer_message(CM_DREQ, passive);
	hear(&message);
	assert_true(cm_last_message_build(&last_messages[0], &message));
	assert_int_equal(message.attribute, CM_DREP);
	cm_disconnect(&cm, passive, now_ns);
	assert_false(cm_last_message_build(&last_messages[0], &message));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(active_side_connects_and_disconnects),
		TEST(request_names_both_ends_and_the_slot),
		TEST(request_without_an_answer_is_repeated_and_given_up_after_all_timeouts),
		TEST(mra_makes_the_active_side_wait_and_then_ask_again),
		TEST(mra_about_another_message_is_dropped),
		TEST(mra_without_an_id_is_malformed),
		TEST(reject_is_told_with_its_reason),
		TEST(refused_request_may_be_made_again),
		TEST(request_to_a_host_without_anybody_is_refused),
		TEST(request_to_a_host_that_is_not_there_is_unreachable),
		TEST(connection_does_not_end_by_word_of_the_network),
		TEST(duplicate_rep_repeats_the_rtu),
		TEST(duplicate_rep_before_the_program_is_ready_asks_for_time),
		TEST(message_from_another_address_or_with_another_id_is_dropped),
		TEST(disconnects_that_cross_end_at_once),
		TEST(duplicate_dreq_in_time_wait_is_answered),
		TEST(dreq_without_an_answer_ends_in_three_timeouts),
		TEST(path_change_is_declined),
		TEST(message_of_an_unknown_connection_is_answered_as_it_deserves),
		TEST(release_says_what_the_state_asks_for),
		TEST(last_message_of_a_request_says_that_time_is_out),
		TEST(last_message_follows_the_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
