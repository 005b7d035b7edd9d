/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_IDENTIFY_H
#define URNIC_NVMF_COMMON_IDENTIFY_H

/*
 * The data of Identify (NVMe base 2.0, section 5.17): controllers, namespaces, lists of namespaces
 * and the descriptors of a namespace. Each is 4,096 bytes. The structs have only the fields that
 * this target sets or this host reads. Encoding sets all other fields to 0.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmf/common/codec/fabrics.h"

enum { IDENTIFY_BYTES = 4096, IDENTIFY_LBAF_MAX = 16, IDENTIFY_NSID_MAX = 1024 };

enum identify_cns {
	IDENTIFY_NAMESPACE = 0x00,
	IDENTIFY_CONTROLLER = 0x01,
	IDENTIFY_ACTIVE_LIST = 0x02,
	IDENTIFY_DESCRIPTORS = 0x03,
	IDENTIFY_IO_NAMESPACE = 0x05, /* the namespace, for one I/O command set */
	IDENTIFY_IO_CONTROLLER = 0x06,
	IDENTIFY_IO_ACTIVE_LIST = 0x07,
	IDENTIFY_INDEPENDENT = 0x08, /* the namespace, for any I/O command set */
	IDENTIFY_IO_COMMAND_SETS = 0x1c,
};

enum {
	IDENTIFY_SGLS_SUPPORTED = 1 << 0,
	IDENTIFY_SGLS_KEYED = 1 << 2,
	IDENTIFY_SGLS_OFFSET = 1 << 20,
	IDENTIFY_SGLS_TRANSPORT = 1 << 21,
	IDENTIFY_ONCS_COMPARE = 1 << 0,
	IDENTIFY_ONCS_DSM = 1 << 2,
	IDENTIFY_ONCS_WRITE_ZEROES = 1 << 3,
	IDENTIFY_ONCS_VERIFY = 1 << 7,
	IDENTIFY_ONCS_COPY = 1 << 8,
	IDENTIFY_CNTRLTYPE_IO = 1,
	IDENTIFY_CNTRLTYPE_DISCOVERY = 2,
};

struct identify_controller {
	uint16_t vid, ssvid;
	/* Ended by a NUL, without trailing spaces. */
	char sn[21];
	char mn[41];
	char fr[9];
	uint8_t rab;
	uint8_t cmic; /* bit 1: several controllers, bit 3: ANA */
	uint8_t mdts; /* the most data of a command is 2^mdts * 4,096 bytes; 0: no limit */
	uint16_t cntlid;
	uint32_t ver;
	uint32_t oaes; /* events: bit 8 namespaces, bit 11 ANA, bit 31 discovery */
	uint32_t ctratt;
	uint8_t cntrltype;
	uint16_t oacs;
	uint8_t acl, aerl; /* 0's based */
	uint8_t frmw;
	uint8_t lpa, elpe;
	uint16_t kas; /* granularity of keep alive in units of 100 ms; 0: no keep alive */
	uint8_t anatt, anacap;
	uint32_t anagrpmax, nanagrpid;
	uint8_t sqes, cqes;
	uint16_t maxcmd;
	uint32_t nn; /* the highest namespace identifier */
	uint16_t oncs, fuses;
	uint8_t vwc;
	uint32_t sgls;
	uint32_t mnan; /* the most namespaces */
	uint16_t awun, awupf, acwu; /* blocks that are written atomically, 0's based */
	uint16_t ocfs; /* bit n: Copy supports descriptor format n */
	char subnqn[NVME_NQN_BYTES];
	uint32_t ioccsz, iorcsz; /* capsule sizes in units of 16 bytes */
	uint16_t icdoff;
	uint8_t fcatt, msdbd;
	uint16_t ofcs;
};

struct identify_namespace {
	uint64_t nsze, ncap, nuse; /* blocks */
	uint8_t nsfeat;
	uint8_t nlbaf; /* 0's based */
	uint8_t flbas; /* bits 3:0: the format in use */
	uint8_t nmic; /* bit 0: shared */
	uint8_t dlfeat;
	uint16_t nawun, nawupf, nacwu; /* 0's based */
	uint16_t npwg, npwa, npdg, npda, nows; /* blocks, 0's based */
	/* The limits of a Copy: blocks in one range, blocks in all ranges, ranges (0's based). */
	uint16_t mssrl;
	uint32_t mcl;
	uint8_t msrc;
	uint32_t anagrpid;
	uint8_t nsattr; /* bit 0: write protected */
	uint8_t nguid[16], eui64[8];
	uint16_t metadata_bytes; /* metadata of a block in the LBA format in use */
	uint8_t lbads; /* log2 of the bytes of a block in the LBA format in use */
};

/* The identifiers of one namespace (CNS 03h). An identifier of zeroes is absent. */
struct identify_descriptors {
	uint8_t eui64[8], nguid[16], uuid[16];
	bool has_csi;
	uint8_t csi;
};

void identify_controller_encode(
	const struct identify_controller *controller, uint8_t ret_bytes[IDENTIFY_BYTES]);
/*
 * Returns false if subnqn is neither valid nor empty, or a text has control characters or bytes
 * beyond ASCII.
 */
bool identify_controller_decode(
	const uint8_t bytes[IDENTIFY_BYTES], struct identify_controller *ret_controller);

void identify_namespace_encode(
	const struct identify_namespace *ns, uint8_t ret_bytes[IDENTIFY_BYTES]);
/*
 * Returns false if nsze is not 0 and flbas names no format, or a block has less than 512 or more
 * than 2^31 bytes.
 */
bool identify_namespace_decode(
	const uint8_t bytes[IDENTIFY_BYTES], struct identify_namespace *ret_ns);

/* Encode `count` NSIDs, at most IDENTIFY_NSID_MAX, in ascending order. */
void identify_list_encode(const uint32_t *nsids, size_t count, uint8_t ret_bytes[IDENTIFY_BYTES]);
/* Decode the NSIDs before the first 0. Returns false if they are not in ascending order. */
bool identify_list_decode(const uint8_t bytes[IDENTIFY_BYTES],
	uint32_t ret_nsids[IDENTIFY_NSID_MAX], size_t *ret_count);

void identify_descriptors_encode(
	const struct identify_descriptors *descriptors, uint8_t ret_bytes[IDENTIFY_BYTES]);
/*
 * Returns false if a descriptor has a wrong length or goes beyond the end of the data. Descriptors
 * of unknown types are skipped.
 */
bool identify_descriptors_decode(
	const uint8_t bytes[IDENTIFY_BYTES], struct identify_descriptors *ret_descriptors);

#endif
