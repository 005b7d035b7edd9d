/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "nvmf/target/ctl/ctl.h"
#include "nvmf/target/ctl/ctl_parse.h"

static char sentence[CTL_SENTENCE_BYTES];

/* Words that are separated by single spaces. */
static bool parse(const char *text, struct ctl_request *request)
{
	const char *words[CTL_WORDS_MAX];
	unsigned count = 0;
	char copy[512];

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		words[count++] = word;
	return ctl_parse(count, words, request, sentence);
}

static void right_commands_are_understood(void **state)
{
	struct ctl_request request;

	(void)state;
	assert_true(parse("status", &request));
	assert_int_equal(request.command, CTL_STATUS);
	assert_true(parse("add-namespace s 3 memory=64M block_size=4096 read_only "
			  "uuid=00112233-4455-6677-8899-aabbccddeeff",
		&request));
	assert_int_equal(request.command, CTL_ADD_NAMESPACE);
	assert_string_equal(request.nqn, "s");
	assert_int_equal(request.ns.nsid, 3);
	assert_int_equal(request.ns.backend, CONFIG_MEMORY);
	assert_int_equal(request.ns.size_bytes, 64 << 20);
	assert_int_equal(request.ns.block_bytes, 4096);
	assert_true(request.ns.is_read_only);
	assert_int_equal(request.ns.uuid[1], 0x11);
	assert_true(parse("add-namespace s 3 path=/srv/a=b.img", &request));
	assert_int_equal(request.ns.backend, CONFIG_PATH);
	assert_string_equal(request.ns.path, "/srv/a=b.img");
	assert_true(parse("resize-namespace s 4294967294", &request));
	assert_int_equal(request.ns.nsid, 4294967294u);
	assert_int_equal(request.ns.size_bytes, 0);
	assert_true(parse("resize-namespace s 1 size=2G", &request));
	assert_true(request.ns.size_bytes == 2ull << 30);
	assert_true(parse("allow-host s h", &request));
	assert_string_equal(request.hostnqn, "h");
	assert_true(parse("inject status=281 io=2 nsid=1 host=h skip=5 count=1", &request));
	assert_int_equal(request.rule.fault, CTL_FAULT_STATUS);
	assert_int_equal(request.rule.status, 0x281);
	assert_true(request.rule.has_opcode);
	assert_false(request.rule.is_admin);
	assert_int_equal(request.rule.opcode, 2);
	assert_int_equal(request.rule.nsid, 1);
	assert_string_equal(request.rule.hostnqn, "h");
	assert_int_equal(request.rule.skip, 5);
	assert_int_equal(request.rule.count, 1);
	assert_true(parse("inject drop admin=18", &request));
	assert_int_equal(request.rule.fault, CTL_FAULT_DROP);
	assert_true(request.rule.is_admin);
	assert_true(parse("inject delay=100", &request));
	assert_int_equal(request.rule.delay_ms, 100);
}

/* The help names each command, and its own words. */
static void help_names_each_command(void **state)
{
	(void)state;
	assert_non_null(strstr(ctl_help(), "add-namespace NQN NSID path=FILE"));
	assert_non_null(strstr(ctl_help(), "clear-injections"));
}

static void wrong_commands_are_refused(void **state)
{
	/* clang-format off */
	static const struct {
		const char *text;
		const char *sentence;
	} rows[] = {
		{"", "\"\" is no command; \"help\" lists them"},
		{"stat", "\"stat\" is no command; \"help\" lists them"},
		{"status now", "status does not take \"now\""},
		{"remove-namespace s", "remove-namespace needs NQN NSID"},
		{"remove-namespace s 0", "\"0\" is no namespace: give a number from 1 to 4294967294"},
		{"remove-namespace s 4294967295",
			"\"4294967295\" is no namespace: give a number from 1 to 4294967294"},
		{"remove-namespace s -1", "\"-1\" is no namespace: give a number from 1 to 4294967294"},
		{"remove-namespace s 1x", "\"1x\" is no namespace: give a number from 1 to 4294967294"},
		{"allow-host s", "allow-host needs NQN HOSTNQN"},
		{"allow-host \x01 h", "an NQN is a text of 1 to 223 bytes without control characters"},
		{"allow-host s \x7f", "an NQN is a text of 1 to 223 bytes without control characters"},
		{"allow-host s \xc2\x9b", "an NQN is a text of 1 to 223 bytes without control characters"},
		{"add-namespace s 1", "add-namespace needs path=FILE, memory=SIZE or null=SIZE"},
		{"inject", "inject needs delay=MS, status=HEX, drop or disconnect"},
		{"inject count=3", "inject needs delay=MS, status=HEX, drop or disconnect"},
	};
	/* Each of these has one wrong word, the last one. */
	static const char *const words[] = {
		"add-namespace s 1 memory", "add-namespace s 1 memory=", "add-namespace s 1 memory=0",
		"add-namespace s 1 memory=1M null=1M", "add-namespace s 1 memory=1M path=/x",
		"add-namespace s 1 path=/x path=/y", "add-namespace s 1 path=x",
		"add-namespace s 1 read_only=1", "add-namespace s 1 block_size=1000",
		"add-namespace s 1 block_size=131072", "add-namespace s 1 uuid=1",
		"add-namespace s 1 a_key_that_is_too_long=1", "resize-namespace s 1 size",
		"resize-namespace s 1 64M", "resize-namespace s 1 size=1M size=1M",
		"inject delay=1 drop", "inject delay=3600001", "inject delay=-1", "inject status=0",
		"inject status=800", "inject status=2x", "inject drop=1", "inject disconnect drop",
		"inject drop io=100", "inject drop io=1 admin=2", "inject drop nsid=0",
		"inject drop host=", "inject drop count=18446744073709551616", "inject drop flush",
	};
	/* clang-format on */
	struct ctl_request request;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		strcpy(sentence, "accepted");
		if (parse(rows[i].text, &request) || strcmp(sentence, rows[i].sentence) != 0)
			fail_msg("%s: %s", rows[i].text, sentence);
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		char expected[128];

		snprintf(expected, sizeof(expected), " does not take \"%s\"",
			strrchr(words[i], ' ') + 1);
		strcpy(sentence, "accepted");
		if (parse(words[i], &request) || !strstr(sentence, expected))
			fail_msg("%s: %s", words[i], sentence);
	}
}

/* --- the socket --- */

static struct {
	struct loop *loop;
	struct ctl_server *server;
	char directory[64];
	char path[96];
	struct ctl_call *waiting; /* "later" */
} fixture;

static void serve(void *context, struct ctl_call *call)
{
	char text[CTL_REQUEST_BYTES_MAX];
	size_t bytes = 0;

	assert_ptr_equal(context, &fixture);
	text[0] = '\0';
	for (unsigned i = 0; i < call->word_count; i++)
		bytes += (size_t)snprintf(
			text + bytes, sizeof(text) - bytes, "[%s]", call->words[i]);
	if (call->word_count == 1 && strcmp(call->words[0], "later") == 0)
		fixture.waiting = call;
	else if (call->word_count == 1 && strcmp(call->words[0], "long") == 0)
		ctl_answer(call, true, ctl_help());
	else
		ctl_answer(call, call->word_count != 1, text);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(fixture.directory, "/tmp/urnic-ctl-XXXXXX");
	assert_non_null(mkdtemp(fixture.directory));
	snprintf(fixture.path, sizeof(fixture.path), "%s/socket", fixture.directory);
	fixture.waiting = NULL;
	assert_int_equal(loop_create(&fixture.loop), 0);
	if (ctl_server_create(
		    fixture.loop, fixture.path, serve, &fixture, &fixture.server, sentence))
		fail_msg("%s", sentence);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ctl_server_destroy(fixture.server);
	assert_int_not_equal(access(fixture.path, F_OK), 0);
	loop_destroy(fixture.loop);
	assert_int_equal(rmdir(fixture.directory), 0);
	return 0;
}

struct client {
	pthread_t thread;
	unsigned word_count;
	const char *const *words;
	int error;
	char *text;
	int is_done; /* atomic */
};

static void *client_run(void *argument)
{
	struct client *client = argument;

	client->error = ctl_call(fixture.path, client->word_count, client->words, &client->text);
	__atomic_store_n(&client->is_done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void client_start(struct client *client, unsigned word_count, const char *const *words)
{
	*client = (struct client){.word_count = word_count, .words = words};
	assert_int_equal(pthread_create(&client->thread, NULL, client_run, client), 0);
}

static void client_finish(struct client *client)
{
	while (!__atomic_load_n(&client->is_done, __ATOMIC_ACQUIRE))
		loop_step(fixture.loop, 1000000);
	pthread_join(client->thread, NULL);
}

static void words_go_there_and_the_answer_comes_back(void **state)
{
	static const char *const words[] = {"a", "", "with space\nand line", "z"};
	struct client client;

	(void)state;
	client_start(&client, 4, words);
	client_finish(&client);
	assert_int_equal(client.error, 0);
	assert_string_equal(client.text, "[a][][with space\nand line][z]");
	free(client.text);
}

static void refusal_is_told_from_success(void **state)
{
	static const char *const words[] = {"no"};
	struct client client;

	(void)state;
	client_start(&client, 1, words);
	client_finish(&client);
	assert_int_equal(client.error, -EPROTO);
	assert_string_equal(client.text, "[no]");
	free(client.text);
}

static void answer_may_come_later_and_others_are_served_meanwhile(void **state)
{
	static const char *const later[] = {"later"}, *const two[] = {"a", "b"};
	struct client waiting, other;

	(void)state;
	client_start(&waiting, 1, later);
	while (!fixture.waiting)
		loop_step(fixture.loop, 1000000);
	client_start(&other, 2, two);
	client_finish(&other);
	assert_string_equal(other.text, "[a][b]");
	ctl_answer(fixture.waiting, true, "done");
	client_finish(&waiting);
	assert_string_equal(waiting.text, "done");
	free(waiting.text);
	free(other.text);
}

static void call_outlives_the_server(void **state)
{
	static const char *const later[] = {"later"};
	struct client client;

	(void)state;
	client_start(&client, 1, later);
	while (!fixture.waiting)
		loop_step(fixture.loop, 1000000);
	ctl_server_destroy(fixture.server);
	fixture.server = NULL;
	ctl_answer(fixture.waiting, true, "nobody hears it");
	client_finish(&client);
	assert_int_equal(client.error, -ECONNRESET);
	assert_non_null(strstr(client.text, "no target answers there"));
	free(client.text);
}

static int connect_raw(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", fixture.path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* More idle clients than the server takes, and one that sends too much: the next one is served. */
static void bad_clients_do_not_keep_others_out(void **state)
{
	static const char *const two[] = {"a", "b"};
	static const char much[CTL_REQUEST_BYTES_MAX + 1];
	int idle[CTL_CLIENTS_MAX], fd;
	struct client client;

	(void)state;
	for (unsigned i = 0; i < CTL_CLIENTS_MAX; i++) {
		idle[i] = connect_raw();
		loop_step(fixture.loop, 1000000);
	}
	client_start(&client, 2, two);
	for (unsigned i = 0; i < 20; i++)
		loop_step(fixture.loop, 1000000);
	for (unsigned i = 0; i < CTL_CLIENTS_MAX; i++)
		close(idle[i]);
	client_finish(&client);
	assert_string_equal(client.text, "[a][b]");
	free(client.text);

	fd = connect_raw();
	(void)send(fd, much, sizeof(much), MSG_NOSIGNAL | MSG_DONTWAIT);
	for (unsigned i = 0; i < 20; i++)
		loop_step(fixture.loop, 1000000);
	assert_true(recv(fd, sentence, 1, 0) <= 0);
	close(fd);
}

static void socket_is_the_users_own(void **state)
{
	struct stat status;

	(void)state;
	assert_int_equal(stat(fixture.path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
}

/* Another user listens at the path. A command would believe that user's answers. */
static void server_of_another_user_is_not_believed(void **state)
{
	enum { NOBODY = 65534, SOMEBODY = 65533 };
	const char *words[] = {"status"};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char directory[] = "/tmp/test_nvmf_ctl.XXXXXX";
	char *text = NULL;
	int fd, error;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_non_null(mkdtemp(directory));
	assert_int_equal(chmod(directory, 0777), 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
	assert_int_equal(seteuid(NOBODY), 0);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(chmod(address.sun_path, 0666), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(seteuid(SOMEBODY), 0);
	error = ctl_call(address.sun_path, 1, words, &text);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(error, -EPERM);
	assert_non_null(strstr(text, "another user's program listens there"));
	free(text);
	close(fd);
	unlink(address.sun_path);
	rmdir(directory);
}

static void socket_of_a_live_target_is_left_alone(void **state)
{
	struct ctl_server *other;

	(void)state;
	assert_int_equal(
		ctl_server_create(fixture.loop, fixture.path, serve, NULL, &other, sentence),
		-EADDRINUSE);
	assert_non_null(strstr(sentence, "another target listens there"));
	assert_int_equal(access(fixture.path, F_OK), 0);
}

static void socket_of_a_dead_target_is_replaced(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	ctl_server_destroy(fixture.server);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", fixture.path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	if (ctl_server_create(
		    fixture.loop, fixture.path, serve, &fixture, &fixture.server, sentence))
		fail_msg("%s", sentence);
}

static void path_that_cannot_be_is_said(void **state)
{
	struct ctl_server *other;
	char *text = NULL;

	(void)state;
	assert_int_equal(ctl_server_create(fixture.loop, "/no/such/directory/socket", serve, NULL,
				 &other, sentence),
		-ENOENT);
	assert_string_equal(sentence,
		"/no/such/directory/socket: cannot listen there: No such file or directory; "
		"choose another path");
	assert_int_equal(ctl_call("/no/such/socket", 0, NULL, &text), -ENOENT);
	assert_non_null(strstr(text, "name the socket of a running target"));
	free(text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(right_commands_are_understood),
		cmocka_unit_test(help_names_each_command),
		cmocka_unit_test(wrong_commands_are_refused),
		TEST(words_go_there_and_the_answer_comes_back),
		TEST(refusal_is_told_from_success),
		TEST(answer_may_come_later_and_others_are_served_meanwhile),
		TEST(call_outlives_the_server),
		TEST(bad_clients_do_not_keep_others_out),
		TEST(socket_is_the_users_own),
		TEST(server_of_another_user_is_not_believed),
		TEST(socket_of_a_live_target_is_left_alone),
		TEST(socket_of_a_dead_target_is_replaced),
		TEST(path_that_cannot_be_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
