/* SPDX-License-Identifier: BSD-2-Clause */
/* The ABI's queue pairs. Each refers to a queue pair of the NIC. */
#ifndef URNIC_FRONT_VERBS_QP_H
#define URNIC_FRONT_VERBS_QP_H

#include "front/verbs/async.h"
#include "front/verbs/domain.h"
#include "front/verbs/object.h"
#include "front/verbs/wr.h"
#include "nic/object/nic.h"

enum qp_event {
#define QP_EVENT(name, events, type) QP_EVENT_##name,
#include "front/verbs/qp_event.def"
#undef QP_EVENT
	QP_EVENT_COUNT
};

/*
 * The events of a queue pair. Few queue pairs ever have an event, so these structs lie in pages of
 * their own (os/cold_pool.h).
 */
struct qp_events {
	struct async_event event[QP_EVENT_COUNT];
};

struct qp_front {
	struct object object;
	struct nic_qp *nic;
	struct object *pd; /* NULL for XRC_RECV */
	struct object *send_cq; /* NULL for XRC_RECV */
	struct object *recv_cq; /* NULL for XRC_SEND and XRC_RECV */
	struct object *srq; /* NULL: the queue pair has its own receive queue, or none */
	/* The indirection table, if frames go to its work queues; else NULL */
	struct object *table;
	struct object *xrcd; /* the domain of an XRC_RECV queue pair; else NULL */
	size_t pinned_bytes; /* counted by strict_pin() */
	/* XRC_RECV: the receiving queue pair, which several public queue pairs share (xrcd.c) */
	struct xrc_target *target;
	struct list target_node;
	/*
	 * The completion counters of the queue pair. A counter is at the index of the lowest bit of
	 * its operations; all other entries are NULL.
	 */
	struct object *counters[COUNTED_BITS];
	struct ibv_qp_cap cap;
	bool is_all_signaled;
	bool has_builder; /* created with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS */
	bool has_events; /* `events` is prepared, as it must be before the first event */
	struct qp_events *events;
	union {
		struct ibv_qp verbs;
		/*
		 * The memory for the next two members, and for `builder`, exists only if
		 * has_builder is set.
		 */
		struct ibv_qp_ex extended; /* begins with struct ibv_qp */
		struct wr_extended newer; /* struct ibv_qp_ex of newer headers */
	};
	struct wr_builder builder;
};

/* Convert the program's pointer. Only the data path uses this, because it trusts such pointers. */
static inline struct qp_front *qp_of(struct ibv_qp *verbs)
{
	return container_of(verbs, struct qp_front, verbs);
}

/* The queue pair that a control call names; undo with object_unref(&qp->object). */
static inline struct qp_front *qp_ref(const struct ibv_qp *verbs)
{
	struct object *object = object_ref(verbs->handle, OBJECT_QP, context_of(verbs->context));

	return object ? container_of(object, struct qp_front, object) : NULL;
}

/* Post the asynchronous events of the qp_front `user` for these bits of enum signal_event. */
void qp_post_events(void *user, uint32_t events);

/*
 * Convert the attributes of ibv_modify_qp(). The function converts the paths and the rate limit
 * only if `mask` names them; it converts all other fields always. The NIC uses only the fields that
 * `mask` names.
 *
 * Returns 0, or EINVAL for an illegal address: one that is not global, names a port that the device
 * does not have, or names an index without a GID.
 */
int qp_attr_from_verbs(
	struct device *device, const struct ibv_qp_attr *verbs, int mask, struct qp_attr *attr);

/* Convert an address to a path. Returns 0, or EINVAL as qp_attr_from_verbs(). */
int path_from_verbs(struct device *device, const struct ibv_ah_attr *ah, uint8_t port,
	struct qp_path *ret_path);

/* Convert the attributes of the NIC for ibv_query_qp(). */
struct ibv_qp_attr qp_attr_to_verbs(const struct qp_front *qp, const struct nic_qp_state *nic);

void qp_free(void *memory);

#endif
