/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/neighbour.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/cancel.h"
#include "port/address.h"
#include "port/socket.h"

enum {
	MESSAGE_BYTES = 1024,
	/* Destination port of the datagram that makes the kernel resolve the address. */
	DISCARD_PORT = 9,
	/* The states of linux/neighbour.h in which the kernel sends to the entry's link address. */
	VALID = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY,
};

/* An IP address in netlink's form. */
struct ip {
	int family;
	size_t bytes;
	const uint8_t *at;
};

static struct ip ip_of(const struct gid *gid)
{
	if (gid_is_ipv4(gid))
		return (struct ip){AF_INET, 4, gid->raw + 12};
	return (struct ip){AF_INET6, 16, gid->raw};
}

/* The fields of a netlink answer that are used here. */
struct answer {
	bool is_local; /* the route is not RTN_UNICAST; usually RTN_LOCAL: this host's address */
	bool has_gateway;
	uint8_t gateway[16];
	bool has_via; /* a gateway of the other address family */
	uint32_t ifindex; /* outgoing interface */
	uint16_t state; /* NUD_ state of a neighbour */
	bool has_mac;
	uint8_t mac[NEIGHBOUR_MAC_BYTES];
};

static int on_route_attribute(const struct nlattr *attribute, void *data)
{
	struct answer *answer = data;
	uint16_t bytes = mnl_attr_get_payload_len(attribute);

	if (mnl_attr_get_type(attribute) == RTA_GATEWAY && bytes <= sizeof(answer->gateway)) {
		answer->has_gateway = true;
		memcpy(answer->gateway, mnl_attr_get_payload(attribute), bytes);
	} else if (mnl_attr_get_type(attribute) == RTA_VIA) {
		answer->has_via = true;
	} else if (mnl_attr_get_type(attribute) == RTA_OIF && bytes == sizeof(uint32_t)) {
		answer->ifindex = mnl_attr_get_u32(attribute);
	}
	return MNL_CB_OK;
}

static int on_neighbour_attribute(const struct nlattr *attribute, void *data)
{
	struct answer *answer = data;

	if (mnl_attr_get_type(attribute) == NDA_LLADDR &&
		mnl_attr_get_payload_len(attribute) == sizeof(answer->mac)) {
		answer->has_mac = true;
		memcpy(answer->mac, mnl_attr_get_payload(attribute), sizeof(answer->mac));
	}
	return MNL_CB_OK;
}

static int on_answer(const struct nlmsghdr *header, void *data)
{
	struct answer *answer = data;

	if (header->nlmsg_type == RTM_NEWROUTE) {
		const struct rtmsg *route = mnl_nlmsg_get_payload(header);

		answer->is_local = route->rtm_type != RTN_UNICAST;
		mnl_attr_parse(header, sizeof(*route), on_route_attribute, answer);
	} else if (header->nlmsg_type == RTM_NEWNEIGH) {
		const struct ndmsg *neighbour = mnl_nlmsg_get_payload(header);

		answer->state = neighbour->ndm_state;
		mnl_attr_parse(header, sizeof(*neighbour), on_neighbour_attribute, answer);
	}
	return MNL_CB_OK;
}

/* Returns 0 or -errno: -ENOENT when there is no such object. */
static int netlink_query(
	struct mnl_socket *netlink, struct nlmsghdr *request, struct answer *ret_answer)
{
	char buffer[MESSAGE_BYTES];
	ssize_t bytes;

	request->nlmsg_flags = NLM_F_REQUEST;
	request->nlmsg_seq = 1;
	if (mnl_socket_sendto(netlink, request, request->nlmsg_len) < 0)
		return -errno;
	bytes = mnl_socket_recvfrom(netlink, buffer, sizeof(buffer));
	if (bytes < 0)
		return -errno;
	return mnl_cb_run(buffer, (size_t)bytes, 1, mnl_socket_get_portid(netlink), on_answer,
		       ret_answer) < 0
		? -errno
		: 0;
}

static int route_query(struct mnl_socket *netlink, const struct gid *local,
	const struct gid *remote, uint32_t ifindex, struct answer *ret_answer)
{
	char buffer[MESSAGE_BYTES];
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct ip to = ip_of(remote), from = ip_of(local);
	struct rtmsg *route;

	request->nlmsg_type = RTM_GETROUTE;
	route = mnl_nlmsg_put_extra_header(request, sizeof(*route));
	route->rtm_family = (uint8_t)to.family;
	route->rtm_dst_len = (uint8_t)(to.bytes * 8);
	route->rtm_src_len = (uint8_t)(from.bytes * 8);
	mnl_attr_put(request, RTA_DST, to.bytes, to.at);
	mnl_attr_put(request, RTA_SRC, from.bytes, from.at);
	if (gid_is_link_local(remote))
		mnl_attr_put_u32(request, RTA_OIF, ifindex);
	return netlink_query(netlink, request, ret_answer);
}

static int neighbour_query(struct mnl_socket *netlink, const struct ip *hop, uint32_t ifindex,
	struct answer *ret_answer)
{
	char buffer[MESSAGE_BYTES];
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct ndmsg *neighbour;

	request->nlmsg_type = RTM_GETNEIGH;
	neighbour = mnl_nlmsg_put_extra_header(request, sizeof(*neighbour));
	neighbour->ndm_family = (uint8_t)hop->family;
	neighbour->ndm_ifindex = (int)ifindex;
	mnl_attr_put(request, NDA_DST, hop->bytes, hop->at);
	return netlink_query(netlink, request, ret_answer);
}

/* Send an empty datagram: the kernel queues it and looks up the neighbour. */
static void make_kernel_resolve(const struct gid *remote, uint32_t ifindex)
{
	union socket_address name;
	socklen_t bytes = socket_address_make(&name, remote, ifindex, DISCARD_PORT);
	int fd = socket_open(name.base.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	/* A failure needs no report: the caller will see no entry in the neighbour table. */
	(void)!sendto(fd, "", 0, MSG_DONTWAIT, &name.base, bytes);
	close(fd);
}

/* Does the kernel look up link addresses for this interface? For a tunnel, say, it does not. */
static bool has_link_addresses(uint32_t ifindex)
{
	struct ifreq request = {0};
	int fd = socket_open(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool has = true;

	if (fd < 0)
		return true;
	if (if_indextoname(ifindex, request.ifr_name) && !ioctl(fd, SIOCGIFFLAGS, &request))
		has = !(request.ifr_flags & IFF_NOARP);
	close(fd);
	return has;
}

static enum neighbour neighbour_look_up(struct mnl_socket *netlink, const struct gid *local,
	const struct gid *remote, uint32_t ifindex)
{
	struct ip hop = ip_of(remote);
	struct answer answer = {0};
	int rc;

	if (mnl_socket_bind(netlink, 0, MNL_SOCKET_AUTOPID) ||
		route_query(netlink, local, remote, ifindex, &answer) || answer.is_local)
		return NEIGHBOUR_KNOWN;
	if (answer.has_gateway)
		hop.at = answer.gateway;
	rc = neighbour_query(netlink, &hop, ifindex, &answer);
	if ((rc == 0 && (answer.state & VALID)) || (rc && rc != -ENOENT))
		return NEIGHBOUR_KNOWN;
	if (!has_link_addresses(ifindex))
		return NEIGHBOUR_KNOWN;
	if (rc == -ENOENT || !(answer.state & NUD_INCOMPLETE))
		make_kernel_resolve(remote, ifindex);
	return NEIGHBOUR_PENDING;
}

enum neighbour neighbour_look(const struct gid *local, const struct gid *remote, uint32_t ifindex)
{
	int cancel = cancel_forbid();
	struct mnl_socket *netlink = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	enum neighbour neighbour = NEIGHBOUR_KNOWN;

	if (netlink) {
		neighbour = neighbour_look_up(netlink, local, remote, ifindex);
		mnl_socket_close(netlink);
	}
	cancel_allow(cancel);
	return neighbour;
}

static bool look_up_mac(struct mnl_socket *netlink, const struct gid *local,
	const struct gid *remote, uint32_t ifindex, uint8_t ret_mac[NEIGHBOUR_MAC_BYTES])
{
	struct ip hop = ip_of(remote);
	struct answer answer = {0};

	if (mnl_socket_bind(netlink, 0, MNL_SOCKET_AUTOPID) ||
		route_query(netlink, local, remote, ifindex, &answer) || answer.is_local ||
		answer.has_via || answer.ifindex != ifindex)
		return false;
	if (answer.has_gateway)
		hop.at = answer.gateway;
	if (neighbour_query(netlink, &hop, ifindex, &answer) || !(answer.state & VALID) ||
		!answer.has_mac)
		return false;
	memcpy(ret_mac, answer.mac, sizeof(answer.mac));
	return true;
}

bool neighbour_mac(const struct gid *local, const struct gid *remote, uint32_t ifindex,
	uint8_t ret_mac[NEIGHBOUR_MAC_BYTES])
{
	struct mnl_socket *netlink = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	bool is_known = false;

	if (netlink) {
		is_known = look_up_mac(netlink, local, remote, ifindex, ret_mac);
		mnl_socket_close(netlink);
	}
	return is_known;
}
