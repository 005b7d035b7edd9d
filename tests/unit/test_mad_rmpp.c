/* SPDX-License-Identifier: BSD-2-Clause */
/* Long messages by RMPP: whole ones, lost segments, hostile segments. */
#include "support/mad_link.h"

/* A message of `records` records of one byte each behind the headers. */
static uint8_t *message_make(uint8_t method, uint64_t tid, uint32_t data_bytes, uint32_t *ret_count)
{
	/* OpenSM sets no other field. */
	const struct rmpp_header rmpp = {.flags = RMPP_ACTIVE};
	uint32_t count = SA_DATA_OFFSET + data_bytes;
	uint8_t *message = calloc(1, count < MAD_BYTES ? MAD_BYTES : count);

	mad_fill(message, MAD_CLASS_SUBN_ADM, method, tid);
	rmpp_header_encode(&rmpp, message);
	for (uint32_t i = 0; i < data_bytes; i++)
		message[SA_DATA_OFFSET + i] = (uint8_t)(i * 7 + i / 256);
	*ret_count = count;
	return message;
}

static void assert_same_data(
	const struct delivery *delivery, const uint8_t *message, uint32_t count)
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
	uint8_t *request = message_make(
		is_multi ? MAD_METHOD_GET_MULTI : MAD_METHOD_GET_TABLE, 5, request_bytes, &count);
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

/* Not a byte more than the longest messages, however many agents send. */
static void messages_that_are_sent_are_limited_in_bytes(void **state)
{
	const uint32_t longest = MAD_MESSAGE_BYTES_MAX;
	struct inbox inbox = {0};
	struct mad_agent *clients[2] = {
		agent_make(0, &sa_client, &inbox), agent_make(0, &sa_client, &inbox)};
	uint32_t count;
	uint8_t *message =
		message_make(MAD_METHOD_GET_TABLE_RESP, 1, longest - SA_DATA_OFFSET, &count);

	(void)state;
	for (uint32_t i = 0; i < MAD_PORT_BYTES_MAX / longest; i++)
		assert_int_equal(send_to(clients[i % 2], 2, message, count, 0, 0), 0);
	assert_int_equal(send_to(clients[0], 2, message, MAD_BYTES, 0, 0), -ENOBUFS);
	mad_agent_remove(clients[1]);
	assert_int_equal(send_to(clients[0], 2, message, MAD_BYTES, 0, 0), 0);
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
		segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE | RMPP_FIRST, 1, 0}, tid);
	assert_answered(RMPP_ACK, RMPP_STATUS_OK);
	segment_receive(
		&(struct segment){RMPP_DATA, RMPP_ACTIVE | RMPP_FIRST, 1, 0}, MAD_RECEIVES_MAX);
	assert_answered(RMPP_ABORT, RMPP_STATUS_UNSPECIFIED);
}

/* Send the first segments of a message that never ends. Returns how many were taken. */
static uint32_t segments_begin(uint64_t tid, uint32_t count)
{
	struct rmpp_header rmpp;

	for (uint32_t i = 1; i <= count; i++) {
		const uint8_t first = i == 1 ? RMPP_FIRST : 0;

		segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE | first, i, 0}, tid);
		if (link_.queued == 0)
			continue;
		rmpp_header_decode(&rmpp, link_.queue[0].mad);
		link_.queued = 0;
		if (rmpp.type != RMPP_ACK)
			return i - 1;
	}
	return count;
}

static void messages_in_reassembly_are_limited_in_bytes(void **state)
{
	/* The room doubles, so these need as much as the longest message. */
	const uint32_t most = MAD_MESSAGE_BYTES_MAX / 2 / SA_DATA_BYTES + 1;
	struct inbox inbox = {0};
	struct mad_agent *server = agent_make(1, &sa_server, &inbox);

	(void)state;
	for (uint64_t tid = 1; tid <= MAD_PORT_BYTES_MAX / MAD_MESSAGE_BYTES_MAX; tid++)
		assert_int_equal(segments_begin(tid, most), most);
	assert_int_equal(segments_begin(99, 1), 0);
	mad_agent_remove(server);
	agent_make(1, &sa_server, &inbox);
	assert_int_equal(segments_begin(100, 1), 1);
}

static void delivered_messages_take_no_room_from_new_ones(void **state)
{
	struct inbox inbox = {0};

	(void)state;
	agent_make(1, &sa_server, &inbox);
	for (uint64_t tid = 0; tid < 3 * MAD_RECEIVES_MAX; tid++) {
		segment_receive(
			&(struct segment){RMPP_DATA, RMPP_ACTIVE | RMPP_FIRST | RMPP_LAST, 1, 220},
			tid);
		assert_answered(RMPP_ACK, RMPP_STATUS_OK);
		assert_int_equal(inbox.count, 1);
		inbox_empty(&inbox);
	}
	/* A copy of a late segment is acknowledged, and not delivered again. */
	segment_receive(&(struct segment){RMPP_DATA, RMPP_ACTIVE | RMPP_FIRST | RMPP_LAST, 1, 220},
		3 * MAD_RECEIVES_MAX - 1);
	assert_answered(RMPP_ACK, RMPP_STATUS_OK);
	assert_int_equal(inbox.count, 0);
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

/* The receiver asks for all of a long message at once. */
static void wide_window_is_filled_with_pauses(void **state)
{
	enum { BURST = 256, SEGMENTS = 600 };
	const struct mad_address from = {.lid = 2, .qpn = 1};
	const struct rmpp_header ack = {.version = RMPP_VERSION,
		.type = RMPP_ACK,
		.flags = RMPP_ACTIVE,
		.segment = 1,
		.length = UINT32_MAX};
	struct inbox inbox = {0};
	struct mad_agent *client = agent_make(0, &sa_client, &inbox);
	uint32_t count, sent = 0;
	uint8_t *message =
		message_make(MAD_METHOD_GET_MULTI, 1, SEGMENTS * SA_DATA_BYTES, &count);
	uint8_t mad[MAD_BYTES];

	(void)state;
	assert_int_equal(send_to(client, 2, message, count, TIMEOUT_MS, 2), 0);
	memcpy(mad, link_.queue[link_.queued - 1].mad, MAD_BYTES);
	mad[3] ^= MAD_METHOD_RESPONSE_BIT;
	rmpp_header_encode(&ack, mad);
	link_.is_cut = true;
	link_.crossed = 0;
	mad_port_receive(link_.ports[0], 1, &from, mad, link_.now_ns);
	for (uint32_t left = SEGMENTS - 1; left; left -= sent) {
		sent = left < BURST ? left : BURST;
		assert_int_equal(link_.crossed, sent);
		link_.crossed = 0;
		link_.now_ns += 1000000;
		mad_layer_advance(link_.layer, link_.now_ns);
	}
	assert_int_equal(link_.crossed, 0);
	free(message);
	mad_agent_remove(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MAD_TEST(messages_of_any_length_arrive_whole),
		MAD_TEST(messages_arrive_whole_over_a_link_that_loses_and_reorders),
		MAD_TEST(segments_have_the_lengths_of_the_specification),
		MAD_TEST(message_without_acknowledgement_is_given_up),
		MAD_TEST(messages_that_are_sent_are_limited_in_bytes),
		MAD_TEST(contradictory_segments_are_aborted),
		MAD_TEST(segment_beyond_the_window_is_dropped),
		MAD_TEST(unfinished_message_is_aborted_after_its_time),
		MAD_TEST(messages_in_reassembly_are_limited),
		MAD_TEST(messages_in_reassembly_are_limited_in_bytes),
		MAD_TEST(delivered_messages_take_no_room_from_new_ones),
		MAD_TEST(impossible_acknowledgement_ends_the_message),
		MAD_TEST(wide_window_is_filled_with_pauses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
