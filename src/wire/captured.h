/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_CAPTURED_H
#define URNIC_WIRE_CAPTURED_H

/*
 * A captured packet: the packet that would have carried a request or its response, if the request
 * had not been executed within the host.
 *
 * The lane that executes the request writes the addresses, the source port, and the packet from the
 * BTH on, or the beginning of that packet. The reader of the capture adds the rest with
 * captured_frame_make(): IP and UDP headers, and the ICRC.
 *
 * Most packets of a queue pair are like an earlier one but for the PSN, the range of memory and the
 * payload. So the lane may make a packet a model, and then record the next packets like it as
 * repetitions, which take a third of the bytes and less time to write. A repetition that follows
 * the model's last one is a step, which takes an eighth.
 *
 * The structs are plain data and the function is pure, so any thread may call it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/crc.h"
#include "base/gid.h"
#include "wire/bth.h"
#include "wire/headers.h"
#include "wire/icrc.h"
#include "wire/opcode.h"

enum {
	/* The longest packet of any queue pair. */
	CAPTURED_BYTES_MAX = 4160,
	CAPTURED_FRAME_BYTES_MAX =
		IPV6_BYTES + ROCE_UDP_BYTES + CAPTURED_BYTES_MAX + ROCE_ICRC_BYTES,
};

/* A captured packet. Its bytes follow this struct in memory. */
struct captured {
	/*
	 * CAPTURED_MODEL and a number: from here on, the packet is the model with that number. 0:
	 * it is no model.
	 */
	uint32_t model;
	uint32_t packet_bytes; /* number of bytes from BTH to pad */
	uint64_t time_ns; /* monotonic */
	struct gid source; /* `source` and `destination` are of one family */
	struct gid destination;
	/* Index of the network device; 0: the device that has the local address. */
	uint32_t ifindex;
	uint32_t qpn; /* number of the queue pair of the capturing process */
	uint32_t flow_label; /* 20 bits; 0 when unknown */
	/* Bytes that follow this struct: the whole packet, or its beginning. */
	uint32_t captured_bytes;
	uint16_t source_port;
	uint8_t traffic_class;
	uint8_t hop_limit; /* 0: unknown */
	uint32_t is_sent; /* 1: the capturing process sent the packet; 0: it received the packet */
	/*
	 * 0, or CAPTURED_ACKED and an MSN. CAPTURED_ACKED says that the packet is the last of a
	 * request, which the responder has acknowledged with that MSN. captured_answer_make() makes
	 * the packet of the acknowledgement.
	 */
	uint32_t answer;
};

#define CAPTURED_ACKED 0x80000000u

#define CAPTURED_MODEL 0x40000000u
enum { CAPTURED_MODELS = 256 };

/*
 * A repetition: a packet that differs from its model only in these fields and the payload. The
 * payload, or its beginning, follows this struct in memory, without the pad. A record is a
 * repetition if its first word has CAPTURED_REPEAT; the first word of struct captured never has it.
 */
struct captured_repeat {
	uint32_t psn; /* the PSN, and the bit CAPTURED_REPEAT */
	/*
	 * The low 24 bits are the MSN of the packet's AETH, or of its acknowledgement
	 * (captured.answer). Bits 24 to 31 are the number of the model
	 */
	uint32_t msn;
	uint64_t time_ns;
	/* `va`, `rkey` and `bytes` are the fields of the RETH, if the packet has one */
	uint64_t va;
	uint32_t rkey;
	uint32_t bytes; /* the length of the message */
};

#define CAPTURED_REPEAT 0x80000000u

/*
 * The repetition after the last one of its model, with the next PSN and MSN, and the same rkey and
 * length. The payload follows this struct in memory, as above. A record is a step if its first word
 * has both CAPTURED_REPEAT and CAPTURED_STEP.
 */
struct captured_step {
	/* The flags; the number of the model; and in the lower bits the time since then in ns */
	uint32_t word;
	int32_t va; /* the difference to the last repetition's */
};

#define CAPTURED_STEP 0x40000000u
enum { CAPTURED_STEP_NS_BITS = 22 };

/* A model, as the reader of a capture keeps it. All zero: there is none. */
struct captured_model {
	struct captured head;
	struct captured_repeat last; /* the last repetition; without CAPTURED_REPEAT: none */
	uint8_t headers[OPCODE_HEADER_BYTES_MAX];
};

/* A source port in the range of RoCEv2 for `qpn`, for packets that have no path. */
static inline uint16_t captured_port(uint32_t qpn)
{
	return (uint16_t)(ROCE_SOURCE_PORT_MIN | (qpn & (0xffff - ROCE_SOURCE_PORT_MIN)));
}

/* What a queue pair did that is no packet. */
enum captured_event_kind {
	CAPTURED_POST, /* send requests were posted */
	CAPTURED_COMPLETION,
	CAPTURED_STATE, /* the queue pair changed its state */
	CAPTURED_EVENT_KINDS
};

/* An event. It follows a struct captured whose packet_bytes is 0; a packet's is never 0. */
struct captured_event {
	/* CAPTURED_POST: the wr_id of the last of `count` requests that were posted at once */
	uint64_t wr_id;
	uint32_t kind; /* enum captured_event_kind */
	uint32_t number; /* POST: the opcode; COMPLETION: the status; STATE: the new state */
	uint32_t bytes;
	uint32_t count; /* POST: number of requests; COMPLETION: the opcode; STATE: the old state */
};

/* A packet as it would be on the network, from the IP header to the ICRC. */
struct captured_frame {
	uint32_t count; /* number of bytes in `bytes` */
	uint32_t whole; /* length of the whole IP packet */
	uint8_t bytes[CAPTURED_FRAME_BYTES_MAX];
};

/*
 * Make the IP packet of a captured packet.
 *
 * `captured`  Another process may have written it, so it may have any values.
 * `bytes`     The packet: captured->captured_bytes bytes. The caller has checked that they exist.
 *
 * Returns false if *captured has a value that no packet can have.
 */
bool captured_frame_make(
	const struct captured *captured, const uint8_t *bytes, struct captured_frame *ret_frame);

/*
 * Keep a packet as a model. `captured` and `bytes` are those of captured_frame_make(). If no packet
 * may repeat this one, the function clears the model.
 */
void captured_model_keep(
	struct captured_model *model, const struct captured *captured, const uint8_t *bytes);

/*
 * Make the step from a model's last repetition to `next`. Returns false if a step cannot show it,
 * or there is no last one.
 */
static inline bool captured_step_init(struct captured_step *step,
	const struct captured_repeat *last, const struct captured_repeat *next)
{
	uint64_t ns = next->time_ns - last->time_ns;
	int64_t va = (int64_t)(next->va - last->va);
	/* A number that begins again with 0 carries into the bits above it, so it is no step. */
	bool follows = last->psn + 1 == next->psn && last->msn + 1 == next->msn;

	if (!follows || ns >> CAPTURED_STEP_NS_BITS || va != (int32_t)va ||
		last->rkey != next->rkey || last->bytes != next->bytes)
		return false;
	step->word = CAPTURED_REPEAT | CAPTURED_STEP |
		(next->msn >> U24_BITS) << CAPTURED_STEP_NS_BITS | (uint32_t)ns;
	step->va = (int32_t)va;
	return true;
}

/* The number of a step's model. */
static inline uint32_t captured_step_model(const struct captured_step *step)
{
	return step->word >> CAPTURED_STEP_NS_BITS & (CAPTURED_MODELS - 1);
}

/*
 * Make the model's last repetition the one after it. Returns false, and changes nothing, if the
 * model has none.
 *
 * `step`  Another process may have written it, so it may have any values.
 */
static inline bool captured_step_take(
	struct captured_model *model, const struct captured_step *step)
{
	struct captured_repeat *last = &model->last;

	if (!(last->psn & CAPTURED_REPEAT))
		return false;
	last->psn = CAPTURED_REPEAT | ((last->psn + 1) & U24_MASK);
	last->msn = (last->msn & ~(uint32_t)U24_MASK) | ((last->msn + 1) & U24_MASK);
	last->time_ns += step->word & ((1u << CAPTURED_STEP_NS_BITS) - 1);
	last->va += (uint64_t)(int64_t)step->va;
	return true;
}

/* Are the model's packets READ requests, which have no payload, whatever `bytes` is? */
static inline bool captured_model_is_read(const struct captured_model *model)
{
	return opcode_table[model->headers[0]].payload == PAYLOAD_NONE;
}

/*
 * Make the record of a packet that repeats its model.
 *
 * `repeat`   Another process may have written it, so it may have any values.
 * `payload`  The `count` bytes behind `repeat`.
 *
 * `ret_bytes` has room for CAPTURED_BYTES_MAX bytes. Returns false if there is no such packet.
 */
bool captured_repeat_make(const struct captured_model *model, const struct captured_repeat *repeat,
	const uint8_t *payload, uint32_t count, struct captured *ret_captured, uint8_t *ret_bytes);

/*
 * Change a packet that was made of a model, or of a repetition of the model, to that of another
 * repetition. The two payloads have the same length, and the same number of captured bytes,
 * `count`.
 */
void captured_repeat_change(const struct captured_model *model,
	const struct captured_repeat *repeat, const uint8_t *payload, uint32_t count,
	uint8_t *packet);

/*
 * For frames that differ only in the bytes behind the first CAPTURED_SEALED_BYTES of the packet:
 * the state of the ICRC and of the checksum in front of those bytes.
 */
enum { CAPTURED_SEALED_BYTES = 8 };

struct captured_seal {
	const struct crc32_tables *tables; /* belongs to the caller */
	uint32_t crc;
	uint32_t sum;
};

/*
 * Begin to change a whole packet's frame, which captured_frame_make() has made.
 *
 * `packet`  The BTH in the frame, behind the UDP header.
 * `tables`  Initialised. Borrowed until the last call of captured_seal().
 */
void captured_seal_init(struct captured_seal *seal, const struct captured *captured,
	const uint8_t *packet, const struct crc32_tables *tables);

/*
 * The bytes behind the first CAPTURED_SEALED_BYTES of the packet have changed: write the ICRC and
 * the checksum anew.
 */
void captured_seal(const struct captured_seal *seal, uint8_t *packet, uint32_t packet_bytes);

enum { CAPTURED_ANSWER_BYTES = BTH_BYTES + AETH_BYTES };

/*
 * Make the acknowledgement of a captured packet.
 *
 * `captured`, `bytes`  Those of captured_frame_make().
 *
 * Returns false when the packet has no acknowledgement.
 */
bool captured_answer_make(const struct captured *captured, const uint8_t *bytes,
	struct captured *ret_captured, uint8_t ret_bytes[CAPTURED_ANSWER_BYTES]);

/*
 * `answer` is the acknowledgement of a model or of one of its repetitions. Change it to the
 * acknowledgement of `repeat`.
 */
void captured_answer_repeat(
	const struct captured_repeat *repeat, uint8_t answer[CAPTURED_ANSWER_BYTES]);

#endif
