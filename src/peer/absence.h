/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_ABSENCE_H
#define URNIC_PEER_ABSENCE_H

/*
 * Lookups in other network namespaces that found no process.
 *
 * A connection to another host looks for its peer in every network namespace of this host, which
 * takes longer than all the rest of it. A program that connects many queue pairs to one peer would
 * repeat that for each. So the answer "no process has this slot of this address" is kept for
 * ABSENCE_NS. A process gets its slot before its peer learns a queue pair number with it, so the
 * answer rarely changes. If it does, connections made meanwhile use packets.
 *
 * The NIC's lock covers all calls.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/gid.h"

#define ABSENCE_NS 1000000000ull

/* Did absence_note() get this address and slot less than ABSENCE_NS before `now_ns`? */
bool absence_is_known(const struct gid *gid, uint8_t slot, uint64_t now_ns);

/* No process has this slot of the address. May replace what is known of another address or slot. */
void absence_note(const struct gid *gid, uint8_t slot, uint64_t now_ns);

#endif
