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
 * This file knows what can be said of a PDU by itself: tables, lengths and offsets. tcp_rx.h cuts
 * PDUs out of a byte stream. What depends on commands, such as whether data was requested, is for
 * the two ends to check.
 */

#include <stdbool.h>
#include <stdint.h>

enum tcp_flag {
	TCP_HDGST = 1 << 0, /* a header digest follows the header */
	TCP_DDGST = 1 << 1, /* a data digest follows the data */
	TCP_LAST = 1 << 2, /* the last data PDU of a transfer */
	TCP_SUCCESS = 1 << 3, /* the command has succeeded; no response capsule follows */
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
	TCP_FATAL_DATA_RANGE = 4, /* data outside of what was requested */
	TCP_FATAL_LIMIT = 5, /* more R2Ts or data than the limit */
	TCP_FATAL_PARAMETER = 6, /* unsupported parameter; FEI is its byte offset */
};

enum {
	TCP_COMMON_BYTES = 8, /* the common header */
	TCP_HEADER_BYTES_MAX = 256, /* header, digest and padding: pdo is one byte */
	TCP_TERM_BYTES_MAX = 152, /* a whole TermReq */
	TCP_SQE_BYTES = 64,
	TCP_CQE_BYTES = 16,
	TCP_PDA_MAX = 31, /* 0's based number of dwords: 128 bytes */
	TCP_ADMIN_DATA_BYTES = 8192, /* in a capsule, on any queue, of Admin and Fabrics commands */
	TCP_MAXH2CDATA_MIN = 4096,
};

/* What both ends agreed on by ICReq and ICResp. All zero before. */
struct tcp_options {
	bool has_header_digest;
	bool has_data_digest;
	/* The alignment of data from the sender: (pda + 1) * 4 bytes. */
	uint8_t pda;
};

struct tcp_pdu {
	enum tcp_pdu_type type;
	uint8_t flags; /* enum tcp_flag */
	uint8_t pdo; /* where data begins; 0: no data */
	uint32_t plen; /* all bytes of the PDU */
	uint32_t data_bytes; /* without the digest */
	union {
		/* ICReq, ICResp. */
		struct {
			uint16_t pfv;
			uint8_t pda; /* HPDA or CPDA: what the sender wants to receive */
			uint8_t digest; /* bit 0 headers, bit 1 data */
			uint32_t max; /* MAXR2T (0's based) or MAXH2CDATA (bytes) */
		} ic;
		uint8_t sqe[TCP_SQE_BYTES];
		uint8_t cqe[TCP_CQE_BYTES];
		/* R2T, H2CData, C2HData. */
		struct {
			uint16_t cccid;
			uint16_t ttag; /* not in C2HData */
			uint32_t offset;
			uint32_t length;
		} data;
		struct {
			uint16_t fes;
			uint32_t fei;
		} term;
	};
};

/* Why a PDU is refused: a TermReq tells its sender. */
struct tcp_refusal {
	enum tcp_fatal fes;
	uint32_t fei;
};

bool tcp_pdu_is_known(uint8_t type);

/* Of a known type. */
uint8_t tcp_pdu_hlen(enum tcp_pdu_type type);

/*
 * Decode and check the common header. The first wrong field in the order of bytes is the one that
 * is refused.
 *
 * `bytes`    TCP_COMMON_BYTES bytes.
 * `options`  In force for the sender of the PDU.
 *
 * True, with type, flags, pdo, plen and data_bytes of `*ret_pdu` set; or false, with `*refusal`.
 */
bool tcp_pdu_decode_common(const uint8_t *bytes, const struct tcp_options *options,
	struct tcp_pdu *ret_pdu, struct tcp_refusal *refusal);

/*
 * Decode the rest of the header.
 *
 * `bytes`  hlen bytes, of which tcp_pdu_decode_common() has accepted the first.
 * `pdu`    What it decoded.
 */
void tcp_pdu_decode(const uint8_t *bytes, struct tcp_pdu *pdu);

/*
 * Encode header, header digest and padding. The data and the data digest are for the caller to
 * append, in this order.
 *
 * `pdu`        pdo and plen are set here, flags get the digests' bits.
 * `options`    In force for this end as sender.
 * `ret_bytes`  TCP_HEADER_BYTES_MAX bytes.
 *
 * The number of bytes: pdo, or where the PDU ends if it has no data.
 */
uint32_t tcp_pdu_encode(struct tcp_pdu *pdu, const struct tcp_options *options, uint8_t *ret_bytes);

/*
 * Encode a TermReq, whose data is a copy of the refused PDU's header.
 *
 * `header_bytes`  How much of it was received; at most TCP_TERM_BYTES_MAX - 24 are copied.
 * `ret_bytes`     TCP_TERM_BYTES_MAX bytes.
 *
 * The number of bytes.
 */
uint32_t tcp_term_encode(enum tcp_pdu_type type, const struct tcp_refusal *refusal,
	const uint8_t *header, uint32_t header_bytes, uint8_t *ret_bytes);

#endif
