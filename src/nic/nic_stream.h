/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_STREAM_H
#define URNIC_NIC_NIC_STREAM_H

/*
 * The TCP connections of iWARP queue pairs: given to them by a connection manager, and taken away
 * when they are over.
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
	/* The stream is over. The worker is locked. */
	void (*over)(struct nic_stream_user *user);
};

/*
 * Give an iWARP queue pair, by its number, the TCP connection `fd`, with MPA behind it; it is the
 * NIC's then. `user->over` is set. Returns 0; -EINVAL when there is no such queue pair, or not in a
 * state for it; or -errno; then `fd` is the caller's.
 */
int nic_stream_open(uint32_t qpn, int fd, const struct iwarp_settings *settings,
	const struct qp_path *path, struct nic_stream_user *user);

/*
 * The user's queue pair goes to the error state; with `is_abandoned`, `user` hears no more of it.
 */
void nic_stream_end(struct nic_stream_user *user, bool is_abandoned);

#endif
