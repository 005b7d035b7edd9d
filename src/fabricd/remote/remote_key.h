/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_REMOTE_REMOTE_KEY_H
#define URNIC_FABRICD_REMOTE_REMOTE_KEY_H

/*
 * The key that two machines share, and what they derive from it.
 *
 * Each end sends a nonce. Then each end proves that it has the key by an HMAC of both nonces and of
 * its role. So the proof of the other role, or of another connection, is of no use. From the same
 * values both ends derive four keys of this connection: one for each direction of the control
 * connection and of the datagrams.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"
#include "fabricd/attach_protocol.h"

enum {
	REMOTE_KEY_BYTES_MIN = 16,
	REMOTE_KEY_BYTES_MAX = 4096,
	REMOTE_NONCE_BYTES = 16,
	REMOTE_PROOF_BYTES = 32, /* of HMAC-SHA-256 */
};

struct remote_key {
	uint8_t bytes[REMOTE_KEY_BYTES_MAX];
	size_t count;
};

/*
 * Read a key file. Line ends at its end do not count. The file is refused if another user than its
 * owner may read or write it.
 *
 * `why`  A sentence after a failure.
 *
 * Returns 0 or -errno.
 */
int remote_key_read(const char *path, struct remote_key *ret_key, char why[ATTACH_TEXT_BYTES]);

struct remote_nonces {
	uint8_t joiner[REMOTE_NONCE_BYTES];
	uint8_t listener[REMOTE_NONCE_BYTES];
};

/* The proof that an end with this role sends. Returns 0 or -ENOMEM. */
int remote_proof(const struct remote_key *key, const struct remote_nonces *nonces, bool is_joiner,
	uint8_t ret_proof[REMOTE_PROOF_BYTES]);
/* Are the proofs equal? The time does not depend on the byte in which they differ. */
bool remote_proof_is(
	const uint8_t proof[REMOTE_PROOF_BYTES], const uint8_t wanted[REMOTE_PROOF_BYTES]);

/* The keys by which the joiner, or the listener, seals what it sends. */
struct remote_secrets {
	struct siphash_key control;
	struct siphash_key datagrams;
};

/* Returns 0 or -ENOMEM. */
int remote_secrets_derive(const struct remote_key *key, const struct remote_nonces *nonces,
	bool is_joiner, struct remote_secrets *ret_secrets);

#endif
