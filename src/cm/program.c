/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's calls for a connection. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arith.h"
#include "cm/cm_internal.h"

void cm_send_reject(struct cm *cm, struct cm_conn *conn, enum cm_answered answered, uint16_t reason)
{
	struct cm_message rej = cm_conn_message(conn, CM_REJ, conn->transaction_id);

	rej.rej.message = (uint8_t)answered;
	rej.rej.reason = reason;
	if (reason == CM_REJECT_TIMEOUT)
		cm_rej_name_itself(&rej.rej, cm->guid);
	cm_emit(cm, &conn->path, &rej);
}

static uint64_t transaction_id_next(struct cm *cm, const struct cm_conn *conn)
{
	return (uint64_t)++cm->next_psn << 32 | conn->local_comm_id;
}

int cm_connect(struct cm *cm, struct cm_conn *conn, const struct cm_path *path,
	const struct cm_req *req, uint64_t now_ns)
{
	struct cm_req *sent = &conn->sent.req;

	if (conn->state != CM_STATE_IDLE || conn->is_released)
		return -EINVAL;
	conn->path = *path;
	conn->is_active = true;
	conn->local_qpn = req->local_qpn;
	conn->transaction_id = transaction_id_next(cm, conn);
	conn->sent = (struct cm_message){
		.attribute = CM_REQ, .transaction_id = conn->transaction_id, .req = *req};
	sent->local_comm_id = conn->local_comm_id;
	sent->local_ca_guid = cm->guid;
	sent->remote_response_timeout = CM_RESPONSE_TIMEOUT;
	sent->local_response_timeout = CM_RESPONSE_TIMEOUT;
	sent->max_cm_retries = CM_RETRIES_MAX;
	memcpy(sent->primary_local_gid, path->local.raw, sizeof(path->local.raw));
	memcpy(sent->primary_remote_gid, path->remote.raw, sizeof(path->remote.raw));
	/* RoCE has no LIDs; other implementations send these permissive ones, too. */
	sent->primary_local_lid = path->ib.port ? path->ib.slid : 0xffff;
	sent->primary_remote_lid = path->ib.port ? path->ib.dlid : 0xffff;
	conn->response_timeout = CM_RESPONSE_TIMEOUT;
	conn->retries = CM_RETRIES_MAX;
	cm_set_state(conn, CM_STATE_REQ_SENT);
	cm_leave_last_message(cm, conn);
	cm_send_until_answered(cm, conn, conn->retries, now_ns);
	return 0;
}

struct cm_conn *cm_oldest_half_open(const struct cm_listener *listener)
{
	list_for_each(conn, &listener->half_open, struct cm_conn, half_open)
		if (conn->state == CM_STATE_REP_SENT)
			return conn;
	return list_is_empty(&listener->half_open)
		? NULL
		: list_first(&listener->half_open, struct cm_conn, half_open);
}

/*
 * From now on the connection waits for its RTU and counts against its listener's limit. If the
 * listener is at its limit, end the connection that cm_oldest_half_open() chooses.
 */
static void half_open_begin(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	struct cm_listener *listener = conn->listener;
	struct cm_conn *oldest;

	conn->accepted_ns = now_ns;
	if (!listener)
		return;
	oldest = listener->half_open_count < listener->half_open_max
		? NULL
		: cm_oldest_half_open(listener);
	list_remove(&conn->half_open);
	list_append(&listener->half_open, &conn->half_open);
	listener->half_open_count++;
	if (oldest) {
		cm->counters.half_open_displaced++;
		cm_give_up(cm, oldest, now_ns);
	}
}

int cm_accept(struct cm *cm, struct cm_conn *conn, const struct cm_rep *rep, uint64_t now_ns)
{
	if (conn->state != CM_STATE_REQ_RCVD && conn->state != CM_STATE_MRA_REQ_SENT)
		return -EINVAL;
	conn->local_qpn = rep->local_qpn;
	conn->sent = (struct cm_message){
		.attribute = CM_REP, .transaction_id = conn->transaction_id, .rep = *rep};
	conn->sent.rep.local_comm_id = conn->local_comm_id;
	conn->sent.rep.remote_comm_id = conn->remote_comm_id;
	conn->sent.rep.local_ca_guid = cm->guid;
	cm_set_state(conn, CM_STATE_REP_SENT);
	cm_send_until_answered(cm, conn, conn->retries, now_ns);
	conn->give_up_ns = min_u64(conn->give_up_ns, now_ns + CM_HALF_OPEN_NS);
	half_open_begin(cm, conn, now_ns);
	return 0;
}

int cm_reject(struct cm *cm, struct cm_conn *conn, const struct cm_rej *rej, uint64_t now_ns)
{
	struct cm_message message = {
		.attribute = CM_REJ, .transaction_id = conn->transaction_id, .rej = *rej};
	const struct cm_state_info *info = &cm_states[conn->state];

	(void)now_ns;
	if (info->rejects == CM_NONE)
		return -EINVAL;
	message.rej.local_comm_id = conn->local_comm_id;
	message.rej.remote_comm_id = conn->remote_comm_id;
	message.rej.message = (uint8_t)info->rejects;
	cm_emit(cm, &conn->path, &message);
	cm_enter_idle(cm, conn);
	return 0;
}

int cm_ready(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	(void)now_ns;
	if (conn->state != CM_STATE_REP_RCVD && conn->state != CM_STATE_MRA_REP_SENT)
		return -EINVAL;
	conn->sent = cm_conn_message(conn, CM_RTU, conn->transaction_id);
	cm_emit(cm, &conn->path, &conn->sent);
	cm_set_state(conn, CM_STATE_ESTABLISHED);
	return 0;
}

int cm_establish(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	(void)now_ns;
	if (conn->state != CM_STATE_REP_SENT && conn->state != CM_STATE_MRA_REP_RCVD)
		return -EINVAL;
	cm_stop_sending(cm, conn);
	cm_leave_half_open(conn);
	cm_set_state(conn, CM_STATE_ESTABLISHED);
	cm_tell(cm, conn, CM_EVENT_ESTABLISHED, NULL);
	return 0;
}

static void send_dreq(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	conn->transaction_id = transaction_id_next(cm, conn);
	conn->sent = cm_conn_message(conn, CM_DREQ, conn->transaction_id);
	conn->sent.dreq.remote_qpn = conn->remote_qpn;
	cm_set_state(conn, CM_STATE_DREQ_SENT);
	cm_send_until_answered(cm, conn, CM_DREQ_RETRIES, now_ns);
}

int cm_disconnect(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	if (conn->state == CM_STATE_ESTABLISHED) {
		send_dreq(cm, conn, now_ns);
		return 0;
	}
	if (conn->state != CM_STATE_DREQ_RCVD)
		return -EINVAL;
	conn->sent = cm_conn_message(conn, CM_DREP, conn->transaction_id);
	cm_emit(cm, &conn->path, &conn->sent);
	cm_enter_timewait(cm, conn, now_ns);
	return 0;
}

int cm_sidr_request(struct cm *cm, struct cm_conn *conn, const struct cm_path *path,
	const struct cm_sidr_req *request, uint64_t now_ns)
{
	if (conn->state != CM_STATE_IDLE || conn->is_released)
		return -EINVAL;
	conn->path = *path;
	conn->is_active = true;
	conn->transaction_id = transaction_id_next(cm, conn);
	conn->sent = (struct cm_message){.attribute = CM_SIDR_REQ,
		.transaction_id = conn->transaction_id,
		.sidr_req = *request};
	conn->sent.sidr_req.request_id = conn->local_comm_id;
	conn->response_timeout = CM_RESPONSE_TIMEOUT;
	cm_set_state(conn, CM_STATE_SIDR_REQ_SENT);
	cm_send_until_answered(cm, conn, CM_RETRIES_MAX, now_ns);
	return 0;
}

int cm_sidr_answer(
	struct cm *cm, struct cm_conn *conn, const struct cm_sidr_rep *answer, uint64_t now_ns)
{
	struct cm_message message = {.attribute = CM_SIDR_REP,
		.transaction_id = conn->transaction_id,
		.sidr_rep = *answer};

	(void)now_ns;
	if (conn->state != CM_STATE_SIDR_REQ_RCVD)
		return -EINVAL;
	message.sidr_rep.request_id = conn->remote_comm_id;
	cm_emit(cm, &conn->path, &message);
	cm_enter_idle(cm, conn);
	return 0;
}

void cm_release(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	const struct cm_sidr_rep refusal = {.status = CM_SIDR_REJECTED};

	assert(!conn->is_released);
	conn->is_released = true;
	switch (conn->state) {
	case CM_STATE_IDLE:
		cm_enter_idle(cm, conn);
		break;
	case CM_STATE_REQ_SENT:
	case CM_STATE_MRA_REQ_RCVD:
	case CM_STATE_REQ_RCVD:
	case CM_STATE_MRA_REQ_SENT:
	case CM_STATE_REP_SENT:
	case CM_STATE_MRA_REP_RCVD:
	case CM_STATE_REP_RCVD:
	case CM_STATE_MRA_REP_SENT:
		cm_send_reject(cm, conn, (enum cm_answered)cm_states[conn->state].rejects,
			(uint16_t)cm_release_reason(conn->state));
		cm_enter_idle(cm, conn);
		break;
	case CM_STATE_ESTABLISHED:
	case CM_STATE_DREQ_RCVD:
		cm_disconnect(cm, conn, now_ns);
		break;
	case CM_STATE_SIDR_REQ_RCVD:
		cm_sidr_answer(cm, conn, &refusal, now_ns);
		break;
	case CM_STATE_SIDR_REQ_SENT:
		cm_enter_idle(cm, conn);
		break;
	case CM_STATE_DREQ_SENT:
	case CM_STATE_TIMEWAIT:
	case CM_STATE_COUNT:
		break;
	}
}
