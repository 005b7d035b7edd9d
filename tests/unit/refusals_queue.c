/* SPDX-License-Identifier: BSD-2-Clause */
/* Refused calls about completion queues, receive queues, XRC domains and completion counters. */
#include "refusals.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "queue/completion_counter.h"

/* --- completion queues --- */

static int made_ibv_create_cq(void)
{
	struct ibv_cq *cq = ibv_create_cq(refusals.context, 4, NULL, NULL, 0);

	return cq ? ibv_destroy_cq(cq) : errno;
}

WITHOUT_MEMORY(ibv_create_cq)
AT_LIMIT(ibv_create_cq, max_cq)

PROVOKE(ibv_create_cq, CQ_SIZE)
{
	return refusal_of(ibv_create_cq(refusals.context, 0, NULL, NULL, 0));
}

PROVOKE(ibv_create_cq, CQ_VECTOR)
{
	return refusal_of(ibv_create_cq(refusals.context, 4, NULL, NULL, 9999));
}

static int create_cq_ex(struct ibv_cq_init_attr_ex init)
{
	init.cqe = 4;
	return refusal_of(ibv_create_cq_ex(refusals.context, &init));
}

PROVOKE(ibv_create_cq, CQ_PARENT)
{
	struct ibv_pd gone = {.context = refusals.context, .handle = 0x77777};

	return create_cq_ex((struct ibv_cq_init_attr_ex){
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = &gone});
}

PROVOKE(ibv_create_cq_ex, UNKNOWN_BITS)
{
	return create_cq_ex((struct ibv_cq_init_attr_ex){.comp_mask = 1u << 31});
}

PROVOKE(ibv_create_cq_ex, UNSUPPORTED_BITS)
{
	return create_cq_ex((struct ibv_cq_init_attr_ex){.wc_flags = 1ull << 40});
}

PROVOKE(ibv_start_poll, UNKNOWN_BITS)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 4};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(refusals.context, &init);
	struct ibv_poll_cq_attr attr = {.comp_mask = 1};
	int error = ibv_start_poll(cq, &attr);

	return ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) ? 0 : error;
}

NEVER_MADE(ibv_destroy_cq, struct ibv_cq, ibv_destroy_cq(&gone))
NEVER_MADE(ibv_resize_cq, struct ibv_cq, ibv_resize_cq(&gone, 4))

PROVOKE(ibv_destroy_cq, IN_USE)
{
	return ibv_destroy_cq(refusals.cq);
}

PROVOKE(ibv_resize_cq, CQ_SIZE)
{
	return ibv_resize_cq(refusals.cq, 0);
}

PROVOKE(ibv_resize_cq, CQ_FULLER)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_cq *cq = ibv_create_cq(refusals.context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = {4, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(refusals.pd, &init);
	int error;

	refusal_qp_fail(qp);
	for (int i = 0; i < 4; i++)
		if (ibv_post_send(qp, &wr, &bad))
			return 0;
	error = ibv_resize_cq(cq, 1);
	return ibv_destroy_qp(qp) || ibv_destroy_cq(cq) ? 0 : error;
}

static int moderate(struct ibv_cq *cq, uint32_t mask)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = mask};

	return ibv_modify_cq(cq, &attr);
}

NEVER_MADE(ibv_modify_cq, struct ibv_cq, moderate(&gone, IBV_CQ_ATTR_MODERATE))

PROVOKE(ibv_modify_cq, UNKNOWN_BITS)
{
	return moderate(refusals.cq, 1u << 31);
}

static int made_ibv_create_comp_channel(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(refusals.context);

	return channel ? ibv_destroy_comp_channel(channel) : errno;
}

WITHOUT_MEMORY(ibv_create_comp_channel)

PROVOKE(ibv_destroy_comp_channel, IN_USE)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(refusals.context);
	struct ibv_cq *cq = ibv_create_cq(refusals.context, 4, NULL, channel, 0);
	int error = ibv_destroy_comp_channel(channel);

	return ibv_destroy_cq(cq) || ibv_destroy_comp_channel(channel) ? 0 : error;
}

/* --- shared receive queues --- */

static struct ibv_srq_init_attr_ex srq_init(void)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = refusals.pd,
	};
}

static int create_srq(struct ibv_context *context, struct ibv_srq_init_attr_ex init)
{
	struct ibv_srq *srq = ibv_create_srq_ex(context, &init);

	return srq ? ibv_destroy_srq(srq) : errno;
}

static int made_ibv_create_srq(void)
{
	return create_srq(refusals.context, srq_init());
}

WITHOUT_MEMORY(ibv_create_srq)
AT_LIMIT(ibv_create_srq, max_srq)

#define SRQ_REFUSED(reason, ...)                                 \
	PROVOKE(ibv_create_srq, reason)                          \
	{                                                        \
		struct ibv_srq_init_attr_ex init = srq_init();   \
                                                                 \
		__VA_ARGS__;                                     \
		return create_srq(refusals.context, init);       \
	}

static struct ibv_pd gone_pd;

SRQ_REFUSED(UNKNOWN_BITS, init.comp_mask |= 1u << 31)
SRQ_REFUSED(SRQ_TYPE, init.srq_type = 99; init.comp_mask |= IBV_SRQ_INIT_ATTR_CQ)
SRQ_REFUSED(ATTR_MISSING, init.comp_mask = IBV_SRQ_INIT_ATTR_CQ)
SRQ_REFUSED(SRQ_XRC, init.srq_type = IBV_SRQT_XRC; init.comp_mask |= IBV_SRQ_INIT_ATTR_CQ)
SRQ_REFUSED(SRQ_TAGS, init.srq_type = IBV_SRQT_TM; init.comp_mask |= IBV_SRQ_INIT_ATTR_CQ)
SRQ_REFUSED(SRQ_SIZE, init.attr.max_wr = 0)
SRQ_REFUSED(NO_PARENT, gone_pd = (struct ibv_pd){.context = refusals.context, .handle = 0x77777};
	init.pd = &gone_pd)

static struct ibv_srq_init_attr_ex xrc_init(void)
{
	struct ibv_srq_init_attr_ex init = srq_init();

	init.srq_type = IBV_SRQT_XRC;
	init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	init.xrcd = refusals.xrcd;
	init.cq = refusals.cq;
	return init;
}

PROVOKE(ibv_create_srq, FORKED)
{
	return create_srq(refusals.context, xrc_init());
}

PROVOKE(ibv_create_srq, NOT_ON_IWARP)
{
	return create_srq(refusals.iwarp, xrc_init());
}

static int modify_srq(struct ibv_srq *srq, int mask, struct ibv_srq_attr attr)
{
	return ibv_modify_srq(srq, &attr, mask);
}

NEVER_MADE(ibv_destroy_srq, struct ibv_srq, ibv_destroy_srq(&gone))
NEVER_MADE(ibv_modify_srq, struct ibv_srq, modify_srq(&gone, 0, (struct ibv_srq_attr){0}))

PROVOKE(ibv_destroy_srq, IN_USE)
{
	return ibv_destroy_srq(refusals.srq);
}

PROVOKE(ibv_modify_srq, UNKNOWN_BITS)
{
	return modify_srq(refusals.srq, 1 << 30, (struct ibv_srq_attr){0});
}

PROVOKE(ibv_modify_srq, SRQ_SIZE)
{
	return modify_srq(refusals.srq, IBV_SRQ_MAX_WR, (struct ibv_srq_attr){.max_wr = 0});
}

PROVOKE(ibv_modify_srq, SRQ_CHANGE)
{
	return modify_srq(
		refusals.srq, IBV_SRQ_LIMIT, (struct ibv_srq_attr){.srq_limit = 30000});
}

static int query_gone_srq(struct ibv_srq *srq)
{
	struct ibv_srq_attr attr;

	return ibv_query_srq(srq, &attr);
}

NEVER_MADE(ibv_query_srq, struct ibv_srq, query_gone_srq(&gone))

static int number_of(struct ibv_srq *srq)
{
	uint32_t number;

	return ibv_get_srq_num(srq, &number);
}

NEVER_MADE(ibv_get_srq_num, struct ibv_srq, number_of(&gone))

/* --- work queues --- */

static int create_wq(struct ibv_wq_init_attr init)
{
	struct ibv_wq *wq = ibv_create_wq(refusals.context, &init);

	return wq ? ibv_destroy_wq(wq) : errno;
}

static struct ibv_wq_init_attr wq_init(void)
{
	return (struct ibv_wq_init_attr){
		.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = refusals.pd, .cq = refusals.cq};
}

static int made_ibv_create_wq(void)
{
	return create_wq(wq_init());
}

WITHOUT_MEMORY(ibv_create_wq)

#define WQ_REFUSED(reason, ...)                              \
	PROVOKE(ibv_create_wq, reason)                       \
	{                                                    \
		struct ibv_wq_init_attr init = wq_init();    \
                                                             \
		__VA_ARGS__;                                 \
		return create_wq(init);                      \
	}

WQ_REFUSED(UNKNOWN_BITS, init.comp_mask = 1u << 31)
WQ_REFUSED(UNSUPPORTED_BITS, init.comp_mask = IBV_WQ_INIT_ATTR_FLAGS; init.create_flags = 1)
WQ_REFUSED(WQ_SHAPE, init.max_wr = 0)
WQ_REFUSED(NO_PARENT, gone_pd = (struct ibv_pd){.context = refusals.context, .handle = 0x77777};
	init.pd = &gone_pd)
WQ_REFUSED(FORKED, (void)0)

/* Calls `refused` with a work queue in RESET. */
static int with_wq(int (*refused)(struct ibv_wq *wq))
{
	struct ibv_wq_init_attr init = wq_init();
	struct ibv_wq *wq = ibv_create_wq(refusals.context, &init);
	int error = wq ? refused(wq) : 0;

	return ibv_destroy_wq(wq) ? 0 : error;
}

static int modify_wq(struct ibv_wq *wq, struct ibv_wq_attr attr)
{
	return ibv_modify_wq(wq, &attr);
}

static int wq_unknown(struct ibv_wq *wq)
{
	return modify_wq(wq, (struct ibv_wq_attr){.attr_mask = 1u << 31});
}

static int wq_flags(struct ibv_wq *wq)
{
	return modify_wq(
		wq, (struct ibv_wq_attr){.attr_mask = IBV_WQ_ATTR_FLAGS, .flags_mask = 1});
}

static int wq_to_error(struct ibv_wq *wq)
{
	return modify_wq(wq,
		(struct ibv_wq_attr){.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_ERR});
}

static int wq_post(struct ibv_wq *wq, int num_sge)
{
	struct ibv_sge entries[8] = {{0}};
	struct ibv_recv_wr *bad, wr = {.sg_list = entries, .num_sge = num_sge};

	return ibv_post_wq_recv(wq, &wr, &bad);
}

static int wq_post_early(struct ibv_wq *wq)
{
	return wq_post(wq, 1);
}

static int wq_post_much(struct ibv_wq *wq)
{
	const struct ibv_wq_attr ready = {
		.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};

	return modify_wq(wq, ready) ? 0 : wq_post(wq, 8);
}

PROVOKE(ibv_modify_wq, UNKNOWN_BITS)
{
	return with_wq(wq_unknown);
}

PROVOKE(ibv_modify_wq, UNSUPPORTED_BITS)
{
	return with_wq(wq_flags);
}

PROVOKE(ibv_modify_wq, WQ_STATE)
{
	return with_wq(wq_to_error);
}

PROVOKE(ibv_post_wq_recv, POST_WQ_STATE)
{
	return with_wq(wq_post_early);
}

PROVOKE(ibv_post_wq_recv, POST_ENTRIES)
{
	return with_wq(wq_post_much);
}

NEVER_MADE(ibv_modify_wq, struct ibv_wq, modify_wq(&gone, (struct ibv_wq_attr){0}))
NEVER_MADE(ibv_destroy_wq, struct ibv_wq, ibv_destroy_wq(&gone))

static struct ibv_rwq_ind_table *table_make(struct ibv_wq *wq, uint32_t log, uint32_t comp_mask)
{
	struct ibv_wq *list[1] = {wq};
	struct ibv_rwq_ind_table_init_attr init = {
		.log_ind_tbl_size = log, .ind_tbl = list, .comp_mask = comp_mask};

	return ibv_create_rwq_ind_table(refusals.context, &init);
}

PROVOKE(ibv_create_rwq_ind_table, UNKNOWN_BITS)
{
	return refusal_of(table_make(NULL, 0, 1u << 31));
}

PROVOKE(ibv_create_rwq_ind_table, WQ_TABLE_SHAPE)
{
	return refusal_of(table_make(NULL, 0, 0));
}

PROVOKE(ibv_create_rwq_ind_table, NO_PARENT)
{
	struct ibv_wq gone = {.context = refusals.context, .handle = 0x77777};

	return refusal_of(table_make(&gone, 0, 0));
}

static struct ibv_wq *table_wq;

static int made_ibv_create_rwq_ind_table(void)
{
	struct ibv_rwq_ind_table *table = table_make(table_wq, 0, 0);

	return table ? ibv_destroy_rwq_ind_table(table) : errno;
}

static int table_without_memory(struct ibv_wq *wq)
{
	table_wq = wq;
	return refusal_without_memory(made_ibv_create_rwq_ind_table);
}

PROVOKE(ibv_create_rwq_ind_table, NO_MEMORY)
{
	return with_wq(table_without_memory);
}

static int wq_in_table(struct ibv_wq *wq)
{
	struct ibv_rwq_ind_table *table = table_make(wq, 0, 0);
	int error = ibv_destroy_wq(wq);

	return ibv_destroy_rwq_ind_table(table) ? 0 : error;
}

PROVOKE(ibv_destroy_wq, IN_USE)
{
	return with_wq(wq_in_table);
}

PROVOKE(ibv_destroy_rwq_ind_table, NO_OBJECT)
{
	struct ibv_rwq_ind_table gone = {
		.context = refusals.context, .ind_tbl_handle = 0x77777};

	return ibv_destroy_rwq_ind_table(&gone);
}

static int table_in_use(struct ibv_wq *wq)
{
	static uint8_t key[40];
	struct ibv_rwq_ind_table *table = table_make(wq, 0, 0);
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH |
			IBV_QP_INIT_ATTR_IND_TABLE,
		.pd = refusals.pd,
		.rwq_ind_tbl = table,
		.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, 40, key, 0},
	};
	struct ibv_qp *qp = ibv_create_qp_ex(refusals.context, &init);
	int error = ibv_destroy_rwq_ind_table(table);

	return !qp || ibv_destroy_qp(qp) || ibv_destroy_rwq_ind_table(table) ? 0 : error;
}

PROVOKE(ibv_destroy_rwq_ind_table, IN_USE)
{
	return with_wq(table_in_use);
}

/* --- XRC domains --- */

static int xrcd_fd = -1;

static int open_xrcd(uint32_t comp_mask, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = comp_mask, .fd = fd, .oflags = oflags};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(refusals.context, &attr);

	return xrcd ? ibv_close_xrcd(xrcd) : errno;
}

enum { XRCD = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS };

static int made_ibv_open_xrcd(void)
{
	return open_xrcd(XRCD, -1, O_CREAT);
}

WITHOUT_MEMORY(ibv_open_xrcd)

PROVOKE(ibv_open_xrcd, UNSUPPORTED_BITS)
{
	return open_xrcd(1u << 31, -1, 0);
}

PROVOKE(ibv_open_xrcd, ATTR_MISSING)
{
	return open_xrcd(0, -1, 0);
}

PROVOKE(ibv_open_xrcd, XRCD_FILE)
{
	return open_xrcd(XRCD, 9999, O_CREAT);
}

static int with_file(int (*refused)(void))
{
	int error;

	xrcd_fd = memfd_create("refusals", MFD_CLOEXEC);
	error = refused();
	close(xrcd_fd);
	return error;
}

static int xrcd_absent(void)
{
	return open_xrcd(XRCD, xrcd_fd, 0);
}

static int xrcd_exclusive(void)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = XRCD, .fd = xrcd_fd, .oflags = O_CREAT};
	struct ibv_xrcd *first = ibv_open_xrcd(refusals.context, &attr);
	int error = open_xrcd(XRCD, xrcd_fd, O_CREAT | O_EXCL);

	return ibv_close_xrcd(first) ? 0 : error;
}

PROVOKE(ibv_open_xrcd, XRCD_ABSENT)
{
	return with_file(xrcd_absent);
}

PROVOKE(ibv_open_xrcd, XRCD_EXCLUSIVE)
{
	return with_file(xrcd_exclusive);
}

PROVOKE(ibv_close_xrcd, NO_OBJECT)
{
	struct ibv_xrcd gone = {.context = refusals.context};

	return ibv_close_xrcd(&gone);
}

PROVOKE(ibv_close_xrcd, IN_USE)
{
	struct ibv_srq_init_attr_ex init = xrc_init();
	struct ibv_srq *srq = ibv_create_srq_ex(refusals.context, &init);
	int error = ibv_close_xrcd(refusals.xrcd);

	return ibv_destroy_srq(srq) ? 0 : error;
}

/* --- completion counters --- */

static struct comp_counter *counter_make(uint32_t type, uint32_t comp_mask)
{
	return comp_counter_create(refusals.context,
		&(struct comp_counter_attr){.type = type, .comp_mask = comp_mask});
}

static int made_ibv_create_comp_cntr(void)
{
	struct comp_counter *counter = counter_make(COMP_COUNTER_REQUESTS, 0);

	return counter ? comp_counter_destroy(counter) : errno;
}

WITHOUT_MEMORY(ibv_create_comp_cntr)

PROVOKE(ibv_create_comp_cntr, UNKNOWN_BITS)
{
	return refusal_of(counter_make(COMP_COUNTER_REQUESTS, 1));
}

PROVOKE(ibv_create_comp_cntr, COUNTER_LACKING)
{
	return refusal_of(counter_make(99, 0));
}

static int attach_counter(struct ibv_qp *qp, uint32_t operations, uint32_t comp_mask)
{
	struct comp_counter *counter = counter_make(COMP_COUNTER_REQUESTS, 0);
	int error = comp_counter_attach(qp, counter,
		&(struct comp_counter_attach_attr){
			.operations = operations, .comp_mask = comp_mask});

	return comp_counter_destroy(counter) ? 0 : error;
}

PROVOKE(ibv_qp_attach_comp_cntr, UNKNOWN_BITS)
{
	return attach_counter(refusals.qp, COUNTED_SEND, 1);
}

PROVOKE(ibv_qp_attach_comp_cntr, COUNTER_OPERATIONS)
{
	return attach_counter(refusals.ready, COUNTED_SEND, 0);
}

PROVOKE(ibv_qp_attach_comp_cntr, COUNTER_LACKING)
{
	return attach_counter(refusals.qp, 1u << 31, 0);
}

PROVOKE(ibv_qp_attach_comp_cntr, NO_PARENT)
{
	struct ibv_qp gone = {.context = refusals.context, .handle = 0x77777};

	return attach_counter(&gone, COUNTED_SEND, 0);
}

/* Calls `refused` with a counter that a queue pair of its own has. */
static int with_counted(int (*refused)(struct comp_counter *counter, struct ibv_qp *qp))
{
	struct comp_counter *counter = counter_make(COMP_COUNTER_REQUESTS, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = refusals.cq, .recv_cq = refusals.cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(refusals.pd, &init);
	int error = 0;

	if (!comp_counter_attach(
		    qp, counter, &(struct comp_counter_attach_attr){.operations = COUNTED_SEND}))
		error = refused(counter, qp);
	return ibv_destroy_qp(qp) || comp_counter_destroy(counter) ? 0 : error;
}

static int destroy_counted(struct comp_counter *counter, struct ibv_qp *qp)
{
	(void)qp;
	return comp_counter_destroy(counter);
}

static int attach_again(struct comp_counter *counter, struct ibv_qp *qp)
{
	(void)counter;
	return attach_counter(qp, COUNTED_SEND, 0);
}

PROVOKE(ibv_destroy_comp_cntr, IN_USE)
{
	return with_counted(destroy_counted);
}

PROVOKE(ibv_qp_attach_comp_cntr, COUNTER_TAKEN)
{
	return with_counted(attach_again);
}

static int read_gone(struct comp_counter *counter, int (*read)(struct comp_counter *, uint64_t *))
{
	uint64_t value;

	return read(counter, &value);
}

NEVER_MADE(ibv_destroy_comp_cntr, struct comp_counter, comp_counter_destroy(&gone))
NEVER_MADE(ibv_read_comp_cntr, struct comp_counter, read_gone(&gone, comp_counter_read))
NEVER_MADE(ibv_read_err_comp_cntr, struct comp_counter, read_gone(&gone, comp_counter_read_errors))
NEVER_MADE(ibv_set_comp_cntr, struct comp_counter, comp_counter_set(&gone, 1))
NEVER_MADE(ibv_set_err_comp_cntr, struct comp_counter, comp_counter_set_errors(&gone, 1))
NEVER_MADE(ibv_inc_comp_cntr, struct comp_counter, comp_counter_add(&gone, 1))
NEVER_MADE(ibv_inc_err_comp_cntr, struct comp_counter, comp_counter_add_errors(&gone, 1))
