/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tails: an acknowledgement in one super-packet with the requests that are sent behind it.
 *
 * A peer must complete its request before it receives the program's answer, so the engine sends the
 * acknowledgement first. But all packets of a super-packet have one size, except that the last may
 * be shorter, and an acknowledgement is shorter than a request. As a separate message the
 * acknowledgement would add half to the cost of a short answer. So it travels as the last packet of
 * the super-packet, the tail. A receiving port that gets the super-packet in one piece delivers the
 * tail first.
 *
 * If an adapter, rxe, or the network splits the super-packet, the tail is delivered last. So the
 * port sends an acknowledgement as a tail only to hosts from which tails have arrived: these hosts
 * know tails, and the network keeps super-packets whole. To other hosts the port sends the
 * acknowledgement before the requests. The first few times it also sends a copy as a tail, from
 * which another urnic learns that tails of this host arrive; any requester ignores the copy (IBTA
 * 9.7.5.1).
 */
#include <string.h>

#include "port/udp/udp_internal.h"
#include "wire/bth.h"
#include "wire/opcode.h"

/* Several copies, because the first may be lost, or arrive before the peer's path is open. */
enum { TAIL_COPIES_MAX = 4 };

static bool is_ack(const uint8_t *packet)
{
	const struct opcode_info *info = opcode_info(packet[0]);

	return info && info->operation == OPERATION_ACKNOWLEDGE;
}

static bool is_request(const uint8_t *packet)
{
	const struct opcode_info *info = opcode_info(packet[0]);

	return info && info->role == OPCODE_ROLE_REQUEST;
}

/*
 * The entry of a host. It may replace the entry of another host, with the count of copies sent to
 * that host. So the other host gets up to TAIL_COPIES_MAX copies once more.
 */
static struct udp_tails *tails_of(struct port_udp *port, uint8_t address, const struct gid *remote)
{
	uint32_t hash = get_be32(remote->raw + 12) * 0x9e3779b1u ^ (uint32_t)address << 26;
	struct udp_tails *tails = &port->tails[(hash >> 26) % UDP_TAILS_COUNT];

	if (!tails->is_used || tails->address != address || !gid_is_equal(&tails->remote, remote))
		*tails = (struct udp_tails){.is_used = true, .address = address, .remote = *remote};
	return tails;
}

/* --- sending --- */

/*
 * `first` is an acknowledgement. Returns how many of the staged packets behind it make a
 * super-packet whose tail it can be; 0: there is no such super-packet.
 */
static uint32_t body_count(const struct port_udp *port, uint32_t first)
{
	const struct udp_staged *ack = &port->staged[first], *body = ack + 1;
	uint32_t count, bytes = ack->bytes + ROCE_ICRC_BYTES;

	if (first + 1 >= port->staged_end || body->path != ack->path || body->bytes < ack->bytes ||
		!udp_is_for_same_slot(port, ack, body))
		return 0;
	count = udp_run_length(port, first + 1);
	if (count == UDP_SEGMENTS_MAX || body[count - 1].bytes != body->bytes)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		bytes += body[i].bytes + ROCE_ICRC_BYTES;
		if (!is_request(port->stage + body[i].offset))
			return 0;
	}
	return bytes <= UDP_SUPER_BYTES_MAX ? count : 0;
}

/* Stage a copy of the acknowledgement at `first` behind the `count` packets that follow it. */
static void copy_stage(struct port_udp *port, uint32_t first, uint32_t count)
{
	struct udp_staged copy = port->staged[first];
	struct udp_staged *place = &port->staged[first + 1 + count];

	memcpy(port->stage + port->stage_used_bytes, port->stage + copy.offset, copy.bytes);
	copy.offset = port->stage_used_bytes;
	copy.whole_offset = copy.offset;
	memmove(place + 1, place, (port->staged_end - (first + 1 + count)) * sizeof(*place));
	*place = copy;
	port->staged_end++;
	port->stage_used_bytes += copy.bytes + ROCE_ICRC_BYTES;
}

void udp_tail_arrange(struct port_udp *port, uint32_t first)
{
	struct udp_staged ack = port->staged[first];
	const struct udp_path *path = ack.path;
	struct udp_tails *tails;
	uint32_t count;

	if (!path->can_segment || !is_ack(port->stage + ack.offset))
		return;
	count = body_count(port, first);
	if (!count)
		return;
	tails = tails_of(port, path->settings.address, &path->settings.remote);
	if (tails->has_come) {
		memmove(&port->staged[first], &port->staged[first + 1], count * sizeof(ack));
		port->staged[first + count] = ack;
	} else if (tails->copies < TAIL_COPIES_MAX && port->staged_end < PORT_UDP_STAGE_PACKETS &&
		ack.bytes + ROCE_ICRC_BYTES <= PORT_UDP_STAGE_BYTES - port->stage_used_bytes) {
		tails->copies++;
		copy_stage(port, first, count);
	}
}

/* --- receiving --- */

size_t udp_tail_find(const uint8_t *data, size_t bytes, size_t segment_bytes)
{
	size_t tail = bytes > segment_bytes ? (bytes - 1) / segment_bytes * segment_bytes : 0;

	if (!tail || bytes - tail < BTH_BYTES || segment_bytes < BTH_BYTES || !is_ack(data + tail))
		return 0;
	for (size_t offset = 0; offset < tail; offset += segment_bytes)
		if (!is_request(data + offset))
			return 0;
	return tail;
}

void udp_tail_heard(struct port_udp *port, uint8_t address, const struct gid *remote)
{
	tails_of(port, address, remote)->has_come = true;
}
