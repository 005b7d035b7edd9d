/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/common/tcp/tcp_pdu.h"

#include <assert.h>
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/tcp/digest.h"

enum pdu_data { NONE, OPTIONAL, REQUIRED };

struct pdu_row {
	const char *name;
	uint8_t hlen;
	uint8_t flags;
	enum pdu_data data;
};

enum { TYPE_MAX = TCP_PDU_R2T };

static const struct pdu_row rows[TYPE_MAX + 1] = {
#define TCP_PDU(name, type, hlen, flags, data) [type] = {#name, hlen, flags, data},
#include "nvmf/common/tcp/tcp_pdu.def"
#undef TCP_PDU
};

bool tcp_pdu_is_known(uint8_t type)
{
	return type <= TYPE_MAX && rows[type].name;
}

uint8_t tcp_pdu_hlen(enum tcp_pdu_type type)
{
	return rows[type].hlen;
}

static bool pdu_refuse(struct tcp_refusal *refusal, enum tcp_fatal fes, uint32_t fei)
{
	*refusal = (struct tcp_refusal){.fes = fes, .fei = fei};
	return false;
}

/* IC and TermReq PDUs never have digests (section 3.3.1). */
static uint8_t digests_of(const struct pdu_row *row, const struct tcp_options *options)
{
	uint8_t digests = 0;

	if (options->has_header_digest)
		digests |= TCP_HDGST;
	if (options->has_data_digest)
		digests |= TCP_DDGST;
	return digests & row->flags;
}

static bool is_aligned(uint8_t pdo, const struct tcp_options *options)
{
	return pdo % ((options->pda + 1) * 4) == 0;
}

/* Check the fields pdo and plen, and set data_bytes, which follows from them. */
static bool decode_lengths(const struct pdu_row *row, const struct tcp_options *options,
	struct tcp_pdu *pdu, struct tcp_refusal *refusal)
{
	uint32_t header_bytes = row->hlen + (pdu->flags & TCP_HDGST ? DIGEST_BYTES : 0);
	uint32_t digest_bytes = pdu->flags & TCP_DDGST ? DIGEST_BYTES : 0;
	bool is_term = pdu->type == TCP_PDU_H2C_TERM || pdu->type == TCP_PDU_C2H_TERM;
	/* The data of a TermReq follows its header; its pdo is reserved. */
	uint32_t begin = is_term || pdu->pdo == 0 ? header_bytes : pdu->pdo;

	if (row->data == NONE || is_term ? pdu->pdo != 0 : pdu->pdo == 0 && row->data == REQUIRED)
		return pdu_refuse(refusal, TCP_FATAL_HEADER, 3);
	if (pdu->pdo != 0 && (pdu->pdo < header_bytes || !is_aligned(pdu->pdo, options)))
		return pdu_refuse(refusal, TCP_FATAL_HEADER, 3);
	if (pdu->plen < begin || (is_term && pdu->plen > TCP_TERM_BYTES_MAX))
		return pdu_refuse(refusal, TCP_FATAL_HEADER, 4);
	if (pdu->pdo == 0 && !is_term && pdu->plen != begin)
		return pdu_refuse(refusal, TCP_FATAL_HEADER, 4);
	pdu->data_bytes = pdu->plen - begin;
	if (pdu->data_bytes == 0 && row->data != REQUIRED)
		return digest_bytes ? pdu_refuse(refusal, TCP_FATAL_HEADER, 1) : true;
	if (pdu->data_bytes <= digest_bytes)
		return pdu_refuse(refusal, TCP_FATAL_HEADER, 4);
	pdu->data_bytes -= digest_bytes;
	return true;
}

bool tcp_pdu_decode_common(const uint8_t *bytes, const struct tcp_options *options,
	struct tcp_pdu *ret_pdu, struct tcp_refusal *refusal)
{
	struct tcp_pdu pdu = {.flags = bytes[1], .pdo = bytes[3], .plen = le32_get(bytes + 4)};
	const struct pdu_row *row;
	uint8_t digests;

	if (!tcp_pdu_is_known(bytes[0]))
		return pdu_refuse(refusal, TCP_FATAL_HEADER, 0);
	row = &rows[bytes[0]];
	pdu.type = (enum tcp_pdu_type)bytes[0];
	digests = digests_of(row, options);
	if (pdu.flags & ~row->flags)
		return pdu_refuse(refusal, TCP_FATAL_HEADER, 1);
	if ((pdu.flags & TCP_HDGST) != (digests & TCP_HDGST))
		return pdu_refuse(refusal, TCP_FATAL_HEADER, 1);
	/* A PDU without data has no data digest, even if both ends agreed on data digests. */
	if ((pdu.flags & TCP_DDGST) != (digests & TCP_DDGST) &&
		(pdu.flags & TCP_DDGST || pdu.pdo != 0))
		return pdu_refuse(refusal, TCP_FATAL_HEADER, 1);
	/* SUCCESS ends the command, so it is allowed only with the last data. */
	if ((pdu.flags & TCP_SUCCESS) && !(pdu.flags & TCP_LAST))
		return pdu_refuse(refusal, TCP_FATAL_HEADER, 1);
	if (bytes[2] != row->hlen)
		return pdu_refuse(refusal, TCP_FATAL_HEADER, 2);
	if (!decode_lengths(row, options, &pdu, refusal))
		return false;
	*ret_pdu = pdu;
	return true;
}

void tcp_pdu_decode(const uint8_t *bytes, struct tcp_pdu *pdu)
{
	switch (pdu->type) {
	case TCP_PDU_IC_REQ:
	case TCP_PDU_IC_RESP:
		pdu->ic.pfv = le16_get(bytes + 8);
		pdu->ic.pda = bytes[10];
		pdu->ic.digest = bytes[11];
		pdu->ic.max = le32_get(bytes + 12);
		return;
	case TCP_PDU_CAPSULE_CMD:
		memcpy(pdu->sqe, bytes + 8, TCP_SQE_BYTES);
		return;
	case TCP_PDU_CAPSULE_RESP:
		memcpy(pdu->cqe, bytes + 8, TCP_CQE_BYTES);
		return;
	case TCP_PDU_H2C_DATA:
	case TCP_PDU_C2H_DATA:
	case TCP_PDU_R2T:
		pdu->data.cccid = le16_get(bytes + 8);
		pdu->data.ttag = le16_get(bytes + 10);
		pdu->data.offset = le32_get(bytes + 12);
		pdu->data.length = le32_get(bytes + 16);
		return;
	case TCP_PDU_H2C_TERM:
	case TCP_PDU_C2H_TERM:
		pdu->term.fes = le16_get(bytes + 8);
		pdu->term.fei = le32_get(bytes + 10);
		return;
	}
}

static void encode_fields(const struct tcp_pdu *pdu, uint8_t *bytes)
{
	switch (pdu->type) {
	case TCP_PDU_IC_REQ:
	case TCP_PDU_IC_RESP:
		le16_put(bytes + 8, pdu->ic.pfv);
		bytes[10] = pdu->ic.pda;
		bytes[11] = pdu->ic.digest;
		le32_put(bytes + 12, pdu->ic.max);
		return;
	case TCP_PDU_CAPSULE_CMD:
		memcpy(bytes + 8, pdu->sqe, TCP_SQE_BYTES);
		return;
	case TCP_PDU_CAPSULE_RESP:
		memcpy(bytes + 8, pdu->cqe, TCP_CQE_BYTES);
		return;
	case TCP_PDU_H2C_DATA:
	case TCP_PDU_C2H_DATA:
	case TCP_PDU_R2T:
		le16_put(bytes + 8, pdu->data.cccid);
		le16_put(bytes + 10, pdu->data.ttag);
		le32_put(bytes + 12, pdu->data.offset);
		le32_put(bytes + 16, pdu->data.length);
		return;
	case TCP_PDU_H2C_TERM:
	case TCP_PDU_C2H_TERM:
		le16_put(bytes + 8, pdu->term.fes);
		le32_put(bytes + 10, pdu->term.fei);
		return;
	}
}

uint32_t tcp_pdu_encode(struct tcp_pdu *pdu, const struct tcp_options *options, uint8_t *ret_bytes)
{
	const struct pdu_row *row = &rows[pdu->type];
	uint32_t alignment = (options->pda + 1) * 4;
	uint8_t digests = digests_of(row, options);
	uint32_t header_bytes = row->hlen + (digests & TCP_HDGST ? DIGEST_BYTES : 0);
	uint32_t end = header_bytes;

	assert(row->data == REQUIRED ? pdu->data_bytes > 0
				     : row->data == OPTIONAL || pdu->data_bytes == 0);
	pdu->pdo = 0;
	if (pdu->data_bytes == 0)
		digests &= (uint8_t)~TCP_DDGST;
	else if (row->flags & TCP_DDGST)
		end = pdu->pdo = (uint8_t)((header_bytes + alignment - 1) / alignment * alignment);
	pdu->flags = (uint8_t)((pdu->flags & ~(TCP_HDGST | TCP_DDGST)) | digests);
	pdu->plen = end + pdu->data_bytes + (digests & TCP_DDGST ? DIGEST_BYTES : 0);
	memset(ret_bytes, 0, end);
	ret_bytes[0] = (uint8_t)pdu->type;
	ret_bytes[1] = pdu->flags;
	ret_bytes[2] = row->hlen;
	ret_bytes[3] = pdu->pdo;
	le32_put(ret_bytes + 4, pdu->plen);
	encode_fields(pdu, ret_bytes);
	if (digests & TCP_HDGST)
		le32_put(ret_bytes + row->hlen, digest_of(ret_bytes, row->hlen));
	return end;
}

uint32_t tcp_term_encode(enum tcp_pdu_type type, const struct tcp_refusal *refusal,
	const uint8_t *header, uint32_t header_bytes, uint8_t *ret_bytes)
{
	const struct tcp_options none = {0};
	struct tcp_pdu pdu = {.type = type};
	uint8_t bytes[TCP_HEADER_BYTES_MAX];
	size_t hlen;

	assert(type == TCP_PDU_H2C_TERM || type == TCP_PDU_C2H_TERM);
	pdu.data_bytes = TCP_TERM_BYTES_MAX - tcp_pdu_hlen(type);
	if (header_bytes < pdu.data_bytes)
		pdu.data_bytes = header_bytes;
	pdu.term.fes = (uint16_t)refusal->fes;
	pdu.term.fei = refusal->fei;
	hlen = tcp_pdu_encode(&pdu, &none, bytes);
	memcpy(ret_bytes, bytes, hlen);
	memcpy(ret_bytes + tcp_pdu_hlen(type), header, pdu.data_bytes);
	return pdu.plen;
}
