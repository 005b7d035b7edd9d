/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UD endpoints: where processes of this host leave datagrams for a queue pair.
 *
 * A datagram queue pair has no single peer, so it has no request channel (local/channel/channel.h).
 * Instead it has an endpoint in NIC memory, which senders find by the queue pair's number. The
 * endpoint says what a sender has to know: the Q_Key, the addresses that the queue pair receives
 * on, and its receive queue. The sender is a borrower (local/channel/borrower.h): it sets its
 * in-use mark, takes a receive request by a compare-and-swap, fills it, and leaves a record in its
 * borrower's channel (local/datagram.h). The owner's threads collect the record into the completion
 * queue.
 *
 * The endpoint is open while the queue pair's state lets it receive packets. Each opening has a new
 * serial number, by which the owner recognizes and discards records for an earlier queue pair.
 * Closing waits until no borrower has a mark. If a borrower is killed, the receive request that it
 * had taken is lost; the queue continues with the next one.
 *
 * Threads: borrowers access the endpoint at any time, the owner under the lane's lock.
 */
#ifndef URNIC_LOCAL_UD_ENDPOINT_H
#define URNIC_LOCAL_UD_ENDPOINT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arith.h"
#include "base/gid.h"
#include "local/local.h"
#include "qp/qp.h"

enum { UD_ENDPOINT_ADDRESSES_MAX = 32 };

struct ud_endpoint {
	/* The owner writes the fields up to is_rq_shared only while the endpoint is in no table. */
	uint32_t qpn;
	uint32_t recv_pd;
	uint64_t rq_offset;
	uint64_t cq_offset; /* struct cq_ring: the sender reads whether the queue is armed */
	uint32_t is_rq_shared; /* the receive queue is a shared one, which may have a limit */
	/* The owner may write the fields from here on at any time. */
	_Atomic uint32_t qkey;
	_Atomic uint64_t serial; /* 0: the endpoint is closed */
	_Atomic uint32_t address_count; /* never decreases */
	struct gid address[UD_ENDPOINT_ADDRESSES_MAX]; /* the device's addresses */
	/*
	 * Count of packets that arrived, whether they were delivered or dropped. A sender reads the
	 * count to learn whether its packets have arrived.
	 */
	alignas(64) _Atomic uint32_t arrived;
};

/*
 * The offsets of a lane's endpoints, by the low bits of the queue pairs' numbers; 0: there is none.
 */
struct ud_endpoint_table {
	_Atomic uint64_t offset[LANE_QP_COUNT_MAX];
};

struct ud_endpoint_place {
	struct ud_endpoint *endpoint; /* closed, and without addresses */
	uint64_t offset;
	struct ud_endpoint_table *table; /* the table of the queue pair's lane */
	struct local_lane *lane; /* the struct of the queue pair's lane */
};

struct datagram_lane;

/* The same-host state of a datagram queue pair. Room `nic` allocates it with the queue pair. */
struct ud_endpoint_qp {
	struct qp_local base; /* qp->local */
	struct qp *qp;
	/* The fields for the role of receiver. */
	struct ud_endpoint_place place;
	/*
	 * The last serial of the endpoint. An error closes the endpoint, and keeps the serial. 0:
	 * no record matches
	 */
	uint64_t serial;
	/*
	 * The number of the receive request that completes next: all earlier ones of the queue
	 * pair's own queue have completed or are lost. Borrowers and the responder take requests in
	 * order, but borrowers may publish them in any order.
	 */
	uint32_t turn;
	/* A suspended borrower uses the receive queue, so the queue's memory is never reused */
	bool is_in_use;
	/* The fields for the role of sender (local/datagram.h). */
	struct datagram_lane *lane;
	struct mr_cached own; /* the last lookup of an lkey of this queue pair's requests */
	struct psn captured; /* PSN of the next captured datagram */
};

static inline struct ud_endpoint_qp *ud_endpoint_from_qp(const struct qp *qp)
{
	return container_of(qp->local, struct ud_endpoint_qp, base);
}

/*
 * Give a UD endpoint to the queue pair, which is in RESET.
 *
 * `local`  Zeroed by the caller; the queue pair uses it until ud_endpoint_remove().
 * `lane`   The sending lane's paths and routes, for datagrams that the queue pair sends.
 */
void ud_endpoint_add(struct ud_endpoint_qp *local, struct qp *qp,
	const struct ud_endpoint_place *place, struct datagram_lane *lane);

/* Add an address of the queue pair's device to the endpoint. The lane is locked. */
void ud_endpoint_add_address(struct ud_endpoint *endpoint, const struct gid *address);

/*
 * Remove the endpoint, because the queue pair is about to be destroyed. Returns false when a
 * suspended borrower uses its receive queue; then the memory of endpoint and queue must never be
 * reused. If the queue is a shared receive queue, the call sets its srq.is_in_use.
 */
bool ud_endpoint_remove(struct ud_endpoint_qp *local, uint64_t now_ns);

/*
 * A borrower has published this record for one of the lane's queue pairs. May the record's receive
 * request complete now? It may not while the record of an earlier taken request is missing.
 * ud_endpoint_skip() gives up all such earlier requests.
 */
bool ud_endpoint_is_in_order(const struct lane *lane, const struct channel_record *record);
void ud_endpoint_skip(const struct lane *lane, const struct channel_record *record);

/* Complete the receive request of the record. */
void ud_endpoint_collect(struct lane *lane, const struct channel_record *record, uint64_t now_ns);

#endif
