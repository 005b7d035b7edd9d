/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA's connection set-up: what two ends agree on, and what one of them refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cm/mpa.h"

static struct mpa_conn active, passive;
static const struct mpa_policy usual = {.revision = 2, .is_peer_to_peer = true};

/* Moves a frame, a byte at a time or as it is offered. Returns the last event. */
static enum mpa_event move(struct mpa_conn *from, struct mpa_conn *to, uint32_t step_max)
{
	enum mpa_event event = MPA_NOTHING;
	uint32_t there, room;
	const uint8_t *bytes;

	while (bytes = mpa_output(from, &there), there) {
		uint8_t *at = mpa_offer(to, &room);
		uint32_t step = there < room ? there : room;

		assert_int_equal(event, MPA_NOTHING);
		assert_true(room > 0);
		step = step < step_max ? step : step_max;
		memcpy(at, bytes, step);
		mpa_sent(from, step);
		event = mpa_received(to, step);
	}
	return event;
}

static void request(
	const struct mpa_policy *policy, const struct mpa_policy *other, uint32_t ird, uint32_t ord)
{
	const struct mpa_reads reads = {ird, ord};

	mpa_connect(&active, policy, &reads, "hello", 5);
	mpa_listen(&passive, other);
	assert_int_equal(move(&active, &passive, 1), MPA_REQUESTED);
	assert_int_equal(passive.peer.private_bytes, 5);
	assert_memory_equal(passive.peer.private_data, "hello", 5);
}

static void accept_with(uint32_t ird, uint32_t ord)
{
	const struct mpa_reads reads = {ird, ord};

	mpa_accept(&passive, &reads, "yes", 3);
	assert_int_equal(move(&passive, &active, 1000), MPA_ACCEPTED);
	assert_int_equal(active.peer.private_bytes, 3);
	assert_memory_equal(active.peer.private_data, "yes", 3);
}

static void both_ends_agree_on_reads(void **state)
{
	(void)state;
	request(&usual, &usual, 4, 16);
	assert_int_equal(mpa_requested_reads(&passive).ird, 16);
	assert_int_equal(mpa_requested_reads(&passive).ord, 4);
	accept_with(3, 16);
	assert_int_equal(active.settings.ord, 3);
	assert_int_equal(active.settings.ird, 4);
	assert_int_equal(passive.settings.ird, 3);
	assert_int_equal(passive.settings.ord, 4);
	assert_true(active.settings.is_initiator && !passive.settings.is_initiator);
}

static void initiator_serves_what_the_responder_insists_on(void **state)
{
	(void)state;
	request(&usual, &usual, 1, 1);
	passive.peer.ird = 9; /* as if it had not listened */
	accept_with(1, 9);
	assert_int_equal(active.settings.ird, 9);
}

/* What the initiator has to say, in a FPDU, when it cannot live with a reply. */
static void expect_terminate(enum rdmap_error error)
{
	struct rdmap_terminate terminate;
	struct ddp_segment segment;
	uint32_t count;
	const uint8_t *fpdu = mpa_output(&active, &count);

	assert_int_equal(active.error, error);
	if (active.settings.sends_markers) {
		assert_memory_equal(fpdu, "\0\0\0", MPA_MARKER_BYTES);
		assert_true(fpdu_crc_is_good(fpdu, count));
		fpdu += MPA_MARKER_BYTES;
		count -= MPA_MARKER_BYTES;
	}
	assert_int_equal(count, fpdu_bytes(fpdu_ulpdu_bytes(fpdu)));
	assert_int_equal(
		ddp_decode(&segment, fpdu + FPDU_LENGTH_BYTES, fpdu_ulpdu_bytes(fpdu)), RDMAP_OK);
	assert_int_equal(segment.opcode, RDMAP_TERMINATE);
	assert_int_equal(segment.untagged.msn, 1);
	rdmap_terminate_decode(&terminate, segment.payload, segment.payload_bytes);
	assert_int_equal(terminate.error, error);
}

static void reply_that_wants_too_many_reads_is_terminated(void **state)
{
	(void)state;
	request(&usual, &usual, 1, 1);
	passive.peer.ird = 99;
	mpa_accept(&passive, &(struct mpa_reads){1, 99}, NULL, 0);
	assert_int_equal(move(&passive, &active, 1000), MPA_INVALID);
	expect_terminate(RDMAP_ERROR_MPA_READS);
}

static void reads_that_are_agreed_on_elsewhere_stay_as_they_are(void **state)
{
	(void)state;
	request(&usual, &usual, 3, 4);
	passive.peer.ird = MPA_READS_MAX; /* as if it had said so */
	passive.peer.ord = MPA_READS_MAX;
	accept_with(5, 6);
	assert_int_equal(passive.settings.ird, 5);
	assert_int_equal(passive.settings.ord, 6);
	assert_int_equal(active.peer.ird, MPA_READS_MAX);
	assert_int_equal(active.peer.ord, MPA_READS_MAX);
	assert_int_equal(active.settings.ird, 3);
	assert_int_equal(active.settings.ord, 4);
}

static void crc_is_used_if_either_wants_it(void **state)
{
	struct mpa_policy policy = usual, other = usual;

	(void)state;
	for (int i = 0; i < 4; i++) {
		policy.wants_crc = i & 1;
		other.wants_crc = i & 2;
		request(&policy, &other, 1, 1);
		accept_with(1, 1);
		assert_int_equal(active.settings.has_crc, i != 0);
		assert_int_equal(passive.settings.has_crc, i != 0);
	}
}

static void markers_go_where_they_are_asked_for(void **state)
{
	struct mpa_policy policy = usual, other = usual;

	(void)state;
	for (int i = 0; i < 4; i++) {
		policy.wants_markers = i & 1;
		other.wants_markers = i & 2;
		request(&policy, &other, 1, 1);
		accept_with(1, 1);
		assert_int_equal(active.settings.receives_markers, policy.wants_markers);
		assert_int_equal(passive.settings.sends_markers, policy.wants_markers);
		assert_int_equal(active.settings.sends_markers, other.wants_markers);
		assert_int_equal(passive.settings.receives_markers, other.wants_markers);
	}
}

static void peer_to_peer_ends_agree_on_one_way_to_be_ready(void **state)
{
	static const uint32_t offers[][2] = {
		{MPA_READY_SEND | MPA_READY_WRITE | MPA_READY_READ, MPA_READY_WRITE},
		{MPA_READY_SEND | MPA_READY_READ, MPA_READY_READ},
		{MPA_READY_SEND, MPA_READY_SEND},
	};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		request(&usual, &usual, 1, 1);
		passive.peer.ready = offers[i][0];
		accept_with(1, 1);
		assert_int_equal(active.settings.ready, offers[i][1]);
		assert_int_equal(passive.settings.ready, offers[i][1]);
	}
}

static void one_way_to_be_ready_is_offered_if_the_policy_names_it(void **state)
{
	static const uint32_t ways[] = {MPA_READY_SEND, MPA_READY_WRITE, MPA_READY_READ};
	struct mpa_policy policy = usual;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		policy.ready = ways[i];
		request(&policy, &usual, 1, 1);
		assert_int_equal(passive.peer.ready, ways[i]);
		accept_with(1, 1);
		assert_int_equal(active.settings.ready, ways[i]);
	}
	policy.is_peer_to_peer = false;
	request(&policy, &usual, 1, 1);
	assert_int_equal(passive.peer.ready, 0);
}

static void without_peer_to_peer_nothing_is_agreed(void **state)
{
	struct mpa_policy policy = usual;

	(void)state;
	policy.is_peer_to_peer = false;
	request(&policy, &usual, 1, 1);
	accept_with(1, 1);
	assert_int_equal(active.settings.ready, 0);
	assert_int_equal(passive.settings.ready, 0);
}

static void revision_one_is_answered_in_kind(void **state)
{
	struct mpa_policy policy = usual;

	(void)state;
	policy.revision = 1;
	policy.is_peer_to_peer = false;
	request(&policy, &usual, 5, 6);
	accept_with(7, 8);
	assert_int_equal(active.peer.revision, 1);
	assert_false(active.peer.is_enhanced);
	/* Nothing was said about READs: each end has what its program asked for. */
	assert_int_equal(active.settings.ird, 5);
	assert_int_equal(active.settings.ord, 6);
	assert_int_equal(passive.settings.ird, 7);
	assert_int_equal(passive.settings.ord, 8);
}

static void refusal_brings_private_data(void **state)
{
	(void)state;
	request(&usual, &usual, 1, 1);
	mpa_reject(&passive, "no", 2);
	assert_int_equal(move(&passive, &active, 3), MPA_REJECTED);
	assert_int_equal(active.peer.private_bytes, 2);
	assert_memory_equal(active.peer.private_data, "no", 2);
}

static enum mpa_event give(
	struct mpa_conn *mpa, struct mpa_frame *frame, size_t patch_at, uint8_t patch)
{
	uint8_t bytes[MPA_FRAME_BYTES + MPA_PRIVATE_BYTES_MAX];
	size_t count = mpa_frame_encode(frame, bytes), done = 0;
	enum mpa_event event = MPA_NOTHING;

	if (patch_at)
		bytes[patch_at] = patch;
	while (done < count && event == MPA_NOTHING) {
		uint32_t room;
		uint8_t *at = mpa_offer(mpa, &room);
		uint32_t step = (uint32_t)(count - done) < room ? (uint32_t)(count - done) : room;

		memcpy(at, bytes + done, step);
		done += step;
		event = mpa_received(mpa, step);
	}
	return event;
}

static void request_that_is_none_is_refused(void **state)
{
	struct mpa_frame frame = {.revision = 2};

	(void)state;
	mpa_listen(&passive, &usual);
	assert_int_equal(give(&passive, &frame, 3, 'X'), MPA_INVALID);
	assert_int_equal(passive.error, RDMAP_ERROR_MPA_FRAME);
	mpa_listen(&passive, &usual);
	assert_int_equal(give(&passive, &frame, 17, 3), MPA_INVALID);
	mpa_listen(&passive, &usual);
	assert_int_equal(give(&passive, &frame, 18, 3), MPA_INVALID);
}

static void peer_to_peer_request_without_a_way_is_told_one(void **state)
{
	struct mpa_frame frame = {.revision = 2, .is_enhanced = true, .is_peer_to_peer = true};

	(void)state;
	mpa_listen(&passive, &usual);
	assert_int_equal(give(&passive, &frame, 0, 0), MPA_REQUESTED);
	mpa_connect(&active, &usual, &(struct mpa_reads){1, 1}, NULL, 0);
	accept_with(1, 1);
	assert_true(active.peer.is_peer_to_peer && active.peer.ready);
}

/* An initiator without READs of its own may still have to get ready by one. */
static void ready_by_a_read_has_a_read_served(void **state)
{
	(void)state;
	request(&usual, &usual, 0, 0);
	passive.peer.ready = MPA_READY_READ;
	accept_with(0, 0);
	assert_int_equal(active.settings.ready, MPA_READY_READ);
	assert_int_equal(passive.settings.ird, 1);
}

static enum mpa_event reply_give(const struct mpa_policy *policy, struct mpa_frame *reply)
{
	mpa_connect(&active, policy, &(struct mpa_reads){1, 1}, NULL, 0);
	reply->is_reply = true;
	return give(&active, reply, 0, 0);
}

static void reply_that_is_none_is_refused(void **state)
{
	struct mpa_policy old = {.revision = 1};
	struct mpa_frame request = {.revision = 2};
	uint32_t count;

	(void)state;
	mpa_connect(&active, &usual, &(struct mpa_reads){1, 1}, NULL, 0);
	mpa_output(&active, &count);
	mpa_sent(&active, count);
	assert_int_equal(give(&active, &request, 0, 0), MPA_INVALID); /* two initiators */
	assert_int_equal(active.error, RDMAP_ERROR_MPA_FRAME);
	mpa_output(&active, &count); /* nothing is said: the connection is closed */
	assert_int_equal(count, 0);
	assert_int_equal(reply_give(&old, &(struct mpa_frame){.revision = 2}), MPA_INVALID);
}

static void reply_with_several_ways_has_one_taken(void **state)
{
	struct mpa_frame two = {.revision = 2,
		.is_enhanced = true,
		.is_peer_to_peer = true,
		.ready = MPA_READY_READ | MPA_READY_SEND};
	struct mpa_frame ignored = {
		.revision = 2, .is_enhanced = true, .ready = MPA_READY_WRITE}; /* no peer to peer */

	(void)state;
	assert_int_equal(reply_give(&usual, &two), MPA_ACCEPTED);
	assert_int_equal(active.settings.ready, MPA_READY_READ);
	assert_int_equal(reply_give(&usual, &ignored), MPA_ACCEPTED);
	assert_int_equal(active.settings.ready, 0);
}

static void reply_without_a_way_is_terminated(void **state)
{
	struct mpa_frame reply = {.revision = 2,
		.is_enhanced = true,
		.is_peer_to_peer = true,
		.wants_crc = true,
		.wants_markers = true};

	(void)state;
	assert_int_equal(reply_give(&usual, &reply), MPA_INVALID);
	expect_terminate(RDMAP_ERROR_MPA_READY);
}

/* Its queue pair is gone, say. */
static void connection_that_cannot_be_after_all_is_terminated(void **state)
{
	struct mpa_policy policy = {.revision = 2, .wants_crc = true, .wants_markers = true};

	(void)state;
	request(&policy, &policy, 1, 1);
	accept_with(1, 1);
	active.error = RDMAP_ERROR_MPA_CATASTROPHIC;
	mpa_terminate(&active, RDMAP_ERROR_MPA_CATASTROPHIC);
	expect_terminate(RDMAP_ERROR_MPA_CATASTROPHIC);
}

static void no_more_bytes_are_taken_than_the_frame_has(void **state)
{
	uint32_t room;

	(void)state;
	mpa_listen(&passive, &usual);
	mpa_offer(&passive, &room);
	assert_int_equal(room, MPA_FRAME_BYTES);
	request(&usual, &usual, 1, 1);
	mpa_offer(&passive, &room);
	assert_int_equal(room, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_agree_on_reads),
		cmocka_unit_test(initiator_serves_what_the_responder_insists_on),
		cmocka_unit_test(crc_is_used_if_either_wants_it),
		cmocka_unit_test(peer_to_peer_ends_agree_on_one_way_to_be_ready),
		cmocka_unit_test(one_way_to_be_ready_is_offered_if_the_policy_names_it),
		cmocka_unit_test(without_peer_to_peer_nothing_is_agreed),
		cmocka_unit_test(revision_one_is_answered_in_kind),
		cmocka_unit_test(refusal_brings_private_data),
		cmocka_unit_test(request_that_is_none_is_refused),
		cmocka_unit_test(markers_go_where_they_are_asked_for),
		cmocka_unit_test(reply_that_wants_too_many_reads_is_terminated),
		cmocka_unit_test(reads_that_are_agreed_on_elsewhere_stay_as_they_are),
		cmocka_unit_test(peer_to_peer_request_without_a_way_is_told_one),
		cmocka_unit_test(ready_by_a_read_has_a_read_served),
		cmocka_unit_test(reply_that_is_none_is_refused),
		cmocka_unit_test(reply_with_several_ways_has_one_taken),
		cmocka_unit_test(reply_without_a_way_is_terminated),
		cmocka_unit_test(connection_that_cannot_be_after_all_is_terminated),
		cmocka_unit_test(no_more_bytes_are_taken_than_the_frame_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
