/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WORKER_WORKER_STREAMS_H
#define URNIC_WORKER_WORKER_STREAMS_H

/*
 * The streams of a lane's iWARP queue pairs, each a TCP connection, which whoever drives the lane
 * looks after along with the lane's UDP port.
 *
 * All sockets are in an epoll set of the lane's own. While an application polls, so that nobody
 * sleeps on the set, the stream that something came from last is hot: it is not in the set, and
 * each poll reads from it right away. That is one system call in place of two, and the segment that
 * comes has no set, nor sets of sets, to be announced to. The set is asked for the others; seldom,
 * if it has been silent.
 *
 * While bytes are under way the thread looks now and then whether the peer still answers TCP. One
 * that has not for the stream's budget is gone. A peer that does not read answers, and is waited
 * for.
 */

#include <stdbool.h>

#include "base/list.h"
#include "iwarp/iwarp.h"
#include "port/tcp.h"
#include "worker/worker.h"

struct worker_stream {
	struct list link; /* in worker->streams */
	int fd; /* -1: closed */
	struct iwarp_qp *iwarp; /* its `carrier` is this */
	uint64_t wait_budget_ns; /* 0: as long as the kernel's */
	uint64_t silent_since_ns; /* seen so, of a peer that owes an answer; 0: does not */
	bool is_blocked; /* the kernel takes no more bytes now */
	bool is_deaf; /* nothing more is to be received: the set does not say so again */
	bool is_stalled; /* a message waits for a receive request: likewise, for now */
};

/*
 * Begin to look after a stream, whose queue pair was opened. Takes `fd`. The worker is locked.
 * Returns 0 or -errno.
 */
int worker_stream_add(struct worker *worker, struct worker_stream *stream);

/* Look after it no longer; `fd` is the caller's again. The worker is locked. */
void worker_stream_remove(struct worker *worker, struct worker_stream *stream);

/* Close it and look after it no longer; again does no harm. The worker is locked. */
void worker_stream_close(struct worker *worker, struct worker_stream *stream);

/* Close the sockets of all: the process has forked, and this is the child. */
void worker_streams_forget(struct worker *worker);

/* The sockets are to wake whoever sleeps on them: none is hot. The worker is locked. */
void worker_streams_watch(struct worker *worker);

/* Take in what has come. The worker is locked. Returns how many reads found something. */
unsigned worker_streams_receive(struct worker *worker);

/*
 * Read from the hot stream, if there is one, for worker_streams_receive(), which is to follow
 * before anything else happens to the lane. For a function with few calls above it: after a system
 * call a processor foresees the returns of the functions that are entered from then on, and of few
 * of those that were entered before; each of the others costs it more than most of them do. The
 * worker is locked.
 */
static inline void worker_streams_read_ahead(struct worker *worker)
{
	struct worker_stream *hot = worker->hot_stream;
	bool is_read = hot && !hot->is_deaf && !hot->is_stalled; /* and by nobody else before */
	uint8_t *buffer = is_read ? iwarp_offer_buffer(hot->iwarp) : NULL;

	if (!buffer)
		return;
	worker->ahead_bytes = port_tcp_receive_one(hot->fd, buffer, IWARP_RX_BYTES);
	worker->has_read_ahead = true;
}

/* The timer has expired: look for peers that are gone. The worker is not locked. */
void worker_streams_look(struct worker *worker);

/* Send what there is to send. The worker is locked. */
void worker_streams_send(struct worker *worker);

#endif
