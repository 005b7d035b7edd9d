/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports why a request failed: which check refused it, or what was received from a silent peer.
 * These functions run after the failure and repeat the checks, so that the checks themselves record
 * no facts.
 */
#include "ib/message_report.h"
#include "ib/rc/rc.h"
#include "qp/qp_report.h"
#include "wire/timer.h"

static void no_receive_report(struct rc_qp *rc, uint64_t now_ns)
{
	const struct recv_queue *rq = rc->qp.rq;

	if (!rq || rq_count(rq))
		/* The peer has to wait for another reason, which the program has not caused */
		return;
	qp_fact_receives(&rc->qp);
	qp_report(&rc->qp, REASON_NO_RECEIVE, true, now_ns);
}

void rc_report_refusal(
	struct rc_qp *rc, const struct packet *packet, enum refusal refusal, uint64_t now_ns)
{
	struct qp *qp = &rc->qp;

	if (!qp_has_reports(qp))
		return;
	if (refusal == REFUSED_NOT_READY) {
		no_receive_report(rc, now_ns);
		return;
	}
	if (refusal == REFUSED_TOO_LONG) {
		lane_fact(qp->lane, FACT_bytes,
			rc->responder.message.placed_bytes + packet->payload_bytes);
		lane_fact(qp->lane, FACT_room, rc_cold(rc)->receive.total_bytes);
	}
	if (refusal == REFUSED_OPERATIONAL)
		qp_fact_list(qp, qp->recv_pd, MR_LOCAL_WRITE, rc_cold(rc)->receive.sge,
			rc_cold(rc)->receive.sge_count, now_ns);
	if (refusal != REFUSED_INVALID && refusal != REFUSED_ACCESS)
		return; /* the receive request's completion is reported with these facts */
	message_report_refusal(qp, &rc->responder.message, packet, refusal, false, now_ns);
}

void rc_report_far_psn(struct rc_qp *rc, const struct packet *packet, uint64_t now_ns)
{
	if (!qp_has_reports(&rc->qp))
		return;
	lane_fact(rc->qp.lane, FACT_psn, packet->bth.psn.value);
	lane_fact(rc->qp.lane, FACT_expected_psn, rc->responder.expected.value);
	qp_report(&rc->qp, REASON_PSN, true, now_ns);
}

/* --- a silent peer --- */

static uint64_t count_of(const struct rc_qp *rc, enum counter counter)
{
	return counter_read(rc->qp.counters, counter);
}

void rc_report_silence(struct rc_qp *rc, uint64_t now_ns)
{
	rc->requester.silent_since_ns = now_ns - rc_retry_ns((uint8_t)rc->qp.attr.timeout);
	rc->requester.silent_heard = count_of(rc, COUNTER_rcvd_pkts);
}

static void fact_drops(struct rc_qp *rc, enum fact fact, enum counter counter)
{
	uint64_t count = count_of(rc, counter);

	if (count)
		lane_fact(rc->qp.lane, fact, count);
}

void rc_fact_silence(struct rc_qp *rc, uint64_t now_ns)
{
	const struct rc_requester *requester = &rc->requester;
	struct lane *lane = rc->qp.lane;
	uint64_t heard = count_of(rc, COUNTER_rcvd_pkts);
	uint64_t longer_ns = 8 * rc_retry_ns(19);

	lane_fact(lane, FACT_waited, now_ns - requester->silent_since_ns);
	lane_fact(lane, FACT_timeout, rc->qp.attr.timeout);
	lane_fact(lane, FACT_retry_cnt, rc->qp.attr.retry_cnt);
	if (heard)
		lane_fact(lane, FACT_heard, heard - requester->silent_heard);
	else
		lane_fact(lane, FACT_heard_never, 0);
	fact_drops(rc, FACT_drops_address, COUNTER_bad_address_drops);
	fact_drops(rc, FACT_drops_state, COUNTER_bad_state_drops);
	fact_drops(rc, FACT_drops_response, COUNTER_invalid_responses);
	if (longer_ns > now_ns - requester->silent_since_ns)
		lane_fact(lane, FACT_longer, longer_ns);
}

void rc_fact_not_ready(struct rc_qp *rc, uint8_t code)
{
	lane_fact(rc->qp.lane, FACT_naks, rc->qp.attr.rnr_retry + 1);
	lane_fact(rc->qp.lane, FACT_rnr_retry, rc->qp.attr.rnr_retry);
	lane_fact(rc->qp.lane, FACT_rnr_timer, rnr_timer_ns(code));
}
