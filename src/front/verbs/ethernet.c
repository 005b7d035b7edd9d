/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Ethernet address behind a GID, for programs. This NIC itself does not need that address,
 * because the kernel routes packets.
 */
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/verbs/context.h"
#include "front/verbs/result.h"
#include "os/log.h"
#include "port/socket.h"

/* The VLAN ID that ibv_resolve_eth_l2_from_gid() returns for "no VLAN". */
#define VLAN_NONE 0xffff

/*
 * Multicast addresses map to Ethernet addresses without a lookup (RFC 1112 section 6.4, RFC 2464
 * section 7).
 */
static bool mac_of_group(const struct gid *gid, uint8_t mac[ETHERNET_LL_SIZE])
{
	if (gid_is_ipv4(gid) && gid->raw[12] >> 4 == 0xe) {
		memcpy(mac, (const uint8_t[]){0x01, 0x00, 0x5e}, 3);
		memcpy(mac + 3, gid->raw + 13, 3);
		mac[3] &= 0x7f;
		return true;
	}
	if (gid->raw[0] == 0xff) {
		memcpy(mac, (const uint8_t[]){0x33, 0x33}, 2);
		memcpy(mac + 2, gid->raw + 12, 4);
		return true;
	}
	return false;
}

/* A link-local address made of an Ethernet address contains that address (RFC 4291 appendix A). */
static bool mac_of_link_local(const struct gid *gid, uint8_t mac[ETHERNET_LL_SIZE])
{
	if (!gid_is_link_local(gid) || gid->raw[11] != 0xff || gid->raw[12] != 0xfe)
		return false;
	memcpy(mac, gid->raw + 8, 3);
	memcpy(mac + 3, gid->raw + 13, 3);
	mac[0] ^= 0x02;
	return true;
}

static const char no_mac[] = "the Ethernet address of a peer is not known";

/* Look up the address in the kernel's neighbour table. */
static int mac_of_neighbour(
	const struct device *device, const struct gid *gid, uint8_t mac[ETHERNET_LL_SIZE])
{
	struct arpreq request = {0};
	struct sockaddr_in address = {.sin_family = AF_INET};
	bool is_unknown;
	int error = 0;
	int fd;

	if (!gid_is_ipv4(gid))
		return result_cause(REASON_MAC_FAMILY);
	memcpy(&address.sin_addr, gid->raw + 12, 4);
	memcpy(&request.arp_pa, &address, sizeof(address));
	memcpy(request.arp_dev, device->ifname, sizeof(request.arp_dev));
	fd = socket_open(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -log_refusal(no_mac, "socket");
	if (ioctl(fd, SIOCGARP, &request)) {
		is_unknown = errno == ENXIO;
		if (!is_unknown)
			error = -log_refusal(no_mac, "ioctl");
	} else {
		is_unknown = !(request.arp_flags & ATF_COM);
	}
	close(fd);
	if (is_unknown)
		error = result_cause(REASON_MAC_UNKNOWN);
	if (!error)
		memcpy(mac, request.arp_ha.sa_data, ETHERNET_LL_SIZE);
	return error;
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
	uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	struct device *device = context_of(context)->device;
	struct gid gid;
	int error = 0;

	memcpy(gid.raw, attr->grh.dgid.raw, sizeof(gid.raw));
	if (!mac_of_group(&gid, eth_mac) && !mac_of_link_local(&gid, eth_mac))
		error = mac_of_neighbour(device, &gid, eth_mac);
	if (error)
		return result_of("ibv_resolve_eth_l2_from_gid", error);
	*vid = VLAN_NONE;
	return 0;
}
