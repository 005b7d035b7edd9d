/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contents of a completion: statuses, opcodes, faults, and the entry of a completion queue.
 *
 * Statuses, opcodes and flags have the values that struct ibv_wc uses, so the front end copies them
 * without translation. tests/abi compares them with the public header.
 */
#ifndef URNIC_QUEUE_COMPLETION_H
#define URNIC_QUEUE_COMPLETION_H

#include <stdint.h>

enum wc_status {
	WC_SUCCESS,
	WC_LOC_LEN_ERR,
	WC_LOC_QP_OP_ERR,
	WC_LOC_EEC_OP_ERR,
	WC_LOC_PROT_ERR,
	WC_WR_FLUSH_ERR,
	WC_MW_BIND_ERR,
	WC_BAD_RESP_ERR,
	WC_LOC_ACCESS_ERR,
	WC_REM_INV_REQ_ERR,
	WC_REM_ACCESS_ERR,
	WC_REM_OP_ERR,
	WC_RETRY_EXC_ERR,
	WC_RNR_RETRY_EXC_ERR,
	WC_LOC_RDD_VIOL_ERR,
	WC_REM_INV_RD_REQ_ERR,
	WC_REM_ABORT_ERR,
	WC_INV_EECN_ERR,
	WC_INV_EEC_STATE_ERR,
	WC_FATAL_ERR,
	WC_RESP_TIMEOUT_ERR,
	WC_GENERAL_ERR,
	WC_TM_ERR,
	WC_TM_RNDV_INCOMPLETE,
};

enum wc_opcode {
	WC_SEND,
	WC_RDMA_WRITE,
	WC_RDMA_READ,
	WC_COMP_SWAP,
	WC_FETCH_ADD,
	WC_BIND_MW,
	WC_LOCAL_INV,
	WC_FLUSH = 8,
	WC_ATOMIC_WRITE,
	WC_RECV = 1 << 7,
	WC_RECV_RDMA_WITH_IMM,
	WC_TM_ADD, /* this and the next two: operations on a matching list (queue/tags.h) */
	WC_TM_DEL,
	WC_TM_SYNC,
	WC_TM_RECV, /* a message with a tag; WC_TM_ flags say more */
	WC_TM_NO_TAG, /* a message without a tag */
};

enum wc_flags {
	WC_GRH = 1 << 0,
	WC_WITH_IMM = 1 << 1,
	WC_WITH_INV = 1 << 3,
	WC_TM_SYNC_REQ = 1 << 4, /* the program has not handled all unexpected messages */
	WC_TM_MATCH = 1 << 5, /* a buffer matched; the completion has the tag and the context */
	WC_TM_DATA_VALID = 1 << 6, /* the matched buffer has the data */
	WC_LID = 1 << 8, /* over InfiniBand: `service_level` is valid; programs do not see it */
	WC_PUBLIC = 0x7f, /* what programs see */
};

/*
 * What ibv_wc.sl of a datagram says: the kind of its network header, because Ethernet has no
 * service level. The bits are those of mlx5: bit 3 says UDP, the other bits give the IP version.
 * UCX needs the IP version to find the address in the first 40 bytes of the buffer.
 */
enum wc_service_level {
	WC_SERVICE_LEVEL_UDP_IPV6 = 0x9,
	WC_SERVICE_LEVEL_UDP_IPV4 = 0xa,
};

enum fault {
#define FAULT(name, number, status, sentence, seen, clause, look, fix) FAULT_##name = (number),
#include "queue/reason.def"
	FAULT_COUNT
};

enum wc_status fault_status(enum fault fault);
const char *fault_sentence(enum fault fault);

/* A completion queue entry, which is one cache line. */
struct cqe {
	uint64_t wr_id;
	/*
	 * The offset in NIC memory of the send queue whose slots become free when this entry is
	 * polled; 0: none.
	 */
	uint64_t queue_offset;
	union {
		/* The work request's index in the send queue at queue_offset */
		uint32_t queue_index;
		uint32_t tag_context; /* valid with WC_TM_MATCH */
	};
	uint32_t status; /* enum wc_status */
	uint32_t opcode; /* enum wc_opcode; not meaningful when status is not success */
	uint32_t fault; /* enum fault */
	uint32_t byte_count;
	/* Immediate data in host order (WC_WITH_IMM) or the invalidated rkey (WC_WITH_INV) */
	uint32_t imm;
	uint32_t qpn;
	union {
		uint32_t source_qpn;
		uint32_t tag_high; /* valid with WC_TM_MATCH */
	};
	uint32_t flags; /* enum wc_flags */
	union {
		/* The tag of the flow rule that steered a raw packet to the queue */
		uint32_t flow_tag;
		/*
		 * Valid with WC_GRH: enum wc_service_level. With WC_LID: the service level in the
		 * lower 8 bits, the path bits of the destination LID in the next 8, and the source
		 * LID in the upper 16.
		 */
		uint32_t service_level;
		uint32_t tag_low; /* valid with WC_TM_MATCH */
	};
	uint64_t made_ns; /* now_ns of the call that made the completion */
};

/* Set the tag of a matched message, and the context that its sender gave. */
static inline void cqe_set_tag(struct cqe *cqe, uint64_t tag, uint32_t context)
{
	cqe->tag_high = (uint32_t)(tag >> 32);
	cqe->tag_low = (uint32_t)tag;
	cqe->tag_context = context;
}

static inline uint64_t cqe_tag(const struct cqe *cqe)
{
	return (uint64_t)cqe->tag_high << 32 | cqe->tag_low;
}

#endif
