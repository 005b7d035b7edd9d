/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_RDMA_QUEUE_H
#define URNIC_NVMF_TARGET_RDMA_QUEUE_H

/*
 * A queue of the target's RDMA transport: what the files rdma*.c of this folder share.
 *
 * A queue is an RC queue pair with its own protection domain, completion queue and memory. So a key
 * that one host knows gives no access to the data of another host. The memory of a queue:
 *
 *     capsules    a receive buffer for each entry, then a response capsule for each slot
 *     pool        the data of commands, which the target moves by RDMA READ and WRITE
 *
 * A command uses its receive buffer until its response is posted. The buffer is posted again just
 * before the response, so that the host's next command always finds a receive request. A command
 * has a slot from its arrival until the SEND of its response has completed. There are twice as many
 * slots as entries, and at most `entries` responses are posted. A command that arrives before
 * ESTABLISHED waits in its receive buffer.
 *
 * A queue ends in this order: the transport destroys the queue pair, so that no data moves any
 * more; the commands that waited for data end with NVME_SQ_DELETED; the transport calls
 * target_queue_closed(); the core responds to the last command; the transport frees the queue. Each
 * of these steps runs directly from the loop, never within a call by the core.
 */

#include <rdma/rdma_cma.h>

#include "nvmf/common/list.h"
#include "nvmf/common/rdma/rdma_completions.h"
#include "nvmf/common/rdma/rdma_pool.h"
#include "nvmf/common/rdma/rdma_private.h"
#include "nvmf/target/rdma/rdma.h"

enum {
	TARGET_RDMA_DATA_BYTES_MAX = 512 << 10,
	TARGET_RDMA_ALIGN = 64,
	/* With one of these bits, wr_id has the index of a slot; else of a receive buffer. */
	TARGET_RDMA_WR_RESPONSE = 1 << 16,
	TARGET_RDMA_WR_READ = 2 << 16,
	TARGET_RDMA_WR_INDEX = (1 << 16) - 1,
};

struct target_rdma {
	struct target *target;
	struct loop *loop;
	struct rdma_event_channel *events;
	struct loop_watch events_watch;
	struct list queues;
	unsigned queue_count;
	struct loop_work flush; /* calls target_flush() after a batch of commands */
	struct loop_work busy;
	bool is_busy;
};

struct target_rdma_listener {
	struct target_rdma *rdma;
	struct target_port *port;
	struct rdma_cm_id *id;
	uint32_t in_capsule_bytes;
	uint32_t entries_max;
};

enum target_rdma_state {
	TARGET_RDMA_ACCEPTED, /* waits for ESTABLISHED */
	TARGET_RDMA_LIVE,
	TARGET_RDMA_ENDING, /* waits for the completion of responses, then ends */
	TARGET_RDMA_ENDED, /* waits for the commands that the core has */
};

/* The state of a slot, by what its command waits for. */
enum target_rdma_stage {
	TARGET_RDMA_FREE,
	TARGET_RDMA_AT_CORE,
	TARGET_RDMA_NEEDS_ROOM, /* fetch() or prepare() waits for room in the pool */
	TARGET_RDMA_NEEDS_READ, /* the RDMA READ is to be posted, perhaps after other READs */
	TARGET_RDMA_READS, /* the RDMA READ is posted */
	TARGET_RDMA_NEEDS_SEND, /* the response is to be posted, perhaps after other responses */
	TARGET_RDMA_RESPONDS, /* the SEND of the response is posted */
};

struct target_rdma_command {
	struct target_command command;
	enum target_rdma_stage stage;
	struct list node; /* in the queue's list for `stage`; AT_CORE and READS have no list */
	uint32_t receive; /* the index of the command's receive buffer */
	uint32_t received_bytes;
	uint8_t *buffer; /* in the pool; NULL: none */
	uint32_t buffer_bytes;
};

struct target_rdma_queue {
	struct target_queue queue;
	struct target_rdma *rdma;
	enum target_rdma_state state;
	struct list node;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct rdma_completions completions;
	struct rdma_pool capsules;
	struct rdma_pool pool;

	uint32_t entries; /* the number of receive requests: hsqsize + 1 */
	uint32_t capsule_bytes;
	uint32_t capsule_stride;
	uint32_t slot_count;
	struct target_rdma_command *slots;
	struct list free;
	struct list needs_room;
	struct list needs_read;
	struct list needs_send;
	struct list responding; /* in the order of their SENDs */
	uint32_t reads, reads_max; /* how many RDMA READs are posted and may be posted */
	uint32_t responses; /* how many SENDs of responses are posted */
	uint32_t at_core; /* how many commands the core has not responded to */
	bool is_resuming;

	/* Received capsules that wait for ESTABLISHED, in order. */
	struct ibv_wc *parked;
	uint32_t parked_first, parked_count;

	struct loop_work send;
	struct loop_work end;
	struct loop_timer end_timer;
	struct loop_work release;
};

/* Functions of rdma_queue.c. */
extern const struct target_transport target_rdma_transport;

/*
 * Create a queue for a connection request. Returns RDMA_ACCEPT; or the status for the REJ, with
 * nothing allocated.
 */
enum rdma_reject target_rdma_queue_create(struct target_rdma_listener *listener,
	struct rdma_cm_id *id, const struct rdma_conn_param *param,
	struct target_rdma_queue **ret_queue);

/* The connection is established: pass the parked commands to the core. */
void target_rdma_queue_establish(struct target_rdma_queue *queue);

/* The connection is lost, or its host has broken the protocol: let the loop end the queue. */
void target_rdma_queue_lose(struct target_rdma_queue *queue);

/* Free a queue, its memory and its verbs objects. The queue may be incomplete. */
void target_rdma_queue_free(struct target_rdma_queue *queue);

/* Functions of rdma_command.c. */
void target_rdma_completed(struct rdma_completions *completions, const struct ibv_wc *wc);
void target_rdma_fetch(struct target_command *command);
void target_rdma_prepare(struct target_command *command);
void target_rdma_respond(struct target_command *command);

/* Pass the commands that wait in receive buffers to the core. */
void target_rdma_unpark(struct target_rdma_queue *queue);

/* The connection has ended: end the commands that wait for data with NVME_SQ_DELETED. */
void target_rdma_abandon(struct target_rdma_queue *queue);

/* Functions of rdma_send.c. */
uint8_t *target_rdma_capsule(const struct target_rdma_queue *queue, uint32_t receive);
bool target_rdma_post_receive(struct target_rdma_queue *queue, uint32_t index);

/*
 * Post the RDMA READs and responses of the queue. If the queue pair refuses them, lose the queue.
 */
void target_rdma_send(struct target_rdma_queue *queue);

#endif
