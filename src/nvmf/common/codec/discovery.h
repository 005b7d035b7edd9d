/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_DISCOVERY_H
#define URNIC_NVMF_COMMON_DISCOVERY_H

/*
 * The discovery log page, 70h (NVMe base 2.0, section 5.16.1.23): a header of 1,024 bytes, then one
 * entry of 1,024 bytes for each transport address at which a subsystem can be reached.
 */

#include <stdbool.h>
#include <stdint.h>

#include "nvmf/common/codec/fabrics.h"

enum {
	DISCOVERY_HEADER_BYTES = 1024,
	DISCOVERY_ENTRY_BYTES = 1024,
	DISCOVERY_TRADDR_BYTES = 257,
	DISCOVERY_SERVICE_BYTES = 33,
};

enum discovery_trtype { DISCOVERY_RDMA = 1, DISCOVERY_FC = 2, DISCOVERY_TCP = 3 };
enum discovery_adrfam { DISCOVERY_IPV4 = 1, DISCOVERY_IPV6 = 2, DISCOVERY_IB = 3 };
enum discovery_subtype { DISCOVERY_REFERRAL = 1, DISCOVERY_NVM = 2, DISCOVERY_CURRENT = 3 };

enum {
	DISCOVERY_TREQ_NO_FLOW_CONTROL = 1 << 2, /* the host may disable SQ flow control */
	/* DUPRETINFO: the discovery service at this entry's address returns the same log page. */
	DISCOVERY_EFLAGS_DUPLICATE = 1 << 0,
	DISCOVERY_EFLAGS_PERSISTENT = 1 << 1, /* explicit persistent connections are supported */
	/* RDMA: queue pair, provider and connection management types. */
	DISCOVERY_QPTYPE_RC = 1,
	DISCOVERY_PRTYPE_NONE = 1,
	DISCOVERY_PRTYPE_ROCE_V2 = 4,
	DISCOVERY_PRTYPE_IWARP = 5,
	DISCOVERY_CMS_RDMA_CM = 1,
};

struct discovery_header {
	uint64_t genctr; /* changes with each change of the log page */
	uint64_t numrec; /* number of entries */
	uint16_t recfmt; /* format of the log page; 0: the only valid one */
};

struct discovery_entry {
	uint8_t trtype; /* enum discovery_trtype, or another value */
	uint8_t adrfam; /* enum discovery_adrfam, or another value */
	uint8_t subtype; /* enum discovery_subtype, or another value */
	uint8_t treq;
	uint16_t portid;
	uint16_t cntlid; /* NVME_CNTLID_DYNAMIC */
	uint16_t asqsz; /* the largest size of the Admin submission queue, at least 32 entries */
	uint16_t eflags;
	/* Ended by a NUL, without trailing spaces. */
	char trsvcid[DISCOVERY_SERVICE_BYTES];
	char traddr[DISCOVERY_TRADDR_BYTES];
	char subnqn[NVME_NQN_BYTES];
	/* TSAS: three fields of RDMA, and SECTYPE of TCP (0: no security). */
	uint8_t rdma_qptype;
	uint8_t rdma_prtype;
	uint8_t rdma_cms;
	uint8_t tcp_sectype;
};

/* Returns false if the format of the records (RECFMT) is unknown. */
bool discovery_header_decode(
	const uint8_t bytes[DISCOVERY_HEADER_BYTES], struct discovery_header *ret_header);
void discovery_header_encode(
	const struct discovery_header *header, uint8_t ret_bytes[DISCOVERY_HEADER_BYTES]);

/*
 * Returns false if the NQN is not valid, or an address has control characters. Other fields are not
 * checked.
 */
bool discovery_entry_decode(
	const uint8_t bytes[DISCOVERY_ENTRY_BYTES], struct discovery_entry *ret_entry);
void discovery_entry_encode(
	const struct discovery_entry *entry, uint8_t ret_bytes[DISCOVERY_ENTRY_BYTES]);

#endif
