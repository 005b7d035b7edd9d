/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recovery: the window of unacknowledged packets, timeouts, and going back (IBTA 9.7.5.2.8,
 * 9.7.6.1.3).
 *
 * The queue pair's single deadline serves three timers: retry (the local ACK timeout), probe (early
 * retransmission) and RNR.
 */
#include "base/arith.h"
#include "ib/rc/rc.h"
#include "wire/timer.h"

/* --- deadlines --- */

static uint64_t deadline_earliest(const struct rc_requester *requester)
{
	return min_u64(
		min_u64(requester->retry_at_ns, requester->probe_at_ns), requester->rnr_until_ns);
}

/*
 * An acknowledgement usually moves the deadline to a later time. Then the heap keeps the earlier
 * time. When that time comes, rc_recovery_expire() finds that nothing is due, and sets the later
 * deadline.
 */
static void deadline_refresh(struct rc_qp *rc)
{
	uint64_t at_ns = deadline_earliest(&rc->requester);

	if (at_ns == DEADLINE_NEVER || rc->qp.deadline.position == 0 ||
		at_ns < rc->qp.deadline.at_ns)
		qp_set_deadline(&rc->qp, at_ns);
}

uint64_t rc_retry_ns(uint8_t timeout)
{
	uint64_t timeout_ns = ack_timeout_ns(timeout);

	if (timeout_ns == TIMER_INFINITE_NS)
		return TIMER_INFINITE_NS;
	return max_u64(timeout_ns, min_u64(RC_TIMEOUT_FACTOR_MAX * timeout_ns, RC_RETRY_NS_MIN));
}

/*
 * The margin is at least RC_PROBE_NS_MIN, because the peer's thread may run that late even if all
 * measured times were equal.
 */
static uint64_t probe_interval_ns(const struct rc_requester *requester)
{
	uint64_t interval_ns =
		requester->rtt_smooth_ns + max_u64(4 * requester->rtt_variance_ns, RC_PROBE_NS_MIN);

	return min_u64(interval_ns << requester->probe_backoff, RC_PROBE_NS_MAX);
}

static void retry_arm(struct rc_qp *rc, uint64_t now_ns)
{
	uint64_t wait_ns = rc->qp.is_peer_missing ? 0 : rc_retry_ns((uint8_t)rc->qp.attr.timeout);

	rc->requester.retry_at_ns =
		wait_ns == TIMER_INFINITE_NS ? DEADLINE_NEVER : now_ns + wait_ns;
}

/* Set or clear the timers that wait for a response. */
static void answer_timers_set(struct rc_qp *rc, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	if (psn_equal(requester->una, requester->next) ||
		requester->rnr_until_ns != DEADLINE_NEVER) {
		requester->retry_at_ns = DEADLINE_NEVER;
		requester->probe_at_ns = DEADLINE_NEVER;
	} else {
		retry_arm(rc, now_ns);
		requester->probe_at_ns = now_ns + probe_interval_ns(requester);
	}
	deadline_refresh(rc);
}

void rc_recovery_stop(struct rc_qp *rc)
{
	rc->requester.retry_at_ns = DEADLINE_NEVER;
	rc->requester.probe_at_ns = DEADLINE_NEVER;
	rc->requester.rnr_until_ns = DEADLINE_NEVER;
	qp_set_deadline(&rc->qp, DEADLINE_NEVER);
}

/* --- the window --- */

static void window_grow(struct rc_requester *requester, uint32_t packets)
{
	if (requester->window_packets >= RC_WINDOW_PACKETS_MAX)
		return;
	if (requester->window_packets < requester->slow_start_packets) {
		requester->window_packets =
			min_u32(requester->window_packets + packets, RC_WINDOW_PACKETS_MAX);
		return;
	}
	requester->window_credit += packets;
	if (requester->window_credit >= requester->window_packets) {
		requester->window_credit = 0;
		requester->window_packets++;
	}
}

void rc_recovery_begin(struct rc_qp *rc)
{
	struct rc_requester *requester = &rc->requester;

	requester->window_packets = RC_WINDOW_PACKETS_START;
	requester->slow_start_packets = RC_WINDOW_PACKETS_MAX;
	requester->window_credit = 0;
	requester->probe_backoff = 0;
	requester->is_timing_rtt = false;
	requester->rtt_last = requester->una;
	requester->rtt_smooth_ns = 0;
	requester->rtt_variance_ns = 0;
	requester->retries_left = rc->qp.attr.retry_cnt;
	requester->rnr_retries_left = rc->qp.attr.rnr_retry;
}

static void window_shrink(struct rc_requester *requester, bool to_one)
{
	requester->slow_start_packets = max_u32(requester->window_packets / 2, 2);
	requester->window_packets = to_one ? 1 : requester->slow_start_packets;
	requester->window_credit = 0;
}

/* --- measuring the round trip --- */

/*
 * Begin to time a packet. A retransmission can be timed if the peer has reported the packet
 * missing, because the first copy then hardly gets a response. A retransmission that a timer caused
 * cannot be timed. If the rate follows the measured delay, only a packet that requests an
 * acknowledgement is timed. The time of any other packet includes the wait for a later packet that
 * requests one.
 */
static void rtt_sent(struct rc_qp *rc, struct psn psn, bool is_new, bool is_asking, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;
	bool was_missing = (requester->has_gone_back || requester->selective.is_active) &&
		!requester->was_probed;

	if (requester->is_timing_rtt || !(is_new || was_missing))
		return;
	if (!is_asking && congestion_follows_delay(&rc->qp))
		return;
	requester->is_timing_rtt = true;
	requester->rtt_psn = psn;
	requester->rtt_start_ns = now_ns;
}

/*
 * Only a measurement ends the back-off of the probes (Karn's rule). A response alone does not: it
 * may answer the packet that the probe repeats. Then no packet was lost, and the path is slower
 * than the probe interval.
 */
static void rtt_answered(struct rc_qp *rc, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	if (!requester->is_timing_rtt || !psn_before(requester->rtt_psn, requester->una))
		return;
	uint64_t sample_ns = now_ns - requester->rtt_start_ns;
	requester->is_timing_rtt = false;
	requester->probe_backoff = 0;
	if (congestion_follows_delay(&rc->qp)) {
		congestion_on_ack(&rc->qp, sample_ns,
			(uint32_t)psn_diff(requester->una, requester->rtt_last), now_ns);
		requester->rtt_last = requester->una;
	}
	if (!requester->rtt_smooth_ns) {
		requester->rtt_smooth_ns = sample_ns;
		requester->rtt_variance_ns = sample_ns / 2;
		return;
	}
	uint64_t deviation_ns = sample_ns > requester->rtt_smooth_ns
		? sample_ns - requester->rtt_smooth_ns
		: requester->rtt_smooth_ns - sample_ns;
	requester->rtt_variance_ns += deviation_ns / 4 - requester->rtt_variance_ns / 4;
	requester->rtt_smooth_ns += sample_ns / 8 - requester->rtt_smooth_ns / 8;
}

void rc_recovery_sent(
	struct rc_qp *rc, struct psn psn, bool is_new, bool is_asking, uint64_t now_ns)
{
	rtt_sent(rc, psn, is_new, is_asking, now_ns);
	if (is_new && psn_equal(psn, rc->requester.una))
		answer_timers_set(rc, now_ns);
}

/* --- going back --- */

/* Send again from the oldest unacknowledged packet on. `why` is for tracers. */
static void go_back(struct rc_qp *rc, const char *why)
{
	struct rc_requester *requester = &rc->requester;

	trace_retransmit(rc->qp.qpn, requester->una.value, why, requester->retries_left);
	requester->cursor = requester->una;
	requester->wqe_index = rc->qp.sq->completed;
	requester->reads_outstanding = 0;
	requester->since_ack_request = 0;
	requester->is_window_closed = false;
	requester->is_timing_rtt = false; /* a response may answer either copy */
	requester->selective = (struct selective_pass){0};
	if (!psn_equal(requester->cursor, requester->next))
		/* The requester finds the fault again when the cursor reaches that work request. */
		requester->local_fault = FAULT_NONE;
	qp_schedule(&rc->qp, LANE_TX_DATA);
}

void rc_recovery_lost(struct rc_qp *rc, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	if (requester->has_gone_back)
		return;
	requester->has_gone_back = true;
	window_shrink(requester, false);
	go_back(rc, "nak");
	requester->probe_at_ns = now_ns + probe_interval_ns(requester);
	deadline_refresh(rc);
}

void rc_recovery_holes(struct rc_qp *rc, uint32_t holes, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	if (holes > requester->window_packets / 8)
		window_shrink(requester, false);
	requester->is_window_closed = false;
	requester->is_timing_rtt = false; /* a response may answer either copy */
	requester->probe_at_ns = now_ns + probe_interval_ns(requester);
	deadline_refresh(rc);
}

void rc_recovery_rnr(struct rc_qp *rc, uint8_t code, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	qp_count(&rc->qp, COUNTER_rnr_nak_rcvd, 1);
	if (requester->rnr_until_ns != DEADLINE_NEVER)
		return; /* a second RNR NAK, for the same transmission of the request */
	if (rc->qp.attr.rnr_retry != 7) {
		if (!requester->rnr_retries_left) {
			qp_count(&rc->qp, COUNTER_rnr_retry_exceeded_err, 1);
			rc_fact_not_ready(rc, code);
			rc_requester_fail(rc, FAULT_RNR_RETRY_EXCEEDED, now_ns);
			return;
		}
		requester->rnr_retries_left--;
	}
	go_back(rc, "rnr");
	requester->rnr_until_ns = now_ns + rnr_timer_ns(code);
	answer_timers_set(rc, now_ns);
}

void rc_recovery_pause(struct rc_qp *rc, uint64_t until_ns, uint64_t now_ns)
{
	rc->requester.rnr_until_ns = until_ns;
	answer_timers_set(rc, now_ns);
}

void rc_recovery_advanced(struct rc_qp *rc, uint32_t packets, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	while (requester->reads_outstanding &&
		!psn_before(requester->una, rc_cold(rc)->read_end[requester->read_head])) {
		requester->read_head = (requester->read_head + 1) % QP_INIT_RD_ATOMIC_MAX;
		requester->reads_outstanding--;
	}
	/*
	 * A response may answer a packet that is about to be retransmitted; then the cursor moves,
	 * too.
	 */
	if (psn_before(requester->cursor, requester->una)) {
		requester->cursor = requester->una;
		requester->wqe_index = rc->qp.sq->completed;
	}
	if (requester->selective.is_active)
		rc_selective_step(rc);
	selective_pass_advance(&requester->selective, requester->una);
	rtt_answered(rc, now_ns);
	window_grow(requester, packets);
	requester->has_gone_back = false;
	requester->was_probed = false;
	requester->retries_left = rc->qp.attr.retry_cnt;
	requester->retries_late = 0;
	requester->rnr_retries_left = rc->qp.attr.rnr_retry;
	requester->rnr_until_ns = DEADLINE_NEVER;
	answer_timers_set(rc, now_ns);
	if (rc->qp.state == QP_SQD)
		rc_requester_drain(rc);
	rc_requester_schedule(rc);
}

/*
 * Repeat one packet, or go back if that is not possible. The answer to a repeated packet says what
 * the peer has. So the window keeps its size, because the peer may have all packets, and answer
 * late. A requester that goes back shrinks its window.
 */
static void request_probe(struct rc_qp *rc, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	qp_count(&rc->qp, COUNTER_early_probes, 1);
	if (requester->probe_backoff < RC_PROBE_BACKOFF_MAX)
		requester->probe_backoff++;
	if (rc_selective_can_probe(rc)) {
		rc_selective_probe(rc);
		requester->is_timing_rtt = false; /* a response may answer either copy */
	} else {
		window_shrink(requester, true);
		go_back(rc, "probe");
	}
	requester->was_probed = true;
	requester->probe_at_ns = now_ns + probe_interval_ns(requester);
}

/*
 * Has the lane noticed the timeout LANE_LATE_NS late, or more? If so, the machine is overloaded,
 * and has sent its requests late, too. The lane has just processed the responses that arrived
 * meanwhile, but more may be under way. So this retry does not count. After RC_RETRIES_LATE_MAX
 * uncounted retries in a row the next one counts, so that a machine that is always late still
 * notices a dead peer.
 */
static bool is_excused(struct rc_qp *rc, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	if (now_ns - requester->retry_at_ns < LANE_LATE_NS ||
		requester->retries_late == RC_RETRIES_LATE_MAX)
		return false;
	requester->retries_late++;
	qp_count(&rc->qp, COUNTER_late_timeouts, 1);
	return true;
}

static void timeout_retry(struct rc_qp *rc, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	if (rc->qp.is_peer_missing) {
		rc_requester_fail(rc, FAULT_PEER_MISSING, now_ns);
		return;
	}
	qp_count(&rc->qp, COUNTER_local_ack_timeout_err, 1);
	if (requester->retries_left == rc->qp.attr.retry_cnt && !requester->retries_late)
		rc_report_silence(rc, now_ns);
	if (is_excused(rc, now_ns)) {
		; /* retransmit without counting a retry */
	} else if (requester->retries_left) {
		requester->retries_left--;
	} else if (rc->qp.attr.migration == QP_ARMED) {
		qp_migrate(&rc->qp); /* the other path gets all retries (IBTA 17.2.8.1.2) */
	} else {
		qp_count(&rc->qp, COUNTER_retry_exceeded_err, 1);
		rc_fact_silence(rc, now_ns);
		rc_requester_fail(rc, FAULT_RETRY_EXCEEDED, now_ns);
		return;
	}
	requester->was_probed = true;
	window_shrink(requester, true);
	go_back(rc, "timeout");
	retry_arm(rc, now_ns);
	requester->probe_at_ns = now_ns + probe_interval_ns(requester);
}

void rc_recovery_expire(struct rc_qp *rc, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	if (requester->rnr_until_ns <= now_ns) {
		requester->rnr_until_ns = DEADLINE_NEVER;
		qp_schedule(&rc->qp, LANE_TX_DATA);
		answer_timers_set(rc, now_ns);
	} else if (requester->retry_at_ns <= now_ns) {
		timeout_retry(rc, now_ns);
		if (rc->qp.state == QP_ERR)
			return;
	} else if (requester->probe_at_ns <= now_ns) {
		request_probe(rc, now_ns);
	}
	qp_set_deadline(&rc->qp, deadline_earliest(requester));
}
