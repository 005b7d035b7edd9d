/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pacing: a queue pair that sends no faster than it is told to, by a rate limit of its own or by
 * the static rate of its path (IBTA 9.11), whichever is slower.
 *
 * A queue pair that is paced has a transport of its own: a copy of that of its type, in which
 * next_packet() first looks whether it is time. So one that is not paced has nothing to look at.
 * The schedule is that of a leaky bucket (GCRA): each packet moves the time at which the next one
 * is due by what it takes at the rate, headers down to Ethernet's included, and packets may be
 * early by a burst. A queue pair that has to wait is on none of the lane's lists; a deadline in
 * lane->pacing puts it back.
 *
 * What the transport calls unpaced (acknowledgements) does not wait, but counts.
 *
 * Two transports send in other ways. Raw packets are frames and not packets: ether/raw.c asks by
 * itself. Each datagram has its own address, whose static rate says how long after it the next one
 * goes: ib/ud/ud.c, besides the limit of the queue pair.
 *
 * All of this runs under the lane's lock.
 */
#ifndef URNIC_QP_PACE_H
#define URNIC_QP_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lane;
struct qp;

/* Rates that may be asked for. */
#define PACE_RATE_KBPS_MIN 1u
#define PACE_RATE_KBPS_MAX 100000000u

/*
 * The burst of who does not ask for another: what the rate makes in this time, for a machine that
 * looks at the clock late. It is never less than one packet of the largest size.
 */
#define PACE_BURST_NS 1000000u

/*
 * Have what pacing takes, though nothing is paced yet. Returns 0 or -ENOMEM. The caller holds the
 * lock that serializes creation, too.
 */
int pace_prepare(struct qp *qp);

/*
 * The rate limit or the path may have changed: pace by what they say now, from now on. After
 * pace_prepare() unless there is no rate at all.
 */
void pace_update(struct qp *qp);

/*
 * For a transport that does not send packets: may the queue pair send nothing yet? Then its
 * transport's resume() is called when it may.
 */
bool pace_holds(struct qp *qp, uint64_t now_ns);

/* A frame of so many bytes, without FCS, is sent; or was not, after all. */
void pace_count(struct qp *qp, uint64_t frame_bytes, uint64_t now_ns);
void pace_take_back(struct qp *qp, uint64_t frame_bytes);

/* Does it wait for its rate? */
bool pace_is_waiting(const struct qp *qp);

/* What a datagram, BTH to pad, takes at a rate that is not 0. Over IPv4 it is 20 bytes less. */
uint64_t pace_datagram_ns(uint32_t rate_kbps, size_t bytes);

/* The queue pair goes. */
void pace_done(struct qp *qp);

/* Those whose time has come have their turn again. */
void pace_expire(struct lane *lane, uint64_t now_ns);

#endif
