/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended completion queues: a program polls one completion at a time, and reads only the fields
 * that it needs.
 *
 * start_poll takes the first completion and leaves the cursor locked, next_poll takes another one,
 * end_poll unlocks the cursor. A second thread that starts to poll meanwhile waits, as on adapters.
 * If it got ENOENT instead, it might sleep although the first thread leaves completions in the
 * queue. A queue that is single-threaded, by its flag or its thread domain, takes no lock.
 * ibv_poll_cq() on the same queue takes the next completion without the lock.
 *
 * Only start_poll drives the NIC; next_poll only reads memory.
 */
#include <time.h>

#include "front/verbs/cq.h"
#include "front/verbs/result.h"
#include "os/clock.h"

static struct cq_front *front_of(struct ibv_cq_ex *cq)
{
	return container_of(cq, struct cq_front, extended);
}

static const struct cqe *current_cqe(struct ibv_cq_ex *cq)
{
	return &front_of(cq)->cursor.cqe;
}

static uint64_t wallclock_offset_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - clock_now_ns();
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
		return EINVAL;
	if (cursor->is_locking)
		pthread_mutex_lock(&cursor->lock);
	if (!nic_cq_poll(front->nic, 1, &cursor->cqe)) {
		end_poll(cq);
		return ENOENT;
	}
	if (cursor->has_wallclock)
		cursor->wallclock_offset_ns = wallclock_offset_ns();
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

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	return (enum ibv_wc_opcode)current_cqe(cq)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
	return current_cqe(cq)->fault;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	return current_cqe(cq)->byte_count;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
	return cqe_imm_data(current_cqe(cq));
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	return current_cqe(cq)->qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
	return current_cqe(cq)->source_qpn;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
	return current_cqe(cq)->flags;
}

static uint32_t read_slid(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
	return cqe_service_level(current_cqe(cq));
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *cq)
{
	return current_cqe(cq)->flags & WC_GRH ? 0 : current_cqe(cq)->flow_tag;
}

static void read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *info)
{
	const struct cqe *cqe = current_cqe(cq);

	*info = (struct ibv_wc_tm_info){0};
	if (cqe->flags & WC_TM_MATCH) {
		info->tag = cqe_tag(cqe);
		info->priv = cqe->tag_context;
	}
}

static uint64_t read_completion_ts(struct ibv_cq_ex *cq)
{
	return current_cqe(cq)->made_ns;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	return current_cqe(cq)->made_ns + front_of(cq)->cursor.wallclock_offset_ns;
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

/* Set the functions of all supported fields, whether or not the program requested the fields. */
static void functions_set(struct ibv_cq_ex *cq)
{
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_opcode = read_opcode;
	cq->read_vendor_err = read_vendor_err;
	cq->read_byte_len = read_byte_len;
	cq->read_imm_data = read_imm_data;
	cq->read_qp_num = read_qp_num;
	cq->read_src_qp = read_src_qp;
	cq->read_wc_flags = read_wc_flags;
	cq->read_slid = read_slid;
	cq->read_sl = read_sl;
	cq->read_dlid_path_bits = read_dlid_path_bits;
	cq->read_flow_tag = read_flow_tag;
	cq->read_tm_info = read_tm_info;
	cq->read_completion_ts = read_completion_ts;
	cq->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

struct ibv_cq_ex *cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *init)
{
	uint32_t flags = init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? init->flags : 0;
	struct cq_front *cq;

	if (init->comp_mask & ~(uint32_t)COMP_MASK_KNOWN)
		return result_null(EINVAL);
	if (init->wc_flags & ~(uint64_t)WC_FLAGS_SUPPORTED ||
		flags & ~(uint32_t)CREATE_FLAGS_SUPPORTED)
		return result_null(EOPNOTSUPP);
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
 * Return all of the raw clock in tv_nsec, as nanoseconds, and 0 in tv_sec, because programs made
 * for adapters read tv_nsec alone.
 */
int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint32_t requested = values->comp_mask;

	(void)context;
	values->comp_mask = requested & IBV_VALUES_MASK_RAW_CLOCK;
	if (values->comp_mask)
		values->raw_clock = (struct timespec){.tv_nsec = (long)clock_now_ns()};
	return 0;
}
