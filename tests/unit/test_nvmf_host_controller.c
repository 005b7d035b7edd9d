/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host's controller on a virtual loop, over a transport whose other end is this test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/host/controller/controller.h"
#include "nvmf/host/controller/sqe.h"

enum { IO_QUEUES = 2, IO_DEPTH = 4, CNTLID = 7, QUEUES_MAX = 64 };

#define SECOND_NS 1000000000u

/* The script of the controller. */
static struct {
	bool is_unreachable; /* open() fails */
	bool is_mute; /* I/O commands wait for serve_io() */
	bool is_silent; /* nothing is answered */
	bool drops_aborts;
	uint16_t connect_status;
	uint16_t io_connect_status;
	uint16_t io_status;
	uint16_t wrong_cntlid;
	unsigned not_ready; /* looks at CSTS that find it not ready */
	unsigned queues_granted;
	/* What came. */
	unsigned opened;
	unsigned keep_alives;
	unsigned aborts;
	unsigned io_commands;
	uint32_t abort_names;
} script;

struct fake_queue {
	struct host_queue queue;
	struct host_queue_settings settings;
	struct list commands;
	struct loop_work work;
	bool is_connected;
};

static struct loop *loop;
static uint64_t now_ns;
static struct fake_queue *queues[QUEUES_MAX];
static struct host_controller *controller;
static unsigned live_count;
static enum host_state last_state;
static uint32_t last_event;

static void finish(struct host_command *command, uint16_t status, uint64_t result)
{
	list_remove(&command->node);
	memset(command->cqe, 0, sizeof(command->cqe));
	le64_put(command->cqe, result);
	le16_put(command->cqe + 14, (uint16_t)(status << 1));
	command->done(command, HOST_COMPLETED);
}

static void answer_identify(struct host_command *command)
{
	uint8_t *identity = command->data;

	memset(identity, 0, 4096);
	identity[77] = 2;
	le16_put(identity + 78, script.wrong_cntlid ? script.wrong_cntlid : CNTLID);
	le32_put(identity + 1792, 36);
	le32_put(identity + 1796, 1);
	le32_put(identity + 92, 1 << 8);
	finish(command, 0, 0);
}

static void answer_fabrics(struct fake_queue *queue, struct host_command *command)
{
	uint32_t offset = le32_get(command->sqe + 44);

	if (command->sqe[4] == NVME_FABRICS_CONNECT && queue->settings.qid == 0)
		finish(command, script.connect_status, CNTLID);
	else if (command->sqe[4] == NVME_FABRICS_CONNECT)
		finish(command, script.io_connect_status, CNTLID);
	else if (command->sqe[4] == NVME_FABRICS_PROPERTY_GET && offset == 0)
		finish(command, 0, 127);
	else if (command->sqe[4] == NVME_FABRICS_PROPERTY_GET && offset == 0x1c)
		finish(command, 0, script.not_ready ? script.not_ready--, 0 : 1);
	else
		finish(command, 0, 0);
}

/* Returns false if the command stays pending. */
static bool answer(struct fake_queue *queue, struct host_command *command)
{
	uint8_t opcode = command->sqe[0];

	if (script.is_silent)
		return false;
	if (opcode == NVME_OPCODE_FABRICS) {
		answer_fabrics(queue, command);
	} else if (queue->settings.qid) {
		if (script.is_mute)
			return false;
		finish(command, script.io_status, 0);
	} else if (opcode == NVME_ADMIN_IDENTIFY) {
		answer_identify(command);
	} else if (opcode == NVME_ADMIN_SET_FEATURES) {
		unsigned granted = script.queues_granted - 1;

		finish(command, 0, granted | granted << 16);
	} else if (opcode == NVME_ADMIN_ASYNC_EVENT) {
		return false;
	} else if (opcode == NVME_ADMIN_ABORT) {
		script.aborts++;
		script.abort_names = le32_get(command->sqe + 40);
		finish(command, 0, script.drops_aborts);
	} else {
		script.keep_alives += opcode == NVME_ADMIN_KEEP_ALIVE;
		finish(command, 0, 0);
	}
	return true;
}

static void fake_run(struct loop_work *work)
{
	struct fake_queue *queue = container_of(work, struct fake_queue, work);
	bool has_answered = true;

	if (!queue->is_connected) {
		queue->is_connected = true;
		queue->settings.connected(queue->settings.context);
	}
	while (has_answered) {
		has_answered = false;
		list_for_each(command, &queue->commands, struct host_command, node) {
			if (answer(queue, command)) {
				has_answered = true;
				break;
			}
		}
	}
}

static const struct host_transport fake;

static int fake_open(
	const struct host_queue_settings *settings, struct host_queue **ret_queue, char *ret_reason)
{
	struct fake_queue *queue;

	script.opened++;
	if (script.is_unreachable) {
		snprintf(ret_reason, HOST_REASON_BYTES, "unreachable");
		return -ECONNREFUSED;
	}
	queue = calloc(1, sizeof(*queue));
	assert_non_null(queue);
	queue->queue.transport = &fake;
	queue->settings = *settings;
	list_init(&queue->commands);
	loop_work_init(&queue->work, fake_run);
	loop_defer(settings->loop, &queue->work);
	assert_null(queues[settings->qid]);
	queues[settings->qid] = queue;
	*ret_queue = &queue->queue;
	return 0;
}

static void fake_submit(struct host_queue *base, struct host_command *command)
{
	struct fake_queue *queue = container_of(base, struct fake_queue, queue);

	command->cid++;
	script.io_commands += queue->settings.qid && command->sqe[0] != NVME_OPCODE_FABRICS;
	list_append(&queue->commands, &command->node);
	loop_defer(queue->settings.loop, &queue->work);
}

static unsigned fake_poll(struct host_queue *base)
{
	(void)base;
	return 0;
}

static void fake_close(struct host_queue *base)
{
	struct fake_queue *queue = container_of(base, struct fake_queue, queue);

	loop_defer_cancel(&queue->work);
	queues[queue->settings.qid] = NULL;
	while (!list_is_empty(&queue->commands)) {
		struct host_command *command =
			list_first(&queue->commands, struct host_command, node);

		list_remove(&command->node);
		command->done(command, HOST_LOST);
	}
	free(queue);
}

static const struct host_transport fake = {
	.name = "fake",
	.open = fake_open,
	.submit = fake_submit,
	.poll = fake_poll,
	.close = fake_close,
};

static void changed(void *context, enum host_state state)
{
	(void)context;
	last_state = state;
	live_count += state == HOST_LIVE;
}

static void event(void *context, uint32_t result)
{
	(void)context;
	last_event = result;
}

/* Let time pass, timer by timer. */
static void run_for(uint64_t duration_ns)
{
	uint64_t end_ns = now_ns + duration_ns;

	loop_advance(loop, now_ns);
	while (loop_deadline_ns(loop) <= end_ns) {
		now_ns = loop_deadline_ns(loop) > now_ns ? loop_deadline_ns(loop) : now_ns;
		loop_advance(loop, now_ns);
	}
	now_ns = end_ns;
	loop_advance(loop, now_ns);
}

static struct host_controller_settings settings_make(void)
{
	struct host_controller_settings settings = {
		.loop = loop,
		.transport = &fake,
		.subnqn = "nqn.2014-08.org.example:sub",
		.hostnqn = "nqn.2014-08.org.example:host",
		.hostid = {1},
		.io_queues = IO_QUEUES,
		.io_depth = IO_DEPTH,
		.changed = changed,
		.event = event,
	};

	return settings;
}

static void begin_with(const struct host_controller_settings *settings)
{
	last_state = HOST_CONNECTING;
	live_count = 0;
	assert_int_equal(host_controller_create(settings, &controller), 0);
}

static void begin(void)
{
	struct host_controller_settings settings = settings_make();

	begin_with(&settings);
	run_for(SECOND_NS);
	assert_int_equal(last_state, HOST_LIVE);
}

struct test_request {
	struct host_request request;
	unsigned done;
	int error;
};

static void request_done(struct host_request *request, int error)
{
	struct test_request *test = container_of(request, struct test_request, request);

	test->done++;
	test->error = error;
}

static void submit(struct test_request *test, bool is_repeatable)
{
	*test = (struct test_request){
		.request = {.is_repeatable = is_repeatable, .done = request_done}};
	host_sqe_init(&test->request.command, NVME_IO_FLUSH, 1);
	host_submit(controller, &test->request);
}

static void lose_queue(uint16_t qid)
{
	queues[qid]->settings.lost(queues[qid]->settings.context, -ECONNRESET, "test");
}

static int set_up(void **state)
{
	(void)state;
	memset(&script, 0, sizeof(script));
	script.queues_granted = IO_QUEUES;
	now_ns = SECOND_NS;
	controller = NULL;
	return loop_create_virtual(NULL, &loop);
}

static int tear_down(void **state)
{
	(void)state;
	host_controller_destroy(controller);
	for (int i = 0; i < QUEUES_MAX; i++)
		assert_null(queues[i]);
	loop_destroy(loop);
	return 0;
}

static void the_sequence_ends_in_live(void **state)
{
	(void)state;
	script.not_ready = 3;
	begin();
	assert_int_equal(live_count, 1);
	assert_int_equal(host_controller_io_queues(controller), IO_QUEUES);
	assert_int_equal(host_controller_cntlid(controller), CNTLID);
	assert_int_equal(host_controller_data_bytes_max(controller), 16384);
	assert_non_null(queues[IO_QUEUES]);
}

static void fewer_queues_are_used_if_fewer_are_granted(void **state)
{
	(void)state;
	script.queues_granted = 1;
	begin();
	assert_int_equal(host_controller_io_queues(controller), 1);
	assert_null(queues[2]);
}

static void a_first_failure_ends_the_controller(void **state)
{
	struct host_controller_settings settings = settings_make();

	/* Each way to fail, and what the reason contains. */
	static const struct {
		bool is_unreachable;
		bool is_silent;
		uint16_t connect_status;
		uint16_t io_connect_status;
		uint16_t wrong_cntlid;
		const char *reason;
	} rows[] = {
		{true, false, 0, 0, 0, "unreachable"},
		{false, true, 0, 0, 0, "answer to Connect"},
		{false, false, 0x4182, 0, 0, "subsystem's NQN"},
		{false, false, 0x4184, 0, 0, "does not allow this host"},
		{false, false, 0, 0x4182, 0, "queue 1"},
		{false, false, 0, 0, 9, "instead of 7"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		script.is_unreachable = rows[i].is_unreachable;
		script.is_silent = rows[i].is_silent;
		script.connect_status = rows[i].connect_status;
		script.io_connect_status = rows[i].io_connect_status;
		script.wrong_cntlid = rows[i].wrong_cntlid;
		begin_with(&settings);
		run_for(11ull * SECOND_NS);
		assert_int_equal(last_state, HOST_FAILED);
		assert_non_null(strstr(host_controller_reason(controller), rows[i].reason));
		host_controller_destroy(controller);
		controller = NULL;
	}
}

static void a_lost_queue_repeats_repeatable_requests_once(void **state)
{
	struct test_request tests[2 * IO_QUEUES * IO_DEPTH];
	unsigned count = sizeof(tests) / sizeof(*tests);

	(void)state;
	begin();
	script.is_mute = true;
	/* As many again wait for room. */
	for (unsigned i = 0; i < count; i++)
		submit(&tests[i], i != 1);
	run_for(SECOND_NS);
	assert_int_equal(script.io_commands, count / 2);
	lose_queue(2);
	script.is_mute = false;
	run_for(SECOND_NS);
	assert_int_equal(last_state, HOST_LIVE);
	assert_int_equal(host_controller_reconnects(controller), 1);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(tests[i].done, 1);
		assert_int_equal(tests[i].error, i == 1 ? -EIO : 0);
	}
	/* The one that is not repeatable was sent once. */
	assert_int_equal(script.io_commands, count / 2 + count - 1);
}

static void attempts_back_off_until_the_loss_timeout(void **state)
{
	struct host_controller_settings settings = settings_make();
	struct test_request test;
	unsigned opened;

	(void)state;
	settings.reconnect_delay_ns = SECOND_NS;
	settings.loss_ns = 20ull * SECOND_NS;
	begin_with(&settings);
	run_for(SECOND_NS);
	opened = script.opened;
	script.is_unreachable = true;
	lose_queue(0);
	run_for(SECOND_NS / 2);
	submit(&test, true);
	assert_int_equal(last_state, HOST_RECONNECTING);
	/* At once, and after 0.1, 0.2, 0.4 and 0.8 s, then each second. */
	run_for(9ull * SECOND_NS);
	assert_in_range(script.opened - opened, 11, 14);
	assert_int_equal(test.done, 0);
	run_for(11ull * SECOND_NS);
	assert_int_equal(last_state, HOST_FAILED);
	assert_int_equal(test.done, 1);
	assert_int_equal(test.error, -ENOTCONN);
	submit(&test, true);
	assert_int_equal(test.error, -ENOTCONN);
}

static void fast_fail_ends_requests_and_live_takes_them_again(void **state)
{
	struct host_controller_settings settings = settings_make();
	struct test_request test;

	(void)state;
	settings.fast_fail_ns = 2ull * SECOND_NS;
	settings.reconnect_delay_ns = SECOND_NS;
	begin_with(&settings);
	run_for(SECOND_NS);
	script.is_unreachable = true;
	lose_queue(1);
	submit(&test, true);
	run_for(SECOND_NS);
	assert_int_equal(test.done, 0);
	run_for(2ull * SECOND_NS);
	assert_int_equal(test.error, -ENOTCONN);
	submit(&test, true);
	assert_int_equal(test.error, -ENOTCONN);
	script.is_unreachable = false;
	run_for(2ull * SECOND_NS);
	assert_int_equal(last_state, HOST_LIVE);
	submit(&test, true);
	run_for(SECOND_NS);
	assert_int_equal(test.error, 0);
	assert_int_equal(test.done, 1);
}

static void an_old_request_is_aborted_then_the_association_is_renewed(void **state)
{
	struct test_request test;

	(void)state;
	begin();
	script.is_mute = true;
	submit(&test, true);
	run_for(31ull * SECOND_NS);
	assert_int_equal(script.aborts, 1);
	assert_int_equal(script.abort_names & 0xffff, 1);
	assert_int_equal(script.abort_names >> 16, test.request.command.cid);
	assert_int_equal(last_state, HOST_LIVE);
	assert_int_equal(live_count, 1);
	script.is_mute = false;
	run_for(6ull * SECOND_NS);
	assert_int_equal(live_count, 2);
	assert_int_equal(test.done, 1);
	assert_int_equal(test.error, 0);
}

static void an_unanswered_keep_alive_renews_the_association(void **state)
{
	(void)state;
	begin();
	run_for(10ull * SECOND_NS);
	assert_in_range(script.keep_alives, 3, 5);
	assert_int_equal(live_count, 1);
	script.is_silent = true;
	run_for(9ull * SECOND_NS);
	assert_int_equal(last_state, HOST_RECONNECTING);
	assert_non_null(strstr(host_controller_reason(controller), "18h"));
	script.is_silent = false;
	run_for(30ull * SECOND_NS);
	assert_int_equal(last_state, HOST_LIVE);
}

static void an_error_status_is_repeated_unless_it_says_not_to(void **state)
{
	struct test_request test;

	(void)state;
	begin();
	script.io_status = 0x22;
	submit(&test, true);
	run_for(SECOND_NS);
	assert_int_equal(test.request.status, 0x22);
	assert_int_equal(script.io_commands, 1 + HOST_REPEATS_MAX);
	script.io_status = 0x4080;
	submit(&test, true);
	run_for(SECOND_NS);
	assert_int_equal(test.request.status, 0x4080);
	assert_int_equal(script.io_commands, 2 + HOST_REPEATS_MAX);
	assert_int_equal(test.done, 1);
}

static void events_are_reported_and_asked_for_again(void **state)
{
	struct host_command *command;

	(void)state;
	begin();
	for (uint32_t round = 1; round < 4; round++) {
		command = list_first(&queues[0]->commands, struct host_command, node);
		assert_int_equal(command->sqe[0], NVME_ADMIN_ASYNC_EVENT);
		finish(command, 0, round);
		assert_int_equal(last_event, round);
		assert_false(list_is_empty(&queues[0]->commands));
	}
}

static void held_io_waits_after_each_connection_until_it_is_allowed(void **state)
{
	struct host_controller_settings settings = settings_make();
	struct test_request io[2], admin;

	(void)state;
	settings.holds_io = true;
	begin_with(&settings);
	run_for(SECOND_NS);
	submit(&io[0], true);
	admin = (struct test_request){.request = {.is_admin = true, .done = request_done}};
	host_sqe_init(&admin.request.command, NVME_ADMIN_KEEP_ALIVE, 0);
	host_submit(controller, &admin.request);
	run_for(SECOND_NS);
	assert_int_equal(admin.done, 1);
	assert_int_equal(script.io_commands, 0);
	script.is_mute = true;
	host_allow_io(controller);
	run_for(SECOND_NS);
	assert_int_equal(script.io_commands, 1);
	lose_queue(1);
	script.is_mute = false;
	run_for(SECOND_NS);
	submit(&io[1], true);
	run_for(SECOND_NS);
	assert_int_equal(live_count, 2);
	assert_int_equal(script.io_commands, 1);
	host_allow_io(controller);
	run_for(SECOND_NS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(io[i].done, 1);
		assert_int_equal(io[i].error, 0);
	}
	assert_int_equal(script.io_commands, 3);
}

static void refused_io_is_done_with_an_error_until_the_next_connection(void **state)
{
	struct host_controller_settings settings = settings_make();
	struct test_request sent, late, next;

	(void)state;
	settings.holds_io = true;
	begin_with(&settings);
	run_for(SECOND_NS);
	host_allow_io(controller);
	script.is_mute = true;
	submit(&sent, true);
	run_for(SECOND_NS);
	host_refuse_io(controller);
	submit(&late, true);
	assert_int_equal(late.error, -EIO);
	/* The pending command ends with an error status, which is not repeated. */
	script.is_mute = false;
	script.io_status = 0x22;
	loop_defer(loop, &queues[1]->work);
	run_for(SECOND_NS);
	assert_int_equal(sent.done, 1);
	assert_int_equal(sent.request.status, 0x22);
	assert_int_equal(script.io_commands, 1);
	script.io_status = 0;
	lose_queue(1);
	run_for(SECOND_NS);
	submit(&late, true);
	submit(&next, true);
	assert_int_equal(late.done + next.done, 0);
	host_refuse_io(controller);
	assert_int_equal(late.error, -EIO);
	assert_int_equal(next.error, -EIO);
	host_allow_io(controller);
	submit(&next, true);
	run_for(SECOND_NS);
	assert_int_equal(next.error, 0);
	assert_int_equal(script.io_commands, 2);
}

static void destruction_ends_each_request_once(void **state)
{
	struct test_request tests[3 * IO_QUEUES * IO_DEPTH];
	unsigned count = sizeof(tests) / sizeof(*tests);

	(void)state;
	begin();
	script.is_mute = true;
	for (unsigned i = 0; i < count; i++)
		submit(&tests[i], true);
	run_for(SECOND_NS);
	host_controller_destroy(controller);
	controller = NULL;
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(tests[i].done, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(the_sequence_ends_in_live),
		TEST(fewer_queues_are_used_if_fewer_are_granted),
		TEST(a_first_failure_ends_the_controller),
		TEST(a_lost_queue_repeats_repeatable_requests_once),
		TEST(attempts_back_off_until_the_loss_timeout),
		TEST(fast_fail_ends_requests_and_live_takes_them_again),
		TEST(an_old_request_is_aborted_then_the_association_is_renewed),
		TEST(an_unanswered_keep_alive_renews_the_association),
		TEST(an_error_status_is_repeated_unless_it_says_not_to),
		TEST(events_are_reported_and_asked_for_again),
		TEST(held_io_waits_after_each_connection_until_it_is_allowed),
		TEST(refused_io_is_done_with_an_error_until_the_next_connection),
		TEST(destruction_ends_each_request_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
