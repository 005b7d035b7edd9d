/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses and routes over InfiniBand. The subnet administrator maps a LID to a GID, and finds the
 * path between two GIDs. Its answers arrive in another thread, which posts the event.
 */
#ifndef URNIC_FRONT_RDMACM_ID_PATH_QUERY_H
#define URNIC_FRONT_RDMACM_ID_PATH_QUERY_H

#include "front/rdmacm/id/id.h"

/*
 * Set the GIDs of the path to `remote`. Returns 0 when the GIDs are set. Returns -EINPROGRESS when
 * an event will report the result, by id_post(). Returns -EHOSTUNREACH or another -errno on
 * failure.
 */
int path_query_address(struct id *id, const struct sockaddr *remote, int timeout_ms);

/*
 * Query the path between the GIDs. Returns 0, and an event will report the result, by id_post(); or
 * -errno.
 */
int path_query_route(struct id *id, int timeout_ms);

#endif
