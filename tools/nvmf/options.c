/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options of all commands, with the names of nvme-cli and fio. set_defaults() sets the value of
 * each option that is not given. Where this value is 0, a command may choose its own default.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_name.h"
#include "nvmf.h"

#define BLANKS " \t\r\n"

enum {
	LINE_WORDS_MAX = 64,
	OPTION_FIRST = 256,
#define OPTION(name, letter, has_value, key) OPTION_##key,
#include "options.def"
#undef OPTION
};

static const struct option long_options[] = {
#define OPTION(name, letter, has_value, key) {name, has_value, NULL, OPTION_##key},
#include "options.def"
#undef OPTION
	{NULL, 0, NULL, 0},
};

static const struct {
	char letter;
	bool has_value;
	int key;
} letters[] = {
#define OPTION(name, letter, has_value, key) {letter, has_value, OPTION_##key},
#include "options.def"
#undef OPTION
};

static const struct host_transport *const transports[] = {&host_tcp, &host_rdma};

/* A number with an optional suffix k, m, g or t, powers of 1,024. */
static bool parse_number(const char *text, uint64_t maximum, uint64_t *ret_number)
{
	static const char suffixes[] = "kmgt";
	const char *suffix;
	char *end;
	uint64_t number;

	errno = 0;
	number = strtoull(text, &end, 0);
	if (errno || end == text || *text == '-')
		return false;
	if (*end && (suffix = strchr(suffixes, *end | 0x20)) != NULL) {
		unsigned shift = 10 * (unsigned)(suffix - suffixes + 1);

		if (number > UINT64_MAX >> shift)
			return false;
		number <<= shift;
		end++;
	}
	if (*end || number > maximum)
		return false;
	*ret_number = number;
	return true;
}

static bool copy_text(char *to, size_t bytes, const char *text, const char *name)
{
	size_t text_bytes = strlen(text) + 1;

	if (text_bytes > bytes) {
		complain("the value of --%s is longer than %zu characters", name, bytes - 1);
		return false;
	}
	memcpy(to, text, text_bytes);
	return true;
}

static bool choose_transport(struct nvmf_options *options, const char *name)
{
	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		if (!strcmp(transports[i]->name, name)) {
			options->transport = transports[i];
			return true;
		}
	}
	complain("there is no transport '%s'; choose tcp or rdma", name);
	return false;
}

static const char *option_name(int key)
{
	for (const struct option *option = long_options; option->name; option++) {
		if (option->val == key)
			return option->name;
	}
	return "?";
}

/*
 * Take an option whose value is a text. `*ret_is_text` says whether `key` is such an option.
 * Returns false after a sentence on standard error.
 */
static bool take_text(struct nvmf_options *options, int key, bool *ret_is_text)
{
	const char *name = option_name(key);

	*ret_is_text = true;
	switch (key) {
	case OPTION_TRANSPORT:
		return choose_transport(options, optarg);
	case OPTION_TRADDR:
		return copy_text(options->traddr, sizeof(options->traddr), optarg, name);
	case OPTION_TRSVCID:
		return copy_text(options->trsvcid, sizeof(options->trsvcid), optarg, name);
	case OPTION_HOST_TRADDR:
		return copy_text(options->host_traddr, sizeof(options->host_traddr), optarg, name);
	case OPTION_NQN:
		return copy_text(options->nqn, sizeof(options->nqn), optarg, name);
	case OPTION_HOSTNQN:
		return copy_text(options->hostnqn, sizeof(options->hostnqn), optarg, name);
	case OPTION_HOSTID:
		if (host_id_parse(optarg, options->hostid))
			return true;
		complain("--hostid takes a UUID, such as that of: uuidgen");
		return false;
	case OPTION_RW:
		return copy_text(options->rw, sizeof(options->rw), optarg, name);
	case OPTION_OUTPUT:
		options->wants_json = !strcmp(optarg, "json");
		if (options->wants_json || !strcmp(optarg, "normal"))
			return true;
		complain("--output-format takes normal or json");
		return false;
	case OPTION_DATA:
		options->data = optarg;
		return true;
	case OPTION_STATE:
		options->metadata_file = optarg;
		return true;
	case OPTION_NBD:
		options->nbd = optarg;
		return true;
	case OPTION_FUSE:
		options->fuse = optarg;
		return true;
	case OPTION_NAME:
		options->name = optarg;
		return true;
	case OPTION_DISCOVERY_CONF:
		options->discovery_conf = optarg;
		return true;
	default:
		*ret_is_text = false;
		return true;
	}
}

static bool take_flag(struct nvmf_options *options, int key)
{
	switch (key) {
	case OPTION_HDGST:
		options->wants_header_digest = true;
		return true;
	case OPTION_DDGST:
		options->wants_data_digest = true;
		return true;
	case OPTION_POLL:
		options->polls = true;
		return true;
	case OPTION_QUIET:
		options->is_quiet = true;
		return true;
	case OPTION_KEEP_TRYING:
		options->keeps_trying = true;
		return true;
	case OPTION_READ_ONLY:
		options->is_read_only = true;
		return true;
	case OPTION_MATCHING:
		options->is_matching = true;
		return true;
	case OPTION_PERSISTENT:
		options->is_persistent = true;
		return true;
	default:
		return false;
	}
}

static bool take_number(struct nvmf_options *options, int key)
{
	struct {
		int key;
		uint64_t maximum;
		void *place;
		size_t bytes;
	} rows[] = {
#define ROW(key, maximum, field) {OPTION_##key, maximum, &options->field, sizeof(options->field)}
		ROW(NSID, UINT32_MAX - 1, nsid),
		ROW(IO_QUEUES, HOST_IO_QUEUES_MAX, io_queues),
		ROW(QUEUE_SIZE, HOST_DEPTH_MAX, queue_size),
		ROW(KEEP_ALIVE, 3600, keep_alive_seconds),
		ROW(RECONNECT, 3600, reconnect_seconds),
		ROW(FAST_FAIL, 1 << 20, fast_fail_seconds),
		ROW(OFFSET, INT64_MAX, offset_bytes),
		ROW(SIZE, INT64_MAX, size_bytes),
		ROW(BS, 1 << 24, block_bytes),
		ROW(START_BLOCK, INT64_MAX, start_block),
		ROW(BLOCK_COUNT, 0xffff, block_count),
		ROW(LOG_ID, 0xff, log_id),
		ROW(LOG_LEN, 1 << 20, log_bytes),
		ROW(FEATURE_ID, 0xff, feature_id),
		ROW(RWMIXREAD, 100, rwmixread),
		ROW(IODEPTH, HOST_DEPTH_MAX, iodepth),
		ROW(RUNTIME, 1 << 24, runtime_seconds),
		ROW(SEED, UINT64_MAX, seed),
#undef ROW
	};
	uint64_t number;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (rows[i].key != key)
			continue;
		if (!parse_number(optarg, rows[i].maximum, &number)) {
			complain("--%s takes a number up to %llu, not '%s'", option_name(key),
				(unsigned long long)rows[i].maximum, optarg);
			return false;
		}
		if (rows[i].bytes == sizeof(uint32_t))
			*(uint32_t *)rows[i].place = (uint32_t)number;
		else
			*(uint64_t *)rows[i].place = number;
		options->has_start_block |= key == OPTION_START_BLOCK;
		return true;
	}
	return false;
}

static bool take_option(struct nvmf_options *options, int key)
{
	bool is_text;

	if (!take_text(options, key, &is_text))
		return false;
	if (is_text || take_flag(options, key))
		return true;
	if (key == OPTION_LOSS) {
		char *end;

		options->loss_seconds = strtoll(optarg, &end, 10);
		if (*end || end == optarg || options->loss_seconds < -1 ||
			options->loss_seconds > 1 << 24) {
			complain("--ctrl-loss-tmo takes seconds, or -1 for ever, not '%s'", optarg);
			return false;
		}
		return true;
	}
	return take_number(options, key);
}

static int key_of_letter(int letter)
{
	for (size_t i = 0; i < sizeof(letters) / sizeof(*letters); i++) {
		if (letters[i].letter == letter)
			return letters[i].key;
	}
	return letter;
}

static void set_defaults(struct nvmf_options *options)
{
	*options = (struct nvmf_options){
		.command = options->command,
		.transport = &host_tcp,
		.io_queues = 1,
		.queue_size = 128,
		.keep_alive_seconds = 5,
		.reconnect_seconds = 10,
		.loss_seconds = 600,
		.block_bytes = 4096,
		.iodepth = 1,
		.rwmixread = 50,
		.rw = "randread",
		.name = "disk",
		.discovery_conf = "/etc/nvme/discovery.conf",
	};
}

/* Take the words from argv[1] on. Returns false after a sentence on standard error. */
static bool take_words(struct nvmf_options *options, int argc, char **argv)
{
	char short_options[2 * sizeof(letters) / sizeof(*letters) + 2];
	char *end = short_options;
	int key;

	optind = 0; /* getopt_long() begins anew */
	*end++ = ':';
	for (size_t i = 0; i < sizeof(letters) / sizeof(*letters); i++) {
		if (!letters[i].letter)
			continue;
		*end++ = letters[i].letter;
		if (letters[i].has_value)
			*end++ = ':';
	}
	*end = '\0';
	while ((key = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
		if (key == '?' || key == ':') {
			complain(key == ':'
					? "the option '%s' needs a value"
					: "'%s' is no option; urnic-nvmf(1) has those that there are",
				argv[optind - 1]);
			return false;
		}
		if (!take_option(options, key_of_letter(key)))
			return false;
	}
	if (optind < argc) {
		complain("'%s' is not expected; each value belongs to an option", argv[optind]);
		return false;
	}
	return true;
}

bool options_parse(struct nvmf_options *options, int argc, char **argv)
{
	set_defaults(options);
	return take_words(options, argc, argv) && host_name_complete(options);
}

bool options_parse_line(struct nvmf_options *options, char *line)
{
	char name[] = "";
	char *words[LINE_WORDS_MAX + 2] = {name};
	char *rest;
	int count = 1;

	for (char *word = strtok_r(line, BLANKS, &rest); word;
		word = strtok_r(NULL, BLANKS, &rest)) {
		if (count > LINE_WORDS_MAX) {
			complain("a line has at most %d words", LINE_WORDS_MAX);
			return false;
		}
		words[count++] = word;
	}
	return take_words(options, count, words);
}
