/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair whose peer is a script: tests/interop/frames sends it any frame and checks the
 * answers.
 *
 * The script sends orders over TCP, and this program answers each, in the structures below and in
 * this machine's byte order. The program is an ordinary verbs program, and runs on any device.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "../e2e/peer.h"

enum {
	BYTES = 8192,
	INBOX_BYTES = 16384,
	QUEUE_DEPTH = 32,
	COMPLETIONS_MAX = 8,
	SEED = 5,
	NONE = -1,
};

enum order_kind {
	ORDER_CONNECT, /* make a queue pair, connect it with the script's: struct connected */
	ORDER_POST, /* post a send request; no answer */
	ORDER_REPORT, /* say what happened, and forget the queue pair: struct report */
	ORDER_END,
};

struct order {
	uint32_t kind;
	/* ORDER_CONNECT */
	uint32_t qp_type;
	uint32_t qpn; /* the script's */
	uint32_t psn; /* that the script begins with; and ours */
	uint32_t receives; /* requests that are posted */
	uint32_t receive_bytes; /* of each */
	uint32_t rd_atomic; /* of the script's at once */
	uint32_t timeout;
	uint32_t retry_cnt;
	uint32_t rnr_retry;
	uint8_t gid[16];
	/* ORDER_POST */
	uint32_t opcode;
	uint32_t bytes;
	/* ORDER_REPORT */
	uint32_t completions; /* that are waited for, `wait_ms` at most */
	uint32_t wait_ms;
};

struct connected {
	uint64_t address; /* of BYTES, with every right */
	uint64_t foreign_address; /* of another region, which has none */
	uint32_t rkey;
	uint32_t foreign_rkey;
	uint32_t qpn;
	uint32_t unused;
};

struct report {
	int32_t state;
	int32_t event; /* NONE: none */
	/* The first byte of the region that is another than before; NONE: none */
	int32_t changed_first;
	int32_t changed_count;
	uint64_t word; /* the first 8 bytes of the region */
	uint64_t word_before;
	uint32_t completions;
	struct {
		uint32_t is_receive;
		uint32_t status;
		uint32_t bytes;
	} completion[COMPLETIONS_MAX];
	uint32_t unused;
};

struct target {
	struct peer peer;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *memory;
	struct ibv_mr *inbox;
	struct ibv_mr *foreign;
	uint32_t sends;
};

/* --- connect --------------------------------------------------------------------------------- */

static void modify(struct target *target, struct ibv_qp_attr *attr, int mask)
{
	int error = ibv_modify_qp(target->qp, attr, mask);

	CHECK(!error, "no transition to state %d: %s", attr->qp_state, strerror(error));
}

static void connect_qp(struct target *target, const struct order *order)
{
	bool is_rc = order->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = (unsigned)peer_link_full.access,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = order->qpn,
		.rq_psn = order->psn,
		.max_dest_rd_atomic = (uint8_t)order->rd_atomic,
		.min_rnr_timer = 12, /* 0.64 ms */
		.ah_attr = {.is_global = 1, .port_num = 1},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = order->psn,
		.timeout = (uint8_t)order->timeout,
		.retry_cnt = (uint8_t)order->retry_cnt,
		.rnr_retry = (uint8_t)order->rnr_retry,
		.max_rd_atomic = 4,
	};

	memcpy(rtr.ah_attr.grh.dgid.raw, order->gid, sizeof(order->gid));
	rtr.ah_attr.grh.sgid_index = target->peer.options.gid_index;
	rtr.ah_attr.grh.hop_limit = 64;
	modify(target, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(target, &rtr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			(is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	modify(target, &rts,
		IBV_QP_STATE | IBV_QP_SQ_PSN |
			(is_rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						IBV_QP_MAX_QP_RD_ATOMIC
			       : 0));
}

static void connect_to_script(struct target *target, const struct order *order)
{
	struct ibv_qp_init_attr init = {
		.send_cq = target->cq,
		.recv_cq = target->cq,
		.cap = {QUEUE_DEPTH, QUEUE_DEPTH, 1, 1, 0},
		.qp_type = (enum ibv_qp_type)order->qp_type,
	};
	struct connected answer = {0};

	target->qp = ibv_create_qp(target->peer.pd, &init);
	CHECK(target->qp, "no queue pair: %s", strerror(errno));
	target->sends = 0;
	peer_pattern_fill(target->memory->addr, BYTES, SEED);
	connect_qp(target, order);
	for (uint32_t i = 0; i < order->receives; i++)
		peer_post_recv(target->qp, 1, target->inbox, 0, order->receive_bytes);
	answer = (struct connected){
		.address = (uintptr_t)target->memory->addr,
		.foreign_address = (uintptr_t)target->foreign->addr,
		.rkey = target->memory->rkey,
		.foreign_rkey = target->foreign->rkey,
		.qpn = target->qp->qp_num,
	};
	peer_tell(&target->peer, &answer, sizeof(answer));
}

/* --- post ------------------------------------------------------------------------------------ */

static void post(struct target *target, const struct order *order)
{
	struct ibv_sge sge = peer_sge(target->memory, 0, order->bytes);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = (enum ibv_wr_opcode)order->opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	/* The script answers, whatever the address and the key. */
	if (order->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = 0x1000;
		wr.wr.atomic.rkey = 0x1234;
	} else {
		wr.wr.rdma.remote_addr = 0x1000;
		wr.wr.rdma.rkey = 0x1234;
	}
	peer_post_send(target->qp, &wr);
}

/* --- report ---------------------------------------------------------------------------------- */

static void poll_all(struct target *target, const struct order *order, struct report *report)
{
	uint64_t until_ms = peer_now_ms() + order->wait_ms;
	struct ibv_wc wc;

	while (peer_now_ms() < until_ms && report->completions < order->completions) {
		if (!ibv_poll_cq(target->cq, 1, &wc))
			continue;
		CHECK(report->completions < COMPLETIONS_MAX, "too many completions");
		report->completion[report->completions].is_receive = (uint32_t)wc.wr_id;
		report->completion[report->completions].status = wc.status;
		report->completion[report->completions++].bytes =
			wc.status == IBV_WC_SUCCESS && wc.wr_id ? wc.byte_len : 0;
	}
}

static int32_t event_of(struct target *target)
{
	struct pollfd fd = {.fd = target->peer.context->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	if (poll(&fd, 1, 0) != 1)
		return NONE;
	CHECK(!ibv_get_async_event(target->peer.context, &event), "no event to get");
	ibv_ack_async_event(&event);
	return (int32_t)event.event_type;
}

static void compare(const uint8_t *bytes, struct report *report)
{
	for (int32_t i = 0; i < BYTES; i++) {
		if (bytes[i] == peer_pattern(SEED, (uint64_t)i))
			continue;
		if (report->changed_first == NONE)
			report->changed_first = i;
		report->changed_count++;
	}
	memcpy(&report->word, bytes, sizeof(report->word));
	for (unsigned i = 0; i < 8; i++)
		report->word_before |= (uint64_t)peer_pattern(SEED, i) << 8 * i;
}

static void tell_report(struct target *target, const struct order *order)
{
	struct report report = {.changed_first = NONE};

	poll_all(target, order, &report);
	report.event = event_of(target);
	report.state = (int32_t)peer_qp_state(target->qp);
	compare(target->memory->addr, &report);
	CHECK(!ibv_destroy_qp(target->qp), "the queue pair stays");
	for (struct ibv_wc wc; ibv_poll_cq(target->cq, 1, &wc);)
		continue;
	peer_tell(&target->peer, &report, sizeof(report));
}

int main(int argc, char **argv)
{
	struct peer_options options;
	struct target target = {0};
	struct order order;

	peer_parse(&options, argc, argv);
	peer_open(&target.peer, &options);
	alarm(600);
	target.cq = peer_cq_create(&target.peer, 2 * QUEUE_DEPTH, NULL);
	target.memory = peer_memory(&target.peer, BYTES);
	target.inbox = peer_memory(&target.peer, INBOX_BYTES);
	target.foreign =
		ibv_reg_mr(target.peer.pd, target.inbox->addr, INBOX_BYTES, IBV_ACCESS_LOCAL_WRITE);
	CHECK(target.foreign, "no memory region: %s", strerror(errno));
	peer_meet(&target.peer);
	for (;;) {
		peer_hear(&target.peer, &order, sizeof(order));
		switch (order.kind) {
		case ORDER_CONNECT:
			connect_to_script(&target, &order);
			break;
		case ORDER_POST:
			post(&target, &order);
			break;
		case ORDER_REPORT:
			tell_report(&target, &order);
			break;
		case ORDER_END:
			CHECK(!ibv_dereg_mr(target.foreign), "the region stays");
			peer_memory_free(target.inbox);
			peer_memory_free(target.memory);
			CHECK(!ibv_destroy_cq(target.cq), "the completion queue stays");
			peer_close(&target.peer);
			return 0;
		default:
			CHECK(false, "no order %u", order.kind);
		}
	}
}
