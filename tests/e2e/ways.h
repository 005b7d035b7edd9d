/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_E2E_WAYS_H
#define URNIC_TESTS_E2E_WAYS_H

/*
 * Random verbs programs for two ends, one per seed. Both ends draw the same program, so each knows
 * what the other does. A program is a sequence of steps: requests by one end, or by both, of which
 * at most one has something wrong with it. All that a step can show (completions, events, wake-ups,
 * states, memory) is the same each time the program runs, with or without packets.
 *
 * On an unreliable connection no step has an error or a late receive request, because the responder
 * would only drop the message. The last request of an end is a message: when it has arrived, so
 * have all requests before it. The same holds for datagrams (UD), where each request is a message
 * of one packet.
 *
 * An extended reliable connection (XRC) has three processes: the receiving queue pair is another
 * one's than the shared receive queue that requests name (ways_receiver.h). It has no windows.
 */

#include "peer.h"

enum {
	WAYS_REQUESTS_MAX = 8, /* in a step, per end */
	WAYS_PIECES_MAX = 3, /* of a scatter/gather list */
	WAYS_REQUEST_BYTES = 40000, /* of memory, that each request has to itself */
	WAYS_STEPS_MAX = 6,
	WAYS_INLINE_BYTES = 64,
	WAYS_HEADER_BYTES = 40, /* before a datagram */
	WAYS_UNRELIABLE_BYTES =
		4096, /* of a request: so many fit into a socket that nobody looks at for a while */
};

/* What is wrong with a request. */
enum ways_wrong {
	WRONG_NOTHING,
	WRONG_RKEY, /* nobody's */
	WRONG_BOUNDS,
	WRONG_RIGHTS, /* the region does not grant it */
	WRONG_QP_RIGHTS, /* nor the queue pair */
	WRONG_DOMAIN, /* the region is of another protection domain */
	WRONG_WINDOW, /* the key was a window's */
	WRONG_ALIGNMENT,
	WRONG_NO_RECEIVE,
	WRONG_SHORT_RECEIVE,
	WRONG_RECEIVE_KEY,
	WRONG_LOCAL_KEY,
	WRONG_LOCAL_RIGHTS,
	WRONG_INVALIDATION,
	WRONG_COUNT
};

/* Which of the peer's keys a request names. */
enum ways_key { KEY_REGION, KEY_WINDOW, KEY_READ_ONLY, KEY_WRITE_ONLY, KEY_FOREIGN, KEY_NONE };

struct ways_request {
	enum ibv_wr_opcode opcode;
	unsigned flags;
	enum ways_wrong wrong;
	enum ways_key key;
	uint32_t bytes;
	uint32_t imm;
	uint32_t piece[WAYS_PIECES_MAX]; /* bytes of each */
	uint32_t pieces;
	uint32_t remote_offset;
	uint64_t compare_add, swap;
	/* The receive request that it takes. */
	bool takes_receive;
	uint32_t receive_piece[WAYS_PIECES_MAX];
	uint32_t receive_pieces;
};

enum ways_arm { ARM_NOT, ARM_SOLICITED, ARM_NEXT };

struct ways_step {
	unsigned active; /* ends that post requests: 1, 2 or 3 */
	struct {
		struct ways_request request[WAYS_REQUESTS_MAX];
		uint32_t count;
		bool has_window; /* the peer binds one to a part of its memory first */
		bool is_one_by_one; /* each is posted when the one before is complete */
	} of[2];
	enum ways_arm arm[2]; /* the queue for receives */
	uint32_t receive_late_ms; /* 0: receive requests are there before the requests */
	uint32_t srq_limit[2]; /* of shared receive queues, once requests are there; 0: none */
};

struct ways_program {
	uint32_t mtu_bytes;
	uint8_t rd_atomic;
	uint8_t rnr_retry;
	bool is_all_signaled;
	bool is_unreliable; /* UC or UD */
	bool has_datagrams; /* UD */
	bool is_xrc;
	bool has_srq; /* both ends receive from shared receive queues */
	bool begins_in_rtr; /* end 1 is in RTR when the first message comes */
	uint32_t steps;
	struct ways_step step[WAYS_STEPS_MAX];
};

/* Where the window of a step lies in its owner's memory. */
enum { WAYS_WINDOW_OFFSET = 4096, WAYS_WINDOW_BYTES = 16384 };

void ways_draw(struct ways_program *program, uint64_t seed);

/* The index of the request that goes wrong; `count` when none does. */
uint32_t ways_wrong_index(const struct ways_step *step, unsigned end);

/* Run it with the other end, printing what it shows. */
struct ways;
struct ways_receiver;
struct ways *ways_open(struct peer *peer, struct ways_receiver *receiver);
void ways_run(struct ways *ways, const struct ways_program *program, uint64_t seed);
void ways_close(struct ways *ways);

#endif
