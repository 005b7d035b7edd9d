/* SPDX-License-Identifier: BSD-2-Clause */
#include "netdev/netdev.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "os/log.h"

enum {
	DUMP_BUFFER_BYTES = 32768, /* the kernel's limit for a message of a dump */
	DUMP_ATTEMPTS_MAX = 8, /* attempts while the dumped objects keep changing */
};

/* The result of a dump, and the metric of the best default route so far. */
struct snapshot {
	char *buffer;
	struct netdev_list *list;
	uint64_t best_metric;
	struct netdev *best;
	const char *refused_call; /* the system call that failed; NULL: none */
};

/* The attributes of a netlink message, by type. */
struct attributes {
	const struct nlattr *of_type[64];
};

static int on_attribute(const struct nlattr *attribute, void *data)
{
	struct attributes *attributes = data;
	uint16_t type = mnl_attr_get_type(attribute);

	if (type < ARRAY_COUNT(attributes->of_type))
		attributes->of_type[type] = attribute;
	return MNL_CB_OK;
}

static struct attributes attributes_parse(const struct nlmsghdr *header, unsigned int header_bytes)
{
	struct attributes attributes = {0};

	mnl_attr_parse(header, header_bytes, on_attribute, &attributes);
	return attributes;
}

static int on_link(const struct nlmsghdr *header, void *data)
{
	struct netdev_list *list = ((struct snapshot *)data)->list;
	const struct ifinfomsg *link = mnl_nlmsg_get_payload(header);
	struct attributes attributes = attributes_parse(header, sizeof(*link));
	const struct nlattr *name = attributes.of_type[IFLA_IFNAME];
	const struct nlattr *mtu = attributes.of_type[IFLA_MTU];
	const struct nlattr *mac = attributes.of_type[IFLA_ADDRESS];
	const struct nlattr *carrier = attributes.of_type[IFLA_CARRIER];

	if (list->count == NETDEV_COUNT_MAX) {
		list->is_complete = false;
		return MNL_CB_OK;
	}
	struct netdev *netdev = &list->devices[list->count++];
	netdev->ifindex = (uint32_t)link->ifi_index;
	netdev->is_up = link->ifi_flags & IFF_UP;
	netdev->is_loopback = link->ifi_flags & IFF_LOOPBACK;
	/* IFF_RUNNING follows the carrier with up to a second's delay. */
	netdev->has_carrier =
		carrier ? mnl_attr_get_u8(carrier) != 0 : (link->ifi_flags & IFF_RUNNING) != 0;
	if (name)
		strncpy(netdev->name, mnl_attr_get_str(name), NETDEV_NAME_BYTES - 1);
	if (mtu)
		netdev->mtu_bytes = mnl_attr_get_u32(mtu);
	if (mac && mnl_attr_get_payload_len(mac) == sizeof(netdev->mac))
		memcpy(netdev->mac, mnl_attr_get_payload(mac), sizeof(netdev->mac));
	return MNL_CB_OK;
}

/* The rank of an address in the list of its interface: IPv4, then global IPv6, then link-local. */
static int gid_rank(const struct gid *gid)
{
	if (gid_is_ipv4(gid))
		return 0;
	return gid_is_link_local(gid) ? 2 : 1;
}

static void gid_insert(struct netdev *netdev, const struct gid *gid)
{
	uint32_t place = netdev->gid_count;

	if (netdev->gid_count == NETDEV_GIDS_MAX)
		return;
	while (place && gid_rank(&netdev->gids[place - 1]) > gid_rank(gid)) {
		netdev->gids[place] = netdev->gids[place - 1];
		place--;
	}
	netdev->gids[place] = *gid;
	netdev->gid_count++;
}

static int on_address(const struct nlmsghdr *header, void *data)
{
	const struct ifaddrmsg *address = mnl_nlmsg_get_payload(header);
	struct netdev *netdev = netdev_find(((struct snapshot *)data)->list, address->ifa_index);
	struct attributes attributes = attributes_parse(header, sizeof(*address));
	const struct nlattr *wide_flags = attributes.of_type[IFA_FLAGS];
	uint32_t flags = wide_flags ? mnl_attr_get_u32(wide_flags) : address->ifa_flags;
	/* On a point-to-point link IFA_ADDRESS is the other end; IPv6 usually has no IFA_LOCAL. */
	const struct nlattr *local = attributes.of_type[IFA_LOCAL];
	const struct nlattr *attr = local ? local : attributes.of_type[IFA_ADDRESS];
	struct gid gid;

	if (!netdev)
		return MNL_CB_OK;
	if (!attr || (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)))
		return MNL_CB_OK;
	if (address->ifa_family == AF_INET && mnl_attr_get_payload_len(attr) == 4)
		gid = gid_from_ipv4(mnl_attr_get_payload(attr));
	else if (address->ifa_family == AF_INET6 &&
		mnl_attr_get_payload_len(attr) == sizeof(gid.raw))
		memcpy(gid.raw, mnl_attr_get_payload(attr), sizeof(gid.raw));
	else
		return MNL_CB_OK;
	gid_insert(netdev, &gid);
	return MNL_CB_OK;
}

/* The outgoing interface of a route. If the route has several next hops, that of the first. */
static struct netdev *route_netdev(struct netdev_list *list, const struct attributes *attributes)
{
	const struct nlattr *out = attributes->of_type[RTA_OIF];
	const struct nlattr *hops = attributes->of_type[RTA_MULTIPATH];

	if (out)
		return netdev_find(list, mnl_attr_get_u32(out));
	if (hops && mnl_attr_get_payload_len(hops) >= sizeof(struct rtnexthop)) {
		const struct rtnexthop *hop = mnl_attr_get_payload(hops);

		return netdev_find(list, (uint32_t)hop->rtnh_ifindex);
	}
	return NULL;
}

static int on_route(const struct nlmsghdr *header, void *data)
{
	struct snapshot *snapshot = data;
	const struct rtmsg *route = mnl_nlmsg_get_payload(header);
	uint64_t metric = route->rtm_family == AF_INET6 ? 1ull << 32 : 0;
	struct attributes attributes = attributes_parse(header, sizeof(*route));
	const struct nlattr *priority = attributes.of_type[RTA_PRIORITY];
	struct netdev *netdev;

	if (route->rtm_dst_len || route->rtm_table != RT_TABLE_MAIN ||
		route->rtm_type != RTN_UNICAST)
		return MNL_CB_OK;
	netdev = route_netdev(snapshot->list, &attributes);
	if (priority)
		metric += mnl_attr_get_u32(priority);
	if (netdev && (!snapshot->best || metric < snapshot->best_metric)) {
		snapshot->best = netdev;
		snapshot->best_metric = metric;
	}
	return MNL_CB_OK;
}

static int snapshot_refused(struct snapshot *snapshot, const char *call)
{
	snapshot->refused_call = call;
	return -errno;
}

/* Request all objects of a type, and pass each to `on_object`. */
static int netlink_dump(struct mnl_socket *netlink, uint16_t type, size_t payload_bytes,
	mnl_cb_t on_object, struct snapshot *snapshot)
{
	struct nlmsghdr *header = mnl_nlmsg_put_header(snapshot->buffer);
	ssize_t bytes;
	int result;

	header->nlmsg_type = type;
	header->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	mnl_nlmsg_put_extra_header(header, payload_bytes);
	if (mnl_socket_sendto(netlink, header, header->nlmsg_len) < 0)
		return snapshot_refused(snapshot, "sendto");
	do {
		bytes = mnl_socket_recvfrom(netlink, snapshot->buffer, DUMP_BUFFER_BYTES);
		if (bytes < 0)
			return snapshot_refused(snapshot, "recvfrom");
		result = mnl_cb_run(snapshot->buffer, (size_t)bytes, 0,
			mnl_socket_get_portid(netlink), on_object, snapshot);
	} while (result > MNL_CB_STOP);
	return result == MNL_CB_STOP ? 0 : -errno;
}

static uint64_t netns_cookie_of(const struct mnl_socket *netlink)
{
	uint64_t cookie = 0;
	socklen_t bytes = sizeof(cookie);

	if (getsockopt(mnl_socket_get_fd(netlink), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &bytes))
		return 0;
	return cookie;
}

static int snapshot_fill(struct snapshot *snapshot)
{
	struct mnl_socket *netlink = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	int error;

	if (!netlink)
		return snapshot_refused(snapshot, "socket");
	snapshot->list->netns_cookie = netns_cookie_of(netlink);
	error = mnl_socket_bind(netlink, 0, MNL_SOCKET_AUTOPID) ? snapshot_refused(snapshot, "bind")
								: 0;
	if (!error)
		error = netlink_dump(
			netlink, RTM_GETLINK, sizeof(struct ifinfomsg), on_link, snapshot);
	if (!error)
		error = netlink_dump(
			netlink, RTM_GETADDR, sizeof(struct ifaddrmsg), on_address, snapshot);
	if (!error)
		error = netlink_dump(
			netlink, RTM_GETROUTE, sizeof(struct rtmsg), on_route, snapshot);
	mnl_socket_close(netlink);
	return error;
}

static int netdev_compare(const void *left, const void *right)
{
	const struct netdev *a = left, *b = right;

	if (a->has_default_route != b->has_default_route)
		return a->has_default_route ? -1 : 1;
	if (a->is_loopback != b->is_loopback)
		return a->is_loopback ? 1 : -1;
	return (a->ifindex > b->ifindex) - (a->ifindex < b->ifindex);
}

/*
 * Make one attempt. Returns -EINTR when the dump is inconsistent, because something changed
 * meanwhile.
 */
static int snapshot_take(struct snapshot *snapshot)
{
	memset(snapshot->list, 0, sizeof(*snapshot->list));
	snapshot->list->is_complete = true;
	snapshot->best = NULL;
	return snapshot_fill(snapshot);
}

int netdev_list_create(struct netdev_list **ret_list)
{
	struct snapshot snapshot = {
		.buffer = malloc(DUMP_BUFFER_BYTES),
		.list = malloc(sizeof(struct netdev_list)),
	};
	int error = -ENOMEM;

	if (!snapshot.buffer || !snapshot.list)
		goto fail_free;
	for (unsigned i = 0; i < DUMP_ATTEMPTS_MAX; i++) {
		error = snapshot_take(&snapshot);
		if (error != -EINTR)
			break;
	}
	if (error) {
		errno = -error;
		log_refusal("the network interfaces are not known",
			snapshot.refused_call ? snapshot.refused_call : "netlink");
		goto fail_free;
	}
	if (snapshot.best)
		snapshot.best->has_default_route = true;
	qsort(snapshot.list->devices, snapshot.list->count, sizeof(struct netdev), netdev_compare);
	free(snapshot.buffer);
	*ret_list = snapshot.list;
	return 0;
fail_free:
	free(snapshot.buffer);
	free(snapshot.list);
	return error;
}
