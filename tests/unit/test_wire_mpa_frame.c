/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA frames and FPDUs. The byte strings are what Linux's siw sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "wire/iwarp/mpa_frame.h"

static const uint8_t siw_request[] = {'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q', ' ', 'F',
	'r', 'a', 'm', 'e', 0x50, 2, 0, 4, 0x80, 0x01, 0xc0, 0x01};
static const uint8_t siw_reply[] = {'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'p', ' ', 'F', 'r',
	'a', 'm', 'e', 0x50, 2, 0, 4, 0x80, 0x01, 0x80, 0x01};

/* An empty WRITE. */
static const uint8_t siw_fpdu[] = {
	0x00, 0x0e, 0xc1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xeb, 0xd3, 0x4c, 0x5f};

static void crc32c_of_the_check_string_is_the_published_one(void **state)
{
	(void)state;
	assert_int_equal(crc32c("123456789", 9), 0xe3069283);
	assert_int_equal(crc32c("", 0), 0);
}

static void request_of_siw_is_understood(void **state)
{
	struct mpa_frame frame;

	(void)state;
	assert_int_equal(mpa_frame_follow_bytes(siw_request, false), 4);
	assert_true(mpa_frame_decode(&frame, siw_request));
	assert_false(frame.is_reply);
	assert_int_equal(frame.revision, 2);
	assert_true(frame.wants_crc && !frame.wants_markers && frame.is_enhanced);
	assert_true(frame.is_peer_to_peer);
	assert_int_equal(frame.ready, MPA_READY_WRITE | MPA_READY_READ);
	assert_int_equal(frame.ird, 1);
	assert_int_equal(frame.ord, 1);
	assert_int_equal(frame.private_bytes, 0);
}

static void frames_of_siw_encode_to_themselves(void **state)
{
	uint8_t bytes[MPA_FRAME_BYTES + MPA_PRIVATE_BYTES_MAX];
	struct mpa_frame frame;

	(void)state;
	mpa_frame_decode(&frame, siw_request);
	assert_int_equal(mpa_frame_encode(&frame, bytes), sizeof(siw_request));
	assert_memory_equal(bytes, siw_request, sizeof(siw_request));
	assert_int_equal(mpa_frame_follow_bytes(siw_reply, true), 4);
	mpa_frame_decode(&frame, siw_reply);
	assert_true(frame.is_reply && !frame.is_rejected);
	assert_int_equal(mpa_frame_encode(&frame, bytes), sizeof(siw_reply));
	assert_memory_equal(bytes, siw_reply, sizeof(siw_reply));
}

static void frame_of_every_flag_decodes_to_what_was_encoded(void **state)
{
	uint8_t bytes[MPA_FRAME_BYTES + MPA_PRIVATE_BYTES_MAX];
	struct mpa_frame frame = {
		.is_reply = true,
		.revision = 2,
		.wants_markers = true,
		.is_rejected = true,
		.is_enhanced = true,
		.ready = MPA_READY_SEND,
		.ird = MPA_READS_MAX,
		.ord = 7,
		.private_bytes = MPA_PRIVATE_BYTES_MAX - MPA_ENHANCED_BYTES,
	};
	struct mpa_frame decoded;

	(void)state;
	memset(frame.private_data, 0x5a, frame.private_bytes);
	assert_int_equal(mpa_frame_encode(&frame, bytes), sizeof(bytes));
	assert_int_equal(mpa_frame_follow_bytes(bytes, true), MPA_PRIVATE_BYTES_MAX);
	assert_true(mpa_frame_decode(&decoded, bytes));
	assert_memory_equal(&decoded, &frame, sizeof(frame));
}

static void frame_of_another_key_revision_or_length_is_none(void **state)
{
	uint8_t bytes[sizeof(siw_request)];

	(void)state;
	assert_int_equal(mpa_frame_follow_bytes(siw_request, true), -1);
	memcpy(bytes, siw_request, sizeof(bytes));
	bytes[17] = 3;
	assert_int_equal(mpa_frame_follow_bytes(bytes, false), -1);
	bytes[17] = 0;
	assert_int_equal(mpa_frame_follow_bytes(bytes, false), -1);
	bytes[17] = 1;
	bytes[18] = 2; /* 512 + 4 */
	assert_int_equal(mpa_frame_follow_bytes(bytes, false), -1);
	bytes[19] = 0;
	assert_int_equal(mpa_frame_follow_bytes(bytes, false), 512);
}

static void enhanced_frame_without_its_four_bytes_is_refused(void **state)
{
	uint8_t bytes[sizeof(siw_request)];
	struct mpa_frame frame;

	(void)state;
	memcpy(bytes, siw_request, sizeof(bytes));
	bytes[19] = 3;
	assert_int_equal(mpa_frame_follow_bytes(bytes, false), 3);
	assert_false(mpa_frame_decode(&frame, bytes));
	bytes[17] = 1; /* revision 1 knows no enhanced frames: the bit means nothing */
	assert_true(mpa_frame_decode(&frame, bytes));
	assert_int_equal(frame.private_bytes, 3);
}

static void fpdu_of_siw_has_a_good_crc(void **state)
{
	uint8_t bytes[sizeof(siw_fpdu)];

	(void)state;
	assert_int_equal(fpdu_ulpdu_bytes(siw_fpdu), 14);
	assert_int_equal(fpdu_bytes(14), sizeof(siw_fpdu));
	assert_true(fpdu_crc_is_good(siw_fpdu, sizeof(siw_fpdu)));
	memcpy(bytes, siw_fpdu, sizeof(bytes));
	for (size_t bit = 0; bit < sizeof(bytes) * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(fpdu_crc_is_good(bytes, sizeof(bytes)));
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void fpdu_is_sealed_as_siw_does(void **state)
{
	uint8_t bytes[sizeof(siw_fpdu)];

	(void)state;
	memset(bytes, 0xee, sizeof(bytes));
	memcpy(bytes + 2, siw_fpdu + 2, 14);
	assert_int_equal(fpdu_seal(bytes, 14, true), sizeof(bytes));
	assert_memory_equal(bytes, siw_fpdu, sizeof(bytes));
	assert_int_equal(fpdu_seal(bytes, 13, false), sizeof(bytes));
	assert_int_equal(bytes[15], 0);
	assert_memory_equal(bytes + 16, "\0\0\0\0", 4);
}

static void fpdu_of_the_longest_ulpdu_fits_its_room(void **state)
{
	(void)state;
	assert_int_equal(fpdu_bytes(FPDU_ULPDU_BYTES_MAX), FPDU_BYTES_MAX);
	assert_int_equal(fpdu_bytes(0), 8);
	assert_int_equal(fpdu_bytes(2), 8);
	assert_int_equal(fpdu_bytes(3), 12);
}

/* --- markers --- */

/* A FPDU between markers, byte by byte as the RFC has it. Returns its length in the stream. */
static uint32_t mark_plainly(uint8_t *to, const uint8_t *fpdu, uint32_t bytes, uint64_t position)
{
	uint32_t count = 0, begin = position % 512 == 0 ? 4 : 0;

	for (uint32_t i = 0; i < bytes; i++) {
		if ((position + count) % 512 == 0) {
			uint32_t back = count ? count - begin : 0;

			to[count++] = 0;
			to[count++] = 0;
			to[count++] = (uint8_t)(back >> 8);
			to[count++] = (uint8_t)back;
		}
		to[count++] = fpdu[i];
	}
	return count;
}

static void markers_are_where_they_belong_and_go_again(void **state)
{
	static uint8_t plain[4000], marked[4200], sealed[4200];

	(void)state;
	for (uint32_t position = 0; position <= 1024; position += 4)
		for (uint32_t ulpdu_bytes = 0; ulpdu_bytes < 1700; ulpdu_bytes += 3) {
			uint32_t bytes = fpdu_bytes(ulpdu_bytes);
			uint32_t marked_bytes = fpdu_marked_bytes(position, ulpdu_bytes);

			for (uint32_t i = 0; i < ulpdu_bytes; i++)
				plain[FPDU_LENGTH_BYTES + i] = (uint8_t)(i * 7);
			memcpy(sealed, plain, FPDU_LENGTH_BYTES + ulpdu_bytes);
			fpdu_seal(plain, ulpdu_bytes, false);
			assert_int_equal(
				mark_plainly(marked, plain, bytes, position), marked_bytes);
			assert_int_equal(fpdu_seal_marked(sealed, ulpdu_bytes, true, position),
				marked_bytes);
			assert_memory_equal(sealed, marked, marked_bytes - FPDU_CRC_BYTES);
			assert_true(fpdu_crc_is_good(sealed, marked_bytes));
			assert_int_equal(
				fpdu_unmark(sealed, marked_bytes, position), marked_bytes - bytes);
			assert_memory_equal(
				sealed + marked_bytes - bytes, plain, bytes - FPDU_CRC_BYTES);
		}
}

static void marker_between_two_fpdus_belongs_to_the_second(void **state)
{
	uint8_t fpdu[64] = {0};

	(void)state;
	assert_int_equal(fpdu_marker_count(512 - 24, 24), 0);
	assert_int_equal(fpdu_marker_count(512, 24), 1);
	assert_int_equal(fpdu_seal_marked(fpdu, 14, false, 512), 24 + 0);
	assert_memory_equal(fpdu, "\0\0\0\0\0\16", 6);
}

static void marker_that_points_elsewhere_is_none(void **state)
{
	uint8_t fpdu[1200] = {0};
	uint32_t bytes = fpdu_seal_marked(fpdu, 900, false, 500);

	(void)state;
	assert_int_equal(bytes, fpdu_bytes(900) + 8);
	assert_int_equal(fpdu[12 + 3], 12);
	fpdu[12 + 3] = 16;
	assert_int_equal(fpdu_unmark(fpdu, bytes, 500), -1);
	fpdu[12 + 3] = 12;
	fpdu[12] = 0x77; /* reserved */
	fpdu[12 + 3] |= 3; /* to be taken for zeros */
	assert_int_equal(fpdu_unmark(fpdu, bytes, 500), 8);
}

static void fpdu_of_the_longest_ulpdu_fits_its_room_with_markers(void **state)
{
	(void)state;
	for (uint32_t position = 0; position < 512; position += 4)
		assert_true(
			fpdu_marked_bytes(position, FPDU_ULPDU_BYTES_MAX) <= FPDU_MARKED_BYTES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc32c_of_the_check_string_is_the_published_one),
		cmocka_unit_test(request_of_siw_is_understood),
		cmocka_unit_test(frames_of_siw_encode_to_themselves),
		cmocka_unit_test(frame_of_every_flag_decodes_to_what_was_encoded),
		cmocka_unit_test(frame_of_another_key_revision_or_length_is_none),
		cmocka_unit_test(enhanced_frame_without_its_four_bytes_is_refused),
		cmocka_unit_test(fpdu_of_siw_has_a_good_crc),
		cmocka_unit_test(fpdu_is_sealed_as_siw_does),
		cmocka_unit_test(fpdu_of_the_longest_ulpdu_fits_its_room),
		cmocka_unit_test(markers_are_where_they_belong_and_go_again),
		cmocka_unit_test(marker_between_two_fpdus_belongs_to_the_second),
		cmocka_unit_test(marker_that_points_elsewhere_is_none),
		cmocka_unit_test(fpdu_of_the_longest_ulpdu_fits_its_room_with_markers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
