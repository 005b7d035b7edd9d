/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port's packets through AF_XDP (udp_xdp.h): which address has a socket, which address a received
 * frame is for, and how messages are sent.
 *
 * As with AF_PACKET (udp_bypass.c), the port sends frames only to Ethernet addresses that the
 * kernel has confirmed, and only short messages: the UDP socket takes long ones in larger pieces.
 * Unlike there, received packets of all lengths arrive here, one by one. So the packets of a
 * message stay in order without marks.
 */
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "port/udp/udp_internal.h"
#include "port/udp/udp_xdp.h"
#include "wire/opcode.h"

enum {
	XDP_PKEY_OFFSET = 2, /* in a BTH */
	XDP_PACKET_STEP = 4, /* the length of each packet is a multiple of it */
	XDP_ENDS_MAX = 8, /* possible ends of the first packet that segment_find() tries */
};

/* --- receiving --- */

/* The port's address with this GID that shares `xdp`; -1: there is none. */
static int address_find(
	const struct port_udp *port, const struct udp_xdp *xdp, const struct gid *gid)
{
	for (uint32_t i = 0; i < port->receiver_count; i++) {
		const struct udp_receiver *receiver = &port->receivers[i];

		if (receiver->bypass && receiver->bypass->xdp == xdp &&
			gid_is_equal(&receiver->gid, gid))
			return (int)i;
	}
	return -1;
}

/* Is this one packet with a good ICRC? `bytes` is its length with the ICRC. */
static bool is_packet(
	struct port_udp *port, const struct udp_flow *flow, const uint8_t *data, uint32_t bytes)
{
	uint16_t id;

	return bytes >= BTH_BYTES + ROCE_ICRC_BYTES &&
		icrc_verify_any_id(&flow->icrc, &port->lengths, flow->next_id, data,
			bytes - ROCE_ICRC_BYTES, &id);
}

/* If a packet begins at `data`, can the next one of its super-packet begin at `next`? */
static bool is_next_plausible(const uint8_t *data, const uint8_t *next)
{
	return opcode_info(next[0]) && next[UDP_SLOT_OFFSET] == data[UDP_SLOT_OFFSET] &&
		memcmp(next + XDP_PKEY_OFFSET, data + XDP_PKEY_OFFSET, sizeof(uint16_t)) == 0;
}

/*
 * The length of each packet in a frame. A frame that the program took in front of the network stack
 * may be a super-packet, and an XDP program does not see the length of its segments. So this
 * function tries where the first packet may end: at its end the ICRC is good.
 *
 * A hostile host may send a frame with many possible ends, so only XDP_ENDS_MAX are tried. If the
 * payload of a first packet has that many plausible starts of a BTH, the super-packet is dropped,
 * and counted in rx_bad_icrc.
 */
static uint32_t segment_find(struct port_udp *port, uint8_t address, const struct roce_frame *frame)
{
	const struct udp_flow *flow = udp_flow_of(port, address, &frame->sgid, frame->source_port);
	const uint8_t *data = frame->data;
	uint32_t end = BTH_BYTES + ROCE_ICRC_BYTES;

	if (is_packet(port, flow, data, frame->data_bytes))
		return UINT32_MAX;
	for (unsigned tried = 0; end + BTH_BYTES <= frame->data_bytes && tried < XDP_ENDS_MAX;
		end += XDP_PACKET_STEP) {
		if (!is_next_plausible(data, data + end))
			continue;
		if (is_packet(port, flow, data, end))
			return end;
		tried++;
	}
	return UINT32_MAX;
}

/*
 * Deliver a frame. Returns false when earlier packets of its message have not arrived yet, with the
 * frame's address of the port in *ret_address.
 */
static bool take_frame(struct port_udp *port, const struct udp_xdp *xdp, const uint8_t *bytes,
	uint32_t count, bool may_be_early, uint8_t *ret_address, port_udp_packet_fn *on_packet,
	void *context)
{
	uint32_t segment_bytes = UINT32_MAX;
	struct roce_frame frame;
	int address;

	if (!roce_frame_decode(&frame, bytes, count)) {
		port->counters->rx_short++;
		return true;
	}
	address = address_find(port, xdp, &frame.dgid);
	if (address < 0) {
		port->counters->rx_elsewhere++;
		return true;
	}
	*ret_address = (uint8_t)address;
	if (xdp->program.is_generic)
		segment_bytes = segment_find(port, (uint8_t)address, &frame);
	return udp_frame_take(port, (uint8_t)address, &frame, bytes, segment_bytes, may_be_early,
		on_packet, context);
}

/* Have the kernel send the frames of a socket, and note whether the interface has no room. */
static void xdp_flush(struct port_udp *port, struct udp_xdp *xdp)
{
	bool was_blocked = udp_xdp_is_blocked(xdp);

	udp_xdp_flush(xdp, udp_now_ms());
	if (udp_xdp_is_blocked(xdp)) {
		port->counters->tx_blocked += !was_blocked;
		port->is_xdp_blocked = true;
	}
}

void udp_xdp_retry(struct port_udp *port)
{
	port->is_xdp_blocked = false;
	for (uint32_t i = 0; i < port->receiver_count; i++) {
		struct udp_bypass *bypass = port->receivers[i].bypass;

		if (bypass && bypass->xdp && bypass->fd >= 0)
			xdp_flush(port, bypass->xdp);
	}
}

unsigned udp_xdp_receive(
	struct port_udp *port, uint8_t address, port_udp_packet_fn *on_packet, void *context)
{
	struct udp_bypass *bypass = port->receivers[address].bypass;
	struct udp_xdp *xdp = bypass->xdp;
	const uint8_t *frame;
	unsigned total = 0;
	uint8_t to = address;
	uint32_t bytes;

	if (bypass->fd < 0)
		return 0; /* another address reads the socket */
	if (udp_xdp_needs_flush(xdp))
		xdp_flush(port, xdp);
	if (udp_xdp_is_busy(xdp))
		port->counters->rx_queue_overflows += udp_xdp_overflows(xdp);
	while (total < BYPASS_BATCH && (frame = udp_xdp_next(xdp, &bytes))) {
		if (!take_frame(port, xdp, frame, bytes,
			    !bypass->splits_messages ||
				    bypass->stalled_looks > BYPASS_STALLED_LOOKS_MAX,
			    &to, on_packet, context)) {
			/* The earlier packets come by the UDP socket of the frame's address. */
			unsigned count = udp_socket_receive(port, to, on_packet, context);

			bypass->stalled_looks += !count;
			return total + count;
		}
		bypass->stalled_looks = 0;
		udp_xdp_release(xdp);
		total++;
	}
	if (total)
		udp_xdp_refill(xdp);
	return total;
}

/* --- sending --- */

int udp_xdp_send_batch(struct port_udp *port, struct udp_xdp *xdp, unsigned count)
{
	uint32_t first = port->staged_first;
	unsigned sent = 0;
	int error = 0;

	for (; sent < count; sent++) {
		const struct udp_staged *head = &port->staged[first];
		const struct msghdr *header = &port->out[sent].msg_hdr;
		const struct udp_xdp_message message = {
			.headers = &head->path->headers,
			.macs = head->path->neighbour->macs,
			/*
			 * msg_iov[0] has the headers for an AF_PACKET socket; the payloads follow.
			 */
			.pieces = header->msg_iov + 1,
			.bytes = port->out_message[sent].bytes,
			.segment_bytes = head->bytes + ROCE_ICRC_BYTES,
		};

		error = udp_xdp_send(xdp, &message);
		if (error)
			break;
		first += port->out_packets[sent];
	}
	if (sent)
		xdp_flush(port, xdp);
	errno = -error;
	return sent ? (int)sent : -1;
}

/* --- set-up --- */

static struct udp_xdp *xdp_find(const struct port_udp *port, uint32_t ifindex)
{
	for (uint32_t i = 0; i < port->receiver_count; i++) {
		const struct udp_bypass *bypass = port->receivers[i].bypass;

		if (bypass && bypass->xdp && bypass->ifindex == ifindex)
			return bypass->xdp;
	}
	return NULL;
}

static int netns_cookie(int fd, uint64_t *ret_cookie)
{
	socklen_t bytes = sizeof(*ret_cookie);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, ret_cookie, &bytes) ? -errno : 0;
}

/* Do frames of the interface's MTU fit the pages? */
static int check_mtu(int fd, uint32_t ifindex)
{
	struct ifreq request = {.ifr_ifindex = (int)ifindex};

	if (ioctl(fd, SIOCGIFNAME, &request) || ioctl(fd, SIOCGIFMTU, &request))
		return -errno;
	return request.ifr_mtu + ROCE_ETHERNET_BYTES > XDP_FRAME_BYTES_MAX ? -ERANGE : 0;
}

/* Open a socket on the interface. `fd` is another socket of the namespace. */
static int xdp_open(struct udp_xdp **ret_xdp, int fd, uint32_t ifindex, bool is_generic)
{
	uint64_t netns;
	int error = check_mtu(fd, ifindex);

	if (!error)
		error = netns_cookie(fd, &netns);
	if (error)
		return error;
	error = -EOPNOTSUPP;
	if (!is_generic)
		error = udp_xdp_open(ret_xdp, ifindex, false, netns);
	/* The driver may have no XDP. */
	return error == -EOPNOTSUPP ? udp_xdp_open(ret_xdp, ifindex, true, netns) : error;
}

int port_udp_use_xdp(struct port_udp *port, uint32_t address, uint32_t ifindex, bool is_generic)
{
	struct udp_receiver *receiver = &port->receivers[address];
	struct udp_xdp *xdp = xdp_find(port, ifindex);
	uint8_t mac[FRAME_MAC_BYTES];
	struct udp_bypass *bypass;
	bool is_reader = !xdp;
	int error;

	if (receiver->is_channel)
		return -EACCES;
	error = udp_link_check(receiver->fd, ifindex, mac);
	if (!error && is_reader)
		error = xdp_open(&xdp, receiver->fd, ifindex, is_generic);
	if (error)
		return error;
	xdp->users += !is_reader;
	bypass = calloc(1, sizeof(*bypass));
	error = bypass
		? xdp_program_redirect(&xdp->program, xdp->queue, &receiver->gid, port->slot, mac)
		: -ENOMEM;
	if (error) {
		udp_xdp_unref(xdp);
		free(bypass);
		return error;
	}
	bypass->fd = is_reader ? xdp->fd : -1;
	bypass->ifindex = ifindex;
	bypass->xdp = xdp;
	bypass->splits_messages = xdp->program.is_generic;
	receiver->bypass = bypass;
	return xdp->is_zero_copy;
}
