/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_E2E_VERIFY_H
#define URNIC_TESTS_E2E_VERIFY_H

/*
 * The two parts of verify: `each` tests one request at a time, `mixed` many at once.
 */

#include "peer.h"

void verify_each(struct peer *peer, uint32_t largest_bytes);
/* `ready`: a descriptor that gets a byte when the queue pairs are at work, or -1. */
void verify_mixed(struct peer *peer, uint32_t count, int ready);

static inline uint8_t *window_at(struct ibv_mr *mr, size_t offset)
{
	return (uint8_t *)mr->addr + offset;
}

#endif
