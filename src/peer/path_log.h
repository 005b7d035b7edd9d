/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_PATH_LOG_H
#define URNIC_PEER_PATH_LOG_H

/*
 * The log of paths: with URNIC_LOG=info a process logs once for each peer whether its data takes
 * packets, and why.
 *
 * A table remembers the last PATH_LOG_PEERS lines, so that a thousand queue pairs to one peer are
 * one line. The NIC's lock covers all calls.
 */

#include <stdint.h>

#include "base/gid.h"

enum { PATH_LOG_PEERS = 64 };

/* The data of connections to `remote`, which is process `pid` of this host, needs no packets. */
void path_log_local(const struct gid *remote, uint32_t pid);

/*
 * The data of connections to `remote` takes packets.
 *
 * `why`  A constant string.
 */
void path_log_packets(const struct gid *remote, const char *why);

#endif
