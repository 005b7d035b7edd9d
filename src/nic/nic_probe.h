/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_PROBE_H
#define URNIC_NIC_NIC_PROBE_H

/*
 * Asks the network about a peer that did not answer: sends one empty datagram to the peer's RoCE
 * port, and waits for an ICMP error. Only reports of failures use this.
 */

#include "base/gid.h"

enum {
	/* How long to wait for an error. The error of a near host comes before the send returns. */
	NIC_PROBE_WAIT_MS = 2,
	NIC_PROBE_PAUSE_MS = 1000, /* least time between two datagrams */
};

/*
 * Returns the positive errno of the ICMP error: ECONNREFUSED when the port is closed, EHOSTUNREACH
 * and the like. Returns 0 when no error came, or when another probe was sent less than
 * NIC_PROBE_PAUSE_MS ago. The caller serializes the calls.
 */
int nic_probe(const struct gid *local, const struct gid *remote);

#endif
