/* SPDX-License-Identifier: BSD-2-Clause */
/* The checker's functions that replace the library's functions in the tables of objects. */
#ifndef URNIC_CHECK_HOOK_HOOK_H
#define URNIC_CHECK_HOOK_HOOK_H

#include <infiniband/verbs.h>

#include "check/model/request.h"

/* hook_post.c: for struct ibv_context_ops */
int hook_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int hook_post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int hook_post_shared(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int hook_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int hook_arm(struct ibv_cq *cq, int solicited_only);

/* How full a send queue is. The queue's lock is locked. */
struct fullness {
	uint64_t pending, signaled;
};

static inline struct fullness queue_fullness(const struct request_queue *queue)
{
	return (struct fullness){queue->tail - queue->head, queue->signaled};
}

/*
 * The library has refused a post with ENOMEM while the queue was so full. If the program has made a
 * mistake, report it. No lock is locked.
 */
void post_refused(struct queue_record *record, struct fullness fullness, uint32_t site);

/* The program has polled a completion, in the call that returns to `address`. */
void completion_note(struct cq_record *record, const struct ibv_wc *wc, const void *address);

/* The completion queue was overrun. The program finds that out at `site`. */
void cq_overrun_report(const struct ibv_cq *cq, uint32_t site);

/*
 * hook_extended.c: the calls that make objects of the extended interface, and the functions of
 * these objects
 */
struct ibv_cq_ex *hook_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
struct ibv_qp *hook_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_srq *hook_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);

/* Replace the functions of an extended queue pair, unless that was done before. */
void hook_extended_qp(struct ibv_qp_ex *qp);

/*
 * hook_memory.c: keep the memory at this address when the library frees it. NULL: keep no memory
 * any more.
 */
void object_keep(const void *pointer);

#endif
