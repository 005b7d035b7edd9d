/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages: the common part of the connected transports.
 *
 * The connected transports cut a SEND or WRITE into packets of the path MTU in the same way, and
 * receive its packets with the same checks in the same order. Each transport decides by itself when
 * to send, which packet it expects, and what a refusal causes (a NAK that ends a reliable
 * connection, silence on an unreliable one).
 *
 * Everything runs under the lane's lock.
 */
#ifndef URNIC_IB_MESSAGE_H
#define URNIC_IB_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arith.h"
#include "qp/qp.h"
#include "wire/packet.h"

/* --- sending --- */

/* The number of packets of a message of `bytes`: at least one. */
static inline uint32_t message_packet_count(const struct qp *qp, uint64_t bytes)
{
	return bytes ? (uint32_t)div_ceil_u64(bytes, qp->mtu_bytes) : 1;
}

/*
 * The fault of a work request when the memory in its scatter/gather list is refused with `fault`.
 */
enum fault message_local_fault(enum mr_fault fault);

/*
 * May the NIC read all memory of this SEND or WRITE? Returns FAULT_NONE if so. Inline data needs no
 * check.
 */
enum fault message_check(const struct qp *qp, const struct send_wqe *wqe);

/*
 * Start packet `index` (0 to wqe->packet_count - 1) of a SEND or WRITE: opcode, destination,
 * lengths, headers. The caller adds the PSN and the request for an acknowledgement.
 */
void message_packet_init(struct packet *packet, const struct qp *qp, enum opcode_class class,
	const struct send_wqe *wqe, uint32_t index);

/* message_packet_init() for a message of `packet_count` packets; it ignores wqe->packet_count. */
void message_packet_init_of(struct packet *packet, const struct qp *qp, enum opcode_class class,
	const struct send_wqe *wqe, uint32_t index, uint32_t packet_count);

/* The opcode (of class RC) of READ response packet `index` of `count`. */
enum opcode message_response_opcode(uint32_t index, uint32_t count);

/*
 * Is the packet's payload long enough (lane->zerocopy_bytes_min) for the queue pair to send it
 * zero-copy, in a run of packets?
 */
static inline bool message_packet_is_long(const struct qp *qp, const struct packet *packet)
{
	uint32_t bytes_min = qp->lane->zerocopy_bytes_min;

	return bytes_min && packet->payload_bytes >= bytes_min;
}

/* The number of packets of this length that together reach `run_bytes`; at least one. */
static inline uint32_t message_run_packets(const struct packet *packet, uint32_t run_bytes)
{
	return max_u32((uint32_t)div_ceil_u64(run_bytes, packet_bytes(packet)), 1);
}

/*
 * Gather the payload of the packet that message_packet_init() has started, and write the packet,
 * from the BTH to the pad. Returns its length. When memory is refused, *ret_fault says why, and
 * `buffer` is undefined.
 */
size_t message_packet_write(struct qp *qp, const struct packet *packet, const struct send_wqe *wqe,
	uint32_t index, uint8_t *buffer, enum fault *ret_fault);

/*
 * Write a run of packets, which begins with `packet`. Payloads that may be borrowed are not
 * gathered. They are read twice: for their ICRCs, and when they are sent. A program must not change
 * a payload in between; if it does, the receiver drops the packet. So the caller uses this function
 * only for the first transmission of packets that it retransmits when they are lost.
 *
 * `packets_max`  How many packets from this one on differ only in their PSNs and request no
 *                acknowledgement; at least 1. A packet whose payload is gathered is a run of its
 *                own.
 */
size_t message_run_write(struct qp *qp, const struct packet *packet, const struct send_wqe *wqe,
	uint32_t packets_max, struct packet_run *run, enum fault *ret_fault);

/* --- receiving --- */

/* The reasons of a responder to refuse a request. refusal_effects says what each of them causes. */
enum refusal {
	ACCEPTED,
#define REFUSAL(name, rc_counter, answer, nak, fault, signal, uc_counter) REFUSED_##name,
#include "ib/refusal.def"
#undef REFUSAL
};

struct refusal_effect {
	enum counter rc_counter, uc_counter;
	enum refusal_answer {
		REFUSAL_NAK, /* a NAK with the code `nak` */
		REFUSAL_RNR, /* an RNR NAK; the peer repeats the request */
		REFUSAL_SILENT,
	} answer;
	enum aeth_nak nak;
	/* A receive request that the message has taken completes with this fault */
	enum fault fault;
	uint32_t signal; /* SIGNAL_*; 0: none */
};

/* Indexed by enum refusal; ACCEPTED has no effect. */
extern const struct refusal_effect refusal_effects[];

enum message_kind {
	MESSAGE_NONE, /* between messages: a first or only packet comes next */
	MESSAGE_SEND, /* in a SEND: a middle or last packet comes next */
	MESSAGE_WRITE, /* in a WRITE: a middle or last packet comes next */
};

/* The message that is being received; all zero: no message. */
struct message {
	enum message_kind kind;
	/*
	 * *message_receive() holds a receive request that was taken. That request completes with
	 * this message, or serves the next one.
	 */
	bool has_receive;
	uint64_t placed_bytes; /* bytes of a SEND that are placed */
	struct reth write; /* the rest of a WRITE: va and dma_bytes advance with each packet */
	uint32_t write_bytes; /* length of the whole WRITE */
	/* The enum wc_opcode of the completion, if this is a SEND to a tag-matching queue. */
	uint32_t tag_opcode;
	bool is_matched; /* this is a SEND to a tag-matching queue, and a buffer matched its tag */
};

/* The receive request of the message that a queue pair receives (qp->cold). */
static inline struct recv_wqe *message_receive(const struct qp *qp)
{
	return qp->cold;
}

/*
 * Does the packet follow the previous one (IBTA 9.7.4.1.5, table 57), with a payload that its
 * opcode allows at the path MTU?
 */
bool message_is_in_sequence(
	const struct message *message, const struct qp *qp, const struct packet *packet);

/*
 * Execute a packet of a SEND or WRITE that is in sequence: check everything, then place the
 * payload, and complete the receive request at the message's end. A refused packet changes nothing,
 * except that a receive request may have been taken. After REFUSED_OPERATIONAL *ret_fault is the
 * fault of the receive request.
 */
enum refusal message_send_execute(struct message *message, struct qp *qp,
	const struct packet *packet, enum fault *ret_fault, uint64_t now_ns);
enum refusal message_write_execute(
	struct message *message, struct qp *qp, const struct packet *packet, uint64_t now_ns);

/*
 * Take a receive request for this message, unless the message has one. Returns false when there is
 * none.
 */
bool message_take_receive(struct message *message, struct qp *qp);

/*
 * A peer on this host has reserved this receive request for the next message. Returns false, and
 * ignores `wqe`, when the message has a receive request already. Only a hostile peer can cause
 * that.
 */
bool message_reserve(struct message *message, const struct qp *qp, const struct recv_wqe *wqe);

/* Give the message up: its receive request, if taken, completes with `fault`. */
void message_abandon(struct message *message, struct qp *qp, enum fault fault, uint64_t now_ns);

#endif
