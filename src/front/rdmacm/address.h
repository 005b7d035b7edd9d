/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Conversions between the socket addresses that programs pass and GIDs. Only address_source() makes
 * system calls.
 */
#ifndef URNIC_FRONT_RDMACM_ADDRESS_H
#define URNIC_FRONT_RDMACM_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/gid.h"

/* The length of an address; 0 for a family that is neither AF_INET nor AF_INET6. */
socklen_t address_bytes(const struct sockaddr *address);

struct gid address_gid(const struct sockaddr *address);
uint16_t address_port(const struct sockaddr *address);
void address_set_port(struct sockaddr *address, uint16_t port);

/* Is this the zero address of its family? */
bool address_is_any(const struct sockaddr *address);

/* Is this an address in 127.0.0.0/8, or ::1? */
bool address_is_loopback(const struct sockaddr *address);

/* The interface that `address` names, if it is a link-local IPv6 address; else 0. */
uint32_t address_ifindex(const struct sockaddr *address);

/*
 * Make an address of AF_INET for an IPv4-mapped GID, else of AF_INET6. `ifindex` becomes the scope
 * of a link-local address.
 */
void address_make(
	struct sockaddr_storage *address, const struct gid *gid, uint16_t port, uint32_t ifindex);

/*
 * Find the local address from which the kernel's routing would send to `remote`.
 *
 * `tos`    The type of service, which routing rules may look at.
 * `local`  In: the address to send from, or the zero address of the family of `remote` to let the
 *          kernel choose. Out: the address from which the kernel sends.
 *
 * Returns 0, or -errno, such as -ENETUNREACH.
 */
int address_source(const struct sockaddr *remote, uint8_t tos, struct sockaddr_storage *local);

#endif
