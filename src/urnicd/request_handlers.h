/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_REQUEST_HANDLERS_H
#define URNIC_URNICD_REQUEST_HANDLERS_H

/*
 * Requests. requests.c reads a client's message and sends the answer; the handlers are in
 * requests.c, requests_sockets.c and requests_claims.c.
 *
 * A handler gets the request and turns it into the answer. The handler returns 0, a negative errno
 * with a sentence in `why`, or REQUEST_LATER.
 */

#include <stdbool.h>

#include "agent/agent_protocol.h"
#include "urnicd/quota.h"
#include "urnicd/server.h"

/* Not a result: the server answers the request after the survivors' time (server_has_waited()). */
enum { REQUEST_LATER = 1 };

struct request {
	struct server *server;
	struct client *client;
	struct agent_message message;
	struct passed_fds descriptors; /* from the client; closed after the handler */
	int answer_fd; /* to pass with the answer, or -1 */
	bool is_answer_fd_ours; /* close it after the answer */
};

/* Store a sentence in `why`. Returns `error`. */
__attribute__((format(printf, 3, 4))) int request_refuse(
	struct request *request, int error, const char *format, ...);

/* Returns 0, or -EDQUOT with a sentence when the client's user has used up this quota. */
int request_check_quota(struct request *request, enum quota what);

/* Returns 0, or -EINVAL with a sentence when the client does not lease the slot. */
int request_check_slot(struct request *request, uint32_t slot);

/* Clear the message's body, and return the message for the answer. */
struct agent_message *request_answer(struct request *request);

/*
 * Read one message of a client and do what it says.
 *
 * Returns false when the connection has ended or must be cut.
 */
bool request_receive(struct server *server, struct client *client);

/* Handle the client's waiting request again. Returns false when the connection must be cut. */
bool request_retry(struct server *server, struct client *client);

#define AGENT_MESSAGE(NAME, name, number, descriptors, sentence) \
	int request_handle_##name(struct request *request);
#include "agent/agent_messages.def"
#undef AGENT_MESSAGE

#endif
