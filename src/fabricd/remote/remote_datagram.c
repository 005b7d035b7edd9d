/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabricd/remote/remote_datagram.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "wire/bytes.h"

enum {
	DATAGRAMS_PER_TURN = 64,
	TAG_BYTES = 8,
	AT_SESSION = 8,
	AT_HOST = 12,
	AT_PORT = 14,
	AT_VIOLATION = 15,
	AT_NUMBER = 16,
	AT_RECEIVED = 24,
	AT_OFFSET = 32,
	AT_TOTAL = 34,
	AT_ZERO = 36,
	VIOLATION_SHIFT = 8, /* ATTACH_RECORD_* in one byte */
	/* All parts of a frame. */
	PARTS_BYTES_MAX = ATTACH_FRAME_BYTES_MAX + DATAGRAM_PARTS_MAX * DATAGRAM_HEADER_BYTES,
	SOCKET_BYTES = 1 << 22,
	/* What the kernel charges to a socket for a datagram besides its bytes, at most. */
	SOCKET_OVERHEAD_BYTES = 1024,
};

/* --- the socket --- */

static_assert(
	(DATAGRAM_BYTES_MIN - DATAGRAM_HEADER_BYTES) * DATAGRAM_PARTS_MAX >= ATTACH_FRAME_BYTES_MAX,
	"a frame has no more parts");

union address {
	struct sockaddr base;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

static socklen_t address_bytes(const union address *address)
{
	return address->base.sa_family == AF_INET ? sizeof(address->ipv4) : sizeof(address->ipv6);
}

static void address_set_port(union address *address, uint16_t port)
{
	if (address->base.sa_family == AF_INET)
		address->ipv4.sin_port = htons(port);
	else
		address->ipv6.sin6_port = htons(port);
}

uint16_t datagram_socket_port(int fd)
{
	union address address = {0};
	socklen_t bytes = sizeof(address);

	if (getsockname(fd, &address.base, &bytes) < 0)
		return 0;
	return ntohs(
		address.base.sa_family == AF_INET ? address.ipv4.sin_port : address.ipv6.sin6_port);
}

static void buffers_enlarge(int fd)
{
	const int bytes = SOCKET_BYTES;

	/* SO_*FORCE need CAP_NET_ADMIN. The system limits what the others set. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

int datagram_socket(int control, uint16_t port)
{
	const int is_shared = 1, discovery = IP_PMTUDISC_DONT;
	union address address = {0};
	socklen_t bytes = sizeof(address);
	int fd;

	if (getsockname(control, &address.base, &bytes) < 0)
		return -errno;
	fd = socket(address.base.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	address_set_port(&address, port);
	buffers_enlarge(fd);
	/* Let routers fragment a datagram that is too long for the path after all. */
	if (address.base.sa_family == AF_INET)
		setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discovery, sizeof(discovery));
	/* The listener has one socket for each machine, all with one port. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &is_shared, sizeof(is_shared)) < 0 ||
		bind(fd, &address.base, address_bytes(&address)) < 0) {
		const int error = errno;

		close(fd);
		return -error;
	}
	return fd;
}

int datagram_socket_connect(int fd, int control, uint16_t port)
{
	union address address = {0};
	socklen_t bytes = sizeof(address);

	if (getpeername(control, &address.base, &bytes) < 0)
		return -errno;
	address_set_port(&address, port);
	return connect(fd, &address.base, address_bytes(&address)) < 0 ? -errno : 0;
}

uint16_t datagram_socket_window(int fd, uint32_t datagram_bytes)
{
	int room = 0;
	socklen_t bytes = sizeof(room);
	uint32_t count;

	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &bytes);
	/*
	 * The kernel's buffers have sizes of powers of two. Half of the room is left for
	 * acknowledgements.
	 */
	count = (uint32_t)room / 2 / (pow2_ceil_u32(datagram_bytes) + SOCKET_OVERHEAD_BYTES);
	return (uint16_t)max_u32(DATAGRAM_WINDOW_MIN, min_u32(count, UINT16_MAX));
}

uint32_t datagram_bytes_max(int control)
{
	int segment = 0;
	socklen_t bytes = sizeof(segment);

	/* A datagram as long as a TCP segment fits the path: UDP's header is shorter than TCP's. */
	getsockopt(control, IPPROTO_TCP, TCP_MAXSEG, &segment, &bytes);
	return min_u32(DATAGRAM_BYTES_MAX,
		max_u32(DATAGRAM_BYTES_MIN, segment > 0 ? (uint32_t)segment : 0));
}

/* --- sending --- */

void datagram_open(struct remote_datagrams *datagrams)
{
	const int segment_bytes = (int)datagrams->bytes_max;

	datagrams->is_open = true;
	datagrams->is_segmented = setsockopt(datagrams->fd, IPPROTO_UDP, UDP_SEGMENT,
					  &segment_bytes, sizeof(segment_bytes)) == 0;
}

bool datagram_has_room(const struct remote_datagrams *datagrams)
{
	return datagrams->sent - datagrams->acknowledged < datagrams->window;
}

void datagram_expire(struct remote_datagrams *datagrams, uint64_t now_ns)
{
	const bool was_full = datagrams->is_full;

	datagrams->is_full = !datagram_has_room(datagrams);
	/* Count from the first call that finds the window full: it may just have become full. */
	if (!datagrams->is_full || !was_full)
		datagrams->progress_ns = now_ns;
	if (now_ns - datagrams->progress_ns < CREDIT_LOSS_NS)
		return;
	datagrams->acknowledged = datagrams->sent;
	datagrams->is_full = false;
}

void datagram_begin(struct remote_datagrams *datagrams, const struct remote_frame *frame,
	uint32_t offset, uint32_t count, uint8_t *to)
{
	put_be32(to + AT_SESSION, datagrams->session);
	put_be16(to + AT_HOST, frame->place.host);
	to[AT_PORT] = frame->place.port;
	to[AT_VIOLATION] = (uint8_t)(frame->violation >> VIOLATION_SHIFT);
	put_be64(to + AT_NUMBER, ++datagrams->sent);
	put_be64(to + AT_RECEIVED, datagrams->received);
	put_be16(to + AT_OFFSET, (uint16_t)offset);
	put_be16(to + AT_TOTAL, (uint16_t)frame->count);
	put_be32(to + AT_ZERO, 0);
	if (count)
		memcpy(to + DATAGRAM_HEADER_BYTES, frame->bytes + offset, count);
	put_be64(to,
		siphash(&datagrams->own, to + TAG_BYTES,
			DATAGRAM_HEADER_BYTES - TAG_BYTES + count));
	datagrams->unacknowledged = 0;
}

/* Write the datagrams of a frame one behind the other. Returns how many bytes they have in all. */
static uint32_t parts_write(struct remote_datagrams *datagrams, const struct remote_frame *frame,
	uint8_t to[PARTS_BYTES_MAX])
{
	const uint32_t part = datagrams->bytes_max - DATAGRAM_HEADER_BYTES;
	uint32_t bytes = 0;

	for (uint32_t offset = 0; offset < frame->count; offset += part) {
		const uint32_t count = min_u32(part, frame->count - offset);

		datagram_begin(datagrams, frame, offset, count, to + bytes);
		bytes += DATAGRAM_HEADER_BYTES + count;
	}
	return bytes;
}

void datagram_send(struct remote_datagrams *datagrams, const struct remote_frame *frame)
{
	uint8_t bytes[PARTS_BYTES_MAX];
	const uint32_t all = parts_write(datagrams, frame, bytes);

	if (datagrams->is_segmented &&
		(send(datagrams->fd, bytes, all, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
			errno == EAGAIN || errno == ENOBUFS || errno == ECONNREFUSED))
		return;
	/* The kernel or the interface does not segment, so send each datagram by itself. */
	datagrams->is_segmented = false;
	for (uint32_t at = 0; at < all; at += datagrams->bytes_max)
		send(datagrams->fd, bytes + at, min_u32(datagrams->bytes_max, all - at),
			MSG_DONTWAIT | MSG_NOSIGNAL);
}

void datagram_acknowledge(struct remote_datagrams *datagrams)
{
	const struct remote_frame nothing = {0};
	uint8_t bytes[DATAGRAM_BYTES_MAX];

	datagram_begin(datagrams, &nothing, 0, 0, bytes);
	send(datagrams->fd, bytes, DATAGRAM_HEADER_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool datagram_is_due(const struct remote_datagrams *datagrams)
{
	return datagrams->unacknowledged >= DATAGRAM_WINDOW_MIN / 2;
}

/* --- what was dropped --- */

static void drop_print(uint64_t count, const char *sentence)
{
	if (count)
		printf("dropped: %llu %s\n", (unsigned long long)count, sentence);
}

void datagram_drops_print(const struct datagram_drops *drops, uint64_t mads_dropped)
{
#define DROP(name, sentence) drop_print(drops->name, sentence);
	DATAGRAM_DROPS(DROP)
#undef DROP
	drop_print(mads_dropped, "management datagrams for which the peer had no room");
}

/* --- receiving --- */

struct datagram {
	struct remote_place place;
	uint32_t session;
	uint32_t violation;
	uint64_t number;
	uint64_t received;
	uint32_t offset;
	uint32_t total;
	uint32_t count; /* of the part */
};

/* Returns false if the lengths cannot be those of a part, or of a header alone. */
static bool datagram_decode(struct datagram *datagram, const uint8_t *bytes, uint32_t count)
{
	if (count < DATAGRAM_HEADER_BYTES || count > DATAGRAM_BYTES_MAX)
		return false;
	*datagram = (struct datagram){
		.place = {.host = get_be16(bytes + AT_HOST), .port = bytes[AT_PORT]},
		.session = get_be32(bytes + AT_SESSION),
		.violation = (uint32_t)bytes[AT_VIOLATION] << VIOLATION_SHIFT,
		.number = get_be64(bytes + AT_NUMBER),
		.received = get_be64(bytes + AT_RECEIVED),
		.offset = get_be16(bytes + AT_OFFSET),
		.total = get_be16(bytes + AT_TOTAL),
		.count = count - DATAGRAM_HEADER_BYTES,
	};
	if (datagram->total == 0)
		return datagram->count == 0;
	return datagram->total >= ATTACH_FRAME_BYTES_MIN &&
		datagram->total <= ATTACH_FRAME_BYTES_MAX && datagram->count > 0 &&
		datagram->offset < datagram->total &&
		datagram->count <= datagram->total - datagram->offset &&
		!(datagram->violation & ~(uint32_t)ATTACH_RECORD_VIOLATIONS);
}

static void partial_drop(struct remote_datagrams *datagrams)
{
	datagrams->drops.partial += datagrams->filled > 0;
	datagrams->filled = 0;
}

/* Is the part the next one of the frame that is being put together? */
static bool is_next_part(
	const struct remote_datagrams *datagrams, const struct datagram *datagram, bool has_gap)
{
	return !has_gap && datagrams->filled > 0 && datagram->offset == datagrams->filled &&
		datagram->total == datagrams->total &&
		datagram->violation == datagrams->violation &&
		datagram->place.host == datagrams->place.host &&
		datagram->place.port == datagrams->place.port;
}

/* Add a part to the frame that is being put together. Returns whether the frame is whole. */
static bool part_add(struct remote_datagrams *datagrams, const struct datagram *datagram,
	bool has_gap, const uint8_t *part)
{
	if (!is_next_part(datagrams, datagram, has_gap)) {
		/*
		 * If the first part of a frame was lost, count the frame at the part behind the
		 * gap. The parts after that one have no gap before them, so it counts once.
		 */
		datagrams->drops.partial += has_gap && datagram->offset != 0 && !datagrams->filled;
		partial_drop(datagrams);
		if (datagram->offset != 0)
			return false;
		datagrams->place = datagram->place;
		datagrams->violation = datagram->violation;
		datagrams->total = datagram->total;
	}
	memcpy(datagrams->frame + datagrams->filled, part, datagram->count);
	datagrams->filled += datagram->count;
	return datagrams->filled == datagrams->total;
}

static void credit_take(struct remote_datagrams *datagrams, uint64_t received, uint64_t now_ns)
{
	if (received <= datagrams->acknowledged || received > datagrams->sent)
		return;
	datagrams->acknowledged = received;
	datagrams->progress_ns = now_ns;
}

bool datagram_take(struct remote_datagrams *datagrams, const uint8_t *bytes, uint32_t count,
	uint64_t now_ns, struct remote_frame *ret_frame)
{
	struct datagram datagram;
	bool has_gap;

	if (!datagram_decode(&datagram, bytes, count)) {
		datagrams->drops.malformed++;
		return false;
	}
	if (datagram.session != datagrams->session ||
		get_be64(bytes) !=
			siphash(&datagrams->peer, bytes + TAG_BYTES, count - TAG_BYTES)) {
		datagrams->drops.foreign++;
		return false;
	}
	if (datagram.number <= datagrams->received) {
		datagrams->drops.late++;
		return false;
	}
	has_gap = datagram.number != datagrams->received + 1;
	datagrams->received = datagram.number;
	credit_take(datagrams, datagram.received, now_ns);
	if (datagram.total == 0) {
		if (has_gap)
			partial_drop(datagrams);
		return false;
	}
	datagrams->unacknowledged++;
	if (!part_add(datagrams, &datagram, has_gap, bytes + DATAGRAM_HEADER_BYTES))
		return false;
	datagrams->filled = 0;
	*ret_frame = (struct remote_frame){.place = datagrams->place,
		.violation = datagrams->violation,
		.bytes = datagrams->frame,
		.count = datagrams->total};
	return true;
}

uint32_t datagrams_receive(struct remote_datagrams *datagrams, uint64_t now_ns,
	void (*deliver)(void *context, const struct remote_frame *frame), void *context)
{
	uint8_t bytes[DATAGRAM_BYTES_MAX + 1];
	struct remote_frame frame;
	uint32_t count = 0;
	ssize_t got;

	while (count < DATAGRAMS_PER_TURN &&
		(got = recv(datagrams->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) >= 0) {
		count++;
		if (datagram_take(datagrams, bytes, (uint32_t)got, now_ns, &frame))
			deliver(context, &frame);
		if (datagram_is_due(datagrams))
			datagram_acknowledge(datagrams);
	}
	return count;
}
