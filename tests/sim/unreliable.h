/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SIM_UNRELIABLE_H
#define URNIC_TESTS_SIM_UNRELIABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/qp_type.h"

struct unreliable_result {
	uint64_t sent;
	uint64_t received;
	uint64_t local; /* of those sent: without a packet */
	uint64_t bad_fates; /* frames that did not arrive, or twice */
};

/*
 * Messages over unreliable connections (QP_TYPE_UC) or as datagrams (QP_TYPE_UD), to queue pairs
 * and to multicast groups, over links that the seed makes good or bad. Each message that arrives is
 * whole and at its destination; on a connection messages arrive in order and once. Over good links
 * all messages arrive. Adds to *result.
 */
void unreliable_run(
	uint64_t seed, enum qp_type type, bool is_traced, struct unreliable_result *result);

#endif
