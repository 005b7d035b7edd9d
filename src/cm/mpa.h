/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CM_MPA_H
#define URNIC_CM_MPA_H

/*
 * MPA's connection set-up (RFC 5044 section 7.1, RFC 6581): a request, a reply, and the agreement.
 * Without I/O: the caller moves the bytes. The set-up takes no bytes behind the frame, which belong
 * to the stream's user.
 *
 *     The initiator:  mpa_connect(), then bytes both ways until MPA_ACCEPTED or MPA_REJECTED.
 *     The responder:  mpa_listen(), bytes until MPA_REQUESTED; the program decides; mpa_accept() or
 *                     mpa_reject(), and bytes to be sent.
 *
 * The peer is hostile: an invalid frame ends the set-up with MPA_INVALID. So does a valid reply
 * that requests more than urnic can do; mpa_output() then has the Terminate message with the
 * reason. The caller serializes.
 */

#include "base/export.h"
#include "iwarp/iwarp.h"
#include "wire/iwarp/mpa_frame.h"

enum mpa_event {
	MPA_NOTHING, /* more bytes are needed */
	MPA_REQUESTED,
	MPA_ACCEPTED,
	MPA_REJECTED,
	MPA_INVALID, /* not MPA, or no agreement is possible; mpa_conn.error */
};

/* The host's settings. */
struct mpa_policy {
	uint8_t revision; /* 1 or 2, of requests; a reply has the revision of its request */
	bool wants_crc;
	bool wants_markers; /* in what we receive */
	bool is_peer_to_peer; /* request it */
	uint32_t ready; /* enum mpa_ready: the RTR messages offered then; 0: all */
};

/* READs and atomics: how many a side serves at once, and how many it has outstanding. */
struct mpa_reads {
	uint32_t ird;
	uint32_t ord;
};

struct mpa_conn {
	bool is_active;
	struct mpa_policy policy;
	struct mpa_reads reads; /* the program's; the responder's agreement from mpa_accept() on */
	enum rdmap_error error; /* with MPA_INVALID */
	struct mpa_frame peer; /* request or reply, once it is complete */
	/* The agreement: the initiator's with MPA_ACCEPTED, the responder's after mpa_accept(). */
	struct iwarp_settings settings;
	uint32_t in_bytes;
	uint32_t out_first, out_end;
	uint8_t in[MPA_FRAME_BYTES + MPA_PRIVATE_BYTES_MAX];
	uint8_t out[MPA_FRAME_BYTES + MPA_PRIVATE_BYTES_MAX];
};

static inline size_t mpa_data_room(const struct mpa_conn *mpa)
{
	return mpa_private_room(mpa->is_active ? mpa->policy.revision == 2 : mpa->peer.is_enhanced);
}

/*
 * Request a connection.
 *
 * `data`  `bytes` of private data, at most mpa_private_room() of the policy's revision.
 */
void mpa_connect(struct mpa_conn *mpa, const struct mpa_policy *policy,
	const struct mpa_reads *reads, const void *data, size_t bytes) URNIC_EXPORT_AS(mpa_connect);

/* Wait for a request. */
void mpa_listen(struct mpa_conn *mpa, const struct mpa_policy *policy);

/*
 * Accept a request; `bytes` is at most mpa_data_room(). The reply has as many READs as both sides
 * can do.
 */
void mpa_accept(struct mpa_conn *mpa, const struct mpa_reads *reads, const void *data, size_t bytes)
	URNIC_EXPORT_AS(mpa_accept);
void mpa_reject(struct mpa_conn *mpa, const void *data, size_t bytes) URNIC_EXPORT_AS(mpa_reject);

/*
 * After MPA_ACCEPTED or mpa_accept(): end the connection. Makes a Terminate message in a FPDU as
 * agreed, to be sent after the unsent bytes (RFC 6581 section 9).
 */
void mpa_terminate(struct mpa_conn *mpa, enum rdmap_error error) URNIC_EXPORT_AS(mpa_terminate);

/* The READs that a received request allows, and wants to be allowed. */
struct mpa_reads mpa_requested_reads(const struct mpa_conn *mpa)
	URNIC_EXPORT_AS(mpa_requested_reads);

/* Room for the next received bytes: at least one while a frame is incomplete. */
uint8_t *mpa_offer(struct mpa_conn *mpa, uint32_t *ret_bytes);
enum mpa_event mpa_received(struct mpa_conn *mpa, uint32_t bytes);

/* The bytes to be sent; and the report that `bytes` of them were sent. */
const uint8_t *mpa_output(const struct mpa_conn *mpa, uint32_t *ret_bytes);
void mpa_sent(struct mpa_conn *mpa, uint32_t bytes);

#endif
