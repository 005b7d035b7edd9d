/* SPDX-License-Identifier: BSD-2-Clause */
#include "ether/rss.h"

#include <assert.h>
#include <string.h>

#include "wire/bytes.h"

/*
 * Start with 0. For each set bit of the input, xor the hash with the 32 bits of the key that begin
 * at the position of that bit.
 */
uint32_t rss_toeplitz(const uint8_t key[RSS_KEY_BYTES], const uint8_t *input, uint32_t count)
{
	uint32_t hash = 0;

	assert(count <= RSS_INPUT_BYTES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t window = (uint64_t)get_be32(key + i) << 8 | key[i + 4];

		for (uint32_t bit = 0; bit < 8; bit++)
			if (input[i] & 0x80 >> bit)
				hash ^= (uint32_t)(window >> (8 - bit));
	}
	return hash;
}

struct input {
	uint8_t bytes[RSS_INPUT_BYTES_MAX];
	uint32_t count;
};

static void input_add(struct input *input, const void *field, uint32_t bytes)
{
	memcpy(input->bytes + input->count, field, bytes);
	input->count += bytes;
}

/* The fields that the hash can use, which are those of the frame's layers. */
static uint32_t fields_of(const struct frame_key *frame)
{
	uint32_t fields = 0;

	if (frame->layers & FRAME_LAYER_IPV4)
		fields |= RSS_SRC_IPV4 | RSS_DST_IPV4;
	if (frame->layers & FRAME_LAYER_IPV6)
		fields |= RSS_SRC_IPV6 | RSS_DST_IPV6;
	if (frame->layers & FRAME_LAYER_TCP)
		fields |= RSS_SRC_PORT_TCP | RSS_DST_PORT_TCP;
	if (frame->layers & FRAME_LAYER_UDP)
		fields |= RSS_SRC_PORT_UDP | RSS_DST_PORT_UDP;
	return fields;
}

uint32_t rss_hash(const uint8_t key[RSS_KEY_BYTES], uint32_t fields, const struct frame_key *frame)
{
	uint32_t address_bytes = frame->layers & FRAME_LAYER_IPV6 ? 16 : 4;
	struct input input = {.count = 0};

	fields &= fields_of(frame);
	if (fields & (RSS_SRC_IPV4 | RSS_SRC_IPV6))
		input_add(&input, frame->src_ip, address_bytes);
	if (fields & (RSS_DST_IPV4 | RSS_DST_IPV6))
		input_add(&input, frame->dst_ip, address_bytes);
	if (fields & (RSS_SRC_PORT_TCP | RSS_SRC_PORT_UDP))
		input_add(&input, &frame->src_port, 2);
	if (fields & (RSS_DST_PORT_TCP | RSS_DST_PORT_UDP))
		input_add(&input, &frame->dst_port, 2);
	return rss_toeplitz(key, input.bytes, input.count);
}
