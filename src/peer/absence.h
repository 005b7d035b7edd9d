/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_ABSENCE_H
#define URNIC_PEER_ABSENCE_H

/*
 * A table of lookups in other network namespaces that have found no process.
 *
 * When a queue pair connects to an address outside of this network namespace, the NIC looks for the
 * peer in every network namespace of this host. The search takes longer than the rest of the
 * connection set-up. A program that connects many queue pairs to one host would repeat the search
 * for each of them. So the answer "no process has this slot of this address" is kept for
 * ABSENCE_NS. A process gets its slot before its peer can learn one of its queue pair numbers, so
 * the answer seldom becomes wrong. If it does, connections that are set up meanwhile use packets.
 *
 * The NIC's lock covers all calls.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/gid.h"

#define ABSENCE_NS 1000000000ull

/* Was absence_note() called for this address and slot less than ABSENCE_NS before `now_ns`? */
bool absence_is_known(const struct gid *gid, uint8_t slot, uint64_t now_ns);

/*
 * Record that no process has this slot of the address. May overwrite the record of another address
 * or slot.
 */
void absence_note(const struct gid *gid, uint8_t slot, uint64_t now_ns);

#endif
