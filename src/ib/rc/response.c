/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pending responses: READ responses, atomic acknowledgements, ACKs, NAKs, in the order of the
 * requests (IBTA 9.7.5.1).
 *
 * READ responses and atomic acknowledgements wait in their resources, and leave oldest first. An
 * ACK or NAK is for the newest request and waits behind them. Several pending ACKs become one
 * packet.
 *
 * A NAK acknowledges the requests before it, too, so it replaces a pending ACK. A sequence NAK does
 * not replace the ACK, because the packet that caused the NAK may be a late one of the queue pair's
 * previous connection. Then the NAK names a PSN that the peer has not sent, and the peer ignores
 * it.
 */
#include <assert.h>
#include <string.h>

#include "base/arith.h"
#include "ib/rc/rc.h"
#include "memory/mr_borrowed.h"
#include "wire/credit.h"
#include "wire/roce.h"

enum { PARTS_PACKETS = 32 };

static_assert((int)PARTS_PACKETS >= (int)RC_READ_CHUNK_PACKETS, "rc_resource.left_out");

/*
 * The number of packets from `first` up to `stop`. A READ of 2^31 bytes takes 2^23 packets at the
 * smallest MTU, which is too many for psn_diff().
 */
static uint32_t packets_between(struct psn first, struct psn stop)
{
	return psn_from(stop.value - first.value).value;
}

/*
 * The AETH of an ACK. Its credits are the posted receive requests that are not yet taken (IBTA
 * 9.7.7.2.2). With a shared receive queue the ACK has no such number, because another queue pair
 * may take the requests first.
 */
static struct aeth ack_aeth(const struct rc_qp *rc, struct msn msn)
{
	struct aeth aeth = {.kind = AETH_ACK, .value = CREDIT_CODE_UNLIMITED, .msn = msn};

	if (rc->qp.rq_offset)
		aeth.value = credit_code(rq_count(rc->qp.rq));
	return aeth;
}

void rc_response_queue_ack(struct rc_qp *rc)
{
	rc->responder.is_ack_pending = true;
	qp_schedule(&rc->qp, LANE_TX_ACK);
}

void rc_response_queue_nak(struct rc_qp *rc, enum aeth_kind kind, uint8_t value)
{
	struct rc_responder *responder = &rc->responder;

	responder->nak = (struct aeth){.kind = kind, .value = value, .msn = responder->msn};
	responder->nak_psn = responder->expected;
	responder->nak_cause = responder->expected;
	responder->is_nak_pending = true;
	responder->is_waiting = true;
	qp_schedule(&rc->qp, LANE_TX_DATA);
}

void rc_response_queue_selective(struct rc_qp *rc, struct psn cause)
{
	rc_response_queue_nak(rc, AETH_NAK, AETH_NAK_PSN_SEQUENCE);
	rc->responder.nak_cause = cause;
}

void rc_response_revise_nak(struct rc_qp *rc)
{
	struct rc_responder *responder = &rc->responder;

	responder->is_nak_pending = !psn_before(responder->nak_cause, responder->expected);
	responder->is_waiting = responder->is_nak_pending;
	responder->nak_psn = responder->expected;
	responder->nak.msn = responder->msn;
}

void rc_response_queue(
	struct rc_qp *rc, struct rc_resource *resource, struct psn start, struct psn stop)
{
	if (!resource->is_pending)
		rc->responder.pending_count++;
	resource->is_pending = true;
	resource->start = start;
	resource->next = start;
	resource->stop = stop;
	qp_schedule(&rc->qp, LANE_TX_DATA);
}

/*
 * A bit for each response from `start` up to `stop`. Only the first PARTS_PACKETS responses of a
 * READ have bits, because an urnic peer requests no more than that at once.
 */
static uint32_t bits_between(const struct rc_resource *resource, struct psn start, struct psn stop)
{
	uint32_t from = packets_between(resource->first, start);
	uint32_t to = min_u32(packets_between(resource->first, stop), PARTS_PACKETS);

	return from < to ? (uint32_t)((UINT64_C(1) << to) - (UINT64_C(1) << from)) : 0;
}

void rc_response_queue_part(
	struct rc_qp *rc, struct rc_resource *resource, struct psn start, struct psn stop)
{
	uint32_t wanted = bits_between(resource, start, stop);

	if (resource->is_pending) {
		wanted |= bits_between(resource, resource->next, resource->stop) &
			~resource->left_out;
		if (psn_before(resource->next, start))
			start = resource->next;
		if (psn_before(stop, resource->stop))
			stop = resource->stop;
	}
	rc_response_queue(rc, resource, start, stop);
	resource->left_out = bits_between(resource, start, stop) & ~wanted;
}

void rc_response_done(struct rc_qp *rc, struct rc_resource *resource)
{
	if (resource->is_pending)
		rc->responder.pending_count--;
	resource->is_pending = false;
}

void rc_response_stop(struct rc_qp *rc)
{
	struct rc_responder *responder = &rc->responder;

	if (responder->is_failed)
		return;
	if (responder->pending_count)
		/*
		 * The ACK follows READ responses that the loop below gives up, so give the ACK up,
		 * too.
		 */
		responder->is_ack_pending = false;
	for (uint32_t i = 0; responder->pending_count && i < QP_RD_ATOMIC_MAX; i++)
		rc_response_done(rc, &rc_cold(rc)->resource[i]);
	responder->is_nak_pending = false;
}

/* The oldest resource with a pending answer. */
static struct rc_resource *oldest_pending(const struct rc_qp *rc)
{
	struct rc_resource *oldest = NULL;

	for (uint32_t i = 0; rc->responder.pending_count && i < QP_RD_ATOMIC_MAX; i++) {
		struct rc_resource *resource = &rc_cold(rc)->resource[i];

		if (resource->is_pending && (!oldest || psn_before(resource->first, oldest->first)))
			oldest = resource;
	}
	return oldest;
}

static enum opcode read_opcode(const struct rc_resource *resource)
{
	return message_response_opcode(packets_between(resource->start, resource->next),
		packets_between(resource->start, resource->stop));
}

/*
 * The rest of a READ cannot be sent, because the region was deregistered, or has lost the right to
 * read. If the READ was answered completely before, the connection goes on. Then the request may be
 * a late copy, which the peer sent before it had the memory window invalidated.
 */
static void read_abort(struct rc_qp *rc, struct rc_resource *resource, uint64_t now_ns)
{
	rc_response_done(rc, resource);
	if (resource->was_answered)
		return;
	qp_count(&rc->qp, COUNTER_resp_remote_access_errors, 1);
	rc_response_queue_nak(rc, AETH_NAK, AETH_NAK_REMOTE_ACCESS);
	rc->responder.nak_psn = resource->next;
	rc->responder.is_failed = true;
	signal_raise(&rc->qp.lane->signals, &rc->qp.signal, SIGNAL_QP_ACCESS);
	if (rc->qp.state != QP_ERR)
		qp_set_state(&rc->qp, QP_ERR, now_ns);
}

/*
 * The length of the run that begins with this response. It has responses from the middle of a READ,
 * which differ only in their PSNs and can all be sent now.
 */
static uint32_t run_packets_max(const struct rc_qp *rc, const struct rc_resource *resource,
	const struct packet *packet, uint32_t run_bytes)
{
	uint32_t left = (uint32_t)psn_diff(resource->stop, resource->next) - 1;

	if (resource->left_out)
		return 1;
	if (packet->info->position != POSITION_MIDDLE || !message_packet_is_long(&rc->qp, packet))
		return 1;
	return min_u32(left, message_run_packets(packet, run_bytes));
}

static enum mr_fault read_gather(
	const struct rc_qp *rc, const struct rc_resource *resource, uint32_t bytes, uint8_t *to)
{
	uint64_t offset =
		(uint64_t)(uint32_t)psn_diff(resource->next, resource->first) * rc->qp.mtu_bytes;

	return mr_get(rc->qp.lane->mrs, resource->rkey, (struct mr_user){resource->pd, rc->qp.qpn},
		MR_REMOTE_READ, resource->va + offset, bytes, to);
}

/*
 * Write the payloads of a run, each behind its header. Returns the number of written packets. It is
 * less than `packets` if the memory of a payload is refused.
 */
static uint32_t read_run(struct rc_qp *rc, struct rc_resource *resource,
	const struct packet *packet, uint8_t *buffer, uint32_t packets)
{
	size_t header_bytes = packet_encode_headers(packet, buffer);
	uint8_t *to = buffer;

	for (uint32_t i = 0; i < packets; i++) {
		if (i > 0) {
			memcpy(to, buffer, header_bytes);
			bth_renumber(to, resource->next);
		}
		if (packet->payload_bytes &&
			read_gather(rc, resource, packet->payload_bytes, to + header_bytes))
			return i;
		memset(to + header_bytes + packet->payload_bytes, 0, packet->bth.pad_bytes);
		resource->next = psn_add(resource->next, 1);
		to += packet_bytes(packet) + ROCE_ICRC_BYTES;
	}
	return packets;
}

static bool is_left_out(const struct rc_resource *resource, struct psn psn)
{
	uint32_t place = packets_between(resource->first, psn);

	return place < PARTS_PACKETS && resource->left_out >> place & 1;
}

static size_t read_next(
	struct rc_qp *rc, struct rc_resource *resource, struct packet_run *run, uint64_t now_ns)
{
	uint64_t offset =
		(uint64_t)(uint32_t)psn_diff(resource->next, resource->first) * rc->qp.mtu_bytes;
	uint32_t bytes = (uint32_t)min_u64(rc->qp.mtu_bytes, resource->bytes - offset);
	struct packet packet;
	uint32_t packets;

	rc_packet_init(rc, &packet, read_opcode(resource), resource->next);
	packet_set_payload(&packet, NULL, bytes);
	packet.aeth = ack_aeth(rc, resource->msn);
	packets = read_run(rc, resource, &packet, run->buffer,
		run_packets_max(rc, resource, &packet, run->run_bytes));
	if (!packets) {
		read_abort(rc, resource, now_ns);
		return 0;
	}
	run->packets = packets;
	while (is_left_out(resource, resource->next))
		resource->next = psn_add(resource->next, 1);
	qp_count(&rc->qp, COUNTER_sent_bytes, (uint64_t)packets * bytes);
	if (psn_equal(resource->next, resource->stop)) {
		resource->was_answered = true;
		rc_response_done(rc, resource);
	}
	return packet_bytes(&packet);
}

static size_t atomic_next(struct rc_qp *rc, struct rc_resource *resource, uint8_t *buffer)
{
	struct packet packet;

	rc_packet_init(rc, &packet, OPCODE_RC_ATOMIC_ACKNOWLEDGE, resource->first);
	packet.aeth = ack_aeth(rc, resource->msn);
	packet.atomicacketh.original = resource->original;
	resource->was_answered = true;
	rc_response_done(rc, resource);
	return packet_encode_headers(&packet, buffer);
}

/* The answer to ATOMIC WRITE and FLUSH: a READ response without data. */
static size_t empty_next(struct rc_qp *rc, struct rc_resource *resource, uint8_t *buffer)
{
	struct packet packet;

	rc_packet_init(rc, &packet, OPCODE_RC_READ_RESPONSE_ONLY, resource->first);
	packet.aeth = ack_aeth(rc, resource->msn);
	resource->was_answered = true;
	rc_response_done(rc, resource);
	return packet_encode_headers(&packet, buffer);
}

static size_t answer_next(
	struct rc_qp *rc, struct rc_resource *resource, struct packet_run *run, uint64_t now_ns)
{
	switch ((int)resource->operation) {
	case OPERATION_READ:
		return read_next(rc, resource, run, now_ns);
	case OPERATION_COMPARE_SWAP:
	case OPERATION_FETCH_ADD:
		return atomic_next(rc, resource, run->buffer);
	default:
		return empty_next(rc, resource, run->buffer);
	}
}

static size_t acknowledge_next(
	struct rc_qp *rc, const struct aeth *aeth, struct psn psn, uint8_t *buffer)
{
	struct packet packet;

	rc_packet_init(rc, &packet, OPCODE_RC_ACKNOWLEDGE, psn);
	packet.aeth = *aeth;
	return packet_encode_headers(&packet, buffer);
}

static bool is_sequence_nak(const struct aeth *aeth)
{
	return aeth->kind == AETH_NAK && aeth->value == AETH_NAK_PSN_SEQUENCE;
}

/* Write the pending NAK. A sequence NAK has the map of the early packets, if there are any. */
static size_t nak_next(struct rc_qp *rc, uint8_t *buffer)
{
	struct rc_responder *responder = &rc->responder;
	struct packet packet;
	size_t bytes;

	rc_packet_init(rc, &packet, OPCODE_RC_ACKNOWLEDGE, responder->nak_psn);
	packet.aeth = responder->nak;
	bytes = packet_encode_headers(&packet, buffer);
	if (!rc->is_selective || !is_sequence_nak(&responder->nak) ||
		selective_queue_is_empty(&responder->early))
		return bytes;
	selective_map_encode(&responder->early.map, buffer + bytes);
	return bytes + SELECTIVE_MAP_BYTES;
}

size_t rc_response_ack(struct rc_qp *rc, uint8_t *buffer)
{
	struct rc_responder *responder = &rc->responder;
	bool is_replaced = responder->is_nak_pending && !is_sequence_nak(&responder->nak);
	struct aeth aeth;

	if (!responder->is_ack_pending || responder->pending_count || is_replaced)
		return 0;
	aeth = ack_aeth(rc, responder->msn);
	responder->is_ack_pending = false;
	qp_count(&rc->qp, COUNTER_acks_sent, 1);
	return acknowledge_next(rc, &aeth, psn_add(responder->expected, -1u), buffer);
}

size_t rc_response_next(struct rc_qp *rc, struct packet_run *run, uint64_t now_ns)
{
	struct rc_responder *responder = &rc->responder;

	while (responder->pending_count) {
		struct rc_resource *resource = oldest_pending(rc);
		size_t bytes = answer_next(rc, resource, run, now_ns);

		if (bytes)
			return bytes;
	}
	size_t bytes = rc_response_ack(rc, run->buffer);

	if (bytes || !responder->is_nak_pending)
		return bytes;
	responder->is_nak_pending = false;
	responder->is_ack_pending = false; /* the NAK replaces the ACK */
	return nak_next(rc, run->buffer);
}
