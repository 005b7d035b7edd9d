/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/codec/fabrics.h"
#include "nvmf/target/ctl/ctl_parse.h"

enum { DELAY_MS_MAX = 3600000, STATUS_MAX = 0x7ff, CTL_COMMANDS = CTL_HELP + 1 };

/* The commands of ctl.def: their positional and further words, as texts. */
static const struct {
	const char *word;
	const char *positional;
	const char *further;
} commands[] = {
#define CTL_COMMAND(name, word, positional, further, sentence) {word, positional, further},
#include "nvmf/target/ctl/ctl.def"
#undef CTL_COMMAND
};

static bool command_refuse(char *sentence, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool command_refuse(char *sentence, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, CTL_SENTENCE_BYTES, format, arguments);
	va_end(arguments);
	return false;
}

static bool parse_number(const char *text, int base, uint64_t max, uint64_t *ret_value)
{
	char *end;

	/* Refuse the spaces and the sign that strtoull() would accept. */
	if (strchr(" \t\n\v\f\r+-", text[0]))
		return false;
	errno = 0;
	*ret_value = strtoull(text, &end, base);
	return errno == 0 && *end == '\0' && *ret_value <= max;
}

static bool parse_nsid(const char *text, uint32_t *ret_nsid)
{
	uint64_t value;

	if (!parse_number(text, 10, CONFIG_NSID_MAX, &value) || value == 0)
		return false;
	*ret_nsid = (uint32_t)value;
	return true;
}

static bool parse_nqn(const char *text, char ret_nqn[CONFIG_NQN_BYTES])
{
	if (!nvme_nqn_is_valid(text, CONFIG_NQN_BYTES))
		return false;
	memcpy(ret_nqn, text, strlen(text) + 1);
	return true;
}

/* Set the backend. Returns false if it is already set, or the value is wrong. */
static bool set_backend(struct config_namespace *ns, enum config_backend backend, const char *value)
{
	size_t bytes = strlen(value) + 1;

	if (ns->path[0] || ns->size_bytes > 0)
		return false;
	ns->backend = backend;
	if (backend != CONFIG_PATH)
		return config_size_parse(value, &ns->size_bytes);
	if (value[0] != '/' || bytes > sizeof(ns->path))
		return false;
	memcpy(ns->path, value, bytes);
	return true;
}

static bool add_word(struct ctl_request *request, const char *key, const char *value)
{
	struct config_namespace *ns = &request->ns;
	uint64_t number;

	if (strcmp(key, "read_only") == 0) {
		ns->is_read_only = true;
		return !value;
	}
	if (!value)
		return false;
	if (strcmp(key, "path") == 0)
		return set_backend(ns, CONFIG_PATH, value);
	if (strcmp(key, "memory") == 0)
		return set_backend(ns, CONFIG_MEMORY, value);
	if (strcmp(key, "null") == 0)
		return set_backend(ns, CONFIG_NULL, value);
	if (strcmp(key, "nguid") == 0)
		return config_id_parse(value, ns->nguid);
	if (strcmp(key, "uuid") == 0)
		return config_id_parse(value, ns->uuid);
	if (strcmp(key, "block_size") != 0 || !parse_number(value, 10, 65536, &number) ||
		number < 512 || number & (number - 1))
		return false;
	ns->block_bytes = (uint32_t)number;
	return true;
}

static bool resize_word(struct ctl_request *request, const char *key, const char *value)
{
	return strcmp(key, "size") == 0 && value && request->ns.size_bytes == 0 &&
		config_size_parse(value, &request->ns.size_bytes);
}

/* Set the fault. Returns false if it is already set. */
static bool set_fault(struct ctl_rule *rule, enum ctl_fault fault)
{
	if (rule->fault != CTL_FAULT_NONE)
		return false;
	rule->fault = fault;
	return true;
}

static bool set_opcode(struct ctl_rule *rule, const char *value, bool is_admin)
{
	uint64_t number;

	if (rule->has_opcode || !parse_number(value, 16, UINT8_MAX, &number))
		return false;
	rule->has_opcode = true;
	rule->is_admin = is_admin;
	rule->opcode = (uint8_t)number;
	return true;
}

static bool inject_value(struct ctl_rule *rule, const char *key, const char *value)
{
	uint64_t number;

	if (strcmp(key, "delay") == 0) {
		if (!parse_number(value, 10, DELAY_MS_MAX, &number))
			return false;
		rule->delay_ms = (uint32_t)number;
		return set_fault(rule, CTL_FAULT_DELAY);
	}
	if (strcmp(key, "status") == 0) {
		if (!parse_number(value, 16, STATUS_MAX, &number) || number == 0)
			return false;
		rule->status = (uint16_t)number;
		return set_fault(rule, CTL_FAULT_STATUS);
	}
	if (strcmp(key, "admin") == 0 || strcmp(key, "io") == 0)
		return set_opcode(rule, value, key[0] == 'a');
	if (strcmp(key, "nsid") == 0)
		return parse_nsid(value, &rule->nsid);
	if (strcmp(key, "skip") == 0)
		return parse_number(value, 10, UINT64_MAX, &rule->skip);
	if (strcmp(key, "count") == 0)
		return parse_number(value, 10, UINT64_MAX, &rule->count);
	return strcmp(key, "host") == 0 && parse_nqn(value, rule->hostnqn);
}

static bool inject_word(struct ctl_request *request, const char *key, const char *value)
{
	if (value)
		return inject_value(&request->rule, key, value);
	if (strcmp(key, "drop") == 0)
		return set_fault(&request->rule, CTL_FAULT_DROP);
	return strcmp(key, "disconnect") == 0 && set_fault(&request->rule, CTL_FAULT_DISCONNECT);
}

/* Parse a further word: `key` or `key=value`. */
static bool further_word(struct ctl_request *request, const char *word)
{
	const char *value = strchr(word, '=');
	size_t bytes = value ? (size_t)(value - word) : strlen(word);
	char key[16];

	if (bytes >= sizeof(key))
		return false;
	memcpy(key, word, bytes);
	key[bytes] = '\0';
	if (value)
		value++;
	if (request->command == CTL_ADD_NAMESPACE)
		return add_word(request, key, value);
	if (request->command == CTL_RESIZE_NAMESPACE)
		return resize_word(request, key, value);
	return request->command == CTL_INJECT && inject_word(request, key, value);
}

static unsigned positional_count(const char *positional)
{
	unsigned count = positional[0] != '\0';

	for (; *positional; positional++)
		count += *positional == ' ';
	return count;
}

static bool positional_words(struct ctl_request *request, const char *const *words, char *sentence)
{
	const char *positional = commands[request->command].positional;

	if (positional_count(positional) > 0) {
		if (!parse_nqn(words[0], request->nqn))
			return command_refuse(sentence,
				"an NQN is a text of 1 to 223 bytes without control characters");
	}
	if (strcmp(positional, "NQN NSID") == 0 && !parse_nsid(words[1], &request->ns.nsid))
		return command_refuse(sentence,
			"\"%.64s\" is no namespace: give a number from 1 to %u", words[1],
			(unsigned)CONFIG_NSID_MAX);
	if (strcmp(positional, "NQN HOSTNQN") == 0) {
		if (!parse_nqn(words[1], request->hostnqn))
			return command_refuse(sentence,
				"an NQN is a text of 1 to 223 bytes without control characters");
	}
	return true;
}

static bool is_complete(const struct ctl_request *request, char *sentence)
{
	const struct config_namespace *ns = &request->ns;

	if (request->command == CTL_ADD_NAMESPACE && !ns->path[0] && ns->size_bytes == 0)
		return command_refuse(
			sentence, "add-namespace needs path=FILE, memory=SIZE or null=SIZE");
	if (request->command == CTL_INJECT && request->rule.fault == CTL_FAULT_NONE)
		return command_refuse(
			sentence, "inject needs delay=MS, status=HEX, drop or disconnect");
	return true;
}

bool ctl_parse(unsigned word_count, const char *const *words, struct ctl_request *ret_request,
	char *sentence)
{
	unsigned command = 0, count;

	while (word_count > 0 && command < CTL_COMMANDS &&
		strcmp(words[0], commands[command].word) != 0)
		command++;
	if (word_count == 0 || command == CTL_COMMANDS)
		return command_refuse(sentence, "\"%.64s\" is no command; \"help\" lists them",
			word_count ? words[0] : "");
	memset(ret_request, 0, sizeof(*ret_request));
	ret_request->command = (enum ctl_command)command;
	count = positional_count(commands[command].positional);
	if (word_count - 1 < count)
		return command_refuse(
			sentence, "%s needs %s", words[0], commands[command].positional);
	if (!positional_words(ret_request, words + 1, sentence))
		return false;
	for (unsigned i = 1 + count; i < word_count; i++) {
		if (further_word(ret_request, words[i]))
			continue;
		return command_refuse(sentence, "%s does not take \"%.64s\"%s%s", words[0],
			words[i], commands[command].further[0] ? "; it takes " : "",
			commands[command].further);
	}
	return is_complete(ret_request, sentence);
}

const char *ctl_help(void)
{
	static const char help[] =
#define CTL_COMMAND(name, word, positional, further, sentence) \
	word " " positional " " further "\n\t" sentence "\n"
#include "nvmf/target/ctl/ctl.def"
#undef CTL_COMMAND
		;

	return help;
}
