/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CONGESTION_DCQCN_H
#define URNIC_CONGESTION_DCQCN_H

/*
 * DCQCN's reaction point: the rate of a sender that receives CNPs (Zhu et al., SIGCOMM 2015).
 *
 * A CNP cuts the rate R_C, by more if many CNPs came before (alpha). The rate before the cut is the
 * target R_T. The rate then rises at each expiry of a timer, and after each so many bytes: first
 * half of the way to R_T (fast recovery), later R_T rises, too (additive and hyper increase). When
 * the rate has reached the line's, the state ends, and the next CNP is a first one again.
 *
 * No thread waits for the timers: dcqcn_advance() makes up for all that have expired. So a sender
 * without limit costs nothing, and no packet sets a timer. After any time the number of steps is
 * bounded by the time from the lowest rate to the line's, because all timers end there.
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
	uint32_t timer_count; /* T: increases by time since the last cut */
	uint32_t byte_count; /* BC: increases by bytes */
	uint32_t bytes; /* sent since the last one */
	uint64_t alpha_at_ns; /* when alpha is updated next */
	uint64_t increase_at_ns; /* when time increases the rate next */
	uint64_t cut_at_ns; /* the end of a period with a CNP; UINT64_MAX: none */
};

/*
 * All take the line's rate `line_kbps`, above 0, and a time not earlier than in any previous call
 * on the same state. Afterwards the state is that of `now_ns`.
 */
void dcqcn_on_cnp(
	struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps, uint64_t now_ns);
void dcqcn_on_sent(struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps,
	uint32_t bytes, uint64_t now_ns);
void dcqcn_advance(
	struct dcqcn *dcqcn, const struct cc_params *params, uint32_t line_kbps, uint64_t now_ns);

#endif
