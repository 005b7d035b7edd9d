/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/common/codec/log_page.h"

#include <string.h>

#include "nvmf/common/bytes.h"

struct log_request log_request_decode(const struct nvme_sqe *sqe)
{
	uint64_t dwords = (sqe->cdw10 >> 16 | (uint64_t)(sqe->cdw11 & 0xffff) << 16) + 1;

	return (struct log_request){
		.lid = (uint8_t)sqe->cdw10,
		.keeps_event = sqe->cdw10 >> 15 & 1,
		.bytes = dwords * 4,
		.offset = sqe->cdw12 | (uint64_t)sqe->cdw13 << 32,
		.has_index = sqe->cdw14 >> 23 & 1,
	};
}

void log_request_encode(const struct log_request *request, struct nvme_sqe *ret_sqe)
{
	uint32_t dwords = (uint32_t)(request->bytes / 4 - 1);

	*ret_sqe = (struct nvme_sqe){
		.opcode = NVME_ADMIN_GET_LOG_PAGE,
		.psdt = 1,
		.nsid = (uint32_t)NVME_NSID_ALL,
		.cdw10 = request->lid | (uint32_t)request->keeps_event << 15 | dwords << 16,
		.cdw11 = dwords >> 16,
		.cdw12 = (uint32_t)request->offset,
		.cdw13 = (uint32_t)(request->offset >> 32),
		.cdw14 = (uint32_t)request->has_index << 23,
	};
}

void log_error_encode(const struct log_error *error, uint8_t ret_bytes[LOG_ERROR_BYTES])
{
	memset(ret_bytes, 0, LOG_ERROR_BYTES);
	le64_put(ret_bytes, error->count);
	le16_put(ret_bytes + 8, error->sqid);
	le16_put(ret_bytes + 10, error->cid);
	le16_put(ret_bytes + 12, error->status);
	le16_put(ret_bytes + 14, error->location);
	le64_put(ret_bytes + 16, error->lba);
	le32_put(ret_bytes + 24, error->nsid);
}

struct log_error log_error_decode(const uint8_t bytes[LOG_ERROR_BYTES])
{
	return (struct log_error){
		.count = le64_get(bytes),
		.sqid = le16_get(bytes + 8),
		.cid = le16_get(bytes + 10),
		.status = le16_get(bytes + 12),
		.location = le16_get(bytes + 14),
		.lba = le64_get(bytes + 16),
		.nsid = le32_get(bytes + 24),
	};
}

/* The counters, of 16 bytes each: COUNTER(member, byte offset) (base 2.0, figure 207). */
#define SMART_COUNTERS(COUNTER)         \
	COUNTER(data_units_read, 32)    \
	COUNTER(data_units_written, 48) \
	COUNTER(reads, 64)              \
	COUNTER(writes, 80)             \
	COUNTER(busy_minutes, 96)       \
	COUNTER(power_cycles, 112)      \
	COUNTER(power_on_hours, 128)    \
	COUNTER(unsafe_shutdowns, 144) COUNTER(media_errors, 160) COUNTER(error_entries, 176)

void log_smart_encode(const struct log_smart *smart, uint8_t ret_bytes[LOG_SMART_BYTES])
{
	memset(ret_bytes, 0, LOG_SMART_BYTES);
	ret_bytes[0] = smart->critical;
	le16_put(ret_bytes + 1, smart->temperature_kelvin);
	ret_bytes[3] = smart->spare_percent;
	ret_bytes[4] = smart->spare_threshold_percent;
	ret_bytes[5] = smart->used_percent;
#define COUNTER(member, offset) le64_put(ret_bytes + (offset), smart->member);
	SMART_COUNTERS(COUNTER)
#undef COUNTER
}

struct log_smart log_smart_decode(const uint8_t bytes[LOG_SMART_BYTES])
{
	return (struct log_smart){.critical = bytes[0],
		.temperature_kelvin = le16_get(bytes + 1),
		.spare_percent = bytes[3],
		.spare_threshold_percent = bytes[4],
		.used_percent = bytes[5],
#define COUNTER(member, offset) .member = le64_get(bytes + (offset)),
		SMART_COUNTERS(COUNTER)
#undef COUNTER
	};
}

void log_effects_encode(uint8_t ret_bytes[LOG_EFFECTS_BYTES], bool is_discovery)
{
	enum { ADMIN, IO, FABRICS, SUPPORTED = 1, CHANGES_BLOCKS = 2, IO_OFFSET = 1024 };
	static const struct {
		uint8_t set, opcode, effect;
	} rows[] = {
#define NVME_COMMAND(set, name, opcode, direction, effect) {set, opcode, effect},
#include "nvmf/common/codec/opcode.def"
#undef NVME_COMMAND
	};

	memset(ret_bytes, 0, LOG_EFFECTS_BYTES);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t *at = ret_bytes + rows[i].opcode * 4;

		if (rows[i].set == FABRICS || (rows[i].set == IO && is_discovery))
			continue;
		if (rows[i].set == IO)
			at += IO_OFFSET;
		le32_put(at, SUPPORTED | (rows[i].effect ? CHANGES_BLOCKS : 0));
	}
}
