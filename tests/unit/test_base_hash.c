/* SPDX-License-Identifier: BSD-2-Clause */
/* SHA-256, HMAC-SHA-256 and SipHash against the examples of their specifications. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/sha256.h"
#include "base/siphash.h"

static void text_of(const uint8_t digest[SHA256_BYTES], char text[2 * SHA256_BYTES + 1])
{
	for (unsigned i = 0; i < SHA256_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

/* In steps of `step` bytes. */
static void digest_is(const char *message, size_t bytes, size_t step, const char *wanted)
{
	char text[2 * SHA256_BYTES + 1];
	uint8_t digest[SHA256_BYTES];
	struct sha256 hash;

	sha256_init(&hash);
	for (size_t at = 0; at < bytes; at += step)
		sha256_update(&hash, message + at, bytes - at < step ? bytes - at : step);
	sha256_finish(&hash, digest);
	text_of(digest, text);
	assert_string_equal(text, wanted);
}

static void sha256_has_the_digests_of_fips_180(void **state)
{
	static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	static char million[1000000];

	(void)state;
	digest_is("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	for (size_t step = 1; step < sizeof(two_blocks); step++) {
		digest_is("abc", 3, step,
			"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
		digest_is(two_blocks, sizeof(two_blocks) - 1, step,
			"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	}
	memset(million, 'a', sizeof(million));
	digest_is(million, sizeof(million), 997,
		"cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void hmac_is(const void *key, size_t key_bytes, const char *message, const char *wanted)
{
	char text[2 * SHA256_BYTES + 1];
	uint8_t mac[SHA256_BYTES];

	hmac_sha256(key, key_bytes, message, strlen(message), mac);
	text_of(mac, text);
	assert_string_equal(text, wanted);
}

static void hmac_has_the_values_of_rfc_4231(void **state)
{
	uint8_t key[131];

	(void)state;
	memset(key, 0x0b, 20);
	hmac_is(key, 20, "Hi There",
		"b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
	hmac_is("Jefe", 4, "what do ya want for nothing?",
		"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	memset(key, 0xaa, sizeof(key));
	hmac_is(key, sizeof(key), "Test Using Larger Than Block-Size Key - Hash Key First",
		"60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* The key is 00 01 ... 0f, the message 00 01 ... of each length. */
static void siphash_has_the_values_of_its_paper(void **state)
{
	static const uint64_t wanted[] = {0x726fdb47dd0e0e31u, 0x74f839c593dc67fdu,
		0x0d6c8009d9a94f5au, 0x85676696d7fb7e2du, 0xcf2794e0277187b7u, 0x18765564cd99a68du,
		0xcbc9466e58fee3ceu, 0xab0200f58b01d137u, 0x93f5f5799a932462u};
	const struct siphash_key key = {{0x0706050403020100u, 0x0f0e0d0c0b0a0908u}};
	uint8_t message[15];

	(void)state;
	for (uint8_t i = 0; i < sizeof(message); i++)
		message[i] = i;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		assert_true(siphash(&key, message, i) == wanted[i]);
	assert_true(siphash(&key, message, sizeof(message)) == 0xa129ca6149be45e5u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sha256_has_the_digests_of_fips_180),
		cmocka_unit_test(hmac_has_the_values_of_rfc_4231),
		cmocka_unit_test(siphash_has_the_values_of_its_paper),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
