/* SPDX-License-Identifier: BSD-2-Clause */
#include "qp/pace.h"

#include <assert.h>
#include <errno.h>

#include "base/arith.h"
#include "congestion/cc_flow.h"
#include "qp/qp.h"
#include "wire/roce.h"

/* The bytes that an Ethernet frame has around its IP packet. */
enum {
	FCS_BYTES = 4,
	ETHERNET_BYTES = 14 + FCS_BYTES,
};

#define NS_PER_MS 1000000u

struct pace {
	struct qp *qp;
	const struct qp_transport *plain; /* the transport of the queue pair's type */
	struct qp_transport paced; /* in use while there is a rate */
	struct deadline deadline;
	uint32_t rate_kbps;
	uint32_t congestion_kbps; /* what congestion control permits; 0: no limit */
	uint32_t overhead_bytes; /* the bytes on the wire that bytes_count() adds to each packet */
	uint64_t burst_ns; /* how long before its due time a packet may leave */
	uint64_t due_ns; /* when the next packet is due */
	struct cc_flow flow; /* for qp->cc; it may be in use before the other members are */
};

/*
 * The size of a struct pace's block of NIC memory. Blocks of different sizes lie in different pages
 * (base/arena.h). No block that an idle queue pair touches has this size, so an idle queue pair
 * does not touch the pages of these blocks.
 */
enum { PACE_BLOCK_BYTES = 1024 };
static_assert(sizeof(struct pace) <= PACE_BLOCK_BYTES, "a block has room for it");

/* How long `bytes` take at the rate. A kilobit per second is a bit per millisecond. */
static uint64_t bytes_ns(uint32_t rate_kbps, uint64_t bytes)
{
	return bytes * 8 * NS_PER_MS / rate_kbps;
}

static uint64_t duration_ns(const struct pace *pace, uint64_t bytes)
{
	return bytes_ns(pace->rate_kbps, bytes);
}

static uint32_t packet_overhead_bytes(bool is_ipv4)
{
	return ROCE_ICRC_BYTES + ROCE_UDP_BYTES + ETHERNET_BYTES +
		(is_ipv4 ? IPV4_BYTES : IPV6_BYTES);
}

uint64_t pace_datagram_ns(uint32_t rate_kbps, size_t bytes)
{
	return bytes_ns(rate_kbps, bytes + packet_overhead_bytes(false));
}

uint32_t pace_packet_bytes(const struct qp *qp)
{
	return qp->mtu_bytes + BTH_BYTES + packet_overhead_bytes(gid_is_ipv4(&qp->attr.path.local));
}

static void bytes_count(struct pace *pace, uint64_t bytes, uint64_t now_ns)
{
	pace->due_ns =
		max_u64(pace->due_ns, now_ns) + duration_ns(pace, bytes + pace->overhead_bytes);
}

/* May no packet leave yet? */
static bool rate_is_early(const struct pace *pace, uint64_t now_ns)
{
	return pace->due_ns > now_ns + pace->burst_ns;
}

static void rate_wait(struct pace *pace)
{
	deadline_set(&pace->qp->lane->pacing, &pace->deadline, pace->due_ns - pace->burst_ns);
}

static void rate_resume(struct qp *qp)
{
	if (qp->transport->resume)
		qp->transport->resume(qp);
	else
		qp_schedule(qp, LANE_TX_DATA);
}

/* The lower of two rates; 0 is no rate. */
static uint32_t lower_rate(uint32_t a, uint32_t b)
{
	return a && b ? min_u32(a, b) : a | b;
}

/*
 * How long before its due time a packet may leave. The burst is PACE_BURST_NS unless the program
 * has set one, and at least one packet.
 */
static uint64_t burst_of(const struct pace *pace)
{
	uint32_t asked_bytes = pace->qp->attr.burst_bytes;
	uint64_t burst_ns = asked_bytes ? duration_ns(pace, asked_bytes) : PACE_BURST_NS;
	uint64_t packet_ns = duration_ns(pace, pace->qp->mtu_bytes + pace->overhead_bytes);

	/* The first packet of a burst is not early, so it is no part of this time. */
	return burst_ns > packet_ns ? burst_ns - packet_ns : 0;
}

/* Pace by the lowest of the present rates. */
static void rate_set(struct pace *pace)
{
	struct qp *qp = pace->qp;
	const struct qp_attr *attr = &qp->attr;

	pace->rate_kbps = lower_rate(
		lower_rate(attr->rate_limit_kbps, attr->path.rate_kbps), pace->congestion_kbps);
	qp->transport = pace->rate_kbps ? &pace->paced : pace->plain;
	if (!pace->rate_kbps)
		return;
	pace->overhead_bytes = qp->type == QP_TYPE_RAW_PACKET
		? FCS_BYTES
		: packet_overhead_bytes(gid_is_ipv4(&attr->path.local));
	pace->burst_ns = burst_of(pace);
}

/*
 * The paced transport's next_packet(). It sends single packets, never a run, because the rate
 * applies to each packet.
 */
static size_t next_packet(struct qp *qp, struct packet_run *run, uint64_t now_ns)
{
	struct pace *pace = qp->pace;
	struct packet_run single = {.buffer = run->buffer, .packets = 1};
	size_t bytes = 0;
	bool is_early;

	if (qp->cc)
		pace_follow(qp, now_ns);
	if (!pace->rate_kbps)
		return pace->plain->next_packet(qp, run, now_ns);
	is_early = rate_is_early(pace, now_ns);
	if (!is_early)
		bytes = pace->plain->next_packet(qp, &single, now_ns);
	else if (pace->plain->next_unpaced)
		bytes = pace->plain->next_unpaced(qp, &single, now_ns);
	if (bytes) {
		*run = single;
		bytes_count(pace, bytes, now_ns);
		if (qp->cc)
			cc_flow_on_sent(qp->cc, (uint32_t)bytes + pace->overhead_bytes, now_ns);
	} else if (is_early) {
		rate_wait(pace);
	}
	return bytes;
}

/* Use the memory that pace_reserve() has allocated. It is zeroed. */
static void pace_begin(struct qp *qp)
{
	struct pace *pace = arena_at(qp->lane->arena, qp->pace_offset);

	pace->qp = qp;
	pace->plain = qp->transport;
	pace->paced = *qp->transport;
	pace->paced.next_packet = next_packet;
	qp->pace = pace;
}

void pace_follow(struct qp *qp, uint64_t now_ns)
{
	uint32_t rate_kbps = cc_flow_rate_kbps(qp->cc, now_ns);

	if (!qp->pace && rate_kbps)
		pace_begin(qp);
	if (!qp->pace || qp->pace->congestion_kbps == rate_kbps)
		return;
	qp->pace->congestion_kbps = rate_kbps;
	rate_set(qp->pace);
	if (!qp->pace->rate_kbps && pace_is_waiting(qp)) {
		deadline_set(&qp->lane->pacing, &qp->pace->deadline, DEADLINE_NEVER);
		rate_resume(qp);
	}
}

bool pace_has_rate(const struct qp *qp)
{
	return qp->pace && qp->pace->rate_kbps;
}

bool pace_holds(struct qp *qp, uint64_t now_ns)
{
	bool is_early = pace_has_rate(qp) && rate_is_early(qp->pace, now_ns);

	if (is_early)
		rate_wait(qp->pace);
	return is_early;
}

void pace_count(struct qp *qp, uint64_t frame_bytes, uint64_t now_ns)
{
	if (pace_has_rate(qp))
		bytes_count(qp->pace, frame_bytes, now_ns);
}

void pace_take_back(struct qp *qp, uint64_t frame_bytes)
{
	if (pace_has_rate(qp))
		qp->pace->due_ns -= duration_ns(qp->pace, frame_bytes + qp->pace->overhead_bytes);
}

bool pace_is_waiting(const struct qp *qp)
{
	return qp->pace && qp->pace->deadline.position != 0;
}

uint32_t pace_packets_in(const struct qp *qp, uint32_t time_ns)
{
	uint64_t packets;

	if (!qp->pace->rate_kbps)
		return UINT32_MAX;
	packets = time_ns / max_u64(duration_ns(qp->pace, pace_packet_bytes(qp)), 1);
	return (uint32_t)max_u64(packets, 1);
}

int pace_reserve(struct qp *qp)
{
	if (qp->pace_offset)
		return 0;
	if (deadline_heap_reserve(&qp->lane->pacing, qp->lane->qp_count))
		return -ENOMEM;
	qp->pace_offset = arena_alloc(qp->lane->arena, PACE_BLOCK_BYTES);
	return qp->pace_offset ? 0 : -ENOMEM;
}

struct cc_flow *pace_flow(struct qp *qp)
{
	struct pace *pace = arena_at(qp->lane->arena, qp->pace_offset);

	return &pace->flow;
}

int pace_prepare(struct qp *qp)
{
	int error = pace_reserve(qp);

	if (!error && !qp->pace)
		pace_begin(qp);
	return error;
}

void pace_update(struct qp *qp)
{
	struct pace *pace = qp->pace;
	bool was_waiting = pace_is_waiting(qp);

	assert(pace || (!qp->attr.rate_limit_kbps && !qp->attr.path.rate_kbps));
	if (!pace)
		return;
	deadline_set(&qp->lane->pacing, &pace->deadline, DEADLINE_NEVER);
	pace->due_ns = 0;
	rate_set(pace);
	if (was_waiting)
		rate_resume(qp);
}

void pace_done(struct qp *qp)
{
	if (qp->pace)
		deadline_set(&qp->lane->pacing, &qp->pace->deadline, DEADLINE_NEVER);
	qp->pace = NULL;
	arena_free(qp->lane->arena, qp->pace_offset);
	qp->pace_offset = 0;
}

void pace_expire(struct lane *lane, uint64_t now_ns)
{
	struct deadline *first;

	while ((first = deadline_heap_first(&lane->pacing)) && first->at_ns <= now_ns) {
		deadline_set(&lane->pacing, first, DEADLINE_NEVER);
		rate_resume(container_of(first, struct pace, deadline)->qp);
	}
}
