/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The discovery controllers that a machine knows, as nvme-cli keeps them: each line of
 * /etc/nvme/discovery.conf has the options of one controller. Empty lines, and lines that begin
 * with '#', are ignored.
 */
#ifndef TOOLS_NVMF_DISCOVERY_CONF_H
#define TOOLS_NVMF_DISCOVERY_CONF_H

#include "nvmf.h"

struct discovery_conf {
	struct nvmf_options *items;
	size_t count;
	char *text; /* texts of the items point to it */
};

/*
 * Get the discovery controllers: the one at options->traddr or, if that is empty, those in the file
 * options->discovery_conf. An option that a line of the file lacks has its value from `options`.
 * Returns 0, or 1 after a sentence on standard error: there is no file, or one of its lines is
 * wrong.
 */
int discovery_conf_read(const struct nvmf_options *options, struct discovery_conf *ret_conf);
void discovery_conf_done(struct discovery_conf *conf);

#endif
