/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Enhanced connection establishment: vendor options that two adapters agree on when they connect.
 *
 * This NIC has no options. It reports vendor and options 0, takes part in the exchange, and accepts
 * none of the peer's options.
 */
#include "front/verbs/qp.h"

#include "front/verbs/result.h"

static int ece_answer(const struct ibv_qp *verbs, struct ibv_ece *ece)
{
	struct qp_front *qp = qp_ref(verbs);

	if (!qp)
		return result_cause(REASON_NO_OBJECT);
	object_unref(&qp->object);
	*ece = (struct ibv_ece){.vendor_id = 0};
	return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return result_of("ibv_set_ece",
		ece->comp_mask ? result_cause(REASON_UNKNOWN_BITS) : ece_answer(qp, ece));
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return result_of("ibv_query_ece", ece_answer(qp, ece));
}
