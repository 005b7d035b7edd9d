/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A remote namespace as a block device (host/block/block.h).
 *
 * It owns a host controller (host/controller/controller.h), which connects and reconnects by
 * itself. Requests are split by the controller's MDTS and by the limits of the command set; at most
 * as many commands are pending as the I/O queues take, and further requests wait in order. A
 * namespace that changes its size, by an event or while the connection was lost, is identified
 * again.
 *
 * Requests that are submitted before the namespace is ready fail with -EINVAL, because the device
 * has no size yet. All calls and callbacks are on the loop's thread.
 */
#ifndef URNIC_NVMF_HOST_REMOTE_H
#define URNIC_NVMF_HOST_REMOTE_H

#include "nvmf/host/block/block.h"
#include "nvmf/host/controller/controller.h"

struct remote;

struct remote_settings {
	/* changed, event and context are the remote's own. */
	struct host_controller_settings controller;
	uint32_t nsid; /* 0: the first active namespace */
	/* Called once: the device may be used; or `error`, with remote_reason(). */
	void (*ready)(void *context, int error);
	/* The state of the connection has changed; may be NULL. */
	void (*changed)(void *context, enum host_state state);
	/* The size has changed; may be NULL. */
	void (*resized)(void *context);
	void *context;
};

/* 0, -ENOMEM or -EINVAL. ready() is not called from here. */
int remote_create(const struct remote_settings *settings, struct remote **ret_remote);

/* The device; block_device_destroy() ends the connection and frees the remote. */
struct block_device *remote_device(struct remote *remote);

struct host_controller *remote_controller(struct remote *remote);
uint32_t remote_nsid(const struct remote *remote);
/* Why it is not ready, or not connected, without full stop. */
const char *remote_reason(const struct remote *remote);

#endif
