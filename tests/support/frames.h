/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_FRAMES_H
#define URNIC_TESTS_SUPPORT_FRAMES_H

/*
 * Ethernet frames for tests, written field by field and not by the code under test.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct frame {
	uint8_t bytes[256];
	uint32_t count;
};

static inline void frame_add(struct frame *frame, const void *bytes, uint32_t count)
{
	memcpy(frame->bytes + frame->count, bytes, count);
	frame->count += count;
}

#define FRAME_ADD(frame, ...)                                       \
	do {                                                        \
		const uint8_t added_[] = {__VA_ARGS__};             \
		frame_add(frame, added_, (uint32_t)sizeof(added_)); \
	} while (0)

static inline struct frame frame_ethernet(void)
{
	struct frame frame = {.count = 0};

	FRAME_ADD(&frame, 0x02, 0, 0, 0, 0, 0x0d, 0x02, 0, 0, 0, 0, 0x05);
	return frame;
}

/* From 66.9.149.187 to 161.142.100.80: the example of the Toeplitz hash's specification. */
static inline void frame_add_ipv4(struct frame *frame, uint8_t protocol)
{
	FRAME_ADD(frame, 0x08, 0x00);
	FRAME_ADD(frame, 0x45, 0x1c, 0, 40, 0, 0, 0x40, 0, 61, protocol, 0, 0);
	FRAME_ADD(frame, 66, 9, 149, 187, 161, 142, 100, 80);
}

/* From 3ffe:2501:200:1fff::7 to 3ffe:2501:200:3::1: likewise. */
static inline void frame_add_ipv6(struct frame *frame, uint8_t protocol)
{
	FRAME_ADD(frame, 0x86, 0xdd);
	FRAME_ADD(frame, 0x61, 0xca, 0xbc, 0xde, 0, 20, protocol, 33);
	FRAME_ADD(frame, 0x3f, 0xfe, 0x25, 0x01, 0x02, 0, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 7);
	FRAME_ADD(frame, 0x3f, 0xfe, 0x25, 0x01, 0x02, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1);
}

/* From port 2794 to port 1766, with 16 more bytes: enough for UDP and TCP. */
static inline void frame_add_ports(struct frame *frame)
{
	FRAME_ADD(frame, 2794 >> 8, 2794 & 0xff, 1766 >> 8, 1766 & 0xff);
	FRAME_ADD(frame, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

#endif
