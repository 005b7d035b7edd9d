/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_COMMAND_DISPATCH_H
#define URNIC_NVMF_TARGET_COMMAND_DISPATCH_H

/* How a transport passes commands and their data to the target (core/transport.h). */

#include "nvmf/target/core/transport.h"

/*
 * A command has arrived. The core may call respond(), fetch(), prepare() and close() before this
 * function returns.
 *
 * Returns false if the host has as many pending commands as the queue has entries. Then the core
 * has not taken the command, and the transport ends the connection as after a violation of the
 * protocol.
 */
bool target_queue_command(struct target_queue *queue, struct target_command *command);

/*
 * The answer to fetch() or prepare(). If `status` is not NVME_SUCCESS, the data is missing or
 * damaged.
 */
void target_command_data_ready(struct target_command *command, uint16_t status);

#endif
