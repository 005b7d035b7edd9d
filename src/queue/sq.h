/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queues.
 *
 * A send queue is a ring of work requests in NIC memory. Each slot has room for the scatter/gather
 * entries and inline bytes that the queue was created for. Indices count work requests from 0 on,
 * modulo 2^32; their low bits select the slot. At any time:
 *
 *     released <= completed <= ... sent ... <= posted
 *
 * `posted` advances when the application posts, `completed` when a request is done. `released`
 * advances when the application polls a completion; only then may the slot be reused, as on
 * adapters. A request without a completion is released together with the next request that has a
 * completion. The transport manages the requests between `completed` and `posted`.
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

/* The values are those of enum ibv_send_flags. */
enum send_flags {
	SEND_FENCE = 1 << 0,
	SEND_SIGNALED = 1 << 1,
	SEND_SOLICITED = 1 << 2,
	SEND_INLINE = 1 << 3,
	SEND_IP_CSUM = 1 << 4, /* asks for checksums in the packet; urnic fills in none */
};

struct wr_info {
	const char *name; /* NULL for a number that is no work request */
	uint32_t wc_opcode;
	enum opcode_operation operation;
	uint32_t type_mask; /* 1 << enum qp_type */
	bool has_imm;
	bool has_invalidate;
	bool takes_receive;
	bool has_answer; /* the request completes only when its own response has come */
	bool fills_list; /* the response is written to the request's scatter/gather list */
	bool has_list;
	bool is_local; /* the request sends nothing */
};

extern const struct wr_info wr_table[WR_OPCODE_COUNT];

/* The longest message (IBTA 9.7.1.1: 2^31). */
#define MESSAGE_BYTES_MAX (1u << 31)

/* The destination of a datagram. */
struct datagram_target {
	uint32_t path; /* the path's id (struct qp_path), or DATAGRAM_PATH_DENIED */
	uint32_t qpn;
	uint32_t qkey; /* if its top bit is set, the sending queue pair's Q_Key is sent instead */
	uint32_t rate_kbps; /* the path's static rate; 0: the rate of the port */
};

/*
 * A value in place of a path id (port/udp/udp.h): the address handle is of another protection
 * domain.
 */
#define DATAGRAM_PATH_DENIED (UINT32_MAX - 1)

/*
 * A BIND_MW. The request's `rkey` is the key that the window will have; `remote_address` is the
 * address of the window's first byte.
 */
struct wr_bind {
	uint64_t bytes;
	uint32_t region_key;
	uint32_t access; /* enum mr_access */
};

/* A FLUSH of the range at the request's `remote_address` in the region of its `rkey`. */
struct wr_flush {
	uint32_t bytes;
	uint8_t placement; /* FETH_PLACEMENT_ bits */
	uint8_t selectivity; /* enum feth_selectivity */
};

/* A request of the application; fields that its opcode does not use are ignored. */
struct send_wr {
	uint64_t wr_id;
	uint32_t opcode; /* enum wr_opcode; the user may have set any value */
	uint32_t flags; /* enum send_flags */
	uint32_t imm; /* immediate data in host order, or the key to invalidate */
	uint32_t rkey;
	uint32_t srqn; /* on XRC queue pairs: the number of the peer's shared receive queue */
	uint64_t remote_address;
	union {
		struct {
			uint64_t compare_add; /* the value to compare with, or to add */
			uint64_t swap;
		};
		struct datagram_target datagram; /* used on UD queue pairs */
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
	/* The transport's fields, valid from when it starts to send the request. */
	union {
		struct { /* for a request that is sent in RoCE packets */
			struct psn first_psn;
			uint32_t packet_count;
			/*
			 * The request's number among the messages that the responder's MSN counts
			 */
			uint32_t ssn;
		};
		struct { /* for a request that is sent over iWARP */
			/* The position in the byte stream behind the request's last FPDU */
			uint64_t end_position;
			bool is_answered; /* true for a READ or atomic whose response was placed */
		} stream;
	};
	uint16_t is_started;
	/* The same-host transport must not execute the request (qp.h, struct qp_local_ops) */
	uint16_t goes_by_packets;
	uint32_t srqn;
	/* The scatter/gather list, or with SEND_INLINE the payload. */
	union {
		struct sge sge[1];
		uint8_t inline_bytes[1];
	};
};

struct send_queue {
	uint32_t capacity; /* number of slots, a power of two */
	uint32_t depth; /* the most outstanding requests, as the program requested */
	uint32_t stride_bytes;
	uint32_t sge_count_max;
	uint32_t inline_bytes_max;
	uint32_t posted;
	uint32_t completed;
	_Atomic uint32_t released;
	uint64_t slots_distance; /* from this header to the first slot, modulo 2^64 */
	uint64_t reserved[3];
};

/* `depth` is 0 to 2^20. Returns the offset of the queue, or 0 when the arena is full. */
uint64_t sq_create(
	struct arena *arena, uint32_t depth, uint32_t sge_count_max, uint32_t inline_bytes_max);
void sq_destroy(struct arena *arena, uint64_t offset);

static inline struct send_wqe *sq_at(struct send_queue *sq, uint32_t index)
{
	uint8_t *slots = (uint8_t *)((uintptr_t)sq + sq->slots_distance);

	return (struct send_wqe *)(void *)(slots +
		(uint64_t)(index & (sq->capacity - 1)) * sq->stride_bytes);
}

/*
 * The slot for the request number `index`, which is not posted yet; NULL when the slot is not
 * released, because `depth` requests are outstanding.
 */
static inline struct send_wqe *sq_slot(struct send_queue *sq, uint32_t index)
{
	uint32_t released = atomic_load_explicit(&sq->released, memory_order_acquire);

	return index - released < sq->depth ? sq_at(sq, index) : NULL;
}

/*
 * Requests that a thread builds in the slots behind `posted`, and then posts all at once
 * (qp_post_batch). The lane does not read these slots before the post. The thread does not hold the
 * lane's lock while it builds, but keeps other threads from posting to this queue.
 */
struct sq_batch {
	struct send_queue *sq;
	uint32_t first; /* sq->posted when the batch began */
	uint32_t count;
	struct send_wqe *last; /* the last request; undefined while `count` is 0 */
};

/* Begin an empty batch. */
static inline void sq_batch_begin(struct sq_batch *batch)
{
	batch->first = batch->sq->posted;
	batch->count = 0;
}

/* Add a request. Returns its slot, which the caller fills in; NULL when the queue is full. */
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
 * Copy a work request, which the caller has checked, into the next slot. With SEND_INLINE the
 * function copies the bytes at the list's addresses, and ignores the lkeys. Returns 0, or -ENOMEM
 * when `depth` requests are outstanding.
 */
int sq_post(struct send_queue *sq, const struct send_wr *wr, uint32_t total_bytes);

/*
 * The application has polled the completion of request number `index`. Frees the request's slot,
 * and all slots before it. Any thread may call.
 */
static inline void sq_release(struct send_queue *sq, uint32_t index)
{
	atomic_store_explicit(&sq->released, index + 1, memory_order_release);
}

#endif
