/* SPDX-License-Identifier: BSD-2-Clause */
/* Agents, transaction IDs, timeouts and retries of the MAD layer. */
#include "support/mad_link.h"

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
	/* Upper half of the transaction ID: the agent's number; lower one: the program's. */
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

	/* A second response has no request. The server waits for nothing, though it says so. */
	assert_int_equal(send_to(server, 1, mad, MAD_BYTES, TIMEOUT_MS, 0), 0);
	assert_int_equal(mad_layer_deadline_ns(link_.layer), UINT64_MAX);
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

	/* No agent has registered another version or another OUI. */
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
	assert_int_equal(mad_agent_add(link_.ports[0], &spec, &inbox, &second), -EADDRINUSE);
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
		assert_int_equal(mad_agent_add(link_.ports[0], &wrong[i], NULL, &agent), -EINVAL);
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
	assert_int_equal(
		get_be16(inbox.deliveries[0].bytes + 4), MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
