/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_INFINIBAND_RMPP_H
#define URNIC_WIRE_INFINIBAND_RMPP_H

/*
 * Two headers that some classes have behind the common MAD header: the RMPP header of 12 bytes
 * (IBTA 13.6.2), and the header of subnet administration of 20 bytes (IBTA 15.2.1.1).
 *
 *      24        RMPP version; 0: the MAD is a whole message
 *      25        type
 *      26        response time 5 bits, flags 3
 *      27        status
 *      28 .. 31  DATA, ACK: segment number
 *      32 .. 35  DATA: payload length; ACK: new window last
 *
 *      36 .. 43  SA: SM_Key
 *      44 .. 45  SA: attribute offset, in units of 8 bytes
 *      48 .. 55  SA: component mask
 */

#include <stdbool.h>
#include <stdint.h>

#include "wire/infiniband/mad.h"

#define RMPP_VERSION      1
#define RMPP_HEADER_BYTES 12
/* The payload length of a full segment: all bytes behind the RMPP header. */
#define RMPP_SEGMENT_BYTES (MAD_BYTES - MAD_HEADER_BYTES - RMPP_HEADER_BYTES)

#define SA_HEADER_BYTES 20
#define SA_DATA_OFFSET  (MAD_HEADER_BYTES + RMPP_HEADER_BYTES + SA_HEADER_BYTES)
#define SA_DATA_BYTES   (MAD_BYTES - SA_DATA_OFFSET)

enum rmpp_type {
	RMPP_DATA = 1,
	RMPP_ACK = 2,
	RMPP_STOP = 3,
	RMPP_ABORT = 4,
};

enum rmpp_flags {
	RMPP_ACTIVE = 1,
	RMPP_FIRST = 2,
	RMPP_LAST = 4,
};

/* Status codes (IBTA 13.6.2.1, table 117). */
enum rmpp_status {
	RMPP_STATUS_OK = 0,
	RMPP_STATUS_RESOURCES = 1, /* in STOP: resources exhausted */
	RMPP_STATUS_TOO_LONG = 118, /* in ABORT: total time too long */
	RMPP_STATUS_LAST_LENGTH = 119, /* inconsistent last and payload length */
	RMPP_STATUS_FIRST_SEGMENT = 120, /* inconsistent first and segment number */
	RMPP_STATUS_BAD_TYPE = 121,
	RMPP_STATUS_WINDOW_TOO_SMALL = 122, /* new window last below the segment number */
	RMPP_STATUS_SEGMENT_TOO_BIG = 123, /* segment number beyond the message */
	RMPP_STATUS_BAD_STATUS = 124,
	RMPP_STATUS_VERSION = 125,
	RMPP_STATUS_RETRIES = 126, /* too many retries */
	RMPP_STATUS_UNSPECIFIED = 127,
};

/* The response time that stands for "none" (IBTA 13.6.2.1). */
#define RMPP_NO_RESPONSE_TIME 0x1f

struct rmpp_header {
	uint8_t version;
	uint8_t type;
	uint8_t response_time;
	uint8_t flags;
	uint8_t status;
	uint32_t segment;
	uint32_t length; /* DATA: the payload length; ACK: the new window last */
};

struct sa_header {
	uint64_t sm_key;
	uint16_t attribute_offset;
	uint64_t component_mask;
};

/* `mad` is a whole MAD. Decoding cannot fail. */
void rmpp_header_decode(struct rmpp_header *header, const uint8_t mad[MAD_BYTES])
	URNIC_EXPORT_AS(rmpp_header_decode);
void rmpp_header_encode(const struct rmpp_header *header, uint8_t mad[MAD_BYTES])
	URNIC_EXPORT_AS(rmpp_header_encode);
void sa_header_decode(struct sa_header *header, const uint8_t mad[MAD_BYTES])
	URNIC_EXPORT_AS(sa_header_decode);
void sa_header_encode(const struct sa_header *header, uint8_t mad[MAD_BYTES])
	URNIC_EXPORT_AS(sa_header_encode);

/* Does the class have RMPP's header? */
bool rmpp_has_header(uint8_t management_class);

/*
 * The offset of a class's data in a MAD. The data follow all headers; each segment of a message
 * repeats these headers.
 */
uint32_t rmpp_data_offset(uint8_t management_class);

#endif
