/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_RDMA_PRIVATE_H
#define URNIC_NVMF_COMMON_RDMA_PRIVATE_H

/*
 * The private data of NVMe/RDMA connections (NVMe/RDMA transport 1.0, section 3.2.2): what host and
 * controller say about a queue in the REQ, REP and REJ of the connection manager, or in the request
 * and reply of MPA.
 *
 * A connection manager may deliver more bytes than the peer has written, because the private data
 * of InfiniBand's messages has a fixed size. The functions have no state, so any thread may call
 * them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RDMA_REQUEST_BYTES = 32,
	RDMA_REPLY_BYTES = 32,
	RDMA_REJECT_BYTES = 4,
	/* The most entries of an Admin queue. */
	RDMA_ADMIN_ENTRIES = 32,
};

enum rdma_reject {
	RDMA_ACCEPT = 0,
#define RDMA_REJECT(name, code, sentence) RDMA_REJECT_##name = (code),
#include "nvmf/common/rdma/rdma_reject.def"
#undef RDMA_REJECT
};

/* The private data of the REQ, which the host sends. */
struct rdma_request {
	uint16_t qid; /* 0: the Admin queue */
	uint16_t hrqsize; /* entries of the host's receive queue, which takes the responses */
	uint16_t hsqsize; /* entries of the host's send queue for commands, 0's based */
	uint16_t cntlid; /* 0 if the host does not name the controller */
};

/* `ret_bytes` has RDMA_REQUEST_BYTES bytes. */
void rdma_request_encode(const struct rdma_request *request, uint8_t *ret_bytes);

/*
 * Decode and check the private data of a REQ.
 *
 * `bytes`        May be NULL if `length` is 0.
 * `entries_max`  The most entries of an I/O queue of this controller. The limit of the Admin queue
 *                is RDMA_ADMIN_ENTRIES.
 *
 * Returns RDMA_ACCEPT with `*ret_request` set, or the status for the REJ. In an accepted request,
 * hsqsize + 1 is at most the limit, which bounds the memory of the queue at the controller.
 */
enum rdma_reject rdma_request_decode(
	const void *bytes, size_t length, uint32_t entries_max, struct rdma_request *ret_request);

/* Encode the private data of the controller's REP. `ret_bytes` has RDMA_REPLY_BYTES bytes. */
void rdma_reply_encode(uint16_t crqsize, uint8_t *ret_bytes);

/*
 * Decode the private data of a REP.
 *
 * `ret_crqsize`  Entries of the controller's receive queue, not 0.
 *
 * Returns false if the data is not that of an NVMe controller.
 */
bool rdma_reply_decode(const void *bytes, size_t length, uint16_t *ret_crqsize);

/* Encode the private data of the controller's REJ. `ret_bytes` has RDMA_REJECT_BYTES bytes. */
void rdma_reject_encode(enum rdma_reject status, uint8_t *ret_bytes);

/* A sentence, without full stop, for the private data of any REJ, of an NVMe controller or not. */
const char *rdma_reject_sentence(const void *bytes, size_t length);

#endif
