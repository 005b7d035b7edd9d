/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nvmf/target/config/config.h"
#include "nvmf/target/config/config_json.h"
#include "nvmf/target/config/config_objects.h"

enum { NESTING_MAX = 32 };

void target_config_destroy(struct target_config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->subsystem_count; i++) {
		free(config->subsystems[i].allowed_hosts);
		free(config->subsystems[i].namespaces);
	}
	for (size_t i = 0; i < config->port_count; i++) {
		free(config->ports[i].subsystems);
		free(config->ports[i].referrals);
	}
	free(config->hosts);
	free(config->subsystems);
	free(config->ports);
	free(config);
}

/* Refuse deep nesting, which no description needs, because cJSON and count_nodes() recurse. */
static bool check_nesting(struct config_reader *reader)
{
	bool is_string = false;
	unsigned depth = 0;

	for (size_t i = 0; i < reader->bytes; i++) {
		char c = reader->text[i];

		if (is_string && c == '\\')
			i++;
		else if (c == '"')
			is_string = !is_string;
		else if (!is_string && (c == '{' || c == '['))
			depth++;
		else if (!is_string && (c == '}' || c == ']'))
			depth--;
		if (depth > NESTING_MAX && depth < reader->bytes)
			return config_refuse_at(reader, i, "brackets are nested too deeply");
	}
	return true;
}

static cJSON *parse_json(struct config_reader *reader)
{
	const char *end = NULL;
	cJSON *root;
	size_t at;

	if (!check_nesting(reader))
		return NULL;
	root = cJSON_ParseWithLengthOpts(reader->text, reader->bytes, &end, false);
	at = end ? (size_t)(end - reader->text) : 0;
	if (!root) {
		config_refuse_at(reader, at, "this is not JSON; check commas, quotes and brackets");
		return NULL;
	}
	while (at < reader->bytes && (unsigned char)reader->text[at] <= ' ')
		at++;
	if (at == reader->bytes)
		return root;
	config_refuse_at(reader, at, "the description is complete before this; remove the rest");
	cJSON_Delete(root);
	return NULL;
}

int target_config_parse(
	const char *text, size_t bytes, struct target_config **ret_config, char *sentence)
{
	struct config_reader reader = {.text = text, .bytes = bytes, .sentence = sentence};
	cJSON *root;

	reader.root = root = parse_json(&reader);
	if (!root)
		return reader.error;
	reader.config = calloc(1, sizeof(*reader.config));
	if (!reader.config)
		config_refuse_memory(&reader);
	else
		config_read_target(&reader, root);
	cJSON_Delete(root);
	if (reader.error) {
		target_config_destroy(reader.config);
		return reader.error;
	}
	*ret_config = reader.config;
	return 0;
}

/* Read the whole of a regular file or pipe. The caller frees `*ret_text`. */
static int read_file(int fd, char **ret_text, size_t *ret_bytes)
{
	size_t bytes = 0, room = 0;
	char *text = NULL;

	for (;;) {
		ssize_t got;

		if (bytes == room) {
			char *larger = realloc(text, room = room ? 2 * room : 64 << 10);

			if (!larger) {
				free(text);
				return -ENOMEM;
			}
			text = larger;
		}
		got = read(fd, text + bytes, room - bytes);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0 || (bytes += (size_t)got) > CONFIG_FILE_BYTES_MAX) {
			int error = got < 0 ? -errno : got > 0 ? -EFBIG : 0;

			if (error)
				free(text);
			*ret_text = text;
			*ret_bytes = bytes;
			return error;
		}
	}
}

int target_config_load(const char *path, struct target_config **ret_config, char *sentence)
{
	char inner[CONFIG_SENTENCE_BYTES];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int error = fd < 0 ? -errno : 0;
	char *text = NULL;
	size_t bytes = 0;

	if (fd >= 0) {
		error = read_file(fd, &text, &bytes);
		close(fd);
	}
	if (error) {
		snprintf(sentence, CONFIG_SENTENCE_BYTES,
			"%.256s: cannot read the description: %s; name a readable JSON file", path,
			strerror(-error));
		return error;
	}
	error = target_config_parse(text, bytes, ret_config, inner);
	free(text);
	if (error)
		snprintf(sentence, CONFIG_SENTENCE_BYTES, "%.128s:%.380s", path, inner);
	return error;
}
