/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_OBJECT_NIC_STREAM_H
#define URNIC_NIC_OBJECT_NIC_STREAM_H

/*
 * The TCP connections of iWARP queue pairs. A connection manager hands a connection to the NIC, and
 * the NIC tells the manager when the connection ends.
 *
 * The manager embeds a struct nic_stream_user in its own struct of the connection. This struct and
 * the queue pair refer to each other.
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
 * Hand the TCP connection `fd`, after MPA's negotiation, to iWARP queue pair `qpn`. The caller has
 * set user->over. On success the NIC owns `fd`. Returns 0; -EINVAL when there is no such queue
 * pair, or its state does not allow a connection; or another -errno.
 */
int nic_stream_open(uint32_t qpn, int fd, const struct iwarp_settings *settings,
	const struct qp_path *path, struct nic_stream_user *user);

/*
 * Move the user's queue pair to the error state. If `is_abandoned`, the NIC does not call
 * user->over any more.
 */
void nic_stream_end(struct nic_stream_user *user, bool is_abandoned);

#endif
