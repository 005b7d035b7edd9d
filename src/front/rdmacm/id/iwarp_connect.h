/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of identifiers on iWARP devices, by MPA over TCP (connection/nic_iwcm.h). This file
 * does for iWARP what connect.c and event_channel.c do for RoCE.
 *
 * MPA's reply settles all parameters, and there is no RTU. So the active side is connected when its
 * program takes the reply, and the passive side when its program accepts.
 */
#ifndef URNIC_FRONT_RDMACM_ID_IWARP_CONNECT_H
#define URNIC_FRONT_RDMACM_ID_IWARP_CONNECT_H

#include "front/rdmacm/id/id.h"

/*
 * Listen at the identifier's address. The identifier may have a listener for RoCE, too. Returns 0
 * or -errno.
 */
int iwarp_listen(struct id *id, uint32_t backlog);

/* Stop listening, and free the reserve. */
void iwarp_unlisten(struct id *id);

/* Put one more identifier into a listener's reserve for iWARP. Returns 0 or -errno. */
int iwarp_add_spare(struct id *listen);

/* Do what id_open_request() does, for a request over iWARP. Returns 0 or -errno. */
int iwarp_open_request(struct id *id);

/*
 * iwarp_connect() requests a connection, iwarp_accept() accepts a request. `data` is private data
 * of `bytes` bytes. Both return 0 or -errno.
 */
int iwarp_connect(
	struct id *id, const struct rdma_conn_param *param, const uint8_t *data, size_t bytes);
int iwarp_accept(
	struct id *id, const struct rdma_conn_param *param, const uint8_t *data, size_t bytes);

/* The peer has accepted: hand the stream to the queue pair. Returns 0 or -errno. */
int iwarp_establish(struct id *id);

/* Handle an event of the iWARP connection manager; `conn->user` is a struct id. */
void iwarp_take_event(enum nic_iw_event event, struct nic_iw_conn *conn);

/* Fill in the parameters of the peer's request or reply. `data`: room for 256 bytes. */
void iwarp_report(const struct id *id, struct rdma_conn_param *param, uint8_t *data);

#endif
