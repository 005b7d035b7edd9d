/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_PAIR_FRAMES_H
#define TOOLS_PAIR_FRAMES_H

/*
 * The frames of an interface, in memory that the kernel shares with a packet socket (TPACKET_V3).
 *
 * The memory is a ring of blocks. The kernel fills a block with frames. It hands the block over
 * when the block is full, or PAIR_FRAMES_WAIT_MS to twice that time after its first frame. So the
 * kernel wakes the reader once for many frames, and the reader takes a frame without a system call.
 * While the kernel has no block, it drops frames and counts them. A block with few frames takes as
 * much room as a full one. So the ring has many blocks, enough for a reader that is seconds late.
 *
 * Threads: one.
 */

#include <stdbool.h>
#include <stdint.h>

enum {
	PAIR_FRAMES_WAIT_MS = 20,
	PAIR_FRAMES_BLOCK_BYTES = 1 << 17, /* has room for the longest super-packet */
};

struct pair_frames {
	int fd; /* readable while the kernel has handed over a block */
	bool knows_segments; /* a struct virtio_net_hdr precedes each frame */
	uint8_t *blocks;
	uint32_t block_count;
	uint32_t block; /* index of the block that is being read, or is to be read next */
	bool has_block; /* the kernel has handed that block over */
	uint32_t left; /* frames of the block that have not been read */
	const uint8_t *at; /* the first of these, if there are any */
};

struct pair_frame {
	uint64_t time_ns; /* since 1970 */
	const uint8_t *bytes; /* from the Ethernet header on */
	uint32_t count; /* length of `bytes` */
	uint32_t whole; /* length of the frame */
	uint32_t segment_bytes; /* of a super-packet of UDP: the length of its segments; else 0 */
	bool is_outbound;
};

/*
 * Take the frames of an interface from here on, of all protocols and in both directions.
 *
 * `knows_segments`  The frames that the kernel would cut are to be marked.
 *
 * Returns 0 or -errno.
 */
int pair_frames_open(struct pair_frames *frames, unsigned ifindex, bool knows_segments);
void pair_frames_close(struct pair_frames *frames);

/*
 * Take the next frame, which the caller borrows until the next call. Returns false if the kernel
 * has handed over no other.
 */
bool pair_frames_next(struct pair_frames *frames, struct pair_frame *ret_frame);

/* Has the caller taken all frames that have come, also those of the block that is being filled? */
bool pair_frames_is_empty(const struct pair_frames *frames);

/* Do the frames that the caller has not taken fill half of the memory? */
bool pair_frames_is_half_full(const struct pair_frames *frames);

/* How many frames the kernel has dropped since the last call. */
uint32_t pair_frames_dropped(const struct pair_frames *frames);

#endif
