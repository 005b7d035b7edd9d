/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/arith.h"
#include "port/udp/udp_channel.h"
#include "port/udp/udp_internal.h"
#include "wire/bth.h"

struct udp_flow *udp_flow_of(
	struct port_udp *port, uint8_t address, const struct gid *sgid, uint16_t source_port)
{
	uint32_t hash =
		source_port * 0x9e37u ^ (uint32_t)sgid->raw[15] << 3 ^ sgid->raw[14] ^ address;
	struct udp_flow *flow = &port->flows[(hash ^ hash >> 8) % UDP_FLOWS_COUNT];

	if (flow->is_used && flow->address == address && flow->source_port == source_port &&
		gid_is_equal(&flow->sgid, sgid))
		return flow;
	*flow = (struct udp_flow){
		.is_used = true,
		.address = address,
		.source_port = source_port,
		.sgid = *sgid,
	};
	icrc_flow_init(&flow->icrc, sgid->raw, port->receivers[address].gid.raw, source_port,
		ROCE_UDP_PORT);
	return flow;
}

/*
 * Deliver a packet if its ICRC is good. `bytes` is its length with the ICRC. *id is the expected
 * IPv4 identification of the packet; the call changes it to that of the next packet. The call sets
 * *was_taken if a queue pair accepted the packet. Returns whether the ICRC was good.
 */
static bool packet_deliver(struct port_udp *port, const struct udp_flow *flow,
	struct port_udp_packet *packet, size_t bytes, uint16_t *id, bool *was_taken,
	port_udp_packet_fn *on_packet, void *context)
{
	struct port_udp_counters *counters = port->counters;
	uint16_t found;

	if (bytes < BTH_BYTES + ROCE_ICRC_BYTES) {
		counters->rx_short++;
		return false;
	}
	packet->data_bytes = (uint32_t)(bytes - ROCE_ICRC_BYTES);
	if (!icrc_verify_any_id(
		    &flow->icrc, &port->lengths, *id, packet->data, packet->data_bytes, &found)) {
		counters->rx_bad_icrc++;
		++*id;
		return false;
	}
	*id = (uint16_t)(found + 1);
	counters->rx_packets++;
	counters->rx_bytes += packet->data_bytes;
	if (roce_is_marked(packet->tos))
		counters->rx_ce_marked++;
	if (on_packet(context, packet)) {
		const struct udp_bypass *bypass = port->receivers[packet->address].bypass;

		*was_taken = true;
		if (bypass && bypass->splits_messages)
			udp_order_note(port, flow, packet->data);
	}
	return true;
}

bool udp_datagram_split(struct port_udp *port, const struct udp_datagram *datagram,
	struct udp_flow *flow, const uint8_t *data, size_t bytes, port_udp_packet_fn *on_packet,
	void *context)
{
	struct port_udp_packet packet = {
		.sgid = &flow->sgid,
		.dgid = &port->receivers[datagram->address].gid,
		.scope_ifindex = port->receivers[datagram->address].scope_ifindex,
		.source_port = flow->source_port,
		.tos = datagram->tos,
		.hop_limit = datagram->hop_limit,
		.address = datagram->address,
	};
	uint16_t id = flow->is_counting ? flow->next_id : 0;
	size_t tail = udp_tail_find(data, bytes, datagram->segment_bytes);
	bool was_taken = false;

	if (tail) {
		uint16_t tail_id = (uint16_t)(id + tail / datagram->segment_bytes);

		packet.data = data + tail;
		if (packet_deliver(port, flow, &packet, bytes - tail, &tail_id, &was_taken,
			    on_packet, context))
			udp_tail_heard(port, datagram->address, &flow->sgid);
		bytes = tail;
	}
	for (bool is_first = true; bytes > 0;) {
		size_t segment = bytes < datagram->segment_bytes ? bytes : datagram->segment_bytes;

		packet.data = data;
		data += segment;
		bytes -= segment;
		if (!packet_deliver(
			    port, flow, &packet, segment, &id, &was_taken, on_packet, context))
			continue;
		if (is_first)
			flow->is_counting = id != 1;
		is_first = false;
	}
	flow->next_id = (uint16_t)(id + (tail ? 1 : 0));
	return was_taken;
}

/*
 * Process a datagram of the UDP socket. `macs` are the Ethernet addresses of its frame, if its mark
 * has shown them (udp_bypass_catch_up()); else NULL.
 */
static void take_datagram(struct port_udp *port, uint8_t address, struct mmsghdr *message,
	const uint8_t *macs, port_udp_packet_fn *on_packet, void *context)
{
	struct udp_receiver *receiver = &port->receivers[address];
	struct udp_channel_head head;
	struct udp_datagram datagram = {.address = address};

	udp_channel_head_read(&head, &message->msg_hdr, &receiver->overflows_seen);
	port->counters->rx_datagrams++;
	port->counters->rx_queue_overflows += head.overflows;
	if (message->msg_hdr.msg_flags & MSG_TRUNC) {
		port->counters->rx_truncated++;
		return;
	}
	if (message->msg_hdr.msg_namelen < sizeof(struct sockaddr_in) || head.segment_bytes == 0 ||
		gid_is_ipv4(&head.sgid) != gid_is_ipv4(&receiver->gid)) {
		port->counters->rx_source++;
		return;
	}
	datagram.tos = head.tos;
	datagram.hop_limit = head.hop_limit;
	datagram.segment_bytes = head.segment_bytes;
	if (udp_datagram_split(port, &datagram,
		    udp_flow_of(port, address, &head.sgid, head.source_port),
		    message->msg_hdr.msg_iov->iov_base, message->msg_len, on_packet, context) &&
		macs)
		udp_neighbour_heard(port, address, &head.sgid, macs);
}

/* Restore the lengths in the message header, which the kernel has overwritten. */
static void message_rearm(struct msghdr *header)
{
	header->msg_namelen = sizeof(union socket_address);
	header->msg_controllen = sizeof(struct udp_control);
	header->msg_flags = 0;
}

/*
 * Choose the number of datagrams that the next call reads. A call that has room for more datagrams
 * than there are reads the empty queue once more, which costs time. So the batch follows the
 * traffic: one datagram for a ping-pong, UDP_RECEIVE_BATCH for a stream. UDP_RECEIVE_BYTES limits
 * the bytes of a batch, so that they fit into the caches, and acknowledgements are not late.
 */
static void batch_adapt(struct udp_receiver *receiver, unsigned taken, uint32_t bytes)
{
	bool is_full = taken == receiver->batch;

	if (bytes > UDP_RECEIVE_BYTES)
		receiver->batch = max_u32(receiver->batch / 2, 1);
	else if (is_full && receiver->was_full && bytes <= UDP_RECEIVE_BYTES / 2)
		receiver->batch = min_u32(receiver->batch * 2, UDP_RECEIVE_BATCH);
	else if (!is_full)
		receiver->batch = max_u32(taken, 1);
	receiver->was_full = is_full;
}

/*
 * Read a batch from the UDP socket. Returns the number of datagrams, or -1 with errno set. Adds the
 * bytes of the datagrams to *ret_bytes.
 */
static int receive_batch(struct port_udp *port, uint8_t address, uint32_t *ret_bytes,
	port_udp_packet_fn *on_packet, void *context)
{
	struct udp_receiver *receiver = &port->receivers[address];
	int count = udp_recvmmsg(receiver->fd, port->in, receiver->batch);

	for (int i = 0; i < count; i++) {
		uint8_t macs[ROCE_MACS_BYTES];
		bool has_macs = receiver->bypass && !receiver->bypass->xdp &&
			udp_bypass_catch_up(port, address, port->in_iov[i].iov_base,
				port->in[i].msg_len, macs, on_packet, context);

		*ret_bytes += port->in[i].msg_len;
		take_datagram(
			port, address, &port->in[i], has_macs ? macs : NULL, on_packet, context);
		message_rearm(&port->in[i].msg_hdr);
	}
	return count;
}

/*
 * Count a failed read. Only some errors mean that the kernel refuses the call; others concern a
 * packet that was sent earlier, or a change of the interface.
 */
static void receive_failed(struct port_udp *port, int error)
{
	port->counters->rx_errors++;
	if (error == EPERM || error == EACCES || error == ENOSYS || error == ENOMEM ||
		error == ENOBUFS)
		udp_refused(port, "recvmmsg", error);
}

unsigned udp_socket_receive(
	struct port_udp *port, uint8_t address, port_udp_packet_fn *on_packet, void *context)
{
	struct udp_receiver *receiver = &port->receivers[address];
	uint32_t bytes = 0;
	int count = receiver->is_channel
		? udp_channel_receive(port, address, &bytes, on_packet, context)
		: receive_batch(port, address, &bytes, on_packet, context);

	port->looks++;
	if (count < 0) {
		if (errno != EAGAIN && errno != EINTR)
			receive_failed(port, errno);
		receiver->was_full = false;
		return 0;
	}
	batch_adapt(receiver, (unsigned)count, bytes);
	return (unsigned)count;
}

/*
 * Does this call read the address's UDP socket? A read costs a system call, so idle sockets are
 * read on every 16th call. The socket that delivered the last packet is read on every call, unless
 * the address has a bypass. `has_come`: the bypass has just delivered something.
 */
static bool is_worth_a_look(const struct port_udp *port, uint32_t address, bool has_come)
{
	const struct udp_receiver *receiver = &port->receivers[address];

	if (port->receive_calls % UDP_QUIET_STEP == 0)
		return true;
	return !has_come &&
		(receiver->empty_looks < UDP_EMPTY_LOOKS ||
			(address == port->busiest && !receiver->bypass));
}

static unsigned receive_one_address(
	struct port_udp *port, uint8_t address, port_udp_packet_fn *on_packet, void *context)
{
	struct udp_receiver *receiver = &port->receivers[address];
	unsigned total = 0;

	if (receiver->fd < 0)
		return 0;
	if (receiver->bypass)
		total = udp_bypass_receive(port, address, on_packet, context);
	if (is_worth_a_look(port, address, total > 0)) {
		unsigned count = udp_socket_receive(port, address, on_packet, context);

		receiver->empty_looks = count ? 0 : receiver->empty_looks + 1;
		total += count;
	}
	if (total)
		port->busiest = address;
	return total;
}

unsigned port_udp_receive(struct port_udp *port, port_udp_packet_fn *on_packet, void *context)
{
	unsigned total = 0;

	port->receive_calls++;
	port->looks = 0;
	for (uint32_t address = 0; address < port->receiver_count; address++)
		total += receive_one_address(port, (uint8_t)address, on_packet, context);
	return total;
}

void port_udp_look_everywhere(struct port_udp *port)
{
	/*
	 * The next call increments the counter to 0, and reads every address at a multiple of
	 * UDP_QUIET_STEP.
	 */
	port->receive_calls = UINT32_MAX;
}

unsigned port_udp_looks(const struct port_udp *port)
{
	return port->looks;
}
