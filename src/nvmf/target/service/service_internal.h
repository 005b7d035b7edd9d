/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_SERVICE_INTERNAL_H
#define URNIC_NVMF_TARGET_SERVICE_INTERNAL_H

/*
 * The object behind service.h, for service*.c only.
 */

#include <sys/socket.h>

#include "nvmf/target/service/service.h"

struct service_port {
	struct target_port *port;
	const struct service_transport *transport;
	void *listener; /* NULL: the port does not listen */
};

struct service {
	struct target *target;
	const struct service_transport *transports;
	size_t transport_count;
	struct service_port *ports;
	size_t port_count;
	void (*report)(void *context, const char *sentence);
	void *report_context;
};

/*
 * Open the backend and add the namespace. Returns 0; or -errno with a sentence, and then the
 * backend is closed and there is no namespace.
 */
int service_add_namespace(struct service *service, struct target_subsystem *subsystem,
	const struct config_namespace *config, char *sentence);

#endif
