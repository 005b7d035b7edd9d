/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/ud_endpoint.h"

#include "ib/ud/ud.h"
#include "local/datagram.h"
#include "queue/rq_taker.h"

static bool is_open(const struct ud_endpoint *endpoint)
{
	return atomic_load_explicit(&endpoint->serial, memory_order_relaxed) != 0;
}

static void ud_endpoint_open(struct ud_endpoint_qp *local)
{
	struct ud_endpoint *endpoint = local->place.endpoint;

	if (is_open(endpoint))
		return;
	local->serial = atomic_fetch_add(&local->place.lane->owner->last_serial, 1) + 1;
	local->turn = local->qp->srq ? 0 : rq_known(local->qp->rq);
	atomic_store_explicit(&endpoint->arrived, 0, memory_order_relaxed);
	atomic_store_explicit(&endpoint->serial, local->serial, memory_order_release);
}

/* Close the endpoint to borrowers, wait until they have no mark, and collect their records. */
static void ud_endpoint_close(struct ud_endpoint_qp *local, uint64_t now_ns)
{
	struct ud_endpoint *endpoint = local->place.endpoint;
	struct local_lane *lane = local->place.lane;

	if (!is_open(endpoint))
		return;
	atomic_store(&endpoint->serial, 0);
	if (!borrower_wait(lane->owner))
		local->is_in_use = true;
	local_collect(local->qp->lane, lane, now_ns);
}

/* --- hooks of the queue pair --- */

static void state_changed(struct qp *qp, enum qp_state old, uint64_t now_ns)
{
	struct ud_endpoint_qp *local = ud_endpoint_from_qp(qp);

	(void)old;
	if (qp_is_receiving(qp) && qp->state != QP_ERR)
		ud_endpoint_open(local);
	else
		ud_endpoint_close(local, now_ns);
	if (qp->state == QP_RESET)
		local->serial = 0;
}

static void qp_modified(struct qp *qp)
{
	atomic_store_explicit(&ud_endpoint_from_qp(qp)->place.endpoint->qkey, qp->attr.qkey,
		memory_order_relaxed);
}

static void packet_arrived(struct qp *qp, struct psn expected, bool keeps_receive)
{
	struct ud_endpoint *endpoint = ud_endpoint_from_qp(qp)->place.endpoint;
	uint32_t before = atomic_load_explicit(&endpoint->arrived, memory_order_relaxed);

	(void)expected;
	(void)keeps_receive;
	atomic_store_explicit(&endpoint->arrived, before + 1, memory_order_release);
}

/* All receive requests before number `turn` have completed, or were given up. */
static void turn_set(struct ud_endpoint_qp *local, uint32_t turn)
{
	local->turn = turn;
	rq_know_taken(local->qp->rq, turn - 1);
}

enum {
	/*
	 * In this many attempts a packet takes its request only after all earlier requests have
	 * completed
	 */
	TURNS_MAX = 16,
	FASTER_MAX = 1000, /* attempts to take a request before borrowers do */
};

/*
 * Before this packet takes a receive request, complete the requests that borrowers have taken
 * earlier. A borrower's record may fail the queue pair; then the queue pair flushes all its
 * requests.
 */
static void complete_earlier_requests(struct qp *qp, uint32_t attempt, uint64_t now_ns)
{
	const struct ud_endpoint_qp *local = ud_endpoint_from_qp(qp);
	struct local_lane *lane = local->place.lane;

	local_collect(qp->lane, lane, now_ns);
	if (local->turn == rq_taken(qp->rq) || attempt == 0)
		return;
	borrower_wait_briefly(lane->owner);
	local_collect(qp->lane, lane, now_ns);
}

static enum counter packet_take(
	struct qp *qp, uint64_t bytes, struct recv_wqe *receive, uint64_t now_ns)
{
	struct ud_endpoint_qp *local = ud_endpoint_from_qp(qp);
	const struct arena *arena = qp->lane->arena;
	uint32_t seen = rq_taken(qp->rq);
	uint64_t taken;

	for (uint32_t attempt = 0; attempt < FASTER_MAX; attempt++) {
		if (!rq_may_be_taken(qp->rq, rq_taken(qp->rq)))
			rq_mend(qp->rq);
		if (local->turn != rq_taken(qp->rq))
			complete_earlier_requests(qp, attempt, now_ns);
		if (!rq_peek_borrowed(qp->rq, arena->base, arena->bytes, &seen, receive, &taken))
			return COUNTER_no_receive_drops;
		if (bytes > receive->total_bytes)
			return COUNTER_resp_local_length_error;
		if (local->turn != (uint32_t)taken && attempt < TURNS_MAX)
			continue;
		if (rq_take_peeked(qp->rq, taken) && rq_redeem(qp->rq, (uint32_t)taken, receive)) {
			turn_set(local, (uint32_t)taken + 1);
			return COUNTER_COUNT;
		}
	}
	return COUNTER_no_receive_drops;
}

static const struct qp_local_ops ops = {
	.can_execute = datagram_can_execute,
	.execute = datagram_execute,
	.state_changed = state_changed,
	.modified = qp_modified,
	.arrived = packet_arrived,
	.take = packet_take,
};

/* --- life --- */

static _Atomic uint64_t *entry_of(const struct ud_endpoint_qp *local)
{
	return &local->place.table->offset[local->qp->qpn % LANE_QP_COUNT_MAX];
}

void ud_endpoint_add(struct ud_endpoint_qp *local, struct qp *qp,
	const struct ud_endpoint_place *place, struct datagram_lane *lane)
{
	struct ud_endpoint *endpoint = place->endpoint;
	const struct arena *arena = qp->lane->arena;

	local->base.ops = &ops;
	local->qp = qp;
	local->place = *place;
	local->lane = lane;
	endpoint->qpn = qp->qpn;
	endpoint->recv_pd = qp->recv_pd;
	endpoint->rq_offset = qp->srq ? qp->srq->rq_offset : qp->rq_offset;
	endpoint->cq_offset = arena_offset(arena, qp->recv_cq->ring);
	endpoint->is_rq_shared = qp->srq != NULL;
	qp->local = &local->base;
	if (!qp->srq)
		rq_share(qp->rq);
	atomic_store_explicit(entry_of(local), place->offset, memory_order_release);
}

void ud_endpoint_add_address(struct ud_endpoint *endpoint, const struct gid *address)
{
	uint32_t count = atomic_load_explicit(&endpoint->address_count, memory_order_relaxed);

	for (uint32_t i = 0; i < count; i++)
		if (gid_is_equal(&endpoint->address[i], address))
			return;
	if (count == UD_ENDPOINT_ADDRESSES_MAX)
		return;
	endpoint->address[count] = *address;
	atomic_store_explicit(&endpoint->address_count, count + 1, memory_order_release);
}

bool ud_endpoint_remove(struct ud_endpoint_qp *local, uint64_t now_ns)
{
	atomic_store(entry_of(local), 0);
	ud_endpoint_close(local, now_ns);
	local->qp->local = NULL;
	if (local->is_in_use && local->qp->srq)
		local->qp->srq->is_in_use = true;
	return !local->is_in_use;
}

/* --- collecting --- */

/* The queue pair that the record is for; NULL: it no longer exists, or was reset. */
static struct qp *receiver_of(const struct lane *lane, const struct channel_record *record)
{
	struct qp *qp = lane->qp_by_number[record->number % LANE_QP_COUNT_MAX];

	return qp && qp->type == QP_TYPE_UD && qp->qpn == record->number && qp->local &&
			ud_endpoint_from_qp(qp)->serial == record->serial
		? qp
		: NULL;
}

bool ud_endpoint_is_in_order(const struct lane *lane, const struct channel_record *record)
{
	const struct qp *qp = receiver_of(lane, record);
	uint32_t turn, ahead;

	if (!qp || qp->srq)
		return true;
	turn = ud_endpoint_from_qp(qp)->turn;
	ahead = record->taken - turn;
	/*
	 * A record may be collected at once if its request is outside [turn, posted): the request
	 * was given up, or was never posted.
	 */
	return ahead == 0 ||
		ahead >= atomic_load_explicit(&qp->rq->posted, memory_order_relaxed) - turn;
}

void ud_endpoint_skip(const struct lane *lane, const struct channel_record *record)
{
	if (!ud_endpoint_is_in_order(lane, record))
		turn_set(ud_endpoint_from_qp(receiver_of(lane, record)), record->taken);
}

/* The function completes the request as ib/ud/ud.c does for a packet. */
void ud_endpoint_collect(struct lane *lane, const struct channel_record *record, uint64_t now_ns)
{
	struct qp *qp = receiver_of(lane, record);
	enum fault fault =
		record->fault < FAULT_COUNT ? (enum fault)record->fault : FAULT_PEER_PROTOCOL;
	struct cqe cqe = {
		.opcode = WC_RECV,
		.byte_count = record->byte_count,
		.imm = record->imm,
		.source_qpn = record->qpn,
		.flags = record->flags & (WC_GRH | WC_WITH_IMM),
		.service_level = (uint8_t)record->service_level,
	};
	struct recv_wqe wqe;

	if (!qp)
		return;
	if (!rq_redeem(qp->srq ? qp->srq->rq : qp->rq, qp->srq ? record->wr_id : record->taken,
		    &wqe) ||
		record->byte_count < GRH_BYTES ||
		(!fault && record->byte_count > wqe.total_bytes)) {
		lane_count_unsound(lane);
		qp_count(qp, COUNTER_local_unsound, 1);
		return;
	}
	if (qp->srq)
		srq_note_taken(qp->srq, &lane->signals);
	else if (record->taken == ud_endpoint_from_qp(qp)->turn)
		turn_set(ud_endpoint_from_qp(qp), record->taken + 1);
	if (!fault)
		qp_count(qp, COUNTER_local_bytes, record->byte_count - GRH_BYTES);
	ud_receive_end(qp, wqe.wr_id, &cqe, fault, record->is_solicited != 0, now_ns);
}
