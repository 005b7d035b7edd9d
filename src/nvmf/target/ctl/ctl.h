/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_CTL_H
#define URNIC_NVMF_TARGET_CTL_H

/*
 * The control socket of a target: a UNIX stream socket of which each connection is one command.
 *
 *     client    the words of the command, a NUL after each; then it shuts its half down
 *     server    "ok" or "error", a newline, and a text; then it closes
 *
 * The socket belongs to the user who runs the target, and has mode 0600: the file system decides
 * who may give commands. A client that is slow, or that sends too much, loses its connection.
 *
 * The server calls back on the thread of its loop; it knows nothing of what the words mean.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmf/common/loop.h"

enum {
	CTL_WORDS_MAX = 32,
	CTL_REQUEST_BYTES_MAX = 16384,
	CTL_CLIENTS_MAX = 16, /* at once; further ones wait */
	CTL_SENTENCE_BYTES = 512,
	CTL_CLIENT_SECONDS = 10, /* for its request, and for taking the answer */
};

struct ctl_server;

/* A command that waits for its answer. It may be given later, on the same thread. */
struct ctl_call {
	unsigned word_count; /* 0 to CTL_WORDS_MAX */
	const char *words[CTL_WORDS_MAX];
};

/*
 * Listen on `path`. A socket that a dead target has left there is replaced.
 *
 * `serve`     Gets each command, and calls ctl_answer() once: at once or later.
 * `sentence`  CTL_SENTENCE_BYTES; on failure what is wrong, and what to do.
 *
 * 0 or -errno: -EADDRINUSE if another target listens there.
 */
int ctl_server_create(struct loop *loop, const char *path,
	void (*serve)(void *context, struct ctl_call *call), void *context,
	struct ctl_server **ret_server, char *sentence);

/*
 * Close all connections and remove the socket. The service still answers each pending call with
 * ctl_answer(), which then only frees the call. NULL is fine.
 */
void ctl_server_destroy(struct ctl_server *server);

/* Answer, and release the call. `text` is copied; without memory for it the client gets none. */
void ctl_answer(struct ctl_call *call, bool is_ok, const char *text);

/*
 * The client: give the words to the server at `path`, and wait.
 *
 * `ret_text`  The answer, which the caller frees: also the sentence of a failure.
 *
 * 0 after "ok", -EPROTO after "error", or -errno if there was no answer: -EPERM if the server is
 * neither this user's nor root's, unless this user is root.
 */
int ctl_call(const char *path, unsigned word_count, const char *const *words, char **ret_text);

#endif
