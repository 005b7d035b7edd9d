/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The PDUs that a controller sends: ICResp, R2T, C2HData, CapsuleResp, C2HTermReq.
 */
#include <errno.h>
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/host/tcp/tcp_session_internal.h"

enum {
	CQE_CID = 12,
	CQE_STATUS = 14,
	/* Byte offsets of header fields, for the FEI of a TermReq. */
	FEI_FLAGS = 1,
	FEI_CCCID = 8,
	FEI_DATA_OFFSET = 12,
	FEI_DATA_LENGTH = 16,
	FEI_DIGEST = 11,
	FEI_RESPONSE_CID = 20,
};

static const char *const fatal_names[] = {
	[TCP_FATAL_NONE] = "no reason",
	[TCP_FATAL_HEADER] = "an invalid PDU header field",
	[TCP_FATAL_SEQUENCE] = "a PDU out of sequence",
	[TCP_FATAL_HEADER_DIGEST] = "a wrong header digest",
	[TCP_FATAL_DATA_RANGE] = "data outside of the requested range",
	[TCP_FATAL_LIMIT] = "more data or R2Ts than the limit",
	[TCP_FATAL_PARAMETER] = "an unsupported parameter",
};

static const char *fatal_name(unsigned fes)
{
	return fes < sizeof(fatal_names) / sizeof(*fatal_names) ? fatal_names[fes]
								: "a reason that is unknown";
}

/*
 * The controller broke the protocol: prepare the TermReq, unless a part of another PDU has been
 * sent and its rest has not, because a TermReq cannot follow in the middle of that PDU.
 */
static void end_by_term(struct tcp_session *session, const char *sentence)
{
	struct tcp_slot *slot = list_first(&session->output, struct tcp_slot, output_node);

	tcp_session_fail(session, -EPROTO, "the controller broke NVMe/TCP: %s", sentence);
	session->own_bytes = 0;
	session->own_sent = 0;
	if (list_is_empty(&session->output) || slot->pdu_sent == 0)
		session->own_bytes = tcp_rx_term(&session->rx, session->own);
}

static void response_refuse(
	struct tcp_session *session, enum tcp_fatal fes, uint32_t fei, const char *sentence)
{
	tcp_rx_refuse(&session->rx, fes, fei);
	end_by_term(session, sentence);
}

/* The slot of the pending command `cid`, if a byte of its capsule has been sent; or NULL. */
static struct tcp_slot *slot_find(struct tcp_session *session, uint16_t cid)
{
	uint32_t number = cid & (HOST_DEPTH_MAX - 1);
	struct tcp_slot *slot = number < session->depth ? &session->slots[number] : NULL;

	if (!slot || !slot->command || slot->command->cid != cid || !slot->is_begun ||
		slot->has_response)
		return NULL;
	return slot;
}

static void take_ic_resp(struct tcp_session *session, const struct tcp_pdu *pdu)
{
	uint8_t asked = (uint8_t)(session->wants_header_digest | session->wants_data_digest << 1);
	struct tcp_options options = {
		.has_header_digest = session->wants_header_digest,
		.has_data_digest = session->wants_data_digest,
	};

	/* Refuse a digest that was not requested, and the lack of one that was requested. */
	if (pdu->ic.digest != asked) {
		response_refuse(session, TCP_FATAL_PARAMETER, FEI_DIGEST,
			pdu->ic.digest & ~asked ? "it enables a digest that was not asked for"
						: "it refuses a digest; connect without digests");
		return;
	}
	tcp_rx_agree(&session->rx, &options);
	session->options = options;
	session->options.pda = pdu->ic.pda;
	session->h2c_bytes_max = pdu->ic.max;
	session->is_ready = true;
}

static void take_r2t(struct tcp_session *session, const struct tcp_pdu *pdu)
{
	struct tcp_slot *slot = slot_find(session, pdu->data.cccid);

	if (!slot) {
		response_refuse(session, TCP_FATAL_HEADER, FEI_CCCID, "R2T for no pending command");
	} else if (slot->command->direction != HOST_TO_CONTROLLER) {
		/* An H2CData would send memory of this host that the controller may not read. */
		response_refuse(session, TCP_FATAL_HEADER, FEI_CCCID,
			"R2T for a command that sends no data");
	} else if (list_is_linked(&slot->output_node)) {
		response_refuse(
			session, TCP_FATAL_LIMIT, 0, "R2T before the data of the previous R2T");
	} else if (pdu->data.offset != slot->requested_bytes) {
		response_refuse(session, TCP_FATAL_DATA_RANGE, FEI_DATA_OFFSET,
			"R2T does not follow the previous one");
	} else if (pdu->data.length == 0) {
		response_refuse(session, TCP_FATAL_HEADER, FEI_DATA_LENGTH, "R2T of no bytes");
	} else if (pdu->data.length > slot->command->data_bytes - slot->requested_bytes) {
		response_refuse(session, TCP_FATAL_DATA_RANGE, FEI_DATA_LENGTH,
			"R2T for more than the command's data");
	} else {
		slot->ttag = pdu->data.ttag;
		slot->requested_bytes += pdu->data.length;
		tcp_slot_send_data(session, slot);
	}
}

/* Check the header of a C2HData, and say where its data goes. */
static void place_data(struct tcp_session *session, const struct tcp_pdu *pdu)
{
	struct tcp_slot *slot = slot_find(session, pdu->data.cccid);

	if (!slot) {
		response_refuse(
			session, TCP_FATAL_HEADER, FEI_CCCID, "C2HData for no pending command");
	} else if (slot->command->direction != HOST_FROM_CONTROLLER) {
		response_refuse(session, TCP_FATAL_HEADER, FEI_CCCID,
			"C2HData for a command that reads no data");
	} else if (slot->is_last) {
		response_refuse(session, TCP_FATAL_DATA_RANGE, FEI_DATA_OFFSET,
			"C2HData behind the last of a command");
	} else if ((pdu->flags & (TCP_SUCCESS | TCP_LAST)) == TCP_SUCCESS) {
		response_refuse(
			session, TCP_FATAL_HEADER, FEI_FLAGS, "C2HData with SUCCESS but not LAST");
	} else if (pdu->data.offset != slot->received_bytes) {
		response_refuse(
			session, TCP_FATAL_DATA_RANGE, FEI_DATA_OFFSET, "C2HData out of order");
	} else if (pdu->data.length != pdu->data_bytes) {
		response_refuse(session, TCP_FATAL_HEADER, FEI_DATA_LENGTH,
			"C2HData of another length than its PDU");
	} else if (pdu->data_bytes > slot->command->data_bytes - slot->received_bytes) {
		response_refuse(session, TCP_FATAL_DATA_RANGE, FEI_DATA_LENGTH,
			"C2HData of more than the command's data");
	} else {
		tcp_rx_place(&session->rx, (uint8_t *)slot->command->data + slot->received_bytes);
	}
}

static bool is_success(const struct host_command *command)
{
	/* Bit 0 is the phase tag, which Fabrics does not use. */
	return le16_get(command->cqe + CQE_STATUS) >> 1 == 0;
}

/* A command has its CQE. On success, all data of the command must have been transferred before. */
static void take_response(struct tcp_session *session, struct tcp_slot *slot)
{
	struct host_command *command = slot->command;

	if (is_success(command) && command->direction == HOST_FROM_CONTROLLER &&
		slot->received_bytes != command->data_bytes) {
		response_refuse(session, TCP_FATAL_SEQUENCE, 0, "success before all data has come");
		return;
	}
	if (is_success(command) && command->direction == HOST_TO_CONTROLLER &&
		slot->requested_bytes != command->data_bytes) {
		response_refuse(
			session, TCP_FATAL_SEQUENCE, 0, "success without asking for all data");
		return;
	}
	slot->has_response = true;
	if (!list_is_linked(&slot->output_node))
		tcp_slot_finish(session, slot, slot->is_damaged ? HOST_DAMAGED : HOST_COMPLETED);
}

static void take_data(struct tcp_session *session, const struct tcp_pdu *pdu)
{
	struct tcp_slot *slot = slot_find(session, pdu->data.cccid);

	slot->received_bytes += pdu->data_bytes;
	slot->is_last = pdu->flags & TCP_LAST;
	slot->is_damaged |= session->rx.is_data_digest_wrong;
	if (!(pdu->flags & TCP_SUCCESS))
		return;
	memset(slot->command->cqe, 0, HOST_CQE_BYTES);
	le16_put(slot->command->cqe + CQE_CID, slot->command->cid);
	take_response(session, slot);
}

static void take_capsule(struct tcp_session *session, const struct tcp_pdu *pdu)
{
	struct tcp_slot *slot = slot_find(session, le16_get(pdu->cqe + CQE_CID));

	if (!slot) {
		response_refuse(session, TCP_FATAL_HEADER, FEI_RESPONSE_CID,
			"a response to no pending command");
		return;
	}
	memcpy(slot->command->cqe, pdu->cqe, HOST_CQE_BYTES);
	take_response(session, slot);
}

static void take_pdu(struct tcp_session *session)
{
	const struct tcp_pdu *pdu = &session->rx.pdu;

	switch (pdu->type) {
	case TCP_PDU_IC_RESP:
		take_ic_resp(session, pdu);
		break;
	case TCP_PDU_R2T:
		take_r2t(session, pdu);
		break;
	case TCP_PDU_C2H_DATA:
		take_data(session, pdu);
		break;
	case TCP_PDU_CAPSULE_RESP:
		take_capsule(session, pdu);
		break;
	case TCP_PDU_C2H_TERM:
		tcp_session_fail(session, -EPROTO,
			"the controller ended the connection because of %s (FES %u, FEI %u)",
			fatal_name(pdu->term.fes), pdu->term.fes, pdu->term.fei);
		break;
	case TCP_PDU_IC_REQ:
	case TCP_PDU_CAPSULE_CMD:
	case TCP_PDU_H2C_DATA:
	case TCP_PDU_H2C_TERM:
		/* tcp_rx refuses the PDUs that only a host sends. */
		break;
	}
}

void tcp_session_received(
	struct tcp_session *session, size_t placed_bytes, const void *bytes, size_t length)
{
	const uint8_t *next = bytes;
	enum tcp_rx_event event = TCP_RX_MORE;

	if (placed_bytes)
		tcp_rx_placed(&session->rx, (uint32_t)placed_bytes);
	do {
		size_t used = tcp_rx_feed(&session->rx, next, length, &event);

		if (used)
			next += used;
		length -= used;
		if (event == TCP_RX_HEADER)
			place_data(session, &session->rx.pdu);
		else if (event == TCP_RX_PDU)
			take_pdu(session);
		else if (event == TCP_RX_REFUSED)
			end_by_term(session, fatal_name(session->rx.refusal.fes));
	} while (event != TCP_RX_MORE && !session->error);
}
