/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains. A domain has a number, which its shared receive queues and queue pairs refer to, and
 * the mask of the lanes of these queue pairs.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nic/nic_part.h"
#include "nic/object/nic_object.h"

/*
 * Find the domain of `file` on this interface. Returns NULL when there is none, or `file` is
 * zeroed. The NIC is locked.
 */
static struct nic_xrcd *xrcd_find(const struct xrc_file *file, uint32_t ifindex)
{
	if (!file->inode)
		return NULL;
	list_for_each(xrcd, &nic.xrcds, struct nic_xrcd, link)
		if (xrcd->ifindex == ifindex && xrcd->file.device == file->device &&
			xrcd->file.inode == file->inode)
			return xrcd;
	return NULL;
}

/* Returns NULL when out of memory. The NIC is locked and up. */
static struct nic_xrcd *xrcd_create(const struct xrc_file *file, uint32_t ifindex)
{
	struct nic_xrcd *xrcd = calloc(1, sizeof(*xrcd));

	if (!xrcd)
		return NULL;
	xrcd->id = ++nic.last_xrcd;
	xrcd->home = nic.next_home++ % nic.lane_count;
	xrcd->epoch = nic_epoch;
	xrcd->file = *file;
	xrcd->ifindex = ifindex;
	list_append(&nic.xrcds, &xrcd->link);
	return xrcd;
}

int nic_xrcd_create(const struct xrc_file *file, uint32_t ifindex, struct nic_xrcd **ret_xrcd)
{
	struct nic_xrcd *xrcd = NULL;
	int error;

	nic_enter();
	error = nic_start();
	if (!error) {
		xrcd = xrcd_find(file, ifindex);
		if (!xrcd)
			xrcd = xrcd_create(file, ifindex);
		error = xrcd ? 0 : -ENOMEM;
	}
	if (!error) {
		xrcd->openings++;
		*ret_xrcd = xrcd;
	}
	nic_leave();
	return error;
}

/* Free the domain if it has neither openings nor queue pairs. The NIC is locked. */
static void end_if_unused(struct nic_xrcd *xrcd)
{
	if (xrcd->openings || xrcd->qp_count)
		return;
	if (xrcd->epoch == nic_epoch) {
		NIC_PARTS_CALL(xrcd_ending, xrcd);
		list_remove(&xrcd->link);
	}
	free(xrcd);
}

void nic_xrcd_destroy(struct nic_xrcd *xrcd)
{
	nic_enter();
	xrcd->openings--;
	if (!xrcd->openings && xrcd->public && xrcd->epoch == nic_epoch) {
		atomic_store(&xrcd->public->ifindex, 0);
		xrcd->public = NULL;
	}
	end_if_unused(xrcd);
	nic_leave();
}

void nic_xrcd_put(struct nic_xrcd *xrcd)
{
	xrcd->qp_count--;
	end_if_unused(xrcd);
}

bool nic_xrcd_is_alive(const struct nic_xrcd *xrcd)
{
	return xrcd->epoch == nic_epoch;
}

void nic_xrcd_add_lane(struct nic_xrcd *xrcd, uint32_t lane)
{
	if (xrcd->lane_mask & 1u << lane)
		return;
	xrcd->lane_mask |= 1u << lane;
	for (uint32_t i = 0; i < SRQ_TABLE_SIZE; i++) {
		const struct srq *srq = nic.srqs->by_number[i];

		if (srq && srq->xrcd == xrcd->id)
			nic_cq_add_lanes(container_of(srq->cq, struct nic_cq, cq), xrcd->lane_mask);
	}
}

/* --- other processes --- */

/*
 * Make sure that this process has a slot, because urnicd lists only processes with a slot to other
 * processes. Returns whether the process has a slot. May wait for urnicd. The NIC is locked.
 */
static bool agent_knows_us(const struct nic_xrcd *xrcd)
{
	struct worker *worker;

	return xrcd->epoch == nic_epoch && nic_worker_get(xrcd->home, &worker) == 0;
}

/* Find a free entry for a domain in public NIC memory. Returns NULL when all are in use. */
static struct nic_public_xrcd *place_find(void)
{
	for (uint32_t i = 0; i < NIC_PUBLIC_XRCDS_MAX; i++)
		if (!atomic_load(&nic.public->xrcds[i].ifindex))
			return &nic.public->xrcds[i];
	return NULL;
}

void nic_xrcd_show(struct nic_xrcd *xrcd)
{
	struct nic_public_xrcd *place = NULL;

	nic_enter();
	if (agent_knows_us(xrcd) && !xrcd->public)
		place = place_find();
	if (place) {
		place->file = xrcd->file;
		atomic_store_explicit(&place->ifindex, xrcd->ifindex, memory_order_release);
		xrcd->public = place;
	}
	nic_leave();
}

/*
 * Does the process whose NIC memory is the file `memory` have a domain of the same file and
 * interface open?
 */
static bool is_in(int memory, const struct nic_xrcd *xrcd)
{
	struct nic_public_xrcd xrcds[NIC_PUBLIC_XRCDS_MAX];
	uint64_t head[2]; /* the magic number, then the version */
	uint32_t version;

	if (pread(memory, head, sizeof(head), NIC_PUBLIC_OFFSET) != sizeof(head) ||
		pread(memory, xrcds, sizeof(xrcds),
			NIC_PUBLIC_OFFSET + offsetof(struct nic_public, xrcds)) != sizeof(xrcds))
		return false;
	memcpy(&version, &head[1], sizeof(version));
	if (head[0] != NIC_PUBLIC_MAGIC || version != NIC_PUBLIC_VERSION)
		return false;
	for (uint32_t i = 0; i < NIC_PUBLIC_XRCDS_MAX; i++)
		if (atomic_load(&xrcds[i].ifindex) == xrcd->ifindex &&
			xrcds[i].file.device == xrcd->file.device &&
			xrcds[i].file.inode == xrcd->file.inode)
			return true;
	return false;
}

/*
 * Does any other process have a domain of the same file and interface open? The caller has the turn
 * at urnicd.
 */
static bool is_in_some(const struct nic_xrcd *xrcd)
{
	struct agent_process process;
	bool is_elsewhere = false;
	uint32_t index = 0;

	while (!is_elsewhere && agent_client_list(&nic.agent, &index, &process) == 0) {
		if (process.memory < 0)
			continue;
		is_elsewhere = process.pid != (uint32_t)getpid() && is_in(process.memory, xrcd);
		close(process.memory);
	}
	return is_elsewhere;
}

bool nic_xrcd_is_elsewhere(const struct nic_xrcd *xrcd)
{
	bool is_elsewhere = false;

	nic_enter();
	if (agent_knows_us(xrcd) && !nic_request_begin()) {
		nic_request_enter();
		is_elsewhere = is_in_some(xrcd);
		nic_request_leave(-1);
		nic_request_end();
	}
	nic_leave();
	return is_elsewhere;
}
