/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabricd/remote/remote_control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/bytes.h"

enum {
	MAGIC_BYTES = 8,
	GREETING_BYTES = MAGIC_BYTES + 4 + REMOTE_NONCE_BYTES,
	TAG_BYTES = 8,
	AT_BYTES = 8,
	AT_TYPE = 12,
	AT_NUMBER = 16,
};

static const uint8_t magic[MAGIC_BYTES] = "urnicIB\n";

/* --- sending --- */

static uint8_t *own_nonce(struct remote_control *control)
{
	return control->is_joiner ? control->nonces.joiner : control->nonces.listener;
}

static uint8_t *peer_nonce(struct remote_control *control)
{
	return control->is_joiner ? control->nonces.listener : control->nonces.joiner;
}

/* Room for `bytes` behind the bytes that wait to be sent; NULL: there is none. */
static uint8_t *out_reserve(struct remote_control *control, uint32_t bytes)
{
	uint8_t *to;

	if (REMOTE_OUT_BYTES - control->out_end < bytes) {
		memmove(control->out, control->out + control->out_first,
			control->out_end - control->out_first);
		control->out_end -= control->out_first;
		control->out_first = 0;
	}
	if (REMOTE_OUT_BYTES - control->out_end < bytes)
		return NULL;
	to = control->out + control->out_end;
	control->out_end += bytes;
	return to;
}

bool remote_control_is_flushed(const struct remote_control *control)
{
	return control->out_first == control->out_end;
}

int remote_control_flush(struct remote_control *control)
{
	while (!remote_control_is_flushed(control)) {
		const ssize_t sent = send(control->fd, control->out + control->out_first,
			control->out_end - control->out_first, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		control->out_first += (uint32_t)sent;
	}
	control->out_first = control->out_end = 0;
	return 0;
}

int remote_control_send(struct remote_control *control, enum remote_message_type type,
	const struct remote_writer *body)
{
	const uint32_t bytes = body ? body->bytes : 0;
	uint8_t *to;

	if (control->state != REMOTE_CONTROL_OPEN)
		return -ENOTCONN;
	to = out_reserve(control, REMOTE_HEADER_BYTES + bytes);
	if (!to)
		return -ENOBUFS;
	put_be32(to + AT_BYTES, bytes);
	put_be32(to + AT_TYPE, type);
	put_be64(to + AT_NUMBER, control->sent++);
	if (bytes)
		memcpy(to + REMOTE_HEADER_BYTES, body->body, bytes);
	put_be64(to,
		siphash(&control->own.control, to + TAG_BYTES,
			REMOTE_HEADER_BYTES - TAG_BYTES + bytes));
	return remote_control_flush(control);
}

/* --- shaking hands --- */

static int greeting_send(struct remote_control *control)
{
	uint8_t *to = out_reserve(control, GREETING_BYTES);

	if (getrandom(own_nonce(control), REMOTE_NONCE_BYTES, 0) != REMOTE_NONCE_BYTES)
		return -EIO;
	memcpy(to, magic, MAGIC_BYTES);
	put_be32(to + MAGIC_BYTES, REMOTE_VERSION);
	memcpy(to + MAGIC_BYTES + 4, own_nonce(control), REMOTE_NONCE_BYTES);
	return remote_control_flush(control);
}

static int proof_send(struct remote_control *control)
{
	uint8_t *to = out_reserve(control, REMOTE_PROOF_BYTES);
	int rc = remote_proof(control->key, &control->nonces, control->is_joiner, to);

	return rc ? rc : remote_control_flush(control);
}

static int greeting_take(struct remote_control *control, const uint8_t *from)
{
	if (memcmp(from, magic, MAGIC_BYTES) != 0 || get_be32(from + MAGIC_BYTES) != REMOTE_VERSION)
		return -EPROTONOSUPPORT;
	memcpy(peer_nonce(control), from + MAGIC_BYTES + 4, REMOTE_NONCE_BYTES);
	control->state = REMOTE_CONTROL_PROOF;
	return control->is_joiner ? proof_send(control) : 0;
}

static int proof_take(struct remote_control *control, const uint8_t *from)
{
	uint8_t wanted[REMOTE_PROOF_BYTES];
	int rc = remote_proof(control->key, &control->nonces, !control->is_joiner, wanted);

	if (rc)
		return rc;
	if (!remote_proof_is(from, wanted))
		return -EKEYREJECTED;
	rc = remote_secrets_derive(
		control->key, &control->nonces, control->is_joiner, &control->own);
	if (rc == 0)
		rc = remote_secrets_derive(
			control->key, &control->nonces, !control->is_joiner, &control->peer);
	if (rc)
		return rc;
	control->state = REMOTE_CONTROL_OPEN;
	return control->is_joiner ? 0 : proof_send(control);
}

/* --- receiving --- */

/* Returns 1: some bytes came; 0: there are none; or -errno. */
static int bytes_receive(struct remote_control *control)
{
	ssize_t got;

	memmove(control->in, control->in + control->in_first, control->in_end - control->in_first);
	control->in_end -= control->in_first;
	control->in_first = 0;
	got = recv(control->fd, control->in + control->in_end,
		sizeof(control->in) - control->in_end, MSG_DONTWAIT);
	if (got == 0)
		return -ECONNRESET;
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	control->in_end += (uint32_t)got;
	return 1;
}

/* The next `bytes` bytes; NULL: they have not all come. */
static const uint8_t *in_take(struct remote_control *control, uint32_t bytes)
{
	const uint8_t *from = control->in + control->in_first;

	if (control->in_end - control->in_first < bytes)
		return NULL;
	control->in_first += bytes;
	return from;
}

static int message_take(struct remote_control *control, struct remote_message *ret_message)
{
	const uint32_t waiting = control->in_end - control->in_first;
	const uint8_t *from = control->in + control->in_first;
	uint32_t bytes;

	if (waiting < REMOTE_HEADER_BYTES)
		return 0;
	bytes = get_be32(from + AT_BYTES);
	if (bytes > REMOTE_BODY_BYTES_MAX)
		return -EBADMSG;
	if (waiting - REMOTE_HEADER_BYTES < bytes)
		return 0;
	if (get_be64(from) !=
			siphash(&control->peer.control, from + TAG_BYTES,
				REMOTE_HEADER_BYTES - TAG_BYTES + bytes) ||
		get_be64(from + AT_NUMBER) != control->received)
		return -EBADMSG;
	/* remote_control_receive() takes type 0 for "no message yet", and would go on receiving. */
	if (get_be32(from + AT_TYPE) == 0)
		return -EBADMSG;
	control->received++;
	control->in_first += REMOTE_HEADER_BYTES + bytes;
	*ret_message = (struct remote_message){.type = get_be32(from + AT_TYPE),
		.bytes = bytes,
		.body = from + REMOTE_HEADER_BYTES};
	return 1;
}

/* Returns 1: a step was made, or a message taken; 0: more bytes have to come; or -errno. */
static int step_make(struct remote_control *control, struct remote_message *ret_message)
{
	const uint8_t *from;
	int rc;

	switch (control->state) {
	case REMOTE_CONTROL_GREETING:
		from = in_take(control, GREETING_BYTES);
		rc = from ? greeting_take(control, from) : 0;
		return rc ? rc : from != NULL;
	case REMOTE_CONTROL_PROOF:
		from = in_take(control, REMOTE_PROOF_BYTES);
		rc = from ? proof_take(control, from) : 0;
		return rc ? rc : from != NULL;
	case REMOTE_CONTROL_OPEN:
		break;
	}
	return message_take(control, ret_message);
}

int remote_control_receive(struct remote_control *control, struct remote_message *ret_message)
{
	int rc;

	ret_message->type = 0;
	for (;;) {
		rc = step_make(control, ret_message);
		if (rc < 0 || ret_message->type)
			return rc;
		if (rc == 0)
			rc = bytes_receive(control);
		if (rc <= 0)
			return rc;
	}
}

/* --- its life --- */

int remote_control_init(
	struct remote_control *control, int fd, bool is_joiner, const struct remote_key *key)
{
	int rc;

	control->fd = fd;
	control->is_joiner = is_joiner;
	control->state = REMOTE_CONTROL_GREETING;
	control->key = key;
	control->sent = control->received = 0;
	control->in_first = control->in_end = control->out_first = control->out_end = 0;
	control->out = malloc(REMOTE_OUT_BYTES);
	rc = control->out ? greeting_send(control) : -ENOMEM;
	if (rc)
		remote_control_done(control);
	return rc;
}

void remote_control_done(struct remote_control *control)
{
	if (control->fd >= 0)
		close(control->fd);
	control->fd = -1;
	free(control->out);
	control->out = NULL;
}
