/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_CTL_H
#define URNIC_NVMF_TARGET_CTL_H

/*
 * The control socket of a target: a UNIX stream socket. Each connection carries one command:
 *
 *     client    sends the words of the command, each with a NUL; then calls shutdown(SHUT_WR)
 *     server    sends "ok" or "error", a newline, and a text; then closes the connection
 *
 * The socket belongs to the user who runs the target, and has mode 0600, so only this user and root
 * can send commands. The server closes the connection of a client that is slow or sends too much.
 *
 * The server calls `serve` on the thread of its loop. It does not interpret the words.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmf/common/loop.h"

enum {
	CTL_WORDS_MAX = 32,
	CTL_REQUEST_BYTES_MAX = 16384,
	CTL_CLIENTS_MAX = 16, /* served at once; further clients wait in the backlog */
	CTL_SENTENCE_BYTES = 512,
	CTL_CLIENT_SECONDS = 10, /* to send the request, and again to receive the answer */
};

struct ctl_server;

/* A command that waits for ctl_answer(), which may be called later, on the same thread. */
struct ctl_call {
	unsigned word_count; /* 0 to CTL_WORDS_MAX */
	const char *words[CTL_WORDS_MAX];
};

/*
 * Listen on `path`. A socket on which no process listens any more is replaced.
 *
 * `serve`     Is called for each command, and calls ctl_answer() once for it, immediately or later.
 * `sentence`  CTL_SENTENCE_BYTES bytes; on failure what is wrong, and what to do.
 *
 * Returns 0 or -errno; -EADDRINUSE if another target listens there.
 */
int ctl_server_create(struct loop *loop, const char *path,
	void (*serve)(void *context, struct ctl_call *call), void *context,
	struct ctl_server **ret_server, char *sentence);

/*
 * Close all connections and remove the socket. The caller still calls ctl_answer() for each pending
 * call; ctl_answer() then only frees the call. `server` may be NULL.
 */
void ctl_server_destroy(struct ctl_server *server);

/*
 * Send the answer, and free the call. `text` is copied; if there is no memory, no answer is sent.
 */
void ctl_answer(struct ctl_call *call, bool is_ok, const char *text);

/*
 * The client: send the words to the server at `path`, and wait for the answer.
 *
 * `ret_text`  The text of the answer, or a sentence that says why there is none. The caller frees
 *             it. NULL: no memory.
 *
 * Returns 0 after "ok", -EPROTO after "error", or another -errno if there was no answer: -EPERM,
 * for example, if the server runs as a user other than this user and root. Root may use any server.
 */
int ctl_call(const char *path, unsigned word_count, const char *const *words, char **ret_text);

#endif
