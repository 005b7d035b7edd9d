/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams: their connections (stream.c), and their queue pairs and messages (endpoint.c). */
#ifndef URNIC_FRONT_RSOCKET_STREAM_STREAM_H
#define URNIC_FRONT_RSOCKET_STREAM_STREAM_H

#include "front/rsocket/rsocket.h"

/* --- stream.c --- */

extern const struct rs_kind rs_stream_kind;

/* Create a stream's event channel, whose descriptor is the stream's. Returns 0 or an errno. */
int rs_stream_open(struct rs *rs);

/* Handle events of the connection. The stream is locked. */
void rs_connection_advance(struct rs *rs);
/* Put the stream into state RS_FAILED. */
void rs_fail(struct rs *rs, int error);

/* --- endpoint.c --- */

/*
 * Create queue pair, buffers and tables on rs->id, and post the receive requests. Returns 0 or an
 * errno.
 */
int rs_endpoint_create(struct rs *rs);
void rs_endpoint_destroy(struct rs *rs);
/*
 * rs_conn_data_make() encodes the private data for the peer. rs_conn_data_take() decodes the peer's
 * private data, and returns 0, or EPROTO if the data is not valid.
 */
void rs_conn_data_make(const struct rs *rs, struct rs_conn_data *to);
int rs_conn_data_take(struct rs *rs, const void *private_data, size_t bytes);

/* Handle completions of receives and sends. */
void rs_completions_take(struct rs *rs);
/* Arm the completion channel. The caller then polls once more. */
void rs_completions_arm(struct rs *rs);

/*
 * Copy the next `bytes` bytes of `from` into the send buffer, which has room for them, and write
 * them into the peer's memory `to`. If `is_silent`, the peer gets no message. Returns 0 or an
 * errno.
 */
int rs_data_send(struct rs *rs, struct pieces *from, uint32_t bytes, const struct rs_sge *to,
	bool is_silent);
/* Write one entry of the peer's iomap table. */
int rs_iomap_send(struct rs *rs, const struct rs_iomap *entry, uint32_t index);
int rs_ctrl_send(struct rs *rs, enum rs_ctrl ctrl);
/*
 * Grant the peer free bytes or more messages, once half of the receive buffer or of the receive
 * queue is free.
 */
void rs_grant(struct rs *rs);

/*
 * rs_can_number(): may a numbered message be sent? rs_can_send(): may a DATA message be sent, and
 * have the send buffer and the peer's receive buffer room for its bytes? rs_is_sent(): are all
 * messages sent, or is the stream no longer connected?
 */
bool rs_can_number(const struct rs *rs);
bool rs_can_send(const struct rs *rs);
bool rs_is_sent(const struct rs *rs);

#endif
