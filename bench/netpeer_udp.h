/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the UDP modes of netpeer share.
 */
#ifndef BENCH_NETPEER_UDP_H
#define BENCH_NETPEER_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iovec;

enum {
	SEGMENTS_MAX = 64, /* most packets of a burst */
	BURST_BYTES_MAX = 65000,
	/* The length of a bundle: packets that the receiving kernel has merged. */
	BUNDLE_BYTES_MAX = 1 << 16,
	REPORT_TIMEOUT_MS = 5, /* bytes that are not reported by then count as lost */
};

/*
 * Open a nonblocking UDP socket, connected between the addresses of the control connection. Both
 * ends call this at the same time, because it exchanges the ports with the other end.
 */
int open_beside(int control_fd);

/* Let the kernel merge received datagrams (UDP_GRO). */
void merge_datagrams(int fd);

/*
 * Sleep until a datagram arrives. Returns false when the sender has said on the control connection
 * that it has finished, and no more datagrams arrive.
 */
bool wait_for_datagram(int fd, int control_fd);

/*
 * Send one burst of packets of `packet_bytes` each, gathered from `count` pieces, in one system
 * call.
 */
void send_burst(int fd, const struct iovec *pieces, size_t count, uint32_t packet_bytes);

#endif
