/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An NBD server: a listening socket on an event loop, and a session for each client.
 *
 * The server serves up to NBD_CLIENTS_MAX clients at once; others wait in the socket's backlog. It
 * disconnects a client that has not finished its negotiation after NBD_NEGOTIATION_NS. All calls
 * are on the loop's thread.
 */
#ifndef NVMF_HOST_NBD_SERVER_H
#define NVMF_HOST_NBD_SERVER_H

#include "nvmf/common/loop.h"
#include "nvmf/host/nbd/nbd.h"

enum {
	NBD_CLIENTS_MAX = 64,
};

#define NBD_NEGOTIATION_NS 30000000000u

struct nbd_server;

/*
 * Create a listening socket.
 *
 * `address`  The path of a UNIX socket if it has a slash, else HOST:PORT or [HOST]:PORT. Without
 *            HOST, the socket listens on every address of this machine. A UNIX socket on which no
 *            process listens is replaced.
 * `text`     `text_bytes` bytes; on failure a sentence that says why.
 *
 * Returns the descriptor or a negative errno.
 */
int nbd_listen(const char *address, char *text, size_t text_bytes);

/*
 * Serve `export` on the listening socket `fd`. The caller keeps `export` valid while the server
 * exists; on success the server owns `fd`. `ended`, if not NULL, is called with `context` for each
 * session that ends. Returns 0 or -errno.
 */
int nbd_server_create(struct loop *loop, const struct nbd_export *export, int fd,
	void (*ended)(void *context, enum nbd_end end), void *context,
	struct nbd_server **ret_server);

/*
 * Disconnect all clients and free the server; `server` may be NULL. The caller keeps the device
 * until its pending requests are done.
 */
void nbd_server_destroy(struct nbd_server *server);

#endif
