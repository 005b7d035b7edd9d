/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Targets whose host has ended.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ib/rc/rc.h"
#include "os/clock.h"
#include "os/log.h"
#include "runtime/nic_internal.h"

/* What the dead process has left here comes before what its queue pairs get from now on. */
static void take_in(struct worker *worker)
{
	worker_lock(worker);
	worker_collect(worker);
	worker_unlock(worker);
}

/* Be the one who has the slot. */
static int inherit_slot(struct nic_peer *dead, uint8_t slot)
{
	uint32_t index;
	int error = nic_worker_inherit(slot, &index);

	if (error)
		return error == -EBUSY ? -EAGAIN : error;
	log_write(LOG_INFO, "process %u has ended; its XRC queue pairs live here now", dead->pid);
	dead->users++; /* for those who ask later */
	nic.estate[index].dead = dead;
	nic_target_listen();
	return 0;
}

int nic_target_succeed(struct nic_peer *dead, uint8_t slot)
{
	uint64_t identity;
	uint32_t pid;
	int error = nic_peer_identify(slot, &pid, &identity);

	if (error == -ENOENT)
		return inherit_slot(dead, slot);
	if (!error && identity == dead->identity && nic_peer_has_ended(dead))
		return -EAGAIN;
	return error;
}

/* This queue pair is made anew now. False when it was before, or memory runs out. */
static bool estate_take(struct nic_estate *estate, uint32_t number)
{
	uint32_t *longer;

	for (uint32_t i = 0; i < estate->made_count; i++)
		if (estate->made[i] == number)
			return false;
	longer = reallocarray(estate->made, estate->made_count + 1, sizeof(*longer));
	if (!longer)
		return false;
	longer[estate->made_count++] = number;
	estate->made = longer;
	return true;
}

/*
 * Copies of what the dead process had. False when there is nothing of this number and file that can
 * be gone on with.
 */
static bool read_estate(struct nic_estate *estate, uint32_t number, uint32_t ifindex,
	const struct xrc_file *file, struct qp_public *ret_public, struct rc_qp *ret_object)
{
	const struct nic_peer *dead = estate->dead;
	const struct qp_public *public = nic_peer_find_qp(dead, number);
	const struct rc_qp *object;

	if (!public)
		return false;
	memcpy(ret_public, public, sizeof(*ret_public));
	object = peer_at(&dead->peer, ret_public->object_offset, sizeof(*object));
	if (ret_public->type != QP_TYPE_XRC_RECV || ret_public->owner != ifindex || !file->inode ||
		ret_public->file.device != file->device || ret_public->file.inode != file->inode ||
		!object)
		return false;
	memcpy(ret_object, object, sizeof(*ret_object));
	return estate_take(estate, number);
}

/*
 * Bring it to where `from` was, with the same attributes. Both paths are open. The worker is
 * locked. Returns 0 or -errno.
 */
static int state_inherit(struct qp *qp, const struct qp *from, const struct qp_attr *attr)
{
	enum qp_state end = from->state;
	bool is_connected = !gid_is_zero(&attr->path.remote) && end != QP_INIT && end != QP_RESET;
	uint32_t alternate = from->has_alt_path ? ATTR_ALT_PATH : 0;
	uint64_t now_ns = clock_now_ns();
	int error = 0;

	if (end != QP_RESET)
		error = qp_modify(qp, QP_INIT,
			ATTR_STATE | ATTR_PKEY_INDEX | ATTR_PORT | ATTR_ACCESS, attr, now_ns);
	if (!error && is_connected)
		error = qp_modify(qp, QP_RTR,
			ATTR_STATE | ATTR_AV | ATTR_PATH_MTU | ATTR_DEST_QPN | ATTR_RQ_PSN |
				ATTR_MAX_DEST_RD_ATOMIC | ATTR_MIN_RNR_TIMER | alternate,
			attr, now_ns);
	if (!error && (end == QP_RTS || end == QP_SQD))
		error = qp_modify(
			qp, QP_RTS, ATTR_STATE | ATTR_TIMEOUT | ATTR_SQ_PSN, attr, now_ns);
	if (!error && (end == QP_SQD || end == QP_ERR))
		error = qp_modify(qp, end, ATTR_STATE, attr, now_ns);
	return error;
}

/* Likewise, and so that it goes on receiving. Returns 0 or -errno. */
static int inherit(struct nic_qp *qp, const struct rc_qp *object)
{
	uint32_t numbers[QP_RD_ATOMIC_MAX + 1];
	uint32_t count = rc_xrc_needs(&object->responder, numbers);
	struct qp_attr attr = object->qp.attr;
	uint32_t paths = gid_is_zero(&attr.path.remote) ? 0
		: object->qp.has_alt_path               ? ATTR_AV | ATTR_ALT_PATH
							: ATTR_AV;
	int error = nic_qp_paths_open(qp, &attr, paths | ATTR_DEST_QPN);

	if (error)
		return error;
	qp->open_paths = paths;
	for (uint32_t i = 0; i < count; i++)
		nic_far_look(qp->xrcd, numbers[i]);
	worker_lock(qp->worker);
	error = state_inherit(qp->qp, &object->qp, &attr);
	qp->qp->is_comm_established = object->qp.is_comm_established;
	if (!error)
		qp->is_broken =
			rc_xrc_inherit(rc_from_qp(qp->qp), &object->responder, clock_now_ns());
	else
		nic_qp_paths_close(qp, &attr, paths);
	worker_unlock(qp->worker);
	return error;
}

/* Make the queue pair anew that `public` and `object` are copies of. Returns 0 or -errno. */
static int make_anew(struct worker *worker, struct nic_xrcd *xrcd, const struct qp_public *public,
	const struct rc_qp *object, struct nic_qp **ret_qp)
{
	struct nic_qp *qp = calloc(1, sizeof(*qp));
	struct qp_init inner = {
		.type = QP_TYPE_XRC_RECV,
		.xrcd = xrcd->id,
		.file = xrcd->file,
		.mtu_bytes = object->qp.mtu_bytes,
		.owner = public->owner,
		.number = public->qpn,
		.user = qp,
	};
	int error;

	if (!qp)
		return -ENOMEM;
	qp->xrcd = xrcd;
	qp->worker = worker;
	nic_qp_release(qp);
	qp->epoch = nic_epoch;
	qp->stream.fd = -1;
	list_init(&qp->guests);
	worker_lock(worker);
	error = engine_qp_create(&worker->lane, &inner, 0, &qp->qp);
	worker_unlock(worker);
	if (!error) {
		nic_xrcd_add_lane(xrcd, worker->lane.index);
		error = inherit(qp, object);
		if (error) {
			worker_lock(worker);
			engine_qp_destroy(qp->qp);
			worker_unlock(worker);
		}
	}
	if (error)
		free(qp);
	else
		*ret_qp = qp;
	return error;
}

struct nic_qp *nic_target_inherit(uint32_t number, uint32_t ifindex, const struct xrc_file *file)
{
	struct worker *worker = nic_worker_of_slot((uint8_t)(number >> 16));
	struct nic_estate *estate = worker ? &nic.estate[worker->lane.index] : NULL;
	struct nic_xrcd *xrcd;
	struct qp_public public;
	struct rc_qp object;
	struct nic_qp *qp;
	int error;

	if (!estate || !estate->dead ||
		!read_estate(estate, number, ifindex, file, &public, &object))
		return NULL;
	xrcd = nic_xrcd_get(file, ifindex);
	if (!xrcd)
		return NULL;
	nic_for_each_worker(take_in);
	error = make_anew(worker, xrcd, &public, &object, &qp);
	if (error) {
		log_write(LOG_INFO, "XRC queue pair 0x%06x is lost with its process: %s", number,
			strerror(-error));
		nic_xrcd_put(xrcd);
		return NULL;
	}
	estate->was_used = true;
	return qp;
}
