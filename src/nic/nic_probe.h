/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_PROBE_H
#define URNIC_NIC_NIC_PROBE_H

/*
 * What the network says of a peer that did not answer: one empty datagram to its RoCE port, and the
 * ICMP error that comes back. For failures only.
 */

#include "base/gid.h"

enum {
	/* How long to wait for an error; a near host's comes before the send returns. */
	NIC_PROBE_WAIT_MS = 2,
	NIC_PROBE_PAUSE_MS = 1000, /* between two datagrams */
};

/*
 * Returns the positive errno: ECONNREFUSED when the port is closed, EHOSTUNREACH and the like; 0
 * when nothing was heard, or another probe was sent less than NIC_PROBE_PAUSE_MS ago. The caller
 * serializes the calls.
 */
int nic_probe(const struct gid *local, const struct gid *remote);

#endif
