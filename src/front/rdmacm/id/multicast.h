/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FRONT_RDMACM_ID_MULTICAST_H
#define URNIC_FRONT_RDMACM_ID_MULTICAST_H

#include "front/rdmacm/id/id.h"
#include "wire/infiniband/sa_record.h"

/* A multicast group that an identifier has joined. */
struct multicast_group {
	struct list node; /* in id->groups */
	struct gid gid; /* the address that the program has joined */
	/* InfiniBand: the query to the subnet administrator, and the record of its answer */
	struct nic_fabric_query query;
	struct sa_mc_member member;
	uint8_t join_state;
	bool is_held; /* nic_fabric_group_hold() has succeeded for `mgid` */
	struct gid mgid; /* InfiniBand: the GID of the group */
	void *context; /* the program's value, which the event returns */
	bool is_send_only;
	bool is_attached;
	struct id_event event;
};

/*
 * The program takes the event of a join: fill in *event and attach the queue pair. Returns 0 or an
 * errno.
 */
int group_taken(struct multicast_group *group, struct rdma_cm_event *event);

/* The program takes the event of a join that has failed: fill in *event. */
void group_failed(const struct multicast_group *group, struct rdma_cm_event *event);

/* Leave the group, whether or not the program has taken the event. */
void group_leave(struct multicast_group *group);

#endif
