/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/common/codec/command.h"

#include <stddef.h>
#include <string.h>

#include "nvmf/common/bytes.h"

struct nvme_sgl nvme_sgl_decode(const uint8_t bytes[16])
{
	struct nvme_sgl sgl = {.type = bytes[15], .address = le64_get(bytes)};

	if (bytes[15] >> 4 == NVME_SGL_KEYED >> 4) {
		sgl.length = le24_get(bytes + 8);
		sgl.key = le32_get(bytes + 11);
	} else {
		sgl.length = le32_get(bytes + 8);
	}
	return sgl;
}

void nvme_sgl_encode(const struct nvme_sgl *sgl, uint8_t ret_bytes[16])
{
	memset(ret_bytes, 0, 16);
	le64_put(ret_bytes, sgl->address);
	if (sgl->type >> 4 == NVME_SGL_KEYED >> 4) {
		le24_put(ret_bytes + 8, sgl->length);
		le32_put(ret_bytes + 11, sgl->key);
	} else {
		le32_put(ret_bytes + 8, sgl->length);
	}
	ret_bytes[15] = sgl->type;
}

struct nvme_sqe nvme_sqe_decode(const uint8_t bytes[NVME_SQE_BYTES])
{
	return (struct nvme_sqe){
		.opcode = bytes[0],
		.fuse = bytes[1] & 3,
		.psdt = bytes[1] >> 6,
		.cid = le16_get(bytes + 2),
		.nsid = le32_get(bytes + 4),
		.mptr = le64_get(bytes + 16),
		.sgl = nvme_sgl_decode(bytes + 24),
		.cdw10 = le32_get(bytes + 40),
		.cdw11 = le32_get(bytes + 44),
		.cdw12 = le32_get(bytes + 48),
		.cdw13 = le32_get(bytes + 52),
		.cdw14 = le32_get(bytes + 56),
		.cdw15 = le32_get(bytes + 60),
	};
}

void nvme_sqe_encode(const struct nvme_sqe *sqe, uint8_t ret_bytes[NVME_SQE_BYTES])
{
	memset(ret_bytes, 0, NVME_SQE_BYTES);
	ret_bytes[0] = sqe->opcode;
	ret_bytes[1] = (uint8_t)(sqe->fuse | sqe->psdt << 6);
	le16_put(ret_bytes + 2, sqe->cid);
	le32_put(ret_bytes + 4, sqe->nsid);
	le64_put(ret_bytes + 16, sqe->mptr);
	nvme_sgl_encode(&sqe->sgl, ret_bytes + 24);
	le32_put(ret_bytes + 40, sqe->cdw10);
	le32_put(ret_bytes + 44, sqe->cdw11);
	le32_put(ret_bytes + 48, sqe->cdw12);
	le32_put(ret_bytes + 52, sqe->cdw13);
	le32_put(ret_bytes + 56, sqe->cdw14);
	le32_put(ret_bytes + 60, sqe->cdw15);
}

struct nvme_cqe nvme_cqe_decode(const uint8_t bytes[NVME_CQE_BYTES])
{
	uint16_t status = le16_get(bytes + 14);

	return (struct nvme_cqe){
		.result = le64_get(bytes),
		.sqhd = le16_get(bytes + 8),
		.sqid = le16_get(bytes + 10),
		.cid = le16_get(bytes + 12),
		.status = status >> 1 & 0x7ff,
		.has_more = status >> 14 & 1,
		.may_not_repeat = status >> 15,
	};
}

void nvme_cqe_encode(const struct nvme_cqe *cqe, uint8_t ret_bytes[NVME_CQE_BYTES])
{
	le64_put(ret_bytes, cqe->result);
	le16_put(ret_bytes + 8, cqe->sqhd);
	le16_put(ret_bytes + 10, cqe->sqid);
	le16_put(ret_bytes + 12, cqe->cid);
	le16_put(ret_bytes + 14,
		(uint16_t)((cqe->status & 0x7ff) << 1 | cqe->has_more << 14 |
			cqe->may_not_repeat << 15));
}

enum set { ADMIN, IO, FABRICS };

static const struct {
	enum set set;
	uint8_t opcode;
	const char *name;
	bool changes_blocks;
} commands[] = {
#define NVME_COMMAND(set, name, opcode, direction, effect) {set, opcode, #name, effect},
#include "nvmf/common/codec/opcode.def"
#undef NVME_COMMAND
};

static const char *command_name(enum set set, uint8_t opcode)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (commands[i].set == set && commands[i].opcode == opcode)
			return commands[i].name;
	return NULL;
}

const char *nvme_admin_name(uint8_t opcode)
{
	return command_name(ADMIN, opcode);
}

const char *nvme_io_name(uint8_t opcode)
{
	return command_name(IO, opcode);
}

bool nvme_io_changes_blocks(uint8_t opcode)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (commands[i].set == IO && commands[i].opcode == opcode)
			return commands[i].changes_blocks;
	return false;
}

const char *nvme_fabrics_name(uint8_t fctype)
{
	return command_name(FABRICS, fctype);
}

bool nvme_status_may_repeat(uint16_t status)
{
	switch (status) {
#define NVME_STATUS(name, value, may_repeat, sentence) \
	case value:                                    \
		return may_repeat;
#include "nvmf/common/codec/status.def"
#undef NVME_STATUS
	default:
		return true;
	}
}

const char *nvme_status_sentence(uint16_t status)
{
	switch (status) {
#define NVME_STATUS(name, value, may_repeat, sentence) \
	case value:                                    \
		return sentence;
#include "nvmf/common/codec/status.def"
#undef NVME_STATUS
	default:
		return "unknown status";
	}
}
