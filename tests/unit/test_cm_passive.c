/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager against a scripted peer that requests connections and the queue pairs of
 * services.
 */
#include "cm/cm_internal.h"
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

static struct cm_conn *go_established(void)
{
	struct cm_conn *passive = go_rep_sent();
	struct cm_message rtu = peer_message(CM_RTU, passive);

	hear(&rtu);
	told(CM_EVENT_ESTABLISHED);
	return passive;
}

/* A REQ from the queue pair of go_established(), as of a new connection. */
static struct cm_message req_in_use(void)
{
	struct cm_message req = peer_req();

	req.req.local_comm_id++;
	return req;
}

static void refused_as_stale(void)
{
	assert_int_equal(said().rej.reason, CM_REJECT_STALE_CONNECTION);
	said_nothing();
	told_nothing();
}

static void req_with_a_queue_pair_in_use_asks_the_peer_and_ends_nothing(void **state)
{
	struct cm_message req = req_in_use(), lap, apr;
	struct cm_conn *passive = go_established();

	(void)state;
	hear(&req);
	lap = said();
	assert_int_equal(lap.attribute, CM_LAP);
	assert_int_equal(lap.lap.local_comm_id, passive->local_comm_id);
	assert_int_equal(lap.lap.remote_comm_id, PEER_COMM_ID);
	refused_as_stale();
	assert_int_equal(passive->state, CM_STATE_ESTABLISHED);
	/* The peer knows the connection. */
	apr = peer_message(CM_APR, passive);
	apr.apr.status = CM_APR_UNSUPPORTED;
	hear(&apr);
	said_nothing();
	assert_int_equal(passive->state, CM_STATE_ESTABLISHED);
	assert_int_equal(cm.counters.stale_asked, 1);
	assert_int_equal(cm.counters.requests_stale, 1);
}

static void req_with_a_queue_pair_in_use_ends_what_the_peer_does_not_know(void **state)
{
	struct cm_message req = req_in_use(), apr;
	struct cm_conn *passive = go_established();

	(void)state;
	apr = peer_message(CM_APR, passive);
	apr.apr.status = CM_APR_INVALID_COMM_ID;
	hear(&apr); /* nobody asked */
	assert_int_equal(passive->state, CM_STATE_ESTABLISHED);
	hear(&req);
	assert_int_equal(said().attribute, CM_LAP);
	refused_as_stale();
	hear(&apr);
	assert_int_equal(said().attribute, CM_DREQ);
	assert_int_equal(passive->state, CM_STATE_DREQ_SENT);
	assert_int_equal(cm.counters.stale_ended, 1);
}

static void req_with_the_number_of_another_adapter_is_a_new_one(void **state)
{
	struct cm_message req = req_in_use();

	(void)state;
	go_established();
	req.req.local_ca_guid++;
	hear(&req);
	told(CM_EVENT_REQ);
	said_nothing();
}

static void refused_req_with_a_queue_pair_in_use_asks_nobody(void **state)
{
	struct cm_message req = req_in_use();

	(void)state;
	go_established();
	req.req.transport_service = CM_SERVICE_RD;
	hear(&req);
	assert_int_equal(said().rej.reason, CM_REJECT_INVALID_TRANSPORT);
	said_nothing();
}

static void queries_about_one_queue_pair_are_limited(void **state)
{
	struct cm_message req = req_in_use();

	(void)state;
	go_established();
	hear(&req);
	assert_int_equal(said().attribute, CM_LAP);
	refused_as_stale();
	for (uint32_t i = 0; i < 100; i++) {
		now_ns += CM_QUERY_PAUSE_NS / 101;
		req.req.local_comm_id++;
		hear(&req);
		refused_as_stale();
	}
	assert_int_equal(cm.counters.stale_unasked, 100);
}

/* Let the peer's address answer no query; then the REQ of its queue pair is taken and accepted. */
static struct cm_conn *go_replaced(void)
{
	struct cm_message req = req_in_use();
	const struct cm_rep rep = {.local_qpn = QPN + 1};
	struct cm_conn *after;

	for (uint32_t i = 0; i < CM_QUERIES_MAX; i++) {
		hear(&req);
		assert_int_equal(said().attribute, CM_LAP);
		refused_as_stale();
		now_ns += CM_QUERY_PAUSE_NS;
	}
	hear(&req);
	after = told(CM_EVENT_REQ).conn;
	assert_int_equal(cm_accept(&cm, after, &rep, now_ns), 0);
	assert_int_equal(said().attribute, CM_REP);
	return after;
}

/* The kernel's manager ignores a LAP on Ethernet. */
static void peer_that_answers_no_query_is_believed_by_its_rtu(void **state)
{
	struct cm_conn *before = go_established(), *after = go_replaced();
	struct cm_message rtu = peer_message(CM_RTU, after);

	(void)state;
	assert_int_equal(before->state, CM_STATE_ESTABLISHED);
	rtu.rtu.local_comm_id++;
	hear(&rtu);
	told(CM_EVENT_ESTABLISHED);
	assert_int_equal(said().attribute, CM_DREQ);
	assert_int_equal(before->state, CM_STATE_DREQ_SENT);
}

/* A stranger who guesses our ID for such a REQ sends many RTUs with wrong ones. */
static void guessed_rtu_ends_no_connection(void **state)
{
	struct cm_conn *before = go_established(), *after = go_replaced();
	struct cm_message rtu = peer_message(CM_RTU, after);

	(void)state;
	rtu.rtu.local_comm_id++;
	for (uint32_t i = 1; i <= CM_RTUS_UNKNOWN_MAX; i++) {
		rtu.rtu.remote_comm_id = after->local_comm_id ^ i;
		hear(&rtu);
		assert_int_equal(said().attribute, CM_REJ);
	}
	rtu.rtu.remote_comm_id = after->local_comm_id;
	hear(&rtu);
	told(CM_EVENT_ESTABLISHED);
	said_nothing();
	assert_int_equal(before->state, CM_STATE_ESTABLISHED);
	assert_int_equal(cm.counters.stale_kept, 1);
}

static void queries_to_one_peer_are_limited(void **state)
{
	static struct cm_conn more[2 * CM_QUERIES_OF_PEER_MAX];
	struct cm_message req = peer_req();
	uint32_t asked = 0;

	(void)state;
	for (uint32_t i = 0; i < 2 * CM_QUERIES_OF_PEER_MAX; i++) {
		const struct cm_rep rep = {.local_qpn = QPN};
		struct cm_message rtu;
		struct cm_conn *passive;

		assert_int_equal(cm_conn_create(&cm, &more[i], NULL), 0);
		cm_listener_add(&listener, &more[i]);
		req.req.local_comm_id = PEER_COMM_ID + i;
		req.req.local_qpn = PEER_QPN + i;
		hear(&req);
		passive = told(CM_EVENT_REQ).conn;
		assert_int_equal(cm_accept(&cm, passive, &rep, now_ns), 0);
		said();
		rtu = peer_message(CM_RTU, passive);
		rtu.rtu.local_comm_id = req.req.local_comm_id;
		hear(&rtu);
		told(CM_EVENT_ESTABLISHED);
	}
	for (uint32_t i = 0; i < 2 * CM_QUERIES_OF_PEER_MAX; i++) {
		req.req.local_comm_id++;
		req.req.local_qpn = PEER_QPN + i;
		hear(&req);
		if (said().attribute == CM_LAP) {
			asked++;
			said();
		}
	}
	assert_int_equal(asked, CM_QUERIES_OF_PEER_MAX);
}

/* --- connections that are not established --- */

static void accepted_connection_waits_no_longer_than_its_limit(void **state)
{
	struct cm_message req = peer_req();
	const struct cm_rep rep = {.local_qpn = QPN};
	struct cm_conn *passive;
	uint64_t accepted_ns = now_ns;

	(void)state;
	req.req.local_response_timeout = 31;
	req.req.max_cm_retries = 15;
	hear(&req);
	passive = told(CM_EVENT_REQ).conn;
	assert_int_equal(cm_accept(&cm, passive, &rep, now_ns), 0);
	for (said(); passive->state == CM_STATE_REP_SENT; said())
		wait_until_due();
	told(CM_EVENT_REP_TIMEOUT);
	assert_int_equal(now_ns - accepted_ns, CM_HALF_OPEN_NS);
}

static void peer_that_asks_for_time_again_and_again_gets_some(void **state)
{
	struct cm_conn *passive;
	struct cm_message mra;
	uint64_t accepted_ns = now_ns;

	(void)state;
	passive = go_rep_sent();
	mra = peer_message(CM_MRA, passive);
	mra.mra.message = CM_ANSWERED_REP;
	mra.mra.service_timeout = CM_SERVICE_TIMEOUT;
	while (passive->state != CM_STATE_IDLE) {
		struct cm_path path;
		uint8_t packet[GSI_PACKET_BYTES];

		hear(&mra);
		now_ns += 10 * SECOND_NS;
		while (cm_expire(&cm, now_ns))
			while (cm_next_packet(&cm, &path, packet))
				continue;
		assert_true(now_ns - accepted_ns < 120 * SECOND_NS);
	}
}

static void accepted_connection_outlives_its_listener(void **state)
{
	struct cm_conn *passive, *spare;
	struct cm_message mra, rtu;

	(void)state;
	now_ns += 1000 * SECOND_NS;
	passive = go_rep_sent();
	while ((spare = cm_listener_take(&listener)))
		cm_release(&cm, spare, now_ns);
	while (cm_next_event(&cm, &(struct cm_event){0}))
		continue;
	cm_unlisten(&listener);
	mra = peer_message(CM_MRA, passive);
	mra.mra.message = CM_ANSWERED_REP;
	mra.mra.service_timeout = CM_SERVICE_TIMEOUT;
	hear(&mra);
	now_ns += 10 * SECOND_NS;
	assert_false(cm_expire(&cm, now_ns));
	assert_int_equal(passive->state, CM_STATE_MRA_REP_RCVD);
	rtu = peer_message(CM_RTU, passive);
	hear(&rtu);
	told(CM_EVENT_ESTABLISHED);
}

static struct cm_conn more[4 * CM_HALF_OPEN_MIN];

/*
 * Receive REQ `i`, and accept it. NULL: the manager dropped it. Adds the number of connections that
 * were displaced by it to *ended.
 */
static struct cm_conn *accept_one(uint32_t i, uint32_t *ended)
{
	const struct cm_rep rep = {.local_qpn = QPN};
	struct cm_message req = peer_req();
	struct cm_conn *passive = NULL;
	uint8_t packet[GSI_PACKET_BYTES];
	struct cm_event event;
	struct cm_path path;

	assert_int_equal(cm_conn_create(&cm, &more[i], NULL), 0);
	cm_listener_add(&listener, &more[i]);
	req.req.local_comm_id = PEER_COMM_ID + i;
	req.req.local_qpn = PEER_QPN + i;
	hear(&req);
	if (cm_next_event(&cm, &event)) {
		assert_int_equal(event.kind, CM_EVENT_REQ);
		passive = event.conn;
		assert_int_equal(cm_accept(&cm, passive, &rep, now_ns), 0);
	}
	while (cm_next_event(&cm, &event))
		*ended += event.kind == CM_EVENT_REP_TIMEOUT;
	while (cm_next_packet(&cm, &path, packet))
		continue;
	cm_check(&cm);
	return passive;
}

static void flood_of_accepted_reqs_displaces_the_oldest(void **state)
{
	struct cm_message rtu;
	struct cm_conn *passive = NULL;
	uint32_t ended = 0;

	(void)state;
	for (uint32_t i = 0; i < 4 * CM_HALF_OPEN_MIN; i++) {
		passive = accept_one(i, &ended);
		assert_non_null(passive);
		assert_true(listener.half_open_count <= CM_HALF_OPEN_MIN);
		now_ns += CM_HALF_OPEN_MIN_NS / CM_HALF_OPEN_MIN + 1;
	}
	assert_int_equal(ended, 3 * CM_HALF_OPEN_MIN);
	assert_int_equal(cm.counters.half_open_displaced, 3 * CM_HALF_OPEN_MIN);
	rtu = peer_message(CM_RTU, passive);
	rtu.rtu.local_comm_id = passive->remote_comm_id;
	hear(&rtu);
	told(CM_EVENT_ESTABLISHED);
	assert_int_equal(listener.half_open_count, CM_HALF_OPEN_MIN - 1);
}

/* Hear that the peer of an accepted connection needs time. */
static void hear_mra(const struct cm_conn *passive)
{
	struct cm_message mra = peer_message(CM_MRA, passive);

	mra.mra.local_comm_id = passive->remote_comm_id;
	mra.mra.message = CM_ANSWERED_REP;
	mra.mra.service_timeout = CM_SERVICE_TIMEOUT;
	hear(&mra);
	assert_int_equal(passive->state, CM_STATE_MRA_REP_RCVD);
}

static void peers_that_need_time_keep_no_other_peer_out(void **state)
{
	struct cm_conn *first = NULL, *silent;
	uint32_t ended = 0;

	(void)state;
	for (uint32_t i = 0; i < CM_HALF_OPEN_MIN; i++) {
		struct cm_conn *passive = accept_one(i, &ended);

		hear_mra(passive);
		first = first ? first : passive;
	}
	now_ns += CM_HALF_OPEN_MIN_NS;
	silent = accept_one(CM_HALF_OPEN_MIN, &ended);
	assert_non_null(silent);
	assert_int_equal(ended, 1);
	assert_int_equal(first->state, CM_STATE_IDLE);
	/* A silent peer makes room before them. */
	now_ns += CM_HALF_OPEN_MIN_NS;
	assert_non_null(accept_one(CM_HALF_OPEN_MIN + 1, &ended));
	assert_int_equal(ended, 2);
	assert_int_equal(silent->state, CM_STATE_IDLE);
}

static void flood_of_accepted_reqs_displaces_none_that_is_young(void **state)
{
	uint32_t ended = 0;

	(void)state;
	for (uint32_t i = 0; i < 2 * CM_HALF_OPEN_MIN; i++)
		assert_int_equal(accept_one(i, &ended) != NULL, i < CM_HALF_OPEN_MIN);
	assert_int_equal(ended, 0);
	assert_int_equal(cm.counters.requests_overflown, CM_HALF_OPEN_MIN);
}

static void rej_of_nobody_does_not_end_a_connection(void **state)
{
	struct cm_message rej = {.attribute = CM_REJ};

	(void)state;
	go_connected();
	rej.rej.remote_comm_id = conn.local_comm_id;
	hear(&rej);
	told_nothing();
	assert_int_equal(conn.state, CM_STATE_ESTABLISHED);
	assert_int_equal(cm.counters.messages_foreign, 1);
}

static void peer_that_gave_up_is_recognised_without_our_id(void **state)
{
	struct cm_message rej = {.attribute = CM_REJ,
		.rej = {.local_comm_id = PEER_COMM_ID, .reason = CM_REJECT_TIMEOUT}};
	struct cm_conn *passive;

	(void)state;
	passive = go_req_rcvd();
	/* The peer's ID alone can be guessed. */
	hear(&rej);
	told_nothing();
	cm_rej_name_itself(&rej.rej, passive->remote_guid + 1);
	hear(&rej);
	told_nothing();
	cm_rej_name_itself(&rej.rej, passive->remote_guid);
	hear(&rej);
	assert_ptr_equal(told(CM_EVENT_REJ).conn, passive);
	assert_int_equal(passive->state, CM_STATE_IDLE);
}

/* Such a peer has never known our ID, so no connection was established. */
static void peer_that_knows_our_id_names_it(void **state)
{
	struct cm_message rej = {.attribute = CM_REJ,
		.rej = {.local_comm_id = PEER_COMM_ID, .reason = CM_REJECT_TIMEOUT}};
	struct cm_conn *passive = go_established();

	(void)state;
	cm_rej_name_itself(&rej.rej, passive->remote_guid);
	hear(&rej);
	told_nothing();
	assert_int_equal(passive->state, CM_STATE_ESTABLISHED);
	/* So does a peer that was requested. */
	go_connected();
	cm_rej_name_itself(&rej.rej, conn.remote_guid);
	hear(&rej);
	told_nothing();
	assert_int_equal(conn.state, CM_STATE_ESTABLISHED);
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

/*
 * Only this host itself can send a request to a loopback address, so the manager trusts the header
 * only from this host.
 */
static void loopback_address_in_the_header_is_believed_of_this_host_alone(void **state)
{
	static const uint8_t loopback[4] = {127, 0, 0, 1}, other[4] = {127, 0, 0, 2};
	struct cm_path path = path_to_peer();
	struct gid *local = &path.local, own = path.local;
	struct ip_cm_header header = {
		.source_port = 7, .source = own, .destination = gid_from_ipv4(loopback)};
	struct cm_message req = peer_req();
	struct ip_cm_header found = {0};
	struct gid address;

	(void)state;
	req.req.service_id = ip_cm_service_id(0x0106, 5000);
	ip_cm_header_encode(&header, req.req.private_data);
	address = cm_request_address(&req, local, &path.remote, &found);
	assert_true(gid_is_equal(&address, local));
	assert_int_equal(found.source_port, 0);
	address = cm_request_address(&req, local, &own, &found);
	assert_true(gid_is_equal(&address, &header.destination));
	assert_int_equal(found.source_port, 7);
	/* Not an address that no device stands in for; not of a service that is no port. */
	header.destination = path.remote;
	ip_cm_header_encode(&header, req.req.private_data);
	address = cm_request_address(&req, local, &own, NULL);
	assert_true(gid_is_equal(&address, local));
	header.destination = gid_from_ipv4(other);
	ip_cm_header_encode(&header, req.req.private_data);
	req.req.service_id = 5000;
	address = cm_request_address(&req, local, &own, NULL);
	assert_true(gid_is_equal(&address, local));
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
		TEST(req_with_a_queue_pair_in_use_asks_the_peer_and_ends_nothing),
		TEST(req_with_a_queue_pair_in_use_ends_what_the_peer_does_not_know),
		TEST(req_with_the_number_of_another_adapter_is_a_new_one),
		TEST(refused_req_with_a_queue_pair_in_use_asks_nobody),
		TEST(queries_about_one_queue_pair_are_limited),
		TEST(peer_that_answers_no_query_is_believed_by_its_rtu),
		TEST(guessed_rtu_ends_no_connection),
		TEST(queries_to_one_peer_are_limited),
		TEST(accepted_connection_waits_no_longer_than_its_limit),
		TEST(peer_that_asks_for_time_again_and_again_gets_some),
		TEST(accepted_connection_outlives_its_listener),
		TEST(flood_of_accepted_reqs_displaces_the_oldest),
		TEST(peers_that_need_time_keep_no_other_peer_out),
		TEST(flood_of_accepted_reqs_displaces_none_that_is_young),
		TEST(rej_of_nobody_does_not_end_a_connection),
		TEST(peer_that_gave_up_is_recognised_without_our_id),
		TEST(peer_that_knows_our_id_names_it),
		TEST(rep_without_a_rtu_is_given_up),
		TEST(service_is_asked_for_and_answered),
		TEST(service_request_is_told_once_and_answered),
		TEST(service_that_nobody_offers_is_unsupported),
		TEST(listener_of_one_address_comes_before_one_of_any),
		TEST(loopback_address_in_the_header_is_believed_of_this_host_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
