/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LANE_CAPTURE_H
#define URNIC_LANE_CAPTURE_H

/*
 * The capture of a lane's requests within this host.
 *
 * The word capture_public.session turns the capture on; the capturing process may set and clear it
 * at any time. While the word is set, the lane records each request that it executes without
 * packets: it writes to a ring in NIC memory the packets that would have carried the request. A
 * packet that differs little from an earlier one is recorded as its repetition (wire/captured.h).
 * The capturing process empties the ring. If the ring is full, the lane drops and counts the
 * packet; it never waits. Once a second the lane calls capture_owner.look(), which checks that the
 * capturing process still exists.
 *
 * While the word is not set, the lane only reads the word, once for each request or batch.
 *
 * Threads: the lane's lock covers everything here.
 */

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arith.h"
#include "base/prefetch.h"
#include "base/record_ring.h"
#include "wire/captured.h"

/* A value of snap_bytes: no payload. */
#define CAPTURE_HEADERS 0u

/* For this time after it has read the clock, the lane derives the time from ticks. */
#define CAPTURE_TICKS_NS 20000u

/* How often the lane checks whether the capturing process still exists. */
#define CAPTURE_LOOK_NS 1000000000u

/* How far ahead of a repetition the lane prefetches the ring. */
enum { CAPTURE_PREFETCH_BYTES = 512 };

/* The state of captures, in NIC memory. All lanes of a process share it. */
struct capture_public {
	/*
	 * 0: there is no capture. Each capture has another number. A new number shows the lane that
	 * the reader of this capture has not read the records of the earlier one.
	 */
	alignas(64) _Atomic uint32_t session;
	/*
	 * How many bytes of each packet to record, from its BTH on; CAPTURE_HEADERS: its headers
	 */
	_Atomic uint32_t snap_bytes;
	_Atomic uint32_t with_events; /* record posts, completions and state changes, too */
};

/* What the NIC provides for a lane's capture. */
struct capture_owner {
	uint64_t (*now_ns)(void); /* monotonic */
	/*
	 * A counter that is faster to read, with an unknown rate. The counters of two processors
	 * may differ.
	 */
	uint64_t (*ticks)(void);
	/*
	 * The lane calls this while it captures packets. Clears `session` if the process that set
	 * it has ended.
	 */
	void (*look)(void);
};

/*
 * Computes the time from ticks between two readings of the clock, because a reading takes as long
 * as the request itself.
 */
struct capture_clock {
	uint64_t read_ns; /* the last reading; 0: none */
	uint64_t read_ticks;
	uint64_t last_ns; /* the last result of capture_now_ns() */
	uint64_t ticks_max; /* this many ticks after a reading, the lane reads the clock again */
	uint64_t ns_per_tick; /* times 2^32 */
};

struct capture {
	struct capture_public *public;
	struct record_ring *ring;
	const struct capture_owner *owner;
	uint64_t looked_ns; /* when owner->look() was called; 0: never */
	uint32_t model_count; /* models that the lane has begun */
	struct capture_clock clock;
};

/*
 * A model of the lane (struct captured). The user of the model keeps this struct. The reader of one
 * session knows the model until the lane has begun CAPTURED_MODELS others.
 */
struct capture_model {
	uint32_t session; /* 0: there is no model */
	uint32_t count; /* capture.model_count when the model began */
	struct captured_repeat last; /* as in struct captured_model */
};

/* The capture_public of a lane that is not started yet. Its `session` is always 0. */
extern const struct capture_public capture_nowhere;

/* The number of the present capture; 0: there is none. */
static inline uint32_t capture_session(const struct capture_public *public)
{
	return atomic_load_explicit(&public->session, memory_order_relaxed);
}

/*
 * The present time, never earlier than the last one. If the thread has changed its processor, the
 * time may be wrong by CAPTURE_TICKS_NS. The lane records the same time for all packets of a
 * request.
 */
uint64_t capture_now_ns(struct capture *capture);

/*
 * Does the ring lack room for a record of the largest size? Then count `packets` as dropped. The
 * lane calls this before it makes the packets of a request, because making them takes time.
 */
bool capture_drops(struct capture *capture, uint32_t packets, uint64_t now_ns);

/*
 * Write a packet to the ring. Returns false when it is dropped.
 *
 * `about`  Describes the packet. The function sets captured_bytes; the caller has set all other
 *          fields.
 * `bytes`  The first `count` bytes of the packet from its BTH on. `count` may be less than
 *          about->packet_bytes.
 */
bool capture_put(
	struct capture *capture, struct captured *about, const uint8_t *bytes, uint32_t count);

/*
 * The place in the ring of a record with up to `count` bytes behind it, or NULL. If it is not NULL,
 * write the record there, and end with capture_put_placed() instead of capture_put(). Pass as
 * `count` how many bytes were written behind the record. Do not read from the place
 * (base/record_ring.h).
 */
struct captured *capture_place(struct capture *capture, uint32_t count);
void capture_put_placed(
	struct capture *capture, struct captured *place, uint32_t count, uint64_t now_ns);

/* Begin a model. Returns captured.model of its packet. */
static inline uint32_t capture_model_begin(struct capture *capture, struct capture_model *model)
{
	model->session = capture_session(capture->public);
	model->count = ++capture->model_count;
	model->last.psn = 0;
	return CAPTURED_MODEL | model->count % CAPTURED_MODELS;
}

/* Does the reader know the model, so that a record may repeat it? */
static inline bool capture_model_is_known(
	const struct capture *capture, const struct capture_model *model)
{
	return model->session == capture_session(capture->public) && model->session &&
		capture->model_count - model->count < CAPTURED_MODELS;
}

/*
 * How many payload bytes to record of a packet with `header_bytes` of headers. The headers are
 * always recorded whole.
 */
static inline uint32_t capture_payload_bytes(
	const struct capture *capture, uint32_t header_bytes, uint32_t payload_bytes)
{
	uint32_t snap_bytes =
		atomic_load_explicit(&capture->public->snap_bytes, memory_order_relaxed);

	if (snap_bytes == CAPTURE_HEADERS)
		return 0;
	return min_u32(payload_bytes, snap_bytes > header_bytes ? snap_bytes - header_bytes : 0);
}

/* Does the lane record all headers of each packet? */
static inline bool capture_has_headers(const struct capture *capture)
{
	uint32_t snap_bytes =
		atomic_load_explicit(&capture->public->snap_bytes, memory_order_relaxed);

	return snap_bytes == CAPTURE_HEADERS || snap_bytes >= OPCODE_HEADER_BYTES_MAX;
}

/* As capture_place() and capture_put_placed(), for a repetition or a step with its payload. */
static inline void *capture_repeat_place(struct capture *capture, uint32_t bytes)
{
	uint8_t *place = record_ring_place(capture->ring, bytes);

	/*
	 * The reader's processor has these cache lines, because the reader has emptied this part of
	 * the ring.
	 */
	if (place)
		prefetch_to_write(place + CAPTURE_PREFETCH_BYTES);
	return place;
}

static inline void capture_repeat_put(struct capture *capture, void *place, uint32_t bytes)
{
	record_ring_commit(capture->ring, place, bytes);
}

/* Check whether the capturing process still exists. */
void capture_reader_check(struct capture *capture, uint64_t now_ns);

/* capture_reader_check(), but only once a second. */
static inline void capture_reader_look(struct capture *capture, uint64_t now_ns)
{
	if (now_ns - capture->looked_ns >= CAPTURE_LOOK_NS)
		capture_reader_check(capture, now_ns);
}

/*
 * Write an event of a queue pair to the ring. `about` has the queue pair's number and addresses;
 * the function sets its time and lengths.
 */
void capture_event_put(
	struct capture *capture, struct captured *about, const struct captured_event *event);

#endif
