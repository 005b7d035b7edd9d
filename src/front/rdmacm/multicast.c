/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups.
 */
#include "front/rdmacm/id.h"

int rdma_join_multicast_ex(
	struct rdma_cm_id *public, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	(void)public;
	(void)attr;
	(void)context;
	return fail(EOPNOTSUPP);
}

int rdma_join_multicast(struct rdma_cm_id *public, struct sockaddr *address, void *context)
{
	(void)address;
	return rdma_join_multicast_ex(public, NULL, context);
}

int rdma_leave_multicast(struct rdma_cm_id *public, struct sockaddr *address)
{
	(void)public;
	(void)address;
	return fail(EOPNOTSUPP);
}
