/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_SERVICE_H
#define URNIC_NVMF_TARGET_SERVICE_H

/*
 * A target that is made of a description (config.h), listens, and obeys control commands (ctl.h).
 *
 * The service owns the target, its backends and its listeners. What a transport listens with comes
 * from the caller, so that a program without a verbs library has a service too. All calls are on
 * the thread of the loop.
 */

#include <sys/socket.h>

#include "nvmf/target/config/config.h"
#include "nvmf/target/core/target.h"
#include "nvmf/target/ctl/ctl.h"

enum { SERVICE_SENTENCE_BYTES = 1024 };

struct service;

/* How a transport listens. A program has one for each transport of config.h that it supports. */
struct service_transport {
	enum config_transport transport;
	/*
	 * `sentence`  SERVICE_SENTENCE_BYTES; set on failure.
	 *
	 * 0 or -errno.
	 */
	int (*listen)(void *context, struct target *target, struct target_port *port,
		const struct sockaddr *address, const struct config_port *config,
		void **ret_listener, char *sentence);
	/* Accept no more. Connections stay. */
	void (*unlisten)(void *listener);
	void *context;
};

/*
 * Make a target and listen. Either everything of the description is there afterwards, or nothing.
 *
 * `config`      Not used after the call.
 * `transports`  Used until service_destroy().
 * `report`      Gets a sentence when a backend fails later. NULL: no report.
 * `sentence`    SERVICE_SENTENCE_BYTES; on failure what is wrong, and what to do.
 *
 * 0 or -errno.
 */
int service_create(struct loop *loop, const struct target_config *config,
	const struct service_transport *transports, size_t transport_count,
	void (*report)(void *context, const char *sentence), void *context,
	struct service **ret_service, char *sentence);

/* Accept no more, and end the connections. */
void service_stop(struct service *service);

/* After service_stop(): nothing is left of the connections. */
bool service_is_idle(const struct service *service);

/* service_is_idle(), or it had no connection yet. NULL is fine. */
void service_destroy(struct service *service);

/* A control command: for ctl_server_create(), with the service as context. */
void service_serve(void *service, struct ctl_call *call);

#endif
