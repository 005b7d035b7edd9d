/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses and routes over InfiniBand, without IPoIB.
 *
 * A port has two addresses that stand in for those of an IPoIB interface: an IPv6 address, which is
 * its first GID, and 100.64.X.Y, where X and Y are the bytes of its LID (100.64.0.0/10 is for
 * carriers, RFC 6598, so a host rarely has such an address). The subnet administrator maps a GID or
 * a LID to a path.
 */
#ifndef URNIC_FRONT_RDMACM_INFINIBAND_H
#define URNIC_FRONT_RDMACM_INFINIBAND_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/gid.h"

/* Is the process on an InfiniBand fabric? Then all its devices are InfiniBand's. */
bool infiniband_is_used(void);

/*
 * The GID of the port that has this address. For the zero address and loopback addresses, that of
 * the first port. Returns false when no port has the address.
 */
bool infiniband_local_gid(const struct gid *address, struct gid *ret_gid);

/*
 * Set the local address for a connection to `remote`, if *local is zero: of the same family.
 * Returns 0; -EADDRNOTAVAIL when the port has none yet.
 */
int infiniband_source(const struct sockaddr *remote, struct sockaddr_storage *local);

/*
 * Where packets to `remote` go: *ret_gid, unless *ret_lid is set; then to the GID of that LID. The
 * group of a multicast address has another GID (infiniband_mgid()). Returns 0; -EHOSTUNREACH for an
 * IPv4 address that stands in for no LID.
 */
int infiniband_destination(const struct sockaddr *remote, struct gid *ret_gid, uint16_t *ret_lid);

/* Where the first port's table has the P_Key of a path, as a full member if possible; else 0. */
uint16_t infiniband_pkey_index(uint16_t pkey);

/*
 * The P_Key of the groups that an identifier joins, as a full member: that of its path. 0, an
 * unknown path: the first of the first port's table.
 */
uint16_t infiniband_group_pkey(uint16_t pkey);

/*
 * The multicast GID of a group's address: as the mapping of IPoIB (RFC 4391), with the partition's
 * P_Key, but with rdma_cm's signature, so that the group is not IPoIB's. An IPv6 address that is a
 * GID of a subnet administrator is that GID. The zero address: the administrator makes a group.
 */
struct gid infiniband_mgid(const struct gid *address, uint16_t pkey);

#endif
