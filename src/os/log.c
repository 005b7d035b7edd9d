/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "os/clock.h"
#include "os/setting.h"

#define ERROR_LINE_NS 1000000000u /* for so long a line says why a call fails */

static enum log_level chosen_level = LOG_ERROR;
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;
/* When this thread wrote its last line at level "error"; 0: log_error_take() knows that line */
static __thread uint64_t error_line_ns;

static void log_choose(void)
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
	pthread_once(&chosen_once, log_choose);
	return level <= chosen_level;
}

void log_write(enum log_level level, const char *format, ...)
{
	char line[1024];
	va_list arguments;

	if (!log_is_on(level))
		return;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	text_make_printable(line);
	fprintf(stderr, "urnic[%d]: %s\n", (int)getpid(), line);
	if (level == LOG_ERROR)
		error_line_ns = clock_now_ns();
}

const char *log_advice(int error)
{
	switch (error) {
	case EMFILE:
		return ": raise the limit on open files (ulimit -n)";
	case ENFILE:
		return ": raise the system's limit on open files (sysctl fs.file-max)";
	case ENOMEM:
	case ENOBUFS:
		return ": lift the limits on memory of the program (ulimit -v) or of its container";
	case EAGAIN:
		return ": raise the limits on processes (ulimit -u) or of the container";
	case EPERM:
	case EACCES:
	case ENOSYS:
		return ": a sandbox (seccomp), a security module or a firewall refuses this system call to the program";
	default:
		return "";
	}
}

int log_refusal(const char *what, const char *call)
{
	int error = errno;

	log_write(LOG_ERROR, "%s: %s: %s%s", what, call, strerror(error), log_advice(error));
	errno = error;
	return -error;
}

bool log_error_take(void)
{
	uint64_t at_ns = error_line_ns;

	error_line_ns = 0;
	return at_ns && clock_now_ns() - at_ns < ERROR_LINE_NS;
}
