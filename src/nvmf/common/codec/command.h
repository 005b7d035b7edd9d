/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_COMMAND_H
#define URNIC_NVMF_COMMON_COMMAND_H

/*
 * Submission and completion queue entries, as structs in host order and as bytes (NVMe base 2.0,
 * sections 3.3.3.1 and 3.3.3.2), and the tables of commands and statuses.
 *
 * Decoding never fails, because a struct can hold every bit pattern. The code that executes a
 * command checks the fields.
 */

#include <stdbool.h>
#include <stdint.h>

enum {
	NVME_SQE_BYTES = 64,
	NVME_CQE_BYTES = 16,
	NVME_NSID_ALL = -1, /* as uint32_t: all namespaces */
	NVME_OPCODE_FABRICS = 0x7f,
};

enum nvme_command {
#define NVME_COMMAND(set, name, opcode, direction, effect) NVME_##set##_##name = (opcode),
#include "nvmf/common/codec/opcode.def"
#undef NVME_COMMAND
};

/* Status code type in bits 10:8, status code in bits 7:0. */
enum nvme_status {
#define NVME_STATUS(name, value, may_repeat, sentence) NVME_##name = (value),
#include "nvmf/common/codec/status.def"
#undef NVME_STATUS
};

/* A status of type 1 depends on the command; in Copy this is Command Size Limit Exceeded. */
enum { NVME_COPY_LIMIT = 0x183 };

enum nvme_fuse { NVME_FUSE_NONE = 0, NVME_FUSE_FIRST = 1, NVME_FUSE_SECOND = 2 };

/* Type and subtype of an SGL descriptor, as in its byte 15 (base 2.0, section 4.1.2). */
enum nvme_sgl_type {
	NVME_SGL_ADDRESS = 0x00,
	NVME_SGL_IN_CAPSULE = 0x01, /* `address` is a byte offset in the capsule's data */
	NVME_SGL_LAST_SEGMENT_IN_CAPSULE = 0x31,
	NVME_SGL_KEYED = 0x40,
	NVME_SGL_KEYED_INVALIDATE = 0x4f,
	NVME_SGL_TRANSPORT = 0x5a, /* TCP: the data travels by R2T, H2CData and C2HData */
};

struct nvme_sgl {
	uint8_t type; /* enum nvme_sgl_type, or any other value that a peer has sent */
	uint64_t address;
	uint32_t length; /* bytes; in keyed descriptors at most 2^24 - 1 */
	uint32_t key; /* in keyed descriptors only */
};

struct nvme_sqe {
	uint8_t opcode;
	uint8_t fuse; /* enum nvme_fuse, or 3 */
	uint8_t psdt; /* over Fabrics 1: an SGL */
	uint16_t cid;
	/* In a Fabrics command, bits 7:0 are the FCTYPE. */
	uint32_t nsid;
	uint64_t mptr;
	struct nvme_sgl sgl;
	uint32_t cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
};

struct nvme_cqe {
	uint64_t result; /* dwords 0 and 1 */
	uint16_t sqhd;
	uint16_t sqid;
	uint16_t cid;
	uint16_t status; /* enum nvme_status, or any other type and code */
	bool may_not_repeat; /* DNR */
	bool has_more; /* M */
};

struct nvme_sqe nvme_sqe_decode(const uint8_t bytes[NVME_SQE_BYTES]);
void nvme_sqe_encode(const struct nvme_sqe *sqe, uint8_t ret_bytes[NVME_SQE_BYTES]);

struct nvme_cqe nvme_cqe_decode(const uint8_t bytes[NVME_CQE_BYTES]);
void nvme_cqe_encode(const struct nvme_cqe *cqe, uint8_t ret_bytes[NVME_CQE_BYTES]);

/* Keyed types (4xh) have a key and a length of 24 bits; other types have a length of 32 bits. */
struct nvme_sgl nvme_sgl_decode(const uint8_t bytes[16]);
void nvme_sgl_encode(const struct nvme_sgl *sgl, uint8_t ret_bytes[16]);

/*
 * The name of a command of the Admin, I/O or Fabrics set; NULL if opcode.def lacks the command.
 */
const char *nvme_admin_name(uint8_t opcode);
const char *nvme_io_name(uint8_t opcode);
const char *nvme_fabrics_name(uint8_t fctype);

/* Whether the I/O command changes the contents of a namespace. False for unknown opcodes. */
bool nvme_io_changes_blocks(uint8_t opcode);

/* Whether a repeated command may succeed, so that DNR is 0. True for unknown statuses. */
bool nvme_status_may_repeat(uint16_t status);
/* The sentence of status.def; "unknown status" for any other status. */
const char *nvme_status_sentence(uint16_t status);

#endif
