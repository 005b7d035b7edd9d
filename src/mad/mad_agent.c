/* SPDX-License-Identifier: BSD-2-Clause */
/* Agents: which one gets a MAD. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mad/mad_internal.h"

enum { OUI_OFFSET = MAD_HEADER_BYTES + RMPP_HEADER_BYTES + 1 };

/* The classes that an agent may register. Class 0 is for agents that only send. */
static bool class_exists(uint8_t management_class)
{
	return management_class == MAD_CLASS_SUBN_DIRECTED ||
		(management_class > 0 && management_class <= MAD_CLASS_VENDOR_OUI_LAST);
}

static bool spec_is_possible(const struct mad_agent_spec *spec)
{
	if (spec->qpn > GSI_QPN || spec->class_version >= MAD_CLASS_VERSION_MAX)
		return false;
	if (spec->management_class == 0)
		return !(spec->method_mask[0] | spec->method_mask[1]);
	if (!class_exists(spec->management_class))
		return false;
	return mad_class_is_subnet(spec->management_class) == (spec->qpn == SMI_QPN);
}

static bool mask_has(const uint64_t mask[MAD_METHODS / 64], uint8_t method)
{
	return mask[method / 64] >> method % 64 & 1;
}

/* Do both have the same class, version and, in vendor classes with an OUI, the same OUI? */
static bool is_same_kind(const struct mad_agent_spec *a, const struct mad_agent_spec *b)
{
	return a->management_class == b->management_class && a->class_version == b->class_version &&
		(!mad_class_has_oui(a->management_class) ||
			memcmp(a->oui, b->oui, sizeof(a->oui)) == 0);
}

static bool is_taken(const struct mad_port *port, const struct mad_agent_spec *spec)
{
	list_for_each(agent, &port->agents, struct mad_agent, link) {
		const uint64_t *mask = agent->spec.method_mask;

		if (is_same_kind(&agent->spec, spec) &&
			((mask[0] & spec->method_mask[0]) || (mask[1] & spec->method_mask[1])))
			return true;
	}
	return false;
}

static struct mad_agent *agent_by_number(struct mad_port *port, uint32_t number)
{
	list_for_each(agent, &port->agents, struct mad_agent, link)
		if (agent->number == number)
			return agent;
	return NULL;
}

/* A number that no agent of the port has. Programs without an agent put 0 into their requests. */
static uint32_t number_take(struct mad_port *port)
{
	do
		port->agent_number++;
	while (port->agent_number == 0 || agent_by_number(port, port->agent_number));
	return port->agent_number;
}

int mad_agent_add(struct mad_port *port, const struct mad_agent_spec *spec, void *context,
	struct mad_agent **ret_agent)
{
	struct mad_agent *agent;

	if (!spec_is_possible(spec))
		return -EINVAL;
	if (is_taken(port, spec))
		return -EADDRINUSE;
	agent = port->agent_count < MAD_AGENTS_MAX ? calloc(1, sizeof(*agent)) : NULL;
	if (!agent)
		return -ENOMEM;
	agent->port = port;
	agent->context = context;
	agent->number = number_take(port);
	agent->spec = *spec;
	for (uint32_t i = 0; i < MAD_SEND_BUCKETS; i++)
		list_init(&agent->sends[i]);
	list_init(&agent->receives);
	list_append(&port->agents, &agent->link);
	port->agent_count++;
	*ret_agent = agent;
	return 0;
}

void mad_agent_remove(struct mad_agent *agent)
{
	if (!agent)
		return;
	for (uint32_t i = 0; i < MAD_SEND_BUCKETS; i++)
		list_for_each_safe(send, &agent->sends[i], struct mad_send, link)
			mad_send_destroy(send);
	list_for_each_safe(receive, &agent->receives, struct mad_receive, link)
		rmpp_receive_destroy(receive);
	list_remove(&agent->link);
	agent->port->agent_count--;
	free(agent);
}

uint32_t mad_agent_number(const struct mad_agent *agent)
{
	return agent->number;
}

static struct mad_agent *agent_by_method(
	struct mad_port *port, const struct mad_header *header, const uint8_t *mad)
{
	struct mad_agent_spec wanted = {.management_class = header->management_class,
		.class_version = header->class_version};

	memcpy(wanted.oui, mad + OUI_OFFSET, sizeof(wanted.oui));
	list_for_each(agent, &port->agents, struct mad_agent, link)
		if (is_same_kind(&agent->spec, &wanted) &&
			mask_has(agent->spec.method_mask,
				header->method & (uint8_t)~MAD_METHOD_RESPONSE_BIT))
			return agent;
	return NULL;
}

struct mad_agent *mad_agent_find(
	struct mad_port *port, const struct mad_header *header, const uint8_t *mad)
{
	if (mad_header_is_response(header))
		return agent_by_number(port, (uint32_t)(header->transaction_id >> 32));
	return agent_by_method(port, header, mad);
}
