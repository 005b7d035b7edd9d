/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester: what to send next (IBTA 9.7.1 to 9.7.3, 9.7.7). */
#include <assert.h>
#include <string.h>

#include "base/arith.h"
#include "ib/memory_window.h"
#include "ib/rc/rc.h"

void rc_requester_start(struct rc_qp *rc)
{
	struct rc_requester *requester = &rc->requester;

	memset(requester, 0, sizeof(*requester));
	requester->una = psn_from(rc->qp.attr.sq_psn);
	requester->cursor = requester->una;
	requester->next = requester->una;
	requester->wqe_index = rc->qp.sq->completed;
	requester->next_ssn = 1;
	rc_recovery_begin(rc);
	rc_recovery_stop(rc);
}

/* Is a started request incomplete? */
static bool has_started(const struct rc_qp *rc)
{
	struct send_queue *sq = rc->qp.sq;

	return sq->completed != sq->posted && sq_at(sq, sq->completed)->is_started;
}

void rc_requester_drain(struct rc_qp *rc)
{
	if (!has_started(rc))
		qp_sq_drained(&rc->qp);
}

void rc_requester_resume(struct rc_qp *rc)
{
	rc_recovery_begin(rc);
	rc_requester_schedule(rc);
}

void rc_requester_schedule(struct rc_qp *rc)
{
	if (rc_requester_wait(rc) == RC_WAIT_NOTHING)
		qp_schedule(&rc->qp, LANE_TX_DATA);
}

void rc_requester_fail(struct rc_qp *rc, enum fault fault, uint64_t now_ns)
{
	assert(rc->qp.sq->completed != rc->qp.sq->posted);
	qp_complete_send(&rc->qp, fault, now_ns);
	if (rc->qp.state != QP_ERR)
		qp_set_state(&rc->qp, QP_ERR, now_ns);
}

/* --- what may be sent --- */

static bool is_at_start(const struct rc_requester *requester, const struct send_wqe *wqe)
{
	return !wqe->is_started || psn_equal(requester->cursor, wqe->first_psn);
}

/*
 * The number of PSNs that the packet at the cursor takes. A long READ is sent as several READ
 * requests, one for each chunk of RC_READ_CHUNK_PACKETS responses. Each takes the PSNs of its
 * responses.
 */
static uint32_t packets_at_cursor(const struct rc_qp *rc, const struct send_wqe *wqe)
{
	const struct rc_requester *requester = &rc->requester;

	if (wr_table[wqe->opcode].operation != OPERATION_READ)
		return 1;
	uint32_t sent = wqe->is_started ? (uint32_t)psn_diff(requester->cursor, wqe->first_psn) : 0;
	uint32_t total = wqe->is_started ? wqe->packet_count
					 : message_packet_count(&rc->qp, wqe->total_bytes);
	uint32_t to_chunk_end = RC_READ_CHUNK_PACKETS - sent % RC_READ_CHUNK_PACKETS;
	return min_u32(to_chunk_end, total - sent);
}

/* Does message `ssn` take a receive request that the peer is not known to have? */
static bool is_beyond_credit(
	const struct rc_requester *requester, const struct send_wqe *wqe, uint32_t ssn)
{
	return requester->is_credit_limited && wr_table[wqe->opcode].takes_receive &&
		msn_diff(msn_from(ssn), msn_from(requester->limit_ssn)) > 0;
}

/*
 * If the peer is not known to have a receive request for the message, send only the message's first
 * packet. Its acknowledgement says whether the peer has a new receive request (IBTA 9.7.7.2.5).
 */
static bool is_stalled_by_credit(const struct rc_qp *rc, const struct send_wqe *wqe)
{
	const struct rc_requester *requester = &rc->requester;
	uint32_t ssn = wqe->is_started ? wqe->ssn : requester->next_ssn;

	if (!is_beyond_credit(requester, wqe, ssn))
		return false;
	/*
	 * Stall only if the last packet has requested an acknowledgement, because that ends the
	 * wait.
	 */
	return rc_in_flight(requester) > 0 && requester->since_ack_request == 0 &&
		(is_at_start(requester, wqe) || !psn_before(wqe->first_psn, requester->una));
}

/*
 * A window counts as full when less than an eighth is free, and opens again when a quarter is free.
 * Without this hysteresis, each acknowledgement would release only as many packets as it
 * acknowledges. Then small bursts would stay small, although a packet costs least in a large burst.
 */
static bool has_window(const struct rc_requester *requester, uint32_t outstanding, uint32_t packets)
{
	uint32_t window = requester->window_packets;
	uint32_t free_packets = requester->is_window_closed ? window / 4 : window / 8;

	return outstanding + max_u32(packets, free_packets) <= window;
}

/* A local request waits only for its fence. An executed local request waits for nothing. */
static enum rc_wait local_wait(const struct rc_requester *requester, const struct send_wqe *wqe)
{
	bool is_fenced = !wqe->is_started && (wqe->flags & SEND_FENCE);

	return is_fenced && requester->reads_outstanding ? RC_WAIT_FENCE : RC_WAIT_NOTHING;
}

enum rc_wait rc_requester_wait(const struct rc_qp *rc)
{
	const struct rc_requester *requester = &rc->requester;
	struct send_queue *sq = rc->qp.sq;

	if (requester->wqe_index == sq->posted)
		return RC_WAIT_WORK;
	if (requester->rnr_until_ns != DEADLINE_NEVER)
		return RC_WAIT_RNR;
	if (requester->local_fault)
		return RC_WAIT_FAULT;

	const struct send_wqe *wqe = sq_at(sq, requester->wqe_index);
	if (requester->selective.is_active) /* every hole was sent before */
		return RC_WAIT_NOTHING;
	if (!wqe->is_started && rc->qp.state == QP_SQD)
		return RC_WAIT_RESUME;
	if (rc_wqe_is_local(wqe))
		return local_wait(requester, wqe);
	uint32_t outstanding = rc_in_flight(requester);
	if (outstanding && !has_window(requester, outstanding, packets_at_cursor(rc, wqe)))
		return RC_WAIT_WINDOW;
	if (is_at_start(requester, wqe) && (wqe->flags & SEND_FENCE) &&
		requester->reads_outstanding)
		return RC_WAIT_FENCE;
	if (rc_wqe_has_answer(wqe) && requester->reads_outstanding &&
		requester->reads_outstanding >= rc->qp.attr.max_rd_atomic)
		return RC_WAIT_READ;
	if (is_stalled_by_credit(rc, wqe))
		return RC_WAIT_CREDIT;
	return RC_WAIT_NOTHING;
}

/*
 * Can this work request be executed? The requester checks that before the first packet, so that an
 * invalid request sends nothing.
 */
static enum fault wqe_check(const struct rc_qp *rc, const struct send_wqe *wqe)
{
	const struct wr_info *info = &wr_table[wqe->opcode];
	bool is_word = info->has_answer && info->has_list && info->operation != OPERATION_READ;

	if (info->has_answer && !rc->qp.attr.max_rd_atomic)
		return FAULT_NO_RD_ATOMIC;
	if (is_word && wqe->total_bytes != sizeof(uint64_t))
		return FAULT_ATOMIC_LENGTH;
	if (!info->fills_list)
		return message_check(&rc->qp, wqe);
	return message_local_fault(
		sge_check(rc->qp.lane->mrs, rc->qp.pd, MR_LOCAL_WRITE, wqe->sge, wqe->sge_count));
}

static void wqe_start(struct rc_qp *rc, struct send_wqe *wqe)
{
	struct rc_requester *requester = &rc->requester;
	bool is_read = wr_table[wqe->opcode].operation == OPERATION_READ;
	bool is_single = rc_wqe_has_answer(wqe) && !is_read;

	wqe->first_psn = requester->next;
	wqe->packet_count = is_single ? 1 : message_packet_count(&rc->qp, wqe->total_bytes);
	requester->next_ssn +=
		is_read ? (uint32_t)div_ceil_u64(wqe->packet_count, RC_READ_CHUNK_PACKETS) : 1;
	wqe->ssn = requester->next_ssn - 1;
	wqe->is_started = true;
}

/*
 * A work request that cannot be executed completes with its fault, but only after the work requests
 * before it (IBTA 10.8.3). Until then the requester waits. A request that is partly sent fails in
 * the same way.
 */
static void wqe_fault(struct rc_qp *rc, enum fault fault, uint64_t now_ns)
{
	if (rc->requester.wqe_index == rc->qp.sq->completed)
		rc_requester_fail(rc, fault, now_ns);
	else
		rc->requester.local_fault = fault;
}

/* --- local requests --- */

void rc_requester_complete_local(struct rc_qp *rc, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;
	struct send_queue *sq = rc->qp.sq;

	while (rc->qp.state != QP_ERR && sq->completed != sq->posted) {
		const struct send_wqe *wqe = sq_at(sq, sq->completed);

		if (!rc_wqe_is_local(wqe) || !wqe->is_started)
			return;
		/*
		 * go_back() may have put the cursor at this request. It has no packet to send
		 * again, so move the cursor past it.
		 */
		if (requester->wqe_index == sq->completed)
			requester->wqe_index++;
		qp_complete_send(&rc->qp, FAULT_NONE, now_ns);
	}
}

/*
 * Move the cursor past the local request at the cursor. Executes the request, unless it was
 * executed before go_back() moved the cursor back. Returns false when the request fails, or the
 * queue pair is in the error state.
 */
static bool local_pass(struct rc_qp *rc, struct send_wqe *wqe, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	if (!wqe->is_started) {
		enum fault fault = window_execute(&rc->qp, wqe);

		if (fault) {
			wqe_fault(rc, fault, now_ns);
			return false;
		}
		wqe->first_psn = requester->next;
		wqe->packet_count = 0;
		wqe->ssn = requester->next_ssn - 1;
		wqe->is_started = true;
	}
	requester->wqe_index++;
	rc_requester_complete_local(rc, now_ns);
	return rc->qp.state != QP_ERR;
}

/* --- packets --- */

/* May this work request, or the next one, have to wait for an acknowledgement? */
static bool may_stall_next(const struct rc_qp *rc, const struct send_wqe *wqe)
{
	const struct rc_requester *requester = &rc->requester;
	uint32_t index = requester->wqe_index + 1;
	const struct send_wqe *next = sq_at(rc->qp.sq, index);

	if (index == rc->qp.sq->posted || rc->qp.state == QP_SQD || rc->qp.local)
		return true;
	/*
	 * A local request completes only after the requests before it, which may need an
	 * acknowledgement.
	 */
	if (rc_wqe_has_answer(next) || rc_wqe_is_local(next))
		return true;
	return is_beyond_credit(requester, next, wqe->ssn + 1);
}

/*
 * How many packets in a row may be sent without a request for an acknowledgement. An
 * acknowledgement costs as much as several packets. With an interval of half a window, two
 * requested acknowledgements are under way while the window is full, and the first one opens it
 * (has_window).
 */
static uint32_t ack_interval_packets(const struct rc_qp *rc)
{
	uint32_t packets = min_u32(rc->requester.window_packets / 2, RC_ACK_INTERVAL_PACKETS_MAX);

	/* At a low rate, more packets would take so long that they seem to be lost. */
	if (rc->qp.pace)
		packets = min_u32(packets, pace_packets_in(&rc->qp, RC_PROBE_NS_MIN / 4));
	return packets;
}

/*
 * Every acknowledgement costs a packet, so most packets request none. But before the requester can
 * wait for an acknowledgement, an earlier packet must have requested it.
 */
static bool needs_ack_request(
	const struct rc_qp *rc, const struct send_wqe *wqe, const struct opcode_info *info)
{
	const struct rc_requester *requester = &rc->requester;
	bool is_signaled = rc->qp.is_all_signaled || (wqe->flags & SEND_SIGNALED);
	uint32_t interval = ack_interval_packets(rc);
	/*
	 * A middle packet requests an acknowledgement early, because it may begin a run, in which
	 * only the first packet can request one.
	 */
	uint32_t row = info->position == POSITION_MIDDLE ? max_u32(interval / 4, 1) : 1;

	if (opcode_ends_message(info) && (is_signaled || may_stall_next(rc, wqe)))
		return true;
	if (requester->since_ack_request + row >= interval)
		return true;
	return is_beyond_credit(requester, wqe, wqe->ssn);
}

/*
 * The length of the run that begins with this packet. It has packets from the middle of a message,
 * which differ only in their PSNs. It ends at `run_bytes`, at the end of the window, or before the
 * next packet that has to request an acknowledgement.
 */
static uint32_t run_packets_max(const struct rc_qp *rc, const struct send_wqe *wqe,
	const struct packet *packet, uint32_t run_bytes)
{
	const struct rc_requester *requester = &rc->requester;
	uint32_t left = (uint32_t)psn_diff(
		psn_add(wqe->first_psn, wqe->packet_count - 1), requester->cursor);
	uint32_t interval = ack_interval_packets(rc);
	uint32_t outstanding = rc_in_flight(requester);

	if (packet->info->position != POSITION_MIDDLE || is_beyond_credit(requester, wqe, wqe->ssn))
		return 1;
	if (requester->since_ack_request >= interval || outstanding >= requester->window_packets)
		return 1;
	left = min_u32(left, interval - requester->since_ack_request);
	left = min_u32(left, requester->window_packets - outstanding);
	return min_u32(left, message_run_packets(packet, run_bytes));
}

/* Write a packet of a SEND or WRITE, or a run of packets. */
static size_t data_packet(
	struct rc_qp *rc, const struct send_wqe *wqe, struct packet_run *run, enum fault *ret_fault)
{
	struct rc_requester *requester = &rc->requester;
	uint32_t index = (uint32_t)psn_diff(requester->cursor, wqe->first_psn);
	struct packet packet;
	size_t bytes;

	message_packet_init(&packet, &rc->qp, rc_class(rc), wqe, index);
	packet.xrceth.srqn = wqe->srqn;
	packet.bth.psn = requester->cursor;
	packet.bth.is_selective = rc->is_selective;
	packet.bth.ack_requested =
		requester->selective.is_active || needs_ack_request(rc, wqe, packet.info);
	requester->since_ack_request =
		packet.bth.ack_requested ? 0 : requester->since_ack_request + 1;
	if (!psn_equal(requester->cursor, requester->next)) /* this packet was sent before */
		return message_packet_write(&rc->qp, &packet, wqe, index, run->buffer, ret_fault);
	bytes = message_run_write(&rc->qp, &packet, wqe,
		run_packets_max(rc, wqe, &packet, run->run_bytes), run, ret_fault);
	requester->since_ack_request += run->packets - 1;
	return bytes;
}

/* Write the request for a READ chunk, from the cursor to the chunk's end. */
static size_t read_packet(struct rc_qp *rc, const struct send_wqe *wqe, uint8_t *buffer)
{
	const struct rc_requester *requester = &rc->requester;
	uint64_t offset =
		(uint64_t)(uint32_t)psn_diff(requester->cursor, wqe->first_psn) * rc->qp.mtu_bytes;
	uint32_t packets = rc_selective_limit(requester, packets_at_cursor(rc, wqe));
	uint64_t chunk_bytes = (uint64_t)packets * rc->qp.mtu_bytes;
	struct packet packet;

	rc_packet_init(rc, &packet, OPCODE_RC_READ_REQUEST, requester->cursor);
	/*
	 * AckReq marks a READ request as a probe (selective_pass.h). The responder then repeats
	 * only the last response of the chunk. It also sends the responses that are not sent yet.
	 */
	packet.bth.ack_requested = selective_pass_is_probe(&requester->selective);
	packet.xrceth.srqn = wqe->srqn;
	packet.reth.va = wqe->remote_address + offset;
	packet.reth.rkey = wqe->rkey;
	packet.reth.dma_bytes = (uint32_t)min_u64(chunk_bytes, wqe->total_bytes - offset);
	return packet_encode_headers(&packet, buffer);
}

static size_t atomic_packet(const struct rc_qp *rc, const struct send_wqe *wqe, uint8_t *buffer)
{
	bool is_swap = wr_table[wqe->opcode].operation == OPERATION_COMPARE_SWAP;
	struct packet packet;

	rc_packet_init(rc, &packet, is_swap ? OPCODE_RC_COMPARE_SWAP : OPCODE_RC_FETCH_ADD,
		rc->requester.cursor);
	packet.xrceth.srqn = wqe->srqn;
	packet.atomiceth.va = wqe->remote_address;
	packet.atomiceth.rkey = wqe->rkey;
	packet.atomiceth.swap_add = is_swap ? wqe->swap : wqe->compare_add;
	packet.atomiceth.compare = is_swap ? wqe->compare_add : 0;
	return packet_encode_headers(&packet, buffer);
}

static size_t atomic_write_packet(
	struct rc_qp *rc, const struct send_wqe *wqe, uint8_t *buffer, enum fault *ret_fault)
{
	struct packet packet;

	rc_packet_init(rc, &packet, OPCODE_RC_ATOMIC_WRITE, rc->requester.cursor);
	packet.bth.ack_requested = true; /* rxe sets it, too, although the peer answers anyway */
	packet_set_payload(&packet, NULL, wqe->total_bytes);
	packet.xrceth.srqn = wqe->srqn;
	packet.reth = (struct reth){wqe->remote_address, wqe->rkey, wqe->total_bytes};
	return message_packet_write(&rc->qp, &packet, wqe, 0, buffer, ret_fault);
}

static size_t flush_packet(const struct rc_qp *rc, const struct send_wqe *wqe, uint8_t *buffer)
{
	struct packet packet;

	rc_packet_init(rc, &packet, OPCODE_RC_FLUSH, rc->requester.cursor);
	packet.bth.ack_requested = true;
	packet.xrceth.srqn = wqe->srqn;
	packet.feth = (struct feth){wqe->flush.placement, wqe->flush.selectivity};
	packet.reth = (struct reth){wqe->remote_address, wqe->rkey, wqe->flush.bytes};
	return packet_encode_headers(&packet, buffer);
}

/*
 * `packets` packets were written: move the cursor past them, or past the responses that a READ
 * requests.
 */
static void packets_sent(
	struct rc_qp *rc, const struct send_wqe *wqe, uint32_t packets, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;
	bool has_answer = rc_wqe_has_answer(wqe);
	struct psn end = psn_add(wqe->first_psn, wqe->packet_count);
	struct psn psn = requester->cursor;

	if (has_answer)
		packets = rc_selective_limit(requester, packets_at_cursor(rc, wqe));
	requester->cursor = psn_add(requester->cursor, packets);
	if (has_answer && !requester->selective.is_active) {
		uint32_t slot = (requester->read_head + requester->reads_outstanding) %
			QP_INIT_RD_ATOMIC_MAX;

		rc_cold(rc)->read_end[slot] = requester->cursor;
		requester->reads_outstanding++;
	}
	if (has_answer) /* The response acknowledges everything before it. */
		requester->since_ack_request = 0;
	bool is_new = psn_before(requester->next, requester->cursor);
	if (is_new)
		requester->next = requester->cursor;
	else
		qp_count(&rc->qp, COUNTER_retransmitted_pkts, 1);
	if (psn_equal(requester->cursor, end))
		requester->wqe_index++;
	/* since_ack_request is below `packets` if the first packet requests an acknowledgement. */
	rc_recovery_sent(rc, psn, is_new, requester->since_ack_request < packets, now_ns);
	if (requester->selective.is_active) {
		lane_count_selective(rc->qp.lane, LANE_SELECTIVE_RESENT);
		rc_selective_step(rc);
	}
}

/* Write the packet at the cursor, or a run from there on. */
static size_t packet_next(
	struct rc_qp *rc, const struct send_wqe *wqe, struct packet_run *run, enum fault *ret_fault)
{
	switch ((int)wr_table[wqe->opcode].operation) {
	case OPERATION_READ:
		return read_packet(rc, wqe, run->buffer);
	case OPERATION_COMPARE_SWAP:
	case OPERATION_FETCH_ADD:
		return atomic_packet(rc, wqe, run->buffer);
	case OPERATION_ATOMIC_WRITE:
		return atomic_write_packet(rc, wqe, run->buffer, ret_fault);
	case OPERATION_FLUSH:
		return flush_packet(rc, wqe, run->buffer);
	default:
		return data_packet(rc, wqe, run, ret_fault);
	}
}

/* --- the same host --- */

static enum qp_local_result request_execute_local(
	struct rc_qp *rc, struct send_wqe *wqe, uint64_t now_ns)
{
	enum fault fault = FAULT_NONE;
	uint64_t at_ns = DEADLINE_NEVER;
	enum qp_local_result result;

	result = rc->qp.local->ops->execute(&rc->qp, wqe, now_ns, &at_ns, &fault);
	switch (result) {
	case QP_LOCAL_DONE:
		rc->requester.wqe_index++;
		qp_complete_send(&rc->qp, FAULT_NONE, now_ns);
		rc_requester_complete_local(rc, now_ns);
		break;
	case QP_LOCAL_FAILED:
		rc_requester_fail(rc, fault, now_ns);
		break;
	case QP_LOCAL_LATER:
		rc_recovery_pause(rc, at_ns, now_ns);
		break;
	case QP_LOCAL_PACKETS:
		wqe->goes_by_packets = true;
		break;
	}
	return result;
}

/*
 * Execute the request at the cursor without packets, if the peer is on this host. Earlier packets
 * must be acknowledged first. An acknowledgement may take long, so a request that follows packets
 * uses packets, too. After RC_FALLBACKS_MAX such requests the requester waits until no packet is
 * under way.
 */
static enum qp_local_result wqe_execute_local(
	struct rc_qp *rc, struct send_wqe *wqe, uint64_t now_ns)
{
	struct rc_requester *requester = &rc->requester;

	if (!rc->qp.local || wqe->is_started || wqe->goes_by_packets)
		return QP_LOCAL_PACKETS;
	if (!rc->qp.local->ops->can_execute(&rc->qp, wqe)) {
		requester->fallbacks = 0;
		return QP_LOCAL_PACKETS;
	}
	if (psn_equal(requester->una, requester->next)) {
		requester->fallbacks = 0;
		return request_execute_local(rc, wqe, now_ns);
	}
	if (requester->fallbacks == RC_FALLBACKS_MAX)
		return QP_LOCAL_LATER;
	requester->fallbacks++;
	wqe->goes_by_packets = true;
	return QP_LOCAL_PACKETS;
}

/*
 * Returns the work request whose packet is to be sent now, or NULL. First executes the requests
 * before it that need no packets.
 */
static struct send_wqe *wqe_next(struct rc_qp *rc, uint64_t now_ns)
{
	struct send_queue *sq = rc->qp.sq;
	enum rc_wait wait;

	while ((wait = rc_requester_wait(rc)) == RC_WAIT_NOTHING) {
		struct send_wqe *wqe = sq_at(sq, rc->requester.wqe_index);
		enum qp_local_result result;

		if (rc_wqe_is_local(wqe)) {
			if (!local_pass(rc, wqe, now_ns))
				return NULL;
			continue;
		}
		result = wqe_execute_local(rc, wqe, now_ns);
		if (result == QP_LOCAL_PACKETS)
			return wqe;
		if (result != QP_LOCAL_DONE || rc->qp.state == QP_ERR)
			return NULL;
	}
	if (wait == RC_WAIT_CREDIT)
		qp_count(&rc->qp, COUNTER_credit_stalls, 1);
	rc->requester.is_window_closed = wait == RC_WAIT_WINDOW;
	return NULL;
}

bool rc_requester_execute_local(struct rc_qp *rc, uint64_t now_ns)
{
	return wqe_next(rc, now_ns) == NULL;
}

size_t rc_requester_next(struct rc_qp *rc, struct packet_run *run, uint64_t now_ns)
{
	struct send_wqe *wqe = wqe_next(rc, now_ns);
	enum fault fault = FAULT_NONE;
	size_t bytes = 0;

	if (!wqe)
		return 0;
	if (is_at_start(&rc->requester, wqe))
		fault = wqe_check(rc, wqe);
	if (!fault) {
		if (!wqe->is_started)
			wqe_start(rc, wqe);
		bytes = packet_next(rc, wqe, run, &fault);
	}
	if (fault) {
		wqe_fault(rc, fault, now_ns);
		return 0;
	}
	rc->requester.is_window_closed = false;
	packets_sent(rc, wqe, run->packets, now_ns);
	return bytes;
}
