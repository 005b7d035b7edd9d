/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "subnet/manager_internal.h"

enum {
	QUERIES_MAX = 256, /* that wait within one call of the subnet */
	TIMEOUT_MS = 1000,
	RETRIES = 4,
	RESP_TIME = 16,
	CAPABILITY_MASK_MATCH = 1 << 13, /* of ClassPortInfo: see below */
};

/* In a modifier: ports have all bits of the query's CapabilityMask, and may have more. */
#define MODIFIER_MASK_MATCH 0x80000000u
/* The bit of the CapabilityMask in the component mask of a PortInfoRecord (IBTA 15.2.5.3). */
#define COMPONENT_CAPABILITY_MASK (1u << 7)

struct waiting_query {
	struct mad_address from;
	uint8_t mad[MAD_BYTES];
};

/* The subnet administrator: a MAD layer with one agent, for RMPP. */
struct manager_answers {
	struct subnet *subnet;
	struct mad_layer *layer;
	struct mad_port *port;
	struct mad_agent *agent;
	struct waiting_query *received; /* MADs for the layer */
	struct waiting_query *queries; /* queries from the layer */
	uint32_t received_count;
	uint32_t query_count;
	bool is_running; /* the layer must not be called from its own callbacks */
};

/* --- records --- */

uint8_t *manager_records_add(struct manager_records *records)
{
	uint8_t *to;

	if (records->count == records->capacity) {
		const uint32_t capacity = records->capacity ? 2 * records->capacity : 8;
		uint8_t *bytes = capacity > RECORDS_MAX
			? NULL
			: realloc(records->bytes, (size_t)capacity * records->record_bytes);

		if (!bytes) {
			records->is_too_long = true;
			return NULL;
		}
		records->bytes = bytes;
		records->capacity = capacity;
	}
	to = records->bytes + (size_t)records->count++ * records->record_bytes;
	memset(to, 0, records->record_bytes);
	return to;
}

/* Have a node's agent answer a Get, as it would on the wire. */
static bool attribute_read(struct subnet *subnet, uint32_t node, uint32_t port, uint16_t attribute,
	uint32_t modifier, uint8_t data[SMP_DATA_BYTES])
{
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_SUBN_LID_ROUTED,
		.class_version = 1,
		.method = MAD_METHOD_GET,
		.attribute_id = attribute,
		.attribute_modifier = modifier,
	};
	const struct node_port *end = node_end_port(&subnet->nodes[node], port);
	uint8_t mad[MAD_BYTES] = {0};

	mad_header_encode(&header, mad);
	put_be64(mad + SMP_M_KEY, end->info.m_key);
	if (!sma_answer(subnet, node, port, 0, mad))
		return false;
	memcpy(data, mad + SMP_DATA, SMP_DATA_BYTES);
	return true;
}

static void nodes_get(
	struct subnet *subnet, const struct manager_query *query, struct manager_records *records)
{
	struct sa_node asked;

	sa_node_decode(&asked, query->record);
	for (uint32_t lid = 1; lid <= subnet->manager->lid_last; lid++) {
		const struct manager_lid *at = &subnet->manager->lids[lid];
		uint8_t bytes[SA_NODE_BYTES] = {0}, data[SMP_DATA_BYTES];
		struct sa_node record;
		uint8_t *to;

		if (!at->node ||
			!attribute_read(
				subnet, at->node - 1, at->port, SM_ATTRIBUTE_NODE_INFO, 0, data))
			continue;
		put_be16(bytes, (uint16_t)lid);
		memcpy(bytes + 4, data, IB_NODE_INFO_BYTES);
		memcpy(bytes + 44, subnet->nodes[at->node - 1].description, SMP_DATA_BYTES);
		sa_node_decode(&record, bytes);
		if (!sa_node_matches(&record, &asked, query->component_mask))
			continue;
		to = manager_records_add(records);
		if (to)
			memcpy(to, bytes, sizeof(bytes));
	}
}

/* Has the port the CapabilityMask of the query? */
static bool capabilities_match(
	const struct manager_query *query, const uint8_t *asked_bytes, const uint8_t *bytes)
{
	struct ib_port_info asked, info;

	if (!(query->component_mask & COMPONENT_CAPABILITY_MASK))
		return true;
	ib_port_info_decode(&asked, asked_bytes);
	ib_port_info_decode(&info, bytes);
	if (query->modifier & MODIFIER_MASK_MATCH)
		return !(asked.capability_mask & ~info.capability_mask);
	return asked.capability_mask == info.capability_mask;
}

static void port_info_add(struct subnet *subnet, const struct manager_query *query, uint16_t lid,
	const struct manager_lid *at, uint32_t port, struct manager_records *records)
{
	struct sa_port_info asked, record = {.lid = lid, .port = (uint8_t)port};
	uint8_t *to;

	sa_port_info_decode(&asked, query->record);
	if (!sa_port_info_matches(&record, &asked, query->component_mask) ||
		!attribute_read(
			subnet, at->node - 1, at->port, SM_ATTRIBUTE_PORT_INFO, port, record.info))
		return;
	if (!capabilities_match(query, asked.info, record.info))
		return;
	/* The M_Key is the manager's secret (IBTA 15.2.5.3). */
	memset(record.info, 0, 8);
	to = manager_records_add(records);
	if (to)
		sa_port_info_encode(&record, to);
}

static void port_infos_get(
	struct subnet *subnet, const struct manager_query *query, struct manager_records *records)
{
	for (uint32_t lid = 1; lid <= subnet->manager->lid_last; lid++) {
		const struct manager_lid *at = &subnet->manager->lids[lid];
		uint32_t last;

		if (!at->node)
			continue;
		last = at->port ? at->port : subnet->nodes[at->node - 1].port_count;
		for (uint32_t port = at->port; port <= last; port++)
			port_info_add(subnet, query, (uint16_t)lid, at, port, records);
	}
}

static void sm_info_get(struct subnet *subnet, struct manager_records *records)
{
	const struct subnet_manager *manager = subnet->manager;
	const struct ib_sm_info info = {
		.guid = subnet->nodes[manager->node].guid,
		.act_count = manager->act_count,
		.state = (uint8_t)manager->state,
	};
	struct sa_sm_info record = {
		.lid = subnet->nodes[manager->node].ports[manager->port].info.lid,
	};
	uint8_t *to = manager_records_add(records);

	ib_sm_info_encode(&info, record.info);
	if (to)
		sa_sm_info_encode(&record, to);
}

static void class_port_info_get(struct manager_records *records)
{
	const struct ib_class_port_info info = {
		.base_version = MAD_BASE_VERSION,
		.class_version = SA_CLASS_VERSION,
		.capability_mask = CAPABILITY_MASK_MATCH,
		.resp_time = RESP_TIME,
	};
	uint8_t *to = manager_records_add(records);

	if (to)
		ib_class_port_info_encode(&info, to);
}

/* --- queries --- */

static uint32_t record_bytes(uint16_t attribute_id)
{
	switch (attribute_id) {
	case SA_ATTRIBUTE_CLASS_PORT_INFO:
		return IB_CLASS_PORT_INFO_BYTES;
#define SA_RECORD(NAME, name, attribute, bytes) \
	case attribute:                         \
		return (uint32_t)align_up_u64(bytes, 8);
#include "wire/infiniband/sa_record.def"
	default:
		return 0;
	}
}

static uint16_t query_execute(
	struct subnet *subnet, const struct manager_query *query, struct manager_records *records)
{
	const bool is_get =
		query->method == MAD_METHOD_GET || query->method == MAD_METHOD_GET_TABLE;

	if (query->attribute_id == SA_ATTRIBUTE_MC_MEMBER)
		return manager_groups_answer(subnet, query, records);
	if (!is_get)
		return MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	switch (query->attribute_id) {
	case SA_ATTRIBUTE_CLASS_PORT_INFO:
		class_port_info_get(records);
		return MAD_STATUS_OK;
	case SA_ATTRIBUTE_NODE:
		nodes_get(subnet, query, records);
		return MAD_STATUS_OK;
	case SA_ATTRIBUTE_PORT_INFO:
		port_infos_get(subnet, query, records);
		return MAD_STATUS_OK;
	case SA_ATTRIBUTE_SM_INFO:
		sm_info_get(subnet, records);
		return MAD_STATUS_OK;
	case SA_ATTRIBUTE_PATH:
		return manager_paths_get(subnet, query, records);
	default:
		return MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	}
}

/* How many records a Get may have: exactly one. */
static uint16_t count_check(const struct manager_query *query, struct manager_records *records)
{
	if (records->is_too_long)
		return SA_STATUS_NO_RESOURCES;
	if (query->method == MAD_METHOD_GET_TABLE)
		return MAD_STATUS_OK;
	if (records->count == 0)
		return SA_STATUS_NO_RECORDS;
	return records->count == 1 ? MAD_STATUS_OK : SA_STATUS_TOO_MANY_RECORDS;
}

static void response_send(struct manager_answers *answers, const struct waiting_query *waiting,
	struct mad_header *header, struct sa_header *sa, const struct manager_records *records)
{
	const bool is_table = header->method == MAD_METHOD_GET_TABLE;
	const uint32_t data_bytes = records->count * records->record_bytes;
	uint32_t count = SA_DATA_OFFSET + data_bytes;
	const struct rmpp_header rmpp = {
		.version = is_table ? RMPP_VERSION : 0,
		.type = is_table ? RMPP_DATA : 0,
		.flags = is_table ? RMPP_ACTIVE : 0,
		.response_time = is_table ? RMPP_NO_RESPONSE_TIME : 0,
	};
	uint8_t *bytes = calloc(1, count < MAD_BYTES ? MAD_BYTES : count);

	/* Its sender asks again. */
	if (!bytes)
		return;
	header->method |= MAD_METHOD_RESPONSE_BIT;
	if (header->method == (MAD_METHOD_SET | MAD_METHOD_RESPONSE_BIT))
		header->method = MAD_METHOD_GET_RESP;
	sa->attribute_offset = (uint16_t)(records->record_bytes / 8);
	mad_header_encode(header, bytes);
	rmpp_header_encode(&rmpp, bytes);
	sa_header_encode(sa, bytes);
	memcpy(bytes + SA_DATA_OFFSET, records->bytes ? records->bytes : bytes, data_bytes);
	if (!is_table)
		count = MAD_BYTES;
	/* A response without segments needs no timeout, because nothing follows it. */
	mad_agent_send(answers->agent, &waiting->from, bytes, count, is_table ? TIMEOUT_MS : 0,
		is_table ? RETRIES : 0, answers->subnet->now_ns);
	free(bytes);
}

static void query_answer(struct manager_answers *answers, const struct waiting_query *waiting)
{
	struct manager_records records = {0};
	struct manager_query query;
	struct mad_header header;
	struct sa_header sa;

	mad_header_decode(&header, waiting->mad);
	sa_header_decode(&sa, waiting->mad);
	query = (struct manager_query){
		.method = header.method,
		.attribute_id = header.attribute_id,
		.modifier = header.attribute_modifier,
		.component_mask = sa.component_mask,
		.record = waiting->mad + SA_DATA_OFFSET,
	};
	records.record_bytes = record_bytes(header.attribute_id);
	header.status = records.record_bytes ? query_execute(answers->subnet, &query, &records)
					     : (uint16_t)MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	if (!header.status)
		header.status = count_check(&query, &records);
	if (header.status)
		records.count = 0;
	response_send(answers, waiting, &header, &sa, &records);
	free(records.bytes);
}

/* --- its MAD layer --- */

static void layer_transmit(
	void *context, uint32_t own_qpn, const struct mad_address *to, const uint8_t mad[MAD_BYTES])
{
	struct manager_answers *answers = context;
	struct subnet *subnet = answers->subnet;
	const struct subnet_manager *manager = subnet->manager;
	const struct mad_frame frame = {
		.dlid = to->lid,
		.slid = subnet->nodes[manager->node].ports[manager->port].info.lid,
		.sl = to->sl,
		.pkey = subnet->nodes[manager->node].ports[manager->port].pkeys[0],
		.dest_qpn = to->qpn,
		.source_qpn = own_qpn,
		.qkey = to->qkey,
	};
	uint8_t bytes[MAD_FRAME_BYTES_MAX];

	frame_send(
		subnet, manager->node, manager->port, bytes, mad_frame_encode(&frame, mad, bytes));
}

static void layer_deliver(void *agent_context, const struct mad_address *peer, int status,
	const uint8_t *bytes, uint32_t count)
{
	struct manager_answers *answers = agent_context;
	struct waiting_query *query;

	/* An answer that was given up, or a query in segments, of which there are none. */
	if (status || count != MAD_BYTES || answers->query_count == QUERIES_MAX)
		return;
	query = &answers->queries[answers->query_count++];
	query->from = *peer;
	memcpy(query->mad, bytes, MAD_BYTES);
}

/* Let the layer take what has been received, and answer what it delivers. */
static void answers_run(struct manager_answers *answers)
{
	answers->is_running = true;
	while (answers->received_count || answers->query_count) {
		struct waiting_query waiting;

		if (answers->received_count) {
			waiting = answers->received[--answers->received_count];
			mad_port_receive(answers->port, GSI_QPN, &waiting.from, waiting.mad,
				answers->subnet->now_ns);
		}
		if (answers->query_count) {
			waiting = answers->queries[--answers->query_count];
			query_answer(answers, &waiting);
		}
	}
	answers->is_running = false;
}

void manager_receive_query(
	struct subnet *subnet, const struct mad_frame *from, const uint8_t mad[MAD_BYTES])
{
	struct manager_answers *answers = subnet->manager->answers;
	struct waiting_query *place;

	if (answers->received_count == QUERIES_MAX)
		return;
	place = &answers->received[answers->received_count++];
	place->from = (struct mad_address){
		.qpn = from->source_qpn,
		.qkey = GSI_QKEY,
		.lid = from->slid,
		.sl = from->sl,
	};
	memcpy(place->mad, mad, MAD_BYTES);
	if (!answers->is_running)
		answers_run(answers);
}

uint64_t manager_answer_advance(struct subnet *subnet)
{
	struct manager_answers *answers = subnet->manager->answers;

	answers->is_running = true;
	mad_layer_advance(answers->layer, subnet->now_ns);
	answers_run(answers);
	return mad_layer_deadline_ns(answers->layer);
}

int manager_answer_create(struct subnet *subnet)
{
	static const struct mad_calls calls = {
		.transmit = layer_transmit,
		.deliver = layer_deliver,
	};
	const struct mad_agent_spec spec = {
		.management_class = MAD_CLASS_SUBN_ADM,
		.class_version = SA_CLASS_VERSION,
		.has_rmpp = true,
		.qpn = GSI_QPN,
		.method_mask = {1ull << MAD_METHOD_GET | 1ull << MAD_METHOD_SET |
			1ull << MAD_METHOD_GET_TABLE | 1ull << MAD_METHOD_DELETE},
	};
	struct manager_answers *answers = calloc(1, sizeof(*answers));
	int error;

	if (!answers)
		return -ENOMEM;
	subnet->manager->answers = answers;
	answers->subnet = subnet;
	answers->received = calloc(QUERIES_MAX, sizeof(*answers->received));
	answers->queries = calloc(QUERIES_MAX, sizeof(*answers->queries));
	if (!answers->received || !answers->queries)
		return -ENOMEM;
	error = mad_layer_create(&calls, &answers->layer);
	if (!error)
		error = mad_port_create(answers->layer, answers, &answers->port);
	return error ? error : mad_agent_add(answers->port, &spec, answers, &answers->agent);
}

void manager_answer_destroy(struct subnet_manager *manager)
{
	struct manager_answers *answers = manager->answers;

	if (!answers)
		return;
	mad_port_destroy(answers->port);
	if (answers->layer)
		mad_layer_destroy(answers->layer);
	free(answers->received);
	free(answers->queries);
	free(answers);
}
