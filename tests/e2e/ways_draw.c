/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "ways.h"

static uint64_t below(uint64_t *random, uint64_t limit)
{
	return (peer_random(random) >> 11) % limit;
}

static bool one_in(uint64_t *random, uint64_t count)
{
	return below(random, count) == 0;
}

static uint32_t draw_bytes(uint64_t *random, uint32_t mtu_bytes)
{
	switch (below(random, 6)) {
	case 0:
		return (uint32_t)below(random, 3);
	case 1:
		return (uint32_t)below(random, 65);
	case 2:
		return mtu_bytes - 1 + (uint32_t)below(random, 3);
	case 3:
		return (uint32_t)below(random, WAYS_REQUEST_BYTES);
	default:
		return (uint32_t)below(random, 4 * (uint64_t)mtu_bytes);
	}
}

/* Cut `bytes` into pieces, some perhaps empty; returns how many. */
static uint32_t draw_pieces(uint64_t *random, uint32_t bytes, uint32_t piece[WAYS_PIECES_MAX])
{
	uint32_t count = 1 + (uint32_t)below(random, WAYS_PIECES_MAX);

	for (uint32_t i = 0; i < count; i++) {
		piece[i] = i + 1 == count ? bytes : (uint32_t)below(random, bytes + 1);
		bytes -= piece[i];
	}
	return count;
}

static bool is_word(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
		opcode == IBV_WR_ATOMIC_WRITE;
}

static bool takes_receive(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
		opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_send(enum ibv_wr_opcode opcode)
{
	return takes_receive(opcode) && opcode != IBV_WR_RDMA_WRITE_WITH_IMM;
}

static const enum ibv_wr_opcode opcodes[] = {
	IBV_WR_SEND,
	IBV_WR_SEND,
	IBV_WR_SEND_WITH_IMM,
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ,
	IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_WR_ATOMIC_WRITE,
};

static void draw_remote(uint64_t *random, struct ways_request *request, bool has_window)
{
	uint32_t room = WAYS_REQUEST_BYTES;
	uint32_t base = 0;

	if (has_window && request->bytes <= WAYS_WINDOW_BYTES && one_in(random, 2)) {
		request->key = KEY_WINDOW;
		base = WAYS_WINDOW_OFFSET;
		room = WAYS_WINDOW_BYTES;
	}
	request->remote_offset = base + (uint32_t)below(random, room - request->bytes + 1);
	if (is_word(request->opcode))
		request->remote_offset &= ~7u;
}

static bool has_opcode(const struct ways_program *program, enum ibv_wr_opcode opcode)
{
	if (program->has_datagrams)
		return is_send(opcode);
	return !program->is_unreliable || (!is_word(opcode) && opcode != IBV_WR_RDMA_READ);
}

static enum ibv_wr_opcode draw_opcode(uint64_t *random, const struct ways_program *program)
{
	enum ibv_wr_opcode opcode;

	do
		opcode = opcodes[below(random, sizeof(opcodes) / sizeof(*opcodes))];
	while (!has_opcode(program, opcode));
	return opcode;
}

static void draw_request(uint64_t *random, const struct ways_program *program,
	struct ways_request *request, bool has_window)
{
	uint32_t mtu_bytes = program->mtu_bytes;

	*request = (struct ways_request){
		.opcode = draw_opcode(random, program),
		.imm = (uint32_t)peer_random(random),
		/* Small ones, so that a comparison succeeds now and then. */
		.compare_add = below(random, 2),
		.swap = below(random, 2),
	};
	request->bytes = is_word(request->opcode) ? 8 : draw_bytes(random, mtu_bytes);
	if (program->is_unreliable && request->bytes > WAYS_UNRELIABLE_BYTES)
		request->bytes = WAYS_UNRELIABLE_BYTES;
	request->pieces = draw_pieces(random, request->bytes, request->piece);
	if (is_word(request->opcode)) {
		request->pieces = 1;
		request->piece[0] = 8;
	}
	if (one_in(random, 2))
		request->flags |= IBV_SEND_SIGNALED;
	if (one_in(random, 4) && !program->is_unreliable)
		request->flags |= IBV_SEND_FENCE;
	if (one_in(random, 4))
		request->flags |= IBV_SEND_SOLICITED;
	if (request->bytes <= WAYS_INLINE_BYTES && one_in(random, 2) &&
		(is_send(request->opcode) || request->opcode == IBV_WR_RDMA_WRITE))
		request->flags |= IBV_SEND_INLINE;
	draw_remote(random, request, has_window);
	request->takes_receive = takes_receive(request->opcode);
	if (request->takes_receive)
		request->receive_pieces = draw_pieces(random,
			(program->has_datagrams ? WAYS_HEADER_BYTES : 0) +
				(is_send(request->opcode) ? request->bytes : 0) +
				(uint32_t)below(random, 9),
			request->receive_piece);
}

/* --- what goes wrong --- */

static bool fits_wrong(const struct ways_request *request, enum ways_wrong wrong)
{
	bool is_atomic = is_word(request->opcode) && request->opcode != IBV_WR_ATOMIC_WRITE;
	bool is_remote = !is_send(request->opcode);

	switch (wrong) {
	case WRONG_NOTHING:
	case WRONG_COUNT:
		return false;
	case WRONG_RKEY:
	case WRONG_BOUNDS:
	case WRONG_RIGHTS:
	case WRONG_QP_RIGHTS:
	case WRONG_DOMAIN:
	case WRONG_WINDOW:
		return is_remote && request->bytes;
	case WRONG_ALIGNMENT:
		return is_atomic;
	case WRONG_NO_RECEIVE:
		return request->takes_receive;
	case WRONG_SHORT_RECEIVE:
	case WRONG_RECEIVE_KEY:
		return is_send(request->opcode) && request->bytes;
	case WRONG_LOCAL_KEY:
		return request->bytes && !(request->flags & IBV_SEND_INLINE);
	case WRONG_LOCAL_RIGHTS:
		return request->bytes && (request->opcode == IBV_WR_RDMA_READ || is_atomic);
	case WRONG_INVALIDATION:
		return is_send(request->opcode);
	}
	return false;
}

static void spoil(struct ways_request *request, enum ways_wrong wrong)
{
	request->wrong = wrong;
	switch ((int)wrong) {
	case WRONG_RKEY:
		request->key = KEY_NONE;
		break;
	case WRONG_RIGHTS:
		request->key = request->opcode == IBV_WR_RDMA_READ ? KEY_WRITE_ONLY : KEY_READ_ONLY;
		break;
	case WRONG_DOMAIN:
		request->key = KEY_FOREIGN;
		break;
	case WRONG_ALIGNMENT:
		request->remote_offset += 4;
		break;
	case WRONG_INVALIDATION:
		request->opcode = IBV_WR_SEND_WITH_INV;
		request->key = KEY_NONE;
		break;
	default:
		break; /* by who executes it */
	}
}

/* Without its rights the queue pair would refuse an earlier request. */
static bool is_first_remote(const struct ways_step *step, unsigned end, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++)
		if (!is_send(step->of[end].request[i].opcode))
			return false;
	return true;
}

/* Not every kind of fault goes with every request, nor with every connection. */
static void draw_wrong(
	uint64_t *random, const struct ways_program *program, struct ways_step *step, unsigned end)
{
	uint32_t index = (uint32_t)below(random, step->of[end].count);
	struct ways_request *request = &step->of[end].request[index];

	for (unsigned tries = 0; tries < 8; tries++) {
		enum ways_wrong wrong = (enum ways_wrong)below(random, WRONG_COUNT);

		if (!fits_wrong(request, wrong) ||
			(wrong == WRONG_NO_RECEIVE && program->rnr_retry == 7) ||
			(program->is_xrc &&
				(wrong == WRONG_WINDOW || wrong == WRONG_INVALIDATION)) ||
			(wrong == WRONG_QP_RIGHTS && !is_first_remote(step, end, index)))
			continue;
		spoil(request, wrong);
		step->receive_late_ms = 0;
		return;
	}
}

uint32_t ways_wrong_index(const struct ways_step *step, unsigned end)
{
	uint32_t index = 0;

	while (index < step->of[end].count && !step->of[end].request[index].wrong)
		index++;
	return index;
}

static bool reads(const struct ways_request *request)
{
	return request->opcode == IBV_WR_RDMA_READ;
}

static bool changes(const struct ways_request *request)
{
	return !reads(request) && !is_send(request->opcode);
}

static bool overlap(const struct ways_request *one, const struct ways_request *other)
{
	return one->remote_offset < other->remote_offset + other->bytes &&
		other->remote_offset < one->remote_offset + one->bytes;
}

/* A READ may give what is written after it, unless that is fenced (IBTA 10.8.3.3). */
static void fence(struct ways_request *request, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < i; j++)
			if (reads(&request[j]) && changes(&request[i]) &&
				overlap(&request[j], &request[i]))
				request[i].flags |= IBV_SEND_FENCE;
}

static void draw_end(
	uint64_t *random, const struct ways_program *program, struct ways_step *step, unsigned end)
{
	uint32_t count = 1 + (uint32_t)below(random, WAYS_REQUESTS_MAX);

	step->of[end].count = count;
	step->of[end].has_window = one_in(random, 3) && !program->is_unreliable && !program->is_xrc;
	step->of[end].is_one_by_one = one_in(random, 4);
	for (uint32_t i = 0; i < count; i++)
		draw_request(random, program, &step->of[end].request[i], step->of[end].has_window);
	while (program->is_unreliable && !is_send(step->of[end].request[count - 1].opcode))
		draw_request(random, program, &step->of[end].request[count - 1], false);
	if (step->of[end].is_one_by_one)
		for (uint32_t i = 0; i < count; i++)
			step->of[end].request[i].flags |= IBV_SEND_SIGNALED;
	step->of[end].request[count - 1].flags |= IBV_SEND_SIGNALED;
	fence(step->of[end].request, count);
	/* The window may go with the last message. */
	struct ways_request *last = &step->of[end].request[count - 1];
	if (step->of[end].has_window && last->opcode == IBV_WR_SEND)
		*last = (struct ways_request){
			.opcode = IBV_WR_SEND_WITH_INV,
			.key = KEY_WINDOW,
			/*
			 * The peer may still be answering a READ when the window goes (IBTA
			 * 10.6.7.2.2).
			 */
			.flags = last->flags | IBV_SEND_FENCE,
			.bytes = last->bytes,
			.piece = {last->piece[0], last->piece[1], last->piece[2]},
			.pieces = last->pieces,
			.takes_receive = true,
			.receive_piece = {last->receive_piece[0], last->receive_piece[1],
				last->receive_piece[2]},
			.receive_pieces = last->receive_pieces,
		};
}

static void draw_step(uint64_t *random, const struct ways_program *program, struct ways_step *step)
{
	memset(step, 0, sizeof(*step));
	step->active = 1 + (unsigned)below(random, 3);
	for (unsigned end = 0; end < 2; end++) {
		step->arm[end] = (enum ways_arm)below(random, 3);
		step->srq_limit[end] = (uint32_t)below(random, 4);
		if (step->active & 1u << end)
			draw_end(random, program, step, end);
	}
	if (program->is_unreliable)
		return;
	if (program->rnr_retry == 7 && one_in(random, 4))
		step->receive_late_ms = 1 + (uint32_t)below(random, 8);
	if (step->active != 3 && one_in(random, 3))
		draw_wrong(random, program, step, step->active - 1);
}

void ways_draw(struct ways_program *program, uint64_t seed)
{
	uint64_t random = seed;

	*program = (struct ways_program){
		.mtu_bytes = 256u << below(&random, 5),
		.rd_atomic = (uint8_t)(1 + below(&random, 8)),
		.rnr_retry = one_in(&random, 2) ? 7 : 1,
		.is_all_signaled = one_in(&random, 4),
		.begins_in_rtr = one_in(&random, 4),
		.has_srq = one_in(&random, 3),
		.is_unreliable = one_in(&random, 5),
		.steps = 1 + (uint32_t)below(&random, WAYS_STEPS_MAX),
	};
	program->has_datagrams = program->is_unreliable && one_in(&random, 2);
	program->is_xrc = !program->is_unreliable && one_in(&random, 4);
	program->has_srq |= program->is_xrc;
	if (program->is_xrc)
		program->rnr_retry = 7; /* a queue that is not known yet is not ready */
	if (program->has_datagrams || program->is_xrc)
		program->begins_in_rtr = false; /* nobody tells */
	for (uint32_t i = 0; i < program->steps; i++)
		draw_step(&random, program, &program->step[i]);
}
