/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pacing limits the sending rate of a queue pair to the lowest of three rates: the queue pair's
 * rate limit, the static rate of its path (IBTA 9.11), and what congestion control permits
 * (congestion.h).
 *
 * A paced queue pair has its own copy of its type's transport, whose next_packet() first checks the
 * time. So queue pairs that are not paced have nothing to check. The schedule is a leaky bucket
 * (GCRA). Each packet delays the due time of the next packet by its own duration at the rate,
 * including all headers down to Ethernet's. A packet may leave before its due time, by the duration
 * of a burst at most. A waiting queue pair is on none of the lane's lists; when its deadline in
 * lane->pacing passes, pace_expire() lets it send again.
 *
 * Acknowledgements (next_unpaced) do not wait, but they delay the next packet.
 *
 * Two transports differ. Raw packets are frames and do not pass through next_packet(), so
 * ether/raw.c calls pace_holds() itself. Each datagram has its own address handle, whose static
 * rate delays the next datagram (ib/ud/ud.c), in addition to the limit of the queue pair.
 *
 * Everything runs under the lane's lock.
 */
#ifndef URNIC_QP_PACE_H
#define URNIC_QP_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lane;
struct cc_flow;
struct qp;

/* The range of valid rates. */
#define PACE_RATE_KBPS_MIN 1u
#define PACE_RATE_KBPS_MAX 100000000u

/*
 * The default burst is the number of bytes that the rate permits in this time, because on a busy
 * machine a thread may be that late to send. A burst is never smaller than a packet of the largest
 * size.
 */
#define PACE_BURST_NS 1000000u

/*
 * Allocate the memory for pacing of the queue pair. Call this before a rate is set. Returns 0 or
 * -ENOMEM. In addition to the lane's lock, the caller holds the lock that serializes the creation
 * of queue pairs.
 */
int pace_prepare(struct qp *qp);

/*
 * Allocate the memory for pacing, as pace_prepare() does, for a later pace_follow(), which does not
 * allocate. The queue pair keeps its plain transport until pace_follow() finds a rate. The memory
 * is not touched before.
 */
int pace_reserve(struct qp *qp);

/* The memory for qp->cc, after pace_reserve(): zeroed, and not touched yet. */
struct cc_flow *pace_flow(struct qp *qp);

/*
 * The rate that congestion control permits may have changed: from now on pace by it. The caller has
 * called pace_reserve() before, and qp->cc is not NULL.
 */
void pace_follow(struct qp *qp, uint64_t now_ns);

/* The length of a full packet of the queue pair on the wire. */
uint32_t pace_packet_bytes(const struct qp *qp);

/*
 * The rate limit or the path may have changed. From now on the queue pair is paced by their present
 * values. If there is a rate, the caller has called pace_prepare() before.
 */
void pace_update(struct qp *qp);

/*
 * For a transport without next_packet(): must the queue pair wait? If so, pace_expire() calls the
 * transport's resume() at the end of the wait.
 */
bool pace_holds(struct qp *qp, uint64_t now_ns);

/*
 * pace_count(): a frame of `frame_bytes`, without FCS, is sent. pace_take_back(): the counted frame
 * was not sent after all.
 */
void pace_count(struct qp *qp, uint64_t frame_bytes, uint64_t now_ns);
void pace_take_back(struct qp *qp, uint64_t frame_bytes);

/* Does a rate apply to the queue pair now? */
bool pace_has_rate(const struct qp *qp);

bool pace_is_waiting(const struct qp *qp);

/*
 * How many full packets may leave in this time, at least 1? UINT32_MAX without a rate. The queue
 * pair has a struct pace.
 */
uint32_t pace_packets_in(const struct qp *qp, uint32_t time_ns);

/*
 * The duration at `rate_kbps`, above 0, of a datagram that has `bytes` from BTH to pad. The
 * duration is that of an IPv6 packet, so after an IPv4 packet, which is 20 bytes shorter, the queue
 * pair waits a little too long.
 */
uint64_t pace_datagram_ns(uint32_t rate_kbps, size_t bytes);

/* Free the pacing state of a queue pair that is being destroyed. */
void pace_done(struct qp *qp);

/* Resume the queue pairs whose waiting time has ended. */
void pace_expire(struct lane *lane, uint64_t now_ns);

#endif
