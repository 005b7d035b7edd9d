/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_TAG_HEADER_H
#define URNIC_WIRE_TAG_HEADER_H

/*
 * The headers of tag matching. The payload of a SEND begins with these headers. Their layout is
 * that of <infiniband/tm_types.h>. A rendezvous request has both headers. So has the message that
 * says that the rendezvous is finished.
 */

#include <stdint.h>

#include "wire/bytes.h"

enum {
	TMH_BYTES = 16,
	RVH_BYTES = 16,
};

enum tmh_opcode {
	TMH_NO_TAG, /* the message has no tag; the receiver's program handles it */
	TMH_RENDEZVOUS, /* the receiver READs the payload from the sender */
	TMH_FINISHED, /* the receiver has read the payload */
	TMH_EAGER, /* the payload follows */
};

struct tmh {
	uint8_t opcode; /* enum tmh_opcode, or any other value */
	uint32_t context; /* a value of the sender's program; the NIC does not interpret it */
	uint64_t tag;
};

/* Where the payload of a rendezvous is in the sender's memory. */
struct rvh {
	uint64_t va;
	uint32_t rkey;
	uint32_t bytes;
};

/* `from` has TMH_BYTES. The three reserved bytes are ignored. */
static inline struct tmh tmh_decode(const uint8_t *from)
{
	return (struct tmh){from[0], get_be32(from + 4), get_be64(from + 8)};
}

/* `from` has RVH_BYTES. */
static inline struct rvh rvh_decode(const uint8_t *from)
{
	return (struct rvh){get_be64(from), get_be32(from + 8), get_be32(from + 12)};
}

#endif
