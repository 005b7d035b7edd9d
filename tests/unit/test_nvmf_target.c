/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/nvmf_tcp_client.h"

static void round_trip(uint8_t digests, uint8_t cattr)
{
	static const uint32_t sizes[] = {512, IN_CAPSULE, IN_CAPSULE + 512, 131072, DATA_BYTES};
	struct client admin, io;
	uint16_t cntlid = client_admin(&admin, SUBSYSTEM_NQN, digests);

	client_io(&io, cntlid, digests, cattr);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(client_write(&io, 8, sizes[i]), NVME_SUCCESS);
		assert_int_equal(client_read(&io, 8, sizes[i]), NVME_SUCCESS);
		assert_memory_equal(data, received, sizes[i]);
	}
	close(io.fd);
	client_close(&admin);
}

static void data_survives_a_round_trip(void **state)
{
	(void)state;
	round_trip(0, 0);
}

static void data_survives_with_digests(void **state)
{
	(void)state;
	round_trip(3, 0);
	round_trip(1, 0);
	round_trip(2, 0);
}

static void data_survives_without_flow_control(void **state)
{
	(void)state;
	round_trip(0, NVME_CATTR_NO_FLOW_CONTROL);
	round_trip(3, NVME_CATTR_NO_FLOW_CONTROL);
}

static void commands_end_with_the_right_status(void **state)
{
	struct client admin, io;
	uint16_t cntlid = client_admin(&admin, SUBSYSTEM_NQN, 0);
	uint64_t blocks = DISK_BYTES / 512;
	struct row {
		uint16_t status;
		struct nvme_sqe sqe;
		uint32_t in_capsule_bytes;
	} rows[] = {
		{NVME_SUCCESS, io_sqe(NVME_IO_FLUSH, 0, 1, 0), 0},
		{NVME_SUCCESS, io_sqe(NVME_IO_READ, blocks - 1, 1, 512), 0},
		{NVME_LBA_RANGE, io_sqe(NVME_IO_READ, blocks, 1, 512), 0},
		{NVME_LBA_RANGE, io_sqe(NVME_IO_READ, blocks - 1, 2, 1024), 0},
		{NVME_LBA_RANGE, io_sqe(NVME_IO_READ, UINT64_MAX, 1, 512), 0},
		{NVME_LBA_RANGE, io_sqe(NVME_IO_WRITE_ZEROES, UINT64_MAX - 1, 65536, 0), 0},
		{NVME_SGL_LENGTH, io_sqe(NVME_IO_READ, 0, 2, 512), 0},
		{NVME_SGL_LENGTH, io_sqe(NVME_IO_WRITE, 0, 1, 8192), 0},
		{NVME_INVALID_FIELD, io_sqe(NVME_IO_READ, 0, 4096, 2 << 20), 0},
		{NVME_INVALID_OPCODE, io_sqe(0x55, 0, 1, 0), 0},
		{NVME_INVALID_NAMESPACE, io_sqe(NVME_IO_READ, 0, 1, 512), 0},
		{NVME_INVALID_NAMESPACE, io_sqe(NVME_IO_FLUSH, 0, 1, 0), 0},
		{NVME_SGL_OFFSET, io_sqe(NVME_IO_WRITE, 0, 1, 512), 512},
		{NVME_SGL_LENGTH, io_sqe(NVME_IO_WRITE, 0, 1, 512), 1024},
		{NVME_SGL_TYPE, io_sqe(NVME_IO_WRITE, 0, 1, 512), 512},
		{NVME_INVALID_FIELD, io_sqe(NVME_IO_READ, 0, 1, 512), 512},
		{NVME_SUCCESS, io_sqe(NVME_IO_VERIFY, 0, 16384, 0), 0},
		{NVME_SUCCESS, io_sqe(NVME_IO_WRITE_ZEROES, 0, 16384, 0), 0},
		{NVME_FUSED_MISSING, io_sqe(NVME_IO_WRITE, 0, 1, 512), 0},
	};

	(void)state;
	rows[10].sqe.nsid = 2;
	rows[11].sqe.nsid = 0xffffffff;
	rows[12].sqe.sgl.type = rows[13].sqe.sgl.type = rows[15].sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	rows[12].sqe.sgl.address = 16;
	rows[14].sqe.sgl.type = NVME_SGL_KEYED;
	rows[18].sqe.fuse = NVME_FUSE_SECOND;
	client_io(&io, cntlid, 0, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nvme_cqe cqe =
			client_command(&io, &rows[i].sqe, data, rows[i].in_capsule_bytes);

		if (cqe.status != rows[i].status)
			fail_msg("row %zu: status %03x", i, cqe.status);
	}
	close(io.fd);
	client_close(&admin);
}

static void compare_and_copy_work_on_what_was_written(void **state)
{
	struct client admin, io;
	uint16_t cntlid = client_admin(&admin, SUBSYSTEM_NQN, 0);
	struct nvme_sqe sqe = io_sqe(NVME_IO_COMPARE, 0, 8, 4096);
	struct nvme_sqe second;
	uint8_t ranges[64] = {0};

	(void)state;
	client_io(&io, cntlid, 0, 0);
	assert_int_equal(client_write(&io, 0, 8192), NVME_SUCCESS);
	sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	assert_int_equal(client_command(&io, &sqe, data, 4096).status, NVME_SUCCESS);
	assert_int_equal(client_command(&io, &sqe, data + 4, 4096).status, NVME_COMPARE_FAILED);
	/* Fused: the first pair writes, the second one does not. */
	for (int round = 0; round < 2; round++) {
		sqe.fuse = NVME_FUSE_FIRST;
		second = sqe;
		second.opcode = NVME_IO_WRITE;
		second.fuse = NVME_FUSE_SECOND;
		client_capsule(&io, &sqe, data, 4096);
		client_capsule(&io, &second, data + 4096, 4096);
		assert_true(client_receive(&io, received));
		assert_int_equal(nvme_cqe_decode(io.rx.pdu.cqe).status,
			round ? NVME_COMPARE_FAILED : NVME_SUCCESS);
		assert_true(client_receive(&io, received));
		assert_int_equal(nvme_cqe_decode(io.rx.pdu.cqe).status,
			round ? NVME_FUSED_FAILED : NVME_SUCCESS);
	}
	assert_int_equal(client_read(&io, 0, 4096), NVME_SUCCESS);
	assert_memory_equal(received, data + 4096, 4096);
	/* Blocks 8 to 15, and again 8, to 100. */
	le64_put(ranges + 8, 8);
	le16_put(ranges + 16, 7);
	le64_put(ranges + 32 + 8, 8);
	sqe = io_sqe(NVME_IO_COPY, 100, 2, 64);
	sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	assert_int_equal(client_command(&io, &sqe, ranges, 64).status, NVME_SUCCESS);
	assert_int_equal(client_read(&io, 100, 4096 + 512), NVME_SUCCESS);
	assert_memory_equal(received, data + 4096, 4096);
	assert_memory_equal(received + 4096, data + 4096, 512);
	/* Dataset Management: block 100 goes. */
	memset(ranges, 0, sizeof(ranges));
	le32_put(ranges + 4, 1);
	le64_put(ranges + 8, 100);
	sqe = io_sqe(NVME_IO_DATASET_MANAGEMENT, 0, 1, 16);
	sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	sqe.cdw11 = 4;
	assert_int_equal(client_command(&io, &sqe, ranges, 16).status, NVME_SUCCESS);
	close(io.fd);
	client_close(&admin);
}

static void connect_is_refused_for_each_wrong_field(void **state)
{
	struct client admin, client;
	uint16_t cntlid = client_admin(&admin, SUBSYSTEM_NQN, 0);
	const struct {
		const char *nqn, *hostnqn;
		struct nvme_connect connect;
		uint16_t cntlid;
		uint16_t status;
		uint32_t result;
	} rows[] = {
		{"nqn.none", HOST_NQN, {.sqsize = 31}, 0xffff, NVME_CONNECT_PARAMETER, 0x10100},
		{SUBSYSTEM_NQN, "nqn.other", {.sqsize = 31}, 0xffff, NVME_CONNECT_HOST, 0},
		{SUBSYSTEM_NQN, HOST_NQN, {.sqsize = 0}, 0xffff, NVME_CONNECT_PARAMETER, 44},
		{SUBSYSTEM_NQN, HOST_NQN, {.sqsize = 4096}, 0xffff, NVME_CONNECT_PARAMETER, 44},
		{SUBSYSTEM_NQN, HOST_NQN, {.sqsize = 31}, 1, NVME_CONNECT_PARAMETER, 0x10010},
		{SUBSYSTEM_NQN, HOST_NQN, {.sqsize = 31, .recfmt = 1}, 0xffff, NVME_CONNECT_FORMAT,
			0},
		{SUBSYSTEM_NQN, HOST_NQN, {.sqsize = 31, .qid = 1}, 0x7777, NVME_CONNECT_PARAMETER,
			0x10010},
		{SUBSYSTEM_NQN, HOST_NQN, {.sqsize = 31, .qid = 999}, cntlid,
			NVME_CONNECT_PARAMETER, 42},
		{SUBSYSTEM_NQN, HOST_NQN, {.sqsize = 32, .qid = 1}, cntlid, NVME_CONNECT_PARAMETER,
			44},
		{SUBSYSTEM_NQN, "nqn.other", {.sqsize = 31, .qid = 1}, cntlid,
			NVME_CONNECT_PARAMETER, 0x10200},
		{SUBSYSTEM_NQN, HOST_NQN, {.sqsize = 31, .qid = 1, .kato_ms = 5}, cntlid,
			NVME_CONNECT_PARAMETER, 48},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nvme_cqe cqe;

		client_initialize(&client, 0);
		cqe = client_connect_as(
			&client, rows[i].nqn, rows[i].hostnqn, rows[i].connect, rows[i].cntlid);
		if (cqe.status != rows[i].status || cqe.result != rows[i].result)
			fail_msg("row %zu: status %03x, result %lx", i, cqe.status,
				(unsigned long)cqe.result);
		close(client.fd);
	}
	client_property(&admin, NVME_CC_DEFAULT);
	client_initialize(&client, 0);
	assert_int_equal(client_connect_as(&client, SUBSYSTEM_NQN, HOST_NQN,
				 (struct nvme_connect){.qid = 1, .sqsize = 31}, cntlid)
				 .status,
		NVME_CONNECT_BUSY);
	close(client.fd);
	client_close(&admin);
}

static void discovery_lists_the_subsystem(void **state)
{
	struct log_request request = {.lid = LOG_DISCOVERY, .bytes = 4096};
	struct discovery_header header;
	struct discovery_entry entry;
	struct client admin;
	struct nvme_sqe sqe;

	(void)state;
	client_admin(&admin, NVME_DISCOVERY_NQN, 0);
	log_request_encode(&request, &sqe);
	sqe.sgl = sgl_of(NVME_SGL_TRANSPORT, 4096);
	memset(received, 0xee, 4096);
	assert_int_equal(client_command(&admin, &sqe, NULL, 0).status, NVME_SUCCESS);
	assert_true(discovery_header_decode(received, &header));
	assert_int_equal(header.numrec, 2);
	assert_true(discovery_entry_decode(received + 2048, &entry));
	assert_string_equal(entry.subnqn, SUBSYSTEM_NQN);
	assert_int_equal(received[4095], 0);
	/* An offset beyond the end is refused, not read. */
	request.offset = 1 << 20;
	log_request_encode(&request, &sqe);
	sqe.sgl = sgl_of(NVME_SGL_TRANSPORT, 4096);
	assert_int_equal(client_command(&admin, &sqe, NULL, 0).status, NVME_INVALID_FIELD);
	client_close(&admin);
}

static void pages_are_answered_by_kind(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t cdw10, cdw11, nsid;
		uint32_t bytes;
		uint32_t offset;
		uint16_t status;
	} rows[] = {
		{NVME_ADMIN_IDENTIFY, IDENTIFY_CONTROLLER, 0, 0, 4096, 0, NVME_SUCCESS},
		{NVME_ADMIN_IDENTIFY, IDENTIFY_CONTROLLER, 0, 0, 512, 0, NVME_SGL_LENGTH},
		{NVME_ADMIN_IDENTIFY, IDENTIFY_NAMESPACE, 0, 7, 4096, 0, NVME_SUCCESS},
		{NVME_ADMIN_IDENTIFY, IDENTIFY_NAMESPACE, 0, 0, 4096, 0, NVME_INVALID_NAMESPACE},
		{NVME_ADMIN_IDENTIFY, IDENTIFY_ACTIVE_LIST, 0, 0xffffffff, 4096, 0,
			NVME_INVALID_NAMESPACE},
		{NVME_ADMIN_IDENTIFY, IDENTIFY_DESCRIPTORS, 0, 1, 4096, 0, NVME_SUCCESS},
		{NVME_ADMIN_IDENTIFY, IDENTIFY_DESCRIPTORS, 0, 2, 4096, 0, NVME_INVALID_NAMESPACE},
		{NVME_ADMIN_IDENTIFY, IDENTIFY_INDEPENDENT, 0, 1, 4096, 0, NVME_SUCCESS},
		{NVME_ADMIN_IDENTIFY, IDENTIFY_IO_CONTROLLER, 0, 0, 4096, 0, NVME_SUCCESS},
		{NVME_ADMIN_IDENTIFY, IDENTIFY_IO_CONTROLLER, 2u << 24, 0, 4096, 0,
			NVME_INVALID_FIELD},
		{NVME_ADMIN_IDENTIFY, 0x7f, 0, 0, 4096, 0, NVME_INVALID_FIELD},
		{NVME_ADMIN_GET_LOG_PAGE, LOG_ERROR | 15 << 16, 0, 0, 64, 0, NVME_SUCCESS},
		{NVME_ADMIN_GET_LOG_PAGE, LOG_SMART | 127 << 16, 0, 0, 512, 0, NVME_SUCCESS},
		{NVME_ADMIN_GET_LOG_PAGE, LOG_FIRMWARE | 127 << 16, 0, 0, 512, 0, NVME_SUCCESS},
		{NVME_ADMIN_GET_LOG_PAGE, LOG_EFFECTS | 1023 << 16, 0, 0, 4096, 0, NVME_SUCCESS},
		/* The host of nvme-cli reads the end of the ANA page on its own. */
		{NVME_ADMIN_GET_LOG_PAGE, LOG_ANA | 11 << 16, 0, 0, 48, 4096, NVME_SUCCESS},
		{NVME_ADMIN_GET_LOG_PAGE, LOG_ANA | 11 << 16, 0, 0, 48, 8192, NVME_INVALID_FIELD},
		{NVME_ADMIN_GET_LOG_PAGE, LOG_SMART | 127 << 16, 0, 0, 512, 2, NVME_INVALID_FIELD},
		{NVME_ADMIN_GET_LOG_PAGE, LOG_DISCOVERY | 127 << 16, 0, 0, 512, 0,
			NVME_INVALID_LOG_PAGE},
		{NVME_ADMIN_GET_FEATURES, FEATURE_QUEUES, 0, 0, 0, 0, NVME_SUCCESS},
		{NVME_ADMIN_GET_FEATURES, 0x7f, 0, 0, 0, 0, NVME_INVALID_FIELD},
		{NVME_ADMIN_SET_FEATURES, FEATURE_HOST_ID, 0, 0, 0, 0, NVME_SEQUENCE},
		{NVME_ADMIN_ABORT, 0x10001, 0, 0, 0, 0, NVME_SUCCESS},
		{0x01, 0, 0, 0, 0, 0, NVME_INVALID_OPCODE}, /* Create I/O Submission Queue */
	};
	struct client admin;

	(void)state;
	client_admin(&admin, SUBSYSTEM_NQN, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nvme_sqe sqe = {.opcode = rows[i].opcode,
			.nsid = rows[i].nsid,
			.cdw10 = rows[i].cdw10,
			.cdw11 = rows[i].cdw11,
			.cdw12 = rows[i].offset,
			.sgl = sgl_of(NVME_SGL_TRANSPORT, rows[i].bytes)};
		struct nvme_cqe cqe = client_command(&admin, &sqe, NULL, 0);

		if (cqe.status != rows[i].status)
			fail_msg("row %zu: status %03x", i, cqe.status);
	}
	client_close(&admin);
}

/* Backends of files change the iovec of a request, and finish later than memory does. */
static void copy_and_verify_end_on_a_file(void **state)
{
	struct target_namespace_settings file_settings = {.nsid = 2};
	struct backend_settings disk = {0};
	char path[] = "/tmp/test_nvmf_target.XXXXXX";
	char sentence[BACKEND_SENTENCE_BYTES];
	struct target_namespace *file_ns;
	struct nvme_sqe sqe = io_sqe(NVME_IO_COPY, 4096, 1, 32);
	struct client admin, io;
	uint8_t range[32] = {0};
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, DISK_BYTES), 0);
	assert_int_equal(pwrite(fd, data, DATA_BYTES, 0), DATA_BYTES);
	disk.path = path;
	assert_int_equal(backend_open(&disk, &file_settings.backend, sentence), 0);
	assert_int_equal(target_namespace_add(subsystem, &file_settings, &file_ns), 0);
	client_io(&io, client_admin(&admin, SUBSYSTEM_NQN, 0), 0, 0);
	/* Several steps of the copy, the last one shorter. */
	le16_put(range + 16, 1999);
	sqe.nsid = 2;
	sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	assert_int_equal(client_command(&io, &sqe, range, 32).status, NVME_SUCCESS);
	assert_int_equal(pread(fd, received, 2001 * 512, 4096 * 512), 2001 * 512);
	assert_memory_equal(received, data, 2000 * 512);
	for (uint32_t i = 2000 * 512; i < 2001 * 512; i++)
		assert_int_equal(received[i], 0);
	sqe = io_sqe(NVME_IO_VERIFY, 0, 2000, 0);
	sqe.nsid = 2;
	assert_int_equal(client_command(&io, &sqe, NULL, 0).status, NVME_SUCCESS);
	close(io.fd);
	client_close(&admin);
	close(fd);
	unlink(path);
}

/* A namespace of memory, with 64 MiB in blocks of 512 bytes. */
static void add_large_namespace(uint32_t nsid)
{
	const struct backend_settings disk = {.size_bytes = 64 << 20};
	struct target_namespace_settings settings = {.nsid = nsid};
	struct target_namespace *large;
	char sentence[BACKEND_SENTENCE_BYTES];

	assert_int_equal(backend_open(&disk, &settings.backend, sentence), 0);
	assert_int_equal(target_namespace_add(subsystem, &settings, &large), 0);
}

/* To the socket, without a step of the loop. */
static void send_now(struct client *client, struct nvme_sqe sqe, const void *body, uint32_t bytes)
{
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD, .data_bytes = bytes};
	uint8_t capsule[TCP_HEADER_BYTES_MAX + 4096];
	uint32_t head;

	sqe.psdt = 1;
	sqe.cid = client->cid++;
	nvme_sqe_encode(&sqe, pdu.sqe);
	head = tcp_pdu_encode(&pdu, &client->options, capsule);
	if (bytes)
		memcpy(capsule + head, body, bytes);
	assert_int_equal(send(client->fd, capsule, head + bytes, 0), head + bytes);
}

static bool has_answer(const struct client *client)
{
	uint8_t byte;

	return recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* Memory answers at once, so each step of a command would follow the other. */
static void long_commands_let_others_have_their_turn(void **state)
{
	const struct nvme_sqe keep_alive = {
		.opcode = NVME_ADMIN_KEEP_ALIVE, .sgl = {.type = NVME_SGL_TRANSPORT}};
	struct nvme_sqe rows[] = {
		io_sqe(NVME_IO_VERIFY, 0, 65536, 0),
		io_sqe(NVME_IO_WRITE_ZEROES, 0, 65536, 0),
		io_sqe(NVME_IO_COPY, 65536, 1, 32),
		io_sqe(NVME_IO_DATASET_MANAGEMENT, 0, 1, 16),
	};
	uint8_t ranges[4][32] = {{0}};
	struct client admin, io;

	(void)state;
	add_large_namespace(2);
	client_io(&io, client_admin(&admin, SUBSYSTEM_NQN, 0), 0, 0);
	le16_put(ranges[2] + 16, 8191);
	le32_put(ranges[3] + 4, 131072);
	rows[3].cdw10 = 0;
	rows[3].cdw11 = 4;
	for (int i = 0; i < 4; i++) {
		rows[i].nsid = 2;
		rows[i].sgl.type = i < 2 ? NVME_SGL_TRANSPORT : NVME_SGL_IN_CAPSULE;
		send_now(&io, rows[i], ranges[i], rows[i].sgl.length);
		send_now(&admin, keep_alive, NULL, 0);
		for (int step = 0; step < STEPS_MAX && !has_answer(&admin); step++)
			loop_step(loop, 1000000);
		if (has_answer(&io))
			fail_msg("row %d: no command had its turn meanwhile", i);
		assert_true(client_receive(&admin, received));
		assert_true(client_receive(&io, received));
		assert_int_equal(nvme_cqe_decode(io.rx.pdu.cqe).status, NVME_SUCCESS);
	}
	close(io.fd);
	client_close(&admin);
}

static bool is_resized;

static void resized(void *context, int error, const char *sentence)
{
	(void)context;
	(void)sentence;
	is_resized = error == 0;
}

static void resized_namespace_is_reported_by_an_event(void **state)
{
	struct nvme_sqe set = {.opcode = NVME_ADMIN_SET_FEATURES,
		.cdw10 = FEATURE_ASYNC_EVENTS,
		.cdw11 = EVENT_MASK_NAMESPACES,
		.sgl = {.type = NVME_SGL_TRANSPORT}};
	struct nvme_sqe event = {
		.opcode = NVME_ADMIN_ASYNC_EVENT, .sgl = {.type = NVME_SGL_TRANSPORT}};
	struct nvme_sqe identify = {.opcode = NVME_ADMIN_IDENTIFY,
		.nsid = 1,
		.sgl = {.type = NVME_SGL_TRANSPORT, .length = IDENTIFY_BYTES}};
	struct identify_namespace id;
	struct client admin;

	(void)state;
	client_admin(&admin, SUBSYSTEM_NQN, 0);
	assert_int_equal(client_command(&admin, &set, NULL, 0).status, NVME_SUCCESS);
	client_capsule(&admin, &event, NULL, 0);
	is_resized = false;
	target_namespace_resize(ns, DISK_BYTES / 2, resized, NULL);
	assert_true(is_resized);
	assert_true(client_receive(&admin, received));
	assert_int_equal(nvme_cqe_decode(admin.rx.pdu.cqe).result, EVENT_NAMESPACES);
	assert_int_equal(client_command(&admin, &identify, NULL, 0).status, NVME_SUCCESS);
	assert_true(identify_namespace_decode(received, &id));
	assert_int_equal(id.nsze, DISK_BYTES / 2 / 512);
	client_close(&admin);
}

static void injected_faults_hit_the_commands_they_name(void **state)
{
	struct target_rule rule = {.fault = TARGET_FAULT_STATUS,
		.status = NVME_READ_ERROR,
		.has_opcode = true,
		.opcode = NVME_IO_READ,
		.nsid = 1,
		.skip = 1,
		.count = 1};
	struct client admin, io;
	uint16_t cntlid = client_admin(&admin, SUBSYSTEM_NQN, 0);

	(void)state;
	client_io(&io, cntlid, 0, 0);
	assert_int_equal(target_inject(target, &rule), 0);
	assert_int_equal(client_read(&io, 0, 512), NVME_SUCCESS);
	assert_int_equal(client_read(&io, 0, 512), NVME_READ_ERROR);
	assert_int_equal(client_read(&io, 0, 512), NVME_SUCCESS);
	rule.fault = TARGET_FAULT_DISCONNECT;
	rule.skip = 0;
	assert_int_equal(target_inject(target, &rule), 0);
	client_capsule(&io, &(struct nvme_sqe){.opcode = NVME_IO_READ, .nsid = 1}, NULL, 0);
	assert_false(client_receive(&io, received));
	close(io.fd);
	client_close(&admin);
}

static void silent_host_loses_its_controller(void **state)
{
	struct nvme_connect connect = {.sqsize = 31, .kato_ms = 50};
	struct client admin;

	(void)state;
	client_initialize(&admin, 0);
	assert_int_equal(
		client_connect_as(&admin, SUBSYSTEM_NQN, HOST_NQN, connect, NVME_CNTLID_DYNAMIC)
			.status,
		NVME_SUCCESS);
	assert_false(client_receive(&admin, received));
	assert_int_equal(target_counters(target)->keep_alive_expired, 1);
	client_close(&admin);
}

static uint32_t keep_alive_feature(struct client *admin, uint8_t opcode, uint32_t kato_ms)
{
	struct nvme_sqe sqe = {.opcode = opcode,
		.cdw10 = FEATURE_KEEP_ALIVE,
		.cdw11 = kato_ms,
		.sgl = {.type = NVME_SGL_TRANSPORT}};
	struct nvme_cqe cqe = client_command(admin, &sqe, NULL, 0);

	assert_int_equal(cqe.status, NVME_SUCCESS);
	return (uint32_t)cqe.result;
}

static void keep_alive_timeout_is_rounded_up(void **state)
{
	static const uint32_t rows[][2] = {
		{0, 0},
		{60000, 60000},
		{60001, 60100},
		{60099, 60100},
		{UINT32_MAX - 95, UINT32_MAX - 95},
		{UINT32_MAX, UINT32_MAX},
	};
	struct client admin;

	(void)state;
	(void)client_admin(&admin, SUBSYSTEM_NQN, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		(void)keep_alive_feature(&admin, NVME_ADMIN_SET_FEATURES, rows[i][0]);
		assert_int_equal(
			keep_alive_feature(&admin, NVME_ADMIN_GET_FEATURES, 0), rows[i][1]);
	}
	client_close(&admin);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(data_survives_a_round_trip),
		TEST(data_survives_with_digests),
		TEST(data_survives_without_flow_control),
		TEST(commands_end_with_the_right_status),
		TEST(compare_and_copy_work_on_what_was_written),
		TEST(connect_is_refused_for_each_wrong_field),
		TEST(discovery_lists_the_subsystem),
		TEST(pages_are_answered_by_kind),
		TEST(copy_and_verify_end_on_a_file),
		TEST(long_commands_let_others_have_their_turn),
		TEST(resized_namespace_is_reported_by_an_event),
		TEST(injected_faults_hit_the_commands_they_name),
		TEST(silent_host_loses_its_controller),
		TEST(keep_alive_timeout_is_rounded_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
