/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_REMOTE_REMOTE_ADDRESS_H
#define URNIC_FABRICD_REMOTE_REMOTE_ADDRESS_H

/* Addresses of machines: ADDR[:PORT], where ADDR is a name, an IPv4 address, or [IPv6]. */

#include <stdint.h>
#include <sys/socket.h>

#include "fabricd/attach_protocol.h"

enum {
	REMOTE_PORT_DEFAULT = 14791,
	REMOTE_ADDRESS_TEXT_BYTES = 64,
};

struct remote_address {
	struct sockaddr_storage socket;
	socklen_t bytes;
};

/* Look the address up. Returns 0, or -EINVAL with a sentence in `why`. */
int remote_address_find(
	const char *text, struct remote_address *ret_address, char why[ATTACH_TEXT_BYTES]);

/* The address without its port; "?" if it has no text. */
void remote_address_print(
	const struct remote_address *address, char ret_text[REMOTE_ADDRESS_TEXT_BYTES]);

#endif
