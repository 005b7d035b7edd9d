/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive work queues and the indirection tables made of them.
 */
#ifndef URNIC_FRONT_VERBS_WQ_H
#define URNIC_FRONT_VERBS_WQ_H

#include "front/verbs/async.h"
#include "front/verbs/object.h"
#include "nic/object/nic.h"

struct wq_front {
	struct ibv_wq verbs;
	struct object object;
	struct nic_wq *nic;
	struct object *pd;
	struct object *cq;
	struct async_event fatal;
};

/* Limits that query_device_ex() reports. */
enum {
	WQ_TABLE_ENTRIES_MAX = RAW_TABLE_MAX,
	WQ_TABLE_COUNT_MAX = 4096,
};

/*
 * Set the queues of `spread` from the table, and leave its other fields as they are. Returns the
 * completion queue of the first queue.
 */
struct nic_cq *wq_table_fill(const struct object *object, struct nic_spread *spread);

int wq_post_recv_verbs(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

void wq_free(void *memory);

#endif
