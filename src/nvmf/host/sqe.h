/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Submission queue entries as the host's core builds them: the bytes of struct host_command.
 * The transport adds the command identifier and the data pointer.
 */
#ifndef URNIC_NVMF_HOST_SQE_H
#define URNIC_NVMF_HOST_SQE_H

#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/host/transport.h"

enum host_opcode {
	/* Admin (NVMe base 2.0, section 5). */
	HOST_GET_LOG_PAGE = 0x02,
	HOST_IDENTIFY = 0x06,
	HOST_ABORT = 0x08,
	HOST_SET_FEATURES = 0x09,
	HOST_GET_FEATURES = 0x0a,
	HOST_ASYNC_EVENT = 0x0c,
	HOST_KEEP_ALIVE = 0x18,
	/* NVM command set 1.0, section 3. */
	HOST_FLUSH = 0x00,
	HOST_WRITE = 0x01,
	HOST_READ = 0x02,
	HOST_WRITE_ZEROES = 0x08,
	HOST_DATASET_MANAGEMENT = 0x09,
	/* Fabrics, whose type is in the place of the namespace (NVMe base 2.0, section 6). */
	HOST_FABRICS = 0x7f,
};

enum host_fabrics {
	HOST_PROPERTY_SET = 0x00,
	HOST_CONNECT = 0x01,
	HOST_PROPERTY_GET = 0x04,
};

static inline void host_sqe_init(struct host_command *command, uint8_t opcode, uint32_t nsid)
{
	memset(command->sqe, 0, HOST_SQE_BYTES);
	command->sqe[0] = opcode;
	le32_put(command->sqe + 4, nsid);
}

/* Command dword `number`, 10 to 15. */
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
