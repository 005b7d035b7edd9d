/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IB_RC_SELECTIVE_PASS_H
#define URNIC_IB_RC_SELECTIVE_PASS_H

/*
 * Which packets to send again: the requester's half of selective repeat.
 *
 * A map (wire/selective.h) says which packets the peer has. A hole is a packet that the peer lacks
 * although it has a later one. Networks seldom reorder packets, so each hole counts as lost. The
 * requester sends the holes again, in a pass from the first to the last, and then goes on with new
 * packets.
 *
 * Maps arrive faster than holes are repaired. So a hole is sent once in a round. A round ends when
 * the peer has a packet that was sent after the round's last hole: that packet has overtaken the
 * holes that are still open, so they are lost again. If no such packet arrives, a probe ends the
 * round.
 *
 * A probe is a pass without a round. It sends one packet again, whether that packet is lost or not,
 * because the answer has a map.
 *
 * The functions are pure. All PSNs are within a window of SELECTIVE_PACKETS_MAX packets.
 */

#include <stdbool.h>
#include <stdint.h>

#include "wire/psn.h"
#include "wire/selective.h"

/* All zero: no round. The fields from `base` on count only while is_open or is_active is set. */
struct selective_pass {
	bool is_open; /* a round has begun, and has not ended */
	bool is_active; /* the requester's cursor is at a hole before `end` */
	struct psn base; /* bit i of the map: the peer has the packet `base` + i */
	struct selective_map map;
	struct psn end; /* all holes before this PSN belong to the round */
	struct psn sent; /* packets from this PSN on were sent after the round's last hole */
};

/*
 * Can the peer of this requester have sent the map? It cannot if the map is empty, if the map has
 * the missing packet, or if the map has a packet that was never sent.
 *
 * `missing`  The PSN of the NAK.
 * `next`     The PSN after the last packet that was ever sent.
 */
static inline bool selective_map_is_possible(
	const struct selective_map *map, struct psn missing, struct psn next)
{
	return !selective_map_is_empty(map) && !selective_map_has(map, 0) &&
		psn_before(psn_add(missing, selective_map_last(map)), next);
}

/*
 * The peer has the packets of `map`, whose first bit is for `una`, the oldest packet that is not
 * acknowledged. The other packets before `end` are holes.
 *
 * `newest`  The newest packet that the peer has shown to have.
 * `next`    The PSN after the last packet that was ever sent.
 *
 * Returns the number of holes that the round does not have yet. *ret_from becomes the first of
 * them.
 */
uint32_t selective_pass_learn(struct selective_pass *pass, const struct selective_map *map,
	struct psn una, struct psn end, struct psn newest, struct psn next, struct psn *ret_from);

/*
 * The first hole at `from` or after it; pass->end when the round has no further one. `from` is not
 * before pass->base.
 */
struct psn selective_pass_hole(const struct selective_pass *pass, struct psn from);

/* The length of the run of consecutive holes that begins with `hole`, which is a hole itself. */
uint32_t selective_pass_run(const struct selective_pass *pass, struct psn hole);

/* A pass over the `count` packets from `psn` on, as a probe. Ends the round. */
static inline struct selective_pass selective_pass_probe(struct psn psn, uint32_t count)
{
	return (struct selective_pass){.is_active = true, .base = psn, .end = psn_add(psn, count)};
}

static inline bool selective_pass_is_probe(const struct selective_pass *pass)
{
	return pass->is_active && !pass->is_open;
}

/* `una` has advanced. End the round if all of its packets are acknowledged. */
static inline void selective_pass_advance(struct selective_pass *pass, struct psn una)
{
	if (pass->is_open && !psn_before(una, pass->sent))
		pass->is_open = false;
}

#endif
