/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pacing: a queue pair that sends no faster than it is told to, by a rate limit of its own or by the
 * static rate of its path (IBTA 9.11), whichever is slower.
 *
 * A queue pair that is paced has a transport of its own: a copy of that of its type, in which
 * next_packet() first looks whether it is time. So one that is not paced has nothing to look at. The
 * schedule is that of a leaky bucket (GCRA): each packet moves the time at which the next one is due by
 * what it takes at the rate, headers down to Ethernet's included, and packets may be early by a burst. A
 * queue pair that has to wait is on none of the lane's lists; a deadline in lane->pacing puts it back.
 *
 * What the transport calls unpaced (acknowledgements) does not wait, but counts.
 *
 * All of this runs under the lane's lock.
 */
#ifndef URNIC_QUEUE_PACE_H
#define URNIC_QUEUE_PACE_H

#include <stdint.h>

struct lane;
struct qp;

/* Rates that may be asked for. */
#define PACE_RATE_KBPS_MIN 1u
#define PACE_RATE_KBPS_MAX 100000000u

/*
 * The burst of who does not ask for another: what the rate makes in this time, for a machine that looks
 * at the clock late. It is never less than one packet of the largest size.
 */
#define PACE_BURST_NS 1000000u

/*
 * Have what pacing takes, though nothing is paced yet. Returns 0 or -ENOMEM. The caller holds the lock
 * that serializes creation, too.
 */
int pace_prepare(struct qp *qp);

/*
 * The rate limit or the path may have changed: pace by what they say now, from now on. After
 * pace_prepare() unless there is no rate at all.
 */
void pace_update(struct qp *qp);

/* The queue pair goes. */
void pace_done(struct qp *qp);

/* Those whose time has come have their turn again. */
void pace_expire(struct lane *lane, uint64_t now_ns);

#endif
