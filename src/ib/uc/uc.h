/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable connection (IBTA 9.8.2): like a reliable connection, but without responses and without
 * retransmission.
 *
 * The requester cuts SENDs and WRITEs into packets; a work request is complete when its last packet
 * was sent. The responder receives messages whose packets all arrive, in order. Any other message
 * is lost. Its receive request then serves the next message, and bytes that a WRITE has placed stay
 * (IBTA 9.8.2.2).
 *
 * A First or Only packet begins a new message, whatever packet came before (IBTA 9.8.2.2.1).
 * InfiniBand networks neither duplicate nor reorder, so the specification takes a late or
 * duplicated packet for a new message. An IP network does both. Without a check, a message could be
 * delivered twice, or after a newer one. So the responder drops packets that are up to
 * UC_LATE_PACKETS behind the expected one.
 *
 * Everything runs under the lane's lock.
 */
#ifndef URNIC_IB_UC_UC_H
#define URNIC_IB_UC_UC_H

#include <stdbool.h>
#include <stdint.h>

#include "ib/message.h"
#include "qp/qp.h"
#include "wire/psn.h"

/*
 * A packet that is more than UC_LATE_PACKETS behind the expected one counts as ahead of it. For if
 * the network loses a peer's packets until its PSNs have wrapped around, the peer's new packets
 * seem to be far behind the expected one.
 */
#define UC_LATE_PACKETS 65536

/*
 * While earlier packets are under way, a request is sent in packets even if it could be executed
 * without packets. After UC_FALLBACKS_MAX such requests in a row, the next one waits until the peer
 * has processed all packets. It waits UC_ARRIVAL_NS at most, because packets may be lost.
 */
enum { UC_FALLBACKS_MAX = 16 };

/*
 * How many keys of executed WRITEs the responder remembers. While the guard of keys is up
 * (qp/guard.h), the responder looks up no other keys.
 */
enum { UC_PROVEN_KEYS = 16 };
#define UC_ARRIVAL_NS      4000000u
#define UC_ARRIVAL_LOOK_NS 10000u

struct uc_qp {
	struct qp qp;
	struct psn next; /* PSN of the next packet to send */
	/* Number of sent packets of the work request in progress, which is the oldest one. */
	uint32_t sent_packets;
	/*
	 * Number of requests that were sent in packets since the peer on this host last had
	 * processed all packets.
	 */
	uint32_t fallbacks;
	/* When a request began to wait for the peer to process all packets; 0: no request waits. */
	uint64_t waiting_since_ns;
	struct psn expected;
	bool is_synchronized; /* `expected` follows a received packet; else it is rq_psn */
	struct message message; /* the message that is being received */
	uint32_t proven[UC_PROVEN_KEYS]; /* a ring of the keys of executed WRITEs */
	uint32_t proven_count; /* number of keys that were added so far */
};

extern const struct qp_transport uc_transport;

#endif
