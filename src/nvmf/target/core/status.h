/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_STATUS_H
#define URNIC_NVMF_TARGET_STATUS_H

/*
 * A target for the eyes of its user.
 */

struct target;

/*
 * The ports with what is linked to them, the subsystems with their hosts and namespaces, and who is
 * connected: a line for each. The caller frees it. NULL: no memory.
 */
char *target_status(const struct target *target);

#endif
