/* SPDX-License-Identifier: BSD-2-Clause */
/* The story of iWARP connections, and of the connection manager's messages. */
#include <stdio.h>
#include <string.h>

#include "common/packet_story_internal.h"
#include "wire/cm/cm_message.h"
#include "wire/iwarp/mpa_frame.h"
#include "wire/iwarp/rdmap.h"

enum { TCP_BYTES = 20, TERMINATE_HEAD_BYTES = 18, FPDU_HEAD_BYTES = 2 };

/* --- the connection manager --- */

static const char *attribute_name(enum cm_attribute attribute)
{
	switch (attribute) {
#define CM_MESSAGE(NAME, name, attribute) \
	case CM_##NAME:                   \
		return #NAME;
#include "wire/cm/cm_message.def"
	}
	return "MAD";
}

static enum reason reject_reason(uint16_t code)
{
	if (code == CM_REJECT_INVALID_SERVICE_ID)
		return REASON_CM_NO_LISTENER;
	return code == CM_REJECT_CONSUMER ? REASON_CM_CONSUMER : REASON_CM_REJECTED;
}

void story_mad_take(const struct packet *packet, struct story_entry *entry)
{
	struct cm_message message;

	if (packet->payload_bytes < MAD_BYTES || !cm_message_decode(&message, packet->payload))
		return;
	snprintf(entry->name, sizeof(entry->name), "%s", attribute_name(message.attribute));
	if (message.attribute == CM_REJ) {
		entry->kind = STORY_NAK;
		story_say(entry, "the connection is rejected with code %u: %s", message.rej.reason,
			cm_reject_sentence(message.rej.reason));
		story_reason(entry, reject_reason(message.rej.reason));
	}
	if (message.attribute == CM_REQ)
		story_say(entry, "service 0x%lx, queue pair 0x%06x",
			(unsigned long)message.req.service_id, message.req.local_qpn);
}

/* --- streams --- */

static const char *rdmap_name(uint32_t opcode)
{
	switch (opcode) {
#define RDMAP(name, opcode, model, queue, least, most) \
	case opcode:                                   \
		return "RDMAP_" #name;
#include "wire/iwarp/rdmap_opcode.def"
#undef RDMAP
	default:
		return "RDMAP";
	}
}

/* The error of a Terminate message; RDMAP_OK: none of the RFCs' errors. */
static enum rdmap_error terminate_error(uint32_t layer, uint32_t type, uint32_t code)
{
#define RDMAP_ERROR(name, its_layer, its_type, its_code, fault, signal, sentence) \
	if (layer == (its_layer) && type == (its_type) && code == (its_code))     \
		return RDMAP_ERROR_##name;
#include "wire/iwarp/rdmap_error.def"
#undef RDMAP_ERROR
	return RDMAP_OK;
}

/* The check that the sender of a Terminate message has named. */
static void terminate_reason(enum rdmap_error error, struct story_entry *entry)
{
	switch (error) {
	case RDMAP_ERROR_READ_STAG:
	case RDMAP_ERROR_TAGGED_STAG:
		story_reason(entry, REASON_REGION_KEY);
		break;
	case RDMAP_ERROR_READ_BOUNDS:
	case RDMAP_ERROR_READ_WRAP:
	case RDMAP_ERROR_TAGGED_BOUNDS:
	case RDMAP_ERROR_TAGGED_WRAP:
		story_reason(entry, REASON_REGION_BOUNDS);
		break;
	case RDMAP_ERROR_READ_ACCESS:
		story_reason(entry, REASON_REGION_RIGHT);
		break;
	case RDMAP_ERROR_READ_STREAM:
	case RDMAP_ERROR_TAGGED_STREAM:
		story_reason(entry, REASON_REGION_PD);
		break;
	case RDMAP_ERROR_UNTAGGED_NO_BUFFER:
		story_reason(entry, REASON_NO_RECEIVE);
		break;
	case RDMAP_ERROR_UNTAGGED_TOO_LONG:
		story_reason(entry, REASON_RECEIVE_TOO_SHORT);
		break;
	case RDMAP_ERROR_INVALIDATE:
	case RDMAP_ERROR_INVALIDATE_OPERATION:
		story_reason(entry, REASON_REMOTE_INVALIDATE);
		break;
	case RDMAP_ERROR_REMOTE_PROTECTION:
		story_reason(entry, REASON_REGION_KEY);
		story_reason(entry, REASON_REGION_BOUNDS);
		story_reason(entry, REASON_REGION_RIGHT);
		break;
	case RDMAP_ERROR_RDMAP_VERSION:
	case RDMAP_ERROR_UNEXPECTED_OPCODE:
	case RDMAP_ERROR_TAGGED_VERSION:
	case RDMAP_ERROR_UNTAGGED_QUEUE:
	case RDMAP_ERROR_UNTAGGED_MSN:
	case RDMAP_ERROR_UNTAGGED_OFFSET:
	case RDMAP_ERROR_UNTAGGED_VERSION:
	case RDMAP_ERROR_MPA_MARKER:
		story_reason(entry, REASON_MALFORMED);
		break;
	case RDMAP_ERROR_MPA_FRAME:
	case RDMAP_ERROR_MPA_READS:
	case RDMAP_ERROR_MPA_READY:
	case RDMAP_ERROR_MPA_CATASTROPHIC:
		story_reason(entry, REASON_MPA_FAILED);
		break;
	case RDMAP_ERROR_REMOTE_OPERATION:
		story_reason(entry, REASON_REMOTE_OPERATIONAL);
		break;
	/* The sentence of the error needs no reason beside it. */
	case RDMAP_OK:
	case RDMAP_ERROR_LOCAL_CATASTROPHIC:
	case RDMAP_ERROR_STREAM_CATASTROPHIC:
	case RDMAP_ERROR_GLOBAL_CATASTROPHIC:
	case RDMAP_ERROR_DDP_CATASTROPHIC:
	case RDMAP_ERROR_MPA_CLOSED:
	case RDMAP_ERROR_MPA_CRC:
	case RDMAP_ERROR_COUNT:
		break;
	}
}

/*
 * Look for a Terminate message, which is the last segment of a stream: untagged, last, queue 2,
 * message 1, offset 0. Returns its payload, or NULL.
 */
static const uint8_t *terminate_find(const uint8_t *bytes, uint32_t count)
{
	static const uint8_t numbers[12] = {0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0};

	for (uint32_t i = 0; i + TERMINATE_HEAD_BYTES + 4 <= count; i++) {
		if (bytes[i] == (DDP_LAST | DDP_VERSION) &&
			bytes[i + 1] == (0x40 | RDMAP_TERMINATE) &&
			!memcmp(bytes + i + 6, numbers, sizeof(numbers)))
			return bytes + i + TERMINATE_HEAD_BYTES;
	}
	return NULL;
}

static bool frame_find(const uint8_t *bytes, uint32_t count, struct story_entry *entry)
{
	bool is_reply = count >= MPA_FRAME_BYTES && mpa_frame_follow_bytes(bytes, true) >= 0;

	if (count < MPA_FRAME_BYTES || (!is_reply && mpa_frame_follow_bytes(bytes, false) < 0))
		return false;
	snprintf(entry->name, sizeof(entry->name), is_reply ? "MPA_REPLY" : "MPA_REQUEST");
	entry->kind = is_reply ? STORY_RESPONSE : STORY_REQUEST;
	if (is_reply && (bytes[16] & 0x20)) {
		entry->kind = STORY_NAK;
		story_say(entry, "the iWARP connection is rejected");
		story_reason(entry, REASON_MPA_REJECTED);
	}
	return true;
}

static struct story_stream *stream_find(struct story *story, const struct story_entry *entry,
	uint16_t source_port, uint16_t destination_port)
{
	for (uint32_t i = 0; i < story->stream_count; i++) {
		struct story_stream *stream = &story->streams[i];

		if (stream->source_port == source_port &&
			stream->destination_port == destination_port &&
			gid_is_equal(&stream->source, &entry->source) &&
			gid_is_equal(&stream->destination, &entry->destination))
			return stream;
	}
	return NULL;
}

static struct story_stream *stream_add(struct story *story, const struct story_entry *entry,
	uint16_t source_port, uint16_t destination_port, uint32_t sequence)
{
	struct story_stream *stream;

	if (story->stream_count == STORY_STREAMS_MAX)
		return NULL;
	stream = &story->streams[story->stream_count++];
	*stream = (struct story_stream){.source = entry->source,
		.destination = entry->destination,
		.source_port = source_port,
		.destination_port = destination_port,
		.next = sequence};
	return stream;
}

static void segment_tell(const uint8_t *data, uint32_t count, struct story_entry *entry)
{
	const uint8_t *terminate = terminate_find(data, count);

	if (terminate) {
		uint32_t layer = terminate[0] >> 4, type = terminate[0] & 0xf;
		enum rdmap_error error = terminate_error(layer, type, terminate[1]);

		entry->kind = STORY_NAK;
		snprintf(entry->name, sizeof(entry->name), "TERMINATE");
		story_say(entry, "the stream is ended: %s (layer %u, type %u, code %u)",
			error ? rdmap_error_sentence(error) : "no error of RFC 5040, 5041 or 5044",
			layer, type, terminate[1]);
		story_reason(entry, REASON_TERMINATE_RECEIVED);
		terminate_reason(error, entry);
		return;
	}
	snprintf(entry->name, sizeof(entry->name), "TCP segment");
	if (count >= FPDU_HEAD_BYTES + 2 && (data[2] & DDP_VERSION_MASK) == DDP_VERSION &&
		data[3] >> 6 == 1)
		snprintf(entry->name, sizeof(entry->name), "%s", rdmap_name(data[3] & 0xf));
}

bool story_tcp_take(struct story *story, const struct story_ip *ip, struct story_entry *entry)
{
	const uint8_t *tcp = ip->data;
	uint16_t from = get_be16(tcp), to = get_be16(tcp + 2);
	uint32_t head = (tcp[12] >> 4) * 4u, sequence = get_be32(tcp + 4);
	struct story_stream *stream = stream_find(story, entry, from, to);
	bool is_frame;

	if (head < TCP_BYTES || head >= ip->count || head >= ip->whole)
		return false;
	entry->kind = STORY_REQUEST;
	entry->bytes = ip->whole - head;
	entry->psn = sequence;
	is_frame = frame_find(ip->data + head, ip->count - head, entry);
	if (!stream && !is_frame)
		return false;
	if (!is_frame)
		segment_tell(ip->data + head, ip->count - head, entry);
	if (!stream)
		stream = stream_add(story, entry, from, to, sequence);
	if (stream && (int32_t)(sequence - stream->next) < 0) {
		entry->kind = STORY_AGAIN;
		entry->about = stream->frame;
		story_say(entry, "TCP sends these bytes again");
	}
	if (stream && (int32_t)(sequence + entry->bytes - stream->next) > 0) {
		stream->next = sequence + entry->bytes;
		stream->frame = entry->number;
	}
	return true;
}
