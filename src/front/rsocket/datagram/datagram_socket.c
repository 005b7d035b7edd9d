/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets: their life, sending and receiving.
 *
 * A socket has no thread: the kernel keeps UDP messages until a call on the socket reads them. A
 * socket remembers a peer when it sends to the peer, but not when it receives from the peer.
 */
#include "front/rsocket/datagram/datagram_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/epoll.h"
#include "os/log.h"
#include "port/socket.h"

/* Request a peer's queue pair number again after this time, because the peer may have restarted. */
#define RESOLVE_AGAIN_NS 1000000000u

enum {
	UDP_TURNS = 16, /* the most UDP messages that one call reads until it finds a datagram */
	/*
	 * The least time between reads of the UDP socket, because most datagrams come to the queue
	 * pair.
	 */
	UDP_PAUSE_NS = 20000,
};

/* --- life --- */

static const char no_socket[] = "no rsocket";

static int udp_open(int domain, int protocol)
{
	const int on = 1;
	int fd = socket_open(domain, SOCK_DGRAM | SOCK_CLOEXEC, protocol);

	/* With this option the kernel reports the destination address of each message. */
	if (fd >= 0 && domain == AF_INET)
		setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	else if (fd >= 0)
		setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
	return fd;
}

int rs_datagram_open(struct rs *rs, int protocol)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct datagram *datagram = calloc(1, sizeof(*datagram));

	if (!datagram)
		return rs_no_memory();
	rs->datagram = datagram;
	datagram->epoll = -1;
	rs->fd = udp_open(rs->family, protocol);
	if (rs->fd < 0)
		return -log_refusal(no_socket, "socket");
	datagram->epoll = epoll_open(EPOLL_CLOEXEC);
	if (datagram->epoll < 0)
		return -log_refusal(no_socket, "epoll_create1");
	if (epoll_change(datagram->epoll, EPOLL_CTL_ADD, rs->fd, &event))
		return -log_refusal(no_socket, "epoll_ctl");
	return 0;
}

static void datagram_close(struct rs *rs)
{
	struct datagram *datagram = rs->datagram;

	if (!datagram)
		return;
	datagram_peer_destroy(datagram->peer);
	for (unsigned i = 0; i < DATAGRAM_PEERS; i++)
		datagram_peer_destroy(datagram->peers[i]);
	for (uint32_t i = 0; i < datagram->endpoint_count; i++)
		datagram_endpoint_destroy(datagram->endpoints[i]);
	if (datagram->epoll >= 0)
		close(datagram->epoll);
	if (rs->fd >= 0)
		close(rs->fd);
	free(datagram);
}

int rs_datagram_connect(struct rs *rs, const struct sockaddr *address, socklen_t bytes)
{
	struct datagram *datagram = rs->datagram;
	struct datagram_peer *peer = NULL;
	union datagram_name name;
	int error = 0;

	if (connect(rs->fd, address, bytes))
		return errno;
	/* With AF_UNSPEC, connect() dissolves the connection, and there is no new peer. */
	if (datagram_name_from(&name, address, bytes))
		error = datagram_peer_create(rs, &name, &peer);
	if (error)
		return error;
	datagram_peer_destroy(datagram->peer);
	datagram->peer = peer;
	return 0;
}

/* --- peers --- */

static unsigned address_hash(const union datagram_name *name)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(name->bytes); i++)
		sum = (sum ^ name->bytes[i]) * 0x01000193u;
	return (sum >> 16 ^ sum) % DATAGRAM_PEERS;
}

static bool is_same(const union datagram_name *a, const union datagram_name *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* The peer with this name. NULL: the socket remembers none. */
static struct datagram_peer *peer_find(
	const struct datagram *datagram, const union datagram_name *name)
{
	struct datagram_peer *peer = datagram->peers[address_hash(name)];

	if (datagram->peer && is_same(&datagram->peer->name, name))
		return datagram->peer;
	return peer && is_same(&peer->name, name) ? peer : NULL;
}

/*
 * A new peer replaces a peer with the same hash. If the socket later sends to the replaced peer, it
 * requests that peer's queue pair number again.
 */
static int peer_get(struct rs *rs, const union datagram_name *name, struct datagram_peer **ret_peer)
{
	struct datagram_peer **place = &rs->datagram->peers[address_hash(name)];
	struct datagram_peer *peer;
	int error;

	*ret_peer = peer_find(rs->datagram, name);
	if (*ret_peer)
		return 0;
	error = datagram_peer_create(rs, name, &peer);
	if (error)
		return error;
	datagram_peer_destroy(*place);
	*place = peer;
	*ret_peer = peer;
	return 0;
}

/* --- UDP --- */

static int udp_send(struct rs *rs, const union datagram_name *to,
	const struct datagram_endpoint *endpoint, enum datagram_op op, const struct iovec *list,
	int count, int flags)
{
	const struct datagram_udp_header header = {op, endpoint->id->qp->qp_num};
	uint8_t header_bytes[DATAGRAM_UDP_HEADER_BYTES_MAX];
	struct iovec pieces[RS_DATAGRAM_PIECES_MAX + 1];
	struct msghdr message = {
		.msg_name = (void *)(uintptr_t)to,
		.msg_namelen = datagram_name_bytes(to),
		.msg_iov = pieces,
		.msg_iovlen = (size_t)count + 1,
	};

	pieces[0].iov_base = header_bytes;
	pieces[0].iov_len = datagram_udp_header_encode(header_bytes, &header, &endpoint->name);
	if (count)
		memcpy(pieces + 1, list, (size_t)count * sizeof(*list));
	return sendmsg(rs->fd, &message, flags | MSG_NOSIGNAL) < 0 ? errno : 0;
}

/*
 * The local address that a message was sent to. Returns false when the kernel does not report it.
 */
static bool local_address(struct msghdr *header, union datagram_name *ret_name)
{
	memset(ret_name, 0, sizeof(*ret_name));
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg; cmsg = CMSG_NXTHDR(header, cmsg)) {
		struct in6_pktinfo ipv6;
		struct in_pktinfo ipv4;

		if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_PKTINFO) {
			memcpy(&ipv4, CMSG_DATA(cmsg), sizeof(ipv4));
			ret_name->ipv4.sin_family = AF_INET;
			ret_name->ipv4.sin_addr = ipv4.ipi_spec_dst;
			return true;
		}
		if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_PKTINFO) {
			memcpy(&ipv6, CMSG_DATA(cmsg), sizeof(ipv6));
			ret_name->ipv6.sin6_family = AF_INET6;
			ret_name->ipv6.sin6_addr = ipv6.ipi6_addr;
			if (IN6_IS_ADDR_LINKLOCAL(&ipv6.ipi6_addr))
				ret_name->ipv6.sin6_scope_id = ipv6.ipi6_ifindex;
			return true;
		}
	}
	return false;
}

/*
 * Answer a datagram that came over UDP: send its sender the queue pair number of this socket.
 * Without this answer, the sender keeps using UDP.
 */
static void resolution_answer(struct rs *rs, const union datagram_name *from, struct msghdr *header)
{
	struct datagram_endpoint *endpoint;
	union datagram_name local;

	if (local_address(header, &local) && datagram_endpoint_get(rs, &local, &endpoint) == 0)
		udp_send(rs, from, endpoint, DATAGRAM_OP_CTRL, NULL, 0, MSG_DONTWAIT);
}

/* Read one UDP message. Returns false when there is none. */
static bool udp_receive(struct rs *rs)
{
	struct datagram *datagram = rs->datagram;
	_Alignas(struct cmsghdr) uint8_t control[128];
	struct sockaddr_storage source;
	struct iovec piece = {datagram->udp_buffer, sizeof(datagram->udp_buffer)};
	struct msghdr header = {
		.msg_name = &source,
		.msg_namelen = sizeof(source),
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t bytes = recvmsg(rs->fd, &header, MSG_DONTWAIT);
	struct datagram_udp_header udp;
	struct datagram_peer *peer;
	union datagram_name from;
	size_t header_bytes;

	if (bytes < 0) {
		if (errno != EAGAIN && errno != EINTR)
			datagram->error = errno;
		return false;
	}
	header_bytes = datagram_udp_header_decode(&udp, datagram->udp_buffer, (size_t)bytes);
	if (!header_bytes ||
		!datagram_name_from(&from, (struct sockaddr *)&source, header.msg_namelen))
		return true;
	peer = peer_find(datagram, &from);
	if (peer) {
		peer->qpn = udp.qpn;
		peer->requested_ns = clock_now_ns();
	}
	if (udp.op == DATAGRAM_OP_CTRL)
		return true;
	resolution_answer(rs, &from, &header);
	datagram->message = (struct datagram_message){
		.from = from,
		.data = datagram->udp_buffer + header_bytes,
		.bytes = (uint32_t)((size_t)bytes - header_bytes),
	};
	return true;
}

static void udp_receive_some(struct rs *rs)
{
	rs->datagram->udp_looked_ns = clock_now_ns();
	for (unsigned i = 0; i < UDP_TURNS && !rs->datagram->message.data; i++)
		if (!udp_receive(rs))
			return;
}

/* --- in --- */

static void endpoints_receive(struct rs *rs)
{
	struct datagram *datagram = rs->datagram;

	for (uint32_t i = 0; i < datagram->endpoint_count && !datagram->message.data; i++) {
		struct datagram_endpoint *endpoint =
			datagram->endpoints[datagram->endpoint_next++ % datagram->endpoint_count];

		if (datagram_endpoint_receive(endpoint, &datagram->message))
			datagram->message.from =
				datagram_name_mapped(&datagram->message.from, rs->family);
	}
}

static void message_drop(struct datagram *datagram)
{
	struct datagram_message *message = &datagram->message;

	if (message->endpoint)
		datagram_endpoint_give_back(message->endpoint, message->slot);
	message->data = NULL;
}

static bool needs_room(const struct datagram *datagram, const struct datagram_endpoint *endpoint)
{
	return datagram->is_closing ? endpoint->free_count < endpoint->send_count
				    : endpoint->free_count == 0;
}

static void datagram_advance(struct rs *rs)
{
	struct datagram *datagram = rs->datagram;

	for (uint32_t i = 0; i < datagram->endpoint_count; i++)
		if (needs_room(datagram, datagram->endpoints[i]))
			datagram_endpoint_reclaim(datagram->endpoints[i]);
	if (datagram->message.data)
		return;
	if (clock_now_ns() - datagram->udp_looked_ns >= UDP_PAUSE_NS)
		udp_receive_some(rs);
	if (!datagram->message.data)
		endpoints_receive(rs);
	/*
	 * A connected socket receives from its peer only. A datagram to the queue pair names its
	 * sender in the header; for a UDP message, the kernel reports the sender.
	 */
	if (datagram->message.data && datagram->peer &&
		!is_same(&datagram->peer->name, &datagram->message.from))
		message_drop(datagram);
}

static void datagram_arm(struct rs *rs)
{
	struct datagram *datagram = rs->datagram;

	for (uint32_t i = 0; i < datagram->endpoint_count; i++)
		datagram_endpoint_arm(
			datagram->endpoints[i], needs_room(datagram, datagram->endpoints[i]));
}

static nfds_t datagram_watch(const struct rs *rs, struct pollfd *ret_fds)
{
	*ret_fds = (struct pollfd){.fd = rs->datagram->epoll, .events = POLLIN};
	return 1;
}

static bool can_receive(const struct rs *rs)
{
	return rs->datagram->message.data || rs->datagram->error;
}

static int error_take(struct datagram *datagram)
{
	int error = datagram->error;

	datagram->error = 0;
	return error;
}

int rs_datagram_receive(struct rs *rs, struct msghdr *message, int flags, size_t *ret_bytes)
{
	struct datagram *datagram = rs->datagram;
	struct pieces to = pieces_begin(message->msg_iov, (int)message->msg_iovlen);
	size_t room = pieces_bytes(message->msg_iov, (int)message->msg_iovlen);
	const struct datagram_message *got = &datagram->message;
	int error = rs_wait(rs, can_receive, rs->is_nonblocking || (flags & MSG_DONTWAIT));

	if (error)
		return error;
	if (!got->data)
		return error_take(datagram);
	*ret_bytes = got->bytes < room ? got->bytes : room;
	pieces_copy(&to, (void *)(uintptr_t)got->data, *ret_bytes, PIECES_IN);
	message->msg_flags = got->bytes > room ? MSG_TRUNC : 0;
	if (flags & MSG_TRUNC)
		*ret_bytes = got->bytes;
	if (message->msg_name) {
		socklen_t full = datagram_name_bytes(&got->from);

		memcpy(message->msg_name, &got->from,
			message->msg_namelen < full ? message->msg_namelen : full);
		message->msg_namelen = full;
	}
	if (!(flags & MSG_PEEK))
		message_drop(datagram);
	return 0;
}

/* --- out --- */

static bool can_send(const struct rs *rs)
{
	const struct datagram_peer *to = rs->datagram->to ? rs->datagram->to : rs->datagram->peer;

	return !to || to->endpoint->free_count > 0;
}

static bool is_all_sent(const struct rs *rs)
{
	const struct datagram *datagram = rs->datagram;

	for (uint32_t i = 0; i < datagram->endpoint_count; i++)
		if (datagram->endpoints[i]->free_count < datagram->endpoints[i]->send_count)
			return false;
	return true;
}

void rs_datagram_finish(struct rs *rs)
{
	rs->datagram->is_closing = true;
	rs_wait(rs, is_all_sent, false);
}

static int send_packet(struct datagram_peer *peer, const struct msghdr *message, size_t bytes)
{
	struct datagram_endpoint *endpoint = peer->endpoint;
	struct pieces from = pieces_begin(message->msg_iov, (int)message->msg_iovlen);
	uint32_t slot;
	uint8_t *packet;

	slot = endpoint->free_slots[--endpoint->free_count];
	packet = datagram_endpoint_slot(endpoint, slot);
	memcpy(packet, endpoint->header, endpoint->header_bytes);
	pieces_copy(&from, packet + endpoint->header_bytes, bytes, PIECES_OUT);
	return datagram_endpoint_send(endpoint, peer, slot, endpoint->header_bytes + bytes);
}

/*
 * Does this datagram go over UDP? It does if the peer's queue pair number is unknown or may have
 * changed, or if the datagram is too long for a packet.
 */
static bool goes_over_udp(struct rs *rs, struct datagram_peer *peer, size_t bytes)
{
	uint64_t now = clock_now_ns();

	if (bytes > peer->endpoint->packet_bytes - peer->endpoint->header_bytes)
		return true;
	/* The peer's answer may have arrived by now. */
	if (!peer->qpn && !rs->datagram->message.data)
		udp_receive_some(rs);
	if (peer->qpn && now - peer->requested_ns < RESOLVE_AGAIN_NS)
		return false;
	peer->requested_ns = now;
	return true;
}

static int destination_of(
	struct rs *rs, const struct msghdr *message, struct datagram_peer **ret_peer)
{
	union datagram_name name;

	if (!message->msg_name) {
		*ret_peer = rs->datagram->peer;
		return *ret_peer ? 0 : EDESTADDRREQ;
	}
	if (!datagram_name_from(&name, message->msg_name, message->msg_namelen))
		return EINVAL;
	return peer_get(rs, &name, ret_peer);
}

int rs_datagram_send(struct rs *rs, const struct msghdr *message, int flags)
{
	struct datagram *datagram = rs->datagram;
	bool is_nonblocking = rs->is_nonblocking || (flags & MSG_DONTWAIT);
	size_t bytes = pieces_bytes(message->msg_iov, (int)message->msg_iovlen);
	struct datagram_peer *peer;
	int error = destination_of(rs, message, &peer);

	if (!error &&
		(bytes > RS_DATAGRAM_BYTES_MAX || message->msg_iovlen > RS_DATAGRAM_PIECES_MAX))
		error = EMSGSIZE;
	if (!error)
		error = error_take(datagram);
	if (error)
		return error;
	if (goes_over_udp(rs, peer, bytes))
		return udp_send(rs, &peer->name, peer->endpoint, DATAGRAM_OP_DATA, message->msg_iov,
			(int)message->msg_iovlen, is_nonblocking ? MSG_DONTWAIT : 0);
	datagram->to = peer;
	if (!can_send(rs))
		error = rs_wait(rs, can_send, is_nonblocking);
	datagram->to = NULL;
	return error ? error : send_packet(peer, message, bytes);
}

/* --- what a wait does --- */

static bool datagram_look(struct rs *rs)
{
	datagram_advance(rs);
	return true;
}

static short datagram_readiness(const struct rs *rs)
{
	return (short)((can_receive(rs) ? POLLIN : 0) | (can_send(rs) ? POLLOUT : 0));
}

const struct rs_kind rs_datagram_kind = {
	.advance = datagram_advance,
	.look = datagram_look,
	.arm = datagram_arm,
	.watch = datagram_watch,
	.readiness = datagram_readiness,
	.close = datagram_close,
};
