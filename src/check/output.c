/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check/check.h"
#include "check/sarif.h"

enum { TEXT_BYTES = 1 << 19, END_BYTES = sizeof(OUTPUT_SARIF_END) - 1 };

static char text[TEXT_BYTES];
static size_t text_bytes;
static int output_fd = STDERR_FILENO;
static bool is_sarif;

bool output_is_sarif(void)
{
	return is_sarif;
}

void output_say(const char *format, ...)
{
	size_t room = sizeof(text) - text_bytes;
	va_list arguments;
	int bytes;

	va_start(arguments, format);
	bytes = vsnprintf(text + text_bytes, room, format, arguments);
	va_end(arguments);
	if (bytes > 0)
		text_bytes += (size_t)bytes < room ? (size_t)bytes : room;
}

static void text_write(void)
{
	for (size_t done = 0; done < text_bytes;) {
		ssize_t bytes = write(output_fd, text + done, text_bytes - done);

		if (bytes <= 0)
			break;
		done += (size_t)bytes;
	}
	text_bytes = 0;
}

/*
 * Lock the file against other processes, or unlock it. The caller holds report.c's lock, which
 * excludes other threads.
 */
static void file_lock(short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

	while (fcntl(output_fd, F_SETLKW, &lock) < 0 && errno == EINTR)
		continue;
}

/*
 * Write the beginning of the file, if it is empty. Returns the offset of OUTPUT_SARIF_END, or -1 if
 * the file does not end with OUTPUT_SARIF_END. The file is locked, and the text is empty.
 */
static off_t sarif_place(bool *ret_is_first)
{
	char end[END_BYTES + 1];
	off_t size = lseek(output_fd, 0, SEEK_END);

	if (size == 0) {
		sarif_begin();
		output_say("%s", OUTPUT_SARIF_END);
		text_write();
		size = lseek(output_fd, 0, SEEK_END);
	}
	if (size < (off_t)sizeof(end) ||
		pread(output_fd, end, sizeof(end), size - (off_t)sizeof(end)) != sizeof(end) ||
		memcmp(end + 1, OUTPUT_SARIF_END, END_BYTES) != 0)
		return -1;
	*ret_is_first = end[0] == '[';
	return size - END_BYTES;
}

static void result_write(void)
{
	size_t bytes = text_bytes;
	bool is_first = true;
	off_t place;

	/*
	 * Leave out a result that does not fit into `text`, because a cut result would make the
	 * file invalid.
	 */
	if (bytes < sizeof(text)) {
		file_lock(F_WRLCK);
		place = sarif_place(&is_first);
		struct iovec pieces[] = {
			{(char *)",", is_first ? 0 : 1},
			{text, bytes},
			{(char *)OUTPUT_SARIF_END, END_BYTES},
		};

		if (place < 0 || pwritev(output_fd, pieces, 3, place) < 0)
			dprintf(STDERR_FILENO, "urnic check: the SARIF file cannot be continued\n");
		file_lock(F_UNLCK);
	}
	text_bytes = 0;
}

void output_end(void)
{
	if (is_sarif)
		result_write();
	else
		text_write();
}

void output_open(const char *path)
{
	size_t length = strlen(path);
	bool is_first, is_usable;

	is_sarif = length > 6 && strcmp(path + length - 6, ".sarif") == 0;
	output_fd =
		open(path, (is_sarif ? O_RDWR : O_WRONLY | O_APPEND) | O_CREAT | O_CLOEXEC, 0666);
	is_usable = output_fd >= 0;
	if (is_usable && is_sarif) {
		file_lock(F_WRLCK);
		is_usable = sarif_place(&is_first) >= 0;
		file_lock(F_UNLCK);
	}
	if (is_usable)
		return;
	if (output_fd < 0)
		fprintf(stderr, "urnic check: %s: %m\n", path);
	else
		fprintf(stderr, "urnic check: %s is not a SARIF file of urnic\n", path);
	_exit(2);
}
