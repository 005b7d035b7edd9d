/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD endpoints: where processes of this host leave datagrams for a queue pair.
 *
 * A datagram queue pair has no single peer, so it has no request channel (local/channel/channel.h).
 * It has an endpoint in NIC memory instead, found by its number. The endpoint says what a sender
 * has to know: the Q_Key, the addresses that the queue pair receives on, and its receive queue. The
 * sender is a borrower (local/channel/borrower.h): it sets its in-use mark, takes a receive request
 * by a compare-and-swap, fills it, and leaves a record in its borrower's channel
 * (local/datagram.h). The owner's threads collect the record into the completion queue.
 *
 * The endpoint is open while packets would be received. Each opening has a new serial number, so
 * the owner discards records for earlier queue pairs. Closing waits for the marks of borrowers. A
 * borrower that is killed loses the request that it had taken; the queue goes on.
 *
 * Threads: borrowers at any time. The owner under the lane's lock.
 */
#ifndef URNIC_LOCAL_UD_ENDPOINT_H
#define URNIC_LOCAL_UD_ENDPOINT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arith.h"
#include "base/gid.h"
#include "local/channel/borrower.h"
#include "local/local.h"
#include "qp/qp.h"
#include "wire/grh.h"

enum { UD_ENDPOINT_ADDRESSES_MAX = 32 };

struct ud_endpoint {
	/* The owner writes these while the endpoint is in no table. */
	uint32_t qpn;
	uint32_t recv_pd;
	uint64_t rq_offset;
	uint64_t cq_offset; /* struct cq_ring, to see whether it is armed */
	uint32_t is_rq_shared; /* it may have a limit */
	/* The owner writes these at any time. */
	_Atomic uint32_t qkey;
	_Atomic uint64_t serial; /* 0: it is closed */
	_Atomic uint32_t address_count; /* grows only */
	struct gid address[UD_ENDPOINT_ADDRESSES_MAX]; /* of the device */
	/*
	 * Count of packets that arrived, delivered or not. A sender reads it to learn whether the
	 * packets that it has sent have arrived.
	 */
	alignas(64) _Atomic uint32_t arrived;
};

/* The endpoints of a lane, by the low bits of the queue pairs' numbers; 0: none. */
struct ud_endpoint_table {
	_Atomic uint64_t offset[LANE_QP_COUNT_MAX];
};

struct ud_endpoint_place {
	struct ud_endpoint *endpoint; /* zeroed */
	uint64_t offset;
	struct ud_endpoint_table *table; /* of the lane */
	struct local_lane *lane; /* of the lane */
};

struct datagram_lane;

/* A datagram queue pair's state. `nic` allocates it with the queue pair. */
struct ud_endpoint_qp {
	struct qp_local base; /* qp->local */
	struct qp *qp;
	/* As receiver. */
	struct ud_endpoint_place place;
	/* The endpoint's, also after an error has closed it; 0: nothing is collected */
	uint64_t serial;
	/*
	 * Count of requests of its own receive queue that were taken and have completed, or are
	 * lost: the number of the request that completes next. Borrowers and packets take requests
	 * in order, but may publish them in any order.
	 */
	uint32_t turn;
	/* A stopped borrower uses the receive queue: its memory must never be used again */
	bool is_in_use;
	/* As sender: local/datagram.h. */
	struct datagram_lane *lane;
	struct mr_cached own; /* of keys that our requests name */
	struct psn captured; /* PSN of the next captured datagram */
};

static inline struct ud_endpoint_qp *ud_endpoint_from_qp(const struct qp *qp)
{
	return container_of(qp->local, struct ud_endpoint_qp, base);
}

/*
 * Give the queue pair, which is in RESET, a UD endpoint.
 *
 * `local`  Zeroed by the caller; the queue pair uses it until ud_endpoint_remove().
 * `lane`   Has the routes for datagrams that the queue pair sends.
 */
void ud_endpoint_add(struct ud_endpoint_qp *local, struct qp *qp,
	const struct ud_endpoint_place *place, struct datagram_lane *lane);

/* The queue pair's device has this address, too. The lane is locked. */
void ud_endpoint_add_address(struct ud_endpoint *endpoint, const struct gid *address);

/*
 * The queue pair is about to be destroyed. False when a stopped borrower uses its receive queue:
 * then the memory of endpoint and queue must never be used again. That includes a shared receive
 * queue, in which srq.is_in_use is set.
 */
bool ud_endpoint_remove(struct ud_endpoint_qp *local, uint64_t now_ns);

/*
 * A borrower has published this record for one of the lane's queue pairs. May it complete now? Not
 * if earlier requests were taken and are not published yet. ud_endpoint_skip() gives those up.
 */
bool ud_endpoint_is_in_turn(const struct lane *lane, const struct channel_record *record);
void ud_endpoint_skip(const struct lane *lane, const struct channel_record *record);

/* Complete it. */
void ud_endpoint_collect(struct lane *lane, const struct channel_record *record, uint64_t now_ns);

#endif
