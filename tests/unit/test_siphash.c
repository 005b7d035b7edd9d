/* SPDX-License-Identifier: BSD-2-Clause */
/* SipHash against the example of its paper, and shorter messages of its reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/siphash.h"

/* The key is 00 01 ... 0f, the message 00 01 ... of each length. */
static void siphash_has_the_values_of_its_reference(void **state)
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
		cmocka_unit_test(siphash_has_the_values_of_its_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
