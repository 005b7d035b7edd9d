/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC shared receive queues of other processes of this host (local/channel/owner.h).
 *
 * If a request to a queue pair of a shared XRC domain names an unknown shared receive queue, the
 * queue pair raises SIGNAL_QP_SRQ_LOOKUP. The slot in the queue's number identifies the process
 * that has the queue. The control thread maps the NIC memory of that process. There it looks for a
 * queue of this number, in an XRC domain that was opened with the same file. From then on queue
 * pairs find the queue in nic.srqs. The NIC removes the queue from there with the XRC domain, when
 * the process that has the queue ends, and when a lookup finds that the queue no longer exists.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ib/rc/rc.h"
#include "local/channel/owner.h"
#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "nic/object/nic_object.h"
#include "os/log.h"
#include "peer/nic_owner.h"
#include "peer/nic_peer.h"

enum { BORROWED_SRQS_MAX = 1024 };

/* A shared receive queue of another process. */
struct nic_borrowed_srq {
	struct borrowed_srq borrowed;
	struct list link; /* in borrowed_srqs */
	struct nic_owner *owner;
	uint32_t domain;
};

static struct list borrowed_srqs = {&borrowed_srqs, &borrowed_srqs};
static uint32_t borrowed_srq_count;

/* --- shared receive queues --- */

static void srq_link(struct nic_borrowed_srq *srq)
{
	atomic_store(&srq->borrowed.srq.next_borrowed, atomic_load(&nic.srqs->first_borrowed));
	atomic_store_explicit(&nic.srqs->first_borrowed, &srq->borrowed.srq, memory_order_release);
	list_append(&borrowed_srqs, &srq->link);
	borrowed_srq_count++;
}

static void srq_unlink(struct nic_borrowed_srq *srq)
{
	struct srq *_Atomic *at = &nic.srqs->first_borrowed;

	while (atomic_load(at) != &srq->borrowed.srq)
		at = &atomic_load(at)->next_borrowed;
	atomic_store(at, atomic_load(&srq->borrowed.srq.next_borrowed));
	list_remove(&srq->link);
	borrowed_srq_count--;
}

static void srq_drop(struct nic_borrowed_srq *srq)
{
	srq_unlink(srq);
	nic_srq_forget_on_lanes(&srq->borrowed.srq);
	nic_domain_remove(srq->domain);
	nic_owner_put(srq->owner);
	free(srq);
}

/*
 * Drop the borrowed queues that no longer exist and, unless `xrcd` is 0, all borrowed queues of
 * this XRC domain.
 */
static void srqs_sweep(uint32_t xrcd)
{
	list_for_each_safe(srq, &borrowed_srqs, struct nic_borrowed_srq, link)
		if (srq->borrowed.srq.xrcd == xrcd ||
			!srq->borrowed.srq.borrowed->is_there(&srq->borrowed.srq))
			srq_drop(srq);
}

/* Is this an XRC queue, in a domain of the same device and file as `xrcd`? */
static bool is_of_file(const struct srq_public *public, const struct nic_xrcd *xrcd)
{
	return public->owner == xrcd->ifindex && public->file.device == xrcd->file.device &&
		public->file.inode == xrcd->file.inode && public->cq_offset;
}

/*
 * The offset of the peer's queue `number`, if that queue belongs to the same file as `xrcd`; else
 * 0.
 */
static uint64_t srq_find(const struct nic_peer *peer, const struct nic_xrcd *xrcd, uint32_t number)
{
	uint64_t offset = atomic_load(&peer->public->first_srq_offset);

	for (uint32_t i = 0; i < NIC_SRQ_COUNT_MAX; i++) {
		const struct srq_public *public = peer_at(&peer->peer, offset, sizeof(*public));

		if (!public)
			return 0;
		if (atomic_load(&public->number) == number)
			return is_of_file(public, xrcd) ? offset : 0;
		offset = public->next_offset;
	}
	return 0;
}

/*
 * Make the queue at `offset` of the owner's NIC memory usable here. The queue takes over the
 * caller's reference to `owner`; a failure drops that reference. Returns 0 or -errno.
 */
static int srq_see(struct nic_owner *owner, const struct nic_xrcd *xrcd, uint64_t offset)
{
	const struct srq_public *public = peer_at(&owner->peer->peer, offset, sizeof(*public));
	struct nic_borrowed_srq *srq = calloc(1, sizeof(*srq));
	int error = srq && public ? 0 : -ENOMEM;

	if (!error)
		error = nic_domain_add(owner, public->pd, &srq->domain);
	if (!error &&
		!borrowed_srq_init(
			&srq->borrowed, &owner->process, offset, srq->domain, xrcd->id)) {
		nic_domain_remove(srq->domain);
		error = -ENOENT;
	}
	if (!error)
		error = nic_peer_reach_lane(owner->peer, srq->borrowed.lane,
			&owner->process.doorbell_offset[srq->borrowed.lane]);
	if (error) {
		free(srq);
		nic_owner_put(owner);
		return error;
	}
	srq->owner = owner;
	srq_link(srq);
	return 0;
}

static int srq_attach(const struct nic_xrcd *xrcd, uint32_t number)
{
	struct nic_peer *peer;
	struct nic_owner *owner;
	uint64_t offset;
	int error;

	srqs_sweep(0);
	if (borrowed_srq_count >= BORROWED_SRQS_MAX)
		return -ENOMEM;
	error = nic_peer_get((uint8_t)(number >> 16), &peer);
	if (error)
		return error;
	offset = peer->is_self ? 0 : srq_find(peer, xrcd, number);
	if (!offset) {
		nic_peer_put(peer);
		return -ENOENT;
	}
	error = nic_owner_get(peer, &owner);
	return error ? error : srq_see(owner, xrcd, offset);
}

/*
 * Make sure that queue pairs of the domain find the queue `number`, which may have any value.
 * Returns 0; -ENOENT when there is no such queue; or another -errno.
 */
static int srq_look(const struct nic_xrcd *xrcd, uint32_t number)
{
	return srq_table_find(nic.srqs, number) ||
			srq_table_find_borrowed(nic.srqs, number, xrcd->id)
		? 0
		: srq_attach(xrcd, number);
}

/* --- lookups of shared receive queues --- */

/*
 * The queue pair `qpn`, if it still exists and still waits for the lookup of queue `number`. The
 * worker is locked.
 */
static struct qp *waiting_qp(struct worker *worker, uint32_t qpn, uint32_t number)
{
	uint32_t wanted;
	struct qp *qp = engine_qp_in_lookup(&worker->lane, &wanted);

	return qp && qp->qpn == qpn && wanted == number ? qp : NULL;
}

/* Execute one lookup of the lane. Returns false when none is pending. */
static bool lookup_next(struct worker *worker)
{
	struct nic_xrcd *xrcd;
	uint32_t number, qpn;
	struct qp *qp;
	int error;

	worker_lock(worker);
	qp = engine_qp_in_lookup(&worker->lane, &number);
	qpn = qp ? qp->qpn : 0;
	xrcd = qp ? ((struct nic_qp *)qp->user)->xrcd : NULL;
	worker_unlock(worker);
	if (!qp)
		return false;
	/*
	 * Reference the domain, because its queue pair may be destroyed while this thread waits for
	 * urnicd.
	 */
	xrcd->qp_count++;
	error = srq_look(xrcd, number);
	nic_xrcd_put(xrcd);
	if (error)
		log_write(LOG_INFO,
			"shared receive queue 0x%06x, which a request to queue pair 0x%06x names, "
			"is not found: %s",
			number, qpn, strerror(-error));
	worker_lock(worker);
	qp = waiting_qp(worker, qpn, number);
	if (qp)
		rc_xrc_lookup_done(rc_from_qp(qp), number);
	worker_unlock(worker);
	return true;
}

static void lookups_execute(struct worker *worker)
{
	for (uint32_t done = 0; done < LANE_QP_COUNT_MAX && lookup_next(worker); done++)
		;
}

static void borrowed_work(void)
{
	nic_enter();
	nic_for_each_worker(lookups_execute);
	nic_leave();
}

/* --- ends --- */

static void borrowed_peer_exited(const struct nic_peer *peer)
{
	(void)peer; /* nic_owner_part, which comes first, has marked the peer's queues as gone */
	srqs_sweep(0);
}

static void borrowed_xrcd_ending(const struct nic_xrcd *xrcd)
{
	srqs_sweep(xrcd->id);
}

static void borrowed_forget(void)
{
	list_for_each_safe(srq, &borrowed_srqs, struct nic_borrowed_srq, link)
		free(srq);
	list_init(&borrowed_srqs);
	borrowed_srq_count = 0;
}

const struct nic_part nic_borrowed_part = {
	.work = borrowed_work,
	.peer_exited = borrowed_peer_exited,
	.xrcd_ending = borrowed_xrcd_ending,
	.forget = borrowed_forget,
};
