/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_RDMA_PRIVATE_H
#define URNIC_NVMF_COMMON_RDMA_PRIVATE_H

/*
 * The private data of NVMe/RDMA connections (NVMe/RDMA transport 1.0, section 3.2.2): what host and
 * controller say about a queue in the REQ, REP and REJ of the connection manager, or in the request
 * and reply of MPA.
 *
 * A connection manager may deliver more bytes than the peer has written: those of InfiniBand have
 * fields of a fixed size. No state: any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RDMA_REQUEST_BYTES = 32,
	RDMA_REPLY_BYTES = 32,
	RDMA_REJECT_BYTES = 4,
	/* Admin queues have at most so many entries. */
	RDMA_ADMIN_ENTRIES = 32,
};

enum rdma_reject {
	RDMA_ACCEPT = 0,
#define RDMA_REJECT(name, code, sentence) RDMA_REJECT_##name = (code),
#include "nvmf/common/rdma/rdma_reject.def"
#undef RDMA_REJECT
};

/* Of the REQ, by the host. */
struct rdma_request {
	uint16_t qid; /* 0: the Admin queue */
	uint16_t hrqsize; /* entries of the host's receive queue: responses on the way at once */
	uint16_t hsqsize; /* entries of its send queue, 0's based: commands on the way at once */
	uint16_t cntlid; /* 0 if the host does not say it */
};

/* `ret_bytes` are RDMA_REQUEST_BYTES. */
void rdma_request_encode(const struct rdma_request *request, uint8_t *ret_bytes);

/*
 * Decode and check a REQ.
 *
 * `bytes`        May be NULL if `length` is 0.
 * `entries_max`  Of an I/O queue, by this controller; the Admin queue has RDMA_ADMIN_ENTRIES.
 *
 * RDMA_ACCEPT with `*ret_request` set, or the status for the REJ. The queue's memory at the
 * controller is a multiple of hsqsize + 1, which is at most the number of entries.
 */
enum rdma_reject rdma_request_decode(
	const void *bytes, size_t length, uint32_t entries_max, struct rdma_request *ret_request);

/* Of the REP, by the controller. `ret_bytes` are RDMA_REPLY_BYTES. */
void rdma_reply_encode(uint16_t crqsize, uint8_t *ret_bytes);

/*
 * `ret_crqsize`  Entries of the controller's receive queue, not 0.
 *
 * False if this is no reply of a controller of NVMe.
 */
bool rdma_reply_decode(const void *bytes, size_t length, uint16_t *ret_crqsize);

/* Of the REJ, by the controller. `ret_bytes` are RDMA_REJECT_BYTES. */
void rdma_reject_encode(enum rdma_reject status, uint8_t *ret_bytes);

/* The sentence of a REJ, without full stop: also for private data that is none of NVMe. */
const char *rdma_reject_sentence(const void *bytes, size_t length);

#endif
