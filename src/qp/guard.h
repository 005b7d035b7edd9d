/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_QP_GUARD_H
#define URNIC_QP_GUARD_H

/*
 * Guards against guessing.
 *
 * RoCEv2 has no authentication. A stranger is a host that can send packets with the peer's IP
 * address, but sees none of the answers. So the stranger has to guess: queue pair number (24 bits),
 * PSN (24 bits), key (32 bits). Without a guard, wrong guesses cost the stranger nothing, and a
 * million a second are possible. So each wrong number or key counts as a try, and tries have an
 * allowance. There are two kinds of tries:
 *
 * - A try at numbers: a queue pair number that is not in use; an RC response to a PSN that was not
 *   sent, or was answered long ago; an RC request with a PSN farther than GUARD_PSN_DISTANCE from
 *   the expected one; a WRITE over UC that is refused.
 * - A try at keys: a WRITE over UC that is refused for key, bounds or access, and comes from the
 *   peer's port. RC needs no such guard, because the first wrong key ends the connection (IBTA
 *   9.9.3).
 *
 * A queue pair has GUARD_TRIES of each kind, and regains one in GUARD_TRY_NS. All queue pairs of a
 * lane with the same peer share GUARD_PEER_TRIES, and regain one in GUARD_PEER_TRY_NS. While either
 * allowance is used up, the guard of that kind is up:
 *
 * - Numbers: a packet from another UDP source port than the peer's last good packet is dropped and
 *   counted (guarded_drops). An RC response needs an MSN that the outstanding requests allow.
 * - Keys: a WRITE over UC is dropped before the key lookup, and counted (guarded_keys), unless this
 *   queue pair has recently executed a WRITE with the same key. A try from another port than the
 *   peer's does not count, because otherwise a stranger's tries would keep the peer from using new
 *   keys.
 *
 * An RC request whose PSN is farther than GUARD_PSN_DISTANCE is never answered, because it may also
 * be a late packet of the queue pair's previous connection.
 *
 * Without wrong numbers the guard is down, and every packet passes. While a stranger guesses, the
 * guard is up; then a peer that changes its source port loses packets, and a UC peer loses WRITEs
 * with a new key. A reliable peer retransmits, and succeeds when the tries end. rxe and urnic send
 * all packets of a connection from one port. urnic draws the port at random from 2^14; rxe computes
 * it from its queue pair number.
 *
 * The mean cost of a successful guess while the guard is up, at a million packets a second. The
 * stranger knows the queue pair's number, but neither the peer's port nor the PSN nor a key:
 *
 * - An RC response that is accepted: 2^31 packets, 36 minutes, to guess a port of 2^14 and a PSN of
 *   2^24, of which 128 are outstanding. After the connection's first 2^24 messages, the stranger
 *   has to guess the MSN, too: 2^48 packets, 9 years.
 * - An RC request that is executed: 2^38 packets, 3 days, to guess the port and the expected PSN.
 *   If both ends repeat selectively, 127 later PSNs are as good, so 2^31 packets, 36 minutes.
 * - A WRITE over UC that is executed: 2^32 / K seconds for K keys of the domain, which is 136 years
 *   for one key and a day for 49,152. Against all queue pairs with the peer together, the time is
 *   an eighth of that.
 *
 * If the stranger also knows the port, a response takes 0.13 s and a request 17 s, or 0.13 s with
 * selective repeat; a WRITE over UC takes the same time as without the port. In the GUARD_TRIES
 * tries that remain before the guard is up, the chance that a response is accepted is 1 in 16,384.
 *
 * Peers whose addresses have equal hashes share an allowance, so the lane needs no list of peers.
 * Threads: the lane's lock covers all calls.
 */

#include <stdbool.h>
#include <stdint.h>

#include "lane/tries.h"

struct lane;
struct packet_origin;
struct qp;

enum {
	GUARD_TRIES = 8,
	GUARD_PEER_TRIES = 64,
	GUARD_PSN_DISTANCE = 1 << 16, /* more packets than any peer has outstanding */
};

#define GUARD_TRY_NS      1000000000ull
#define GUARD_PEER_TRY_NS 125000000ull

/*
 * Count a packet from `origin` as a try at a number or a key.
 *
 * `qp`  The packet's destination queue pair; NULL: no queue pair has that number.
 */
void guard_note(struct lane *lane, struct qp *qp, enum guard_kind kind,
	const struct packet_origin *origin, uint64_t now_ns);

/* Is the guard of this kind up for packets from `origin` to the queue pair? */
bool guard_is_up(const struct qp *qp, enum guard_kind kind, const struct packet_origin *origin,
	uint64_t now_ns);

/*
 * The guard of numbers is up. Must the caller drop the packet, because it has the peer's address
 * but not the peer's port? If so, the function counts the packet.
 */
bool guard_refuses(struct qp *qp, const struct packet_origin *origin);

#endif
