/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_STREAM_H
#define URNIC_NIC_NIC_STREAM_H

/*
 * The TCP connections of iWARP queue pairs. A connection manager hands them over, and learns here
 * when they end.
 *
 * The manager embeds a struct nic_stream_user in its connection. It names the queue pair, and the
 * queue pair names it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "iwarp/iwarp.h"

struct nic_qp;

struct nic_stream_user {
	struct nic_qp *qp; /* NULL: none */
	/* The stream has ended. The worker is locked. */
	void (*over)(struct nic_stream_user *user);
};

/*
 * Hand the TCP connection `fd`, after MPA's negotiation, to an iWARP queue pair. The caller has set
 * `user->over`. On success the NIC owns `fd`. Returns 0; -EINVAL when no such queue pair is in a
 * legal state; or another -errno.
 */
int nic_stream_open(uint32_t qpn, int fd, const struct iwarp_settings *settings,
	const struct qp_path *path, struct nic_stream_user *user);

/*
 * Move the user's queue pair to the error state. With `is_abandoned`, `user` gets no further call.
 */
void nic_stream_end(struct nic_stream_user *user, bool is_abandoned);

#endif
