/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/tagged.h"

#include <assert.h>
#include <string.h>

#include "queue/tags.h"
#include "wire/tag_header.h"

enum { RENDEZVOUS_BYTES = TMH_BYTES + RVH_BYTES };

static_assert((int)RENDEZVOUS_BYTES == (int)TAGS_INLINE_BYTES, "the final message fits a slot");

/* The first packet of a message, parsed. */
struct head {
	bool is_tagged; /* the tag is to be matched */
	bool is_rendezvous;
	struct tmh tmh;
	struct rvh rvh;
};

static struct head head_decode(const struct packet *packet)
{
	bool is_only = opcode_ends_message(packet->info);
	struct head head = {.is_tagged = false};

	if (packet->payload_bytes < TMH_BYTES)
		return head;
	head.tmh = tmh_decode(packet->payload);
	if (head.tmh.opcode == TMH_EAGER) {
		head.is_tagged = true;
	} else if (head.tmh.opcode == TMH_RENDEZVOUS && is_only &&
		packet->payload_bytes >= RENDEZVOUS_BYTES &&
		packet->payload_bytes <= TAGS_RENDEZVOUS_BYTES_MAX) {
		head.is_tagged = true;
		head.is_rendezvous = true;
		head.rvh = rvh_decode(packet->payload + TMH_BYTES);
	}
	return head;
}

static bool take_plain(void *context, struct recv_wqe *wqe)
{
	return qp_take_recv(context, wqe);
}

/* Is the queue pair in RTS, and does its send queue have two free slots? */
static bool can_rendezvous(const struct qp *qp)
{
	return qp->state == QP_RTS && qp->sq->capacity - (qp->sq->posted - qp->sq->completed) >= 2;
}

static void tagged_complete(struct qp *qp, struct cqe *cqe, const struct packet *packet,
	enum fault fault, uint64_t now_ns)
{
	qp_complete_recv(
		qp, message_receive(qp)->wr_id, cqe, fault, packet->bth.is_solicited, now_ns);
}

static struct cqe match_cqe(const struct head *head, uint32_t flags)
{
	struct cqe cqe = {.opcode = WC_TM_RECV, .flags = WC_TM_MATCH | flags};

	cqe_set_tag(&cqe, head->tmh.tag, head->tmh.context);
	return cqe;
}

/* --- rendezvous --- */

/* Copy the scatter list of the buffer, shortened to `bytes`, the length of the payload. */
static uint32_t list_cut(struct sge *to, const struct recv_wqe *from, uint32_t bytes)
{
	uint32_t count = 0;

	for (; bytes && count < from->sge_count; count++) {
		to[count] = from->sge[count];
		to[count].bytes = min_u32(to[count].bytes, bytes);
		bytes -= to[count].bytes;
	}
	return count;
}

static struct send_wqe *slot_next(struct qp *qp)
{
	struct send_wqe *wqe = sq_at(qp->sq, qp->sq->posted++);

	memset(wqe, 0, sizeof(*wqe));
	wqe->flags = SEND_SIGNALED;
	return wqe;
}

/* READ the payload; then return the sender's headers in the final message. */
static void rendezvous_post(struct qp *qp, const struct head *head, const struct recv_wqe *buffer,
	const uint8_t *headers, uint64_t now_ns)
{
	struct send_wqe *read = slot_next(qp);
	struct send_wqe *finish = slot_next(qp);

	read->opcode = WR_RDMA_READ;
	read->wr_id = buffer->wr_id;
	read->remote_address = head->rvh.va;
	read->rkey = head->rvh.rkey;
	read->total_bytes = head->rvh.bytes;
	read->sge_count = list_cut(read->sge, buffer, head->rvh.bytes);

	finish->opcode = WR_SEND;
	finish->flags |= SEND_FENCE | SEND_INLINE;
	finish->total_bytes = RENDEZVOUS_BYTES;
	memcpy(finish->inline_bytes, headers, RENDEZVOUS_BYTES);
	finish->inline_bytes[0] = TMH_FINISHED;
	qp->transport->posted(qp, now_ns);
}

/*
 * The buffer is too short. The program gets the headers in the buffer, and executes the READ
 * itself.
 */
static enum refusal rendezvous_give_up(struct message *message, struct qp *qp,
	const struct head *head, const struct packet *packet, enum fault *ret_fault,
	uint64_t now_ns)
{
	struct recv_wqe *buffer = message_receive(qp);
	struct cqe cqe = match_cqe(head, 0);
	enum mr_fault fault;

	cqe.byte_count = RENDEZVOUS_BYTES;
	if (buffer->total_bytes < RENDEZVOUS_BYTES)
		return REFUSED_TOO_LONG;
	fault = sge_scatter(qp->lane->mrs, qp->recv_pd, buffer->sge, buffer->sge_count, 0,
		RENDEZVOUS_BYTES, packet->payload);
	if (fault) {
		*ret_fault = message_local_fault(fault);
		return REFUSED_OPERATIONAL;
	}
	message->has_receive = false;
	tagged_complete(qp, &cqe, packet, FAULT_RENDEZVOUS_TOO_LONG, now_ns);
	return ACCEPTED;
}

static enum refusal rendezvous_take(struct message *message, struct qp *qp, const struct head *head,
	const struct packet *packet, enum fault *ret_fault, uint64_t now_ns)
{
	struct cqe cqe = match_cqe(head, 0);

	if (message_receive(qp)->total_bytes < head->rvh.bytes)
		return rendezvous_give_up(message, qp, head, packet, ret_fault, now_ns);
	message->has_receive = false;
	tagged_complete(qp, &cqe, packet, FAULT_NONE, now_ns);
	if (qp->state == QP_RTS) /* not after an overrun of the completion queue */
		rendezvous_post(qp, head, message_receive(qp), packet->payload, now_ns);
	return ACCEPTED;
}

/* --- data in the message --- */

/*
 * Take the tagged buffer or the ordinary receive request for the message. *ret_skip is the number
 * of header bytes that are not placed.
 */
static enum refusal tagged_begin(
	struct message *message, struct qp *qp, const struct head *head, uint32_t *ret_skip)
{
	bool may_match = !head->is_rendezvous || can_rendezvous(qp);
	enum tag_match match;

	*ret_skip = 0;
	message->placed_bytes = 0;
	message->tag_opcode = WC_TM_NO_TAG;
	message->is_matched = false;
	if (!head->is_tagged) {
		message->has_receive = qp_take_recv(qp, message_receive(qp));
		return message->has_receive ? ACCEPTED : REFUSED_NOT_READY;
	}
	match = tags_take(
		qp->srq->tags, head->tmh.tag, may_match, take_plain, qp, message_receive(qp));
	message->has_receive = match != TAG_NOT_READY;
	message->is_matched = match == TAG_MATCHED;
	message->tag_opcode = WC_TM_RECV;
	if (message->is_matched)
		*ret_skip = TMH_BYTES;
	return message->has_receive ? ACCEPTED : REFUSED_NOT_READY;
}

static enum refusal tagged_place(struct message *message, struct qp *qp,
	const struct packet *packet, uint32_t skip, enum fault *ret_fault)
{
	const struct recv_wqe *receive = message_receive(qp);
	uint32_t bytes = packet->payload_bytes - skip;
	enum mr_fault fault;

	if (bytes > receive->total_bytes - message->placed_bytes)
		return REFUSED_TOO_LONG;
	fault = sge_scatter(qp->lane->mrs, qp->recv_pd, receive->sge, receive->sge_count,
		message->placed_bytes, bytes, packet->payload + skip);
	if (fault) {
		*ret_fault = message_local_fault(fault);
		return REFUSED_OPERATIONAL;
	}
	message->placed_bytes += bytes;
	return ACCEPTED;
}

/* The data of the whole message is placed. */
static void tagged_end(struct message *message, struct qp *qp, const struct packet *packet,
	struct cqe *cqe, uint64_t now_ns)
{
	cqe->opcode = message->tag_opcode;
	cqe->byte_count = (uint32_t)message->placed_bytes;
	if (message->is_matched)
		cqe->flags |= WC_TM_DATA_VALID;
	if (opcode_has_immediate(packet->info)) {
		cqe->flags |= WC_WITH_IMM;
		cqe->imm = packet->immdt.data;
	}
	message->kind = MESSAGE_NONE;
	message->has_receive = false;
	tagged_complete(qp, cqe, packet, FAULT_NONE, now_ns);
	qp_count(qp, COUNTER_rdma_sends, 1);
}

static enum refusal tagged_first(struct message *message, struct qp *qp,
	const struct packet *packet, enum fault *ret_fault, uint64_t now_ns)
{
	struct head head = head_decode(packet);
	struct cqe cqe = {.opcode = WC_RECV};
	uint32_t skip;
	enum refusal refusal = tagged_begin(message, qp, &head, &skip);

	if (refusal)
		return refusal;
	if (message->is_matched && head.is_rendezvous)
		return rendezvous_take(message, qp, &head, packet, ret_fault, now_ns);
	refusal = tagged_place(message, qp, packet, skip, ret_fault);
	if (refusal)
		return refusal;
	message->kind = MESSAGE_SEND;
	if (message->is_matched)
		cqe = match_cqe(&head, 0);
	if (opcode_ends_message(packet->info))
		tagged_end(message, qp, packet, &cqe, now_ns);
	else if (message->is_matched)
		tagged_complete(qp, &cqe, packet, FAULT_NONE, now_ns);
	return ACCEPTED;
}

enum refusal tagged_send_execute(struct message *message, struct qp *qp,
	const struct packet *packet, enum fault *ret_fault, uint64_t now_ns)
{
	struct cqe cqe = {.opcode = WC_RECV};
	enum refusal refusal;

	if (opcode_has_invalidate(packet->info))
		return REFUSED_INVALID;
	if (opcode_begins_message(packet->info))
		return tagged_first(message, qp, packet, ret_fault, now_ns);
	refusal = tagged_place(message, qp, packet, 0, ret_fault);
	if (!refusal && opcode_ends_message(packet->info))
		tagged_end(message, qp, packet, &cqe, now_ns);
	return refusal;
}
