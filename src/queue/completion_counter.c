/* SPDX-License-Identifier: BSD-2-Clause */
#include "queue/completion_counter.h"

enum counted_operation counted_operation_of(enum wc_opcode opcode)
{
	switch (opcode) {
	case WC_SEND:
		return COUNTED_SEND;
	case WC_RDMA_WRITE:
		return COUNTED_RDMA_WRITE;
	case WC_RDMA_READ:
		return COUNTED_RDMA_READ;
	case WC_RECV:
	case WC_RECV_RDMA_WITH_IMM:
	case WC_TM_RECV:
	case WC_TM_NO_TAG:
		return COUNTED_RECV;
	case WC_COMP_SWAP:
	case WC_FETCH_ADD:
	case WC_BIND_MW:
	case WC_LOCAL_INV:
	case WC_FLUSH:
	case WC_ATOMIC_WRITE:
	case WC_TM_ADD:
	case WC_TM_DEL:
	case WC_TM_SYNC:
		return 0;
	}
	return 0;
}
