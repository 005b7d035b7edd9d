/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ports whose MADs cross a link of this program: in order, or with losses, copies and another
 * order. Time is virtual.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mad/mad_layer.h"
#include "support/sim_random.h"
#include "wire/bytes.h"
#include "wire/infiniband/rmpp.h"

#define MS UINT64_C(1000000)

enum {
	QUEUE_MAX = 4096,
	DELIVERIES_MAX = 16,
	VENDOR_CLASS = 0x32,
	TIMEOUT_MS = 100,
};

/* A MAD on the link. */
struct crossing {
	uint32_t to; /* index of the port */
	uint32_t qpn;
	struct mad_address from;
	uint8_t mad[MAD_BYTES];
};

struct delivery {
	struct mad_address peer;
	int status;
	uint32_t count;
	uint8_t *bytes;
};

/* The context of an agent: what it has got. */
struct inbox {
	uint32_t count;
	struct delivery deliveries[DELIVERIES_MAX];
};

static struct {
	struct mad_layer *layer;
	struct mad_port *ports[2];
	uint64_t now_ns;
	struct crossing *queue; /* QUEUE_MAX */
	uint32_t queued;
	uint32_t crossed; /* MADs that were sent, since the test began */
	struct sim_random random;
	uint32_t loss_percent;
	bool is_shuffled;
	bool is_cut;
} link_;

static void link_transmit(void *context, uint32_t own_qpn, const struct mad_address *to,
	const uint8_t mad[MAD_BYTES])
{
	uint32_t from = context == &link_.ports[1];
	struct crossing *crossing;

	link_.crossed++;
	if (link_.is_cut ||
		(link_.loss_percent && sim_random_below(&link_.random, 100) < link_.loss_percent))
		return;
	assert_true(link_.queued < QUEUE_MAX);
	crossing = &link_.queue[link_.queued++];
	*crossing = (struct crossing){.to = to->lid - 1, .qpn = to->qpn, .from = *to};
	crossing->from.lid = (uint16_t)(from + 1);
	crossing->from.qpn = own_qpn;
	memcpy(crossing->mad, mad, MAD_BYTES);
}

static void inbox_deliver(void *context, const struct mad_address *peer, int status,
	const uint8_t *bytes, uint32_t count)
{
	struct inbox *inbox = context;
	struct delivery *delivery = &inbox->deliveries[inbox->count++];

	assert_true(inbox->count <= DELIVERIES_MAX);
	*delivery = (struct delivery){
		.peer = *peer, .status = status, .count = count, .bytes = malloc(count)};
	memcpy(delivery->bytes, bytes, count);
}

static void inbox_empty(struct inbox *inbox)
{
	for (uint32_t i = 0; i < inbox->count; i++)
		free(inbox->deliveries[i].bytes);
	inbox->count = 0;
}

static int link_begin(void **state)
{
	static const struct mad_calls calls = {.transmit = link_transmit, .deliver = inbox_deliver};

	(void)state;
	memset(&link_, 0, sizeof(link_));
	link_.now_ns = MS;
	link_.random = (struct sim_random){1};
	link_.queue = calloc(QUEUE_MAX, sizeof(*link_.queue));
	if (mad_layer_create(&calls, &link_.layer))
		return -1;
	for (uint32_t i = 0; i < 2; i++)
		if (mad_port_create(link_.layer, &link_.ports[i], &link_.ports[i]))
			return -1;
	return 0;
}

static int link_end(void **state)
{
	(void)state;
	mad_port_destroy(link_.ports[0]);
	mad_port_destroy(link_.ports[1]);
	/* Every timer has gone with its port. */
	assert_int_equal(mad_layer_deadline_ns(link_.layer), UINT64_MAX);
	mad_layer_destroy(link_.layer);
	free(link_.queue);
	return 0;
}

/* Deliver the MADs that are on the link, and those that these cause. */
static void link_run(void)
{
	while (link_.queued > 0) {
		uint32_t index = link_.is_shuffled
			? (uint32_t)sim_random_below(&link_.random, link_.queued)
			: 0;
		struct crossing crossing = link_.queue[index];

		link_.queued--;
		memmove(&link_.queue[index], &link_.queue[index + 1],
			(link_.queued - index) * sizeof(crossing));
		if (crossing.to < 2)
			mad_port_receive(link_.ports[crossing.to], crossing.qpn, &crossing.from,
				crossing.mad, link_.now_ns);
	}
}

/* Run until no timer is left, or `until_ns`. */
static void link_run_until(uint64_t until_ns)
{
	link_run();
	while (mad_layer_deadline_ns(link_.layer) <= until_ns) {
		link_.now_ns = mad_layer_deadline_ns(link_.layer);
		mad_layer_advance(link_.layer, link_.now_ns);
		link_run();
	}
	link_.now_ns = until_ns;
}

static struct mad_agent *agent_make(uint32_t port, const struct mad_agent_spec *spec,
	struct inbox *inbox)
{
	struct mad_agent *agent;

	assert_int_equal(mad_agent_add(link_.ports[port], spec, inbox, &agent), 0);
	return agent;
}

static const struct mad_agent_spec sa_client = {
	.management_class = MAD_CLASS_SUBN_ADM, .class_version = 2, .has_rmpp = true, .qpn = 1};
static const struct mad_agent_spec sa_server = {.management_class = MAD_CLASS_SUBN_ADM,
	.class_version = 2,
	.has_rmpp = true,
	.qpn = 1,
	.method_mask = {1u << MAD_METHOD_GET | 1u << MAD_METHOD_GET_TABLE | 1u << MAD_METHOD_GET_MULTI}};

static void mad_fill(uint8_t *mad, uint8_t management_class, uint8_t method, uint64_t tid)
{
	const struct mad_header header = {.base_version = 1,
		.management_class = management_class,
		.class_version = management_class == MAD_CLASS_SUBN_ADM ? 2 : 1,
		.method = method,
		.attribute_id = 0x11,
		.transaction_id = tid};

	mad_header_encode(&header, mad);
}

static int send_to(struct mad_agent *agent, uint16_t lid, const uint8_t *bytes, uint32_t count,
	uint32_t timeout_ms, uint32_t retries)
{
	const struct mad_address to = {.lid = lid, .qpn = 1, .qkey = GSI_QKEY};

	return mad_agent_send(agent, &to, bytes, count, timeout_ms, retries, link_.now_ns);
}

/* --- routing --- */

static void response_goes_to_the_agent_that_asked(void **state)
{
	struct inbox asked = {0}, other = {0}, served = {0};
	struct mad_agent *client = agent_make(0, &sa_client, &asked);
	struct mad_agent *server;
	uint8_t mad[MAD_BYTES] = {0};

	(void)state;
	agent_make(0, &sa_client, &other);
	server = agent_make(1, &sa_server, &served);
	mad_fill(mad, MAD_CLASS_SUBN_ADM, MAD_METHOD_GET, 0x1122334455667788);
	assert_int_equal(send_to(client, 2, mad, MAD_BYTES, TIMEOUT_MS, 0), 0);
	link_run();
	assert_int_equal(served.count, 1);
	assert_int_equal(served.deliveries[0].peer.lid, 1);
	/* The upper half of the transaction ID is the agent's number, the lower one the program's. */
	assert_int_equal(get_be32(served.deliveries[0].bytes + 8), mad_agent_number(client));
	assert_int_equal(get_be32(served.deliveries[0].bytes + 12), 0x55667788);

	memcpy(mad, served.deliveries[0].bytes, MAD_BYTES);
	mad[3] = MAD_METHOD_GET_RESP;
	assert_int_equal(send_to(server, 1, mad, MAD_BYTES, 0, 0), 0);
	link_run();
	assert_int_equal(asked.count, 1);
	assert_int_equal(asked.deliveries[0].status, 0);
	assert_int_equal(asked.deliveries[0].count, MAD_BYTES);
	assert_int_equal(other.count, 0);

	/* A second response has no request. */
	assert_int_equal(send_to(server, 1, mad, MAD_BYTES, 0, 0), 0);
	link_run();
	assert_int_equal(asked.count, 1);
	assert_int_equal(mad_port_counters(link_.ports[0])->unmatched_responses, 1);
	inbox_empty(&asked);
	inbox_empty(&served);
}

static void request_goes_to_the_agent_of_its_class_version_method_and_oui(void **state)
{
	const struct mad_agent_spec ours = {.management_class = VENDOR_CLASS,
		.class_version = 1,
		.qpn = 1,
		.oui = {0, 0x14, 5},
		.method_mask = {1u << MAD_METHOD_GET}};
	struct mad_agent_spec theirs = ours;
	struct inbox ours_got = {0}, theirs_got = {0}, client_got = {0};
	struct mad_agent *client = agent_make(0, &sa_client, &client_got);
	uint8_t mad[MAD_BYTES] = {0};

	(void)state;
	theirs.oui[2] = 6;
	agent_make(1, &ours, &ours_got);
	agent_make(1, &theirs, &theirs_got);
	mad_fill(mad, VENDOR_CLASS, MAD_METHOD_GET, 1);
	memcpy(mad + 37, ours.oui, 3);
	assert_int_equal(send_to(client, 2, mad, MAD_BYTES, 0, 0), 0);
	memcpy(mad + 37, theirs.oui, 3);
	assert_int_equal(send_to(client, 2, mad, MAD_BYTES, 0, 0), 0);
	link_run();
	assert_int_equal(ours_got.count, 1);
	assert_int_equal(theirs_got.count, 1);

	/* Another version, and another OUI, are nobody's. */
	mad[2] = 2;
	assert_int_equal(send_to(client, 2, mad, MAD_BYTES, 0, 0), 0);
	mad[2] = 1;
	mad[39] = 7;
	assert_int_equal(send_to(client, 2, mad, MAD_BYTES, 0, 0), 0);
	link_run();
	assert_int_equal(mad_port_counters(link_.ports[1])->unmatched_requests, 2);
	inbox_empty(&ours_got);
	inbox_empty(&theirs_got);
}

static void method_belongs_to_one_agent(void **state)
{
	struct mad_agent_spec spec = sa_server;
	struct mad_agent *agent, *second;
	struct inbox inbox = {0};

	(void)state;
	agent = agent_make(0, &sa_server, &inbox);
	assert_int_equal(
		mad_agent_add(link_.ports[0], &spec, &inbox, &second), -EADDRINUSE);
	/* Another method, the other port, and the time after the agent's end are free. */
	spec.method_mask[0] = 1u << MAD_METHOD_TRAP;
	agent_make(0, &spec, &inbox);
	agent_make(1, &sa_server, &inbox);
	mad_agent_remove(agent);
	agent_make(0, &sa_server, &inbox);
}

static void agent_of_an_impossible_kind_is_refused(void **state)
{
	static const struct mad_agent_spec wrong[] = {
		{.management_class = MAD_CLASS_SUBN_ADM, .class_version = 2, .qpn = 0},
		{.management_class = MAD_CLASS_SUBN_DIRECTED, .class_version = 1, .qpn = 1},
		{.management_class = MAD_CLASS_PERF, .class_version = 8, .qpn = 1},
		{.management_class = 0x50, .class_version = 1, .qpn = 1},
		{.management_class = MAD_CLASS_PERF, .class_version = 1, .qpn = 2},
		{.management_class = 0, .class_version = 0, .qpn = 1, .method_mask = {1}},
	};
	struct mad_agent *agent;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(
			mad_agent_add(link_.ports[0], &wrong[i], NULL, &agent), -EINVAL);
}

static void unregistered_get_is_answered_and_a_trap_is_not(void **state)
{
	struct inbox inbox = {0};
	struct mad_agent *client = agent_make(0, &sa_client, &inbox);
	uint8_t mad[MAD_BYTES] = {0};

	(void)state;
	mad_fill(mad, VENDOR_CLASS, MAD_METHOD_GET, 1);
	assert_int_equal(send_to(client, 2, mad, MAD_BYTES, TIMEOUT_MS, 0), 0);
	mad_fill(mad, VENDOR_CLASS, MAD_METHOD_TRAP, 2);
	assert_int_equal(send_to(client, 2, mad, MAD_BYTES, 0, 0), 0);
	link_run();
	assert_int_equal(inbox.count, 1);
	assert_int_equal(inbox.deliveries[0].status, 0);
	assert_int_equal(inbox.deliveries[0].bytes[3], MAD_METHOD_GET_RESP);
	assert_int_equal(get_be16(inbox.deliveries[0].bytes + 4),
		MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE);
	assert_int_equal(link_.crossed, 3);
	inbox_empty(&inbox);
}

static void mad_at_the_wrong_queue_pair_is_dropped(void **state)
{
	const struct mad_address from = {.lid = 1, .qpn = 1};
	uint8_t mad[MAD_BYTES] = {0};

	(void)state;
	mad_fill(mad, MAD_CLASS_PERF, MAD_METHOD_GET, 1);
	mad_port_receive(link_.ports[1], 0, &from, mad, link_.now_ns);
	mad_fill(mad, MAD_CLASS_SUBN_LID_ROUTED, MAD_METHOD_GET, 1);
	mad_port_receive(link_.ports[1], 1, &from, mad, link_.now_ns);
	mad[0] = 2;
	mad_port_receive(link_.ports[1], 0, &from, mad, link_.now_ns);
	assert_int_equal(mad_port_counters(link_.ports[1])->malformed, 3);
	assert_int_equal(link_.crossed, 0);
}

/* --- timeouts --- */

static void request_without_answer_is_retried_and_given_back(void **state)
{
	struct inbox inbox = {0};
	struct mad_agent *client = agent_make(0, &sa_client, &inbox);
	uint64_t began_ns = link_.now_ns;
	uint8_t mad[MAD_BYTES] = {0};

	(void)state;
	link_.is_cut = true;
	mad_fill(mad, MAD_CLASS_SUBN_ADM, MAD_METHOD_GET, 9);
	assert_int_equal(send_to(client, 2, mad, MAD_BYTES, TIMEOUT_MS, 3), 0);
	link_run_until(began_ns + 4 * TIMEOUT_MS * MS - 1);
	assert_int_equal(link_.crossed, 4);
	assert_int_equal(inbox.count, 0);
	link_run_until(began_ns + 4 * TIMEOUT_MS * MS);
	assert_int_equal(link_.crossed, 4);
	assert_int_equal(inbox.count, 1);
	assert_int_equal(inbox.deliveries[0].status, ETIMEDOUT);
	/* As Linux: the header only, with the program's half of the transaction ID. */
	assert_int_equal(inbox.deliveries[0].count, MAD_HEADER_BYTES);
	assert_int_equal(get_be32(inbox.deliveries[0].bytes + 12), 9);
	inbox_empty(&inbox);
}

static void second_request_with_the_same_transaction_id_is_refused(void **state)
{
	struct inbox inbox = {0};
	struct mad_agent *client = agent_make(0, &sa_client, &inbox);
	struct mad_agent *other = agent_make(0, &sa_client, &inbox);
	uint8_t mad[MAD_BYTES] = {0};

	(void)state;
	link_.is_cut = true;
	mad_fill(mad, MAD_CLASS_SUBN_ADM, MAD_METHOD_GET, 9);
	assert_int_equal(send_to(client, 2, mad, MAD_BYTES, TIMEOUT_MS, 0), 0);
	assert_int_equal(send_to(client, 2, mad, MAD_BYTES, TIMEOUT_MS, 0), -EINVAL);
	assert_int_equal(send_to(other, 2, mad, MAD_BYTES, TIMEOUT_MS, 0), 0);
	/* What cannot be sent: less than a header, and more than a MAD without RMPP. */
	assert_int_equal(send_to(client, 2, mad, MAD_HEADER_BYTES - 1, 0, 0), -EINVAL);
	assert_int_equal(send_to(client, 2, mad, MAD_BYTES + 1, 0, 0), -EINVAL);
}

static void removed_agent_gets_nothing(void **state)
{
	struct inbox inbox = {0};
	struct mad_agent *client = agent_make(0, &sa_client, &inbox);
	uint8_t mad[MAD_BYTES] = {0};

	(void)state;
	link_.is_cut = true;
	mad_fill(mad, MAD_CLASS_SUBN_ADM, MAD_METHOD_GET, 9);
	assert_int_equal(send_to(client, 2, mad, MAD_BYTES, TIMEOUT_MS, 0), 0);
	mad_agent_remove(client);
	assert_int_equal(mad_layer_deadline_ns(link_.layer), UINT64_MAX);
}

/* --- RMPP --- */

/* A message of `records` records of one byte each behind the headers. */
static uint8_t *message_make(uint8_t method, uint64_t tid, uint32_t data_bytes, uint32_t *ret_count)
{
	const struct rmpp_header rmpp = {
		.version = RMPP_VERSION, .type = RMPP_DATA, .flags = RMPP_ACTIVE};
	uint32_t count = SA_DATA_OFFSET + data_bytes;
	uint8_t *message = calloc(1, count < MAD_BYTES ? MAD_BYTES : count);

	mad_fill(message, MAD_CLASS_SUBN_ADM, method, tid);
	rmpp_header_encode(&rmpp, message);
	for (uint32_t i = 0; i < data_bytes; i++)
		message[SA_DATA_OFFSET + i] = (uint8_t)(i * 7 + i / 256);
	*ret_count = count;
	return message;
}

static void assert_same_data(const struct delivery *delivery, const uint8_t *message, uint32_t count)
{
	assert_int_equal(delivery->status, 0);
	assert_int_equal(delivery->count, count);
	assert_memory_equal(
		delivery->bytes + SA_DATA_OFFSET, message + SA_DATA_OFFSET, count - SA_DATA_OFFSET);
}

/* Answer the requests that the server has got, each once. */
static void requests_answer(struct mad_agent *server, struct inbox *served, uint32_t *answered,
	bool is_multi, uint32_t data_bytes)
{
	for (; *answered < served->count; ++*answered) {
		uint64_t tid = get_be64(served->deliveries[*answered].bytes + 8);
		uint32_t count;
		uint8_t *response = message_make(
			is_multi ? MAD_METHOD_GET_MULTI_RESP : MAD_METHOD_GET_TABLE_RESP, tid,
			data_bytes, &count);

		assert_int_equal(send_to(server, 1, response, count, 0, 20), 0);
		free(response);
	}
}

/*
 * Ask, and be answered by a message of that length; the request is a message, too, if
 * `request_bytes` is more than a MAD has room for.
 */
static void exchange_run(uint32_t request_bytes, uint32_t response_bytes)
{
	bool is_multi = request_bytes > SA_DATA_BYTES;
	struct inbox asked = {0}, served = {0};
	struct mad_agent *client = agent_make(0, &sa_client, &asked);
	struct mad_agent *server = agent_make(1, &sa_server, &served);
	uint32_t count, response_count, answered = 0;
	uint8_t *request = message_make(is_multi ? MAD_METHOD_GET_MULTI : MAD_METHOD_GET_TABLE, 5,
		request_bytes, &count);
	uint8_t *response = message_make(0, 0, response_bytes, &response_count);

	if (!is_multi)
		request[26] = 0; /* a request that fits has no active RMPP header */
	assert_int_equal(send_to(client, 2, request, is_multi ? count : MAD_BYTES, 5000, 10), 0);
	link_run();
	while (mad_layer_deadline_ns(link_.layer) != UINT64_MAX) {
		requests_answer(server, &served, &answered, is_multi, response_bytes);
		link_run();
		link_run_until(mad_layer_deadline_ns(link_.layer));
	}
	if (is_multi)
		assert_same_data(&served.deliveries[0], request, count);
	assert_int_equal(asked.count, 1);
	assert_same_data(&asked.deliveries[0], response, response_count);
	inbox_empty(&asked);
	inbox_empty(&served);
	free(request);
	free(response);
	mad_agent_remove(client);
	mad_agent_remove(server);
}

static void messages_of_any_length_arrive_whole(void **state)
{
	static const uint32_t lengths[] = {0, 1, SA_DATA_BYTES - 1, SA_DATA_BYTES,
		SA_DATA_BYTES + 1, 2 * SA_DATA_BYTES, 63 * SA_DATA_BYTES, 64 * SA_DATA_BYTES,
		65 * SA_DATA_BYTES + 3, 129 * SA_DATA_BYTES, 100000};

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		exchange_run(8, lengths[i]);
		exchange_run(300, lengths[i]);
	}
}

static void messages_arrive_whole_over_a_link_that_loses_and_reorders(void **state)
{
	(void)state;
	link_.is_shuffled = true;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		link_.random = (struct sim_random){seed};
		link_.loss_percent = 10;
		exchange_run(seed % 2 ? 8 : 5000, (uint32_t)seed * 997);
	}
}

static void segments_have_the_lengths_of_the_specification(void **state)
{
	struct inbox inbox = {0};
	struct mad_agent *client = agent_make(0, &sa_client, &inbox);
	struct rmpp_header rmpp;
	uint32_t count;
	uint8_t *message = message_make(MAD_METHOD_GET_TABLE_RESP, 1, SA_DATA_BYTES + 10, &count);

	(void)state;
	assert_int_equal(send_to(client, 2, message, count, 0, 0), 0);
	/* The first window is one segment. */
	assert_int_equal(link_.queued, 1);
	rmpp_header_decode(&rmpp, link_.queue[0].mad);
	assert_int_equal(rmpp.flags, RMPP_ACTIVE | RMPP_FIRST);
	assert_int_equal(rmpp.segment, 1);
	/* Both segments repeat SA's header of 20 bytes (IBTA 13.6.2.3). */
	assert_int_equal(rmpp.length, 2 * SA_HEADER_BYTES + SA_DATA_BYTES + 10);
	free(message);
}

static void message_without_acknowledgement_is_given_up(void **state)
{
	struct inbox inbox = {0};
	struct mad_agent *client = agent_make(0, &sa_client, &inbox);
	uint32_t count;
	uint8_t *message = message_make(MAD_METHOD_GET_MULTI, 1, 1000, &count);

	(void)state;
	link_.is_cut = true;
	assert_int_equal(send_to(client, 2, message, count, TIMEOUT_MS, 2), 0);
	link_run_until(link_.now_ns + 100000 * MS);
	assert_int_equal(link_.crossed, 3);
	assert_int_equal(inbox.count, 1);
	assert_int_equal(inbox.deliveries[0].status, ETIMEDOUT);
	inbox_empty(&inbox);
	free(message);
}

/* --- hostile segments --- */

struct segment {
	uint8_t type;
	uint8_t flags;
	uint32_t number;
	uint32_t length;
};

static void segment_receive(const struct segment *segment, uint64_t tid)
{
	const struct mad_address from = {.lid = 1, .qpn = 1};
	const struct rmpp_header rmpp = {.version = RMPP_VERSION,
		.type = segment->type,
		.flags = segment->flags,
		.segment = segment->number,
		.length = segment->length};
	uint8_t mad[MAD_BYTES] = {0};

	mad_fill(mad, MAD_CLASS_SUBN_ADM, MAD_METHOD_GET_MULTI, tid);
	rmpp_header_encode(&rmpp, mad);
	mad_port_receive(link_.ports[1], 1, &from, mad, link_.now_ns);
}

/* The type and status of the last RMPP packet that port 1 has sent. */
static void assert_answered(uint8_t type, uint8_t status)
{
	struct rmpp_header rmpp;

	assert_true(link_.queued > 0);
	rmpp_header_decode(&rmpp, link_.queue[link_.queued - 1].mad);
	assert_int_equal(rmpp.type, type);
	assert_int_equal(rmpp.status, status);
	link_.queued = 0;
}

static void contradictory_segments_are_aborted(void **state)
{
	const uint8_t first = RMPP_ACTIVE | RMPP_FIRST, last = RMPP_ACTIVE | RMPP_LAST;
	struct inbox inbox = {0};

	(void)state;
	agent_make(1, &sa_server, &inbox);
	/* The first segment without its flag; a last one that is too short, and too long. */
	segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE, 1, 0}, 1);
	assert_answered(RMPP_ABORT, RMPP_STATUS_FIRST_SEGMENT);
	segment_receive(&(struct segment){RMPP_DATA, first | last, 1, 19}, 2);
	assert_answered(RMPP_ABORT, RMPP_STATUS_LAST_LENGTH);
	segment_receive(&(struct segment){RMPP_DATA, first | last, 1, 221}, 3);
	assert_answered(RMPP_ABORT, RMPP_STATUS_LAST_LENGTH);
	/* A last segment before one that is here already. */
	segment_receive(&(struct segment){RMPP_DATA, first, 1, 0}, 4);
	segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE, 5, 0}, 4);
	segment_receive(&(struct segment){RMPP_DATA, last, 3, 220}, 4);
	assert_answered(RMPP_ABORT, RMPP_STATUS_LAST_LENGTH);
	/* A segment behind the last one. */
	segment_receive(&(struct segment){RMPP_DATA, first, 1, 0}, 5);
	segment_receive(&(struct segment){RMPP_DATA, last, 3, 220}, 5);
	segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE, 4, 0}, 5);
	assert_answered(RMPP_ABORT, RMPP_STATUS_LAST_LENGTH);
	segment_receive(&(struct segment){9, RMPP_ACTIVE, 1, 0}, 6);
	assert_answered(RMPP_ABORT, RMPP_STATUS_BAD_TYPE);
	/* A message does not begin in its middle, and an abort has no answer. */
	segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE, 2, 0}, 7);
	segment_receive(&(struct segment){RMPP_ABORT, RMPP_ACTIVE, 0, 0}, 7);
	assert_int_equal(link_.queued, 0);
	assert_int_equal(inbox.count, 0);
}

static void segment_beyond_the_window_is_dropped(void **state)
{
	struct inbox inbox = {0};

	(void)state;
	agent_make(1, &sa_server, &inbox);
	segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE | RMPP_FIRST, 1, 0}, 1);
	assert_answered(RMPP_ACK, RMPP_STATUS_OK);
	segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE, UINT32_MAX, 0}, 1);
	segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE, 66, 0}, 1);
	assert_int_equal(link_.queued, 0);
	/* The last one of the window, twice. */
	segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE, 65, 0}, 1);
	assert_int_equal(link_.queued, 0);
	segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE, 65, 0}, 1);
	assert_answered(RMPP_ACK, RMPP_STATUS_OK);
}

static void unfinished_message_is_aborted_after_its_time(void **state)
{
	struct inbox inbox = {0};

	(void)state;
	agent_make(1, &sa_server, &inbox);
	segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE | RMPP_FIRST, 1, 0}, 1);
	link_.queued = 0;
	link_.now_ns = mad_layer_deadline_ns(link_.layer);
	assert_int_equal(link_.now_ns, (1 + 40000) * MS);
	mad_layer_advance(link_.layer, link_.now_ns);
	assert_answered(RMPP_ABORT, RMPP_STATUS_TOO_LONG);
	assert_int_equal(mad_layer_deadline_ns(link_.layer), UINT64_MAX);
}

static void messages_in_reassembly_are_limited(void **state)
{
	struct inbox inbox = {0};

	(void)state;
	agent_make(1, &sa_server, &inbox);
	for (uint64_t tid = 0; tid < MAD_RECEIVES_MAX; tid++)
		segment_receive(
			&(struct segment){RMPP_DATA, RMPP_ACTIVE | RMPP_FIRST, 1, 0}, tid);
	assert_answered(RMPP_ACK, RMPP_STATUS_OK);
	segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE | RMPP_FIRST, 1, 0},
		MAD_RECEIVES_MAX);
	assert_answered(RMPP_ABORT, RMPP_STATUS_UNSPECIFIED);
}

static void impossible_acknowledgement_ends_the_message(void **state)
{
	static const struct {
		uint32_t segment, window_last;
		uint8_t status;
	} acks[] = {
		{2, 64, RMPP_STATUS_SEGMENT_TOO_BIG},
		{1, 0, RMPP_STATUS_WINDOW_TOO_SMALL},
	};
	const struct mad_address from = {.lid = 2, .qpn = 1};
	struct inbox inbox = {0};
	struct mad_agent *client = agent_make(0, &sa_client, &inbox);

	(void)state;
	for (size_t i = 0; i < sizeof(acks) / sizeof(acks[0]); i++) {
		const struct rmpp_header rmpp = {.version = RMPP_VERSION,
			.type = RMPP_ACK,
			.flags = RMPP_ACTIVE,
			.segment = acks[i].segment,
			.length = acks[i].window_last};
		uint32_t count;
		uint8_t *message = message_make(MAD_METHOD_GET_MULTI, i + 1, 1000, &count);

		assert_int_equal(send_to(client, 2, message, count, TIMEOUT_MS, 2), 0);
		memcpy(message, link_.queue[link_.queued - 1].mad, MAD_BYTES);
		message[3] ^= MAD_METHOD_RESPONSE_BIT;
		rmpp_header_encode(&rmpp, message);
		mad_port_receive(link_.ports[0], 1, &from, message, link_.now_ns);
		assert_answered(RMPP_ABORT, acks[i].status);
		/* The request is given back, so that its program need not wait for ever. */
		assert_int_equal(inbox.count, i + 1);
		assert_int_equal(inbox.deliveries[i].status, ETIMEDOUT);
		free(message);
	}
	inbox_empty(&inbox);
}

#define MAD_TEST(name) cmocka_unit_test_setup_teardown(name, link_begin, link_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MAD_TEST(response_goes_to_the_agent_that_asked),
		MAD_TEST(request_goes_to_the_agent_of_its_class_version_method_and_oui),
		MAD_TEST(method_belongs_to_one_agent),
		MAD_TEST(agent_of_an_impossible_kind_is_refused),
		MAD_TEST(unregistered_get_is_answered_and_a_trap_is_not),
		MAD_TEST(mad_at_the_wrong_queue_pair_is_dropped),
		MAD_TEST(request_without_answer_is_retried_and_given_back),
		MAD_TEST(second_request_with_the_same_transaction_id_is_refused),
		MAD_TEST(removed_agent_gets_nothing),
		MAD_TEST(messages_of_any_length_arrive_whole),
		MAD_TEST(messages_arrive_whole_over_a_link_that_loses_and_reorders),
		MAD_TEST(segments_have_the_lengths_of_the_specification),
		MAD_TEST(message_without_acknowledgement_is_given_up),
		MAD_TEST(contradictory_segments_are_aborted),
		MAD_TEST(segment_beyond_the_window_is_dropped),
		MAD_TEST(unfinished_message_is_aborted_after_its_time),
		MAD_TEST(messages_in_reassembly_are_limited),
		MAD_TEST(impossible_acknowledgement_ends_the_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
