/* SPDX-License-Identifier: BSD-2-Clause */
/* Executes atomics, ATOMIC WRITE and FLUSH on the target's memory. */
#include <string.h>

#include "local/initiator/initiator.h"
#include "memory/mr_borrowed.h"
#include "wire/headers.h"

/* --- atomics --- */

static struct mr_word word_of(const struct send_wqe *wqe)
{
	if (wqe->opcode == WR_ATOMIC_FETCH_AND_ADD)
		return (struct mr_word){MR_WORD_FETCH_ADD, 0, wqe->compare_add};
	return (struct mr_word){MR_WORD_COMPARE_SWAP, wqe->compare_add, wqe->swap};
}

/*
 * Find the 8 bytes that the request names. Returns false when the access is refused, or when the
 * bytes are not mapped in this process or not aligned. Then the request falls back to packets, and
 * the target's CPU executes it.
 */
static bool word_find(struct local_initiator *local, const struct send_wqe *wqe, uint32_t access,
	uint8_t **ret_word)
{
	struct mr_user user = {local->target_pd, local->target->qpn};
	struct peer_place place = {.here = NULL};
	enum mr_fault fault = peer_find_cached(local->peer, &local->remote, wqe->rkey, user, access,
		wqe->remote_address, sizeof(uint64_t), &place);

	if (!fault && !place.here) {
		local->has_unmapped_atomics = true;
		local->unmapped_key = wqe->rkey;
	}
	*ret_word = place.here;
	return !fault && place.here && (uintptr_t)place.here % sizeof(uint64_t) == 0;
}

/*
 * May the original value be stored in the request's memory? *ret_result becomes the address for the
 * value; NULL if the memory is not one piece.
 */
static bool result_find(
	struct local_initiator *local, const struct send_wqe *wqe, uint8_t **ret_result)
{
	const struct qp *qp = local->qp;

	if (wqe->sge_count == 1 &&
		local_own_find(local, wqe->sge[0].lkey, MR_LOCAL_WRITE, wqe->sge[0].address,
			sizeof(uint64_t), ret_result))
		return true;
	*ret_result = NULL;
	return !sge_check(qp->lane->mrs, qp->pd, MR_LOCAL_WRITE, wqe->sge, wqe->sge_count);
}

static enum mr_fault result_store(
	const struct qp *qp, const struct send_wqe *wqe, uint8_t *result, uint64_t original)
{
	if (!result)
		return sge_scatter(qp->lane->mrs, qp->pd, wqe->sge, wqe->sge_count, 0,
			sizeof(original), (const uint8_t *)&original);
	copy_place(result, (const uint8_t *)&original, sizeof(original));
	return MR_OK;
}

enum qp_local_result local_atomic(
	struct local_initiator *local, const struct send_wqe *wqe, enum fault *ret_fault)
{
	const struct qp *qp = local->qp;
	uint32_t granted = atomic_load_explicit(&local->target->access, memory_order_relaxed);
	enum mr_fault fault;
	const struct mr_word word = word_of(wqe);
	uint64_t original = 0;
	uint8_t *at, *result;
	bool is_done, was_revoked;

	if (!(granted & MR_REMOTE_ATOMIC) || wqe->remote_address % sizeof(uint64_t) ||
		wqe->total_bytes != sizeof(uint64_t) || !result_find(local, wqe, &result) ||
		!local_use(local, wqe->rkey))
		return QP_LOCAL_PACKETS;
	is_done = word_find(local, wqe, MR_REMOTE_ATOMIC, &at);
	if (is_done)
		original = mr_word_apply(&word, at);
	was_revoked = is_done && !local_mark_holds(local);
	local_end(local);
	if (!is_done)
		return QP_LOCAL_PACKETS;
	if (was_revoked) {
		*ret_fault = FAULT_REMOTE_ACCESS; /* the word may have changed, or not */
		return QP_LOCAL_FAILED;
	}
	local_executed(local, &local->target->atomics, 1, sizeof(uint64_t));
	fault = result_store(qp, wqe, result, original);
	/*
	 * result_find() has approved the local keys, so the only possible failure is an absent page
	 */
	*ret_fault = fault ? FAULT_LOCAL_PAGE : FAULT_NONE;
	return fault ? QP_LOCAL_FAILED : QP_LOCAL_DONE;
}

/* --- ATOMIC WRITE and FLUSH (IBTA annex A19) --- */

static bool value_get(
	const struct local_initiator *local, const struct send_wqe *wqe, uint64_t *ret_value)
{
	const struct qp *qp = local->qp;

	if (wqe->total_bytes != sizeof(*ret_value))
		return false;
	if (wqe->flags & SEND_INLINE) {
		memcpy(ret_value, wqe->inline_bytes, sizeof(*ret_value));
		return true;
	}
	return !sge_gather(qp->lane->mrs, qp->pd, wqe->sge, wqe->sge_count, 0, sizeof(*ret_value),
		(uint8_t *)ret_value);
}

enum qp_local_result local_store_word(struct local_initiator *local, const struct send_wqe *wqe)
{
	uint32_t granted = atomic_load_explicit(&local->target->access, memory_order_relaxed);
	struct mr_word word = {.operation = MR_WORD_STORE};
	uint8_t *at;
	bool is_done;

	if (!(granted & MR_REMOTE_WRITE) || wqe->remote_address % sizeof(uint64_t) ||
		!value_get(local, wqe, &word.value) || !local_use(local, wqe->rkey))
		return QP_LOCAL_PACKETS;
	is_done = word_find(local, wqe, MR_REMOTE_WRITE, &at);
	if (is_done)
		mr_word_apply(&word, at);
	is_done = is_done && local_mark_holds(local);
	local_end(local);
	if (!is_done)
		return QP_LOCAL_PACKETS;
	local_executed(local, &local->target->atomic_writes, 1, sizeof(uint64_t));
	return QP_LOCAL_DONE;
}

/*
 * This FLUSH has nothing to write back: earlier requests are complete, and the caches of all CPUs
 * are coherent.
 */
enum qp_local_result local_flush(struct local_initiator *local, const struct send_wqe *wqe)
{
	uint32_t granted = atomic_load_explicit(&local->target->access, memory_order_relaxed);
	const struct mr_table *mrs = &local->peer->mrs;
	const struct mr_user user = {local->target_pd, local->target->qpn};
	enum mr_fault fault;
	uint8_t *pointer;

	if (!(granted & MR_FLUSH_GLOBAL) || wqe->flush.placement != FETH_PLACEMENT_GLOBAL)
		return QP_LOCAL_PACKETS;
	if (wqe->flush.selectivity == FETH_SELECT_REGION)
		fault = mr_resolve_whole(mrs, wqe->rkey, user, MR_FLUSH_GLOBAL);
	else
		fault = mr_resolve_for(mrs, wqe->rkey, user, MR_FLUSH_GLOBAL, wqe->remote_address,
			wqe->flush.bytes, &pointer);
	if (fault || wqe->flush.selectivity > FETH_SELECT_REGION)
		return QP_LOCAL_PACKETS;
	atomic_thread_fence(memory_order_seq_cst);
	local_executed(local, &local->target->flushes, 1, 0);
	return QP_LOCAL_DONE;
}
