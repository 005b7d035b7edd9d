/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/wr.h"

#include <assert.h>
#include <endian.h>

#include "front/verbs/ah.h"
#include "front/verbs/mw.h"
#include "front/verbs/qp.h"
#include "front/verbs/result.h"

/*
 * Flags that a program may set. Whether data is inline depends on the setter that the program
 * calls.
 */
#define FLAGS_KNOWN (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED)

/*
 * The bytes of the operand of an ATOMIC WRITE. Every slot of every send queue has room for that
 * operand.
 */
#define ATOMIC_BYTES 8
static_assert(offsetof(struct wr_extended, wr_flush) + sizeof(void *) >= sizeof(struct ibv_qp_ex),
	"no header has a function behind it");
static_assert(offsetof(struct send_wqe, sge) % 64 <= 64 - ATOMIC_BYTES, "slots end at cache lines");

static struct qp_front *front_of(struct ibv_qp_ex *ex)
{
	return container_of(ex, struct qp_front, extended);
}

/* The first failure decides what wr_complete() returns. */
static void builder_fail(struct wr_builder *builder, enum reason reason)
{
	if (!builder->error)
		builder->error = result_cause(reason);
	builder->wqe = &builder->scratch;
}

/* --- the region --- */

static void wr_start(struct ibv_qp_ex *ex)
{
	struct qp_front *qp = front_of(ex);
	struct wr_builder *builder = &qp->builder;

	wr_builder_lock(builder);
	sq_batch_begin(&builder->batch);
	builder->wqe = &builder->scratch;
	builder->awaits_target = false;
	builder->error = 0;
}

/* The last request is complete: check that the program has set its destination. */
static void finish_last(struct wr_builder *builder)
{
	if (builder->awaits_target)
		builder_fail(builder, REASON_POST_INCOMPLETE);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct qp_front *qp = front_of(ex);
	struct wr_builder *builder = &qp->builder;
	int error;

	finish_last(builder);
	error = builder->error;
	if (!error && builder->batch.count) {
		error = -nic_qp_post_batch(qp->nic, &builder->batch);
		if (error)
			nic_qp_explain_send(qp->nic, NULL);
	}
	wr_builder_unlock(builder);
	return error ? result_of_post("ibv_wr_complete", error) : 0;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	wr_builder_unlock(&front_of(ex)->builder);
}

/* --- requests --- */

/*
 * Begin a request, which has no data yet. This function is inline, because it runs for each
 * request.
 */
static inline struct send_wqe *wr_build(struct ibv_qp_ex *ex, enum wr_opcode opcode)
{
	struct wr_builder *builder = &front_of(ex)->builder;

	finish_last(builder);
	if (!builder->error) {
		builder->wqe = sq_batch_add(&builder->batch);
		if (!builder->wqe)
			builder_fail(builder, REASON_POST_FULL);
	}
	struct send_wqe *wqe = builder->wqe;
	wqe->wr_id = ex->wr_id;
	wqe->opcode = opcode;
	wqe->flags = ex->wr_flags & FLAGS_KNOWN;
	wqe->total_bytes = 0;
	wqe->sge_count = 0;
	wqe->is_started = 0;
	wqe->goes_by_packets = 0;
	builder->awaits_target = builder->is_target_said;
	return wqe;
}

static struct send_wqe *build_remote(
	struct ibv_qp_ex *ex, enum wr_opcode opcode, uint32_t rkey, uint64_t remote_addr)
{
	struct send_wqe *wqe = wr_build(ex, opcode);

	wqe->rkey = rkey;
	wqe->remote_address = remote_addr;
	return wqe;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	wr_build(ex, WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	wr_build(ex, WR_SEND_WITH_IMM)->imm = be32toh(imm_data);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	wr_build(ex, WR_SEND_WITH_INV)->imm = invalidate_rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	wr_build(ex, WR_LOCAL_INV)->imm = invalidate_rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
	const struct ibv_mw_bind_info *bind_info)
{
	struct send_wqe *wqe = wr_build(ex, WR_BIND_MW);
	struct send_wr wr;

	if (!mw_bind_2_from_verbs(&wr, mw, rkey, bind_info)) {
		builder_fail(&front_of(ex)->builder, REASON_POST_BIND);
		return;
	}
	wqe->rkey = wr.rkey;
	wqe->remote_address = wr.remote_address;
	wqe->bind = wr.bind;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	build_remote(ex, WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(
	struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
	build_remote(ex, WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr)->imm = be32toh(imm_data);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	build_remote(ex, WR_RDMA_READ, rkey, remote_addr);
}

static void wr_atomic_cmp_swp(
	struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t compare, uint64_t swap)
{
	struct send_wqe *wqe = build_remote(ex, WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr);

	wqe->compare_add = compare;
	wqe->swap = swap;
}

static void wr_atomic_fetch_add(
	struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	build_remote(ex, WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr)->compare_add = add;
}

static void wr_atomic_write(
	struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, const void *atomic_wr)
{
	struct send_wqe *wqe = build_remote(ex, WR_ATOMIC_WRITE, rkey, remote_addr);

	memcpy(wqe->inline_bytes, atomic_wr, ATOMIC_BYTES);
	wqe->flags |= SEND_INLINE;
	wqe->total_bytes = ATOMIC_BYTES;
}

/* `type` and `level` are fields of the FLUSH extended header (IBTA annex A19). */
static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t len,
	uint8_t type, uint8_t level)
{
	struct send_wqe *wqe = build_remote(ex, WR_FLUSH, rkey, remote_addr);

	if (len > MESSAGE_BYTES_MAX) {
		builder_fail(&front_of(ex)->builder, REASON_POST_LENGTH);
		return;
	}
	wqe->flush = (struct wr_flush){
		.bytes = (uint32_t)len,
		.placement = type,
		.selectivity = level,
	};
}

/* --- what belongs to them --- */

/* The request that a setter changes. NULL: there is none, or an error has occurred. */
static struct send_wqe *current_wqe(struct wr_builder *builder)
{
	if (builder->wqe != &builder->scratch)
		return builder->wqe;
	builder_fail(builder, REASON_POST_INCOMPLETE);
	return NULL;
}

/*
 * Do what current_wqe() does, for a setter of data. Returns NULL also for requests that cannot have
 * data.
 */
static struct send_wqe *current_with_data(struct wr_builder *builder)
{
	struct send_wqe *wqe = current_wqe(builder);

	if (!wqe ||
		(wqe->opcode != WR_LOCAL_INV && wqe->opcode != WR_BIND_MW &&
			wqe->opcode != WR_ATOMIC_WRITE && wqe->opcode != WR_FLUSH))
		return wqe;
	builder_fail(builder, REASON_POST_INCOMPLETE);
	return NULL;
}

static void wr_set_ud_addr(
	struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct qp_front *qp = front_of(ex);
	struct send_wqe *wqe = current_wqe(&qp->builder);

	if (wqe && !ah_target(&wqe->datagram, ah, qp, remote_qpn, remote_qkey))
		builder_fail(&qp->builder, REASON_POST_ADDRESS);
	qp->builder.awaits_target = false;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct wr_builder *builder = &front_of(ex)->builder;
	struct send_wqe *wqe = current_wqe(builder);

	if (wqe)
		wqe->srqn = remote_srqn;
	builder->awaits_target = false;
}

static void list_is_set(struct send_wqe *wqe, size_t sge_count, uint64_t total_bytes)
{
	wqe->flags &= ~(uint32_t)SEND_INLINE;
	wqe->sge_count = (uint32_t)sge_count;
	wqe->total_bytes = (uint32_t)total_bytes;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *list)
{
	struct qp_front *qp = front_of(ex);
	struct wr_builder *builder = &qp->builder;
	struct send_wqe *wqe = current_with_data(builder);
	uint64_t total_bytes = 0;

	if (!wqe)
		return;
	if (num_sge > qp->cap.max_send_sge || (num_sge && !list)) {
		builder_fail(builder, REASON_POST_ENTRIES);
		return;
	}
	for (size_t i = 0; i < num_sge; i++) {
		wqe->sge[i] = (struct sge){list[i].addr, list[i].length, list[i].lkey};
		total_bytes += list[i].length;
	}
	if (total_bytes > MESSAGE_BYTES_MAX) {
		builder_fail(builder, REASON_POST_LENGTH);
		return;
	}
	list_is_set(wqe, num_sge, total_bytes);
}

/*
 * Write the slot directly, without a struct ibv_sge in between. The CPU would write that structure
 * in parts and then read it as a whole, which stalls.
 */
static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct qp_front *qp = front_of(ex);
	struct send_wqe *wqe = current_with_data(&qp->builder);

	if (!wqe)
		return;
	if (!qp->cap.max_send_sge || length > MESSAGE_BYTES_MAX) {
		builder_fail(&qp->builder,
			qp->cap.max_send_sge ? REASON_POST_LENGTH : REASON_POST_ENTRIES);
		return;
	}
	wqe->sge[0].address = addr;
	wqe->sge[0].bytes = length;
	wqe->sge[0].lkey = lkey;
	list_is_set(wqe, 1, length);
}

/* Does the NIC write to the request's buffers? If so, the data cannot be inline. */
static bool is_filled(const struct send_wqe *wqe)
{
	return wqe->opcode == WR_RDMA_READ || wqe->opcode == WR_ATOMIC_CMP_AND_SWP ||
		wqe->opcode == WR_ATOMIC_FETCH_AND_ADD;
}

static void inline_is_set(struct send_wqe *wqe, size_t total_bytes)
{
	wqe->flags |= SEND_INLINE;
	wqe->sge_count = 0;
	wqe->total_bytes = (uint32_t)total_bytes;
}

static void wr_set_inline_data_list(
	struct ibv_qp_ex *ex, size_t num_buf, const struct ibv_data_buf *list)
{
	struct qp_front *qp = front_of(ex);
	struct wr_builder *builder = &qp->builder;
	struct send_wqe *wqe = current_with_data(builder);
	size_t total_bytes = 0;

	if (!wqe)
		return;
	if (is_filled(wqe) || (num_buf && !list)) {
		builder_fail(builder, REASON_POST_INLINE);
		return;
	}
	for (size_t i = 0; i < num_buf; i++) {
		if (list[i].length > qp->cap.max_inline_data - total_bytes) {
			builder_fail(builder, REASON_POST_INLINE);
			return;
		}
		if (list[i].length)
			memcpy(wqe->inline_bytes + total_bytes, list[i].addr, list[i].length);
		total_bytes += list[i].length;
	}
	inline_is_set(wqe, total_bytes);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct qp_front *qp = front_of(ex);
	struct send_wqe *wqe = current_with_data(&qp->builder);

	if (!wqe)
		return;
	if (is_filled(wqe) || length > qp->cap.max_inline_data) {
		builder_fail(&qp->builder, REASON_POST_INLINE);
		return;
	}
	if (length == sizeof(uint64_t))
		/* A constant length compiles to one instruction */
		memcpy(wqe->inline_bytes, addr, sizeof(uint64_t));
	else if (length)
		memcpy(wqe->inline_bytes, addr, length);
	inline_is_set(wqe, length);
}

/* --- making it --- */

bool wr_are_supported(enum qp_type type, uint64_t send_ops_flags)
{
#define SEND_OP(flag, request, structure, function) \
	if (nic_can_send(type, request))            \
		send_ops_flags &= ~(uint64_t)(flag);
#include "front/verbs/send_op.def"
#undef SEND_OP
	return !send_ops_flags;
}

void wr_builder_init(struct qp_front *qp, uint64_t send_ops_flags)
{
	struct wr_builder *builder = &qp->builder;
	struct ibv_qp_ex *ex = &qp->extended;

	qp->has_builder = true;
	builder->is_locking = !domain_is_single_threaded(&qp->object);
	builder->is_target_said =
		qp->verbs.qp_type == IBV_QPT_UD || qp->verbs.qp_type == IBV_QPT_XRC_SEND;
#define SEND_OP(flag, request, structure, function) \
	if (send_ops_flags & (flag))                \
		qp->structure.function = function;
#include "front/verbs/send_op.def"
#undef SEND_OP
	if (qp->verbs.qp_type == IBV_QPT_UD)
		ex->wr_set_ud_addr = wr_set_ud_addr;
	if (qp->verbs.qp_type == IBV_QPT_XRC_SEND)
		ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}
