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
	SEGMENTS_MAX = 64, /* packets of a burst */
	BURST_BYTES_MAX = 65000,
	BUNDLE_BYTES_MAX = 1 << 16, /* of packets that the receiving kernel has merged */
	REPORT_TIMEOUT_MS = 5, /* bytes not reported by then were lost */
};

/*
 * A nonblocking UDP socket between the addresses of the control connection; both ends have
 * exchanged ports.
 */
int open_beside(int control_fd);

/* Have the kernel merge received datagrams. */
void merge_datagrams(int fd);

/*
 * Sleep until a datagram arrives. Returns false when the sender has finished and all its datagrams
 * are received.
 */
bool wait_for_datagram(int fd, int control_fd);

/*
 * Send one burst of packets of `packet_bytes` each, gathered from `count` pieces, in one system
 * call.
 */
void send_burst(int fd, const struct iovec *pieces, size_t count, uint32_t packet_bytes);

#endif
