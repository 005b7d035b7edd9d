/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arith.h"
#include "os/log.h"
#include "port/socket.h"
#include "port/udp/udp_internal.h"

/* From linux/in6.h, which conflicts with the C library's headers. */
#define LINUX_IPV6_FLOWINFO_SEND 33

size_t udp_control_append(struct udp_control *control, size_t used_bytes, int level, int type,
	const void *value, size_t value_bytes)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)(void *)(control->bytes + used_bytes);

	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(value_bytes);
	memcpy(CMSG_DATA(cmsg), value, value_bytes);
	return used_bytes + CMSG_SPACE(value_bytes);
}

static const char no_packets[] = "no packets to a peer";

/* Send the path's flow label, not one that the kernel computes. Returns 0 or -errno. */
static int flow_labels_set(int fd)
{
	int rc = socket_set(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0);

	return rc ? rc : socket_set(fd, IPPROTO_IPV6, LINUX_IPV6_FLOWINFO_SEND, 1);
}

static int set_options(int fd, bool is_ipv4)
{
	int rc = socket_set(fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_TOS : IPV6_TCLASS,
		roce_traffic_class(0));

	if (!rc && !is_ipv4)
		rc = flow_labels_set(fd);
	if (!rc)
		socket_grow_send_buffer(fd, UDP_SOCKET_BUFFER_BYTES);
	return rc;
}

static int sender_create(struct port_udp *port, uint8_t address, uint8_t slot)
{
	const struct udp_receiver *receiver = &port->receivers[address];
	struct udp_sender *sender = calloc(1, sizeof(*sender));
	int rc;

	if (!sender)
		return -ENOMEM;
	rc = sender->fd = socket_open_sender(
		&receiver->gid, receiver->scope_ifindex, no_packets, &sender->source_port);
	if (rc < 0)
		goto fail_free;
	rc = set_options(sender->fd, gid_is_ipv4(&receiver->gid));
	if (rc) {
		log_refusal(no_packets, "setsockopt");
		goto fail_close;
	}
	port->senders[address][slot] = sender;
	return 0;
fail_close:
	close(sender->fd);
fail_free:
	free(sender);
	return rc;
}

static void sender_unref(struct port_udp *port, uint8_t address, uint8_t slot)
{
	struct udp_sender *sender = port->senders[address][slot];

	if (sender->paths > 0 && --sender->paths > 0)
		return;
	close(sender->fd);
	free(sender);
	port->senders[address][slot] = NULL;
}

/* Send the socket's multicast packets through the interface `ifindex`. Returns 0 or -errno. */
static int multicast_through(
	const struct udp_sender *sender, const struct udp_receiver *receiver, uint32_t ifindex)
{
	const struct ip_mreqn ipv4 = {.imr_ifindex = (int)ifindex};
	const int ipv6 = (int)ifindex;
	int rc = gid_is_ipv4(&receiver->gid)
		? setsockopt(sender->fd, IPPROTO_IP, IP_MULTICAST_IF, &ipv4, sizeof(ipv4))
		: setsockopt(sender->fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &ipv6, sizeof(ipv6));

	return rc ? log_refusal("no packets to a multicast group", "setsockopt") : 0;
}

static void path_control_init(struct udp_path *path, bool is_ipv4)
{
	const int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
	const int tos = roce_traffic_class((uint8_t)(path->settings.dscp << 2));
	const int hop_limit = path->settings.hop_limit;

	if (path->settings.dscp != 0)
		path->control_bytes = udp_control_append(&path->control, path->control_bytes, level,
			is_ipv4 ? IP_TOS : IPV6_TCLASS, &tos, sizeof(tos));
	/*
	 * A socket has a separate hop limit for multicast, by default 1. So packets to a multicast
	 * group always carry the path's limit.
	 */
	if (hop_limit != SOCKET_HOP_LIMIT || gid_is_multicast(&path->settings.remote))
		path->control_bytes = udp_control_append(&path->control, path->control_bytes, level,
			is_ipv4 ? IP_TTL : IPV6_HOPLIMIT, &hop_limit, sizeof(hop_limit));
}

static int path_create(
	struct port_udp *port, const struct port_udp_path *settings, struct udp_path **ret_path)
{
	const struct udp_receiver *receiver = &port->receivers[settings->address];
	uint8_t slot = settings->destination_slot;
	struct udp_path *path = calloc(1, sizeof(*path));

	if (!path)
		return -ENOMEM;
	if (!port->senders[settings->address][slot]) {
		int rc = sender_create(port, settings->address, slot);

		if (rc) {
			free(path);
			return rc;
		}
	}
	path->settings = *settings;
	path->references = 1;
	path->can_segment = true;
	path->sender = port->senders[settings->address][slot];
	path->sender->paths++;
	if (gid_is_multicast(&settings->remote)) {
		int rc = multicast_through(path->sender, receiver, settings->ifindex);

		if (rc) {
			sender_unref(port, settings->address, slot);
			free(path);
			return rc;
		}
	}
	path->remote_bytes = socket_address_make(
		&path->remote, &settings->remote, receiver->scope_ifindex, ROCE_UDP_PORT);
	if (settings->flow_label)
		path->remote.ipv6.sin6_flowinfo = htonl(settings->flow_label);
	path_control_init(path, gid_is_ipv4(&receiver->gid));
	icrc_flow_init(&path->icrc, receiver->gid.raw, settings->remote.raw,
		path->sender->source_port, ROCE_UDP_PORT);
	roce_frame_headers_init(&path->headers, &receiver->gid, &settings->remote,
		path->sender->source_port, roce_traffic_class((uint8_t)(settings->dscp << 2)),
		settings->hop_limit, settings->flow_label);
	udp_neighbour_ref(port, path);
	*ret_path = path;
	return 0;
}

static bool is_same_path(const struct port_udp_path *a, const struct port_udp_path *b)
{
	return a->address == b->address && a->destination_slot == b->destination_slot &&
		a->is_shared == b->is_shared && a->dscp == b->dscp &&
		a->hop_limit == b->hop_limit && a->flow_label == b->flow_label &&
		gid_is_equal(&a->remote, &b->remote);
}

/* The hash bucket of a path with these settings. */
static struct udp_path **bucket_of(struct port_udp *port, const struct port_udp_path *settings)
{
	uint64_t words[2];
	uint64_t hash = settings->address | (uint64_t)settings->destination_slot << 8 |
		(uint64_t)settings->hop_limit << 16 | (uint64_t)settings->dscp << 24 |
		(uint64_t)settings->flow_label << 32;

	memcpy(words, settings->remote.raw, sizeof(words));
	hash = mix_u64(mix_u64(hash ^ words[0]) ^ words[1]);
	return &port->path_buckets[hash % UDP_PATH_BUCKETS];
}

static void path_index_take(struct port_udp *port)
{
	if (port->path_free_count) {
		port->path_free_head = (port->path_free_head + 1) % PORT_UDP_PATHS_MAX;
		port->path_free_count--;
	} else {
		port->path_limit++;
	}
}

static void path_index_give(struct port_udp *port, uint32_t index)
{
	uint32_t tail = (port->path_free_head + port->path_free_count++) % PORT_UDP_PATHS_MAX;

	port->path_free[tail] = index;
}

int port_udp_path_open(
	struct port_udp *port, const struct port_udp_path *settings, uint32_t *ret_path)
{
	struct port_udp_path wanted = *settings;
	/* A free index, which path_index_take() reserves; PORT_UDP_PATHS_MAX: there is none. */
	uint32_t index =
		port->path_free_count ? port->path_free[port->path_free_head] : port->path_limit;
	struct udp_path **bucket;
	struct udp_path *path;
	int rc;

	if (wanted.address >= port->receiver_count || wanted.dscp > 63 ||
		gid_is_ipv4(&wanted.remote) != gid_is_ipv4(&port->receivers[wanted.address].gid))
		return -EINVAL;
	if (wanted.hop_limit == 0)
		wanted.hop_limit = SOCKET_HOP_LIMIT;
	wanted.flow_label =
		gid_is_ipv4(&wanted.remote) ? 0 : wanted.flow_label & UDP_FLOW_LABEL_MASK;
	bucket = bucket_of(port, &wanted);
	for (path = *bucket; path; path = path->next) {
		if (is_same_path(&path->settings, &wanted)) {
			path->references++;
			*ret_path = path->id;
			return 0;
		}
	}
	if (index == PORT_UDP_PATHS_MAX)
		return -ENOSPC;
	rc = path_create(port, &wanted, &path);
	if (rc)
		return rc;
	path_index_take(port);
	path->id = port->path_generation++ * PORT_UDP_PATHS_MAX + index;
	path->next = *bucket;
	*bucket = path;
	port->paths[index] = path;
	*ret_path = path->id;
	return 0;
}

static void path_destroy(struct port_udp *port, struct udp_path *path)
{
	uint32_t index = path->id % PORT_UDP_PATHS_MAX;
	struct udp_path **place = bucket_of(port, &path->settings);

	while (*place != path)
		place = &(*place)->next;
	*place = path->next;
	port->paths[index] = NULL;
	path_index_give(port, index);
	udp_neighbour_unref(path);
	sender_unref(port, path->settings.address, path->settings.destination_slot);
	free(path);
}

void port_udp_path_close(struct port_udp *port, uint32_t path)
{
	struct udp_path *closing = udp_path_find(port, path);

	assert(closing);
	if (--closing->references > 0)
		return;
	if (port->impairments)
		udp_impair_path_close(port, closing);
	port_udp_flush(port);
	for (uint32_t i = port->staged_first; i < port->staged_end; i++) {
		if (port->staged[i].path == closing) {
			port->staged[i].path = NULL;
			port->counters->tx_path_closed++;
		}
	}
	path_destroy(port, closing);
}

void udp_paths_destroy(struct port_udp *port)
{
	for (uint32_t i = port->path_limit; i-- > 0;) {
		if (port->paths[i])
			path_destroy(port, port->paths[i]);
	}
}
