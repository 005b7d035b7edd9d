/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_CM_MPA_H
#define URNIC_CM_MPA_H

/*
 * MPA's connection set-up (RFC 5044 section 7.1, RFC 6581): a request, a reply, and the agreement.
 * The module does no I/O: the caller moves the bytes. mpa_offer() never has room for bytes behind
 * the frame, because the bytes that follow are for the queue pair.
 *
 *     The initiator:  mpa_connect(), then bytes both ways until MPA_ACCEPTED or MPA_REJECTED.
 *     The responder:  mpa_listen(), bytes until MPA_REQUESTED; the program decides; mpa_accept() or
 *                     mpa_reject(), and bytes to be sent.
 *
 * The peer may be hostile, so an invalid frame ends the set-up with MPA_INVALID. So does a valid
 * reply that requests more than urnic can do; mpa_output() then has the Terminate message with the
 * reason. The caller serializes all calls.
 */

#include "base/export.h"
#include "iwarp/iwarp.h"
#include "wire/iwarp/mpa_frame.h"

enum mpa_event {
	MPA_NOTHING, /* more bytes are needed */
	MPA_REQUESTED,
	MPA_ACCEPTED,
	MPA_REJECTED,
	MPA_INVALID, /* not MPA, or no agreement is possible; mpa_conn.error has the reason */
};

/* What this side wants (URNIC_MPA). */
struct mpa_policy {
	uint8_t revision; /* 1 or 2, for our requests; a reply has the revision of its request */
	bool wants_crc;
	bool wants_markers; /* want markers in the FPDUs that we receive */
	bool is_peer_to_peer; /* request the peer-to-peer model (RFC 6581) */
	uint32_t ready; /* with is_peer_to_peer: the enum mpa_ready to offer, or'ed; 0: all */
};

/* The limits of one side for READs and atomics. */
struct mpa_reads {
	uint32_t ird; /* how many its responder executes at once */
	uint32_t ord; /* how many its requester has outstanding */
};

struct mpa_conn {
	bool is_active;
	struct mpa_policy policy;
	struct mpa_reads reads; /* initiator: what its program passed to mpa_connect() */
	enum rdmap_error error; /* the reason of MPA_INVALID */
	struct mpa_frame peer; /* the peer's request or reply, once it has arrived */
	/* What the sides agreed on. Valid from MPA_ACCEPTED or mpa_accept() on. */
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

/* Begin the responder's side, which waits for a request. */
void mpa_listen(struct mpa_conn *mpa, const struct mpa_policy *policy);

/*
 * Accept a request. The reply states as many READs as both sides can do.
 *
 * `data`  `bytes` of private data, at most mpa_data_room().
 */
void mpa_accept(struct mpa_conn *mpa, const struct mpa_reads *reads, const void *data, size_t bytes)
	URNIC_EXPORT_AS(mpa_accept);
void mpa_reject(struct mpa_conn *mpa, const void *data, size_t bytes) URNIC_EXPORT_AS(mpa_reject);

/*
 * End the connection after MPA_ACCEPTED or mpa_accept(). mpa_output() then has a Terminate message,
 * in a FPDU with the agreed CRC and markers (RFC 6581 section 9).
 */
void mpa_terminate(struct mpa_conn *mpa, enum rdmap_error error) URNIC_EXPORT_AS(mpa_terminate);

/* The limits for our READs (`ord`) and the peer's (`ird`) that a received request states. */
struct mpa_reads mpa_requested_reads(const struct mpa_conn *mpa)
	URNIC_EXPORT_AS(mpa_requested_reads);

/*
 * mpa_offer() returns where to write the next received bytes. *ret_bytes is the room there; it is
 * not 0 while the frame is incomplete. mpa_received() reports that `bytes` were written there.
 */
uint8_t *mpa_offer(struct mpa_conn *mpa, uint32_t *ret_bytes);
enum mpa_event mpa_received(struct mpa_conn *mpa, uint32_t bytes);

/* mpa_output() returns the bytes to be sent; mpa_sent() reports that `bytes` of them are sent. */
const uint8_t *mpa_output(const struct mpa_conn *mpa, uint32_t *ret_bytes);
void mpa_sent(struct mpa_conn *mpa, uint32_t bytes);

#endif
