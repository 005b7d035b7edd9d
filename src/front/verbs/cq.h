/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues, as objects of the ABI around the NIC's.
 */
#ifndef URNIC_FRONT_VERBS_CQ_H
#define URNIC_FRONT_VERBS_CQ_H

#include "front/verbs/async.h"
#include "front/verbs/channel.h"
#include "front/verbs/object.h"
#include "runtime/nic.h"

struct cq_front {
	struct ibv_cq verbs;
	struct object object;
	struct nic_cq *nic;
	struct channel *channel; /* NULL: nobody wants events */
	struct event completion; /* in the channel's queue */
	struct async_event error; /* in the context's */
};

/* For the data path, which trusts its pointers. */
static inline struct cq_front *cq_of(struct ibv_cq *verbs)
{
	return container_of(verbs, struct cq_front, verbs);
}

/* Give back all but the structure, of which the object was taken out of the table. Events are left to be acknowledged. */
void cq_release(struct object *object);

/* poll_cq and req_notify_cq of the table in the context. */
int cq_poll_verbs(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int cq_request_notify(struct ibv_cq *cq, int solicited_only);

#endif
