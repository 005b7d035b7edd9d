/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WORKER_WORKER_STREAMS_H
#define URNIC_WORKER_WORKER_STREAMS_H

/*
 * The streams of a lane's iWARP queue pairs. Each is a TCP connection, and the thread that drives
 * the lane serves the streams together with the lane's UDP port.
 *
 * All sockets are in an epoll set of the lane. While an application polls, no thread sleeps on that
 * set. Then the stream that received last is hot: it is not in the set, and each poll reads from it
 * directly. That takes one system call instead of two, and the kernel has no epoll set to notify
 * when a segment arrives. The other streams are found through the set. While the set reports none
 * of them, it is read on few polls only.
 *
 * While bytes are under way, the thread checks now and then whether the peer answers TCP. A peer
 * that has not answered for worker_stream.silence_max_ns is dead. A peer whose program does not
 * read closes its TCP window and still answers, so the stream waits for it, blocked.
 *
 * When the process is killed, the kernel drops the bytes that the peer has not acknowledged.
 * Otherwise, if the network was interrupted, a request of the killed process might arrive after
 * requests of the process that replaces it. When a program ends by exit(), the kernel still sends
 * its last requests, because the program may have their completions.
 */

#include <stdbool.h>

#include "base/list.h"
#include "iwarp/iwarp.h"
#include "port/tcp.h"
#include "worker/worker.h"

struct worker_stream {
	struct list link; /* in worker->streams */
	int fd; /* -1: closed */
	struct iwarp_qp *iwarp; /* its `carrier` is this stream */
	uint64_t silence_max_ns; /* silence after which the peer is dead; 0: the kernel decides */
	/* Since when the peer, which should answer, is silent; 0: the peer is not silent. */
	uint64_t silent_since_ns;
	bool is_blocked; /* the kernel's send buffer is full; the set reports EPOLLOUT */
	bool is_deaf; /* its input has ended, so the epoll set reports no input */
	bool is_stalled; /* a message waits for a receive request; the set reports no input */
};

/*
 * Begin to serve a stream whose iWARP queue pair is open. On success the worker owns stream->fd.
 * The worker is locked. Returns 0 or -errno.
 */
int worker_stream_add(struct worker *worker, struct worker_stream *stream);

/* Stop serving a stream; the caller owns stream->fd again. The worker is locked. */
void worker_stream_remove(struct worker *worker, struct worker_stream *stream);

/*
 * Stop serving a stream and close it; a second call is harmless. The kernel still sends the bytes
 * that it has taken. It gives up when the peer acknowledges none for stream->silence_max_ns (0: the
 * kernel decides). The worker is locked.
 */
void worker_stream_close(struct worker *worker, struct worker_stream *stream);

/* The program calls exit(): let the kernel send all bytes that it has. The worker is locked. */
void worker_streams_finish(struct worker *worker);

/* Close the sockets of all streams, in a forked child. */
void worker_streams_forget(struct worker *worker);

/* Put the hot stream back into the set: its input wakes the thread again. The worker is locked. */
void worker_streams_watch(struct worker *worker);

/* Receive from all streams. The worker is locked. Returns how many reads returned input. */
unsigned worker_streams_receive(struct worker *worker);

/*
 * Read from the hot stream, if there is one. The caller calls worker_streams_receive() next, before
 * any other change of the lane. The worker is locked.
 *
 * The function is inlined, so that few functions are active during the system call. After a system
 * call, a CPU mispredicts the returns of most functions that were entered before it, and each
 * misprediction costs more than the work of such a function.
 */
static inline void worker_streams_read_ahead(struct worker *worker)
{
	struct worker_stream *hot = worker->hot_stream;
	/* Read only if worker_streams_receive() would read from the hot stream. */
	bool is_read = hot && !hot->is_deaf && !hot->is_stalled;
	uint8_t *buffer = is_read ? iwarp_offer_buffer(hot->iwarp) : NULL;

	if (!buffer)
		return;
	worker->ahead_bytes = port_tcp_receive_one(hot->fd, buffer, IWARP_RX_BYTES);
	worker->has_read_ahead = true;
}

/* The timer has expired: check for dead peers. The worker is not locked. */
void worker_streams_look(struct worker *worker);

/* Send all bytes of the streams that can be sent now. The worker is locked. */
void worker_streams_send(struct worker *worker);

#endif
