/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended completion queues: a program polls one completion at a time, and reads only the fields
 * that it needs.
 *
 * start_poll takes the first completion and leaves the cursor locked, next_poll takes another one,
 * end_poll unlocks the cursor. If a second thread calls start_poll meanwhile, it waits, as on
 * adapters. If start_poll returned ENOENT instead, that thread might sleep although the first
 * thread leaves completions in the queue. A queue that is single-threaded, by its flag or its
 * thread domain, takes no lock. ibv_poll_cq() on the same queue takes the next completion without
 * the lock.
 *
 * Only start_poll drives the NIC; next_poll only reads memory.
 */
#include <time.h>

#include "front/verbs/cq.h"
#include "front/verbs/result.h"
#include "front/verbs/strict.h"
#include "os/clock.h"

static struct cq_front *front_of(struct ibv_cq_ex *cq)
{
	return container_of(cq, struct cq_front, extended);
}

static const struct cqe *current_cqe(struct ibv_cq_ex *cq)
{
	return &front_of(cq)->cursor.cqe;
}

static void cqe_show(struct ibv_cq_ex *cq)
{
	const struct cqe *cqe = current_cqe(cq);

	cq->wr_id = cqe->wr_id;
	cq->status = (enum ibv_wc_status)cqe->status;
}

static void end_poll(struct ibv_cq_ex *cq)
{
	struct cq_cursor *cursor = &front_of(cq)->cursor;

	if (cursor->is_locking)
		pthread_mutex_unlock(&cursor->lock);
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	struct cq_front *front = front_of(cq);
	struct cq_cursor *cursor = &front->cursor;

	if (attr->comp_mask)
		return result_of("ibv_start_poll", result_cause(REASON_UNKNOWN_BITS));
	if (cursor->is_locking)
		pthread_mutex_lock(&cursor->lock);
	if (!nic_cq_poll(front->nic, 1, &cursor->cqe)) {
		end_poll(cq);
		return ENOENT;
	}
	if (cursor->has_wallclock)
		cursor->wallclock_offset_ns = clock_epoch_ns();
	cqe_show(cq);
	return 0;
}

static int next_poll(struct ibv_cq_ex *cq)
{
	struct cq_front *front = front_of(cq);

	if (!nic_cq_next(front->nic, &front->cursor.cqe))
		return ENOENT;
	cqe_show(cq);
	return 0;
}

/* --- fields of the current completion --- */

/*
 * The fields that have a function without arguments: READ(type, name, value), where the value is an
 * expression of `cqe` or `cq`.
 */
/* clang-format off */
#define READS(READ)                                                       \
	READ(enum ibv_wc_opcode, opcode, (enum ibv_wc_opcode)cqe->opcode) \
	READ(uint32_t, vendor_err, cqe->fault)                            \
	READ(uint32_t, byte_len, cqe->byte_count)                         \
	READ(__be32, imm_data, cqe_imm_data(cqe))                         \
	READ(uint32_t, qp_num, cqe->qpn)                                  \
	READ(uint32_t, src_qp, cqe->source_qpn)                           \
	READ(unsigned int, wc_flags, cqe->flags & WC_PUBLIC)              \
	READ(uint32_t, slid, cqe_source_lid(cqe))                         \
	READ(uint8_t, sl, cqe_service_level(cqe))                         \
	READ(uint8_t, dlid_path_bits, cqe_path_bits(cqe))                 \
	READ(uint32_t, flow_tag, cqe_datagram_header(cqe) ? 0 : cqe->flow_tag) \
	READ(uint64_t, completion_ts, cqe->made_ns)                       \
	READ(uint64_t, completion_wallclock_ns,                           \
		cqe->made_ns + front_of(cq)->cursor.wallclock_offset_ns)
/* clang-format on */

#define READ_FUNCTION(type, name, ...)                   \
	static type read_##name(struct ibv_cq_ex *cq)    \
	{                                                \
		const struct cqe *cqe = current_cqe(cq); \
                                                         \
		return __VA_ARGS__;                      \
	}
READS(READ_FUNCTION)
#undef READ_FUNCTION

static void read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *info)
{
	const struct cqe *cqe = current_cqe(cq);

	*info = (struct ibv_wc_tm_info){0};
	if (cqe->flags & WC_TM_MATCH) {
		info->tag = cqe_tag(cqe);
		info->priv = cqe->tag_context;
	}
}

/* --- making one --- */

enum {
	WC_FLAGS_SUPPORTED = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_FLOW_TAG |
		IBV_WC_EX_WITH_TM_INFO,
	WC_FLAGS_TIME =
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	COMP_MASK_KNOWN = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD,
	CREATE_FLAGS_SUPPORTED =
		IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
};

/* Set the functions of all supported fields, even of fields that the program has not requested. */
static void functions_set(struct ibv_cq_ex *cq)
{
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_tm_info = read_tm_info;
#define READ_SET(type, name, ...) cq->read_##name = read_##name;
	READS(READ_SET)
#undef READ_SET
}

struct ibv_cq_ex *cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *init)
{
	uint32_t flags = init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? init->flags : 0;
	struct cq_front *cq;

	if (strict_lacks("ibv_create_cq_ex", STRICT_HAS_EXTENDED_CQ))
		return NULL;
	if (init->comp_mask & ~(uint32_t)COMP_MASK_KNOWN)
		return result_null("ibv_create_cq_ex", result_cause(REASON_UNKNOWN_BITS));
	if (init->wc_flags & ~(uint64_t)WC_FLAGS_SUPPORTED ||
		flags & ~(uint32_t)CREATE_FLAGS_SUPPORTED)
		return result_null("ibv_create_cq_ex", result_cause(REASON_UNSUPPORTED_BITS));
	cq = cq_create(context, init);
	if (!cq)
		return NULL;
	cq->cursor.is_locking = !domain_is_single_threaded(&cq->object) &&
		!(flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	cq->cursor.has_wallclock =
		(init->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0;
	if (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
		nic_cq_ignore_overrun(cq->nic);
	if (init->wc_flags & WC_FLAGS_TIME)
		nic_cq_stamp();
	functions_set(&cq->extended);
	return &cq->extended;
}

/*
 * Return the whole value of the raw clock in tv_nsec, in nanoseconds, and 0 in tv_sec. Programs for
 * adapters read only tv_nsec.
 */
int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint32_t requested = values->comp_mask;

	if (!strict_has(STRICT_HAS_CLOCK))
		return result_of("ibv_query_rt_values_ex", strict_refuse_lack(STRICT_HAS_CLOCK));
	(void)context;
	values->comp_mask = requested & IBV_VALUES_MASK_RAW_CLOCK;
	if (values->comp_mask)
		values->raw_clock = (struct timespec){.tv_nsec = (long)clock_now_ns()};
	return 0;
}
