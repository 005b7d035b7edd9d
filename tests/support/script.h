/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One queue pair and a peer that does exactly what the test says, packet by packet.
 *
 * The queue pair is in RTS, its first PSN to send is SCRIPT_SQ_PSN and the first it expects
 * SCRIPT_RQ_PSN. The test gives and gets packets as structs. Time passes in script_pass() only. An
 * expectation that is not met fails the test, through cmocka, at the line of the call.
 */
#ifndef URNIC_TESTS_SUPPORT_SCRIPT_H
#define URNIC_TESTS_SUPPORT_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "wire/packet.h"

enum {
	SCRIPT_SQ_PSN = 0xfffffe, /* the third packet is 0 */
	SCRIPT_RQ_PSN = 0xfffffd,
	SCRIPT_MTU_BYTES = 256,
	SCRIPT_MEMORY_BYTES = 256 << 10,
	SCRIPT_PD = 3,
	SCRIPT_QUEUE_DEPTH = 64,
	SCRIPT_XRCD = 6,
	SCRIPT_STORE_PACKETS = 6, /* of selective repeat */
	SCRIPT_SRQN = 0x05abcd,
	SCRIPT_UNLIMITED = 31, /* credits */
	SCRIPT_PATH = 9, /* of all that is sent, unless script->path says another */
	SCRIPT_CNP_PATH = 10, /* of congestion notifications */
	SCRIPT_PEER_QPN = 0x123456,
	SCRIPT_QKEY = 0x11111111,
};

#define SCRIPT_MS 1000000ull

struct script {
	struct arena arena;
	void *arena_memory;
	struct mr_table mrs;
	struct lane lane;
	struct cq cq;
	struct srq srq; /* with script_options.srq_pd */
	struct srq_table *srqs; /* XRC: with `srq` in it, of the domain SCRIPT_XRCD */
	uint32_t srqn; /* XRC: that requests name, ours and the peer's */
	struct qp *qp;
	uint32_t path; /* that packets are sent on */
	struct gid local; /* where those that come travelled between */
	struct gid remote;
	uint16_t remote_port; /* UDP source port of those that come */
	uint8_t traffic_class; /* of those that come */
	uint64_t now_ns;
	uint8_t *memory; /* registered with every right; bytes count up from 0, modulo 251 */
	uint32_t key;
	bool is_selective; /* the peer's packets say that it knows selective NAKs */
	struct packet_run run; /* that script_take() took last */
	uint8_t wire[ENGINE_PACKET_BYTES_MAX]; /* its packets, of which it decoded the first */
	struct packet packet;
};

/* What differs from the usual: zero means "as usual". */
struct script_options {
	enum qp_type type; /* RC; also UC, UD, XRC_SEND, XRC_RECV */
	uint32_t path_mtu; /* code; 1 as usual, which is SCRIPT_MTU_BYTES */
	uint32_t timeout; /* code; 14 as usual, which is 67 ms (RC_RETRY_NS_MIN lengthens it) */
	uint32_t retry_cnt; /* 7 */
	uint32_t rnr_retry; /* 7: for ever */
	uint32_t max_rd_atomic; /* 4 */
	uint32_t max_dest_rd_atomic; /* 4 */
	uint32_t access; /* all */
	uint32_t cq_entries; /* 256 */
	uint32_t srq_pd; /* it takes from a shared receive queue of this domain; none as usual */
	uint32_t tag_count; /* with srq_pd: buffers of its matching list, else 0 */
	const struct cc_params *cc; /* congestion control; none as usual */
	bool is_selective; /* selective repeat is on, and the peer's packets say so, too */
	bool has_no_timeout;
	bool has_no_retry;
	bool has_no_rnr_retry;
	bool has_no_rd_atomic; /* neither as requester nor as responder */
	bool has_no_access;
};

void script_start(struct script *script, const struct script_options *options);
void script_end(struct script *script);

/* The PSN `index` packets after the first. */
static inline struct psn script_sent_psn(uint32_t index)
{
	return psn_add((struct psn){SCRIPT_SQ_PSN}, index);
}

static inline struct psn script_received_psn(uint32_t index)
{
	return psn_add((struct psn){SCRIPT_RQ_PSN}, index);
}

/* Post one request over the first `bytes` of the memory; `remote` is what the peer is asked for. */
void script_post(struct script *script, enum wr_opcode opcode, uint32_t bytes, uint32_t flags);
/* To the shared receive queue, if there is one. Its wr_id counts up from 1000. */
void script_post_receive(struct script *script, uint32_t bytes);

/*
 * What does the queue pair send next? `index` counts PSNs from SCRIPT_SQ_PSN for requests, from
 * SCRIPT_RQ_PSN for responses.
 */
const struct packet *script_expect(struct script *script, enum opcode opcode, uint32_t index);
void script_expect_silence(struct script *script);

/* Take packets until there is none; returns how many. */
uint32_t script_drain(struct script *script);

/* An ACK packet with this AETH. */
void script_expect_ack(struct script *script, uint32_t index, uint32_t msn);
void script_expect_nak(struct script *script, uint32_t index, enum aeth_nak code);
void script_expect_map(struct script *script, uint32_t index, uint64_t map);
void script_expect_rnr(struct script *script, uint32_t index);

/* A congestion notification. */
void script_expect_cnp(struct script *script);

/* The request was refused: a NAK, nothing else, and the error state. */
void script_expect_refusal(struct script *script, uint32_t index, enum aeth_nak code);

/* Nothing has reached the memory. */
void script_expect_untouched(const struct script *script);

/* The events of one signal, enum signal_event; 0 when there is none. */
uint32_t script_events(struct script *script);

/*
 * The peer sends a packet. script_packet() prepares one; PSNs of requests count from SCRIPT_RQ_PSN,
 * of responses from SCRIPT_SQ_PSN. On an XRC queue pair RC opcodes mean those of XRC here and in
 * script_expect().
 */
struct packet script_packet(const struct script *script, enum opcode opcode, uint32_t index);
void script_send(struct script *script, const struct packet *packet);

/* Frequent ones. Payload is `bytes` bytes that count up from `index`. */
void script_send_data(struct script *script, enum opcode opcode, uint32_t index, uint32_t bytes);
void script_send_write(
	struct script *script, enum opcode opcode, uint32_t index, uint32_t bytes, uint32_t whole);
void script_send_read(struct script *script, uint32_t index, uint64_t offset, uint32_t bytes);
void script_send_atomic(struct script *script, enum opcode opcode, uint32_t index, uint64_t offset,
	uint64_t swap_add, uint64_t compare);
void script_send_ack(struct script *script, uint32_t index, uint32_t msn, uint8_t credits);
void script_send_nak(struct script *script, uint32_t index, enum aeth_nak code);
/* A selective NAK; `map` has a bit for each of the first 64 packets, the first one lowest. */
void script_send_map(struct script *script, uint32_t index, uint64_t map);
void script_send_rnr(struct script *script, uint32_t index, uint8_t timer);
void script_send_response(
	struct script *script, enum opcode opcode, uint32_t index, uint32_t bytes);
void script_send_original(struct script *script, uint32_t index, uint64_t original);

/* Time passes, and deadlines with it. */
void script_pass(struct script *script, uint64_t ns);

/* The next completion is this one. */
void script_expect_completion(struct script *script, uint64_t wr_id, enum wc_status status);
void script_expect_no_completion(struct script *script);
struct cqe script_completion(struct script *script);

uint64_t script_counter(const struct script *script, enum counter counter);

#endif
