/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IMPAIR_VALUE_H
#define URNIC_IMPAIR_VALUE_H

/* The parsers of values in settings and faults, and the sentences that refuse such values. */

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "impair/plan.h"

/* Each parses the whole text. It returns false if the text is no such value, or out of range. */
bool impair_share_parse(const struct text_part *text, uint32_t *ret_share); /* as in 0.1% */
bool impair_time_parse(const struct text_part *text, uint64_t *ret_ns); /* as in 2ms */
bool impair_rate_parse(const struct text_part *text, uint64_t *ret_bits_per_second); /* 10G */
bool impair_size_parse(const struct text_part *text, uint64_t *ret_bytes); /* as in 1MiB */
bool impair_number_parse(const struct text_part *text, uint32_t *ret_number);
bool impair_side_parse(const struct text_part *text, enum impair_side *ret_side);

#endif
