/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of identifiers on iWARP devices: what connect.c and channel.c do with the connection
 * manager of InfiniBand, by MPA over TCP (connection/nic_iwcm.h).
 *
 * The other end's answer carries what there is to be agreed on, so an active side is connected when
 * the program takes it, and there is nothing like IB's last message. A passive side is connected
 * when it accepts.
 */
#ifndef URNIC_FRONT_RDMACM_IWARP_H
#define URNIC_FRONT_RDMACM_IWARP_H

#include "front/rdmacm/id.h"

/*
 * Listen at the identifier's address, beside its listening for InfiniBand connections if it does.
 * Returns 0 or -errno.
 */
int iwarp_listen(struct id *id, uint32_t backlog);

/* No more requests; those that the program has not taken are dropped. */
void iwarp_unlisten(struct id *id);

/* Put identifiers in the reserve for those that requests have taken out. */
void iwarp_replace_spares(struct id *listen);

/* A request comes to the program's knowledge: id_open_request(). Returns 0 or -errno. */
int iwarp_open_request(struct id *id);

/*
 * Ask for a connection; answer a request; refuse one. `data` is the program's private data. Return
 * 0 or -errno.
 */
int iwarp_connect(
	struct id *id, const struct rdma_conn_param *param, const uint8_t *data, size_t bytes);
int iwarp_accept(
	struct id *id, const struct rdma_conn_param *param, const uint8_t *data, size_t bytes);
int iwarp_reject(struct id *id, const void *data, size_t bytes);

/* The other end has accepted: hand the stream to the queue pair. Returns 0 or -errno. */
int iwarp_establish(struct id *id);

/* What an event tells of the other end's request or reply. `data`: room for 256 bytes. */
void iwarp_tell(const struct id *id, struct rdma_conn_param *param, uint8_t *data);

#endif
