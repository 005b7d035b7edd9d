/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/rdmacm/infiniband.h"

#include <string.h>

#include "cm/cm.h"
#include "front/rdmacm/address.h"
#include "front/rdmacm/device.h"
#include "nic/nic_fabric.h"

/* The first two bytes of the IPv4 addresses; the LID has the others. */
enum { STAND_IN_FIRST = 100, STAND_IN_SECOND = 64, QUERY_MS_MIN = 100 };

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
		gid_is_equal(address, ret_gid) ||
		(lid && lid >> port.lmc == port.lid >> port.lmc);
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

int infiniband_resolve(const struct sockaddr *remote, int timeout_ms, struct sa_path *ret_path)
{
	struct gid address = address_gid(remote), own;
	bool is_own = infiniband_local_gid(&address, &own);
	uint16_t lid = is_own ? 0 : lid_of(&address);
	const struct gid *dgid = is_own ? &own : lid ? NULL : &address;

	if (dgid && gid_is_ipv4(dgid))
		return -EHOSTUNREACH;
	return nic_fabric_path(DEVICE_PORT, dgid, lid,
		timeout_ms > QUERY_MS_MIN ? (uint32_t)timeout_ms : QUERY_MS_MIN, ret_path);
}
