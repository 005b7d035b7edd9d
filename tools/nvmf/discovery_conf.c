/* SPDX-License-Identifier: BSD-2-Clause */
#include "discovery_conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20 };

static struct nvmf_options *item_add(
	struct discovery_conf *conf, const struct nvmf_options *options)
{
	struct nvmf_options *items =
		reallocarray(conf->items, conf->count + 1, sizeof(*conf->items));

	if (!items) {
		complain("no memory");
		return NULL;
	}
	conf->items = items;
	items[conf->count] = *options;
	return &items[conf->count++];
}

static int line_take(struct discovery_conf *conf, const struct nvmf_options *options, char *line)
{
	struct nvmf_options *item;

	line += strspn(line, " \t\r");
	if (*line == '\0' || *line == '#')
		return 0;
	item = item_add(conf, options);
	if (!item || !options_parse_line(item, line))
		return 1;
	if (!item->traddr[0])
		return complain("the address is missing; add --traddr");
	return 0;
}

/* Read the whole file. Returns its text with a NUL; or NULL after a sentence on standard error. */
static char *file_read(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = file ? calloc(1, FILE_BYTES_MAX + 1) : NULL;
	size_t length = text ? fread(text, 1, FILE_BYTES_MAX + 1, file) : 0;

	if (!file)
		complain("which target? give its address with --traddr, or write it into '%s' (%s)",
			path, strerror(errno));
	else if (!text)
		complain("no memory");
	else if (ferror(file))
		complain("cannot read '%s': %s", path, strerror(errno));
	else if (length > FILE_BYTES_MAX)
		complain("'%s' is longer than 1 MiB", path);
	if (text && (ferror(file) || length > FILE_BYTES_MAX)) {
		free(text);
		text = NULL;
	}
	if (file)
		fclose(file);
	return text;
}

static int file_take(struct discovery_conf *conf, const struct nvmf_options *options)
{
	unsigned number = 0;
	char *line, *rest;

	conf->text = file_read(options->discovery_conf);
	if (!conf->text)
		return 1;
	rest = conf->text;
	while ((line = strsep(&rest, "\n"))) {
		number++;
		if (line_take(conf, options, line))
			return complain("that is line %u of '%s'", number, options->discovery_conf);
	}
	if (conf->count == 0)
		return complain("which target? give its address with --traddr, or write it into "
				"'%s', which names none",
			options->discovery_conf);
	return 0;
}

int discovery_conf_read(const struct nvmf_options *options, struct discovery_conf *ret_conf)
{
	int status;

	*ret_conf = (struct discovery_conf){.count = 0};
	if (options->traddr[0])
		status = item_add(ret_conf, options) ? 0 : 1;
	else
		status = file_take(ret_conf, options);
	if (status)
		discovery_conf_done(ret_conf);
	return status;
}

void discovery_conf_done(struct discovery_conf *conf)
{
	free(conf->items);
	free(conf->text);
	*conf = (struct discovery_conf){.count = 0};
}
