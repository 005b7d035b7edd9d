/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_FABRIC_QUERY_H
#define URNIC_NIC_NIC_FABRIC_QUERY_H

/*
 * Queries to the subnet administrator (IBTA 15.2).
 *
 * A query is the caller's memory. It waits in a list from nic_fabric_query_*() until its answer,
 * its timeout or nic_fabric_query_forget(). One thread receives all answers, and calls on_answer()
 * with `query_lock` locked. on_answer() may call nic_fabric_group_hold() alone of these functions.
 * The fabric's process repeats a query that gets no answer.
 *
 * Any thread may call these functions.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "base/gid.h"
#include "base/list.h"

struct nic_fabric_query {
	struct list link; /* the caller initializes it once, by list_init() */
	/*
	 * `error` 0: `record` is the answer's record (wire/infiniband/sa_record.h). -EHOSTUNREACH:
	 * the administrator has no such record; -EINVAL: it refuses; -ETIMEDOUT; or another -errno:
	 * the fabric has ended.
	 */
	void (*on_answer)(struct nic_fabric_query *query, int error, const uint8_t *record);
	uint64_t until_ns;
	uint32_t port;
	uint32_t transaction;
};

/*
 * Both: return 0, and on_answer() is called once, unless the query is forgotten before;
 * -ENETUNREACH when the port has no subnet manager; or another -errno.
 */

/*
 * Ask for the path from `port` to a GID or a LID; the answer is a struct sa_path.
 *
 * `dgid`  NULL: the path to `dlid`.
 */
int nic_fabric_query_path(struct nic_fabric_query *query, uint32_t port, const struct gid *dgid,
	uint16_t dlid, uint32_t timeout_ms) URNIC_EXPORT_AS(nic_fabric_query_path);

/*
 * Join a multicast group, which is created if it does not exist; the answer is a struct
 * sa_mc_member. A zero GID: create a group, whose GID is in the answer.
 *
 * `join_state`  Bits of enum sa_join.
 * `qkey`        That of the group; a group with another one is refused.
 */
int nic_fabric_query_join(struct nic_fabric_query *query, uint32_t port, const struct gid *mgid,
	uint8_t join_state, uint32_t qkey, uint32_t timeout_ms)
	URNIC_EXPORT_AS(nic_fabric_query_join);

/*
 * The port's membership of a group stays until each process that needs it has left the group. Hold
 * it before the query above, and leave after it, also if the answer was an error. `mgid` is the
 * group's GID. Hold returns 0 or -errno.
 */
int nic_fabric_group_hold(uint32_t port, const struct gid *mgid, uint8_t join_state)
	URNIC_EXPORT_AS(nic_fabric_group_hold);
void nic_fabric_group_leave(uint32_t port, const struct gid *mgid, uint8_t join_state)
	URNIC_EXPORT_AS(nic_fabric_group_leave);

/* on_answer() does not run, and will not be called. */
void nic_fabric_query_forget(struct nic_fabric_query *query)
	URNIC_EXPORT_AS(nic_fabric_query_forget);

/*
 * Around a fork. The child has no query. There call nic_fabric_query_fork_child(), then
 * nic_fabric_query_fork_parent(), which unlocks.
 */
void nic_fabric_query_fork_prepare(void) URNIC_EXPORT_AS(nic_fabric_query_fork_prepare);
void nic_fabric_query_fork_parent(void) URNIC_EXPORT_AS(nic_fabric_query_fork_parent);
void nic_fabric_query_fork_child(void) URNIC_EXPORT_AS(nic_fabric_query_fork_child);

#endif
