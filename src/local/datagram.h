/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams to queue pairs of this host.
 *
 * A datagram names a path (that of an address handle, on this lane) and a queue pair number. The
 * lane knows the paths that may lead to addresses of this host. The first datagrams on such a path
 * to a queue pair use packets, until the control thread has found the process that has the queue
 * pair (datagram_lookup_done()); then there is a route. A sender with a route finds the queue
 * pair's UD endpoint (local/ud_endpoint.h), and is a borrower of that process.
 *
 * Only datagrams that succeed are delivered without packets. A datagram that the receiver will drop
 * (a wrong Q_Key, or a payload longer than its receive request) uses packets, so that the receiver
 * drops and counts it. Later datagrams use packets, too, until that one has arrived, so that they
 * stay in order.
 *
 * A sender waits for a receive request. But a sender does not wait if the receive queue was empty
 * when the sender found the endpoint, or after a fruitless wait. It waits again when the receiver
 * has posted a request. A sender also waits while the channel has no room for a record, or
 * FALLBACKS_MAX packets are under way to the receiver. Each fruitless wait halves the next one,
 * because other datagrams of the queue pair wait, too. Datagrams may lose their order when several
 * senders use packets at once, or when packets are lost; IBTA promises no order.
 *
 * Threads: the caller holds the lane's lock.
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
	/* The most routes of a lane; above this number, idle routes are removed */
	DATAGRAM_ROUTES_MAX = 4096,
};

/* A path whose remote address may be an address of this host. */
struct datagram_path {
	struct list link; /* in datagram_lane.paths */
	uint32_t id; /* the id in struct qp_path */
	struct gid local;
	struct gid remote;
	uint8_t traffic_class; /* the value that the receiver gets, with the ECN bits */
	uint8_t hop_limit;
};

/* The process that has a queue pair number. */
struct datagram_process {
	struct owner_process *owner; /* NULL: no process has the number, or it cannot be reached */
	uint32_t lane; /* index of the owner's lane with the slot of the number */
	const struct ud_endpoint_table *endpoints; /* the UD endpoints of the owner's lane */
	struct doorbell *doorbell; /* the doorbell of the owner's lane */
	/* The result of owner_channel() for this lane and the owner's lane */
	struct request_channel *channel;
};

struct datagram_route {
	struct list link; /* in datagram_lane.routes */
	const struct datagram_path *path;
	uint32_t qpn;
	struct datagram_process process;
	uint64_t again_ns; /* when the next lookup is due, if `process.owner` is NULL */
	/* The endpoint of `qpn`, and the values that were read from it. */
	struct ud_endpoint *endpoint; /* NULL: none is open */
	uint64_t serial;
	uint32_t recv_pd;
	bool is_rq_shared;
	struct recv_queue *rq;
	struct cq_ring *cq;
	uint32_t posted_seen; /* the count of posted receive requests that was last read */
	struct mr_cached receive; /* the last lookup of a key that receive requests name */
	uint64_t mark; /* the in-use mark for the last such key; 0: none */
	/*
	 * `packets` datagrams were sent as packets since endpoint->arrived had the value
	 * `arrived_before`.
	 */
	uint32_t packets;
	uint32_t arrived_before;
	struct receive_wait wait;
};

/* A pending lookup: which process of the host has the queue pair of this number? */
struct datagram_lookup {
	const struct datagram_path *path; /* NULL: no lookup is pending */
	uint32_t qpn;
	uint32_t from_qpn; /* the sending queue pair, whose counters count a failure */
	/* Number of datagrams that were sent to `qpn` as packets since the lookup began */
	uint32_t packets;
};

/* What a lane has for the datagrams that its queue pairs send. */
struct datagram_lane {
	struct list paths[DATAGRAM_PATH_BUCKETS];
	struct list routes[DATAGRAM_ROUTE_BUCKETS];
	uint32_t route_count;
	struct datagram_lookup lookup; /* one lookup at most is pending */
	void (*request_lookup)(void); /* wakes the thread that executes `lookup`; never blocks */
};

void datagram_lane_init(struct datagram_lane *lane, void (*request_lookup)(void));

/*
 * Add a path that may lead to this host. The path belongs to the lane until datagram_path_remove().
 * The caller removes a path only when no route uses it.
 */
void datagram_path_add(struct datagram_lane *lane, struct datagram_path *path);
void datagram_path_remove(struct datagram_lane *lane, struct datagram_path *path);

/*
 * The pending lane->lookup is done. The caller has zeroed `route` and set its `process` or, if no
 * process was found, `again_ns`. The route belongs to the lane until datagram_route_take().
 */
void datagram_lookup_done(struct datagram_lane *lane, struct datagram_route *route);

/*
 * Remove a route for which `is_it` returns true, and return that route. Returns NULL when there is
 * none.
 */
struct datagram_route *datagram_route_take(struct datagram_lane *lane,
	bool (*is_it)(const struct datagram_route *route, const void *context),
	const void *context);

/* For datagram_route_take(): does the route lead to no open endpoint now? */
bool datagram_route_is_idle(const struct datagram_route *route, const void *context);

/* The functions `can_execute` and `execute` of struct qp_local_ops. */
bool datagram_can_execute(struct qp *qp, const struct send_wqe *wqe);
enum qp_local_result datagram_execute(struct qp *qp, const struct send_wqe *wqe, uint64_t now_ns,
	uint64_t *ret_at_ns, enum fault *ret_fault);

/*
 * datagram_capture.c: do what local_capture() does, for a datagram to `path`. The PSNs of a queue
 * pair's datagrams count from 0.
 */
void datagram_capture(
	struct ud_endpoint_qp *from, const struct datagram_path *path, const struct send_wqe *wqe);

#endif
