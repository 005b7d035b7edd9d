/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_COMMAND_COMMAND_H
#define URNIC_NVMF_TARGET_COMMAND_COMMAND_H

/*
 * The handlers of a host's commands, for the files of this room only. dispatch.c passes each
 * command to fabrics.c, admin.c or io.c. A handler ends the command by command_finish().
 */

#include "nvmf/target/core/objects.h"

void fabrics_command(struct target_command *command);
void admin_command(struct target_command *command);
void admin_identify(struct target_command *command);
void admin_log_page(struct target_command *command);
void admin_set_features(struct target_command *command);
void admin_get_features(struct target_command *command);
void io_command(struct target_command *command);
void io_dataset_management(struct target_command *command);
void io_copy(struct target_command *command);
void io_write_zeroes(struct target_command *command);
void io_verify(struct target_command *command);
void io_fused(struct target_command *compare, struct target_command *write);
/* The data of one half of a fused pair has arrived, or is lost if `status` is an error. */
void io_fused_ready(struct target_command *command, uint16_t status);

/* --- io.c, for io_ranges.c --- */
/*
 * Submit command->request to the backend, for the `bytes` bytes from `offset` on. The backend
 * passes the status to `done`.
 */
void io_submit(struct target_command *command, enum backend_operation operation, uint64_t offset,
	uint64_t bytes, uint8_t *data, bool is_fua,
	void (*done)(struct backend_request *request, enum backend_status status));
/* Call `run`, the next step of the command, after the loop has served other hosts. */
void io_continue(struct target_command *command, void (*run)(struct target_command *command));
void io_done(struct target_command *command, uint16_t status);
/*
 * Whether the data must be durable when the command is done: FUA is set, or the host has disabled
 * the volatile write cache.
 */
bool io_is_durable(const struct target_command *command);
/* Whether the blocks are within the namespace. */
bool io_is_inside(const struct target_namespace *ns, uint64_t slba, uint64_t blocks);

#endif
