/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pacing: limit the sending rate of a queue pair to its own rate limit or to the static rate of its
 * path (IBTA 9.11), whichever is slower.
 *
 * A paced queue pair has a transport of its own: a copy of its type's, whose next_packet() first
 * checks the time. So other queue pairs have nothing to check. The schedule is a leaky bucket
 * (GCRA). Each packet moves the due time of the next one by its own duration at the rate, including
 * headers down to Ethernet's. Packets may be early by a burst. A waiting queue pair is on none of
 * the lane's lists; a deadline in lane->pacing puts it back.
 *
 * Acknowledgements (next_unpaced) do not wait, but count.
 *
 * Two transports differ. Raw packets are frames, so ether/raw.c calls pace_holds() itself. Each
 * datagram has its own address, whose static rate delays the next datagram (ib/ud/ud.c), in
 * addition to the limit of the queue pair.
 *
 * Everything runs under the lane's lock.
 */
#ifndef URNIC_QP_PACE_H
#define URNIC_QP_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lane;
struct qp;

/* Valid rates. */
#define PACE_RATE_KBPS_MIN 1u
#define PACE_RATE_KBPS_MAX 100000000u

/*
 * The default burst, as a time at the rate: a busy machine may read its clock that late. A burst is
 * never less than a packet of the largest size.
 */
#define PACE_BURST_NS 1000000u

/*
 * Allocate what pacing needs, before any rate is set. Returns 0 or -ENOMEM. In addition to the
 * lane's lock, the caller holds the lock that serializes the creation of queue pairs.
 */
int pace_prepare(struct qp *qp);

/*
 * The rate limit or the path may have changed: pace by their values from now on. Call after
 * pace_prepare(), unless there is no rate at all.
 */
void pace_update(struct qp *qp);

/*
 * For a transport that does not send packets: must the queue pair wait? If so, its transport's
 * resume() is called at the end of the wait.
 */
bool pace_holds(struct qp *qp, uint64_t now_ns);

/* A frame of `frame_bytes`, without FCS, was sent; or was not sent after it was counted. */
void pace_count(struct qp *qp, uint64_t frame_bytes, uint64_t now_ns);
void pace_take_back(struct qp *qp, uint64_t frame_bytes);

bool pace_is_waiting(const struct qp *qp);

/* The duration of a datagram, BTH to pad, at a rate above 0. IPv4 packets are 20 bytes shorter. */
uint64_t pace_datagram_ns(uint32_t rate_kbps, size_t bytes);

/* The queue pair is being destroyed. */
void pace_done(struct qp *qp);

/* Put queue pairs whose time has come back on the lane's lists. */
void pace_expire(struct lane *lane, uint64_t now_ns);

#endif
