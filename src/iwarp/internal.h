/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IWARP_INTERNAL_H
#define URNIC_IWARP_INTERNAL_H

/*
 * What the halves of a stream ask of each other.
 */

#include "iwarp/iwarp.h"

/* --- transmit.c --- */

/* Owe the answer to a request of the peer's. False when there are as many as we serve at once. */
bool iwarp_owe(struct iwarp_qp *iwarp, const struct iwarp_owed *owed);

/* Complete the requests at the head of the send queue that are done. */
void iwarp_complete(struct iwarp_qp *iwarp, uint64_t now_ns);

/* Stage a Terminate message; `ulpdu` NULL for none. There is always room for one. */
void iwarp_stage_terminate(
	struct iwarp_qp *iwarp, enum rdmap_error error, const uint8_t *ulpdu, uint32_t ulpdu_bytes);

static inline bool iwarp_has_answer(const struct send_wqe *wqe)
{
	return wr_table[wqe->opcode].has_answer;
}

/* --- segment.c --- */

/*
 * Check the header of a received segment: may it come now, and where does its payload go? Nothing has changed if it may not.
 */
enum rdmap_error iwarp_segment_check(struct iwarp_qp *iwarp, const struct ddp_segment *segment);

/* Place payload bytes [offset, offset + bytes) of a checked segment of WRITE, SEND or READ response. */
enum rdmap_error iwarp_segment_place(struct iwarp_qp *iwarp, const struct ddp_segment *segment,
	uint32_t offset, const uint8_t *from, uint32_t bytes);

/* The address where those bytes lie in one piece; NULL when they do not, or may not be written any more. */
uint8_t *iwarp_segment_target(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint32_t offset, uint32_t bytes);

/* All of it is placed: what follows from it. `segment->payload` is all of the payload where it is no data. */
enum rdmap_error iwarp_segment_finish(
	struct iwarp_qp *iwarp, const struct ddp_segment *segment, uint64_t now_ns);

/* Does it carry data for memory, so that placing it may begin before it is all there? */
bool iwarp_segment_is_data(const struct ddp_segment *segment);

/* --- stream.c --- */

/* The responder may send requests. */
void iwarp_hold_over(struct iwarp_qp *iwarp);

/* The peer broke a rule: say so, and end. `ulpdu` NULL when it is not about a segment. */
void iwarp_refuse(struct iwarp_qp *iwarp, enum rdmap_error error, const uint8_t *ulpdu,
	uint32_t ulpdu_bytes, uint64_t now_ns);

#endif
