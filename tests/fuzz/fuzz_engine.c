/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A whole engine against a hostile peer: a reliable, extended reliable or unreliable connection, or
 * datagrams, with a receive queue of its own or a shared one.
 *
 * The input is a program. Its next bytes choose the next step: the application posts or polls, time
 * passes, the engine sends, or a packet arrives. About half of the header fields of a packet are
 * right: the queue pair's own number, PSNs near those that it expects or has sent, keys and
 * addresses of its region, lengths around the packet size. After each step the engine's invariants
 * must hold, and no completion may come twice.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "congestion/cc_params.h"
#include "engine/engine.h"
#include "engine/multicast.h"
#include "ib/rc/rc.h"
#include "ib/uc/uc.h"
#include "memory/mw.h"
#include "support/arena_memory.h"
#include "support/permutation.h"
#include "support/qp_masks.h"
#include "wire/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	ARENA_BYTES = 1 << 20,
	REGION_BYTES = 8192,
	PD = 3,
	DEPTH = 8,
	CQ_ENTRIES = 4 * DEPTH,
	STEP_COUNT_MAX = 300,
	QKEY = 0x111,
	XRCD = 9,
	STORE_PACKETS = 5, /* of selective repeat */
	SRQ_COUNT = 3, /* two of the XRC domain and one that is of none */
};

/* The rest of the input. */
struct input {
	const uint8_t *data;
	size_t left_bytes;
};

struct target {
	struct arena arena;
	struct mr_table mrs;
	struct lane lane;
	struct cq cq;
	struct qp *qp;
	struct gid local;
	struct gid remote;
	struct gid group;
	struct cc_params cc;
	uint64_t now_ns;
	uint32_t key;
	uint32_t window; /* the key of a memory window, bound or not */
	uint64_t sends_posted;
	uint64_t sends_completed;
	bool is_guarded; /* else tries at numbers and keys are forgotten, so that packets get far */
	bool is_selective; /* selective repeat is on */
	bool is_shared; /* it takes from srq[0], or XRC from those that requests name */
	struct srq srq[SRQ_COUNT];
	uint64_t receives_posted[SRQ_COUNT]; /* to each; the first also stands for its own queue */
	uint64_t receives_completed[SRQ_COUNT];
};

static struct srq_table srqs;
static uint8_t *arena_memory;
static _Alignas(64) uint8_t region[REGION_BYTES];

static uint8_t take_u8(struct input *input)
{
	if (!input->left_bytes)
		return 0;
	input->left_bytes--;
	return *input->data++;
}

static uint32_t take_u32(struct input *input)
{
	uint32_t value = 0;

	for (uint32_t i = 0; i < 4; i++)
		value = value << 8 | take_u8(input);
	return value;
}

/* Close to `base`, mostly. */
static uint32_t take_near(struct input *input, uint32_t base)
{
	uint8_t choice = take_u8(input);

	if (choice == 0xff)
		return take_u32(input);
	return base + (uint32_t)(int32_t)(int8_t)choice / 8;
}

static uint32_t take_length(struct input *input)
{
	static const uint32_t lengths[] = {0, 1, 3, 4, 8, 255, 256, 257, 512, 513, 1024, 4096, 8192,
		8193, 1u << 31, UINT32_MAX};
	uint8_t choice = take_u8(input);

	return choice < 0xc0 ? lengths[choice % ARRAY_COUNT(lengths)] : take_u32(input);
}

static uint64_t take_address(struct input *input)
{
	uint64_t base = (uintptr_t)region;

	switch (take_u8(input) % 8) {
	case 0:
		return base + REGION_BYTES;
	case 1:
		return base - 1;
	case 2:
		return (uint64_t)take_u32(input) << 32 | take_u32(input);
	case 3:
		return base + take_u32(input) % REGION_BYTES;
	default:
		return base + 8ull * (take_u8(input) % 64);
	}
}

static uint32_t take_key(struct input *input, const struct target *target)
{
	uint8_t choice = take_u8(input);

	if (choice < 0xa0)
		return target->key;
	if (choice < 0xe0)
		return target->window;
	return choice < 0xf0 ? target->key ^ choice : take_u32(input);
}

static void modify(struct target *target, enum qp_state to, uint32_t mask, struct qp_attr *attr)
{
	if (qp_modify(target->qp, to, mask | ATTR_STATE, attr, target->now_ns))
		abort();
}

static void connect(struct target *target, struct input *input)
{
	const uint32_t *mask = qp_masks[target->qp->type];
	uint8_t choice = take_u8(input);
	struct qp_attr attr = {
		.port = 1,
		.qkey = QKEY,
		.access = MR_FLUSH_GLOBAL |
			(choice & 1 ? MR_REMOTE_ANY : choice >> 1 & MR_REMOTE_ANY),
		.path = {.local = target->local, .remote = target->remote},
		.path_mtu = 1,
		.dest_qpn = 2,
		.rq_psn = 0xfffffa,
		.sq_psn = 0xfffff5,
		.max_rd_atomic = 1 + choice / 8 % 4,
		.max_dest_rd_atomic = choice / 32 % 5,
		.timeout = 1 + choice % 8,
		.retry_cnt = choice / 4 % 8,
		.rnr_retry = choice / 2 % 8,
		.min_rnr_timer = 1,
	};

	modify(target, QP_INIT, mask[0], &attr);
	modify(target, QP_RTR, mask[1], &attr);
	modify(target, QP_RTS, mask[2], &attr);
}

static void srq_create(struct target *target, uint32_t index)
{
	struct srq_init init = {
		.number = 0x010100 + index,
		.pd = PD,
		.xrcd = index == 2 ? 0 : XRCD,
		.cq = &target->cq,
		.depth = DEPTH,
		.sge_count_max = 2,
	};

	if (srq_init(&target->srq[index], &target->arena, &init))
		abort();
	srq_table_add(&srqs, &target->srq[index]);
	target->receives_posted[index] = 0;
	target->receives_completed[index] = 0;
}

static void srq_destroy(struct target *target, uint32_t index)
{
	srq_table_remove(&srqs, &target->srq[index]);
	engine_srq_forget(&target->lane, &target->srq[index]);
	srq_done(&target->srq[index], &target->arena);
}

static void srqs_create(struct target *target, struct qp_init *init, bool is_shared)
{
	bool is_xrc = init->type == QP_TYPE_XRC_SEND || init->type == QP_TYPE_XRC_RECV;

	for (uint32_t i = 0; i < SRQ_COUNT; i++)
		srq_create(target, i);
	target->lane.srqs = &srqs;
	target->is_shared = is_xrc || is_shared;
	if (is_xrc)
		init->recv_cq = NULL;
	else if (is_shared)
		init->srq = &target->srq[0];
	if (init->type == QP_TYPE_XRC_RECV) {
		init->send_cq = NULL;
		init->xrcd = XRCD;
	}
}

static void target_init(struct target *target, struct input *input, bool is_selective)
{
	struct mr_region memory = {PD,
		MR_LOCAL_WRITE | MR_REMOTE_ANY | MR_WINDOW_BIND | MR_FLUSH_GLOBAL,
		(uintptr_t)region, REGION_BYTES, region};
	static const enum qp_type types[] = {QP_TYPE_RC, QP_TYPE_RC, QP_TYPE_UC, QP_TYPE_UD,
		QP_TYPE_XRC_SEND, QP_TYPE_XRC_RECV, QP_TYPE_XRC_RECV};
	uint8_t choice = take_u8(input);
	struct qp_init init = {
		.type = types[choice % ARRAY_COUNT(types)],
		.mtu_bytes = 256,
		.pd = PD,
		.send_cq = &target->cq,
		.recv_cq = &target->cq,
		.caps = {DEPTH, DEPTH, 2, 2, 32},
		.is_all_signaled = true,
	};

	memset(target, 0, sizeof(*target));
	if (!arena_memory)
		arena_memory = arena_memory_new(ARENA_BYTES);
	memset(arena_memory, 0, ARENA_BYTES);
	memset(arena_peers_side(arena_memory), 0, ARENA_BYTES);
	target->now_ns = 1000000000;
	target->local.raw[15] = 1;
	target->remote.raw[15] = 2;
	target->group.raw[0] = 0xff;
	arena_init(&target->arena, arena_memory, ARENA_BYTES);
	if (mr_table_init(&target->mrs, &target->arena, 8, test_permutation(1)) ||
		engine_lane_init(&target->lane, &target->arena, &target->mrs, 1, 0) ||
		cq_init(&target->cq, &target->arena, CQ_ENTRIES))
		abort();
	target->lane.zerocopy_bytes_min = 256;
	cc_params_init(&target->cc, choice & 1 ? CC_SWIFT : CC_DCQCN, CC_PRESET_SIGCOMM15);
	if (choice & 2)
		target->lane.cc = &target->cc;
	target->is_selective = is_selective;
	if (is_selective)
		target->lane.selective = selective_store_create(STORE_PACKETS);
	srqs_create(target, &init, choice >= 0x80);
	if (engine_qp_create(&target->lane, &init, 5, &target->qp) ||
		mr_table_add(&target->mrs, &memory, 0, &target->key) ||
		mw_add(&target->mrs, PD, MR_KIND_WINDOW_2, 0, &target->window))
		abort();
	if (init.type == QP_TYPE_UD && multicast_attach(target->qp, &target->group, 0))
		abort();
	connect(target, input);
}

static void target_done(struct target *target)
{
	for (uint32_t i = 0; i < SRQ_COUNT; i++)
		srq_destroy(target, i);
	engine_qp_destroy(target->qp);
	engine_lane_done(&target->lane);
	mr_table_done(&target->mrs);
}

/*
 * --- steps ---
 */

static void post_send(struct target *target, struct input *input)
{
	struct sge sge[2] = {
		{(uintptr_t)region, take_length(input) % 2048, target->key},
		{take_address(input), take_u8(input), take_key(input, target)},
	};
	struct send_wr wr = {
		.wr_id = target->sends_posted,
		.opcode = take_u8(input) % (WR_OPCODE_COUNT + 1),
		.flags = take_u8(input),
		.remote_address = take_address(input),
		.rkey = take_key(input, target),
		.srqn = 0x010100,
		.compare_add = take_u8(input),
		.sge = sge,
		.sge_count = take_u8(input) % 3,
	};
	uint32_t posted;

	if (wr.flags & SEND_INLINE) /* inline addresses are the application's own word */
		sge[1].address = (uintptr_t)region;
	if (target->qp->type == QP_TYPE_UD)
		wr.datagram.qkey = take_u32(input);
	if (wr.opcode >= WR_ATOMIC_CMP_AND_SWP)
		sge[0].bytes = 8;
	if (wr.opcode == WR_BIND_MW) {
		wr.rkey = target->window;
		wr.remote_address = (uintptr_t)region + take_u8(input);
		wr.bind = (struct wr_bind){take_length(input), target->key, take_u8(input)};
	}
	if (wr.opcode == WR_LOCAL_INV || wr.opcode == WR_SEND_WITH_INV)
		wr.imm = take_key(input, target);
	engine_post_send(target->qp, &wr, 1, &posted, target->now_ns);
	target->sends_posted += posted;
}

static void post_receive(struct target *target, struct input *input)
{
	struct sge sge[2] = {
		{(uintptr_t)region, take_length(input) % REGION_BYTES, target->key},
		{take_address(input), take_u8(input), take_key(input, target)},
	};
	uint32_t queue = target->is_shared ? take_u8(input) % SRQ_COUNT : 0;
	struct recv_wr wr = {
		(queue + 1ull) << 32 | target->receives_posted[queue], sge, take_u8(input) % 3};
	int error = target->is_shared ? srq_post(&target->srq[queue], &wr)
				      : qp_post_recv(target->qp, &wr);

	if (error == 0) {
		target->receives_posted[queue]++;
		if (target->qp->state == QP_ERR)
			qp_flush(target->qp, target->now_ns);
	}
}

/* Each queue in its order, none twice, none that was not posted. */
static void poll(struct target *target)
{
	struct cqe cqe;

	while (cq_poll(&target->cq, &target->arena, 1, &cqe)) {
		uint32_t queue = (uint32_t)(cqe.wr_id >> 32);
		uint64_t expected, posted;

		if (queue) {
			expected = target->receives_completed[queue - 1]++;
			posted = target->receives_posted[queue - 1];
		} else {
			expected = target->sends_completed++;
			posted = target->sends_posted;
		}
		if ((uint32_t)cqe.wr_id != expected || expected >= posted)
			abort();
	}
}

/* A shared receive queue is resized, watched, or destroyed and made again. */
static void change_srq(struct target *target, struct input *input)
{
	uint32_t queue = take_u8(input) % SRQ_COUNT;
	struct srq *srq = &target->srq[queue];
	bool is_replaceable = target->qp->type == QP_TYPE_XRC_RECV;

	rq_resize(&target->arena, srq->rq, 1 + take_u8(input) % (2 * DEPTH));
	rq_set_limit(srq->rq, take_u8(input) % DEPTH);
	if (is_replaceable && take_u8(input) % 4 == 0) {
		poll(target);
		srq_destroy(target, queue);
		srq_create(target, queue);
	}
}

/* What was posted to a queue, and is not completed, waits in it; or went with the queue before. */
static bool are_receives_accounted(const struct target *target)
{
	for (uint32_t i = 0; i < SRQ_COUNT; i++) {
		uint64_t waiting = target->is_shared ? rq_count(target->srq[i].rq) : 0;

		if (target->receives_completed[i] + waiting != target->receives_posted[i])
			return false;
	}
	return true;
}

static void send_some(struct target *target, uint32_t count)
{
	uint8_t packet[ENGINE_PACKET_BYTES_MAX];
	struct packet_run run = {.buffer = packet, .run_bytes = count * 256};

	while (count--)
		if (!engine_next_packet(&target->lane, count % 2, &run, target->now_ns))
			break;
}

static void pass_time(struct target *target, struct input *input)
{
	uint64_t deadline_ns = engine_deadline_ns(&target->lane);
	uint8_t choice = take_u8(input);

	if (choice % 2 && deadline_ns != DEADLINE_NEVER)
		target->now_ns = max_u64(target->now_ns, deadline_ns);
	else
		target->now_ns += 1000ull << choice / 16;
	engine_expire(&target->lane, target->now_ns);
}

/* The opcodes of the queue pair's type have their class in the top bits. */
static uint8_t take_opcode(struct target *target, struct input *input)
{
	uint8_t choice = take_u8(input);

	switch ((int)target->qp->type) {
	case QP_TYPE_UC:
		return OPCODE_CLASS_UC | choice % 0x0c;
	case QP_TYPE_UD:
		return OPCODE_CLASS_UD | (4 + choice % 2);
	case QP_TYPE_XRC_SEND:
	case QP_TYPE_XRC_RECV:
		return OPCODE_CLASS_XRC | choice % 0x20;
	default:
		return choice % 0x20;
	}
}

/* What a request should have as PSN: the next one. */
static uint32_t expected_psn(struct target *target)
{
	switch ((int)target->qp->type) {
	case QP_TYPE_RC:
	case QP_TYPE_XRC_SEND:
	case QP_TYPE_XRC_RECV:
		return rc_from_qp(target->qp)->responder.expected.value;
	case QP_TYPE_UC:
		return container_of(target->qp, struct uc_qp, qp)->expected.value;
	default:
		return 0;
	}
}

/* Headers that make sense one by one; whether they do together is the engine's question. */
static size_t make_packet(struct target *target, struct input *input, uint8_t *bytes)
{
	const struct opcode_info *info = opcode_info(take_opcode(target, input));
	struct packet packet;

	if (!info)
		return 0;
	memset(&packet, 0, sizeof(packet));
	packet_init(&packet, (enum opcode)info->opcode);
	packet.bth.dest_qpn = qpn_from(target->qp->qpn);
	if (info->role == OPCODE_ROLE_REQUEST)
		packet.bth.psn = psn_from(take_near(input, expected_psn(target)));
	else
		packet.bth.psn =
			psn_from(take_near(input, rc_from_qp(target->qp)->requester.una.value));
	packet.xrceth.srqn = 0x010100 + take_u8(input) % (SRQ_COUNT + 1);
	packet.deth = (struct deth){take_near(input, QKEY), {7}};
	if (target->qp->type == QP_TYPE_UD && take_u8(input) % 4 == 0)
		packet.bth.dest_qpn = QPN_MULTICAST;
	packet.bth.ack_requested = take_u8(input) % 2;
	packet.reth =
		(struct reth){take_address(input), take_key(input, target), take_length(input)};
	packet.ieth.rkey = take_key(input, target);
	packet.feth = (struct feth){take_u8(input) % 4, take_u8(input) % 4};
	packet.atomiceth = (struct atomiceth){packet.reth.va, packet.reth.rkey, take_u8(input), 0};
	uint8_t aeth[AETH_BYTES] = {take_u8(input), 0, 0, take_u8(input)};
	aeth_decode(&packet.aeth, aeth);
	packet_set_payload(&packet, NULL, take_length(input) % 300);
	if (packet.payload_bytes && packet.payload_bytes == packet.reth.dma_bytes % 300)
		packet.reth.dma_bytes = packet.payload_bytes;
	if (!target->is_selective) {
		packet_encode_headers(&packet, bytes);
		return packet_bytes(&packet);
	}
	packet.bth.is_selective = take_u8(input) % 16 != 0;
	if (packet.info->payload == PAYLOAD_MAP && take_u8(input) % 2) {
		packet.aeth = (struct aeth){AETH_NAK, AETH_NAK_PSN_SEQUENCE, {0}};
		packet_set_payload(&packet, NULL, SELECTIVE_MAP_BYTES);
		bytes[BTH_BYTES + AETH_BYTES] = take_u8(input) & take_u8(input);
		bytes[BTH_BYTES + AETH_BYTES + take_u8(input) % SELECTIVE_MAP_BYTES] |=
			take_u8(input) & take_u8(input);
	}
	packet_encode_headers(&packet, bytes);
	return packet_bytes(&packet);
}

static void receive(struct target *target, struct input *input)
{
	uint8_t bytes[ENGINE_PACKET_BYTES_MAX] = {0};
	size_t length = make_packet(target, input, bytes);
	uint8_t flips = take_u8(input);

	for (; length && flips >= 0xf8; flips--) { /* now and then nothing makes sense */
		bytes[take_u8(input) % length] = take_u8(input);
		length -= take_u8(input) % 4 == 0;
	}
	/* A copy of exactly its size, so that a read too far is seen. */
	uint8_t *exact = malloc(length ? length : 1);
	if (!exact)
		abort();
	memcpy(exact, bytes, length);
	uint8_t way = take_u8(input);
	bool is_multicast = way % 4 == 0;
	struct packet_origin origin = {
		.source = &target->remote,
		.destination = is_multicast ? &target->group : &target->local,
		.source_port = way & 0x80 ? 0xc001 : 0xc002,
		.traffic_class = way >> 2 & 3,
	};
	engine_receive(&target->lane, &origin, exact, length, target->now_ns);
	free(exact);
	if (!target->is_guarded) {
		memset(&target->lane.guards, 0, sizeof(target->lane.guards));
		memset(target->qp->guard, 0, sizeof(target->qp->guard));
	}
}

static void step(struct target *target, struct input *input)
{
	uint32_t events;

	switch (take_u8(input) % 16) {
	case 0:
	case 1:
		post_send(target, input);
		break;
	case 2:
		post_receive(target, input);
		break;
	case 3:
		pass_time(target, input);
		break;
	case 4:
		poll(target);
		break;
	case 5:
		if (target->qp->state == QP_SQE)
			qp_set_state(target->qp, QP_RTS, target->now_ns);
		change_srq(target, input);
		if (take_u8(input) == 0)
			mr_table_remove(&target->mrs, target->key, PD);
		break;
	case 6:
	case 7:
	case 8:
		send_some(target, 1 + take_u8(input) % 8);
		break;
	default:
		receive(target, input);
	}
	while (signal_take(&target->lane.signals, &events))
		;
	engine_check(&target->lane);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	struct target target;

	target_init(&target, &input, size % 8 >= 4);
	target.is_guarded = size % 4 == 0;
	for (uint32_t i = 0; i < STEP_COUNT_MAX && input.left_bytes; i++)
		step(&target, &input);
	poll(&target);
	/* Whatever was posted and is not done is flushed, once. */
	qp_set_state(&target.qp[0], QP_ERR, target.now_ns);
	poll(&target);
	if (!target.cq.ring->has_overrun &&
		(target.sends_completed != target.sends_posted || !are_receives_accounted(&target)))
		abort();
	target_done(&target);
	return 0;
}
