/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains: a number that shared receive queues and queue pairs have in common, and the lanes that
 * serve it.
 */
#include <errno.h>
#include <stdlib.h>

#include "runtime/nic_internal.h"

int nic_xrcd_create(const struct xrc_file *file, uint32_t ifindex, struct nic_xrcd **ret_xrcd)
{
	struct nic_xrcd *xrcd = calloc(1, sizeof(*xrcd));
	int error;

	if (!xrcd)
		return -ENOMEM;
	nic_enter();
	error = nic_start();
	if (!error) {
		xrcd->id = ++nic.last_xrcd;
		xrcd->home = nic.next_home++ % nic.lane_count;
		xrcd->epoch = nic_epoch;
		xrcd->file = *file;
		xrcd->ifindex = ifindex;
	}
	nic_leave();
	if (error)
		free(xrcd);
	else
		*ret_xrcd = xrcd;
	return error;
}

void nic_xrcd_destroy(struct nic_xrcd *xrcd)
{
	nic_enter();
	if (xrcd->epoch == nic_epoch)
		nic_far_forget_xrcd(xrcd);
	nic_leave();
	free(xrcd);
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
