/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/nvmf_tcp_client.h"

/* Byte `offset` of a PDU becomes `value`; the target answers with a TermReq, or closes. */
struct wrong {
	const char *name;
	enum tcp_pdu_type type;
	uint8_t offset;
	uint8_t value;
	enum tcp_fatal fes;
	uint32_t fei;
};

static void expect_term(struct client *client, const struct wrong *row)
{
	while (client_receive(client, received)) {
		if (client->rx.pdu.type != TCP_PDU_C2H_TERM)
			continue;
		if (client->rx.pdu.term.fes != row->fes || client->rx.pdu.term.fei != row->fei)
			fail_msg("%s: fes %u, fei %u", row->name, client->rx.pdu.term.fes,
				client->rx.pdu.term.fei);
		close(client->fd);
		return;
	}
	fail_msg("%s: closed without a TermReq", row->name);
}

static void malformed_pdus_are_refused(void **state)
{
	static const struct wrong rows[] = {
		{"unknown type", TCP_PDU_CAPSULE_CMD, 0, 0x0a, TCP_FATAL_HEADER, 0},
		{"type of a controller", TCP_PDU_CAPSULE_CMD, 0, 5, TCP_FATAL_HEADER, 0},
		{"second ICReq", TCP_PDU_CAPSULE_CMD, 0, 0, TCP_FATAL_SEQUENCE, 0},
		{"flag beyond the mask", TCP_PDU_CAPSULE_CMD, 1, 4, TCP_FATAL_HEADER, 1},
		{"digest that was not agreed", TCP_PDU_CAPSULE_CMD, 1, 1, TCP_FATAL_HEADER, 1},
		{"wrong hlen", TCP_PDU_CAPSULE_CMD, 2, 255, TCP_FATAL_HEADER, 2},
		{"pdo without data", TCP_PDU_CAPSULE_CMD, 3, 71, TCP_FATAL_HEADER, 3},
		{"plen below hlen", TCP_PDU_CAPSULE_CMD, 4, 8, TCP_FATAL_HEADER, 4},
		{"plen of 1 GiB", TCP_PDU_CAPSULE_CMD, 7, 0x40, TCP_FATAL_HEADER, 4},
		{"hlen of ICReq", TCP_PDU_IC_REQ, 2, 24, TCP_FATAL_HEADER, 2},
		{"plen of ICReq", TCP_PDU_IC_REQ, 4, 127, TCP_FATAL_HEADER, 4},
		{"pfv", TCP_PDU_IC_REQ, 8, 1, TCP_FATAL_PARAMETER, 8},
		{"hpda", TCP_PDU_IC_REQ, 10, 32, TCP_FATAL_HEADER, 10},
		{"reserved digest", TCP_PDU_IC_REQ, 11, 4, TCP_FATAL_HEADER, 11},
		{"capsule before ICReq", TCP_PDU_IC_REQ, 0, 4, TCP_FATAL_SEQUENCE, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct tcp_options none = {0};
		struct tcp_pdu pdu = {.type = rows[i].type};
		uint8_t bytes[TCP_HEADER_BYTES_MAX];
		struct client client;
		uint32_t length;

		if (pdu.type == TCP_PDU_IC_REQ)
			client_open(&client);
		else
			client_initialize(&client, 0);
		length = tcp_pdu_encode(&pdu, &none, bytes);
		bytes[rows[i].offset] = rows[i].value;
		client_send(&client, bytes, length);
		expect_term(&client, &rows[i]);
	}
}

static void wrong_h2c_data_is_refused(void **state)
{
	enum change { TTAG, CCCID, OFFSET, LENGTH, EXTRA, LAST, AFTER_END, UNASKED };
	static const struct {
		enum change change;
		struct wrong wrong;
	} rows[] = {
		{TTAG, {"ttag", TCP_PDU_H2C_DATA, 0, 0, TCP_FATAL_HEADER, 10}},
		{CCCID, {"cccid", TCP_PDU_H2C_DATA, 0, 0, TCP_FATAL_HEADER, 8}},
		{OFFSET, {"offset", TCP_PDU_H2C_DATA, 0, 0, TCP_FATAL_DATA_RANGE, 0}},
		{LENGTH, {"datal", TCP_PDU_H2C_DATA, 0, 0, TCP_FATAL_HEADER, 16}},
		{EXTRA, {"too much", TCP_PDU_H2C_DATA, 0, 0, TCP_FATAL_DATA_RANGE, 0}},
		{LAST, {"last too early", TCP_PDU_H2C_DATA, 0, 0, TCP_FATAL_HEADER, 1}},
		{AFTER_END, {"ttag of before", TCP_PDU_H2C_DATA, 0, 0, TCP_FATAL_HEADER, 10}},
		{UNASKED, {"not asked for", TCP_PDU_H2C_DATA, 0, 0, TCP_FATAL_HEADER, 10}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct client admin, io;
		struct tcp_pdu pdu = {.type = TCP_PDU_H2C_DATA, .data_bytes = 8192};
		struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, 0, 24, 12288);
		uint16_t cntlid = client_admin(&admin, SUBSYSTEM_NQN, 0);

		client_io(&io, cntlid, 0, 0);
		if (rows[i].change == AFTER_END)
			assert_int_equal(client_write(&io, 0, 12288), NVME_SUCCESS);
		pdu.data.ttag = io.rx.pdu.data.ttag;
		pdu.data.cccid = sqe.cid;
		pdu.data.length = 8192;
		if (rows[i].change != UNASKED && rows[i].change != AFTER_END) {
			client_capsule(&io, &sqe, NULL, 0);
			assert_true(client_receive(&io, received));
			assert_int_equal(io.rx.pdu.type, TCP_PDU_R2T);
			pdu.data.ttag = io.rx.pdu.data.ttag;
			pdu.data.cccid = sqe.cid;
		}
		pdu.data.ttag ^= rows[i].change == TTAG;
		pdu.data.cccid ^= rows[i].change == CCCID;
		pdu.data.offset = rows[i].change == OFFSET ? 512 : 0;
		pdu.data.length -= rows[i].change == LENGTH;
		pdu.flags = rows[i].change == LAST ? TCP_LAST : 0;
		client_pdu(&io, &pdu, data);
		if (rows[i].change == EXTRA) {
			pdu.data.offset = 8192;
			client_pdu(&io, &pdu, data);
		}
		expect_term(&io, &rows[i].wrong);
		client_close(&admin);
	}
}

static void wrong_header_digest_ends_the_connection(void **state)
{
	const struct wrong row = {"digest", TCP_PDU_CAPSULE_CMD, 0, 0, TCP_FATAL_HEADER_DIGEST, 7};
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD};
	uint8_t bytes[TCP_HEADER_BYTES_MAX];
	struct client client;
	uint32_t length;

	(void)state;
	client_initialize(&client, 1);
	length = tcp_pdu_encode(&pdu, &client.options, bytes);
	le32_put(bytes + 72, 7);
	client_send(&client, bytes, length);
	expect_term(&client, &row);
}

static void wrong_data_digest_fails_one_command(void **state)
{
	struct client admin, io;
	uint16_t cntlid = client_admin(&admin, SUBSYSTEM_NQN, 3);
	struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, 0, 1, 512);
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD, .data_bytes = 512};
	uint8_t bytes[TCP_HEADER_BYTES_MAX];

	(void)state;
	client_io(&io, cntlid, 3, 0);
	sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	sqe.psdt = 1;
	sqe.cid = 77;
	nvme_sqe_encode(&sqe, pdu.sqe);
	client_send(&io, bytes, tcp_pdu_encode(&pdu, &io.options, bytes));
	client_send(&io, data, 516);
	assert_true(client_receive(&io, received));
	assert_int_equal(nvme_cqe_decode(io.rx.pdu.cqe).status, NVME_TRANSIENT_TRANSPORT);
	assert_int_equal(client_write(&io, 0, 512), NVME_SUCCESS);
	close(io.fd);
	client_close(&admin);
}

static void connections_beyond_the_limit_are_closed(void **state)
{
	struct client clients[9];

	(void)state;
	for (int i = 0; i < 8; i++)
		client_initialize(&clients[i], 0);
	client_open(&clients[8]);
	assert_false(client_receive(&clients[8], received));
	assert_int_equal(target_tcp_counters(tcp)->refused_full, 1);
	for (int i = 0; i < 9; i++)
		close(clients[i].fd);
}

/* The socket is full in the middle of a PDU: the rest of that PDU goes out before the TermReq. */
static void termination_follows_a_whole_pdu(void **state)
{
	const struct wrong row = {"type", TCP_PDU_CAPSULE_CMD, 0, 0, TCP_FATAL_HEADER, 0};
	struct nvme_sqe sqe = io_sqe(NVME_IO_READ, 0, DATA_BYTES / 512, DATA_BYTES);
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD};
	uint8_t bytes[TCP_HEADER_BYTES_MAX];
	struct client admin, io;
	uint32_t length;

	(void)state;
	client_io(&io, client_admin(&admin, SUBSYSTEM_NQN, 0), 0, 0);
	for (int i = 0; i < ENTRIES - 1; i++)
		client_capsule(&io, &sqe, NULL, 0);
	for (int i = 0; i < 100; i++)
		loop_step(loop, 1000000);
	length = tcp_pdu_encode(&pdu, &io.options, bytes);
	bytes[0] = 0x0a;
	client_send(&io, bytes, length);
	expect_term(&io, &row);
	client_close(&admin);
}

/* --- commands that wait for memory --- */

/* A Write whose data travels by R2T. */
static struct nvme_sqe write_begin(struct client *client, uint32_t bytes)
{
	struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, 0, bytes / 512, bytes);

	client_capsule(client, &sqe, NULL, 0);
	return sqe;
}

static void pair_begin(struct client *client, uint32_t bytes, bool is_compare_in_capsule)
{
	struct nvme_sqe compare = io_sqe(NVME_IO_COMPARE, 0, bytes / 512, bytes);
	struct nvme_sqe write = io_sqe(NVME_IO_WRITE, 0, bytes / 512, bytes);

	compare.fuse = NVME_FUSE_FIRST;
	write.fuse = NVME_FUSE_SECOND;
	if (is_compare_in_capsule)
		compare.sgl.type = NVME_SGL_IN_CAPSULE;
	client_capsule(client, &compare, data, is_compare_in_capsule ? bytes : 0);
	client_capsule(client, &write, NULL, 0);
}

/* Answer each R2T until so many commands have ended. */
static void serve_until(struct client *client, unsigned count)
{
	for (unsigned ended = 0; ended < count;) {
		assert_true(client_receive(client, received));
		if (client->rx.pdu.type == TCP_PDU_R2T) {
			client_answer_r2t(client, data);
			continue;
		}
		assert_int_equal(client->rx.pdu.type, TCP_PDU_CAPSULE_RESP);
		ended++;
	}
}

/* Smaller commands have all the memory; what they release must not go to second halves alone. */
static void fused_pairs_that_wait_for_memory_all_end(void **state)
{
	struct client admin, io;

	(void)state;
	client_io(&io, client_admin(&admin, SUBSYSTEM_NQN, 0), 0, 0);
	for (int i = 0; i < 8; i++)
		write_begin(&io, 512 << 10);
	for (int i = 0; i < 4; i++)
		pair_begin(&io, DATA_BYTES, false);
	serve_until(&io, 8 + 2 * 4);
	close(io.fd);
	client_close(&admin);
}

static void command_that_waits_for_memory_is_not_overtaken(void **state)
{
	struct nvme_sqe large, small;
	struct client admin, io;

	(void)state;
	client_io(&io, client_admin(&admin, SUBSYSTEM_NQN, 0), 0, 0);
	for (int i = 0; i < 7; i++)
		write_begin(&io, 512 << 10);
	for (int i = 0; i < 7; i++) {
		assert_true(client_receive(&io, received));
		assert_int_equal(io.rx.pdu.type, TCP_PDU_R2T);
	}
	large = write_begin(&io, DATA_BYTES - 65536);
	small = write_begin(&io, 8192);
	/* The last of the seven ends: there is room for the large one. */
	for (int offset = 0; offset < 512 << 10; offset += 65536) {
		client_answer_r2t(&io, data);
		assert_true(client_receive(&io, received));
	}
	while (io.rx.pdu.type != TCP_PDU_R2T)
		assert_true(client_receive(&io, received));
	assert_int_equal(io.rx.pdu.data.cccid, large.cid);
	assert_true(client_receive(&io, received));
	assert_int_equal(io.rx.pdu.data.cccid, small.cid);
	close(io.fd);
	client_close(&admin);
}

/* Data of capsules has come already: it takes no memory from what the others wait for. */
static void data_in_capsules_holds_no_fused_write_back(void **state)
{
	enum { PAIRS = 100, BYTES = 65536 };
	struct nvme_connect connect = {.qid = 1, .sqsize = 255};
	struct client admin, io;
	uint16_t cntlid;

	(void)state;
	setup_with(BYTES, 256);
	cntlid = client_admin(&admin, SUBSYSTEM_NQN, 0);
	client_initialize(&io, 0);
	assert_int_equal(client_connect_as(&io, SUBSYSTEM_NQN, HOST_NQN, connect, cntlid).status,
		NVME_SUCCESS);
	for (int i = 0; i < PAIRS; i++)
		pair_begin(&io, BYTES, true);
	serve_until(&io, 2 * PAIRS);
	close(io.fd);
	client_close(&admin);
	teardown(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(malformed_pdus_are_refused),
		TEST(wrong_h2c_data_is_refused),
		TEST(wrong_header_digest_ends_the_connection),
		TEST(wrong_data_digest_fails_one_command),
		TEST(connections_beyond_the_limit_are_closed),
		TEST(termination_follows_a_whole_pdu),
		TEST(fused_pairs_that_wait_for_memory_all_end),
		TEST(command_that_waits_for_memory_is_not_overtaken),
		cmocka_unit_test(data_in_capsules_holds_no_fused_write_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
