/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/setting.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/text.h"
#include "os/log.h"

/* The copy of the environment, in one allocation: first the pointers, then the strings. */
static char **environment;

static void environment_copy(char **copy, size_t count)
{
	char *text = (char *)(copy + count + 1);

	for (size_t i = 0; i < count; i++) {
		copy[i] = text;
		text = stpcpy(text, environ[i]) + 1;
	}
	copy[count] = NULL;
}

__attribute__((constructor)) void settings_read(void)
{
	size_t count = 0, bytes = 0;

	while (environ && environ[count])
		bytes += strlen(environ[count++]) + 1;
	free(environment);
	environment = malloc((count + 1) * sizeof(*environment) + bytes);
	if (environment)
		environment_copy(environment, count);
}

char *const *setting_environment(void)
{
	return environment;
}

const char *setting_text(const char *name)
{
	size_t bytes = strlen(name);

	for (char *const *entry = environment; entry && *entry; entry++)
		if (strncmp(*entry, name, bytes) == 0 && (*entry)[bytes] == '=')
			return (*entry)[bytes + 1] != '\0' ? *entry + bytes + 1 : NULL;
	return NULL;
}

const char *setting_path(const char *name)
{
	return getauxval(AT_SECURE) ? NULL : setting_text(name);
}

unsigned setting_number(const char *name, unsigned lowest, unsigned highest, unsigned fallback)
{
	const char *text = setting_text(name);
	unsigned value = fallback;

	if (text && !text_number(text, lowest, highest, &value))
		log_write(LOG_ERROR, "%s is '%.40s'; it may be %u to %u; using %u", name, text,
			lowest, highest, fallback);
	return value;
}

/* Write the words as a list: "a, b or c". */
static void words_write(char *to, size_t bytes, const char *const *words, int count)
{
	size_t used = 0;

	to[0] = '\0';
	for (int i = 0; i < count && used < bytes; i++)
		used += (size_t)snprintf(to + used, bytes - used, "%s%s",
			i == 0                  ? ""
				: i + 1 < count ? ", "
						: " or ",
			words[i]);
}

int setting_choice(const char *name, ...)
{
	const char *text = setting_text(name), *words[SETTING_WORDS_MAX];
	char list[128];
	int count = 0;
	va_list rest;

	va_start(rest, name);
	while (count < SETTING_WORDS_MAX && (words[count] = va_arg(rest, const char *)))
		count++;
	va_end(rest);
	for (int i = 0; i < count; i++)
		if (!text || strcmp(text, words[i]) == 0)
			return i;
	words_write(list, sizeof(list), words, count);
	log_write(LOG_ERROR, "%s is '%.40s'; it may be %s; using %s", name, text, list, words[0]);
	return 0;
}
