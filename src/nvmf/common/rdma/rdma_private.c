/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/rdma/rdma_private.h"

/* Byte offsets in the private data (NVMe/RDMA transport 1.0, figures 7 to 9). */
enum {
	RECFMT = 0,
	REQUEST_QID = 2,
	REQUEST_HRQSIZE = 4,
	REQUEST_HSQSIZE = 6,
	REQUEST_CNTLID = 8,
	REPLY_CRQSIZE = 2,
	REJECT_STS = 2,
};

void rdma_request_encode(const struct rdma_request *request, uint8_t *ret_bytes)
{
	memset(ret_bytes, 0, RDMA_REQUEST_BYTES);
	le16_put(ret_bytes + REQUEST_QID, request->qid);
	le16_put(ret_bytes + REQUEST_HRQSIZE, request->hrqsize);
	le16_put(ret_bytes + REQUEST_HSQSIZE, request->hsqsize);
	le16_put(ret_bytes + REQUEST_CNTLID, request->cntlid);
}

enum rdma_reject rdma_request_decode(
	const void *bytes, size_t length, uint32_t entries_max, struct rdma_request *ret_request)
{
	const uint8_t *p = bytes;
	struct rdma_request request;

	if (length < RDMA_REQUEST_BYTES)
		return RDMA_REJECT_LENGTH;
	if (le16_get(p + RECFMT) != 0)
		return RDMA_REJECT_RECFMT;
	request.qid = le16_get(p + REQUEST_QID);
	request.hrqsize = le16_get(p + REQUEST_HRQSIZE);
	request.hsqsize = le16_get(p + REQUEST_HSQSIZE);
	request.cntlid = le16_get(p + REQUEST_CNTLID);
	if (request.qid == 0)
		entries_max = RDMA_ADMIN_ENTRIES;
	if (request.hsqsize == 0 || request.hsqsize >= entries_max)
		return RDMA_REJECT_HSQSIZE;
	if (request.hrqsize == 0)
		return RDMA_REJECT_HRQSIZE;
	*ret_request = request;
	return RDMA_ACCEPT;
}

void rdma_reply_encode(uint16_t crqsize, uint8_t *ret_bytes)
{
	memset(ret_bytes, 0, RDMA_REPLY_BYTES);
	le16_put(ret_bytes + REPLY_CRQSIZE, crqsize);
}

bool rdma_reply_decode(const void *bytes, size_t length, uint16_t *ret_crqsize)
{
	const uint8_t *p = bytes;

	if (length < RDMA_REPLY_BYTES || le16_get(p + RECFMT) != 0 ||
		le16_get(p + REPLY_CRQSIZE) == 0)
		return false;
	*ret_crqsize = le16_get(p + REPLY_CRQSIZE);
	return true;
}

void rdma_reject_encode(enum rdma_reject status, uint8_t *ret_bytes)
{
	memset(ret_bytes, 0, RDMA_REJECT_BYTES);
	le16_put(ret_bytes + REJECT_STS, (uint16_t)status);
}

const char *rdma_reject_sentence(const void *bytes, size_t length)
{
	static const char *const sentences[] = {
#define RDMA_REJECT(name, code, sentence) [code] = (sentence),
#include "nvmf/common/rdma/rdma_reject.def"
#undef RDMA_REJECT
	};
	const uint8_t *p = bytes;
	uint16_t status = length >= RDMA_REJECT_BYTES ? le16_get(p + REJECT_STS) : 0;

	if (status == 0 || status >= sizeof(sentences) / sizeof(sentences[0]) ||
		le16_get(p + RECFMT) != 0)
		return "nobody accepts connections of NVMe at this address and port";
	return sentences[status];
}
