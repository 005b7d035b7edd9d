/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_INFINIBAND_LRH_H
#define URNIC_WIRE_INFINIBAND_LRH_H

/*
 * The Local Route Header, 8 bytes at the start of every InfiniBand packet (IBTA 7.7):
 *
 *       0        virtual lane 4 bits, link version 4
 *       1        service level 4 bits, reserved 2, next header 2
 *       2 ..  3  destination LID
 *       4 ..  5  reserved 5 bits, packet length 11
 *       6 ..  7  source LID
 *
 * The length counts words of four bytes, from the first byte of the LRH to the last one before the
 * VCRC.
 */

#include <stdbool.h>
#include <stdint.h>

#include "wire/bytes.h"

#define LRH_BYTES 8

enum lrh_next_header {
	LRH_RAW = 0,
	LRH_RAW_GRH = 1,
	LRH_BTH = 2,
	LRH_GRH = 3,
};

/* LIDs (IBTA 4.1.3). */
enum {
	LID_UNICAST_MAX = 0xbfff,
	LID_MULTICAST_FIRST = 0xc000,
	LID_MULTICAST_LAST = 0xfffe,
	LID_PERMISSIVE = 0xffff,
	LRH_WORDS_MAX = 0x7ff,
	LRH_VL_MANAGEMENT = 15,
};

struct lrh {
	uint8_t vl; /* 0 .. 15 */
	uint8_t version; /* 0 */
	uint8_t sl; /* 0 .. 15 */
	enum lrh_next_header next;
	uint16_t dlid;
	uint16_t words;
	uint16_t slid;
};

static inline void lrh_decode(struct lrh *lrh, const uint8_t from[LRH_BYTES])
{
	lrh->vl = from[0] >> 4;
	lrh->version = from[0] & 0xf;
	lrh->sl = from[1] >> 4;
	lrh->next = (enum lrh_next_header)(from[1] & 3);
	lrh->dlid = get_be16(from + 2);
	lrh->words = get_be16(from + 4) & LRH_WORDS_MAX;
	lrh->slid = get_be16(from + 6);
}

static inline void lrh_encode(const struct lrh *lrh, uint8_t to[LRH_BYTES])
{
	to[0] = (uint8_t)(lrh->vl << 4 | (lrh->version & 0xf));
	to[1] = (uint8_t)(lrh->sl << 4 | lrh->next);
	put_be16(to + 2, lrh->dlid);
	put_be16(to + 4, lrh->words & LRH_WORDS_MAX);
	put_be16(to + 6, lrh->slid);
}

static inline bool lid_is_multicast(uint16_t lid)
{
	return lid >= LID_MULTICAST_FIRST && lid <= LID_MULTICAST_LAST;
}

/* Replace the virtual lane of an encoded packet. */
static inline void lrh_set_vl(uint8_t lrh[LRH_BYTES], uint8_t vl)
{
	lrh[0] = (uint8_t)(vl << 4 | (lrh[0] & 0xf));
}

#endif
