/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_NVMF_BARE_CONTROLLER_H
#define URNIC_TESTS_SUPPORT_NVMF_BARE_CONTROLLER_H

/*
 * The host's RDMA transport, and a controller on bare verbs that gives right and wrong answers.
 * Both are on one thread. URNIC_TRANSPORTS chooses RoCEv2 or iWARP. main() calls host_begin(), and
 * loop_destroy() at the end.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/rdma/rdma_private.h"
#include "nvmf/host/controller/transport.h"
#include "support/netns.h"

enum {
	PORT = 4420,
	DEPTH = 8,
	DATA_BYTES_MAX = 128 << 10,
	CONTROLLER_BYTES = 512 << 10,
	COMMAND_BYTES = 8192, /* a receive buffer of the controller */
	SEND_AT = 256 << 10, /* where the controller's own data is */
	STEPS_MAX = 60000, /* of a millisecond at most */
};

static inline bool is_iwarp(void)
{
	const char *transports = getenv("URNIC_TRANSPORTS");

	return transports && strcmp(transports, "iwarp") == 0;
}

/* --- the controller --- */

static struct {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id; /* NULL: not connected */
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *bytes;
	/* What it says, and what has happened to it. */
	uint8_t reply[RDMA_REPLY_BYTES];
	size_t reply_bytes;
	enum rdma_reject reject;
	struct rdma_request request;
	bool is_connected, is_over;
	unsigned received; /* commands; their bytes are in `bytes`, one after the other */
	uint32_t received_bytes;
	unsigned sent;
	enum ibv_wc_status status; /* of the last send, READ or WRITE */
} controller;

static inline void controller_receive(unsigned index)
{
	struct ibv_sge sge = {(uintptr_t)controller.bytes + index * COMMAND_BYTES, COMMAND_BYTES,
		controller.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(controller.id->qp, &wr, &bad), 0);
}

static inline void controller_accept(struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
	struct ibv_qp_init_attr attr = {.cap = {16, 2 * DEPTH, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct rdma_conn_param answer = {
		.private_data = controller.reply,
		.private_data_len = (uint8_t)controller.reply_bytes,
		.initiator_depth = param->initiator_depth,
		.rnr_retry_count = 7,
	};
	uint8_t reject[RDMA_REJECT_BYTES];

	assert_int_equal(rdma_request_decode(param->private_data, param->private_data_len, 1024,
				 &controller.request),
		RDMA_ACCEPT);
	if (controller.reject) {
		rdma_reject_encode(controller.reject, reject);
		assert_int_equal(rdma_reject(id, reject, sizeof(reject)), 0);
		assert_int_equal(rdma_destroy_id(id), 0);
		return;
	}
	controller.id = id;
	assert_non_null(controller.pd = ibv_alloc_pd(id->verbs));
	assert_non_null(controller.cq = ibv_create_cq(id->verbs, 64, NULL, NULL, 0));
	assert_non_null(
		controller.mr = ibv_reg_mr(controller.pd, controller.bytes, CONTROLLER_BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	attr.send_cq = attr.recv_cq = controller.cq;
	assert_int_equal(rdma_create_qp(id, controller.pd, &attr), 0);
	for (unsigned i = 0; i < 2 * DEPTH; i++)
		controller_receive(i);
	/* The host may have gone. */
	controller.is_over = rdma_accept(id, &answer) != 0;
}

static inline void controller_open(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	memset(&controller, 0, sizeof(controller));
	rdma_reply_encode(DEPTH + 1, controller.reply);
	controller.reply_bytes = RDMA_REPLY_BYTES;
	assert_non_null(controller.bytes = aligned_alloc(4096, CONTROLLER_BYTES));
	assert_non_null(controller.channel = rdma_create_event_channel());
	assert_int_equal(fcntl(controller.channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(
		rdma_create_id(controller.channel, &controller.listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(controller.listener, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(controller.listener, 4), 0);
}

static inline void controller_close(void)
{
	if (controller.id) {
		rdma_disconnect(controller.id);
		rdma_destroy_qp(controller.id);
		ibv_destroy_cq(controller.cq);
		ibv_dereg_mr(controller.mr);
		ibv_dealloc_pd(controller.pd);
		assert_int_equal(rdma_destroy_id(controller.id), 0);
	}
	assert_int_equal(rdma_destroy_id(controller.listener), 0);
	rdma_destroy_event_channel(controller.channel);
	free(controller.bytes);
}

static inline void controller_poll(void)
{
	struct rdma_cm_event *event;
	struct ibv_wc wc;

	while (rdma_get_cm_event(controller.channel, &event) == 0) {
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			/* Private data lives as long as the event. */
			controller_accept(event->id, &event->param.conn);
		} else if (event->event == RDMA_CM_EVENT_ESTABLISHED) {
			controller.is_connected = true;
		} else if (event->event == RDMA_CM_EVENT_DISCONNECTED) {
			controller.is_over = true;
		}
		rdma_ack_cm_event(event);
	}
	while (controller.cq && ibv_poll_cq(controller.cq, 1, &wc) == 1) {
		if (wc.wr_id < 2 * DEPTH) {
			controller.received += wc.status == IBV_WC_SUCCESS;
			controller.received_bytes = wc.byte_len;
		} else {
			controller.status = wc.status;
			controller.sent++;
		}
	}
}

/* Post a send, READ or WRITE of `bytes` from SEND_AT. */
static inline void controller_post(
	enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t address, uint32_t key)
{
	struct ibv_sge sge = {(uintptr_t)controller.bytes + SEND_AT, bytes, controller.mr->lkey};
	struct ibv_send_wr wr =
				   {
					   .wr_id = 1000,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = opcode,
					   .send_flags = IBV_SEND_SIGNALED,
				   },
			   *bad;

	if (opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_RDMA_WRITE) {
		wr.wr.rdma.remote_addr = address;
		wr.wr.rdma.rkey = key;
	} else if (opcode == IBV_WR_SEND_WITH_INV) {
		wr.invalidate_rkey = key;
	}
	assert_int_equal(ibv_post_send(controller.id->qp, &wr, &bad), 0);
}

static inline void controller_respond(uint16_t cid, uint16_t status)
{
	uint8_t *cqe = controller.bytes + SEND_AT;

	memset(cqe, 0, HOST_CQE_BYTES);
	le16_put(cqe + 12, cid);
	le16_put(cqe + 14, status);
	controller_post(IBV_WR_SEND, HOST_CQE_BYTES, 0, 0);
}

static const uint8_t *controller_command(unsigned index)
{
	return controller.bytes + index * COMMAND_BYTES;
}

/* --- the host --- */

static struct {
	struct loop *loop;
	struct host_queue *queue;
	bool is_connected;
	int error;
	char reason[HOST_REASON_BYTES];
} host;

struct command {
	struct host_command command;
	unsigned done_count;
	enum host_end end;
};

static unsigned done_order[64], done_total;

static inline void note_connected(void *context)
{
	(void)context;
	assert_false(host.is_connected);
	host.is_connected = true;
}

static inline void note_lost(void *context, int error, const char *reason)
{
	(void)context;
	assert_int_equal(host.error, 0);
	host.error = error;
	snprintf(host.reason, sizeof(host.reason), "%s", reason);
}

static inline void note_done(struct host_command *command, enum host_end end)
{
	struct command *own = (struct command *)command;

	own->done_count++;
	own->end = end;
	done_order[done_total++ % 64] = command->sqe[63];
}

static inline struct host_queue_settings settings_of(uint32_t in_capsule_bytes)
{
	struct host_queue_settings settings = {
		.loop = host.loop,
		.qid = 1,
		.cntlid = 7,
		.depth = DEPTH,
		.in_capsule_bytes = in_capsule_bytes,
		.sgls = 1 << 20,
		.data_bytes_max = DATA_BYTES_MAX,
		.connected = note_connected,
		.lost = note_lost,
	};
	struct sockaddr_in *remote = (struct sockaddr_in *)&settings.remote;

	remote->sin_family = AF_INET;
	remote->sin_port = htons(PORT);
	inet_pton(AF_INET, "127.0.0.1", &remote->sin_addr);
	return settings;
}

static inline void host_open(uint32_t in_capsule_bytes)
{
	struct host_queue_settings settings = settings_of(in_capsule_bytes);
	char reason[HOST_REASON_BYTES];

	host.queue = NULL;
	host.is_connected = false;
	host.error = 0;
	done_total = 0;
	if (host_rdma.open(&settings, &host.queue, reason))
		fail_msg("%s", reason);
}

static inline void host_close(void)
{
	host_rdma.close(host.queue);
}

/* Both ends work until the condition holds. */
#define RUN_UNTIL(condition)                                    \
	do {                                                    \
		unsigned steps = 0;                             \
		while (!(condition)) {                          \
			loop_step(host.loop, 1000000);          \
			controller_poll();                      \
			assert_in_range(steps++, 0, STEPS_MAX); \
		}                                               \
	} while (0)

static inline void command_submit(struct command *command, uint8_t number, void *data,
	uint32_t bytes, enum host_direction direction)
{
	*command = (struct command){.command = {
					    .data = data,
					    .data_bytes = bytes,
					    .direction = direction,
					    .done = note_done,
				    }};
	command->command.sqe[0] = 2;
	command->command.sqe[63] = number;
	host_rdma.submit(host.queue, &command->command);
}

static inline void connect_both(uint32_t in_capsule_bytes)
{
	controller_open();
	host_open(in_capsule_bytes);
	RUN_UNTIL(host.is_connected && controller.is_connected);
}

static inline void close_both(void)
{
	host_close();
	controller_close();
}

static uint8_t pattern[DATA_BYTES_MAX], buffer[DATA_BYTES_MAX];

/* Make the namespace and the host's loop. Returns 0, or an exit status. */
static inline int host_begin(void)
{
	if (netns_enter_new() < 0)
		return 77;
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 7 + i / 251);
	return loop_create(&host.loop) ? 1 : 0;
}

#endif
