/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A namespace that this process serves: as an NBD socket, as a file (FUSE), or both. The session
 * with the namespace is the caller's and outlives it. All calls are on the loop's thread.
 */
#ifndef TOOLS_NVMF_SERVED_H
#define TOOLS_NVMF_SERVED_H

#include "fuse_file.h"
#include "nvmf.h"
#include "nvmf/host/nbd/nbd_server.h"

struct served_settings {
	unsigned number; /* of the export, within the process: for list */
	const char *nbd; /* a path or HOST:PORT; NULL: no NBD */
	const char *fuse; /* a path; NULL: no file */
	const char *name; /* of the NBD export */
	const char *subnqn;
	bool is_read_only;
	/* The file is no longer mounted, on request or from outside. */
	void (*unmounted)(void *context);
	void *context;
};

struct served {
	struct served_settings settings; /* its texts are the caller's */
	struct nbd_export export;
	struct nbd_server *server;
	struct fuse_file *file; /* NULL: none */
	bool is_listed;
};

/*
 * Serve the session's namespace, and print a line: "nbd SOCKET", "fuse FILE", or both. Returns 0,
 * or 1 after a sentence on standard error, with nothing left behind.
 */
int served_open(struct served *served, const struct session *session,
	const struct served_settings *settings);

/* Disconnect all clients, and unmount. Fine if it is not open. */
void served_close(struct served *served);

/* Signals that end a process that serves. */
struct ending {
	struct loop_watch watch;
	void (*ended)(struct ending *ending);
};

/* Call ended() at SIGINT and SIGTERM. 0, or 1 after a sentence on standard error. */
int ending_watch(struct ending *ending, struct loop *loop, void (*ended)(struct ending *ending));
void ending_unwatch(struct ending *ending, struct loop *loop);

#endif
