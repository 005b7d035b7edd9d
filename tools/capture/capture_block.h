/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_CAPTURE_BLOCK_H
#define TOOLS_CAPTURE_BLOCK_H

/*
 * Blocks of a capture file that repeat.
 *
 * Packets often repeat one model (wire/captured.h). The output writes the first of them like any
 * packet, and keeps its block of the file. For a later packet of the same length it changes in the
 * block only what differs: the time, the packet from its PSN on, ICRC and UDP checksum. That is
 * much faster than making a new block.
 */

#include <stdbool.h>
#include <stdint.h>

#include "capture/pcapng.h"
#include "wire/captured.h"

/* Longer blocks are not kept: their packets take most of the time to copy and to sum anyway. */
enum { CAPTURE_BLOCK_BYTES_MAX = 512 };

struct capture_block {
	uint32_t count; /* 0: there is no block */
	uint32_t interface; /* index of the block's interface in the file */
	uint32_t packet_bytes; /* as in struct captured */
	uint32_t payload_bytes; /* of the packet, without pad */
	uint32_t payload_there; /* how many of these bytes are captured */
	uint32_t bth_at; /* offset of the BTH */
	bool is_whole; /* the packet is captured as a whole, so it has an ICRC */
	struct captured_seal seal;
	uint8_t bytes[CAPTURE_BLOCK_BYTES_MAX];
};

/* The blocks of a model's packet and of its acknowledgement. All zero: there are none. */
struct capture_blocks {
	struct capture_block packet;
	struct capture_block answer;
};

/*
 * Keep the block of a packet that has just been written, if it is short.
 *
 * `head`    The packet's. Its captured bytes are at the end of packet->bytes, before the ICRC.
 * `tables`  Borrowed by the block.
 */
void capture_block_keep(struct capture_block *block, const struct pcapng_packet *packet,
	const struct captured *head, const struct crc32_tables *tables);

/* A record that repeats a model: as in captured_repeat_make(). */
struct capture_repetition {
	const struct captured_model *model;
	const struct captured_repeat *repeat;
	const uint8_t *payload;
	uint32_t count;
};

/*
 * Change the blocks of a model into those of a repetition. Returns false, and changes nothing, if a
 * block is missing, or is that of a packet of another length.
 */
bool capture_blocks_change(struct capture_blocks *blocks,
	const struct capture_repetition *repetition, uint64_t time_ns);

#endif
