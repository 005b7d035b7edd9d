/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control of a connected queue pair (IBTA annex A17.9).
 *
 * Switches mark packets Congestion Experienced (RFC 3168). The receiver of a marked packet, the
 * notification point, answers with a congestion notification packet (CNP). The sender of the
 * marked packet, the reaction point, obeys CNPs: it is paced (pace.h) at the rate that
 * congestion/cc_flow.h permits. A queue pair is both.
 *
 * The memory of the state is allocated when the queue pair is connected, because nothing is
 * allocated later. It is NIC memory, which is zero from the start. A queue pair that gets neither
 * marks nor CNPs does nothing more, and does not touch that memory unless its rate follows delays.
 *
 * A CNP has no number that a stranger would have to guess. So a host that can send with the peer's
 * address can slow a queue pair down to rp_min_rate, but has no other effect.
 *
 * Everything runs under the lane's lock. Without lane->cc, marks and CNPs are counted only.
 */
#ifndef URNIC_QP_CONGESTION_H
#define URNIC_QP_CONGESTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct packet_origin;
struct packet_run;
struct qp;

/*
 * Allocate the memory of a queue pair that is about to be connected; a repeated call does nothing.
 * Types that are not connected by packets get none. Returns 0 or -ENOMEM. In addition to the lane's
 * lock, the caller holds the lock that serializes the creation of queue pairs.
 */
int congestion_prepare(struct qp *qp);

/* The queue pair has left its connection: cancel its pending CNP and its rate. The memory stays. */
void congestion_reset(struct qp *qp);

/* The queue pair is being destroyed; pace_done() frees the memory. */
void congestion_done(struct qp *qp);

/* The transport has accepted a marked packet of the peer. */
void congestion_on_mark(struct qp *qp, uint64_t now_ns);

/* A CNP for the queue pair arrived, from any host. The queue pair is in a state that receives. */
void congestion_on_cnp(struct qp *qp, const struct packet_origin *origin, uint64_t now_ns);

/* Does the queue pair's rate follow delays? Then the transport calls congestion_on_ack(). */
bool congestion_follows_delay(const struct qp *qp);

/*
 * An acknowledgement for `packets`, at least 1, has come `rtt_ns` after the packet that requested
 * it.
 */
void congestion_on_ack(struct qp *qp, uint64_t rtt_ns, uint32_t packets, uint64_t now_ns);

/*
 * Write the pending CNP (qp->is_cnp_pending) to run->buffer. Returns its length, BTH to the end of
 * the reserved bytes.
 */
size_t congestion_cnp_write(struct qp *qp, struct packet_run *run);

#endif
