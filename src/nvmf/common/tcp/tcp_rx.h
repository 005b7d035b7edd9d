/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_TCP_RX_H
#define URNIC_NVMF_COMMON_TCP_RX_H

/*
 * Cuts PDUs out of a byte stream, at the controller or at the host.
 *
 * The caller feeds bytes as they come, in pieces of any size, until an event:
 *
 *     TCP_RX_MORE     all bytes are used up
 *     TCP_RX_HEADER   `pdu` is a checked header, and its data follows. The caller compares it with
 *                     its commands. Then it says with tcp_rx_place() where the data goes, or
 *                     refuses the PDU with tcp_rx_refuse()
 *     TCP_RX_PDU      `pdu` is complete; `is_data_digest_wrong` says whether its data is intact
 *     TCP_RX_REFUSED  the stream is over, and tcp_rx_term() is the TermReq that says why. The fes
 *                     of `refusal` is TCP_FATAL_NONE if the peer's own TermReq was malformed
 *
 * The data of a TermReq is dropped, without TCP_RX_HEADER.
 *
 * A PDU is checked by the first wrong field, before anything is reserved for its data: nothing here
 * allocates. The first PDU of a stream is ICReq (ICResp), and there is no second one.
 *
 * A wrong header digest ends the stream. A wrong data digest is that of one command, whose status
 * is then Transient Transport Error (NVMe/TCP transport 1.0, section 3.3.1.1).
 *
 * One thread at a time.
 */

#include <stddef.h>

#include "nvmf/common/tcp/tcp_pdu.h"

enum tcp_rx_event {
	TCP_RX_MORE,
	TCP_RX_HEADER,
	TCP_RX_PDU,
	TCP_RX_REFUSED,
};

enum tcp_rx_state {
	TCP_RX_COMMON, /* waits for the common header */
	TCP_RX_REST, /* waits for the rest of the header, its digest and padding */
	TCP_RX_PLACE, /* waits for the caller to place the data */
	TCP_RX_DATA, /* waits for data */
	TCP_RX_DATA_DIGEST, /* waits for the digest of the data */
	TCP_RX_OVER, /* a PDU was refused, or a TermReq has come */
};

struct tcp_rx {
	/* Set at the beginning, and by tcp_rx_agree(). */
	bool is_controller;
	bool is_agreed; /* the IC exchange is over */
	struct tcp_options options;
	/* The most data of one capsule, and of one H2CData or C2HData PDU. */
	uint32_t capsule_bytes_max;
	uint32_t data_bytes_max;

	/* For the caller to read. */
	struct tcp_pdu pdu;
	bool is_data_digest_wrong;
	struct tcp_refusal refusal;

	enum tcp_rx_state state;
	bool is_complete; /* `header` is that of the last PDU, and nothing of the next has come */
	uint8_t header[TCP_HEADER_BYTES_MAX];
	uint32_t header_bytes; /* in `header` */
	uint32_t header_needed; /* where data begins, or where the PDU ends */
	uint8_t *place; /* of the next byte of data; NULL drops it */
	uint32_t data_left;
	uint32_t digest;
	uint8_t data_digest[4];
	uint32_t digest_bytes; /* in `data_digest` */
};

/*
 * `is_controller`      Which end this is.
 * `capsule_bytes_max`  In-capsule data; 0 at the host.
 * `data_bytes_max`     MAXH2CDATA, or the most that a host accepts in one C2HData PDU.
 */
void tcp_rx_init(
	struct tcp_rx *rx, bool is_controller, uint32_t capsule_bytes_max, uint32_t data_bytes_max);

/*
 * The IC exchange is over: from the next PDU on, these options are in force. Called at the event
 * TCP_RX_PDU of ICReq or ICResp.
 */
void tcp_rx_agree(struct tcp_rx *rx, const struct tcp_options *options);

/* Returns how many of `length` bytes it has used; with TCP_RX_MORE, all of them. */
size_t tcp_rx_feed(
	struct tcp_rx *rx, const void *bytes, size_t length, enum tcp_rx_event *ret_event);

/*
 * After TCP_RX_HEADER: where the data goes.
 *
 * `place`  pdu.data_bytes bytes, untouched by the caller until TCP_RX_PDU; NULL drops the data, but
 *          checks its digest.
 */
void tcp_rx_place(struct tcp_rx *rx, void *place);

/* After TCP_RX_HEADER or TCP_RX_PDU: the PDU is refused, and the stream is over. */
void tcp_rx_refuse(struct tcp_rx *rx, enum tcp_fatal fes, uint32_t fei);

/*
 * Where the caller can read data to directly, instead of feeding it.
 *
 * NULL if the next byte is no data, or is dropped. Otherwise `*ret_bytes` is how many bytes of data
 * are missing. After reading some, call tcp_rx_placed(), then tcp_rx_feed() with what follows,
 * which may be nothing: TCP_RX_PDU comes from there.
 */
void *tcp_rx_direct(const struct tcp_rx *rx, uint32_t *ret_bytes);
void tcp_rx_placed(struct tcp_rx *rx, uint32_t bytes);

/*
 * After TCP_RX_REFUSED or tcp_rx_refuse(): the TermReq to send.
 *
 * `ret_bytes`  TCP_TERM_BYTES_MAX bytes.
 *
 * Its length; 0 if the connection is to be closed without one.
 */
uint32_t tcp_rx_term(const struct tcp_rx *rx, uint8_t *ret_bytes);

#endif
