/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/common/codec/discovery.h"

#include <string.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/codec/ascii.h"

enum {
	TRSVCID_OFFSET = 32,
	SUBNQN_OFFSET = 256,
	TRADDR_OFFSET = 512,
	TSAS_OFFSET = 768,
	TRSVCID_FIELD_BYTES = 32,
	TRADDR_FIELD_BYTES = 256,
};

bool discovery_header_decode(
	const uint8_t bytes[DISCOVERY_HEADER_BYTES], struct discovery_header *ret_header)
{
	struct discovery_header header = {
		.genctr = le64_get(bytes),
		.numrec = le64_get(bytes + 8),
		.recfmt = le16_get(bytes + 16),
	};

	if (header.recfmt != 0)
		return false;
	*ret_header = header;
	return true;
}

void discovery_header_encode(
	const struct discovery_header *header, uint8_t ret_bytes[DISCOVERY_HEADER_BYTES])
{
	memset(ret_bytes, 0, DISCOVERY_HEADER_BYTES);
	le64_put(ret_bytes, header->genctr);
	le64_put(ret_bytes + 8, header->numrec);
	le16_put(ret_bytes + 16, header->recfmt);
}

bool discovery_entry_decode(
	const uint8_t bytes[DISCOVERY_ENTRY_BYTES], struct discovery_entry *ret_entry)
{
	const char *subnqn = (const char *)bytes + SUBNQN_OFFSET;
	struct discovery_entry entry = {
		.trtype = bytes[0],
		.adrfam = bytes[1],
		.subtype = bytes[2],
		.treq = bytes[3],
		.portid = le16_get(bytes + 4),
		.cntlid = le16_get(bytes + 6),
		.asqsz = le16_get(bytes + 8),
		.eflags = le16_get(bytes + 10),
	};

	if (!nvme_nqn_is_valid(subnqn, NVME_NQN_FIELD_BYTES) ||
		!ascii_decode(bytes + TRSVCID_OFFSET, TRSVCID_FIELD_BYTES, entry.trsvcid) ||
		!ascii_decode(bytes + TRADDR_OFFSET, TRADDR_FIELD_BYTES, entry.traddr))
		return false;
	memcpy(entry.subnqn, subnqn, strlen(subnqn));
	if (entry.trtype == DISCOVERY_RDMA) {
		entry.rdma_qptype = bytes[TSAS_OFFSET];
		entry.rdma_prtype = bytes[TSAS_OFFSET + 1];
		entry.rdma_cms = bytes[TSAS_OFFSET + 2];
	} else if (entry.trtype == DISCOVERY_TCP) {
		entry.tcp_sectype = bytes[TSAS_OFFSET];
	}
	*ret_entry = entry;
	return true;
}

void discovery_entry_encode(
	const struct discovery_entry *entry, uint8_t ret_bytes[DISCOVERY_ENTRY_BYTES])
{
	memset(ret_bytes, 0, DISCOVERY_ENTRY_BYTES);
	ret_bytes[0] = entry->trtype;
	ret_bytes[1] = entry->adrfam;
	ret_bytes[2] = entry->subtype;
	ret_bytes[3] = entry->treq;
	le16_put(ret_bytes + 4, entry->portid);
	le16_put(ret_bytes + 6, entry->cntlid);
	le16_put(ret_bytes + 8, entry->asqsz);
	le16_put(ret_bytes + 10, entry->eflags);
	memcpy(ret_bytes + TRSVCID_OFFSET, entry->trsvcid,
		strnlen(entry->trsvcid, TRSVCID_FIELD_BYTES));
	memcpy(ret_bytes + SUBNQN_OFFSET, entry->subnqn,
		strnlen(entry->subnqn, NVME_NQN_BYTES - 1));
	memcpy(ret_bytes + TRADDR_OFFSET, entry->traddr,
		strnlen(entry->traddr, TRADDR_FIELD_BYTES));
	if (entry->trtype == DISCOVERY_RDMA) {
		ret_bytes[TSAS_OFFSET] = entry->rdma_qptype;
		ret_bytes[TSAS_OFFSET + 1] = entry->rdma_prtype;
		ret_bytes[TSAS_OFFSET + 2] = entry->rdma_cms;
	} else if (entry->trtype == DISCOVERY_TCP) {
		ret_bytes[TSAS_OFFSET] = entry->tcp_sectype;
	}
}
