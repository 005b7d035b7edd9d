/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a target refuses from a hostile host, above the transport: Fabrics, Admin and I/O commands
 * that are wrong, out of order, or too many. Each test runs over TCP, RoCEv2 and iWARP; the
 * argument is "tcp" or "rdma". docs/conformance.md has the index.
 */
#include "support/nvmf_link.h"

#define OTHER_NQN "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000005"

enum { SHUTDOWN = 1 << 14, BLOCKS = DISK_BYTES / 512 };

static struct link admin, io;
static uint16_t cntlid;

static int begin(void **state)
{
	(void)state;
	memset(&admin, 0, sizeof(admin));
	memset(&io, 0, sizeof(io));
	cntlid = link_open_admin(&admin);
	return 0;
}

static int begin_with_io(void **state)
{
	begin(state);
	link_open_io(&io, cntlid, ENTRIES - 1);
	return 0;
}

/* Nothing of the host is left at the target, whatever the host did. */
static int end(void **state)
{
	(void)state;
	target_inject_clear(target);
	link_close(&admin);
	if (io.is_connected || io.client.fd > 0)
		link_close(&io);
	links_await_end();
	return 0;
}

static struct link_command command_of(uint8_t opcode, uint32_t nsid, uint32_t cdw10, uint32_t bytes)
{
	return (struct link_command){
		.sqe = {.opcode = opcode, .nsid = nsid, .cdw10 = cdw10}, .bytes = bytes};
}

static struct link_command fabrics_of(uint8_t fctype)
{
	return command_of(NVME_OPCODE_FABRICS, fctype, 0, 0);
}

static struct link_command io_of(uint8_t opcode, uint64_t slba, uint32_t blocks, uint32_t bytes)
{
	struct link_command command = {
		.sqe = io_sqe(opcode, slba, blocks, bytes), .bytes = bytes, .body = NULL};
	bool is_to_controller = opcode == NVME_IO_WRITE || opcode == NVME_IO_COMPARE ||
		opcode == NVME_IO_COPY || opcode == NVME_IO_DATASET_MANAGEMENT;

	if (is_to_controller && bytes && bytes <= IN_CAPSULE)
		command.body = data;
	return command;
}

static void check(const char *name, uint16_t status, uint16_t expected)
{
	if (status != expected)
		fail_msg("%s: status %03x, not %03x", name, status, expected);
}

/* --- Fabrics commands --- */

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

/* --- I/O commands --- */

static void each_wrong_io_command_fails(void **state)
{
	const uint32_t most = is_rdma ? 512 << 10 : 1 << 20;
	struct {
		const char *name;
		uint16_t status;
		struct link_command command;
	} rows[] = {
		{"at the end", NVME_LBA_RANGE, io_of(NVME_IO_READ, BLOCKS, 1, 512)},
		{"across the end", NVME_LBA_RANGE, io_of(NVME_IO_WRITE, BLOCKS - 1, 2, 1024)},
		{"sum beyond 2^64", NVME_LBA_RANGE, io_of(NVME_IO_READ, UINT64_MAX, 2, 1024)},
		{"bytes beyond 2^64", NVME_LBA_RANGE, io_of(NVME_IO_WRITE, 1ull << 55, 1, 512)},
		{"zeroes beyond the end", NVME_LBA_RANGE,
			io_of(NVME_IO_WRITE_ZEROES, BLOCKS - 1, 65536, 0)},
		{"Verify beyond the end", NVME_LBA_RANGE, io_of(NVME_IO_VERIFY, BLOCKS, 1, 0)},
		{"Compare beyond the end", NVME_LBA_RANGE,
			io_of(NVME_IO_COMPARE, UINT64_MAX, 1, 512)},
		{"less data to read", NVME_SGL_LENGTH, io_of(NVME_IO_READ, 0, 2, 512)},
		{"more data to read", NVME_SGL_LENGTH, io_of(NVME_IO_READ, 0, 1, 1024)},
		{"less data to write", NVME_SGL_LENGTH, io_of(NVME_IO_WRITE, 0, 2, 512)},
		{"more data to write", NVME_SGL_LENGTH, io_of(NVME_IO_WRITE, 0, 1, 1024)},
		{"no data", NVME_SGL_LENGTH, io_of(NVME_IO_WRITE, 0, 1, 0)},
		{"data of Flush", NVME_SGL_LENGTH, io_of(NVME_IO_FLUSH, 0, 1, 512)},
		{"beyond MDTS", NVME_INVALID_FIELD,
			io_of(NVME_IO_READ, 0, most / 512 + 1, most + 512)},
		{"16 MiB for one block", NVME_INVALID_FIELD, io_of(NVME_IO_WRITE, 0, 1, 0xfffe00)},
		{"ranges beyond the data", NVME_SGL_LENGTH,
			io_of(NVME_IO_DATASET_MANAGEMENT, 0, 1, 16)},
		{"Copy of more ranges", NVME_SGL_LENGTH, io_of(NVME_IO_COPY, 0, 2, 32)},
		{"Copy of another format", NVME_INVALID_FIELD, io_of(NVME_IO_COPY, 0, 1, 32)},
		{"Copy of too many ranges", NVME_COPY_LIMIT, io_of(NVME_IO_COPY, 0, 200, 4096)},
		{"unknown opcode", NVME_INVALID_OPCODE, io_of(0x55, 0, 1, 0)},
		{"reservation", NVME_INVALID_OPCODE, io_of(0x0d, 0, 1, 0)},
		{"unknown NSID", NVME_INVALID_NAMESPACE, io_of(NVME_IO_READ, 0, 1, 512)},
		{"NSID 0", NVME_INVALID_NAMESPACE, io_of(NVME_IO_READ, 0, 1, 512)},
		{"NSID of all", NVME_INVALID_NAMESPACE, io_of(NVME_IO_WRITE, 0, 1, 512)},
		{"Flush of all", NVME_INVALID_NAMESPACE, io_of(NVME_IO_FLUSH, 0, 1, 0)},
		{"fuse 3", NVME_INVALID_FIELD, io_of(NVME_IO_FLUSH, 0, 1, 0)},
		{"PRP", NVME_INVALID_FIELD, io_of(NVME_IO_READ, 0, 1, 512)},
		{"metadata in an SGL", NVME_INVALID_FIELD, io_of(NVME_IO_READ, 0, 1, 512)},
		{"bit bucket", NVME_SGL_TYPE, io_of(NVME_IO_READ, 0, 1, 512)},
		{"SGL segment", NVME_SGL_TYPE, io_of(NVME_IO_READ, 0, 1, 512)},
		{"SGL of the other transport", NVME_SGL_TYPE, io_of(NVME_IO_READ, 0, 1, 512)},
	};

	(void)state;
	rows[15].command.sqe.cdw10 = 3;
	rows[17].command.sqe.cdw12 |= 1 << 8;
	rows[21].command.sqe.nsid = 2;
	rows[22].command.sqe.nsid = 0;
	rows[23].command.sqe.nsid = rows[24].command.sqe.nsid = 0xffffffff;
	rows[25].command.sqe.fuse = 3;
	rows[26].command.keeps_psdt = rows[27].command.keeps_psdt = true;
	rows[26].command.sqe.psdt = 0;
	rows[27].command.sqe.psdt = 2;
	for (int i = 28; i < 31; i++)
		rows[i].command.has_sgl = true;
	rows[28].command.sqe.sgl.type = 0x10;
	rows[29].command.sqe.sgl.type = 0x20;
	rows[30].command.sqe.sgl.type = is_rdma ? NVME_SGL_TRANSPORT : NVME_SGL_KEYED;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check(rows[i].name, link_run(&io, rows[i].command).status, rows[i].status);
	check("alive", link_run(&io, io_of(NVME_IO_WRITE, 0, 1, 512)).status, NVME_SUCCESS);
}

/* Each range of Dataset Management and Copy, not only the first one. */
static void each_range_is_compared_with_the_namespace(void **state)
{
	struct link_command dsm = io_of(NVME_IO_DATASET_MANAGEMENT, 0, 1, 32);
	struct link_command copy = io_of(NVME_IO_COPY, 0, 2, 64);
	uint8_t ranges[64] = {0};

	(void)state;
	dsm.sqe.cdw10 = 1;
	dsm.sqe.cdw11 = 4;
	dsm.body = copy.body = ranges;
	le32_put(ranges + 4, 1);
	le64_put(ranges + 8, 0);
	le32_put(ranges + 16 + 4, 2);
	le64_put(ranges + 16 + 8, BLOCKS - 1);
	check("Dataset Management", link_run(&io, dsm).status, NVME_LBA_RANGE);
	le64_put(ranges + 16 + 8, UINT64_MAX);
	check("Dataset Management", link_run(&io, dsm).status, NVME_LBA_RANGE);
	memset(ranges, 0, sizeof(ranges));
	le64_put(ranges + 32 + 8, UINT64_MAX);
	check("Copy", link_run(&io, copy).status, NVME_LBA_RANGE);
	le64_put(ranges + 32 + 8, 0);
	copy.sqe.cdw10 = BLOCKS - 1;
	check("Copy to beyond the end", link_run(&io, copy).status, NVME_LBA_RANGE);
}

static void check_next(const char *name, uint16_t status)
{
	struct nvme_cqe cqe = {0};

	assert_true(link_receive(&io, &cqe));
	check(name, cqe.status, status);
}

static void broken_fused_pairs_fail(void **state)
{
	struct link_command first = io_of(NVME_IO_COMPARE, 0, 1, 512);
	struct link_command second = io_of(NVME_IO_WRITE, 0, 1, 512);
	struct link_command flush = io_of(NVME_IO_FLUSH, 0, 1, 0), wrong;

	(void)state;
	first.sqe.fuse = NVME_FUSE_FIRST;
	second.sqe.fuse = NVME_FUSE_SECOND;
	check("second alone", link_run(&io, second).status, NVME_FUSED_MISSING);
	link_send(&io, &first);
	link_send(&io, &flush);
	check_next("another command between", NVME_FUSED_MISSING);
	check_next("another command", NVME_SUCCESS);
	link_send(&io, &first);
	link_send(&io, &first);
	check_next("first twice", NVME_FUSED_MISSING);
	link_send(&io, &flush);
	check_next("first twice", NVME_FUSED_MISSING);
	check_next("another command", NVME_SUCCESS);
	wrong = io_of(NVME_IO_WRITE, 0, 1, 512);
	wrong.sqe.fuse = NVME_FUSE_FIRST;
	check("no Compare", link_run(&io, wrong).status, NVME_INVALID_FIELD);
	for (int i = 0; i < 5; i++) {
		wrong = second;
		if (i == 0)
			wrong.sqe.cdw10 = 1;
		else if (i == 1)
			wrong.sqe.cdw12 = 1;
		else if (i == 2)
			wrong.sqe.nsid = 2;
		else if (i == 3)
			wrong.sqe.opcode = NVME_IO_COMPARE;
		else
			wrong.bytes = 1024;
		link_send(&io, &first);
		link_send(&io, &wrong);
		check_next("halves that differ", i < 4 ? NVME_INVALID_FIELD : NVME_SGL_LENGTH);
		check_next("halves that differ", NVME_FUSED_FAILED);
	}
	/* A half that waits when its queue goes; end() finds nothing left. */
	link_send(&io, &first);
	check("reset", link_property_set(&admin, NVME_CC_DEFAULT), NVME_SUCCESS);
}

/* Commands of this opcode are neither executed nor answered. */
static void drop(uint8_t opcode)
{
	const struct target_rule rule = {
		.fault = TARGET_FAULT_DROP, .has_opcode = true, .opcode = opcode, .nsid = 1};

	assert_int_equal(target_inject(target, &rule), 0);
}

static void identifier_that_is_in_use_fails(void **state)
{
	struct link_command read = io_of(NVME_IO_READ, 0, 1, 512);
	struct link_command flush = io_of(NVME_IO_FLUSH, 0, 1, 0);

	(void)state;
	drop(NVME_IO_READ);
	link_send(&io, &read);
	flush.sqe.cid = read.sqe.cid;
	flush.keeps_cid = true;
	check("in use", link_run(&io, flush).status, NVME_CID_CONFLICT);
	/* Another identifier with the same low byte. */
	flush.sqe.cid ^= 0x100;
	check("another", link_run(&io, flush).status, NVME_SUCCESS);
}

static void commands_beyond_the_entries_end_the_connection(void **state)
{
	struct link_command flush = io_of(NVME_IO_FLUSH, 0, 1, 0);
	/* Over TCP the transport itself has no more commands than entries. */
	const uint64_t *count = is_rdma ? &target_counters(target)->too_many_commands
					: &target_tcp_counters(tcp)->refused_pdus;
	const uint64_t before = *count;
	struct nvme_cqe cqe;

	(void)state;
	link_open_io(&io, cntlid, 3);
	drop(NVME_IO_FLUSH);
	for (int i = 0; i < 5; i++)
		link_send(&io, &flush);
	assert_false(link_receive(&io, &cqe));
	assert_int_equal(*count, before + 1);
}

/* --- a host that stands still --- */

static void host_that_never_connects_is_closed(void **state)
{
	const uint64_t before = target_counters(target)->connect_timeouts;
	const char *transports = getenv("URNIC_TRANSPORTS");
	const bool is_roce = is_rdma && transports && !strcmp(transports, "roce");
	struct link link = {0}, half = {.is_half_open = true};
	struct nvme_cqe cqe;

	(void)state;
	if (is_roce)
		link_open(&half, 0);
	link_open(&link, 0);
	assert_false(link_receive(&link, &cqe));
	for (int i = 0; i < 100; i++)
		loop_step(loop, 1000000);
	assert_int_equal(target_counters(target)->connect_timeouts, before + 1 + is_roce);
	link_close(&link);
	if (!is_roce)
		return;
	assert_int_equal(target_rdma_queue_count(rdma), 1);
	link_close(&half);
}

static void host_that_is_silent_loses_its_controller(void **state)
{
	const struct nvme_connect connect = {.sqsize = 31, .kato_ms = 50};
	const uint64_t before = target_counters(target)->keep_alive_expired;
	struct link link = {0};
	struct nvme_cqe cqe;

	(void)state;
	link_open(&link, 0);
	check("Connect", link_connect(&link, HOST_NQN, &connect, NVME_CNTLID_DYNAMIC).status,
		NVME_SUCCESS);
	assert_false(link_receive(&link, &cqe));
	assert_int_equal(target_counters(target)->keep_alive_expired, before + 1);
	link_close(&link);
}

/* Over RDMA it posts no receive requests; over TCP it does not read its socket. */
static void host_that_takes_no_responses_stops_only_itself(void **state)
{
	struct link_command read = io_of(NVME_IO_READ, 0, 256, 128 << 10);
	struct nvme_connect connect = {.qid = 2, .sqsize = ENTRIES - 1};
	struct nvme_connect_data fields = {
		.cntlid = cntlid, .hostid = {1}, .subnqn = SUBSYSTEM_NQN, .hostnqn = HOST_NQN};
	struct link_command command = {.bytes = NVME_CONNECT_DATA_BYTES};
	uint8_t bytes[NVME_CONNECT_DATA_BYTES];
	struct link deaf = {.has_no_receives = true};

	(void)state;
	nvme_connect_data_encode(&fields, bytes);
	command.body = bytes;
	nvme_connect_encode(&connect, &command.sqe);
	link_open(&deaf, 2);
	link_send(&deaf, &command);
	for (int i = 0; i < 100; i++)
		loop_step(loop, 1000000);
	/* What the target cannot send, it keeps. */
	for (int i = 0; i < ENTRIES - 1; i++)
		link_send(&deaf, &read);
	for (int i = 0; i < 50; i++)
		check("another queue", link_run(&io, io_of(NVME_IO_READ, 0, 8, 4096)).status,
			NVME_SUCCESS);
	link_close(&deaf);
}

int main(int argc, char **argv)
{
#define TEST(name)    cmocka_unit_test_setup_teardown(name, begin, end)
#define TEST_IO(name) cmocka_unit_test_setup_teardown(name, begin_with_io, end)
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
		TEST_IO(each_wrong_io_command_fails),
		TEST_IO(each_range_is_compared_with_the_namespace),
		TEST_IO(broken_fused_pairs_fail),
		TEST_IO(identifier_that_is_in_use_fails),
		TEST(commands_beyond_the_entries_end_the_connection),
		TEST(host_that_never_connects_is_closed),
		TEST(host_that_is_silent_loses_its_controller),
		TEST_IO(host_that_takes_no_responses_stops_only_itself),
	};
	int failed;

	if (argc != 2)
		return 1;
	if (netns_enter_new() < 0)
		return 77;
	links_begin(argv[1]);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	links_end();
	return failed;
}
