/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_CM_SCRIPT_H
#define URNIC_TESTS_SUPPORT_CM_SCRIPT_H

/*
 * A connection manager and its scripted peer: the peer's messages, the manager's output, and the
 * ways to the states from which tests start. A test program includes this in its one source.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cm/cm.h"
#include "support/permutation.h"

#define SECOND_NS 1000000000ull

enum { SERVICE = 0x01061234, PEER_COMM_ID = 0x07654321, PEER_QPN = 0x20, QPN = 0x10 };

static struct cm cm;
static struct cm_conn conn;
static struct cm_conn spares[2];
static struct cm_listener listener;
static uint64_t now_ns;

static inline struct cm_path path_to_peer(void)
{
	static const uint8_t us[4] = {10, 0, 0, 1}, peer[4] = {10, 0, 0, 2};

	return (struct cm_path){.local = gid_from_ipv4(us), .remote = gid_from_ipv4(peer)};
}

static inline int begin(void **state)
{
	(void)state;
	now_ns = SECOND_NS;
	cm_init(&cm, 5, 0xabcdef, test_permutation(1), 2);
	assert_int_equal(cm_conn_create(&cm, &conn, NULL), 0);
	listener = (struct cm_listener){.service_id = SERVICE};
	cm_listen(&cm, &listener);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(cm_conn_create(&cm, &spares[i], NULL), 0);
		cm_listener_add(&listener, &spares[i]);
	}
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	deadline_heap_done(
		&cm.deadlines); /* all that is not static; in whatever state the rest is */
	return 0;
}

/* --- what the peer says, and what comes out --- */

static inline void hear_from(const struct cm_path *path, const struct cm_message *message)
{
	uint8_t mad[MAD_BYTES];

	cm_message_encode(message, mad);
	cm_receive(&cm, path, mad, now_ns);
	cm_check(&cm);
}

static inline void hear(const struct cm_message *message)
{
	const struct cm_path path = path_to_peer();

	hear_from(&path, message);
}

static inline struct cm_message said(void)
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

static inline void said_nothing(void)
{
	struct cm_path path;
	uint8_t packet[GSI_PACKET_BYTES];

	assert_false(cm_next_packet(&cm, &path, packet));
}

static inline struct cm_event told(enum cm_event_kind kind)
{
	struct cm_event event;

	assert_true(cm_next_event(&cm, &event));
	assert_int_equal(event.kind, kind);
	return event;
}

static inline void told_nothing(void)
{
	struct cm_event event;

	assert_false(cm_next_event(&cm, &event));
}

static inline void wait_until_due(void)
{
	now_ns = cm_deadline_ns(&cm);
	assert_true(cm_expire(&cm, now_ns));
	cm_check(&cm);
}

static inline struct cm_message peer_req(void)
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
static inline struct cm_message peer_message(enum cm_attribute attribute, const struct cm_conn *of)
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

static inline void go_req_sent(void)
{
	const struct cm_path path = path_to_peer();
	const struct cm_req req = {.service_id = SERVICE, .local_qpn = QPN};

	assert_int_equal(cm_connect(&cm, &conn, &path, &req, now_ns), 0);
	assert_int_equal(said().attribute, CM_REQ);
}

static inline void go_connected(void)
{
	struct cm_message rep = peer_message(CM_REP, &conn);

	go_req_sent();
	hear(&rep);
	told(CM_EVENT_REP);
	assert_int_equal(cm_ready(&cm, &conn, now_ns), 0);
	assert_int_equal(said().attribute, CM_RTU);
}

static inline struct cm_conn *go_req_rcvd(void)
{
	struct cm_message req = peer_req();

	hear(&req);
	return told(CM_EVENT_REQ).conn;
}

static inline struct cm_conn *go_rep_sent(void)
{
	struct cm_conn *passive = go_req_rcvd();
	const struct cm_rep rep = {.local_qpn = QPN};

	assert_int_equal(cm_accept(&cm, passive, &rep, now_ns), 0);
	assert_int_equal(said().attribute, CM_REP);
	return passive;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
