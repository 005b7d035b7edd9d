/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_LOG_PAGE_H
#define URNIC_NVMF_COMMON_LOG_PAGE_H

/*
 * Get Log Page and the log pages except discovery (which is in discovery.h), features, and
 * asynchronous events (NVMe base 2.0, sections 5.16, 5.27 and 5.2).
 */

#include "nvmf/common/codec/command.h"

enum log_page {
	LOG_ERROR = 0x01, /* 64 bytes for each entry */
	LOG_SMART = 0x02, /* 512 bytes */
	LOG_FIRMWARE = 0x03, /* 512 bytes */
	LOG_CHANGED_NAMESPACES = 0x04, /* 4,096 bytes: a list of identifiers */
	LOG_EFFECTS = 0x05, /* 4,096 bytes */
	LOG_ANA = 0x0c,
	LOG_DISCOVERY = 0x70,
};

enum {
	LOG_ERROR_BYTES = 64,
	LOG_SMART_BYTES = 512,
	LOG_FIRMWARE_BYTES = 512,
	LOG_CHANGED_BYTES = 4096,
	LOG_EFFECTS_BYTES = 4096,
};

enum nvme_feature {
	FEATURE_ARBITRATION = 0x01,
	FEATURE_POWER = 0x02,
	FEATURE_TEMPERATURE = 0x04,
	FEATURE_ERROR_RECOVERY = 0x05,
	FEATURE_WRITE_CACHE = 0x06,
	FEATURE_QUEUES = 0x07,
	FEATURE_WRITE_ATOMICITY = 0x0a,
	FEATURE_ASYNC_EVENTS = 0x0b,
	FEATURE_KEEP_ALIVE = 0x0f, /* the value is in ms */
	FEATURE_HOST_ID = 0x81,
};

/* Asynchronous events: type in bits 2:0 of dword 0, information in 15:8, log page in 23:16. */
enum {
	EVENT_NAMESPACES = 2 | 0x00 << 8 | LOG_CHANGED_NAMESPACES << 16,
	EVENT_ANA = 2 | 0x03 << 8 | LOG_ANA << 16,
	EVENT_DISCOVERY = 2 | 0xf0 << 8 | LOG_DISCOVERY << 16,
	/* The bits of FEATURE_ASYNC_EVENTS and of OAES for these events. */
	EVENT_MASK_NAMESPACES = 1 << 8,
	EVENT_MASK_ANA = 1 << 11,
};
#define EVENT_MASK_DISCOVERY (1u << 31)

struct log_request {
	uint8_t lid; /* enum log_page, or any other */
	bool keeps_event; /* RAE: reading the log page does not clear its event */
	uint64_t bytes; /* from 4 to 2^34 */
	uint64_t offset;
	bool has_index; /* OT: `offset` is an index of entries, not of bytes */
};

struct log_request log_request_decode(const struct nvme_sqe *sqe);
/* `bytes` is a multiple of 4. */
void log_request_encode(const struct log_request *request, struct nvme_sqe *ret_sqe);

struct log_error {
	uint64_t count; /* the number of the error, from 1; 0: the entry is unused */
	uint16_t sqid, cid;
	uint16_t status; /* bits 15:1: the status field of the completion */
	uint16_t location;
	uint64_t lba;
	uint32_t nsid;
};

void log_error_encode(const struct log_error *error, uint8_t ret_bytes[LOG_ERROR_BYTES]);
struct log_error log_error_decode(const uint8_t bytes[LOG_ERROR_BYTES]);

/*
 * SMART / Health Information. A counter of the log page has 128 bits: encoding sets the upper 64 to
 * 0, decoding ignores them.
 */
struct log_smart {
	uint8_t critical;
	uint16_t temperature_kelvin;
	uint8_t spare_percent, spare_threshold_percent, used_percent;
	uint64_t data_units_read, data_units_written; /* units of 512,000 bytes, rounded up */
	uint64_t reads, writes;
	uint64_t busy_minutes, power_cycles, power_on_hours, unsafe_shutdowns;
	uint64_t media_errors, error_entries;
};

void log_smart_encode(const struct log_smart *smart, uint8_t ret_bytes[LOG_SMART_BYTES]);
struct log_smart log_smart_decode(const uint8_t bytes[LOG_SMART_BYTES]);

/*
 * Commands Supported and Effects, for the Admin and I/O commands in opcode.def. A discovery
 * controller has no I/O commands.
 */
void log_effects_encode(uint8_t ret_bytes[LOG_EFFECTS_BYTES], bool is_discovery);

#endif
