/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/window.h"

#include "memory/mw.h"

static enum fault bind_fault(enum mr_fault fault)
{
	switch (fault) {
	case MR_OK:
		return FAULT_NONE;
	case MR_FAULT_KEY:
		return FAULT_BIND_KEY;
	case MR_FAULT_PD:
		return FAULT_BIND_PD;
	case MR_FAULT_ACCESS:
		return FAULT_BIND_ACCESS;
	case MR_FAULT_BOUNDS:
		return FAULT_BIND_BOUNDS;
	case MR_FAULT_PAGE: /* of an access only */
		break;
	case MR_FAULT_STATE:
	case MR_FAULT_ALIGN:
	case MR_FAULT_LATER:
		return FAULT_BIND_STATE;
	}
	return FAULT_BIND_KEY;
}

static enum fault bind(struct qp *qp, const struct send_wqe *wqe)
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
		return bind(qp, wqe);
	if (mw_invalidate(qp->lane->mrs, wqe->imm, qp_mr_user(qp)))
		return FAULT_INVALIDATE_KEY;
	if (qp->local)
		qp->local->ops->quiesce(qp, wqe->imm);
	return FAULT_NONE;
}
