/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_PORT_HOLDER_H
#define URNIC_URNICD_PORT_HOLDER_H

/*
 * The process or kernel driver that has UDP port 4791, as /proc shows it, for messages.
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/agent_protocol.h"

/*
 * Describe the holder of (address, 4791), and the remedy.
 *
 * `ret_text`  Room of `text_bytes` for one sentence, which is terminated.
 */
void port_holder_describe(const struct agent_address *address, char *ret_text, size_t text_bytes);

/* Does this user have sockets on port 4791 already? Then an earlier urnicd has left survivors. */
bool port_holder_has_survivors(void);

#endif
