/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/packet_story.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "common/packet_story_internal.h"
#include "wire/icrc.h"
#include "wire/infiniband/mad.h"
#include "wire/timer.h"

enum {
	UDP_BYTES = 8,
	TCP_BYTES = 20,
	ROOM_BYTES = 1 << 16,
	FRAMES_START = 1024,
	MTU_BYTES_MAX = 4096,
	AHEAD_MAX = 65536,
	NOTED_MAX = 4096, /* PSNs of a READ of which the story knows the frame */
};

void story_say(struct story_entry *entry, const char *format, ...)
{
	size_t bytes = strlen(entry->text);
	va_list arguments;

	if (bytes && bytes + 2 < sizeof(entry->text)) {
		memcpy(entry->text + bytes, "; ", 3);
		bytes += 2;
	}
	va_start(arguments, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start() is overlooked */
	vsnprintf(entry->text + bytes, sizeof(entry->text) - bytes, format, arguments);
	va_end(arguments);
}

struct story *story_create(void)
{
	return calloc(1, sizeof(struct story));
}

void story_destroy(struct story *story)
{
	for (uint32_t i = 0; i < story->flow_count; i++) {
		free(story->flows[i]->frames);
		free(story->flows[i]);
	}
	free(story);
}

/* --- flows --- */

static struct story_flow *flow_find(struct story *story, const struct story_entry *entry)
{
	struct story_flow *flow;

	for (uint32_t i = 0; i < story->flow_count; i++) {
		flow = story->flows[i];
		if (flow->qpn == entry->qpn && gid_is_equal(&flow->source, &entry->source) &&
			gid_is_equal(&flow->destination, &entry->destination)) {
			/* The next packet is often of the same flow: move it towards the front. */
			story->flows[i] = story->flows[i / 2];
			story->flows[i / 2] = flow;
			return flow;
		}
	}
	flow = story->flow_count < STORY_FLOWS_MAX ? calloc(1, sizeof(*flow)) : NULL;
	if (!flow)
		return NULL;
	flow->source = entry->source;
	flow->destination = entry->destination;
	flow->qpn = entry->qpn;
	story->flows[story->flow_count++] = flow;
	return flow;
}

/* The first frame that had the request packet with this PSN; 0: unknown. */
static uint32_t frame_of(const struct story_flow *flow, uint32_t psn)
{
	uint32_t index = (psn - flow->base) & U24_MASK;

	return flow->has_requests && index < flow->frame_room ? flow->frames[index] : 0;
}

/* Forget the frames of the first `count` PSNs. */
static void frames_slide(struct story_flow *flow, uint32_t count)
{
	uint32_t dropped = min_u32(count, flow->frame_room), kept = flow->frame_room - dropped;

	flow->base = (flow->base + count) & U24_MASK;
	if (!dropped)
		return;
	memmove(flow->frames, flow->frames + dropped, kept * sizeof(*flow->frames));
	memset(flow->frames + kept, 0, dropped * sizeof(*flow->frames));
}

static void frame_note(struct story_flow *flow, uint32_t psn, uint32_t number)
{
	uint32_t index, room = flow->frame_room;
	uint32_t *frames;

	if (u24_distance(psn, flow->base) < 0)
		return;
	index = (psn - flow->base) & U24_MASK;
	if (index >= STORY_FRAMES_MAX) {
		frames_slide(flow, index - STORY_FRAMES_MAX / 2);
		index = STORY_FRAMES_MAX / 2;
	}
	if (index >= room) {
		room = max_u32(pow2_ceil_u32(index + 1), FRAMES_START);
		frames = realloc(flow->frames, room * sizeof(*frames));
		if (!frames)
			return;
		memset(frames + flow->frame_room, 0, (room - flow->frame_room) * sizeof(*frames));
		flow->frames = frames;
		flow->frame_room = room;
	}
	flow->frames[index] = number;
}

/*
 * The flow of the requests that this flow of responses answers: the one in the other direction that
 * has the PSN among its unanswered requests.
 */
static struct story_flow *flow_answered(
	struct story *story, struct story_flow *flow, const struct story_entry *entry)
{
	for (uint32_t i = 0; i < story->flow_count && !flow->back; i++) {
		struct story_flow *other = story->flows[i];

		if (other->has_requests && !other->back &&
			gid_is_equal(&other->source, &entry->destination) &&
			gid_is_equal(&other->destination, &entry->source) &&
			u24_distance(entry->psn, other->una) >= 0 &&
			u24_distance(entry->psn, other->next) < 0) {
			flow->back = other->qpn + 1;
			other->back = flow->qpn + 1;
		}
	}
	for (uint32_t i = 0; i < story->flow_count && flow->back; i++) {
		struct story_flow *other = story->flows[i];

		if (other->qpn + 1 == flow->back &&
			gid_is_equal(&other->source, &entry->destination) &&
			gid_is_equal(&other->destination, &entry->source))
			return other;
	}
	return NULL;
}

/* --- requests --- */

static void request_remember(struct story_flow *flow, const struct packet *packet, uint32_t packets)
{
	struct story_request *request = &flow->requests[flow->request_count++ % STORY_REQUESTS];
	bool is_atomic = packet->info->headers & HEADER_ATOMICETH;

	*request = (struct story_request){
		.psn = packet->bth.psn.value,
		.packets = packets,
		.rkey = is_atomic ? packet->atomiceth.rkey : packet->reth.rkey,
		.address = is_atomic ? packet->atomiceth.va : packet->reth.va,
		.bytes = is_atomic ? 8 : packet->reth.dma_bytes,
		.name = packet->info->name,
	};
}

/* The request that names memory and has this PSN; NULL: none is known. */
static const struct story_request *request_with(const struct story_flow *flow, uint32_t psn)
{
	uint32_t count = min_u32(flow->request_count, STORY_REQUESTS);

	for (uint32_t i = 1; i <= count; i++) {
		const struct story_request *request =
			&flow->requests[(flow->request_count - i) % STORY_REQUESTS];
		int32_t distance = u24_distance(psn, request->psn);

		if (distance >= 0 && (uint32_t)distance < request->packets)
			return request;
	}
	return NULL;
}

/*
 * How many PSNs the packet's request takes, at least. The path MTU, and so the number of a READ's
 * responses, is unknown; answer_note() learns it from the responses.
 */
static uint32_t packets_of(const struct packet *packet)
{
	if (packet->info->operation != OPERATION_READ)
		return 1;
	return (uint32_t)max_u64(div_ceil_u64(packet->reth.dma_bytes, MTU_BYTES_MAX), 1);
}

/* Say why the requester goes back to this PSN. */
static void again_cause(struct story_flow *flow, const struct story_entry *entry)
{
	double waited_ms = (double)(int64_t)(entry->time_ns - flow->last_ns) / 1e6;
	bool is_demanded =
		flow->demand != STORY_REQUEST && u24_distance(entry->psn, flow->demand_psn) <= 0;

	if (is_demanded && flow->demand == STORY_NAK)
		snprintf(flow->again_text, sizeof(flow->again_text),
			"sent again, because the NAK in frame %u reports it lost",
			flow->demand_frame);
	else if (is_demanded)
		snprintf(flow->again_text, sizeof(flow->again_text),
			"sent again, after the wait that the RNR NAK in frame %u demands",
			flow->demand_frame);
	else
		snprintf(flow->again_text, sizeof(flow->again_text),
			"sent again, because no answer came within %.3f ms", waited_ms);
	if (is_demanded)
		flow->demand = STORY_REQUEST;
}

/* Describe a packet that is sent again: all packets of a series have the reason of the first. */
static void again_tell(struct story_flow *flow, uint32_t packets, struct story_entry *entry)
{
	entry->kind = STORY_AGAIN;
	entry->about = frame_of(flow, entry->psn);
	if (!flow->again_text[0] || entry->psn != flow->again_next)
		again_cause(flow, entry);
	flow->again_count++;
	flow->again_next = (entry->psn + packets) & U24_MASK;
	story_say(entry, "%s", flow->again_text);
	if (!entry->about)
		story_say(entry, "no earlier copy of it is in the capture");
}

/* Forget the PSNs so far: the next request has this PSN, which is far from them. */
static void flow_rebase(struct story_flow *flow, uint32_t psn)
{
	if (flow->frames)
		memset(flow->frames, 0, flow->frame_room * sizeof(*flow->frames));
	flow->base = flow->next = flow->una = psn;
	flow->request_count = 0;
	flow->again_count = 0;
	flow->answer = STORY_REQUEST;
	flow->demand = STORY_REQUEST;
	flow->again_text[0] = '\0';
}

/*
 * Does a request with this PSN begin a new connection? It does if the PSN is before the oldest
 * unanswered one, so that it cannot be sent again, and the story has not seen it.
 */
static bool is_new_connection(const struct story_flow *flow, uint32_t psn)
{
	return u24_distance(psn, flow->una) < 0 && !frame_of(flow, psn);
}

static void request_take(
	struct story_flow *flow, const struct packet *packet, struct story_entry *entry)
{
	uint32_t packets = packets_of(packet);
	int32_t ahead;

	entry->kind = STORY_REQUEST;
	entry->from_qpn = flow->back ? flow->back - 1 : 0;
	if (!flow->has_requests) {
		flow->has_requests = true;
		flow->base = flow->next = flow->una = entry->psn;
	}
	ahead = u24_distance(entry->psn, flow->next);
	if (ahead > AHEAD_MAX || is_new_connection(flow, entry->psn)) {
		flow_rebase(flow, entry->psn);
		ahead = 0;
	}
	if (ahead < 0) {
		again_tell(flow, packets, entry);
		frame_note(flow, entry->psn, entry->number);
		return;
	}
	if (ahead > 0 && !flow->is_after_read)
		story_say(entry, "%d packet%s before it %s not in the capture", ahead,
			ahead == 1 ? "" : "s", ahead == 1 ? "is" : "are");
	if (packet->info->headers & (HEADER_RETH | HEADER_ATOMICETH))
		request_remember(flow, packet, packets);
	for (uint32_t i = 0; i < min_u32(packets, NOTED_MAX); i++)
		frame_note(flow, (entry->psn + i) & U24_MASK, entry->number);
	flow->next = (entry->psn + packets) & U24_MASK;
	flow->again_text[0] = '\0';
	flow->is_after_read = packet->info->operation == OPERATION_READ;
	flow->last_frame = entry->number;
	flow->last_ns = entry->time_ns;
}

/* --- answers --- */

/* What the responder may have checked, for a request that it calls invalid. */
static void invalid_reasons(const struct story_request *request, struct story_entry *entry)
{
	story_reason(entry, REASON_REMOTE_INVALID);
	if (!request) {
		story_reason(entry, REASON_RECEIVE_TOO_SHORT);
		story_reason(entry, REASON_MALFORMED);
		return;
	}
	story_reason(entry, REASON_QP_RIGHT);
	if (strstr(request->name, "READ") || strstr(request->name, "COMPARE") ||
		strstr(request->name, "FETCH"))
		story_reason(entry, REASON_RD_ATOMIC);
	if (!strstr(request->name, "READ") && request->address % 8)
		story_reason(entry, REASON_ALIGNMENT);
	story_reason(entry, REASON_MALFORMED);
}

/*
 * Which check of the region refused the request: if earlier requests by the same key succeeded, the
 * key is right, so the range or the right is wrong.
 */
static void access_reasons(const struct story_flow *flow, const struct story_request *request,
	struct story_entry *entry)
{
	/* A capture that begins behind the request may lack the flow, too. */
	uint32_t count = request ? min_u32(flow->request_count, STORY_REQUESTS) : 0;
	const struct story_request *good = NULL;

	story_reason(entry, REASON_REMOTE_ACCESS);
	for (uint32_t i = 0; i < count; i++) {
		const struct story_request *other = &flow->requests[i];

		if (other != request && other->rkey == request->rkey &&
			u24_distance(other->psn, request->psn) < 0)
			good = other;
	}
	if (good) {
		story_say(entry, "a %s of %u bytes at 0x%lx by the same rkey succeeded before",
			good->name, good->bytes, (unsigned long)good->address);
		story_reason(entry, REASON_REGION_BOUNDS);
		story_reason(entry, REASON_REGION_RIGHT);
		story_reason(entry, REASON_REGION_KEY);
		return;
	}
	story_reason(entry, REASON_REGION_KEY);
	story_reason(entry, REASON_REGION_BOUNDS);
	story_reason(entry, REASON_REGION_RIGHT);
	story_reason(entry, REASON_REGION_PD);
}

static void nak_tell(const struct story_flow *flow, uint8_t code, struct story_entry *entry)
{
	const struct story_request *request = flow ? request_with(flow, entry->psn) : NULL;

	entry->kind = STORY_NAK;
	switch (code) {
	case AETH_NAK_PSN_SEQUENCE:
		story_say(entry,
			"NAK, sequence error: packets from PSN 0x%06x on are missing at the receiver",
			entry->psn);
		return;
	case AETH_NAK_INVALID_REQUEST:
		story_say(entry, "NAK, invalid request");
		break;
	case AETH_NAK_REMOTE_ACCESS:
		story_say(entry, "NAK, remote access error");
		break;
	case AETH_NAK_REMOTE_OPERATIONAL:
		story_say(entry, "NAK, remote operational error");
		story_reason(entry, REASON_REMOTE_OPERATIONAL);
		break;
	default: /* INVALID_RD_REQUEST is for RD alone */
		story_say(entry, "NAK with the %s code %u, which requesters ignore",
			code == AETH_NAK_INVALID_RD_REQUEST ? "reliable datagrams'" : "reserved",
			code);
		return;
	}
	if (request)
		story_say(entry, "it answers the %s of %u bytes at 0x%lx by rkey 0x%08x",
			request->name, request->bytes, (unsigned long)request->address,
			request->rkey);
	if (code == AETH_NAK_INVALID_REQUEST)
		invalid_reasons(request, entry);
	if (code == AETH_NAK_REMOTE_ACCESS)
		access_reasons(flow, request, entry);
}

static void rnr_tell(uint8_t code, struct story_entry *entry)
{
	entry->kind = STORY_RNR;
	story_say(entry, "RNR NAK: no receive request; the sender is to wait %.3f ms",
		(double)rnr_timer_ns(code) / 1e6);
	story_reason(entry, REASON_NO_RECEIVE);
}

/* Note in the flow of requests what was answered. */
static void answer_note(
	struct story_flow *flow, const struct packet *packet, const struct story_entry *entry)
{
	bool is_ack = !(packet->info->headers & HEADER_AETH) || packet->aeth.kind == AETH_ACK;
	uint32_t una = (entry->psn + is_ack) & U24_MASK;

	if (u24_distance(una, flow->next) > 0)
		flow->next = una;
	if (u24_distance(una, flow->una) > 0) {
		flow->una = una;
		flow->again_count = 0;
	}
	flow->last_ns = entry->time_ns;
	flow->answer = is_ack ? STORY_RESPONSE : entry->kind;
	if (!is_ack) {
		flow->demand = entry->kind;
		flow->demand_psn = entry->psn;
		flow->demand_frame = entry->number;
	} else if (flow->demand != STORY_REQUEST && u24_distance(una, flow->demand_psn) > 0) {
		flow->demand = STORY_REQUEST;
	}
}

static void answer_take(struct story *story, struct story_flow *flow, const struct packet *packet,
	struct story_entry *entry)
{
	struct story_flow *asked = flow_answered(story, flow, entry);

	entry->kind = STORY_RESPONSE;
	entry->is_response = true;
	if (asked) {
		entry->about = frame_of(asked, entry->psn);
		/* How many PSNs a READ's responses have is known only when they come. */
		if (!entry->about && packet->info->operation == OPERATION_READ_RESPONSE)
			entry->about = flow->answered_frame;
		flow->answered_frame = entry->about;
		entry->from_qpn = asked->qpn;
	}
	if (packet->info->operation == OPERATION_ACKNOWLEDGE && packet->aeth.kind == AETH_NAK)
		nak_tell(asked, packet->aeth.value, entry);
	else if (packet->info->operation == OPERATION_ACKNOWLEDGE &&
		packet->aeth.kind == AETH_RNR_NAK)
		rnr_tell(packet->aeth.value, entry);
	if (asked)
		answer_note(asked, packet, entry);
}

/* --- packets --- */

static bool icrc_is_good(const struct story_ip *ip, const uint8_t *packet, uint32_t count)
{
	bool is_ipv4 = gid_is_ipv4(&ip->header.sgid);
	struct icrc_flow flow;

	icrc_flow_init(
		&flow, ip->header.sgid.raw, ip->header.dgid.raw, get_be16(ip->data), ROCE_UDP_PORT);
	return icrc_verify(&flow, is_ipv4 ? get_be16(ip->bytes + IPV4_ID) : 0,
		is_ipv4 ? get_be16(ip->bytes + IPV4_FLAGS) : 0, packet, count);
}

static void datagram_take(
	struct story *story, const struct packet *packet, struct story_entry *entry)
{
	const uint32_t from_qpn = packet->deth.source_qpn.value;
	const struct story_entry sender = {.source = entry->source, .qpn = from_qpn};
	struct story_flow *flow = from_qpn > GSI_QPN ? flow_find(story, &sender) : NULL;

	entry->kind = STORY_DATAGRAM;
	entry->from_qpn = from_qpn;
	if (entry->qpn == GSI_QPN)
		story_mad_take(packet, entry);
	else if (flow)
		story_datagram_take(flow, entry);
}

static void packet_take(struct story *story, const struct story_ip *ip, const struct packet *packet,
	struct story_entry *entry)
{
	struct story_flow *flow;

	snprintf(entry->name, sizeof(entry->name), "%s", packet->info->name);
	entry->qpn = packet->bth.dest_qpn.value;
	entry->psn = packet->bth.psn.value;
	entry->bytes = packet->payload_bytes;
	flow = flow_find(story, entry);
	if (packet->info->role == OPCODE_ROLE_CONGESTION) {
		entry->kind = STORY_MARK;
		story_say(entry, "congestion notification: its receiver is to send slower");
	} else if (packet->info->headers & HEADER_DETH) {
		datagram_take(story, packet, entry);
	} else if (!flow) {
		entry->kind = STORY_REQUEST;
	} else if (packet->info->role == OPCODE_ROLE_RESPONSE) {
		answer_take(story, flow, packet, entry);
	} else if (opcode_class(packet->info) == OPCODE_CLASS_UC) {
		story_unreliable_take(flow, entry);
	} else {
		request_take(flow, packet, entry);
	}
	if (packet->info->role != OPCODE_ROLE_CONGESTION &&
		(packet->bth.fecn || roce_is_marked(ip->header.traffic_class))) {
		story_say(entry, "marked: congestion on the way");
		if (entry->kind <= STORY_DATAGRAM)
			entry->kind = STORY_MARK;
	}
}

static bool udp_take(struct story *story, const struct story_ip *ip, struct story_entry *entry)
{
	static uint8_t room[ROOM_BYTES];
	uint32_t bytes = get_be16(ip->data + 4), count;
	struct packet packet;

	if (get_be16(ip->data + 2) != ROCE_UDP_PORT ||
		bytes < UDP_BYTES + BTH_BYTES + ROCE_ICRC_BYTES || bytes > ip->whole)
		return false;
	bytes -= UDP_BYTES + ROCE_ICRC_BYTES;
	count = min_u32(ip->count - UDP_BYTES, bytes);
	memset(room, 0, bytes);
	memcpy(room, ip->data + UDP_BYTES, count);
	snprintf(entry->name, sizeof(entry->name), "RoCE");
	if (packet_decode(&packet, room, bytes) != PACKET_OK) {
		entry->kind = STORY_DAMAGED;
		story_say(entry, "malformed: the receiver drops it");
	} else if (ip->count >= bytes + UDP_BYTES + ROCE_ICRC_BYTES &&
		!icrc_is_good(ip, ip->data + UDP_BYTES, bytes)) {
		snprintf(entry->name, sizeof(entry->name), "%s", packet.info->name);
		entry->qpn = packet.bth.dest_qpn.value;
		entry->psn = packet.bth.psn.value;
		entry->kind = STORY_DAMAGED;
		story_say(entry, "the ICRC is wrong: the receiver drops it");
	} else {
		packet_take(story, ip, &packet, entry);
	}
	return true;
}

static bool ip_read(const struct capture_file_frame *frame, struct story_ip *ip)
{
	uint32_t count = frame->count - frame->ip_offset, head;
	const uint8_t *bytes = frame->bytes + frame->ip_offset;
	bool is_ipv4 = count > 0 && bytes[0] >> 4 == 4;

	head = is_ipv4 ? IPV4_BYTES : IPV6_BYTES;
	if (count < head ||
		!(is_ipv4 ? ipv4_header_decode(&ip->header, bytes)
			  : ipv6_header_decode(&ip->header, bytes)))
		return false;
	ip->bytes = bytes;
	ip->data = bytes + head;
	ip->whole = ip->header.payload_bytes;
	ip->count = min_u32(count - head, ip->whole);
	return true;
}

bool story_take(
	struct story *story, const struct capture_file_frame *frame, struct story_entry *ret_entry)
{
	struct story_ip ip;

	if (!ip_read(frame, &ip))
		return false;
	*ret_entry = (struct story_entry){.number = frame->number,
		.time_ns = frame->time_ns,
		.source = ip.header.sgid,
		.destination = ip.header.dgid};
	if (ip.header.next_header == IP_PROTOCOL_UDP && ip.count >= UDP_BYTES + BTH_BYTES)
		return udp_take(story, &ip, ret_entry);
	if (ip.header.next_header == IP_PROTOCOL_TCP && ip.count > TCP_BYTES)
		return story_tcp_take(story, &ip, ret_entry);
	return false;
}

/* Do requests of the flow have no answer, although the requester sent them again? */
static bool is_unanswered(const struct story_flow *flow)
{
	return flow->has_requests && flow->again_count && flow->una != flow->next &&
		flow->answer != STORY_NAK;
}

bool story_next_unanswered(struct story *story, struct story_entry *ret_entry)
{
	while (story->unanswered < story->flow_count) {
		const struct story_flow *flow = story->flows[story->unanswered++];

		if (!is_unanswered(flow))
			continue;
		*ret_entry = (struct story_entry){.kind = STORY_UNANSWERED,
			.number = flow->last_frame,
			.time_ns = flow->last_ns,
			.source = flow->source,
			.destination = flow->destination,
			.qpn = flow->qpn,
			.from_qpn = flow->back ? flow->back - 1 : 0,
			.psn = flow->una,
			.about = frame_of(flow, flow->una),
			.name = "no answer"};
		story_say(ret_entry,
			"no answer from PSN 0x%06x to 0x%06x; the requester sent %u packet%s again",
			flow->una, (flow->next - 1) & U24_MASK, flow->again_count,
			flow->again_count == 1 ? "" : "s");
		story_reason(ret_entry,
			flow->answer == STORY_RNR ? REASON_RNR_RETRY_EXCEEDED
						  : REASON_RETRY_EXCEEDED);
		return true;
	}
	return false;
}
