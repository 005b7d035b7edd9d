/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/target/service/service_internal.h"

static int change_refuse(char *sentence, int error, const char *what, const char *name)
{
	snprintf(sentence, SERVICE_SENTENCE_BYTES, "%s \"%.256s\": %s", what, name,
		strerror(-error));
	return error;
}

int service_add_namespace(struct service *service, struct target_subsystem *subsystem,
	const struct config_namespace *config, char *sentence)
{
	const struct backend_settings backend_settings = {
		.path = config->backend == CONFIG_PATH ? config->path : NULL,
		.is_null = config->backend == CONFIG_NULL,
		.is_read_only = config->is_read_only,
		.size_bytes = config->size_bytes,
		.block_bytes = config->block_bytes,
		.report = service->report,
		.report_context = service->report_context,
	};
	struct target_namespace_settings settings = {.nsid = config->nsid};
	struct target_namespace *ns;
	int error;

	if (target_namespace_find(subsystem, config->nsid)) {
		snprintf(sentence, SERVICE_SENTENCE_BYTES,
			"there is a namespace %u already; remove it, or choose another number",
			config->nsid);
		return -EEXIST;
	}
	error = backend_open(&backend_settings, &settings.backend, sentence);
	if (error)
		return error;
	memcpy(settings.nguid, config->nguid, sizeof(settings.nguid));
	memcpy(settings.uuid, config->uuid, sizeof(settings.uuid));
	error = target_namespace_add(subsystem, &settings, &ns);
	if (error) {
		backend_close(settings.backend);
		snprintf(sentence, SERVICE_SENTENCE_BYTES, "cannot add the namespace %u: %s",
			config->nsid, strerror(-error));
	}
	return error;
}

static int make_subsystem(struct service *service, const struct target_config *config,
	const struct config_subsystem *from, char *sentence)
{
	const struct target_subsystem_settings settings = {
		.nqn = from->nqn,
		.allow_any_host = from->allow_any_host,
		.serial = from->serial,
		.model = from->model,
		.firmware = from->firmware,
		.cntlid_min = (uint16_t)from->cntlid_min,
		.cntlid_max = (uint16_t)from->cntlid_max,
		.qid_max = (uint16_t)from->qid_max,
	};
	struct target_subsystem *subsystem;
	int error = target_subsystem_create(service->target, &settings, &subsystem);

	if (error)
		return change_refuse(sentence, error, "cannot make the subsystem", from->nqn);
	for (size_t i = 0; i < from->allowed_host_count; i++) {
		const char *nqn = config->hosts[from->allowed_hosts[i]].nqn;

		error = target_subsystem_allow(subsystem, nqn);
		if (error)
			return change_refuse(sentence, error, "cannot allow the host", nqn);
	}
	for (size_t i = 0; i < from->namespace_count; i++) {
		if (!from->namespaces[i].is_enabled)
			continue;
		error = service_add_namespace(service, subsystem, &from->namespaces[i], sentence);
		if (error)
			return error;
	}
	return 0;
}

static void name_address(const struct config_address *from, struct discovery_entry *ret_entry)
{
	*ret_entry = (struct discovery_entry){
		.trtype = (uint8_t)from->transport,
		.adrfam = (uint8_t)from->family,
		.subtype = DISCOVERY_REFERRAL,
		.portid = (uint16_t)from->portid,
		.cntlid = NVME_CNTLID_DYNAMIC,
		.asqsz = 32,
	};
	memcpy(ret_entry->traddr, from->traddr, sizeof(from->traddr));
	memcpy(ret_entry->trsvcid, from->trsvcid, sizeof(from->trsvcid));
	strcpy(ret_entry->subnqn, NVME_DISCOVERY_NQN);
	if (from->transport == CONFIG_RDMA) {
		ret_entry->rdma_qptype = DISCOVERY_QPTYPE_RC;
		ret_entry->rdma_prtype = DISCOVERY_PRTYPE_NONE;
		ret_entry->rdma_cms = DISCOVERY_CMS_RDMA_CM;
	}
}

static int fill_port(struct service *service, const struct target_config *config,
	const struct config_port *from, struct target_port *port)
{
	int error = 0;

	for (size_t i = 0; i < from->subsystem_count && error == 0; i++)
		error = target_port_link(port,
			target_subsystem_find(
				service->target, config->subsystems[from->subsystems[i]].nqn));
	for (size_t i = 0; i < from->referral_count && error == 0; i++) {
		struct discovery_entry entry;

		name_address(&from->referrals[i].address, &entry);
		if (from->referrals[i].is_enabled)
			error = target_port_refer(port, &entry);
	}
	return error;
}

static const struct service_transport *find_transport(
	const struct service *service, enum config_transport transport)
{
	for (size_t i = 0; i < service->transport_count; i++) {
		if (service->transports[i].transport == transport)
			return &service->transports[i];
	}
	return NULL;
}

static int start_listening(struct service_port *port, struct service *service,
	const struct config_port *from, char *sentence)
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
	char inner[SERVICE_SENTENCE_BYTES];
	struct addrinfo *address;
	int error;

	port->transport = find_transport(service, from->address.transport);
	if (!port->transport) {
		snprintf(sentence, SERVICE_SENTENCE_BYTES,
			"port %u: this program has no support for its \"trtype\"", from->portid);
		return -EOPNOTSUPP;
	}
	if (getaddrinfo(from->address.traddr, from->address.trsvcid, &hints, &address)) {
		snprintf(sentence, SERVICE_SENTENCE_BYTES,
			"port %u: \"%s\" is no address of this machine; correct \"traddr\"",
			from->portid, from->address.traddr);
		return -EADDRNOTAVAIL;
	}
	error = port->transport->listen(port->transport->context, service->target, port->port,
		address->ai_addr, from, &port->listener, inner);
	freeaddrinfo(address);
	if (error)
		snprintf(sentence, SERVICE_SENTENCE_BYTES, "port %u, %s:%s: %.600s", from->portid,
			from->address.traddr, from->address.trsvcid, inner);
	return error;
}

static int make_port(struct service *service, const struct target_config *config,
	const struct config_port *from, char *sentence)
{
	const struct target_port_settings settings = {
		.portid = (uint16_t)from->portid,
		.trtype = (enum discovery_trtype)from->address.transport,
		.adrfam = (enum discovery_adrfam)from->address.family,
		.traddr = from->address.traddr,
		.trsvcid = from->address.trsvcid,
		.rdma_prtype = from->address.transport == CONFIG_RDMA ? DISCOVERY_PRTYPE_NONE : 0,
		.queue_entries = (uint16_t)from->queue_size,
	};
	struct service_port *port = &service->ports[service->port_count];
	int error = target_port_create(service->target, &settings, &port->port);

	if (error == 0) {
		service->port_count++;
		error = fill_port(service, config, from, port->port);
	}
	if (error)
		return change_refuse(sentence, error, "cannot make the port", from->address.traddr);
	/* Listen only now, so that no host connects to an incomplete port. */
	return start_listening(port, service, from, sentence);
}

static int make_all(struct service *service, const struct target_config *config, char *sentence)
{
	int error = 0;

	for (size_t i = 0; i < config->subsystem_count && error == 0; i++)
		error = make_subsystem(service, config, &config->subsystems[i], sentence);
	for (size_t i = 0; i < config->port_count && error == 0; i++)
		error = make_port(service, config, &config->ports[i], sentence);
	return error;
}

int service_create(struct loop *loop, const struct target_config *config,
	const struct service_transport *transports, size_t transport_count,
	void (*report)(void *context, const char *sentence), void *context,
	struct service **ret_service, char *sentence)
{
	struct service *service = calloc(1, sizeof(*service));
	int error = -ENOMEM;

	if (service) {
		service->transports = transports;
		service->transport_count = transport_count;
		service->report = report;
		service->report_context = context;
		service->ports = calloc(config->port_count + 1, sizeof(*service->ports));
	}
	if (service && service->ports)
		error = target_create(loop, &service->target);
	if (error) {
		snprintf(sentence, SERVICE_SENTENCE_BYTES, "cannot make a target: %s",
			strerror(-error));
	} else {
		target_set_report(service->target, report, context);
		error = make_all(service, config, sentence);
	}
	if (error) {
		service_stop(service);
		service_destroy(service);
		return error;
	}
	*ret_service = service;
	return 0;
}

void service_stop(struct service *service)
{
	for (size_t i = 0; service && i < service->port_count; i++) {
		struct service_port *port = &service->ports[i];

		if (port->listener)
			port->transport->unlisten(port->listener);
		port->listener = NULL;
	}
	if (service && service->target)
		target_disconnect_all(service->target);
}

bool service_is_idle(const struct service *service)
{
	return target_is_idle(service->target);
}

void service_destroy(struct service *service)
{
	if (!service)
		return;
	target_destroy(service->target);
	free(service->ports);
	free(service);
}
