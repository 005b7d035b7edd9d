/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"

const struct peer_link peer_link_full = {
	.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC,
	.rd_atomic = 16,
	.dest_rd_atomic = 16,
};

/* --- queue pairs ---------------------------------------------------------------------------- */

struct ibv_cq *peer_cq_create(struct peer *peer, int entries, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = ibv_create_cq(peer->context, entries, NULL, channel, 0);

	CHECK(cq, "no completion queue: %s", strerror(errno));
	return cq;
}

struct ibv_qp *peer_qp_create(struct peer *peer, struct ibv_cq *cq, uint32_t depth,
	uint32_t sge_count, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {depth, depth, sge_count, sge_count, inline_bytes},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_srq_init_attr shared = {.attr = {4 * depth, sge_count, 0}};
	struct ibv_qp *qp;

	if (peer->options.is_shared && !peer->srq)
		CHECK(peer->srq = ibv_create_srq(peer->pd, &shared), "no shared queue: %s",
			strerror(errno));
	init.srq = peer->srq;
	qp = ibv_create_qp(peer->pd, &init);
	CHECK(qp, "no queue pair: %s", strerror(errno));
	return qp;
}

static enum ibv_mtu mtu_of(uint32_t bytes)
{
	switch (bytes) {
	case 256:
		return IBV_MTU_256;
	case 512:
		return IBV_MTU_512;
	case 1024:
		return IBV_MTU_1024;
	case 2048:
		return IBV_MTU_2048;
	case 4096:
		return IBV_MTU_4096;
	default:
		CHECK(false, "no such MTU: %u", bytes);
	}
}

/* What a queue pair has to know of the other. */
struct address {
	uint32_t qpn;
	uint32_t psn;
	union ibv_gid gid;
	uint32_t mtu; /* enum ibv_mtu */
	uint16_t lid; /* 0 on Ethernet */
};

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error = ibv_modify_qp(qp, attr, mask);

	CHECK(!error, "no transition to state %d: %s", attr->qp_state, strerror(error));
}

static void to_init(struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = (unsigned)access,
	};

	modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static void to_rtr(struct peer *peer, struct ibv_qp *qp, const struct address *ours,
	const struct address *theirs, uint8_t dest_rd_atomic)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)(ours->mtu < theirs->mtu ? ours->mtu : theirs->mtu),
		.dest_qp_num = theirs->qpn,
		.rq_psn = theirs->psn,
		.max_dest_rd_atomic = dest_rd_atomic,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	attr.ah_attr.dlid = theirs->lid;
	attr.ah_attr.grh.dgid = theirs->gid;
	attr.ah_attr.grh.sgid_index = peer->options.gid_index;
	attr.ah_attr.grh.hop_limit = 64;
	modify(qp, &attr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			(qp->qp_type == IBV_QPT_UC
					? 0
					: IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

static void to_rts(struct peer *peer, struct ibv_qp *qp, uint32_t psn, uint8_t rd_atomic)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.timeout = peer->options.timeout,
		.retry_cnt = peer->options.retry_cnt,
		.rnr_retry = peer->options.rnr_retry,
		.max_rd_atomic = rd_atomic,
	};

	modify(qp, &attr,
		IBV_QP_STATE | IBV_QP_SQ_PSN |
			(qp->qp_type == IBV_QPT_UC ? 0
						   : IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct address address_of(struct peer *peer, const struct ibv_qp *qp)
{
	/*
	 * Each connection starts at another PSN, because packets of this queue pair's previous
	 * connection may still arrive.
	 */
	uint64_t random = (uint64_t)getpid() << 32 | ++peer->connections;

	return (struct address){
		.qpn = qp->qp_num,
		.psn = (uint32_t)peer_random(&random) & 0xffffff,
		.gid = peer->gid,
		.mtu = peer->options.mtu_bytes ? mtu_of(peer->options.mtu_bytes)
					       : peer->port.active_mtu,
		.lid = peer->port.lid,
	};
}

static void to_ready(struct peer *peer, struct ibv_qp *qp, const struct address *ours,
	const struct address *theirs, const struct peer_link *link)
{
	to_init(qp, link->access);
	to_rtr(peer, qp, ours, theirs, link->dest_rd_atomic);
	to_rts(peer, qp, ours->psn, link->rd_atomic);
}

void peer_qp_connect(struct peer *peer, struct ibv_qp *qp, const struct peer_link *link)
{
	struct address theirs, ours = address_of(peer, qp);

	peer_exchange(peer, &ours, &theirs, sizeof(ours));
	to_ready(peer, qp, &ours, &theirs, link);
	peer_barrier(peer);
}

void peer_qps_connect(
	struct peer *peer, struct ibv_qp **qps, uint32_t count, const struct peer_link *link)
{
	enum { BATCH = 64 }; /* which the sockets buffer, so both may send first */
	struct address theirs[BATCH], ours[BATCH];

	for (uint32_t done = 0, batch; done < count; done += batch) {
		batch = count - done < BATCH ? count - done : BATCH;
		for (uint32_t i = 0; i < batch; i++)
			ours[i] = address_of(peer, qps[done + i]);
		peer_exchange(peer, ours, theirs, batch * sizeof(ours[0]));
		for (uint32_t i = 0; i < batch; i++)
			to_ready(peer, qps[done + i], &ours[i], &theirs[i], link);
	}
	peer_barrier(peer);
}

void peer_qp_join(struct peer *peer, struct ibv_qp *one, struct ibv_qp *other)
{
	struct address address_one = address_of(peer, one);
	struct address address_other = address_of(peer, other);

	to_ready(peer, one, &address_one, &address_other, &peer_link_full);
	to_ready(peer, other, &address_other, &address_one, &peer_link_full);
}

uint32_t peer_qp_to_rtr(struct peer *peer, struct ibv_qp *qp, const struct peer_link *link)
{
	struct address theirs, ours = address_of(peer, qp);

	peer_exchange(peer, &ours, &theirs, sizeof(ours));
	to_init(qp, link->access);
	to_rtr(peer, qp, &ours, &theirs, link->dest_rd_atomic);
	return ours.psn;
}

void peer_qp_to_rts(
	struct peer *peer, struct ibv_qp *qp, uint32_t psn, const struct peer_link *link)
{
	to_rts(peer, qp, psn, link->rd_atomic);
}

enum ibv_qp_state peer_qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "the queue pair has no state");
	return attr.qp_state;
}

/* --- memory --------------------------------------------------------------------------------- */

struct ibv_mr *peer_memory(struct peer *peer, size_t bytes)
{
	void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	struct ibv_mr *mr;

	CHECK(memory, "no memory");
	memset(memory, 0, bytes);
	mr = ibv_reg_mr(peer->pd, memory, bytes, peer_link_full.access);
	CHECK(mr, "no memory region: %s", strerror(errno));
	return mr;
}

void peer_memory_free(struct ibv_mr *mr)
{
	void *memory = mr->addr;

	CHECK(!ibv_dereg_mr(mr), "the memory region stays");
	free(memory);
}

struct peer_buffer peer_buffer_of(const struct ibv_mr *mr)
{
	return (struct peer_buffer){
		.address = (uintptr_t)mr->addr,
		.rkey = mr->rkey,
		.bytes = (uint32_t)mr->length,
	};
}

struct ibv_sge peer_sge(const struct ibv_mr *mr, size_t offset, size_t bytes)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)mr->addr + offset,
		.length = (uint32_t)bytes,
		.lkey = mr->lkey,
	};
}

/* --- posting and polling -------------------------------------------------------------------- */

void peer_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int error = ibv_post_send(qp, wr, &bad);

	CHECK(!error, "a send request is refused: %s", strerror(error));
}

void peer_post_recv(
	struct ibv_qp *qp, uint64_t wr_id, struct ibv_mr *mr, size_t offset, size_t bytes)
{
	struct ibv_sge sge = peer_sge(mr, offset, bytes);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;
	int error = qp->srq ? ibv_post_srq_recv(qp->srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);

	CHECK(!error, "a receive request is refused: %s", strerror(error));
}

bool peer_completion_within(struct ibv_cq *cq, unsigned ms, struct ibv_wc *ret_wc)
{
	uint64_t until_ms = peer_now_ms() + ms;
	int count;

	while (!(count = ibv_poll_cq(cq, 1, ret_wc)))
		if (peer_now_ms() >= until_ms)
			return false;
	CHECK(count == 1, "polling fails: %d", count);
	return true;
}

struct ibv_wc peer_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	CHECK(peer_completion_within(cq, PEER_TIMEOUT_S * 1000, &wc), "no completion in %d s",
		PEER_TIMEOUT_S);
	return wc;
}

struct ibv_wc peer_success(struct ibv_cq *cq)
{
	struct ibv_wc wc = peer_completion(cq);

	CHECK(wc.status == IBV_WC_SUCCESS, "request %llu completes with status %d (%s), vendor %u",
		(unsigned long long)wc.wr_id, wc.status, ibv_wc_status_str(wc.status),
		wc.vendor_err);
	return wc;
}

void peer_no_completion(struct ibv_cq *cq, unsigned ms)
{
	uint64_t until_ms = peer_now_ms() + ms;
	struct ibv_wc wc;

	do
		CHECK(!ibv_poll_cq(cq, 1, &wc), "request %llu completes with status %d",
			(unsigned long long)wc.wr_id, wc.status);
	while (peer_now_ms() < until_ms);
}
