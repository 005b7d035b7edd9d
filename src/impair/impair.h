/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IMPAIR_IMPAIR_H
#define URNIC_IMPAIR_IMPAIR_H

/*
 * Impairments on purpose: the fate of each packet that a process sends.
 *
 * A fate depends on the seed and on the packet: its queue pair (by order of creation in the
 * process), its direction, its PSN relative to the first PSN, and how often the queue pair has gone
 * back to an earlier PSN. It does not depend on the time. So the first transmission of each data
 * packet has the same fate in each run, although acknowledgements and retransmissions depend on
 * timing.
 *
 * The caller serializes calls for one flow by the lane's lock. Flows of several lanes share a
 * struct impair; each field that they change is atomic, or `lock` guards it.
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

/* Counts that outlive the process: the file that the setting `report` names contains them. */
struct impair_report {
	struct impair_counters counters; /* the sums of all lanes */
	_Atomic uint64_t rnr_naks; /* how many RNR NAKs faults have caused */
	_Atomic uint64_t server_kills; /* how many `kill` faults have hit the server */
	_Atomic uint64_t client_kills;
};

/* The request packets that a queue pair sends, or its response packets. */
struct impair_stream {
	bool is_begun;
	uint32_t base; /* the PSN with which it begins */
	uint64_t next; /* the position after the highest PSN that was sent */
	uint64_t last; /* position of the packet that was sent last */
	uint32_t returns; /* how often the queue pair went back to an earlier PSN */
};

/* All packets that a queue pair sends. Zeroed when the queue pair is created. */
struct impair_flow {
	uint32_t qp; /* the queue pair: the process's first one is 1, and so on; 0: unknown */
	uint32_t mtu_bytes; /* the path MTU */
	struct impair_stream requests;
	struct impair_stream responses;
	uint32_t acks; /* acknowledgements and CNPs sent so far */
};

struct impair_fault_state {
	uint32_t seen; /* matching packets so far, without retransmissions */
	uint32_t left; /* how many times the fault still hits */
	/* The flow of the packet to hit, and the packet's position. NULL: it was not sent yet. */
	const struct impair_flow *flow;
	uint64_t position;
};

struct impair {
	struct impair_plan plan;
	struct impair_report *report;
	struct impair_report own_report; /* used if the plan names no file */
	uint32_t qp_count; /* queue pairs that the process has created */
	_Atomic uint64_t busy_until_ns; /* when the link has sent all packets, at plan.rate */
	struct spin lock; /* guards the fields below */
	uint64_t payload_bytes; /* payload that the process has sent, without retransmissions */
	struct impair_fault_state faults[IMPAIR_FAULTS_MAX];
};

struct impair_fate {
	bool is_first; /* a data packet that is sent for the first time */
	bool is_aimed; /* a fault hits it */
	bool is_dropped;
	bool is_duplicated;
	bool is_corrupted;
	bool is_reordered;
	uint32_t corrupt_bit; /* the bit to invert, counted from the BTH to the end of the ICRC */
	uint64_t hold_ns; /* how long to delay the packet */
	enum impair_side victim; /* the side to kill; NONE: neither */
};

/* Initialize `impair`. The plan is copied. */
void impair_init(struct impair *impair, const struct impair_plan *plan);

/*
 * Set the PSNs with which a flow's requests and responses begin, and its path MTU. A new PSN begins
 * the stream anew, because the queue pair was connected again; an unchanged PSN changes nothing.
 */
void impair_flow_bind(
	struct impair_flow *flow, uint32_t request_psn, uint32_t response_psn, uint32_t mtu_bytes);

/* The queue pair was reset: its streams begin anew, even if the next PSNs equal the former ones. */
static inline void impair_flow_reset(struct impair_flow *flow)
{
	flow->requests.is_begun = false;
	flow->responses.is_begun = false;
}

/*
 * Decide the fate of a packet.
 *
 * `packet`  The `bytes` from the BTH to the pad, without the ICRC. A packet with an unknown opcode
 *           is delayed as all packets are; nothing else happens to it.
 */
void impair_decide(struct impair *impair, struct impair_flow *flow, const uint8_t *packet,
	uint32_t bytes, struct impair_fate *ret_fate);

/*
 * Returns when the link, at the plan's rate, has sent a packet of `wire_bytes` that reaches it at
 * `now_ns`. The link sends one packet after the other. Without a rate the result is `now_ns`.
 */
uint64_t impair_link_reserve(struct impair *impair, uint32_t wire_bytes, uint64_t now_ns);

/*
 * Must the responder send an RNR NAK, as if it had no receive request? Each true result uses up one
 * of the NAKs of an `rnr` fault.
 */
bool impair_refuses_receive(struct impair *impair, const struct impair_flow *flow);

#endif
