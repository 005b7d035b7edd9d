/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_CM_MESSAGE_H
#define URNIC_WIRE_CM_MESSAGE_H

/*
 * The messages of the InfiniBand connection manager (IBTA 12.6) as plain structs, and the private
 * data of the RDMA IP CM service (annex A11).
 *
 * The rows of wire/cm/cm_message.def define the members of the structs, and how each is encoded and
 * decoded. The members are in host order. A struct cm_message holds no pointers.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "base/gid.h"
#include "wire/infiniband/mad.h"

#define CM_CLASS_VERSION 2

enum cm_attribute {
#define CM_MESSAGE(NAME, name, attribute) CM_##NAME = (attribute),
#include "wire/cm/cm_message.def"
};

#define CM_MESSAGE(NAME, name, attribute)          struct cm_##name {
#define CM_INT(name, type, field, byte, bit, bits) type field;
#define CM_BYTES(name, field, byte, bytes)         uint8_t field[bytes];
#define CM_END(name) \
	}            \
	;
#include "wire/cm/cm_message.def"

/* The message that a MRA or REJ answers. */
enum cm_answered {
	CM_ANSWERED_REQ = 0,
	CM_ANSWERED_REP = 1,
	CM_ANSWERED_OTHER = 2, /* MRA: a LAP; REJ: no message */
};

/* Values of `reason` in struct cm_rej. */
enum cm_reject {
#define CM_REJECT(NAME, code, sentence) CM_REJECT_##NAME = (code),
#include "wire/cm/cm_reject.def"
#undef CM_REJECT
};

/*
 * The reason of a REJ, as a sentence for users. Never NULL: a code without a row in cm_reject.def
 * has a sentence, too.
 */
const char *cm_reject_sentence(uint16_t reason) URNIC_EXPORT_AS(cm_reject_sentence);

/* Values of `transport_service` in struct cm_req. */
enum cm_transport_service {
	CM_SERVICE_RC = 0,
	CM_SERVICE_UC = 1,
	CM_SERVICE_RD = 2,
	CM_SERVICE_EXTENDED = 3, /* `extended_transport` 1 is XRC */
};

#define CM_EXTENDED_XRC 1

/* Values of `status` in struct cm_sidr_rep (IBTA 12.11.2). */
enum cm_sidr_status {
	CM_SIDR_SUCCESS = 0,
	CM_SIDR_UNSUPPORTED = 1,
	CM_SIDR_REJECTED = 2,
	CM_SIDR_NO_QP = 3,
	CM_SIDR_REDIRECT = 4,
	CM_SIDR_UNSUPPORTED_VERSION = 5,
};

/* Values of `status` in struct cm_apr (IBTA 12.8.2). */
enum cm_apr_status {
	CM_APR_LOADED = 0,
	CM_APR_INVALID_COMM_ID = 1,
	CM_APR_UNSUPPORTED = 2,
	CM_APR_REJECTED = 3,
};

struct cm_message {
	enum cm_attribute attribute;
	uint64_t transaction_id;
	union {
#define CM_MESSAGE(NAME, name, attribute) struct cm_##name name;
#include "wire/cm/cm_message.def"
	};
};

/*
 * Decode a message.
 *
 * `message`  Set on success, else undefined.
 *
 * Returns false unless the MAD is a known message of the connection manager in a known version
 * (IBTA 12.6.1).
 */
bool cm_message_decode(struct cm_message *message, const uint8_t mad[MAD_BYTES]);

/*
 * Write all 256 bytes of a MAD. A value that is too large for its field is cut to the field's
 * width.
 */
void cm_message_encode(const struct cm_message *message, uint8_t mad[MAD_BYTES]);

/* The sender's and the receiver's communication ID or request ID; 0 where a message has none. */
uint32_t cm_message_sender(const struct cm_message *message);
uint32_t cm_message_receiver(const struct cm_message *message);

/*
 * Make a message with the IDs `sender` and `receiver`; an ID for which the message has no field is
 * ignored. All other fields are 0.
 */
struct cm_message cm_message_begin(
	enum cm_attribute attribute, uint64_t transaction_id, uint32_t sender, uint32_t receiver);

/* --- RDMA IP CM service (annex A11) ------------------------------------------------------- */

/*
 * The service ID of an IP port consists of the number of the port space and, in the low 16 bits,
 * the port.
 */
#define IP_CM_SERVICE_PREFIX_MASK 0xffffffffff000000u
#define IP_CM_SERVICE_PREFIX      0x0000000001000000u

enum {
	IP_CM_HEADER_BYTES = 36, /* precedes the program's private data in a REQ or SIDR_REQ */
	/* The program's part of a REQ's private data */
	IP_CM_REQ_DATA_BYTES = 92 - IP_CM_HEADER_BYTES,
	IP_CM_SIDR_DATA_BYTES = 216 - IP_CM_HEADER_BYTES,
};

/* `port` is in host order. */
static inline uint64_t ip_cm_service_id(uint16_t port_space, uint16_t port)
{
	return (uint64_t)port_space << 16 | port;
}

static inline uint16_t ip_cm_service_port(uint64_t service_id)
{
	return (uint16_t)service_id;
}

struct ip_cm_header {
	uint16_t source_port;
	/* `source` and `destination` are of one family; IPv4 addresses are IPv4-mapped. */
	struct gid source;
	struct gid destination;
};

/* Returns false for an unknown version of the header or of IP. */
bool ip_cm_header_decode(struct ip_cm_header *header, const uint8_t from[IP_CM_HEADER_BYTES])
	URNIC_EXPORT_AS(ip_cm_header_decode);
void ip_cm_header_encode(const struct ip_cm_header *header, uint8_t to[IP_CM_HEADER_BYTES])
	URNIC_EXPORT_AS(ip_cm_header_encode);

#endif
