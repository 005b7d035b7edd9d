/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/message.h"

#include <string.h>

#include "lane/placer.h"
#include "memory/mr_borrowed.h"
#include "memory/mw.h"
#include "wire/roce.h"

/* --- sending --- */

enum fault message_local_fault(enum mr_fault fault)
{
	static const enum fault faults[] = {
#define MR_FAULT(name, local, bind, tagged, read, error, sentence) \
	[MR_FAULT_##name] = FAULT_##local,
#include "memory/mr_fault.def"
#undef MR_FAULT
	};

	return faults[fault];
}

enum fault message_check(const struct qp *qp, const struct send_wqe *wqe)
{
	if (wqe->flags & SEND_INLINE)
		return FAULT_NONE;
	return message_local_fault(
		sge_check(qp->lane->mrs, qp->pd, MR_LOCAL_READ, wqe->sge, wqe->sge_count));
}

static enum opcode_position position_of(uint32_t index, uint32_t count)
{
	if (count == 1)
		return POSITION_ONLY;
	if (index == 0)
		return POSITION_FIRST;
	return index == count - 1 ? POSITION_LAST : POSITION_MIDDLE;
}

/*
 * The RC opcodes of an operation's packets, indexed by position. The opcode names of the last
 * packet and of an only packet end with `suffix`.
 */
#define BY_POSITION(operation, suffix)                                  \
	{                                                               \
		[POSITION_FIRST] = OPCODE_RC_##operation##_FIRST,       \
		[POSITION_MIDDLE] = OPCODE_RC_##operation##_MIDDLE,     \
		[POSITION_LAST] = OPCODE_RC_##operation##_LAST##suffix, \
		[POSITION_ONLY] = OPCODE_RC_##operation##_ONLY##suffix, \
	}

static enum opcode opcode_of(
	enum opcode_class class, const struct send_wqe *wqe, enum opcode_position position)
{
	static const uint8_t send[] = BY_POSITION(SEND, );
	static const uint8_t write[] = BY_POSITION(WRITE, );
	static const uint8_t send_invalidate[] = BY_POSITION(SEND, _INV);
	const struct wr_info *info = &wr_table[wqe->opcode];
	bool ends = position == POSITION_LAST || position == POSITION_ONLY;
	/*
	 * The opcode with immediate data has a value of one more than the same opcode without
	 * immediate data.
	 */
	uint8_t with_imm = info->has_imm && ends;
	uint8_t operation = info->operation == OPERATION_SEND ? send[position] : write[position];

	if (info->has_invalidate)
		operation = send_invalidate[position];
	return (enum opcode)(class | (operation + with_imm));
}

enum opcode message_response_opcode(uint32_t index, uint32_t count)
{
	static const enum opcode opcodes[] = BY_POSITION(READ_RESPONSE, );

	return opcodes[position_of(index, count)];
}

void message_packet_init(struct packet *packet, const struct qp *qp, enum opcode_class class,
	const struct send_wqe *wqe, uint32_t index)
{
	message_packet_init_of(packet, qp, class, wqe, index, wqe->packet_count);
}

void message_packet_init_of(struct packet *packet, const struct qp *qp, enum opcode_class class,
	const struct send_wqe *wqe, uint32_t index, uint32_t packet_count)
{
	enum opcode_position position = position_of(index, packet_count);
	uint64_t offset = (uint64_t)index * qp->mtu_bytes;

	packet_init(packet, opcode_of(class, wqe, position));
	packet->bth.dest_qpn = qpn_from(qp->attr.dest_qpn);
	packet->bth.is_migrated = qp->attr.migration == QP_MIGRATED;
	packet->bth.is_solicited =
		opcode_ends_message(packet->info) && (wqe->flags & SEND_SOLICITED);
	packet_set_payload(
		packet, NULL, (uint32_t)min_u64(qp->mtu_bytes, wqe->total_bytes - offset));
	packet->reth = (struct reth){wqe->remote_address, wqe->rkey, wqe->total_bytes};
	packet->immdt.data = wqe->imm;
	packet->ieth.rkey = wqe->imm;
}

size_t message_packet_write(struct qp *qp, const struct packet *packet, const struct send_wqe *wqe,
	uint32_t index, uint8_t *buffer, enum fault *ret_fault)
{
	uint64_t offset = (uint64_t)index * qp->mtu_bytes;
	uint8_t *to = buffer + packet_encode_headers(packet, buffer);

	if (wqe->flags & SEND_INLINE)
		memcpy(to, wqe->inline_bytes + offset, packet->payload_bytes);
	else
		*ret_fault = message_local_fault(sge_gather(qp->lane->mrs, qp->pd, wqe->sge,
			wqe->sge_count, offset, packet->payload_bytes, to));
	memset(to + packet->payload_bytes, 0, packet->bth.pad_bytes);
	qp_count(qp, COUNTER_sent_bytes, packet->payload_bytes);
	return packet_bytes(packet);
}

/*
 * `headers` begins with the headers of a run's first packet, which are `bytes` bytes long. Write
 * the headers of the run's other packets behind those.
 */
static void headers_repeat(
	const struct packet *packet, uint8_t *headers, size_t bytes, uint32_t packets)
{
	uint8_t *to = headers;

	for (uint32_t i = 1; i < packets; i++) {
		to += bytes + ROCE_ICRC_BYTES;
		memcpy(to, headers, bytes);
		bth_renumber(to, psn_add(packet->bth.psn, i));
	}
}

/*
 * The payloads of `packets` packets, from this one on, if they are contiguous in memory; else NULL.
 */
static const uint8_t *run_piece(const struct qp *qp, const struct packet *packet,
	const struct send_wqe *wqe, uint32_t index, uint32_t packets)
{
	return sge_piece(qp->lane->mrs, qp->pd, wqe->sge, wqe->sge_count,
		(uint64_t)index * qp->mtu_bytes, (size_t)packets * packet->payload_bytes);
}

size_t message_run_write(struct qp *qp, const struct packet *packet, const struct send_wqe *wqe,
	uint32_t packets_max, struct packet_run *run, enum fault *ret_fault)
{
	uint32_t index = (uint32_t)psn_diff(packet->bth.psn, wqe->first_psn);
	uint32_t packets = packets_max;
	const uint8_t *piece = NULL;

	if (message_packet_is_long(qp, packet) && !packet->bth.pad_bytes &&
		!(wqe->flags & SEND_INLINE)) {
		piece = run_piece(qp, packet, wqe, index, packets);
		if (!piece && packets > 1) {
			packets = 1;
			piece = run_piece(qp, packet, wqe, index, packets);
		}
	}
	if (!piece)
		return message_packet_write(qp, packet, wqe, index, run->buffer, ret_fault);
	headers_repeat(packet, run->buffer, packet_encode_headers(packet, run->buffer), packets);
	run->packets = packets;
	run->borrowed = piece;
	run->borrowed_bytes = packet->payload_bytes;
	qp_count(qp, COUNTER_sent_bytes, (uint64_t)packets * packet->payload_bytes);
	return packet_bytes(packet);
}

/* --- receiving --- */

const struct refusal_effect refusal_effects[] = {
#define REFUSAL(name, on_rc, how, code, receive_fault, event, on_uc) \
	[REFUSED_##name] = {                                         \
		.rc_counter = COUNTER_##on_rc,                       \
		.uc_counter = COUNTER_##on_uc,                       \
		.answer = REFUSAL_##how,                             \
		.nak = AETH_NAK_##code,                              \
		.fault = FAULT_##receive_fault,                      \
		.signal = event,                                     \
	},
#include "ib/refusal.def"
#undef REFUSAL
};

static bool operation_follows(const struct message *message, const struct opcode_info *info)
{
	switch (message->kind) {
	case MESSAGE_NONE:
		return opcode_begins_message(info);
	case MESSAGE_SEND:
		return info->operation == OPERATION_SEND && !opcode_begins_message(info);
	case MESSAGE_WRITE:
		return info->operation == OPERATION_WRITE && !opcode_begins_message(info);
	}
	return false;
}

bool message_is_in_sequence(
	const struct message *message, const struct qp *qp, const struct packet *packet)
{
	return operation_follows(message, packet->info) &&
		opcode_payload_fits(packet->info, packet->payload_bytes, qp->mtu_bytes);
}

void message_abandon(struct message *message, struct qp *qp, enum fault fault, uint64_t now_ns)
{
	struct cqe cqe = {.opcode = WC_RECV};

	message->kind = MESSAGE_NONE;
	if (!message->has_receive)
		return;
	message->has_receive = false;
	qp_complete_recv(qp, message_receive(qp)->wr_id, &cqe, fault, false, now_ns);
}

bool message_reserve(struct message *message, const struct qp *qp, const struct recv_wqe *wqe)
{
	if (message->kind != MESSAGE_NONE || message->has_receive)
		return false;
	*message_receive(qp) = *wqe;
	message->has_receive = true;
	return true;
}

bool message_take_receive(struct message *message, struct qp *qp)
{
	if (!message->has_receive)
		message->has_receive = qp_take_recv(qp, message_receive(qp));
	return message->has_receive;
}

static void receive_complete(struct message *message, struct qp *qp, const struct packet *packet,
	uint32_t opcode, uint64_t bytes, uint64_t now_ns)
{
	struct cqe cqe = {.opcode = opcode, .byte_count = (uint32_t)bytes};

	if (opcode_has_immediate(packet->info)) {
		cqe.flags |= WC_WITH_IMM;
		cqe.imm = packet->immdt.data;
	} else if (opcode_has_invalidate(packet->info)) {
		cqe.flags |= WC_WITH_INV;
		cqe.imm = packet->ieth.rkey;
	}
	message->has_receive = false;
	qp_complete_recv(
		qp, message_receive(qp)->wr_id, &cqe, FAULT_NONE, packet->bth.is_solicited, now_ns);
}

enum refusal message_send_execute(struct message *message, struct qp *qp,
	const struct packet *packet, enum fault *ret_fault, uint64_t now_ns)
{
	struct recv_wqe *receive = message_receive(qp);
	enum mr_fault fault;

	if (opcode_begins_message(packet->info)) {
		if (qp_is_made_unready(qp) || !message_take_receive(message, qp))
			return REFUSED_NOT_READY;
		message->placed_bytes = 0;
	}
	if (packet->payload_bytes > receive->total_bytes - message->placed_bytes)
		return REFUSED_TOO_LONG;
	if (opcode_has_invalidate(packet->info) &&
		mw_check(qp->lane->mrs, packet->ieth.rkey, qp_mr_user(qp)))
		return REFUSED_INVALIDATE;
	fault = sge_scatter(qp->lane->mrs, qp->recv_pd, receive->sge, receive->sge_count,
		message->placed_bytes, packet->payload_bytes, packet->payload);
	if (fault) {
		*ret_fault = message_local_fault(fault);
		return REFUSED_OPERATIONAL;
	}
	if (opcode_has_invalidate(packet->info))
		mw_invalidate(qp->lane->mrs, packet->ieth.rkey, qp_mr_user(qp));
	message->placed_bytes += packet->payload_bytes;
	message->kind = MESSAGE_SEND;
	if (opcode_ends_message(packet->info)) {
		message->kind = MESSAGE_NONE;
		receive_complete(message, qp, packet, WC_RECV, message->placed_bytes, now_ns);
		qp_count(qp, COUNTER_rdma_sends, 1);
	}
	return ACCEPTED;
}

/*
 * The first packet names the whole range. Check all of the range now, and the part that each packet
 * writes again when that packet arrives.
 */
static enum refusal write_begin(
	const struct qp *qp, const struct packet *packet, struct reth *ret_write)
{
	const struct reth *reth = &packet->reth;

	if (!(qp->attr.access & MR_REMOTE_WRITE) || reth->dma_bytes > MESSAGE_BYTES_MAX)
		return REFUSED_INVALID;
	if (reth->dma_bytes &&
		mr_check(qp->lane->mrs, reth->rkey, qp_mr_user(qp), MR_REMOTE_WRITE, reth->va,
			reth->dma_bytes))
		return REFUSED_ACCESS;
	*ret_write = *reth;
	return ACCEPTED;
}

/* Does the payload fit the rest of the message (IBTA C9-67 to C9-69)? */
static bool write_length_fits(const struct packet *packet, uint32_t left_bytes)
{
	if (opcode_ends_message(packet->info))
		return packet->payload_bytes == left_bytes;
	return packet->payload_bytes < left_bytes;
}

/* Place the payload of a WRITE. `rest_bytes` come in later packets. */
static void payload_place(
	const struct lane *lane, const struct packet *packet, uint8_t *to, uint32_t rest_bytes)
{
	uint32_t bytes = packet->payload_bytes;
	uint32_t tail_bytes = rest_bytes ? 0 : min_u32(bytes, PLACER_TAIL_BYTES);

	if (!lane->placer || !opcode_begins_message(packet->info) ||
		!lane->placer->begin(to, bytes, rest_bytes)) {
		place_payload(to, packet->payload, bytes);
		return;
	}
	bytes -= tail_bytes;
	copy_place(to, packet->payload, bytes);
	lane->placer->wait();
	copy_place(to + bytes, packet->payload + bytes, tail_bytes);
}

enum refusal message_write_execute(
	struct message *message, struct qp *qp, const struct packet *packet, uint64_t now_ns)
{
	struct reth write = message->write;
	bool takes_receive = opcode_has_immediate(packet->info);
	bool is_borrowed = false;
	uint8_t *to = NULL;

	if (opcode_begins_message(packet->info)) {
		enum refusal refusal = write_begin(qp, packet, &write);

		if (refusal)
			return refusal;
	}
	if (!write_length_fits(packet, write.dma_bytes))
		return REFUSED_INVALID;
	if (takes_receive && !message->has_receive && (qp_is_made_unready(qp) || !rq_count(qp->rq)))
		return REFUSED_NOT_READY;
	if (packet->payload_bytes &&
		mr_resolve_for(qp->lane->mrs, write.rkey, qp_mr_user(qp),
			MR_REMOTE_WRITE | MR_TOUCH, write.va, packet->payload_bytes, &to)) {
		is_borrowed = mr_is_borrowed(qp->lane->mrs, qp->pd);
		if (!is_borrowed ||
			mr_check(qp->lane->mrs, write.rkey, qp_mr_user(qp), MR_REMOTE_WRITE,
				write.va, packet->payload_bytes))
			return REFUSED_ACCESS;
	}
	if (takes_receive && !message_take_receive(message, qp))
		return REFUSED_NOT_READY;

	if (is_borrowed &&
		mr_put(qp->lane->mrs, write.rkey, qp_mr_user(qp), MR_REMOTE_WRITE, write.va,
			packet->payload_bytes, packet->payload))
		return REFUSED_ACCESS;
	if (packet->payload_bytes && !is_borrowed)
		payload_place(qp->lane, packet, to, write.dma_bytes - packet->payload_bytes);
	if (opcode_begins_message(packet->info))
		message->write_bytes = write.dma_bytes;
	write.va += packet->payload_bytes;
	write.dma_bytes -= packet->payload_bytes;
	message->write = write;
	message->kind = opcode_ends_message(packet->info) ? MESSAGE_NONE : MESSAGE_WRITE;
	if (takes_receive)
		receive_complete(
			message, qp, packet, WC_RECV_RDMA_WITH_IMM, message->write_bytes, now_ns);
	if (opcode_ends_message(packet->info))
		qp_count(qp, COUNTER_rdma_writes, 1);
	return ACCEPTED;
}
