/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_QUOTA_H
#define URNIC_URNICD_QUOTA_H

/*
 * What one user may have of the system's urnicd: never more than there is left for all others.
 *
 * A user alone may have half of everything. Two users who take all they can have a third each, and
 * so on, so a user who comes later always finds something. Root, and the one user of an urnicd that
 * a program started, may have all.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct server;

enum quota {
	QUOTA_CONNECTIONS,
	QUOTA_FOREIGN, /* connections from other network namespaces */
	QUOTA_SLOTS,
	QUOTA_CLAIMS,
	QUOTA_GROUPS, /* of addresses that no interface need have, those of 127.0.0.0/8 */
	QUOTA_CHANNELS,
};

/*
 * Has the user got its share?
 *
 * `ret_why`  If so: a sentence that says of what, and what to do, of up to `why_bytes`.
 */
bool quota_is_reached(
	const struct server *server, uid_t uid, enum quota what, char *ret_why, size_t why_bytes);

#endif
