/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_INFINIBAND_MAD_FRAME_H
#define URNIC_WIRE_INFINIBAND_MAD_FRAME_H

/*
 * Frames: packets from the first byte of the LRH to the last byte of the ICRC. A frame with a
 * management datagram is a UD SEND_ONLY with a payload of 256 bytes, to QP0 or QP1 (IBTA 13.5.2).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "wire/bth.h"
#include "wire/grh.h"
#include "wire/headers.h"
#include "wire/infiniband/crc.h"
#include "wire/infiniband/lrh.h"
#include "wire/infiniband/mad.h"

enum {
	MAD_FRAME_BYTES = LRH_BYTES + BTH_BYTES + DETH_BYTES + MAD_BYTES + IB_ICRC_BYTES,
	MAD_FRAME_BYTES_MAX = MAD_FRAME_BYTES + GRH_BYTES,
};

/* The headers of a frame. */
struct ib_frame {
	struct lrh lrh;
	bool has_grh;
	bool has_bth; /* false: a raw packet, of which the rest is unknown */
	uint32_t bth_offset; /* offset of the BTH in the frame */
	struct ip_header grh; /* valid if `has_grh` */
	struct bth bth; /* valid if `has_bth` */
};

/*
 * Read the headers.
 *
 * `bytes`  The frame; any input is legal.
 *
 * Returns true if the LRH has link version 0 and the right length, and the frame is long enough for
 * the headers that the LRH announces. The caller checks the ICRC.
 */
bool ib_frame_decode(struct ib_frame *frame, const uint8_t *bytes, uint32_t count)
	URNIC_EXPORT_AS(ib_frame_decode);

/* The addresses of a management datagram. */
struct mad_frame {
	uint16_t dlid;
	uint16_t slid;
	uint8_t sl;
	uint8_t vl; /* 15 for QP0 */
	uint16_t pkey;
	uint32_t dest_qpn; /* in a decoded frame 0 or 1 */
	uint32_t source_qpn;
	uint32_t qkey;
	uint32_t psn;
	bool has_grh;
	/* Valid if `has_grh`; the encoder fills in the length and the next header */
	struct ip_header grh;
};

/*
 * Read a management datagram. `decoded` has the headers of the frame.
 *
 * `ret_mad`  Set to the MAD's 256 bytes inside the frame.
 *
 * Returns false if the frame has another opcode, another length, or another queue pair.
 */
bool mad_frame_decode(struct mad_frame *frame, const struct ib_frame *decoded, const uint8_t *bytes,
	uint32_t count, const uint8_t **ret_mad) URNIC_EXPORT_AS(mad_frame_decode);

/*
 * Write the frame around a MAD, ICRC included. Returns its length: MAD_FRAME_BYTES, or
 * MAD_FRAME_BYTES_MAX with a GRH.
 */
uint32_t mad_frame_encode(const struct mad_frame *frame, const uint8_t mad[MAD_BYTES],
	uint8_t to[MAD_FRAME_BYTES_MAX]) URNIC_EXPORT_AS(mad_frame_encode);

#endif
