/* SPDX-License-Identifier: BSD-2-Clause */
#include "impair/impair.h"

#include "base/arith.h"
#include "wire/bth.h"
#include "wire/opcode.h"
#include "wire/roce.h"

/* The random draws for a packet. Each draw is independent of the others. */
enum draw { DRAW_LOSS, DRAW_DUPLICATE, DRAW_CORRUPT, DRAW_REORDER, DRAW_BIT };

enum stream_kind { STREAM_REQUESTS, STREAM_RESPONSES, STREAM_ACKS };

enum {
	XRCETH_BYTES = 4,
	RETH_LENGTH_OFFSET = 12,
	/* Offset of the BTH's byte of FECN, BECN and reserved bits. The ICRC does not cover it. */
	UNCOVERED_BYTE = 4,
	/*
	 * The position of the packet with the PSN `base` of struct impair_stream. It equals the
	 * count of all PSNs (2^24), so packets before that one have positions, too.
	 */
	POSITION_FIRST_PACKET = U24_MASK + 1,
};

/* One transmission of a packet, with all that its draws depend on. */
struct transmission {
	const struct opcode_info *info;
	enum stream_kind kind;
	/*
	 * The position in the stream. For an acknowledgement or CNP: how many of these the flow has
	 * sent before.
	 */
	uint64_t position;
	uint32_t returns; /* impair_stream.returns; 0 if is_first */
	uint32_t payload_bytes;
	bool is_first;
};

void impair_init(struct impair *impair, const struct impair_plan *plan)
{
	*impair = (struct impair){.plan = *plan};
	impair->report = &impair->own_report;
	for (uint32_t i = 0; i < plan->fault_count; i++)
		impair->faults[i].left = plan->faults[i].times;
}

static void stream_bind(struct impair_stream *stream, uint32_t base)
{
	if (stream->is_begun && stream->base == (base & U24_MASK))
		return;
	*stream = (struct impair_stream){
		.is_begun = true, .base = base & U24_MASK, .next = POSITION_FIRST_PACKET};
}

void impair_flow_bind(
	struct impair_flow *flow, uint32_t request_psn, uint32_t response_psn, uint32_t mtu_bytes)
{
	stream_bind(&flow->requests, request_psn);
	stream_bind(&flow->responses, response_psn);
	flow->mtu_bytes = mtu_bytes;
}

/* --- identity --- */

/* The position of `psn`, which is at most half the PSN space away from position `stream->next`. */
static uint64_t position_of(const struct impair_stream *stream, uint32_t psn)
{
	uint32_t ahead = (psn - stream->base - (uint32_t)stream->next) & U24_MASK;

	return ahead <= U24_MASK / 2 ? stream->next + ahead
				     : stream->next + ahead - (U24_MASK + 1u);
}

/* The number of PSNs that a packet takes. A READ request takes one for each response packet. */
static uint64_t psn_count(
	const struct impair_flow *flow, const struct opcode_info *info, const uint8_t *packet)
{
	uint32_t reth = BTH_BYTES + (info->headers & HEADER_XRCETH ? XRCETH_BYTES : 0u);
	uint32_t bytes;

	if (info->operation != OPERATION_READ || !flow->mtu_bytes)
		return 1;
	bytes = get_be32(packet + reth + RETH_LENGTH_OFFSET);
	return bytes ? div_ceil_u64(bytes, flow->mtu_bytes) : 1;
}

static void data_identify(struct impair_flow *flow, struct impair_stream *stream,
	const uint8_t *packet, struct transmission *sent)
{
	uint64_t position = position_of(stream, get_be24(packet + 9));

	sent->position = position;
	sent->is_first = position >= stream->next;
	if (!sent->is_first && position <= stream->last)
		stream->returns++;
	sent->returns = sent->is_first ? 0 : stream->returns;
	stream->last = position;
	if (sent->is_first)
		stream->next = position + psn_count(flow, sent->info, packet);
}

/* Returns false if the bytes are no packet of a known opcode. */
static bool transmission_identify(struct impair_flow *flow, const uint8_t *packet, uint32_t bytes,
	struct transmission *ret_sent)
{
	const struct opcode_info *info = opcode_info(packet[0]);
	uint32_t pad_bytes = packet[1] >> 4 & 3;

	if (!info || bytes < info->header_bytes + pad_bytes)
		return false;
	*ret_sent = (struct transmission){
		.info = info, .payload_bytes = bytes - info->header_bytes - pad_bytes};
	if (info->operation == OPERATION_ACKNOWLEDGE || info->role == OPCODE_ROLE_CONGESTION) {
		ret_sent->kind = STREAM_ACKS;
		ret_sent->position = flow->acks++;
		/*
		 * Follow the PSN, so that position_of() takes the next response for a new one. A
		 * congestion notification has none.
		 */
		if (info->operation == OPERATION_ACKNOWLEDGE)
			flow->responses.next = max_u64(flow->responses.next,
				position_of(&flow->responses, get_be24(packet + 9)));
		return true;
	}
	ret_sent->kind = info->role == OPCODE_ROLE_RESPONSE ? STREAM_RESPONSES : STREAM_REQUESTS;
	data_identify(flow, ret_sent->kind == STREAM_RESPONSES ? &flow->responses : &flow->requests,
		packet, ret_sent);
	return true;
}

/* --- draws --- */

static uint64_t value_draw(const struct impair *impair, const struct impair_flow *flow,
	const struct transmission *sent, enum draw draw)
{
	uint64_t value = mix_u64(impair->plan.seed + 0x9e3779b97f4a7c15u);

	value = mix_u64(value ^
		((uint64_t)impair->plan.side << 48 | (uint64_t)flow->qp << 8 |
			(uint64_t)sent->kind << 4 | (uint64_t)draw));
	value = mix_u64(value + sent->position * 0x9e3779b97f4a7c15u);
	return mix_u64(value ^ sent->returns);
}

static bool share_draw(const struct impair *impair, const struct impair_flow *flow,
	const struct transmission *sent, enum draw draw, uint32_t share)
{
	return share && value_draw(impair, flow, sent, draw) % IMPAIR_SHARE_ALL < share;
}

/*
 * Draw the number of a bit to invert. The ICRC covers the bit, so the receiver's ICRC check fails.
 */
static uint32_t bit_draw(const struct impair *impair, const struct impair_flow *flow,
	const struct transmission *sent, uint32_t bytes)
{
	uint64_t value = value_draw(impair, flow, sent, DRAW_BIT);
	uint32_t bit = (uint32_t)(value % ((bytes + ROCE_ICRC_BYTES - 1) * 8));

	return bit / 8 < UNCOVERED_BYTE ? bit : bit + 8;
}

/* --- faults --- */

/* Does the fault hit this transmission? If so, use up one hit. The caller holds impair->lock. */
static bool fault_hits(const struct impair_fault *fault, struct impair_fault_state *state,
	const struct impair_flow *flow, const struct transmission *sent)
{
	bool is_ack = sent->kind == STREAM_ACKS;

	if (!state->left || !(fault->operations & 1u << sent->info->operation) ||
		(fault->qp && fault->qp != flow->qp))
		return false;
	if (is_ack || sent->is_first)
		state->seen++;
	if (fault->is_periodic)
		return (is_ack || sent->is_first) && state->seen % fault->number == 0 &&
			state->left--;
	if (is_ack)
		return state->seen >= fault->number && state->left--;
	if (sent->is_first && state->seen == fault->number) {
		state->flow = flow;
		state->position = sent->position;
	}
	return state->flow == flow && state->position == sent->position && state->left--;
}

static void fault_apply(const struct impair_fault *fault, struct impair_fate *fate)
{
	fate->is_aimed = true;
	fate->is_dropped |= fault->verb == IMPAIR_VERB_drop;
	fate->is_corrupted |= fault->verb == IMPAIR_VERB_corrupt;
	fate->is_duplicated |= fault->verb == IMPAIR_VERB_duplicate;
	if (fault->verb == IMPAIR_VERB_delay)
		fate->hold_ns += fault->amount;
}

/* Choose the fault's victim once the process has sent as much payload as the fault names. */
static void kill_decide(const struct impair_fault *fault, struct impair_fault_state *state,
	uint64_t sent_bytes, struct impair_fate *fate)
{
	if (!state->left || sent_bytes < fault->amount)
		return;
	state->left = 0;
	fate->victim = fault->victim;
}

static void faults_decide(struct impair *impair, const struct impair_flow *flow,
	const struct transmission *sent, struct impair_fate *fate)
{
	uint64_t bytes = sent->is_first ? sent->payload_bytes : 0;

	spin_lock(&impair->lock);
	impair->payload_bytes += bytes;
	for (uint32_t i = 0; i < impair->plan.fault_count; i++) {
		const struct impair_fault *fault = &impair->plan.faults[i];

		if (fault->verb == IMPAIR_VERB_kill)
			kill_decide(fault, &impair->faults[i], impair->payload_bytes, fate);
		else if (fault_hits(fault, &impair->faults[i], flow, sent))
			fault_apply(fault, fate);
	}
	spin_unlock(&impair->lock);
}

/* Does the fault refuse a message that needs a receive request? If so, use up one NAK. */
static bool rnr_hits(const struct impair_fault *fault, struct impair_fault_state *state,
	const struct impair_flow *flow)
{
	if (fault->verb != IMPAIR_VERB_rnr || !state->left || (fault->qp && fault->qp != flow->qp))
		return false;
	state->seen++;
	if (fault->is_periodic && state->seen % fault->number)
		return false;
	state->left--;
	return true;
}

bool impair_refuses_receive(struct impair *impair, const struct impair_flow *flow)
{
	bool is_refused = false;

	spin_lock(&impair->lock);
	for (uint32_t i = 0; i < impair->plan.fault_count && !is_refused; i++)
		is_refused = rnr_hits(&impair->plan.faults[i], &impair->faults[i], flow);
	spin_unlock(&impair->lock);
	if (is_refused)
		atomic_fetch_add_explicit(&impair->report->rnr_naks, 1, memory_order_relaxed);
	return is_refused;
}

/* --- fates --- */

void impair_decide(struct impair *impair, struct impair_flow *flow, const uint8_t *packet,
	uint32_t bytes, struct impair_fate *ret_fate)
{
	const struct impair_plan *plan = &impair->plan;
	struct transmission sent;

	*ret_fate = (struct impair_fate){.hold_ns = plan->delay};
	if (!transmission_identify(flow, packet, bytes, &sent))
		return;
	ret_fate->is_first = sent.is_first;
	ret_fate->is_dropped = share_draw(impair, flow, &sent, DRAW_LOSS, plan->loss);
	ret_fate->is_duplicated = share_draw(impair, flow, &sent, DRAW_DUPLICATE, plan->duplicate);
	ret_fate->is_corrupted = share_draw(impair, flow, &sent, DRAW_CORRUPT, plan->corrupt);
	ret_fate->is_reordered = share_draw(impair, flow, &sent, DRAW_REORDER, plan->reorder);
	if (plan->fault_count)
		faults_decide(impair, flow, &sent, ret_fate);
	/* A dropped packet counts as dropped only. */
	if (ret_fate->is_dropped) {
		ret_fate->is_duplicated = false;
		ret_fate->is_corrupted = false;
		ret_fate->is_reordered = false;
	}
	if (ret_fate->is_corrupted)
		ret_fate->corrupt_bit = bit_draw(impair, flow, &sent, bytes);
}

uint64_t impair_link_reserve(struct impair *impair, uint32_t wire_bytes, uint64_t now_ns)
{
	uint64_t busy_ns = atomic_load_explicit(&impair->busy_until_ns, memory_order_relaxed);
	uint64_t free_ns;

	if (!impair->plan.rate)
		return now_ns;
	do {
		free_ns = max_u64(busy_ns, now_ns) +
			(uint64_t)wire_bytes * 8 * 1000000000u / impair->plan.rate;
	} while (!atomic_compare_exchange_weak_explicit(&impair->busy_until_ns, &busy_ns, free_ns,
		memory_order_relaxed, memory_order_relaxed));
	return free_ns;
}
