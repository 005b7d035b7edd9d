/* SPDX-License-Identifier: BSD-2-Clause */
#include "port/udp/udp_channel.h"

#include <assert.h>

#include "port/udp/udp_internal.h"

bool udp_is_channel(int fd)
{
	int domain = AF_UNSPEC;
	socklen_t bytes = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX;
}

static void take_message(struct port_udp *port, uint8_t address,
	const struct udp_channel_head *head, const uint8_t *data, size_t bytes,
	port_udp_packet_fn *on_packet, void *context)
{
	struct udp_datagram datagram = {
		.address = address,
		.tos = head->tos,
		.hop_limit = port->reports_hops ? head->hop_limit : 0,
		.segment_bytes = head->segment_bytes,
	};

	port->counters->rx_datagrams++;
	port->counters->rx_channel_datagrams++;
	port->counters->rx_queue_overflows += head->overflows;
	if (datagram.segment_bytes == 0 ||
		gid_is_ipv4(&head->sgid) != gid_is_ipv4(&port->receivers[address].gid)) {
		port->counters->rx_source++;
		return;
	}
	udp_datagram_split(port, &datagram,
		udp_flow_of(port, address, &head->sgid, head->source_port), data, bytes, on_packet,
		context);
}

int udp_channel_receive(struct port_udp *port, uint8_t address, uint32_t *ret_bytes,
	port_udp_packet_fn *on_packet, void *context)
{
	struct udp_receiver *receiver = &port->receivers[address];
	struct udp_channel_head heads[UDP_RECEIVE_BATCH];
	struct iovec pieces[UDP_RECEIVE_BATCH][2];
	struct mmsghdr messages[UDP_RECEIVE_BATCH];
	unsigned batch = receiver->batch;
	int count;

	for (unsigned i = 0; i < batch; i++) {
		pieces[i][0] = (struct iovec){&heads[i], sizeof(heads[i])};
		pieces[i][1] = port->in_iov[i];
		messages[i].msg_hdr = (struct msghdr){.msg_iov = pieces[i], .msg_iovlen = 2};
	}
	count = udp_recvmmsg(receiver->fd, messages, batch);
	assert(count <= (int)batch); /* the other heads are not set */
	for (int i = 0; i < count; i++) {
		size_t bytes = messages[i].msg_len;

		*ret_bytes += messages[i].msg_len;
		if (bytes < sizeof(heads[i]))
			port->counters->rx_short++;
		else
			take_message(port, address, &heads[i], port->in_iov[i].iov_base,
				bytes - sizeof(heads[i]), on_packet, context);
	}
	return count;
}
