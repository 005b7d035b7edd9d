/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Toeplitz hash against the examples that its authors published for verification.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ether/rss.h"
#include "support/frames.h"

enum {
	IPV4 = RSS_SRC_IPV4 | RSS_DST_IPV4,
	IPV6 = RSS_SRC_IPV6 | RSS_DST_IPV6,
	TCP = RSS_SRC_PORT_TCP | RSS_DST_PORT_TCP,
	UDP = RSS_SRC_PORT_UDP | RSS_DST_PORT_UDP,
};

static const uint8_t key[RSS_KEY_BYTES] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41,
	0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4,
	0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01,
	0xfa};

static uint32_t hash(uint32_t fields, bool is_ipv6, uint8_t protocol)
{
	struct frame frame = frame_ethernet();
	struct frame_key frame_key;

	if (is_ipv6)
		frame_add_ipv6(&frame, protocol);
	else
		frame_add_ipv4(&frame, protocol);
	frame_add_ports(&frame);
	frame_key_read(&frame_key, frame.bytes, frame.count);
	return rss_hash(key, fields, &frame_key);
}

static void rss_hash_is_that_of_the_published_examples(void **state)
{
	(void)state;
	assert_int_equal(hash(IPV4, false, 6), 0x323e8fc2);
	assert_int_equal(hash(IPV4 | TCP, false, 6), 0x51ccc178);
	assert_int_equal(hash(IPV4 | UDP, false, 17), 0x51ccc178);
	assert_int_equal(hash(IPV6, true, 6), 0x2cc18cd5);
	assert_int_equal(hash(IPV6 | TCP, true, 6), 0x40207d3d);
}

static void rss_field_of_a_layer_that_is_not_there_is_left_out(void **state)
{
	(void)state;
	assert_int_equal(hash(RSS_FIELDS_ALL, false, 1), hash(IPV4, false, 1));
	assert_int_equal(hash(IPV4 | TCP, false, 17), hash(IPV4, false, 17));
	assert_int_equal(hash(IPV6, false, 17), 0);
	assert_int_not_equal(hash(RSS_SRC_IPV4, false, 6), hash(RSS_DST_IPV4, false, 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rss_hash_is_that_of_the_published_examples),
		cmocka_unit_test(rss_field_of_a_layer_that_is_not_there_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
