/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a host refuses from a hostile controller, above the transport: answers to Connect,
 * properties and Identify, namespaces, discovery log pages, responses and data. Each test runs over
 * TCP, RoCEv2 and iWARP; the argument is "tcp" or "rdma". docs/conformance.md has the index.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nvmf/common/codec/identify.h"
#include "support/netns.h"
#include "support/nvmf_controller.h"
/* Of tools/nvmf. */
#include "discovery_log.h"

#define SUBNQN  "nqn.2026-01.org.example:disk"
#define HOSTNQN "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000003"

#define SECOND_NS 1000000000ull

enum { STEPS_MAX = 60000, BUFFER_BYTES = 1 << 20 };

static struct loop *loop;
static struct remote *remote;
static bool is_ready, has_failed, is_refused;
static int ready_error;
static uint8_t buffer[BUFFER_BYTES];
static char complaint[512];

int complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(complaint, sizeof(complaint), format, arguments);
	va_end(arguments);
	return 1;
}

static void note_ready(void *context, int error)
{
	(void)context;
	is_ready = true;
	ready_error = error;
}

static void note_refused(void *context)
{
	(void)context;
	is_refused = true;
}

static void note_changed(void *context, enum host_state state)
{
	(void)context;
	has_failed |= state == HOST_FAILED;
}

/* Both ends work until the condition holds. */
#define RUN_UNTIL(condition)                                    \
	do {                                                    \
		unsigned steps = 0;                             \
		while (!(condition)) {                          \
			loop_step(loop, 1000000);               \
			assert_in_range(steps++, 0, STEPS_MAX); \
		}                                               \
	} while (0)

static void host_begin(void)
{
	struct remote_settings settings = {
		.controller = {.loop = loop,
			.transport = peer.is_rdma ? &host_rdma : &host_tcp,
			.remote = peer_address(),
			.subnqn = SUBNQN,
			.hostnqn = HOSTNQN,
			.hostid = {1},
			.io_queues = 1,
			.io_depth = 8,
			.connect_timeout_ns = peer.is_deaf || !peer.csts ? SECOND_NS / 5 : 0},
		.ready = note_ready,
		.changed = note_changed,
		.refused = note_refused,
	};

	is_ready = has_failed = is_refused = false;
	ready_error = 0;
	assert_int_equal(remote_create(&settings, &remote), 0);
}

static void host_end(void)
{
	block_device_destroy(remote_device(remote));
	remote = NULL;
}

static int begin(void **state)
{
	(void)state;
	peer_reset();
	return 0;
}

static int begin_with_host(void **state)
{
	begin(state);
	host_begin();
	RUN_UNTIL(is_ready);
	if (ready_error)
		fail_msg("%s", remote_reason(remote));
	return 0;
}

static int end_with_host(void **state)
{
	(void)state;
	host_end();
	return 0;
}

/* --- from Connect to Identify --- */

/* `bytes` at an offset of a page, or a change of another value. */
enum what { NONE, CONNECT_STATUS, RESULT, CAP, CSTS, DEAF, CONTROLLER, NAMESPACE, LIST, IO_STATUS };

struct answer_row {
	const char *name;
	enum what what;
	uint32_t at;
	uint64_t value;
	uint8_t bytes; /* of `value` on the page */
	const char *reason; /* NULL: accepted */
};

static uint16_t connect_status, io_connect_status;

static bool refuse_connect(struct peer_queue *queue, const struct nvme_sqe *sqe)
{
	uint16_t status;

	if (sqe->opcode != NVME_OPCODE_FABRICS || nvme_fctype(sqe) != NVME_FABRICS_CONNECT)
		return false;
	status = nvme_connect_decode(sqe).qid ? io_connect_status : connect_status;
	if (status)
		peer_respond(queue, sqe->cid, status, 0);
	return status;
}

static void page_change(uint8_t *page, const struct answer_row *row)
{
	uint8_t value[8];

	le64_put(value, row->value);
	memcpy(page + row->at, value, row->bytes);
}

static void answer_change(const struct answer_row *row)
{
	connect_status = io_connect_status = 0;
	peer.hook = refuse_connect;
	switch (row->what) {
	case NONE:
		break;
	case CONNECT_STATUS:
		connect_status = (uint16_t)row->value;
		break;
	case IO_STATUS:
		io_connect_status = (uint16_t)row->value;
		break;
	case RESULT:
		peer.connect_result = row->value;
		break;
	case CAP:
		peer.cap = row->value;
		break;
	case CSTS:
		peer.csts = (uint32_t)row->value;
		break;
	case DEAF:
		peer.is_deaf = true;
		break;
	case CONTROLLER:
		page_change(peer.controller_page, row);
		break;
	case NAMESPACE:
		page_change(peer.namespace_page, row);
		break;
	case LIST:
		page_change(peer.list_page, row);
		break;
	}
}

/* clang-format off */
static const struct answer_row answers[] = {
	{"right answers", NONE, 0, 0, 0, NULL},
	{"nothing", DEAF, 0, 0, 0, "still waiting for the connection"},
	{"Connect: wrong format", CONNECT_STATUS, 0, 0x4180, 0, "format of Connect"},
	{"Connect: no subsystem", CONNECT_STATUS, 0, 0x4182, 0, "check the subsystem's NQN"},
	{"Connect: not allowed", CONNECT_STATUS, 0, 0x4184, 0, "does not allow this host"},
	{"Connect: unknown status", CONNECT_STATUS, 0, 0x77f, 0, "77fh"},
	{"authentication", RESULT, 0, PEER_CNTLID | 1 << 17, 0, "requires authentication"},
	{"secure concatenation", RESULT, 0, PEER_CNTLID | 1 << 18, 0, "requires authentication"},
	{"controller FFFFh", RESULT, 0, 0xffff, 0, "no identifier"},
	{"two entries", CAP, 0, 1 | 1ull << 37, 0, NULL},
	{"pages of 8 KiB", CAP, 0, 1023 | 1ull << 37 | 1ull << 48, 0, "pages"},
	{"fatal status", CSTS, 0, NVME_CSTS_CFS | NVME_CSTS_RDY, 0, "CSTS.CFS"},
	{"never ready", CSTS, 0, 0, 0, "still waiting for the controller to be ready"},
	{"CNTLID of another", CONTROLLER, 78, 8, 2, "for controller 8 instead of 7"},
	{"IOCCSZ 3", CONTROLLER, PEER_IOCCSZ, 3, 4, "IOCCSZ 3"},
	{"IOCCSZ of 64 GiB", CONTROLLER, PEER_IOCCSZ, 0xffffffff, 4, "IOCCSZ 4294967295"},
	{"IORCSZ 0", CONTROLLER, 1796, 0, 4, "IORCSZ 0"},
	{"ICDOFF 1", CONTROLLER, 1800, 1, 2, "ICDOFF 1"},
	{"MDTS of 2^255 pages", CONTROLLER, PEER_MDTS, 255, 1, NULL},
	{"I/O Connect refused", IO_STATUS, 0, 0x4182, 0, "queue 1"},
	{"no namespace", LIST, 0, 0, 4, "no namespace for this host"},
	{"NSID of all", LIST, 0, 0xffffffff, 4, "no namespace for this host"},
	{"NSZE 0", NAMESPACE, 0, 0, 8, "does not exist"},
	{"NSZE beyond 2^64 bytes", NAMESPACE, 0, 1ull << 55, 8, "unsupported size"},
	{"blocks of 256 bytes", NAMESPACE, 130, 8, 1, "unsupported size"},
	{"blocks of 128 KiB", NAMESPACE, 130, 17, 1, "unsupported size"},
	{"blocks of 2^255 bytes", NAMESPACE, 130, 255, 1, "unsupported size"},
	{"blocks beyond MDTS", NAMESPACE, 130, 15, 1, "unsupported size"},
	{"blocks of MDTS", NAMESPACE, 130, 14, 1, NULL},
	{"format that is not described", NAMESPACE, 26, 15, 1, "unsupported size"},
	{"metadata", NAMESPACE, 128, 8, 2, "metadata"},
};
/* clang-format on */

static void each_wrong_answer_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		const struct answer_row *row = &answers[i];

		peer_reset();
		answer_change(row);
		host_begin();
		RUN_UNTIL(is_ready);
		if (!row->reason != !ready_error ||
			(row->reason && !strstr(remote_reason(remote), row->reason)))
			fail_msg("%s: %s", row->name, remote_reason(remote));
		/* One of a queue's entries stays free. */
		if (row->what == CAP && !row->reason)
			assert_int_equal(host_controller_io_depth(remote_controller(remote)), 1);
		host_end();
	}
}

/* --- a namespace that changes --- */

struct test_block {
	struct block_request request;
	bool is_done;
	int error;
};

static void block_done(struct block_request *request, int error)
{
	struct test_block *block = container_of(request, struct test_block, request);

	assert_false(block->is_done);
	block->is_done = true;
	block->error = error;
}

static void block_begin(struct test_block *block, enum block_op op, uint64_t bytes)
{
	*block = (struct test_block){
		.request = {.op = op, .length_bytes = bytes, .data = buffer, .done = block_done}};
	block_submit(remote_device(remote), &block->request);
}

static int block_run(enum block_op op, uint64_t bytes)
{
	struct test_block block;

	block_begin(&block, op, bytes);
	RUN_UNTIL(block.is_done);
	return block.error;
}

static bool is_live(void)
{
	return host_controller_state(remote_controller(remote)) == HOST_LIVE;
}

static void connection_renew(void)
{
	uint64_t before = host_controller_reconnects(remote_controller(remote));

	peer_close_all();
	RUN_UNTIL(host_controller_reconnects(remote_controller(remote)) > before && is_live());
}

/* The users of a block device know its size of a block since they have opened it. */
static void blocks_of_another_size_are_refused(void **state)
{
	const struct block_device *device = remote_device(remote);

	(void)state;
	assert_int_equal(block_run(BLOCK_READ, 512), 0);
	peer.namespace_page[130] = 12;
	connection_renew();
	for (int i = 0; i < 50; i++)
		loop_step(loop, 1000000);
	assert_int_equal(device->block_bytes, 512);
	assert_int_equal(block_run(BLOCK_READ, 512), -EIO);
	assert_non_null(strstr(remote_reason(remote), "size of its blocks"));
	/* The namespace may change back. */
	peer.namespace_page[130] = 9;
	connection_renew();
	for (int i = 0; i < 50; i++)
		loop_step(loop, 1000000);
	assert_int_equal(block_run(BLOCK_READ, 512), 0);
}

static bool drop_io(struct peer_queue *queue, const struct nvme_sqe *sqe)
{
	return queue->qid && sqe->opcode != NVME_OPCODE_FABRICS;
}

static bool is_identified; /* the host has asked for the descriptors on this association */
static unsigned io_count, early_count, dropped_count;

static bool drop_descriptors(struct peer_queue *queue, const struct nvme_sqe *sqe)
{
	bool is_dropped = queue->qid == 0 && sqe->opcode == NVME_ADMIN_IDENTIFY &&
		sqe->cdw10 == IDENTIFY_DESCRIPTORS;

	dropped_count += is_dropped;
	return is_dropped;
}

static bool count_io(struct peer_queue *queue, const struct nvme_sqe *sqe)
{
	bool is_fabrics = sqe->opcode == NVME_OPCODE_FABRICS;

	if (queue->qid == 0 && is_fabrics && nvme_fctype(sqe) == NVME_FABRICS_CONNECT)
		is_identified = false;
	else if (queue->qid == 0 && sqe->opcode == NVME_ADMIN_IDENTIFY)
		is_identified |= sqe->cdw10 == IDENTIFY_DESCRIPTORS;
	else if (queue->qid && !is_fabrics && ++io_count)
		early_count += !is_identified;
	return false;
}

/* A change of a page while the connection is lost for the second time. */
struct return_row {
	const char *name;
	uint8_t *page;
	unsigned at;
	uint8_t value;
	const char *reason; /* NULL: it is the same namespace */
};

/* clang-format off */
static const struct return_row returns[] = {
	{"the same namespace", peer.namespace_page, 0, 0, NULL},
	{"a larger one", peer.namespace_page, 2, 2, NULL},
	{"blocks of 4 KiB", peer.namespace_page, 130, 12, "size of its blocks"},
	{"another NGUID", peer.namespace_page, 104 + 15, 9, "another namespace"},
	{"another EUI64", peer.namespace_page, 120, 9, "another namespace"},
	{"another UUID", peer.descriptors_page, 4 + 15, 9, "another namespace"},
	{"a NGUID in place of the UUID", peer.descriptors_page, 0, 2, "another namespace"},
	{"no UUID", peer.descriptors_page, 1, 0, "another namespace"},
	{"a UUID of 15 bytes", peer.descriptors_page, 1, 15, "are malformed"},
	{"no namespace", peer.namespace_page, 2, 0, "does not exist"},
};
/* clang-format on */

enum { RETURN_BLOCKS = 20 }; /* more than the host may have pending at the controller */

static void return_check(const struct return_row *row)
{
	static const enum block_op ops[] = {
		BLOCK_WRITE_ZEROES, BLOCK_TRIM, BLOCK_WRITE, BLOCK_FLUSH};
	struct test_block blocks[RETURN_BLOCKS];
	uint8_t before = row->page[row->at];

	io_count = early_count = dropped_count = 0;
	peer.hook = drop_io;
	for (unsigned i = 0; i < RETURN_BLOCKS; i++)
		block_begin(&blocks[i], ops[i % 4], 512);
	for (int i = 0; i < 20; i++)
		loop_step(loop, 1000000);
	peer.hook = drop_descriptors;
	connection_renew();
	RUN_UNTIL(dropped_count > 0);
	row->page[row->at] = row->value;
	peer.hook = count_io;
	connection_renew();
	for (unsigned i = 0; i < RETURN_BLOCKS; i++) {
		RUN_UNTIL(blocks[i].is_done);
		if (blocks[i].error != (row->reason ? -EIO : 0))
			fail_msg("%s: request %u: %d", row->name, i, blocks[i].error);
	}
	assert_int_equal(early_count, 0);
	assert_int_equal(io_count, row->reason ? 0 : RETURN_BLOCKS);
	if (row->reason && !strstr(remote_reason(remote), row->reason))
		fail_msg("%s: %s", row->name, remote_reason(remote));
	assert_int_equal(is_refused, row->reason != NULL);
	if (row->reason)
		assert_int_equal(block_run(BLOCK_WRITE, 512), -EIO);
	row->page[row->at] = before;
}

static void another_namespace_after_a_reconnect_gets_no_command(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(returns) / sizeof(returns[0]); i++) {
		peer_reset();
		peer.controller_page[520] = 1 << 2 | 1 << 3;
		peer.namespace_page[104] = peer.namespace_page[120] = 1;
		memcpy(peer.descriptors_page, "\3\20\0\0UUID of 16 bytes\4\1\0\0", 25);
		host_begin();
		RUN_UNTIL(is_ready);
		assert_int_equal(ready_error, 0);
		return_check(&returns[i]);
		/* The namespace may come back. */
		connection_renew();
		RUN_UNTIL(block_run(BLOCK_WRITE, 512) == 0);
		host_end();
	}
}

/* What was cut for 16 KiB is not sent to a controller that takes 8 KiB. */
static void smaller_mdts_after_a_reconnect_fails_larger_commands(void **state)
{
	struct test_block block;

	(void)state;
	peer.hook = drop_io;
	block_begin(&block, BLOCK_WRITE, 16384);
	for (int i = 0; i < 50; i++)
		loop_step(loop, 1000000);
	assert_false(block.is_done);
	peer.hook = NULL;
	peer.controller_page[PEER_MDTS] = 1;
	connection_renew();
	RUN_UNTIL(block.is_done);
	assert_int_equal(block.error, -EIO);
	assert_int_equal(peer.writes, 0);
	/* New ones are cut anew. */
	assert_int_equal(block_run(BLOCK_READ, 16384), 0);
	assert_int_equal(peer.reads, 2);
}

/* --- responses --- */

enum wrong { UNKNOWN, TWICE, OF_A_DONE_COMMAND, WRONG_COUNT };

static enum wrong wrong;
static bool was_wrong;

/* A wrong response to the first I/O command, and right ones to those of the next connection. */
static bool respond_wrongly(struct peer_queue *queue, const struct nvme_sqe *sqe)
{
	static uint16_t done_cid;

	if (!queue->qid || sqe->opcode != NVME_IO_READ || was_wrong)
		return false;
	if (wrong == OF_A_DONE_COMMAND && peer.reads == 0) {
		done_cid = sqe->cid;
		return false;
	}
	was_wrong = true;
	if (wrong == UNKNOWN) {
		peer_respond(queue, sqe->cid ^ 1, NVME_SUCCESS, 0);
	} else if (wrong == OF_A_DONE_COMMAND) {
		peer_respond(queue, done_cid, NVME_SUCCESS, 0);
	} else {
		peer_answer(queue, sqe);
		peer_respond(queue, sqe->cid, NVME_SUCCESS, 0);
	}
	return true;
}

static void each_wrong_response_ends_the_connection_and_the_command_is_sent_again(void **state)
{
	(void)state;
	for (wrong = UNKNOWN; wrong < WRONG_COUNT; wrong++) {
		peer_reset();
		host_begin();
		RUN_UNTIL(is_ready);
		assert_int_equal(ready_error, 0);
		was_wrong = false;
		peer.hook = respond_wrongly;
		for (int i = 0; i < 3; i++)
			assert_int_equal(block_run(BLOCK_READ, 4096), 0);
		assert_true(was_wrong);
		RUN_UNTIL(host_controller_reconnects(remote_controller(remote)) == 1);
		assert_int_equal(host_controller_error(remote_controller(remote)), -EPROTO);
		host_end();
	}
}

static bool refuse_io(struct peer_queue *queue, const struct nvme_sqe *sqe)
{
	static const uint8_t garbage[512] = {0xee, 0xee};

	if (!queue->qid)
		return false;
	peer_give(queue, sqe, garbage, sizeof(garbage));
	peer_respond(queue, sqe->cid, 0x4281, 0);
	return true;
}

static void error_status_after_data_is_an_error(void **state)
{
	(void)state;
	peer.hook = refuse_io;
	assert_int_equal(block_run(BLOCK_READ, 512), -EIO);
	assert_true(is_live());
}

static unsigned events_sent;

/* Each Asynchronous Event Request is answered at once, a thousand times. */
static bool event_storm(struct peer_queue *queue, const struct nvme_sqe *sqe)
{
	if (queue->qid || sqe->opcode != NVME_ADMIN_ASYNC_EVENT || events_sent == 1000)
		return false;
	events_sent++;
	peer_respond(queue, sqe->cid, NVME_SUCCESS, 0x040002);
	return true;
}

/* One event at a time: commands of others have their turn. */
static void storm_of_events_stops_no_command(void **state)
{
	(void)state;
	begin(state);
	le32_put(peer.controller_page + 92, 1 << 8);
	events_sent = 0;
	peer.hook = event_storm;
	host_begin();
	RUN_UNTIL(is_ready);
	assert_int_equal(ready_error, 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(block_run(BLOCK_READ, 4096), 0);
	RUN_UNTIL(events_sent == 1000);
	assert_true(is_live());
	host_end();
}

/* --- discovery --- */

static void discovery_entry_put(unsigned number, const char *nqn)
{
	struct discovery_entry entry = {.trtype = DISCOVERY_TCP,
		.adrfam = DISCOVERY_IPV4,
		.subtype = DISCOVERY_NVM,
		.asqsz = 32,
		.traddr = "192.0.2.1",
		.trsvcid = "4420"};

	snprintf(entry.subnqn, sizeof(entry.subnqn), "%s", nqn);
	discovery_entry_encode(
		&entry, peer.log_page + DISCOVERY_HEADER_BYTES + number * DISCOVERY_ENTRY_BYTES);
}

static void discovery_put(uint64_t count)
{
	struct discovery_header header = {.genctr = 5, .numrec = count};

	discovery_header_encode(&header, peer.log_page);
}

static bool changes_always(struct peer_queue *queue, const struct nvme_sqe *sqe)
{
	(void)queue;
	if (sqe->opcode == NVME_ADMIN_GET_LOG_PAGE)
		peer.log_page[0]++;
	return false;
}

static bool has_no_log(struct peer_queue *queue, const struct nvme_sqe *sqe)
{
	if (sqe->opcode != NVME_ADMIN_GET_LOG_PAGE)
		return false;
	peer_respond(queue, sqe->cid, NVME_INVALID_LOG_PAGE, 0);
	return true;
}

/* Read the page over a new connection. Returns the status of the reading. */
static int discovery_run(struct discovery_log *log)
{
	struct nvmf_options options = {.transport = peer.is_rdma ? &host_rdma : &host_tcp,
		.traddr = "127.0.0.1",
		.trsvcid = "4420",
		.hostnqn = HOSTNQN,
		.hostid = {1}};
	struct session session;
	int status;

	complaint[0] = 0;
	assert_int_equal(discovery_open(&session, loop, &options, false), 0);
	status = discovery_log_read(&session, log);
	session_close(&session);
	return status;
}

static void each_wrong_discovery_page_is_refused(void **state)
{
	struct {
		const char *name;
		uint64_t count;
		uint8_t format;
		bool (*hook)(struct peer_queue *queue, const struct nvme_sqe *sqe);
		const char *reason;
	} rows[] = {
		{"format", 1, 1, NULL, "format that is unknown"},
		{"more entries than any target has", 4097, 0, NULL, "claims to have 4097 entries"},
		{"2^64 - 1 entries", UINT64_MAX, 0, NULL, "18446744073709551615 entries"},
		{"changes", 1, 0, changes_always, "changes all the time"},
		{"no page", 1, 0, has_no_log, "Reading the discovery log page failed"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct discovery_log log = {0};

		peer_reset();
		discovery_put(rows[i].count);
		discovery_entry_put(0, SUBNQN);
		peer.log_page[16] = rows[i].format;
		peer.hook = rows[i].hook;
		assert_int_equal(discovery_run(&log), 1);
		if (!strstr(complaint, rows[i].reason))
			fail_msg("%s: %s", rows[i].name, complaint);
		free(log.entries);
	}
}

/* Entries between right ones, over two reads of the page. */
static void each_wrong_discovery_entry_is_left_out(void **state)
{
	enum { COUNT = 20 };
	struct discovery_log log = {0};

	(void)state;
	discovery_put(COUNT);
	for (unsigned i = 0; i < COUNT; i++)
		discovery_entry_put(i, SUBNQN);
	for (unsigned i = 0; i < COUNT; i += 4) {
		uint8_t *entry = peer.log_page + DISCOVERY_HEADER_BYTES + i * DISCOVERY_ENTRY_BYTES;

		if (i == 0)
			memset(entry + 256, 0, 256);
		else if (i == 4)
			memset(entry + 256, 'n', 256);
		else if (i == 8)
			memset(entry + 256, 'n', 224);
		else if (i == 12)
			entry[512] = 0x1b;
		else
			entry[32] = 0x80;
	}
	assert_int_equal(discovery_run(&log), 0);
	assert_non_null(strstr(complaint, "entry 16 is malformed"));
	assert_int_equal(log.count, COUNT - 5);
	for (unsigned i = 0; i < log.count; i++)
		assert_string_equal(log.entries[i].subnqn, SUBNQN);
	free(log.entries);
}

int main(int argc, char **argv)
{
#define TEST(name)      cmocka_unit_test_setup(name, begin)
#define TEST_HOST(name) cmocka_unit_test_setup_teardown(name, begin_with_host, end_with_host)
	const struct CMUnitTest tests[] = {
		TEST(each_wrong_answer_is_refused),
		TEST_HOST(blocks_of_another_size_are_refused),
		TEST(another_namespace_after_a_reconnect_gets_no_command),
		TEST_HOST(smaller_mdts_after_a_reconnect_fails_larger_commands),
		TEST(each_wrong_response_ends_the_connection_and_the_command_is_sent_again),
		TEST_HOST(error_status_after_data_is_an_error),
		TEST(storm_of_events_stops_no_command),
		TEST(each_wrong_discovery_page_is_refused),
		TEST(each_wrong_discovery_entry_is_left_out),
	};
	int failed;

	if (argc != 2)
		return 1;
	if (netns_enter_new() < 0)
		return 77;
	if (loop_create(&loop))
		return 1;
	peer_begin(argv[1], loop);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	peer_end();
	loop_destroy(loop);
	return failed;
}
