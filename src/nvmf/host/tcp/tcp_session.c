/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/host/tcp/tcp_session.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/host/tcp/tcp_session_internal.h"

enum {
	OPCODE_FABRICS = 0x7f,
	FLAGS_PSDT = 0xc0,
	FLAGS_SGL = 0x40, /* PSDT 01b: an SGL, which Fabrics requires */
	SGL_IN_CAPSULE = 0x01, /* data block descriptor with an offset in the capsule */
	SGL_TRANSPORT = 0x5a, /* transport data block descriptor: data by R2T or C2HData */
	CID_SLOT_BITS = 10,
};

_Static_assert(HOST_DEPTH_MAX <= 1 << CID_SLOT_BITS, "a slot's number fits into the identifier");

static void make_ic_req(struct tcp_session *session)
{
	static const struct tcp_options none;
	uint8_t bytes[TCP_HEADER_BYTES_MAX];
	struct tcp_pdu pdu = {.type = TCP_PDU_IC_REQ};

	pdu.ic.digest = (uint8_t)(session->wants_header_digest | session->wants_data_digest << 1);
	session->own_bytes = tcp_pdu_encode(&pdu, &none, bytes);
	assert(session->own_bytes <= sizeof(session->own));
	memcpy(session->own, bytes, session->own_bytes);
}

int tcp_session_init(struct tcp_session *session, const struct host_queue_settings *settings)
{
	assert(settings->depth > 0 && settings->depth <= HOST_DEPTH_MAX);
	*session = (struct tcp_session){
		.depth = settings->depth,
		.in_capsule_bytes = settings->in_capsule_bytes,
		.is_admin = settings->qid == 0,
		.wants_header_digest = settings->wants_header_digest,
		.wants_data_digest = settings->wants_data_digest,
	};
	session->slots = calloc(settings->depth, sizeof(*session->slots));
	if (!session->slots)
		return -ENOMEM;
	list_init(&session->free_slots);
	list_init(&session->pending);
	list_init(&session->output);
	for (uint32_t i = 0; i < settings->depth; i++) {
		list_init(&session->slots[i].output_node);
		list_append(&session->free_slots, &session->slots[i].node);
	}
	tcp_rx_init(&session->rx, false, 0, settings->data_bytes_max);
	make_ic_req(session);
	return 0;
}

void tcp_session_fail(struct tcp_session *session, int error, const char *format, ...)
{
	va_list arguments;

	if (session->error)
		return;
	session->error = error;
	va_start(arguments, format);
	vsnprintf(session->reason, sizeof(session->reason), format, arguments);
	va_end(arguments);
}

/* Encode `pdu` with its `data`, and append it to the output. */
static void slot_send(struct tcp_session *session, struct tcp_slot *slot, struct tcp_pdu *pdu,
	const uint8_t *data)
{
	slot->header_bytes = tcp_pdu_encode(pdu, &session->options, slot->header);
	slot->data = data;
	slot->data_bytes = pdu->data_bytes;
	slot->digest_bytes = 0;
	if (pdu->flags & TCP_DDGST) {
		le32_put(slot->digest, digest_of(data, pdu->data_bytes));
		slot->digest_bytes = DIGEST_BYTES;
	}
	slot->pdu_sent = 0;
	list_append(&session->output, &slot->output_node);
}

void tcp_slot_send_data(struct tcp_session *session, struct tcp_slot *slot)
{
	uint32_t length = slot->requested_bytes - slot->sent_bytes;
	struct tcp_pdu pdu = {.type = TCP_PDU_H2C_DATA, .flags = TCP_LAST};

	if (length > session->h2c_bytes_max) {
		length = session->h2c_bytes_max;
		pdu.flags = 0;
	}
	pdu.data_bytes = length;
	pdu.data.cccid = slot->command->cid;
	pdu.data.ttag = slot->ttag;
	pdu.data.offset = slot->sent_bytes;
	pdu.data.length = length;
	slot_send(session, slot, &pdu, (const uint8_t *)slot->command->data + slot->sent_bytes);
	slot->sent_bytes += length;
}

/*
 * Whether the data travels in the capsule. Any controller accepts 8,192 bytes in the capsules of
 * Admin and Fabrics commands (section 3.3.2).
 */
static bool is_in_capsule(const struct tcp_session *session, const struct host_command *command)
{
	uint32_t limit = session->in_capsule_bytes;

	if (session->is_admin || command->sqe[0] == OPCODE_FABRICS)
		limit = TCP_ADMIN_DATA_BYTES;
	return command->direction == HOST_TO_CONTROLLER && command->data_bytes <= limit;
}

static void make_sqe(struct host_command *command, bool in_capsule)
{
	uint8_t *sqe = command->sqe;

	sqe[1] = (uint8_t)((sqe[1] & ~FLAGS_PSDT) | FLAGS_SGL);
	le16_put(sqe + 2, command->cid);
	memset(sqe + 24, 0, 16);
	le32_put(sqe + 32, command->data_bytes);
	sqe[39] = in_capsule ? SGL_IN_CAPSULE : SGL_TRANSPORT;
}

void tcp_session_submit(struct tcp_session *session, struct host_command *command)
{
	struct tcp_slot *slot = list_first(&session->free_slots, struct tcp_slot, node);
	bool in_capsule = is_in_capsule(session, command);
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD};

	assert(session->is_ready && !list_is_empty(&session->free_slots));
	assert((command->data_bytes == 0) == (command->direction == HOST_NO_DATA));
	list_remove(&slot->node);
	*slot = (struct tcp_slot){
		.command = command,
		.generation = (uint16_t)(slot->generation + 1),
		.requested_bytes = in_capsule ? command->data_bytes : 0,
		.sent_bytes = in_capsule ? command->data_bytes : 0,
	};
	list_init(&slot->node);
	list_init(&slot->output_node);
	command->cid = (uint16_t)(slot->generation << CID_SLOT_BITS | (slot - session->slots));
	make_sqe(command, in_capsule);
	memcpy(pdu.sqe, command->sqe, sizeof(pdu.sqe));
	pdu.data_bytes = in_capsule ? command->data_bytes : 0;
	list_append(&session->pending, &command->node);
	slot_send(session, slot, &pdu, command->data);
}

/*
 * Append `bytes` without the first `*skip` of them to `parts`. Reduces `*skip` by the number of
 * bytes that it has skipped. Returns the new number of parts.
 */
static int add_part(
	struct iovec *parts, int count, const uint8_t *bytes, size_t length, size_t *skip)
{
	if (*skip >= length) {
		*skip -= length;
		return count;
	}
	parts[count] = (struct iovec){(uint8_t *)(uintptr_t)bytes + *skip, length - *skip};
	*skip = 0;
	return count + 1;
}

int tcp_session_output(const struct tcp_session *session, struct iovec *parts, int count_max)
{
	int count = 0;

	if (session->own_sent < session->own_bytes) {
		size_t skip = session->own_sent;

		count = add_part(parts, count, session->own, session->own_bytes, &skip);
	}
	/* After a refusal only the TermReq is sent. */
	if (session->error)
		return count;
	list_for_each(slot, &session->output, struct tcp_slot, output_node) {
		size_t skip = slot->pdu_sent;

		if (count + 3 > count_max)
			break;
		count = add_part(parts, count, slot->header, slot->header_bytes, &skip);
		count = add_part(parts, count, slot->data, slot->data_bytes, &skip);
		count = add_part(parts, count, slot->digest, slot->digest_bytes, &skip);
	}
	return count;
}

void tcp_slot_finish(struct tcp_session *session, struct tcp_slot *slot, enum host_end end)
{
	struct host_command *command = slot->command;

	assert(command);
	list_remove(&slot->output_node);
	list_remove(&command->node);
	slot->command = NULL;
	list_append(&session->free_slots, &slot->node);
	session->done_count++;
	command->done(command, end);
}

/* A PDU of this slot has been sent: continue with its next H2CData, or end the command. */
static void pdu_sent(struct tcp_session *session, struct tcp_slot *slot)
{
	list_remove(&slot->output_node);
	if (slot->sent_bytes < slot->requested_bytes)
		tcp_slot_send_data(session, slot);
	else if (slot->has_response)
		tcp_slot_finish(session, slot, slot->is_damaged ? HOST_DAMAGED : HOST_COMPLETED);
}

void tcp_session_sent(struct tcp_session *session, size_t bytes)
{
	size_t own = session->own_bytes - session->own_sent;

	own = own < bytes ? own : bytes;
	session->own_sent += (uint32_t)own;
	bytes -= own;
	while (bytes > 0) {
		struct tcp_slot *slot = list_first(&session->output, struct tcp_slot, output_node);
		uint32_t whole = slot->header_bytes + slot->data_bytes + slot->digest_bytes;
		size_t piece = whole - slot->pdu_sent;

		assert(!list_is_empty(&session->output));
		slot->is_begun = true;
		piece = piece < bytes ? piece : bytes;
		slot->pdu_sent += (uint32_t)piece;
		bytes -= piece;
		if (slot->pdu_sent == whole)
			pdu_sent(session, slot);
	}
}

static struct tcp_slot *slot_of(struct tcp_session *session, const struct host_command *command)
{
	return &session->slots[command->cid & ((1 << CID_SLOT_BITS) - 1)];
}

void tcp_session_end(struct tcp_session *session)
{
	/* A command that done() submits here is not sent, and ends here, too. */
	while (session->slots && !list_is_empty(&session->pending)) {
		struct host_command *command =
			list_first(&session->pending, struct host_command, node);
		struct tcp_slot *slot = slot_of(session, command);

		tcp_slot_finish(session, slot, slot->is_begun ? HOST_LOST : HOST_UNSENT);
	}
	free(session->slots);
	session->slots = NULL;
}
