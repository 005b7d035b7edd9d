/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/flow.h"

#include <endian.h>
#include <stdlib.h>

#include "front/verbs/counters.h"
#include "front/verbs/qp.h"
#include "front/verbs/result.h"

struct flow_front {
	struct ibv_flow verbs;
	struct object object;
	struct nic_flow *nic;
	struct object *qp;
	struct flow_counters *counters; /* NULL: none */
};

/* Headers and actions that a rule has named; it may name none twice. */
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
	uint32_t named; /* enum named */
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

static int part_mark_named(struct making *making, enum named part)
{
	if (making->named & part)
		return EINVAL;
	making->named |= part;
	return 0;
}

static int add_ethernet(struct making *making, const struct ibv_flow_spec_eth *spec)
{
	TAKE(making, spec, dst_mac, dst_mac);
	TAKE(making, spec, src_mac, src_mac);
	TAKE(making, spec, ether_type, ether_type);
	TAKE(making, spec, vlan_tag, vlan_tag);
	if (spec->mask.vlan_tag)
		require_layer(making, FRAME_LAYER_VLAN);
	return part_mark_named(making, NAMED_ETHERNET);
}

static int add_ipv4(struct making *making, const struct ibv_flow_spec_ipv4 *spec)
{
	TAKE(making, spec, src_ip, src_ip);
	TAKE(making, spec, dst_ip, dst_ip);
	require_layer(making, FRAME_LAYER_IPV4);
	return part_mark_named(making, NAMED_IP);
}

static int add_ipv4_ext(struct making *making, const struct ibv_flow_spec_ipv4_ext *spec)
{
	if (spec->mask.flags)
		return EOPNOTSUPP;
	TAKE(making, spec, src_ip, src_ip);
	TAKE(making, spec, dst_ip, dst_ip);
	TAKE(making, spec, ip_protocol, proto);
	TAKE(making, spec, traffic_class, tos);
	TAKE(making, spec, hop_limit, ttl);
	require_layer(making, FRAME_LAYER_IPV4);
	return part_mark_named(making, NAMED_IP);
}

static int add_ipv6(struct making *making, const struct ibv_flow_spec_ipv6 *spec)
{
	TAKE(making, spec, src_ip, src_ip);
	TAKE(making, spec, dst_ip, dst_ip);
	TAKE(making, spec, flow_label, flow_label);
	TAKE(making, spec, ip_protocol, next_hdr);
	TAKE(making, spec, traffic_class, traffic_class);
	TAKE(making, spec, hop_limit, hop_limit);
	require_layer(making, FRAME_LAYER_IPV6);
	return part_mark_named(making, NAMED_IP);
}

static int add_ports(struct making *making, const struct ibv_flow_spec_tcp_udp *spec)
{
	TAKE(making, spec, src_port, src_port);
	TAKE(making, spec, dst_port, dst_port);
	require_layer(making, spec->type == IBV_FLOW_SPEC_TCP ? FRAME_LAYER_TCP : FRAME_LAYER_UDP);
	return part_mark_named(making, NAMED_PORTS);
}

static int add_tag(struct making *making, const struct ibv_flow_spec_action_tag *spec)
{
	making->rule.tag = spec->tag_id;
	return part_mark_named(making, NAMED_TAG);
}

static int add_counters(struct making *making, const struct ibv_flow_spec_counter_action *spec)
{
	making->counters = spec->counters;
	return spec->counters ? part_mark_named(making, NAMED_COUNTERS) : EINVAL;
}

/* EINVAL: wrong size or place; EOPNOTSUPP: cannot be matched here. */
static int add_spec(struct making *making, const struct ibv_flow_spec *spec)
{
	switch ((uint32_t)spec->hdr.type) {
	case IBV_FLOW_SPEC_ETH:
		return spec->hdr.size == sizeof(spec->eth) ? add_ethernet(making, &spec->eth)
							   : EINVAL;
	case IBV_FLOW_SPEC_IPV4:
		return spec->hdr.size == sizeof(spec->ipv4) ? add_ipv4(making, &spec->ipv4)
							    : EINVAL;
	case IBV_FLOW_SPEC_IPV4_EXT:
		return spec->hdr.size == sizeof(spec->ipv4_ext)
			? add_ipv4_ext(making, &spec->ipv4_ext)
			: EINVAL;
	case IBV_FLOW_SPEC_IPV6:
		return spec->hdr.size == sizeof(spec->ipv6) ? add_ipv6(making, &spec->ipv6)
							    : EINVAL;
	case IBV_FLOW_SPEC_TCP:
	case IBV_FLOW_SPEC_UDP:
		return spec->hdr.size == sizeof(spec->tcp_udp) ? add_ports(making, &spec->tcp_udp)
							       : EINVAL;
	case IBV_FLOW_SPEC_ACTION_TAG:
		return spec->hdr.size == sizeof(spec->flow_tag) ? add_tag(making, &spec->flow_tag)
								: EINVAL;
	case IBV_FLOW_SPEC_ACTION_COUNT:
		return spec->hdr.size == sizeof(spec->flow_count)
			? add_counters(making, &spec->flow_count)
			: EINVAL;
	}
	return EOPNOTSUPP;
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
			return EINVAL;
		memcpy(&spec, next, spec.hdr.size);
		error = add_spec(making, &spec);
		next += spec.hdr.size;
	}
	return error;
}

/* Clear bits of the value that the mask leaves out. */
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
	return EINVAL;
}

static int rule_from_verbs(const struct ibv_flow_attr *attr, struct making *making)
{
	struct flow_rule *rule = &making->rule;
	int error = kind_from_verbs(attr->type, &rule->kind);

	if (error)
		return error;
	if (attr->flags & IBV_FLOW_ATTR_FLAGS_EGRESS)
		return EOPNOTSUPP;
	if (attr->comp_mask || attr->port != DEVICE_PORT ||
		(attr->flags & ~(uint32_t)IBV_FLOW_ATTR_FLAGS_DONT_TRAP))
		return EINVAL;
	if (rule->kind != FLOW_NORMAL && (attr->flags || attr->num_of_specs))
		return EINVAL;
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
		error = flow->counters ? 0 : ENOENT;
	}
	if (!error)
		error = -nic_flow_create(container_of(flow->qp, struct qp_front, object)->nic,
			&making.rule, &flow->nic);
	return error;
}

struct ibv_flow *flow_create(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	struct context *context = context_of(qp->context);
	struct flow_front *flow = calloc(1, sizeof(*flow));
	int error;

	if (!flow)
		return NULL;
	flow->verbs.context = qp->context;
	flow->qp = object_ref(qp->handle, OBJECT_QP, context);
	error = flow->qp ? flow_make(flow, context, attr) : ENOENT;
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
