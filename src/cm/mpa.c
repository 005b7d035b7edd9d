/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/mpa.h"

#include <assert.h>
#include <string.h>

#include "base/arith.h"

enum { READY_ALL = MPA_READY_SEND | MPA_READY_WRITE | MPA_READY_READ };

static void frame_put(struct mpa_conn *mpa, struct mpa_frame *frame, const void *data, size_t bytes)
{
	assert(bytes <= mpa_private_room(frame->is_enhanced));
	frame->private_bytes = (uint16_t)bytes;
	if (bytes)
		memcpy(frame->private_data, data, bytes);
	mpa->out_first = 0;
	mpa->out_end = (uint32_t)mpa_frame_encode(frame, mpa->out);
}

static uint32_t ready_offered(const struct mpa_policy *policy)
{
	if (!policy->is_peer_to_peer)
		return 0;
	return policy->ready ? policy->ready : READY_ALL;
}

void mpa_connect(struct mpa_conn *mpa, const struct mpa_policy *policy,
	const struct mpa_reads *reads, const void *data, size_t bytes)
{
	struct mpa_frame request = {
		.revision = policy->revision,
		.wants_crc = policy->wants_crc,
		.wants_markers = policy->wants_markers,
		.is_enhanced = policy->revision == 2,
		.is_peer_to_peer = policy->is_peer_to_peer,
		.ready = ready_offered(policy),
		.ird = (uint16_t)reads->ird,
		.ord = (uint16_t)reads->ord,
	};

	memset(mpa, 0, sizeof(*mpa));
	mpa->is_active = true;
	mpa->policy = *policy;
	mpa->reads = *reads;
	frame_put(mpa, &request, data, bytes);
}

void mpa_listen(struct mpa_conn *mpa, const struct mpa_policy *policy)
{
	memset(mpa, 0, sizeof(*mpa));
	mpa->policy = *policy;
}

/* --- the responder's answer --- */

/*
 * Choose one of the RTR messages in `offered`. Prefer the empty WRITE, because the responder's
 * queue pair need not handle it. If `offered` has none, choose the WRITE, too (RFC 6581 section
 * 9.2).
 */
static uint32_t ready_choose(uint32_t offered)
{
	if (offered & MPA_READY_WRITE || !offered)
		return MPA_READY_WRITE;
	return offered & MPA_READY_READ ? MPA_READY_READ : MPA_READY_SEND;
}

/*
 * The number of READs that a reply states. The answer to MPA_READS_MAX is MPA_READS_MAX, by which
 * the sides leave the agreement on READs to other means (RFC 6581 section 9.1).
 */
static uint16_t reads_answer(uint32_t requested, uint32_t reads)
{
	return (uint16_t)(requested == MPA_READS_MAX ? MPA_READS_MAX : reads);
}

struct mpa_reads mpa_requested_reads(const struct mpa_conn *mpa)
{
	if (!mpa->peer.is_enhanced)
		return (struct mpa_reads){QP_RD_ATOMIC_MAX, QP_RD_ATOMIC_MAX};
	return (struct mpa_reads){.ird = mpa->peer.ord, .ord = mpa->peer.ird};
}

void mpa_accept(struct mpa_conn *mpa, const struct mpa_reads *reads, const void *data, size_t bytes)
{
	const struct mpa_frame *request = &mpa->peer;
	struct mpa_reads limit = mpa_requested_reads(mpa);
	struct mpa_frame reply = {
		.is_reply = true,
		.revision = request->revision,
		.wants_crc = request->wants_crc || mpa->policy.wants_crc,
		.wants_markers = mpa->policy.wants_markers,
		.is_enhanced = request->is_enhanced,
		.is_peer_to_peer = request->is_peer_to_peer,
		.ready = request->is_peer_to_peer ? ready_choose(request->ready) : 0,
	};

	mpa->settings = (struct iwarp_settings){
		.has_crc = reply.wants_crc,
		.sends_markers = request->wants_markers,
		.receives_markers = reply.wants_markers,
		.ready = reply.ready,
		.ird = min_u32(
			max_u32(reads->ird, reply.ready == MPA_READY_READ), QP_RD_ATOMIC_MAX),
		.ord = min_u32(reads->ord, limit.ord),
	};
	reply.ird = reads_answer(limit.ird, mpa->settings.ird);
	reply.ord = reads_answer(limit.ord, mpa->settings.ord);
	frame_put(mpa, &reply, data, bytes);
}

void mpa_reject(struct mpa_conn *mpa, const void *data, size_t bytes)
{
	struct mpa_frame reply = {
		.is_reply = true,
		.revision = mpa->peer.revision,
		.wants_crc = mpa->peer.wants_crc,
		.is_rejected = true,
		.is_enhanced = mpa->peer.is_enhanced,
	};

	frame_put(mpa, &reply, data, bytes);
}

/* --- bytes --- */

/* The length of the awaited frame; before its fixed part has arrived, the length of that part. */
static uint32_t in_whole_bytes(const struct mpa_conn *mpa)
{
	int follow_bytes = mpa->in_bytes < MPA_FRAME_BYTES
		? 0
		: mpa_frame_follow_bytes(mpa->in, mpa->is_active);

	return MPA_FRAME_BYTES + (uint32_t)(follow_bytes < 0 ? 0 : follow_bytes);
}

uint8_t *mpa_offer(struct mpa_conn *mpa, uint32_t *ret_bytes)
{
	*ret_bytes = in_whole_bytes(mpa) - mpa->in_bytes;
	return mpa->in + mpa->in_bytes;
}

static enum mpa_event frame_invalid(struct mpa_conn *mpa, enum rdmap_error error)
{
	mpa->error = error;
	return MPA_INVALID;
}

void mpa_terminate(struct mpa_conn *mpa, enum rdmap_error error)
{
	const struct ddp_segment segment = {.opcode = RDMAP_TERMINATE,
		.is_last = true,
		.untagged = {.queue = DDP_QUEUE_TERMINATE, .msn = 1}};
	bool has_crc = mpa->settings.has_crc;
	uint8_t *ulpdu = mpa->out + FPDU_LENGTH_BYTES;
	uint32_t bytes = ddp_encode(&segment, ulpdu);

	bytes += rdmap_terminate_encode(error, NULL, 0, ulpdu + bytes);
	mpa->out_first = 0;
	mpa->out_end = mpa->settings.sends_markers ? fpdu_seal_marked(mpa->out, bytes, has_crc, 0)
						   : fpdu_seal(mpa->out, bytes, has_crc);
}

/* Refuse a valid reply that requests more than urnic can do. */
static enum mpa_event reply_refuse(struct mpa_conn *mpa, enum rdmap_error error)
{
	mpa_terminate(mpa, error);
	return frame_invalid(mpa, error);
}

/* Agree on READs and on the RTR message of an enhanced reply (RFC 6581 section 9). */
static enum mpa_event enhanced_agree(struct mpa_conn *mpa)
{
	const struct mpa_frame *reply = &mpa->peer;
	struct iwarp_settings *settings = &mpa->settings;

	if (reply->ord != MPA_READS_MAX)
		settings->ird = max_u32(settings->ird, reply->ord);
	settings->ord = min_u32(settings->ord, reply->ird);
	if (settings->ird > QP_RD_ATOMIC_MAX)
		return reply_refuse(mpa, RDMAP_ERROR_MPA_READS);
	if (!mpa->policy.is_peer_to_peer || !reply->is_peer_to_peer)
		return MPA_ACCEPTED;
	if (!reply->ready)
		return reply_refuse(mpa, RDMAP_ERROR_MPA_READY);
	settings->ready = ready_choose(reply->ready);
	return MPA_ACCEPTED;
}

static enum mpa_event reply_check(struct mpa_conn *mpa)
{
	const struct mpa_frame *reply = &mpa->peer;

	if (reply->is_rejected)
		return MPA_REJECTED;
	if (reply->revision > mpa->policy.revision)
		return frame_invalid(mpa, RDMAP_ERROR_MPA_FRAME);
	mpa->settings = (struct iwarp_settings){
		.has_crc = reply->wants_crc || mpa->policy.wants_crc,
		.sends_markers = reply->wants_markers,
		.receives_markers = mpa->policy.wants_markers,
		.is_initiator = true,
		.ird = mpa->reads.ird,
		.ord = mpa->reads.ord,
	};
	return reply->is_enhanced ? enhanced_agree(mpa) : MPA_ACCEPTED;
}

enum mpa_event mpa_received(struct mpa_conn *mpa, uint32_t bytes)
{
	mpa->in_bytes += bytes;
	assert(mpa->in_bytes <= sizeof(mpa->in));
	if (mpa->in_bytes < MPA_FRAME_BYTES)
		return MPA_NOTHING;
	if (mpa_frame_follow_bytes(mpa->in, mpa->is_active) < 0)
		return frame_invalid(mpa, RDMAP_ERROR_MPA_FRAME);
	if (mpa->in_bytes < in_whole_bytes(mpa))
		return MPA_NOTHING;
	if (!mpa_frame_decode(&mpa->peer, mpa->in))
		return frame_invalid(mpa, RDMAP_ERROR_MPA_FRAME);
	return mpa->is_active ? reply_check(mpa) : MPA_REQUESTED;
}

const uint8_t *mpa_output(const struct mpa_conn *mpa, uint32_t *ret_bytes)
{
	*ret_bytes = mpa->out_end - mpa->out_first;
	return mpa->out + mpa->out_first;
}

void mpa_sent(struct mpa_conn *mpa, uint32_t bytes)
{
	assert(bytes <= mpa->out_end - mpa->out_first);
	mpa->out_first += bytes;
}
