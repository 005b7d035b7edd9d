/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_FD_STORE_ADOPT_H
#define URNIC_URNICD_FD_STORE_ADOPT_H

#include "urnicd/server.h"

/*
 * Take over the sockets in a fd store that an earlier urnicd filled: their groups become the
 * server's, leased slots become orphans, and sockets that the server's fd store lacks are added to
 * it.
 *
 * `store`  The server's own (inherited), or a survivor's. Stays the caller's.
 *
 * Sockets that are not what their label says, or that the server has already, are left out.
 */
void fd_store_adopt(struct server *server, int store);

#endif
