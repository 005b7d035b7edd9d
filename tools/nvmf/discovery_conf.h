/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The discovery controllers that a machine knows, as nvme-cli keeps them: /etc/nvme/discovery.conf
 * has the options of one in each line. Empty lines, and those that begin with '#', mean nothing.
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
 * Get the discovery controllers: that of options->traddr, or if it is empty, those of the file
 * options->discovery_conf; what a line does not say is as in `options`. Returns 0, or 1 after a
 * sentence on standard error: there is no file, or one of its lines is wrong.
 */
int discovery_conf_read(const struct nvmf_options *options, struct discovery_conf *ret_conf);
void discovery_conf_done(struct discovery_conf *conf);

#endif
