/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_STATUS_H
#define URNIC_NVMF_TARGET_STATUS_H

/*
 * The state of a target as text, for its user.
 */

struct target;

/*
 * A line for each port with its linked subsystems, for each subsystem with its hosts and
 * namespaces, and for each connected host. The caller frees it. NULL: no memory.
 */
char *target_status(const struct target *target);

#endif
