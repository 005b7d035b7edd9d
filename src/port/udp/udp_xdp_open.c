/* SPDX-License-Identifier: BSD-2-Clause */
/* Set-up of the AF_XDP socket of a lane: its pages, its rings, and its queue (udp_xdp.h). */
#include <errno.h>
#include <linux/if_xdp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/arith.h"
#include "port/socket.h"
#include "port/udp/udp_internal.h"
#include "port/udp/udp_xdp.h"

enum {
	/* Within this time the kernel releases the queue of a closed socket. */
	XDP_CLOSE_MS_MAX = 200,
	XDP_CLOSE_PAUSE_US = 1000,
};

/* When this process last closed a socket with a queue. */
static _Atomic uint64_t queue_closed_ms;

static const size_t all_pages_bytes = (size_t)(XDP_RECEIVE_PAGES + XDP_SEND_PAGES) * XDP_PAGE_BYTES;

/* The pages are shared memory, so that a fork does not copy them. */
static int pages_map(struct udp_xdp *xdp)
{
	struct xdp_umem_reg umem = {.len = all_pages_bytes, .chunk_size = XDP_PAGE_BYTES};
	void *pages = mmap(
		NULL, all_pages_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return -errno;
	xdp->pages = pages;
	umem.addr = (uint64_t)(uintptr_t)pages;
	return setsockopt(xdp->fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof(umem)) ? -errno : 0;
}

static int rings_size(const struct udp_xdp *xdp)
{
	static const struct {
		int option;
		int count;
	} rings[] = {
		{XDP_UMEM_FILL_RING, XDP_RECEIVE_PAGES},
		{XDP_RX_RING, XDP_RECEIVE_PAGES},
		{XDP_TX_RING, XDP_SEND_PAGES},
		{XDP_UMEM_COMPLETION_RING, XDP_SEND_PAGES},
	};
	int rc = 0;

	for (size_t i = 0; !rc && i < ARRAY_COUNT(rings); i++)
		rc = socket_set(xdp->fd, SOL_XDP, rings[i].option, rings[i].count);
	return rc;
}

static int ring_map(const struct udp_xdp *xdp, struct xdp_ring *ring, off_t place,
	const struct xdp_ring_offset *offsets, uint32_t count, size_t entry_bytes)
{
	size_t bytes = offsets->desc + count * entry_bytes;
	uint8_t *mapping = mmap(
		NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, xdp->fd, place);

	if (mapping == MAP_FAILED)
		return -errno;
	*ring = (struct xdp_ring){
		.producer = (uint32_t *)(void *)(mapping + offsets->producer),
		.consumer = (uint32_t *)(void *)(mapping + offsets->consumer),
		.flags = (uint32_t *)(void *)(mapping + offsets->flags),
		.entries = mapping + offsets->desc,
		.mask = count - 1,
		.mapping = mapping,
		.mapping_bytes = bytes,
	};
	return 0;
}

static int rings_map(struct udp_xdp *xdp)
{
	struct xdp_mmap_offsets at;
	socklen_t bytes = sizeof(at);
	int rc = rings_size(xdp);

	if (!rc && getsockopt(xdp->fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &bytes))
		rc = -errno;
	if (!rc && bytes != sizeof(at))
		rc = -EOPNOTSUPP; /* Linux before 5.4 has rings without flags */
	if (!rc)
		rc = ring_map(xdp, &xdp->fill, (off_t)XDP_UMEM_PGOFF_FILL_RING, &at.fr,
			XDP_RECEIVE_PAGES, sizeof(uint64_t));
	if (!rc)
		rc = ring_map(xdp, &xdp->receive, XDP_PGOFF_RX_RING, &at.rx, XDP_RECEIVE_PAGES,
			sizeof(struct xdp_desc));
	if (!rc)
		rc = ring_map(xdp, &xdp->send, XDP_PGOFF_TX_RING, &at.tx, XDP_SEND_PAGES,
			sizeof(struct xdp_desc));
	if (!rc)
		rc = ring_map(xdp, &xdp->complete, (off_t)XDP_UMEM_PGOFF_COMPLETION_RING, &at.cr,
			XDP_SEND_PAGES, sizeof(uint64_t));
	return rc;
}

static void pages_share_out(struct udp_xdp *xdp)
{
	uint64_t *fill = xdp->fill.entries;

	for (uint32_t i = 0; i < XDP_RECEIVE_PAGES; i++)
		fill[i] = (uint64_t)i * XDP_PAGE_BYTES;
	__atomic_store_n(xdp->fill.producer, XDP_RECEIVE_PAGES, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < XDP_SEND_PAGES; i++)
		xdp->free_pages[i] = (uint64_t)(XDP_RECEIVE_PAGES + i) * XDP_PAGE_BYTES;
	xdp->free_count = XDP_SEND_PAGES;
}

/* Bind the socket to the first queue that no other socket has. Returns as queue_bind() does. */
static int free_queue_bind(struct udp_xdp *xdp)
{
	struct sockaddr_xdp address = {
		.sxdp_family = AF_XDP,
		.sxdp_flags = XDP_USE_NEED_WAKEUP | (xdp->program.is_generic ? XDP_COPY : 0),
		.sxdp_ifindex = xdp->ifindex,
	};

	for (; address.sxdp_queue_id < XDP_QUEUES_MAX; address.sxdp_queue_id++) {
		if (!bind(xdp->fd, (const struct sockaddr *)&address, sizeof(address))) {
			xdp->queue = address.sxdp_queue_id;
			xdp->has_queue = true;
			return 0;
		}
		if (errno != EBUSY)
			break;
	}
	/* EINVAL: the interface has no queue of that number. */
	return address.sxdp_queue_id > 0 && (errno == EINVAL || errno == EBUSY) ? -EUSERS : -errno;
}

/*
 * Bind the socket to a queue. The kernel uses zero-copy if the driver has it and the program is in
 * the driver; a program in front of the network stack sees copies. The kernel releases the queue of
 * a closed socket a little later. So wait for a queue if this process has just closed such a
 * socket, for example to start a lane again. Other callers do not wait, because they hold locks.
 * Returns 0, -EUSERS when all queues are taken, or another -errno.
 */
static int queue_bind(struct udp_xdp *xdp)
{
	int rc = free_queue_bind(xdp);

	while (rc == -EUSERS && udp_now_ms() - queue_closed_ms <= XDP_CLOSE_MS_MAX) {
		usleep(XDP_CLOSE_PAUSE_US);
		rc = free_queue_bind(xdp);
	}
	return rc;
}

static bool is_zero_copy(const struct udp_xdp *xdp)
{
	struct xdp_options options = {.flags = 0};
	socklen_t bytes = sizeof(options);

	return !getsockopt(xdp->fd, SOL_XDP, XDP_OPTIONS, &options, &bytes) &&
		(options.flags & XDP_OPTIONS_ZEROCOPY);
}

static int xdp_start(struct udp_xdp *xdp, bool is_generic, uint64_t netns)
{
	int rc;

	xdp->fd = socket_open(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (xdp->fd < 0)
		return errno == EAFNOSUPPORT ? -EOPNOTSUPP : -errno;
	socket_grow_send_buffer(xdp->fd, UDP_SOCKET_BUFFER_BYTES);
	rc = pages_map(xdp);
	if (!rc)
		rc = rings_map(xdp);
	if (rc)
		return rc;
	pages_share_out(xdp);
	rc = xdp_program_join(&xdp->program, xdp->ifindex, is_generic, netns);
	if (!rc)
		rc = queue_bind(xdp);
	xdp->is_zero_copy = !rc && is_zero_copy(xdp);
	if (!rc)
		rc = xdp_program_take_queue(&xdp->program, xdp->queue, xdp->fd);
	return rc;
}

int udp_xdp_open(struct udp_xdp **ret_xdp, uint32_t ifindex, bool is_generic, uint64_t netns)
{
	struct udp_xdp *xdp = calloc(1, sizeof(*xdp));
	int rc;

	if (!xdp)
		return -ENOMEM;
	xdp->ifindex = ifindex;
	xdp->users = 1;
	xdp->program = (struct xdp_program){-1, -1, -1, is_generic};
	rc = xdp_start(xdp, is_generic, netns);
	if (rc == -EACCES)
		rc = -ENOEXEC; /* for port_udp_use_xdp() EACCES means something else */
	if (rc)
		udp_xdp_unref(xdp);
	else
		*ret_xdp = xdp;
	return rc;
}

void udp_xdp_unref(struct udp_xdp *xdp)
{
	struct xdp_ring *rings[] = {&xdp->fill, &xdp->receive, &xdp->send, &xdp->complete};

	if (--xdp->users > 0)
		return;
	for (size_t i = 0; i < ARRAY_COUNT(rings); i++)
		if (rings[i]->mapping)
			munmap(rings[i]->mapping, rings[i]->mapping_bytes);
	if (xdp->fd >= 0)
		close(xdp->fd);
	if (xdp->has_queue)
		queue_closed_ms = udp_now_ms();
	xdp_program_leave(&xdp->program);
	if (xdp->pages)
		munmap(xdp->pages, all_pages_bytes);
	free(xdp);
}
