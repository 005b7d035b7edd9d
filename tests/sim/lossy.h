/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SIM_LOSSY_H
#define URNIC_TESTS_SIM_LOSSY_H

#include <stdbool.h>
#include <stdint.h>

struct lossy_result {
	uint64_t selective_ns, plain_ns; /* with loss; virtual time, of all seeds */
};

/*
 * A stream of WRITEs or READs over a link of 10 Gbit/s with a round trip of 300 us, four times:
 * with selective repeat and without, with 1 % loss and without. Without loss both take the same
 * time. With loss selective repeat sends little more again than was lost, also to a late peer. Adds
 * to *result.
 */
void lossy_run(uint64_t seed, bool is_traced, struct lossy_result *result);

/* After some of them: with loss, selective repeat is at least five times as fast as go-back-N. */
void lossy_check(const struct lossy_result *result);

#endif
