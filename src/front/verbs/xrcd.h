/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains (IBTA annex A14), and the receiving queue pairs in them that several may hold.
 *
 * A program opens a domain by a file: all openings of one device by the same inode are of one
 * domain, which goes with the last of them. Without a file each opening makes a domain of its own.
 * A receiving (XRC_RECV) queue pair belongs to the domain; whoever has the domain open can open the
 * queue pair too, by its number, and it goes when the last of these public queue pairs is
 * destroyed. Each of them hears its events.
 *
 * Other processes that open the same file share the shared receive queues in it
 * (xrc/nic_borrowed.c) and the receiving queue pairs (xrc/nic_target.h).
 *
 * The public structure of a domain has no handle, so its pointer is looked for among those that are
 * open.
 */
#ifndef URNIC_FRONT_VERBS_XRCD_H
#define URNIC_FRONT_VERBS_XRCD_H

#include "front/verbs/object.h"
#include "front/verbs/qp.h"
#include "nic/nic.h"

/*
 * Use the domain that a program named, any pointer. NULL when it is none that is open through the
 * context. Undo with object_unref().
 */
struct object *xrcd_ref(const struct ibv_xrcd *xrcd, const struct context *context);

/* The NIC's part of it. */
struct nic_xrcd *nic_xrcd_of(struct object *object);

/* Release all but the structure; the object is already out of the table. */
void xrcd_release(struct object *object);

/*
 * Make the receiving queue pair behind `qp`, in the domain qp->xrcd. Sets qp->nic and qp->target.
 *
 * `init`  All but on_event and user.
 *
 * 0 or a positive errno.
 */
int xrc_target_create(struct qp_front *qp, struct nic_qp_init *init);

/*
 * Put `qp` in front of the one of this number in the domain qp->xrcd, whichever process it lives
 * in. 0; EINVAL when there is none; or another positive errno.
 */
int xrc_target_open(struct qp_front *qp, uint32_t number);

/* `qp` is being destroyed; with the last of them the receiving queue pair goes. */
void xrc_target_close(struct qp_front *qp);

/* open_xrcd and close_xrcd of the table in the context. */
struct ibv_xrcd *xrcd_open(struct ibv_context *context, struct ibv_xrcd_init_attr *init);
int xrcd_close(struct ibv_xrcd *xrcd);

#endif
