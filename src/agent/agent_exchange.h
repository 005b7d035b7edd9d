/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_AGENT_EXCHANGE_H
#define URNIC_AGENT_AGENT_EXCHANGE_H

/*
 * A request to urnicd and its answer, for the files of the client. agent_client.c owns the
 * connection and its resumption; agent_requests.c and agent_claims.c make requests.
 *
 * A request has a sequence number, which its answer repeats. An answer that arrives after its
 * request has timed out is dropped; a slot in it goes back to urnicd. urnicd also forwards packets
 * on this connection (AGENT_FORWARD). Packets that arrive while a request waits are dropped, which
 * is permitted because any network may drop a packet.
 */

#include "agent/agent_client.h"

enum {
	/* If more messages than this precede an answer, the connection counts as broken. */
	ANSWER_MESSAGES_MAX = 4096,
};

/* Store a sentence in `why`. Returns `error`. */
__attribute__((format(printf, 3, 4))) int agent_client_fail(
	struct agent_client *client, int error, const char *format, ...);

/* Call these around a wait: they release the caller's lock, and take it again. */
void agent_pause_begin(const struct agent_client *client);
void agent_pause_end(const struct agent_client *client);

/*
 * Wait until `fd` has one of the poll `events`, or until `until_ns`. The caller's lock is released
 * meanwhile.
 *
 * `fd`  The connection, or -1 to wait for the time alone.
 *
 * Returns false when `until_ns` had passed already.
 */
bool agent_wait_for(const struct agent_client *client, int fd, short events, uint64_t until_ns);

/* Send a message without waiting for its answer. A full or dead connection loses the message. */
void agent_send_only(struct agent_client *client, struct agent_message *message);

/* Handle the answer to a request that timed out: a slot in it goes back to urnicd. */
void agent_late_answer(struct agent_client *client, const struct agent_message *answer);

/*
 * Send a request on the present connection and wait for its answer.
 *
 * `message`      The request; on success, the answer.
 * `fds`          Descriptors to pass; they stay the caller's.
 * `descriptors`  On success, the descriptors that came with the answer; the caller closes them.
 *
 * Returns 0; -ECONNRESET when urnicd has died; -ETIMEDOUT; or the -errno that urnicd answered.
 */
int agent_exchange(struct agent_client *client, struct agent_message *message, const int *fds,
	uint32_t fd_count, struct passed_fds *descriptors);

/*
 * agent_exchange(), but when urnicd has died, resume at the next urnicd and send the request once
 * more.
 */
int agent_exchange_or_resume(struct agent_client *client, struct agent_message *message,
	const int *fds, uint32_t fd_count, struct passed_fds *descriptors);

/* agent_exchange_or_resume() for a request whose answer has no descriptor of interest. */
int agent_request(struct agent_client *client, struct agent_message *message, const int *fds,
	uint32_t fd_count);

/*
 * Return a resource to urnicd. Waits for the answer for at most AGENT_GIVE_BACK_MS, and not at all
 * while urnicd is silent.
 */
void agent_give_back(struct agent_client *client, struct agent_message *message);

/* Make all claims again, at a new urnicd (agent_claims.c). Returns 0, -ECONNRESET or -ETIMEDOUT. */
int agent_claims_repeat(struct agent_client *client);

#endif
