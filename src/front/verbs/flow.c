/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow steering: which Ethernet frames a raw packet queue pair receives. */
#include <stdlib.h>

#include "front/verbs/counters.h"
#include "front/verbs/qp.h"
#include "front/verbs/result.h"
#include "front/verbs/strict.h"

struct flow_front {
	struct ibv_flow verbs;
	struct object object;
	struct nic_flow *nic;
	struct object *qp;
	struct flow_counters *counters; /* NULL: none */
};

/* Headers and actions that a rule has named. A rule may name each of them only once. */
enum named {
	NAMED_ETHERNET = 1 << 0,
	NAMED_IP = 1 << 1,
	NAMED_PORTS = 1 << 2,
	NAMED_TAG = 1 << 3,
	NAMED_COUNTERS = 1 << 4,
};

/* A rule under construction. */
struct making {
	struct flow_rule rule;
	uint32_t named; /* bits of enum named */
	struct ibv_counters *counters;
};

/* Copy a filter's field to value and mask. */
#define TAKE(making, spec, field, from)                                                            \
	do {                                                                                       \
		memcpy(&(making)->rule.value.field, &(spec)->val.from, sizeof((spec)->val.from));  \
		memcpy(&(making)->rule.mask.field, &(spec)->mask.from, sizeof((spec)->mask.from)); \
	} while (0)

static void require_layer(struct making *making, enum frame_layer layer)
{
	making->rule.value.layers |= (uint8_t)layer;
	making->rule.mask.layers |= (uint8_t)layer;
}

/*
 * A type of specification: its size, the part of a rule that it sets, and the layer that it
 * requires of a frame.
 */
static const struct spec_type {
	uint32_t type; /* enum ibv_flow_spec_type */
	uint16_t bytes;
	enum named part;
	enum frame_layer layer; /* 0: the specification requires no layer */
} spec_types[] = {
	{IBV_FLOW_SPEC_ETH, sizeof(struct ibv_flow_spec_eth), NAMED_ETHERNET, 0},
	{IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4), NAMED_IP, FRAME_LAYER_IPV4},
	{IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext), NAMED_IP, FRAME_LAYER_IPV4},
	{IBV_FLOW_SPEC_IPV6, sizeof(struct ibv_flow_spec_ipv6), NAMED_IP, FRAME_LAYER_IPV6},
	{IBV_FLOW_SPEC_TCP, sizeof(struct ibv_flow_spec_tcp_udp), NAMED_PORTS, FRAME_LAYER_TCP},
	{IBV_FLOW_SPEC_UDP, sizeof(struct ibv_flow_spec_tcp_udp), NAMED_PORTS, FRAME_LAYER_UDP},
	{IBV_FLOW_SPEC_ACTION_TAG, sizeof(struct ibv_flow_spec_action_tag), NAMED_TAG, 0},
	{IBV_FLOW_SPEC_ACTION_COUNT, sizeof(struct ibv_flow_spec_counter_action), NAMED_COUNTERS,
		0},
};

static void add_fields(struct making *making, const struct ibv_flow_spec *spec)
{
	switch ((uint32_t)spec->hdr.type) {
	case IBV_FLOW_SPEC_ETH:
		TAKE(making, &spec->eth, dst_mac, dst_mac);
		TAKE(making, &spec->eth, src_mac, src_mac);
		TAKE(making, &spec->eth, ether_type, ether_type);
		TAKE(making, &spec->eth, vlan_tag, vlan_tag);
		if (spec->eth.mask.vlan_tag)
			require_layer(making, FRAME_LAYER_VLAN);
		break;
	case IBV_FLOW_SPEC_IPV4:
		TAKE(making, &spec->ipv4, src_ip, src_ip);
		TAKE(making, &spec->ipv4, dst_ip, dst_ip);
		break;
	case IBV_FLOW_SPEC_IPV4_EXT:
		TAKE(making, &spec->ipv4_ext, src_ip, src_ip);
		TAKE(making, &spec->ipv4_ext, dst_ip, dst_ip);
		TAKE(making, &spec->ipv4_ext, ip_protocol, proto);
		TAKE(making, &spec->ipv4_ext, traffic_class, tos);
		TAKE(making, &spec->ipv4_ext, hop_limit, ttl);
		break;
	case IBV_FLOW_SPEC_IPV6:
		TAKE(making, &spec->ipv6, src_ip, src_ip);
		TAKE(making, &spec->ipv6, dst_ip, dst_ip);
		TAKE(making, &spec->ipv6, flow_label, flow_label);
		TAKE(making, &spec->ipv6, ip_protocol, next_hdr);
		TAKE(making, &spec->ipv6, traffic_class, traffic_class);
		TAKE(making, &spec->ipv6, hop_limit, hop_limit);
		break;
	case IBV_FLOW_SPEC_TCP:
	case IBV_FLOW_SPEC_UDP:
		TAKE(making, &spec->tcp_udp, src_port, src_port);
		TAKE(making, &spec->tcp_udp, dst_port, dst_port);
		break;
	case IBV_FLOW_SPEC_ACTION_TAG:
		making->rule.tag = spec->flow_tag.tag_id;
		break;
	case IBV_FLOW_SPEC_ACTION_COUNT:
		making->counters = spec->flow_count.counters;
		break;
	}
}

/*
 * Add a specification to the rule. Refuses a specification that has a wrong size, names a part for
 * the second time, or is of a kind that this NIC cannot match.
 */
static int add_spec(struct making *making, const struct ibv_flow_spec *spec)
{
	const struct spec_type *type = spec_types;

	while (type->type != spec->hdr.type)
		if (++type == spec_types + ARRAY_COUNT(spec_types))
			return result_cause(REASON_FLOW_SPEC_LACKING);
	if (spec->hdr.size != type->bytes || (making->named & type->part))
		return result_cause(REASON_FLOW_SPEC);
	if (type->type == IBV_FLOW_SPEC_IPV4_EXT && spec->ipv4_ext.mask.flags)
		return result_cause(REASON_FLOW_SPEC_LACKING);
	making->named |= type->part;
	if (type->layer)
		require_layer(making, type->layer);
	add_fields(making, spec);
	return type->part == NAMED_COUNTERS && !making->counters ? result_cause(REASON_ATTR_MISSING)
								 : 0;
}

static int add_specs(struct making *making, const struct ibv_flow_attr *attr)
{
	const uint8_t *next = (const uint8_t *)(attr + 1);
	int error = 0;

	for (uint32_t i = 0; i < attr->num_of_specs && !error; i++) {
		struct ibv_flow_spec spec = {0};

		/* Specifications follow each other unaligned. */
		memcpy(&spec.hdr, next, sizeof(spec.hdr));
		if (spec.hdr.size < sizeof(spec.hdr) || spec.hdr.size > sizeof(spec))
			return result_cause(REASON_FLOW_SPEC);
		memcpy(&spec, next, spec.hdr.size);
		error = add_spec(making, &spec);
		next += spec.hdr.size;
	}
	return error;
}

/* Clear the bits of the value that are not in the mask. */
static void mask_value(struct flow_rule *rule)
{
	uint8_t *value = (uint8_t *)&rule->value;
	const uint8_t *mask = (const uint8_t *)&rule->mask;

	for (size_t i = 0; i < sizeof(rule->value); i++)
		value[i] &= mask[i];
}

static int kind_from_verbs(enum ibv_flow_attr_type verbs, enum flow_kind *ret_kind)
{
	switch (verbs) {
	case IBV_FLOW_ATTR_NORMAL:
		*ret_kind = FLOW_NORMAL;
		return 0;
	case IBV_FLOW_ATTR_ALL_DEFAULT:
		*ret_kind = FLOW_ALL_DEFAULT;
		return 0;
	case IBV_FLOW_ATTR_MC_DEFAULT:
		*ret_kind = FLOW_MULTICAST_DEFAULT;
		return 0;
	case IBV_FLOW_ATTR_SNIFFER:
		*ret_kind = FLOW_SNIFFER;
		return 0;
	}
	return result_cause(REASON_FLOW_KIND);
}

static int rule_from_verbs(const struct ibv_flow_attr *attr, struct making *making)
{
	struct flow_rule *rule = &making->rule;
	int error = kind_from_verbs(attr->type, &rule->kind);

	if (error)
		return error;
	if (attr->flags & IBV_FLOW_ATTR_FLAGS_EGRESS)
		return result_cause(REASON_FLOW_EGRESS);
	if (attr->comp_mask || attr->port != DEVICE_PORT ||
		(attr->flags & ~(uint32_t)IBV_FLOW_ATTR_FLAGS_DONT_TRAP))
		return result_cause(REASON_FLOW_KIND);
	if (rule->kind != FLOW_NORMAL && (attr->flags || attr->num_of_specs))
		return result_cause(REASON_FLOW_KIND);
	rule->priority = attr->priority;
	rule->does_trap = !(attr->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP);
	error = add_specs(making, attr);
	mask_value(rule);
	return error;
}

static int flow_make(
	struct flow_front *flow, struct context *context, const struct ibv_flow_attr *attr)
{
	struct making making = {.named = 0};
	int error = rule_from_verbs(attr, &making);

	if (!error && making.counters) {
		flow->counters = counters_bind(making.counters, context);
		making.rule.counters = flow->counters;
		error = flow->counters ? 0 : result_cause(REASON_NO_PARENT);
	}
	if (!error)
		error = result_as(
			-nic_flow_create(container_of(flow->qp, struct qp_front, object)->nic,
				&making.rule, &flow->nic),
			REASON_FLOW_QP);
	return error;
}

struct ibv_flow *flow_create(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	struct context *context = context_of(qp->context);
	struct flow_front *flow;
	int error;

	if (strict_lacks("ibv_create_flow", STRICT_HAS_FLOWS))
		return NULL;
	flow = calloc(1, sizeof(*flow));
	if (!flow)
		return result_null("ibv_create_flow", result_cause(REASON_NO_MEMORY));
	flow->verbs.context = qp->context;
	flow->qp = object_ref(qp->handle, OBJECT_QP, context);
	error = flow->qp ? flow_make(flow, context, attr) : result_cause(REASON_NO_PARENT);
	return object_publish(&flow->object, OBJECT_FLOW, context, &flow->verbs.handle, error)
		? &flow->verbs
		: NULL;
}

void *flow_release(struct object *object)
{
	struct flow_front *flow = container_of(object, struct flow_front, object);

	if (flow->nic)
		nic_flow_destroy(flow->nic);
	if (flow->counters)
		counters_unbind(flow->counters);
	object_unref(flow->qp);
	return flow;
}

int flow_destroy(struct ibv_flow *verbs)
{
	return result_of(
		"ibv_destroy_flow", object_destroy(verbs->handle, OBJECT_FLOW, verbs->context));
}
