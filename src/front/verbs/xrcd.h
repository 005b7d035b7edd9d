/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains (IBTA annex A14), and their receiving queue pairs, which several public queue pairs
 * may share.
 *
 * A program opens a domain by a file. All openings of one device with the same inode share one
 * domain, which ends with the last opening. An opening without a file makes a new domain. A
 * receiving (XRC_RECV) queue pair belongs to the domain. Any program that has the domain open can
 * open the queue pair by its number. The queue pair ends with its last public queue pair. All its
 * public queue pairs get its events.
 *
 * Other processes that open the same file share its shared receive queues (xrc/nic_borrowed.c) and
 * receiving queue pairs (xrc/nic_target.h).
 *
 * The public structure of a domain has no handle, so its pointer is looked up among the open
 * domains.
 */
#ifndef URNIC_FRONT_VERBS_XRCD_H
#define URNIC_FRONT_VERBS_XRCD_H

#include "front/verbs/object.h"
#include "front/verbs/qp.h"
#include "nic/object/nic.h"

/*
 * Find the domain that a program named, and become its user; `xrcd` may be any pointer. NULL: the
 * domain is not open through the context. Undo with object_unref().
 */
struct object *xrcd_ref(const struct ibv_xrcd *xrcd, const struct context *context);

struct nic_xrcd *nic_xrcd_of(struct object *object);

/*
 * Make the receiving queue pair of `qp`, in the domain qp->xrcd. The function sets qp->nic and
 * qp->target. It also sets the members on_event, user and xrcd of `init`.
 */
int xrc_target_create(struct qp_front *qp, struct nic_qp_init *init);

/*
 * Attach `qp` to the receiving queue pair `number` of the domain qp->xrcd. That queue pair may be
 * in any process. Returns EINVAL if there is no such queue pair.
 */
int xrc_target_open(struct qp_front *qp, uint32_t number);

/* `qp` is being destroyed. The receiving queue pair ends with its last public queue pair. */
void xrc_target_close(struct qp_front *qp);

#endif
