/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_CAPTURE_FILE_H
#define TOOLS_CAPTURE_FILE_H

/*
 * A reader of captures: pcap and pcapng, of either byte order, with IP packets in Ethernet frames,
 * in Linux's cooked frames, or bare. A capture is hostile input. It ends at the first frame that is
 * cut off.
 */

#include <stdbool.h>
#include <stdint.h>

enum { CAPTURE_COMMENT_BYTES = 256, CAPTURE_NAME_BYTES = 64 };

struct capture_file;

/* A frame, valid until the next call. */
struct capture_file_frame {
	uint32_t number; /* as Wireshark counts: the first is 1 */
	uint64_t time_ns; /* since 1970 */
	const uint8_t *bytes; /* from the link layer on */
	uint32_t count; /* captured bytes */
	uint32_t whole; /* bytes of the whole frame */
	uint32_t ip_offset; /* where the IP header begins; `count`: there is none */
	bool is_event; /* a line of text of `urnic capture --events`, without a terminating 0 */
	const char *interface; /* "": it has no name */
	const char *comment; /* "": none */
};

/*
 * Open a capture; "-" is standard input. Returns 0, -errno, or -EBADMSG for a file that is no
 * capture.
 */
int capture_file_open(const char *path, struct capture_file **ret_file);

/* Read the next frame. Returns false at the end. */
bool capture_file_next(struct capture_file *file, struct capture_file_frame *ret_frame);

void capture_file_close(struct capture_file *file);

#endif
