/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SUBNET_MANAGER_MANAGER_H
#define URNIC_SUBNET_MANAGER_MANAGER_H

/* The embedded subnet manager of a subnet (subnet/subnet.h). */

#include "subnet/subnet.h"

/* For subnet_create(). */
extern const struct subnet_manager_calls subnet_embedded_manager;

/*
 * Disable the embedded subnet manager, or enable it again. Call this before the first
 * subnet_advance() for a subnet that another manager alone sets up.
 */
void subnet_manager_enable(struct subnet *subnet, bool is_enabled);

#endif
