/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The identity of this host: its NQN and its identifier.
 *
 * Both come from the options, else from /etc/nvme/hostnqn and /etc/nvme/hostid, which nvme-cli
 * makes, else from /etc/machine-id. So a host has the same name each time.
 */
#ifndef TOOLS_NVMF_HOST_NAME_H
#define TOOLS_NVMF_HOST_NAME_H

#include "nvmf.h"

bool host_id_parse(const char *text, uint8_t ret_id[16]);

/* Fill in what the options lack; false after a sentence. */
bool host_name_complete(struct nvmf_options *options);

#endif
