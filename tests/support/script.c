/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "ib/rc/selective_store.h"
#include "queue/tags.h"
#include "support/arena_memory.h"
#include "support/permutation.h"
#include "support/qp_masks.h"

enum { ARENA_BYTES = 4 << 20, FILL_MODULUS = 251 };

static uint32_t or_usual(uint32_t value, uint32_t usual, bool is_none)
{
	return is_none ? 0 : value ? value : usual;
}

static void connect(struct script *script, const struct script_options *options)
{
	struct qp_attr attr = {
		.port = 1,
		.access = or_usual(
			options->access, MR_REMOTE_ANY | MR_FLUSH_GLOBAL, options->has_no_access),
		.qkey = SCRIPT_QKEY,
		.path = {.id = SCRIPT_PATH,
			.cnp_id = SCRIPT_CNP_PATH,
			.local = script->local,
			.remote = script->remote},
		.path_mtu = or_usual(options->path_mtu, 1, false),
		.dest_qpn = SCRIPT_PEER_QPN,
		.rq_psn = SCRIPT_RQ_PSN,
		.sq_psn = SCRIPT_SQ_PSN,
		.max_rd_atomic = or_usual(options->max_rd_atomic, 4, options->has_no_rd_atomic),
		.max_dest_rd_atomic =
			or_usual(options->max_dest_rd_atomic, 4, options->has_no_rd_atomic),
		.min_rnr_timer = 12,
		.timeout = or_usual(options->timeout, 14, options->has_no_timeout),
		.retry_cnt = or_usual(options->retry_cnt, 7, options->has_no_retry),
		.rnr_retry = or_usual(options->rnr_retry, 7, options->has_no_rnr_retry),
	};

	const uint32_t *mask = qp_masks[options->type];

	assert_int_equal(qp_modify(script->qp, QP_INIT, ATTR_STATE | mask[0], &attr, 1), 0);
	assert_int_equal(qp_modify(script->qp, QP_RTR, ATTR_STATE | mask[1], &attr, 1), 0);
	assert_int_equal(qp_modify(script->qp, QP_RTS, ATTR_STATE | mask[2], &attr, 1), 0);
}

static bool is_xrc(enum qp_type type)
{
	return type == QP_TYPE_XRC_SEND || type == QP_TYPE_XRC_RECV;
}

static void xrc_start(struct script *script, struct qp_init *init)
{
	struct srq_init shared = {
		.number = SCRIPT_SRQN,
		.pd = SCRIPT_PD,
		.xrcd = SCRIPT_XRCD,
		.cq = &script->cq,
		.depth = SCRIPT_QUEUE_DEPTH,
		.sge_count_max = 4,
	};

	assert_int_equal(srq_init(&script->srq, &script->arena, &shared), 0);
	script->srqs = calloc(1, sizeof(*script->srqs));
	assert_non_null(script->srqs);
	srq_table_add(script->srqs, &script->srq);
	script->lane.srqs = script->srqs;
	script->srqn = SCRIPT_SRQN;
	init->recv_cq = NULL;
	if (init->type == QP_TYPE_XRC_RECV) {
		init->send_cq = NULL;
		init->pd = 0;
		init->caps = (struct qp_caps){0};
		init->xrcd = SCRIPT_XRCD;
	}
}

void script_start(struct script *script, const struct script_options *options)
{
	static const struct script_options usual;
	struct qp_init init = {
		.type = options ? options->type : QP_TYPE_RC,
		.mtu_bytes = SCRIPT_MTU_BYTES,
		.pd = SCRIPT_PD,
		.send_cq = &script->cq,
		.recv_cq = &script->cq,
		.caps = {SCRIPT_QUEUE_DEPTH, SCRIPT_QUEUE_DEPTH, 4, 4, 64},
	};

	memset(script, 0, sizeof(*script));
	options = options ? options : &usual;
	script->now_ns = 1000 * SCRIPT_MS;
	script->remote_port = 0xc123;
	script->path = SCRIPT_PATH;
	script->local = gid_from_ipv4((const uint8_t[]){10, 0, 0, 1});
	script->remote = gid_from_ipv4((const uint8_t[]){10, 0, 0, 2});
	script->arena_memory = arena_memory_new(ARENA_BYTES);
	script->memory = malloc(SCRIPT_MEMORY_BYTES);
	assert_non_null(script->memory);
	for (uint32_t i = 0; i < SCRIPT_MEMORY_BYTES; i++)
		script->memory[i] = (uint8_t)(i % FILL_MODULUS);
	arena_init(&script->arena, script->arena_memory, ARENA_BYTES);
	assert_int_equal(mr_table_init(&script->mrs, &script->arena, 16, test_permutation(1)), 0);
	assert_int_equal(engine_lane_init(&script->lane, &script->arena, &script->mrs, 5, 0), 0);
	script->lane.cc = options->cc;
	script->is_selective = options->is_selective;
	if (options->is_selective)
		script->lane.selective = selective_store_create(SCRIPT_STORE_PACKETS);
	assert_int_equal(
		cq_init(&script->cq, &script->arena, or_usual(options->cq_entries, 256, false)), 0);
	if (options->srq_pd) {
		struct srq_init shared = {.pd = options->srq_pd,
			.tag_count = options->tag_count,
			.depth = SCRIPT_QUEUE_DEPTH,
			.sge_count_max = 4};

		assert_int_equal(srq_init(&script->srq, &script->arena, &shared), 0);
		init.srq = &script->srq;
	}
	if (is_xrc(init.type))
		xrc_start(script, &init);
	assert_int_equal(engine_qp_create(&script->lane, &init, 77, &script->qp), 0);
	struct mr_region region = {SCRIPT_PD,
		MR_LOCAL_WRITE | MR_REMOTE_ANY | MR_WINDOW_BIND | MR_FLUSH_GLOBAL,
		(uintptr_t)script->memory, SCRIPT_MEMORY_BYTES, script->memory};
	assert_int_equal(mr_table_add(&script->mrs, &region, 0, &script->key), 0);
	connect(script, options);
}

void script_end(struct script *script)
{
	engine_check(&script->lane);
	engine_qp_destroy(script->qp);
	engine_lane_done(&script->lane);
	mr_table_done(&script->mrs);
	tags_destroy(script->srq.tags);
	free(script->srqs);
	free(script->memory);
	arena_memory_free(script->arena_memory, ARENA_BYTES);
}

/*
 * --- the application ---
 */

void script_post(struct script *script, enum wr_opcode opcode, uint32_t bytes, uint32_t flags)
{
	struct sge sge = {(uintptr_t)script->memory, bytes, script->key};
	struct send_wr wr = {
		.wr_id = script->qp->sq->posted,
		.opcode = opcode,
		.flags = flags,
		.imm = 0x11223344,
		.rkey = 0x55667788,
		.srqn = script->srqn,
		.remote_address = 0x1000,
		.compare_add = 5,
		.swap = 6,
		.sge = &sge,
		.sge_count = 1,
	};
	uint32_t posted;

	if (script->qp->type == QP_TYPE_UD)
		wr.datagram = (struct datagram_target){SCRIPT_PATH, SCRIPT_PEER_QPN, 0x22222222, 0};
	assert_int_equal(engine_post_send(script->qp, &wr, 1, &posted, script->now_ns), 0);
	engine_check(&script->lane);
}

void script_post_receive(struct script *script, uint32_t bytes)
{
	struct sge sge = {(uintptr_t)script->memory, bytes, script->key};
	bool has_own_queue = script->qp->rq_offset != 0;
	struct recv_queue *rq = has_own_queue ? script->qp->rq : script->srq.rq;
	struct recv_wr wr = {1000 + rq->posted, &sge, 1};

	assert_int_equal(
		has_own_queue ? qp_post_recv(script->qp, &wr) : srq_post(&script->srq, &wr), 0);
}

struct cqe script_completion(struct script *script)
{
	struct cqe cqe;

	assert_int_equal(cq_poll(&script->cq, &script->arena, 1, &cqe), 1);
	return cqe;
}

void script_expect_completion(struct script *script, uint64_t wr_id, enum wc_status status)
{
	struct cqe cqe = script_completion(script);

	assert_int_equal(cqe.wr_id, wr_id);
	assert_int_equal(cqe.status, status);
}

void script_expect_no_completion(struct script *script)
{
	assert_true(cq_is_empty(&script->cq));
}

uint64_t script_counter(const struct script *script, enum counter counter)
{
	return counter_read(script->qp->counters, counter);
}

/*
 * --- what the queue pair sends ---
 */

static bool take(struct script *script)
{
	size_t bytes;

	script->run.buffer = script->wire;
	bytes = engine_next_packet(&script->lane, true, &script->run, script->now_ns);
	engine_check(&script->lane);
	if (!bytes)
		return false;
	assert_int_equal(packet_decode(&script->packet, script->wire, bytes), PACKET_OK);
	bool is_cnp = script->packet.info->role == OPCODE_ROLE_CONGESTION;
	assert_int_equal(script->run.path, is_cnp ? SCRIPT_CNP_PATH : script->path);
	assert_int_equal(script->packet.bth.dest_qpn.value, SCRIPT_PEER_QPN);
	return true;
}

/* RC opcodes mean those of XRC on an XRC queue pair. */
static enum opcode opcode_for(const struct script *script, enum opcode opcode)
{
	return is_xrc(script->qp->type) ? (enum opcode)(OPCODE_CLASS_XRC | opcode) : opcode;
}

const struct packet *script_expect(struct script *script, enum opcode opcode, uint32_t index)
{
	assert_true(take(script));
	bool is_request = script->packet.info->role == OPCODE_ROLE_REQUEST;
	struct psn psn = is_request ? script_sent_psn(index) : script_received_psn(index);
	opcode = opcode_for(script, opcode);
	assert_string_equal(script->packet.info->name, opcode_info((uint8_t)opcode)->name);
	assert_int_equal(script->packet.bth.psn.value, psn.value);
	return &script->packet;
}

void script_expect_silence(struct script *script)
{
	assert_false(take(script));
}

uint32_t script_drain(struct script *script)
{
	uint32_t count = 0;

	while (take(script))
		count++;
	return count;
}

void script_expect_ack(struct script *script, uint32_t index, uint32_t msn)
{
	const struct packet *packet = script_expect(script, OPCODE_RC_ACKNOWLEDGE, index);

	assert_int_equal(packet->aeth.kind, AETH_ACK);
	assert_int_equal(packet->aeth.msn.value, msn);
}

void script_expect_nak(struct script *script, uint32_t index, enum aeth_nak code)
{
	const struct packet *packet = script_expect(script, OPCODE_RC_ACKNOWLEDGE, index);

	assert_int_equal(packet->aeth.kind, AETH_NAK);
	assert_int_equal(packet->aeth.value, code);
}

void script_expect_map(struct script *script, uint32_t index, uint64_t map)
{
	script_expect_nak(script, index, AETH_NAK_PSN_SEQUENCE);
	assert_true(packet_has_map(&script->packet));
	for (uint32_t i = 0; i < SELECTIVE_PACKETS_MAX; i++)
		assert_int_equal(
			selective_map_has(&script->packet.map, i), i < 64 && (map >> i & 1));
}

void script_expect_rnr(struct script *script, uint32_t index)
{
	const struct packet *packet = script_expect(script, OPCODE_RC_ACKNOWLEDGE, index);

	assert_int_equal(packet->aeth.kind, AETH_RNR_NAK);
	assert_int_equal(packet->aeth.value, 12);
}

void script_expect_cnp(struct script *script)
{
	static const uint8_t zero[16];
	static const struct bth bth = {
		.opcode = OPCODE_CNP_NOTIFICATION,
		.becn = true,
		.pkey = BTH_PKEY_DEFAULT,
		.dest_qpn = {SCRIPT_PEER_QPN},
	};
	uint8_t expected[BTH_BYTES];

	assert_true(take(script));
	bth_encode(&bth, expected);
	assert_memory_equal(script->wire, expected, sizeof(expected));
	assert_int_equal(script->packet.payload_bytes, sizeof(zero));
	assert_memory_equal(script->packet.payload, zero, sizeof(zero));
}

void script_expect_refusal(struct script *script, uint32_t index, enum aeth_nak code)
{
	script_expect_nak(script, index, code);
	script_expect_silence(script);
	assert_int_equal(script->qp->state, QP_ERR);
}

void script_expect_untouched(const struct script *script)
{
	for (uint32_t i = 0; i < SCRIPT_MEMORY_BYTES; i++)
		assert_int_equal(script->memory[i], i % FILL_MODULUS);
}

uint32_t script_events(struct script *script)
{
	uint32_t bits = 0;

	signal_take(&script->lane.signals, &bits);
	return bits;
}

/*
 * --- what the peer sends ---
 */

struct packet script_packet(const struct script *script, enum opcode opcode, uint32_t index)
{
	struct packet packet;

	memset(&packet, 0, sizeof(packet));
	packet_init(&packet, opcode_for(script, opcode));
	bool is_request = packet.info->role == OPCODE_ROLE_REQUEST;
	packet.bth.dest_qpn = qpn_from(script->qp->qpn);
	packet.bth.psn = is_request ? script_received_psn(index) : script_sent_psn(index);
	packet.bth.ack_requested = is_request;
	packet.bth.is_selective = script->is_selective;
	packet.deth = (struct deth){SCRIPT_QKEY, {0xabcdef}};
	packet.xrceth.srqn = script->srqn;
	return packet;
}

/* A payload that is NULL counts up from the packet's PSN. */
void script_send(struct script *script, const struct packet *packet)
{
	uint8_t bytes[ENGINE_PACKET_BYTES_MAX];
	size_t header_bytes = packet_encode_headers(packet, bytes);

	memset(bytes + header_bytes, 0, sizeof(bytes) - header_bytes);
	for (uint32_t i = 0; i < packet->payload_bytes; i++)
		bytes[header_bytes + i] =
			packet->payload ? packet->payload[i] : (uint8_t)(packet->bth.psn.value + i);
	struct packet_origin origin = {
		.source = &script->remote,
		.destination = &script->local,
		.source_port = script->remote_port,
		.traffic_class = script->traffic_class,
	};
	engine_receive(&script->lane, &origin, bytes, packet_bytes(packet), script->now_ns);
	engine_check(&script->lane);
}

void script_send_data(struct script *script, enum opcode opcode, uint32_t index, uint32_t bytes)
{
	struct packet packet = script_packet(script, opcode, index);

	packet_set_payload(&packet, NULL, bytes);
	packet.immdt.data = 0xabcdef01;
	script_send(script, &packet);
}

void script_send_write(
	struct script *script, enum opcode opcode, uint32_t index, uint32_t bytes, uint32_t whole)
{
	struct packet packet = script_packet(script, opcode, index);

	packet_set_payload(&packet, NULL, bytes);
	packet.reth = (struct reth){(uintptr_t)script->memory, script->key, whole};
	packet.immdt.data = 0xabcdef01;
	script_send(script, &packet);
}

void script_send_read(struct script *script, uint32_t index, uint64_t offset, uint32_t bytes)
{
	struct packet packet = script_packet(script, OPCODE_RC_READ_REQUEST, index);

	packet.reth = (struct reth){(uintptr_t)script->memory + offset, script->key, bytes};
	packet.bth.ack_requested = false;
	script_send(script, &packet);
}

void script_send_atomic(struct script *script, enum opcode opcode, uint32_t index, uint64_t offset,
	uint64_t swap_add, uint64_t compare)
{
	struct packet packet = script_packet(script, opcode, index);

	packet.atomiceth = (struct atomiceth){
		(uintptr_t)script->memory + offset, script->key, swap_add, compare};
	script_send(script, &packet);
}

static void send_aeth(struct script *script, uint32_t index, struct aeth aeth)
{
	struct packet packet = script_packet(script, OPCODE_RC_ACKNOWLEDGE, index);

	packet.aeth = aeth;
	script_send(script, &packet);
}

void script_send_ack(struct script *script, uint32_t index, uint32_t msn, uint8_t credits)
{
	send_aeth(script, index, (struct aeth){AETH_ACK, credits, {msn}});
}

void script_send_nak(struct script *script, uint32_t index, enum aeth_nak code)
{
	send_aeth(script, index, (struct aeth){AETH_NAK, (uint8_t)code, {0}});
}

void script_send_map(struct script *script, uint32_t index, uint64_t map)
{
	struct packet packet = script_packet(script, OPCODE_RC_ACKNOWLEDGE, index);
	uint8_t bytes[SELECTIVE_MAP_BYTES];

	for (uint32_t i = 0; i < 64; i++)
		if (map >> i & 1)
			selective_map_set(&packet.map, i);
	selective_map_encode(&packet.map, bytes);
	packet.aeth = (struct aeth){AETH_NAK, AETH_NAK_PSN_SEQUENCE, {0}};
	packet_set_payload(&packet, bytes, sizeof(bytes));
	script_send(script, &packet);
}

void script_send_rnr(struct script *script, uint32_t index, uint8_t timer)
{
	send_aeth(script, index, (struct aeth){AETH_RNR_NAK, timer, {0}});
}

void script_send_response(struct script *script, enum opcode opcode, uint32_t index, uint32_t bytes)
{
	struct packet packet = script_packet(script, opcode, index);

	packet.aeth = (struct aeth){AETH_ACK, SCRIPT_UNLIMITED, {index}};
	packet_set_payload(&packet, NULL, bytes);
	script_send(script, &packet);
}

void script_send_original(struct script *script, uint32_t index, uint64_t original)
{
	struct packet packet = script_packet(script, OPCODE_RC_ATOMIC_ACKNOWLEDGE, index);

	packet.aeth = (struct aeth){AETH_ACK, SCRIPT_UNLIMITED, {index}};
	packet.atomicacketh.original = original;
	script_send(script, &packet);
}

void script_pass(struct script *script, uint64_t ns)
{
	script->now_ns += ns;
	engine_expire(&script->lane, script->now_ns);
	engine_check(&script->lane);
}
