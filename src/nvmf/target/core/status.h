/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_STATUS_H
#define URNIC_NVMF_TARGET_STATUS_H

/*
 * The state of a target as text, for its user.
 */

struct target;

/*
 * A text with the ports and their linked subsystems, then the subsystems with their hosts,
 * namespaces and controllers. The caller frees it. NULL: no memory.
 */
char *target_status(const struct target *target);

#endif
