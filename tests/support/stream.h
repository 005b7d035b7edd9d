/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_STREAM_H
#define URNIC_TESTS_SUPPORT_STREAM_H

/*
 * A queue pair over a byte stream. The other end of the stream is another queue pair, or a test
 * that sends any bytes.
 *
 * Each end has a lane of its own, memory that is registered with every right and counts up from 0,
 * modulo 251, and one completion queue. A clock stands still. Invariants are checked after every
 * call.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "iwarp/iwarp.h"

enum {
	STREAM_MEMORY_BYTES = 512 << 10,
	STREAM_DEPTH = 64,
	STREAM_PD = 3,
};

struct stream_options {
	struct iwarp_settings settings;
	uint32_t access; /* enum mr_access, of the queue pair; 0: all */
	uint32_t cq_entries; /* 0: 512 */
	bool is_not_open; /* leave it in INIT */
};

struct stream_end {
	struct arena arena;
	void *arena_memory;
	struct mr_table mrs;
	struct lane lane;
	struct cq cq;
	struct iwarp_qp *iwarp;
	struct qp *qp;
	uint8_t *memory;
	uint32_t key;
	uint64_t now_ns;
	bool is_blocked; /* the last stream_take() has not taken all that it was offered */
	bool has_said_end; /* our half is closed */
	bool is_closed;
	uint32_t events; /* enum signal_event, so far */
};

/* Settings that most tests use: 16 READs each way, no CRC. */
struct iwarp_settings stream_settings(bool is_initiator);

void stream_start(struct stream_end *end, const struct stream_options *options);
void stream_stop(struct stream_end *end);

/*
 * Make both ends of one stream. `a` is the initiator, whatever `options` says. Each byte of `b`'s
 * memory is the complement of that of `a`.
 */
void stream_pair_start(
	struct stream_end *a, struct stream_end *b, const struct stream_options *options);
void stream_pair_stop(struct stream_end *a, struct stream_end *b);

/* Is this part of its memory as it was at first? */
bool stream_is_untouched(const struct stream_end *end, uint32_t at, uint32_t bytes);

/*
 * Fill in a request over local memory [offset, offset + bytes) and the peer's; lkey and list are
 * `sge`.
 */
struct send_wr stream_wr(const struct stream_end *end, const struct stream_end *peer,
	enum wr_opcode opcode, struct sge *sge, uint64_t offset, uint32_t bytes,
	uint64_t remote_offset);
int stream_post(struct stream_end *end, const struct send_wr *wr);
int stream_post_receive(struct stream_end *end, uint64_t wr_id, uint64_t offset, uint32_t bytes);

/* Take up to `room` bytes of what it sends. Returns how many. */
size_t stream_take(struct stream_end *end, uint8_t *to, size_t room);

/* Give it bytes, as few or many at a time as it offers room for. Returns how many it wanted. */
size_t stream_give(struct stream_end *end, const uint8_t *from, size_t bytes);

/* The peer has closed its half, or the connection is lost. */
void stream_give_end(struct stream_end *end, bool is_lost);

/* Time passes. */
void stream_pass(struct stream_end *end, uint64_t ns);

/* The next completion. False when there is none. */
bool stream_poll(struct stream_end *end, struct cqe *ret_cqe);

/* Move bytes both ways, in one piece each, until nothing moves; ends of halves too. */
void stream_run(struct stream_end *a, struct stream_end *b);

#endif
