/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FRONT_RSOCKET_CALL_CALL_H
#define URNIC_FRONT_RSOCKET_CALL_CALL_H

#include "front/rsocket/rsocket.h"

/* Close an instance of repoll_create(). Returns false if `fd` is not an instance. */
bool rs_repoll_close(int fd);

#endif
