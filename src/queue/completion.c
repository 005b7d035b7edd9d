/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/completion.h"

#include <assert.h>

static_assert(sizeof(struct cqe) == 64, "an entry is a cache line");

struct fault_row {
	enum wc_status status;
	const char *sentence;
};

static const struct fault_row rows[FAULT_COUNT] = {
#define FAULT(name, number, status, sentence, seen, clause, look, fix) \
	[FAULT_##name] = {WC_##status, sentence},
#include "queue/reason.def"
};

enum wc_status fault_status(enum fault fault)
{
	return rows[fault].status;
}

const char *fault_sentence(enum fault fault)
{
	return rows[fault].sentence;
}
