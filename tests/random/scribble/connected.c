/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: two NICs that execute requests on each other, over RC, UC and XRC, with receive
 * queues of their own and shared ones.
 */
#include "memory/mw.h"
#include "scenes.h"
#include "support/local_ends.h"

enum {
	OPERATIONS = 80,
	WARM_UP = 16, /* operations before the first word */
	GUARD_BYTES = 4096, /* at either end of the memory: no region names it */
	GUARD_BYTE = 0xa5,
	REGION_BYTES = MEMORY_BYTES - 2 * GUARD_BYTES,
	REQUESTS_MAX = 1024, /* of each kind in a round */
	FIRST_RECEIVE = 1000,
	FIRST_SEND = 50000,
};

/* What a program knows of its end. */
struct program {
	uint32_t received, sent; /* requests posted */
	bool is_receiving[REQUESTS_MAX], is_sending[REQUESTS_MAX];
	uint32_t window_key;
	bool is_apart; /* local_disconnect() was called */
	bool is_in_use; /* that was false: the channel is not used again */
	bool has_memory; /* its region is there */
};

static struct program programs[2];

static bool is_hostile(void)
{
	return scene.kind == ROUND_HOSTILE_OWNER;
}

/* --- what the ends need of their surroundings --- */

/* The attacker has it look as if initiators came and went. */
static bool wait_in_channel(uint32_t who, uint32_t round)
{
	(void)who;
	(void)round;
	for (uint32_t i = 0; scene.is_restless && i < 2; i++)
		atomic_store(&channel_of(i)->in_use,
			CHANNEL_USES_KEY | (uint32_t)words_value(&scene.words, 0));
	scene_pause();
	return !scene.is_dead;
}

static void pause_in_round(uint32_t round)
{
	(void)round;
	scene_pause();
}

static uint64_t now(void)
{
	return scene.now_ns;
}

/* The end whose process this is the memory of: all addresses are its own. */
static struct end *end_of(const struct peer *peer)
{
	return peer == &ends[0].peer ? &ends[1] : &ends[0];
}

static bool is_in_region(const struct end *end, uint64_t address, uint64_t bytes)
{
	return range_inside(address, bytes, (uintptr_t)end->memory + GUARD_BYTES, REGION_BYTES);
}

/*
 * Addresses outside of the region belong to other memory of the peer's process, or to none. A
 * request has such an address only if a hostile owner has put it into its table.
 */
static bool is_allowed(const struct peer *peer, uint64_t address, uint64_t bytes)
{
	bool is_inside = is_in_region(end_of(peer), address, bytes);

	words_scribble(&scene.words, draw_attack(2));
	if (!is_inside && !is_hostile())
		scene_fail("%llu bytes at a distance of %lld from the region",
			(unsigned long long)bytes,
			(long long)(address - (uintptr_t)end_of(peer)->memory));
	return is_inside;
}

static bool peer_write(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	bool is_there = is_allowed(peer, to, bytes);

	if (is_there)
		memcpy((uint8_t *)(uintptr_t)to, from, bytes);
	words_scribble(&scene.words, draw_attack(2));
	return is_there;
}

static bool peer_read(struct peer *peer, uint8_t *to, uint64_t from, size_t bytes)
{
	bool is_there = is_allowed(peer, from, bytes);

	if (is_there)
		memcpy(to, (const uint8_t *)(uintptr_t)from, bytes);
	words_scribble(&scene.words, draw_attack(2));
	return is_there;
}

/* As the runtime's: what lies in no segment that is mapped here is not there. */
static uint8_t *peer_map(
	struct peer *peer, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	(void)region;
	if (!is_in_region(end_of(peer), address, 1)) {
		(void)is_allowed(peer, address, 1);
		return NULL;
	}
	*bytes = min_u64(
		*bytes, (uintptr_t)end_of(peer)->memory + GUARD_BYTES + REGION_BYTES - address);
	words_scribble(&scene.words, draw_attack(2));
	return (uint8_t *)(uintptr_t)address;
}

static void peer_kick(struct peer *peer, uint32_t lane)
{
	(void)peer;
	(void)lane;
	words_scribble(&scene.words, draw_attack(2));
}

static bool peer_wake(struct peer *peer, struct waiter *waiter, enum waiter_state state)
{
	(void)peer;
	(void)waiter;
	return state == WAITER_SLEEPS;
}

static const struct peer_ops copied = {peer_write, peer_read, NULL, peer_kick, peer_wake, NULL};
static const struct peer_ops mapped = {peer_write, peer_read, peer_map, peer_kick, peer_wake, NULL};

/* --- the scene --- */

static void region_add(uint32_t number)
{
	struct end *end = &ends[number];
	uint8_t *start = end->memory + GUARD_BYTES;
	const struct mr_region region = {PD, ACCESS, (uintptr_t)start, REGION_BYTES, start};

	programs[number].has_memory = mr_table_add(&end->mrs, &region, 0, &end->key) == 0;
}

/* Wait for the users of a key, as a deregistration does. */
static bool end_quiesce(uint32_t number, uint32_t key)
{
	struct end *end = &ends[number];

	return programs[number].is_apart ||
		channel_quiesce(
			channel_of(number), &end->owner, &end->mrs, key, scene.now_ns + 100000000);
}

static bool first_quiesce(uint32_t key)
{
	return end_quiesce(0, key);
}

static bool second_quiesce(uint32_t key)
{
	return end_quiesce(1, key);
}

static void end_make(uint32_t number)
{
	struct end *end = &ends[number];

	end_init(end, number);
	end->owner =
		(struct local_owner){wait_in_channel, pause_in_round, now, 1 + number, NULL, 0};
	mr_table_remove(&end->mrs, end->key, PD);
	memset(end->memory, GUARD_BYTE, sizeof(end->memory));
	programs[number] = (struct program){.is_apart = false};
	region_add(number);
	mw_add(&end->mrs, PD, MR_KIND_WINDOW_2, 0, &programs[number].window_key);
	end->mrs.quiesce = number ? second_quiesce : first_quiesce;
}

/* The twin of an object on the owner's side. */
static void twin_add(void *object, uint64_t bytes)
{
	words_add(&scene.words, arena_peers_side(object), bytes);
}

static void queue_add(struct recv_queue *rq)
{
	twin_add(rq, sizeof(*rq));
	words_add_value(&scene.words, (uint64_t)rq->moves << 32 | rq->posted);
}

static void end_places_add(uint32_t number)
{
	struct end *end = &ends[number];
	struct request_channel *channel = channel_of(number);

	words_add(&scene.words, channel, sizeof(*channel));
	words_add(&scene.words, ring_of(number), sizeof(struct channel_ring));
	words_add(&scene.words, &channel->reservation, sizeof(channel->reservation));
	words_add(&scene.words, doorbell_of(number), sizeof(struct doorbell));
	twin_add(arena_at(&end->arena, ARENA_FIRST_OFFSET),
		end->arena.used_bytes - ARENA_FIRST_OFFSET);
	if (end->srq.rq)
		queue_add(end->srq.rq);
	if (end->qp->rq_offset)
		queue_add(end->qp->rq);
	words_add_value(&scene.words, end->channel_offset);
	words_add_value(&scene.words, channel_private(channel)->generation);
	words_add_value(&scene.words, end->key);
	words_add_value(&scene.words, CHANNEL_USES_KEY | end->key);
	words_add_value(&scene.words, (uintptr_t)end->memory + GUARD_BYTES);
	words_add_value(&scene.words, CHANNEL_TAKEN);
}

/* Everything that the initiator reads of a hostile owner. */
static void hostile_places_add(void)
{
	struct end *end = &ends[1];
	struct channel_table *table = arena_at(&end->arena, end->table_offset);
	struct recv_queue *rq = end->srq.rq ? end->srq.rq : end->qp->rq;

	scene.words.is_undone = true;
	words_add(&scene.words, end->mrs.slots, 16 * sizeof(struct mr_slot));
	words_add(&scene.words, end->mrs.slots, 2 * sizeof(struct mr_slot));
	words_add(&scene.words, end->mrs.places, 16 * sizeof(struct mr_place));
	words_add(
		&scene.words, (void *)(uintptr_t)end->mrs.permutation, sizeof(struct permutation));
	words_add(&scene.words, rq, sizeof(*rq));
	words_add(&scene.words, rq, sizeof(*rq));
	words_add(&scene.words, (uint8_t *)rq + rq->slots_distance, 4096);
	words_add(&scene.words, end->recv_cq.ring, sizeof(*end->recv_cq.ring));
	words_add(&scene.words, (void *)&table->offset[end->qp->qpn % CHANNEL_TABLE_COUNT], 8);
	if (end->srqs) {
		words_add(&scene.words, end->srq.public, sizeof(*end->srq.public));
		words_add(&scene.words,
			(void *)&end->srqs->directory->offset[SRQN % SRQ_TABLE_SIZE], 8);
	}
	words_add_value(&scene.words, arena_offset(&end->arena, rq));
	words_add_value(&scene.words, end->arena.bytes);
	words_add_value(&scene.words, end->arena.used_bytes);
}

static void scene_make(void)
{
	static const enum qp_type kinds[][2] = {
		{QP_TYPE_RC, QP_TYPE_RC},
		{QP_TYPE_RC, QP_TYPE_RC},
		{QP_TYPE_UC, QP_TYPE_UC},
		{QP_TYPE_XRC_SEND, QP_TYPE_XRC_RECV},
	};
	uint32_t kind = draw(4);
	const struct peer_ops *how = draw(2) ? &mapped : &copied;

	types[0] = kinds[kind][0];
	types[1] = kinds[kind][1];
	are_shared = kind < 3 && draw(2);
	end_make(0);
	end_make(1);
	meet(0);
	meet(1);
	ready_to_send(0, PSN);
	if (kind < 3 && draw(4))
		ready_to_send(1, PSN);
	ends[0].peer.ops = ends[1].peer.ops = how;
}

static void guard_check(const uint8_t *guard, uint32_t number)
{
	for (uint32_t i = 0; i < GUARD_BYTES; i++)
		if (guard[i] != GUARD_BYTE)
			scene_fail("a byte beside the region of end %u has changed", number);
}

static bool has_shared(uint32_t number)
{
	return are_shared || types[number] == QP_TYPE_XRC_RECV;
}

static void end_unmake(uint32_t number)
{
	struct end *end = &ends[number];

	guard_check(end->memory, number);
	guard_check(end->memory + GUARD_BYTES + REGION_BYTES, number);
	end->mrs.quiesce = NULL;
	engine_qp_destroy(end->qp);
	if (has_shared(number))
		srq_done(&end->srq, &end->arena);
	engine_lane_done(&end->lane);
	mr_table_done(&end->mrs);
	free(end->srqs);
}

/* --- what the programs do --- */

static void receive_post(uint32_t number)
{
	struct end *end = &ends[number];
	struct program *program = &programs[number];
	struct sge sge[3];
	struct recv_wr wr = {FIRST_RECEIVE + program->received, sge, draw(4) ? 1 : draw(3)};
	int error;

	if (program->received == REQUESTS_MAX)
		return;
	for (uint32_t i = 0; i < 3; i++)
		sge[i] = (struct sge){
			(uintptr_t)end->memory + GUARD_BYTES + draw(REGION_BYTES - 8192),
			draw(8192), draw_once_in(16) ? draw(1000) : end->key};
	error = has_shared(number)   ? srq_post(&end->srq, &wr)
		: end->qp->rq_offset ? qp_post_recv(end->qp, &wr)
				     : -1;
	if (!error)
		program->is_receiving[program->received++] = true;
}

static void send_post(uint32_t number)
{
	static const uint32_t opcodes[] = {WR_SEND, WR_SEND, WR_SEND, WR_SEND_WITH_IMM,
		WR_RDMA_WRITE, WR_RDMA_WRITE, WR_RDMA_WRITE_WITH_IMM, WR_RDMA_READ,
		WR_ATOMIC_FETCH_AND_ADD, WR_ATOMIC_CMP_AND_SWP, WR_ATOMIC_WRITE, WR_FLUSH,
		WR_SEND_WITH_INV};
	struct end *end = &ends[number], *other = &ends[1 - number];
	struct program *program = &programs[number];
	uint8_t *own = end->memory + GUARD_BYTES, *theirs = other->memory + GUARD_BYTES;
	uint32_t opcode = opcodes[draw(ARRAY_COUNT(opcodes))], posted, bytes = 8;
	struct sge sge[2];
	struct send_wr wr = {
		.wr_id = FIRST_SEND + program->sent,
		.opcode = opcode,
		.flags = SEND_SIGNALED | (draw_once_in(4) ? SEND_SOLICITED : 0),
		.imm = opcode == WR_SEND_WITH_INV ? programs[1 - number].window_key : draw(1000),
		.rkey = draw_once_in(16) ? programs[1 - number].window_key : other->key,
		.remote_address = (uintptr_t)theirs + draw(REGION_BYTES / 16) * 8,
		.sge = sge,
		.sge_count = 1,
		.srqn = SRQN,
	};

	if (program->sent == REQUESTS_MAX)
		return;
	if (opcode == WR_ATOMIC_FETCH_AND_ADD || opcode == WR_ATOMIC_CMP_AND_SWP) {
		wr.compare_add = draw(10);
		wr.swap = draw(10);
	} else if (opcode == WR_FLUSH) {
		wr.flush = (struct wr_flush){draw(100), (uint8_t)draw(3), (uint8_t)draw(3)};
		wr.sge_count = 0;
	} else if (opcode != WR_ATOMIC_WRITE) {
		bytes = draw(8) ? draw(200) : draw(20000);
	}
	sge[0] = (struct sge){(uintptr_t)own + draw(1000), bytes / 2, end->key};
	sge[1] = (struct sge){(uintptr_t)own + draw(1000), bytes - bytes / 2, end->key};
	if (bytes > 8 && draw_once_in(4))
		wr.sge_count = 2;
	else
		sge[0].bytes = bytes;
	if (!engine_post_send(end->qp, &wr, 1, &posted, scene.now_ns))
		program->is_sending[program->sent++] = true;
}

/* A request that was posted completes once. One of a shared queue may have been taken twice. */
static void completion_check(uint64_t number, bool *is_pending, uint32_t posted, bool is_twice)
{
	if (number >= posted || (!is_pending[number] && !is_twice))
		scene_fail("request %lld of %u completes", (long long)number, posted);
	is_pending[number] = false;
}

static void poll_end(uint32_t number)
{
	struct end *end = &ends[number];
	struct program *program = &programs[number];
	struct cqe cqe;

	while (cq_poll(&end->send_cq, &end->arena, 1, &cqe))
		completion_check(cqe.wr_id - FIRST_SEND, program->is_sending, program->sent, false);
	while (cq_poll(&end->recv_cq, &end->arena, 1, &cqe))
		completion_check(cqe.wr_id - FIRST_RECEIVE, program->is_receiving,
			program->received, has_shared(number));
	if (draw_once_in(2))
		cq_arm(&end->recv_cq, draw(2) ? CQ_ARM_NEXT : CQ_ARM_SOLICITED);
}

static void signals_take(uint32_t number)
{
	uint32_t events;

	while (signal_take(&ends[number].lane.signals, &events))
		;
}

static void packets_carry(uint32_t from)
{
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	const struct gid source = gid_of(from), destination = gid_of(1 - from);
	const struct packet_origin origin = {.source = &source, .destination = &destination};
	struct packet_run run = {.buffer = buffer};
	size_t bytes;

	for (uint32_t i = 0; i < 40; i++) {
		bytes = engine_next_packet(&ends[from].lane, true, &run, scene.now_ns);
		if (!bytes)
			return;
		if (!is_hostile())
			engine_receive(&ends[1 - from].lane, &origin, buffer, (uint32_t)bytes,
				scene.now_ns);
	}
}

static void memory_change(uint32_t number)
{
	struct end *end = &ends[number];

	if (programs[number].has_memory) {
		programs[number].has_memory = false;
		if (mr_table_remove(&end->mrs, end->key, PD) == -EBUSY)
			programs[number].has_memory = true;
	} else {
		region_add(number);
	}
}

static void queue_change(uint32_t number)
{
	struct end *end = &ends[number];

	if (!has_shared(number))
		return;
	if (draw(2))
		rq_resize(&end->arena, end->srq.rq, 1 + draw(2 * DEPTH));
	else
		rq_set_limit(end->srq.rq, draw(10));
}

static void window_bind(uint32_t number)
{
	struct end *end = &ends[number];
	struct mw_bind bind = {
		.key = programs[number].window_key,
		.region_key = end->key,
		.user = {PD, end->qp->qpn},
		.access = MR_REMOTE_WRITE | MR_REMOTE_READ,
		.iova = (uintptr_t)end->memory + GUARD_BYTES,
		.bytes = REGION_BYTES,
	};

	if (mw_bind(&end->mrs, &bind) == MR_OK)
		programs[number].window_key = bind.key;
}

static void end_disconnect(uint32_t number)
{
	if (programs[number].is_apart)
		return;
	programs[number].is_apart = true;
	engine_check(&ends[number].lane);
	if (draw(4))
		qp_set_state(ends[number].qp, QP_ERR, scene.now_ns);
	programs[number].is_in_use = !local_disconnect(&ends[number].local, scene.now_ns);
}

static bool is_alive(uint32_t number)
{
	return !programs[number].is_apart && ends[number].qp->state != QP_ERR;
}

/* The channel, too, is another one, if a stopped initiator keeps its mark in the old one. */
static void end_reset(uint32_t number)
{
	const struct qp_attr attr = {.port = 1};
	struct end *end = &ends[number];

	end_disconnect(number);
	poll_end(number);
	modify(end->qp, QP_RESET, 0, &attr);
	if (programs[number].is_in_use)
		end->channel_offset = arena_alloc_both(&end->arena, CHANNEL_BYTES);
	if (!end->channel_offset)
		scene_fail("the arena is full");
	memset(&end->local, 0, sizeof(end->local));
	programs[number].is_apart = false;
}

/* The queue pairs have failed: make a new connection. */
static void ends_revive(void)
{
	const struct peer_ops *how = ends[0].peer.ops;

	end_reset(0);
	end_reset(1);
	meet(0);
	meet(1);
	ready_to_send(0, PSN);
	if (types[1] != QP_TYPE_XRC_RECV && draw(4))
		ready_to_send(1, PSN);
	ends[0].peer.ops = ends[1].peer.ops = how;
}

static void time_pass(uint32_t number)
{
	scene.now_ns += draw(4) ? draw(100000) : draw(50000000);
	engine_expire(&ends[number].lane, scene.now_ns);
}

/* A record that looks right. */
static void record_forge(uint32_t number)
{
	struct request_channel *channel = channel_of(number);
	const struct channel_private *private = channel_private(channel);
	struct channel_record *record = channel_record_at(ring_of(number), private->collected);
	struct words *words = &scene.words;
	const struct recv_queue *rq =
		ends[number].srq.rq ? ends[number].srq.rq : ends[number].qp->rq;

	if (is_hostile())
		return;
	if (draw_once_in(8))
		atomic_store(
			&channel->in_use, CHANNEL_USES_KEY | words_value(words, ends[number].key));
	record->wr_id = draw(2) && ends[number].srq.rq ? rq_known(rq) + draw(8)
						       : words_value(words, record->wr_id);
	record->opcode = draw(8) ? (draw(2) ? WC_RECV : WC_RECV_RDMA_WITH_IMM)
		: draw(2)        ? CHANNEL_TAKEN
				 : (uint32_t)words_value(words, WC_RECV);
	record->flags =
		draw(8) ? draw(4) & (WC_WITH_IMM | WC_WITH_INV) : (uint32_t)words_value(words, 0);
	record->byte_count = draw(8) ? draw(200) : (uint32_t)words_value(words, 100);
	record->imm = draw(2) ? programs[number].window_key : (uint32_t)words_value(words, 0);
	record->taken = rq && ends[number].qp->rq_offset && draw(8)
		? rq_known(rq)
		: (uint32_t)words_value(words, record->taken);
	record->is_solicited = draw(2);
	record->number = draw(4) ? SRQN : (uint32_t)words_value(words, SRQN);
	if (draw_once_in(2)) {
		channel->reservation.wr_id = ends[number].srq.rq ? rq_known(rq) + draw(8) : draw(8);
		channel->reservation.srqn = draw(4) ? SRQN : draw(100);
	}
	atomic_store(&channel->has_published, draw(8) != 0);
	atomic_store(&record->sequence, channel_sequence(private->generation, private->collected));
	doorbell_ring(doorbell_of(number), &channel->ready, ends[number].channel_offset);
}

static void operation_do(uint32_t number)
{
	struct end *end = &ends[number];

	switch (draw(24)) {
	case 0:
	case 1:
	case 2:
	case 3:
		receive_post(number);
		break;
	case 4:
		time_pass(number);
		break;
	case 5:
		packets_carry(number);
		break;
	case 6:
	case 7:
	case 8:
		local_collect(&end->lane, &end->local_lane, scene.now_ns);
		break;
	case 9:
		memory_change(number);
		break;
	case 10:
		queue_change(number);
		break;
	case 11:
		window_bind(number);
		break;
	case 12:
		signals_take(number);
		break;
	case 13:
		if (draw_once_in(16))
			qp_set_state(end->qp, QP_ERR, scene.now_ns);
		break;
	case 14:
		if (draw_once_in(16))
			end_disconnect(number);
		break;
	default:
		send_post(number);
		break;
	}
	poll_end(number);
}

/* A hostile owner's own queues and lanes do not matter. */
static uint32_t victim_draw(void)
{
	return is_hostile() ? 0 : draw(2);
}

void connected_round(void)
{
	scene_make();
	for (uint32_t i = draw(2) ? WARM_UP : 1; i; i--) {
		receive_post(draw(2));
		send_post(types[1] == QP_TYPE_XRC_RECV ? 0 : draw(2));
		for (uint32_t j = 0; j < 2; j++) {
			local_collect(&ends[j].lane, &ends[j].local_lane, scene.now_ns);
			packets_carry(j);
			poll_end(j);
		}
	}
	end_places_add(0);
	end_places_add(1);
	if (is_hostile())
		hostile_places_add();
	if (scene.kind == ROUND_THREAD)
		words_thread_begin(&scene.words, sim_random_next(&scene.random));
	for (uint32_t i = 0; i < OPERATIONS; i++) {
		uint32_t number = victim_draw();

		if (!is_alive(0) && !is_alive(1) && !is_hostile())
			ends_revive();
		if (draw_attack(2))
			record_forge(number);
		operation_begin();
		operation_do(number);
		operation_end();
	}
	for (uint32_t i = 0; i < (is_hostile() ? 1 : 2); i++) {
		operation_begin();
		end_disconnect(i);
		operation_end();
	}
	if (scene.kind == ROUND_THREAD)
		scene.words.written += words_thread_end();
	words_undo(&scene.words);
	scene.words.place_count = 0;
	end_disconnect(1);
	poll_end(0);
	poll_end(1);
	end_unmake(0);
	end_unmake(1);
	for (uint32_t i = 0; i < 2; i++)
		arena_memory_free(ends[i].arena_memory, ARENA_BYTES);
}
