/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager against a scripted peer that asks: for connections, and for the queue pairs of services.
 */
#include "support/cm_script.h"

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
	const struct CMUnitTest tests[] = {
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
		TEST(service_is_asked_for_and_answered),
		TEST(service_request_is_told_once_and_answered),
		TEST(service_that_nobody_offers_is_unsupported),
		TEST(listener_of_one_address_comes_before_one_of_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
