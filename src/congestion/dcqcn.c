/* SPDX-License-Identifier: BSD-2-Clause */
#include "congestion/dcqcn.h"

#include "base/arith.h"

#define NS_PER_US       UINT64_C(1000)
#define KBPS_PER_MBPS   UINT64_C(1000)
#define NEVER           UINT64_MAX
#define ALPHA_VALUE_ONE 1023u /* rp_initial_alpha_value */

/* rp_dce_tcp_g is in 1 / KEEP_ONE. */
enum { KEEP_SHIFT = 10, KEEP_ONE = 1 << KEEP_SHIFT };

/* alpha has 16 bits, but a cut uses alpha of 10 bits, divided by 2^rp_gd. */
enum { ALPHA_SHIFT = 16, CUT_SHIFT = ALPHA_SHIFT - 10 };

static uint32_t rate_max(const struct cc_params *params, uint32_t line_kbps)
{
	uint64_t limit_kbps = params->rp_max_rate * KBPS_PER_MBPS;

	return limit_kbps ? (uint32_t)min_u64(limit_kbps, line_kbps) : line_kbps;
}

static uint32_t rate_clamp(const struct cc_params *params, uint32_t line_kbps, uint64_t rate_kbps)
{
	rate_kbps = max_u64(rate_kbps, params->rp_min_rate * KBPS_PER_MBPS);
	return (uint32_t)min_u64(rate_kbps, rate_max(params, line_kbps));
}

/* --- alpha --- */

/*
 * The new alpha is g times the old one, plus 1 - g if a CNP came, where g is rp_dce_tcp_g. The
 * result is rounded to the nearest.
 */
static void alpha_update(struct dcqcn *dcqcn, const struct cc_params *params, bool has_cnp)
{
	uint32_t keep = params->rp_dce_tcp_g, one = has_cnp ? DCQCN_ALPHA_ONE : 0;
	uint32_t alpha =
		(dcqcn->alpha * keep + one * (KEEP_ONE - keep) + KEEP_ONE / 2) >> KEEP_SHIFT;

	/* A small alpha may stay the same by rounding; lower it by one, so that it reaches 0. */
	if (!has_cnp && alpha == dcqcn->alpha && alpha)
		alpha--;
	dcqcn->alpha = alpha;
}

static void alpha_expire(struct dcqcn *dcqcn, const struct cc_params *params)
{
	alpha_update(dcqcn, params, dcqcn->has_cnp);
	dcqcn->has_cnp = false;
	dcqcn->alpha_at_ns += params->rp_dce_tcp_rtt * NS_PER_US;
	if (!dcqcn->alpha)
		dcqcn->alpha_at_ns = NEVER;
}

/* --- the rate --- */

/* Does a cut now lower the target rate, too? */
static bool has_risen(const struct dcqcn *dcqcn, const struct cc_params *params)
{
	return params->rp_clamp_tgt_rate || dcqcn->byte_count ||
		(params->rp_clamp_tgt_rate_ati && dcqcn->timer_count);
}

static void rate_cut(
	struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps, uint64_t now_ns)
{
	uint64_t current_kbps = dcqcn->current_kbps;
	uint64_t cut_kbps = current_kbps * dcqcn->alpha >> (CUT_SHIFT + params->rp_gd);
	uint64_t lowest_kbps = current_kbps * params->rp_min_dec_fac / 100;

	if (has_risen(dcqcn, params))
		dcqcn->target_kbps = dcqcn->current_kbps;
	dcqcn->current_kbps = rate_clamp(params, line_kbps,
		max_u64(lowest_kbps, current_kbps - min_u64(cut_kbps, current_kbps)));
	dcqcn->timer_count = 0;
	dcqcn->byte_count = 0;
	dcqcn->bytes = 0;
	dcqcn->increase_at_ns = now_ns + params->rp_time_reset * NS_PER_US;
}

/*
 * How many times an increase adds rp_hai_rate. Once both counters have passed the threshold, each
 * increase adds it more often. Without a counter of bytes, the counter of time alone decides, and
 * each increase adds rp_hai_rate once.
 */
static uint32_t hyper_count(const struct dcqcn *dcqcn, const struct cc_params *params)
{
	uint32_t least = min_u32(dcqcn->timer_count, dcqcn->byte_count);

	if (!params->rp_byte_reset)
		return dcqcn->timer_count > params->rp_threshold;
	return least > params->rp_threshold ? least - params->rp_threshold : 0;
}

static void rate_increase(struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps)
{
	uint32_t most = max_u32(dcqcn->timer_count, dcqcn->byte_count);
	uint32_t hyper = hyper_count(dcqcn, params);
	uint64_t target_kbps = dcqcn->target_kbps;

	if (hyper)
		target_kbps += hyper * (params->rp_hai_rate * KBPS_PER_MBPS);
	else if (most >= params->rp_threshold)
		target_kbps += params->rp_ai_rate * KBPS_PER_MBPS;
	dcqcn->target_kbps = rate_clamp(params, line_kbps, target_kbps);
	/* Round up, so that the rate reaches its target. */
	dcqcn->current_kbps =
		(uint32_t)(((uint64_t)dcqcn->target_kbps + dcqcn->current_kbps + 1) / 2);
	dcqcn->is_limited = dcqcn->current_kbps < line_kbps;
	if (dcqcn->current_kbps == rate_max(params, line_kbps))
		dcqcn->increase_at_ns = NEVER; /* the next CNP sets this deadline again */
}

/* --- events --- */

void dcqcn_advance(
	struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps, uint64_t now_ns)
{
	while (dcqcn->is_limited) {
		uint64_t at_ns = min_u64(
			min_u64(dcqcn->alpha_at_ns, dcqcn->cut_at_ns), dcqcn->increase_at_ns);

		if (at_ns > now_ns)
			return;
		if (at_ns == dcqcn->alpha_at_ns) {
			alpha_expire(dcqcn, params);
		} else if (at_ns == dcqcn->cut_at_ns) {
			rate_cut(dcqcn, params, line_kbps, at_ns);
			dcqcn->cut_at_ns = NEVER;
		} else {
			dcqcn->timer_count++;
			dcqcn->increase_at_ns += params->rp_time_reset * NS_PER_US;
			rate_increase(dcqcn, params, line_kbps);
		}
	}
}

/* The first CNP begins the limit: set the state to its initial values. */
static void limit_begin(
	struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps, uint64_t now_ns)
{
	uint32_t highest_kbps = rate_max(params, line_kbps);

	*dcqcn = (struct dcqcn){
		.is_limited = true,
		.current_kbps = highest_kbps,
		.target_kbps = highest_kbps,
		.alpha = params->rp_initial_alpha_value * DCQCN_ALPHA_ONE / ALPHA_VALUE_ONE,
		.alpha_at_ns = now_ns + params->rp_dce_tcp_rtt * NS_PER_US,
		.increase_at_ns = now_ns + params->rp_time_reset * NS_PER_US,
		.cut_at_ns = NEVER,
	};
}

/*
 * With periods, a CNP takes effect later: when the period of alpha ends, and when that of the rate
 * ends.
 */
static void cnp_note(struct dcqcn *dcqcn, const struct cc_params *params, uint64_t now_ns)
{
	dcqcn->has_cnp = true;
	if (dcqcn->alpha_at_ns == NEVER)
		dcqcn->alpha_at_ns = now_ns + params->rp_dce_tcp_rtt * NS_PER_US;
	if (dcqcn->cut_at_ns == NEVER)
		dcqcn->cut_at_ns = now_ns + params->rp_rate_reduce_monitor_period * NS_PER_US;
}

static void cnp_obey(
	struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps, uint64_t now_ns)
{
	if (params->rp_alpha_first)
		alpha_update(dcqcn, params, true);
	rate_cut(dcqcn, params, line_kbps, now_ns);
	if (!params->rp_alpha_first)
		alpha_update(dcqcn, params, true);
	dcqcn->alpha_at_ns = now_ns + params->rp_dce_tcp_rtt * NS_PER_US;
}

void dcqcn_on_cnp(
	struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps, uint64_t now_ns)
{
	bool is_first;

	dcqcn_advance(dcqcn, params, line_kbps, now_ns);
	is_first = !dcqcn->is_limited;
	if (is_first)
		limit_begin(dcqcn, params, line_kbps, now_ns);
	if (is_first && params->rp_rate_to_set_on_first_cnp)
		dcqcn->current_kbps = rate_clamp(
			params, line_kbps, params->rp_rate_to_set_on_first_cnp * KBPS_PER_MBPS);
	else if (params->rp_rate_reduce_monitor_period)
		cnp_note(dcqcn, params, now_ns);
	else
		cnp_obey(dcqcn, params, line_kbps, now_ns);
}

void dcqcn_on_sent(struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps,
	uint32_t bytes, uint64_t now_ns)
{
	dcqcn_advance(dcqcn, params, line_kbps, now_ns);
	if (!dcqcn->is_limited || !params->rp_byte_reset)
		return;
	uint64_t sent_bytes = (uint64_t)dcqcn->bytes + bytes;

	for (; sent_bytes >= params->rp_byte_reset && dcqcn->is_limited;
		sent_bytes -= params->rp_byte_reset) {
		dcqcn->byte_count++;
		rate_increase(dcqcn, params, line_kbps);
	}
	dcqcn->bytes = (uint32_t)sent_bytes;
}
