/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arith.h"
#include "queue/tags.h"
#include "support/arena_memory.h"
#include "support/permutation.h"

enum { ARENA_BYTES = 4 << 20, FILL_MODULUS = 251, SLOT = 7 };

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

struct iwarp_settings stream_settings(bool is_initiator)
{
	return (struct iwarp_settings){
		.is_initiator = is_initiator,
		.ird = QP_RD_ATOMIC_MAX,
		.ord = QP_RD_ATOMIC_MAX,
	};
}

/* Bytes that count up. */
static const uint8_t *counting(void)
{
	static uint8_t bytes[STREAM_MEMORY_BYTES];

	if (!bytes[1])
		for (uint32_t i = 0; i < STREAM_MEMORY_BYTES; i++)
			bytes[i] = (uint8_t)(i % FILL_MODULUS);
	return bytes;
}

bool stream_is_untouched(const struct stream_end *end, uint32_t at, uint32_t bytes)
{
	return memcmp(end->memory + at, counting() + at, bytes) == 0;
}

static void memory_start(struct stream_end *end)
{
	struct mr_region region = {
		.pd = STREAM_PD,
		.access = MR_LOCAL_WRITE | MR_REMOTE_ANY | MR_WINDOW_BIND,
		.bytes = STREAM_MEMORY_BYTES,
	};

	end->memory = aligned_alloc(4096, STREAM_MEMORY_BYTES);
	REQUIRE(end->memory);
	memcpy(end->memory, counting(), STREAM_MEMORY_BYTES);
	region.address = end->memory;
	region.iova = (uintptr_t)end->memory;
	REQUIRE(!mr_table_add(&end->mrs, &region, 0x5a, &end->key));
}

static void after(struct stream_end *end)
{
	struct signal *signal;
	uint32_t events;

	engine_check(&end->lane);
	while ((signal = signal_take(&end->lane.signals, &events)))
		if (signal->kind == SIGNAL_KIND_QP)
			end->events |= events;
	if (iwarp_wish(end->iwarp) == IWARP_END) {
		REQUIRE(!end->has_said_end);
		end->has_said_end = true;
		iwarp_half_closed(end->iwarp, end->now_ns);
		after(end);
	}
	if (iwarp_wish(end->iwarp) == IWARP_CLOSE)
		end->is_closed = true;
}

void stream_start(struct stream_end *end, const struct stream_options *options)
{
	struct qp_attr attr = {.access = options->access ? options->access : MR_REMOTE_ANY};
	struct qp_init init = {
		.type = QP_TYPE_IWARP,
		.pd = STREAM_PD,
		.send_cq = &end->cq,
		.recv_cq = &end->cq,
		.caps =
			{
				.send_depth = STREAM_DEPTH,
				.recv_depth = STREAM_DEPTH,
				.send_sge_max = 4,
				.recv_sge_max = 4,
				.inline_bytes_max = 256,
			},
		.is_all_signaled = true,
	};

	memset(end, 0, sizeof(*end));
	end->arena_memory = arena_memory_new(ARENA_BYTES);
	arena_init(&end->arena, end->arena_memory, ARENA_BYTES);
	REQUIRE(!mr_table_init(&end->mrs, &end->arena, 64, test_permutation(1)));
	memory_start(end);
	REQUIRE(!engine_lane_init(&end->lane, &end->arena, &end->mrs, SLOT, 0));
	REQUIRE(!cq_init(&end->cq, &end->arena, options->cq_entries ? options->cq_entries : 512));
	REQUIRE(!engine_qp_create(&end->lane, &init, 1, &end->qp));
	end->iwarp = iwarp_from_qp(end->qp);
	REQUIRE(!qp_modify(end->qp, QP_INIT, ATTR_STATE | ATTR_ACCESS, &attr, 0));
	if (!options->is_not_open)
		REQUIRE(!iwarp_open(end->iwarp, &options->settings, 0));
	after(end);
}

void stream_stop(struct stream_end *end)
{
	engine_qp_destroy(end->qp);
	cq_done(&end->cq, &end->arena);
	engine_lane_done(&end->lane);
	mr_table_done(&end->mrs);
	free(end->memory);
	arena_memory_free(end->arena_memory, ARENA_BYTES);
}

void stream_pair_start(
	struct stream_end *a, struct stream_end *b, const struct stream_options *options)
{
	struct stream_options each = *options;

	each.settings.is_initiator = true;
	stream_start(a, &each);
	each.settings.is_initiator = false;
	stream_start(b, &each);
	for (uint32_t i = 0; i < STREAM_MEMORY_BYTES; i++)
		b->memory[i] = (uint8_t)~a->memory[i];
}

void stream_pair_stop(struct stream_end *a, struct stream_end *b)
{
	stream_stop(a);
	stream_stop(b);
}

struct send_wr stream_wr(const struct stream_end *end, const struct stream_end *peer,
	enum wr_opcode opcode, struct sge *sge, uint64_t offset, uint32_t bytes,
	uint64_t remote_offset)
{
	*sge = (struct sge){(uintptr_t)end->memory + offset, bytes, end->key};
	return (struct send_wr){
		.opcode = opcode,
		.rkey = peer ? peer->key : 0,
		.remote_address = peer ? (uintptr_t)peer->memory + remote_offset : 0,
		.sge = sge,
		.sge_count = 1,
	};
}

int stream_post(struct stream_end *end, const struct send_wr *wr)
{
	uint32_t posted;
	int error = engine_post_send(end->qp, wr, 1, &posted, end->now_ns);

	after(end);
	return error;
}

int stream_post_receive(struct stream_end *end, uint64_t wr_id, uint64_t offset, uint32_t bytes)
{
	struct sge sge = {(uintptr_t)end->memory + offset, bytes, end->key};
	struct recv_wr wr = {.wr_id = wr_id, .sge = &sge, .sge_count = 1};

	return qp_post_recv(end->qp, &wr);
}

/* As the runtime does it: the short way, if it is one. */
static unsigned output(struct stream_end *end, struct iwarp_part parts[IWARP_PIECES_MAX])
{
	parts[0].at = iwarp_output_fast(end->iwarp, &parts[0].bytes);
	return parts[0].at ? 1 : iwarp_output(end->iwarp, parts, end->now_ns);
}

static unsigned offer(struct stream_end *end, struct iwarp_span spans[IWARP_SPANS_MAX])
{
	spans[0] = (struct iwarp_span){iwarp_offer_buffer(end->iwarp), IWARP_RX_BYTES};
	return spans[0].at ? 1 : iwarp_offer(end->iwarp, spans);
}

/*
 * The runtime asks only a scheduled queue pair (worker/worker_streams.c). When the socket has room
 * again, it schedules the queue pair whose bytes the socket did not take.
 */
static bool is_turn_of(struct stream_end *end)
{
	if (end->is_blocked)
		iwarp_schedule(end->iwarp);
	end->is_blocked = false;
	return iwarp_first(&end->lane) == end->iwarp;
}

/* Take up to `room` bytes, at least 1, of the next output. Returns how many. */
static uint32_t output_take(struct stream_end *end, uint8_t *to, size_t room)
{
	struct iwarp_part parts[IWARP_PIECES_MAX];
	unsigned count = output(end, parts);
	uint32_t taken = 0, offered = 0;

	for (unsigned i = 0; i < count; i++) {
		uint32_t step = (uint32_t)min_u64(parts[i].bytes, room - taken);

		memcpy(to + taken, parts[i].at, step);
		taken += step;
		offered += parts[i].bytes;
	}
	if (taken)
		iwarp_sent(end->iwarp, taken, end->now_ns);
	end->is_blocked = taken < offered;
	return taken;
}

size_t stream_take(struct stream_end *end, uint8_t *to, size_t room)
{
	size_t taken = 0;
	uint32_t step = 1;

	if (end->is_closed || end->has_said_end || !is_turn_of(end))
		return 0;
	while (step && taken < room && !end->is_blocked) {
		step = output_take(end, to + taken, room - taken);
		taken += step;
	}
	if (!step || end->is_blocked)
		iwarp_unschedule(end->iwarp);
	after(end);
	return taken;
}

size_t stream_give(struct stream_end *end, const uint8_t *from, size_t bytes)
{
	struct iwarp_span spans[IWARP_SPANS_MAX];
	size_t given = 0;

	while (given < bytes && !end->is_closed) {
		unsigned count = offer(end, spans);
		uint32_t step = 0;

		for (unsigned i = 0; i < count && given + step < bytes; i++) {
			uint32_t piece = (uint32_t)min_u64(spans[i].bytes, bytes - given - step);

			memcpy(spans[i].at, from + given + step, piece);
			step += piece;
		}
		if (!step)
			break;
		given += step;
		iwarp_received(end->iwarp, step, end->now_ns);
		after(end);
	}
	return given;
}

void stream_give_end(struct stream_end *end, bool is_lost)
{
	if (end->is_closed)
		return;
	iwarp_ended(end->iwarp, is_lost, end->now_ns);
	after(end);
}

void stream_pass(struct stream_end *end, uint64_t ns)
{
	end->now_ns += ns;
	engine_expire(&end->lane, end->now_ns);
	after(end);
}

bool stream_poll(struct stream_end *end, struct cqe *ret_cqe)
{
	return cq_poll(&end->cq, &end->arena, 1, ret_cqe) == 1;
}

static size_t move(struct stream_end *from, struct stream_end *to)
{
	static uint8_t bytes[1 << 20];
	bool had_ended = from->has_said_end;
	size_t count = stream_take(from, bytes, sizeof(bytes));

	stream_give(to, bytes, count);
	if (from->has_said_end && !to->iwarp->is_peer_ended)
		stream_give_end(to, false);
	return count + (from->has_said_end != had_ended);
}

void stream_run(struct stream_end *a, struct stream_end *b)
{
	while (move(a, b) + move(b, a))
		;
}
