/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that use the extended interfaces: requests built call by call (ibv_wr_*), an extended
 * completion queue with timestamps, a parent domain with an allocator and a thread domain.
 *
 * The client posts COUNT regions of random requests: WRITEs from lists and inline, a READ of all
 * that they wrote, an atomic that counts regions, and a SEND with the region's number as immediate
 * data. It checks each region's data when its last request completes; the server checks every
 * message.
 */
#include <endian.h>
#include <string.h>

#include "peer.h"

enum {
	REGIONS = 3000,
	WRITES_MAX = 6, /* in a region, besides READ, atomic and SEND */
	AREA_BYTES = 16384, /* what the WRITEs of a region fill and its READ reads */
	INLINE_BYTES = 200,
	MESSAGE_BYTES = 512,
	DEPTH = 64,
	SENDS_MAX = 32, /* ahead of the server's receive requests */
	OPS = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
		IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_IMM,
};

struct extended {
	struct peer *peer;
	struct ibv_td *td;
	struct ibv_pd *domain;
	struct ibv_cq_ex *cq;
	struct ibv_qp *base;
	struct ibv_qp_ex *qp;
	struct ibv_mr *memory;
	struct peer_buffer far;
	uint64_t random;
	uint64_t last_ts;
	uint32_t allocs;
	uint32_t frees;
};

/* The layout of either side's memory. */
enum { AREA = 0, BACK = AREA_BYTES, COUNTER = 2 * AREA_BYTES, MESSAGES = COUNTER + 64 };

/* --- making ------------------------------------------------------------------------------- */

static void *allocate(
	struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t resource_type)
{
	struct extended *extended = context;
	void *memory = aligned_alloc(alignment, size);

	(void)resource_type;
	CHECK(pd == extended->domain || !extended->domain, "another domain");
	CHECK(memory, "no memory");
	extended->allocs++;
	return memset(memory, 0, size);
}

static void give_back(struct ibv_pd *pd, void *context, void *memory, uint64_t resource_type)
{
	struct extended *extended = context;

	(void)pd;
	(void)resource_type;
	extended->frees++;
	free(memory);
}

static void make(struct extended *extended)
{
	struct ibv_context *context = extended->peer->context;
	struct ibv_td_init_attr td_init = {.comp_mask = 0};
	struct ibv_parent_domain_init_attr domain_init = {
		.pd = extended->peer->pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = allocate,
		.free = give_back,
		.pd_context = extended,
	};
	struct ibv_cq_init_attr_ex cq_init = {
		.cqe = 2 * DEPTH,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
	};
	struct ibv_qp_init_attr_ex qp_init = {
		.cap = {DEPTH, DEPTH, 2, 1, INLINE_BYTES},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = OPS,
	};

	CHECK(extended->td = ibv_alloc_td(context, &td_init), "no thread domain");
	domain_init.td = extended->td;
	CHECK(extended->domain = ibv_alloc_parent_domain(context, &domain_init), "no domain");
	cq_init.parent_domain = extended->domain;
	CHECK(extended->cq = ibv_create_cq_ex(context, &cq_init), "no completion queue");
	qp_init.pd = extended->domain;
	qp_init.send_cq = ibv_cq_ex_to_cq(extended->cq);
	qp_init.recv_cq = qp_init.send_cq;
	CHECK(extended->base = ibv_create_qp_ex(context, &qp_init), "no queue pair");
	CHECK(extended->qp = ibv_qp_to_qp_ex(extended->base), "not extended");
	CHECK(extended->allocs == 2, "%u allocations", extended->allocs);
}

static void unmake(struct extended *extended)
{
	CHECK(!ibv_destroy_qp(extended->base) && !ibv_destroy_cq(ibv_cq_ex_to_cq(extended->cq)) &&
			!ibv_dealloc_pd(extended->domain) && !ibv_dealloc_td(extended->td),
		"objects stay");
	CHECK(extended->frees == 2, "%u given back", extended->frees);
}

/* --- polling ------------------------------------------------------------------------------ */

static void check_time(struct extended *extended)
{
	uint64_t ts = ibv_wc_read_completion_ts(extended->cq);
	struct ibv_values_ex now = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	CHECK(!ibv_query_rt_values_ex(extended->peer->context, &now), "no clock");
	CHECK(ts >= extended->last_ts, "time runs backwards");
	CHECK(ts <= (uint64_t)now.raw_clock.tv_nsec, "a completion of the future");
	CHECK(ibv_wc_read_completion_wallclock_ns(extended->cq) > ts, "no time of day");
	extended->last_ts = ts;
}

/* Begin a batch; the first completion is there. */
static void poll_start(struct extended *extended)
{
	uint64_t until_ms = peer_now_ms() + PEER_TIMEOUT_S * 1000;
	struct ibv_poll_cq_attr attr = {.comp_mask = 0};

	while (ibv_start_poll(extended->cq, &attr))
		CHECK(peer_now_ms() < until_ms, "no completion");
}

static void check_success(struct extended *extended)
{
	CHECK(extended->cq->status == IBV_WC_SUCCESS, "%s, vendor error %u",
		ibv_wc_status_str(extended->cq->status), ibv_wc_read_vendor_err(extended->cq));
	CHECK(ibv_wc_read_qp_num(extended->cq) == extended->base->qp_num, "another queue pair");
	check_time(extended);
}

/* --- client ------------------------------------------------------------------------------- */

static uint32_t below(struct extended *extended, uint32_t bound)
{
	return (uint32_t)(peer_random(&extended->random) % bound);
}

static void set_data(struct extended *extended, uint32_t offset, uint32_t bytes)
{
	struct ibv_mr *memory = extended->memory;
	uint8_t *from = (uint8_t *)memory->addr + offset;
	uint32_t first = below(extended, bytes + 1);
	struct ibv_sge parts[] = {
		peer_sge(memory, offset, first),
		peer_sge(memory, offset + first, bytes - first),
	};
	struct ibv_data_buf buffers[] = {{from, first}, {from + first, bytes - first}};
	bool may_be_inline = bytes <= INLINE_BYTES;

	switch (below(extended, may_be_inline ? 4 : 2)) {
	case 0:
		ibv_wr_set_sge(extended->qp, memory->lkey, (uintptr_t)from, bytes);
		break;
	case 1:
		ibv_wr_set_sge_list(extended->qp, 2, parts);
		break;
	case 2:
		ibv_wr_set_inline_data(extended->qp, from, bytes);
		break;
	default:
		ibv_wr_set_inline_data_list(extended->qp, 2, buffers);
	}
}

/* WRITE all of the area, in pieces. */
static void build_writes(struct extended *extended)
{
	uint32_t pieces = 1 + below(extended, WRITES_MAX);
	uint32_t offset = 0;

	for (uint32_t i = 0; i < pieces; i++) {
		uint32_t left = AREA_BYTES - offset;
		uint32_t bytes = i + 1 == pieces ? left
			: below(extended, 2)     ? below(extended, INLINE_BYTES + 1)
						 : below(extended, left + 1);

		if (bytes > left)
			bytes = left;
		ibv_wr_rdma_write(
			extended->qp, extended->far.rkey, extended->far.address + AREA + offset);
		set_data(extended, AREA + offset, bytes);
		offset += bytes;
	}
}

/* A region that is given up: nothing of it may be seen. */
static void build_in_vain(struct extended *extended)
{
	ibv_wr_start(extended->qp);
	ibv_wr_rdma_write(extended->qp, extended->far.rkey, extended->far.address + COUNTER);
	set_data(extended, 0, 8);
	if (below(extended, 2)) {
		ibv_wr_abort(extended->qp);
		return;
	}
	ibv_wr_rdma_write(extended->qp, extended->far.rkey, extended->far.address + COUNTER);
	ibv_wr_set_inline_data(extended->qp, extended->memory->addr, INLINE_BYTES + 1);
	CHECK(ibv_wr_complete(extended->qp), "too much inline data is taken");
}

static void post_region(struct extended *extended, uint32_t number)
{
	struct ibv_qp_ex *qp = extended->qp;
	struct ibv_mr *memory = extended->memory;
	uint8_t *near = memory->addr;

	peer_pattern_fill(near + AREA, AREA_BYTES, number);
	if (below(extended, 4) == 0)
		build_in_vain(extended);
	ibv_wr_start(qp);
	qp->wr_flags = 0;
	build_writes(extended);
	ibv_wr_rdma_read(qp, extended->far.rkey, extended->far.address + AREA);
	ibv_wr_set_sge(qp, memory->lkey, (uintptr_t)near + BACK, AREA_BYTES);
	ibv_wr_send_imm(qp, htobe32(number));
	set_data(extended, AREA, 1 + number % MESSAGE_BYTES);
	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = number;
	ibv_wr_atomic_fetch_add(qp, extended->far.rkey, extended->far.address + COUNTER, 1);
	ibv_wr_set_sge(qp, memory->lkey, (uintptr_t)near + COUNTER, 8);
	CHECK(!ibv_wr_complete(qp), "region %u is refused", number);
}

static void check_region(struct extended *extended, uint32_t number)
{
	uint8_t *near = extended->memory->addr;
	uint64_t counted;

	poll_start(extended);
	check_success(extended);
	CHECK(extended->cq->wr_id == number, "completion of another region");
	CHECK(ibv_wc_read_opcode(extended->cq) == IBV_WC_FETCH_ADD, "of another request");
	CHECK(ibv_next_poll(extended->cq), "one more completion");
	ibv_end_poll(extended->cq);
	peer_pattern_check(near + BACK, AREA_BYTES, number, "what was written and read back");
	memcpy(&counted, near + COUNTER, sizeof(counted));
	CHECK(counted == number, "%llu regions are counted, not %u", (unsigned long long)counted,
		number);
}

static void client(struct extended *extended, uint32_t regions)
{
	for (uint32_t number = 0; number < regions; number++) {
		post_region(extended, number);
		check_region(extended, number);
	}
}

/* --- server ------------------------------------------------------------------------------- */

static void receive_post(struct extended *extended, uint64_t place)
{
	peer_post_recv(extended->base, place, extended->memory,
		MESSAGES + (size_t)place * MESSAGE_BYTES, MESSAGE_BYTES);
}

static void check_message(struct extended *extended, uint32_t number)
{
	struct ibv_cq_ex *cq = extended->cq;
	const uint8_t *message =
		(uint8_t *)extended->memory->addr + MESSAGES + cq->wr_id * MESSAGE_BYTES;

	check_success(extended);
	CHECK(ibv_wc_read_opcode(cq) == IBV_WC_RECV, "opcode %d", ibv_wc_read_opcode(cq));
	CHECK(ibv_wc_read_wc_flags(cq) == IBV_WC_WITH_IMM, "flags %u", ibv_wc_read_wc_flags(cq));
	CHECK(ibv_wc_read_imm_data(cq) == htobe32(number), "message %u instead of %u",
		be32toh(ibv_wc_read_imm_data(cq)), number);
	CHECK(ibv_wc_read_byte_len(cq) == 1 + number % MESSAGE_BYTES, "%u bytes",
		ibv_wc_read_byte_len(cq));
	peer_pattern_check(message, ibv_wc_read_byte_len(cq), number, "a message");
	receive_post(extended, cq->wr_id);
}

static void server(struct extended *extended, uint32_t regions)
{
	for (uint32_t number = 0; number < regions;) {
		poll_start(extended);
		do
			check_message(extended, number++);
		while (!ibv_next_poll(extended->cq));
		ibv_end_poll(extended->cq);
	}
}

int main(int argc, char **argv)
{
	struct extended extended = {.random = 4711};
	struct peer_options options;
	struct peer_buffer near;
	struct peer peer;
	uint32_t regions;

	peer_parse(&options, argc, argv);
	regions = options.count ? options.count : REGIONS;
	peer_open(&peer, &options);
	peer_meet(&peer);
	extended.peer = &peer;
	make(&extended);
	extended.memory = peer_memory(&peer, MESSAGES + (size_t)SENDS_MAX * MESSAGE_BYTES);
	memset(extended.memory->addr, 0, MESSAGES);
	near = peer_buffer_of(extended.memory);
	peer_exchange(&peer, &near, &extended.far, sizeof(near));
	peer_qp_connect(&peer, extended.base, &peer_link_full);
	for (uint32_t i = 0; i < SENDS_MAX; i++)
		receive_post(&extended, i);
	peer_barrier(&peer);
	if (peer_is_server(&peer))
		server(&extended, regions);
	else
		client(&extended, regions);
	peer_barrier(&peer);
	printf("%u regions\n", regions);

	unmake(&extended);
	peer_memory_free(extended.memory);
	peer_close(&peer);
	return 0;
}
