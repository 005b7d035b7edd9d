/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Selective repeat, between two urnics (docs/roce.md): the requester sends only holes again
 * (selective_pass.h), and the responder stores early packets (selective_store.h).
 */
#include <assert.h>

#include "base/arith.h"
#include "ib/rc/rc.h"

static_assert((int)RC_WINDOW_PACKETS_MAX <= (int)SELECTIVE_PACKETS_MAX, "a map covers a window");

/*
 * Selective repeat is for RC only. An XRC queue pair may pass to another process, and the lane
 * there has another store.
 */
void rc_selective_start(struct rc_qp *rc)
{
	rc->is_selective = rc->qp.lane->selective && rc->qp.type == QP_TYPE_RC;
}

/* --- the requester --- */

bool rc_selective_nak_is_possible(const struct rc_qp *rc, const struct packet *packet)
{
	return rc->is_selective &&
		selective_map_is_possible(&packet->map, packet->bth.psn, rc->requester.next);
}

/* Move the cursor, and the index of its work request, to `psn`. */
static void cursor_move(struct rc_qp *rc, struct psn psn)
{
	struct rc_requester *requester = &rc->requester;
	struct send_queue *sq = rc->qp.sq;

	if (psn_before(psn, requester->cursor))
		requester->wqe_index = sq->completed;
	requester->cursor = psn;
	for (; requester->wqe_index != sq->posted; requester->wqe_index++) {
		const struct send_wqe *wqe = sq_at(sq, requester->wqe_index);

		if (!wqe->is_started || psn_before(psn, psn_add(wqe->first_psn, wqe->packet_count)))
			return;
	}
}

/* Append the outstanding chunks of a READ, or an atomic, to the ring of READs. */
static void reads_append(struct rc_qp *rc, const struct send_wqe *wqe)
{
	struct rc_requester *requester = &rc->requester;
	uint32_t done = psn_before(wqe->first_psn, requester->una)
		? (uint32_t)psn_diff(requester->una, wqe->first_psn)
		: 0;
	uint32_t sent =
		min_u32((uint32_t)psn_diff(requester->next, wqe->first_psn), wqe->packet_count);

	for (uint32_t end = done - done % RC_READ_CHUNK_PACKETS; end < sent;) {
		end = min_u32(end + RC_READ_CHUNK_PACKETS, wqe->packet_count);
		rc_cold(rc)->read_end[requester->reads_outstanding++] =
			psn_add(wqe->first_psn, end);
	}
}

/*
 * Count the READs that were sent and are incomplete. A requester that goes back counts only those
 * that it has sent again.
 */
static void reads_recount(struct rc_qp *rc)
{
	struct rc_requester *requester = &rc->requester;
	struct send_queue *sq = rc->qp.sq;

	requester->read_head = 0;
	requester->reads_outstanding = 0;
	for (uint32_t index = sq->completed; index != sq->posted; index++) {
		const struct send_wqe *wqe = sq_at(sq, index);

		if (!wqe->is_started)
			return;
		if (rc_wqe_has_answer(wqe))
			reads_append(rc, wqe);
	}
}

void rc_selective_step(struct rc_qp *rc)
{
	struct rc_requester *requester = &rc->requester;
	struct selective_pass *pass = &requester->selective;
	struct psn hole = selective_pass_hole(pass, requester->cursor);

	if (psn_equal(hole, requester->cursor) && psn_before(hole, pass->end))
		return;
	pass->is_active = psn_before(hole, pass->end);
	/*
	 * If the cursor's work request has failed, the requester finds the fault again when the
	 * cursor returns to it.
	 */
	requester->local_fault = FAULT_NONE;
	cursor_move(rc, pass->is_active ? hole : requester->next);
}

/* The peer has answered before the requester has sent the probe: send no probe. */
static void probe_cancel(struct rc_qp *rc)
{
	rc->requester.selective = (struct selective_pass){0};
	cursor_move(rc, rc->requester.next);
}

/*
 * The peer has the packets of `map`, and all others before `end` are holes: begin or continue a
 * pass over them. Returns whether there are new holes.
 */
static bool holes_send(struct rc_qp *rc, const struct selective_map *map, struct psn end,
	struct psn newest, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;
	struct selective_pass *pass = &requester->selective;
	struct psn from;
	uint32_t holes;

	if (selective_pass_is_probe(pass))
		probe_cancel(rc);
	holes = selective_pass_learn(
		pass, map, requester->una, end, newest, requester->next, &from);
	if (holes && !pass->is_active) {
		if (!psn_equal(requester->cursor, requester->next))
			reads_recount(rc);
		pass->is_active = true;
		/* The requester finds the fault again when the cursor reaches that work request. */
		requester->local_fault = FAULT_NONE;
		cursor_move(rc, from);
	} else if (pass->is_active) {
		rc_selective_step(rc);
	}
	if (!holes)
		return false;
	rc_recovery_holes(rc, holes, now_ns);
	qp_schedule(&rc->qp, LANE_TX_DATA);
	return true;
}

void rc_selective_nak(struct rc_qp *rc, const struct packet *packet, uint64_t now_ns)
{
	struct psn last = psn_add(rc->requester.una, selective_map_last(&packet->map));

	lane_count_selective(rc->qp.lane, LANE_SELECTIVE_NAKS);
	if (rc->requester.rnr_until_ns == DEADLINE_NEVER)
		holes_send(rc, &packet->map, last, last, now_ns);
}

const struct send_wqe *rc_selective_find(const struct rc_qp *rc, struct psn psn)
{
	struct send_queue *sq = rc->qp.sq;

	for (uint32_t index = sq->completed; index != sq->posted; index++) {
		const struct send_wqe *wqe = sq_at(sq, index);

		if (!wqe->is_started)
			return NULL;
		if (psn_before(psn, psn_add(wqe->first_psn, wqe->packet_count)))
			return wqe;
	}
	return NULL;
}

/*
 * The packets before `end` that the requester need not request again: those without a response,
 * which the peer has acknowledged, and those whose response is placed.
 */
static struct selective_map map_of_responses(const struct rc_qp *rc, struct psn end)
{
	const struct rc_requester *requester = &rc->requester;
	struct send_queue *sq = rc->qp.sq;
	struct selective_map map = requester->placed;
	struct psn psn = requester->una;

	for (uint32_t index = sq->completed; psn_before(psn, end); index++) {
		const struct send_wqe *wqe = sq_at(sq, index);
		struct psn stop = psn_add(wqe->first_psn, wqe->packet_count);

		for (; psn_before(psn, end) && psn_before(psn, stop); psn = psn_add(psn, 1)) {
			uint32_t ahead = (uint32_t)psn_diff(psn, requester->una);

			if (ahead >= SELECTIVE_PACKETS_MAX)
				return map;
			if (!rc_wqe_has_answer(wqe))
				selective_map_set(&map, ahead);
		}
	}
	return map;
}

void rc_selective_request(struct rc_qp *rc, struct psn end, struct psn newest, uint64_t now_ns)
{
	struct selective_map map;

	if (rc->requester.rnr_until_ns != DEADLINE_NEVER)
		return;
	map = map_of_responses(rc, end);
	if (holes_send(rc, &map, end, newest, now_ns))
		qp_count(&rc->qp, COUNTER_implied_nak_seq_err, 1);
}

/*
 * The packet to send for a probe of `psn`: *ret_psn is its PSN, and the result is the number of
 * PSNs that it takes. In a READ, the packet is a request for the missing responses of the chunk
 * that has `psn`.
 */
static uint32_t probe_packets(const struct rc_qp *rc, struct psn psn, struct psn *ret_psn)
{
	const struct send_wqe *wqe = rc_selective_find(rc, psn);
	struct psn start, end;

	assert(wqe); /* the packet is outstanding */
	*ret_psn = psn;
	if (wr_table[wqe->opcode].operation != OPERATION_READ)
		return 1;
	start = psn_add(psn, -((uint32_t)psn_diff(psn, wqe->first_psn) % RC_READ_CHUNK_PACKETS));
	end = psn_add(start, RC_READ_CHUNK_PACKETS);
	if (psn_before(rc->requester.next, end))
		end = rc->requester.next;
	*ret_psn = psn_before(start, rc->requester.una) ? rc->requester.una : start;
	return (uint32_t)psn_diff(end, *ret_psn);
}

/*
 * The first probe repeats the newest request, because its answer shows all holes. A peer without a
 * receive request may not answer that one, because it expects the oldest request. So the next probe
 * repeats the oldest request.
 */
void rc_selective_probe(struct rc_qp *rc)
{
	struct rc_requester *requester = &rc->requester;
	struct psn psn;
	uint32_t count;

	if (requester->selective.is_active) /* lost packets wait for their turn */
		return;
	psn = requester->was_probed ? requester->una : psn_add(requester->next, -1u);
	count = probe_packets(rc, psn, &psn);
	trace_retransmit(rc->qp.qpn, psn.value, "probe", requester->retries_left);
	requester->selective = selective_pass_probe(psn, count);
	requester->has_gone_back = false; /* a NAK may answer the probe */
	/* The requester finds the fault again when the cursor reaches that work request. */
	requester->local_fault = FAULT_NONE;
	cursor_move(rc, psn);
	qp_schedule(&rc->qp, LANE_TX_DATA);
}

/* --- the responder --- */

void rc_selective_store(struct rc_qp *rc, const struct packet *packet, uint32_t ahead)
{
	struct rc_responder *responder = &rc->responder;
	bool is_read = packet->info->operation == OPERATION_READ;
	uint32_t count = is_read ? message_packet_count(&rc->qp, packet->reth.dma_bytes) : 1;

	if (selective_queue_add(&responder->early, rc->qp.lane->selective, packet, ahead, count))
		lane_count_selective(rc->qp.lane, LANE_SELECTIVE_STORED);
	else
		lane_count_selective(rc->qp.lane, LANE_SELECTIVE_UNSTORED);
	rc_response_queue_selective(rc, packet->bth.psn);
}

void rc_selective_stop(struct rc_qp *rc)
{
	selective_queue_clear(&rc->responder.early, rc->qp.lane->selective);
}
