/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a target refuses from a hostile host, above the transport: Fabrics and Admin commands that
 * are wrong, out of order, or too many. docs/conformance.md has the index.
 */
#include "support/nvmf_reject.h"

static void commands_before_connect_fail(void **state)
{
	const struct nvme_connect connect = {.sqsize = 31};
	struct link_command rows[] = {
		command_of(NVME_ADMIN_IDENTIFY, 0, IDENTIFY_CONTROLLER, 4096),
		command_of(NVME_ADMIN_KEEP_ALIVE, 0, 0, 0),
		command_of(NVME_ADMIN_ASYNC_EVENT, 0, 0, 0),
		fabrics_of(NVME_FABRICS_PROPERTY_GET),
		fabrics_of(NVME_FABRICS_PROPERTY_SET),
		fabrics_of(NVME_FABRICS_DISCONNECT),
	};
	struct link link = {0};

	(void)state;
	link_open(&link, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check("before Connect", link_run(&link, rows[i]).status, NVME_SEQUENCE);
	check("Connect", link_connect(&link, HOST_NQN, &connect, NVME_CNTLID_DYNAMIC).status,
		NVME_SUCCESS);
	/* CC.EN is 0: no Admin command either. */
	check("before RDY", link_run(&link, rows[0]).status, NVME_SEQUENCE);
	link_close(&link);
}

static void second_connect_fails(void **state)
{
	const struct nvme_connect connect = {.sqsize = 31}, io_connect = {.qid = 1, .sqsize = 31};

	(void)state;
	check("admin", link_connect(&admin, HOST_NQN, &connect, NVME_CNTLID_DYNAMIC).status,
		NVME_SEQUENCE);
	check("I/O", link_connect(&io, HOST_NQN, &io_connect, cntlid).status, NVME_SEQUENCE);
	check("alive", link_run(&io, io_of(NVME_IO_FLUSH, 0, 1, 0)).status, NVME_SUCCESS);
}

/* One change of the data of a right Connect. */
struct connect_row {
	const char *name;
	struct nvme_connect connect;
	uint16_t status;
	uint32_t result; /* the offset of the wrong field, with bit 16 if it is of the data */
	uint32_t at;
	const char *bytes; /* NULL: none */
	uint32_t fill; /* so many bytes 'a' instead */
	uint32_t data_bytes; /* 0: 1,024 */
};

static void fill_connect_data(uint16_t id, uint8_t ret_bytes[NVME_CONNECT_DATA_BYTES])
{
	const struct nvme_connect_data fields = {
		.cntlid = id, .hostid = {1}, .subnqn = SUBSYSTEM_NQN, .hostnqn = HOST_NQN};

	nvme_connect_data_encode(&fields, ret_bytes);
}

static void run_connect_row(const struct connect_row *row, uint16_t id)
{
	uint8_t bytes[2 * NVME_CONNECT_DATA_BYTES] = {0};
	struct link link = {0};
	struct nvme_cqe cqe;

	fill_connect_data(id, bytes);
	if (row->bytes)
		memcpy(bytes + row->at, row->bytes, strlen(row->bytes) + 1);
	memset(bytes + row->at, 'a', row->fill);
	link_open(&link, row->connect.qid);
	cqe = link_connect_raw(&link, &row->connect, bytes,
		row->data_bytes ? row->data_bytes : NVME_CONNECT_DATA_BYTES);
	check(row->name, cqe.status, row->status);
	if (cqe.result != row->result)
		fail_msg("%s: result %lx", row->name, (unsigned long)cqe.result);
	/* The host may correct itself. */
	fill_connect_data(NVME_CNTLID_DYNAMIC, bytes);
	check(row->name,
		link_connect_raw(
			&link, &(struct nvme_connect){.sqsize = 31}, bytes, NVME_CONNECT_DATA_BYTES)
			.status,
		NVME_SUCCESS);
	link_close(&link);
}

/* clang-format off */
#define PARAMETER NVME_CONNECT_PARAMETER
static const struct connect_row admin_rows[] = {
	{"record format", {.sqsize = 31, .recfmt = 1}, NVME_CONNECT_FORMAT, 0, 0, NULL, 0, 0},
	{"no entries", {.sqsize = 0}, PARAMETER, 44, 0, NULL, 0, 0},
	{"too many entries", {.sqsize = TARGET_ADMIN_ENTRIES_MAX}, PARAMETER, 44, 0, NULL, 0, 0},
	{"short data", {.sqsize = 31}, NVME_SGL_LENGTH, 0, 0, NULL, 0, 1020},
	{"long data", {.sqsize = 31}, NVME_SGL_LENGTH, 0, 0, NULL, 0, 1028},
	{"no host identifier", {.sqsize = 31}, PARAMETER, 0x10000, 0, "", 0, 0},
	{"cntlid", {.sqsize = 31}, PARAMETER, 0x10010, 16, "\1", 0, 0},
	{"empty subnqn", {.sqsize = 31}, PARAMETER, 0x10100, 256, "", 0, 0},
	{"subnqn without end", {.sqsize = 31}, PARAMETER, 0x10100, 256, NULL, 256, 0},
	{"subnqn of 224 bytes", {.sqsize = 31}, PARAMETER, 0x10100, 256, NULL, 224, 0},
	{"subnqn that is no UTF-8", {.sqsize = 31}, PARAMETER, 0x10100, 256, "nqn.\xff", 0, 0},
	{"unknown subnqn", {.sqsize = 31}, PARAMETER, 0x10100, 256, "nqn.none", 0, 0},
	{"empty hostnqn", {.sqsize = 31}, PARAMETER, 0x10200, 512, "", 0, 0},
	{"hostnqn without end", {.sqsize = 31}, PARAMETER, 0x10200, 512, NULL, 256, 0},
	{"hostnqn of 224 bytes", {.sqsize = 31}, PARAMETER, 0x10200, 512, NULL, 224, 0},
	{"hostnqn with a control character", {.sqsize = 31}, PARAMETER, 0x10200, 512, "nqn.\x1b[", 0, 0},
	{"hostnqn with CSI", {.sqsize = 31}, PARAMETER, 0x10200, 512, "nqn.\xc2\x9b" "31m", 0, 0},
	{"host that is not allowed", {.sqsize = 31}, NVME_CONNECT_HOST, 0, 512, OTHER_NQN, 0, 0},
};

static const struct connect_row io_rows[] = {
	{"no entries", {.qid = 1, .sqsize = 0}, PARAMETER, 44, 0, NULL, 0, 0},
	{"more than MQES", {.qid = 1, .sqsize = ENTRIES}, PARAMETER, 44, 0, NULL, 0, 0},
	{"qid that is not granted", {.qid = 129, .sqsize = 31}, PARAMETER, 42, 0, NULL, 0, 0},
	{"keep alive", {.qid = 1, .sqsize = 31, .kato_ms = 5}, PARAMETER, 48, 0, NULL, 0, 0},
	{"unknown cntlid", {.qid = 1, .sqsize = 31}, PARAMETER, 0x10010, 16, "\xee\xee", 0, 0},
	{"another hostnqn", {.qid = 1, .sqsize = 31}, PARAMETER, 0x10200, 512, OTHER_NQN, 0, 0},
	{"another host identifier", {.qid = 1, .sqsize = 31}, PARAMETER, 0x10000, 0, "\2", 0, 0},
	{"discovery subsystem", {.qid = 1, .sqsize = 31}, PARAMETER, 0x10010, 256, NVME_DISCOVERY_NQN, 0, 0},
};
/* clang-format on */

static void each_wrong_connect_fails(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(admin_rows) / sizeof(admin_rows[0]); i++)
		run_connect_row(&admin_rows[i], NVME_CNTLID_DYNAMIC);
	for (size_t i = 0; i < sizeof(io_rows) / sizeof(io_rows[0]); i++)
		run_connect_row(&io_rows[i], cntlid);
}

static void io_connect_waits_for_rdy_and_a_free_qid(void **state)
{
	const struct nvme_connect connect = {.qid = 1, .sqsize = 31};
	struct link link = {0};

	(void)state;
	link_open(&link, 1);
	check("taken", link_connect(&link, HOST_NQN, &connect, cntlid).status, NVME_SEQUENCE);
	link_close(&link);
	check("reset", link_property_set(&admin, NVME_CC_DEFAULT), NVME_SUCCESS);
	link_open(&link, 1);
	check("before RDY", link_connect(&link, HOST_NQN, &connect, cntlid).status,
		NVME_CONNECT_BUSY);
	link_close(&link);
}

static void each_wrong_property_access_fails(void **state)
{
	enum { GET = NVME_FABRICS_PROPERTY_GET, SET = NVME_FABRICS_PROPERTY_SET };
	static const struct {
		const char *name;
		uint8_t fctype, attrib;
		uint32_t offset;
	} rows[] = {
		{"no such property", GET, 0, 2},
		{"beyond the properties", GET, 0, 0xfffffff8},
		{"half of CAP", GET, 0, NVME_CAP},
		{"8 bytes of CC", GET, 1, NVME_CC},
		{"16 bytes", GET, 2, NVME_CAP},
		{"within CC", GET, 0, NVME_CC + 2},
		{"CAP is read-only", SET, 1, NVME_CAP},
		{"VS is read-only", SET, 0, NVME_VS},
		{"CSTS is read-only", SET, 0, NVME_CSTS},
		{"no such property to set", SET, 0, 0x1000},
		{"8 bytes to CC", SET, 1, NVME_CC},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct link_command command = fabrics_of(rows[i].fctype);

		command.sqe.cdw10 = rows[i].attrib;
		command.sqe.cdw11 = rows[i].offset;
		check(rows[i].name, link_run(&admin, command).status, NVME_INVALID_FIELD);
	}
	check("I/O queue", link_run(&io, fabrics_of(GET)).status, NVME_INVALID_OPCODE);
	check("I/O queue", link_run(&io, fabrics_of(SET)).status, NVME_INVALID_OPCODE);
	check("authentication", link_run(&admin, fabrics_of(5)).status, NVME_INVALID_OPCODE);
	check("Disconnect", link_run(&admin, fabrics_of(NVME_FABRICS_DISCONNECT)).status,
		NVME_INVALID_QUEUE_TYPE);
	assert_int_equal(link_property_get(&admin, NVME_CSTS), NVME_CSTS_RDY);
}

static void each_illegal_change_of_cc_fails(void **state)
{
	static const uint32_t unusable[] = {
		6 << 16, /* IOCQES */
		4 << 20, /* IOSQES */
		NVME_CC_DEFAULT | 1 << 7, /* MPS */
		NVME_CC_DEFAULT | 1 << 11, /* AMS */
		NVME_CC_DEFAULT | 1 << 4, /* CSS */
		NVME_CC_DEFAULT | 1u << 31,
	};
	const uint32_t enabled = NVME_CC_DEFAULT | NVME_CC_EN;

	(void)state;
	check("MPS", link_property_set(&admin, enabled | 1 << 7), NVME_INVALID_FIELD);
	check("sizes", link_property_set(&admin, NVME_CC_EN), NVME_INVALID_FIELD);
	for (size_t i = 0; i < sizeof(unusable) / sizeof(unusable[0]); i++) {
		check("reset", link_property_set(&admin, NVME_CC_DEFAULT), NVME_SUCCESS);
		assert_int_equal(link_property_get(&admin, NVME_CSTS), 0);
		check("unusable", link_property_set(&admin, unusable[i] | NVME_CC_EN),
			NVME_SUCCESS);
		assert_int_equal(link_property_get(&admin, NVME_CSTS), NVME_CSTS_CFS);
		check("not ready",
			link_run(&admin, command_of(NVME_ADMIN_KEEP_ALIVE, 0, 0, 0)).status,
			NVME_SEQUENCE);
	}
	check("reset", link_property_set(&admin, NVME_CC_DEFAULT), NVME_SUCCESS);
	check("enable", link_property_set(&admin, enabled), NVME_SUCCESS);
	assert_int_equal(link_property_get(&admin, NVME_CSTS), NVME_CSTS_RDY);
}

/* --- Admin commands --- */

static void each_wrong_admin_command_fails(void **state)
{
	enum { LOG_512 = 127 << 16 };
	struct {
		const char *name;
		uint16_t status;
		struct link_command command;
	} rows[] = {
		{"Delete I/O SQ", NVME_INVALID_OPCODE, command_of(0x00, 0, 0, 0)},
		{"Create I/O SQ", NVME_INVALID_OPCODE, command_of(0x01, 0, 0, 0)},
		{"Delete I/O CQ", NVME_INVALID_OPCODE, command_of(0x04, 0, 0, 0)},
		{"Create I/O CQ", NVME_INVALID_OPCODE, command_of(0x05, 0, 0, 0)},
		{"short Identify", NVME_SGL_LENGTH, command_of(0x06, 0, IDENTIFY_CONTROLLER, 512)},
		{"long Identify", NVME_SGL_LENGTH, command_of(0x06, 0, IDENTIFY_CONTROLLER, 8192)},
		{"Identify without data", NVME_SGL_LENGTH, command_of(0x06, 0, 1, 0)},
		{"unknown CNS", NVME_INVALID_FIELD, command_of(0x06, 0, 0x7f, 4096)},
		{"NSID 0", NVME_INVALID_NAMESPACE, command_of(0x06, 0, 0, 4096)},
		{"NSID of all", NVME_INVALID_NAMESPACE,
			command_of(0x06, 0xffffffff, IDENTIFY_NAMESPACE, 4096)},
		{"list behind all", NVME_INVALID_NAMESPACE,
			command_of(0x06, 0xfffffffe, IDENTIFY_ACTIVE_LIST, 4096)},
		{"unknown NSID", NVME_INVALID_NAMESPACE,
			command_of(0x06, 2, IDENTIFY_DESCRIPTORS, 4096)},
		{"unknown page", NVME_INVALID_LOG_PAGE, command_of(0x02, 0, 0x7f | LOG_512, 512)},
		{"discovery page", NVME_INVALID_LOG_PAGE, command_of(0x02, 0, 0x70 | LOG_512, 512)},
		{"more than NUMD", NVME_SGL_LENGTH, command_of(0x02, 0, LOG_SMART | LOG_512, 1024)},
		{"less than NUMD", NVME_SGL_LENGTH, command_of(0x02, 0, LOG_SMART | LOG_512, 256)},
		{"page offset", NVME_INVALID_FIELD, command_of(0x02, 0, LOG_SMART | LOG_512, 512)},
		{"offset of 2^63", NVME_INVALID_FIELD,
			command_of(0x02, 0, LOG_SMART | LOG_512, 512)},
		{"odd offset", NVME_INVALID_FIELD, command_of(0x02, 0, LOG_SMART | LOG_512, 512)},
		{"NUMD beyond MDTS", NVME_INVALID_FIELD,
			command_of(0x02, 0, LOG_SMART | 0xffffu << 16, 512)},
		{"unknown feature", NVME_INVALID_FIELD, command_of(0x0a, 0, 0x7f, 0)},
		{"feature with data", NVME_INVALID_FIELD, command_of(0x0a, 0, FEATURE_QUEUES, 64)},
		{"saved feature", NVME_NOT_SAVEABLE, command_of(0x09, 0, 1u << 31 | 6, 0)},
		{"host identifier", NVME_SEQUENCE, command_of(0x09, 0, FEATURE_HOST_ID, 0)},
		{"fused", NVME_INVALID_FIELD, command_of(0x18, 0, 0, 0)},
		{"I/O opcode", NVME_INVALID_OPCODE, command_of(0x0d, 0, 0, 0)},
	};

	(void)state;
	rows[16].command.sqe.cdw12 = 1 << 20;
	rows[17].command.sqe.cdw13 = 1u << 31;
	rows[18].command.sqe.cdw12 = 2;
	rows[19].command.sqe.cdw11 = 0xffff;
	rows[24].command.sqe.fuse = NVME_FUSE_FIRST;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check(rows[i].name, link_run(&admin, rows[i].command).status, rows[i].status);
	check("alive", link_run(&admin, command_of(NVME_ADMIN_KEEP_ALIVE, 0, 0, 0)).status,
		NVME_SUCCESS);
}

static void discovery_page_is_read_within_its_end(void **state)
{
	const struct nvme_connect connect = {.sqsize = 31};
	struct nvme_connect_data fields = {.cntlid = NVME_CNTLID_DYNAMIC,
		.hostid = {1},
		.subnqn = NVME_DISCOVERY_NQN,
		.hostnqn = HOST_NQN};
	static const uint64_t offsets[] = {1 << 20, UINT32_MAX - 3, 1ull << 63, UINT64_MAX - 3};
	struct link_command command = command_of(0x02, 0, LOG_DISCOVERY | 127 << 16, 512);
	uint8_t bytes[NVME_CONNECT_DATA_BYTES];
	struct link link = {0};

	(void)state;
	nvme_connect_data_encode(&fields, bytes);
	link_open(&link, 0);
	check("Connect", link_connect_raw(&link, &connect, bytes, sizeof(bytes)).status,
		NVME_SUCCESS);
	check("CC", link_property_set(&link, NVME_CC_DEFAULT | NVME_CC_EN), NVME_SUCCESS);
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		command.sqe.cdw12 = (uint32_t)offsets[i];
		command.sqe.cdw13 = (uint32_t)(offsets[i] >> 32);
		check("beyond the end", link_run(&link, command).status, NVME_INVALID_FIELD);
	}
	command.sqe.cdw12 = command.sqe.cdw13 = 0;
	check("begin", link_run(&link, command).status, NVME_SUCCESS);
	check("page of other controllers",
		link_run(&link, command_of(0x02, 0, LOG_SMART | 127 << 16, 512)).status,
		NVME_INVALID_LOG_PAGE);
	check("Identify", link_run(&link, command_of(0x06, 1, IDENTIFY_NAMESPACE, 4096)).status,
		NVME_INVALID_FIELD);
	link_close(&link);
}

/* Neither the Abort command itself, nor an unknown one, nor one of another queue is aborted. */
static void abort_of_no_waiting_command_aborts_nothing(void **state)
{
	struct link_command event = command_of(NVME_ADMIN_ASYNC_EVENT, 0, 0, 0);
	struct nvme_cqe cqe;

	(void)state;
	link_send(&admin, &event);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t cid = i == 0 ? admin.cid : i == 1 ? 0x7777 : event.sqe.cid;
		uint32_t sqid = i == 2 ? 77 : 0;

		cqe = link_run(&admin, command_of(NVME_ADMIN_ABORT, 0, cid << 16 | sqid, 0));
		check("Abort", cqe.status, NVME_SUCCESS);
		assert_int_equal(cqe.result, 1);
	}
	/* The right one is. */
	event.sqe.cdw10 = (uint32_t)event.sqe.cid << 16;
	link_send(&admin,
		&(struct link_command){
			.sqe = {.opcode = NVME_ADMIN_ABORT, .cdw10 = event.sqe.cdw10}});
	assert_true(link_receive(&admin, &cqe));
	assert_int_equal(cqe.cid, event.sqe.cid);
	check("aborted", cqe.status, NVME_ABORTED);
	assert_true(link_receive(&admin, &cqe));
	assert_int_equal(cqe.result, 0);
}

static void event_requests_beyond_the_limit_fail(void **state)
{
	struct link_command event = command_of(NVME_ADMIN_ASYNC_EVENT, 0, 0, 0);

	(void)state;
	for (int i = 0; i < 4; i++)
		link_send(&admin, &event);
	check("fifth", link_run(&admin, event).status, NVME_AER_LIMIT);
}

static void event_requests_are_aborted_by_a_reset(void **state)
{
	struct nvme_property_access access = {.offset = NVME_CC, .value = NVME_CC_DEFAULT};
	struct link_command event = command_of(NVME_ADMIN_ASYNC_EVENT, 0, 0, 0), reset = {0};
	struct nvme_cqe cqe = {0};

	(void)state;
	for (int i = 0; i < 4; i++)
		link_send(&admin, &event);
	nvme_property_set_encode(&access, &reset.sqe);
	link_send(&admin, &reset);
	for (int i = 0; i < 4; i++) {
		assert_true(link_receive(&admin, &cqe));
		check("event request", cqe.status, NVME_ABORTED);
	}
	assert_true(link_receive(&admin, &cqe));
	check("reset", cqe.status, NVME_SUCCESS);
	check("enable", link_property_set(&admin, NVME_CC_DEFAULT | NVME_CC_EN), NVME_SUCCESS);
	for (int i = 0; i < 4; i++)
		link_send(&admin, &event);
	check("fifth", link_run(&admin, event).status, NVME_AER_LIMIT);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(commands_before_connect_fail),
		TEST_IO(second_connect_fails),
		TEST(each_wrong_connect_fails),
		TEST_IO(io_connect_waits_for_rdy_and_a_free_qid),
		TEST_IO(each_wrong_property_access_fails),
		TEST(each_illegal_change_of_cc_fails),
		TEST(each_wrong_admin_command_fails),
		TEST(discovery_page_is_read_within_its_end),
		TEST(abort_of_no_waiting_command_aborts_nothing),
		TEST(event_requests_beyond_the_limit_fail),
		TEST(event_requests_are_aborted_by_a_reset),
	};
	int status = reject_begin(argc, argv);

	if (status)
		return status;
	status = cmocka_run_group_tests(tests, NULL, NULL);
	links_end();
	return status;
}
