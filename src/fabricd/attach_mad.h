/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_ATTACH_MAD_H
#define URNIC_FABRICD_ATTACH_MAD_H

/*
 * MADs on a socket between a client and the fabric, both ways. A long MAD travels in a sealed
 * memfd, because a message of a unix socket is limited by the socket's buffer.
 */

#include <stdint.h>

#include "fabricd/attach_protocol.h"

/*
 * Send mad->mad_bytes bytes. Sets mad->is_in_memfd.
 *
 * `flags`  MSG_DONTWAIT or 0.
 *
 * Returns 0; -EAGAIN: the socket is full; or another -errno.
 */
int attach_mad_send(int socket, struct attach_mad *mad, const uint8_t *bytes, int flags);

/*
 * Receive a MAD. The other end may be hostile: a memfd that could shrink is refused, so that the
 * read ends.
 *
 * `bytes`  Room for `room` bytes.
 *
 * Returns 0; -EAGAIN: there is none; -EIO: the other end has closed; -EMSGSIZE: the MAD is longer
 * than `room`; -EPROTO: the message is no MAD; or another -errno. After -EMSGSIZE and -EPROTO the
 * message is discarded.
 */
int attach_mad_receive(
	int socket, struct attach_mad *ret_mad, uint8_t *bytes, uint32_t room, int flags);

#endif
