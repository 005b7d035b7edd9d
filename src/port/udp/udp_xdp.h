/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_UDP_UDP_XDP_H
#define URNIC_PORT_UDP_UDP_XDP_H

/*
 * The AF_XDP socket of a lane on an interface, which is a bypass of IP and UDP like an AF_PACKET
 * socket (udp_bypass.c). For files of the UDP port only.
 *
 * The socket has one receive queue of the interface, and one memory (UMEM) of pages, which the
 * kernel and the port exchange by four rings. A driver with zero-copy reads and writes that memory;
 * otherwise the kernel copies each packet. The XDP program of the interface redirects this lane's
 * packets to the socket (udp_xdp_program.h). The UDP socket gets packets that arrive at other
 * queues, in fragments, or with IP options.
 *
 * All addresses of the lane on the interface share the socket. The first of them reads it.
 *
 * The lane's lock serializes all calls.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "port/udp/udp_xdp_program.h"
#include "wire/roce_frame.h"

enum {
	XDP_PAGE_BYTES = 4096,
	XDP_RECEIVE_PAGES = 1024, /* power of two; also the length of the rings for receiving */
	XDP_SEND_PAGES = 256, /* power of two; also the length of the rings for sending */
};

/* A ring that the kernel and the port share. One of them produces, the other one consumes. */
struct xdp_ring {
	uint32_t *producer;
	uint32_t *consumer;
	uint32_t *flags;
	void *entries; /* uint64_t or struct xdp_desc */
	uint32_t mask;
	void *mapping; /* NULL: not mapped */
	size_t mapping_bytes;
};

struct udp_xdp {
	int fd;
	uint32_t ifindex;
	uint32_t queue;
	bool has_queue; /* the socket is bound to `queue` */
	uint32_t users; /* references: addresses that share it */
	bool is_zero_copy;
	struct xdp_program program;
	uint8_t *pages; /* XDP_RECEIVE_PAGES, then XDP_SEND_PAGES */
	struct xdp_ring fill; /* pages that the kernel may fill */
	struct xdp_ring receive;
	struct xdp_ring send;
	struct xdp_ring complete; /* pages that have been sent */
	uint64_t overflows; /* the kernel's count at the last udp_xdp_overflows() */
	int send_error; /* 0, or why the last udp_xdp_flush() sent nothing: -errno */
	/* Since when the interface has taken none of the waiting frames; 0: no frame waits. */
	uint64_t blocked_since_ms;
	uint32_t free_count; /* pages in `free_pages` */
	uint64_t free_pages[XDP_SEND_PAGES];
};

/*
 * Open a socket on a free queue of the interface, and let the interface's program redirect to it.
 *
 * `netns`  The cookie of this network namespace.
 *
 * The caller has the first reference. Returns 0 or -errno, as port_udp_use_xdp().
 */
int udp_xdp_open(struct udp_xdp **ret_xdp, uint32_t ifindex, bool is_generic, uint64_t netns);

/* Drop a reference. The last one closes the socket. */
void udp_xdp_unref(struct udp_xdp *xdp);

/*
 * The next received frame; NULL: none. It is borrowed until udp_xdp_release().
 */
const uint8_t *udp_xdp_next(const struct udp_xdp *xdp, uint32_t *ret_bytes);

/* Give back to the kernel the page of the frame that udp_xdp_next() returned. */
void udp_xdp_release(struct udp_xdp *xdp);

/* After a batch of udp_xdp_release(): wake a driver that waits for pages. */
void udp_xdp_refill(struct udp_xdp *xdp);

/*
 * A message to send. It becomes packets of `segment_bytes` of UDP payload; the last one may be
 * shorter.
 */
struct udp_xdp_message {
	const struct roce_frame_headers *headers;
	const uint8_t *macs;
	const struct iovec *pieces; /* the UDP payloads, without headers */
	size_t piece_count;
	uint32_t bytes;
	uint32_t segment_bytes;
};

/*
 * Make frames of the message and queue them for the interface; udp_xdp_flush() sends them. Returns
 * 0; -EAGAIN when there are not enough pages; -EMSGSIZE when a packet is too long for a page; or
 * the error of an interface that took no frame in the last flush.
 */
int udp_xdp_send(struct udp_xdp *xdp, const struct udp_xdp_message *message);

/* Have the kernel send what is queued. `now_ms` is the result of udp_now_ms(). */
void udp_xdp_flush(struct udp_xdp *xdp, uint64_t now_ms);

/* Has the kernel not taken all queued frames, or refused the last flush? */
bool udp_xdp_needs_flush(const struct udp_xdp *xdp);

/*
 * Did the last flush leave frames for which the interface may have room soon? If the interface
 * takes none for UDP_BLOCKED_MS_MAX, udp_xdp_send() fails, and the port uses the UDP socket.
 */
bool udp_xdp_is_blocked(const struct udp_xdp *xdp);

/* Are so many frames unread that the kernel may have dropped packets? */
bool udp_xdp_is_busy(const struct udp_xdp *xdp);

/*
 * Returns how many packets the kernel has dropped since the last call because the port had not
 * read.
 */
uint64_t udp_xdp_overflows(struct udp_xdp *xdp);

#endif
