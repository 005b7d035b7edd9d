/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_SERVICE_H
#define URNIC_NVMF_TARGET_SERVICE_H

/*
 * The service creates a target from a description (config.h), listens, and executes control
 * commands (ctl.h).
 *
 * The service owns the target, its backends and its listeners. The caller provides the functions by
 * which transports listen, so that a program without a verbs library can have a service, too. All
 * calls are on the thread of the loop.
 */

#include <sys/socket.h>

#include "nvmf/target/config/config.h"
#include "nvmf/target/core/target.h"
#include "nvmf/target/ctl/ctl.h"

enum { SERVICE_SENTENCE_BYTES = 1024 };

struct service;

/* How a transport listens. A program has one such object for each transport that it supports. */
struct service_transport {
	enum config_transport transport;
	/*
	 * Create a listener for `port`.
	 *
	 * `sentence`  SERVICE_SENTENCE_BYTES bytes; set on failure.
	 *
	 * Returns 0 or -errno.
	 */
	int (*listen)(void *context, struct target *target, struct target_port *port,
		const struct sockaddr *address, const struct config_port *config,
		void **ret_listener, char *sentence);
	/* Accept no more connections. The present connections stay. */
	void (*unlisten)(void *listener);
	void *context;
};

/*
 * Create a target with all objects of the description, and listen on all of its ports. On failure
 * nothing is left of the target.
 *
 * `config`      The service does not use it after this call.
 * `transports`  The caller keeps them valid until service_destroy().
 * `report`      Is called with a sentence when a backend fails or connections are refused. NULL: no
 *               reports.
 * `sentence`    SERVICE_SENTENCE_BYTES bytes; on failure what is wrong, and what to do.
 *
 * Returns 0 or -errno.
 */
int service_create(struct loop *loop, const struct target_config *config,
	const struct service_transport *transports, size_t transport_count,
	void (*report)(void *context, const char *sentence), void *context,
	struct service **ret_service, char *sentence);

/* Accept no more connections, and begin to end the present ones. */
void service_stop(struct service *service);

/* Whether all connections have ended, after service_stop(). */
bool service_is_idle(const struct service *service);

/* Free the service. service_is_idle() is true. `service` may be NULL. */
void service_destroy(struct service *service);

/* Execute a control command: the `serve` of ctl_server_create(), with the service as `context`. */
void service_serve(void *context, struct ctl_call *call);

#endif
