/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "subnet/manager/manager_internal.h"

enum {
	QUERIES_MAX = 256, /* queries that wait until the present call of the subnet is over */
	TIMEOUT_MS = 1000,
	RETRIES = 4,
};

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
	if (query->attribute_id == SA_ATTRIBUTE_PATH)
		return manager_paths_get(subnet, query, records);
	return manager_records_get(subnet, query, records);
}

/* The status of an answer by its number of records: a Get has exactly one. */
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

	/* Without memory send no answer: the sender repeats its query. */
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
	/* Only a response by RMPP is acknowledged, so only that has a timeout. */
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
		.is_trusted = sa.sm_key == SM_KEY,
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

	/*
	 * Ignore an answer of the agent's own that came back (`status`), and a message in segments:
	 * a query is one MAD.
	 */
	if (status || count != MAD_BYTES || answers->query_count == QUERIES_MAX)
		return;
	query = &answers->queries[answers->query_count++];
	query->from = *peer;
	memcpy(query->mad, bytes, MAD_BYTES);
}

/* Pass the received MADs to the layer, and answer the queries that it delivers. */
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

void manager_answer_advance(struct subnet *subnet)
{
	struct manager_answers *answers = subnet->manager->answers;

	answers->is_running = true;
	mad_layer_advance(answers->layer, subnet->now_ns);
	answers_run(answers);
}

uint64_t manager_answer_deadline_ns(const struct subnet_manager *manager)
{
	return mad_layer_deadline_ns(manager->answers->layer);
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
