/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <endian.h>
#include <stdlib.h>

#include "support/frames.h"
#include "wire/frame.h"

static struct frame_key key_of(const struct frame *frame)
{
	struct frame_key key;

	frame_key_read(&key, frame->bytes, frame->count);
	return key;
}

static void frame_with_ipv4_and_udp_has_all_fields(void **state)
{
	struct frame frame = frame_ethernet();

	(void)state;
	frame_add_ipv4(&frame, 17);
	frame_add_ports(&frame);
	struct frame_key key = key_of(&frame);
	assert_int_equal(key.dst_mac[5], 0x0d);
	assert_int_equal(key.src_mac[5], 0x05);
	assert_int_equal(be16toh(key.ether_type), 0x0800);
	assert_int_equal(key.layers, FRAME_LAYER_IPV4 | FRAME_LAYER_UDP);
	assert_int_equal(key.traffic_class, 0x1c);
	assert_int_equal(key.hop_limit, 61);
	assert_int_equal(key.ip_protocol, 17);
	assert_int_equal(key.src_ip[0], 66);
	assert_int_equal(key.dst_ip[3], 80);
	assert_int_equal(be16toh(key.src_port), 2794);
	assert_int_equal(be16toh(key.dst_port), 1766);
}

static void frame_with_ipv6_and_tcp_has_all_fields(void **state)
{
	struct frame frame = frame_ethernet();

	(void)state;
	frame_add_ipv6(&frame, 6);
	frame_add_ports(&frame);
	struct frame_key key = key_of(&frame);
	assert_int_equal(key.layers, FRAME_LAYER_IPV6 | FRAME_LAYER_TCP);
	assert_int_equal(key.traffic_class, 0x1c);
	assert_int_equal(be32toh(key.flow_label), 0xabcde);
	assert_int_equal(key.hop_limit, 33);
	assert_int_equal(key.src_ip[15], 7);
	assert_int_equal(key.dst_ip[15], 1);
	assert_int_equal(be16toh(key.dst_port), 1766);
}

static void frame_with_vlan_tags_shows_the_first_and_the_last_type(void **state)
{
	struct frame frame = frame_ethernet();

	(void)state;
	FRAME_ADD(&frame, 0x88, 0xa8, 0xa0, 0x0c, 0x81, 0x00, 0x00, 0x07);
	frame_add_ipv4(&frame, 17);
	frame_add_ports(&frame);
	struct frame_key key = key_of(&frame);
	assert_int_equal(be16toh(key.vlan_tag), 0xa00c);
	assert_int_equal(be16toh(key.ether_type), 0x0800);
	assert_int_equal(key.layers, FRAME_LAYER_VLAN | FRAME_LAYER_IPV4 | FRAME_LAYER_UDP);
}

static void frame_of_a_later_fragment_has_no_ports(void **state)
{
	struct frame frame = frame_ethernet();

	(void)state;
	frame_add_ipv4(&frame, 17);
	frame_add_ports(&frame);
	frame.bytes[14 + 7] = 3;
	assert_int_equal(key_of(&frame).layers, FRAME_LAYER_IPV4);
}

static void frame_with_ip_options_finds_the_ports_behind_them(void **state)
{
	struct frame frame = frame_ethernet();

	(void)state;
	frame_add_ipv4(&frame, 6);
	frame.bytes[14] = 0x46;
	FRAME_ADD(&frame, 1, 1, 1, 0);
	frame_add_ports(&frame);
	assert_int_equal(be16toh(key_of(&frame).src_port), 2794);
}

/* Each cut lies in memory of exactly its length, for the sanitizers to watch. */
static void frame_cut_anywhere_has_fewer_layers(void **state)
{
	(void)state;
	for (int is_ipv6 = 0; is_ipv6 < 2; is_ipv6++) {
		struct frame frame = frame_ethernet();
		uint32_t layers = 0;

		FRAME_ADD(&frame, 0x81, 0x00, 0x00, 0x07);
		if (is_ipv6)
			frame_add_ipv6(&frame, 6);
		else
			frame_add_ipv4(&frame, 6);
		frame_add_ports(&frame);
		for (uint32_t count = 0; count <= frame.count; count++) {
			uint8_t *cut = malloc(count ? count : 1);
			struct frame_key key;

			assert_non_null(cut);
			memcpy(cut, frame.bytes, count);
			frame_key_read(&key, cut, count);
			assert_int_equal(key.layers & layers, layers);
			layers = key.layers;
			free(cut);
		}
		assert_int_equal(layers,
			FRAME_LAYER_VLAN | FRAME_LAYER_TCP |
				(is_ipv6 ? FRAME_LAYER_IPV6 : FRAME_LAYER_IPV4));
	}
}

static void frame_with_a_wrong_ip_version_has_no_ip_layer(void **state)
{
	struct frame frame = frame_ethernet();

	(void)state;
	frame_add_ipv4(&frame, 17);
	frame_add_ports(&frame);
	frame.bytes[14] = 0x65;
	assert_int_equal(key_of(&frame).layers, 0);
	frame.bytes[14] = 0x44; /* a header shorter than a header */
	assert_int_equal(key_of(&frame).layers, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frame_with_ipv4_and_udp_has_all_fields),
		cmocka_unit_test(frame_with_ipv6_and_tcp_has_all_fields),
		cmocka_unit_test(frame_with_vlan_tags_shows_the_first_and_the_last_type),
		cmocka_unit_test(frame_of_a_later_fragment_has_no_ports),
		cmocka_unit_test(frame_with_ip_options_finds_the_ports_behind_them),
		cmocka_unit_test(frame_cut_anywhere_has_fewer_layers),
		cmocka_unit_test(frame_with_a_wrong_ip_version_has_no_ip_layer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
