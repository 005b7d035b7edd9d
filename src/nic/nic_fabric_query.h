/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_FABRIC_QUERY_H
#define URNIC_NIC_NIC_FABRIC_QUERY_H

/*
 * Queries to the subnet administrator (IBTA 15.2).
 *
 * The caller owns the memory of a query. The query is in a list until its answer arrives, its
 * timeout expires, or the caller calls nic_fabric_query_forget(). One thread receives all answers,
 * and calls on_answer() with `query_lock` locked. The only function below that on_answer() may call
 * is nic_fabric_group_hold(). The fabric's process repeats a query that gets no answer.
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
	 * `error` is 0, and `record` is the answer's record (wire/infiniband/sa_record.h); or
	 * -EHOSTUNREACH if the administrator has no such record; -EINVAL if it refuses; -ETIMEDOUT;
	 * or another -errno if the fabric has ended.
	 */
	void (*on_answer)(struct nic_fabric_query *query, int error, const uint8_t *record);
	uint64_t until_ns;
	uint32_t port;
	uint32_t transaction;
};

/*
 * The next two functions return 0; -ENETUNREACH when the port has no subnet manager; or another
 * -errno. After a return of 0, on_answer() is called once, unless nic_fabric_query_forget() is
 * called before.
 */

/*
 * Ask for the path from `port` to a GID or a LID; the answer is a struct sa_path.
 *
 * `dgid`  NULL: the path to `dlid`.
 */
int nic_fabric_query_path(struct nic_fabric_query *query, uint32_t port, const struct gid *dgid,
	uint16_t dlid, uint32_t timeout_ms) URNIC_EXPORT_AS(nic_fabric_query_path);

/*
 * Join a multicast group. The administrator creates the group if it does not exist. The answer is a
 * struct sa_mc_member.
 *
 * `mgid`        The group's GID. Zero: the administrator chooses one, which is in the answer.
 * `join_state`  Bits of enum sa_join.
 * `pkey`        The P_Key of its partition.
 * `qkey`        The group's Q_Key. The administrator refuses the join if the group has another
 *               Q_Key.
 */
int nic_fabric_query_join(struct nic_fabric_query *query, uint32_t port, const struct gid *mgid,
	uint8_t join_state, uint16_t pkey, uint32_t qkey, uint32_t timeout_ms)
	URNIC_EXPORT_AS(nic_fabric_query_join);

/*
 * The port stays a member of a group until each process that holds the membership has left. Call
 * nic_fabric_group_hold() before nic_fabric_query_join(), and nic_fabric_group_leave() at the end,
 * also after an error. `mgid` is the group's GID. nic_fabric_group_hold() returns 0 or -errno.
 */
int nic_fabric_group_hold(uint32_t port, const struct gid *mgid, uint8_t join_state)
	URNIC_EXPORT_AS(nic_fabric_group_hold);
void nic_fabric_group_leave(uint32_t port, const struct gid *mgid, uint8_t join_state)
	URNIC_EXPORT_AS(nic_fabric_group_leave);

/* End the query. After the return on_answer() neither runs nor will be called. */
void nic_fabric_query_forget(struct nic_fabric_query *query)
	URNIC_EXPORT_AS(nic_fabric_query_forget);

/*
 * Around a fork: prepare() locks `query_lock`, and parent() unlocks it. The child calls child(),
 * which drops all queries, and then parent().
 */
void nic_fabric_query_fork_prepare(void) URNIC_EXPORT_AS(nic_fabric_query_fork_prepare);
void nic_fabric_query_fork_parent(void) URNIC_EXPORT_AS(nic_fabric_query_fork_parent);
void nic_fabric_query_fork_child(void) URNIC_EXPORT_AS(nic_fabric_query_fork_child);

#endif
