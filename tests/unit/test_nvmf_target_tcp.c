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
		{"R2T", TCP_PDU_CAPSULE_CMD, 0, 9, TCP_FATAL_HEADER, 0},
		{"C2HData", TCP_PDU_CAPSULE_CMD, 0, 7, TCP_FATAL_HEADER, 0},
		{"ICResp", TCP_PDU_CAPSULE_CMD, 0, 1, TCP_FATAL_HEADER, 0},
		{"second ICReq", TCP_PDU_CAPSULE_CMD, 0, 0, TCP_FATAL_SEQUENCE, 0},
		{"flag beyond the mask", TCP_PDU_CAPSULE_CMD, 1, 4, TCP_FATAL_HEADER, 1},
		{"digest that was not agreed", TCP_PDU_CAPSULE_CMD, 1, 1, TCP_FATAL_HEADER, 1},
		{"data digest that was not agreed", TCP_PDU_CAPSULE_CMD, 1, 2, TCP_FATAL_HEADER, 1},
		{"wrong hlen", TCP_PDU_CAPSULE_CMD, 2, 255, TCP_FATAL_HEADER, 2},
		{"pdo without data", TCP_PDU_CAPSULE_CMD, 3, 71, TCP_FATAL_HEADER, 3},
		{"plen below hlen", TCP_PDU_CAPSULE_CMD, 4, 8, TCP_FATAL_HEADER, 4},
		{"plen of 1 GiB", TCP_PDU_CAPSULE_CMD, 7, 0x40, TCP_FATAL_HEADER, 4},
		{"hlen of ICReq", TCP_PDU_IC_REQ, 2, 24, TCP_FATAL_HEADER, 2},
		{"plen of ICReq", TCP_PDU_IC_REQ, 4, 127, TCP_FATAL_HEADER, 4},
		{"pfv", TCP_PDU_IC_REQ, 8, 1, TCP_FATAL_PARAMETER, 8},
		{"hpda", TCP_PDU_IC_REQ, 10, 32, TCP_FATAL_HEADER, 10},
		{"reserved digest", TCP_PDU_IC_REQ, 11, 4, TCP_FATAL_HEADER, 11},
		{"flags of ICReq", TCP_PDU_IC_REQ, 1, 1, TCP_FATAL_HEADER, 1},
		{"pdo of ICReq", TCP_PDU_IC_REQ, 3, 128, TCP_FATAL_HEADER, 3},
		{"capsule before ICReq", TCP_PDU_IC_REQ, 0, 4, TCP_FATAL_SEQUENCE, 0},
		{"H2CData before ICReq", TCP_PDU_IC_REQ, 0, 6, TCP_FATAL_SEQUENCE, 0},
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

/* A capsule with 512 bytes of data, and both digests. */
static void malformed_pdus_with_digests_are_refused(void **state)
{
	enum { PLEN_ALL = 80 + 512 + 4 };
	static const struct {
		struct wrong wrong;
		uint32_t plen;
	} rows[] = {
		{{"no header digest", TCP_PDU_CAPSULE_CMD, 1, 2, TCP_FATAL_HEADER, 1}, PLEN_ALL},
		{{"no data digest", TCP_PDU_CAPSULE_CMD, 1, 1, TCP_FATAL_HEADER, 1}, PLEN_ALL},
		{{"pdo in the header", TCP_PDU_CAPSULE_CMD, 3, 72, TCP_FATAL_HEADER, 3}, PLEN_ALL},
		{{"pdo not aligned", TCP_PDU_CAPSULE_CMD, 3, 78, TCP_FATAL_HEADER, 3}, PLEN_ALL},
		{{"pdo at the end", TCP_PDU_CAPSULE_CMD, 3, 76, TCP_FATAL_HEADER, 4}, 76 + 4},
		{{"a digest's bytes", TCP_PDU_CAPSULE_CMD, 3, 76, TCP_FATAL_HEADER, 4}, 76 + 3},
		{{"plen below pdo", TCP_PDU_CAPSULE_CMD, 3, 252, TCP_FATAL_HEADER, 4}, 100},
		{{"more than 8 KiB", TCP_PDU_CAPSULE_CMD, 3, 76, TCP_FATAL_HEADER, 4},
			76 + 8193 + 4},
		{{"4 GiB", TCP_PDU_CAPSULE_CMD, 3, 76, TCP_FATAL_HEADER, 4}, UINT32_MAX},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD, .data_bytes = 512};
		uint8_t bytes[TCP_HEADER_BYTES_MAX];
		struct client client;
		uint32_t length;

		client_initialize(&client, 3);
		length = tcp_pdu_encode(&pdu, &client.options, bytes);
		le32_put(bytes + 4, rows[i].plen);
		bytes[rows[i].wrong.offset] = rows[i].wrong.value;
		client_send(&client, bytes, length);
		expect_term(&client, &rows[i].wrong);
	}
}

/* No TermReq answers it, and nothing behind it is taken. */
static void termination_by_the_host_ends_the_connection(void **state)
{
	static const uint32_t lengths[] = {24, 152, 23, 153, 0, UINT32_MAX};
	const uint64_t before = target_tcp_counters(tcp)->refused_pdus;

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct tcp_pdu pdu = {.type = TCP_PDU_H2C_TERM};
		struct nvme_sqe sqe = {.opcode = NVME_ADMIN_KEEP_ALIVE};
		uint8_t bytes[160] = {0};
		struct client client;

		client_initialize(&client, 0);
		(void)tcp_pdu_encode(&pdu, &client.options, bytes);
		le32_put(bytes + 4, lengths[i]);
		client_send(
			&client, bytes, lengths[i] <= 152 && lengths[i] >= 24 ? lengths[i] : 24);
		client_capsule(&client, &sqe, NULL, 0);
		assert_false(client_receive(&client, received));
		close(client.fd);
	}
	assert_int_equal(target_tcp_counters(tcp)->refused_pdus, before);
}

static void wrong_h2c_data_is_refused(void **state)
{
	enum change {
		TTAG,
		CCCID,
		OFFSET,
		LENGTH,
		EXTRA,
		LAST,
		NO_LAST,
		OTHER_ENTRY,
		AFTER_END,
		UNASKED
	};
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
		{NO_LAST, {"no last", TCP_PDU_H2C_DATA, 0, 0, TCP_FATAL_HEADER, 1}},
		{OTHER_ENTRY, {"ttag beyond", TCP_PDU_H2C_DATA, 0, 0, TCP_FATAL_HEADER, 10}},
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
		if (rows[i].change == OTHER_ENTRY)
			pdu.data.ttag ^= 0x7ff;
		pdu.data.cccid ^= rows[i].change == CCCID;
		pdu.data.offset = rows[i].change == OFFSET ? 512 : 0;
		pdu.data.length -= rows[i].change == LENGTH;
		pdu.flags = rows[i].change == LAST ? TCP_LAST : 0;
		client_pdu(&io, &pdu, data);
		if (rows[i].change == EXTRA || rows[i].change == NO_LAST) {
			pdu.data.offset = 8192;
			if (rows[i].change == NO_LAST)
				pdu.data.length = pdu.data_bytes = 4096;
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

/* In each state of its command: in the first or last H2CData, and if the command fails anyway. */
static void wrong_data_digest_fails_its_command_in_each_state(void **state)
{
	struct client admin, io;
	uint8_t head[TCP_HEADER_BYTES_MAX];

	(void)state;
	client_io(&io, client_admin(&admin, SUBSYSTEM_NQN, 3), 3, 0);
	for (int wrong = 0; wrong < 2; wrong++) {
		struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, 0, 24, 12288);

		client_capsule(&io, &sqe, NULL, 0);
		assert_true(client_receive(&io, received));
		assert_int_equal(io.rx.pdu.type, TCP_PDU_R2T);
		for (int i = 0; i < 2; i++) {
			struct tcp_pdu pdu = {.type = TCP_PDU_H2C_DATA,
				.flags = i ? TCP_LAST : 0,
				.data_bytes = i ? 4096 : 8192};

			pdu.data = io.rx.pdu.data;
			pdu.data.offset = i ? 8192 : 0;
			pdu.data.length = pdu.data_bytes;
			if (i != wrong) {
				client_pdu(&io, &pdu, data);
				continue;
			}
			client_send(&io, head, tcp_pdu_encode(&pdu, &io.options, head));
			client_send(&io, data, pdu.data_bytes + 4);
		}
		assert_true(client_receive(&io, received));
		assert_int_equal(nvme_cqe_decode(io.rx.pdu.cqe).status, NVME_TRANSIENT_TRANSPORT);
	}
	for (int i = 0; i < 2; i++) {
		/* Its descriptor is wrong, too; or its namespace does not exist. */
		struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, 0, 1, 512);
		struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD, .data_bytes = 512};

		sqe.psdt = 1;
		sqe.cid = io.cid++;
		sqe.sgl.type = i ? NVME_SGL_IN_CAPSULE : NVME_SGL_KEYED;
		sqe.nsid = i ? 77 : 1;
		nvme_sqe_encode(&sqe, pdu.sqe);
		client_send(&io, head, tcp_pdu_encode(&pdu, &io.options, head));
		client_send(&io, data, 516);
		assert_true(client_receive(&io, received));
		assert_int_equal(nvme_cqe_decode(io.rx.pdu.cqe).status,
			i ? NVME_TRANSIENT_TRANSPORT : NVME_SGL_TYPE);
	}
	assert_int_equal(target_tcp_counters(tcp)->data_digest_errors, 4);
	assert_int_equal(client_write(&io, 0, 512), NVME_SUCCESS);
	close(io.fd);
	client_close(&admin);
}

/* More than IOCCSZ says, though fewer bytes than an Admin command may have. */
static void capsule_beyond_ioccsz_ends_the_connection(void **state)
{
	const struct wrong row = {"IOCCSZ", TCP_PDU_CAPSULE_CMD, 0, 0, TCP_FATAL_HEADER, 4};
	struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, 0, 9, IN_CAPSULE + 512);
	struct client admin, io;

	(void)state;
	client_io(&io, client_admin(&admin, SUBSYSTEM_NQN, 0), 0, 0);
	sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	client_capsule(&io, &sqe, data, IN_CAPSULE + 512);
	expect_term(&io, &row);
	client_close(&admin);
}

/* The host keeps the connection after a TermReq: the target closes it. */
static void refused_host_that_does_not_close_is_closed(void **state)
{
	const struct wrong row = {"type", TCP_PDU_CAPSULE_CMD, 0, 0, TCP_FATAL_HEADER, 0};
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD};
	uint8_t bytes[TCP_HEADER_BYTES_MAX];
	struct client client;
	uint32_t length;

	(void)state;
	client_initialize(&client, 0);
	length = tcp_pdu_encode(&pdu, &client.options, bytes);
	bytes[0] = 0x0a;
	client_send(&client, bytes, length);
	while (client_receive(&client, received) && client.rx.pdu.type != TCP_PDU_C2H_TERM)
		;
	assert_int_equal(client.rx.pdu.term.fes, row.fes);
	/* What follows is not taken. */
	client_send(&client, bytes, length);
	assert_false(client_receive(&client, received));
	assert_int_equal(target_tcp_connection_count(tcp), 0);
	close(client.fd);
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

/* --- limits --- */

static char report[512];
static unsigned reports;

static void note_report(void *context, const char *sentence)
{
	assert_ptr_equal(context, report);
	snprintf(report, sizeof(report), "%s", sentence);
	reports++;
}

static uint16_t connect_admin(struct client *client)
{
	const struct nvme_connect connect = {.sqsize = 31};

	return client_connect_as(client, SUBSYSTEM_NQN, HOST_NQN, connect, NVME_CNTLID_DYNAMIC)
		.status;
}

static void await_connections(uint32_t count)
{
	for (int i = 0; i < STEPS_MAX && target_tcp_connection_count(tcp) != count; i++)
		loop_step(loop, 1000000);
	assert_int_equal(target_tcp_connection_count(tcp), count);
}

/*
 * A host gets no more connections than are left for all other hosts. Connect refuses the next
 * TARGET_SURPLUS_MAX ones, and the target closes any further one.
 */
static void host_gets_no_more_connections_than_are_left(void **state)
{
	enum { LIMIT = 16, OWN = LIMIT / 2, ALL = OWN + TARGET_SURPLUS_MAX };
	struct sockaddr_in address = {.sin_family = AF_INET};
	struct client clients[ALL], last, other;

	(void)state;
	reports = 0;
	target_set_report(target, note_report, report);
	target_set_connections_max(target, LIMIT);
	for (int i = 0; i < ALL; i++)
		client_initialize(&clients[i], 0);
	for (int i = 0; i < ALL; i++)
		assert_int_equal(
			connect_admin(&clients[i]), i < OWN ? NVME_SUCCESS : NVME_CONNECT_BUSY);
	client_open(&last);
	assert_false(client_receive(&last, received));
	close(last.fd);
	assert_int_equal(target_counters(target)->connections_refused, TARGET_SURPLUS_MAX + 1);
	assert_int_equal(reports, 1);
	assert_string_equal(report,
		"127.0.0.1 has 8 connections, as many as are left for all other hosts; it gets no "
		"more until some of them end");
	inet_pton(AF_INET, "127.0.0.2", &address.sin_addr);
	client_open_from(&other, &address);
	client_negotiate(&other, 0);
	assert_int_equal(connect_admin(&other), NVME_SUCCESS);
	/* Two end, and make room for one. */
	for (int i = 0; i < 2; i++)
		close(clients[i].fd);
	await_connections(ALL + 1 - 2);
	client_initialize(&clients[0], 0);
	assert_int_equal(connect_admin(&clients[0]), NVME_SUCCESS);
	client_initialize(&clients[1], 0);
	for (int i = 0; i < ALL; i++)
		close(clients[i].fd);
	client_close(&other);
}

/* A host that asks for many I/O queues gets those that it may open. */
static void queues_are_granted_as_connections_are_left(void **state)
{
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_SET_FEATURES,
		.cdw10 = FEATURE_QUEUES,
		.cdw11 = 99 << 16 | 99,
		.sgl = {.type = NVME_SGL_TRANSPORT}};
	struct nvme_connect connect = {.qid = 8, .sqsize = 31};
	struct client admin, io;
	uint16_t cntlid;

	(void)state;
	target_set_connections_max(target, 16);
	cntlid = client_admin(&admin, SUBSYSTEM_NQN, 0);
	assert_int_equal(client_command(&admin, &sqe, NULL, 0).result, 6 << 16 | 6);
	sqe.opcode = NVME_ADMIN_GET_FEATURES;
	assert_int_equal(client_command(&admin, &sqe, NULL, 0).result, 6 << 16 | 6);
	client_initialize(&io, 0);
	assert_int_equal(
		client_connect_as(&io, SUBSYSTEM_NQN, HOST_NQN, connect, cntlid).result, 42);
	connect.qid = 7;
	assert_int_equal(client_connect_as(&io, SUBSYSTEM_NQN, HOST_NQN, connect, cntlid).status,
		NVME_SUCCESS);
	close(io.fd);
	client_close(&admin);
}

/* Another queue has all the memory, and keeps it. */
static void fused_pair_ends_whatever_other_queues_have(void **state)
{
	struct nvme_connect connect = {.sqsize = ENTRIES - 1};
	struct client admin, io[2];
	uint16_t cntlid;

	(void)state;
	tcp_data_bytes_max = 3 * DATA_BYTES;
	setup_with(IN_CAPSULE, ENTRIES);
	tcp_data_bytes_max = 0;
	cntlid = client_admin(&admin, SUBSYSTEM_NQN, 0);
	for (int i = 0; i < 2; i++) {
		connect.qid++;
		client_initialize(&io[i], 0);
		assert_int_equal(
			client_connect_as(&io[i], SUBSYSTEM_NQN, HOST_NQN, connect, cntlid).status,
			NVME_SUCCESS);
	}
	for (int i = 0; i < 3; i++)
		write_begin(&io[0], DATA_BYTES);
	pair_begin(&io[1], DATA_BYTES, false);
	pair_begin(&io[1], DATA_BYTES, false);
	serve_until(&io[1], 4);
	for (int i = 0; i < 2; i++)
		close(io[i].fd);
	client_close(&admin);
	teardown(NULL);
}

/* Each queue has room for a fused pair at least, whatever the others have. */
static void data_of_all_queues_has_a_limit(void **state)
{
	struct nvme_connect connect = {.sqsize = ENTRIES - 1};
	struct client admin, io[3];
	uint16_t cntlid;

	(void)state;
	tcp_data_bytes_max = 3 * DATA_BYTES;
	setup_with(IN_CAPSULE, ENTRIES);
	tcp_data_bytes_max = 0;
	cntlid = client_admin(&admin, SUBSYSTEM_NQN, 0);
	for (int i = 0; i < 3; i++) {
		connect.qid++;
		client_initialize(&io[i], 0);
		assert_int_equal(
			client_connect_as(&io[i], SUBSYSTEM_NQN, HOST_NQN, connect, cntlid).status,
			NVME_SUCCESS);
		for (int j = 0; j < 4; j++)
			write_begin(&io[i], DATA_BYTES);
	}
	for (int i = 0; i < 50; i++)
		loop_step(loop, 1000000);
	/* Three of the first queue, two of each other. */
	assert_int_equal(target_tcp_data_bytes(tcp), 7 * DATA_BYTES);
	for (int i = 0; i < 3; i++) {
		serve_until(&io[i], 4);
		close(io[i].fd);
	}
	client_close(&admin);
	assert_int_equal(target_tcp_data_bytes(tcp), 0);
	teardown(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(malformed_pdus_are_refused),
		TEST(malformed_pdus_with_digests_are_refused),
		TEST(termination_by_the_host_ends_the_connection),
		TEST(wrong_h2c_data_is_refused),
		TEST(wrong_header_digest_ends_the_connection),
		TEST(wrong_data_digest_fails_one_command),
		TEST(wrong_data_digest_fails_its_command_in_each_state),
		TEST(capsule_beyond_ioccsz_ends_the_connection),
		TEST(refused_host_that_does_not_close_is_closed),
		TEST(termination_follows_a_whole_pdu),
		TEST(fused_pairs_that_wait_for_memory_all_end),
		TEST(command_that_waits_for_memory_is_not_overtaken),
		cmocka_unit_test(data_in_capsules_holds_no_fused_write_back),
		TEST(host_gets_no_more_connections_than_are_left),
		TEST(queues_are_granted_as_connections_are_left),
		cmocka_unit_test(fused_pair_ends_whatever_other_queues_have),
		cmocka_unit_test(data_of_all_queues_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
