/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues, as objects of the ABI around the NIC's.
 */
#ifndef URNIC_FRONT_VERBS_CQ_H
#define URNIC_FRONT_VERBS_CQ_H

#include <endian.h>

#include "front/verbs/async.h"
#include "front/verbs/channel.h"
#include "front/verbs/domain.h"
#include "front/verbs/object.h"
#include "nic/nic.h"

/* Where the polling of an extended queue is; see cq_ex.c. */
struct cq_cursor {
	pthread_mutex_t lock; /* from start_poll to end_poll, unless only one thread polls */
	bool is_locking;
	bool has_wallclock;
	uint64_t wallclock_offset_ns; /* from the NIC's clock to the time of day */
	struct cqe cqe; /* the current completion */
};

struct cq_front {
	union {
		struct ibv_cq verbs;
		struct ibv_cq_ex extended; /* begins like the other */
	};
	struct object object;
	struct domain domain;
	struct nic_cq *nic;
	struct channel *channel; /* NULL: without events */
	struct event completion; /* in the channel's queue */
	struct async_event error; /* in the context's */
	struct cq_cursor cursor; /* of an extended queue */
};

/* For the data path, which does not check pointers. */
static inline struct cq_front *cq_of(struct ibv_cq *verbs)
{
	return container_of(verbs, struct cq_front, verbs);
}

/*
 * Make a completion queue. `init` as for ibv_create_cq_ex(), of which all but wc_flags were checked
 * to be known. NULL with errno on failure.
 */
struct cq_front *cq_create(struct ibv_context *context, const struct ibv_cq_init_attr_ex *init);

/* create_cq_ex and modify_cq of the table in the context. */
int cq_modify(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
struct ibv_cq_ex *cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *init);

/* Immediate data travels in network order, a key to invalidate is a number. */
static inline uint32_t cqe_imm_data(const struct cqe *cqe)
{
	return cqe->flags & WC_WITH_IMM ? htobe32(cqe->imm) : cqe->imm;
}

/* Only a datagram's says something: enum wc_service_level. */
static inline uint8_t cqe_service_level(const struct cqe *cqe)
{
	return cqe->flags & WC_GRH ? (uint8_t)cqe->service_level : 0;
}

/*
 * Release all but the structure; the object is already out of the table. Events are left
 * to be acknowledged.
 */
void cq_release(struct object *object);

/* poll_cq and req_notify_cq of the table in the context. */
int cq_poll_verbs(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int cq_request_notify(struct ibv_cq *cq, int solicited_only);

#endif
