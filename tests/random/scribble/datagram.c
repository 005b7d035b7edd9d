/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams: one NIC sends to another one's queue pair by its endpoint, as a borrower.
 */
#include "scenes.h"
#include "support/datagram_ends.h"
#include "wire/grh.h"

enum {
	OPERATIONS = 80,
	GUARD_BYTES = 2048, /* at either end of the receiver's memory: no region names it */
	GUARD_BYTE = 0xa5,
	REGION_BYTES = MEMORY_BYTES - 2 * GUARD_BYTES,
	REQUESTS_MAX = 1024, /* of each kind in a round */
	FIRST_RECEIVE = 1000,
	FIRST_SEND = 50000,
};

/* Receive requests, and requests to send. */
static uint32_t received, sent;
static bool is_receiving[REQUESTS_MAX], is_sending[REQUESTS_MAX];
static bool has_memory, is_removed;
static struct srq_table no_srqs; /* lanes of a process always have a table */

static bool is_hostile(void)
{
	return scene.kind == ROUND_HOSTILE_OWNER;
}

/* --- what the ends need of their surroundings --- */

/* The attacker has it look as if borrowers came and went. */
static bool wait_for_borrower(uint32_t who, uint32_t round)
{
	struct borrower_table *borrowers = ends[1].borrowers;

	(void)who;
	(void)round;
	for (uint32_t i = 0; scene.is_restless && i < 4; i++)
		atomic_store(&borrowers->channel[i].in_use,
			CHANNEL_USES_KEY | (uint32_t)words_value(&scene.words, 0));
	if (draw_once_in(8))
		atomic_store(&ends[1].borrowers->used_count, draw(BORROWER_CHANNEL_COUNT + 2));
	scene_pause();
	return !scene.is_dead;
}

static bool borrower_is_alive(struct peer *of, uint32_t who)
{
	(void)of;
	return who == SENDER || draw(2);
}

static void borrower_pause(uint32_t round)
{
	(void)round;
	scene_pause();
}

static uint64_t now(void)
{
	return scene.now_ns;
}

static bool is_in_region(uint64_t address, uint64_t bytes)
{
	return range_inside(address, bytes, (uintptr_t)ends[1].memory + GUARD_BYTES, REGION_BYTES);
}

static bool is_allowed(uint64_t address, uint64_t bytes)
{
	bool is_inside = is_in_region(address, bytes);

	words_scribble(&scene.words, draw_attack(2));
	if (!is_inside && !is_hostile())
		scene_fail("%llu bytes at a distance of %lld from the region",
			(unsigned long long)bytes,
			(long long)(address - (uintptr_t)ends[1].memory));
	return is_inside;
}

static bool borrower_write(struct peer *of, uint64_t to, const uint8_t *from, size_t bytes)
{
	bool is_there = is_allowed(to, bytes);

	(void)of;
	if (is_there)
		memcpy((uint8_t *)(uintptr_t)to, from, bytes);
	return is_there;
}

static uint8_t *borrower_map(
	struct peer *of, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	(void)of;
	(void)region;
	if (!is_in_region(address, 1)) {
		(void)is_allowed(address, 1);
		return NULL;
	}
	*bytes = min_u64(*bytes, (uintptr_t)ends[1].memory + GUARD_BYTES + REGION_BYTES - address);
	words_scribble(&scene.words, draw_attack(2));
	return (uint8_t *)(uintptr_t)address;
}

static void borrower_kick(struct peer *of, uint32_t lane)
{
	(void)of;
	(void)lane;
	words_scribble(&scene.words, draw_attack(2));
}

static const struct peer_ops copied = {
	borrower_write, NULL, NULL, borrower_kick, NULL, borrower_is_alive};
static const struct peer_ops mapped = {
	borrower_write, NULL, borrower_map, borrower_kick, NULL, borrower_is_alive};

/* --- the scene --- */

static void region_add(void)
{
	uint8_t *start = ends[1].memory + GUARD_BYTES;
	const struct mr_region region = {PD, MR_LOCAL_WRITE, (uintptr_t)start, REGION_BYTES, start};

	has_memory = mr_table_add(&ends[1].mrs, &region, 0, &ends[1].key) == 0;
}

static bool key_quiesce(uint32_t key)
{
	return borrower_quiesce(&ends[1].owner, &ends[1].mrs, key, scene.now_ns + 100000000);
}

static void places_add(void)
{
	struct end *end = &ends[1];
	struct recv_queue *rq = is_shared ? end->srq.rq : end->qp->rq;
	struct borrower_table *borrowers = end->borrowers;

	words_add(&scene.words, borrowers, sizeof(*borrowers));
	words_add(&scene.words, borrowers, 64 + sizeof(borrowers->channel[0]));
	for (uint32_t i = 0; i < 4; i++)
		words_add(&scene.words, &borrowers->channel[i], sizeof(struct request_channel));
	words_add(&scene.words, end->doorbell, sizeof(*end->doorbell));
	words_add(&scene.words, arena_peers_side(rq), sizeof(*rq));
	for (uint32_t i = 0; i < 3; i++)
		words_add_value(&scene.words, peer_offset(&peer, &borrowers->channel[i]));
	words_add_value(&scene.words, end->key);
	words_add_value(&scene.words, end->qp->qpn);
	words_add_value(&scene.words, end->local.serial);
	words_add_value(&scene.words, (uint64_t)rq->moves << 32 | rq->posted);
}

static void hostile_places_add(void)
{
	struct end *end = &ends[1];
	struct recv_queue *rq = is_shared ? end->srq.rq : end->qp->rq;

	scene.words.is_undone = true;
	words_add(&scene.words, end->mrs.slots, 2 * sizeof(struct mr_slot));
	words_add(&scene.words, end->mrs.places, 2 * sizeof(struct mr_place));
	words_add(&scene.words, end->endpoint, sizeof(*end->endpoint));
	words_add(&scene.words, end->endpoint, 64);
	words_add(&scene.words, (void *)&end->table->offset[end->qp->qpn % LANE_QP_COUNT_MAX], 8);
	words_add(&scene.words, rq, sizeof(*rq));
	words_add(&scene.words, (uint8_t *)rq + rq->slots_distance, 4096);
	words_add(&scene.words, end->recv_cq.ring, sizeof(*end->recv_cq.ring));
	words_add_value(&scene.words, arena_offset(&end->arena, rq));
	words_add_value(&scene.words, arena_offset(&end->arena, end->endpoint));
	words_add_value(&scene.words, end->arena.bytes);
}

static void scene_make(void)
{
	is_shared = draw(2);
	received = sent = 0;
	is_removed = false;
	setup_ends(NULL);
	meet();
	now_ns = scene.now_ns;
	mr_table_remove(&ends[1].mrs, ends[1].key, PD);
	memset(ends[1].memory, GUARD_BYTE, sizeof(ends[1].memory));
	region_add();
	ends[0].lane.srqs = ends[1].lane.srqs = &no_srqs;
	ends[1].mrs.quiesce = key_quiesce;
	ends[1].owner.wait = wait_for_borrower;
	ends[1].owner.now_ns = now;
	peer.ops = draw(2) ? &mapped : &copied;
	ends[0].owner.pause = borrower_pause;
}

static void guard_check(const uint8_t *guard)
{
	for (uint32_t i = 0; i < GUARD_BYTES; i++)
		if (guard[i] != GUARD_BYTE)
			scene_fail("a byte beside the region has changed");
}

/* --- what the programs do --- */

static void receive_post(void)
{
	struct sge sge[2];
	struct recv_wr wr = {FIRST_RECEIVE + received, sge, 1 + draw(2)};
	int error;

	if (received == REQUESTS_MAX)
		return;
	for (uint32_t i = 0; i < 2; i++)
		sge[i] = (struct sge){
			(uintptr_t)ends[1].memory + GUARD_BYTES + draw(REGION_BYTES - 4000),
			30 + draw(2000), draw_once_in(16) ? draw(1000) : ends[1].key};
	error = is_shared ? srq_post(&ends[1].srq, &wr) : qp_post_recv(ends[1].qp, &wr);
	if (!error)
		is_receiving[received++] = true;
}

static void send_post(void)
{
	uint32_t bytes = draw(2000), posted;
	struct sge sge = {(uintptr_t)ends[0].memory, bytes, ends[0].key};
	struct send_wr wr = {
		.wr_id = FIRST_SEND + sent,
		.opcode = draw(2) ? WR_SEND : WR_SEND_WITH_IMM,
		.flags = SEND_SIGNALED | (draw_once_in(4) ? SEND_SOLICITED : 0),
		.imm = 0xabcd,
		.sge = &sge,
		.sge_count = 1,
		.datagram = {PATH, ends[1].qp->qpn, QKEY, 0},
	};

	if (sent < REQUESTS_MAX && !engine_post_send(ends[0].qp, &wr, 1, &posted, scene.now_ns))
		is_sending[sent++] = true;
}

static void completion_check(uint64_t number, bool *is_pending, uint32_t posted, bool is_twice)
{
	if (number >= posted || (!is_pending[number] && !is_twice))
		scene_fail("request %lld of %u completes%s", (long long)number, posted,
			is_shared ? ", shared" : "");
	is_pending[number] = false;
}

static void poll_all(void)
{
	struct cqe cqe;

	while (cq_poll(&ends[0].send_cq, &ends[0].arena, 1, &cqe))
		completion_check(cqe.wr_id - FIRST_SEND, is_sending, sent, false);
	while (!is_hostile() && cq_poll(&ends[1].recv_cq, &ends[1].arena, 1, &cqe))
		completion_check(cqe.wr_id - FIRST_RECEIVE, is_receiving, received, is_shared);
	if (!is_hostile() && draw_once_in(2))
		cq_arm(&ends[1].recv_cq, CQ_ARM_NEXT);
}

static void packets_carry(void)
{
	uint8_t buffer[ENGINE_PACKET_BYTES_MAX];
	const struct gid source = gid_of(0), destination = gid_of(1);
	const struct packet_origin origin = {.source = &source, .destination = &destination};
	struct packet_run run = {.buffer = buffer};
	size_t bytes;

	for (uint32_t i = 0; i < 40; i++) {
		bytes = engine_next_packet(&ends[0].lane, true, &run, scene.now_ns);
		if (!bytes)
			return;
		if (!is_hostile())
			engine_receive(
				&ends[1].lane, &origin, buffer, (uint32_t)bytes, scene.now_ns);
	}
}

static void memory_change(void)
{
	if (has_memory) {
		has_memory = false;
		mr_table_remove(&ends[1].mrs, ends[1].key, PD);
	} else {
		region_add();
	}
}

static void endpoint_take_away(void)
{
	if (!is_removed)
		ud_endpoint_remove(&ends[1].local, scene.now_ns);
	is_removed = true;
}

/* A record that looks right, in one of the first channels. */
static void record_forge(void)
{
	struct request_channel *channel = &ends[1].borrowers->channel[draw(3)];
	struct words *words = &scene.words;
	const struct recv_queue *rq = is_shared ? ends[1].srq.rq : ends[1].qp->rq;
	uint32_t number = channel_private(channel)->collected + (draw_once_in(8) ? draw(200) : 0);
	struct channel_record record = {
		.wr_id = draw(4) ? rq_known(rq) + draw(8) : words_value(words, 0),
		.opcode = WC_RECV,
		.flags = draw(4) ? WC_GRH : (uint32_t)words_value(words, 0),
		.byte_count = draw(4) ? GRH_BYTES + draw(2000) : (uint32_t)words_value(words, 0),
		.imm = 7,
		.number = draw(8) ? ends[1].qp->qpn : (uint32_t)words_value(words, 0),
		.fault = draw_once_in(32) ? (uint32_t)words_value(words, 0) : 0,
		.is_solicited = draw(2),
		.serial = draw(8) ? ends[1].local.serial : words_value(words, 0),
		.qpn = draw(1000),
		.service_level = (uint32_t)words_value(words, 0),
	};

	if (is_hostile())
		return;
	if (draw_once_in(8))
		atomic_store(&channel->in_use, CHANNEL_USES_KEY | words_value(words, 0));
	record.taken = draw(4) ? ends[1].local.turn + draw(6) : (uint32_t)words_value(words, 0);
	if (draw(2))
		atomic_store(&rq_takers(rq)->taken,
			(uint64_t)rq->moves << 32 | (rq_known(rq) + draw(8)));
	record.sequence = channel_sequence(UINT32_MAX, number);
	*channel_record_at(borrower_ring(ends[1].borrowers, channel), number) = record;
	atomic_store(&channel->has_published, draw(8) != 0);
	atomic_store(&channel->count, number + 1);
	atomic_store(&channel->ready.is_rung, 1);
	channel->ready.next_offset =
		draw(2) ? atomic_load(&ends[1].doorbell->first_offset) : words_value(words, 0);
	atomic_store(&ends[1].doorbell->first_offset, peer_offset(&peer, channel));
}

static void sender_do(void)
{
	switch (draw(8)) {
	case 0:
		packets_carry();
		break;
	case 1:
		scene.now_ns += draw(4) ? draw(100000) : draw(50000000);
		engine_expire(&ends[0].lane, scene.now_ns);
		break;
	default:
		send_post();
		break;
	}
}

static void receiver_do(void)
{
	uint32_t events;

	switch (draw(12)) {
	case 0:
		memory_change();
		break;
	case 1:
		while (signal_take(&ends[1].lane.signals, &events))
			;
		break;
	case 2:
		if (is_shared)
			rq_resize(&ends[1].arena, ends[1].srq.rq, 1 + draw(2 * DEPTH));
		break;
	case 3:
		if (draw_once_in(16))
			qp_set_state(ends[1].qp, QP_ERR, scene.now_ns);
		break;
	case 4:
		if (draw_once_in(64))
			endpoint_take_away();
		break;
	case 5:
	case 6:
	case 7:
		local_collect(&ends[1].lane, &ends[1].local_lane, scene.now_ns);
		break;
	default:
		receive_post();
		break;
	}
}

static void receiver_revive(void)
{
	const struct qp_attr attr = {.port = 1};

	poll_all();
	now_ns = scene.now_ns;
	modify(ends[1].qp, QP_RESET, 0, &attr);
	make_ready(ends[1].qp);
}

void datagram_round(void)
{
	scene_make();
	for (uint32_t i = draw(16); i; i--) {
		receive_post();
		send_post();
		local_collect(&ends[1].lane, &ends[1].local_lane, scene.now_ns);
		packets_carry();
		poll_all();
	}
	places_add();
	if (is_hostile())
		hostile_places_add();
	if (scene.kind == ROUND_THREAD)
		words_thread_begin(&scene.words, sim_random_next(&scene.random));
	for (uint32_t i = 0; i < OPERATIONS; i++) {
		if (!is_removed && ends[1].qp->state == QP_ERR && draw_once_in(4))
			receiver_revive();
		if (draw_attack(2))
			record_forge();
		operation_begin();
		if (is_hostile() || draw(2))
			sender_do();
		else
			receiver_do();
		poll_all();
		operation_end();
	}
	operation_begin();
	if (!is_hostile())
		endpoint_take_away();
	operation_end();
	if (scene.kind == ROUND_THREAD)
		scene.words.written += words_thread_end();
	words_undo(&scene.words);
	scene.words.place_count = 0;
	endpoint_take_away();
	ud_endpoint_remove(&ends[0].local, scene.now_ns);
	poll_all();
	guard_check(ends[1].memory);
	guard_check(ends[1].memory + GUARD_BYTES + REGION_BYTES);
	for (uint32_t i = 0; i < 2; i++) {
		engine_qp_destroy(ends[i].qp);
		if (i == 1 && is_shared)
			srq_done(&ends[i].srq, &ends[i].arena);
		ends[i].mrs.quiesce = NULL;
		engine_lane_done(&ends[i].lane);
		mr_table_done(&ends[i].mrs);
	}
	for (uint32_t i = 0; i < 2; i++)
		arena_memory_free(ends[i].arena_memory, ARENA_BYTES);
}
