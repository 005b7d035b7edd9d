/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams to queue pairs of this host.
 *
 * A datagram names a path (an address handle's, on this lane) and a queue pair. The lane knows the
 * paths that may lead to addresses of this host. The first datagrams on such a path to a queue pair
 * go by packets, until the control thread has found the process behind the number
 * (datagram_lookup_done()); then there is a route. A sender with a route finds the queue pair's UD
 * endpoint (local/ud_endpoint.h), and is a borrower there.
 *
 * Only datagrams that succeed are delivered here. One that the receiver will drop (a wrong Q_Key,
 * or a payload longer than its receive request) goes by packets, so that the receiver drops and
 * counts it. The datagrams behind it follow by packets until it has arrived, so that they stay in
 * order. A sender waits for a receive request if there were some before, and for a receiver that is
 * behind by as many packets or records as it has room for. Each fruitless wait halves the next,
 * because a datagram queue pair has other destinations, too. Datagrams may lose their order when
 * several senders use packets at once, or when packets are lost; IBTA promises none.
 *
 * Threads: the lane's lock.
 */
#ifndef URNIC_LOCAL_DATAGRAM_H
#define URNIC_LOCAL_DATAGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/gid.h"
#include "base/list.h"
#include "local/channel/owner.h"
#include "local/ud_endpoint.h"
#include "memory/mr.h"
#include "qp/qp.h"

enum {
	DATAGRAM_PATH_BUCKETS = 1024,
	DATAGRAM_ROUTE_BUCKETS = 256,
	DATAGRAM_ROUTES_MAX = 4096, /* of a lane; beyond that, idle routes are removed */
};

/* A path to an address that may be one of this host. */
struct datagram_path {
	struct list link; /* in datagram_lane.paths */
	uint32_t id; /* struct qp_path */
	struct gid local;
	struct gid remote;
	uint8_t traffic_class; /* as it arrives, ECN bits included */
	uint8_t hop_limit;
};

/* The process that has a queue pair number. */
struct datagram_process {
	struct owner_process *owner; /* NULL: no process that can be reached */
	uint32_t lane; /* of that process, which has the slot of the number */
	const struct ud_endpoint_table *endpoints; /* of that lane */
	struct doorbell *doorbell; /* of that lane */
	struct request_channel *channel; /* this lane's there, for that lane */
};

struct datagram_route {
	struct list link; /* in datagram_lane.routes */
	const struct datagram_path *path;
	uint32_t qpn;
	struct datagram_process process;
	uint64_t again_ns; /* without an owner: when to look again */
	/* The endpoint that was found. */
	struct ud_endpoint *endpoint; /* NULL: none */
	uint64_t serial;
	uint32_t recv_pd;
	bool is_rq_shared;
	struct recv_queue *rq;
	struct cq_ring *cq;
	uint32_t posted_seen; /* of its receive requests */
	struct mr_cached receive; /* of keys that they name */
	uint64_t mark; /* that of the last such key; 0: none */
	/* Count of datagrams sent as packets since `endpoint->arrived` was `arrived_before`. */
	uint32_t packets;
	uint32_t arrived_before;
	struct receive_wait wait;
};

/* A pending lookup: which process of the host has the queue pair of this number? */
struct datagram_lookup {
	const struct datagram_path *path; /* NULL: no lookup is pending */
	uint32_t qpn;
	uint32_t from_qpn; /* the sender, whose counters count the result */
	uint32_t packets; /* sent to `qpn` since the lookup began */
};

/* A lane's part. */
struct datagram_lane {
	struct list paths[DATAGRAM_PATH_BUCKETS];
	struct list routes[DATAGRAM_ROUTE_BUCKETS];
	uint32_t route_count;
	struct datagram_lookup lookup; /* one at a time */
	void (*request_lookup)(void); /* wakes the thread that executes it; never blocks */
};

void datagram_lane_init(struct datagram_lane *lane, void (*request_lookup)(void));

/*
 * A path was opened that may lead to this host. It belongs to the lane until it is removed. No
 * route may use it then.
 */
void datagram_path_add(struct datagram_lane *lane, struct datagram_path *path);
void datagram_path_remove(struct datagram_lane *lane, struct datagram_path *path);

/*
 * The pending lane->lookup is done. `route` is zeroed but for the process, or the time of the next
 * lookup. It belongs to the lane until datagram_route_take().
 */
void datagram_lookup_done(struct datagram_lane *lane, struct datagram_route *route);

/* Take back a route for which `is_it` returns true; NULL: there is none. */
struct datagram_route *datagram_route_take(struct datagram_lane *lane,
	bool (*is_it)(const struct datagram_route *route, const void *context),
	const void *context);

/* For datagram_route_take(): a route that leads to no queue pair now. */
bool datagram_route_is_idle(const struct datagram_route *route, const void *context);

/* See struct qp_local_ops. */
bool datagram_can_execute(struct qp *qp, const struct send_wqe *wqe);
enum qp_local_result datagram_execute(struct qp *qp, const struct send_wqe *wqe, uint64_t now_ns,
	uint64_t *ret_at_ns, enum fault *ret_fault);

#endif
