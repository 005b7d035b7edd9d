/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One client's connection to an NBD export, without sockets (the NBD protocol, fixed newstyle).
 *
 * The caller moves bytes: it reads from its socket into nbd_session_room(), says how many there
 * are, and writes what nbd_session_output() shows. The session checks each byte of the client, and
 * turns requests into requests of a block device. Replies leave in the order in which the device
 * does the requests.
 *
 * A session serves one export under one name; the empty name is the same export. It speaks simple
 * and structured replies, flush, FUA, trim, write zeroes, and block status of "base:allocation",
 * which says "data" everywhere. Several clients may use an export at once: a flush is for all.
 *
 * A session keeps at most NBD_REQUESTS_MAX requests and replies, and stops reading above
 * NBD_MEMORY_BYTES_MAX of data. All calls are on the thread of the device.
 */
#ifndef NVMF_HOST_NBD_H
#define NVMF_HOST_NBD_H

#include <stddef.h>
#include <sys/uio.h>

#include "nvmf/host/block/block.h"

enum {
	NBD_NAME_BYTES_MAX = 4096, /* of an export; the protocol's own limit */
	NBD_PAYLOAD_BYTES_MAX = 32 << 20, /* of one read or write; what clients take for granted */
	NBD_MEMORY_BYTES_MAX = 64 << 20, /* two of the largest requests */
	NBD_REQUESTS_MAX = 256, /* in work or not yet sent; clients use 1 to 128 */
	NBD_INPUT_BYTES = 64 << 10, /* the largest option fits, and some 16 small writes */
	NBD_OUTPUT_PARTS_MAX = 64, /* what one writev() takes */
};

struct nbd_export {
	const char *name; /* at most NBD_NAME_BYTES_MAX bytes, UTF-8 */
	const char *description; /* may be NULL */
	struct block_device *device;
};

/* Why a session ended; a sentence for each is in nbd_end_text(). */
enum nbd_end {
	NBD_GOES_ON,
	NBD_DISCONNECTED, /* the client said so; what is pending is still answered */
	NBD_ABORTED, /* the client ended the negotiation */
	NBD_BAD_FLAGS, /* client flags that the server did not offer */
	NBD_BAD_OPTION, /* no option's magic number, or one that is too long */
	NBD_NO_SUCH_EXPORT, /* the old option, which has no error reply, with another name */
	NBD_BAD_REQUEST, /* no request's magic number */
	NBD_PAYLOAD_TOO_LONG, /* a write above NBD_PAYLOAD_BYTES_MAX */
	NBD_NO_MEMORY,
};

struct nbd_session;

/*
 * Create a session, whose output begins with its greeting. `export` stays the caller's and outlives
 * it. The session calls `ready` with `context` when a request is done outside of a call of this
 * header: there is output, or room. Returns NULL when out of memory.
 */
struct nbd_session *nbd_session_create(const struct nbd_export *export,
	void (*ready)(struct nbd_session *session, void *context), void *context);

/* End it; NULL is fine. Requests that the device still has are freed when they are done. */
void nbd_session_destroy(struct nbd_session *session);

/* Where the next bytes of the client go. No room: do not read before output was sent. */
struct iovec nbd_session_room(struct nbd_session *session);

/* So many bytes, at most the room's, are there now. */
void nbd_session_received(struct nbd_session *session, size_t bytes);

/* Show what is to be sent next, in at most `count_max` parts. Returns the number of parts. */
int nbd_session_output(struct nbd_session *session, struct iovec *parts, int count_max);

/* So many bytes of the output were sent. */
void nbd_session_sent(struct nbd_session *session, size_t bytes);

/* Has the client finished the negotiation? */
bool nbd_session_is_transmitting(const struct nbd_session *session);

/*
 * NBD_GOES_ON, or why the caller closes the connection now. NBD_DISCONNECTED is not returned before
 * all requests are done and their replies sent.
 */
enum nbd_end nbd_session_end(const struct nbd_session *session);

const char *nbd_end_text(enum nbd_end end);

#endif
