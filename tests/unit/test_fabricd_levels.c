/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A console's command waits until the server knows the service levels of all paths, from whatever
 * answers come. The server does not run by itself: the test takes its turns.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabricd/fabric_name.h"
#include "fabricd/server/server_internal.h"
#include "fabricd_make.h"

enum { NODE_A = 1, NODE_B = 2, TURNS = 200, TRANSACTION = 77, FOREIGN_SLID = 50, RECORDS = 5 };

static struct fabric_server *server;
static char fabric_name[32];

/* What the command has seen when it ran to its end. */
static struct {
	unsigned calls; /* of the command */
	unsigned runs; /* to its end */
	bool is_answered;
	char why[80];
	uint16_t a_to_b;
	uint16_t b_to_a;
	uint16_t beyond; /* from a to a LID that no host has */
} seen;

static uint16_t lid_of(uint32_t node)
{
	struct subnet_port_view view;

	assert_true(subnet_port(server->subnet, node, 1, &view));
	return view.info->lid;
}

/* A fabric_console_fn. */
static int command_run(struct fabric_server *of, char *text, char why[ATTACH_TEXT_BYTES])
{
	(void)why;
	assert_string_equal(text, "levels of paths");
	/* Commands split their words. */
	text[6] = '\0';
	seen.calls++;
	if (!service_levels_ask(of))
		return -EAGAIN;
	seen.runs++;
	seen.is_answered = of->levels.is_answered;
	snprintf(seen.why, sizeof(seen.why), "%s", of->levels.why);
	seen.a_to_b = service_levels_of(of, NODE_A, 1, lid_of(NODE_B));
	seen.b_to_a = service_levels_of(of, NODE_B, 1, lid_of(NODE_A));
	seen.beyond = service_levels_of(of, NODE_A, 1, UINT16_MAX);
	return memfd_create("command", MFD_CLOEXEC);
}

/* --- clients --- */

static void turns_take(void)
{
	for (unsigned i = 0; i < TURNS; i++)
		assert_true(fabric_server_turn(server) >= 0);
}

static void request_send(int client, enum attach_message_type type, const char *text)
{
	struct attach_message message = {.version = ATTACH_VERSION, .type = type};

	snprintf(message.text, sizeof(message.text), "%s", text);
	assert_int_equal(send(client, &message, sizeof(message), MSG_DONTWAIT), sizeof(message));
	turns_take();
}

/* The answer; false: there is none yet. */
static bool answer_receive(int client)
{
	struct attach_message message;
	const ssize_t bytes = recv(client, &message, sizeof(message), MSG_DONTWAIT);

	if (bytes < 0) {
		assert_int_equal(errno, EAGAIN);
		return false;
	}
	assert_int_equal(bytes, sizeof(message));
	assert_int_equal(message.status, 0);
	return true;
}

/* A console that has sent the command. */
static int console_make(void)
{
	char path[PLACE_PATH_BYTES];
	const int client = place_connect_as(
		PLACE_FABRIC, fabric_name_number(fabric_name), PLACE_OWN, 1000, path);

	assert_true(client >= 0);
	request_send(client, ATTACH_HELLO, "");
	assert_true(answer_receive(client));
	request_send(client, ATTACH_CONSOLE, "levels of paths");
	return client;
}

/* --- answers that the test makes --- */

/* The server has asked for the paths from a, and no answer comes by itself. */
static void question_pretend(void)
{
	struct server_port *port = server_port_find(server, NODE_A, 1);

	server->levels = (struct service_levels){
		.state = SERVICE_LEVELS_ASKED,
		.lid_count = 10,
		.asked = port,
		.asker = port,
		.transaction = TRANSACTION,
	};
	port->levels = calloc(server->levels.lid_count, sizeof(*port->levels));
	assert_non_null(port->levels);
}

/* An own question comes back, without an answer. */
static void question_lose(void)
{
	const struct mad_header header = {.transaction_id = server->levels.transaction};
	uint8_t bytes[MAD_HEADER_BYTES];

	mad_header_encode(&header, bytes);
	service_levels_answer(server_port_find(server, NODE_A, 1), ETIMEDOUT, bytes, sizeof(bytes));
}

/* Returns the bytes of a message with records from a's own LID and others. */
static uint32_t table_make(uint8_t *bytes, uint32_t transaction, uint16_t status, uint32_t step)
{
	const uint16_t a = lid_of(NODE_A), b = lid_of(NODE_B);
	const struct sa_path paths[RECORDS] = {
		{.slid = a, .dlid = b, .sl = 3},
		{.slid = a, .dlid = b, .sl = 5},
		{.slid = FOREIGN_SLID, .dlid = b, .sl = 7},
		{.slid = a, .dlid = UINT16_MAX, .sl = 7},
		{.slid = a, .dlid = a, .sl = 1},
	};
	const struct sa_header sa = {.attribute_offset = (uint16_t)(step / 8)};
	const struct mad_header header = {.management_class = MAD_CLASS_SUBN_ADM,
		.method = MAD_METHOD_GET_TABLE_RESP,
		.status = status,
		.transaction_id = 9ull << 32 | transaction};

	memset(bytes, 0, SA_DATA_OFFSET);
	mad_header_encode(&header, bytes);
	sa_header_encode(&sa, bytes);
	for (uint32_t i = 0; i < RECORDS; i++)
		sa_path_encode(&paths[i], bytes + SA_DATA_OFFSET + i * step);
	return SA_DATA_OFFSET + RECORDS * step;
}

static void answer_give(uint32_t transaction, uint16_t status, uint32_t step, uint32_t cut)
{
	uint8_t bytes[1024] = {0};
	const uint32_t count = table_make(bytes, transaction, status, step);

	service_levels_answer(server_port_find(server, NODE_A, 1), 0, bytes, count - cut);
}

/* --- tests --- */

static void command_runs_when_the_manager_has_answered(void **state)
{
	int client;

	(void)state;
	client = console_make();
	assert_true(answer_receive(client));
	assert_int_equal(seen.calls, 2);
	assert_int_equal(seen.runs, 1);
	assert_true(seen.is_answered);
	assert_int_equal(seen.a_to_b, 1 << 0);
	assert_int_equal(seen.b_to_a, 1 << 0);
	assert_int_equal(seen.beyond, 0);
	/* The next command asks again. */
	assert_int_equal(server->levels.state, SERVICE_LEVELS_UNKNOWN);
	assert_null(server_port_find(server, NODE_A, 1)->levels);
	request_send(client, ATTACH_CONSOLE, "levels of paths");
	assert_true(answer_receive(client));
	assert_int_equal(seen.calls, 4);
	close(client);
	turns_take();
}

static void levels_are_those_of_the_records(void **state)
{
	int client, other;

	(void)state;
	question_pretend();
	client = console_make();
	other = console_make();
	assert_false(answer_receive(client));
	/* An answer to an earlier question, and one of another port. */
	answer_give(TRANSACTION - 1, 0, 64, 0);
	service_levels_answer(server_port_find(server, NODE_B, 1), ETIMEDOUT,
		(const uint8_t[MAD_BYTES]){0}, MAD_HEADER_BYTES);
	turns_take();
	assert_false(answer_receive(client));
	answer_give(TRANSACTION, 0, 72, 0);
	turns_take();
	/* The server has gone on and asked for the paths from b. */
	assert_true(answer_receive(client));
	assert_true(answer_receive(other));
	assert_int_equal(seen.runs, 2);
	assert_true(seen.is_answered);
	assert_int_equal(seen.a_to_b, 1 << 3 | 1 << 5);
	assert_int_equal(seen.b_to_a, 1 << 0);
	close(client);
	close(other);
	turns_take();
}

/* Ask, and take what `cut` bytes less than the whole table say. */
static void cut_table_regard(uint32_t step, uint32_t cut, uint16_t a_to_b)
{
	int client;

	question_pretend();
	client = console_make();
	answer_give(TRANSACTION, 0, step, cut);
	turns_take();
	assert_true(answer_receive(client));
	assert_int_equal(seen.a_to_b, a_to_b);
	close(client);
	turns_take();
}

static void hostile_table_is_read_as_far_as_it_goes(void **state)
{
	(void)state;
	cut_table_regard(64, 3 * 64, 1 << 3 | 1 << 5);
	cut_table_regard(64, 3 * 64 + 1, 1 << 3);
	cut_table_regard(64, 5 * 64, 0);
	cut_table_regard(64, 5 * 64 + 1, 0);
	/* Records that overlap, and that never end. */
	cut_table_regard(56, 0, 0);
	cut_table_regard(0, 0, 0);
}

static void failed_question_leaves_level_0(void **state)
{
	int client;

	(void)state;
	question_pretend();
	client = console_make();
	answer_give(TRANSACTION, SA_STATUS_NO_RESOURCES, 64, 0);
	turns_take();
	assert_true(answer_receive(client));
	assert_false(seen.is_answered);
	assert_string_equal(seen.why, "the subnet manager answers with status 0x0100");
	assert_int_equal(seen.a_to_b, 1 << 0);
	question_pretend();
	server->levels.attempts = 5;
	request_send(client, ATTACH_CONSOLE, "levels of paths");
	question_lose();
	turns_take();
	assert_true(answer_receive(client));
	assert_false(seen.is_answered);
	assert_string_equal(seen.why, "the subnet manager does not answer");
	assert_int_equal(seen.beyond, 1 << 0);
	/* A port without a path to any other one. */
	question_pretend();
	request_send(client, ATTACH_CONSOLE, "levels of paths");
	answer_give(TRANSACTION, SA_STATUS_NO_RECORDS, 64, 0);
	turns_take();
	assert_true(answer_receive(client));
	assert_true(seen.is_answered);
	assert_int_equal(seen.a_to_b, 0);
	close(client);
	turns_take();
}

/* The embedded manager answers the next one. */
static void lost_question_is_asked_again(void **state)
{
	int client;

	(void)state;
	question_pretend();
	server->levels.attempts = 4;
	client = console_make();
	question_lose();
	turns_take();
	assert_true(answer_receive(client));
	assert_true(seen.is_answered);
	assert_int_equal(seen.a_to_b, 1 << 0);
	close(client);
	turns_take();
}

/* The host's programs are on another machine, which would get the answers to it. */
static void taken_host_has_its_paths_asked_for_by_another(void **state)
{
	struct channel taker = {0};
	int client;

	(void)state;
	server->nodes[NODE_A].taker = &taker;
	client = console_make();
	assert_true(answer_receive(client));
	assert_true(seen.is_answered);
	assert_int_equal(seen.a_to_b, 1 << 0);
	assert_int_equal(seen.b_to_a, 1 << 0);
	server->nodes[NODE_B].taker = &taker;
	request_send(client, ATTACH_CONSOLE, "levels of paths");
	assert_true(answer_receive(client));
	assert_false(seen.is_answered);
	assert_string_equal(seen.why, "no host is on this machine to ask the subnet manager");
	server->nodes[NODE_A].taker = server->nodes[NODE_B].taker = NULL;
	close(client);
	turns_take();
}

/* A client that has gone, or that asks again before it has its answer. */
static void client_that_does_not_wait_is_forgotten(void **state)
{
	struct attach_message message;
	int client, hasty;

	(void)state;
	question_pretend();
	client = console_make();
	hasty = console_make();
	assert_int_equal(server->client_count, 2);
	close(client);
	request_send(hasty, ATTACH_CONSOLE, "levels of paths");
	assert_int_equal(server->client_count, 0);
	assert_int_equal(recv(hasty, &message, sizeof(message), MSG_DONTWAIT), 0);
	answer_give(TRANSACTION, 0, 64, 0);
	turns_take();
	assert_int_equal(seen.runs, 0);
	assert_int_equal(server->levels.state, SERVICE_LEVELS_UNKNOWN);
	close(hasty);
}

static int server_make(void **state)
{
	static const char text[] = "Switch 4 \"s\"\n[1] \"a\"[1]\n[2] \"b\"[1]\n\n"
				   "Ca 1 \"a\"\n\nCa 1 \"b\"\n";

	(void)state;
	memset(&seen, 0, sizeof(seen));
	snprintf(fabric_name, sizeof(fabric_name), "levels-%d", getpid());
	server = fabricd_make(fabric_name, text, command_run);
	return server ? 0 : -1;
}

static int server_unmake(void **state)
{
	(void)state;
	fabric_server_destroy(server);
	return 0;
}

#define LEVELS_TEST(name) cmocka_unit_test_setup_teardown(name, server_make, server_unmake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LEVELS_TEST(command_runs_when_the_manager_has_answered),
		LEVELS_TEST(levels_are_those_of_the_records),
		LEVELS_TEST(hostile_table_is_read_as_far_as_it_goes),
		LEVELS_TEST(failed_question_leaves_level_0),
		LEVELS_TEST(lost_question_is_asked_again),
		LEVELS_TEST(taken_host_has_its_paths_asked_for_by_another),
		LEVELS_TEST(client_that_does_not_wait_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
