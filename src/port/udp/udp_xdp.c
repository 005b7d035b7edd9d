/* SPDX-License-Identifier: BSD-2-Clause */
/* The data path of an AF_XDP socket: its four rings (udp_xdp.h). */
#include "port/udp/udp_xdp.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/arith.h"
#include "port/udp/udp_internal.h"

enum {
	XDP_CALLS_MAX = 8, /* calls of sendto() in a flush; in copy mode each sends 32 frames */
	/* With more unread frames than this, the port may soon lose some. */
	XDP_BUSY_ENTRIES = XDP_RECEIVE_PAGES / 2,
};

/* --- receiving --- */

const uint8_t *udp_xdp_next(const struct udp_xdp *xdp, uint32_t *ret_bytes)
{
	const struct xdp_ring *ring = &xdp->receive;
	const struct xdp_desc *entry;

	if (__atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) == *ring->consumer)
		return NULL;
	entry = (const struct xdp_desc *)ring->entries + (*ring->consumer & ring->mask);
	*ret_bytes = entry->len;
	return xdp->pages + entry->addr;
}

void udp_xdp_release(struct udp_xdp *xdp)
{
	const struct xdp_ring *ring = &xdp->receive, *fill = &xdp->fill;
	const struct xdp_desc *entry =
		(const struct xdp_desc *)ring->entries + (*ring->consumer & ring->mask);
	uint64_t *page = (uint64_t *)fill->entries + (*fill->producer & fill->mask);

	*page = entry->addr / XDP_PAGE_BYTES * XDP_PAGE_BYTES;
	__atomic_store_n(fill->producer, *fill->producer + 1, __ATOMIC_RELEASE);
	__atomic_store_n(ring->consumer, *ring->consumer + 1, __ATOMIC_RELEASE);
}

void udp_xdp_refill(struct udp_xdp *xdp)
{
	if (__atomic_load_n(xdp->fill.flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP)
		recvfrom(xdp->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

bool udp_xdp_is_busy(const struct udp_xdp *xdp)
{
	return *xdp->receive.producer - *xdp->receive.consumer > XDP_BUSY_ENTRIES;
}

uint64_t udp_xdp_overflows(struct udp_xdp *xdp)
{
	struct xdp_statistics statistics;
	socklen_t bytes = sizeof(statistics);
	uint64_t total, before = xdp->overflows;

	if (getsockopt(xdp->fd, SOL_XDP, XDP_STATISTICS, &statistics, &bytes))
		return 0;
	total = statistics.rx_dropped + statistics.rx_ring_full;
	xdp->overflows = total;
	return total - before;
}

/* --- sending --- */

static uint32_t unsent_count(const struct udp_xdp *xdp)
{
	return *xdp->send.producer - __atomic_load_n(xdp->send.consumer, __ATOMIC_ACQUIRE);
}

/* Take back the pages that have been sent. */
static void pages_collect(struct udp_xdp *xdp)
{
	const struct xdp_ring *ring = &xdp->complete;
	uint32_t end = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
	uint32_t next = *ring->consumer;

	for (; next != end; next++)
		xdp->free_pages[xdp->free_count++] =
			((const uint64_t *)ring->entries)[next & ring->mask];
	__atomic_store_n(ring->consumer, next, __ATOMIC_RELEASE);
}

/* A place in the payloads of a message. */
struct xdp_cursor {
	const struct iovec *piece;
	size_t offset;
};

static void payload_copy(struct xdp_cursor *from, uint8_t *to, size_t bytes)
{
	while (bytes > 0) {
		size_t left = from->piece->iov_len - from->offset;
		size_t count = bytes < left ? bytes : left;

		memcpy(to, (const uint8_t *)from->piece->iov_base + from->offset, count);
		to += count;
		bytes -= count;
		from->offset += count;
		if (from->offset == from->piece->iov_len)
			*from = (struct xdp_cursor){.piece = from->piece + 1};
	}
}

static void frame_queue(struct udp_xdp *xdp, const struct udp_xdp_message *message, uint16_t id,
	struct xdp_cursor *from, uint32_t payload_bytes)
{
	const struct roce_frame_headers *headers = message->headers;
	const struct xdp_ring *ring = &xdp->send;
	uint64_t page = xdp->free_pages[--xdp->free_count];
	uint8_t *frame = xdp->pages + page;

	roce_frame_headers_write(headers, message->macs, payload_bytes, frame);
	payload_copy(from, frame + headers->count, payload_bytes);
	roce_frame_complete(headers, id, payload_bytes, frame);
	((struct xdp_desc *)ring->entries)[*ring->producer & ring->mask] =
		(struct xdp_desc){.addr = page, .len = headers->count + payload_bytes};
	__atomic_store_n(ring->producer, *ring->producer + 1, __ATOMIC_RELEASE);
}

int udp_xdp_send(struct udp_xdp *xdp, const struct udp_xdp_message *message)
{
	uint32_t segment = message->segment_bytes ? message->segment_bytes : message->bytes;
	uint32_t packets = (message->bytes + segment - 1) / segment;
	struct xdp_cursor from = {.piece = message->pieces};

	if (xdp->send_error)
		return xdp->send_error;
	if (message->headers->count + segment > XDP_FRAME_BYTES_MAX)
		return -EMSGSIZE;
	if (xdp->free_count < packets)
		pages_collect(xdp);
	if (xdp->free_count < packets || unsent_count(xdp) + packets > XDP_SEND_PAGES)
		return -EAGAIN;
	for (uint32_t i = 0; i < packets; i++)
		frame_queue(xdp, message, (uint16_t)i, &from,
			min_u32(segment, message->bytes - i * segment));
	return 0;
}

/*
 * In copy mode each sendto() sends a limited number of frames. It fails with EAGAIN if more frames
 * are left, or if the interface is busy. Returns how many frames are left.
 */
static uint32_t frames_send(struct udp_xdp *xdp, uint32_t unsent)
{
	uint32_t before = unsent + 1;

	for (unsigned i = 0; i < XDP_CALLS_MAX && unsent && unsent < before; i++) {
		if (!(__atomic_load_n(xdp->send.flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP))
			return unsent;
		if (sendto(xdp->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN &&
			errno != EBUSY && errno != EINTR && errno != ENOBUFS)
			xdp->send_error = -errno;
		before = unsent;
		unsent = unsent_count(xdp);
	}
	return unsent;
}

void udp_xdp_flush(struct udp_xdp *xdp, uint64_t now_ms)
{
	uint32_t queued = unsent_count(xdp), unsent;

	xdp->send_error = 0;
	unsent = frames_send(xdp, queued);
	/* A driver with zero-copy empties the ring by itself. */
	if (!unsent || xdp->is_zero_copy)
		xdp->blocked_since_ms = 0;
	else if (!xdp->blocked_since_ms || unsent < queued)
		xdp->blocked_since_ms = now_ms;
	else if (now_ms - xdp->blocked_since_ms > UDP_BLOCKED_MS_MAX && !xdp->send_error)
		xdp->send_error = -EAGAIN;
}

bool udp_xdp_needs_flush(const struct udp_xdp *xdp)
{
	return xdp->send_error || unsent_count(xdp) > 0;
}

bool udp_xdp_is_blocked(const struct udp_xdp *xdp)
{
	return xdp->blocked_since_ms && !xdp->send_error;
}
