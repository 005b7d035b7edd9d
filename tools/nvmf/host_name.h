/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The identity of this host: its NQN and its identifier.
 *
 * Both come from the options, else from /etc/nvme/hostnqn and /etc/nvme/hostid, which nvme-cli
 * makes. If the identifier is missing, it is the UUID in the NQN, else that of /etc/machine-id. If
 * the NQN is missing, it is made from the identifier. So a host has the same name in each run.
 */
#ifndef TOOLS_NVMF_HOST_NAME_H
#define TOOLS_NVMF_HOST_NAME_H

#include "nvmf.h"

bool host_id_parse(const char *text, uint8_t ret_id[16]);

/*
 * Set the NQN and the identifier if the options lack them. Returns false after a sentence on
 * standard error.
 */
bool host_name_complete(struct nvmf_options *options);

#endif
