/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One client's connection to an NBD export, without sockets (the NBD protocol, fixed newstyle).
 *
 * The caller has the socket. It reads from the socket into nbd_session_room(), calls
 * nbd_session_received(), and writes the parts of nbd_session_output(). The session checks each
 * byte of the client, and turns NBD requests into requests of a block device. It sends replies in
 * the order in which the device ends the requests.
 *
 * A session serves one export under one name; the empty name means the same export. It supports
 * simple and structured replies, flush, FUA, trim, write zeroes, and block status of
 * "base:allocation", which reports "data" for all blocks. Several clients may use an export at
 * once: a flush covers the writes of all clients.
 *
 * A session keeps at most NBD_REQUESTS_MAX requests and replies. It takes no further request while
 * it has NBD_MEMORY_BYTES_MAX of data. All calls are on the thread of the device.
 */
#ifndef NVMF_HOST_NBD_H
#define NVMF_HOST_NBD_H

#include <stddef.h>
#include <sys/uio.h>

#include "nvmf/host/block/block.h"

enum {
	NBD_NAME_BYTES_MAX = 4096, /* the protocol's limit for an export's name */
	NBD_PAYLOAD_BYTES_MAX = 32 << 20, /* of a read or write: the limit that clients assume */
	NBD_MEMORY_BYTES_MAX = 64 << 20, /* room for two of the largest requests */
	NBD_REQUESTS_MAX = 256, /* pending requests and unsent replies; clients use 1 to 128 */
	NBD_INPUT_BYTES = 64 << 10, /* room for the largest option, or some 16 small writes */
	NBD_OUTPUT_PARTS_MAX = 64, /* parts of one system call */
};

struct nbd_export {
	const char *name; /* at most NBD_NAME_BYTES_MAX bytes, UTF-8 */
	const char *description; /* may be NULL */
	struct block_device *device;
};

/* Why a session ended; a sentence for each is in nbd_end_text(). */
enum nbd_end {
	NBD_GOES_ON,
	NBD_DISCONNECTED, /* the client sent NBD_CMD_DISC; pending requests are still answered */
	NBD_ABORTED, /* the client ended the negotiation, or took too long */
	NBD_BAD_FLAGS, /* the client set flags that the server did not offer */
	NBD_BAD_OPTION, /* an option without the magic number, or one that is too long */
	NBD_NO_SUCH_EXPORT, /* an unknown name in EXPORT_NAME, which has no error reply */
	NBD_BAD_REQUEST, /* a request without the magic number */
	NBD_PAYLOAD_TOO_LONG, /* a write of more than NBD_PAYLOAD_BYTES_MAX */
	NBD_NO_MEMORY,
};

struct nbd_session;

/*
 * Create a session, whose output begins with the server's greeting. The caller keeps `export` valid
 * while the session exists. The session calls `ready` with `context` when the device has ended a
 * request outside of the functions of this header: then there is output, and perhaps room for
 * input. Returns NULL if there is no memory.
 */
struct nbd_session *nbd_session_create(const struct nbd_export *export,
	void (*ready)(struct nbd_session *session, void *context), void *context);

/*
 * Free a session. While the device still has requests of the session, their memory stays.
 * `session` may be NULL.
 */
void nbd_session_destroy(struct nbd_session *session);

/* The place for the client's next bytes. Length 0: the caller sends output before it reads. */
struct iovec nbd_session_room(struct nbd_session *session);

/* The caller has read `bytes` bytes into the room. */
void nbd_session_received(struct nbd_session *session, size_t bytes);

/* Get the bytes to send next, in at most `count_max` parts. Returns the number of parts. */
int nbd_session_output(struct nbd_session *session, struct iovec *parts, int count_max);

/* The caller has sent the first `bytes` bytes of the output. */
void nbd_session_sent(struct nbd_session *session, size_t bytes);

/* Whether the client has finished the negotiation. */
bool nbd_session_is_transmitting(const struct nbd_session *session);

/*
 * Returns NBD_GOES_ON, or why the caller must close the connection now. Returns NBD_DISCONNECTED
 * only after all requests are done and their replies are sent.
 */
enum nbd_end nbd_session_end(const struct nbd_session *session);

const char *nbd_end_text(enum nbd_end end);

#endif
