/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_QUOTA_H
#define URNIC_URNICD_QUOTA_H

/*
 * The quota of one user in a system-wide urnicd. urnicd refuses a user more of a resource when that
 * user already has as much of it as is free.
 *
 * A single user may have half of each resource. Two users at their quota have a third each, and so
 * on, so a later user always gets some. Root, and the one user of an urnicd that a program started,
 * have no quota.
 */

#include <stdbool.h>
#include <sys/types.h>

struct server;

enum quota {
	QUOTA_CONNECTIONS,
	QUOTA_FOREIGN, /* connections from other network namespaces */
	QUOTA_SLOTS,
	QUOTA_CLAIMS,
	QUOTA_GROUPS, /* groups of addresses that need no interface: 127.0.0.0/8 */
	QUOTA_CHANNELS,
};

/*
 * Has the user used up its quota?
 *
 * `ret_why`  If so, a sentence with the resource and the remedy, of up to `why_bytes`.
 */
bool quota_is_reached(
	const struct server *server, uid_t uid, enum quota what, char *ret_why, size_t why_bytes);

#endif
