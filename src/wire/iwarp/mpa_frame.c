/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/iwarp/mpa_frame.h"

#include <string.h>

#include "base/crc.h"
#include "wire/bytes.h"

enum {
	KEY_BYTES = 16,
	AT_FLAGS = 16,
	AT_REVISION = 17,
	AT_PRIVATE_BYTES = 18,

	FLAG_MARKERS = 0x80,
	FLAG_CRC = 0x40,
	FLAG_REJECTED = 0x20,
	FLAG_ENHANCED = 0x10,

	/* Bits of the IRD word and the ORD word of an enhanced frame (RFC 6581). */
	IRD_PEER_TO_PEER = 0x8000,
	IRD_READY_SEND = 0x4000,
	ORD_READY_WRITE = 0x8000,
	ORD_READY_READ = 0x4000,
};

static const uint8_t *key_of(bool is_reply)
{
	return (const uint8_t *)(is_reply ? "MPA ID Rep Frame" : "MPA ID Req Frame");
}

int mpa_frame_follow_bytes(const uint8_t *bytes, bool is_reply)
{
	uint8_t revision = bytes[AT_REVISION];
	uint16_t follow_bytes = get_be16(bytes + AT_PRIVATE_BYTES);

	if (memcmp(bytes, key_of(is_reply), KEY_BYTES) != 0)
		return -1;
	if (revision < 1 || revision > 2 || follow_bytes > MPA_PRIVATE_BYTES_MAX)
		return -1;
	return follow_bytes;
}

static void enhanced_decode(struct mpa_frame *frame, const uint8_t *bytes)
{
	uint16_t ird = get_be16(bytes), ord = get_be16(bytes + 2);

	frame->is_peer_to_peer = (ird & IRD_PEER_TO_PEER) != 0;
	frame->ready = (ird & IRD_READY_SEND ? MPA_READY_SEND : 0u) |
		(ord & ORD_READY_WRITE ? MPA_READY_WRITE : 0u) |
		(ord & ORD_READY_READ ? MPA_READY_READ : 0u);
	frame->ird = ird & MPA_READS_MAX;
	frame->ord = ord & MPA_READS_MAX;
}

static void enhanced_encode(const struct mpa_frame *frame, uint8_t *to)
{
	uint32_t ird = (frame->is_peer_to_peer ? IRD_PEER_TO_PEER : 0) |
		(frame->ready & MPA_READY_SEND ? IRD_READY_SEND : 0) | frame->ird;
	uint32_t ord = (frame->ready & MPA_READY_WRITE ? ORD_READY_WRITE : 0) |
		(frame->ready & MPA_READY_READ ? ORD_READY_READ : 0) | frame->ord;

	put_be16(to, (uint16_t)ird);
	put_be16(to + 2, (uint16_t)ord);
}

bool mpa_frame_decode(struct mpa_frame *frame, const uint8_t *bytes)
{
	uint8_t flags = bytes[AT_FLAGS];
	uint16_t follow_bytes = get_be16(bytes + AT_PRIVATE_BYTES);

	memset(frame, 0, sizeof(*frame));
	frame->is_reply = memcmp(bytes, key_of(true), KEY_BYTES) == 0;
	frame->revision = bytes[AT_REVISION];
	frame->wants_markers = (flags & FLAG_MARKERS) != 0;
	frame->wants_crc = (flags & FLAG_CRC) != 0;
	frame->is_rejected = frame->is_reply && (flags & FLAG_REJECTED) != 0;
	frame->is_enhanced = frame->revision == 2 && (flags & FLAG_ENHANCED) != 0;
	bytes += MPA_FRAME_BYTES;
	if (frame->is_enhanced) {
		if (follow_bytes < MPA_ENHANCED_BYTES)
			return false;
		enhanced_decode(frame, bytes);
		bytes += MPA_ENHANCED_BYTES;
		follow_bytes = (uint16_t)(follow_bytes - MPA_ENHANCED_BYTES);
	}
	frame->private_bytes = follow_bytes;
	memcpy(frame->private_data, bytes, follow_bytes);
	return true;
}

size_t mpa_frame_encode(const struct mpa_frame *frame, uint8_t *to)
{
	size_t head_bytes = MPA_FRAME_BYTES + (frame->is_enhanced ? MPA_ENHANCED_BYTES : 0);
	size_t bytes = head_bytes + frame->private_bytes;

	memcpy(to, key_of(frame->is_reply), KEY_BYTES);
	to[AT_FLAGS] = (uint8_t)((frame->wants_markers ? FLAG_MARKERS : 0) |
		(frame->wants_crc ? FLAG_CRC : 0) | (frame->is_rejected ? FLAG_REJECTED : 0) |
		(frame->is_enhanced ? FLAG_ENHANCED : 0));
	to[AT_REVISION] = frame->revision;
	put_be16(to + AT_PRIVATE_BYTES, (uint16_t)(bytes - MPA_FRAME_BYTES));
	if (frame->is_enhanced)
		enhanced_encode(frame, to + MPA_FRAME_BYTES);
	memcpy(to + head_bytes, frame->private_data, frame->private_bytes);
	return bytes;
}

/* --- FPDUs --- */

uint32_t fpdu_seal(uint8_t *fpdu, uint32_t ulpdu_bytes, bool has_crc)
{
	put_be16(fpdu, (uint16_t)ulpdu_bytes);
	return fpdu_seal_end(fpdu, ulpdu_bytes, has_crc);
}

/* --- markers (RFC 5044 section 4.3) --- */

/*
 * The offset of the first marker in a FPDU that begins at `position`. A FPDU that ends before that
 * offset has no marker.
 */
static uint32_t marker_first(uint64_t position)
{
	return (uint32_t)(-position % MPA_MARKER_INTERVAL);
}

uint32_t fpdu_marker_count(uint64_t position, uint32_t bytes)
{
	uint32_t first = marker_first(position);

	return bytes <= first ? 0 : (bytes - first + MPA_MARKED_BYTES - 1) / MPA_MARKED_BYTES;
}

/*
 * The distance that a marker at offset `at` of a FPDU states. It is the distance from the FPDU's
 * length field to the marker. If the FPDU's first marker is at offset 0, the length field follows
 * that marker.
 */
static uint32_t marker_make(uint32_t first, uint32_t at)
{
	return at && !first ? at - MPA_MARKER_BYTES : at;
}

uint32_t fpdu_seal_marked(uint8_t *fpdu, uint32_t ulpdu_bytes, bool has_crc, uint64_t position)
{
	uint32_t bytes = fpdu_seal(fpdu, ulpdu_bytes, false);
	uint32_t first = marker_first(position), count = fpdu_marker_count(position, bytes);
	uint32_t marked_bytes = bytes + count * MPA_MARKER_BYTES, end = bytes;

	for (uint32_t i = count; i > 0; i--) {
		uint32_t from = first + (i - 1) * MPA_MARKED_BYTES;
		uint32_t at = first + (i - 1) * MPA_MARKER_INTERVAL;

		memmove(fpdu + at + MPA_MARKER_BYTES, fpdu + from, end - from);
		put_be32(fpdu + at, marker_make(first, at));
		end = from;
	}
	if (has_crc)
		put_le32(fpdu + marked_bytes - FPDU_CRC_BYTES,
			crc32c(fpdu, marked_bytes - FPDU_CRC_BYTES));
	return marked_bytes;
}

/*
 * The function does not check a marker's reserved half, nor its two lowest bits (RFC 5044 section
 * 4.2).
 */
int fpdu_unmark(uint8_t *fpdu, uint32_t bytes, uint64_t position)
{
	uint32_t first = marker_first(position), at, gone = 0, end = bytes;

	for (at = first; at < bytes; at += MPA_MARKER_INTERVAL)
		if ((get_be16(fpdu + at + 2) & ~3u) != marker_make(first, at))
			return -1;
	while (at > first) {
		at -= MPA_MARKER_INTERVAL;
		memmove(fpdu + at + MPA_MARKER_BYTES + gone, fpdu + at + MPA_MARKER_BYTES,
			end - at - MPA_MARKER_BYTES);
		gone += MPA_MARKER_BYTES;
		end = at;
	}
	memmove(fpdu + gone, fpdu, end);
	return (int)gone;
}
