/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "nvmf/target/config/config.h"

static char sentence[CONFIG_SENTENCE_BYTES];

/* As nvmetcli saves it, with keys that mean nothing here, and with urnic's own. */
static const char complete[] =
	"{\n"
	"  \"hosts\": [ { \"nqn\": \"hosta\" }, { \"nqn\": \"hostb\" } ],\n"
	"  \"ports\": [\n"
	"    { \"addr\": { \"adrfam\": \"ipv4\", \"traddr\": \"10.0.0.1\",\n"
	"        \"treq\": \"not specified\",\n"
	"        \"trsvcid\": \"4420\", \"trtype\": \"rdma\", \"tsas\": \"none\" },\n"
	"      \"ana_groups\": [ { \"ana\": { \"state\": \"optimized\" }, \"grpid\": 1 } ],\n"
	"      \"param\": { \"inline_data_size\": \"4096\", \"pi_enable\": \"0\" },\n"
	"      \"portid\": 1,\n"
	"      \"referrals\": [ { \"name\": \"next\", \"enable\": 1,\n"
	"        \"addr\": { \"trtype\": \"tcp\", \"traddr\": \"10.0.0.2\", \"portid\": 3 } } ],\n"
	"      \"subsystems\": [ \"two\", \"one\" ] },\n"
	"    { \"portid\": 2, \"addr\": { \"trtype\": \"tcp\", \"adrfam\": \"ipv6\",\n"
	"      \"traddr\": \"fe80::1%lo\" }, \"param\": { \"inline_data_size\": \"-1\" } }\n"
	"  ],\n"
	"  \"subsystems\": [\n"
	"    { \"nqn\": \"one\",\n"
	"      \"attr\": { \"allow_any_host\": \"0\", \"cntlid_max\": \"65519\",\n"
	"        \"cntlid_min\": \"1\",\n"
	"        \"model\": \"Linux\", \"pi_enable\": \"0\", \"serial\": \"abc\",\n"
	"        \"version\": \"1.3\" },\n"
	"      \"allowed_hosts\": [ \"hostb\" ],\n"
	"      \"namespaces\": [\n"
	"        { \"nsid\": 1, \"enable\": 1, \"ana_grpid\": 1, \"ana\": { \"grpid\": \"1\" },\n"
	"          \"device\": { \"path\": \"/dev/vdb\", \"uuid\": \"\",\n"
	"            \"nguid\": \"ef90689c-6c46-d44c-89c1-4067801309a8\" } },\n"
	"        { \"nsid\": \"2\", \"enable\": 0,\n"
	"          \"device\": { \"memory\": \"64M\", \"block_size\": 4096,\n"
	"            \"read_only\": true } },\n"
	"        { \"nsid\": 7, \"device\": { \"null\": 1048576 } } ] },\n"
	"    { \"nqn\": \"two\", \"attr\": { \"allow_any_host\": 1 } }\n"
	"  ]\n"
	"}\n";

static void complete_file_is_read_as_written(void **state)
{
	struct target_config *config;
	const struct config_subsystem *one;
	const struct config_port *port;

	(void)state;
	assert_int_equal(target_config_parse(complete, strlen(complete), &config, sentence), 0);
	assert_int_equal(config->host_count, 2);
	assert_int_equal(config->subsystem_count, 2);
	assert_int_equal(config->port_count, 2);

	one = &config->subsystems[0];
	assert_string_equal(one->nqn, "one");
	assert_string_equal(one->serial, "abc");
	assert_string_equal(one->model, "Linux");
	assert_false(one->allow_any_host);
	assert_int_equal(one->allowed_host_count, 1);
	assert_int_equal(one->allowed_hosts[0], 1);
	assert_int_equal(one->namespace_count, 3);
	assert_int_equal(one->namespaces[0].backend, CONFIG_PATH);
	assert_string_equal(one->namespaces[0].path, "/dev/vdb");
	assert_true(one->namespaces[0].is_enabled);
	assert_int_equal(one->namespaces[0].nguid[0], 0xef);
	assert_int_equal(one->namespaces[0].nguid[15], 0xa8);
	assert_int_equal(one->namespaces[1].nsid, 2);
	assert_false(one->namespaces[1].is_enabled);
	assert_int_equal(one->namespaces[1].backend, CONFIG_MEMORY);
	assert_int_equal(one->namespaces[1].size_bytes, 64 << 20);
	assert_int_equal(one->namespaces[1].block_bytes, 4096);
	assert_true(one->namespaces[1].is_read_only);
	assert_int_equal(one->namespaces[2].backend, CONFIG_NULL);
	assert_int_equal(one->namespaces[2].size_bytes, 1 << 20);
	assert_true(config->subsystems[1].allow_any_host);
	assert_int_equal(config->subsystems[1].cntlid_max, CONFIG_CNTLID_MAX);

	port = &config->ports[0];
	assert_int_equal(port->address.transport, CONFIG_RDMA);
	assert_string_equal(port->address.traddr, "10.0.0.1");
	assert_string_equal(port->address.trsvcid, "4420");
	assert_int_equal(port->inline_bytes, 4096);
	assert_int_equal(port->subsystem_count, 2);
	assert_int_equal(port->subsystems[0], 1);
	assert_int_equal(port->subsystems[1], 0);
	assert_int_equal(port->referral_count, 1);
	assert_string_equal(port->referrals[0].address.trsvcid, "8009");
	assert_int_equal(port->referrals[0].address.portid, 3);
	assert_int_equal(config->ports[1].address.family, CONFIG_IPV6);
	/* No subsystem: for discovery. */
	assert_string_equal(config->ports[1].address.trsvcid, "8009");
	assert_int_equal(config->ports[1].inline_bytes, 16384);
	target_config_destroy(config);
}

#define HOST(nqn)       "{\"nqn\":\"" nqn "\"}"
#define SUBSYSTEM(rest) "{\"subsystems\":[{\"nqn\":\"s\"," rest "}]}"
#define DEVICE(device)  SUBSYSTEM("\"namespaces\":[{\"nsid\":1,\"device\":{" device "}}]")
#define PORT(rest)      "{\"ports\":[{\"portid\":1,\"addr\":{" rest "}]}"
#define ADDR            "\"trtype\":\"tcp\",\"traddr\":\"::1\",\"adrfam\":\"ipv6\""

/* A description and the sentence that refuses it; NULL: it is accepted. */
/* clang-format off */
static const struct {
	const char *text;
	const char *sentence;
} rows[] = {
	{"{}", NULL},
	{" {\"hosts\":[]}\n ", NULL},
	{"\xef\xbb\xbf{\"hosts\":[]}", NULL},
	{"", "1:1: this is not JSON; check commas, quotes and brackets"},
	{"{\"hosts\":[\n}", "2:1: this is not JSON; check commas, quotes and brackets"},
	{"{} x", "1:4: the description is complete before this; remove the rest"},
	{"[]", "1:1: a description is an object in braces"},
	{"{\"host\":[]}", "1:9: \"host\" is no setting of a description; correct or remove it"},
	{"{\"hosts\":[],\"hosts\":[]}", "1:21: \"hosts\" is there twice; remove one of them"},
	{"{\"hosts\":{}}", "1:10: \"hosts\" is a list in square brackets"},
	{"{\"hosts\":[1]}", "1:11: a host is an object in braces"},
	{"{\"hosts\":[\n {}]}", "2:2: a host needs \"nqn\"; add it"},
	{"{\"hosts\":[" HOST("a") ",\n" HOST("a") "]}",
		"2:1: the host \"a\" is there twice; remove one"},
	{"{\"hosts\":[" HOST("") "]}",
		"1:18: an NQN is a text of 1 to 223 bytes without control characters"},
	{"{\"hosts\":[" HOST("a\\u0007") "]}",
		"1:18: an NQN is a text of 1 to 223 bytes without control characters"},
	{"{\"hosts\":[" HOST("a\\u009b") "]}",
		"1:18: an NQN is a text of 1 to 223 bytes without control characters"},
	{"{\"hosts\":[" HOST("\xc0\xaf") "]}",
		"1:18: an NQN is a text of 1 to 223 bytes without control characters"},
	{"{\"hosts\":[" HOST("\xed\xa0\x80") "]}",
		"1:18: an NQN is a text of 1 to 223 bytes without control characters"},
	{"{\"hosts\":[" HOST("n\xc3\xa4me\xe2\x82\xac\xf0\x9f\x98\x80") "]}", NULL},
	{"{\"hosts\":[{\"nqn\":\"a\",\"dhchap_key\":\"DHHC-1:00:\"}]}",
		"1:35: urnic does not support \"dhchap_key\"; remove it or set it to 0"},
	{"{\"hosts\":[{\"nqn\":\"a\",\"dhchap_key\":\"\"}]}", NULL},

	{SUBSYSTEM("\"attr\":{\"serial\":\"123456789012345678901\"}"),
		"1:44: \"serial\" has at most 20 bytes, not 21"},
	{SUBSYSTEM("\"attr\":{\"serial\":5}"), "1:44: \"serial\" is a text in quotation marks"},
	{SUBSYSTEM("\"attr\":{\"allow_any_host\":2}"), "1:52: \"allow_any_host\" is 0 or 1"},
	{SUBSYSTEM("\"attr\":{\"allow_any_host\":\"yes\"}"), "1:52: \"allow_any_host\" is 0 or 1"},
	{SUBSYSTEM("\"attr\":{\"pi_enable\":1}"),
		"1:47: urnic does not support \"pi_enable\"; remove it or set it to 0"},
	{SUBSYSTEM("\"attr\":{\"cntlid_min\":9,\"cntlid_max\":8}"),
		"1:34: \"cntlid_min\" is above \"cntlid_max\"; exchange the two numbers"},
	{SUBSYSTEM("\"attr\":{\"cntlid_max\":65520}"),
		"1:48: \"cntlid_max\" is a number from 1 to 65519"},
	{SUBSYSTEM("\"attr\":{\"cntlid_max\":1.5}"),
		"1:48: \"cntlid_max\" is a number from 1 to 65519"},
	{SUBSYSTEM("\"attr\":{\"cntlid_max\":-1}"),
		"1:48: \"cntlid_max\" is a number from 1 to 65519"},
	{SUBSYSTEM("\"attr\":{\"cntlid_max\":\"5x\"}"),
		"1:48: \"cntlid_max\" is a number from 1 to 65519"},
	{SUBSYSTEM("\"allowed_hosts\":[\"a\"]"),
		"1:44: there is no host \"a\"; add it to \"hosts\""},
	/* Hosts are read first, wherever they are. */
	{"{\"subsystems\":[{\"nqn\":\"s\",\"allowed_hosts\":[\"a\",\"a\"]}],\"hosts\":[" HOST("a") "]}",
		"1:48: the host \"a\" is there twice; remove one"},
	{"{\"subsystems\":[{\"nqn\":\"s\",\"allowed_hosts\":[\"a\"],\"attr\":{\"allow_any_host\":1}}],"
		"\"hosts\":[" HOST("a") "]}",
		"1:43: \"allow_any_host\" is 1; set it to 0 or empty the list of allowed hosts"},
	{"{\"subsystems\":[{\"nqn\":\"s\"},{\"nqn\":\"s\"}]}",
		"1:28: the subsystem \"s\" is there twice; rename one"},
	{"{\"subsystems\":[{\"nqn\":\"nqn.2014-08.org.nvmexpress.discovery\"}]}",
		"1:16: each port has the discovery subsystem by itself; remove this one"},
	{DEVICE("\"memory\":\"64M\""), NULL},
	{DEVICE(""), "1:60: a device has \"path\", \"memory\" or \"null\"; give it one of them"},
	{DEVICE("\"memory\":\"1M\",\"path\":\"/x\""),
		"1:60: a device has \"path\", \"memory\" or \"null\"; give it one of them"},
	{DEVICE("\"memory\":\"1X\""),
		"1:70: \"memory\" is a size such as \"64M\" or a number of bytes"},
	{DEVICE("\"memory\":0"), "1:70: \"memory\" is a size such as \"64M\" or a number of bytes"},
	{DEVICE("\"null\":\"9000000000000000000K\""),
		"1:68: \"null\" is a size such as \"64M\" or a number of bytes"},
	{DEVICE("\"path\":\"\""), "1:68: \"path\" is empty; give it a value"},
	{DEVICE("\"null\":1,\"block_size\":1000"), "1:83: \"block_size\" is a power of two"},
	{DEVICE("\"null\":1,\"block_size\":256"),
		"1:83: \"block_size\" is a number from 512 to 65536"},
	{DEVICE("\"null\":1,\"uuid\":\"12\""),
		"1:77: \"uuid\" is 32 hex digits with dashes; write one as uuidgen prints it"},
	{SUBSYSTEM("\"namespaces\":[{\"nsid\":1}]"), "1:41: a namespace needs \"device\"; add it"},
	{SUBSYSTEM("\"namespaces\":[{\"nsid\":0,\"device\":{}}]"),
		"1:49: \"nsid\" is a number from 1 to 4294967294"},
	{SUBSYSTEM("\"namespaces\":[{\"nsid\":1,\"device\":{\"null\":1}},\n"
		"{\"nsid\":1,\"device\":{\"null\":1}}]"),
		"2:1: the namespace 1 is there twice; give each its own \"nsid\""},
	{SUBSYSTEM("\"namespaces\":["
		"{\"nsid\":1,\"device\":{\"null\":1,\"uuid\":\"00112233445566778899aabbccddeeff\"}},\n"
		"{\"nsid\":2,\"device\":{\"null\":1,\"uuid\":\"00112233-4455-6677-8899-AABBCCDDEEFF\"}}]"),
		"2:1: the namespaces 1 and 2 have the same ID; give each its own"},

	{PORT(ADDR "}"), NULL},
	{PORT("\"traddr\":\"::1\"}"), "1:30: an address needs \"trtype\"; add it"},
	{PORT("\"trtype\":\"fc\"}"), "1:40: \"trtype\" is \"rdma\" or \"tcp\""},
	{PORT("\"trtype\":\"tcp\",\"traddr\":\"here\"}"), "1:55: \"here\" is not an IPv4 address"},
	{PORT("\"trtype\":\"tcp\",\"adrfam\":\"ib\"}"), "1:55: \"adrfam\" is \"ipv4\" or \"ipv6\""},
	{PORT(ADDR ",\"trsvcid\":0}"), "1:87: \"trsvcid\" is a number from 1 to 65535"},
	{PORT(ADDR ",\"treq\":\"required\"}"),
		"1:84: urnic has no secure channels; set \"treq\" to \"not required\""},
	{PORT(ADDR "},\"param\":{\"inline_data_size\":17}"),
		"1:106: \"inline_data_size\" is a multiple of 16"},
	{PORT(ADDR "},\"subsystems\":[\"s\"]"),
		"1:92: there is no subsystem \"s\"; add it to \"subsystems\""},
	{"{\"ports\":[{\"portid\":1,\"addr\":{" ADDR "}},\n{\"portid\":1,\"addr\":{" ADDR "}}]}",
		"2:1: the port 1 is there twice; give each its own \"portid\""},
	{"{\"ports\":[{\"portid\":1,\"addr\":{" ADDR "}},\n{\"portid\":2,\"addr\":{" ADDR "}}]}",
		"2:1: the ports 1 and 2 have the same address; change one"},
};
/* clang-format on */

static void each_fault_is_refused_at_its_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct target_config *config = NULL;
		size_t bytes = strlen(rows[i].text);
		char *text = malloc(bytes + 1);
		int error;

		/* Without a NUL behind it. */
		memcpy(text, rows[i].text, bytes);
		strcpy(sentence, "accepted");
		error = target_config_parse(text, bytes, &config, sentence);
		free(text);
		if (!rows[i].sentence != !error ||
			(error && strcmp(sentence, rows[i].sentence) != 0))
			fail_msg("%s\n  expected %s\n  got      %s", rows[i].text,
				rows[i].sentence ? rows[i].sentence : "accepted", sentence);
		target_config_destroy(config);
	}
}

static void brackets_of_any_depth_are_refused_without_recursion(void **state)
{
	static char text[1 << 20];
	struct target_config *config;

	(void)state;
	memset(text, '[', sizeof(text));
	assert_int_equal(target_config_parse(text, sizeof(text), &config, sentence), -EINVAL);
	assert_string_equal(sentence, "1:33: brackets are nested too deeply");
}

static void file_that_is_not_there_is_named(void **state)
{
	struct target_config *config;

	(void)state;
	assert_int_equal(target_config_load("/no/such.json", &config, sentence), -ENOENT);
	assert_string_equal(sentence,
		"/no/such.json: cannot read the description: No such file or directory; name a "
		"readable JSON file");
}

static void file_with_a_fault_is_named_with_the_place(void **state)
{
	char path[] = "/tmp/urnic-config-XXXXXX", expected[128];
	struct target_config *config;
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, "{\n\"a\":1}", 8), 8);
	close(fd);
	assert_int_equal(target_config_load(path, &config, sentence), -EINVAL);
	snprintf(expected, sizeof(expected),
		"%s:2:5: \"a\" is no setting of a description; correct or remove it", path);
	assert_string_equal(sentence, expected);
	unlink(path);
}

/* The file that the pages show. */
static void sample_file_is_right(void **state)
{
	const char *root = getenv("SOURCE_ROOT");
	struct target_config *config;
	char path[4096];

	(void)state;
	if (!root)
		skip();
	snprintf(path, sizeof(path), "%s/docs/nvmf-target.json", root);
	if (target_config_load(path, &config, sentence))
		fail_msg("%s", sentence);
	assert_int_equal(config->subsystem_count, 3);
	target_config_destroy(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(complete_file_is_read_as_written),
		cmocka_unit_test(each_fault_is_refused_at_its_place),
		cmocka_unit_test(brackets_of_any_depth_are_refused_without_recursion),
		cmocka_unit_test(file_that_is_not_there_is_named),
		cmocka_unit_test(file_with_a_fault_is_named_with_the_place),
		cmocka_unit_test(sample_file_is_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
