/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_HOST_RDMA_QUEUE_H
#define URNIC_NVMF_HOST_RDMA_QUEUE_H

/*
 * The host's end of NVMe/RDMA: what the files rdma_*.c of this folder share.
 *
 * A queue is an RC queue pair with one completion queue and two regions of memory, which the queue
 * registers when it is created:
 *
 *     capsules    a command capsule for each slot, then a response capsule for each receive request
 *     pool        the data of commands. The controller reads and writes it by RDMA
 *
 * The queue copies data between the caller's buffers and the pool. So the controller has access to
 * no other memory of the program, and to no buffer of the caller. Small data to the controller
 * travels in the capsule, if the controller allows it.
 *
 * A command has a slot from submit() to done(). The queue calls done() when the SEND of the command
 * has completed and the response has arrived. The response alone is not enough, because it may
 * overtake the acknowledgement of the SEND, and the queue pair may then send the capsule again.
 *
 * SGLs are keyed without invalidation (40h), because all commands use the rkey of the pool. A
 * controller that invalidates the key breaks the protocol.
 */

#include <rdma/rdma_cma.h>

#include "nvmf/common/rdma/rdma_completions.h"
#include "nvmf/common/rdma/rdma_pool.h"
#include "nvmf/host/controller/transport.h"

enum {
	HOST_RDMA_CAPSULE_ALIGN = 64,
	/* The most data in a capsule, even if IOCCSZ allows more. */
	HOST_RDMA_INLINE_BYTES_MAX = 16 << 10,
	HOST_RDMA_DATA_BYTES_MAX = 8 << 20, /* of one command; a keyed SGL's length has 24 bits */
	HOST_RDMA_POOL_BYTES_MIN = 256 << 10,
};

enum host_rdma_state {
	HOST_RDMA_ADDRESS, /* waits for rdma_cm to find the device that reaches the address */
	HOST_RDMA_ROUTE, /* waits for the route */
	HOST_RDMA_REPLY, /* waits for the controller's REP */
	HOST_RDMA_READY,
	HOST_RDMA_LOST,
};

struct host_rdma_slot {
	struct host_command *command; /* NULL: the slot is free */
	struct list node; /* in `free`, `waiting` or `outgoing` */
	uint8_t *buffer; /* in the pool; NULL: the command has no buffer */
	uint32_t inline_bytes; /* how many bytes of data are in the capsule */
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
	uint32_t capsule_bytes; /* the distance from one command capsule to the next */
	uint32_t receive_count;
	unsigned done_count; /* how many commands were done since poll() was called */

	struct host_rdma_slot *slots; /* an array of settings.depth slots */
	struct list free;
	struct list waiting; /* slots that wait for room in the pool, in order of submission */
	struct list outgoing; /* slots whose SENDs are to be posted, in order */
	struct list pending; /* commands, in the order of submission */

	struct loop_work send;
};

/*
 * Begin to connect. Returns 0; or -errno with `ret_reason`. Later the queue calls either
 * connected(), in state HOST_RDMA_READY, or lost(), in state HOST_RDMA_LOST.
 */
int host_rdma_connect(struct host_rdma *rdma, char *ret_reason);

/*
 * Free the queue pair and the memory of a connection, in any state. Afterwards no transfer uses the
 * memory.
 */
void host_rdma_disconnect(struct host_rdma *rdma);

/* The connection is over: call lost(), unless it was called before. */
__attribute__((format(printf, 3, 4))) void host_rdma_lost(
	struct host_rdma *rdma, int error, const char *format, ...);

/* Handle a work completion. */
void host_rdma_completed(struct rdma_completions *completions, const struct ibv_wc *wc);

/* Post the receive request with this `index`. Returns false if the queue pair refuses it. */
bool host_rdma_post_receive(struct host_rdma *rdma, uint32_t index);

/* Send the commands that wait for room in the pool, while there is room. */
void host_rdma_resume(struct host_rdma *rdma);

/*
 * Post the SENDs of `outgoing` in chains. An adapter in software then sends their packets together,
 * and the controller wakes up once. The loop calls this after the callbacks of its step.
 */
void host_rdma_send(struct host_rdma *rdma);

void host_rdma_submit(struct host_queue *queue, struct host_command *command);

/* End the command of `slot`: free the slot, then call done() with `end`. */
void host_rdma_finish(struct host_rdma *rdma, struct host_rdma_slot *slot, enum host_end end);

#endif
