/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the peer says. A message is decoded, its connection found and compared, the table asked;
 * only then something changes.
 */
#include <assert.h>
#include <string.h>

#include "base/arith.h"
#include "cm/internal.h"
#include "wire/bytes.h"

enum verdict {
	VERDICT_DROP,
	VERDICT_TAKE,
	VERDICT_AGAIN,
	VERDICT_WAIT,
};

enum { ATTRIBUTE_FIRST = CM_REQ, ATTRIBUTE_COUNT = CM_APR - CM_REQ + 1 };

static const uint8_t verdict_table[ATTRIBUTE_COUNT][CM_STATE_COUNT] = {
#define CM_VERDICT(MESSAGE, STATE, verdict) \
	[CM_##MESSAGE - ATTRIBUTE_FIRST][CM_STATE_##STATE] = VERDICT_##verdict,
#include "cm/cm_verdict.def"
#undef CM_VERDICT
};

static enum verdict verdict_of(const struct cm_message *message, const struct cm_conn *conn)
{
	return (enum verdict)verdict_table[message->attribute - ATTRIBUTE_FIRST][conn->state];
}

/* Ask the peer for time: the program has not decided yet (IBTA 12.6.6). */
static void send_mra(struct cm *cm, struct cm_conn *conn, enum cm_answered message)
{
	const struct cm_message mra = {
		.attribute = CM_MRA,
		.transaction_id = conn->transaction_id,
		.mra =
			{
				.local_comm_id = conn->local_comm_id,
				.remote_comm_id = conn->remote_comm_id,
				.message = (uint8_t)message,
				.service_timeout = CM_SERVICE_TIMEOUT,
			},
	};

	cm_emit(cm, &conn->path, &mra);
	cm_set_state(
		conn, message == CM_ANSWERED_REQ ? CM_STATE_MRA_REQ_SENT : CM_STATE_MRA_REP_SENT);
}

/*
 * The answer to a duplicate. What was sent last is kept in conn->sent, except for a LAP, which is
 * never accepted.
 */
static void answer_again(struct cm *cm, struct cm_conn *conn, const struct cm_message *message)
{
	struct cm_message answer = conn->sent;

	cm->counters.duplicates++;
	answer.transaction_id = message->transaction_id;
	if (message->attribute == CM_LAP)
		answer = (struct cm_message){
			.attribute = CM_APR,
			.transaction_id = message->transaction_id,
			.apr =
				{
					.local_comm_id = conn->local_comm_id,
					.remote_comm_id = conn->remote_comm_id,
					.status = CM_APR_UNSUPPORTED,
				},
		};
	else if (message->attribute == CM_DREQ)
		answer = (struct cm_message){
			.attribute = CM_DREP,
			.transaction_id = message->transaction_id,
			.drep =
				{
					.local_comm_id = conn->local_comm_id,
					.remote_comm_id = conn->remote_comm_id,
				},
		};
	else if (message->attribute == CM_REP)
		answer = (struct cm_message){
			.attribute = CM_RTU,
			.transaction_id = message->transaction_id,
			.rtu =
				{
					.local_comm_id = conn->local_comm_id,
					.remote_comm_id = conn->remote_comm_id,
				},
		};
	cm_emit(cm, &conn->path, &answer);
}

/* --- REQ and SIDR_REQ: messages that find no connection, but make one --- */

static struct cm_listener *find_listener(struct cm *cm, uint64_t service_id,
	const struct cm_path *path, const struct cm_message *message)
{
	struct gid address = cm_request_address(message, &path->local, &path->remote, NULL);
	struct cm_listener *best = NULL;

	list_for_each(listener, &cm->listeners, struct cm_listener, node) {
		if (listener->service_id != service_id ||
			!cm_address_matches(&listener->address, listener->ifindex,
				listener->is_ipv6_only, &address, path->ifindex))
			continue;
		/* One address before any address. */
		if (!best || gid_is_equal(&listener->address, &address))
			best = listener;
	}
	return best;
}

static void request_refuse(struct cm *cm, const struct cm_path *path,
	const struct cm_message *message, uint16_t reason)
{
	struct cm_message answer;

	cm->counters.requests_refused++;
	if (!cm_answer_unknown(message, &answer))
		return;
	if (answer.attribute == CM_REJ)
		answer.rej.reason = reason;
	cm_emit(cm, path, &answer);
}

/* May this peer be asked once more? */
static bool may_ask_peer(struct cm *cm, const struct gid *remote, uint64_t now_ns)
{
	uint32_t hash = (get_be32(remote->raw + 12) ^ get_be32(remote->raw + 4)) * 0x9e3779b1u;
	struct cm_asked *asked = &cm->asked[hash >> 16 & (CM_ASKED_PEERS - 1)];

	if (now_ns - asked->since_ns >= CM_ASKS_PERIOD_NS)
		*asked = (struct cm_asked){.since_ns = now_ns};
	return asked->count++ < CM_ASKS_OF_PEER_MAX;
}

/*
 * Ask the peer whether it still has the connection. A LAP is a question that changes nothing: a
 * peer that knows the connection says that it does not do that, or does nothing; one that does not
 * know it says so. It goes to the peer's address and the answer names both communication IDs, so
 * that only the peer can give it.
 */
static void peer_ask(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	struct cm_message lap = {
		.attribute = CM_LAP,
		.transaction_id = conn->transaction_id,
		.lap =
			{
				.local_comm_id = conn->local_comm_id,
				.remote_comm_id = conn->remote_comm_id,
				.remote_qpn = conn->remote_qpn,
				.remote_response_timeout = CM_RESPONSE_TIMEOUT,
				.alternate_local_lid = 0xffff,
				.alternate_remote_lid = 0xffff,
			},
	};

	if (conn->state != CM_STATE_ESTABLISHED ||
		(conn->asked_ns != 0 && now_ns - conn->asked_ns < CM_ASK_PAUSE_NS) ||
		!may_ask_peer(cm, &conn->path.remote, now_ns)) {
		cm->counters.stale_unasked++;
		return;
	}
	memcpy(lap.lap.alternate_local_gid, conn->path.local.raw, sizeof(conn->path.local.raw));
	memcpy(lap.lap.alternate_remote_gid, conn->path.remote.raw, sizeof(conn->path.remote.raw));
	conn->asked_ns = now_ns;
	conn->asks++;
	cm->counters.stale_asked++;
	cm_emit(cm, &conn->path, &lap);
}

/*
 * The peer uses a queue pair that we think it uses for another connection: that one may be over,
 * which the peer forgot to say or we did not hear (IBTA 12.9.8.3.1). Or a stranger says so in the
 * peer's name, who has only the number to guess. So the REQ ends nothing; the peer is asked. Where
 * it never answers (the kernel's manager ignores such questions on Ethernet) the REQ is taken for a
 * new one, and the RTU, which names an ID that a stranger does not know, says that it was the
 * peer's. Returns whether to refuse the REQ.
 */
static bool is_stale(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	if (conn->asks >= CM_ASKS_MAX && now_ns - conn->asked_ns >= CM_ASK_PAUSE_NS)
		return false;
	cm->counters.requests_stale++;
	peer_ask(cm, conn, now_ns);
	return true;
}

/* May this REQ be shown to a program? */
static enum cm_reject check_req(const struct cm_req *req, const struct cm_path *path)
{
	bool is_xrc = req->transport_service == CM_SERVICE_EXTENDED &&
		req->extended_transport == CM_EXTENDED_XRC;

	if (req->transport_service != CM_SERVICE_RC && req->transport_service != CM_SERVICE_UC &&
		!is_xrc)
		return CM_REJECT_INVALID_TRANSPORT;
	/* Who asks must be who sends: the answers go there. */
	if (memcmp(req->primary_local_gid, path->remote.raw, sizeof(path->remote.raw)) != 0 ||
		memcmp(req->primary_remote_gid, path->local.raw, sizeof(path->local.raw)) != 0)
		return CM_REJECT_PRIMARY_GID;
	return (enum cm_reject)0;
}

/* Would there be room for it, if it was accepted? */
static bool has_room(const struct cm_listener *listener, uint64_t now_ns)
{
	const struct cm_conn *oldest;

	if (listener->half_open_count < listener->half_open_max)
		return true;
	oldest = cm_oldest_half_open(listener);
	return oldest && now_ns - oldest->accepted_ns >= CM_HALF_OPEN_MIN_NS;
}

/* Take a spare connection of the listener for a request. */
static struct cm_conn *conn_begin(struct cm *cm, struct cm_listener *listener,
	const struct cm_path *path, const struct cm_message *message)
{
	struct cm_conn *conn;

	if (list_is_empty(&listener->spares)) {
		cm->counters.requests_overflown++;
		return NULL;
	}
	conn = list_first(&listener->spares, struct cm_conn, by_local);
	cm_conn_publish(cm, conn);
	conn->path = *path;
	conn->transaction_id = message->transaction_id;
	return conn;
}

static void tell_request(struct cm *cm, struct cm_conn *conn, struct cm_listener *listener,
	const struct cm_message *message)
{
	cm_tell(cm, conn, message->attribute == CM_REQ ? CM_EVENT_REQ : CM_EVENT_SIDR_REQ, message);
	cm->events[(cm->event_first + cm->event_count - 1) % CM_EVENTS].listener = listener;
}

static void receive_new_req(struct cm *cm, const struct cm_path *path,
	const struct cm_message *message, uint64_t now_ns)
{
	const struct cm_req *req = &message->req;
	enum cm_reject fault = check_req(req, path);
	struct cm_listener *listener = find_listener(cm, req->service_id, path, message);
	struct cm_conn *stale =
		cm_find_qpn(cm, req->local_qpn, req->local_ca_guid, &path->remote, NULL);
	struct cm_conn *conn;

	if (fault == 0 && stale && is_stale(cm, stale, now_ns))
		fault = CM_REJECT_STALE_CONNECTION;
	if (fault == 0 && !listener)
		fault = CM_REJECT_INVALID_SERVICE_ID;
	if (fault != 0) {
		request_refuse(cm, path, message, (uint16_t)fault);
		return;
	}
	if (!has_room(listener, now_ns)) {
		cm->counters.requests_overflown++;
		return;
	}
	conn = conn_begin(cm, listener, path, message);
	if (!conn)
		return;
	conn->listener = listener;
	list_append(&listener->asked, &conn->half_open);
	conn->remote_guid = req->local_ca_guid;
	conn->response_timeout = (uint8_t)min_u32(req->local_response_timeout, CM_SERVICE_TIMEOUT);
	conn->retries = req->max_cm_retries;
	cm_remember_remote(cm, conn, req->local_comm_id, req->local_qpn);
	cm_set_state(conn, CM_STATE_REQ_RCVD);
	tell_request(cm, conn, listener, message);
}

static void receive_req(struct cm *cm, const struct cm_path *path, const struct cm_message *message,
	uint64_t now_ns)
{
	struct cm_conn *conn = cm_find_remote(cm, message->req.local_comm_id, &path->remote, false);

	if (message->req.local_comm_id == 0) {
		cm->counters.messages_malformed++;
		return;
	}
	/*
	 * The same ID from our side of a connection means a peer that connects to itself, not a
	 * duplicate.
	 */
	if (!conn || conn->is_active) {
		receive_new_req(cm, path, message, now_ns);
		return;
	}
	switch (verdict_of(message, conn)) {
	case VERDICT_WAIT:
		cm->counters.duplicates++;
		send_mra(cm, conn, CM_ANSWERED_REQ);
		break;
	case VERDICT_AGAIN:
		answer_again(cm, conn, message);
		break;
	case VERDICT_DROP:
	case VERDICT_TAKE:
		cm->counters.messages_unexpected++;
		break;
	}
}

static void receive_sidr_req(
	struct cm *cm, const struct cm_path *path, const struct cm_message *message)
{
	const struct cm_sidr_req *req = &message->sidr_req;
	struct cm_listener *listener = find_listener(cm, req->service_id, path, message);
	struct cm_conn *conn;

	if (req->request_id == 0) {
		cm->counters.messages_malformed++;
		return;
	}
	if (cm_find_remote(cm, req->request_id, &path->remote, true)) {
		cm->counters.duplicates++; /* the program has yet to answer */
		return;
	}
	if (!listener) {
		request_refuse(cm, path, message, 0);
		return;
	}
	conn = conn_begin(cm, listener, path, message);
	if (!conn)
		return;
	cm_set_state(conn, CM_STATE_SIDR_REQ_RCVD);
	cm_remember_remote(cm, conn, req->request_id, 0);
	tell_request(cm, conn, listener, message);
}

/* --- messages of a connection --- */

static void take_mra(struct cm *cm, struct cm_conn *conn, const struct cm_mra *mra, uint64_t now_ns)
{
	bool is_about_req =
		conn->state == CM_STATE_REQ_SENT || conn->state == CM_STATE_MRA_REQ_RCVD;
	uint8_t service_timeout = (uint8_t)min_u32(mra->service_timeout, CM_SERVICE_TIMEOUT);
	uint64_t until_ns = now_ns + cm_timeout_ns(service_timeout);

	if (mra->message != (is_about_req ? CM_ANSWERED_REQ : CM_ANSWERED_REP)) {
		cm->counters.messages_unexpected++;
		return;
	}
	if (conn->remote_comm_id == 0)
		cm_remember_remote(cm, conn, mra->local_comm_id, 0);
	cm_set_state(conn, is_about_req ? CM_STATE_MRA_REQ_RCVD : CM_STATE_MRA_REP_RCVD);
	/* Silence until then; after it the usual repetitions. */
	conn->retry_ns = CM_FIRST_RETRY_NS;
	conn->give_up_ns = until_ns + (conn->retries + 1u) * cm_timeout_ns(conn->response_timeout);
	if (!is_about_req) {
		conn->give_up_ns = min_u64(conn->give_up_ns,
			conn->accepted_ns + CM_HALF_OPEN_NS + cm_timeout_ns(CM_SERVICE_TIMEOUT));
		until_ns = min_u64(until_ns, max_u64(conn->give_up_ns, now_ns + 1));
	}
	deadline_set(&cm->deadlines, &conn->deadline, until_ns);
}

static void take_rej(
	struct cm *cm, struct cm_conn *conn, const struct cm_message *message, uint64_t now_ns)
{
	bool was_connected =
		conn->state == CM_STATE_ESTABLISHED || conn->state == CM_STATE_DREQ_SENT;

	cm_stop_sending(cm, conn);
	cm_tell(cm, conn, CM_EVENT_REJ, message);
	if (was_connected || message->rej.reason == CM_REJECT_STALE_CONNECTION)
		cm_enter_timewait(cm, conn, now_ns);
	else
		cm_enter_idle(cm, conn);
}

static void take_rep(struct cm *cm, struct cm_conn *conn, const struct cm_message *message)
{
	if (message->rep.local_comm_id == 0) {
		cm->counters.messages_malformed++;
		return;
	}
	cm_stop_sending(cm, conn);
	list_remove(&conn->by_remote); /* a MRA may have told */
	cm_remember_remote(cm, conn, message->rep.local_comm_id, message->rep.local_qpn);
	conn->remote_guid = message->rep.local_ca_guid;
	cm_set_state(conn, CM_STATE_REP_RCVD);
	cm_tell(cm, conn, CM_EVENT_REP, message);
}

static void take_dreq(
	struct cm *cm, struct cm_conn *conn, const struct cm_message *message, uint64_t now_ns)
{
	if (message->dreq.remote_qpn != conn->local_qpn) {
		cm->counters.messages_unexpected++;
		return;
	}
	cm_stop_sending(cm, conn);
	cm_leave_half_open(conn);
	if (conn->state == CM_STATE_DREQ_SENT) {
		/* Both ask at once: each answers the other, and that is that. */
		answer_again(cm, conn, message);
		cm_tell(cm, conn, CM_EVENT_DREP, NULL);
		cm_enter_timewait(cm, conn, now_ns);
		return;
	}
	conn->transaction_id = message->transaction_id;
	cm_set_state(conn, CM_STATE_DREQ_RCVD);
	cm_tell(cm, conn, CM_EVENT_DREQ, message);
}

/* The peer has its queue pair in this connection: an earlier one with that is over. */
static void take_rtu(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	struct cm_conn *stale =
		cm_find_qpn(cm, conn->remote_qpn, conn->remote_guid, &conn->path.remote, conn);

	cm_establish(cm, conn, now_ns);
	if (stale && cm_disconnect(cm, stale, now_ns) == 0)
		cm->counters.stale_ended++;
}

/* The answer to our question whether the peer has the connection (peer_ask). */
static void take_apr(struct cm *cm, struct cm_conn *conn, const struct cm_apr *apr, uint64_t now_ns)
{
	if (conn->asks == 0) {
		cm->counters.messages_unexpected++;
		return;
	}
	conn->asks = 0;
	if (apr->status != CM_APR_INVALID_COMM_ID)
		return;
	cm->counters.stale_ended++;
	cm_disconnect(cm, conn, now_ns);
}

static void message_take(
	struct cm *cm, struct cm_conn *conn, const struct cm_message *message, uint64_t now_ns)
{
	switch (message->attribute) {
	case CM_MRA:
		take_mra(cm, conn, &message->mra, now_ns);
		break;
	case CM_REJ:
		take_rej(cm, conn, message, now_ns);
		break;
	case CM_REP:
		take_rep(cm, conn, message);
		break;
	case CM_RTU:
		take_rtu(cm, conn, now_ns);
		break;
	case CM_APR:
		take_apr(cm, conn, &message->apr, now_ns);
		break;
	case CM_DREQ:
		take_dreq(cm, conn, message, now_ns);
		break;
	case CM_DREP:
		cm_stop_sending(cm, conn);
		cm_tell(cm, conn, CM_EVENT_DREP, message);
		cm_enter_timewait(cm, conn, now_ns);
		break;
	case CM_SIDR_REP:
		cm_stop_sending(cm, conn);
		cm_tell(cm, conn, CM_EVENT_SIDR_REP, message);
		cm_enter_idle(cm, conn);
		break;
	case CM_REQ:
	case CM_SIDR_REQ:
	case CM_LAP:
		assert(false && "the table has no such row");
	}
}

/*
 * The peer's communication ID as the message tells it; 0 where it has none, or may not know its
 * own.
 */
static uint32_t sender_comm_id(const struct cm_message *message)
{
	switch (message->attribute) {
	case CM_MRA:
		return message->mra.local_comm_id;
	case CM_REJ:
		return message->rej.local_comm_id;
	case CM_REP:
		return message->rep.local_comm_id;
	case CM_RTU:
		return message->rtu.local_comm_id;
	case CM_DREQ:
		return message->dreq.local_comm_id;
	case CM_DREP:
		return message->drep.local_comm_id;
	case CM_LAP:
		return message->lap.local_comm_id;
	case CM_APR:
		return message->apr.local_comm_id;
	case CM_REQ:
	case CM_SIDR_REQ:
	case CM_SIDR_REP:
		break;
	}
	return 0;
}

/* Is the message from the peer of this very connection? */
static bool is_from_peer(
	const struct cm_conn *conn, const struct cm_path *path, const struct cm_message *message)
{
	uint32_t theirs = sender_comm_id(message);

	if (!gid_is_equal(&conn->path.remote, &path->remote) ||
		!gid_is_equal(&conn->path.local, &path->local))
		return false;
	/*
	 * Before the peer has told its ID, any will do; a REJ of our REQ may come from somebody who
	 * has none.
	 */
	if (conn->remote_comm_id == 0 || message->attribute == CM_SIDR_REP ||
		(message->attribute == CM_REJ && theirs == 0 &&
			conn->state == CM_STATE_MRA_REQ_RCVD))
		return true;
	return theirs == conn->remote_comm_id;
}

static void receive_of_conn(struct cm *cm, struct cm_conn *conn, const struct cm_path *path,
	const struct cm_message *message, uint64_t now_ns)
{
	if (!is_from_peer(conn, path, message)) {
		cm->counters.messages_foreign++;
		return;
	}
	switch (verdict_of(message, conn)) {
	case VERDICT_TAKE:
		message_take(cm, conn, message, now_ns);
		break;
	case VERDICT_AGAIN:
		answer_again(cm, conn, message);
		break;
	case VERDICT_WAIT:
		cm->counters.duplicates++;
		send_mra(cm, conn, CM_ANSWERED_REP);
		break;
	case VERDICT_DROP:
		cm->counters.messages_unexpected++;
		break;
	}
}

static struct cm_conn *find_addressee(struct cm *cm, const struct cm_path *path,
	const struct cm_message *message, uint32_t comm_id)
{
	/* Who gave up waiting for our answer does not know our ID. */
	if (message->attribute == CM_REJ && comm_id == 0 &&
		message->rej.reason == CM_REJECT_TIMEOUT)
		return cm_find_remote(cm, message->rej.local_comm_id, &path->remote, false);
	return cm_find_local(cm, comm_id);
}

void cm_receive(
	struct cm *cm, const struct cm_path *path, const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct cm_message message, answer;
	struct cm_conn *conn;
	uint64_t service_id;
	uint32_t comm_id = 0;

	if (!cm_message_decode(&message, mad)) {
		cm->counters.messages_malformed++;
		return;
	}
	cm->counters.messages_received++;
	if (message.attribute == CM_REQ) {
		receive_req(cm, path, &message, now_ns);
		return;
	}
	if (message.attribute == CM_SIDR_REQ) {
		receive_sidr_req(cm, path, &message);
		return;
	}
	cm_route(&message, &service_id, &comm_id);
	conn = find_addressee(cm, path, &message, comm_id);
	if (conn) {
		receive_of_conn(cm, conn, path, &message, now_ns);
		return;
	}
	cm->counters.messages_unknown++;
	if (cm_answer_unknown(&message, &answer))
		cm_emit(cm, path, &answer);
}

/* --- messages that do not arrive --- */

void cm_undeliverable(struct cm *cm, const struct cm_path *path, bool is_port_closed,
	const uint8_t mad[MAD_BYTES])
{
	struct cm_message rej = {.attribute = CM_REJ,
		.rej = {.message = CM_ANSWERED_REQ, .reason = CM_REJECT_INVALID_SERVICE_ID}};
	struct cm_message message;
	struct cm_conn *conn;

	if (!cm_message_decode(&message, mad) ||
		(message.attribute != CM_REQ && message.attribute != CM_SIDR_REQ))
		return;
	conn = cm_find_local(cm,
		message.attribute == CM_REQ ? message.req.local_comm_id
					    : message.sidr_req.request_id);
	if (!conn || message.transaction_id != conn->transaction_id ||
		!gid_is_equal(&conn->path.remote, &path->remote) ||
		(conn->state != CM_STATE_REQ_SENT && conn->state != CM_STATE_SIDR_REQ_SENT))
		return;
	if (is_port_closed && !conn->is_repeated)
		return;
	if (is_port_closed && conn->state == CM_STATE_REQ_SENT)
		cm_tell(cm, conn, CM_EVENT_REJ, &rej);
	else
		cm_tell(cm, conn, CM_EVENT_UNREACHABLE, NULL);
	cm_enter_idle(cm, conn);
}
