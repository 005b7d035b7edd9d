/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extended interface: ibv_wr_*() and ibv_start_poll().
 *
 * A program builds a request by several calls through the functions of its queue pair. The checker
 * keeps the arguments of these calls. It notes the request when the next request begins, or when
 * the program posts the requests. The queue's lock is locked from ibv_wr_start() until
 * ibv_wr_complete() or ibv_wr_abort().
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "check/hook/hook.h"
#include "check/model/request.h"
#include "check/model/watch.h"
#include "check/site.h"

/* The functions of an extended queue pair, and the request that the program builds. */
#define FUNCTIONS_BYTES (sizeof(struct ibv_qp_ex) - offsetof(struct ibv_qp_ex, wr_atomic_cmp_swp))

struct extended_post {
	struct ibv_qp_ex *qp;
	struct ibv_qp_ex real; /* the library's functions */
	struct ibv_qp_ex hooked; /* the checker's functions, which replace the library's */
	uint64_t tail; /* the queue's tail at ibv_wr_start() */
	bool is_building; /* a thread is between ibv_wr_start() and ibv_wr_complete() */
	bool is_begun; /* `request` has a request */
	uint32_t site;
	struct send_request request;
	struct ibv_sge *entries; /* as many entries as a request of the queue pair may have */
};

/*
 * The record of a queue pair for which ibv_wr_start() was called. Such a queue pair always has a
 * record.
 */
static inline struct queue_record *record_of(struct ibv_qp_ex *qp)
{
	struct queue_record *record = queue_recent[queue_recent_place(&qp->qp_base)];

	return record && record->object == &qp->qp_base ? record : queue_find(&qp->qp_base);
}

/* Note the request in `post->request`, which is complete now. */
static void request_flush(struct queue_record *record)
{
	struct extended_post *post = record->extended;

	if (post->is_begun)
		request_add_send(record, &post->request, post->site);
	post->is_begun = false;
}

/*
 * Has this thread locked the queue in extended_start()? A thread that called the library's
 * ibv_wr_start(), during a rest of the queue, has not. The checker does not note its request.
 */
static inline bool is_builder(const struct queue_record *record)
{
	return owned_lock_is_mine(&record->sends.lock);
}

static struct ibv_qp_ex *request_begin(
	struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, const void *address)
{
	struct queue_record *record = record_of(qp);
	struct extended_post *post = record->extended;

	if (!is_builder(record))
		return &post->real;
	request_flush(record);
	post->is_begun = true;
	post->site = request_site(&record->sends, address);
	post->request.wr_id = qp->wr_id;
	post->request.opcode = opcode;
	post->request.flags = qp->wr_flags;
	post->request.count = 0;
	return &post->real;
}

#define BEGIN(qp, opcode) request_begin(qp, opcode, __builtin_return_address(0))

/*
 * The functions between ibv_wr_start() and ibv_wr_complete() return nothing, so they cannot refuse
 * a destroyed or inherited queue pair: the process ends after the report.
 */
static void extended_start(struct ibv_qp_ex *qp)
{
	struct queue_record *record = queue_find(&qp->qp_base);
	struct extended_post *post;

	if (!record) {
		object_use(&qp->qp_base, OBJECT_QP, "ibv_wr_start",
			site_of(__builtin_return_address(0)));
		exit(CHECK_EXIT_STATUS);
	}
	if (check_is_full)
		watch_leave();
	owned_lock_take(&record->sends.lock);
	post = record->extended;
	post->real.wr_start(qp);
	/*
	 * The library lets only one thread build requests at a time. So no other thread is between
	 * two of these functions now, and they can be replaced.
	 */
	if (qp->wr_complete != post->hooked.wr_complete)
		memcpy(&qp->wr_atomic_cmp_swp, &post->hooked.wr_atomic_cmp_swp, FUNCTIONS_BYTES);
	post->tail = record->sends.tail;
	post->is_begun = false;
	post->is_building = true;
}

static int extended_complete(struct ibv_qp_ex *qp)
{
	struct queue_record *record = record_of(qp);
	uint32_t site = record->extended->site;
	struct fullness fullness;
	int result;

	if (!is_builder(record))
		return record->extended->real.wr_complete(qp);
	request_flush(record);
	check_depth++;
	result = record->extended->real.wr_complete(qp);
	check_depth--;
	if (result)
		request_take_back(&record->sends, record->extended->tail);
	request_settle(&record->sends);
	record->extended->is_building = false;
	rest_count(record);
	fullness = queue_fullness(&record->sends);
	owned_lock_leave(&record->sends.lock);
	if (result == ENOMEM)
		post_refused(record, fullness, site);
	return result;
}

static void extended_abort(struct ibv_qp_ex *qp)
{
	struct queue_record *record = record_of(qp);

	record->extended->real.wr_abort(qp);
	if (!is_builder(record))
		return;
	record->extended->is_begun = record->extended->is_building = false;
	request_take_back(&record->sends, record->extended->tail);
	owned_lock_leave(&record->sends.lock);
}

static void extended_swap(
	struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare, uint64_t swap)
{
	BEGIN(qp, IBV_WR_ATOMIC_CMP_AND_SWP)
		->wr_atomic_cmp_swp(qp, rkey, remote_addr, compare, swap);
}

static void extended_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	BEGIN(qp, IBV_WR_ATOMIC_FETCH_AND_ADD)->wr_atomic_fetch_add(qp, rkey, remote_addr, add);
}

static void extended_bind(
	struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	BEGIN(qp, IBV_WR_BIND_MW)->wr_bind_mw(qp, mw, rkey, info);
}

static void extended_invalidate(struct ibv_qp_ex *qp, uint32_t rkey)
{
	BEGIN(qp, IBV_WR_LOCAL_INV)->wr_local_inv(qp, rkey);
}

static void extended_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	BEGIN(qp, IBV_WR_RDMA_READ)->wr_rdma_read(qp, rkey, remote_addr);
}

static void extended_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	BEGIN(qp, IBV_WR_RDMA_WRITE)->wr_rdma_write(qp, rkey, remote_addr);
}

static void extended_write_imm(
	struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
	BEGIN(qp, IBV_WR_RDMA_WRITE_WITH_IMM)->wr_rdma_write_imm(qp, rkey, remote_addr, imm_data);
}

static void extended_send(struct ibv_qp_ex *qp)
{
	BEGIN(qp, IBV_WR_SEND)->wr_send(qp);
}

static void extended_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
	BEGIN(qp, IBV_WR_SEND_WITH_IMM)->wr_send_imm(qp, imm_data);
}

static void extended_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	BEGIN(qp, IBV_WR_SEND_WITH_INV)->wr_send_inv(qp, rkey);
}

/* The checker does not watch the memory of a TSO request: its header and its entries. */
static void extended_send_tso(struct ibv_qp_ex *qp, void *header, uint16_t bytes, uint16_t mss)
{
	BEGIN(qp, IBV_WR_TSO)->wr_send_tso(qp, header, bytes, mss);
}

static void extended_atomic_write(
	struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, const void *data)
{
	struct ibv_qp_ex *real = BEGIN(qp, IBV_WR_ATOMIC_WRITE);

	if (is_builder(record_of(qp)))
		record_of(qp)->extended->request.flags |= IBV_SEND_INLINE;
	real->wr_atomic_write(qp, rkey, remote_addr, data);
}

static void extended_set_inline(struct ibv_qp_ex *qp, void *data, size_t bytes)
{
	struct queue_record *record = record_of(qp);

	if (is_builder(record))
		record->extended->request.flags |= IBV_SEND_INLINE;
	record->extended->real.wr_set_inline_data(qp, data, bytes);
}

static void extended_set_inline_list(
	struct ibv_qp_ex *qp, size_t count, const struct ibv_data_buf *list)
{
	struct queue_record *record = record_of(qp);

	if (is_builder(record))
		record->extended->request.flags |= IBV_SEND_INLINE;
	record->extended->real.wr_set_inline_data_list(qp, count, list);
}

static void extended_set_entry(
	struct ibv_qp_ex *qp, uint32_t lkey, uint64_t address, uint32_t bytes)
{
	struct queue_record *record = record_of(qp);
	struct extended_post *post = record->extended;

	if (is_builder(record)) {
		post->entries[0] = (struct ibv_sge){.addr = address, .length = bytes, .lkey = lkey};
		post->request.count = 1;
	}
	post->real.wr_set_sge(qp, lkey, address, bytes);
}

static void extended_set_entries(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list)
{
	struct queue_record *record = record_of(qp);
	struct extended_post *post = record->extended;

	if (!is_builder(record)) {
		post->real.wr_set_sge_list(qp, count, list);
		return;
	}
	post->request.count =
		(uint32_t)(count < record->sends.buffers_each ? count : record->sends.buffers_each);
	for (uint32_t i = 0; i < post->request.count; i++)
		post->entries[i] = list[i];
	post->real.wr_set_sge_list(qp, count, list);
}

/* Replace the functions of the queue pair by those of this file. */
static void hooks_put(struct ibv_qp_ex *qp)
{
#define REPLACE(slot, function) \
	if (qp->slot)           \
	qp->slot = function
	REPLACE(wr_atomic_cmp_swp, extended_swap);
	REPLACE(wr_atomic_fetch_add, extended_add);
	REPLACE(wr_bind_mw, extended_bind);
	REPLACE(wr_local_inv, extended_invalidate);
	REPLACE(wr_rdma_read, extended_read);
	REPLACE(wr_rdma_write, extended_write);
	REPLACE(wr_rdma_write_imm, extended_write_imm);
	REPLACE(wr_send, extended_send);
	REPLACE(wr_send_imm, extended_send_imm);
	REPLACE(wr_send_inv, extended_send_inv);
	REPLACE(wr_send_tso, extended_send_tso);
	REPLACE(wr_set_inline_data, extended_set_inline);
	REPLACE(wr_set_inline_data_list, extended_set_inline_list);
	REPLACE(wr_set_sge, extended_set_entry);
	REPLACE(wr_set_sge_list, extended_set_entries);
	REPLACE(wr_start, extended_start);
	REPLACE(wr_complete, extended_complete);
	REPLACE(wr_abort, extended_abort);
	REPLACE(wr_atomic_write, extended_atomic_write);
#undef REPLACE
}

void hook_extended_qp(struct ibv_qp_ex *qp)
{
	struct queue_record *record = queue_find(&qp->qp_base);
	struct extended_post *post;

	if (!record || record->extended)
		return;
	post = calloc(1, sizeof(*post));
	if (post)
		post->entries = calloc(record->sends.buffers_each, sizeof(*post->entries));
	if (!post || !post->entries) {
		free(post);
		return;
	}
	post->qp = qp;
	post->real = *qp;
	post->request.entries = post->entries;
	record->extended = post;
	hooks_put(qp);
	post->hooked = *qp;
}

bool rest_hooks_remove(struct queue_record *record)
{
	struct extended_post *post = record->extended;
	bool is_possible;

	if (!owned_lock_try(&record->sends.lock))
		return false;
	is_possible = !post->is_building;
	if (is_possible)
		memcpy(&post->qp->wr_atomic_cmp_swp, &post->real.wr_atomic_cmp_swp,
			FUNCTIONS_BYTES);
	owned_lock_leave(&record->sends.lock);
	return is_possible;
}

void rest_hooks_put(struct queue_record *record)
{
	record->extended->qp->wr_start = extended_start;
}

/* --- objects that are made through a context ------------------------------------------------- */

static void extended_completion(struct cq_record *record, struct ibv_cq_ex *cq, const void *address)
{
	struct ibv_wc wc = {
		.wr_id = cq->wr_id,
		.status = cq->status,
		.opcode = cq->status == IBV_WC_SUCCESS ? cq->read_opcode(cq) : IBV_WC_SEND,
		.qp_num = cq->read_qp_num(cq),
	};

	completion_note(record, &wc, address);
}

static int extended_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	struct cq_record *record = queue_find_cq((struct ibv_cq *)cq);
	int result;

	if (!record) {
		object_use(cq, OBJECT_CQ, "ibv_start_poll", site_of(__builtin_return_address(0)));
		return EINVAL;
	}
	cq_note_poll(record);
	if (check_is_full && watch_is_mine())
		return ENOENT;
	result = record->start_poll(cq, attr);
	if (result == 0)
		extended_completion(record, cq, __builtin_return_address(0));
	return result;
}

static int extended_next_poll(struct ibv_cq_ex *cq)
{
	struct cq_record *record = queue_find_cq((struct ibv_cq *)cq);
	int result = record ? record->next_poll(cq) : ENOENT;

	if (result == 0)
		extended_completion(record, cq, __builtin_return_address(0));
	return result;
}

struct ibv_cq_ex *hook_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex asked = *attr;
	struct cq_record *record;
	struct ibv_cq_ex *cq;

	asked.wc_flags |= IBV_WC_EX_WITH_QP_NUM;
	cq = context_of(context)->create_cq_ex(context, &asked);
	record = cq ? queue_add_cq((struct ibv_cq *)cq, SITE_HERE()) : NULL;
	if (record && cq->read_qp_num && cq->read_opcode) {
		record->start_poll = cq->start_poll;
		record->next_poll = cq->next_poll;
		cq->start_poll = extended_start_poll;
		cq->next_poll = extended_next_poll;
	}
	return cq;
}

struct ibv_qp *hook_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = context_of(context)->create_qp_ex(context, attr);

	if (qp)
		queue_add(qp, &attr->cap, attr->sq_sig_all, SITE_HERE());
	return qp;
}

struct ibv_srq *hook_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq *srq = context_of(context)->create_srq_ex(context, attr);

	if (srq)
		queue_add_shared(srq, attr->attr.max_wr, attr->attr.max_sge, SITE_HERE());
	return srq;
}
