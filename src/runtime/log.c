/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/setting.h"

static enum log_level chosen_level = LOG_ERROR;
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;

static void choose(void)
{
	const char *text = setting_text("URNIC_LOG");

	if (!text || !strcmp(text, "error"))
		chosen_level = LOG_ERROR;
	else if (!strcmp(text, "off"))
		chosen_level = LOG_OFF;
	else if (!strcmp(text, "info"))
		chosen_level = LOG_INFO;
	else
		fprintf(stderr,
			"urnic[%d]: URNIC_LOG is '%.40s'; it may be off, error or info; using error\n",
			(int)getpid(), text);
}

bool log_is_on(enum log_level level)
{
	pthread_once(&chosen_once, choose);
	return level <= chosen_level;
}

void log_write(enum log_level level, const char *format, ...)
{
	char line[512];
	va_list arguments;

	if (!log_is_on(level))
		return;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	fprintf(stderr, "urnic[%d]: %s\n", (int)getpid(), line);
}
