/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses and routes over InfiniBand, without IPoIB.
 *
 * A port has two addresses that stand in for those of an IPoIB interface. The IPv6 address is the
 * port's first GID. The IPv4 address is 100.64.X.Y, where X and Y are the bytes of the port's LID.
 * (100.64.0.0/10 is for carriers, RFC 6598, so a host rarely has such an address.) The subnet
 * administrator maps a GID or a LID to a path.
 */
#ifndef URNIC_FRONT_RDMACM_INFINIBAND_H
#define URNIC_FRONT_RDMACM_INFINIBAND_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/gid.h"

/* Is the process on an InfiniBand fabric? If so, all its devices are InfiniBand devices. */
bool infiniband_is_used(void);

/*
 * The GID of the port that has this address. The zero address and loopback addresses stand for the
 * first port. Returns false when no port has the address.
 */
bool infiniband_local_gid(const struct gid *address, struct gid *ret_gid);

/*
 * If *local is zero, set it to the local address, of the family of `remote`, for a connection to
 * `remote`. Returns 0; or -EADDRNOTAVAIL when the port has no address yet.
 */
int infiniband_source(const struct sockaddr *remote, struct sockaddr_storage *local);

/*
 * Find the destination of packets to `remote`. If *ret_lid becomes 0, it is *ret_gid. Otherwise it
 * is the GID of the port with the LID *ret_lid. The group of a multicast address has another GID
 * (infiniband_mgid()). Returns 0; or -EHOSTUNREACH for an IPv4 address that stands in for no LID.
 */
int infiniband_destination(const struct sockaddr *remote, struct gid *ret_gid, uint16_t *ret_lid);

/*
 * The index of a path's P_Key in the first port's table, if possible of the entry with full
 * membership; 0 if the table does not have the P_Key.
 */
uint16_t infiniband_pkey_index(uint16_t pkey);

/*
 * The P_Key of the groups that an identifier joins, with full membership. `pkey` is the P_Key of
 * the identifier's path. If it is 0, the path is unknown, and the first P_Key of the first port's
 * table is used.
 */
uint16_t infiniband_group_pkey(uint16_t pkey);

/*
 * The multicast GID of a group's address. The mapping is that of IPoIB (RFC 4391), with the
 * partition's P_Key. Only the signature is rdma_cm's, so that the group is not one of IPoIB. An
 * IPv6 address that is a GID of a subnet administrator stays unchanged. For the zero address, the
 * administrator makes a group.
 */
struct gid infiniband_mgid(const struct gid *address, uint16_t pkey);

#endif
