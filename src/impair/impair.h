/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IMPAIR_IMPAIR_H
#define URNIC_IMPAIR_IMPAIR_H

/*
 * Impairments on purpose: the fate of each packet that a process sends.
 *
 * A fate follows from the seed and from what the packet is: its queue pair (by order of creation in
 * the process), its direction, its PSN relative to the first one, and how often the queue pair has
 * gone back. It does not follow from the time. So the first transmission of each data packet has
 * the same fate in each run, although acknowledgements and retransmissions depend on timing.
 *
 * The caller serializes calls for one flow (the lane's lock). Flows of several lanes share a struct
 * impair; what they share is atomic, or under `lock`.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/spin.h"
#include "impair/plan.h"

/* A packet that the next packet is to overtake waits for the next packet at most this long. */
#define IMPAIR_REORDER_NS 1000000u

struct impair_counters {
#define COUNTER(name, sentence) _Atomic uint64_t name;
#include "impair/counter.def"
#undef COUNTER
};

/* What outlives the process, in the file that the setting `report` names. */
struct impair_report {
	struct impair_counters counters; /* the sums of all lanes */
	_Atomic uint64_t rnr_naks; /* how many RNR NAKs a fault has caused */
	_Atomic uint64_t server_kills;
	_Atomic uint64_t client_kills;
};

/* The requests of a queue pair, or its responses. */
struct impair_stream {
	bool is_begun;
	uint32_t base; /* the PSN with which it begins */
	uint64_t next; /* position behind all that were sent */
	uint64_t last; /* position of the last packet */
	uint32_t returns; /* times that it went back */
};

/* What a queue pair sends. Zeroed at first. */
struct impair_flow {
	uint32_t qp; /* the queue pair: the process's first one is 1, and so on; 0: unknown */
	uint32_t mtu_bytes; /* the path MTU */
	struct impair_stream requests;
	struct impair_stream responses;
	uint32_t acks;
};

struct impair_fault_state {
	uint32_t seen; /* matching packets, first transmissions only */
	uint32_t left; /* how many times the fault still hits */
	const struct impair_flow *flow; /* sends the packet to hit; NULL: not sent yet */
	uint64_t position;
};

struct impair {
	struct impair_plan plan;
	struct impair_report *report;
	struct impair_report own_report; /* used if the plan names no file */
	uint32_t qp_count;
	_Atomic uint64_t busy_until_ns; /* until when the link is busy, at the plan's rate */
	struct spin lock; /* guards the fields below */
	uint64_t payload_bytes; /* payload sent so far, without retransmissions */
	struct impair_fault_state faults[IMPAIR_FAULTS_MAX];
};

struct impair_fate {
	bool is_first; /* a data packet that is sent for the first time */
	bool is_aimed; /* a fault hits it */
	bool is_dropped;
	bool is_duplicated;
	bool is_corrupted;
	bool is_reordered;
	uint32_t corrupt_bit; /* to invert, of the packet and its ICRC */
	uint64_t hold_ns;
	enum impair_side victim; /* to kill; NONE: nobody */
};

/* Begin with a plan, which is copied. */
void impair_init(struct impair *impair, const struct impair_plan *plan);

/* The PSNs with which a flow begins; they change when its queue pair is connected anew. */
void impair_flow_bind(
	struct impair_flow *flow, uint32_t request_psn, uint32_t response_psn, uint32_t mtu_bytes);

/* The queue pair was reset: its PSNs begin anew, even if they are the same. */
static inline void impair_flow_reset(struct impair_flow *flow)
{
	flow->requests.is_begun = false;
	flow->responses.is_begun = false;
}

/*
 * Decide about a packet.
 *
 * `packet`  From the BTH to the pad, `bytes` without the ICRC. An opcode that is not known passes.
 */
void impair_decide(struct impair *impair, struct impair_flow *flow, const uint8_t *packet,
	uint32_t bytes, struct impair_fate *ret_fate);

/*
 * When a packet of `wire_bytes` leaves that comes to the link now: after those before it, at the
 * plan's rate.
 */
uint64_t impair_link_reserve(struct impair *impair, uint32_t wire_bytes, uint64_t now_ns);

/* Is the responder to answer an RNR NAK, as if it had no receive request? Each call counts. */
bool impair_refuses_receive(struct impair *impair, const struct impair_flow *flow);

#endif
