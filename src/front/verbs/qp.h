/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs, as objects of the ABI around the NIC's.
 */
#ifndef URNIC_FRONT_VERBS_QP_H
#define URNIC_FRONT_VERBS_QP_H

#include "front/verbs/async.h"
#include "front/verbs/domain.h"
#include "front/verbs/object.h"
#include "front/verbs/wr.h"
#include "nic/nic.h"

/* The kinds of asynchronous events that a queue pair has. */
enum qp_event {
#define QP_EVENT(name, events, type) QP_EVENT_##name,
#include "front/verbs/qp_event.def"
#undef QP_EVENT
	QP_EVENT_COUNT
};

struct qp_front {
	union {
		struct ibv_qp verbs;
		struct ibv_qp_ex extended; /* begins with the other */
		struct wr_extended newer; /* and this one with both */
	};
	struct object object;
	struct domain domain;
	struct nic_qp *nic;
	struct object *pd; /* NULL for XRC_RECV */
	struct object *send_cq; /* NULL for XRC_RECV */
	struct object *recv_cq; /* NULL for XRC */
	struct object *srq; /* NULL: a receive queue of its own, or none */
	/* Of work queues that it delivers into, and then it has no queues; else NULL */
	struct object *table;
	struct object *xrcd; /* of XRC_RECV, else NULL */
	struct xrc_target
		*target; /* of XRC_RECV: what it shares with others in front of the same; xrcd.c */
	struct list target_node;
	struct ibv_qp_cap cap;
	bool is_all_signaled;
	struct wr_builder builder;
	struct async_event events[QP_EVENT_COUNT];
};

/* For the data path, which does not check pointers. */
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

/* create_qp_ex and open_qp of the table in the context. */
struct ibv_qp *qp_create_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init);
struct ibv_qp *qp_open(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* Post the asynchronous events for these bits of enum signal_event. */
void qp_post_events(struct qp_front *qp, uint32_t events);

/*
 * Translate what ibv_modify_qp was given: all fields, of which the NIC looks at those that `mask`
 * names; the paths only if it does.
 *
 * Returns 0, or EINVAL for an address that this device cannot have: not global, another port, an
 * index without a GID.
 */
int qp_attr_from_verbs(
	struct device *device, const struct ibv_qp_attr *verbs, int mask, struct qp_attr *attr);

/* Translate an address; all but the path's id. Returns 0, or EINVAL as above. */
int path_from_verbs(struct device *device, const struct ibv_ah_attr *ah, uint8_t port,
	struct qp_path *ret_path);

/* Translate back, for ibv_query_qp. */
struct ibv_qp_attr qp_attr_to_verbs(const struct qp_front *qp, const struct nic_qp_state *nic);

/*
 * Release all but the structure; the object is already out of the table. Events are left
 * to be acknowledged.
 */
void qp_release(struct object *object);

/* modify_qp_rate_limit of the table in the context. */
int qp_modify_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);

/* post_send and post_recv of the table in the context. */
int qp_post_send_verbs(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int qp_post_recv_verbs(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

#endif
