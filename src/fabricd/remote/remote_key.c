/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabricd/remote/remote_key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/bytes.h"

enum {
	LABEL_BYTES = 16,
	OTHERS = S_IRWXG | S_IRWXO,
};

/* Returns the number of bytes, or -errno; -EPERM: other users may read it. */
static ssize_t key_file_read(int fd, uint8_t bytes[REMOTE_KEY_BYTES_MAX])
{
	struct stat status;
	ssize_t count;

	if (fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	if (status.st_mode & OTHERS)
		return -EPERM;
	if (status.st_size > REMOTE_KEY_BYTES_MAX)
		return -EFBIG;
	count = read(fd, bytes, REMOTE_KEY_BYTES_MAX);
	return count < 0 ? -errno : count;
}

static void refusal_print(char why[ATTACH_TEXT_BYTES], const char *path, ssize_t result)
{
	if (result == -EPERM)
		snprintf(why, ATTACH_TEXT_BYTES,
			"%s: other users may read or write this key; chmod 600 keeps it to you",
			path);
	else if (result >= 0)
		snprintf(why, ATTACH_TEXT_BYTES,
			"%s: a key has %d bytes or more, and this one has %zd", path,
			REMOTE_KEY_BYTES_MIN, result);
	else if (result == -EINVAL || result == -EFBIG)
		snprintf(why, ATTACH_TEXT_BYTES, "%s: a key is a regular file of %d to %d bytes",
			path, REMOTE_KEY_BYTES_MIN, REMOTE_KEY_BYTES_MAX);
	else
		snprintf(why, ATTACH_TEXT_BYTES, "%s: %s", path, strerror((int)-result));
}

int remote_key_read(const char *path, struct remote_key *ret_key, char why[ATTACH_TEXT_BYTES])
{
	/* O_NONBLOCK, because the path may name a FIFO. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t count = fd < 0 ? -errno : key_file_read(fd, ret_key->bytes);

	if (fd >= 0)
		close(fd);
	while (count > 0 &&
		(ret_key->bytes[count - 1] == '\n' || ret_key->bytes[count - 1] == '\r'))
		count--;
	if (count < REMOTE_KEY_BYTES_MIN) {
		refusal_print(why, path, count);
		return count < 0 ? (int)count : -EINVAL;
	}
	ret_key->count = (size_t)count;
	return 0;
}

/* `label` says what the value is for. Returns 0 or -ENOMEM. */
static int value_derive(const struct remote_key *key, const struct remote_nonces *nonces,
	const char *label, uint8_t ret_value[REMOTE_PROOF_BYTES])
{
	uint8_t message[LABEL_BYTES + sizeof(*nonces)] = {0};

	memcpy(message, label, strnlen(label, LABEL_BYTES));
	memcpy(message + LABEL_BYTES, nonces, sizeof(*nonces));
	return HMAC(EVP_sha256(), key->bytes, (int)key->count, message, sizeof(message), ret_value,
		       NULL)
		? 0
		: -ENOMEM;
}

int remote_proof(const struct remote_key *key, const struct remote_nonces *nonces, bool is_joiner,
	uint8_t ret_proof[REMOTE_PROOF_BYTES])
{
	return value_derive(key, nonces, is_joiner ? "joiner" : "listener", ret_proof);
}

bool remote_proof_is(
	const uint8_t proof[REMOTE_PROOF_BYTES], const uint8_t wanted[REMOTE_PROOF_BYTES])
{
	return CRYPTO_memcmp(proof, wanted, REMOTE_PROOF_BYTES) == 0;
}

int remote_secrets_derive(const struct remote_key *key, const struct remote_nonces *nonces,
	bool is_joiner, struct remote_secrets *ret_secrets)
{
	uint8_t value[REMOTE_PROOF_BYTES];
	int rc =
		value_derive(key, nonces, is_joiner ? "keys of joiner" : "keys of listener", value);

	if (rc)
		return rc;
	for (unsigned i = 0; i < 2; i++) {
		ret_secrets->control.words[i] = get_be64(value + 8 * i);
		ret_secrets->datagrams.words[i] = get_be64(value + 16 + 8 * i);
	}
	return 0;
}
