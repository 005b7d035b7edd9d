/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/arith.h"
#include "subnet/subnet_internal.h"

enum {
	PM_DATA = 64, /* offset in the MAD */
	PM_DATA_BYTES = MAD_BYTES - PM_DATA,
	PM_CLASS_VERSION = 1,
	ALL_PORTS = 255,
	RESP_TIME = 16,

	CAPABILITY_ALL_PORT_SELECT = 0x100,
	CAPABILITY_EXTENDED_WIDTH = 0x200,
	CAPABILITY_XMIT_WAIT = 0x1000,
};

/* The counters of PortCounters, by their bit in CounterSelect; 16: in CounterSelect2. */
#define PORT_COUNTERS(COUNTER)                          \
	COUNTER(0, symbol_error, 16)                    \
	COUNTER(1, link_error_recovery, 8)              \
	COUNTER(2, link_downed, 8)                      \
	COUNTER(3, port_rcv_errors, 16)                 \
	COUNTER(4, port_rcv_remote_physical_errors, 16) \
	COUNTER(5, port_rcv_switch_relay_errors, 16)    \
	COUNTER(6, port_xmit_discards, 16)              \
	COUNTER(7, port_xmit_constraint_errors, 8)      \
	COUNTER(8, port_rcv_constraint_errors, 8)       \
	COUNTER(9, local_link_integrity_errors, 4)      \
	COUNTER(10, excessive_buffer_overrun_errors, 4) \
	COUNTER(11, vl15_dropped, 16)                   \
	COUNTER(12, port_xmit_data, 32)                 \
	COUNTER(13, port_rcv_data, 32)                  \
	COUNTER(14, port_xmit_packets, 32)              \
	COUNTER(15, port_rcv_packets, 32)               \
	COUNTER(16, port_xmit_wait, 32)

/* The counters of PortCountersExtended, by their bit in CounterSelect. */
#define PORT_COUNTERS_EXT(COUNTER)         \
	COUNTER(0, port_xmit_data)         \
	COUNTER(1, port_rcv_data)          \
	COUNTER(2, port_xmit_packets)      \
	COUNTER(3, port_rcv_packets)       \
	COUNTER(4, unicast_xmit_packets)   \
	COUNTER(5, unicast_rcv_packets)    \
	COUNTER(6, multicast_xmit_packets) \
	COUNTER(7, multicast_rcv_packets)

static void counters_add(struct subnet_counters *sum, const struct subnet_counters *add)
{
#define SUBNET_COUNTER(name, is_of_drops, sentence) sum->name += add->name;
#include "subnet/counter.def"
#undef SUBNET_COUNTER
}

/* The ports that PortSelect names; false: there is none. */
static bool ports_select(
	const struct subnet_node *node, uint8_t select, uint32_t *ret_first, uint32_t *ret_last)
{
	const uint32_t lowest = node_is_switch(node) ? 0 : 1;

	*ret_first = select == ALL_PORTS ? lowest : select;
	*ret_last = select == ALL_PORTS ? node->port_count : select;
	return *ret_first >= lowest && *ret_last <= node->port_count;
}

/* The sum of the ports' counters. */
static struct subnet_counters counters_of(
	const struct subnet_node *node, uint32_t first, uint32_t last)
{
	struct subnet_counters sum = {0};

	for (uint32_t port = first; port <= last; port++)
		counters_add(&sum, &node->ports[port].counters);
	return sum;
}

static uint64_t value_of_bits(uint64_t value, unsigned bits)
{
	return min_u64(value, (1ull << bits) - 1);
}

static void port_counters_get(
	const struct subnet_counters *from, uint8_t port_select, uint16_t select, uint8_t *data)
{
	struct ib_port_counters counters = {
		.port_select = port_select,
		.counter_select = select,
	};

#define COUNTER(bit, name, bits) \
	counters.name = (__typeof__(counters.name))value_of_bits(from->name, bits);
	PORT_COUNTERS(COUNTER)
#undef COUNTER
	ib_port_counters_encode(&counters, data);
}

static void port_counters_set(struct subnet_counters *to, const struct ib_port_counters *set)
{
	const uint32_t select = set->counter_select | (uint32_t)(set->counter_select2 & 1) << 16;

#define COUNTER(bit, name, bits) \
	if (select >> (bit)&1)   \
		to->name = set->name;
	PORT_COUNTERS(COUNTER)
#undef COUNTER
}

static void port_counters_ext_get(
	const struct subnet_counters *from, uint8_t port_select, uint16_t select, uint8_t *data)
{
	struct ib_port_counters_ext counters = {
		.port_select = port_select,
		.counter_select = select,
	};

#define COUNTER(bit, name) counters.name = from->name;
	PORT_COUNTERS_EXT(COUNTER)
#undef COUNTER
	ib_port_counters_ext_encode(&counters, data);
}

static void port_counters_ext_set(
	struct subnet_counters *to, const struct ib_port_counters_ext *set)
{
#define COUNTER(bit, name)                  \
	if (set->counter_select >> (bit)&1) \
		to->name = set->name;
	PORT_COUNTERS_EXT(COUNTER)
#undef COUNTER
}

static uint16_t counters_answer(
	struct subnet_node *node, const struct mad_header *header, uint8_t *data)
{
	const bool is_extended = header->attribute_id == PM_ATTRIBUTE_PORT_COUNTERS_EXT;
	const uint8_t port_select = data[1];
	const uint16_t select = get_be16(data + 2);
	struct ib_port_counters_ext extended;
	struct ib_port_counters plain;
	struct subnet_counters sum;
	uint32_t first, last;

	if (!ports_select(node, port_select, &first, &last))
		return MAD_STATUS_INVALID_VALUE;
	ib_port_counters_decode(&plain, data);
	ib_port_counters_ext_decode(&extended, data);
	for (uint32_t port = first; header->method == MAD_METHOD_SET && port <= last; port++) {
		if (is_extended)
			port_counters_ext_set(&node->ports[port].counters, &extended);
		else
			port_counters_set(&node->ports[port].counters, &plain);
	}
	sum = counters_of(node, first, last);
	memset(data, 0, PM_DATA_BYTES);
	if (is_extended)
		port_counters_ext_get(&sum, port_select, select, data);
	else
		port_counters_get(&sum, port_select, select, data);
	return MAD_STATUS_OK;
}

static uint16_t class_port_info_answer(uint8_t *data)
{
	const struct ib_class_port_info info = {
		.base_version = MAD_BASE_VERSION,
		.class_version = PM_CLASS_VERSION,
		.capability_mask = CAPABILITY_ALL_PORT_SELECT | CAPABILITY_EXTENDED_WIDTH |
			CAPABILITY_XMIT_WAIT,
		.resp_time = RESP_TIME,
	};

	memset(data, 0, PM_DATA_BYTES);
	ib_class_port_info_encode(&info, data);
	return MAD_STATUS_OK;
}

static uint16_t attribute_answer(
	struct subnet_node *node, const struct mad_header *header, uint8_t *data)
{
	if (header->base_version != MAD_BASE_VERSION || header->class_version != PM_CLASS_VERSION)
		return MAD_STATUS_BAD_VERSION;
	switch (header->attribute_id) {
	case PM_ATTRIBUTE_CLASS_PORT_INFO:
		return header->method == MAD_METHOD_GET ? class_port_info_answer(data)
							: MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	case PM_ATTRIBUTE_PORT_COUNTERS:
	case PM_ATTRIBUTE_PORT_COUNTERS_EXT:
		return counters_answer(node, header, data);
	default:
		return MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	}
}

bool pma_answer(struct subnet *subnet, uint32_t node, uint8_t mad[MAD_BYTES])
{
	struct mad_header header;

	mad_header_decode(&header, mad);
	if (header.method != MAD_METHOD_GET && header.method != MAD_METHOD_SET)
		return false;
	if (subnet->user.count)
		subnet->user.count(subnet->user.context);
	header.status = attribute_answer(&subnet->nodes[node], &header, mad + PM_DATA);
	header.method = MAD_METHOD_GET_RESP;
	mad_header_encode(&header, mad);
	return true;
}
