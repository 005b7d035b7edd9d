/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text of target_status(). This file is a part of the core, and only reads the core's objects.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "nvmf/target/core/objects.h"
#include "nvmf/target/core/status.h"

static void print_port(FILE *out, const struct target_port *port)
{
	fprintf(out, "port %u %s %s:%s\n", port->address.portid,
		port->address.trtype == DISCOVERY_RDMA ? "rdma" : "tcp", port->address.traddr,
		port->address.trsvcid);
	list_for_each(link, &port->links, struct target_link, node)
		fprintf(out, "\tsubsystem %s\n", link->subsystem->nqn);
	list_for_each(referral, &port->referrals, struct target_referral, node)
		fprintf(out, "\treferral %s:%s\n", referral->entry.traddr, referral->entry.trsvcid);
}

static void print_controller(FILE *out, const struct target_controller *controller)
{
	unsigned queues = 0;

	list_for_each(queue, &controller->queues, struct target_queue, node)
		queues++;
	fprintf(out, "\tcontroller %u host %s from %s by %s, %u queues\n", controller->cntlid,
		controller->hostnqn, controller->admin ? controller->admin->peer : "?",
		controller->transport->name, queues);
}

static void print_subsystem(FILE *out, const struct target_subsystem *subsystem)
{
	fprintf(out, "subsystem %s\n", subsystem->nqn);
	if (subsystem->allow_any_host)
		fprintf(out, "\tany host is allowed\n");
	list_for_each(host, &subsystem->hosts, struct target_host, node)
		fprintf(out, "\thost %s is allowed\n", host->nqn);
	for (size_t i = 0; i < subsystem->namespace_count; i++) {
		const struct target_namespace *ns = subsystem->namespaces[i];

		fprintf(out, "\tnamespace %u: %" PRIu64 " bytes in blocks of %u%s\n", ns->nsid,
			ns->blocks << ns->block_shift, 1u << ns->block_shift,
			backend_is_read_only(ns->backend) ? ", read-only" : "");
	}
	list_for_each(controller, &subsystem->controllers, struct target_controller, node)
		print_controller(out, controller);
}

char *target_status(const struct target *target)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	list_for_each(port, &target->ports, struct target_port, node)
		print_port(out, port);
	list_for_each(subsystem, &target->subsystems, struct target_subsystem, node)
		print_subsystem(out, subsystem);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
