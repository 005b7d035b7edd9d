/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The story of captures of the Linux kernel's rxe and siw, and of one that is changed: packets that
 * are sent again, lost or damaged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "common/packet_story.h"
#include "common/packet_story_internal.h"
#include "qp/reason.h"
#include "wire/bytes.h"
#include "wire/icrc.h"

enum { ENTRIES_MAX = 600, PCAP_HEAD_BYTES = 24, PCAP_FRAME_BYTES = 16, FRAME_BYTES_MAX = 1 << 16 };

static struct story_entry entries[ENTRIES_MAX];
static uint32_t entry_count;

static void story_read(const char *path)
{
	struct capture_file_frame frame;
	struct story *story = story_create();
	struct capture_file *file;

	assert_non_null(story);
	assert_int_equal(capture_file_open(path, &file), 0);
	entry_count = 0;
	while (capture_file_next(file, &frame) && entry_count < ENTRIES_MAX)
		entry_count += story_take(story, &frame, &entries[entry_count]);
	while (story_next_unanswered(story, &entries[entry_count]))
		entry_count++;
	capture_file_close(file);
	story_destroy(story);
}

static void data_read(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/pcap/%s", URNIC_TEST_DATA, name);
	story_read(path);
}

/* The `index`th entry of this kind, from 0. */
static const struct story_entry *entry_of(enum story_kind kind, uint32_t index)
{
	for (uint32_t i = 0; i < entry_count; i++)
		if (entries[i].kind == kind && !index--)
			return &entries[i];
	fail_msg("no entry of kind %d", kind);
	return &entries[0];
}

static uint32_t count_of(enum story_kind kind)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < entry_count; i++)
		count += entries[i].kind == kind;
	return count;
}

static void assert_text(const struct story_entry *entry, const char *part)
{
	if (!strstr(entry->text, part))
		fail_msg("no '%s' in '%s'", part, entry->text);
}

static void refusals_name_the_checks_behind_them(void **state)
{
	static const struct {
		const char *file;
		const char *name;
		const char *text;
		enum reason reason;
	} rows[] = {
		{"roce-bad-write-key.pcap", "RC_ACKNOWLEDGE", "RC_WRITE_ONLY of 64 bytes",
			REASON_REGION_KEY},
		{"roce-bad-read-key.pcap", "RC_ACKNOWLEDGE", "remote access error",
			REASON_REMOTE_ACCESS},
		{"roce-bad-atomic-key.pcap", "RC_ACKNOWLEDGE", "remote access error",
			REASON_REGION_BOUNDS},
		{"roce-too-long.pcap", "RC_ACKNOWLEDGE", "remote operational error",
			REASON_REMOTE_OPERATIONAL},
		{"roce-rejected.pcap", "REJ", "code 8", REASON_CM_NO_LISTENER},
		{"iwarp-bad-write-key.pcap", "TERMINATE", "no memory region with this key",
			REASON_TERMINATE_RECEIVED},
		{"iwarp-out-of-range.pcap", "TERMINATE", "outside of its memory region",
			REASON_REGION_BOUNDS},
		{"iwarp-too-long.pcap", "TERMINATE", "layer 2, type 1", REASON_TERMINATE_RECEIVED},
	};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
		const struct story_entry *entry;
		bool has_reason = false;

		data_read(rows[i].file);
		entry = entry_of(STORY_NAK, 0);
		assert_string_equal(entry->name, rows[i].name);
		assert_text(entry, rows[i].text);
		for (uint32_t j = 0; j < entry->reason_count; j++)
			has_reason |= entry->reasons[j] == rows[i].reason;
		assert_true(has_reason);
	}
}

static void packet_after_rnr_nak_is_told_to_be_sent_again(void **state)
{
	const struct story_entry *nak, *again;

	(void)state;
	data_read("roce-rnr.pcap");
	nak = entry_of(STORY_RNR, 0);
	again = entry_of(STORY_AGAIN, 0);
	assert_text(nak, "655.360 ms");
	assert_int_equal(nak->reasons[0], REASON_NO_RECEIVE);
	assert_int_equal(again->about, nak->about);
	assert_text(again, "RNR NAK in frame");
}

static void good_traffic_has_no_trouble(void **state)
{
	static const char *const names[] = {"roce-operations.pcap", "roce-rping.pcap",
		"roce-udaddy.pcap", "roce-rping-ipv6.pcap", "iwarp-operations.pcap"};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(names); i++) {
		data_read(names[i]);
		assert_true(entry_count > 3);
		for (uint32_t j = 0; j < entry_count; j++)
			if (story_is_trouble(&entries[j]))
				fail_msg("%s: frame %u: %s", names[i], entries[j].number,
					entries[j].text);
	}
}

static void acknowledgements_name_the_request_that_they_answer(void **state)
{
	uint32_t known = 0;

	(void)state;
	data_read("roce-operations.pcap");
	for (uint32_t i = 0; i < entry_count; i++) {
		const struct story_entry *entry = &entries[i];

		if (!entry->is_response)
			continue;
		assert_true(entry->about > 0 && entry->about < entry->number);
		assert_true(entry->from_qpn != 0);
		known++;
	}
	assert_true(known > 10);
}

/* --- a capture that the test writes --- */

struct copy {
	FILE *from;
	FILE *to;
	char path[64];
	uint8_t head[PCAP_FRAME_BYTES];
	uint8_t bytes[FRAME_BYTES_MAX];
	uint32_t count;
};

static void copy_begin(struct copy *copy, const char *name)
{
	char path[512];
	uint8_t head[PCAP_HEAD_BYTES];
	int fd;

	snprintf(path, sizeof(path), "%s/pcap/%s", URNIC_TEST_DATA, name);
	strcpy(copy->path, "/tmp/urnic-story-XXXXXX");
	fd = mkstemp(copy->path);
	assert_true(fd >= 0);
	copy->to = fdopen(fd, "wb");
	copy->from = fopen(path, "rb");
	assert_non_null(copy->from);
	assert_int_equal(fread(head, sizeof(head), 1, copy->from), 1);
	fwrite(head, sizeof(head), 1, copy->to);
}

static bool copy_next(struct copy *copy)
{
	if (fread(copy->head, sizeof(copy->head), 1, copy->from) != 1)
		return false;
	copy->count = get_le32(copy->head + 8);
	assert_true(copy->count <= sizeof(copy->bytes));
	return fread(copy->bytes, copy->count, 1, copy->from) == 1;
}

static void copy_write(const struct copy *copy)
{
	fwrite(copy->head, sizeof(copy->head), 1, copy->to);
	fwrite(copy->bytes, copy->count, 1, copy->to);
}

static void copy_end(struct copy *copy)
{
	fclose(copy->from);
	fclose(copy->to);
	story_read(copy->path);
	remove(copy->path);
}

static void spoiled_packet_is_told_to_be_dropped(void **state)
{
	static struct copy copy;
	uint32_t number = 0;

	(void)state;
	copy_begin(&copy, "roce-operations.pcap");
	while (copy_next(&copy)) {
		if (++number == 5)
			copy.bytes[copy.count - 5] ^= 1;
		copy_write(&copy);
	}
	copy_end(&copy);
	assert_int_equal(entry_of(STORY_DAMAGED, 0)->number, 5);
	assert_int_equal(count_of(STORY_DAMAGED), 1);
}

/*
 * The captures of two connections by queue pairs of the same numbers: the second one's PSNs are
 * behind the first one's, and nothing is sent again. PSN: the last three bytes of the BTH.
 */
static void new_connection_is_not_told_to_be_sent_again(void **state)
{
	static struct copy copy;

	(void)state;
	copy_begin(&copy, "roce-bad-write-key.pcap");
	while (copy_next(&copy))
		copy_write(&copy);
	rewind(copy.from);
	assert_int_equal(fseek(copy.from, PCAP_HEAD_BYTES, SEEK_SET), 0);
	while (copy_next(&copy)) {
		copy.bytes[51] -= 1;
		copy.head[8] -= 4; /* without its ICRC, which is wrong now */
		copy.count -= 4;
		copy_write(&copy);
	}
	copy_end(&copy);
	assert_int_equal(count_of(STORY_NAK), 2);
	assert_int_equal(count_of(STORY_AGAIN), 0);
}

/* Each request twice, and no acknowledgement of RC: opcode 0x11. */
static void repeated_requests_without_answer_are_told(void **state)
{
	const struct story_entry *last;
	static struct copy copy;

	(void)state;
	copy_begin(&copy, "roce-bad-write-key.pcap");
	while (copy_next(&copy)) {
		if (copy.bytes[42] == 0x11)
			continue;
		copy_write(&copy);
		copy_write(&copy);
	}
	copy_end(&copy);
	assert_int_equal(count_of(STORY_AGAIN), 1);
	assert_text(entry_of(STORY_AGAIN, 0), "no answer came");
	last = entry_of(STORY_UNANSWERED, 0);
	assert_int_equal(last->reasons[0], REASON_RETRY_EXCEEDED);
	assert_int_equal(count_of(STORY_UNANSWERED), 1);
}

/* Whatever is cut off or inverted, the reader ends, and reads nothing outside of its memory. */
static void hostile_captures_end(void **state)
{
	static struct copy copy;

	(void)state;
	srand(1);
	for (uint32_t round = 0; round < 200; round++) {
		copy_begin(&copy, round % 2 ? "roce-operations.pcap" : "iwarp-bad-write-key.pcap");
		while (copy_next(&copy)) {
			copy.bytes[(uint32_t)rand() % copy.count] ^= (uint8_t)rand();
			if (round % 4 == 3)
				copy.head[8 + rand() % 2] ^= (uint8_t)rand();
			copy_write(&copy);
		}
		copy_end(&copy);
	}
}

/*
 * A request again and again, 60,000 PSNs further each time. The PSN is the last three bytes of the
 * BTH, and the frame is cut before its ICRC.
 */
static void memory_of_a_flow_has_a_limit(void **state)
{
	struct story *story = story_create();
	struct capture_file_frame frame;
	struct story_entry entry;
	struct capture_file *file;
	uint8_t bytes[FRAME_BYTES_MAX];
	uint32_t psn = 0, taken = 0;

	(void)state;
	assert_int_equal(
		capture_file_open(URNIC_TEST_DATA "/pcap/roce-bad-write-key.pcap", &file), 0);
	while (capture_file_next(file, &frame)) {
		if (frame.bytes[42] != OPCODE_RC_WRITE_ONLY)
			continue;
		memcpy(bytes, frame.bytes, frame.count);
		frame.bytes = bytes;
		frame.count -= ROCE_ICRC_BYTES;
		for (uint32_t i = 0; i < 200; i++, psn += 60000) {
			put_be32(bytes + 50, (uint32_t)bytes[50] << 24 | (psn & U24_MASK));
			frame.number = ++taken;
			assert_true(story_take(story, &frame, &entry));
			assert_true(story->flows[0]->frame_room <= STORY_FRAMES_MAX);
		}
		assert_true(story_take(story, &frame, &entry));
		assert_int_equal(entry.kind, STORY_AGAIN);
		assert_int_equal(entry.about, taken);
	}
	assert_true(taken);
	capture_file_close(file);
	story_destroy(story);
}

static void other_files_are_no_captures(void **state)
{
	struct capture_file *file;

	(void)state;
	assert_int_equal(capture_file_open("/proc/self/exe", &file), -74);
	assert_int_equal(capture_file_open("/proc/self/absent", &file), -2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusals_name_the_checks_behind_them),
		cmocka_unit_test(packet_after_rnr_nak_is_told_to_be_sent_again),
		cmocka_unit_test(good_traffic_has_no_trouble),
		cmocka_unit_test(acknowledgements_name_the_request_that_they_answer),
		cmocka_unit_test(spoiled_packet_is_told_to_be_dropped),
		cmocka_unit_test(repeated_requests_without_answer_are_told),
		cmocka_unit_test(new_connection_is_not_told_to_be_sent_again),
		cmocka_unit_test(hostile_captures_end),
		cmocka_unit_test(memory_of_a_flow_has_a_limit),
		cmocka_unit_test(other_files_are_no_captures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
