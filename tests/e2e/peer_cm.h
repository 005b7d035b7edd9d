/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_E2E_PEER_CM_H
#define URNIC_TESTS_E2E_PEER_CM_H

/*
 * Connections by rdma_cm, for programs with one connection at a time. As in peer.h, a failure is
 * printed and ends the program.
 */

#include <rdma/rdma_cma.h>

#include "peer.h"

enum { PEER_CM_TIMEOUT_MS = 60000 };

/* Take the next event, which is to be `wanted`. Returns its identifier. */
static inline struct rdma_cm_id *peer_cm_await(
	struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_cm_event(channel, &event), "no event: %m");
	CHECK(event->event == wanted, "%s (%d) where %s was to come", rdma_event_str(event->event),
		event->status, rdma_event_str(wanted));
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

/* An identifier whose address and route are resolved. */
static inline struct rdma_cm_id *peer_cm_resolve(
	struct rdma_event_channel *channel, struct sockaddr *address)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "no identifier: %m");
	CHECK(!rdma_resolve_addr(id, NULL, address, PEER_CM_TIMEOUT_MS), "resolve_addr: %m");
	peer_cm_await(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, PEER_CM_TIMEOUT_MS), "resolve_route: %m");
	peer_cm_await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static inline void peer_cm_listen(struct rdma_event_channel *channel, struct sockaddr *address)
{
	struct rdma_cm_id *listener;

	CHECK(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "no identifier: %m");
	CHECK(!rdma_bind_addr(listener, address), "bind: %m");
	CHECK(!rdma_listen(listener, 4), "listen: %m");
}

#endif
