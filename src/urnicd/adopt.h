/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_ADOPT_H
#define URNIC_URNICD_ADOPT_H

#include "urnicd/server.h"

/*
 * Take over the sockets in a bag that an earlier urnicd filled: their groups become ours, slots in
 * use orphans, and what our own bag does not hold yet goes into it.
 *
 * `bag`  The server's own (inherited), or a survivor's. Stays the caller's.
 *
 * Sockets that are not what their label says, or that we have already, are left out.
 */
void adopt_bag(struct server *server, int bag);

#endif
