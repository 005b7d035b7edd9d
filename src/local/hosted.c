/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/hosted.h"

#include "local/initiator.h"
#include "local/shared.h"

/* --- finding the queue --- */

/* What was told is about the same queue still. */
static bool is_told(const struct hosted_srq *srq)
{
	return atomic_load(&srq->told->number) == srq->number &&
		atomic_load(&srq->told->serial) == srq->serial;
}

static struct hosted_srq *find(const struct local_qp *local, uint32_t srqn)
{
	if (local->host && local->host->number == srqn && is_told(local->host))
		return local->host;
	list_for_each(srq, &local->hosted, struct hosted_srq, link)
		if (srq->number == srqn && is_told(srq))
			return srq;
	return NULL;
}

/* One queue pair of a lane at a time. */
static void ask(struct local_qp *local, uint32_t srqn)
{
	const struct srq_hosted *told =
		srq_hosted_find(local->target_srqs, srqn, local->target->xrcd);

	if (!told || local->lane->asking || !srq_hosted_read(told, srqn, &local->asked_host))
		return;
	local->asked = told;
	local->asked_srqn = srqn;
	local->lane->asking = local;
	local->owner->ask();
}

bool hosted_select(struct local_qp *local, uint32_t srqn)
{
	struct hosted_srq *srq = find(local, srqn);

	if (!srq)
		ask(local, srqn);
	if (!srq || !srq->is_reached)
		return false;
	guest_enter(srq->seat, INBOX_PUBLISHES);
	if (!far_srq_is_there(&srq->far)) {
		guest_leave(srq->seat);
		return false;
	}
	if (local->host == srq && local->target_srqn == srqn)
		return true;
	local->host = srq;
	local->memory = srq->far.host->peer;
	local->target_rq = srq->far.srq.rq;
	shared_begin(local, srq->far.public, srqn);
	return true;
}

/* --- receive requests --- */

bool hosted_has_room(struct local_qp *local)
{
	const struct far_srq *far = &local->host->far;

	if (guest_has_room(local->host->seat))
		return true;
	if (!local->is_waiting) /* nobody polls */
		far->host->peer->ops->kick(far->host->peer, far->lane);
	return false;
}

bool hosted_deliver(struct local_qp *local, const struct send_wqe *wqe, uint32_t opcode,
	const struct recv_wqe *receive)
{
	struct inbox *target = local->target;
	const struct hosted_srq *srq = local->host;
	bool has_imm = wr_table[wqe->opcode].has_imm;
	bool is_solicited = (wqe->flags & SEND_SOLICITED) != 0;
	const struct guest_record record = {
		.wr_id = receive->wr_id,
		.opcode = opcode,
		.flags = has_imm ? WC_WITH_IMM : 0,
		.byte_count = wqe->total_bytes,
		.imm = has_imm ? wqe->imm : 0,
		.qpn = target->qpn,
		.srqn = srq->number,
		.is_solicited = is_solicited,
	};

	if (inbox_generation(target) != local->generation || !shared_let_go(local))
		return false;
	/* Killed here, it is lost; the other way round it would complete twice. */
	if (!far_srq_publish(&srq->far, srq->seat, &record))
		return false;
	far_srq_tell(&srq->far, is_solicited);
	if (opcode == WC_RECV)
		local_executed(local, &target->sends, 1, wqe->total_bytes);
	return true;
}

/* --- asking --- */

void hosted_answer(struct local_qp *local, struct hosted_srq *srq)
{
	srq->told = local->asked;
	srq->number = local->asked_srqn;
	srq->serial = local->asked_host.serial;
	list_append(&local->hosted, &srq->link);
	local->lane->asking = NULL;
}

struct hosted_srq *hosted_take(struct local_qp *local,
	bool (*is_it)(const struct hosted_srq *srq, const void *context), const void *context)
{
	list_for_each(srq, &local->hosted, struct hosted_srq, link)
		if (is_it(srq, context)) {
			list_remove(&srq->link);
			if (local->host == srq) {
				local->host = NULL;
				local->memory = local->peer;
				local->target_srqn = SHARED_NO_SRQN;
			}
			return srq;
		}
	return NULL;
}

void hosted_end(struct local_qp *local)
{
	if (local->lane->asking == local)
		local->lane->asking = NULL;
}
