/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/common/codec/fabrics.h"

#include <string.h>

#include "nvmf/common/bytes.h"

enum {
	HOSTID_OFFSET = 0,
	CNTLID_OFFSET = 16,
	SUBNQN_OFFSET = 256,
	HOSTNQN_OFFSET = 512,
};

struct nvme_connect nvme_connect_decode(const struct nvme_sqe *sqe)
{
	return (struct nvme_connect){
		.recfmt = (uint16_t)sqe->cdw10,
		.qid = (uint16_t)(sqe->cdw10 >> 16),
		.sqsize = (uint16_t)sqe->cdw11,
		.cattr = (uint8_t)(sqe->cdw11 >> 16),
		.kato_ms = sqe->cdw12,
	};
}

void nvme_connect_encode(const struct nvme_connect *connect, struct nvme_sqe *ret_sqe)
{
	*ret_sqe = (struct nvme_sqe){
		.opcode = NVME_OPCODE_FABRICS,
		.psdt = 1,
		.nsid = NVME_FABRICS_CONNECT,
		.cdw10 = connect->recfmt | (uint32_t)connect->qid << 16,
		.cdw11 = connect->sqsize | (uint32_t)connect->cattr << 16,
		.cdw12 = connect->kato_ms,
	};
}

/* How many bytes the UTF-8 sequence at `p` has; 0 if it is malformed (RFC 3629, section 4). */
static unsigned utf8_bytes(const uint8_t *p)
{
	static const uint32_t first[] = {0, 0x80, 0x800, 0x10000};
	unsigned tail = p[0] < 0x80 ? 0
		: p[0] >> 5 == 6    ? 1
		: p[0] >> 4 == 14   ? 2
		: p[0] >> 3 == 30   ? 3
				    : 4;
	uint32_t rune;

	if (tail == 0)
		return p[0] >= 0x20 && p[0] != 0x7f;
	if (tail == 4)
		return 0;
	rune = p[0] & (0x3fu >> tail);
	for (unsigned i = 1; i <= tail; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		rune = rune << 6 | (p[i] & 0x3f);
	}
	/* Some terminals obey C1 control characters. */
	if (rune >= 0x80 && rune < 0xa0)
		return 0;
	if (rune < first[tail] || rune > 0x10ffff || (rune >= 0xd800 && rune < 0xe000))
		return 0;
	return tail + 1;
}

bool nvme_nqn_is_valid(const char *nqn, uint32_t field_bytes)
{
	uint32_t limit = field_bytes < NVME_NQN_BYTES ? field_bytes : NVME_NQN_BYTES;
	uint32_t length = (uint32_t)strnlen(nqn, limit);
	const uint8_t *bytes = (const uint8_t *)nqn;

	if (length == 0 || length == limit)
		return false;
	/* A truncated sequence is malformed, because utf8_bytes() then finds the NUL in it. */
	for (uint32_t i = 0; i < length;) {
		unsigned sequence = utf8_bytes(bytes + i);

		if (!sequence)
			return false;
		i += sequence;
	}
	return true;
}

bool nvme_connect_data_decode(const uint8_t bytes[NVME_CONNECT_DATA_BYTES],
	struct nvme_connect_data *ret_data, uint16_t *ret_offset)
{
	static const uint8_t zeroes[16];
	const char *subnqn = (const char *)bytes + SUBNQN_OFFSET;
	const char *hostnqn = (const char *)bytes + HOSTNQN_OFFSET;

	if (!memcmp(bytes + HOSTID_OFFSET, zeroes, sizeof(zeroes))) {
		*ret_offset = HOSTID_OFFSET;
		return false;
	}
	if (!nvme_nqn_is_valid(subnqn, NVME_NQN_FIELD_BYTES)) {
		*ret_offset = SUBNQN_OFFSET;
		return false;
	}
	if (!nvme_nqn_is_valid(hostnqn, NVME_NQN_FIELD_BYTES)) {
		*ret_offset = HOSTNQN_OFFSET;
		return false;
	}
	*ret_data = (struct nvme_connect_data){.cntlid = le16_get(bytes + CNTLID_OFFSET)};
	memcpy(ret_data->hostid, bytes + HOSTID_OFFSET, sizeof(ret_data->hostid));
	memcpy(ret_data->subnqn, subnqn, strlen(subnqn));
	memcpy(ret_data->hostnqn, hostnqn, strlen(hostnqn));
	return true;
}

void nvme_connect_data_encode(
	const struct nvme_connect_data *data, uint8_t ret_bytes[NVME_CONNECT_DATA_BYTES])
{
	memset(ret_bytes, 0, NVME_CONNECT_DATA_BYTES);
	memcpy(ret_bytes + HOSTID_OFFSET, data->hostid, sizeof(data->hostid));
	le16_put(ret_bytes + CNTLID_OFFSET, data->cntlid);
	memcpy(ret_bytes + SUBNQN_OFFSET, data->subnqn, strnlen(data->subnqn, NVME_NQN_BYTES - 1));
	memcpy(ret_bytes + HOSTNQN_OFFSET, data->hostnqn,
		strnlen(data->hostnqn, NVME_NQN_BYTES - 1));
}

struct nvme_property_access nvme_property_decode(const struct nvme_sqe *sqe)
{
	return (struct nvme_property_access){
		.attrib = (uint8_t)sqe->cdw10,
		.offset = sqe->cdw11,
		.value = sqe->cdw12 | (uint64_t)sqe->cdw13 << 32,
	};
}

static void property_encode(
	uint32_t fctype, const struct nvme_property_access *access, struct nvme_sqe *ret_sqe)
{
	*ret_sqe = (struct nvme_sqe){
		.opcode = NVME_OPCODE_FABRICS,
		.psdt = 1,
		.nsid = fctype,
		.cdw10 = access->attrib,
		.cdw11 = access->offset,
	};
}

void nvme_property_get_encode(const struct nvme_property_access *access, struct nvme_sqe *ret_sqe)
{
	property_encode(NVME_FABRICS_PROPERTY_GET, access, ret_sqe);
}

void nvme_property_set_encode(const struct nvme_property_access *access, struct nvme_sqe *ret_sqe)
{
	property_encode(NVME_FABRICS_PROPERTY_SET, access, ret_sqe);
	ret_sqe->cdw12 = (uint32_t)access->value;
	ret_sqe->cdw13 = (uint32_t)(access->value >> 32);
}

uint8_t nvme_property_bytes(uint32_t offset)
{
	switch (offset) {
	case NVME_CAP:
		return 8;
	case NVME_VS:
	case NVME_CC:
	case NVME_CSTS:
	case NVME_NSSR:
	case NVME_CRTO:
		return 4;
	default:
		return 0;
	}
}
