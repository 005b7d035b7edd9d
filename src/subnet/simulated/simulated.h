/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SUBNET_SIMULATED_SIMULATED_H
#define URNIC_SUBNET_SIMULATED_SIMULATED_H

/*
 * The tables that the embedded subnet manager would give a simulated network. The same manager sets
 * up subnets of `urnic fabric up`, so a simulation shows what its routes do with credits.
 */

#include "fabric/infiniband/infiniband.h"

/*
 * Make a subnet of the same nodes and cables, let the embedded manager set it up, let the hosts of
 * each group join it at the subnet administrator, and copy the forwarding tables.
 *
 * `fabric`  infiniband_init() has made its tables, infiniband_add_group() all of its groups. This
 *           replaces both.
 *
 * Returns 0; -ENOMEM; -E2BIG when a switch has 255 ports or more; or -ENETUNREACH when some switch
 * has no route to a host.
 */
int simulated_tables_set(struct fabric *fabric);

#endif
