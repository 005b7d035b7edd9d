/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/lease/event_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "os/setting.h"

static int fd = -1;

void log_open(bool is_foreground)
{
	const char *path = setting_path("URNICD_LOG");

	if (path)
		fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (path && fd < 0)
		fprintf(stderr, "urnicd: cannot write to %s, which is URNICD_LOG: %s\n", path,
			strerror(errno));
	if (fd < 0 && is_foreground)
		fd = STDERR_FILENO;
}

void log_line(const char *format, ...)
{
	char line[512];
	struct timespec now;
	va_list arguments;
	int used;

	if (fd < 0)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	used = snprintf(line, sizeof(line), "%lld.%03ld urnicd[%d]: ", (long long)now.tv_sec,
		now.tv_nsec / 1000000, getpid());
	va_start(arguments, format);
	vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format, arguments);
	va_end(arguments);
	text_make_printable(line);
	/* One write per line, so that several urnicd may share a file. */
	dprintf(fd, "%s\n", line);
}
