/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An NBD server: a listening socket on an event loop, and a session per client.
 *
 * It serves up to NBD_CLIENTS_MAX clients at once; others wait in the socket's queue. A client that
 * has not finished its negotiation after NBD_NEGOTIATION_NS is disconnected. All calls are on the
 * loop's thread.
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
 * A listening socket.
 *
 * `address`  The path of a UNIX socket if it has a slash, else HOST:PORT or [HOST]:PORT; no host is
 *            every address of this machine. A UNIX socket that nobody listens on is replaced.
 * `text`     Why it failed, in a sentence; of `text_bytes` bytes.
 *
 * Returns the descriptor or a negative errno.
 */
int nbd_listen(const char *address, char *text, size_t text_bytes);

/*
 * Serve `export`, which outlives the server, on the listening socket `fd`, which the server takes.
 * `ended`, if not NULL, is called with `context` for each client that ends. 0 or -errno.
 */
int nbd_server_create(struct loop *loop, const struct nbd_export *export, int fd,
	void (*ended)(void *context, enum nbd_end end), void *context,
	struct nbd_server **ret_server);

/* Disconnect all clients; NULL is fine. The device is freed only when its requests are done. */
void nbd_server_destroy(struct nbd_server *server);

#endif
