/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/rdmacm/infiniband.h"

#include <errno.h>
#include <string.h>

#include "cm/cm.h"
#include "front/rdmacm/address.h"
#include "front/rdmacm/device.h"
#include "nic/nic_fabric.h"
#include "wire/bth.h"
#include "wire/infiniband/pkey.h"

/* The first two bytes of the IPv4 addresses that stand in for LIDs. The other two are the LID. */
enum { STAND_IN_FIRST = 100, STAND_IN_SECOND = 64 };

bool infiniband_is_used(void)
{
	return nic_fabric_is_wanted();
}

static struct gid stand_in(uint16_t lid)
{
	const uint8_t address[4] = {
		STAND_IN_FIRST, STAND_IN_SECOND, (uint8_t)(lid >> 8), (uint8_t)lid};

	return gid_from_ipv4(address);
}

/* The LID that an address stands for; 0: none. */
static uint16_t lid_of(const struct gid *address)
{
	return gid_is_ipv4(address) && address->raw[12] == STAND_IN_FIRST &&
			address->raw[13] == STAND_IN_SECOND
		? (uint16_t)(address->raw[14] << 8 | address->raw[15])
		: 0;
}

/* The state and the first GID of the first port. Returns false when the fabric has gone. */
static bool port_read(struct attach_port *ret_port, struct gid *ret_gid)
{
	return !nic_fabric_port(DEVICE_PORT, ret_port) && nic_fabric_gid(ret_port, 0, ret_gid);
}

bool infiniband_local_gid(const struct gid *address, struct gid *ret_gid)
{
	uint16_t lid = lid_of(address);
	struct attach_port port;

	if (!port_read(&port, ret_gid))
		return false;
	return gid_is_loopback(address) || cm_address_is_any(address) ||
		gid_is_equal(address, ret_gid) || (lid && lid >> port.lmc == port.lid >> port.lmc);
}

uint16_t infiniband_pkey_index(uint16_t pkey)
{
	struct attach_port port;

	if (!pkey || nic_fabric_port(DEVICE_PORT, &port))
		return 0;
	return pkey_index_find(port.pkeys, port.pkey_count, pkey);
}

uint16_t infiniband_group_pkey(uint16_t pkey)
{
	struct attach_port port;

	if (!pkey && !nic_fabric_port(DEVICE_PORT, &port) && port.pkey_count > 0)
		pkey = port.pkeys[0];
	return pkey ? pkey | PKEY_FULL : BTH_PKEY_DEFAULT;
}

int infiniband_source(const struct sockaddr *remote, struct sockaddr_storage *local)
{
	struct attach_port port;
	struct gid gid;

	if (!port_read(&port, &gid) || !port.lid)
		return -EADDRNOTAVAIL;
	if (!address_is_any((struct sockaddr *)local))
		return 0;
	if (remote->sa_family == AF_INET)
		gid = stand_in(port.lid);
	address_make(local, &gid, 0, 0);
	return 0;
}

int infiniband_destination(const struct sockaddr *remote, struct gid *ret_gid, uint16_t *ret_lid)
{
	struct gid address = address_gid(remote), own;
	bool is_own = infiniband_local_gid(&address, &own);

	*ret_lid = is_own ? 0 : lid_of(&address);
	*ret_gid = is_own ? own : address;
	return *ret_lid || is_own || !gid_is_ipv4(&address) || gid_is_multicast(&address)
		? 0
		: -EHOSTUNREACH;
}

/* --- multicast --- */

enum {
	SIGNATURE_IPV4 = 0x40,
	SIGNATURE_IPV6 = 0x60,
	SIGNATURE_RDMA_CM = 0x01,
	FLAGS_AND_SCOPE = 0x12, /* the second byte of a multicast GID: transient, link-local */
};

/*
 * Is the address a GID that a subnet administrator has made? Kernels recognize such a GID in the
 * same way.
 */
static bool is_mgid(const struct gid *address)
{
	return address->raw[0] == 0xff && (address->raw[1] & 0xf0) == 0x10 &&
		address->raw[2] == 0xa0 && address->raw[3] == 0x1b;
}

struct gid infiniband_mgid(const struct gid *address, uint16_t pkey)
{
	bool is_ipv4 = gid_is_ipv4(address);
	struct gid mgid = {{0xff, FLAGS_AND_SCOPE, is_ipv4 ? SIGNATURE_IPV4 : SIGNATURE_IPV6,
		SIGNATURE_RDMA_CM, (uint8_t)(pkey >> 8), (uint8_t)pkey}};

	if (cm_address_is_any(address))
		return (struct gid){{0}};
	if (is_mgid(address))
		return *address;
	memcpy(mgid.raw + 6, address->raw + 6, 10);
	if (is_ipv4) {
		memset(mgid.raw + 6, 0, 6);
		mgid.raw[12] &= 0x0f;
	}
	return mgid;
}
