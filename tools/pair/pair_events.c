/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The events of urnic pair --events. A process on each host reads those of the programs there, and
 * writes them into a pipe, each with one write. The capturing process reads the pipe.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture/capture_output.h"
#include "capture/capture_source.h"
#include "common/command.h"
#include "lane/capture.h"
#include "os/clock.h"
#include "pair/pair.h"

enum { BUSY_MS = 1, IDLE_MS = 5 };

#define MARK_NS 10000000u
/* Between its reading of the clock and its record, a lane is seldom interrupted for so long. */
#define RECORD_NS 1000000u

static volatile sig_atomic_t is_over;

static void end_note(int signal)
{
	(void)signal;
	is_over = 1;
}

/* Write the record of a lane, if it is an event. Returns false if the pipe has no reader. */
static bool record_write(
	const struct capture_lane *lane, uint64_t epoch_ns, int pipe_fd, int reporter)
{
	const struct captured *head = lane->head;
	struct pair_event record = {
		.time_ns = lane->time_ns + epoch_ns, .reporter = (uint32_t)reporter};
	struct captured_event event;

	if (lane->is_repetition || head->packet_bytes || head->captured_bytes != sizeof(event))
		return true;
	record.qpn = head->qpn;
	memcpy(&event, lane->bytes, sizeof(event));
	if (!capture_event_text(head, &event, record.text, sizeof(record.text)))
		return true;
	snprintf(record.process, sizeof(record.process), "%s, process %d", lane->process->comm,
		(int)lane->process->pid);
	return write(pipe_fd, &record, sizeof(record)) == sizeof(record);
}

/*
 * Write all events up to now. Returns whether there were any, or -EPIPE. Adds to *ret_dropped how
 * many were lost before them.
 */
static int events_write(struct capture_sources *sources, uint64_t epoch_ns, int pipe_fd,
	int reporter, uint64_t *ret_dropped)
{
	struct capture_lane *lane;
	int has_any = false;

	capture_sources_begin(sources);
	while ((lane = capture_sources_next(sources))) {
		if (!record_write(lane, epoch_ns, pipe_fd, reporter))
			return -EPIPE;
		*ret_dropped += lane->dropped;
		lane->has_record = false;
		lane->dropped = 0;
		has_any = true;
	}
	return has_any;
}

/* Say that all events up to `until_ns` are written. Returns false if the pipe has no reader. */
static bool mark_write(uint64_t until_ns, int pipe_fd, int reporter)
{
	const struct pair_event mark = {
		.time_ns = until_ns - RECORD_NS, .reporter = (uint32_t)reporter};

	return write(pipe_fd, &mark, sizeof(mark)) == sizeof(mark);
}

int pair_events(int pipe_fd, int reporter, int ready_fd)
{
	/* A write to a full pipe goes on. */
	const struct sigaction action = {.sa_handler = end_note, .sa_flags = SA_RESTART};
	uint64_t epoch_ns = clock_epoch_ns(), dropped = 0, marked_ns = 0;
	struct capture_sources sources;
	bool is_last = false;
	int has_any = 0;

	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGTERM, &action, NULL);
	if (capture_sources_open(&sources, CAPTURE_HEADERS, true, 0))
		return EXIT_FAILED;
	if (write(ready_fd, "", 1) != 1)
		return EXIT_FAILED;
	while (!is_last && has_any >= 0) {
		struct pollfd pollfd = {.fd = sources.listener.socket, .events = POLLIN};

		is_last = is_over;
		capture_sources_update(&sources);
		has_any = events_write(&sources, epoch_ns, pipe_fd, reporter, &dropped);
		if (has_any >= 0 && sources.until_ns - marked_ns >= MARK_NS) {
			marked_ns = sources.until_ns;
			if (!mark_write(marked_ns + epoch_ns, pipe_fd, reporter))
				has_any = -EPIPE;
		}
		if (!is_last)
			poll(&pollfd, 1, has_any ? BUSY_MS : IDLE_MS);
	}
	dropped += capture_sources_dropped(&sources);
	capture_sources_close(&sources);
	if (dropped)
		complain("pair: the capture lacks %lu events, which came too fast",
			(unsigned long)dropped);
	return EXIT_OK;
}
