/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_MPA_FRAME_H
#define URNIC_WIRE_MPA_FRAME_H

/*
 * MPA, the layer between TCP and DDP (RFC 5044): the two frames that open a connection, and the
 * frames that carry data (FPDUs).
 *
 * A request or reply consists of 20 bytes and private data. With revision 2 a request or reply may
 * be enhanced (RFC 6581). Then its private data begins with four bytes, which have the sender's IRD
 * and ORD, and say which message makes a peer-to-peer connection ready.
 *
 * A FPDU consists of a 16-bit length, that number of bytes for DDP (the ULPDU), zeros up to a
 * multiple of four, and a CRC32C in little-endian order of all bytes before it. Without CRCs, FPDUs
 * still have the field of the CRC, but the receiver does not check it.
 *
 * A receiver may request markers. A marker is four bytes that state how far back in the stream
 * their FPDU begins (section 4.3). The stream has a marker every 512 bytes, from its first FPDU on.
 * All lengths are multiples of four, so a marker cuts no field. A marker between two FPDUs belongs
 * to the second FPDU. The CRC covers markers.
 *
 * The functions keep no state, so any thread may call them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crc.h"
#include "wire/bytes.h"

/* --- opening a connection --- */

enum {
	MPA_FRAME_BYTES = 20, /* the fixed part, before the private data */
	MPA_PRIVATE_BYTES_MAX = 512, /* including the four enhanced bytes */
	MPA_ENHANCED_BYTES = 4,
	/* The largest value of an IRD or ORD, which have 14 bits; it means "no limit" */
	MPA_READS_MAX = 0x3fff,
};

/* The empty message that the initiator of a peer-to-peer connection sends when it is ready. */
enum mpa_ready {
	MPA_READY_SEND = 1 << 0,
	MPA_READY_WRITE = 1 << 1,
	MPA_READY_READ = 1 << 2,
};

struct mpa_frame {
	bool is_reply;
	uint8_t revision; /* 1 or 2 */
	/* The sender of the frame requests markers in the FPDUs that it receives */
	bool wants_markers;
	bool wants_crc; /* if either side wants CRCs, both directions have them */
	bool is_rejected; /* set in a reply that refuses the connection */
	bool is_enhanced; /* revision 2: the fields below are valid */
	bool is_peer_to_peer; /* the responder may send first, once the initiator is ready */
	/*
	 * Values of enum mpa_ready: those that a request offers, or the one that a reply chooses.
	 */
	uint32_t ready;
	uint16_t ird; /* the most READs that the sender of the frame serves at once */
	uint16_t ord; /* the most READs that the sender of the frame wants to have outstanding */
	uint16_t private_bytes; /* length of the program's private data */
	uint8_t private_data[MPA_PRIVATE_BYTES_MAX];
};

/*
 * Check the first MPA_FRAME_BYTES of a request or reply. Returns the number of bytes that follow, 0
 * to MPA_PRIVATE_BYTES_MAX. Returns -1 if the bytes are no request or reply, if the revision is
 * unknown, or if the frame announces more bytes than that (RFC 5044 section 7.1.1).
 */
int mpa_frame_follow_bytes(const uint8_t *bytes, bool is_reply);

/*
 * Decode a whole frame, of a length that mpa_frame_follow_bytes() has accepted. Returns false for
 * an enhanced frame that is too short.
 */
bool mpa_frame_decode(struct mpa_frame *frame, const uint8_t *bytes);

/* The room for private data in a frame. */
static inline size_t mpa_private_room(bool is_enhanced)
{
	return is_enhanced ? MPA_PRIVATE_BYTES_MAX - MPA_ENHANCED_BYTES : MPA_PRIVATE_BYTES_MAX;
}

/*
 * Encode a frame; private_bytes is at most mpa_private_room(). `to` has room for MPA_FRAME_BYTES +
 * MPA_PRIVATE_BYTES_MAX. Returns the frame's length.
 */
size_t mpa_frame_encode(const struct mpa_frame *frame, uint8_t *to);

/* --- carrying data --- */

enum {
	FPDU_LENGTH_BYTES = 2,
	FPDU_CRC_BYTES = 4,
	FPDU_ULPDU_BYTES_MAX = 0xffff,
	/* The largest MULPDU that a sender may use (RFC 5044 section 3). */
	MPA_MULPDU_BYTES_MAX = 64768,
	/* The FPDU of the longest ULPDU: length 2, ULPDU 65535, pad 3, CRC 4. */
	FPDU_BYTES_MAX = 0x10004 + FPDU_CRC_BYTES,
	MPA_MARKER_BYTES = 4,
	MPA_MARKER_INTERVAL = 512, /* from the start of one marker to the start of the next */
	/* The bytes between two markers */
	MPA_MARKED_BYTES = MPA_MARKER_INTERVAL - MPA_MARKER_BYTES,
	FPDU_MARKED_BYTES_MAX =
		FPDU_BYTES_MAX + (FPDU_BYTES_MAX / MPA_MARKED_BYTES + 1) * MPA_MARKER_BYTES,
};

/* Length, ULPDU and pad: the bytes under the CRC. */
static inline uint32_t fpdu_covered_bytes(uint32_t ulpdu_bytes)
{
	return (FPDU_LENGTH_BYTES + ulpdu_bytes + 3) & ~3u;
}

static inline uint32_t fpdu_bytes(uint32_t ulpdu_bytes)
{
	return fpdu_covered_bytes(ulpdu_bytes) + FPDU_CRC_BYTES;
}

/*
 * Make a FPDU of the ULPDU at fpdu + FPDU_LENGTH_BYTES: write the length before it, and pad and CRC
 * behind it. If `has_crc` is false, the CRC field is zero. `fpdu` has room for
 * fpdu_bytes(ulpdu_bytes). Returns the FPDU's length.
 */
uint32_t fpdu_seal(uint8_t *fpdu, uint32_t ulpdu_bytes, bool has_crc);

/* fpdu_seal() when the length is already written. */
static inline uint32_t fpdu_seal_end(uint8_t *fpdu, uint32_t ulpdu_bytes, bool has_crc)
{
	uint32_t covered_bytes = fpdu_covered_bytes(ulpdu_bytes);
	uint32_t pad_at = FPDU_LENGTH_BYTES + ulpdu_bytes;

	put_le32(fpdu + pad_at, 0); /* may overlap the CRC's field, which is written next */
	put_le32(fpdu + covered_bytes, has_crc ? crc32c(fpdu, covered_bytes) : 0);
	return covered_bytes + FPDU_CRC_BYTES;
}

/* --- markers --- */

/*
 * The number of markers in a FPDU that begins `position` bytes into the stream. The FPDU has
 * `bytes` bytes, without the markers.
 */
uint32_t fpdu_marker_count(uint64_t position, uint32_t bytes);

static inline bool fpdu_begins_with_marker(uint64_t position)
{
	return position % MPA_MARKER_INTERVAL == 0;
}

/*
 * fpdu_seal() for a FPDU with markers, which begins `position` bytes into the stream. `fpdu` has
 * room for the markers, too. Returns the FPDU's length in the stream.
 */
uint32_t fpdu_seal_marked(uint8_t *fpdu, uint32_t ulpdu_bytes, bool has_crc, uint64_t position);

/* The length in the stream, with markers, of a FPDU whose ULPDU has `ulpdu_bytes`. */
static inline uint32_t fpdu_marked_bytes(uint64_t position, uint32_t ulpdu_bytes)
{
	uint32_t bytes = fpdu_bytes(ulpdu_bytes);

	return bytes + MPA_MARKER_BYTES * fpdu_marker_count(position, bytes);
}

/*
 * Remove the markers from a complete FPDU, which has `bytes` bytes with its markers. The end of the
 * FPDU stays in place. Returns how many bytes behind `fpdu` the FPDU begins now. Returns -1, and
 * changes nothing, when a marker states another beginning of the FPDU.
 */
int fpdu_unmark(uint8_t *fpdu, uint32_t bytes, uint64_t position);

/* The length of the ULPDU, which the FPDU's first two bytes state. */
static inline uint32_t fpdu_ulpdu_bytes(const uint8_t *fpdu)
{
	return get_be16(fpdu);
}

/* Is the CRC of a complete FPDU, of `bytes` bytes in the stream, right? */
static inline bool fpdu_crc_is_good(const uint8_t *fpdu, uint32_t bytes)
{
	uint32_t covered_bytes = bytes - FPDU_CRC_BYTES;

	return get_le32(fpdu + covered_bytes) == crc32c(fpdu, covered_bytes);
}

#endif
