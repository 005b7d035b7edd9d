/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that means harm, against a queue pair that has granted a part of its memory: it can
 * neither place a byte outside of that part, nor make urnic allocate or use unbounded time, nor use
 * more memory than was allocated at creation.
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/stream.h"

enum {
	GRANTED_AT = 100000, /* what the peer may write, and where it ends */
	GRANTED_BYTES = 20000,
	GRANTED_END = GRANTED_AT + GRANTED_BYTES,
	RECEIVE_AT = 200000,
	PAYLOAD_BYTES_MAX = 60000,
};

static struct stream_end end;
static uint32_t granted_key;
static uint64_t position; /* of the stream, for markers */
static uint8_t fpdu[FPDU_MARKED_BYTES_MAX];

static void start_with(const struct iwarp_settings *settings)
{
	struct stream_options options = {.settings = *settings};
	struct mr_region region;

	stream_start(&end, &options);
	region = (struct mr_region){STREAM_PD, MR_LOCAL_WRITE | MR_REMOTE_ANY,
		(uintptr_t)end.memory + GRANTED_AT, GRANTED_BYTES, end.memory + GRANTED_AT};
	assert_int_equal(mr_table_add(&end.mrs, &region, 9, &granted_key), 0);
	position = 0;
}

static void start(void)
{
	const struct iwarp_settings settings = stream_settings(false);

	start_with(&settings);
}

/* The four combinations of CRCs and markers. */
static struct iwarp_settings settings_of(unsigned choice)
{
	struct iwarp_settings settings = stream_settings(false);

	settings.has_crc = choice & 1;
	settings.receives_markers = choice & 2;
	return settings;
}

static uint64_t address(uint64_t offset)
{
	return (uintptr_t)end.memory + offset;
}

static struct ddp_segment tagged(enum rdmap_opcode opcode, uint32_t stag, uint64_t offset)
{
	return (struct ddp_segment){
		.opcode = opcode, .is_last = true, .tagged = {.stag = stag, .offset = offset}};
}

static struct ddp_segment untagged(enum rdmap_opcode opcode, uint32_t queue, uint32_t msn)
{
	return (struct ddp_segment){
		.opcode = opcode, .is_last = true, .untagged = {.queue = queue, .msn = msn}};
}

/* A FPDU with this payload, or as many bytes of 0xee; its length. */
static uint32_t make(const struct ddp_segment *segment, const void *payload, uint32_t bytes)
{
	const struct iwarp_settings *settings = &end.iwarp->settings;
	uint32_t header_bytes = ddp_encode(segment, fpdu + FPDU_LENGTH_BYTES);

	if (payload)
		memcpy(fpdu + FPDU_LENGTH_BYTES + header_bytes, payload, bytes);
	else
		memset(fpdu + FPDU_LENGTH_BYTES + header_bytes, 0xee, bytes);
	bytes = settings->receives_markers
		? fpdu_seal_marked(fpdu, header_bytes + bytes, settings->has_crc, position)
		: fpdu_seal(fpdu, header_bytes + bytes, settings->has_crc);
	position += bytes;
	return bytes;
}

static size_t give(const struct ddp_segment *segment, const void *payload, uint32_t bytes)
{
	return stream_give(&end, fpdu, make(segment, payload, bytes));
}

static size_t give_read(uint32_t msn, uint32_t bytes)
{
	const struct ddp_segment segment =
		untagged(RDMAP_READ_REQUEST, DDP_QUEUE_READ_REQUEST, msn);
	const struct rdmap_read_request request = {
		.bytes = bytes, .source_stag = granted_key, .source_offset = address(GRANTED_AT)};
	uint8_t payload[RDMAP_READ_REQUEST_BYTES];

	rdmap_read_request_encode(&request, payload);
	return give(&segment, payload, sizeof(payload));
}

static bool is_refused(void)
{
	return end.qp->state == QP_ERR;
}

static bool is_untouched_elsewhere(void)
{
	return stream_is_untouched(&end, 0, GRANTED_AT) &&
		stream_is_untouched(&end, GRANTED_END, STREAM_MEMORY_BYTES - GRANTED_END);
}

static bool is_untouched(void)
{
	return stream_is_untouched(&end, 0, STREAM_MEMORY_BYTES);
}

/* --- memory that was not granted --- */

static void write_across_a_bound_places_nothing_beyond(void **state)
{
	static const uint32_t lengths[] = {1, 63, 64, 65, 4096, 4160, 4161, 20000, 20001, 60000};

	(void)state;
	for (unsigned choice = 0; choice < 4; choice++)
		for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			for (int over = 0; over <= 2; over++) {
				const struct iwarp_settings settings = settings_of(choice);
				struct ddp_segment segment;
				uint64_t at = over == 2
					? GRANTED_AT - 1
					: (uint64_t)GRANTED_END - lengths[i] + (unsigned)over;

				start_with(&settings);
				segment = tagged(RDMAP_WRITE, granted_key, address(at));
				give(&segment, NULL, lengths[i]);
				assert_int_equal(
					is_refused(), over != 0 || lengths[i] > GRANTED_BYTES);
				assert_true(is_untouched_elsewhere());
				if (is_refused())
					assert_true(is_untouched());
				stream_stop(&end);
			}
}

/* Segments of one WRITE each name their own place, which need not follow the one before. */
static void write_that_walks_out_of_its_region_is_stopped_at_the_bound(void **state)
{
	(void)state;
	start();
	for (uint64_t at = GRANTED_END - 10000; !is_refused(); at += 4999) {
		struct ddp_segment segment = tagged(RDMAP_WRITE, granted_key, address(at));

		assert_true(at < GRANTED_END);
		segment.is_last = false;
		give(&segment, NULL, 5000);
		assert_true(is_untouched_elsewhere());
	}
	stream_stop(&end);
}

static void write_to_overlapping_places_stays_where_it_may(void **state)
{
	(void)state;
	start();
	for (uint32_t i = 0; i < 200; i++) {
		struct ddp_segment segment = tagged(RDMAP_WRITE, granted_key,
			address(GRANTED_AT + i * 7919u % (GRANTED_BYTES - 6000)));

		give(&segment, NULL, 6000);
	}
	assert_false(is_refused());
	assert_true(is_untouched_elsewhere());
	stream_stop(&end);
}

/* Each costs a connection. Neighbours of a key that was granted, and any others. */
static void stags_that_are_guessed_reach_nothing(void **state)
{
	uint32_t random = 1;

	(void)state;
	for (uint32_t i = 0; i < 400; i++) {
		struct ddp_segment segment;
		uint32_t stag;

		start();
		random = random * 1664525u + 1013904223u;
		stag = i < 32     ? granted_key ^ 1u << i
			: i < 100 ? granted_key + (i % 2 ? i : 0u - i)
				  : random;
		if (stag == granted_key || stag == end.key)
			stag ^= 0x5555;
		segment = tagged(RDMAP_WRITE, stag, address(GRANTED_AT));
		give(&segment, NULL, 100);
		assert_true(is_refused());
		assert_true(is_untouched());
		stream_stop(&end);
	}
}

static void key_that_was_revoked_reaches_nothing(void **state)
{
	struct ddp_segment segment;

	(void)state;
	start();
	segment = tagged(RDMAP_WRITE, granted_key, address(GRANTED_AT));
	give(&segment, NULL, 0);
	assert_int_equal(mr_table_remove(&end.mrs, granted_key, STREAM_PD), 0);
	give(&segment, NULL, 100);
	assert_true(is_refused());
	assert_true(is_untouched());
	stream_stop(&end);
}

/* In the middle of a segment that is placed as it comes: the rest of it goes nowhere. */
static void key_that_is_revoked_in_a_segment_places_no_more(void **state)
{
	struct ddp_segment segment;
	uint32_t bytes;

	(void)state;
	start();
	segment = tagged(RDMAP_WRITE, granted_key, address(GRANTED_AT));
	bytes = make(&segment, NULL, GRANTED_BYTES);
	stream_give(&end, fpdu, 6000);
	assert_false(is_refused());
	assert_int_equal(mr_table_remove(&end.mrs, granted_key, STREAM_PD), 0);
	memset(end.memory + GRANTED_AT, 0x11, GRANTED_BYTES);
	stream_give(&end, fpdu + 6000, bytes - 6000);
	assert_true(is_refused());
	for (uint32_t i = 0; i < GRANTED_BYTES; i++)
		assert_int_equal(end.memory[GRANTED_AT + i], 0x11);
	stream_stop(&end);
}

/* --- answers without a request --- */

static uint32_t read_post(enum wr_opcode opcode, uint32_t bytes)
{
	struct sge sge;
	struct send_wr wr = stream_wr(&end, &end, opcode, &sge, RECEIVE_AT, bytes, GRANTED_AT);
	uint8_t out[256];

	assert_int_equal(stream_post(&end, &wr), 0);
	stream_take(&end, out, sizeof(out));
	return end.iwarp->rx.answer_index;
}

static void read_response_without_its_read_places_nothing(void **state)
{
	struct iwarp_settings settings = stream_settings(true);
	struct ddp_segment segment;

	(void)state;
	for (int i = 0; i < 5; i++) {
		uint32_t id = 0;

		start_with(&settings);
		if (i == 1 || i == 2)
			id = read_post(WR_RDMA_READ, 100);
		if (i == 3)
			id = read_post(WR_ATOMIC_FETCH_AND_ADD, 8);
		segment = tagged(RDMAP_READ_RESPONSE, id, i == 4 ? address(GRANTED_AT) : 0);
		if (i == 1) { /* the key of a region in place of the READ's number */
			segment.tagged.stag = granted_key;
			segment.tagged.offset = address(GRANTED_AT);
		}
		if (i == 2) { /* a second answer */
			give(&segment, end.memory + RECEIVE_AT, 100);
			assert_false(is_refused());
		}
		if (i == 4) /* as if we had named a key */
			segment.tagged.stag = granted_key;
		give(&segment, NULL, 100);
		assert_true(is_refused());
		assert_true(is_untouched());
		stream_stop(&end);
	}
}

static void atomic_response_without_its_atomic_places_nothing(void **state)
{
	struct iwarp_settings settings = stream_settings(true);
	const struct ddp_segment segment =
		untagged(RDMAP_ATOMIC_RESPONSE, DDP_QUEUE_ATOMIC_RESPONSE, 1);

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct rdmap_atomic_response response = {.original = UINT64_MAX};
		uint8_t payload[RDMAP_ATOMIC_RESPONSE_BYTES];

		start_with(&settings);
		if (i == 1)
			response.id = read_post(WR_RDMA_READ, 100);
		if (i == 2)
			response.id = read_post(WR_ATOMIC_FETCH_AND_ADD, 8) + 1;
		rdmap_atomic_response_encode(&response, payload);
		give(&segment, payload, sizeof(payload));
		assert_true(is_refused());
		assert_true(is_untouched());
		stream_stop(&end);
	}
}

/* --- numbers --- */

static const struct {
	enum rdmap_opcode opcode;
	enum ddp_queue queue;
	uint32_t payload_bytes;
} numbered[] = {
	{RDMAP_SEND, DDP_QUEUE_SEND, 10},
	{RDMAP_IMMEDIATE, DDP_QUEUE_SEND, RDMAP_IMMEDIATE_BYTES},
	{RDMAP_READ_REQUEST, DDP_QUEUE_READ_REQUEST, RDMAP_READ_REQUEST_BYTES},
	{RDMAP_ATOMIC_REQUEST, DDP_QUEUE_READ_REQUEST, RDMAP_ATOMIC_REQUEST_BYTES},
	{RDMAP_TERMINATE, DDP_QUEUE_TERMINATE, 4},
	{RDMAP_ATOMIC_RESPONSE, DDP_QUEUE_ATOMIC_RESPONSE, RDMAP_ATOMIC_RESPONSE_BYTES},
};

static void message_numbers_that_jump_are_refused(void **state)
{
	static const uint32_t jumps[] = {0, 2, 3, 1000, 0x7fffffff, 0x80000001, UINT32_MAX};

	(void)state;
	for (unsigned i = 0; i < sizeof(numbered) / sizeof(numbered[0]); i++)
		for (unsigned j = 0; j < sizeof(jumps) / sizeof(jumps[0]); j++) {
			struct ddp_segment segment =
				untagged(numbered[i].opcode, numbered[i].queue, jumps[j]);

			start();
			stream_post_receive(&end, 1, RECEIVE_AT, 1000);
			give(&segment, NULL, numbered[i].payload_bytes);
			assert_true(is_refused());
			assert_true(end.events & SIGNAL_QP_REQUEST);
			assert_true(is_untouched());
			stream_stop(&end);
		}
}

/* RFC 5041 section 4.3. */
static void message_numbers_go_on_with_zero(void **state)
{
	struct ddp_segment segment;
	struct cqe cqe;

	(void)state;
	start();
	end.iwarp->rx.msn[DDP_QUEUE_SEND] = UINT32_MAX; /* 4,294,967,294 messages later */
	for (uint32_t i = 0; i < 3; i++) {
		stream_post_receive(&end, i, RECEIVE_AT, 1000);
		segment = untagged(RDMAP_SEND, DDP_QUEUE_SEND, UINT32_MAX + i);
		give(&segment, NULL, 10);
		assert_true(stream_poll(&end, &cqe));
		assert_int_equal(cqe.status, WC_SUCCESS);
	}
	stream_stop(&end);
}

/* --- lengths and markers --- */

static void any_length_that_is_announced_fits_the_room_there_is(void **state)
{
	static const uint32_t lengths[] = {0, 1, 13, 14, 17, 18, 4000, 64768, 65534, 65535};

	(void)state;
	for (unsigned choice = 0; choice < 4; choice++)
		for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			const struct iwarp_settings settings = settings_of(choice);

			start_with(&settings);
			memset(fpdu, 0x41, sizeof(fpdu)); /* a WRITE or SEND of a sort */
			fpdu[choice & 2 ? MPA_MARKER_BYTES : 0] = (uint8_t)(lengths[i] >> 8);
			fpdu[choice & 2 ? MPA_MARKER_BYTES + 1 : 1] = (uint8_t)lengths[i];
			stream_give(&end, fpdu, sizeof(fpdu));
			assert_true(is_refused());
			assert_true(is_untouched());
			stream_stop(&end);
		}
}

static void markers_that_lie_are_refused(void **state)
{
	const struct iwarp_settings settings = settings_of(2);
	struct ddp_segment segment;

	(void)state;
	for (uint32_t marker = 0; marker < 10; marker++)
		for (uint32_t bit = 2; bit < 16; bit++) {
			start_with(&settings);
			segment = tagged(RDMAP_WRITE, granted_key, address(GRANTED_AT));
			uint32_t bytes = make(&segment, NULL, 5000);
			fpdu[marker * MPA_MARKER_INTERVAL + 3 - bit / 8] ^= (uint8_t)(1 << bit % 8);
			stream_give(&end, fpdu, bytes);
			assert_true(is_refused());
			assert_true(is_untouched());
			stream_stop(&end);
		}
}

/* The length says less than the markers do. */
static void length_that_markers_deny_is_refused(void **state)
{
	const struct iwarp_settings settings = settings_of(2);
	struct ddp_segment segment;

	(void)state;
	start_with(&settings);
	segment = tagged(RDMAP_WRITE, granted_key, address(GRANTED_AT));
	uint32_t bytes = make(&segment, NULL, 3000);
	/*
	 * 776 bytes instead of 3,014: the next FPDU begins in the payload, with a length of 0xeeee.
	 */
	fpdu[MPA_MARKER_BYTES] = 3;
	fpdu[MPA_MARKER_BYTES + 1] = 8;
	memset(fpdu + bytes, 0xee, sizeof(fpdu) - bytes);
	stream_give(&end, fpdu, sizeof(fpdu));
	assert_true(is_refused());
	assert_true(is_untouched_elsewhere());
	stream_stop(&end);
}

/* Without CRCs: neither pad nor the field of the CRC (RFC 5044 section 4.1). */
static void what_is_not_to_be_looked_at_is_not(void **state)
{
	struct ddp_segment segment;

	(void)state;
	start();
	segment = tagged(RDMAP_WRITE, granted_key, address(GRANTED_AT));
	uint32_t bytes = make(&segment, NULL, 99); /* and a byte of pad */
	memset(fpdu + bytes - FPDU_CRC_BYTES - 1, 0xa5, FPDU_CRC_BYTES + 1);
	stream_give(&end, fpdu, bytes);
	assert_false(is_refused());
	assert_int_equal(end.memory[GRANTED_AT + 98], 0xee);
	assert_true(stream_is_untouched(&end, GRANTED_AT + 99, 1));
	stream_stop(&end);
}

/* RFC 7306 section 6.3. */
static void immediate_data_has_eight_bytes(void **state)
{
	(void)state;
	for (uint32_t bytes = 0; bytes <= 16; bytes++) {
		const struct ddp_segment segment = untagged(RDMAP_IMMEDIATE, DDP_QUEUE_SEND, 1);

		start();
		stream_post_receive(&end, 1, RECEIVE_AT, 1000);
		give(&segment, NULL, bytes);
		assert_int_equal(is_refused(), bytes != RDMAP_IMMEDIATE_BYTES);
		assert_true(is_untouched());
		stream_stop(&end);
	}
}

/* --- room and time --- */

/* Bytes allocated now, in NIC memory and on the heap. */
static size_t allocated_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd + end.arena.live_bytes;
}

static void nothing_that_comes_allocates(void **state)
{
	static const uint8_t zeros[RDMAP_ATOMIC_REQUEST_BYTES];

	(void)state;
	for (uint32_t opcode = 0; opcode < RDMAP_OPCODE_COUNT; opcode++)
		for (uint32_t bytes = 0; bytes <= PAYLOAD_BYTES_MAX; bytes = bytes * 3 + 4) {
			struct ddp_segment segment = rdmap_is_tagged((enum rdmap_opcode)opcode)
				? tagged((enum rdmap_opcode)opcode, granted_key,
					  address(GRANTED_AT))
				: untagged((enum rdmap_opcode)opcode, opcode % DDP_QUEUE_COUNT, 1);

			start();
			stream_post_receive(&end, 1, RECEIVE_AT, 1000);
			size_t before = allocated_bytes();
			give(&segment, bytes <= sizeof(zeros) ? zeros : NULL, bytes);
			stream_take(&end, fpdu, sizeof(fpdu));
			stream_pass(&end, 10 * IWARP_CLOSE_NS);
			assert_int_equal(allocated_bytes(), before);
			stream_stop(&end);
		}
}

static void empty_fpdus_without_end_keep_nobody(void **state)
{
	struct ddp_segment segment;
	struct cqe cqe;
	size_t before;

	(void)state;
	start();
	before = allocated_bytes();
	segment = tagged(RDMAP_WRITE, 0, 0);
	for (uint32_t i = 0; i < 100000; i++)
		assert_int_equal(give(&segment, NULL, 0), fpdu_bytes(DDP_TAGGED_BYTES));
	assert_false(is_refused());
	/* An empty SEND takes a receive request, and where there is none its stream waits. */
	for (uint32_t msn = 1; msn <= 3; msn++) {
		if (msn < 3)
			stream_post_receive(&end, msn, RECEIVE_AT, 1000);
		segment = untagged(RDMAP_SEND, DDP_QUEUE_SEND, msn);
		give(&segment, NULL, 0);
		assert_int_equal(stream_poll(&end, &cqe), msn < 3);
	}
	assert_true(iwarp_is_stalled(end.iwarp));
	assert_int_equal(give(&segment, NULL, 0), 0);
	assert_int_equal(allocated_bytes(), before);
	stream_stop(&end);
}

/* A byte at a time, with all the time in the world: no more is kept than the FPDU. */
static void stream_that_drips_costs_no_more_room(void **state)
{
	struct ddp_segment segment;
	struct iwarp_span spans[IWARP_SPANS_MAX];

	(void)state;
	for (unsigned choice = 0; choice < 4; choice++) {
		const struct iwarp_settings settings = settings_of(choice);

		start_with(&settings);
		size_t before = allocated_bytes();
		segment = tagged(RDMAP_WRITE, granted_key, address(GRANTED_AT));
		uint32_t bytes = make(&segment, NULL, 5000);
		for (uint32_t i = 0; i < bytes; i++) {
			assert_true(iwarp_offer(end.iwarp, spans) > 0);
			assert_int_equal(stream_give(&end, fpdu + i, 1), 1);
			stream_pass(&end, 1000000000);
		}
		assert_false(is_refused());
		assert_int_equal(end.memory[GRANTED_AT + 4999], 0xee);
		assert_int_equal(allocated_bytes(), before);
		stream_stop(&end);
	}
}

/* The peer sends requests all the time, and receives no answer. */
static void peer_that_does_not_read_gets_no_more_room(void **state)
{
	struct iwarp_part parts[IWARP_PIECES_MAX];
	struct iwarp_settings settings = stream_settings(false);
	uint32_t staged_bytes, most_bytes = 0;

	(void)state;
	settings.has_crc = true;
	start_with(&settings);
	size_t before = allocated_bytes();
	for (uint32_t msn = 1; msn <= QP_RD_ATOMIC_MAX; msn++) {
		give_read(msn, GRANTED_BYTES);
		iwarp_output(end.iwarp, parts, end.now_ns);
		staged_bytes = end.iwarp->tx.staged_bytes;
		assert_true(staged_bytes >= most_bytes && staged_bytes <= IWARP_TX_BYTES);
		most_bytes = staged_bytes;
	}
	assert_true(most_bytes < QP_RD_ATOMIC_MAX * (uint32_t)GRANTED_BYTES);
	assert_false(is_refused());
	/* What is staged is not owed any more. The rest is all that there is to have. */
	for (uint32_t msn = QP_RD_ATOMIC_MAX + 1; !is_refused(); msn++) {
		assert_true(msn < 2 * QP_RD_ATOMIC_MAX);
		give_read(msn, GRANTED_BYTES);
		iwarp_output(end.iwarp, parts, end.now_ns);
	}
	assert_int_equal(allocated_bytes(), before);
	stream_stop(&end);
}

/*
 * Requests of this side that the peer does not receive stay in the send queue, whose depth bounds
 * them.
 */
static void peer_that_does_not_read_fills_the_send_queue(void **state)
{
	struct iwarp_part parts[IWARP_PIECES_MAX];
	struct send_wr wr;
	struct sge sge;
	struct cqe cqe;
	uint32_t posted = 0;

	(void)state;
	struct iwarp_settings settings = stream_settings(true);
	start_with(&settings);
	size_t before = allocated_bytes();
	wr = stream_wr(&end, &end, WR_SEND, &sge, 0, 60000, 0);
	while (stream_post(&end, &wr) == 0) {
		iwarp_output(end.iwarp, parts, end.now_ns);
		posted++;
	}
	assert_int_equal(posted, STREAM_DEPTH);
	assert_true(end.iwarp->tx.staged_bytes <= IWARP_TX_ZEROCOPY_BYTES + 65536);
	assert_false(stream_poll(&end, &cqe));
	assert_int_equal(allocated_bytes(), before);
	stream_stop(&end);
}

/* Nothing behind an error is taken (RFC 5044 section 8, RFC 5041 section 7.1). */
static void nothing_is_taken_after_an_error(void **state)
{
	static uint8_t both[2000];
	struct ddp_segment bad, good;
	uint32_t bytes;

	(void)state;
	start();
	bad = tagged(RDMAP_WRITE, granted_key, address(GRANTED_END));
	good = tagged(RDMAP_WRITE, granted_key, address(GRANTED_AT));
	bytes = make(&bad, NULL, 100);
	memcpy(both, fpdu, bytes);
	uint32_t good_bytes = make(&good, NULL, 100);
	memcpy(both + bytes, fpdu, good_bytes);
	stream_give(&end, both, bytes + good_bytes);
	assert_true(is_refused());
	give(&good, NULL, 100);
	assert_true(is_untouched());
	stream_stop(&end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_across_a_bound_places_nothing_beyond),
		cmocka_unit_test(write_that_walks_out_of_its_region_is_stopped_at_the_bound),
		cmocka_unit_test(write_to_overlapping_places_stays_where_it_may),
		cmocka_unit_test(stags_that_are_guessed_reach_nothing),
		cmocka_unit_test(key_that_was_revoked_reaches_nothing),
		cmocka_unit_test(key_that_is_revoked_in_a_segment_places_no_more),
		cmocka_unit_test(read_response_without_its_read_places_nothing),
		cmocka_unit_test(atomic_response_without_its_atomic_places_nothing),
		cmocka_unit_test(message_numbers_that_jump_are_refused),
		cmocka_unit_test(message_numbers_go_on_with_zero),
		cmocka_unit_test(any_length_that_is_announced_fits_the_room_there_is),
		cmocka_unit_test(markers_that_lie_are_refused),
		cmocka_unit_test(length_that_markers_deny_is_refused),
		cmocka_unit_test(what_is_not_to_be_looked_at_is_not),
		cmocka_unit_test(immediate_data_has_eight_bytes),
		cmocka_unit_test(nothing_that_comes_allocates),
		cmocka_unit_test(empty_fpdus_without_end_keep_nobody),
		cmocka_unit_test(stream_that_drips_costs_no_more_room),
		cmocka_unit_test(peer_that_does_not_read_gets_no_more_room),
		cmocka_unit_test(peer_that_does_not_read_fills_the_send_queue),
		cmocka_unit_test(nothing_is_taken_after_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
