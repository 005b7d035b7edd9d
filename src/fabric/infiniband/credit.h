/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Link-level credits of a virtual lane (IBTA 7.9.4): a sender may send what its receiver has room
 * for, counted in blocks of 64 bytes.
 *
 * The sender counts all blocks that it has ever sent (FCTBS). The receiver counts those that it has
 * received (ABR), and tells the sender up to which count it may send (FCCL). All counts are modulo
 * 4096, and a limit is at most 2048 blocks ahead. A flow control packet has both counts of its
 * sender. So a receiver also learns of blocks that the link has lost.
 */
#ifndef URNIC_FABRIC_INFINIBAND_CREDIT_H
#define URNIC_FABRIC_INFINIBAND_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arith.h"

enum {
	IB_BLOCK_BYTES = 64,
	CREDIT_MODULUS = 4096,
	CREDIT_BLOCKS_MAX = 2048,
};

struct credit_sender {
	uint16_t fctbs; /* blocks sent */
	uint16_t fccl; /* the receiver's limit */
};

struct credit_receiver {
	uint16_t abr; /* blocks received, and those that the link has lost */
	uint32_t free_blocks;
};

/* The blocks of a packet of `bytes`, from LRH to VCRC. */
static inline uint32_t credit_blocks(uint32_t bytes)
{
	return (bytes + IB_BLOCK_BYTES - 1) / IB_BLOCK_BYTES;
}

static inline uint16_t credit_add(uint16_t count, uint32_t blocks)
{
	return (uint16_t)((count + blocks) % CREDIT_MODULUS);
}

/* How far `count` is ahead of `base`; more than CREDIT_BLOCKS_MAX: it is behind. */
static inline uint32_t credit_ahead(uint16_t count, uint16_t base)
{
	return (uint32_t)(count - base + CREDIT_MODULUS) % CREDIT_MODULUS;
}

/* May `blocks` more be sent? */
static inline bool credit_allows(const struct credit_sender *sender, uint32_t blocks)
{
	return credit_ahead(sender->fccl, credit_add(sender->fctbs, blocks)) <= CREDIT_BLOCKS_MAX;
}

/* The limit that a receiver sets: the FCCL of its next flow control packet. */
static inline uint16_t credit_limit(const struct credit_receiver *receiver)
{
	return credit_add(receiver->abr, min_u32(receiver->free_blocks, CREDIT_BLOCKS_MAX));
}

#endif
