/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/memory_window.h"

#include "memory/mw.h"

static enum fault bind_fault(enum mr_fault fault)
{
	static const enum fault faults[] = {
#define MR_FAULT(name, local, bind, tagged, read, error, sentence) [MR_FAULT_##name] = FAULT_##bind,
#include "memory/mr_fault.def"
#undef MR_FAULT
	};

	return faults[fault];
}

static enum fault bind_execute(struct qp *qp, const struct send_wqe *wqe)
{
	struct mw_bind bind = {
		.key = wqe->rkey,
		.region_key = wqe->bind.region_key,
		.user = qp_mr_user(qp),
		.access = wqe->bind.access,
		.iova = wqe->remote_address,
		.bytes = wqe->bind.bytes,
	};
	enum mr_fault fault = mw_bind(qp->lane->mrs, &bind);

	if (!fault)
		qp->has_bound_windows = true;
	return bind_fault(fault);
}

enum fault window_execute(struct qp *qp, const struct send_wqe *wqe)
{
	if (wqe->opcode == WR_BIND_MW)
		return bind_execute(qp, wqe);
	if (mw_invalidate(qp->lane->mrs, wqe->imm, qp_mr_user(qp)))
		return FAULT_INVALIDATE_KEY;
	if (qp->local)
		qp->local->ops->quiesce(qp, wqe->imm);
	return FAULT_NONE;
}
