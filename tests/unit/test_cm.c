/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager against a scripted peer: each message in states where it belongs and where it does not. The simulator
 * (sim cm) has the histories.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cm/cm.h"

#define SECOND_NS 1000000000ull

enum { SERVICE = 0x01061234, PEER_COMM_ID = 0x07654321, PEER_QPN = 0x20, QPN = 0x10 };

static struct cm cm;
static struct cm_conn conn;
static struct cm_conn spares[2];
static struct cm_listener listener;
static uint64_t now_ns;

static struct cm_path path_to_peer(void)
{
	static const uint8_t us[4] = {10, 0, 0, 1}, peer[4] = {10, 0, 0, 2};

	return (struct cm_path){.local = gid_from_ipv4(us), .remote = gid_from_ipv4(peer)};
}

static int begin(void **state)
{
	(void)state;
	now_ns = SECOND_NS;
	cm_init(&cm, 5, 0xabcdef, 1, 2);
	assert_int_equal(cm_conn_create(&cm, &conn, NULL), 0);
	listener = (struct cm_listener){.service_id = SERVICE};
	cm_listen(&cm, &listener);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(cm_conn_create(&cm, &spares[i], NULL), 0);
		cm_listener_add(&listener, &spares[i]);
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	deadline_heap_done(&cm.deadlines); /* all that is not static; in whatever state the rest is */
	return 0;
}

/* --- what the peer says, and what comes out --- */

static void hear_from(const struct cm_path *path, const struct cm_message *message)
{
	uint8_t mad[MAD_BYTES];

	cm_message_encode(message, mad);
	cm_receive(&cm, path, mad, now_ns);
	cm_check(&cm);
}

static void hear(const struct cm_message *message)
{
	const struct cm_path path = path_to_peer();

	hear_from(&path, message);
}

static struct cm_message said(void)
{
	const struct cm_path peer = path_to_peer();
	uint8_t packet[GSI_PACKET_BYTES];
	struct cm_message message;
	struct cm_path path;

	assert_true(cm_next_packet(&cm, &path, packet));
	assert_true(gid_is_equal(&path.remote, &peer.remote));
	assert_non_null(gsi_packet_mad(packet, sizeof(packet)));
	assert_true(cm_message_decode(&message, packet + GSI_PACKET_BYTES - MAD_BYTES));
	return message;
}

static void said_nothing(void)
{
	struct cm_path path;
	uint8_t packet[GSI_PACKET_BYTES];

	assert_false(cm_next_packet(&cm, &path, packet));
}

static struct cm_event told(enum cm_event_kind kind)
{
	struct cm_event event;

	assert_true(cm_next_event(&cm, &event));
	assert_int_equal(event.kind, kind);
	return event;
}

static void told_nothing(void)
{
	struct cm_event event;

	assert_false(cm_next_event(&cm, &event));
}

static void wait_until_due(void)
{
	now_ns = cm_deadline_ns(&cm);
	assert_true(cm_expire(&cm, now_ns));
	cm_check(&cm);
}

static struct cm_message peer_req(void)
{
	const struct cm_path path = path_to_peer();
	struct cm_message req = {.attribute = CM_REQ,
		.transaction_id = 77,
		.req = {.local_comm_id = PEER_COMM_ID,
			.service_id = SERVICE,
			.local_qpn = PEER_QPN,
			.local_response_timeout = 20,
			.max_cm_retries = 15}};

	memcpy(req.req.primary_local_gid, path.remote.raw, 16);
	memcpy(req.req.primary_remote_gid, path.local.raw, 16);
	return req;
}

/* A message of the connection, as the peer would send it. */
static struct cm_message peer_message(enum cm_attribute attribute, const struct cm_conn *of)
{
	struct cm_message message = {.attribute = attribute, .transaction_id = 78};

	/* All of these begin with the two communication IDs. */
	message.rtu.local_comm_id = PEER_COMM_ID;
	message.rtu.remote_comm_id = of->local_comm_id;
	if (attribute == CM_REP)
		message.rep.local_qpn = PEER_QPN;
	if (attribute == CM_DREQ)
		message.dreq.remote_qpn = QPN;
	return message;
}

static void go_req_sent(void)
{
	const struct cm_path path = path_to_peer();
	const struct cm_req req = {.service_id = SERVICE, .local_qpn = QPN};

	assert_int_equal(cm_connect(&cm, &conn, &path, &req, now_ns), 0);
	assert_int_equal(said().attribute, CM_REQ);
}

static void go_connected(void)
{
	struct cm_message rep = peer_message(CM_REP, &conn);

	go_req_sent();
	hear(&rep);
	told(CM_EVENT_REP);
	assert_int_equal(cm_ready(&cm, &conn, now_ns), 0);
	assert_int_equal(said().attribute, CM_RTU);
}

static struct cm_conn *go_req_rcvd(void)
{
	struct cm_message req = peer_req();

	hear(&req);
	return told(CM_EVENT_REQ).conn;
}

static struct cm_conn *go_rep_sent(void)
{
	struct cm_conn *passive = go_req_rcvd();
	const struct cm_rep rep = {.local_qpn = QPN};

	assert_int_equal(cm_accept(&cm, passive, &rep, now_ns), 0);
	assert_int_equal(said().attribute, CM_REP);
	return passive;
}

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

/* --- the passive side --- */

static void passive_side_accepts_and_is_told_of_the_rtu(void **state)
{
	struct cm_conn *passive;
	struct cm_message rtu;

	(void)state;
	passive = go_rep_sent();
	rtu = peer_message(CM_RTU, passive);
	hear(&rtu);
	told(CM_EVENT_ESTABLISHED);
	hear(&rtu);
	told_nothing();
	assert_int_equal(cm_deadline_ns(&cm), DEADLINE_NEVER);
}

static void data_stands_in_for_a_rtu(void **state)
{
	struct cm_conn *passive;

	(void)state;
	passive = go_rep_sent();
	assert_int_equal(cm_establish(&cm, passive, now_ns), 0);
	told(CM_EVENT_ESTABLISHED);
	assert_int_equal(cm_establish(&cm, passive, now_ns), -22);
}

static void duplicate_req_asks_for_time_and_later_repeats_the_rep(void **state)
{
	struct cm_message req = peer_req(), first, again;
	const struct cm_rep rep = {.local_qpn = QPN, .starting_psn = 5};
	struct cm_conn *passive;

	(void)state;
	passive = go_req_rcvd();
	hear(&req);
	assert_int_equal(said().attribute, CM_MRA);
	told_nothing();
	assert_int_equal(cm_accept(&cm, passive, &rep, now_ns), 0);
	first = said();
	hear(&req);
	again = said();
	assert_memory_equal(&first, &again, sizeof(first));
}

static void req_for_nobody_is_refused(void **state)
{
	struct cm_message req = peer_req(), rej;

	(void)state;
	req.req.service_id++;
	hear(&req);
	rej = said();
	assert_int_equal(rej.attribute, CM_REJ);
	assert_int_equal(rej.rej.reason, CM_REJECT_INVALID_SERVICE_ID);
	assert_int_equal(rej.rej.remote_comm_id, PEER_COMM_ID);
	told_nothing();
}

static void req_in_the_name_of_another_address_is_refused(void **state)
{
	struct cm_message req = peer_req();

	(void)state;
	req.req.primary_local_gid[15]++;
	hear(&req);
	assert_int_equal(said().rej.reason, CM_REJECT_PRIMARY_GID);
	told_nothing();
}

static void req_of_an_unknown_transport_is_refused(void **state)
{
	struct cm_message req = peer_req();

	(void)state;
	req.req.transport_service = CM_SERVICE_RD;
	hear(&req);
	assert_int_equal(said().rej.reason, CM_REJECT_INVALID_TRANSPORT);
}

static void flood_of_reqs_stops_at_the_backlog(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		struct cm_message req = peer_req();

		req.req.local_comm_id += i;
		req.req.local_qpn += i;
		hear(&req);
		if (i < 2)
			told(CM_EVENT_REQ);
	}
	told_nothing();
	said_nothing();
	assert_int_equal(cm.counters.requests_overflown, 998);
}

static void req_with_a_queue_pair_in_use_ends_the_stale_connection(void **state)
{
	struct cm_message req = peer_req(), rtu;
	struct cm_conn *passive;

	(void)state;
	passive = go_rep_sent();
	rtu = peer_message(CM_RTU, passive);
	hear(&rtu);
	told(CM_EVENT_ESTABLISHED);
	req.req.local_comm_id++;
	hear(&req);
	assert_int_equal(said().attribute, CM_DREQ);
	assert_int_equal(said().rej.reason, CM_REJECT_STALE_CONNECTION);
	told_nothing();
}

static void peer_that_gave_up_is_recognised_without_our_id(void **state)
{
	struct cm_message rej = {.attribute = CM_REJ,
		.rej = {.local_comm_id = PEER_COMM_ID, .reason = CM_REJECT_TIMEOUT}};
	struct cm_conn *passive;

	(void)state;
	passive = go_req_rcvd();
	hear(&rej);
	assert_ptr_equal(told(CM_EVENT_REJ).conn, passive);
	assert_int_equal(passive->state, CM_STATE_IDLE);
}

static void rep_without_a_rtu_is_given_up(void **state)
{
	struct cm_conn *passive;

	(void)state;
	passive = go_rep_sent();
	while (passive->state == CM_STATE_REP_SENT) {
		wait_until_due();
		said();
	}
	told(CM_EVENT_REP_TIMEOUT);
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

static void testament_follows_the_state(void **state)
{
	static struct cm_testament testaments[4];
	struct cm_message message;
	struct cm_conn *passive;

	(void)state;
	memset(testaments, 0, sizeof(testaments));
	cm_keep_testaments(&cm, testaments, 4);
	assert_false(cm_testament_message(&testaments[0], &message));
	passive = go_rep_sent();
	assert_true(cm_testament_message(&testaments[0], &message));
	assert_int_equal(message.attribute, CM_REJ);
	message = peer_message(CM_RTU, passive);
	hear(&message);
	assert_true(cm_testament_message(&testaments[0], &message));
	assert_int_equal(message.attribute, CM_DREQ);
	assert_int_equal(message.dreq.remote_comm_id, PEER_COMM_ID);
	message = peer_message(CM_DREQ, passive);
	hear(&message);
	assert_true(cm_testament_message(&testaments[0], &message));
	assert_int_equal(message.attribute, CM_DREP);
	cm_disconnect(&cm, passive, now_ns);
	assert_false(cm_testament_message(&testaments[0], &message));
}

/* --- queue pairs of services --- */

static void service_is_asked_for_and_answered(void **state)
{
	const struct cm_path path = path_to_peer();
	const struct cm_sidr_req request = {.service_id = SERVICE, .pkey = 0xffff};
	struct cm_message message = {.attribute = CM_SIDR_REP, .sidr_rep = {.qpn = 7}};

	(void)state;
	assert_int_equal(cm_sidr_request(&cm, &conn, &path, &request, now_ns), 0);
	assert_int_equal(said().sidr_req.request_id, conn.local_comm_id);
	message.sidr_rep.request_id = conn.local_comm_id;
	hear(&message);
	assert_int_equal(told(CM_EVENT_SIDR_REP).message.sidr_rep.qpn, 7);
	assert_int_equal(conn.state, CM_STATE_IDLE);
}

static void service_request_is_told_once_and_answered(void **state)
{
	const struct cm_message request = {.attribute = CM_SIDR_REQ,
		.sidr_req = {.request_id = PEER_COMM_ID, .service_id = SERVICE}};
	const struct cm_sidr_rep answer = {.qpn = QPN};
	struct cm_message message;
	struct cm_event event;

	(void)state;
	hear(&request);
	event = told(CM_EVENT_SIDR_REQ);
	hear(&request);
	told_nothing();
	assert_int_equal(cm_sidr_answer(&cm, event.conn, &answer, now_ns), 0);
	message = said();
	assert_int_equal(message.sidr_rep.request_id, PEER_COMM_ID);
	assert_int_equal(message.sidr_rep.qpn, QPN);
}

static void service_that_nobody_offers_is_unsupported(void **state)
{
	const struct cm_message request = {.attribute = CM_SIDR_REQ,
		.sidr_req = {.request_id = PEER_COMM_ID, .service_id = SERVICE + 1}};

	(void)state;
	hear(&request);
	assert_int_equal(said().sidr_rep.status, CM_SIDR_UNSUPPORTED);
}

static void listener_of_one_address_comes_before_one_of_any(void **state)
{
	const struct cm_path path = path_to_peer();
	struct cm_listener specific = {.service_id = SERVICE, .address = path.local};
	struct cm_message req = peer_req();

	(void)state;
	cm_listen(&cm, &specific);
	cm_listener_add(&specific, &conn);
	hear(&req);
	assert_ptr_equal(told(CM_EVENT_REQ).listener, &specific);
	cm_unlisten(&specific);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(active_side_connects_and_disconnects),
		TEST(request_names_both_ends_and_the_slot),
		TEST(request_without_an_answer_is_repeated_and_given_up_after_all_timeouts),
		TEST(mra_makes_the_active_side_wait_and_then_ask_again),
		TEST(mra_about_another_message_is_dropped),
		TEST(reject_is_told_with_its_reason),
		TEST(refused_request_may_be_made_again),
		TEST(request_to_a_host_without_anybody_is_refused),
		TEST(request_to_a_host_that_is_not_there_is_unreachable),
		TEST(connection_does_not_end_by_word_of_the_network),
		TEST(duplicate_rep_repeats_the_rtu),
		TEST(duplicate_rep_before_the_program_is_ready_asks_for_time),
		TEST(passive_side_accepts_and_is_told_of_the_rtu),
		TEST(data_stands_in_for_a_rtu),
		TEST(duplicate_req_asks_for_time_and_later_repeats_the_rep),
		TEST(req_for_nobody_is_refused),
		TEST(req_in_the_name_of_another_address_is_refused),
		TEST(req_of_an_unknown_transport_is_refused),
		TEST(flood_of_reqs_stops_at_the_backlog),
		TEST(req_with_a_queue_pair_in_use_ends_the_stale_connection),
		TEST(peer_that_gave_up_is_recognised_without_our_id),
		TEST(rep_without_a_rtu_is_given_up),
		TEST(message_from_another_address_or_with_another_id_is_dropped),
		TEST(disconnects_that_cross_end_at_once),
		TEST(duplicate_dreq_in_time_wait_is_answered),
		TEST(dreq_without_an_answer_ends_in_three_timeouts),
		TEST(path_change_is_declined),
		TEST(message_of_an_unknown_connection_is_answered_as_it_deserves),
		TEST(release_says_what_the_state_asks_for),
		TEST(testament_follows_the_state),
		TEST(service_is_asked_for_and_answered),
		TEST(service_request_is_told_once_and_answered),
		TEST(service_that_nobody_offers_is_unsupported),
		TEST(listener_of_one_address_comes_before_one_of_any),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
