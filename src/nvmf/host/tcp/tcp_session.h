/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's end of one NVMe/TCP connection, without sockets (NVMe/TCP transport 1.0).
 *
 * The caller, tcp_queue.c, has the socket. It sends the bytes that tcp_session_output() returns,
 * and passes received bytes to tcp_session_received(). The session exchanges ICReq and ICResp,
 * sends capsules and the data that R2Ts request, places data that arrives, and calls done() of each
 * command whose response has arrived.
 *
 * The session trusts nothing that the controller sends. Each R2T and each C2HData must belong to a
 * pending command of the right direction, must begin where the previous one has ended, and must
 * stay within the command's data. A success response is refused unless all data of the command was
 * transferred. After a refusal the session is over: `error` and `reason` are set, the output is the
 * TermReq, and pending commands wait for tcp_session_end().
 *
 * A command has at most one outstanding R2T (MAXR2T is 0), so at most one PDU of a command waits to
 * be sent: the capsule, or an H2CData. done() is not called while such a PDU waits, because the PDU
 * reads the command's data.
 *
 * Only tcp_session_init() allocates. One thread uses a session. done() may submit commands.
 */
#ifndef URNIC_NVMF_HOST_TCP_SESSION_H
#define URNIC_NVMF_HOST_TCP_SESSION_H

#include <stddef.h>
#include <sys/uio.h>

#include "nvmf/common/tcp/tcp_rx.h"
#include "nvmf/host/controller/transport.h"

struct tcp_slot;

struct tcp_session {
	/* The caller may read these. */
	bool is_ready; /* the IC exchange is over */
	int error; /* 0 while the session goes on, else -errno, with `reason` */
	char reason[HOST_REASON_BYTES];
	struct tcp_rx rx;

	/* From the settings and ICResp. */
	uint32_t depth;
	uint32_t in_capsule_bytes; /* the most in-capsule data of an I/O command */
	bool is_admin;
	bool wants_header_digest;
	bool wants_data_digest;
	uint32_t h2c_bytes_max; /* MAXH2CDATA */
	struct tcp_options options; /* for the PDUs that this end sends */

	struct tcp_slot *slots; /* an array of `depth` slots */
	struct list free_slots;
	struct list pending; /* commands, in the order of submission */
	struct list output; /* slots that have a PDU to send */
	uint8_t own[TCP_TERM_BYTES_MAX]; /* ICReq, later a TermReq */
	uint32_t own_bytes;
	uint32_t own_sent;
	uint64_t done_count;
};

/* Returns 0 or -ENOMEM. Only depth, qid, sizes and digests of `settings` are used. */
int tcp_session_init(struct tcp_session *session, const struct host_queue_settings *settings);

/* Send a command. `is_ready` is true, and fewer than `depth` commands are pending. */
void tcp_session_submit(struct tcp_session *session, struct host_command *command);

/* Get the bytes to send next, in at most `count_max` parts. Returns the number of parts. */
int tcp_session_output(const struct tcp_session *session, struct iovec *parts, int count_max);

/*
 * The caller has sent the first `bytes` bytes of the output. Calls done() of commands whose
 * response has arrived and whose last PDU is now sent.
 */
void tcp_session_sent(struct tcp_session *session, size_t bytes);

/*
 * Take received bytes. `placed_bytes` is the number of bytes that the caller has read directly to
 * the place of tcp_rx_direct(). The `length` bytes at `bytes` follow them in the stream.
 */
void tcp_session_received(
	struct tcp_session *session, size_t placed_bytes, const void *bytes, size_t length);

/* The caller reports that the connection failed. Only the first error and reason are kept. */
void tcp_session_fail(struct tcp_session *session, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* End all pending commands, in the order of submission, and free the memory of the session. */
void tcp_session_end(struct tcp_session *session);

#endif
