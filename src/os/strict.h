/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * URNIC_STRICT names adapters. This process's devices refuse what these adapters refuse
 * (docs/strict.md). With several adapters a device has the lowest of their limits, and only the
 * features that all of them have.
 */
#ifndef URNIC_OS_STRICT_H
#define URNIC_OS_STRICT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"

/* The numbers of the bits that strict_adapters() returns. */
enum strict_adapter {
#define ADAPTER(NAME, driver, devices) STRICT_##NAME,
#include "os/strict_adapter.def"
	STRICT_ADAPTER_COUNT
};

/*
 * The adapters of a value of URNIC_STRICT: "1" for all of them, "0" for none, or a comma-separated
 * list of drivers. Returns false, and leaves *ret_adapters unchanged, for any other text.
 */
bool strict_parse(const char *text, uint32_t *ret_adapters);

/*
 * The adapters that the environment requests, one bit each; 0: not strict. A wrong value is logged
 * once, and counts as 0. Any thread may call. The environment is read by the first call.
 */
uint32_t strict_adapters(void) URNIC_EXPORT_AS(strict_adapters);

/* The driver's name of an adapter. */
const char *strict_driver(enum strict_adapter adapter) URNIC_EXPORT_AS(strict_driver);

#endif
