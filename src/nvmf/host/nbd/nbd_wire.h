/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The numbers of the NBD protocol (https://github.com/NetworkBlockDevice/nbd, doc/proto.md), and
 * functions for its big-endian integers.
 */
#ifndef NVMF_HOST_NBD_WIRE_H
#define NVMF_HOST_NBD_WIRE_H

#include <stdint.h>
#include <string.h>

#define NBD_MAGIC            0x4e42444d41474943u /* "NBDMAGIC" */
#define NBD_OPTION_MAGIC     0x49484156454f5054u /* "IHAVEOPT" */
#define NBD_REPLY_MAGIC      0x0003e889045565a9u
#define NBD_REQUEST_MAGIC    0x25609513u
#define NBD_SIMPLE_MAGIC     0x67446698u
#define NBD_STRUCTURED_MAGIC 0x668e33efu

enum {
	NBD_OPTION_HEAD_BYTES = 16,
	NBD_OPTION_REPLY_BYTES = 20,
	NBD_REQUEST_BYTES = 28,
	NBD_SIMPLE_BYTES = 16,
	NBD_STRUCTURED_BYTES = 20,
	NBD_EXPORT_NAME_ZEROES = 124,
};

/* Handshake flags of the server; the client's flags have the same bits. */
enum {
	NBD_FIXED_NEWSTYLE = 1 << 0,
	NBD_NO_ZEROES = 1 << 1,
};

enum nbd_option {
	NBD_OPT_EXPORT_NAME = 1,
	NBD_OPT_ABORT = 2,
	NBD_OPT_LIST = 3,
	NBD_OPT_INFO = 6,
	NBD_OPT_GO = 7,
	NBD_OPT_STRUCTURED_REPLY = 8,
	NBD_OPT_LIST_META_CONTEXT = 9,
	NBD_OPT_SET_META_CONTEXT = 10,
};

enum nbd_option_reply {
	NBD_REP_ACK = 1,
	NBD_REP_SERVER = 2,
	NBD_REP_INFO = 3,
	NBD_REP_META_CONTEXT = 4,
};

#define NBD_REP_ERR_UNSUP   0x80000001u
#define NBD_REP_ERR_INVALID 0x80000003u
#define NBD_REP_ERR_UNKNOWN 0x80000006u
#define NBD_REP_ERR_TOO_BIG 0x80000009u

enum nbd_info {
	NBD_INFO_EXPORT = 0,
	NBD_INFO_NAME = 1,
	NBD_INFO_DESCRIPTION = 2,
	NBD_INFO_BLOCK_SIZE = 3,
};

/* Transmission flags. */
enum {
	NBD_HAS_FLAGS = 1 << 0,
	NBD_READ_ONLY = 1 << 1,
	NBD_SEND_FLUSH = 1 << 2,
	NBD_SEND_FUA = 1 << 3,
	NBD_SEND_TRIM = 1 << 5,
	NBD_SEND_WRITE_ZEROES = 1 << 6,
	NBD_SEND_DF = 1 << 7,
	NBD_CAN_MULTI_CONN = 1 << 8,
};

enum nbd_command {
	NBD_CMD_READ = 0,
	NBD_CMD_WRITE = 1,
	NBD_CMD_DISC = 2,
	NBD_CMD_FLUSH = 3,
	NBD_CMD_TRIM = 4,
	NBD_CMD_WRITE_ZEROES = 6,
	NBD_CMD_BLOCK_STATUS = 7,
};

enum {
	NBD_FLAG_FUA = 1 << 0,
	NBD_FLAG_NO_HOLE = 1 << 1,
	NBD_FLAG_DF = 1 << 2,
	NBD_FLAG_REQ_ONE = 1 << 3,
};

enum nbd_chunk {
	NBD_CHUNK_NONE = 0,
	NBD_CHUNK_OFFSET_DATA = 1,
	NBD_CHUNK_BLOCK_STATUS = 5,
	NBD_CHUNK_ERROR = 32769,
};

enum {
	NBD_CHUNK_DONE = 1, /* a flag: this is the last chunk of the reply */
};

/* Errors on the wire, with the numbers of Linux. */
enum nbd_error {
	NBD_EPERM = 1,
	NBD_EIO = 5,
	NBD_ENOMEM = 12,
	NBD_EINVAL = 22,
	NBD_ENOSPC = 28,
	NBD_ENOTSUP = 95,
	NBD_ESHUTDOWN = 108,
};

static inline uint16_t nbd_get16(const uint8_t *bytes)
{
	uint16_t value;

	memcpy(&value, bytes, sizeof(value));
	return __builtin_bswap16(value);
}

static inline uint32_t nbd_get32(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return __builtin_bswap32(value);
}

static inline uint64_t nbd_get64(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return __builtin_bswap64(value);
}

/* Each returns the address after the bytes that it wrote. */
static inline uint8_t *nbd_put16(uint8_t *bytes, uint16_t value)
{
	value = __builtin_bswap16(value);
	memcpy(bytes, &value, sizeof(value));
	return bytes + sizeof(value);
}

static inline uint8_t *nbd_put32(uint8_t *bytes, uint32_t value)
{
	value = __builtin_bswap32(value);
	memcpy(bytes, &value, sizeof(value));
	return bytes + sizeof(value);
}

static inline uint8_t *nbd_put64(uint8_t *bytes, uint64_t value)
{
	value = __builtin_bswap64(value);
	memcpy(bytes, &value, sizeof(value));
	return bytes + sizeof(value);
}

#endif
