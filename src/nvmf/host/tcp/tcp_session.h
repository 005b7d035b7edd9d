/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's end of one NVMe/TCP connection, without sockets (NVMe/TCP transport 1.0).
 *
 * The caller moves bytes: it sends what tcp_session_output() shows, and feeds what it receives. The
 * session exchanges ICReq and ICResp, sends capsules and the data that R2Ts ask for, places data
 * that arrives, and calls done() of each command whose response has come. tcp_queue.h is the caller
 * with a socket.
 *
 * The session trusts nothing that the controller sends: each R2T and each C2HData must belong to a
 * pending command of that direction, follow the bytes before, and stay within the command's data.
 * A response without all data of a successful command is refused. After a refusal the session is
 * over: `error` and `reason` are set, the output is the TermReq, and pending commands wait for
 * tcp_session_end().
 *
 * One R2T per command is outstanding at most (MAXR2T is 0), so a command has at most one PDU on its
 * way: the capsule, or an H2CData. done() is called only when no PDU that reads the command's data
 * is waiting to be sent.
 *
 * Nothing is allocated after the creation. One thread. done() may submit commands.
 */
#ifndef URNIC_NVMF_HOST_TCP_SESSION_H
#define URNIC_NVMF_HOST_TCP_SESSION_H

#include <stddef.h>
#include <sys/uio.h>

#include "nvmf/common/tcp/tcp_rx.h"
#include "nvmf/host/controller/transport.h"

struct tcp_slot;

struct tcp_session {
	/* For the caller to read. */
	bool is_ready; /* the IC exchange is over */
	int error; /* 0 while the session goes on, else -errno, with `reason` */
	char reason[HOST_REASON_BYTES];
	struct tcp_rx rx;

	/* From the settings and ICResp. */
	uint32_t depth;
	uint32_t in_capsule_bytes; /* of I/O commands */
	bool is_admin;
	bool wants_header_digest;
	bool wants_data_digest;
	uint32_t h2c_bytes_max; /* MAXH2CDATA */
	struct tcp_options options; /* of what this end sends */

	struct tcp_slot *slots; /* `depth` of them */
	struct list free_slots;
	struct list pending; /* of commands, in the order of submission */
	struct list output; /* of slots with a PDU to send */
	uint8_t own[TCP_TERM_BYTES_MAX]; /* ICReq, later a TermReq */
	uint32_t own_bytes;
	uint32_t own_sent;
	uint64_t done_count;
};

/* 0 or -ENOMEM. `settings`: depth, qid, sizes and digests are used. */
int tcp_session_init(struct tcp_session *session, const struct host_queue_settings *settings);

/* The session is ready, and fewer than `depth` commands are pending. */
void tcp_session_submit(struct tcp_session *session, struct host_command *command);

/* Show what is to be sent next, in at most `count_max` parts. Returns the number of parts. */
int tcp_session_output(const struct tcp_session *session, struct iovec *parts, int count_max);

/* So many bytes of the output were sent. Calls done() of commands that waited for that. */
void tcp_session_sent(struct tcp_session *session, size_t bytes);

/*
 * Bytes have arrived. Some of them may be data that the caller has read to the place of
 * tcp_rx_direct(): `placed_bytes` is their number, and `bytes` follow them in the stream.
 */
void tcp_session_received(
	struct tcp_session *session, size_t placed_bytes, const void *bytes, size_t length);

/* The connection failed for a reason of the caller's. The first reason counts. */
void tcp_session_fail(struct tcp_session *session, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* End all pending commands, in the order of submission, and free what init() has allocated. */
void tcp_session_end(struct tcp_session *session);

#endif
