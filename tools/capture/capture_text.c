/* SPDX-License-Identifier: BSD-2-Clause */
/* The output of urnic capture as text: a line for each packet. */
#include <arpa/inet.h>
#include <time.h>

#include "base/arith.h"
#include "capture/capture_output.h"
#include "queue/completion.h"
#include "queue/sq.h"
#include "wire/packet.h"

enum { TEXT_BYTES = 96 };

static const char *gid_text(const struct gid *gid, char text[INET6_ADDRSTRLEN])
{
	bool is_ipv4 = gid_is_ipv4(gid);

	return inet_ntop(is_ipv4 ? AF_INET : AF_INET6, is_ipv4 ? gid->raw + 12 : gid->raw, text,
		INET6_ADDRSTRLEN);
}

static void time_print(FILE *file, uint64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / 1000000000u);
	struct tm tm;
	char text[16] = "";

	if (localtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
	fprintf(file, "%s.%06u", text, (unsigned)(time_ns % 1000000000u / 1000u));
}

/* The text of an AETH. */
static void aeth_text(const struct packet *packet, char text[TEXT_BYTES])
{
	static const char *const kinds[] = {
		[AETH_ACK] = "ACK",
		[AETH_RNR_NAK] = "RNR NAK",
		[AETH_RESERVED] = "reserved",
		[AETH_NAK] = "NAK",
	};

	snprintf(text, TEXT_BYTES, ", %s %u, MSN %u", kinds[packet->aeth.kind], packet->aeth.value,
		packet->aeth.msn.value);
}

static void headers_print(FILE *file, const struct packet *packet)
{
	uint16_t headers = packet->info->headers;
	char text[TEXT_BYTES] = "";

	if (headers & HEADER_AETH)
		aeth_text(packet, text);
	fprintf(file, " %s PSN %u%s", packet->info->name, packet->bth.psn.value, text);
	if (headers & HEADER_DETH)
		fprintf(file, ", from QP 0x%06x", packet->deth.source_qpn.value);
	if (headers & HEADER_RETH)
		fprintf(file, ", %u bytes at 0x%lx in 0x%08x", packet->reth.dma_bytes,
			(unsigned long)packet->reth.va, packet->reth.rkey);
	if (headers & HEADER_ATOMICETH)
		fprintf(file, ", 8 bytes at 0x%lx in 0x%08x", (unsigned long)packet->atomiceth.va,
			packet->atomiceth.rkey);
	if (headers & HEADER_IMMDT)
		fprintf(file, ", immediate 0x%08x", packet->immdt.data);
	if (headers & HEADER_IETH)
		fprintf(file, ", invalidates 0x%08x", packet->ieth.rkey);
}

/*
 * Decode the headers of a packet. Returns false if they are not complete. The end of the payload
 * may be missing: `room` is memory for the whole packet, with zeroes in place of missing bytes.
 */
static bool captured_decode(const struct captured *head, const uint8_t *bytes,
	struct packet *packet, uint8_t room[CAPTURED_BYTES_MAX])
{
	const struct opcode_info *info;

	if (head->captured_bytes < BTH_BYTES || head->packet_bytes > CAPTURED_BYTES_MAX)
		return false;
	info = opcode_info(bytes[0]);
	if (!info || head->captured_bytes < info->header_bytes)
		return false;
	memset(room, 0, head->packet_bytes);
	memcpy(room, bytes,
		head->captured_bytes < head->packet_bytes ? head->captured_bytes
							  : head->packet_bytes);
	return packet_decode(packet, room, head->packet_bytes) == PACKET_OK;
}

static const char *const request_names[WR_OPCODE_COUNT] = {
#define WORK_REQUEST(name, number, completion, operation, types, flags) [number] = #name,
#include "queue/work_request.def"
#undef WORK_REQUEST
};

static const char *const state_names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

static const char *name_of(const char *const *names, uint32_t count, uint32_t number)
{
	return number < count && names[number] ? names[number] : "?";
}

bool capture_event_text(
	const struct captured *head, const struct captured_event *event, char *text, size_t room)
{
	char address[INET6_ADDRSTRLEN];
	unsigned long wr_id = (unsigned long)event->wr_id;
	int used = snprintf(text, room, "%s 0x%06x ", gid_text(&head->source, address), head->qpn);

	text += used;
	room -= (size_t)used;
	switch (event->kind) {
	case CAPTURED_POST:
		snprintf(text, room, "post %s, %u bytes, wr_id %lu, %u at once",
			name_of(request_names, WR_OPCODE_COUNT, event->number), event->bytes, wr_id,
			event->count);
		return true;
	case CAPTURED_COMPLETION:
		snprintf(text, room, "completion of a %s, status %u, %u bytes, wr_id %lu",
			event->count & WC_RECV ? "receive" : "send", event->number, event->bytes,
			wr_id);
		return true;
	case CAPTURED_STATE:
		snprintf(text, room, "state %s to %s",
			name_of(state_names, ARRAY_COUNT(state_names), event->count),
			name_of(state_names, ARRAY_COUNT(state_names), event->number));
		return true;
	default:
		return false;
	}
}

void capture_text(FILE *file, const struct captured *head, const uint8_t *bytes,
	const struct capture_origin *origin, const char *interface, uint64_t time_ns)
{
	char source[INET6_ADDRSTRLEN], destination[INET6_ADDRSTRLEN];
	uint8_t room[CAPTURED_BYTES_MAX];
	struct packet packet;

	time_print(file, time_ns);
	fprintf(file, " %s %s[%d] %s %s > %s", interface, origin->comm, origin->pid,
		head->is_sent ? "out" : "in", gid_text(&head->source, source),
		gid_text(&head->destination, destination));
	if (captured_decode(head, bytes, &packet, room)) {
		fprintf(file, " QP 0x%06x", packet.bth.dest_qpn.value);
		headers_print(file, &packet);
		if (packet.payload_bytes)
			fprintf(file, ", %u bytes of data", packet.payload_bytes);
	} else {
		fprintf(file, " malformed, %u bytes", head->packet_bytes);
	}
	if (origin->dropped)
		fprintf(file, " (%lu lost before)", (unsigned long)origin->dropped);
	fputc('\n', file);
}
