/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SIM_STREAMS_H
#define URNIC_TESTS_SIM_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

struct streams_result {
	uint64_t requests;
	uint64_t pieces; /* that the streams were cut into */
	uint64_t breaks; /* histories whose connection was cut or closed under way */
};

/*
 * Random work of two iWARP queue pairs, over a stream that the seed cuts into pieces of any length,
 * delays, and in some histories ends. All bytes arrive once, in order and at their destination;
 * every request completes exactly once. Adds to *result.
 */
void streams_run(uint64_t seed, bool is_traced, struct streams_result *result);

#endif
