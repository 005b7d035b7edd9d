/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_FD_STORE_ADOPT_H
#define URNIC_URNICD_FD_STORE_ADOPT_H

#include "urnicd/server.h"

/*
 * Take over the sockets in a fd store that an earlier urnicd filled. The server gets their groups.
 * A slot that was leased becomes SLOT_ORPHAN, because its process has yet to resume the lease. The
 * function adds the sockets of a survivor's store to the server's own store.
 *
 * `store`  The server's own (inherited), or a survivor's. Stays the caller's.
 *
 * The function skips sockets that are not what their label says, or that the server has already.
 */
void fd_store_adopt(struct server *server, int store);

#endif
