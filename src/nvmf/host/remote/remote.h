/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A remote namespace as a block device (host/block/block.h).
 *
 * The remote owns a host controller (host/controller/controller.h), which connects and reconnects.
 * The remote splits requests by the controller's MDTS and by the limits of the command set. At most
 * as many commands are pending as the I/O queues take; further requests wait in order.
 *
 * The remote identifies the namespace again after each reconnect, and after an event that reports a
 * change. The namespace is the same if its blocks have the same size, and its NGUID, EUI64 and UUID
 * are those of the first connection; an identifier that the target does not give counts as zero.
 * After a reconnect, requests wait until the namespace is known to be the same, so that none is
 * repeated on another namespace. If the target has another namespace under this NSID, or none,
 * pending and new requests are done with -EIO until the first namespace is back.
 *
 * Before the namespace is ready the device has no size, so reads fail with -EINVAL and writes with
 * -ENOSPC. All calls and callbacks are on the loop's thread.
 */
#ifndef URNIC_NVMF_HOST_REMOTE_H
#define URNIC_NVMF_HOST_REMOTE_H

#include "nvmf/host/block/block.h"
#include "nvmf/host/controller/controller.h"

struct remote;

struct remote_settings {
	/* remote_create() sets its `changed`, `event` and `context`; the caller sets the rest. */
	struct host_controller_settings controller;
	uint32_t nsid; /* 0: the first active namespace */
	bool is_read_only; /* the device is read-only, also if the namespace is not */
	/* Called once. If `error` is 0, the device is ready; else remote_reason() says why not. */
	void (*ready)(void *context, int error);
	/* Called when the state of the connection has changed; may be NULL. */
	void (*changed)(void *context, enum host_state state);
	/*
	 * Called when requests fail because the namespace is unusable or another one;
	 * remote_reason() says why. May be NULL.
	 */
	void (*refused)(void *context);
	/* Called when the size has changed; may be NULL. */
	void (*resized)(void *context);
	void *context;
};

/* Returns 0, -ENOMEM or -EINVAL. This call never calls ready(). */
int remote_create(const struct remote_settings *settings, struct remote **ret_remote);

/* The block device. Its block_device_destroy() ends the connection and frees the remote. */
struct block_device *remote_device(struct remote *remote);

struct host_controller *remote_controller(struct remote *remote);
uint32_t remote_nsid(const struct remote *remote);
/* Why the remote is not ready, not connected or refused: a sentence without full stop. */
const char *remote_reason(const struct remote *remote);

#endif
