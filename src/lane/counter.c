/* SPDX-License-Identifier: BSD-2-Clause */
#include "lane/counter.h"

static const char *const names[COUNTER_COUNT] = {
#define COUNTER(name, sentence) [COUNTER_##name] = #name,
#include "lane/counter.def"
#undef COUNTER
};

const char *counter_name(enum counter counter)
{
	return names[counter];
}
