/* SPDX-License-Identifier: BSD-2-Clause */
#include "unreliable.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "engine/multicast.h"
#include "wire/grh.h"
#include "within.h"
#include "world.h"

enum {
	END_COUNT_MAX = 6,
	MESSAGE_COUNT_MAX = 200,
	CQ_ENTRIES = 1024,
	DEPTH = 32,
	RECEIVE_COUNT = 64, /* posted in turn */
	RECEIVE_BYTES = 12288,
	WINDOW_BYTES = 1 << 20,
	WINDOW_FILL = 0xc5,
	QKEY = 0x11223344,
	GROUP_NONE = SIM_GROUP_COUNT_MAX,
};

#define MS             1000000ull
#define VIRTUAL_NS_MAX (20000 * MS)
#define RECEIVE_FLAG   (1ull << 32)

/* What the network does to frames. */
enum weather {
	WEATHER_CLEAR, /* nothing */
	WEATHER_JITTER, /* frames overtake each other, none is lost */
	WEATHER_LOSS, /* some are lost */
	WEATHER_STORM, /* lost, corrupted, duplicated, late */
	WEATHER_COUNT
};

struct message {
	uint32_t from; /* index of an end */
	uint32_t to; /* of a datagram to a group: nobody in particular */
	uint32_t group; /* GROUP_NONE: none */
	enum wr_opcode opcode;
	uint32_t bytes;
	uint8_t *data;
	uint64_t window_offset; /* of a WRITE, in the window of `to` */
	bool is_broken; /* names memory that is not there */
	bool has_wrong_key; /* a datagram's Q_Key */
	bool is_sent; /* completed successfully */
	uint32_t received[END_COUNT_MAX]; /* how often */
};

struct end {
	struct host *host;
	struct qp *qp;
	struct cq cq;
	bool is_member[SIM_GROUP_COUNT_MAX];
	uint32_t outstanding[DEPTH]; /* messages: a ring */
	uint32_t first_posted; /* where the oldest is */
	uint32_t outstanding_count;
	uint8_t *receives; /* RECEIVE_COUNT times RECEIVE_BYTES */
	uint32_t receive_key;
	uint64_t receives_posted;
	uint64_t receives_completed;
	uint32_t newest; /* message received so far, plus one */
	uint8_t *window;
	uint32_t window_key;
	uint64_t window_used_bytes;
};

struct run {
	struct world world;
	enum qp_type type;
	enum weather weather;
	bool is_receive_late;
	uint32_t path_mtu;
	uint32_t group_count;
	struct gid group[SIM_GROUP_COUNT_MAX];
	uint32_t end_count;
	struct end end[END_COUNT_MAX];
	uint8_t *send_memory;
	uint32_t send_key[WORLD_HOST_COUNT];
	uint32_t message_count;
	uint32_t next; /* message to post */
	struct message message[MESSAGE_COUNT_MAX];
};

static uint64_t between(struct run *run, uint64_t low, uint64_t high)
{
	return sim_random_between(&run->world.random, low, high);
}

static uint32_t mtu_bytes(const struct run *run)
{
	return 128u << run->path_mtu;
}

/*
 * --- making ---
 */

static void link_plan(struct run *run, struct sim_link *link)
{
	memset(link, 0, sizeof(*link));
	link->delay_ns = between(run, 0, 200000);
	if (run->weather == WEATHER_CLEAR)
		return;
	if (run->weather == WEATHER_JITTER || run->weather == WEATHER_STORM) {
		link->jitter_ns = between(run, 0, 50000);
		link->reorder_ppm = (uint32_t)between(run, 0, 50000);
		link->reorder_ns = between(run, 0, 500000);
	}
	if (run->weather == WEATHER_LOSS || run->weather == WEATHER_STORM)
		link->loss_ppm = (uint32_t)between(run, 0, between(run, 0, 1) ? 200000 : 10000);
	if (run->weather == WEATHER_STORM) {
		link->duplicate_ppm = (uint32_t)between(run, 0, 100000);
		link->corrupt_ppm = (uint32_t)between(run, 0, 20000);
	}
}

static uint8_t *memory_make(uint64_t bytes, uint8_t fill)
{
	uint8_t *memory = malloc(bytes);

	if (!memory)
		abort();
	memset(memory, fill, bytes);
	return memory;
}

static void end_init(struct run *run, struct end *end, struct host *host)
{
	struct qp_init init = {
		.type = run->type,
		.pd = WORLD_PD,
		.send_cq = &end->cq,
		.recv_cq = &end->cq,
		.caps = {DEPTH, RECEIVE_COUNT, 1, 1, 64},
		.mtu_bytes = mtu_bytes(run),
		.is_all_signaled = true,
	};

	end->host = host;
	if (cq_init(&end->cq, &host->arena, CQ_ENTRIES))
		abort();
	end->qp = world_qp_create(
		&run->world, host, (uint32_t)between(run, 0, host->lane_count - 1), &init);
	end->receives = memory_make(RECEIVE_COUNT * RECEIVE_BYTES, 0);
	end->receive_key = world_register(&run->world, host, WORLD_PD, MR_LOCAL_WRITE,
		end->receives, RECEIVE_COUNT * RECEIVE_BYTES);
	end->window = memory_make(WINDOW_BYTES, WINDOW_FILL);
	end->window_key = world_register(&run->world, host, WORLD_PD,
		MR_LOCAL_WRITE | MR_REMOTE_WRITE, end->window, WINDOW_BYTES);
	for (uint32_t i = 0; i < run->group_count; i++) {
		end->is_member[i] = between(run, 0, 1);
		if (end->is_member[i] && multicast_attach(end->qp, &run->group[i], 0))
			abort();
	}
}

static void must_modify(
	struct run *run, struct qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *attr)
{
	if (qp_modify(qp, to, ATTR_STATE | mask, attr, sim_now_ns(run->world.sim)))
		abort();
}

/* Connections are between neighbours in the list, one on each host. */
static uint32_t peer_of(uint32_t end)
{
	return end ^ 1;
}

static void end_connect(struct run *run, uint32_t index, const uint32_t psn[END_COUNT_MAX])
{
	const struct end *end = &run->end[index];
	const struct end *peer = &run->end[peer_of(index)];
	struct qp_attr attr = {
		.port = 1,
		.qkey = QKEY,
		.access = MR_REMOTE_WRITE,
		.path = {.id = sim_path(end->host->number, peer->host->number),
			.local = end->host->address,
			.remote = peer->host->address},
		.path_mtu = run->path_mtu,
		.dest_qpn = peer->qp->qpn,
		.rq_psn = psn[peer_of(index)],
		.sq_psn = psn[index],
	};
	bool is_uc = run->type == QP_TYPE_UC;

	must_modify(run, end->qp, QP_INIT,
		ATTR_PKEY_INDEX | ATTR_PORT | (is_uc ? ATTR_ACCESS : ATTR_QKEY), &attr);
	must_modify(run, end->qp, QP_RTR,
		is_uc ? ATTR_AV | ATTR_PATH_MTU | ATTR_DEST_QPN | ATTR_RQ_PSN : 0, &attr);
	within_connect(&run->world, end->qp, end->host->number);
	must_modify(run, end->qp, QP_RTS, ATTR_SQ_PSN, &attr);
}

static enum wr_opcode opcode_plan(struct run *run)
{
	static const enum wr_opcode all[] = {
		WR_SEND, WR_SEND_WITH_IMM, WR_RDMA_WRITE, WR_RDMA_WRITE_WITH_IMM};

	return all[between(run, 0, run->type == QP_TYPE_UC ? 3 : 1)];
}

static uint32_t bytes_plan(struct run *run)
{
	uint32_t limit = run->type == QP_TYPE_UD ? mtu_bytes(run) : RECEIVE_BYTES;

	return (uint32_t)between(run, 0, between(run, 0, 2) ? min_u32(limit, 600) : limit);
}

/* A message says who it is: in its first four bytes, or else in its immediate data. */
static void message_plan(struct run *run, uint32_t index, uint8_t *data)
{
	struct message *message = &run->message[index];
	bool is_datagram = run->type == QP_TYPE_UD;

	message->from = (uint32_t)between(run, 0, run->end_count - 1);
	message->to = is_datagram ? (uint32_t)between(run, 0, run->end_count - 1)
				  : peer_of(message->from);
	message->group = (uint32_t)(is_datagram && run->group_count && !between(run, 0, 3)
			? between(run, 0, run->group_count - 1)
			: GROUP_NONE);
	message->opcode = opcode_plan(run);
	message->bytes = bytes_plan(run);
	if (message->bytes < sizeof(index) && message->opcode == WR_SEND)
		message->opcode = WR_SEND_WITH_IMM;
	message->data = data;
	message->is_broken = between(run, 0, 49) == 0;
	message->has_wrong_key = is_datagram && between(run, 0, 19) == 0;
	for (uint32_t i = 0; i < message->bytes; i++)
		data[i] = (uint8_t)sim_random_next(&run->world.random);
	memcpy(data, &index, min_u32(message->bytes, sizeof(index)));
	message->window_offset = run->end[message->to].window_used_bytes;
	if (wr_table[message->opcode].operation == OPERATION_WRITE)
		run->end[message->to].window_used_bytes += message->bytes;
}

/* Of the hosts' family. */
static void groups_init(struct run *run)
{
	bool is_ipv4 = gid_is_ipv4(&run->world.host[0].address);

	run->group_count = (uint32_t)between(run, 0, SIM_GROUP_COUNT_MAX);
	for (uint32_t i = 0; i < run->group_count; i++) {
		uint8_t ipv4[4] = {224, 0, 1, (uint8_t)i};
		struct gid ipv6 = {{0xff, 0x0e, [15] = (uint8_t)i}};

		run->group[i] = is_ipv4 ? gid_from_ipv4(ipv4) : ipv6;
		sim_add_group(run->world.sim, &run->group[i]);
	}
}

static void run_init(struct run *run, uint64_t seed, enum qp_type type, bool is_traced)
{
	uint32_t psn[END_COUNT_MAX];
	uint64_t send_bytes;

	world_init(&run->world, seed, 1 + (uint32_t)(seed / 2 % 2), is_traced);
	run->type = type;
	run->weather = (enum weather)(seed % WEATHER_COUNT);
	run->is_receive_late = between(run, 0, 3) == 0;
	run->path_mtu = (uint32_t)between(run, 1, 5);
	if (type == QP_TYPE_UD)
		groups_init(run);
	run->end_count = 2 * (uint32_t)between(run, 1, END_COUNT_MAX / 2);
	sim_hold(run->world.sim, between(run, 0, 1) ? between(run, 0, 50000) : 0, 0);
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++)
		for (uint32_t j = 0; j < WORLD_HOST_COUNT; j++)
			link_plan(run, sim_link(run->world.sim, i, j));
	for (uint32_t i = 0; i < run->end_count; i++) {
		end_init(run, &run->end[i], &run->world.host[i % 2]);
		psn[i] = (uint32_t)(between(run, 0, 1) ? between(run, 0xffff00, 0xffffff)
						       : between(run, 0, 0xffffff));
	}
	for (uint32_t i = 0; i < run->end_count; i++)
		end_connect(run, i, psn);
	run->message_count = (uint32_t)between(run, 1, MESSAGE_COUNT_MAX);
	send_bytes = (uint64_t)run->message_count * RECEIVE_BYTES;
	run->send_memory = malloc(send_bytes);
	if (!run->send_memory)
		abort();
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++)
		run->send_key[i] = world_register(&run->world, &run->world.host[i], WORLD_PD, 0,
			run->send_memory, send_bytes);
	for (uint32_t i = 0; i < run->message_count; i++)
		message_plan(run, i, run->send_memory + (uint64_t)i * RECEIVE_BYTES);
}

static void run_done(struct run *run)
{
	for (uint32_t i = 0; i < run->end_count; i++) {
		world_qp_destroy(&run->world, run->end[i].qp);
		cq_done(&run->end[i].cq, &run->end[i].host->arena);
		free(run->end[i].receives);
		free(run->end[i].window);
	}
	free(run->send_memory);
	world_done(&run->world);
}

/*
 * --- sending ---
 */

static struct datagram_target target_of(
	const struct run *run, const struct message *message, uint32_t host)
{
	uint32_t qkey = message->has_wrong_key ? QKEY ^ 1 : QKEY;

	if (message->group != GROUP_NONE)
		return (struct datagram_target){
			sim_group_path(host, message->group), QPN_MULTICAST.value, qkey, 0};
	const struct end *to = &run->end[message->to];
	return (struct datagram_target){sim_path(host, to->host->number), to->qp->qpn, qkey, 0};
}

/* Post the next message, if its end has room. A queue pair that met a broken one is restarted. */
static bool post_next(struct run *run)
{
	static const struct qp_attr attr = {.qkey = QKEY};
	struct message *message = &run->message[run->next];
	struct end *end = &run->end[message->from];
	const struct end *to = &run->end[message->to];
	uint32_t key = run->send_key[end->host->number] ^ (message->is_broken ? 0x100 : 0);
	struct sge sge = {(uintptr_t)message->data, message->bytes, key};
	struct send_wr wr = {
		.wr_id = run->next,
		.opcode = message->opcode,
		.imm = run->next,
		.rkey = to->window_key,
		.remote_address = (uintptr_t)to->window + message->window_offset,
		.sge = &sge,
		.sge_count = 1,
	};
	uint32_t posted;

	if (end->outstanding_count == DEPTH)
		return false;
	if (end->qp->state == QP_SQE && !end->outstanding_count)
		must_modify(run, end->qp, QP_RTS, 0, &attr);
	if (run->type == QP_TYPE_UD)
		wr.datagram = target_of(run, message, end->host->number);
	if (engine_post_send(end->qp, &wr, 1, &posted, sim_now_ns(run->world.sim)))
		abort();
	end->outstanding[(end->first_posted + end->outstanding_count++) % DEPTH] = run->next++;
	return true;
}

static void send_complete(struct run *run, struct end *end, const struct cqe *cqe)
{
	uint32_t index = end->outstanding[end->first_posted++ % DEPTH];
	struct message *message = &run->message[index];

	end->outstanding_count--;
	WORLD_CHECK(&run->world, cqe->wr_id == index, "completion of %llu instead of %u",
		(unsigned long long)cqe->wr_id, index);
	/* Memory of no bytes is nobody's: it cannot be broken. */
	if (message->is_broken && message->bytes)
		WORLD_CHECK(&run->world,
			cqe->status == WC_LOC_PROT_ERR || cqe->status == WC_WR_FLUSH_ERR,
			"message %u: status %u", index, cqe->status);
	else
		WORLD_CHECK(&run->world,
			cqe->status == WC_SUCCESS || cqe->status == WC_WR_FLUSH_ERR,
			"message %u: status %u", index, cqe->status);
	message->is_sent = cqe->status == WC_SUCCESS;
}

/*
 * --- receiving ---
 */

static void post_receives(struct run *run, struct end *end)
{
	uint64_t limit = end->receives_completed + RECEIVE_COUNT;

	if (run->is_receive_late)
		limit = min_u64(limit, end->receives_posted + between(run, 0, 3));
	while (end->receives_posted < limit) {
		uint64_t slot = end->receives_posted % RECEIVE_COUNT;
		struct sge sge = {(uintptr_t)end->receives + slot * RECEIVE_BYTES, RECEIVE_BYTES,
			end->receive_key};
		struct recv_wr wr = {RECEIVE_FLAG | end->receives_posted, &sge, 1};

		if (qp_post_recv(end->qp, &wr))
			abort();
		end->receives_posted++;
	}
}

/* The 40 bytes before a datagram say where it came from and where it went. */
static void header_check(struct run *run, const struct message *message, const uint8_t *bytes)
{
	struct ip_header grh;

	WORLD_CHECK(&run->world, grh_decode(&grh, bytes), "no header");
	WORLD_CHECK(&run->world, gid_is_equal(&grh.sgid, &run->end[message->from].host->address),
		"wrong source");
	WORLD_CHECK(&run->world, gid_is_multicast(&grh.dgid) == (message->group != GROUP_NONE),
		"wrong destination");
}

static void receive_complete(struct run *run, uint32_t to, const struct cqe *cqe)
{
	struct end *end = &run->end[to];
	uint64_t slot = end->receives_completed % RECEIVE_COUNT;
	const uint8_t *bytes = end->receives + slot * RECEIVE_BYTES;
	uint32_t header_bytes = run->type == QP_TYPE_UD ? GRH_BYTES : 0;
	bool is_write = cqe->opcode == WC_RECV_RDMA_WITH_IMM;
	uint32_t index = cqe->imm;

	WORLD_CHECK(&run->world, cqe->status == WC_SUCCESS, "status %u", cqe->status);
	WORLD_CHECK(&run->world, cqe->wr_id == (RECEIVE_FLAG | end->receives_completed),
		"receive %llx out of turn", (unsigned long long)cqe->wr_id);
	end->receives_completed++;
	if (!(cqe->flags & WC_WITH_IMM))
		memcpy(&index, bytes + header_bytes, sizeof(index));
	WORLD_CHECK(&run->world, index < run->next, "message %u was never sent", index);

	struct message *message = &run->message[index];
	bool is_for_us =
		message->group == GROUP_NONE ? message->to == to : end->is_member[message->group];
	WORLD_CHECK(&run->world, is_for_us && !message->has_wrong_key, "message %u strayed", index);
	WORLD_CHECK(&run->world, cqe->byte_count == header_bytes + message->bytes,
		"message %u has %u bytes", index, cqe->byte_count);
	if (is_write)
		bytes = end->window + message->window_offset;
	WORLD_CHECK(&run->world, memcmp(bytes + header_bytes, message->data, message->bytes) == 0,
		"message %u has other bytes", index);
	if (run->type == QP_TYPE_UD) {
		header_check(run, message, bytes);
		WORLD_CHECK(&run->world, cqe->source_qpn == run->end[message->from].qp->qpn,
			"message %u from %06x", index, cqe->source_qpn);
	} else {
		WORLD_CHECK(&run->world, index >= end->newest, "message %u after %u", index,
			end->newest - 1);
		end->newest = index + 1;
	}
	message->received[to]++;
}

static void poll(struct run *run)
{
	struct cqe cqe;

	for (uint32_t i = 0; i < run->end_count; i++) {
		struct end *end = &run->end[i];

		while (cq_poll(&end->cq, &end->host->arena, 1, &cqe)) {
			if (cqe.wr_id & RECEIVE_FLAG)
				receive_complete(run, i, &cqe);
			else
				send_complete(run, end, &cqe);
		}
	}
}

/*
 * --- the end ---
 */

/* A WRITE that lost packets has placed others: each byte is the old or the right one. */
static void write_check(struct run *run, const struct message *message, uint32_t index)
{
	const uint8_t *window = run->end[message->to].window + message->window_offset;
	bool is_whole = run->weather == WEATHER_CLEAR && message->is_sent &&
		(message->opcode == WR_RDMA_WRITE || !run->is_receive_late);

	for (uint32_t i = 0; i < message->bytes; i++)
		WORLD_CHECK(&run->world,
			window[i] == message->data[i] || (!is_whole && window[i] == WINDOW_FILL),
			"byte %u of message %u", i, index);
}

/* How often may this end have received it, and how often must it have? */
static void received_check(
	struct run *run, const struct message *message, uint32_t index, uint32_t to)
{
	bool is_for_us = message->group == GROUP_NONE ? message->to == to
						      : run->end[to].is_member[message->group];
	bool is_expected = is_for_us && message->is_sent && !message->has_wrong_key &&
		wr_table[message->opcode].takes_receive;
	/* The network may duplicate a datagram; of a connection that is noticed. */
	uint32_t most = run->type == QP_TYPE_UD && run->weather == WEATHER_STORM ? 2 : 1;
	bool must_arrive = run->weather == WEATHER_CLEAR && !run->is_receive_late;

	if (run->type == QP_TYPE_UD && run->weather == WEATHER_JITTER)
		must_arrive = !run->is_receive_late;
	WORLD_CHECK(&run->world, message->received[to] <= (is_expected ? most : 0),
		"message %u came %u times to %u", index, message->received[to], to);
	if (is_expected && must_arrive)
		WORLD_CHECK(&run->world, message->received[to] == 1,
			"message %u did not come to %u", index, to);
}

static void final_check(struct run *run, struct unreliable_result *result)
{
	const struct sim *sim = run->world.sim;

	for (uint32_t i = 0; i < run->message_count; i++) {
		const struct message *message = &run->message[i];

		result->sent += message->is_sent;
		for (uint32_t j = 0; j < run->end_count; j++) {
			received_check(run, message, i, j);
			result->received += message->received[j];
		}
		if (wr_table[message->opcode].operation == OPERATION_WRITE)
			write_check(run, message, i);
	}
	for (uint32_t i = 0; i < run->end_count; i++) {
		WORLD_CHECK(&run->world, run->end[i].outstanding_count == 0, "%u sends are lost",
			run->end[i].outstanding_count);
		WORLD_CHECK(&run->world,
			world_counter(run->end[i].qp, COUNTER_guarded_drops) == 0 &&
				world_counter(run->end[i].qp, COUNTER_guarded_keys) == 0,
			"end %u took its peer for a stranger", i);
		result->local += world_counter(run->end[i].qp, COUNTER_local_requests);
	}
	result->bad_fates += sim_count(sim, SIM_LOST) + sim_count(sim, SIM_CORRUPTED) +
		sim_count(sim, SIM_DUPLICATED);
}

void unreliable_run(
	uint64_t seed, enum qp_type type, bool is_traced, struct unreliable_result *result)
{
	struct run *run = calloc(1, sizeof(*run));

	if (!run)
		abort();
	run_init(run, seed, type, is_traced);
	struct sim *sim = run->world.sim;
	uint64_t start_ns = sim_now_ns(sim);

	while (run->next < run->message_count) {
		for (uint32_t i = 0; i < run->end_count; i++)
			post_receives(run, &run->end[i]);
		for (uint64_t count = between(run, 0, 4); count--;)
			if (run->next == run->message_count || !post_next(run))
				break;
		sim_flush(sim);
		world_step(&run->world, sim_now_ns(sim) + between(run, 1, MS / 2));
		poll(run);
		WORLD_CHECK(&run->world, sim_now_ns(sim) - start_ns < VIRTUAL_NS_MAX, "stuck");
	}
	while (world_step(&run->world, UINT64_MAX)) {
		poll(run);
		for (uint32_t i = 0; i < run->end_count; i++)
			post_receives(run, &run->end[i]);
	}
	poll(run);
	final_check(run, result);
	run_done(run);
	free(run);
}
