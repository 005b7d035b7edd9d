/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_E2E_VERIFY_H
#define URNIC_TESTS_E2E_VERIFY_H

/*
 * The parts of verify: each looks at one request at a time, mixed at many.
 */

#include "peer.h"

void verify_each(struct peer *peer, uint32_t largest_bytes);
void verify_mixed(struct peer *peer, uint32_t count);

static inline uint8_t *window_at(struct ibv_mr *mr, size_t offset)
{
	return (uint8_t *)mr->addr + offset;
}

#endif
