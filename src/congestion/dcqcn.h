/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONGESTION_DCQCN_H
#define URNIC_CONGESTION_DCQCN_H

/*
 * DCQCN's reaction point: the rate of a sender that receives CNPs (Zhu et al., SIGCOMM 2015).
 *
 * A CNP cuts the rate R_C, by a larger part if many CNPs came before (alpha). The rate before the
 * cut is the target R_T. The rate then rises at each expiry of a timer, and after each
 * rp_byte_reset bytes. Each increase goes half of the way to R_T (fast recovery); later increases
 * raise R_T, too (additive and hyper increase). When the rate has reached the line's, the limit
 * ends, and the next CNP is a first one again.
 *
 * No thread waits for the timers: dcqcn_advance() executes the steps of all timers that have
 * expired. So a sender without limit costs nothing, and no packet sets a timer. The number of steps
 * is bounded however late the call comes, because all timers end when the rate reaches the line's.
 *
 * Integers only: rates in kbit/s, alpha in 2^-16, time in ns.
 */

#include <stdbool.h>
#include <stdint.h>

#include "congestion/cc_params.h"

#define DCQCN_ALPHA_ONE 65536u

/* Zeroed at first. The fields below is_limited count only while it is set. */
struct dcqcn {
	bool is_limited; /* the rate is below the line's */
	bool has_cnp; /* a CNP came since the last update of alpha; with periods only */
	uint32_t current_kbps; /* R_C */
	uint32_t target_kbps; /* R_T */
	uint32_t alpha; /* 0 to DCQCN_ALPHA_ONE */
	uint32_t timer_count; /* T: increases by the timer since the last cut */
	uint32_t byte_count; /* BC: increases by bytes since the last cut */
	uint32_t bytes; /* bytes sent since the last increase by bytes */
	uint64_t alpha_at_ns; /* the next update of alpha; UINT64_MAX: none */
	uint64_t increase_at_ns; /* the next increase by the timer; UINT64_MAX: none */
	uint64_t cut_at_ns; /* the end of a period with a CNP; UINT64_MAX: none */
};

/*
 * Each call takes the line's rate `line_kbps`, above 0, and a time that is not earlier than in any
 * previous call on the same state. After the call, all timers until `now_ns` have taken effect.
 */
void dcqcn_on_cnp(
	struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps, uint64_t now_ns);
void dcqcn_on_sent(struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps,
	uint32_t bytes, uint64_t now_ns);
void dcqcn_advance(
	struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps, uint64_t now_ns);

#endif
