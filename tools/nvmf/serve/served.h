/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A namespace that this process serves as an NBD socket, as a file (FUSE), or both. The caller owns
 * the session with the namespace, and closes it after served_close(). All calls are on the thread
 * of the session's loop.
 */
#ifndef TOOLS_NVMF_SERVED_H
#define TOOLS_NVMF_SERVED_H

#include "nvmf/host/nbd/nbd_server.h"
#include "nvmf/nvmf.h"
#include "nvmf/serve/fuse_file.h"

struct served_settings {
	unsigned number; /* number of the export, unique in the process (exports.h) */
	const char *nbd; /* the socket, a path or HOST:PORT; NULL: no NBD */
	const char *fuse; /* path of the file; NULL: no file */
	const char *name; /* the name of the NBD export */
	const char *subnqn;
	/*
	 * Called when the file is no longer mounted, whether this process or another one has
	 * unmounted it.
	 */
	void (*unmounted)(void *context);
	void *context;
};

struct served {
	/* The caller keeps its strings valid until served_close(). */
	struct served_settings settings;
	struct nbd_export export;
	struct nbd_server *server;
	struct fuse_file *file; /* NULL: none */
	bool is_listed;
	int list_fd; /* the descriptor that exports_add() returned, if is_listed */
};

/*
 * Serve the session's namespace, and print a line: "nbd SOCKET", "fuse FILE", or both. Returns 0,
 * or 1 after a sentence on standard error. After a failure nothing is served.
 */
int served_open(struct served *served, const struct session *session,
	const struct served_settings *settings);

/*
 * Disconnect all NBD clients, and take no more requests of the file. Does nothing if `served` is
 * not open.
 */
void served_stop(struct served *served);

/*
 * Call served_stop(), and unmount the file. Does nothing if `served` is not open. Requests of the
 * file may be pending, so the caller closes the session first.
 */
void served_close(struct served *served);

/* A watch for SIGINT and SIGTERM, by which a serving process is asked to end. */
struct ending {
	struct loop_watch watch;
	void (*ended)(struct ending *ending);
};

/*
 * Block SIGINT and SIGTERM, and let the loop call ended() when one of them arrives. Returns 0, or 1
 * after a sentence on standard error.
 */
int ending_watch(struct ending *ending, struct loop *loop, void (*ended)(struct ending *ending));
void ending_unwatch(struct ending *ending, struct loop *loop);

#endif
