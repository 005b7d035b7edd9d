/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_TCP_RX_H
#define URNIC_NVMF_COMMON_TCP_RX_H

/*
 * The receiver of NVMe/TCP, at the controller or at the host: it cuts PDUs out of a byte stream.
 *
 * The caller feeds the received bytes, in pieces of any size. Each call returns an event:
 *
 *     TCP_RX_MORE     all bytes are used up
 *     TCP_RX_HEADER   `pdu` is a checked header, and its data follows. The caller compares `pdu`
 *                     with its commands. Then the caller says with tcp_rx_place() where the data
 *                     goes, or refuses the PDU with tcp_rx_refuse()
 *     TCP_RX_PDU      `pdu` is complete; `is_data_digest_wrong` says whether its data is intact
 *     TCP_RX_REFUSED  the stream is over, and tcp_rx_term() gives the TermReq to send. If the peer
 *                     has sent a malformed TermReq, the fes of `refusal` is TCP_FATAL_NONE, and
 *                     there is no TermReq to send
 *
 * The receiver drops the data of a peer's TermReq, without TCP_RX_HEADER.
 *
 * The receiver checks the header of a PDU before the caller places its data. The receiver allocates
 * nothing. The first PDU of a stream must be ICReq (at the controller) or ICResp (at the host);
 * neither may come later.
 *
 * A wrong header digest ends the stream. A wrong data digest fails only the PDU's command, with
 * status Transient Transport Error (NVMe/TCP transport 1.0, section 3.3.1.1).
 *
 * One thread at a time uses a receiver.
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
	TCP_RX_OVER, /* a PDU was refused, or the peer's TermReq has arrived */
};

struct tcp_rx {
	/* Set by tcp_rx_init() and tcp_rx_agree(). */
	bool is_controller;
	bool is_agreed; /* the IC exchange is over */
	struct tcp_options options;
	/* The most data in one command capsule, and in one H2CData or C2HData PDU. */
	uint32_t capsule_bytes_max;
	uint32_t data_bytes_max;

	/* The caller may read these. */
	struct tcp_pdu pdu;
	bool is_data_digest_wrong;
	struct tcp_refusal refusal;

	enum tcp_rx_state state;
	bool is_complete; /* `header` is of a complete PDU; no byte of the next PDU has arrived */
	uint8_t header[TCP_HEADER_BYTES_MAX];
	uint32_t header_bytes; /* how many bytes of `header` have arrived */
	uint32_t header_needed; /* how many bytes the header, its digest and the padding have */
	uint8_t *place; /* where the next byte of data goes; NULL drops the data */
	uint32_t data_left;
	uint32_t digest;
	uint8_t data_digest[4];
	uint32_t digest_bytes; /* how many bytes of `data_digest` have arrived */
};

/*
 * `is_controller`      The receiver is at the controller; false: at the host.
 * `capsule_bytes_max`  The most in-capsule data; 0 at the host.
 * `data_bytes_max`     At the controller, MAXH2CDATA; at the host, the most data that the host
 *                      accepts in one C2HData PDU.
 */
void tcp_rx_init(
	struct tcp_rx *rx, bool is_controller, uint32_t capsule_bytes_max, uint32_t data_bytes_max);

/*
 * The IC exchange is over: from the next PDU on, these options are in force. The caller calls this
 * at the event TCP_RX_PDU of ICReq or ICResp.
 */
void tcp_rx_agree(struct tcp_rx *rx, const struct tcp_options *options);

/* Returns how many of the `length` bytes the receiver has used; with TCP_RX_MORE, all of them. */
size_t tcp_rx_feed(
	struct tcp_rx *rx, const void *bytes, size_t length, enum tcp_rx_event *ret_event);

/*
 * After TCP_RX_HEADER: say where the data goes.
 *
 * `place`  pdu.data_bytes bytes, which the caller does not touch until TCP_RX_PDU. With NULL the
 *          receiver drops the data, but checks its digest.
 */
void tcp_rx_place(struct tcp_rx *rx, void *place);

/* After TCP_RX_HEADER or TCP_RX_PDU: refuse the PDU, which ends the stream. */
void tcp_rx_refuse(struct tcp_rx *rx, enum tcp_fatal fes, uint32_t fei);

/*
 * The place to which the caller may read data from its socket, instead of calling tcp_rx_feed().
 *
 * Returns NULL if the next byte is not data, or is data to drop. Otherwise `*ret_bytes` is how many
 * bytes of data are missing. After reading some of them, the caller calls tcp_rx_placed(), then
 * tcp_rx_feed() with the bytes that follow, perhaps none. That call returns TCP_RX_PDU if the PDU
 * is complete now.
 */
void *tcp_rx_direct(const struct tcp_rx *rx, uint32_t *ret_bytes);
void tcp_rx_placed(struct tcp_rx *rx, uint32_t bytes);

/*
 * After TCP_RX_REFUSED or tcp_rx_refuse(): the TermReq to send.
 *
 * `ret_bytes`  TCP_TERM_BYTES_MAX bytes.
 *
 * Returns the length of the TermReq; 0 if the caller closes the connection without a TermReq.
 */
uint32_t tcp_rx_term(const struct tcp_rx *rx, uint8_t *ret_bytes);

#endif
