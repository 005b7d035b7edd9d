/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of each end has three parts: one that never changes, from which the end sends and the
 * peer READs; slots that the peer's SENDs and WRITEs and this end's READs fill; and a counter for
 * atomics.
 */
#include "streams.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "support/sim_random.h"
#include "support/stream.h"

enum {
	SLOT_BYTES = 40 << 10,
	CONSTANT_BYTES = 100 << 10,
	RECEIVE_SLOTS = 3,
	WRITE_SLOTS = 3,
	READ_SLOTS = 3,
	AT_RECEIVE = CONSTANT_BYTES,
	AT_WRITE = AT_RECEIVE + RECEIVE_SLOTS * SLOT_BYTES,
	AT_READ = AT_WRITE + WRITE_SLOTS * SLOT_BYTES,
	AT_COUNTER = AT_READ + READ_SLOTS * SLOT_BYTES, /* and behind it, where its values come */
	PIPE_BYTES = 256 << 10,
	REQUESTS = 120, /* of each end */
	OUTSTANDING_MAX = STREAM_DEPTH,
	STEPS_MAX = 2000000,
};

/* The bytes on their way. */
struct pipe {
	uint8_t bytes[PIPE_BYTES];
	size_t count;
	size_t capacity;
	bool is_ended;
};

struct request {
	enum wr_opcode opcode;
	uint32_t offset; /* in the constant part: of the sender, or, of a READ, of the peer */
	uint32_t bytes;
	uint32_t slot;
};

struct side {
	struct stream_end end;
	struct side *peer;
	struct pipe out;
	struct request requests[REQUESTS];
	uint32_t posted, completed;
	bool is_read_slot_used[READ_SLOTS];
	uint64_t messages
		[REQUESTS]; /* the peer's requests that take a receive request, by their number */
	uint32_t message_count, received;
	uint32_t receives_posted, receives_done;
	uint64_t added; /* by the peer, to our counter */
	uint8_t model[WRITE_SLOTS * SLOT_BYTES];
};

struct history {
	struct side side[2];
	struct sim_random random;
	bool is_broken; /* the connection was cut, or closed */
	bool is_traced;
	uint64_t pieces;
};

static_assert(AT_COUNTER + 64 <= STREAM_MEMORY_BYTES, "all of it fits");

#define REQUIRE(condition)     \
	((condition) ? (void)0 \
		     : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), abort()))

static uint32_t below(struct history *history, uint32_t limit)
{
	return (uint32_t)(sim_random_next(&history->random) % limit);
}

static uint32_t length_choose(struct history *history)
{
	switch (below(history, 4)) {
	case 0:
		return below(history, 3);
	case 1:
		return below(history, 200);
	case 2:
		return below(history, 9000);
	default:
		return below(history, SLOT_BYTES + 1);
	}
}

/* --- posting --- */

static bool is_message(enum wr_opcode opcode)
{
	return opcode == WR_SEND || opcode == WR_RDMA_WRITE_WITH_IMM;
}

static bool read_slot_take(struct side *side, uint32_t *ret_slot)
{
	for (uint32_t i = 0; i < READ_SLOTS; i++)
		if (!side->is_read_slot_used[i]) {
			side->is_read_slot_used[i] = true;
			*ret_slot = i;
			return true;
		}
	return false;
}

static void request_post(struct history *history, struct side *side)
{
	static const enum wr_opcode opcodes[] = {WR_SEND, WR_RDMA_WRITE, WR_RDMA_READ,
		WR_RDMA_WRITE_WITH_IMM, WR_ATOMIC_FETCH_AND_ADD};
	struct request *request = &side->requests[side->posted];
	struct side *peer = side->peer;
	struct send_wr wr;
	struct sge sge;

	*request = (struct request){.opcode = opcodes[below(history, ARRAY_COUNT(opcodes))],
		.bytes = length_choose(history),
		.slot = below(history, WRITE_SLOTS)};
	request->offset = below(history, CONSTANT_BYTES - request->bytes + 1);
	if (request->opcode == WR_RDMA_READ && !read_slot_take(side, &request->slot))
		return;
	if (request->opcode == WR_RDMA_READ) {
		wr = stream_wr(&side->end, &peer->end, request->opcode, &sge,
			AT_READ + request->slot * SLOT_BYTES, request->bytes, request->offset);
	} else if (request->opcode == WR_ATOMIC_FETCH_AND_ADD) {
		request->bytes = 8;
		wr = stream_wr(&side->end, &peer->end, request->opcode, &sge, AT_COUNTER + 8, 8,
			AT_COUNTER);
		wr.compare_add = request->offset;
	} else {
		wr = stream_wr(&side->end, &peer->end, request->opcode, &sge, request->offset,
			request->bytes, AT_WRITE + request->slot * SLOT_BYTES);
	}
	wr.wr_id = side->posted;
	wr.imm = side->posted;
	if (below(history, 8) == 0)
		wr.flags |= SEND_FENCE;
	REQUIRE(!stream_post(&side->end, &wr));
	if (is_message(request->opcode))
		peer->messages[peer->message_count++] = side->posted;
	if (request->opcode == WR_RDMA_WRITE || request->opcode == WR_RDMA_WRITE_WITH_IMM)
		memcpy(peer->model + request->slot * SLOT_BYTES, side->end.memory + request->offset,
			request->bytes);
	if (request->opcode == WR_ATOMIC_FETCH_AND_ADD)
		peer->added += request->offset;
	side->posted++;
}

static void receive_post(struct side *side)
{
	uint32_t number = side->receives_posted;

	/* A slot is free again when its message was looked at. */
	if (number - side->receives_done >= RECEIVE_SLOTS)
		return;
	REQUIRE(!stream_post_receive(
		&side->end, number, AT_RECEIVE + number % RECEIVE_SLOTS * SLOT_BYTES, SLOT_BYTES));
	side->receives_posted++;
}

/* --- completions --- */

static void received(struct history *history, struct side *side, const struct cqe *cqe)
{
	const struct side *peer = side->peer;
	const struct request *request;

	REQUIRE(cqe->wr_id == side->receives_done);
	side->receives_done++;
	if (cqe->status != WC_SUCCESS) {
		REQUIRE(history->is_broken && cqe->status == WC_WR_FLUSH_ERR);
		return;
	}
	REQUIRE(side->received < side->message_count);
	request = &peer->requests[side->messages[side->received]];
	if (request->opcode == WR_SEND) {
		REQUIRE(cqe->opcode == WC_RECV && cqe->byte_count == request->bytes);
		REQUIRE(memcmp(side->end.memory + AT_RECEIVE +
					cqe->wr_id % RECEIVE_SLOTS * SLOT_BYTES,
				peer->end.memory + request->offset, request->bytes) == 0);
	} else {
		REQUIRE(cqe->opcode == WC_RECV_RDMA_WITH_IMM);
		REQUIRE(cqe->imm == side->messages[side->received]);
	}
	side->received++;
}

static void completed(struct history *history, struct side *side, const struct cqe *cqe)
{
	const struct request *request = &side->requests[side->completed];

	REQUIRE(cqe->wr_id == side->completed);
	side->completed++;
	if (cqe->status != WC_SUCCESS) {
		REQUIRE(history->is_broken && cqe->status == WC_WR_FLUSH_ERR);
		return;
	}
	if (request->opcode != WR_RDMA_READ)
		return;
	side->is_read_slot_used[request->slot] = false;
	REQUIRE(memcmp(side->end.memory + AT_READ + request->slot * SLOT_BYTES,
			side->peer->end.memory + request->offset, request->bytes) == 0);
}

static void poll_all(struct history *history, struct side *side)
{
	struct cqe cqe;

	while (stream_poll(&side->end, &cqe)) {
		if (cqe.queue_offset)
			completed(history, side, &cqe);
		else
			received(history, side, &cqe);
	}
}

/* --- the stream --- */

static uint32_t piece_choose(struct history *history)
{
	switch (below(history, 4)) {
	case 0:
		return 1 + below(history, 3);
	case 1:
		return 1 + below(history, 100);
	case 2:
		return 1 + below(history, 3000);
	default:
		return PIPE_BYTES;
	}
}

static void send_some(struct history *history, struct side *side)
{
	struct pipe *pipe = &side->out;
	size_t room = pipe->capacity - min_u64(pipe->count, pipe->capacity);
	size_t count = stream_take(
		&side->end, pipe->bytes + pipe->count, min_u64(room, piece_choose(history)));

	pipe->count += count;
	history->pieces += count != 0;
	if (side->end.has_said_end)
		pipe->is_ended = true;
}

static void deliver_some(struct history *history, struct side *side)
{
	struct pipe *pipe = &side->peer->out;
	size_t piece = min_u64(pipe->count, piece_choose(history));
	size_t taken = stream_give(&side->end, pipe->bytes, piece);

	memmove(pipe->bytes, pipe->bytes + taken, pipe->count - taken);
	pipe->count -= taken;
	if (side->end.is_closed)
		pipe->count = 0;
	if (pipe->count == 0 && pipe->is_ended && !side->end.iwarp->is_peer_ended)
		stream_give_end(&side->end, false);
}

static void break_it(struct history *history)
{
	uint32_t kind = below(history, 3);
	struct qp_attr attr = {0};

	history->is_broken = true;
	for (uint32_t i = 0; i < 2; i++) {
		struct side *side = &history->side[i];

		if (kind == 0 || (kind == 1 && i == 0))
			stream_give_end(&side->end, true);
		if (kind == 1 && i == 1)
			side->peer->out.is_ended = true; /* a dead peer's kernel says so */
		if (kind == 2 && i == 0)
			REQUIRE(!qp_modify(
				side->end.qp, QP_ERR, ATTR_STATE, &attr, side->end.now_ns));
	}
	if (history->is_traced)
		printf("broken: kind %u\n", kind);
}

/* --- a history --- */

static void side_start(struct history *history, struct side *side, struct side *peer,
	const struct iwarp_settings *settings)
{
	struct stream_options options = {.settings = *settings};

	stream_start(&side->end, &options);
	side->peer = peer;
	side->out.capacity = 1 + below(history, PIPE_BYTES);
	memcpy(side->model, side->end.memory + AT_WRITE, sizeof(side->model));
	memset(side->end.memory + AT_COUNTER, 0, 16);
	for (uint32_t i = 0; i < CONSTANT_BYTES; i++)
		side->end.memory[i] = (uint8_t)sim_random_next(&history->random);
}

static void step(struct history *history, struct side *side)
{
	switch (below(history, 8)) {
	case 0:
		if (side->posted < REQUESTS && side->posted - side->completed < OUTSTANDING_MAX &&
			!history->is_broken)
			request_post(history, side);
		break;
	case 1:
		if (!history->is_broken)
			receive_post(side);
		break;
	case 2:
		poll_all(history, side);
		break;
	case 3:
		stream_pass(&side->end, below(history, 20000));
		break;
	case 4:
	case 5:
		send_some(history, side);
		break;
	default:
		deliver_some(history, side);
		break;
	}
}

static bool is_done(const struct history *history)
{
	for (uint32_t i = 0; i < 2; i++) {
		const struct side *side = &history->side[i];

		if (history->is_broken ? !side->end.is_closed
				       : side->completed < REQUESTS ||
					side->received < side->message_count || side->out.count)
			return false;
	}
	return true;
}

static void check_end(struct history *history, struct side *side)
{
	uint64_t counter;

	poll_all(history, side);
	REQUIRE(side->completed == side->posted);
	if (history->is_broken) {
		REQUIRE(side->receives_done == side->receives_posted);
		return;
	}
	REQUIRE(memcmp(side->end.memory + AT_WRITE, side->model, sizeof(side->model)) == 0);
	memcpy(&counter, side->end.memory + AT_COUNTER, sizeof(counter));
	REQUIRE(counter == side->added);
}

void streams_run(uint64_t seed, bool is_traced, struct streams_result *result)
{
	static struct history history;
	struct iwarp_settings settings = {.ird = QP_RD_ATOMIC_MAX};
	uint32_t break_at, markers;

	memset(&history, 0, sizeof(history));
	history.random = (struct sim_random){seed};
	history.is_traced = is_traced;
	markers = below(&history, 3) ? 0 : below(&history, 4);
	settings.has_crc = below(&history, 2);
	settings.ready = below(&history, 2) ? 1u << below(&history, 3) : 0;
	settings.ird = 1 + below(&history, QP_RD_ATOMIC_MAX);
	settings.ord = settings.ird;
	break_at = below(&history, 3) ? UINT32_MAX : below(&history, 5000);
	for (uint32_t i = 0; i < 2; i++) {
		settings.is_initiator = i == 0;
		settings.sends_markers = markers & (1u << i);
		settings.receives_markers = markers & (2u >> i);
		side_start(&history, &history.side[i], &history.side[!i], &settings);
	}
	for (uint32_t i = 0; !is_done(&history); i++) {
		REQUIRE(i < STEPS_MAX);
		step(&history, &history.side[below(&history, 2)]);
		if (i == break_at)
			break_it(&history);
	}
	for (uint32_t i = 0; i < 2; i++) {
		check_end(&history, &history.side[i]);
		result->requests += history.side[i].completed;
	}
	for (uint32_t i = 0; i < 2; i++)
		stream_stop(&history.side[i].end);
	result->pieces += history.pieces;
	result->breaks += history.is_broken;
}
