/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log page of a discovery controller.
 *
 * discovery_log_read() reads the page in pieces, and begins again if the generation counter has
 * changed meanwhile.
 */
#ifndef TOOLS_NVMF_DISCOVERY_LOG_H
#define TOOLS_NVMF_DISCOVERY_LOG_H

#include "nvmf.h"
#include "nvmf/common/codec/discovery.h"

/* The caller of discovery_log_read() frees `entries`, also after a failure. */
struct discovery_log {
	struct discovery_header header;
	struct discovery_entry *entries;
	uint64_t count;
};

/*
 * Connect to a discovery controller, at port 8009 if the options name no port. `is_persistent`: the
 * connection has a Keep Alive Timeout, so that it can last. Returns 0, or 1 after a sentence on
 * standard error.
 */
int discovery_open(struct session *session, struct loop *loop, const struct nvmf_options *options,
	bool is_persistent);

/*
 * Read the log page into `log`, which is zero or the result of an earlier call. Returns 0, or 1
 * after a sentence on standard error.
 */
int discovery_log_read(struct session *session, struct discovery_log *log);

#endif
