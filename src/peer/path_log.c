/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer/path_log.h"

#include <stdbool.h>
#include <unistd.h>

#include "os/log.h"
#include "port/address.h"

/* A line that was logged. */
struct line {
	struct gid remote;
	uint32_t pid; /* the peer's process, if it is on this host; 0: packets reach the peer */
	const char *why; /* why packets are used; NULL: they are not */
};

static struct line lines[PATH_LOG_PEERS];
static uint32_t line_count; /* number of lines so far; a new line replaces the oldest */

/* Note the line. Returns whether it is new. */
static bool line_note(const struct line *line)
{
	for (uint32_t i = 0; i < line_count && i < PATH_LOG_PEERS; i++)
		if (gid_is_equal(&lines[i].remote, &line->remote) && lines[i].pid == line->pid &&
			lines[i].why == line->why)
			return false;
	lines[line_count++ % PATH_LOG_PEERS] = *line;
	return true;
}

void path_log_local(const struct gid *remote, uint32_t pid)
{
	const struct line line = {.remote = *remote, .pid = pid};
	char text[ADDRESS_TEXT_BYTES];

	if (!log_is_on(LOG_INFO) || !line_note(&line))
		return;
	gid_to_text(remote, 0, text);
	if (pid == (uint32_t)getpid())
		log_write(LOG_INFO, "peer %s is this process: data needs no packets", text);
	else
		log_write(LOG_INFO,
			"peer %s is process %u of this host: data passes through shared memory, "
			"not through packets",
			text, pid);
}

void path_log_packets(const struct gid *remote, const char *why)
{
	const struct line line = {.remote = *remote, .why = why};
	char text[ADDRESS_TEXT_BYTES];

	if (log_is_on(LOG_INFO) && line_note(&line))
		log_write(LOG_INFO, "peer %s is reached by packets: %s",
			gid_to_text(remote, 0, text), why);
}
