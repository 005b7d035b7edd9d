/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of a captured exchange between Linux kernels (tests/data/pcap) are sent to urnic's
 * connection manager, which must give the kernel's answers, field by field. The test takes each end
 * of a captured connection in turn. First it translates the values that each end chooses freely,
 * communication IDs and the adapter's GUID.
 */
#include "support/cm_script.h"
#include "support/pcap.h"

enum { MESSAGES_MAX = 8 };

static struct cm_message captured[MESSAGES_MAX];
static uint32_t captured_count;
static struct cm_path path;

static void load(const char *name)
{
	struct pcap_roce roce;
	struct pcap pcap;
	const uint8_t *mad;

	captured_count = 0;
	pcap_load(&pcap, name);
	while (pcap_next_roce(&pcap, &roce)) {
		mad = gsi_packet_mad(roce.packet, roce.length);
		if (!mad)
			continue;
		assert_true(captured_count < MESSAGES_MAX);
		assert_true(cm_message_decode(&captured[captured_count++], mad));
	}
	pcap_done(&pcap);
}

/* From the end that answered the first message; `is_client`: from the other one. */
static void path_take(bool is_client)
{
	const struct cm_req *req = &captured[0].req;

	path = path_to_peer();
	if (captured[0].attribute != CM_REQ)
		return;
	memcpy(path.local.raw, is_client ? req->primary_local_gid : req->primary_remote_gid, 16);
	memcpy(path.remote.raw, is_client ? req->primary_remote_gid : req->primary_local_gid, 16);
}

static struct cm_message answer(void)
{
	uint8_t packet[GSI_PACKET_BYTES];
	struct cm_message message;
	struct cm_path to;

	assert_true(cm_next_packet(&cm, &to, packet));
	assert_true(gid_is_equal(&to.remote, &path.remote));
	assert_non_null(gsi_packet_mad(packet, sizeof(packet)));
	assert_true(cm_message_decode(&message, packet + GSI_PACKET_BYTES - MAD_BYTES));
	return message;
}

static void expect(const struct cm_message *wanted)
{
	uint8_t theirs[MAD_BYTES], ours[MAD_BYTES];
	struct cm_message message = answer();

	assert_int_equal(message.attribute, wanted->attribute);
	cm_message_encode(wanted, theirs);
	cm_message_encode(&message, ours);
	assert_memory_equal(ours, theirs, MAD_BYTES);
	said_nothing();
}

static void server_answers_as_the_kernel_did(void **state)
{
	static const char *const names[] = {
		"roce-rping.pcap", "roce-rping-ipv6.pcap", "roce-operations.pcap"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		load(names[i]);
		assert_int_equal(captured_count, 5);
		path_take(false);
		end(state);
		begin(state);
		listener.service_id = captured[0].req.service_id;
		hear_from(&path, &captured[0]);
		struct cm_conn *passive = told(CM_EVENT_REQ).conn;

		assert_int_equal(cm_accept(&cm, passive, &captured[1].rep, now_ns), 0);
		captured[1].rep.local_comm_id = passive->local_comm_id;
		captured[1].rep.local_ca_guid = cm.guid;
		expect(&captured[1]);

		captured[2].rtu.remote_comm_id = passive->local_comm_id;
		hear_from(&path, &captured[2]);
		told(CM_EVENT_ESTABLISHED);
		said_nothing();

		captured[3].dreq.remote_comm_id = passive->local_comm_id;
		hear_from(&path, &captured[3]);
		told(CM_EVENT_DREQ);
		assert_int_equal(cm_disconnect(&cm, passive, now_ns), 0);
		captured[4].drep.local_comm_id = passive->local_comm_id;
		expect(&captured[4]);
	}
}

static void client_answers_as_the_kernel_did(void **state)
{
	static const char *const names[] = {
		"roce-rping.pcap", "roce-rping-ipv6.pcap", "roce-operations.pcap"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		load(names[i]);
		path_take(true);
		end(state);
		begin(state);
		assert_int_equal(cm_connect(&cm, &conn, &path, &captured[0].req, now_ns), 0);
		struct cm_message req = answer();

		assert_int_equal(req.attribute, CM_REQ);
		captured[1].rep.remote_comm_id = conn.local_comm_id;
		captured[1].transaction_id = req.transaction_id;
		hear_from(&path, &captured[1]);
		told(CM_EVENT_REP);
		assert_int_equal(cm_ready(&cm, &conn, now_ns), 0);
		captured[2].rtu.local_comm_id = conn.local_comm_id;
		captured[2].transaction_id = req.transaction_id;
		expect(&captured[2]);

		assert_int_equal(cm_disconnect(&cm, &conn, now_ns), 0);
		struct cm_message dreq = answer();

		captured[3].dreq.local_comm_id = conn.local_comm_id;
		captured[3].transaction_id = dreq.transaction_id;
		assert_memory_equal(&dreq.dreq, &captured[3].dreq, sizeof(dreq.dreq));
		captured[4].drep.remote_comm_id = conn.local_comm_id;
		captured[4].transaction_id = dreq.transaction_id;
		hear_from(&path, &captured[4]);
		told(CM_EVENT_DREP);
	}
}

static void request_for_nobody_is_refused_as_by_the_kernel(void **state)
{
	(void)state;
	load("roce-rejected.pcap");
	assert_int_equal(captured_count, 2);
	path_take(false);
	hear_from(&path, &captured[0]);
	expect(&captured[1]);
	told_nothing();
}

static void refusal_of_the_kernel_is_understood(void **state)
{
	(void)state;
	load("roce-rejected.pcap");
	path_take(true);
	assert_int_equal(cm_connect(&cm, &conn, &path, &captured[0].req, now_ns), 0);
	captured[1].transaction_id = answer().transaction_id;
	captured[1].rej.remote_comm_id = conn.local_comm_id;
	hear_from(&path, &captured[1]);
	assert_int_equal(told(CM_EVENT_REJ).message.rej.reason, CM_REJECT_INVALID_SERVICE_ID);
}

static void service_is_found_as_with_the_kernel(void **state)
{
	(void)state;
	load("roce-udaddy.pcap");
	assert_int_equal(captured_count, 2);
	path_take(false);
	listener.service_id = captured[0].sidr_req.service_id;
	hear_from(&path, &captured[0]);
	struct cm_conn *asked = told(CM_EVENT_SIDR_REQ).conn;

	assert_int_equal(cm_sidr_answer(&cm, asked, &captured[1].sidr_rep, now_ns), 0);
	expect(&captured[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(server_answers_as_the_kernel_did),
		TEST(client_answers_as_the_kernel_did),
		TEST(request_for_nobody_is_refused_as_by_the_kernel),
		TEST(refusal_of_the_kernel_is_understood),
		TEST(service_is_found_as_with_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
