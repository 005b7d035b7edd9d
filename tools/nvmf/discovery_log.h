/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log page of a discovery controller.
 *
 * It is read in pieces. If its generation counter has changed meanwhile, it is read again.
 */
#ifndef TOOLS_NVMF_DISCOVERY_LOG_H
#define TOOLS_NVMF_DISCOVERY_LOG_H

#include "nvmf.h"
#include "nvmf/common/codec/discovery.h"

/* The reader frees `entries`, also after a failure. */
struct discovery_log {
	struct discovery_header header;
	struct discovery_entry *entries;
	uint64_t count;
};

/*
 * Connect to a discovery controller; at port 8009 if the options have none. `is_persistent`: for
 * long, with keep alive. Returns 0, or 1 after a sentence on standard error.
 */
int discovery_open(struct session *session, struct loop *loop, const struct nvmf_options *options,
	bool is_persistent);

/* Returns 0, or 1 after a sentence on standard error. `log` is empty or from an earlier reading. */
int discovery_log_read(struct session *session, struct discovery_log *log);

#endif
