/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bypass of IP and UDP: an AF_PACKET socket on the interface of a local address.
 *
 * The kernel passes each packet to such sockets before its network stack, and writes it into a ring
 * that the port reads without a system call. Frames that the port sends bypass the kernel's routing
 * and its UDP. That halves the cost of a short packet.
 *
 * Receiving. Short datagrams arrive in the ring only; a filter keeps them from the UDP socket. Long
 * datagrams arrive at the UDP socket, because the ring would cost a second copy. For each of them
 * the ring gets a mark: the datagram's headers, which show its place in the order of arrival.
 * The kernel writes the mark a moment after the UDP socket has the datagram. Mark and datagram have
 * the same BTH, so the port knows which belong together. A full ring may lose a mark, a full UDP
 * socket a datagram. When the port reads a datagram whose mark is not in the ring yet, it first
 * delivers the frames in the ring and then the datagram; it drops the mark when the mark arrives.
 * When the port reads a mark whose datagram is missing, it waits for that datagram. It drops the
 * mark after BYPASS_STALLED_LOOKS_MAX reads, or when the datagram of the next mark has arrived.
 *
 * A datagram that begins with a middle packet of a message has no mark. Nearly all datagrams of a
 * long message begin so, and marks for them would cost a tenth of the bandwidth. The PSN of a later
 * packet shows that such datagrams are missing, and that packet waits for them (udp_order.c).
 *
 * Packets that arrive by another interface go to the UDP socket; packets of this host, for example,
 * arrive by loopback.
 *
 * Sending. Short messages are sent as frames. Long messages use the UDP socket, which copies them
 * faster than a packet socket does: into large pieces of memory instead of page by page. Both
 * sockets pass messages to the same queue of the interface, in order.
 *
 * udp_bypass_open.c sets up socket, ring and filters; udp_neighbour.c has the Ethernet addresses.
 */
#include <assert.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <string.h>

#include "port/udp/udp_internal.h"
#include "wire/bth.h"

enum {
	BYPASS_SEND_BYTES_MAX = 4096, /* of UDP payload; longer messages use the UDP socket */
	BYPASS_MARKS_SEARCHED = 64, /* ring entries in which mark_find() looks for a mark */
	GSO_UDP_L4 = 5, /* VIRTIO_NET_HDR_GSO_UDP_L4 of Linux 6.2 */
};

/* --- receiving --- */

static struct tpacket2_hdr *slot_at(const struct udp_bypass *bypass, uint32_t index)
{
	return (struct tpacket2_hdr *)(void *)(bypass->ring +
		(size_t)(index % BYPASS_SLOTS_COUNT) * BYPASS_SLOT_BYTES);
}

/* The slot `ahead` places after the next one to read, if the kernel has filled it; else NULL. */
static struct tpacket2_hdr *slot_filled(const struct udp_bypass *bypass, uint32_t ahead)
{
	struct tpacket2_hdr *slot = slot_at(bypass, bypass->next_slot + ahead);

	return __atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER ? slot : NULL;
}

static void slot_release(struct udp_bypass *bypass, struct tpacket2_hdr *slot)
{
	__atomic_store_n(&slot->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	bypass->next_slot = (bypass->next_slot + 1) % BYPASS_SLOTS_COUNT;
	bypass->stalled_looks = 0;
}

static bool is_mark(const struct tpacket2_hdr *slot)
{
	return slot->tp_snaplen < slot->tp_len;
}

static void count_losses(struct port_udp *port, const struct udp_bypass *bypass)
{
	struct tpacket_stats statistics;
	socklen_t bytes = sizeof(statistics);

	if (!getsockopt(bypass->fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &bytes))
		port->counters->rx_queue_overflows += statistics.tp_drops;
}

bool udp_frame_take(struct port_udp *port, uint8_t address, const struct roce_frame *frame,
	const uint8_t *macs, uint32_t segment_bytes, bool may_be_early,
	port_udp_packet_fn *on_packet, void *context)
{
	const struct udp_datagram datagram = {
		.address = address,
		.tos = frame->tos,
		.hop_limit = port->reports_hops ? frame->hop_limit : 0,
		.segment_bytes = segment_bytes,
	};
	struct udp_flow *flow = udp_flow_of(port, address, &frame->sgid, frame->source_port);

	if (!may_be_early && frame->data_bytes >= BTH_BYTES &&
		udp_order_is_early(port, flow, frame->data))
		return false;
	port->counters->rx_datagrams++;
	port->counters->rx_frames++;
	if (udp_datagram_split(
		    port, &datagram, flow, frame->data, frame->data_bytes, on_packet, context))
		udp_neighbour_heard(port, address, &frame->sgid, macs);
	return true;
}

/* udp_frame_take() for the frame in a slot. */
static bool take_frame(struct port_udp *port, uint8_t address, const struct tpacket2_hdr *slot,
	bool may_be_early, port_udp_packet_fn *on_packet, void *context)
{
	const uint8_t *bytes = (const uint8_t *)slot + slot->tp_mac;
	uint32_t segment_bytes = UINT32_MAX;
	struct virtio_net_hdr vnet;
	struct roce_frame frame;

	if (!roce_frame_decode(&frame, bytes, slot->tp_snaplen)) {
		port->counters->rx_short++;
		return true;
	}
	memcpy(&vnet, bytes - UDP_VNET_BYTES, UDP_VNET_BYTES);
	if (vnet.gso_type != VIRTIO_NET_HDR_GSO_NONE && vnet.gso_size)
		segment_bytes = vnet.gso_size;
	return udp_frame_take(
		port, address, &frame, bytes, segment_bytes, may_be_early, on_packet, context);
}

static bool is_mark_of(const struct tpacket2_hdr *slot, const uint8_t *data)
{
	const uint8_t *end = (const uint8_t *)slot + slot->tp_mac + slot->tp_snaplen;

	return is_mark(slot) && slot->tp_snaplen >= BTH_BYTES &&
		memcmp(end - BTH_BYTES, data, BTH_BYTES) == 0;
}

/* Note that the port delivers the datagram that begins with `data` before its mark has arrived. */
static void unmarked_note(struct udp_bypass *bypass, const uint8_t *data)
{
	struct udp_unmarked *unmarked =
		&bypass->unmarked[bypass->next_unmarked++ % BYPASS_UNMARKED_COUNT];

	unmarked->is_used = true;
	memcpy(unmarked->start, data, BTH_BYTES);
}

/* Has the port already delivered the mark's datagram? Then remove that datagram from `unmarked`. */
static bool mark_is_late(struct udp_bypass *bypass, const struct tpacket2_hdr *slot)
{
	for (unsigned i = 0; i < BYPASS_UNMARKED_COUNT; i++) {
		struct udp_unmarked *unmarked = &bypass->unmarked[i];

		if (unmarked->is_used && is_mark_of(slot, unmarked->start)) {
			unmarked->is_used = false;
			return true;
		}
	}
	return false;
}

/*
 * Deliver the frames in the ring up to the next mark. The caller then delivers a datagram whose
 * mark has not arrived yet; these frames arrived before that datagram.
 */
static void frames_catch_up(
	struct port_udp *port, uint8_t address, port_udp_packet_fn *on_packet, void *context)
{
	struct udp_bypass *bypass = port->receivers[address].bypass;
	struct tpacket2_hdr *slot;

	while ((slot = slot_filled(bypass, 0))) {
		if (is_mark(slot) ? !mark_is_late(bypass, slot)
				  : !take_frame(port, address, slot, false, on_packet, context))
			return;
		slot_release(bypass, slot);
	}
}

/*
 * Returns how many places after the next slot to read the datagram's mark is; -1: the ring has no
 * such mark.
 */
static int mark_find(const struct udp_bypass *bypass, const uint8_t *data)
{
	const struct tpacket2_hdr *slot;

	if (udp_order_is_middle(data))
		return -1;
	for (unsigned ahead = 0;
		ahead < BYPASS_MARKS_SEARCHED && (slot = slot_filled(bypass, ahead)); ahead++)
		if (is_mark_of(slot, data))
			return (int)ahead;
	return -1;
}

bool udp_bypass_catch_up(struct port_udp *port, uint8_t address, const uint8_t *data, size_t bytes,
	uint8_t ret_macs[ROCE_MACS_BYTES], port_udp_packet_fn *on_packet, void *context)
{
	struct udp_bypass *bypass = port->receivers[address].bypass;
	int ahead = bytes < BTH_BYTES ? -1 : mark_find(bypass, data);
	bool has_mark = ahead >= 0;

	if (!has_mark && bytes >= BTH_BYTES && !udp_order_is_middle(data)) {
		frames_catch_up(port, address, on_packet, context);
		unmarked_note(bypass, data);
	}
	for (; ahead >= 0; ahead--) {
		struct tpacket2_hdr *slot = slot_at(bypass, bypass->next_slot);

		if (!is_mark(slot))
			take_frame(port, address, slot, true, on_packet, context);
		else if (ahead > 0)
			port->counters->rx_marks_lost += !mark_is_late(bypass, slot);
		else
			memcpy(ret_macs, (const uint8_t *)slot + slot->tp_mac, ROCE_MACS_BYTES);
		slot_release(bypass, slot);
	}
	return has_mark;
}

/*
 * Deliver the frame in the next slot of the ring, or drop the mark there. Returns false when the
 * port still waits for a datagram of the UDP socket, which it has to deliver first.
 */
static bool take_next(struct port_udp *port, uint8_t address, struct tpacket2_hdr *slot,
	port_udp_packet_fn *on_packet, void *context)
{
	struct udp_bypass *bypass = port->receivers[address].bypass;
	bool may_wait = bypass->stalled_looks <= BYPASS_STALLED_LOOKS_MAX;

	if (is_mark(slot)) {
		bool is_late = mark_is_late(bypass, slot);

		if (may_wait && !is_late)
			return false;
		port->counters->rx_marks_lost += !is_late;
	} else if (!take_frame(port, address, slot, !may_wait, on_packet, context)) {
		return false;
	}
	if (slot->tp_status & TP_STATUS_LOSING)
		count_losses(port, bypass);
	slot_release(bypass, slot);
	return true;
}

unsigned udp_bypass_receive(
	struct port_udp *port, uint8_t address, port_udp_packet_fn *on_packet, void *context)
{
	struct udp_bypass *bypass = port->receivers[address].bypass;
	struct tpacket2_hdr *slot;
	unsigned total = 0, count;

	if (bypass->xdp)
		return udp_xdp_receive(port, address, on_packet, context);
	while (total < BYPASS_BATCH && (slot = slot_filled(bypass, 0))) {
		if (take_next(port, address, slot, on_packet, context)) {
			total++;
			continue;
		}
		count = udp_socket_receive(port, address, on_packet, context);
		if (!count)
			bypass->stalled_looks++;
		return total + count;
	}
	return total;
}

/* --- sending --- */

struct udp_bypass *udp_bypass_of(const struct port_udp *port, const struct udp_path *path,
	uint32_t data_bytes, uint64_t now_ms)
{
	const struct udp_neighbour *neighbour = path->neighbour;

	if (!neighbour || data_bytes > BYPASS_SEND_BYTES_MAX ||
		now_ms - neighbour->heard_ms > UDP_HEARD_MS ||
		now_ms - neighbour->confirmed_ms > UDP_CONFIRMED_MS ||
		now_ms - neighbour->routed_ms > UDP_ROUTED_MS)
		return NULL;
	return port->receivers[neighbour->address].bypass;
}

uint32_t udp_bypass_headers_make(
	const struct udp_path *path, uint32_t data_bytes, uint32_t segment_bytes, uint8_t *to)
{
	const struct roce_frame_headers *headers = &path->headers;
	const struct virtio_net_hdr vnet = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = segment_bytes ? GSO_UDP_L4 : VIRTIO_NET_HDR_GSO_NONE,
		.hdr_len = headers->count,
		.gso_size = (uint16_t)segment_bytes,
		.csum_start = (uint16_t)(headers->count - ROCE_UDP_BYTES),
		.csum_offset = ROCE_FRAME_UDP_CHECKSUM,
	};

	static_assert(sizeof(vnet) == UDP_VNET_BYTES, "what the kernel reads in front of a frame");
	memcpy(to, &vnet, sizeof(vnet));
	roce_frame_headers_write(headers, path->neighbour->macs, data_bytes, to + sizeof(vnet));
	return (uint32_t)sizeof(vnet) + headers->count;
}
