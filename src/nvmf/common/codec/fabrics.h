/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_FABRICS_H
#define URNIC_NVMF_COMMON_FABRICS_H

/*
 * Fabrics commands: Connect, its data, and properties (NVMe base 2.0, sections 3.1.3 and 6).
 *
 * The functions convert between these structs and a `struct nvme_sqe`. After an encoding function,
 * the caller sets the cid and sgl of the SQE.
 */

#include "nvmf/common/codec/command.h"

enum {
	NVME_CONNECT_DATA_BYTES = 1024,
	NVME_NQN_BYTES = 224, /* 223 and a NUL (section 4.5) */
	NVME_NQN_FIELD_BYTES = 256,
	NVME_CNTLID_DYNAMIC = 0xffff,
	NVME_CATTR_NO_FLOW_CONTROL = 1 << 2,
	/* The SQHD of each completion of a queue whose flow control is disabled. */
	NVME_SQHD_NONE = 0xffff,
	/* IATTR in CONNECT_PARAMETER's result: IPO (bits 15:0) is an offset in Connect's data. */
	NVME_CONNECT_IN_DATA = 1 << 16,
};

#define NVME_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

enum nvme_property {
	NVME_CAP = 0x00, /* 8 bytes */
	NVME_VS = 0x08,
	NVME_CC = 0x14,
	NVME_CSTS = 0x1c,
	NVME_NSSR = 0x20,
	NVME_CRTO = 0x68,
};

enum {
	NVME_CC_EN = 1 << 0,
	NVME_CC_SHN = 3 << 14, /* shutdown notification */
	NVME_CC_SHN_NORMAL = 1 << 14,
	NVME_CC_DEFAULT = 6 << 16 | 4 << 20, /* IOSQES, IOCQES: 64 and 16 bytes */
	NVME_CSTS_RDY = 1 << 0,
	NVME_CSTS_CFS = 1 << 1,
	NVME_CSTS_SHST_OCCURRING = 1 << 2,
	NVME_CSTS_SHST_COMPLETE = 2 << 2,
	NVME_VS_1_4 = 1 << 16 | 4 << 8,
};

struct nvme_connect {
	uint16_t recfmt; /* format of the command; 0: the only valid one */
	uint16_t qid; /* 0: the Admin queue */
	uint16_t sqsize; /* 0's based */
	uint8_t cattr;
	uint32_t kato_ms; /* Admin queue only; 0: no keep alive timeout */
};

struct nvme_connect_data {
	uint8_t hostid[16];
	uint16_t cntlid;
	char subnqn[NVME_NQN_BYTES];
	char hostnqn[NVME_NQN_BYTES];
};

struct nvme_property_access {
	uint8_t attrib; /* bits 2:0: 0 is 4 bytes, 1 is 8 bytes */
	uint32_t offset; /* enum nvme_property, or any other value */
	uint64_t value; /* Property Set only */
};

static inline uint8_t nvme_fctype(const struct nvme_sqe *sqe)
{
	return (uint8_t)sqe->nsid;
}

struct nvme_connect nvme_connect_decode(const struct nvme_sqe *sqe);
void nvme_connect_encode(const struct nvme_connect *connect, struct nvme_sqe *ret_sqe);

/*
 * Decode the data of Connect. Returns false, with the byte offset of the wrong field in
 * `*ret_offset`, if the host identifier is zero, or nvme_nqn_is_valid() refuses an NQN.
 */
bool nvme_connect_data_decode(const uint8_t bytes[NVME_CONNECT_DATA_BYTES],
	struct nvme_connect_data *ret_data, uint16_t *ret_offset);
void nvme_connect_data_encode(
	const struct nvme_connect_data *data, uint8_t ret_bytes[NVME_CONNECT_DATA_BYTES]);

struct nvme_property_access nvme_property_decode(const struct nvme_sqe *sqe);
void nvme_property_get_encode(const struct nvme_property_access *access, struct nvme_sqe *ret_sqe);
void nvme_property_set_encode(const struct nvme_property_access *access, struct nvme_sqe *ret_sqe);

/* How many bytes the property at `offset` has, 4 or 8; 0 if there is no such property. */
uint8_t nvme_property_bytes(uint32_t offset);

/*
 * Whether `nqn` is 1 to 223 bytes of UTF-8 without control characters, followed by a NUL within
 * `field_bytes` bytes.
 */
bool nvme_nqn_is_valid(const char *nqn, uint32_t field_bytes);

#endif
