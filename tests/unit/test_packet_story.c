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
#include "wire/timer.h"

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

/* --- tables --- */

enum { BTH_AT = 42, PSN_AT = BTH_AT + 8, AETH_AT = BTH_AT + 12, DETH_AT = AETH_AT };

/* A frame of a capture, without its ICRC, for the test to change. */
struct template
{
	struct capture_file_frame frame;
	uint8_t bytes[FRAME_BYTES_MAX];
	struct story *story;
	struct story_entry entry;
};

/* The first frame with this opcode; of iWARP: 0, and the first Terminate message. */
static void template_open(struct template *template, const char *name, uint8_t opcode)
{
	struct capture_file *file;
	struct story_entry entry;
	char path[512];
	bool is_found = false;

	snprintf(path, sizeof(path), "%s/pcap/%s", URNIC_TEST_DATA, name);
	assert_int_equal(capture_file_open(path, &file), 0);
	template->story = story_create();
	while (!is_found && capture_file_next(file, &template->frame)) {
		memcpy(template->bytes, template->frame.bytes, template->frame.count);
		is_found = opcode ? template->bytes[BTH_AT] == opcode
				  : story_take(template->story, &template->frame, &entry) &&
				strcmp(entry.name, "TERMINATE") == 0;
	}
	assert_true(is_found);
	template->frame.bytes = template->bytes;
	if (opcode)
		template->frame.count -= ROCE_ICRC_BYTES;
	capture_file_close(file);
}

static void template_close(struct template *template)
{
	story_destroy(template->story);
}

static const struct story_entry *template_take(struct template *template)
{
	template->frame.number++;
	assert_true(story_take(template->story, &template->frame, &template->entry));
	return &template->entry;
}

static const struct story_entry *psn_take(struct template *template, uint32_t psn)
{
	uint32_t word = get_be32(template->bytes + PSN_AT);

	put_be32(template->bytes + PSN_AT, (word & ~U24_MASK) | (psn & U24_MASK));
	return template_take(template);
}

static bool has_reason(const struct story_entry *entry, enum reason reason)
{
	for (uint32_t i = 0; i < entry->reason_count; i++)
		if (entry->reasons[i] == reason)
			return true;
	return false;
}

/* A code without words here, or whose fault is not the first reason, has no explanation. */
static void nak_of_each_code_is_explained(void **state)
{
	static const char *const words[] = {
		[AETH_NAK_PSN_SEQUENCE] = "are missing at the receiver",
		[AETH_NAK_INVALID_REQUEST] = "invalid request",
		[AETH_NAK_REMOTE_ACCESS] = "remote access error",
		[AETH_NAK_REMOTE_OPERATIONAL] = "remote operational error",
		[AETH_NAK_INVALID_RD_REQUEST] = "which requesters ignore",
	};
	static const struct {
		uint8_t code;
		enum reason reason;
	} rows[] = {
#define AETH_NAK_CODE(name, code, counter, fault) {code, REASON_##fault},
#include "wire/aeth_nak.def"
#undef AETH_NAK_CODE
	};
	static struct template template;

	(void)state;
	template_open(&template, "roce-bad-write-key.pcap", OPCODE_RC_ACKNOWLEDGE);
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		const struct story_entry *entry;

		template.bytes[AETH_AT] = 0x60 | rows[i].code;
		entry = template_take(&template);
		assert_int_equal(entry->kind, STORY_NAK);
		assert_true(rows[i].code < ARRAY_COUNT(words) && words[rows[i].code]);
		assert_text(entry, words[rows[i].code]);
		if (rows[i].reason != REASON_NONE)
			assert_int_equal(entry->reasons[0], rows[i].reason);
	}
	template.bytes[AETH_AT] = 0x7f;
	assert_text(template_take(&template), "reserved code 31");
	template_close(&template);
}

static void rnr_nak_of_each_timer_is_explained(void **state)
{
	static struct template template;
	char wait[64];

	(void)state;
	template_open(&template, "roce-bad-write-key.pcap", OPCODE_RC_ACKNOWLEDGE);
	for (uint8_t code = 0; code < 32; code++) {
		const struct story_entry *entry;

		template.bytes[AETH_AT] = 0x20 | code;
		entry = template_take(&template);
		assert_int_equal(entry->kind, STORY_RNR);
		snprintf(wait, sizeof(wait), "to wait %.3f ms", (double)rnr_timer_ns(code) / 1e6);
		assert_text(entry, wait);
		assert_true(has_reason(entry, REASON_NO_RECEIVE));
	}
	template_close(&template);
}

/*
 * The errors that a check of memory or of a receive request causes name this check; all others are
 * told in words.
 */
static void terminate_of_each_error_is_explained(void **state)
{
	static const uint8_t numbers[12] = {0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0};
	static const struct {
		const char *name;
		uint8_t layer, type, code;
		enum reason reason;
		const char *sentence;
	} rows[] = {
#define RDMAP_ERROR(name, layer, type, code, fault, signal, sentence) \
	{#name, layer, type, code, REASON_##fault, sentence},
#include "wire/iwarp/rdmap_error.def"
#undef RDMAP_ERROR
	};
	static struct template template;
	uint8_t *payload;

	(void)state;
	template_open(&template, "iwarp-bad-write-key.pcap", 0);
	payload = memmem(template.bytes, template.frame.count, numbers, sizeof(numbers));
	assert_non_null(payload);
	payload += sizeof(numbers);
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		const struct story_entry *entry;
		bool is_checked = rows[i].reason != REASON_REMOTE_OPERATIONAL ||
			strstr(rows[i].name, "UNTAGGED") || strstr(rows[i].name, "VERSION");

		/* The next message: TCP has not sent it before. */
		put_be32(template.bytes + 38, get_be32(template.bytes + 38) + FRAME_BYTES_MAX);
		payload[0] = (uint8_t)(rows[i].layer << 4 | rows[i].type);
		payload[1] = rows[i].code;
		entry = template_take(&template);
		assert_int_equal(entry->kind, STORY_NAK);
		assert_text(entry, rows[i].sentence);
		assert_int_equal(entry->reasons[0], REASON_TERMINATE_RECEIVED);
		if (is_checked && entry->reason_count < 2)
			fail_msg("%s: no check is named", rows[i].name);
	}
	template_close(&template);
}

/* --- packets of UC and UD, which have no retransmission --- */

static void gap_of_an_unreliable_connection_is_explained(void **state)
{
	static struct template template;
	const struct story_entry *entry;

	(void)state;
	template_open(&template, "roce-bad-write-key.pcap", OPCODE_RC_WRITE_ONLY);
	template.bytes[BTH_AT] = OPCODE_UC_WRITE_ONLY;
	for (uint32_t psn = 0xfffffe; psn < 0x1000003; psn++)
		assert_int_equal(psn_take(&template, psn)->kind, STORY_REQUEST);
	entry = psn_take(&template, 5);
	assert_int_equal(entry->kind, STORY_MISSING);
	assert_true(story_is_trouble(entry));
	assert_text(entry, "2 packets before it, from PSN 0x000003 on, are missing");
	assert_true(has_reason(entry, REASON_DROPPED_SEQUENCE));
	assert_int_equal(psn_take(&template, 6)->kind, STORY_REQUEST);
	entry = psn_take(&template, 4);
	assert_int_equal(entry->kind, STORY_MISSING);
	assert_text(entry, "comes late or for the second time, behind PSN 0x000006");
	assert_int_equal(psn_take(&template, 7)->kind, STORY_REQUEST);
	/* Another connection. */
	assert_int_equal(psn_take(&template, 0x700000)->kind, STORY_REQUEST);
	assert_int_equal(psn_take(&template, 0x700001)->kind, STORY_REQUEST);
	assert_false(story_next_unanswered(template.story, &template.entry));
	template_close(&template);
}

/* A sender that leaves gaps all the time has other receivers, too. */
static void gap_of_datagrams_is_explained(void **state)
{
	static struct template template;
	const struct story_entry *entry;

	(void)state;
	template_open(&template, "roce-udaddy.pcap", OPCODE_UD_SEND_ONLY);
	put_be32(template.bytes + BTH_AT + 4, 77); /* not to the connection manager */
	put_be32(template.bytes + DETH_AT + 4, 99);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(psn_take(&template, 2 * i)->kind, STORY_DATAGRAM);
	for (uint32_t psn = 199; psn < 230; psn++)
		assert_int_equal(psn_take(&template, psn)->kind, STORY_DATAGRAM);
	entry = psn_take(&template, 231);
	assert_int_equal(entry->kind, STORY_MISSING);
	assert_int_equal(entry->from_qpn, 99);
	assert_text(
		entry, "1 datagram of the same sender before it, from PSN 0x0000e6 on, is missing");
	assert_int_equal(psn_take(&template, 230)->kind, STORY_DATAGRAM);
	assert_int_equal(psn_take(&template, 232)->kind, STORY_DATAGRAM);
	template_close(&template);
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
		cmocka_unit_test(nak_of_each_code_is_explained),
		cmocka_unit_test(rnr_nak_of_each_timer_is_explained),
		cmocka_unit_test(terminate_of_each_error_is_explained),
		cmocka_unit_test(gap_of_an_unreliable_connection_is_explained),
		cmocka_unit_test(gap_of_datagrams_is_explained),
		cmocka_unit_test(other_files_are_no_captures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
