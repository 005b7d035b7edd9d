/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_REMOTE_REMOTE_CONTROL_H
#define URNIC_FABRICD_REMOTE_REMOTE_CONTROL_H

/*
 * The control connection between two machines of a fabric, over TCP. Nothing blocks.
 *
 * Both ends send 8 bytes "urnicIB\n", REMOTE_VERSION in 4 bytes, and a nonce. Then the joiner
 * proves that it has the key, and after it the listener. So a listener sends no proof to an end
 * without the key. From then on both ends send messages:
 *
 *	tag(8) | bytes of the body(4) | type(4) | number of the message(8) | body
 *
 * The tag is the SipHash of all that follows it, by the sender's key. Messages are numbered from 0,
 * so no message can be left out, repeated or moved.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fabricd/remote/remote_key.h"
#include "fabricd/remote/remote_message.h"

enum {
	REMOTE_HEADER_BYTES = 24,
	REMOTE_IN_BYTES = 2 * (REMOTE_HEADER_BYTES + REMOTE_BODY_BYTES_MAX),
	/* The room for what the peer has yet to take. When it is full, messages are refused. */
	REMOTE_OUT_BYTES = 1 << 23,
	/* How often each end sends REMOTE_ALIVE, and how long a silence ends the connection. */
	REMOTE_ALIVE_NS = 500000000,
	REMOTE_SILENCE_NS = 5000000000,
};

enum remote_control_state {
	REMOTE_CONTROL_GREETING, /* waits for the peer's nonce */
	REMOTE_CONTROL_PROOF, /* waits for the peer's proof */
	REMOTE_CONTROL_OPEN,
};

struct remote_control {
	int fd; /* -1: there is none */
	bool is_joiner;
	enum remote_control_state state;
	const struct remote_key *key;
	struct remote_nonces nonces;
	struct remote_secrets own; /* seal what this end sends */
	struct remote_secrets peer;
	uint64_t sent;
	uint64_t received;
	uint32_t in_first; /* the first byte that no call has taken */
	uint32_t in_end;
	uint8_t in[REMOTE_IN_BYTES];
	uint8_t *out; /* REMOTE_OUT_BYTES */
	uint32_t out_first;
	uint32_t out_end;
};

/*
 * Begin on a TCP socket, which may still be connecting. `fd` becomes the control's, also after a
 * failure; `key` is borrowed until remote_control_done(). Returns 0 or -errno.
 */
int remote_control_init(
	struct remote_control *control, int fd, bool is_joiner, const struct remote_key *key);
void remote_control_done(struct remote_control *control);

/*
 * Send a message. Returns 0; -ENOBUFS: the peer does not take what was sent before; or another
 * -errno.
 */
int remote_control_send(struct remote_control *control, enum remote_message_type type,
	const struct remote_writer *body);
/* Send what waits. Returns 0 or -errno. */
int remote_control_flush(struct remote_control *control);
bool remote_control_is_flushed(const struct remote_control *control);

/*
 * Take the next message. Before the control is open, this shakes hands.
 *
 * Returns 1 and a message, which is valid until the next call; 0: there is none; -ECONNRESET: the
 * peer has closed the connection; -EPROTONOSUPPORT: the peer is another version, or no urnic;
 * -EKEYREJECTED: it has another key; -EBADMSG: a message with a wrong tag, number, length or
 * type 0; or another -errno.
 */
int remote_control_receive(struct remote_control *control, struct remote_message *ret_message);

#endif
