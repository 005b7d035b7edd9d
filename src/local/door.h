/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Doors: where processes of this host leave datagrams for a queue pair.
 *
 * A datagram queue pair has no peer whose inbox (local/inbox.h) it could have: anybody may send to
 * it who knows its number and Q_Key. So each has a door in NIC memory, found by its number, which
 * says what a sender has to know: the Q_Key, the addresses that the queue pair receives on, its
 * receive queue. The sender is a guest (local/guest.h): it marks what it uses, takes a receive
 * request by a compare-and-swap, fills it, and leaves a record in its seat (local/datagram.h). Our
 * threads collect it into the completion queue.
 *
 * The door is open while packets would be received. Its serial number is another one each time, so
 * what was left for the queue pair that it had before is thrown away. Whoever closes it waits for
 * guests who are inside. A request that a guest has taken and was killed with is lost; the queue
 * goes on.
 *
 * Threads: guests at any time. The owner under the lane's lock.
 */
#ifndef URNIC_LOCAL_DOOR_H
#define URNIC_LOCAL_DOOR_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arith.h"
#include "base/gid.h"
#include "local/guest.h"
#include "qp/qp.h"
#include "wire/grh.h"

enum { DOOR_ADDRESSES_MAX = 32 };

struct door {
	/* The owner writes these while nobody knows the door. */
	uint32_t qpn;
	uint32_t recv_pd;
	uint64_t rq_offset;
	uint64_t cq_offset; /* struct cq_ring, to see whether it is armed */
	uint32_t is_rq_shared; /* it may have a limit */
	/* And these at any time. */
	_Atomic uint32_t qkey;
	_Atomic uint64_t serial; /* 0: it is closed */
	_Atomic uint32_t address_count; /* grows only */
	struct gid address[DOOR_ADDRESSES_MAX]; /* of the device */
	/*
	 * Packets that have come, whatever became of them: who has sent some looks here whether
	 * they are through.
	 */
	alignas(64) _Atomic uint32_t arrived;
};

/* The doors of a lane, by the low bits of the queue pairs' numbers; 0: none. */
struct door_table {
	_Atomic uint64_t offset[LANE_QP_COUNT_MAX];
};

/* What all doors of a process have in common. */
struct door_owner {
	struct guest_table *guests;
	guest_wait_fn *wait;
	_Atomic uint64_t last_serial; /* of those ever given */
};

struct door_place {
	struct door *door; /* zeroed */
	uint64_t offset;
	struct door_table *table; /* of the lane */
	struct doorbell *bell; /* of the lane */
	struct door_owner *owner;
};

struct datagram_lane;

/* A datagram queue pair's part in this. The runtime allocates it with the queue pair. */
struct door_qp {
	struct qp_local base; /* qp->local */
	struct qp *qp;
	/* As receiver. */
	struct door_place place;
	/* The door's, or what it was when it was closed by an error; 0: nothing is collected */
	uint64_t serial;
	/*
	 * Of its own receive queue: so many requests were taken whose completions are made, or
	 * lost. The next one to complete has this number; guests and packets take them as they
	 * come.
	 */
	uint32_t turn;
	/* A guest stands still at the receive queue: its memory must never be used again */
	bool is_stood_on;
	/* As sender: local/datagram.h. */
	struct datagram_lane *lane;
	struct mr_cached own; /* of keys that our requests name */
	struct psn captured; /* number of the next datagram that somebody captures */
};

static inline struct door_qp *door_from_qp(const struct qp *qp)
{
	return container_of(qp->local, struct door_qp, base);
}

/*
 * Give the queue pair, which is in RESET, a door. `local` is zeroed, and belongs to it until
 * door_remove(). `lane` says who can be reached.
 */
void door_add(struct door_qp *local, struct qp *qp, const struct door_place *place,
	struct datagram_lane *lane);

/* The queue pair's device has this address, too. The lane is locked. */
void door_add_address(struct door *door, const struct gid *address);

/*
 * The queue pair is about to be destroyed. False when a guest stands still at its receive queue:
 * then door and queue must never be used again, nor the shared queue if it has one, which knows
 * (srq.is_stood_on).
 */
bool door_remove(struct door_qp *local, uint64_t now_ns);

/*
 * A guest has left this for one of the lane's queue pairs. Can it complete now, or are there
 * requests before it that were taken? Then wait until guests who are at it may have left them; or
 * give those up that are not there by now.
 */
bool door_is_in_turn(const struct lane *lane, const struct guest_record *record);
void door_wait(const struct lane *lane, const struct guest_record *record);
void door_skip(const struct lane *lane, const struct guest_record *record);

/* Complete it. */
void door_collect(struct lane *lane, const struct guest_record *record, uint64_t now_ns);

#endif
