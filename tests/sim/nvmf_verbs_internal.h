/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two parts of the simulated adapters share: nvmf_verbs.c, the functions of libibverbs,
 * and nvmf_cm.c, those of librdmacm.
 */
#ifndef URNIC_TESTS_SIM_NVMF_VERBS_INTERNAL_H
#define URNIC_TESTS_SIM_NVMF_VERBS_INTERNAL_H

#include "nvmf_verbs.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "nvmf/common/list.h"

enum {
	CHANNELS_MAX = 256, /* by descriptor */
	PRIVATE_BYTES_MAX = 64,
};

/* What has a descriptor: an event channel, or a completion channel. */
struct waiter {
	int fd;
	unsigned machine;
	struct loop_watch *watch;
	struct list items; /* events, or completion queues */
};

struct channel {
	struct rdma_event_channel base;
	struct waiter waiter;
};

struct event {
	struct rdma_cm_event base;
	struct list node;
	uint8_t bytes[PRIVATE_BYTES_MAX];
};

struct completion_channel {
	struct ibv_comp_channel base;
	struct waiter waiter;
};

struct cq {
	struct ibv_cq base;
	struct list node; /* of its channel, with an event */
	struct list completions;
	bool is_armed;
	struct completion_channel *channel;
};

struct completion {
	struct list node;
	struct ibv_wc wc;
};

struct mr {
	struct ibv_mr base;
	struct list node;
	int access;
};

struct request {
	struct list node;
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	bool is_signaled;
	bool is_done; /* and not yet acknowledged */
	uint8_t *data;
	uint32_t bytes;
	uint64_t remote;
	uint32_t key;
};

struct id;

struct qp {
	struct ibv_qp base;
	struct id *id;
	struct cq *cq;
	struct list sends, receives;
	struct loop_timer timer;
	uint64_t silent_since_ns; /* 0: it is not */
	bool is_failed;
};

enum step { STEP_NONE, STEP_ADDRESS, STEP_ROUTE, STEP_REQUEST, STEP_ACCEPT, STEP_READY, STEP_END };

struct id {
	struct rdma_cm_id base;
	struct list node;
	unsigned machine;
	bool is_listener;
	bool is_mute; /* its machine has crashed */
	bool is_over; /* rdma_destroy_id() is about to free it */
	struct id *peer;
	enum step step; /* what the timer brings */
	struct loop_timer timer;
	uint64_t asked_ns; /* when it began to connect */
	uint8_t bytes[PRIVATE_BYTES_MAX];
	uint8_t byte_count;
	uint8_t reads; /* that the client serves at once */
};

struct adapters {
	struct nvmf_world *world;
	struct nvmf_network *network;
	uint64_t latency_ns;
	struct waiter *waiters[CHANNELS_MAX];
	struct ibv_context context[NVMF_MACHINES];
	struct ibv_device device;
	struct list ids, mrs;
	uint32_t next_key;
	unsigned objects[NVMF_MACHINES];
};

extern struct adapters adapters;

/* Zeroed memory. */
void *adapter_make(size_t bytes);
/* When what is sent now arrives. */
uint64_t adapter_soon_ns(void);

/* Give a channel of this machine a descriptor, and take it back. */
void adapter_channel_open(struct waiter *waiter, unsigned machine);
void adapter_channel_close(struct waiter *waiter);

/* Nothing gets to the peer of the connection. */
bool adapter_is_silent(const struct id *id);

/* The queue pair of a new connection, which is not in a list. */
void adapter_qp_init(struct qp *qp);
/* It is in error: all that is posted ends, the first request with `status`. */
void adapter_qp_fail(struct qp *qp, enum ibv_wc_status status);

#endif
