/* SPDX-License-Identifier: BSD-2-Clause */
/* The ABI's shared receive queues. Each refers to a shared receive queue of the NIC. */
#ifndef URNIC_FRONT_VERBS_SRQ_H
#define URNIC_FRONT_VERBS_SRQ_H

#include "front/verbs/async.h"
#include "front/verbs/domain.h"
#include "front/verbs/object.h"
#include "nic/object/nic.h"

/*
 * The most outstanding operations on a matching list. Operations complete while they are posted, so
 * the number has no effect.
 */
#define SRQ_TAG_OPS_MAX 4096

struct srq_front {
	struct ibv_srq verbs;
	struct object object;
	struct nic_srq *nic;
	struct object *pd;
	struct object *xrcd; /* NULL: not an XRC queue */
	struct object *cq; /* NULL unless this is an XRC or tag-matching queue */
	bool has_tags; /* a tag-matching queue */
	size_t pinned_bytes; /* counted by strict_pin() */
	struct async_event limit;
};

/* Convert the program's pointer. Only the data path uses this, because it trusts such pointers. */
static inline struct srq_front *srq_of(struct ibv_srq *verbs)
{
	return container_of(verbs, struct srq_front, verbs);
}

/*
 * Find the queue that a program named, and become its user. NULL: the context's device has no such
 * queue. Undo with object_unref().
 */
static inline struct object *srq_ref(const struct ibv_srq *srq)
{
	return object_ref(srq->handle, OBJECT_SRQ, context_of(srq->context));
}

static inline struct nic_srq *nic_srq_of(struct object *object)
{
	return container_of(object, struct srq_front, object)->nic;
}

void srq_free(void *memory);

#endif
