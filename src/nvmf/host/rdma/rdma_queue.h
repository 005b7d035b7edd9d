/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_HOST_RDMA_QUEUE_H
#define URNIC_NVMF_HOST_RDMA_QUEUE_H

/*
 * The host's end of NVMe/RDMA: what the files rdma_*.c of this folder share.
 *
 * A queue is an RC queue pair with one completion queue and memory of its own, all registered once:
 *
 *     capsules    a command capsule for each slot, then a response capsule for each receive request
 *     pool        the data of commands. The controller reads and writes it by RDMA
 *
 * Data is copied between the caller's buffers and the pool. So the controller has access to no
 * other memory of the program, and not to the caller's buffers after the command is done. Small
 * data to the controller travels in the capsule, if the controller allows it.
 *
 * A command has a slot from submit() to done(). Its buffers are in use until both its SEND has
 * completed and its response has arrived: a response may overtake the acknowledgement of the SEND,
 * which the queue pair may then have to repeat from the buffer.
 *
 * SGLs are keyed without invalidation (40h): a program in user space has no keys that it could use
 * for one command only. A controller that invalidates a key all the same breaks the protocol.
 */

#include <rdma/rdma_cma.h>

#include "nvmf/common/rdma/rdma_completions.h"
#include "nvmf/common/rdma/rdma_pool.h"
#include "nvmf/host/controller/transport.h"

enum {
	HOST_RDMA_CAPSULE_ALIGN = 64,
	/* However much the controller offers. */
	HOST_RDMA_INLINE_BYTES_MAX = 16 << 10,
	HOST_RDMA_DATA_BYTES_MAX = 8 << 20, /* of one command; the SGL has 24 bits */
	HOST_RDMA_POOL_BYTES_MIN = 256 << 10,
};

enum host_rdma_state {
	HOST_RDMA_ADDRESS, /* waits for the device that reaches the address */
	HOST_RDMA_ROUTE, /* waits for the route */
	HOST_RDMA_REPLY, /* waits for the controller's REP */
	HOST_RDMA_READY,
	HOST_RDMA_LOST,
};

struct host_rdma_slot {
	struct host_command *command; /* NULL: free */
	struct list node; /* in `free`, `waiting` or `outgoing` */
	uint8_t *buffer; /* in the pool; NULL: none */
	uint32_t inline_bytes; /* of data in the capsule */
	uint16_t generation;
	bool awaits_send;
	bool awaits_response;
	bool is_posted;
};

struct host_rdma {
	struct host_queue queue;
	struct host_queue_settings settings;
	enum host_rdma_state state;

	struct rdma_event_channel *events;
	struct loop_watch events_watch;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct rdma_completions completions;
	struct rdma_pool capsules;
	struct rdma_pool pool;

	uint32_t inline_bytes_max; /* 0: no data in capsules */
	uint32_t capsule_bytes; /* from one command capsule to the next */
	uint32_t receive_count;
	unsigned done_count; /* since the last poll() */

	struct host_rdma_slot *slots; /* settings.depth */
	struct list free;
	struct list waiting; /* slots without room in the pool, in order */
	struct list outgoing; /* slots whose SENDs are to be posted, in order */
	struct list pending; /* commands, in the order of submission */

	struct loop_work send;
};

/* Connect: 0 or -errno with `ret_reason`. Later it ends in READY and connected(), or in LOST. */
int host_rdma_connect(struct host_rdma *rdma, char *ret_reason);

/* Free what a connection uses, in any state. No transfer uses the memory any more. */
void host_rdma_disconnect(struct host_rdma *rdma);

/* The connection is over: call lost(), once. */
__attribute__((format(printf, 3, 4))) void host_rdma_lost(
	struct host_rdma *rdma, int error, const char *format, ...);

/* A work completion. */
void host_rdma_completed(struct rdma_completions *completions, const struct ibv_wc *wc);

/* Post the receive request `index`. False if the queue pair refuses it. */
bool host_rdma_post_receive(struct host_rdma *rdma, uint32_t index);

/* Send what waits for room in the pool. */
void host_rdma_resume(struct host_rdma *rdma);

/*
 * Post what is to be sent, in lists: an adapter in software then sends the packets together, and
 * the controller wakes up once. The loop does so behind the callbacks of its round.
 */
void host_rdma_send(struct host_rdma *rdma);

void host_rdma_submit(struct host_queue *queue, struct host_command *command);

/* The command of `slot` is done with `end`: the slot is free. */
void host_rdma_finish(struct host_rdma *rdma, struct host_rdma_slot *slot, enum host_end end);

#endif
