/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels of frames between clients' queue pairs and the subnet. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "cm/cm.h"
#include "fabricd/server/server_internal.h"

enum {
	/*
	 * Edge-triggered, so that the server need not read the eventfd. A read could block: the
	 * client shares the eventfd's O_NONBLOCK, and may clear it.
	 */
	WATCHED = (int)(EPOLLIN | EPOLLET),
	JOINS_MAX = 4096, /* of a channel; a subnet manager makes fewer groups */
};

struct channel_join {
	struct list link;
	uint32_t port;
	uint32_t count;
	uint16_t mlid;
};

struct service_claim {
	struct list link; /* in the node's claims */
	struct channel *channel;
	uint64_t service_id;
	uint64_t mask;
};

/* --- opening and closing --- */

static uint32_t lease_unused(struct server_node *node)
{
	uint32_t lease = 1;

	if (!node->leases)
		node->leases = calloc(ATTACH_LEASES, sizeof(struct channel *));
	if (!node->leases)
		return ATTACH_LEASES;
	while (lease < ATTACH_LEASES && node->leases[lease])
		lease++;
	return lease;
}

/* Make a memfd that the client cannot shrink, so that the server's accesses never fault. */
static int memory_create(struct attach_frames **ret_shared)
{
	int fd = memfd_create("urnic-frames", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *shared = MAP_FAILED;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(**ret_shared)) == 0 &&
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		shared =
			mmap(NULL, sizeof(**ret_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED) {
		close(fd);
		return -ENOMEM;
	}
	*ret_shared = shared;
	return fd;
}

static int channel_init(struct channel *channel, struct fabric_server *server,
	int ret_fds[ATTACH_CHANNEL_DESCRIPTORS])
{
	int rc = memory_create(&channel->shared);

	if (rc < 0)
		return rc;
	ret_fds[0] = rc;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret_fds + 1) < 0) {
		rc = -errno;
		goto fail_unmap;
	}
	ret_fds[3] = ret_fds[2];
	ret_fds[2] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	channel->wake_client = ret_fds[3];
	channel->watch = (struct watch){.kind = WATCH_CHANNEL, .fd = ret_fds[2]};
	rc = ret_fds[2] < 0 ? -errno : server_watch(server, &channel->watch, WATCHED);
	if (rc == 0)
		return 0;
	if (ret_fds[2] >= 0)
		close(ret_fds[2]);
	close(ret_fds[3]);
	close(ret_fds[1]);
fail_unmap:
	close(ret_fds[0]);
	munmap(channel->shared, sizeof(*channel->shared));
	return rc;
}

int channel_create(
	struct client *client, uint32_t *ret_lease, int ret_fds[ATTACH_CHANNEL_DESCRIPTORS])
{
	struct fabric_server *server = client->server;
	struct server_node *node = &server->nodes[client->node];
	uint32_t lease = lease_unused(node);
	struct channel *channel;
	int rc;

	if (lease == ATTACH_LEASES || client->channel_count == CHANNELS_PER_CLIENT_MAX)
		return -ENOSPC;
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return -ENOMEM;
	rc = channel_init(channel, server, ret_fds);
	if (rc) {
		free(channel);
		return rc;
	}
	channel->client = client;
	channel->node = client->node;
	channel->lease = lease;
	channel->last_messages = -1;
	list_init(&channel->joins);
	node->leases[lease] = channel;
	list_append(&client->channels, &channel->link);
	list_append(&server->channels, &channel->server_link);
	client->channel_count++;
	*ret_lease = lease;
	return 0;
}

static void claims_drop(struct server_node *node, const struct channel *channel)
{
	list_for_each_safe(claim, &node->claims, struct service_claim, link) {
		if (claim->channel != channel)
			continue;
		list_remove(&claim->link);
		free(claim);
		node->claim_count--;
	}
}

void channel_end(struct channel *channel)
{
	struct fabric_server *server = channel->client->server;
	struct server_node *node = &server->nodes[channel->node];

	channel->is_ended = true;
	taken_host_end(channel);
	flows_end(channel);
	channel_frames_end(channel);
	node->leases[channel->lease] = NULL;
	claims_drop(node, channel);
	list_for_each_safe(join, &channel->joins, struct channel_join, link) {
		list_remove(&join->link);
		free(join);
	}
	server_unwatch(server, &channel->watch);
	close(channel->watch.fd);
	close(channel->wake_client);
	if (channel->last_messages >= 0)
		close(channel->last_messages);
	munmap(channel->shared, sizeof(*channel->shared));
	list_remove(&channel->server_link);
	list_remove(&channel->link);
	channel->client->channel_count--;
	list_append(&server->ended_channels, &channel->link);
}

void channel_free(struct channel *channel)
{
	list_remove(&channel->link);
	free(channel);
}

struct channel *channel_find(struct client *client, uint32_t lease)
{
	list_for_each(channel, &client->channels, struct channel, link)
		if (channel->lease == lease)
			return channel;
	return NULL;
}

/* --- multicast groups --- */

static struct channel_join *join_find(const struct channel *channel, uint32_t port, uint16_t mlid)
{
	list_for_each(join, &channel->joins, struct channel_join, link)
		if (join->port == port && join->mlid == mlid)
			return join;
	return NULL;
}

int channel_join(struct channel *channel, uint32_t port, uint16_t mlid)
{
	struct channel_join *join = join_find(channel, port, mlid);

	if (!join) {
		join = channel->join_count < JOINS_MAX ? calloc(1, sizeof(*join)) : NULL;
		if (!join)
			return -ENOMEM;
		join->port = port;
		join->mlid = mlid;
		list_append(&channel->joins, &join->link);
		channel->join_count++;
	}
	join->count++;
	return 0;
}

int channel_leave(struct channel *channel, uint32_t port, uint16_t mlid)
{
	struct channel_join *join = join_find(channel, port, mlid);

	if (!join)
		return -EINVAL;
	if (--join->count == 0) {
		list_remove(&join->link);
		free(join);
		channel->join_count--;
	}
	return 0;
}

bool channel_has_joined(const struct channel *channel, uint32_t port, uint16_t mlid)
{
	return join_find(channel, port, mlid) != NULL;
}

/* --- service IDs --- */

static bool claims_overlap(const struct service_claim *claim, uint64_t service_id, uint64_t mask)
{
	return ((claim->service_id ^ service_id) & claim->mask & mask) == 0;
}

int channel_service_claim(struct channel *channel, uint64_t service_id, uint64_t mask)
{
	struct server_node *node = &channel->client->server->nodes[channel->node];
	struct service_claim *claim;

	list_for_each(other, &node->claims, struct service_claim, link)
		if (claims_overlap(other, service_id, mask))
			return -EADDRINUSE;
	claim = node->claim_count < CLAIMS_PER_NODE_MAX ? calloc(1, sizeof(*claim)) : NULL;
	if (!claim)
		return -ENOMEM;
	claim->channel = channel;
	claim->service_id = service_id;
	claim->mask = mask;
	list_append(&node->claims, &claim->link);
	node->claim_count++;
	return 0;
}

int channel_service_release(struct channel *channel, uint64_t service_id, uint64_t mask)
{
	struct server_node *node = &channel->client->server->nodes[channel->node];

	list_for_each(claim, &node->claims, struct service_claim, link) {
		if (claim->channel != channel || claim->service_id != service_id ||
			claim->mask != mask)
			continue;
		list_remove(&claim->link);
		free(claim);
		node->claim_count--;
		ended_service_add(node, service_id, channel->client->server->now_ns);
		return 0;
	}
	return -EINVAL;
}

static struct channel *service_owner(const struct server_node *node, uint64_t service_id)
{
	list_for_each(claim, &node->claims, struct service_claim, link)
		if (claims_overlap(claim, service_id, UINT64_MAX))
			return claim->channel;
	return NULL;
}

/*
 * Put the frame into each channel that has a connection manager. These are the channels with a
 * memfd for the manager's last messages.
 */
static bool put_to_managers(
	const struct server_node *node, uint32_t port, const uint8_t *frame, uint32_t bytes)
{
	bool is_taken = false;

	for (uint32_t lease = 1; lease < ATTACH_LEASES; lease++) {
		if (!node->leases[lease] || node->leases[lease]->last_messages < 0)
			continue;
		channel_put(node->leases[lease], port, frame, bytes);
		is_taken = true;
	}
	return is_taken;
}

bool channels_put_cm(const struct server_node *node, uint32_t port, const uint8_t mad[MAD_BYTES],
	const uint8_t *frame, uint32_t bytes)
{
	struct channel *channel = NULL;
	struct cm_message message;
	uint64_t service_id = 0;
	uint32_t comm_id = 0;

	if (!node->leases || !cm_message_decode(&message, mad))
		return false;
	switch (cm_route(&message, &service_id, &comm_id)) {
	case CM_ROUTE_SERVICE:
		channel = service_owner(node, service_id);
		break;
	case CM_ROUTE_COMM_ID:
		channel = node->leases[comm_id >> ATTACH_LEASE_COMM_ID_SHIFT];
		break;
	case CM_ROUTE_ALL:
		return put_to_managers(node, port, frame, bytes);
	}
	if (channel)
		channel_put(channel, port, frame, bytes);
	return channel != NULL;
}
