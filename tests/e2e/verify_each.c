/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One request at a time: all operations, critical sizes, one or several scatter/gather entries,
 * inline. Bytes beside the destination must not change.
 */
#include <inttypes.h>
#include <string.h>

#include "verify.h"

enum {
	GUARD_BYTES = 64, /* on either side of what may change */
	SHIFT_BYTES = 5, /* so that nothing is aligned */
	WINDOW_BYTES = (8 << 20) + 4096,
	DEPTH = 64,
	PIECES = 3, /* scatter/gather entries */
	INLINE_BYTES = 256,
	SEED_GUARD = 1 << 30,
};

#define ATOMIC_BASE (1ull << 40)

enum target_sees {
	TARGET_SEES_NOTHING,
	TARGET_SEES_WRITTEN,
	TARGET_SEES_RECEIVED,
	TARGET_SEES_IMM,
};

struct operation {
	const char *name;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_opcode wc_opcode;
	enum target_sees target;
	bool has_imm;
	bool is_atomic;
};

static const struct operation operations[] = {
	{"SEND", IBV_WR_SEND, IBV_WC_SEND, TARGET_SEES_RECEIVED, false, false},
	{"SEND with immediate", IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, TARGET_SEES_RECEIVED, true,
		false},
	{"WRITE", IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, TARGET_SEES_WRITTEN, false, false},
	{"WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, TARGET_SEES_IMM,
		true, false},
	{"READ", IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, TARGET_SEES_NOTHING, false, false},
	{"compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, TARGET_SEES_NOTHING,
		false, true},
	{"fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, TARGET_SEES_NOTHING, false,
		true},
};

static const uint32_t sizes[] = {0, 1, 2, 3, 4, 7, 13, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025,
	4095, 4096, 4097, 65535, 65536, 65537, 1048577, (8 << 20) + 3};

enum layout {
	LAYOUT_PLAIN,
	LAYOUT_PIECES,
	LAYOUT_INLINE,
	LAYOUT_COUNT,
};

struct each {
	struct peer *peer;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *window; /* what the peer acts on, and what we receive into */
	struct ibv_mr *local; /* what we act from or into */
	struct peer_buffer remote; /* the other's window */
	uint32_t inline_bytes;
	uint32_t largest_bytes; /* of the sizes to try */
	uint64_t seed; /* of the case; the same on both sides */
};

enum { DATA_OFFSET = GUARD_BYTES + SHIFT_BYTES };

/* Cut a range into `count` uneven pieces, some perhaps empty. Returns how many. */
static int cut(const struct ibv_mr *mr, size_t bytes, int count, struct ibv_sge *sge)
{
	size_t done = 0;

	for (int i = 0; i < count; i++) {
		size_t piece = i == count - 1 ? bytes - done : (bytes - done) / 3;

		sge[i] = peer_sge(mr, DATA_OFFSET + done, piece);
		done += piece;
	}
	return count;
}

/* Fill the whole window with the guard pattern, and the data with that of the case. */
static void prepare(struct each *each, struct ibv_mr *mr, size_t bytes, bool has_data)
{
	peer_pattern_fill(mr->addr, 2 * DATA_OFFSET + bytes, each->seed + SEED_GUARD);
	if (has_data)
		peer_pattern_fill(window_at(mr, DATA_OFFSET), bytes, each->seed);
}

/* What is around the data is as prepare() left it; so is the data, if nothing was to happen. */
static void check(
	struct each *each, struct ibv_mr *mr, size_t bytes, bool has_data, const char *name)
{
	uint64_t guard = each->seed + SEED_GUARD;

	if (has_data)
		peer_pattern_check(window_at(mr, DATA_OFFSET), bytes, each->seed, name);
	peer_pattern_check(mr->addr, DATA_OFFSET, guard, "the bytes before");
	for (size_t i = DATA_OFFSET + bytes; i < 2 * DATA_OFFSET + bytes; i++)
		CHECK(*window_at(mr, i) == peer_pattern(guard, i),
			"%s of %zu changes byte %zu behind", name, bytes, i - DATA_OFFSET - bytes);
}

static uint32_t imm_of(const struct each *each)
{
	return (uint32_t)(each->seed * 2654435761u);
}

static void act(
	struct each *each, const struct operation *operation, size_t bytes, enum layout layout)
{
	bool is_read = operation->opcode == IBV_WR_RDMA_READ;
	struct ibv_sge sge[PIECES];
	struct ibv_send_wr wr = {
		.wr_id = each->seed,
		.sg_list = sge,
		.opcode = operation->opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = imm_of(each),
	};

	prepare(each, each->local, bytes, !is_read);
	wr.num_sge = cut(each->local, bytes, layout == LAYOUT_PIECES ? PIECES : 1, sge);
	wr.wr.rdma.remote_addr = each->remote.address + DATA_OFFSET;
	wr.wr.rdma.rkey = each->remote.rkey;
	if (layout == LAYOUT_INLINE)
		wr.send_flags |= IBV_SEND_INLINE;
	peer_barrier(each->peer);
	peer_post_send(each->qp, &wr);
	if (layout == LAYOUT_INLINE) /* the buffer is ours again at once */
		memset(window_at(each->local, DATA_OFFSET), 0, bytes);

	struct ibv_wc wc = peer_success(each->cq);
	CHECK(wc.wr_id == each->seed && wc.opcode == operation->wc_opcode &&
			wc.qp_num == each->qp->qp_num,
		"%s: the completion is of request %" PRIu64 ", opcode %d", operation->name,
		wc.wr_id, wc.opcode);
	if (is_read)
		check(each, each->local, bytes, true, operation->name);
	peer_barrier(each->peer);
}

static void suffer(struct each *each, const struct operation *operation, size_t bytes)
{
	bool is_received = operation->target == TARGET_SEES_RECEIVED;
	struct ibv_sge sge[PIECES];
	struct ibv_recv_wr wr = {.wr_id = ~each->seed, .sg_list = sge}, *bad;

	prepare(each, each->window, bytes, operation->target == TARGET_SEES_NOTHING);
	if (is_received)
		wr.num_sge = cut(each->window, bytes, PIECES, sge);
	if (is_received || operation->target == TARGET_SEES_IMM)
		CHECK(!ibv_post_recv(each->qp, &wr, &bad), "no receive request");
	peer_barrier(each->peer);
	if (is_received || operation->target == TARGET_SEES_IMM) {
		struct ibv_wc wc = peer_success(each->cq);

		CHECK(wc.wr_id == ~each->seed && wc.byte_len == bytes &&
				wc.opcode ==
					(is_received ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM) &&
				!!(wc.wc_flags & IBV_WC_WITH_IMM) == operation->has_imm &&
				(!operation->has_imm || wc.imm_data == imm_of(each)),
			"%s of %zu bytes: %u bytes, opcode %d, flags %u", operation->name, bytes,
			wc.byte_len, wc.opcode, wc.wc_flags);
	}
	peer_barrier(each->peer);
	check(each, each->window, bytes, true, operation->name);
}

/* The target's eight bytes are known, so is what is left of them and what comes back. */
static void act_atomically(struct each *each, const struct operation *operation)
{
	bool is_swap = operation->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct ibv_sge sge = peer_sge(each->local, 8, 8);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = operation->opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = {each->remote.address, each->seed, ~each->seed, each->remote.rkey},
	};
	uint64_t original, expected = ATOMIC_BASE - each->seed;

	if (is_swap && each->seed % 2) /* every other one matches */
		wr.wr.atomic.compare_add = expected;
	peer_barrier(each->peer);
	peer_post_send(each->qp, &wr);
	peer_success(each->cq);
	memcpy(&original, window_at(each->local, 8), sizeof(original));
	CHECK(original == expected, "%s returns %" PRIx64, operation->name, original);
	peer_barrier(each->peer);
}

static void suffer_atomically(struct each *each, const struct operation *operation)
{
	uint64_t value = ATOMIC_BASE - each->seed, expected = ATOMIC_BASE;

	if (operation->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		expected = each->seed % 2 ? ~each->seed : value;
	prepare(each, each->window, DATA_OFFSET, false);
	memcpy(each->window->addr, &value, sizeof(value));
	peer_barrier(each->peer);
	peer_barrier(each->peer);
	memcpy(&value, each->window->addr, sizeof(value));
	CHECK(value == expected, "%s leaves %" PRIx64 ", not %" PRIx64, operation->name, value,
		expected);
	for (size_t i = 8; i < DATA_OFFSET; i++)
		CHECK(*window_at(each->window, i) == peer_pattern(each->seed + SEED_GUARD, i),
			"%s changes byte %zu", operation->name, i);
}

static void each_case(struct each *each, const struct operation *operation, size_t bytes,
	enum layout layout, bool is_actor)
{
	each->seed++;
	if (operation->is_atomic)
		is_actor ? act_atomically(each, operation) : suffer_atomically(each, operation);
	else
		is_actor ? act(each, operation, bytes, layout) : suffer(each, operation, bytes);
}

static bool is_legal(const struct each *each, const struct operation *operation, uint32_t bytes,
	enum layout layout)
{
	if (operation->is_atomic)
		return layout == LAYOUT_PLAIN;
	return layout != LAYOUT_INLINE ||
		(operation->opcode != IBV_WR_RDMA_READ && bytes <= each->inline_bytes);
}

static void each_operation(struct each *each, const struct operation *operation, bool is_actor)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= each->largest_bytes;
		i++)
		for (int layout = 0; layout < LAYOUT_COUNT; layout++)
			if (is_legal(each, operation, sizes[i], (enum layout)layout))
				each_case(each, operation, sizes[i], (enum layout)layout, is_actor);
}

void verify_each(struct peer *peer, uint32_t largest_bytes)
{
	struct each each = {
		.peer = peer, .inline_bytes = INLINE_BYTES, .largest_bytes = largest_bytes};
	struct peer_buffer ours;

	each.cq = peer_cq_create(peer, 2 * DEPTH, NULL);
	each.qp = peer_qp_create(peer, each.cq, DEPTH, PIECES, INLINE_BYTES);
	each.window = peer_memory(peer, WINDOW_BYTES);
	each.local = peer_memory(peer, WINDOW_BYTES);
	ours = peer_buffer_of(each.window);
	peer_exchange(peer, &ours, &each.remote, sizeof(ours));
	peer_qp_connect(peer, each.qp, &peer_link_full);
	for (int turn = 0; turn < 2; turn++)
		for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
			each_operation(&each, &operations[i], peer_is_server(peer) == (turn == 0));
	CHECK(!ibv_destroy_qp(each.qp) && !ibv_destroy_cq(each.cq), "objects stay");
	peer_memory_free(each.window);
	peer_memory_free(each.local);
	printf("each: %" PRIu64 " cases\n", each.seed);
}
