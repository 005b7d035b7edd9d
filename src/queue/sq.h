/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queues.
 *
 * A ring of work requests in NIC memory, each slot with room for the scatter/gather entries and
 * inline bytes that the queue was created for. Four indices run through it, all counting up
 * forever, their low bits naming the slot:
 *
 *     released <= completed <= ... sent ... <= posted
 *
 * `posted` moves when the application posts, `completed` when a request is done, `released` when
 * its completion was polled: only then may the slot be used again, as on adapters. Requests that
 * complete without a completion are released by the next one that has one. What lies between
 * `completed` and `posted` is the transport's business.
 *
 * Threads: everything runs under the lane's lock except sq_release(), which the poller calls.
 */
#ifndef URNIC_QUEUE_SQ_H
#define URNIC_QUEUE_SQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "memory/copy.h"
#include "wire/opcode.h"
#include "wire/psn.h"

enum wr_opcode {
#define WORK_REQUEST(name, number, completion, operation, types, flags) WR_##name = (number),
#include "queue/work_request.def"
#undef WORK_REQUEST
	WR_OPCODE_COUNT
};

/* The values of enum ibv_send_flags. */
enum send_flags {
	SEND_FENCE = 1 << 0,
	SEND_SIGNALED = 1 << 1,
	SEND_SOLICITED = 1 << 2,
	SEND_INLINE = 1 << 3,
	SEND_IP_CSUM = 1 << 4, /* asks an adapter to fill in checksums, which this one does not */
};

struct wr_info {
	const char *name; /* NULL for a number that is no work request */
	uint32_t wc_opcode;
	enum opcode_operation operation;
	uint32_t type_mask; /* 1 << enum qp_type */
	bool has_imm;
	bool has_invalidate;
	bool takes_receive;
	bool has_answer; /* complete only when its own answer has come */
	bool fills_list; /* data comes into its scatter/gather list */
	bool has_list;
	bool is_local; /* sends nothing */
};

extern const struct wr_info wr_table[WR_OPCODE_COUNT];

/* The longest message (IBTA 9.7.1.1: 2^31). */
#define MESSAGE_BYTES_MAX (1u << 31)

/* Where one datagram goes. */
struct datagram_target {
	uint32_t path; /* its id (struct qp_path), or DATAGRAM_PATH_DENIED */
	uint32_t qpn;
	uint32_t qkey; /* with its top bit set, that of the sending queue pair goes instead */
	uint32_t rate_kbps; /* the static rate of the path; 0: that of the port */
};

/*
 * In place of a path: the address handle is of another protection domain. No path has this id
 * (port/udp.h).
 */
#define DATAGRAM_PATH_DENIED (UINT32_MAX - 1)

/* BIND_MW: `rkey` is the key that the window shall have, `remote_address` its first byte. */
struct wr_bind {
	uint64_t bytes;
	uint32_t region_key;
	uint32_t access; /* enum mr_access */
};

/* FLUSH: of the range at `remote_address` in `rkey`. */
struct wr_flush {
	uint32_t bytes;
	uint8_t placement; /* FETH_PLACEMENT_ bits */
	uint8_t selectivity; /* enum feth_selectivity */
};

/* What the application asks for; the parts that its opcode does not use are ignored. */
struct send_wr {
	uint64_t wr_id;
	uint32_t opcode; /* enum wr_opcode, from the user: any value */
	uint32_t flags; /* enum send_flags */
	uint32_t imm; /* immediate data in host order, or the key to invalidate */
	uint32_t rkey;
	uint32_t srqn; /* on XRC queue pairs: the peer's shared receive queue */
	uint64_t remote_address;
	union {
		struct {
			uint64_t compare_add; /* COMPARE_SWAP: compare with; FETCH_ADD: add */
			uint64_t swap;
		};
		struct datagram_target datagram; /* on UD queue pairs */
		struct wr_bind bind;
		struct wr_flush flush;
	};
	const struct sge *sge;
	uint32_t sge_count;
};

/* A posted work request. */
struct send_wqe {
	uint64_t wr_id;
	uint32_t opcode; /* enum wr_opcode */
	uint32_t flags;
	uint32_t imm;
	uint32_t rkey;
	uint64_t remote_address;
	union {
		struct {
			uint64_t compare_add;
			uint64_t swap;
		};
		struct datagram_target datagram;
		struct wr_bind bind;
		struct wr_flush flush;
	};
	uint32_t total_bytes; /* 0 to 2^31 */
	uint32_t sge_count;
	/* The transport's own, from when it starts to send it. */
	union {
		struct { /* in packets */
			struct psn first_psn;
			uint32_t packet_count;
			uint32_t ssn; /* its number among the messages that the responder counts */
		};
		struct { /* over iWARP */
			uint64_t end_position; /* in the byte stream, behind its last FPDU */
			bool is_answered; /* a READ or atomic: its response was placed */
		} stream;
	};
	uint16_t is_started;
	uint16_t goes_by_packets; /* it cannot be executed without (qp.h, struct qp_local_ops) */
	uint32_t srqn;
	/* The list, or, with SEND_INLINE, the bytes themselves. */
	union {
		struct sge sge[1];
		uint8_t inline_bytes[1];
	};
};

struct send_queue {
	uint32_t capacity; /* slots: a power of two */
	uint32_t depth; /* requests that may be outstanding: what the user asked for */
	uint32_t stride_bytes;
	uint32_t sge_count_max;
	uint32_t inline_bytes_max;
	uint32_t posted;
	uint32_t completed;
	_Atomic uint32_t released;
	uint64_t reserved[4];
};

/*
 * Create a queue in `arena`. `depth` 0 to 2^20; returns its offset, or 0 when the arena is full.
 */
uint64_t sq_create(
	struct arena *arena, uint32_t depth, uint32_t sge_count_max, uint32_t inline_bytes_max);
void sq_destroy(struct arena *arena, uint64_t offset);

static inline struct send_wqe *sq_at(struct send_queue *sq, uint32_t index)
{
	uint8_t *slots = (uint8_t *)(sq + 1);

	return (struct send_wqe *)(void *)(slots +
		(uint64_t)(index & (sq->capacity - 1)) * sq->stride_bytes);
}

/*
 * Slot `index`, which is not before `posted`, to be written; NULL when `depth` requests are
 * outstanding.
 */
static inline struct send_wqe *sq_slot(struct send_queue *sq, uint32_t index)
{
	uint32_t released = atomic_load_explicit(&sq->released, memory_order_acquire);

	return index - released < sq->depth ? sq_at(sq, index) : NULL;
}

/*
 * Requests that are being built in the slots behind `posted`, where nobody looks, and are posted
 * all at once (qp_post_batch). The poster keeps others from posting meanwhile; the lane's lock is
 * not needed.
 */
struct sq_batch {
	struct send_queue *sq;
	uint32_t first; /* sq->posted when it was begun */
	uint32_t count;
	struct send_wqe *last; /* of them, when there are any */
};

/* Begin anew: there are none yet. */
static inline void sq_batch_begin(struct sq_batch *batch)
{
	batch->first = batch->sq->posted;
	batch->count = 0;
}

/*
 * One more request, not yet filled in. NULL when the queue is full.
 */
static inline struct send_wqe *sq_batch_add(struct sq_batch *batch)
{
	struct send_wqe *wqe = sq_slot(batch->sq, batch->first + batch->count);

	if (wqe) {
		batch->count++;
		batch->last = wqe;
	}
	return wqe;
}

/*
 * Copy a checked work request into the next slot. Inline bytes are copied from the addresses in the
 * list as they are: the application's own memory, no key needed. Returns 0, or -ENOMEM when `depth`
 * requests are outstanding.
 */
int sq_post(struct send_queue *sq, const struct send_wr *wr, uint32_t total_bytes);

/*
 * The completion of request `index` was polled: its slot, and all before it, are free. Any thread.
 */
static inline void sq_release(struct send_queue *sq, uint32_t index)
{
	atomic_store_explicit(&sq->released, index + 1, memory_order_release);
}

/* Empty the queue (reset). */
void sq_reset(struct send_queue *sq);

#endif
