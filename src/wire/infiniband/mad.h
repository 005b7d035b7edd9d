/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_INFINIBAND_MAD_H
#define URNIC_WIRE_INFINIBAND_MAD_H

/*
 * Management datagrams (IBTA 13.4): 256 bytes, in one UD SEND_ONLY packet with a well-known Q_Key.
 * QP0 receives those of subnet management, QP1 those of the general services. A MAD begins with a
 * header that all classes share:
 *
 *       0        base version
 *       1        management class
 *       2        class version
 *       3        method; the top bit says that it is a response
 *       4 ..  5  status; in a directed-route SMP the top bit is the direction
 *       6 ..  7  specific to the class; in a directed-route SMP hop pointer and hop count
 *       8 .. 15  transaction ID
 *      16 .. 17  attribute ID
 *      20 .. 23  attribute modifier
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"

#define MAD_BYTES        256
#define MAD_HEADER_BYTES 24
#define MAD_DATA_BYTES   (MAD_BYTES - MAD_HEADER_BYTES)

#define MAD_BASE_VERSION 1

/*
 * The numbers of the queue pairs of the subnet management interface and of the general services
 * interface. They are the same on every port. GSI_QKEY is the Q_Key of QP1 (IBTA 13.5.1.1, 10.2.5);
 * QP0 has Q_Key 0.
 */
#define SMI_QPN  0
#define GSI_QPN  1
#define GSI_QKEY 0x80010000u

/* Management classes (IBTA 13.4.4, table 112). */
enum mad_class {
	MAD_CLASS_SUBN_LID_ROUTED = 0x01,
	MAD_CLASS_SUBN_ADM = 0x03,
	MAD_CLASS_PERF = 0x04,
	MAD_CLASS_BM = 0x05,
	MAD_CLASS_DEV_MGT = 0x06,
	MAD_CLASS_CM = 0x07,
	MAD_CLASS_SNMP = 0x08,
	MAD_CLASS_VENDOR_FIRST = 0x09, /* vendor classes without an OUI */
	MAD_CLASS_VENDOR_LAST = 0x0f,
	MAD_CLASS_BIS = 0x12, /* boot information */
	MAD_CLASS_CONGESTION = 0x21,
	MAD_CLASS_VENDOR_OUI_FIRST = 0x30, /* vendor classes with an RMPP header and an OUI */
	MAD_CLASS_VENDOR_OUI_LAST = 0x4f,
	MAD_CLASS_SUBN_DIRECTED = 0x81,
};

/* Methods (IBTA 13.4.5, table 113). */
enum mad_method {
	MAD_METHOD_GET = 0x01,
	MAD_METHOD_SET = 0x02,
	MAD_METHOD_SEND = 0x03,
	MAD_METHOD_TRAP = 0x05,
	MAD_METHOD_REPORT = 0x06,
	MAD_METHOD_TRAP_REPRESS = 0x07,
	MAD_METHOD_GET_RESP = 0x81,
	MAD_METHOD_REPORT_RESP = 0x86,
	/* of subnet administration (IBTA 15.2.2) */
	MAD_METHOD_GET_TABLE = 0x12,
	MAD_METHOD_GET_TRACE_TABLE = 0x13,
	MAD_METHOD_GET_MULTI = 0x14,
	MAD_METHOD_DELETE = 0x15,
	MAD_METHOD_GET_TABLE_RESP = 0x92,
	MAD_METHOD_GET_MULTI_RESP = 0x94,
	MAD_METHOD_DELETE_RESP = 0x95,
};

#define MAD_METHOD_RESPONSE_BIT 0x80

/* Status codes that all classes share (IBTA 13.4.7, table 114). */
enum mad_status {
	MAD_STATUS_OK = 0,
	MAD_STATUS_BUSY = 0x0001,
	MAD_STATUS_REDIRECT = 0x0002,
	MAD_STATUS_BAD_VERSION = 1 << 2,
	MAD_STATUS_UNSUPPORTED_METHOD = 2 << 2,
	MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE = 3 << 2,
	MAD_STATUS_INVALID_VALUE = 7 << 2,
};

struct mad_header {
	uint8_t base_version;
	uint8_t management_class;
	uint8_t class_version;
	uint8_t method;
	uint16_t status;
	uint16_t class_specific;
	uint16_t attribute_id;
	uint32_t attribute_modifier;
	uint64_t transaction_id;
};

/*
 * Decoding cannot fail, because every bit pattern is a header. Reserved bytes are sent as zero and
 * ignored when received.
 */
void mad_header_decode(struct mad_header *header, const uint8_t from[MAD_HEADER_BYTES])
	URNIC_EXPORT_AS(mad_header_decode);
void mad_header_encode(const struct mad_header *header, uint8_t to[MAD_HEADER_BYTES])
	URNIC_EXPORT_AS(mad_header_encode);

/*
 * Is the MAD a response, which belongs to the agent that sent the request? A TrapRepress counts as
 * a response, because it ends a trap as a response ends a request (IBTA 13.4.9). A baseboard
 * management message counts as a response if the response bit of its attribute modifier is set
 * (IBTA 16.3.2).
 */
static inline bool mad_header_is_response(const struct mad_header *header)
{
	return header->method & MAD_METHOD_RESPONSE_BIT ||
		header->method == MAD_METHOD_TRAP_REPRESS ||
		(header->management_class == MAD_CLASS_BM && header->attribute_modifier & 1);
}

/* Does the class belong to subnet management, whose queue pair is QP0? */
static inline bool mad_class_is_subnet(uint8_t management_class)
{
	return management_class == MAD_CLASS_SUBN_LID_ROUTED ||
		management_class == MAD_CLASS_SUBN_DIRECTED;
}

/* Does the class have an OUI behind its RMPP header (IBTA 16.5.2)? */
static inline bool mad_class_has_oui(uint8_t management_class)
{
	return management_class >= MAD_CLASS_VENDOR_OUI_FIRST &&
		management_class <= MAD_CLASS_VENDOR_OUI_LAST;
}

#endif
