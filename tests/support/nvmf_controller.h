/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_NVMF_CONTROLLER_H
#define URNIC_TESTS_SUPPORT_NVMF_CONTROLLER_H

/*
 * A controller that is part of the test, over TCP or RDMA. It runs on the host's own loop and polls
 * by a timer. It gives the right answer to each command, unless the test has changed the pages and
 * values of `peer`, or has set the hook, which then answers. So a test of answers runs over both
 * transports.
 *
 * main() calls peer_begin() with "tcp" or "rdma", and peer_end(). Each test begins with
 * peer_reset(). Include it after cmocka.h.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nvmf/common/codec/discovery.h"
#include "nvmf/common/rdma/rdma_private.h"
#include "nvmf/common/tcp/tcp_rx.h"
#include "nvmf/host/controller/sqe.h"

#define PEER_TICK_NS 200000u

enum {
	PEER_PORT = 4420,
	PEER_CNTLID = 7,
	PEER_QUEUES = 16,
	PEER_RECEIVES = 64,
	PEER_CAPSULE_BYTES = 8192, /* a receive buffer */
	PEER_CQES_AT = PEER_RECEIVES * PEER_CAPSULE_BYTES,
	PEER_SLOT_BYTES = 16384, /* data to the host, by command */
	PEER_DATA_AT = PEER_CQES_AT + 4096,
	PEER_BYTES = PEER_DATA_AT + PEER_RECEIVES * PEER_SLOT_BYTES,
	PEER_PAGE_BYTES = 4096,
	PEER_LOG_BYTES = 64 << 10,
	PEER_BLOCK_SHIFT = 9,
	PEER_BLOCKS = 1 << 16,
	/* Offsets in Identify Controller. */
	PEER_MDTS = 77,
	PEER_IOCCSZ = 1792,
};

/* A connection. */
struct peer_queue {
	bool is_open;
	uint16_t qid;
	int fd;
	struct tcp_rx rx;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *bytes;
	unsigned given, responded;
};

static struct {
	bool is_rdma;
	struct loop *loop;
	struct loop_timer timer;
	int listener;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listening;
	struct peer_queue queues[PEER_QUEUES];

	/* What it says. */
	bool is_deaf; /* connections are never answered */
	uint64_t cap;
	uint32_t csts;
	uint64_t connect_result;
	uint64_t features_result; /* of Set Features */
	uint8_t controller_page[PEER_PAGE_BYTES];
	uint8_t namespace_page[PEER_PAGE_BYTES];
	uint8_t descriptors_page[PEER_PAGE_BYTES];
	uint8_t list_page[PEER_PAGE_BYTES];
	uint8_t log_page[PEER_LOG_BYTES];
	/* True: the command is answered, or never will be. */
	bool (*hook)(struct peer_queue *queue, const struct nvme_sqe *sqe);

	unsigned connections;
	unsigned reads, writes; /* of the I/O queues */
} peer;

/* --- what it sends --- */

static inline void peer_tcp_send(struct peer_queue *queue, const void *bytes, size_t length)
{
	/* The host may have closed the connection. */
	(void)!send(queue->fd, bytes, length, MSG_NOSIGNAL);
}

static inline void peer_tcp_pdu(struct peer_queue *queue, struct tcp_pdu *pdu, const void *body)
{
	const struct tcp_options none = {0};
	uint8_t head[TCP_HEADER_BYTES_MAX];
	uint32_t length = tcp_pdu_encode(pdu, &none, head);

	peer_tcp_send(queue, head, length);
	if (pdu->data_bytes)
		peer_tcp_send(queue, body, pdu->data_bytes);
}

static inline void peer_rdma_post(struct peer_queue *queue, enum ibv_wr_opcode opcode,
	const uint8_t *from, uint32_t length, const struct nvme_sgl *sgl)
{
	struct ibv_sge sge = {(uintptr_t)from, length, queue->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = PEER_RECEIVES,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	if (sgl) {
		wr.wr.rdma.remote_addr = sgl->address;
		wr.wr.rdma.rkey = sgl->key;
	}
	(void)ibv_post_send(queue->id->qp, &wr, &bad);
}

/* Data of a command, from its beginning. */
static inline void peer_give(
	struct peer_queue *queue, const struct nvme_sqe *sqe, const void *bytes, uint32_t length)
{
	struct tcp_pdu pdu = {.type = TCP_PDU_C2H_DATA, .flags = TCP_LAST, .data_bytes = length};
	uint8_t *place = NULL;

	if (!peer.is_rdma) {
		pdu.data.cccid = sqe->cid;
		pdu.data.length = length;
		peer_tcp_pdu(queue, &pdu, bytes);
		return;
	}
	assert_in_range(length, 1, PEER_SLOT_BYTES);
	place = queue->bytes + PEER_DATA_AT + queue->given++ % PEER_RECEIVES * PEER_SLOT_BYTES;
	memcpy(place, bytes, length);
	peer_rdma_post(queue, IBV_WR_RDMA_WRITE, place, length, &sqe->sgl);
}

static inline void peer_respond(
	struct peer_queue *queue, uint16_t cid, uint16_t status, uint64_t result)
{
	const struct nvme_cqe cqe = {.cid = cid,
		.status = status & 0x7ff,
		.may_not_repeat = status & 0x4000,
		.result = result};
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_RESP};
	uint8_t *place = NULL;

	if (!peer.is_rdma) {
		nvme_cqe_encode(&cqe, pdu.cqe);
		peer_tcp_pdu(queue, &pdu, NULL);
		return;
	}
	place = queue->bytes + PEER_CQES_AT + queue->responded++ % PEER_RECEIVES * NVME_CQE_BYTES;
	nvme_cqe_encode(&cqe, place);
	peer_rdma_post(queue, IBV_WR_SEND, place, NVME_CQE_BYTES, NULL);
}

/* --- what it answers --- */

static inline void peer_answer_page(struct peer_queue *queue, const struct nvme_sqe *sqe,
	const uint8_t *page, size_t page_bytes)
{
	uint64_t offset = sqe->cdw12;

	if (sqe->opcode != NVME_ADMIN_GET_LOG_PAGE)
		offset = 0;
	assert_in_range(sqe->sgl.length, 4, PEER_SLOT_BYTES);
	assert_true(offset + sqe->sgl.length <= page_bytes);
	peer_give(queue, sqe, page + offset, sqe->sgl.length);
	peer_respond(queue, sqe->cid, NVME_SUCCESS, 0);
}

static inline void peer_answer_fabrics(struct peer_queue *queue, const struct nvme_sqe *sqe)
{
	struct nvme_property_access access = nvme_property_decode(sqe);
	uint64_t result = 0;

	if (nvme_fctype(sqe) == NVME_FABRICS_CONNECT) {
		queue->qid = nvme_connect_decode(sqe).qid;
		result = queue->qid ? PEER_CNTLID : peer.connect_result;
	} else if (nvme_fctype(sqe) == NVME_FABRICS_PROPERTY_GET) {
		result = access.offset == NVME_CAP ? peer.cap
			: access.offset == NVME_VS ? NVME_VS_1_4
						   : peer.csts;
	}
	peer_respond(queue, sqe->cid, NVME_SUCCESS, result);
}

static inline void peer_answer_io(struct peer_queue *queue, const struct nvme_sqe *sqe)
{
	static const uint8_t zeroes[PEER_SLOT_BYTES];

	peer.reads += sqe->opcode == NVME_IO_READ;
	peer.writes += sqe->opcode == NVME_IO_WRITE;
	if (sqe->opcode == NVME_IO_READ)
		peer_give(queue, sqe, zeroes, sqe->sgl.length);
	peer_respond(queue, sqe->cid, NVME_SUCCESS, 0);
}

static inline void peer_answer(struct peer_queue *queue, const struct nvme_sqe *sqe)
{
	const uint8_t *page = sqe->cdw10 == 1 ? peer.controller_page
		: sqe->cdw10 == 2             ? peer.list_page
		: sqe->cdw10 == 3             ? peer.descriptors_page
					      : peer.namespace_page;

	if (sqe->opcode == NVME_OPCODE_FABRICS)
		peer_answer_fabrics(queue, sqe);
	else if (queue->qid)
		peer_answer_io(queue, sqe);
	else if (sqe->opcode == NVME_ADMIN_IDENTIFY)
		peer_answer_page(queue, sqe, page, PEER_PAGE_BYTES);
	else if (sqe->opcode == NVME_ADMIN_GET_LOG_PAGE)
		peer_answer_page(queue, sqe, peer.log_page, PEER_LOG_BYTES);
	else if (sqe->opcode == NVME_ADMIN_SET_FEATURES)
		peer_respond(queue, sqe->cid, NVME_SUCCESS, peer.features_result);
	else if (sqe->opcode != NVME_ADMIN_ASYNC_EVENT)
		peer_respond(queue, sqe->cid, NVME_SUCCESS, 0);
}

static inline void peer_command(struct peer_queue *queue, const uint8_t *bytes)
{
	const struct nvme_sqe sqe = nvme_sqe_decode(bytes);

	if (!peer.hook || !peer.hook(queue, &sqe))
		peer_answer(queue, &sqe);
}

/* --- connections --- */

static inline struct peer_queue *peer_queue_open(void)
{
	for (int i = 0; i < PEER_QUEUES; i++) {
		if (!peer.queues[i].is_open) {
			peer.queues[i] = (struct peer_queue){.is_open = true, .fd = -1};
			peer.connections++;
			return &peer.queues[i];
		}
	}
	fail_msg("too many connections");
	return NULL;
}

/* The controller ends the connection. */
static inline void peer_queue_close(struct peer_queue *queue)
{
	if (queue->fd >= 0)
		close(queue->fd);
	if (queue->id) {
		(void)rdma_disconnect(queue->id);
		rdma_destroy_qp(queue->id);
		ibv_destroy_cq(queue->cq);
		ibv_dereg_mr(queue->mr);
		ibv_dealloc_pd(queue->pd);
		(void)rdma_destroy_id(queue->id);
		free(queue->bytes);
	}
	queue->is_open = false;
}

static inline void peer_close_all(void)
{
	for (int i = 0; i < PEER_QUEUES; i++)
		if (peer.queues[i].is_open)
			peer_queue_close(&peer.queues[i]);
}

static inline void peer_tcp_take(struct peer_queue *queue)
{
	const struct tcp_options none = {0};
	struct tcp_pdu pdu = {.type = TCP_PDU_IC_RESP};

	if (queue->rx.pdu.type == TCP_PDU_CAPSULE_CMD) {
		peer_command(queue, queue->rx.pdu.sqe);
	} else if (queue->rx.pdu.type == TCP_PDU_IC_REQ) {
		pdu.ic.max = TCP_MAXH2CDATA_MIN;
		tcp_rx_agree(&queue->rx, &none);
		peer_tcp_pdu(queue, &pdu, NULL);
	}
}

static inline void peer_tcp_poll(struct peer_queue *queue)
{
	enum tcp_rx_event event = TCP_RX_MORE;
	uint8_t bytes[16384];
	ssize_t length = recv(queue->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	size_t used = 0;

	if (length < 0 && errno == EAGAIN)
		return;
	if (length <= 0) {
		peer_queue_close(queue);
		return;
	}
	do {
		used += tcp_rx_feed(&queue->rx, bytes + used, (size_t)length - used, &event);
		if (event == TCP_RX_HEADER)
			tcp_rx_place(&queue->rx, NULL);
		else if (event == TCP_RX_PDU)
			peer_tcp_take(queue);
	} while (queue->is_open && event != TCP_RX_MORE && event != TCP_RX_REFUSED);
}

static inline void peer_tcp_accept(void)
{
	int fd = peer.is_deaf ? -1 : accept4(peer.listener, NULL, NULL, SOCK_CLOEXEC);
	const int one = 1;
	struct peer_queue *queue;

	if (fd < 0)
		return;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	queue = peer_queue_open();
	queue->fd = fd;
	tcp_rx_init(&queue->rx, true, PEER_CAPSULE_BYTES, PEER_CAPSULE_BYTES);
}

static inline void peer_rdma_receive(struct peer_queue *queue, unsigned index)
{
	struct ibv_sge sge = {(uintptr_t)queue->bytes + index * PEER_CAPSULE_BYTES,
		PEER_CAPSULE_BYTES, queue->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;

	(void)ibv_post_recv(queue->id->qp, &wr, &bad);
}

static inline void peer_rdma_accept(struct rdma_cm_id *id, const struct rdma_conn_param *asked)
{
	struct ibv_qp_init_attr attr = {
		.cap = {2 * PEER_RECEIVES, PEER_RECEIVES, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	uint8_t reply[RDMA_REPLY_BYTES];
	struct rdma_conn_param param = {.private_data = reply,
		.private_data_len = sizeof(reply),
		.initiator_depth = asked->initiator_depth,
		.rnr_retry_count = 7};
	struct peer_queue *queue = peer_queue_open();

	queue->id = id;
	assert_non_null(queue->bytes = aligned_alloc(4096, PEER_BYTES));
	assert_non_null(queue->pd = ibv_alloc_pd(id->verbs));
	assert_non_null(queue->cq = ibv_create_cq(id->verbs, 512, NULL, NULL, 0));
	assert_non_null(queue->mr = ibv_reg_mr(
				queue->pd, queue->bytes, PEER_BYTES, IBV_ACCESS_LOCAL_WRITE));
	attr.send_cq = attr.recv_cq = queue->cq;
	assert_int_equal(rdma_create_qp(id, queue->pd, &attr), 0);
	for (unsigned i = 0; i < PEER_RECEIVES; i++)
		peer_rdma_receive(queue, i);
	rdma_reply_encode(PEER_RECEIVES, reply);
	(void)rdma_accept(id, &param);
}

static inline void peer_rdma_events(void)
{
	struct rdma_cm_event *event;

	while (rdma_get_cm_event(peer.channel, &event) == 0) {
		bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		struct rdma_cm_id *unwanted = is_request && peer.is_deaf ? event->id : NULL;
		struct peer_queue *gone = NULL;

		if (is_request && !unwanted)
			peer_rdma_accept(event->id, &event->param.conn);
		for (int i = 0; i < PEER_QUEUES; i++)
			if (event->event == RDMA_CM_EVENT_DISCONNECTED && peer.queues[i].is_open &&
				peer.queues[i].id == event->id)
				gone = &peer.queues[i];
		rdma_ack_cm_event(event);
		/* What a deaf controller was asked is never answered. */
		if (gone)
			peer_queue_close(gone);
	}
}

static inline void peer_rdma_poll(struct peer_queue *queue)
{
	uint8_t sqe[NVME_SQE_BYTES];
	struct ibv_wc wc;

	while (queue->is_open && ibv_poll_cq(queue->cq, 1, &wc) == 1) {
		if (wc.wr_id >= PEER_RECEIVES || wc.status != IBV_WC_SUCCESS)
			continue;
		memcpy(sqe, queue->bytes + wc.wr_id * PEER_CAPSULE_BYTES, sizeof(sqe));
		peer_rdma_receive(queue, (unsigned)wc.wr_id);
		peer_command(queue, sqe);
	}
}

static inline void peer_tick(struct loop_timer *timer)
{
	if (peer.is_rdma)
		peer_rdma_events();
	else
		peer_tcp_accept();
	for (int i = 0; i < PEER_QUEUES; i++) {
		if (peer.queues[i].is_open && peer.is_rdma)
			peer_rdma_poll(&peer.queues[i]);
		else if (peer.queues[i].is_open)
			peer_tcp_poll(&peer.queues[i]);
	}
	loop_timer_set(peer.loop, timer, loop_now_ns(peer.loop) + PEER_TICK_NS);
}

static inline struct sockaddr_storage peer_address(void)
{
	struct sockaddr_storage address = {0};
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&address;

	in->sin_family = AF_INET;
	in->sin_port = htons(PEER_PORT);
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

/* Right answers, and no connection. */
static inline void peer_reset(void)
{
	peer_close_all();
	peer.is_deaf = false;
	peer.cap = 1023 | 1ull << 37;
	peer.csts = NVME_CSTS_RDY;
	peer.connect_result = PEER_CNTLID;
	peer.features_result = 0;
	peer.hook = NULL;
	peer.connections = peer.reads = peer.writes = 0;
	memset(peer.controller_page, 0, PEER_PAGE_BYTES);
	memset(peer.namespace_page, 0, PEER_PAGE_BYTES);
	memset(peer.descriptors_page, 0, PEER_PAGE_BYTES);
	memset(peer.list_page, 0, PEER_PAGE_BYTES);
	memset(peer.log_page, 0, PEER_LOG_BYTES);
	peer.controller_page[PEER_MDTS] = 2;
	le16_put(peer.controller_page + 78, PEER_CNTLID);
	le32_put(peer.controller_page + 536, 1 | 1 << 2 | 1 << 20 | 1 << 21);
	le32_put(peer.controller_page + PEER_IOCCSZ, (64 + 4096) / 16);
	le32_put(peer.controller_page + 1796, 1);
	le64_put(peer.namespace_page, PEER_BLOCKS);
	peer.namespace_page[130] = PEER_BLOCK_SHIFT;
	le32_put(peer.list_page, 1);
}

static inline void peer_begin(const char *transport, struct loop *loop)
{
	struct sockaddr_storage address = peer_address();
	const int one = 1;

	peer.is_rdma = !strcmp(transport, "rdma");
	peer.loop = loop;
	peer.listener = -1;
	if (peer.is_rdma) {
		assert_non_null(peer.channel = rdma_create_event_channel());
		assert_int_equal(fcntl(peer.channel->fd, F_SETFL, O_NONBLOCK), 0);
		assert_int_equal(
			rdma_create_id(peer.channel, &peer.listening, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_bind_addr(peer.listening, (struct sockaddr *)&address), 0);
		assert_int_equal(rdma_listen(peer.listening, 8), 0);
	} else {
		peer.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_int_equal(
			setsockopt(peer.listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
		assert_int_equal(bind(peer.listener, (struct sockaddr *)&address,
					 sizeof(struct sockaddr_in)),
			0);
		assert_int_equal(listen(peer.listener, 8), 0);
	}
	loop_timer_init(&peer.timer, peer_tick);
	loop_timer_set(loop, &peer.timer, loop_now_ns(loop));
}

static inline void peer_end(void)
{
	peer_close_all();
	loop_timer_cancel(&peer.timer);
	if (peer.listener >= 0)
		close(peer.listener);
	if (peer.is_rdma) {
		(void)rdma_destroy_id(peer.listening);
		rdma_destroy_event_channel(peer.channel);
	}
}

#endif
