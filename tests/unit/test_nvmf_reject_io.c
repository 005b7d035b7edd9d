/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a target refuses from a hostile host, above the transport: I/O commands that are wrong, out
 * of order, or too many, and hosts that are silent. docs/conformance.md has the index.
 */
#include "support/nvmf_reject.h"

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

/* --- a host that sends nothing more --- */

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
	const struct CMUnitTest tests[] = {
		TEST_IO(each_wrong_io_command_fails),
		TEST_IO(each_range_is_compared_with_the_namespace),
		TEST_IO(broken_fused_pairs_fail),
		TEST_IO(identifier_that_is_in_use_fails),
		TEST(commands_beyond_the_entries_end_the_connection),
		TEST(host_that_never_connects_is_closed),
		TEST(host_that_is_silent_loses_its_controller),
		TEST_IO(host_that_takes_no_responses_stops_only_itself),
	};
	int status = reject_begin(argc, argv);

	if (status)
		return status;
	status = cmocka_run_group_tests(tests, NULL, NULL);
	links_end();
	return status;
}
