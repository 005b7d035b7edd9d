/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/traffic/engine_host.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "fabric/random.h"
#include "fabric/traffic/engine_frame.h"
#include "ib/ud/ud.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/infiniband/lrh.h"

enum {
	HOSTS_PD = 1,
	COMPLETIONS_AT_ONCE = 16,
	REGION_COUNT = 8,
	TRAFFIC_CLASS_CAPABLE = 2, /* ECT(0) */
	TRAFFIC_CLASS_MARKED = 3,
};

/* The engine's time at the network's time 0. The times of an engine are never 0. */
#define ENGINE_START_NS 1000000000ull

/* The two directions of a flow. */
enum direction { FORTH, BACK, DIRECTION_COUNT };

/* A path's id has these bits, and the flow's number above them. */
enum {
	PATH_DIRECTION = 1 << 0,
	PATH_CNP = 1 << 1,
	PATH_FLOW_SHIFT = 2,
};

struct engine_flow {
	struct qp *qp[DIRECTION_COUNT]; /* at the source, at the destination */
	struct icrc_flow headers[DIRECTION_COUNT];
	uint64_t posted_bytes;
	uint64_t completed_bytes;
	uint32_t outstanding; /* WRITEs */
};

struct engine_host {
	struct engine_hosts *hosts;
	uint32_t number;
	struct gid address;
	struct cq cq;
	bool has_cq;
	struct lane *lanes[FABRIC_PRIORITY_COUNT]; /* NULL: no flow has this priority */
	uint32_t turn; /* the lane that is asked first */
	/* The numbers of its flows are flow_of[first] to flow_of[first + count - 1]. */
	uint32_t first;
	uint32_t count;
	uint64_t start_ps; /* of the next flow that has not begun; FABRIC_NEVER: all have */
};

struct engine_hosts {
	struct fabric *fabric;
	struct engine_hosts_init init;
	struct fabric_flow *flows;
	struct engine_flow *engine_flows;
	struct engine_host *hosts;
	uint32_t flow_count;
	uint32_t host_count;
	uint32_t *flow_of;
	struct lane_link link; /* of all lanes */
	struct mr_table mrs;
	bool has_mrs;
	uint8_t *source;
	uint8_t *target;
	uint32_t source_key;
	uint32_t target_key;
};

uint32_t engine_host_data_bytes(uint32_t mtu_bytes)
{
	return LRH_BYTES + OPCODE_HEADER_BYTES_MAX + mtu_bytes + ROCE_ICRC_BYTES + 4;
}

uint32_t engine_host_frame_bytes(uint32_t mtu_bytes)
{
	return ENGINE_HOST_FRAME_BYTES + engine_host_data_bytes(mtu_bytes) - LRH_BYTES;
}

struct gid engine_host_address(uint32_t host)
{
	uint32_t address = 10u << 24 | (host + 1);
	uint8_t ipv4[4] = {(uint8_t)(address >> 24), (uint8_t)(address >> 16),
		(uint8_t)(address >> 8), (uint8_t)address};

	return gid_from_ipv4(ipv4);
}

static uint64_t engine_ns(uint64_t now_ps)
{
	return ENGINE_START_NS + now_ps / FABRIC_PS_PER_NS;
}

/* The network's time of an engine's deadline, after `now_ps`. */
static uint64_t network_ps(uint64_t at_ns, uint64_t now_ps)
{
	if (at_ns == DEADLINE_NEVER)
		return FABRIC_NEVER;
	if (at_ns <= ENGINE_START_NS)
		return now_ps + 1;
	return max_u64((at_ns - ENGINE_START_NS) * FABRIC_PS_PER_NS, now_ps + 1);
}

/* --- requests and completions --- */

static void flow_post(struct engine_hosts *hosts, uint32_t number, uint64_t now_ps)
{
	struct fabric_flow *flow = &hosts->flows[number];
	struct engine_flow *of = &hosts->engine_flows[number];

	while (of->outstanding < hosts->init.depth && !flow->has_failed &&
		(!flow->bytes || of->posted_bytes < flow->bytes)) {
		uint64_t left_bytes = flow->bytes ? flow->bytes - of->posted_bytes : UINT64_MAX;
		uint32_t bytes = (uint32_t)min_u64(hosts->init.message_bytes, left_bytes);
		struct sge sge = {(uintptr_t)hosts->source, bytes, hosts->source_key};
		struct send_wr wr = {
			.wr_id = number,
			.opcode = WR_RDMA_WRITE,
			.flags = SEND_SIGNALED,
			.rkey = hosts->target_key,
			.remote_address = (uintptr_t)hosts->target,
			.sge = &sge,
			.sge_count = 1,
		};
		uint32_t posted;

		if (engine_post_send(of->qp[FORTH], &wr, 1, &posted, engine_ns(now_ps)))
			return;
		of->posted_bytes += bytes;
		of->outstanding++;
	}
}

static void completion_take(struct engine_hosts *hosts, const struct cqe *cqe, uint64_t now_ps)
{
	uint32_t number = (uint32_t)cqe->wr_id;
	struct fabric_flow *flow = &hosts->flows[number];
	struct engine_flow *of = &hosts->engine_flows[number];

	of->outstanding--;
	if (cqe->status != WC_SUCCESS) {
		flow->has_failed = true;
		return;
	}
	of->completed_bytes += cqe->byte_count;
	if (of->completed_bytes == flow->bytes)
		flow->finish_ps = now_ps;
	flow_post(hosts, number, now_ps);
}

static void completions_take(struct engine_host *host, uint64_t now_ps)
{
	struct cqe cqes[COMPLETIONS_AT_ONCE];
	uint32_t count;

	do {
		count = cq_poll(&host->cq, host->hosts->init.arena, COMPLETIONS_AT_ONCE, cqes);
		for (uint32_t i = 0; i < count; i++)
			completion_take(host->hosts, &cqes[i], now_ps);
	} while (count == COMPLETIONS_AT_ONCE);
}

/* Begin the flows whose time has come, and note when the next one begins. */
static void flows_start(struct engine_host *host, uint64_t now_ps)
{
	struct engine_hosts *hosts = host->hosts;

	host->start_ps = FABRIC_NEVER;
	for (uint32_t i = 0; i < host->count; i++) {
		uint32_t number = hosts->flow_of[host->first + i];

		if (hosts->flows[number].start_ps > now_ps)
			host->start_ps = min_u64(host->start_ps, hosts->flows[number].start_ps);
		else if (!hosts->engine_flows[number].posted_bytes)
			flow_post(hosts, number, now_ps);
	}
}

/* --- the functions of a host --- */

/* Turn the `bytes` of a packet in packet->data into a frame. */
static void frame_fill(
	struct engine_host *host, struct fabric_packet *packet, uint32_t path, uint32_t bytes)
{
	struct engine_hosts *hosts = host->hosts;
	uint32_t number = path >> PATH_FLOW_SHIFT;
	uint32_t direction = path & PATH_DIRECTION;
	struct fabric_flow *flow = &hosts->flows[number];
	struct bth bth;

	bth_decode(&bth, packet->data + engine_frame_offset(hosts->fabric));
	packet->flow = number;
	packet->number = bth.psn.value;
	packet->destination = direction == FORTH ? flow->destination : flow->source;
	if (hosts->fabric->infiniband)
		packet->pkey = engine_frame_pkey(hosts->fabric, flow, host->number);
	else
		packet->source_port = flow->source_port;
	packet->priority = path & PATH_CNP ? hosts->init.cnp_priority : flow->priority;
	packet->dscp = path & PATH_CNP ? FABRIC_DSCP_OF(packet->priority) : flow->dscp;
	packet->ecn = flow->is_ecn_capable ? FABRIC_ECN_CAPABLE : FABRIC_ECN_NONE;
	engine_frame_seal(hosts->fabric, packet, host->number,
		&hosts->engine_flows[number].headers[direction], bytes);
	flow->cnp_count += !!(path & PATH_CNP);
	if (direction == FORTH)
		flow->sent_bytes = counter_read(
			hosts->engine_flows[number].qp[FORTH]->counters, COUNTER_sent_bytes);
}

/* The priorities that packets of this lane may have, as bits. */
static uint8_t lane_priorities(const struct engine_hosts *hosts, uint32_t priority)
{
	return (uint8_t)(1u << priority | (hosts->init.cc ? 1u << hosts->init.cnp_priority : 0));
}

/* All of the flow's payload is at its destination: start the flow that follows it. */
static void follower_start(
	struct engine_hosts *hosts, const struct fabric_flow *flow, uint64_t now_ps)
{
	struct fabric_flow *follower = &hosts->flows[flow->follower];
	struct engine_host *host = &hosts->hosts[follower->source];

	if (!flow->follower || follower->start_ps != FABRIC_NEVER)
		return;
	follower->start_ps = now_ps;
	host->start_ps = min_u64(host->start_ps, now_ps);
	fabric_wake_host(hosts->fabric, follower->source);
}

static bool engine_host_next_packet(
	void *context, struct fabric_packet *packet, uint8_t paused, uint8_t held, uint64_t now_ps)
{
	struct engine_host *host = (struct engine_host *)context;

	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++) {
		uint32_t priority = (host->turn + i) % FABRIC_PRIORITY_COUNT;
		struct lane *lane = host->lanes[priority];
		struct packet_run run = {
			.buffer = packet->data + engine_frame_offset(host->hosts->fabric)};
		size_t bytes;

		if (!lane || (paused & lane_priorities(host->hosts, priority)) ||
			held >> priority & 1 || !engine_has_packets(lane, true))
			continue;
		bytes = engine_next_packet(lane, true, &run, engine_ns(now_ps));
		if (!bytes)
			continue;
		assert(run.packets == 1 && !run.borrowed);
		frame_fill(host, packet, run.path, (uint32_t)bytes);
		host->turn = priority + 1;
		return true;
	}
	return false;
}

static struct lane *lane_of(struct engine_host *host, const uint8_t *packet)
{
	struct bth bth;
	uint32_t slot;

	bth_decode(&bth, packet);
	slot = bth.dest_qpn.value >> 16;
	return slot && slot <= FABRIC_PRIORITY_COUNT ? host->lanes[slot - 1] : NULL;
}

static void engine_host_receive(void *context, const struct fabric_packet *packet, uint64_t now_ps)
{
	struct engine_host *host = (struct engine_host *)context;
	struct engine_hosts *hosts = host->hosts;
	struct fabric_flow *flow = &hosts->flows[packet->flow];
	struct engine_flow *of = &hosts->engine_flows[packet->flow];
	uint32_t direction = packet->source == flow->source ? FORTH : BACK;
	const uint8_t *data = packet->data + engine_frame_offset(hosts->fabric);
	bool is_marked = packet->ecn == FABRIC_ECN_MARKED;
	struct lane *lane = lane_of(host, data);
	struct packet_origin origin = {
		.source = &hosts->hosts[packet->source].address,
		.destination = &host->address,
		.traffic_class = is_marked ? TRAFFIC_CLASS_MARKED : TRAFFIC_CLASS_CAPABLE,
		.source_port = flow->source_port,
	};
	uint32_t bytes;

	if (!lane || !engine_frame_verify(hosts->fabric, packet, &of->headers[direction], &bytes))
		return;
	engine_receive(lane, &origin, data, bytes, engine_ns(now_ps));
	if (direction == FORTH) {
		flow->received_frames++;
		flow->marked_frames += is_marked;
		flow->received_bytes = counter_read(of->qp[BACK]->counters, COUNTER_rcvd_bytes);
		if (flow->received_bytes == flow->bytes)
			follower_start(hosts, flow, now_ps);
	}
	completions_take(host, now_ps);
}

static uint64_t engine_host_next_time(void *context, uint64_t now_ps)
{
	const struct engine_host *host = (const struct engine_host *)context;
	uint64_t next_ps = host->start_ps;

	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		if (host->lanes[i])
			next_ps = min_u64(
				next_ps, network_ps(engine_deadline_ns(host->lanes[i]), now_ps));
	return next_ps;
}

static void engine_host_expire(void *context, uint64_t now_ps)
{
	struct engine_host *host = (struct engine_host *)context;

	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++)
		if (host->lanes[i])
			engine_expire(host->lanes[i], engine_ns(now_ps));
	if (host->start_ps <= now_ps)
		flows_start(host, now_ps);
	completions_take(host, now_ps);
}

static const struct fabric_host_ops engine_host_ops = {
	.next_packet = engine_host_next_packet,
	.receive = engine_host_receive,
	.next_time = engine_host_next_time,
	.expire = engine_host_expire,
};

/* --- set-up --- */

static bool mrs_init(struct engine_hosts *hosts)
{
	struct fabric_random random =
		fabric_random_make(hosts->fabric->config.seed, FABRIC_RANDOM_KEY, 0);
	struct permutation *permutation = (struct permutation *)calloc(1, sizeof(*permutation));
	uint64_t bytes = hosts->init.message_bytes;

	if (!permutation)
		return false;
	for (uint32_t i = 0; i < PERMUTATION_ROUNDS; i++)
		for (uint32_t j = 0; j < PERMUTATION_HALF_COUNT; j++)
			permutation->round[i][j] = (uint16_t)fabric_random_next(&random);
	hosts->has_mrs = !mr_table_init(&hosts->mrs, hosts->init.arena, REGION_COUNT, permutation);
	free(permutation);
	hosts->source = (uint8_t *)calloc(1, bytes);
	hosts->target = (uint8_t *)calloc(1, bytes);
	if (!hosts->has_mrs || !hosts->source || !hosts->target)
		return false;
	struct mr_region source = {HOSTS_PD, 0, (uintptr_t)hosts->source, bytes, hosts->source};
	struct mr_region target = {HOSTS_PD, MR_LOCAL_WRITE | MR_REMOTE_WRITE,
		(uintptr_t)hosts->target, bytes, hosts->target};

	return !mr_table_add(&hosts->mrs, &source, (uint8_t)fabric_random_next(&random),
		       &hosts->source_key) &&
		!mr_table_add(&hosts->mrs, &target, (uint8_t)fabric_random_next(&random),
			&hosts->target_key);
}

/* Get the lane of a host for a priority. NULL: no memory. */
static struct lane *lane_make(struct engine_host *host, uint32_t priority)
{
	struct engine_hosts *hosts = host->hosts;
	struct lane *lane = host->lanes[priority];

	if (lane)
		return lane;
	lane = (struct lane *)calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	if (engine_lane_init(lane, hosts->init.arena, &hosts->mrs, priority + 1, priority)) {
		free(lane);
		return NULL;
	}
	lane->cc = hosts->init.cc;
	lane->link = &hosts->link;
	host->lanes[priority] = lane;
	return lane;
}

static struct qp *flow_qp_make(
	struct engine_hosts *hosts, struct engine_host *host, uint32_t number, uint64_t random)
{
	struct lane *lane = lane_make(host, hosts->flows[number].priority);
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.pd = HOSTS_PD,
		.send_cq = &host->cq,
		.recv_cq = &host->cq,
		.caps = {.send_depth = hosts->init.depth,
			.recv_depth = 1,
			.send_sge_max = 1,
			.recv_sge_max = 1},
		.mtu_bytes = hosts->init.mtu_bytes,
	};
	struct qp *qp;

	if (!lane || engine_qp_create(lane, &init, random, &qp))
		return NULL;
	return qp;
}

/* Take an end of a flow from RESET to RTS. */
static bool end_connect(struct engine_hosts *hosts, uint32_t number, enum direction direction,
	const uint32_t psn[2])
{
	const struct fabric_flow *flow = &hosts->flows[number];
	struct engine_flow *of = &hosts->engine_flows[number];
	uint32_t local = direction == FORTH ? flow->source : flow->destination;
	uint32_t remote = direction == FORTH ? flow->destination : flow->source;
	struct qp_attr attr = {
		.port = 1,
		.access = MR_REMOTE_WRITE,
		.path = {.id = number << PATH_FLOW_SHIFT | direction,
			.cnp_id = number << PATH_FLOW_SHIFT | PATH_CNP | direction,
			.local = hosts->hosts[local].address,
			.remote = hosts->hosts[remote].address},
		.path_mtu = (uint32_t)__builtin_ctz(hosts->init.mtu_bytes) - 7,
		.dest_qpn = of->qp[!direction]->qpn,
		.rq_psn = psn[!direction],
		.sq_psn = psn[direction],
		.min_rnr_timer = 1,
		.timeout = hosts->init.timeout,
		.retry_cnt = hosts->init.retry_count,
		.rnr_retry = 7,
		.rate_limit_kbps = direction == FORTH ? flow->rate_mbps * 1000 : 0,
		.burst_bytes = hosts->init.mtu_bytes,
	};
	struct qp *qp = of->qp[direction];

	icrc_flow_init(&of->headers[direction], attr.path.local.raw, attr.path.remote.raw,
		flow->source_port, ROCE_UDP_PORT);
	return !qp_modify(qp, QP_INIT, ATTR_STATE | ATTR_PKEY_INDEX | ATTR_PORT | ATTR_ACCESS,
		       &attr, ENGINE_START_NS) &&
		!qp_modify(qp, QP_RTR,
			ATTR_STATE | ATTR_AV | ATTR_PATH_MTU | ATTR_DEST_QPN | ATTR_RQ_PSN |
				ATTR_MAX_DEST_RD_ATOMIC | ATTR_MIN_RNR_TIMER,
			&attr, ENGINE_START_NS) &&
		!qp_modify(qp, QP_RTS,
			ATTR_STATE | ATTR_TIMEOUT | ATTR_SQ_PSN | ATTR_RETRY_CNT | ATTR_RNR_RETRY |
				ATTR_MAX_RD_ATOMIC | ATTR_RATE_LIMIT,
			&attr, ENGINE_START_NS);
}

static bool flow_connect(struct engine_hosts *hosts, uint32_t number)
{
	struct fabric_random random =
		fabric_random_make(hosts->fabric->config.seed, FABRIC_RANDOM_CONNECTION, number);
	const struct fabric_flow *flow = &hosts->flows[number];
	struct engine_flow *of = &hosts->engine_flows[number];
	uint32_t psn[DIRECTION_COUNT];

	for (uint32_t i = 0; i < DIRECTION_COUNT; i++) {
		struct engine_host *host =
			&hosts->hosts[i == FORTH ? flow->source : flow->destination];

		psn[i] = (uint32_t)fabric_random_next(&random) & 0xffffff;
		of->qp[i] = flow_qp_make(hosts, host, number, fabric_random_next(&random));
		if (!of->qp[i])
			return false;
	}
	return end_connect(hosts, number, FORTH, psn) && end_connect(hosts, number, BACK, psn);
}

static bool host_init(struct engine_hosts *hosts, uint32_t number)
{
	struct engine_host *host = &hosts->hosts[number];
	uint32_t capacity = max_u32(host->count, 1) * hosts->init.depth;

	host->hosts = hosts;
	host->number = number;
	host->address = engine_host_address(number);
	host->has_cq = !cq_init(&host->cq, hosts->init.arena, capacity);
	return host->has_cq;
}

/* Sort the numbers of flows by their hosts. */
static void flows_assign(struct engine_hosts *hosts)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < hosts->flow_count; i++)
		hosts->hosts[hosts->flows[i].source].count++;
	for (uint32_t i = 0; i < hosts->host_count; i++) {
		hosts->hosts[i].first = first;
		first += hosts->hosts[i].count;
		hosts->hosts[i].count = 0;
	}
	for (uint32_t i = 0; i < hosts->flow_count; i++) {
		struct engine_host *host = &hosts->hosts[hosts->flows[i].source];

		hosts->flow_of[host->first + host->count++] = i;
		hosts->flows[i].finish_ps = FABRIC_NEVER;
	}
}

static bool hosts_init(struct engine_hosts *hosts)
{
	hosts->hosts =
		(struct engine_host *)calloc(hosts->host_count + 1ull, sizeof(struct engine_host));
	hosts->engine_flows =
		(struct engine_flow *)calloc(hosts->flow_count + 1ull, sizeof(struct engine_flow));
	hosts->flow_of = (uint32_t *)calloc(hosts->flow_count + 1ull, sizeof(uint32_t));
	if (!hosts->hosts || !hosts->engine_flows || !hosts->flow_of || !mrs_init(hosts))
		return false;
	flows_assign(hosts);
	for (uint32_t i = 0; i < hosts->host_count; i++)
		if (!host_init(hosts, i))
			return false;
	for (uint32_t i = 0; i < hosts->flow_count; i++)
		if (!flow_connect(hosts, i))
			return false;
	return true;
}

struct engine_hosts *engine_hosts_create(struct fabric *fabric,
	const struct engine_hosts_init *init, struct fabric_flow *flows, uint32_t count)
{
	struct engine_hosts *hosts = (struct engine_hosts *)calloc(1, sizeof(*hosts));

	assert(fabric->config.data_capacity >= engine_host_data_bytes(init->mtu_bytes));
	if (!hosts)
		return NULL;
	hosts->fabric = fabric;
	hosts->init = *init;
	hosts->flows = flows;
	hosts->flow_count = count;
	hosts->host_count = fabric->host_count;
	hosts->link = ud_link_ethernet;
	if (fabric->infiniband)
		hosts->link.pkey_mask = 0; /* the port has compared it with its table */
	if (!hosts_init(hosts)) {
		engine_hosts_destroy(hosts);
		return NULL;
	}
	for (uint32_t i = 0; i < hosts->host_count; i++)
		fabric_set_host(fabric, i, &engine_host_ops, &hosts->hosts[i]);
	return hosts;
}

static void host_done(struct engine_host *host)
{
	for (uint32_t i = 0; i < FABRIC_PRIORITY_COUNT; i++) {
		if (!host->lanes[i])
			continue;
		engine_lane_done(host->lanes[i]);
		free(host->lanes[i]);
	}
	if (host->has_cq)
		cq_done(&host->cq, host->hosts->init.arena);
}

void engine_hosts_destroy(struct engine_hosts *hosts)
{
	if (!hosts)
		return;
	for (uint32_t i = 0; hosts->engine_flows && i < hosts->flow_count; i++)
		for (uint32_t j = 0; j < DIRECTION_COUNT; j++)
			if (hosts->engine_flows[i].qp[j])
				engine_qp_destroy(hosts->engine_flows[i].qp[j]);
	for (uint32_t i = 0; hosts->hosts && i < hosts->host_count; i++)
		host_done(&hosts->hosts[i]);
	if (hosts->has_mrs)
		mr_table_done(&hosts->mrs);
	free(hosts->source);
	free(hosts->target);
	free(hosts->hosts);
	free(hosts->engine_flows);
	free(hosts->flow_of);
	free(hosts);
}

const struct qp *engine_hosts_sender(const struct engine_hosts *hosts, uint32_t flow)
{
	return hosts->engine_flows[flow].qp[FORTH];
}

const struct qp *engine_hosts_receiver(const struct engine_hosts *hosts, uint32_t flow)
{
	return hosts->engine_flows[flow].qp[BACK];
}

uint8_t *engine_hosts_source_buffer(struct engine_hosts *hosts)
{
	return hosts->source;
}

const uint8_t *engine_hosts_target_buffer(const struct engine_hosts *hosts)
{
	return hosts->target;
}
