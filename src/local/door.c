/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/door.h"

#include <assert.h>

#include "ib/ud/ud.h"
#include "local/datagram.h"

static bool is_open(const struct door *door)
{
	return atomic_load_explicit(&door->serial, memory_order_relaxed) != 0;
}

static void door_open(struct door_qp *local)
{
	struct door *door = local->place.door;

	if (is_open(door))
		return;
	local->serial = atomic_fetch_add(&local->place.owner->last_serial, 1) + 1;
	atomic_store_explicit(&door->arrived, 0, memory_order_relaxed);
	atomic_store_explicit(&door->serial, local->serial, memory_order_release);
}

/* Let nobody in, wait until nobody is, and collect what they have left. */
static void door_close(struct door_qp *local, uint64_t now_ns)
{
	struct door *door = local->place.door;
	const struct door_owner *owner = local->place.owner;

	if (!is_open(door))
		return;
	atomic_store(&door->serial, 0);
	if (!guest_wait(owner->guests, owner->wait))
		local->is_stood_on = true;
	guest_collect(local->qp->lane, local->place.bell, now_ns);
}

/* --- what the queue pair tells --- */

static void state_changed(struct qp *qp, enum qp_state old, uint64_t now_ns)
{
	struct door_qp *local = door_from_qp(qp);

	(void)old;
	if (qp_is_receiving(qp) && qp->state != QP_ERR)
		door_open(local);
	else
		door_close(local, now_ns);
	if (qp->state == QP_RESET)
		local->serial = 0;
}

static void modified(struct qp *qp)
{
	atomic_store_explicit(
		&door_from_qp(qp)->place.door->qkey, qp->attr.qkey, memory_order_relaxed);
}

static void arrived(struct qp *qp, struct psn expected, bool keeps_receive)
{
	struct door *door = door_from_qp(qp)->place.door;
	uint32_t before = atomic_load_explicit(&door->arrived, memory_order_relaxed);

	(void)expected;
	(void)keeps_receive;
	atomic_store_explicit(&door->arrived, before + 1, memory_order_release);
}

static const struct qp_local_ops ops = {
	.can_execute = datagram_can_execute,
	.execute = datagram_execute,
	.state_changed = state_changed,
	.modified = modified,
	.arrived = arrived,
};

/* --- life --- */

static _Atomic uint64_t *entry_of(const struct door_qp *local)
{
	return &local->place.table->offset[local->qp->qpn % LANE_QP_COUNT_MAX];
}

void door_add(struct door_qp *local, struct qp *qp, const struct door_place *place,
	struct datagram_lane *lane)
{
	struct door *door = place->door;
	const struct arena *arena = qp->lane->arena;

	local->base.ops = &ops;
	local->qp = qp;
	local->place = *place;
	local->lane = lane;
	door->qpn = qp->qpn;
	door->recv_pd = qp->recv_pd;
	door->rq_offset = qp->srq ? qp->srq->rq_offset : qp->rq_offset;
	door->cq_offset = arena_offset(arena, qp->recv_cq->ring);
	door->is_rq_shared = qp->srq != NULL;
	qp->local = &local->base;
	atomic_store_explicit(entry_of(local), place->offset, memory_order_release);
}

void door_add_address(struct door *door, const struct gid *address)
{
	uint32_t count = atomic_load_explicit(&door->address_count, memory_order_relaxed);

	for (uint32_t i = 0; i < count; i++)
		if (gid_is_equal(&door->address[i], address))
			return;
	if (count == DOOR_ADDRESSES_MAX)
		return;
	door->address[count] = *address;
	atomic_store_explicit(&door->address_count, count + 1, memory_order_release);
}

bool door_remove(struct door_qp *local, uint64_t now_ns)
{
	atomic_store(entry_of(local), 0);
	door_close(local, now_ns);
	local->qp->local = NULL;
	if (local->is_stood_on && local->qp->srq)
		local->qp->srq->is_stood_on = true;
	return !local->is_stood_on;
}

/* --- collecting --- */

/* Whose it is, and was when the record was left; NULL: nobody's any more. */
static struct qp *receiver_of(const struct lane *lane, const struct guest_record *record)
{
	struct qp *qp = lane->qp_by_number[record->qpn % LANE_QP_COUNT_MAX];

	return qp && qp->type == QP_TYPE_UD && qp->qpn == record->qpn && qp->local &&
			door_from_qp(qp)->serial == record->serial
		? qp
		: NULL;
}

/* As packets are (ib/ud/ud.c). */
void door_collect(struct lane *lane, const struct guest_record *record, uint64_t now_ns)
{
	struct qp *qp = receiver_of(lane, record);
	enum fault fault =
		record->fault < FAULT_COUNT ? (enum fault)record->fault : FAULT_PEER_PROTOCOL;
	struct cqe cqe = {
		.opcode = WC_RECV,
		.byte_count = record->byte_count,
		.imm = record->imm,
		.source_qpn = record->source_qpn,
		.flags = record->flags & (WC_GRH | WC_WITH_IMM),
		.service_level = (uint8_t)record->service_level,
	};

	if (!qp)
		return;
	if (qp->srq)
		srq_note_taken(qp->srq, &lane->signals);
	ud_receive_end(qp, record->wr_id, &cqe, fault, record->is_solicited, now_ns);
}
