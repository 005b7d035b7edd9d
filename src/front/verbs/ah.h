/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles. */
#ifndef URNIC_FRONT_VERBS_AH_H
#define URNIC_FRONT_VERBS_AH_H

#include "front/verbs/object.h"
#include "front/verbs/qp.h"

struct ah {
	struct ibv_ah verbs;
	struct object object;
	struct object *pd;
	struct nic_ah *nic;
};

/*
 * Set the destination of a datagram from `qp`. The address handle is trusted, like all pointers on
 * the data path. If it does not belong to the protection domain of `qp`, the request completes with
 * an error (IBTA 10.2.2, C10-10). Returns false when `verbs` is NULL.
 */
static inline bool ah_target(struct datagram_target *target, struct ibv_ah *verbs,
	const struct qp_front *qp, uint32_t qpn, uint32_t qkey)
{
	const struct ah *ah = verbs ? container_of(verbs, struct ah, verbs) : NULL;

	if (!ah)
		return false;
	nic_ah_target(ah->nic, qp->nic, target);
	if (ah->pd != qp->pd)
		target->path = DATAGRAM_PATH_DENIED;
	target->qpn = qpn;
	target->qkey = qkey;
	return true;
}

#endif
