/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_TCP_PDU_H
#define URNIC_NVMF_COMMON_TCP_PDU_H

/*
 * The PDUs of NVMe/TCP, as structs in host order and as bytes (NVMe/TCP transport 1.0, section
 * 3.6).
 *
 *     | header | header digest | padding | data | data digest |
 *              hlen                      pdo                  plen
 *
 * The functions here check a PDU without any context: its type, flags, lengths and offsets.
 * tcp_rx.h cuts PDUs out of a byte stream. Host and target check what depends on their commands,
 * such as whether data was requested.
 */

#include <stdbool.h>
#include <stdint.h>

enum tcp_flag {
	TCP_HDGST = 1 << 0, /* a header digest follows the header */
	TCP_DDGST = 1 << 1, /* a data digest follows the data */
	TCP_LAST = 1 << 2, /* the last data PDU of a transfer */
	TCP_SUCCESS = 1 << 3, /* the command has succeeded, and no response capsule follows */
};

enum tcp_pdu_type {
#define TCP_PDU(name, type, hlen, flags, data) TCP_PDU_##name = (type),
#include "nvmf/common/tcp/tcp_pdu.def"
#undef TCP_PDU
};

/* FES of a TermReq (section 3.6.2.5). */
enum tcp_fatal {
	TCP_FATAL_NONE = 0,
	TCP_FATAL_HEADER = 1, /* invalid header field; FEI is its byte offset */
	TCP_FATAL_SEQUENCE = 2, /* PDU out of sequence */
	TCP_FATAL_HEADER_DIGEST = 3, /* FEI is the digest that was received */
	TCP_FATAL_DATA_RANGE = 4, /* data outside of the requested range */
	TCP_FATAL_LIMIT = 5, /* more R2Ts than MAXR2T, or more data than MAXH2CDATA, allows */
	TCP_FATAL_PARAMETER = 6, /* unsupported parameter; FEI is its byte offset */
};

enum {
	TCP_COMMON_BYTES = 8, /* the common header */
	TCP_HEADER_BYTES_MAX = 256, /* header, digest and padding, because pdo is one byte */
	TCP_TERM_BYTES_MAX = 152, /* a whole TermReq */
	TCP_SQE_BYTES = 64,
	TCP_CQE_BYTES = 16,
	TCP_PDA_MAX = 31, /* in dwords, 0's based: an alignment of 128 bytes */
	/* The most in-capsule data of Admin and Fabrics commands, on any queue. */
	TCP_ADMIN_DATA_BYTES = 8192,
	TCP_MAXH2CDATA_MIN = 4096,
};

/* The options of one sender's PDUs, set by ICReq and ICResp. All members are 0 before that. */
struct tcp_options {
	bool has_header_digest;
	bool has_data_digest;
	/* In the sender's PDUs, pdo is a multiple of (pda + 1) * 4 bytes. */
	uint8_t pda;
};

struct tcp_pdu {
	enum tcp_pdu_type type;
	uint8_t flags; /* enum tcp_flag */
	uint8_t pdo; /* byte offset of the data; 0: no data */
	uint32_t plen; /* the length of the whole PDU in bytes */
	uint32_t data_bytes; /* the length of the data without the data digest */
	union {
		/* ICReq, ICResp. */
		struct {
			uint16_t pfv;
			uint8_t pda; /* HPDA or CPDA: for data that this PDU's sender receives */
			uint8_t digest; /* bit 0: header digest, bit 1: data digest */
			uint32_t max; /* MAXR2T (0's based) or MAXH2CDATA (bytes) */
		} ic;
		uint8_t sqe[TCP_SQE_BYTES];
		uint8_t cqe[TCP_CQE_BYTES];
		/* R2T, H2CData, C2HData. */
		struct {
			uint16_t cccid;
			uint16_t ttag; /* reserved in C2HData */
			uint32_t offset;
			uint32_t length;
		} data;
		struct {
			uint16_t fes;
			uint32_t fei;
		} term;
	};
};

/* Why this end refuses a PDU. A TermReq carries both fields to the sender of that PDU. */
struct tcp_refusal {
	enum tcp_fatal fes;
	uint32_t fei;
};

bool tcp_pdu_is_known(uint8_t type);

/* The header length of a PDU; tcp_pdu_is_known() is true for `type`. */
uint8_t tcp_pdu_hlen(enum tcp_pdu_type type);

/*
 * Decode and check the common header of a PDU. If several fields are wrong, `*refusal` names one of
 * them.
 *
 * `bytes`    TCP_COMMON_BYTES bytes.
 * `options`  The options in force for the sender of the PDU.
 *
 * Returns true, with type, flags, pdo, plen and data_bytes of `*ret_pdu` set; or false, with
 * `*refusal` set.
 */
bool tcp_pdu_decode_common(const uint8_t *bytes, const struct tcp_options *options,
	struct tcp_pdu *ret_pdu, struct tcp_refusal *refusal);

/*
 * Decode the rest of the header.
 *
 * `bytes`  hlen bytes; tcp_pdu_decode_common() has accepted the common header among them.
 * `pdu`    The result of tcp_pdu_decode_common(); this call fills its union.
 */
void tcp_pdu_decode(const uint8_t *bytes, struct tcp_pdu *pdu);

/*
 * Encode header, header digest and padding. The caller appends the data, then the data digest.
 *
 * `pdu`        This call sets pdo, plen, and the digests' bits of flags.
 * `options`    The options in force for this end as the sender.
 * `ret_bytes`  TCP_HEADER_BYTES_MAX bytes.
 *
 * Returns the number of bytes encoded, which is also the offset of the data.
 */
uint32_t tcp_pdu_encode(struct tcp_pdu *pdu, const struct tcp_options *options, uint8_t *ret_bytes);

/*
 * Encode a TermReq, whose data is a copy of the refused PDU's header.
 *
 * `header_bytes`  How much of the header was received. The copy has at most TCP_TERM_BYTES_MAX - 24
 *                 bytes.
 * `ret_bytes`     TCP_TERM_BYTES_MAX bytes.
 *
 * Returns the number of bytes encoded.
 */
uint32_t tcp_term_encode(enum tcp_pdu_type type, const struct tcp_refusal *refusal,
	const uint8_t *header, uint32_t header_bytes, uint8_t *ret_bytes);

#endif
