/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the host's core builds the submission queue entry in a struct host_command. The opcodes are
 * those of codec/command.h. The transport adds the command identifier and the data pointer.
 */
#ifndef URNIC_NVMF_HOST_SQE_H
#define URNIC_NVMF_HOST_SQE_H

#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/codec/fabrics.h"
#include "nvmf/host/controller/transport.h"

static inline void host_sqe_init(struct host_command *command, uint8_t opcode, uint32_t nsid)
{
	memset(command->sqe, 0, HOST_SQE_BYTES);
	command->sqe[0] = opcode;
	le32_put(command->sqe + 4, nsid);
}

/* Set command dword `number`, 10 to 15. */
static inline void host_sqe_dword(struct host_command *command, unsigned number, uint32_t value)
{
	le32_put(command->sqe + 4 * number, value);
}

static inline void host_sqe_data(
	struct host_command *command, enum host_direction direction, void *data, uint32_t bytes)
{
	command->data = bytes ? data : NULL;
	command->data_bytes = bytes;
	command->direction = bytes ? direction : HOST_NO_DATA;
}

#endif
