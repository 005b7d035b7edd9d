/* SPDX-License-Identifier: BSD-2-Clause */
#include "traffic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "memory/mw.h"

enum {
	WINDOW_BYTES = 512 << 10,
	WORD_BYTES = 8, /* at the window's start: the peer's own atomic word */
	DATA_OFFSET = 64,
	HEAP_BYTES = 8 << 20,
};

static void fill(uint8_t *to, uint64_t bytes, uint64_t seed)
{
	struct sim_random random = {seed};

	for (uint64_t at = 0; at < bytes; at += 8) {
		uint64_t word = sim_random_next(&random);

		memcpy(to + at, &word, min_u64(8, bytes - at));
	}
}

static uint64_t random_of(struct end *end, uint64_t limit)
{
	return sim_random_below(&end->world->random, limit);
}

/*
 * --- making operations ---
 */

/* Ranges of the window that READs since the last fence may still be reading. */
struct read_ranges {
	uint32_t count;
	struct {
		uint64_t from;
		uint64_t to;
	} range[TRAFFIC_OP_COUNT_MAX];
};

static uint32_t random_length(struct end *end)
{
	uint32_t mtu_bytes = end->shape.mtu_bytes;

	switch (random_of(end, 16)) {
	case 0:
		return 0;
	case 1: /* around whole packets, where off-by-ones live */
	case 2:
		return (uint32_t)(mtu_bytes * (1 + random_of(end, 4)) + random_of(end, 3) - 1);
	case 3:
		return (uint32_t)random_of(end, end->shape.big_bytes_max + 1ull);
	case 4:
	case 5:
	case 6:
		return (uint32_t)random_of(end, 6ull * mtu_bytes);
	default:
		return (uint32_t)random_of(end, 300);
	}
}

static enum wr_opcode random_opcode(struct end *end)
{
	static const enum wr_opcode opcodes[] = {
		WR_SEND, WR_SEND, WR_SEND_WITH_IMM, WR_RDMA_WRITE, WR_RDMA_WRITE,
		WR_RDMA_WRITE_WITH_IMM, WR_RDMA_READ, WR_RDMA_READ, WR_ATOMIC_CMP_AND_SWP,
		WR_ATOMIC_FETCH_AND_ADD, WR_ATOMIC_WRITE, WR_FLUSH, WR_SEND_WITH_INV,
		WR_BIND_MW, /* or LOCAL_INV, by turns */
	};

	return opcodes[random_of(end, ARRAY_COUNT(opcodes))];
}

/* The key for an operation on the peer's window: of its region, or of a grant that still holds. */
static uint32_t random_key(struct end *end, bool is_read)
{
	struct grant *grant = &end->peer->grant[random_of(end, TRAFFIC_GRANT_COUNT)];

	if (grant->is_revoked || random_of(end, 2))
		return end->peer->window_key;
	grant->is_read |= is_read;
	return grant->key;
}

/* Reading of [from, to) may still be under way: writing there waits for it. */
static void fence_if_read(
	struct op *op, const struct read_ranges *reads, uint64_t from, uint64_t to)
{
	for (uint32_t i = 0; i < reads->count; i++)
		if (from < reads->range[i].to && reads->range[i].from < to)
			op->wr.flags |= SEND_FENCE;
}

static void plan_data(struct end *end, struct op *op, struct read_ranges *reads)
{
	op->bytes = random_length(end);
	op->seed = sim_random_next(&end->world->random);
	bool is_inline = op->bytes <= TRAFFIC_INLINE_BYTES && random_of(end, 3) == 0;
	heap_take_pieces(&end->heap, &op->list, op->bytes, PIECE_COUNT_MAX);
	uint8_t *data = malloc(op->bytes + 1ull);
	if (!data)
		abort();
	fill(data, op->bytes, op->seed);
	pieces_fill(&op->list, data);
	if (is_inline)
		op->wr.flags |= SEND_INLINE;
	if (wr_table[op->wr.opcode].operation == OPERATION_WRITE) {
		uint64_t from =
			DATA_OFFSET + random_of(end, WINDOW_BYTES - DATA_OFFSET - op->bytes + 1ull);

		op->window_offset = from;
		op->wr.remote_address = (uintptr_t)end->peer->window + from;
		op->wr.rkey = random_key(end, false);
		memcpy(end->model + from, data, op->bytes);
		fence_if_read(op, reads, from, from + op->bytes);
	}
	free(data);
}

static void plan_read(struct end *end, struct op *op, struct read_ranges *reads)
{
	op->bytes = random_length(end);
	op->window_offset =
		DATA_OFFSET + random_of(end, WINDOW_BYTES - DATA_OFFSET - op->bytes + 1ull);
	op->wr.remote_address = (uintptr_t)end->peer->window + op->window_offset;
	op->wr.rkey = random_key(end, true);
	heap_take_pieces(&end->heap, &op->list, op->bytes, PIECE_COUNT_MAX);
	op->expected = malloc(op->bytes + 1ull);
	if (!op->expected)
		abort();
	memcpy(op->expected, end->model + op->window_offset, op->bytes);
	reads->range[reads->count].from = op->window_offset;
	reads->range[reads->count].to = op->window_offset + op->bytes;
	reads->count++;
}

/* On the own word the result is known; on the shared counter only the sum is. */
static void plan_atomic(struct end *end, struct op *op, struct shared_counter *counter)
{
	bool is_swap = op->wr.opcode == WR_ATOMIC_CMP_AND_SWP;
	uint64_t word;

	op->bytes = WORD_BYTES;
	heap_take_pieces(&end->heap, &op->list, WORD_BYTES, 1);
	op->wr.compare_add = sim_random_next(&end->world->random);
	op->wr.swap = sim_random_next(&end->world->random);
	if (!is_swap && random_of(end, 2)) {
		op->wr.remote_address = (uintptr_t)&counter->value;
		op->wr.rkey = counter->key;
		counter->expected += op->wr.compare_add;
		return;
	}
	op->wr.remote_address = (uintptr_t)end->peer->window;
	op->wr.rkey = random_key(end, false);
	memcpy(&word, end->model, WORD_BYTES);
	op->original = word;
	op->has_original = true;
	if (!is_swap) {
		word += op->wr.compare_add;
	} else if (random_of(end, 3)) {
		op->wr.compare_add = word;
		word = op->wr.swap;
	}
	memcpy(end->model, &word, WORD_BYTES);
}

/* Eight bytes at an aligned place of the data. */
static void plan_atomic_write(struct end *end, struct op *op, const struct read_ranges *reads)
{
	uint64_t from = DATA_OFFSET +
		random_of(end, (WINDOW_BYTES - DATA_OFFSET) / WORD_BYTES) * WORD_BYTES;
	uint8_t data[WORD_BYTES];

	op->bytes = WORD_BYTES;
	op->seed = sim_random_next(&end->world->random);
	fill(data, WORD_BYTES, op->seed);
	heap_take_pieces(&end->heap, &op->list, WORD_BYTES, PIECE_COUNT_MAX);
	pieces_fill(&op->list, data);
	if (random_of(end, 3) == 0)
		op->wr.flags |= SEND_INLINE;
	op->wr.remote_address = (uintptr_t)end->peer->window + from;
	op->wr.rkey = random_key(end, false);
	memcpy(end->model + from, data, WORD_BYTES);
	fence_if_read(op, reads, from, from + WORD_BYTES);
}

static void plan_flush(struct end *end, struct op *op)
{
	uint64_t from = random_of(end, WINDOW_BYTES);

	op->wr.remote_address = (uintptr_t)end->peer->window + from;
	op->wr.rkey = random_key(end, false);
	op->wr.flush = (struct wr_flush){
		.bytes = (uint32_t)random_of(end, WINDOW_BYTES - from + 1),
		.placement = FETH_PLACEMENT_GLOBAL,
		.selectivity =
			(uint8_t)(random_of(end, 2) ? FETH_SELECT_RANGE : FETH_SELECT_REGION),
	};
}

/* The own memory window: bound when it is not, invalidated when it is. */
static void plan_own(struct end *end, struct op *op)
{
	if (end->is_own_bound) {
		op->wr.opcode = WR_LOCAL_INV;
		op->wr.imm = end->own_key;
	} else {
		end->own_key ^= 1 + (uint32_t)random_of(end, 255);
		op->wr.rkey = end->own_key;
		op->wr.remote_address = (uintptr_t)end->window + random_of(end, 1000);
		op->wr.bind =
			(struct wr_bind){1 + random_of(end, 1000), end->window_key, MR_REMOTE_READ};
	}
	end->is_own_bound = !end->is_own_bound;
}

/* A SEND that takes a grant back, unless all were taken back. */
static void plan_revoke(struct end *end, struct op *op)
{
	for (uint32_t i = 0; i < TRAFFIC_GRANT_COUNT; i++) {
		struct grant *grant = &end->peer->grant[i];

		if (grant->is_revoked)
			continue;
		/* The answers to a READ are made one by one, each with a look at the key. */
		if (grant->is_read)
			op->wr.flags |= SEND_FENCE;
		grant->is_revoked = true;
		op->wr.imm = grant->key;
		return;
	}
	op->wr.opcode = WR_SEND;
}

static void plan_op(struct end *end, struct op *op, struct read_ranges *reads,
	struct shared_counter *peer_counter)
{
	switch ((int)op->wr.opcode) {
	case WR_RDMA_READ:
		plan_read(end, op, reads);
		break;
	case WR_ATOMIC_CMP_AND_SWP:
	case WR_ATOMIC_FETCH_AND_ADD:
		plan_atomic(end, op, peer_counter);
		break;
	case WR_ATOMIC_WRITE:
		plan_atomic_write(end, op, reads);
		break;
	case WR_FLUSH:
		plan_flush(end, op);
		break;
	case WR_BIND_MW:
		plan_own(end, op);
		break;
	case WR_SEND_WITH_INV:
		plan_revoke(end, op);
		plan_data(end, op, reads);
		break;
	default:
		plan_data(end, op, reads);
	}
}

/* Nothing before the fence is under way any more. */
static void plan_fenced(struct end *end, struct read_ranges *reads)
{
	reads->count = 0;
	for (uint32_t i = 0; i < TRAFFIC_GRANT_COUNT; i++)
		end->peer->grant[i].is_read = false;
}

void end_plan(struct end *end, struct end *peer, struct shared_counter *peer_counter)
{
	struct read_ranges reads = {0};
	uint32_t since_signaled = 0;

	end->peer = peer;
	memcpy(end->model, peer->window, WINDOW_BYTES);
	end->op_count = end->shape.op_count;
	for (uint32_t i = 0; i < end->op_count; i++) {
		struct op *op = &end->op[i];
		/*
		 * The last request is signaled, so that the test notices the end, and because a
		 * queue of unsignaled requests never gets free slots.
		 */
		bool must_signal =
			i == end->op_count - 1 || since_signaled + 1 >= end->shape.send_depth;

		op->wr.opcode = random_opcode(end);
		op->wr.wr_id = i;
		op->wr.imm = (uint32_t)sim_random_next(&end->world->random);
		if (must_signal || sim_random_chance(&end->world->random, end->shape.signaled_ppm))
			op->wr.flags |= SEND_SIGNALED;
		if (random_of(end, 8) == 0)
			op->wr.flags |= SEND_FENCE;
		if (random_of(end, 4) == 0)
			op->wr.flags |= SEND_SOLICITED;
		if (peer->pools)
			op->pool = &peer->pools[random_of(end, peer->pool_count)];
		if (op->pool)
			op->wr.srqn = op->pool->srq.number;
		plan_op(end, op, &reads, peer_counter);
		if (op->wr.flags & SEND_FENCE && op->wr.opcode != WR_RDMA_READ)
			plan_fenced(end, &reads);
		since_signaled = op->wr.flags & SEND_SIGNALED ? 0 : since_signaled + 1;
		op->wr.sge = op->list.sge;
		op->wr.sge_count = op->list.count;
	}
}

void end_plan_receives(struct end *end)
{
	for (uint32_t i = 0; i < end->peer->op_count; i++) {
		const struct op *op = &end->peer->op[i];
		struct receive *receive = &end->receive[end->receive_count];
		bool is_send = wr_table[op->wr.opcode].operation == OPERATION_SEND;

		if (!wr_table[op->wr.opcode].takes_receive)
			continue;
		receive->op = op;
		end->receive_count++;
		if (op->pool)
			continue;
		heap_take_pieces(&end->heap, &receive->list,
			(is_send ? op->bytes : 0) + (uint32_t)random_of(end, 40), PIECE_COUNT_MAX);
	}
}

/*
 * --- posting ---
 */

void end_post_sends(struct end *end, uint32_t count)
{
	uint64_t now_ns = sim_now_ns(end->world->sim);

	for (; count && end->ops_posted < end->op_count; count--) {
		uint32_t posted;
		int error =
			engine_post_send(end->qp, &end->op[end->ops_posted].wr, 1, &posted, now_ns);

		if (error == -ENOMEM)
			break;
		WORLD_CHECK(end->world, error == 0 && posted == 1, "post_send %u: %d",
			end->ops_posted, error);
		end->ops_posted++;
	}
}

void end_post_receives(struct end *end)
{
	while (!end->pools && end->receives_posted < end->receive_count) {
		const struct receive *receive = &end->receive[end->receives_posted];
		struct recv_wr wr = {RECV_WR_ID_FLAG | end->receives_posted, receive->list.sge,
			receive->list.count};
		int error = qp_post_recv(end->qp, &wr);

		if (error == -ENOMEM)
			break;
		WORLD_CHECK(end->world, error == 0, "post_recv: %d", error);
		end->receives_posted++;
		if (end->shape.is_receive_late)
			break;
	}
}

/*
 * --- completions ---
 */

static void op_check(struct end *end, uint32_t index)
{
	struct op *op = &end->op[index];

	if (op->wr.opcode == WR_RDMA_READ)
		WORLD_CHECK(end->world, pieces_hold(&op->list, op->expected, op->bytes),
			"READ %u of qp %06x returned other bytes", index, end->qp->qpn);
	if (op->has_original)
		WORLD_CHECK(end->world,
			pieces_hold(&op->list, (const uint8_t *)&op->original, WORD_BYTES),
			"atomic %u of qp %06x found another value", index, end->qp->qpn);
}

static void send_complete(struct end *end, const struct cqe *cqe)
{
	WORLD_CHECK(end->world, cqe->status == WC_SUCCESS, "qp %06x wr %llu: %s", cqe->qpn,
		(unsigned long long)cqe->wr_id, fault_sentence((enum fault)cqe->fault));
	WORLD_CHECK(end->world, cqe->wr_id < end->ops_posted, "wr_id %llu",
		(unsigned long long)cqe->wr_id);
	/* Unsignaled ones before it are done, too. */
	while (end->ops_completed < cqe->wr_id) {
		WORLD_CHECK(end->world, !(end->op[end->ops_completed].wr.flags & SEND_SIGNALED),
			"no completion for %u, %llu came", end->ops_completed,
			(unsigned long long)cqe->wr_id);
		op_check(end, end->ops_completed++);
	}
	WORLD_CHECK(end->world, end->ops_completed == cqe->wr_id, "%llu again, %u expected",
		(unsigned long long)cqe->wr_id, end->ops_completed);
	const struct op *op = &end->op[end->ops_completed];
	WORLD_CHECK(end->world, op->wr.flags & SEND_SIGNALED, "%u was not signaled",
		end->ops_completed);
	WORLD_CHECK(end->world, cqe->opcode == wr_table[op->wr.opcode].wc_opcode, "opcode %u",
		cqe->opcode);
	WORLD_CHECK(end->world, cqe->byte_count == op->bytes, "%u bytes", cqe->byte_count);
	op_check(end, end->ops_completed++);
}

/* Is this what `op` must have brought, in these pieces? */
static void receive_check(
	struct end *end, const struct piece_list *list, const struct op *op, const struct cqe *cqe)
{
	unsigned long long wr_id = cqe->wr_id & ~RECV_WR_ID_FLAG;
	bool has_imm = wr_table[op->wr.opcode].has_imm;
	bool is_write = wr_table[op->wr.opcode].operation == OPERATION_WRITE;
	uint32_t placed_bytes = is_write ? 0 : op->bytes;

	WORLD_CHECK(end->world, cqe->status == WC_SUCCESS, "receive %llx: %s", wr_id,
		fault_sentence((enum fault)cqe->fault));
	WORLD_CHECK(end->world,
		cqe->opcode == (is_write ? WC_RECV_RDMA_WITH_IMM : (uint32_t)WC_RECV), "opcode %u",
		cqe->opcode);
	WORLD_CHECK(end->world, cqe->byte_count == op->bytes, "receive %llx: %u bytes", wr_id,
		op->bytes);
	WORLD_CHECK(end->world, !!(cqe->flags & WC_WITH_IMM) == has_imm, "receive %llx", wr_id);
	bool has_invalidate = wr_table[op->wr.opcode].has_invalidate;
	WORLD_CHECK(
		end->world, !!(cqe->flags & WC_WITH_INV) == has_invalidate, "receive %llx", wr_id);
	WORLD_CHECK(end->world, !(has_imm || has_invalidate) || cqe->imm == op->wr.imm,
		"receive %llx", wr_id);

	uint8_t *expected = malloc(placed_bytes + 1ull);
	if (!expected)
		abort();
	fill(expected, placed_bytes, op->seed);
	WORLD_CHECK(end->world, pieces_hold(list, expected, placed_bytes),
		"receive %llx holds other bytes", wr_id);
	free(expected);
	end->receives_completed++;
}

static void receive_complete(struct end *end, const struct cqe *cqe)
{
	uint32_t index = (uint32_t)(cqe->wr_id & ~RECV_WR_ID_FLAG);

	WORLD_CHECK(end->world, index == end->receives_completed && index < end->receives_posted,
		"receive %u, %u expected", index, end->receives_completed);
	receive_check(end, &end->receive[index].list, end->receive[index].op, cqe);
}

/* Messages to one pool come out of it in their order; those to two may be polled in any. */
static void pool_complete(struct end *end, const struct cqe *cqe)
{
	struct pool *pool = pool_of(end->pools, end->pool_count, cqe->wr_id);
	uint32_t buffer = (uint32_t)(cqe->wr_id & UINT16_MAX);
	struct receive *receive = end->receive;

	WORLD_CHECK(end->world, pool, "wr_id %llx", (unsigned long long)cqe->wr_id);
	while (receive < end->receive + end->receive_count &&
		(receive->is_complete || receive->op->pool != pool))
		receive++;
	WORLD_CHECK(end->world, receive < end->receive + end->receive_count,
		"more receives than messages");
	receive->is_complete = true;
	receive_check(end, &pool->buffer[buffer], receive->op, cqe);
	pool_release(pool, buffer);
}

void end_complete(struct end *end, const struct cqe *cqe)
{
	if ((cqe->wr_id & RECV_WR_ID_FLAG) && end->pools)
		pool_complete(end, cqe);
	else if (cqe->wr_id & RECV_WR_ID_FLAG)
		receive_complete(end, cqe);
	else
		send_complete(end, cqe);
}

bool end_is_finished(const struct end *end)
{
	return end->ops_completed == end->op_count && end->receives_completed == end->receive_count;
}

static void window_check(
	const struct end *end, uint32_t key, const struct qp *qp, bool is_bound, const char *which)
{
	enum mr_fault fault = mw_check(&end->host->mrs, key, (struct mr_user){WORLD_PD, qp->qpn});

	WORLD_CHECK(end->world, fault == (is_bound ? MR_OK : MR_FAULT_KEY), "qp %06x: %s",
		end->qp->qpn, which);
}

void end_check_final(const struct end *end)
{
	window_check(end, end->own_key, end->qp, end->is_own_bound, "the own memory window");
	for (uint32_t i = 0; i < TRAFFIC_GRANT_COUNT; i++)
		window_check(
			end, end->grant[i].key, end->recv_qp, !end->grant[i].is_revoked, "a grant");
	WORLD_CHECK(end->world, memcmp(end->peer->window, end->model, WINDOW_BYTES) == 0,
		"the window that qp %06x wrote differs from the model", end->qp->qpn);
	WORLD_CHECK(
		end->world, end->qp->sq->completed == end->qp->sq->posted, "qp %06x", end->qp->qpn);
}

/*
 * --- ends ---
 */

static uint32_t window_make(struct end *end)
{
	uint32_t key;

	if (mw_add(&end->host->mrs, WORLD_PD, MR_KIND_WINDOW_2,
		    (uint8_t)sim_random_next(&end->world->random), &key))
		abort();
	return key;
}

static void grants_make(struct end *end)
{
	for (uint32_t i = 0; i < TRAFFIC_GRANT_COUNT; i++) {
		struct mw_bind bind = {
			.key = window_make(end),
			.region_key = end->window_key,
			.user = {WORLD_PD, end->recv_qp->qpn},
			.access = MR_REMOTE_ANY | MR_FLUSH_GLOBAL,
			.iova = (uintptr_t)end->window,
			.bytes = WINDOW_BYTES,
		};

		if (mw_bind(&end->host->mrs, &bind))
			abort();
		end->grant[i].key = bind.key;
	}
	end->recv_qp->has_bound_windows = true;
	end->own_key = window_make(end);
}

void end_init(struct end *end, const struct end_init *init)
{
	memset(end, 0, sizeof(*end));
	end->world = init->world;
	end->host = init->host;
	end->qp = init->qp;
	end->recv_qp = init->recv_qp;
	end->pools = init->pools;
	end->pool_count = init->pool_count;
	end->shape = init->shape;
	end->window = calloc(1, WINDOW_BYTES);
	end->model = malloc(WINDOW_BYTES);
	if (!end->window || !end->model)
		abort();
	fill(end->window, WINDOW_BYTES, sim_random_next(&init->world->random));
	end->window_key = world_register(init->world, init->host, WORLD_PD,
		MR_LOCAL_WRITE | MR_REMOTE_ANY | MR_WINDOW_BIND | MR_FLUSH_GLOBAL, end->window,
		WINDOW_BYTES);
	grants_make(end);
	heap_init(&end->heap, init->world, init->host, HEAP_BYTES);
}

void end_done(struct end *end)
{
	for (uint32_t i = 0; i < end->op_count; i++)
		free(end->op[i].expected);
	free(end->window);
	free(end->model);
	heap_done(&end->heap);
}
