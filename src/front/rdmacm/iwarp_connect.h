/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of identifiers on iWARP devices, by MPA over TCP (connection/nic_iwcm.h): the
 * counterpart of connect.c and event_channel.c.
 *
 * MPA's reply settles all parameters, and there is no RTU. So the active side is connected when its
 * program takes the reply, and the passive side when its program accepts.
 */
#ifndef URNIC_FRONT_RDMACM_IWARP_CONNECT_H
#define URNIC_FRONT_RDMACM_IWARP_CONNECT_H

#include "front/rdmacm/id.h"

/*
 * Listen at the identifier's address, besides the listener for InfiniBand connections if there is
 * one. Returns 0 or -errno.
 */
int iwarp_listen(struct id *id, uint32_t backlog);

/* Accept no further requests, and drop those that the program has not taken. */
void iwarp_unlisten(struct id *id);

/* Put one more identifier into a listener's reserve. Returns 0 or -errno. */
int iwarp_add_spare(struct id *listen);

/* Prepare a request for the program: id_open_request(). Returns 0 or -errno. */
int iwarp_open_request(struct id *id);

/*
 * Request a connection; accept a request; reject one. `data` is the program's private data. Return
 * 0 or -errno.
 */
int iwarp_connect(
	struct id *id, const struct rdma_conn_param *param, const uint8_t *data, size_t bytes);
int iwarp_accept(
	struct id *id, const struct rdma_conn_param *param, const uint8_t *data, size_t bytes);

/* The peer has accepted: hand the stream to the queue pair. Returns 0 or -errno. */
int iwarp_establish(struct id *id);

/* Fill in the parameters of the peer's request or reply. `data`: room for 256 bytes. */
void iwarp_report(const struct id *id, struct rdma_conn_param *param, uint8_t *data);

#endif
