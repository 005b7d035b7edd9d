/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_REQUEST_HANDLERS_H
#define URNIC_URNICD_REQUEST_HANDLERS_H

/*
 * The handlers of requests, for the files that have them: requests.c, requests_sockets.c and
 * requests_claims.c.
 *
 * A handler gets the request and turns it into the answer. It returns 0, a negative errno with a
 * sentence in `why`, or REQUEST_LATER.
 */

#include <stdbool.h>

#include "agent/agent_protocol.h"
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

/* Refuse a request because of a quota. `why` is from quota_is_reached(). */
int request_refuse_quota(struct request *request, const char *why);

/* Clear the message's body, and return the message for the answer. */
struct agent_message *request_answer(struct request *request);

int request_handle_open(struct request *request);
int request_handle_gsi_open(struct request *request);
int request_handle_gsi_address(struct request *request);
int request_handle_claim(struct request *request);
int request_handle_unclaim(struct request *request);

#endif
