/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/worker_port.h"

#include <poll.h>

#include "ib/ud/ud.h"
#include "wire/infiniband/lrh.h"
#include "wire/infiniband/pkey.h"

/* The turn has a packet: read the clock, unless that was done in this turn. */
static inline void turn_stamp(struct worker *worker)
{
	if (worker->is_now_fresh)
		return;
	worker->now_ns = clock_now_ns();
	worker->is_now_fresh = true;
}

/* --- UDP --- */

static bool on_datagram(void *context, const struct port_udp_packet *packet)
{
	struct worker *worker = context;
	uint8_t slot = packet->data[5]; /* the top byte of the BTH's destination QPN */

	turn_stamp(worker);
	if (slot != worker->lane.slot && !gid_is_multicast(packet->dgid)) {
		worker->hooks->forward(worker, slot, packet);
		return false;
	}
	struct packet_origin origin = {
		.source = packet->sgid,
		.destination = packet->dgid,
		.traffic_class = packet->tos,
		.hop_limit = packet->hop_limit,
		.ifindex = packet->scope_ifindex,
		.source_port = packet->source_port,
	};
	return engine_receive(
		&worker->lane, &origin, packet->data, packet->data_bytes, worker->now_ns);
}

static unsigned udp_receive(struct worker *worker)
{
	return port_udp_receive(worker->port, on_datagram, worker);
}

static unsigned udp_looks(const struct worker *worker)
{
	return port_udp_looks(worker->port);
}

static uint8_t *udp_buffer(struct worker *worker, uint32_t *ret_capacity_bytes)
{
	return port_udp_buffer(worker->port, ret_capacity_bytes);
}

static void udp_stage_run(struct worker *worker, uint32_t bytes, const struct packet_run *run)
{
	port_udp_stage_run(worker->port, bytes, run);
}

static int udp_flush(struct worker *worker)
{
	return port_udp_flush(worker->port);
}

static bool udp_is_blocked(const struct worker *worker)
{
	return port_udp_is_blocked(worker->port);
}

static unsigned udp_fds(const struct worker *worker, struct pollfd *ret_fds)
{
	return port_udp_fds(worker->port, ret_fds);
}

const struct worker_port_kind worker_port_udp = {
	.receive = udp_receive,
	.looks = udp_looks,
	.buffer = udp_buffer,
	.stage_run = udp_stage_run,
	.flush = udp_flush,
	.is_blocked = udp_is_blocked,
	.fds = udp_fds,
};

/* --- InfiniBand --- */

/* Does the packet come from a LID of the queue pair's peer? A datagram may come from any LID. */
static bool is_from_peer_lid(const struct qp *qp, uint16_t slid)
{
	return qp->type == QP_TYPE_UD || qp->attr.path.ib.dlid == slid ||
		(qp->has_alt_path && qp->attr.alt_path.ib.dlid == slid);
}

static bool has_pkey(
	const struct worker *worker, const struct port_ib_packet *packet, uint32_t index)
{
	return pkey_matches(port_ib_pkey(worker->ib, packet->link.port, index), packet->pkey);
}

/*
 * Check what only InfiniBand has: the packet's P_Key against the one that the queue pair uses, and
 * its source LID (IBTA 9.6.1). A packet for a queue pair that does not exist passes this check.
 */
static bool is_acceptable(const struct worker *worker, const struct port_ib_packet *packet)
{
	const struct qp *qp = engine_qp_find(&worker->lane, get_be24(packet->data + 5));

	if (!qp)
		return true;
	if (!has_pkey(worker, packet, qp->attr.pkey_index) &&
		!(qp->has_alt_path && has_pkey(worker, packet, qp->attr.alt_pkey_index))) {
		port_ib_violate(worker->ib, PORT_IB_BAD_PKEY);
		return false;
	}
	return is_from_peer_lid(qp, packet->link.slid);
}

static bool on_frame(void *context, const struct port_ib_packet *packet)
{
	struct worker *worker = context;

	bool is_accepted;

	turn_stamp(worker);
	if (!is_acceptable(worker, packet))
		return false;
	worker->lane.has_bad_qkey = false;
	is_accepted = engine_receive(
		&worker->lane, &packet->origin, packet->data, packet->data_bytes, worker->now_ns);
	if (worker->lane.has_bad_qkey)
		port_ib_violate(worker->ib, PORT_IB_BAD_QKEY);
	return is_accepted;
}

static unsigned ib_receive(struct worker *worker)
{
	return port_ib_receive(worker->ib, on_frame, worker);
}

static unsigned ib_looks(const struct worker *worker)
{
	(void)worker;
	return 0; /* a look at shared memory is no system call */
}

/* The function lane->waits_for_room. A queue pair that has no next packet waits for nothing. */
static bool ib_waits_for_room(const struct lane *lane, const struct qp *qp)
{
	const struct worker *worker = container_of(lane, const struct worker, lane);
	uint32_t path = qp->attr.path.id, qpn = qp->attr.dest_qpn;

	if (qp->type == QP_TYPE_UD) {
		const struct send_wqe *wqe = sq_at(qp->sq, qp->sq->completed);

		if (qp->sq->completed == qp->sq->posted)
			return false;
		path = wqe->datagram.path;
		qpn = wqe->datagram.qpn;
	}
	return !port_ib_path_has_room(worker->ib, path, qp->attr.pkey_index, qpn);
}

static void room_follow(struct worker *worker)
{
	worker->lane.waits_for_room = port_ib_is_blocked(worker->ib) ? ib_waits_for_room : NULL;
}

static uint8_t *ib_buffer(struct worker *worker, uint32_t *ret_capacity_bytes)
{
	uint8_t *buffer = port_ib_buffer(worker->ib, ret_capacity_bytes);

	room_follow(worker);
	return buffer;
}

static void ib_stage_run(struct worker *worker, uint32_t bytes, const struct packet_run *run)
{
	port_ib_send_run(worker->ib, bytes, run);
}

/*
 * While the port is blocked, packets of other routes may still leave, so the caller never gets
 * -EAGAIN.
 */
static int ib_flush(struct worker *worker)
{
	port_ib_flush(worker->ib);
	room_follow(worker);
	return 0;
}

static bool ib_is_blocked(const struct worker *worker)
{
	return port_ib_is_blocked(worker->ib);
}

static unsigned ib_fds(const struct worker *worker, struct pollfd *ret_fds)
{
	ret_fds[0] = (struct pollfd){.fd = port_ib_fd(worker->ib), .events = POLLIN};
	return 1;
}

static void ib_watch(struct worker *worker, bool is_watched)
{
	port_ib_watch(worker->ib, is_watched);
}

const struct worker_port_kind worker_port_ib = {
	.receive = ib_receive,
	.looks = ib_looks,
	.buffer = ib_buffer,
	.stage_run = ib_stage_run,
	.flush = ib_flush,
	.is_blocked = ib_is_blocked,
	.fds = ib_fds,
	.watch = ib_watch,
};

int worker_use_infiniband(struct worker *worker, const struct port_ib_wire *wire)
{
	int error = port_ib_create(wire, &worker->ib);

	if (error)
		return error;
	port_udp_destroy(worker->port);
	worker->port = NULL;
	worker->kind = &worker_port_ib;
	worker->lane.link = &ud_link_infiniband;
	worker->is_watching_sockets = false;
	return 0;
}
