/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_NVMF_LINK_H
#define URNIC_TESTS_SUPPORT_NVMF_LINK_H

/*
 * One target, and a host that sends it any command over TCP or RDMA, so that a test of commands
 * runs over both transports. Target and host are on one thread.
 *
 * main() calls links_begin() with "tcp" or "rdma", and links_end().
 */

#include "support/nvmf_tcp_client.h"

#include <fcntl.h>
#include <rdma/rdma_cma.h>

#include "nvmf/common/rdma/rdma_private.h"
#include "nvmf/target/rdma/rdma.h"
#include "support/netns.h"

enum {
	LINK_PORT = 4420,
	LINK_RECEIVES = 64,
	LINK_SLOT_BYTES = 8192, /* for the data of a command */
	LINK_CAPSULES_AT = 4096,
	LINK_DATA_AT = 65536,
	LINK_BYTES = LINK_DATA_AT + LINK_RECEIVES * LINK_SLOT_BYTES + (1 << 20),
};

/* A queue. */
struct link {
	struct client client; /* over TCP */
	uint16_t cid; /* of the next command */
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *bytes;
	struct rdma_request request;
	bool has_no_receives; /* the host posts none, so that no response arrives */
	bool is_half_open; /* over RoCEv2: the host never sends the RTU */
	bool is_connected, is_over;
	struct nvme_cqe cqes[LINK_RECEIVES];
	unsigned cqe_count, cqe_taken;
};

/* A command as the host sends it. `sqe.psdt` is 1, and `sqe.cid` is set. */
struct link_command {
	struct nvme_sqe sqe;
	const void *body; /* data to the controller */
	uint32_t bytes; /* what the descriptor says of data in either direction */
	bool has_sgl; /* `sqe.sgl` is sent as it is */
	bool keeps_psdt; /* so is `sqe.psdt` */
	bool keeps_cid; /* so is `sqe.cid` */
};

static bool is_rdma;
static struct target_port *rdma_port;
static struct target_rdma *rdma;
static struct target_rdma_listener *rdma_listener;

static inline void links_begin(const char *transport)
{
	const struct target_port_settings settings = {.portid = 2,
		.trtype = DISCOVERY_RDMA,
		.adrfam = DISCOVERY_IPV4,
		.traddr = "127.0.0.1",
		.trsvcid = "4420",
		.queue_entries = ENTRIES};
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(LINK_PORT)};
	char sentence[TARGET_RDMA_SENTENCE_BYTES];

	is_rdma = !strcmp(transport, "rdma");
	setup_with(IN_CAPSULE, ENTRIES);
	if (!is_rdma)
		return;
	assert_int_equal(target_port_create(target, &settings, &rdma_port), 0);
	assert_int_equal(target_port_link(rdma_port, subsystem), 0);
	assert_int_equal(target_rdma_create(target, loop, &rdma), 0);
	assert_int_equal(target_rdma_listen(rdma, rdma_port, (struct sockaddr *)&address,
				 IN_CAPSULE, ENTRIES, &rdma_listener, sentence),
		0);
}

static inline void links_end(void)
{
	if (is_rdma) {
		target_rdma_unlisten(rdma_listener);
		target_disconnect_all(target);
		for (int i = 0; i < STEPS_MAX && target_rdma_queue_count(rdma); i++)
			loop_step(loop, 1000000);
		assert_int_equal(target_rdma_queue_count(rdma), 0);
		target_rdma_destroy(rdma);
	}
	teardown(NULL);
}

/* --- RDMA --- */

static inline void link_receive_post(struct link *link, unsigned index)
{
	struct ibv_sge sge = {(uintptr_t)link->bytes + index * 16, 16, link->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(link->id->qp, &wr, &bad), 0);
}

static inline void link_address_resolved(struct link *link)
{
	struct ibv_qp_init_attr attr = {
		.cap = {2 * LINK_RECEIVES, LINK_RECEIVES, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	if (link->is_half_open) {
		assert_int_equal(rdma_resolve_route(link->id, 20000), 0);
		return;
	}
	assert_non_null(link->bytes = aligned_alloc(4096, LINK_BYTES));
	assert_non_null(link->pd = ibv_alloc_pd(link->id->verbs));
	assert_non_null(link->cq = ibv_create_cq(link->id->verbs, 512, NULL, NULL, 0));
	assert_non_null(
		link->mr = ibv_reg_mr(link->pd, link->bytes, LINK_BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE));
	attr.send_cq = attr.recv_cq = link->cq;
	assert_int_equal(rdma_create_qp(link->id, link->pd, &attr), 0);
	for (unsigned i = 0; i < LINK_RECEIVES && !link->has_no_receives; i++)
		link_receive_post(link, i);
	assert_int_equal(rdma_resolve_route(link->id, 20000), 0);
}

static inline void link_event(struct link *link, enum rdma_cm_event_type event)
{
	uint8_t private_data[RDMA_REQUEST_BYTES];
	struct rdma_conn_param param = {
		.private_data = private_data,
		.private_data_len = sizeof(private_data),
		.responder_resources = 4,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = 0x77, /* of no queue pair, where the identifier has none */
	};

	rdma_request_encode(&link->request, private_data);
	if (event == RDMA_CM_EVENT_ADDR_RESOLVED)
		link_address_resolved(link);
	else if (event == RDMA_CM_EVENT_ROUTE_RESOLVED)
		assert_int_equal(rdma_connect(link->id, &param), 0);
	else if (event == RDMA_CM_EVENT_ESTABLISHED || event == RDMA_CM_EVENT_CONNECT_RESPONSE)
		link->is_connected = true;
	else
		link->is_over = true;
}

static inline void link_poll(struct link *link)
{
	struct rdma_cm_event *event;
	struct ibv_wc wc;

	while (rdma_get_cm_event(link->channel, &event) == 0) {
		link_event(link, event->event);
		rdma_ack_cm_event(event);
	}
	while (link->cq && ibv_poll_cq(link->cq, 1, &wc) == 1) {
		if (wc.status != IBV_WC_SUCCESS) {
			link->is_over = true;
		} else if (wc.wr_id < LINK_RECEIVES) {
			assert_int_equal(wc.byte_len, 16);
			link->cqes[link->cqe_count++ % LINK_RECEIVES] =
				nvme_cqe_decode(link->bytes + wc.wr_id * 16);
			link_receive_post(link, (unsigned)wc.wr_id);
		}
	}
}

static inline void link_open_rdma(struct link *link, uint16_t qid)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(LINK_PORT)};

	link->request =
		(struct rdma_request){.qid = qid, .hrqsize = ENTRIES, .hsqsize = ENTRIES - 1};
	assert_non_null(link->channel = rdma_create_event_channel());
	assert_int_equal(fcntl(link->channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rdma_create_id(link->channel, &link->id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(link->id, NULL, (struct sockaddr *)&address, 20000), 0);
	for (int i = 0; i < STEPS_MAX && !link->is_connected && !link->is_over; i++) {
		loop_step(loop, 200000);
		link_poll(link);
	}
	assert_true(link->is_connected);
}

static inline void link_send_rdma(struct link *link, const struct link_command *command)
{
	unsigned slot = command->sqe.cid % LINK_RECEIVES;
	uint8_t *capsule = link->bytes + LINK_CAPSULES_AT + slot * 64;
	uint8_t *place = link->bytes + LINK_DATA_AT + slot * LINK_SLOT_BYTES;
	struct ibv_sge sge = {(uintptr_t)capsule, 64, link->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1000,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct nvme_sqe sqe = command->sqe;

	if (!command->has_sgl)
		sqe.sgl = (struct nvme_sgl){.type = NVME_SGL_KEYED,
			.address = (uintptr_t)place,
			.length = command->bytes,
			.key = link->mr->rkey};
	if (command->body)
		memcpy(place, command->body, command->bytes);
	nvme_sqe_encode(&sqe, capsule);
	assert_int_equal(ibv_post_send(link->id->qp, &wr, &bad), 0);
}

static inline void link_close_rdma(struct link *link)
{
	if (!link->is_half_open) {
		rdma_disconnect(link->id);
		rdma_destroy_qp(link->id);
		ibv_destroy_cq(link->cq);
		ibv_dereg_mr(link->mr);
		ibv_dealloc_pd(link->pd);
	}
	assert_int_equal(rdma_destroy_id(link->id), 0);
	rdma_destroy_event_channel(link->channel);
	free(link->bytes);
}

/* --- either transport --- */

/* A connection for the queue `qid`, before Connect. */
static inline void link_open(struct link *link, uint16_t qid)
{
	*link = (struct link){
		.has_no_receives = link->has_no_receives, .is_half_open = link->is_half_open};
	if (is_rdma)
		link_open_rdma(link, qid);
	else
		client_initialize(&link->client, 0);
}

/* Data to the controller goes in the capsule over TCP, and is read over RDMA. */
static inline void link_send(struct link *link, struct link_command *command)
{
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD};

	if (!command->keeps_psdt)
		command->sqe.psdt = 1;
	if (!command->keeps_cid)
		command->sqe.cid = link->cid++;
	if (is_rdma) {
		link_send_rdma(link, command);
		return;
	}
	if (!command->has_sgl)
		command->sqe.sgl = sgl_of(
			command->body ? NVME_SGL_IN_CAPSULE : NVME_SGL_TRANSPORT, command->bytes);
	pdu.data_bytes = command->body ? command->bytes : 0;
	nvme_sqe_encode(&command->sqe, pdu.sqe);
	client_pdu(&link->client, &pdu, command->body);
}

/* The next completion; false: the target has ended the connection. */
static inline bool link_receive(struct link *link, struct nvme_cqe *ret_cqe)
{
	if (!is_rdma) {
		do
			if (!client_receive(&link->client, received))
				return false;
		while (link->client.rx.pdu.type == TCP_PDU_C2H_DATA ||
			link->client.rx.pdu.type == TCP_PDU_R2T);
		if (link->client.rx.pdu.type == TCP_PDU_C2H_TERM)
			return false;
		assert_int_equal(link->client.rx.pdu.type, TCP_PDU_CAPSULE_RESP);
		*ret_cqe = nvme_cqe_decode(link->client.rx.pdu.cqe);
		return true;
	}
	for (int i = 0; link->cqe_count == link->cqe_taken && !link->is_over; i++) {
		loop_step(loop, 200000);
		link_poll(link);
		assert_in_range(i, 0, STEPS_MAX);
	}
	if (link->cqe_count == link->cqe_taken)
		return false;
	*ret_cqe = link->cqes[link->cqe_taken++ % LINK_RECEIVES];
	return true;
}

static inline struct nvme_cqe link_run(struct link *link, struct link_command command)
{
	struct nvme_cqe cqe = {0};

	link_send(link, &command);
	assert_true(link_receive(link, &cqe));
	assert_int_equal(cqe.cid, command.sqe.cid);
	return cqe;
}

static inline void link_close(struct link *link)
{
	if (is_rdma)
		link_close_rdma(link);
	else
		close(link->client.fd);
}

/* No connection of any host is left. */
static inline void links_await_end(void)
{
	for (int i = 0; i < STEPS_MAX && !target_is_idle(target); i++)
		loop_step(loop, 1000000);
	assert_true(target_is_idle(target));
}

/* Connect with these bytes as its data. */
static inline struct nvme_cqe link_connect_raw(struct link *link,
	const struct nvme_connect *connect, const uint8_t *connect_data, uint32_t bytes)
{
	struct link_command command = {.body = connect_data, .bytes = bytes};

	nvme_connect_encode(connect, &command.sqe);
	return link_run(link, command);
}

static inline struct nvme_cqe link_connect(
	struct link *link, const char *hostnqn, const struct nvme_connect *connect, uint16_t cntlid)
{
	struct nvme_connect_data fields = {
		.cntlid = cntlid, .hostid = {1}, .subnqn = SUBSYSTEM_NQN};
	uint8_t bytes[NVME_CONNECT_DATA_BYTES];

	snprintf(fields.hostnqn, sizeof(fields.hostnqn), "%s", hostnqn);
	nvme_connect_data_encode(&fields, bytes);
	return link_connect_raw(link, connect, bytes, sizeof(bytes));
}

static inline uint16_t link_property_set(struct link *link, uint32_t cc)
{
	struct nvme_property_access access = {.offset = NVME_CC, .value = cc};
	struct link_command command = {0};

	nvme_property_set_encode(&access, &command.sqe);
	return link_run(link, command).status;
}

static inline uint32_t link_property_get(struct link *link, uint32_t offset)
{
	struct nvme_property_access access = {.offset = offset};
	struct link_command command = {0};

	nvme_property_get_encode(&access, &command.sqe);
	return (uint32_t)link_run(link, command).result;
}

/* An enabled controller; returns its identifier. */
static inline uint16_t link_open_admin(struct link *link)
{
	const struct nvme_connect connect = {.sqsize = ENTRIES - 1, .kato_ms = 120000};
	struct nvme_cqe cqe;

	link_open(link, 0);
	cqe = link_connect(link, HOST_NQN, &connect, NVME_CNTLID_DYNAMIC);
	assert_int_equal(cqe.status, NVME_SUCCESS);
	assert_int_equal(link_property_set(link, NVME_CC_DEFAULT | NVME_CC_EN), NVME_SUCCESS);
	return (uint16_t)cqe.result;
}

static inline void link_open_io(struct link *link, uint16_t cntlid, uint16_t sqsize)
{
	const struct nvme_connect connect = {.qid = 1, .sqsize = sqsize};

	link_open(link, 1);
	assert_int_equal(link_connect(link, HOST_NQN, &connect, cntlid).status, NVME_SUCCESS);
}

#endif
