/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_PORT_HOLDER_H
#define URNIC_URNICD_PORT_HOLDER_H

/*
 * The process or kernel driver that has UDP port 4791, as /proc shows it, for messages.
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/agent_protocol.h"
#include "os/process.h"

struct port_holder {
	uint32_t uid;
	pid_t pid; /* 0: /proc shows no such process, or the socket is the kernel's */
	char comm[PROCESS_NAME_BYTES];
};

/* Find the holder of (address, 4791). Returns false when /proc shows none. */
bool port_holder_find(const struct agent_address *address, struct port_holder *ret_holder);

/*
 * Describe the holder of (address, 4791), and the remedy.
 *
 * `ret_text`  Room of `text_bytes` for one sentence, which is terminated.
 */
void port_holder_describe(const struct agent_address *address, char *ret_text, size_t text_bytes);

/* Does this user have sockets on port 4791 already? Then an earlier urnicd has left survivors. */
bool port_holder_has_survivors(void);

#endif
