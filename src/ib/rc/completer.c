/* SPDX-License-Identifier: BSD-2-Clause */
/* The completer: responses, and the work requests that they complete (IBTA 9.7.5.1, 9.9.2). */
#include "base/arith.h"
#include "ib/rc/rc.h"
#include "wire/credit.h"

/* `una` has advanced by `packets`. */
static inline void placed_shift(struct rc_requester *requester, uint32_t packets)
{
	if (!selective_map_is_empty(&requester->placed))
		selective_map_shift(&requester->placed, packets);
}

/*
 * The peer has executed everything before `target`. Move una there, and complete the work requests
 * before it. A READ or atomic completes only with its response. If a response is missing, una stops
 * at that request, and the result is false (an implied NAK, IBTA 9.7.5.1.1).
 */
static bool requests_acknowledge(struct rc_qp *rc, struct psn target, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;
	struct send_queue *sq = rc->qp.sq;
	struct psn before = requester->una;
	bool is_complete = true;

	while (sq->completed != sq->posted && psn_before(requester->una, target)) {
		const struct send_wqe *wqe = sq_at(sq, sq->completed);
		struct psn end = psn_add(wqe->first_psn, wqe->packet_count);

		if (!wqe->is_started)
			break;
		if (rc_wqe_has_answer(wqe)) {
			is_complete = false;
			break;
		}
		if (psn_before(target, end)) {
			requester->una = target;
			break;
		}
		requester->una = end;
		qp_complete_send(&rc->qp, FAULT_NONE, now_ns);
		rc_requester_complete_local(rc, now_ns);
		if (rc->qp.state == QP_ERR)
			return false;
	}
	uint32_t packets = (uint32_t)psn_diff(requester->una, before);
	if (packets) {
		placed_shift(requester, packets);
		rc_recovery_advanced(rc, packets, now_ns);
	}
	if (requester->local_fault && sq->completed == requester->wqe_index) {
		rc_requester_fail(rc, requester->local_fault, now_ns);
		return false;
	}
	return is_complete;
}

static void implied_nak(struct rc_qp *rc, uint64_t now_ns)
{
	if (rc->qp.state == QP_ERR)
		return;
	if (!rc->requester.has_gone_back)
		qp_count(&rc->qp, COUNTER_implied_nak_seq_err, 1);
	rc_recovery_lost(rc, now_ns);
}

/*
 * `packet` shows that responses before `end` are missing: request them again. With `is_complete`
 * nothing else is missing, so selective repeat is enough, if the peer knows it.
 */
static void responses_missing(struct rc_qp *rc, const struct packet *packet, struct psn end,
	bool is_complete, uint64_t now_ns)
{
	if (rc->is_selective && is_complete && rc->qp.state != QP_ERR)
		rc_selective_request(rc, end, packet->bth.psn, now_ns);
	else
		implied_nak(rc, now_ns);
}

/*
 * Store the credits of an AETH, which say how many receive requests the peer has (IBTA 9.7.7.2.2).
 */
static void credit_update(struct rc_qp *rc, const struct aeth *aeth)
{
	struct rc_requester *requester = &rc->requester;

	if (aeth->kind != AETH_ACK)
		return;
	requester->is_credit_limited = aeth->value != CREDIT_CODE_UNLIMITED;
	if (requester->is_credit_limited)
		requester->limit_ssn = msn_add(aeth->msn, credit_count(aeth->value)).value;
	rc_requester_schedule(rc);
}

static const struct {
	enum counter counter;
	enum fault fault;
} nak_table[] = {
#define AETH_NAK_CODE(NAME, code, counter, FAULT) [code] = {COUNTER_##counter, FAULT_##FAULT},
#include "wire/aeth_nak.def"
#undef AETH_NAK_CODE
};

static void nak_receive(struct rc_qp *rc, const struct packet *packet, uint64_t now_ns)
{
	uint8_t code = packet->aeth.value;

	if (code >= ARRAY_COUNT(nak_table)) {
		qp_count(&rc->qp, COUNTER_invalid_responses, 1);
		return;
	}
	qp_count(&rc->qp, nak_table[code].counter, 1);
	if (packet_has_map(packet))
		rc_selective_nak(rc, packet, now_ns);
	else if (code == AETH_NAK_PSN_SEQUENCE)
		rc_recovery_lost(rc, now_ns);
	else if (nak_table[code].fault != FAULT_NONE)
		rc_requester_fail(rc, nak_table[code].fault, now_ns);
}

/* The SSN of the oldest incomplete message. */
static struct msn oldest_ssn(const struct rc_qp *rc)
{
	const struct send_wqe *wqe = sq_at(rc->qp.sq, rc->qp.sq->completed);
	bool is_read = wr_table[wqe->opcode].operation == OPERATION_READ;
	uint32_t chunks =
		is_read ? (uint32_t)div_ceil_u64(wqe->packet_count, RC_READ_CHUNK_PACKETS) : 1;

	return msn_from(wqe->ssn + 1 - chunks);
}

/*
 * Can the peer have completed as many messages as the packet's MSN says? The caller has checked
 * that a packet is outstanding.
 */
static bool is_msn_plausible(const struct rc_qp *rc, const struct packet *packet)
{
	if (!(packet->info->headers & HEADER_AETH))
		return true; /* a middle READ response, which has no MSN */
	return msn_diff(packet->aeth.msn, oldest_ssn(rc)) >= -1 &&
		msn_diff(packet->aeth.msn, msn_from(rc->requester.next_ssn)) < 0;
}

/* Process an ACK, RNR NAK or NAK. */
static void acknowledge_receive(struct rc_qp *rc, const struct packet *packet, uint64_t now_ns)
{
	const struct aeth *aeth = &packet->aeth;
	struct psn psn = packet->bth.psn;
	bool is_ack = aeth->kind == AETH_ACK;

	if (packet_has_map(packet) && !rc_selective_nak_is_possible(rc, packet)) {
		qp_count(&rc->qp, COUNTER_invalid_responses, 1);
		return;
	}
	struct psn end = is_ack ? psn_add(psn, 1) : psn;

	if (!requests_acknowledge(rc, end, now_ns)) {
		/*
		 * An ACK or a NAK with a map allows selective repeat. After any other NAK the
		 * requester must send the refused request again, too.
		 */
		responses_missing(rc, packet, end, is_ack || packet_has_map(packet), now_ns);
		return;
	}
	if (is_ack)
		credit_update(rc, aeth);
	else if (!psn_equal(rc->requester.una, psn))
		qp_count(&rc->qp, COUNTER_stale_responses, 1);
	else if (aeth->kind == AETH_RNR_NAK)
		rc_recovery_rnr(rc, aeth->value, now_ns);
	else if (aeth->kind == AETH_NAK)
		nak_receive(rc, packet, now_ns);
}

/*
 * The oldest work request, if it is a READ or atomic that waits for the response at una; else NULL.
 */
static struct send_wqe *wqe_awaited(struct rc_qp *rc)
{
	struct send_queue *sq = rc->qp.sq;

	if (sq->completed == sq->posted)
		return NULL;
	struct send_wqe *wqe = sq_at(sq, sq->completed);
	return wqe->is_started && rc_wqe_has_answer(wqe) ? wqe : NULL;
}

/* A response for una was placed: one packet of a READ, or the whole response to an atomic. */
static void response_placed(struct rc_qp *rc, const struct send_wqe *wqe, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;
	struct psn end = psn_add(wqe->first_psn, wqe->packet_count);

	requester->una = psn_add(requester->una, 1);
	placed_shift(requester, 1);
	if (psn_equal(requester->una, end)) {
		qp_complete_send(&rc->qp, FAULT_NONE, now_ns);
		rc_requester_complete_local(rc, now_ns);
		if (rc->qp.state == QP_ERR)
			return;
	}
	rc_recovery_advanced(rc, 1, now_ns);
	if (requester->local_fault && rc->qp.sq->completed == requester->wqe_index)
		rc_requester_fail(rc, requester->local_fault, now_ns);
}

/* Place the payload of a READ response. Returns FAULT_NONE, or why that is not possible. */
static enum fault read_place(
	struct rc_qp *rc, const struct send_wqe *wqe, const struct packet *packet)
{
	uint64_t offset =
		(uint64_t)(uint32_t)psn_diff(packet->bth.psn, wqe->first_psn) * rc->qp.mtu_bytes;
	uint64_t expected_bytes = min_u64(rc->qp.mtu_bytes, wqe->total_bytes - offset);
	enum mr_fault fault;

	if (packet->payload_bytes != expected_bytes)
		return FAULT_RESPONSE_LENGTH;
	fault = sge_scatter(rc->qp.lane->mrs, rc->qp.pd, wqe->sge, wqe->sge_count, offset,
		packet->payload_bytes, packet->payload);
	if (fault)
		return message_local_fault(fault);
	qp_count(&rc->qp, COUNTER_rcvd_bytes, packet->payload_bytes);
	return FAULT_NONE;
}

static void read_response(
	struct rc_qp *rc, const struct send_wqe *wqe, const struct packet *packet, uint64_t now_ns)
{
	enum fault fault = read_place(rc, wqe, packet);

	if (fault)
		rc_requester_fail(rc, fault, now_ns);
	else
		response_placed(rc, wqe, now_ns);
}

static void atomic_response(
	struct rc_qp *rc, const struct send_wqe *wqe, const struct packet *packet, uint64_t now_ns)
{
	uint64_t original = packet->atomicacketh.original;
	enum mr_fault fault = sge_scatter(rc->qp.lane->mrs, rc->qp.pd, wqe->sge, wqe->sge_count, 0,
		sizeof(original), (const uint8_t *)&original);

	if (fault)
		rc_requester_fail(rc, message_local_fault(fault), now_ns);
	else
		response_placed(rc, wqe, now_ns);
}

/* The peer answers ATOMIC WRITE and FLUSH with a READ response without data (IBTA annex A19). */
static void empty_response(
	struct rc_qp *rc, const struct send_wqe *wqe, const struct packet *packet, uint64_t now_ns)
{
	if (packet->payload_bytes)
		rc_requester_fail(rc, FAULT_RESPONSE_LENGTH, now_ns);
	else
		response_placed(rc, wqe, now_ns);
}

static void response_take(
	struct rc_qp *rc, const struct send_wqe *wqe, const struct packet *packet, uint64_t now_ns)
{
	if (packet->info->operation == OPERATION_ATOMIC_ACK)
		atomic_response(rc, wqe, packet, now_ns);
	else if (wr_table[wqe->opcode].operation == OPERATION_READ)
		read_response(rc, wqe, packet, now_ns);
	else
		empty_response(rc, wqe, packet, now_ns);
}

static bool is_answered_by_atomic_ack(const struct send_wqe *wqe)
{
	enum opcode_operation operation = wr_table[wqe->opcode].operation;

	return operation == OPERATION_COMPARE_SWAP || operation == OPERATION_FETCH_ADD;
}

/*
 * An earlier response is missing, and `packet` is a later response. If it is a READ response, place
 * it now. Returns whether it is placed. A response that is not placed, because it is no READ
 * response or has a fault, is requested again.
 */
static bool response_place_early(struct rc_qp *rc, const struct packet *packet)
{
	struct rc_requester *requester = &rc->requester;
	uint32_t ahead = (uint32_t)psn_diff(packet->bth.psn, requester->una);
	const struct send_wqe *wqe;

	if (packet->info->operation != OPERATION_READ_RESPONSE || rc->qp.state == QP_ERR ||
		ahead >= SELECTIVE_PACKETS_MAX)
		return false;
	if (selective_map_has(&requester->placed, ahead))
		return true;
	wqe = rc_selective_find(rc, packet->bth.psn);
	if (!wqe || wr_table[wqe->opcode].operation != OPERATION_READ ||
		read_place(rc, wqe, packet))
		return false;
	selective_map_set(&requester->placed, ahead);
	return true;
}

/*
 * The missing response at una has arrived: advance una past the responses that were placed early.
 * These responses acknowledge the requests between them, too.
 */
static void placed_pass(struct rc_qp *rc, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	while (rc->qp.state != QP_ERR && !selective_map_is_empty(&requester->placed)) {
		if (!selective_map_has(&requester->placed, 0))
			requests_acknowledge(rc,
				psn_add(requester->una, selective_map_last(&requester->placed)),
				now_ns);
		if (rc->qp.state == QP_ERR || !selective_map_has(&requester->placed, 0))
			return;
		response_placed(rc, wqe_awaited(rc), now_ns);
	}
}

/*
 * Process a READ response or atomic acknowledgement. Such a packet also acknowledges all requests
 * before the one that it answers.
 */
static void response_receive(struct rc_qp *rc, const struct packet *packet, uint64_t now_ns)
{
	bool is_atomic_ack = packet->info->operation == OPERATION_ATOMIC_ACK;

	if (!requests_acknowledge(rc, packet->bth.psn, now_ns)) {
		bool is_placed = rc->is_selective && response_place_early(rc, packet);

		responses_missing(
			rc, packet, psn_add(packet->bth.psn, is_placed ? 0 : 1), true, now_ns);
		return;
	}
	const struct send_wqe *wqe = wqe_awaited(rc);
	if (!wqe || !psn_equal(packet->bth.psn, rc->requester.una) ||
		is_answered_by_atomic_ack(wqe) != is_atomic_ack) {
		qp_count(&rc->qp, COUNTER_invalid_responses, 1);
		return;
	}
	if (packet->info->headers & HEADER_AETH)
		credit_update(rc, &packet->aeth);
	response_take(rc, wqe, packet, now_ns);
	if (!selective_map_is_empty(&rc->requester.placed))
		placed_pass(rc, now_ns);
}

/* An unsolicited ACK repeats the newest PSN to report new receive requests (IBTA 9.7.7.2.3). */
static void stale_receive(struct rc_qp *rc, const struct packet *packet)
{
	bool is_newest = psn_equal(psn_add(packet->bth.psn, 1), rc->requester.una);

	if (is_newest && packet->info->operation == OPERATION_ACKNOWLEDGE &&
		packet->aeth.kind == AETH_ACK)
		credit_update(rc, &packet->aeth);
	else
		qp_count(&rc->qp, COUNTER_stale_responses, 1);
}

enum packet_verdict rc_completer_receive(
	struct rc_qp *rc, const struct packet *packet, bool is_guarded, uint64_t now_ns)
{
	struct psn psn = packet->bth.psn;

	if (rc->qp.state != QP_RTS && rc->qp.state != QP_SQD) {
		qp_count(&rc->qp, COUNTER_bad_state_drops, 1);
		return PACKET_DROPPED;
	}
	if (psn_before(psn, rc->requester.una)) {
		stale_receive(rc, packet);
		return psn_diff(rc->requester.una, psn) > GUARD_PSN_DISTANCE ? PACKET_GUESSED
									     : PACKET_DROPPED;
	}
	if (!psn_before(psn, rc->requester.next)) {
		qp_count(&rc->qp, COUNTER_invalid_responses, 1);
		return PACKET_GUESSED;
	}
	if (is_guarded && !is_msn_plausible(rc, packet)) {
		qp_count(&rc->qp, COUNTER_guarded_drops, 1);
		return PACKET_GUESSED;
	}
	if (packet->info->operation == OPERATION_ACKNOWLEDGE)
		acknowledge_receive(rc, packet, now_ns);
	else
		response_receive(rc, packet, now_ns);
	return PACKET_TAKEN;
}
