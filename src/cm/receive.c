/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer's messages. The manager decodes a message, finds its connection, checks its sender, and
 * looks the message up in the table of verdicts; only then does it change state.
 */
#include <assert.h>

#include "base/arith.h"
#include "cm/cm_internal.h"
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

/* Request time from the peer, because our program has not decided yet (IBTA 12.6.6). */
static void send_mra(struct cm *cm, struct cm_conn *conn, enum cm_answered message)
{
	struct cm_message mra = cm_conn_message(conn, CM_MRA, conn->transaction_id);

	mra.mra.message = (uint8_t)message;
	mra.mra.service_timeout = CM_SERVICE_TIMEOUT;
	cm_emit(cm, &conn->path, &mra);
	cm_set_state(
		conn, message == CM_ANSWERED_REQ ? CM_STATE_MRA_REQ_SENT : CM_STATE_MRA_REP_SENT);
}

/*
 * Answer a duplicate with the message that answered its original. A LAP is always refused, because
 * the manager's connections have no alternate paths.
 */
static void answer_again(struct cm *cm, struct cm_conn *conn, const struct cm_message *message)
{
	struct cm_message answer = conn->sent;

	cm->counters.duplicates++;
	answer.transaction_id = message->transaction_id;
	if (message->attribute == CM_LAP) {
		answer = cm_conn_message(conn, CM_APR, message->transaction_id);
		answer.apr.status = CM_APR_UNSUPPORTED;
	} else if (message->attribute == CM_DREQ) {
		answer = cm_conn_message(conn, CM_DREP, message->transaction_id);
	} else if (message->attribute == CM_REP) {
		answer = cm_conn_message(conn, CM_RTU, message->transaction_id);
	}
	cm_emit(cm, &conn->path, &answer);
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
	 * If the process connects to itself, the table may have a connection with this ID that this
	 * side began. Then the REQ is no duplicate.
	 */
	if (!conn || conn->is_active) {
		cm_request_new(cm, path, message, now_ns);
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

/* --- messages of a connection --- */

static void take_mra(struct cm *cm, struct cm_conn *conn, const struct cm_mra *mra, uint64_t now_ns)
{
	bool is_about_req =
		conn->state == CM_STATE_REQ_SENT || conn->state == CM_STATE_MRA_REQ_RCVD;
	uint8_t service_timeout = (uint8_t)min_u32(mra->service_timeout, CM_SERVICE_TIMEOUT);
	uint64_t until_ns = now_ns + cm_timeout_ns(service_timeout);

	if (mra->local_comm_id == 0) {
		cm->counters.messages_malformed++;
		return;
	}
	if (mra->message != (is_about_req ? CM_ANSWERED_REQ : CM_ANSWERED_REP)) {
		cm->counters.messages_unexpected++;
		return;
	}
	if (conn->remote_comm_id == 0)
		cm_remember_remote(cm, conn, mra->local_comm_id, 0);
	cm_set_state(conn, is_about_req ? CM_STATE_MRA_REQ_RCVD : CM_STATE_MRA_REP_RCVD);
	/* Send nothing until `until_ns`; afterwards repeat as usual. */
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
	list_remove(&conn->by_remote); /* a MRA may have put the connection into this list */
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
		/* Both sides have sent a DREQ. Each answers the other's, and waits for no DREP. */
		answer_again(cm, conn, message);
		cm_tell(cm, conn, CM_EVENT_DREP, NULL);
		cm_enter_timewait(cm, conn, now_ns);
		return;
	}
	conn->transaction_id = message->transaction_id;
	cm_set_state(conn, CM_STATE_DREQ_RCVD);
	cm_tell(cm, conn, CM_EVENT_DREQ, message);
}

/*
 * The RTU proves that the peer uses its queue pair for this connection, so an earlier connection
 * with the same queue pair is over. If many RTUs with wrong IDs come with it, the RTU proves
 * nothing, because a stranger may have guessed our ID.
 */
static void take_rtu(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	struct cm_conn *stale =
		cm_find_qpn(cm, conn->remote_qpn, conn->remote_guid, &conn->path.remote, conn);

	cm_establish(cm, conn, now_ns);
	if (!stale)
		return;
	if (cm_peer_window(cm, &conn->path.remote, now_ns)->rtus_unknown >= CM_RTUS_UNKNOWN_MAX)
		cm->counters.stale_kept++;
	else if (cm_disconnect(cm, stale, now_ns) == 0)
		cm->counters.stale_ended++;
}

/* Take the answer to peer_query(). End the connection if the peer no longer has it. */
static void take_apr(struct cm *cm, struct cm_conn *conn, const struct cm_apr *apr, uint64_t now_ns)
{
	if (conn->queries_out == 0) {
		cm->counters.messages_unexpected++;
		return;
	}
	conn->queries_out = 0;
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

/* Is the message from the peer of this connection? */
static bool is_from_peer(
	const struct cm_conn *conn, const struct cm_path *path, const struct cm_message *message)
{
	uint32_t theirs = cm_message_sender(message);

	if (!gid_is_equal(&conn->path.remote, &path->remote) ||
		!gid_is_equal(&conn->path.local, &path->local))
		return false;
	/*
	 * Before the peer has named its ID, any ID is right. After a MRA, the REJ of our REQ may
	 * still come without an ID.
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

/*
 * Is this the REJ of a peer that timed out before our answer, and does not know our ID? Such a peer
 * names its channel adapter instead (IBTA 12.6.7.2), which a stranger that has guessed the peer's
 * ID does not know. The peer of an established connection sends no such REJ.
 */
static bool is_early_rej(const struct cm_message *message)
{
	return message->attribute == CM_REJ && message->rej.remote_comm_id == 0 &&
		message->rej.reason == CM_REJECT_TIMEOUT &&
		message->rej.info_bytes >= sizeof(uint64_t);
}

static struct cm_conn *find_addressee(struct cm *cm, const struct cm_path *path,
	const struct cm_message *message, uint32_t comm_id)
{
	struct cm_conn *conn;

	if (!is_early_rej(message))
		return cm_find_local(cm, comm_id);
	conn = cm_find_remote(cm, message->rej.local_comm_id, &path->remote, false);
	if (!conn || conn->is_active || cm_states[conn->state].rejects == CM_NONE ||
		conn->remote_guid != get_be64(message->rej.info))
		return NULL;
	return conn;
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
		cm_request_sidr(cm, path, &message);
		return;
	}
	cm_route(&message, &service_id, &comm_id);
	conn = find_addressee(cm, path, &message, comm_id);
	if (conn) {
		receive_of_conn(cm, conn, path, &message, now_ns);
		return;
	}
	cm->counters.messages_unknown++;
	if (message.attribute == CM_RTU)
		cm_peer_window(cm, &path->remote, now_ns)->rtus_unknown++;
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
	conn = cm_find_local(cm, cm_message_sender(&message));
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
