/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/tracepoint.h"
#include "engine/multicast.h"
#include "ether/raw.h"
#include "ib/rc/rc.h"
#include "ib/uc/uc.h"
#include "ib/ud/ud.h"
#include "iwarp/iwarp.h"
#include "qp/qp_report.h"
#include "wire/packet.h"
#include "wire/roce.h"

/* The transport of each queue pair type; NULL: this build has no such type. */
static const struct qp_transport *const transports[QP_TYPE_COUNT] = {
	[QP_TYPE_RC] = &rc_transport,
	[QP_TYPE_XRC_SEND] = &rc_transport,
	[QP_TYPE_XRC_RECV] = &rc_transport,
	[QP_TYPE_UC] = &uc_transport,
	[QP_TYPE_UD] = &ud_transport,
	[QP_TYPE_RAW_PACKET] = &raw_transport,
	[QP_TYPE_IWARP] = &iwarp_transport,
};

static_assert(DROP_selective_resent_pkts == DROP_selective_naks_rcvd + LANE_SELECTIVE_RESENT &&
		DROP_selective_stored_pkts == DROP_selective_naks_rcvd + LANE_SELECTIVE_STORED &&
		DROP_selective_unstored_pkts == DROP_selective_naks_rcvd + LANE_SELECTIVE_UNSTORED,
	"lane->selective_counts");

static const char *const drop_names[DROP_COUNT] = {
#define DROP(name, sentence) [DROP_##name] = #name,
#include "engine/drop.def"
#undef DROP
};

const char *drop_name(enum drop drop)
{
	return drop_names[drop];
}

static void count_many(struct lane *lane, enum drop drop, uint32_t count)
{
	_Atomic uint64_t *value = &lane->public->drops[drop];

	atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + count,
		memory_order_relaxed);
}

static void count_drop(struct lane *lane, enum drop drop)
{
	count_many(lane, drop, 1);
}

/* Drop a packet that was for queue pair `qpn`; 0 when that is not known. */
static void packet_drop(struct lane *lane, uint32_t qpn, enum drop drop)
{
	count_drop(lane, drop);
	trace_packet_dropped(qpn, drop_names[drop]);
}

/* --- lanes --- */

int engine_lane_init(struct lane *lane, struct arena *arena, const struct mr_table *mrs,
	uint32_t slot, uint32_t index)
{
	memset(lane, 0, sizeof(*lane));
	lane->public_offset = arena_alloc(arena, sizeof(struct lane_public));
	if (!lane->public_offset)
		return -ENOMEM;
	lane->qp_by_number = calloc(LANE_QP_COUNT_MAX, sizeof(struct qp *));
	if (!lane->qp_by_number) {
		arena_free(arena, lane->public_offset);
		return -ENOMEM;
	}
	lane->link = &ud_link_ethernet;
	lane->arena = arena;
	lane->mrs = mrs;
	lane->capture_public = &capture_nowhere;
	lane->slot = slot;
	lane->index = index;
	lane->public = arena_at(arena, lane->public_offset);
	lane->unsound = &lane->public->drops[DROP_unsound];
	lane->selective_counts = &lane->public->drops[DROP_selective_naks_rcvd];
	lane->public->slot = slot;
	list_init(&lane->tx_data);
	list_init(&lane->tx_ack);
	list_init(&lane->tx_frames);
	list_init(&lane->tx_streams);
	deadline_heap_init(&lane->deadlines);
	deadline_heap_init(&lane->pacing);
	return 0;
}

void engine_lane_done(struct lane *lane)
{
	assert(lane->qp_count == 0);
	deadline_heap_done(&lane->deadlines);
	selective_store_destroy(lane->selective);
	free(lane->members);
	deadline_heap_done(&lane->pacing);
	free(lane->qp_by_number);
	arena_free(lane->arena, lane->public_offset);
	memset(lane, 0, sizeof(*lane));
}

/* --- queue pairs --- */

static struct qp **qp_place(const struct lane *lane, uint32_t qpn)
{
	return &lane->qp_by_number[qpn % LANE_QP_COUNT_MAX];
}

struct qp *engine_qp_find(const struct lane *lane, uint32_t qpn)
{
	struct qp *qp = *qp_place(lane, qpn);

	return qp && qp->qpn == qpn ? qp : NULL;
}

/*
 * Other processes read the public list (first_qp_offset, next_offset) while it changes. Each link
 * is valid at any moment, because an entry is complete before it is linked.
 */
static void lane_publish(struct lane *lane, struct qp *qp)
{
	qp->published_next = lane->published;
	if (lane->published)
		lane->published->published_before = qp;
	lane->published = qp;
	qp->public->next_offset = lane->public->first_qp_offset;
	lane->public->first_qp_offset = qp->public_offset;
	lane->public->qp_count = lane->qp_count;
}

static void lane_unpublish(struct lane *lane, struct qp *qp)
{
	struct qp *before = qp->published_before, *next = qp->published_next;

	if (next)
		next->published_before = before;
	if (before) {
		before->published_next = next;
		before->public->next_offset = qp->public->next_offset;
	} else {
		lane->published = next;
		lane->public->first_qp_offset = qp->public->next_offset;
	}
	lane->public->qp_count = lane->qp_count;
}

bool engine_has_type(enum qp_type type)
{
	return (unsigned)type < QP_TYPE_COUNT && transports[type];
}

/* The lane's first free queue pair number at or after a random one. The lane has a free number. */
static uint32_t number_choose(const struct lane *lane, uint64_t random)
{
	uint32_t number = (uint32_t)random % LANE_QP_COUNT_MAX;

	/* The multicast number belongs to no queue pair. */
	while (lane->qp_by_number[number] || (lane->slot << 16 | number) == QPN_MULTICAST.value)
		number = (number + 1) % LANE_QP_COUNT_MAX;
	return lane->slot << 16 | number;
}

int engine_qp_create(
	struct lane *lane, const struct qp_init *init, uint64_t random, struct qp **ret_qp)
{
	const struct qp_transport *transport;
	struct qp *qp;
	int error;

	if (!engine_has_type(init->type))
		return -EOPNOTSUPP;
	if (lane->qp_count >= LANE_QP_COUNT_MAX - 1)
		return -ENOMEM;
	error = deadline_heap_reserve(&lane->deadlines, lane->qp_count + 1);
	if (error)
		return error;
	transport = transports[init->type];
	qp = calloc(1, transport->object_bytes);
	if (!qp)
		return -ENOMEM;
	error = qp_init(qp, lane, init, number_choose(lane, random), transport);
	if (error) {
		free(qp);
		return error;
	}
	*qp_place(lane, qp->qpn) = qp;
	lane->qp_count++;
	lane_publish(lane, qp);
	*ret_qp = qp;
	return 0;
}

void engine_qp_destroy(struct qp *qp)
{
	struct lane *lane = qp->lane;

	multicast_forget(qp);
	if (qp->transport->done)
		qp->transport->done(qp);
	*qp_place(lane, qp->qpn) = NULL;
	lane->qp_count--;
	lane_unpublish(lane, qp);
	qp_done(qp);
	free(qp);
}

void engine_srq_forget(struct lane *lane, const struct srq *srq)
{
	for (struct qp *qp = lane->published; qp; qp = qp->published_next)
		if (qp->type == QP_TYPE_XRC_RECV)
			rc_xrc_forget(rc_from_qp(qp), srq);
}

struct qp *engine_qp_in_lookup(struct lane *lane, uint32_t *ret_number)
{
	for (struct qp *qp = lane->published; qp; qp = qp->published_next)
		if (qp->type == QP_TYPE_XRC_RECV &&
			rc_xrc_lookup_pending(rc_from_qp(qp), ret_number))
			return qp;
	return NULL;
}

/* --- packets --- */

/*
 * Report a packet that finds no queue pair. For a packet of a reliable type only a wrong P_Key is
 * reported, because its peer reports a missing answer itself.
 */
static void drop_report(struct lane *lane, const struct packet *packet, enum reason reason,
	const struct packet_origin *origin, uint64_t now_ns)
{
	enum opcode_class class = opcode_class(packet->info);

	if (!lane->failures ||
		(reason != REASON_DROPPED_PKEY && class != OPCODE_CLASS_UD &&
			class != OPCODE_CLASS_UC))
		return;
	if (reason == REASON_DROPPED_PKEY)
		lane_fact(lane, FACT_pkey, packet->bth.pkey);
	if (reason == REASON_DROPPED_NUMBER) {
		lane_fact(lane, FACT_number, packet->bth.dest_qpn.value);
		lane_fact(lane, FACT_source_qpn,
			class == OPCODE_CLASS_UD ? packet->deth.source_qpn.value : 0);
	}
	lane_report_drop(lane, reason, origin->source, now_ns);
}

static void state_report(struct qp *qp, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns)
{
	bool is_unreliable = qp->type == QP_TYPE_UD || qp->type == QP_TYPE_UC;

	if (!qp_has_reports(qp) || !is_unreliable)
		return;
	lane_fact(qp->lane, FACT_from_state, qp->state);
	qp_report_drop(qp, REASON_DROPPED_STATE,
		opcode_class(packet->info) == OPCODE_CLASS_UD ? packet->deth.source_qpn.value : 0,
		origin->source, now_ns);
}

bool engine_receive(struct lane *lane, const struct packet_origin *origin, const uint8_t *bytes,
	size_t length, uint64_t now_ns)
{
	struct packet packet;
	struct qp *qp;

	count_drop(lane, DROP_rcvd_packets);
	if (packet_decode(&packet, bytes, length) != PACKET_OK) {
		packet_drop(lane, 0, DROP_malformed);
		return false;
	}
	trace_packet_received(
		packet.bth.dest_qpn.value, packet.bth.opcode, packet.bth.psn.value, length);
	/* Ignore the membership bit: a limited member may talk to a full one (IBTA 10.9.3). */
	if ((packet.bth.pkey ^ BTH_PKEY_DEFAULT) & lane->link->pkey_mask) {
		packet_drop(lane, packet.bth.dest_qpn.value, DROP_pkey_mismatch);
		drop_report(lane, &packet, REASON_DROPPED_PKEY, origin, now_ns);
		return false;
	}
	qp = engine_qp_find(lane, packet.bth.dest_qpn.value);
	if (!qp) {
		bool is_multicast = qpn_equal(packet.bth.dest_qpn, QPN_MULTICAST);

		if (!is_multicast || !multicast_receive(lane, &packet, origin, now_ns)) {
			packet_drop(lane, packet.bth.dest_qpn.value, DROP_unknown_qp);
			if (!is_multicast)
				drop_report(lane, &packet, REASON_DROPPED_NUMBER, origin, now_ns);
		}
		if (!is_multicast)
			guard_note(lane, NULL, GUARD_NUMBERS, origin, now_ns);
		return false;
	}
	if (!qp_is_receiving(qp)) {
		packet_drop(lane, qp->qpn, DROP_not_ready);
		state_report(qp, &packet, origin, now_ns);
		return false;
	}
	if (qp_is_guarded(qp, GUARD_NUMBERS, origin, now_ns) && guard_refuses(qp, origin))
		return false;
	if (packet.info->role == OPCODE_ROLE_CONGESTION) {
		congestion_on_cnp(qp, origin, now_ns);
		return false;
	}
	switch (qp->transport->receive(qp, &packet, origin, now_ns)) {
	case PACKET_TAKEN:
		if (roce_is_marked(origin->traffic_class))
			congestion_on_mark(qp, now_ns);
		if (qp->peer_port != origin->source_port && qp->type != QP_TYPE_UD)
			qp->peer_port = origin->source_port;
		return true;
	case PACKET_GUESSED:
		guard_note(lane, qp, GUARD_NUMBERS, origin, now_ns);
		return false;
	case PACKET_DROPPED:
		return false;
	}
	return false;
}

/* End the queue pair's turn to send. With `has_more` it joins the end of lane->tx_data. */
static void turn_end(struct lane *lane, struct qp *qp, bool has_more)
{
	list_remove(&qp->tx_link);
	if (has_more)
		list_append(&lane->tx_data, &qp->tx_link);
	qp->tx_list = has_more ? LANE_TX_DATA : LANE_TX_NONE;
	lane->burst_packets = 0;
}

static struct impair_flow *flow_bind(struct qp *qp)
{
	impair_flow_bind(qp->impair, qp->attr.sq_psn, qp->attr.rq_psn, qp->mtu_bytes);
	return qp->impair;
}

/* The first queue pair of the list that does not wait for room on its route; NULL: none. */
static struct qp *qp_choose(const struct lane *lane, const struct list *list)
{
	if (!lane->waits_for_room)
		return list_is_empty(list) ? NULL : list_first(list, struct qp, tx_link);
	list_for_each(qp, list, struct qp, tx_link)
		if (!lane->waits_for_room(lane, qp))
			return qp;
	return NULL;
}

size_t engine_next_packet(
	struct lane *lane, bool with_acks, struct packet_run *run, uint64_t now_ns)
{
	while (engine_has_packets(lane, with_acks)) {
		struct qp *qp = with_acks ? qp_choose(lane, &lane->tx_ack) : NULL;
		size_t bytes;

		if (!qp)
			qp = qp_choose(lane, &lane->tx_data);
		if (!qp)
			return 0;

		run->packets = 1;
		run->borrowed = NULL;
		run->borrowed_bytes = 0;
		bytes = qp->is_cnp_pending ? congestion_cnp_write(qp, run)
					   : qp->transport->next_packet(qp, run, now_ns);
		if (!bytes) {
			turn_end(lane, qp, false);
			continue;
		}
		lane->burst_packets += run->packets;
		if (lane->burst_packets >= ENGINE_BURST_PACKETS)
			turn_end(lane, qp, true);
		run->flow = lane->impair ? flow_bind(qp) : NULL;
		trace_packet_sent(
			qp->qpn, run->buffer[0], get_be24(run->buffer + 9), bytes, run->packets);
		qp_count(qp, COUNTER_sent_pkts, run->packets);
		count_many(lane, DROP_sent_packets, run->packets);
		return bytes;
	}
	return 0;
}

/* --- time --- */

uint64_t engine_deadline_ns(const struct lane *lane)
{
	const struct deadline *first = deadline_heap_first(&lane->deadlines);
	const struct deadline *paced = deadline_heap_first(&lane->pacing);

	return min_u64(
		first ? first->at_ns : DEADLINE_NEVER, paced ? paced->at_ns : DEADLINE_NEVER);
}

void engine_expire(struct lane *lane, uint64_t now_ns)
{
	struct deadline *first = deadline_heap_first(&lane->deadlines);

	pace_expire(lane, now_ns);
	while (first && first->at_ns <= now_ns) {
		struct qp *qp = container_of(first, struct qp, deadline);

		qp->transport->expire(qp, now_ns);
		assert(!(qp->deadline.position && qp->deadline.at_ns <= now_ns));
		first = deadline_heap_first(&lane->deadlines);
	}
}

/* --- posting --- */

void engine_begin(struct qp *qp, uint64_t now_ns)
{
	if (qp->state == QP_ERR || qp->state == QP_SQE)
		qp_flush(qp, now_ns);
	else
		qp->transport->posted(qp, now_ns);
}

int engine_post_send(struct qp *qp, const struct send_wr *wrs, uint32_t count, uint32_t *ret_posted,
	uint64_t now_ns)
{
	int error = 0;
	uint32_t posted;

	for (posted = 0; posted < count && !error; posted++)
		error = qp_post_send(qp, &wrs[posted]);
	*ret_posted = error ? posted - 1 : posted;
	if (*ret_posted)
		engine_posted(qp, now_ns);
	return error;
}

void engine_check(const struct lane *lane)
{
	uint32_t qp_count = 0;
	uint64_t offset = lane->public->first_qp_offset;

	while (offset) {
		const struct qp_public *public = arena_at(lane->arena, offset);
		const struct qp *qp = engine_qp_find(lane, public->qpn);

		qp_count++;
		assert(qp && qp->lane == lane && qp->public == public);
		assert(qp->qpn >> 16 == lane->slot);
		assert(list_is_linked(&qp->tx_link) == (qp->tx_list != LANE_TX_NONE));
		qp->transport->check(qp);
		offset = public->next_offset;
	}
	assert(qp_count == lane->public->qp_count);
	assert(qp_count == lane->qp_count);
}
