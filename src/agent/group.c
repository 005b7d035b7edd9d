/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/group.h"

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/bag.h"
#include "base/arith.h"
#include "port/address.h"
#include "wire/roce.h"

enum {
	RECEIVE_BUFFER_BYTES = 8 << 20,
	QPN_TOP_BYTE = 5, /* in the BTH, which the UDP payload begins with: IBTA 9.2 */
};

static_assert((int)GROUP_STEP <= (int)BAG_DESCRIPTORS_MAX, "a step is one message in the bag");

void group_init(struct group *group, const struct agent_address *address)
{
	group->address = *address;
	group->count = 0;
}

void group_done(struct group *group)
{
	while (group->count > 0)
		close(group->sockets[--group->count]);
}

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

static int attach(int fd, int option, struct sock_filter *filter, size_t count)
{
	struct sock_fprog program = {.len = (unsigned short)count, .filter = filter};

	return setsockopt(fd, SOL_SOCKET, option, &program, sizeof(program)) ? -errno : 0;
}

static int bar(int fd)
{
	struct sock_filter drop[] = {BPF_STMT(BPF_RET | BPF_K, 0)};

	return attach(fd, SO_ATTACH_FILTER, drop, ARRAY_COUNT(drop));
}

/* What the lane that will own the socket needs. Options are the socket's, whoever holds it. */
static int set_options(int fd, bool is_ipv4)
{
	int rc;

	if ((rc = set_option(fd, SOL_UDP, UDP_GRO, 1)))
		return rc;
	if (is_ipv4)
		rc = set_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
	else if (!(rc = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)) &&
		!(rc = set_option(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1)))
		rc = set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	/* As large as we are allowed to: not an error when that is less. */
	if (set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES))
		set_option(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER_BYTES);
	return rc;
}

static int bind_socket(int fd, const struct agent_address *address)
{
	union socket_address name;
	socklen_t bytes =
		socket_address_make(&name, &address->gid, address->scope_ifindex, ROCE_UDP_PORT);

	return bind(fd, &name.base, bytes) ? -errno : 0;
}

/* Returns a socket or -errno. */
static int udp_socket(const struct agent_address *address)
{
	int fd = socket(gid_is_ipv4(&address->gid) ? AF_INET : AF_INET6,
		SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);

	return fd < 0 ? -errno : fd;
}

/*
 * Is the port free? Binding a member does not tell: the group of an earlier urnicd of the same
 * user would let it in, behind sockets that we do not know.
 */
static int probe(const struct agent_address *address)
{
	int fd = udp_socket(address);
	int rc;

	if (fd < 0)
		return fd;
	rc = bind_socket(fd, address);
	close(fd);
	return rc;
}

/* Returns the next member, barred, or -errno. */
static int member_open(const struct agent_address *address)
{
	int fd = udp_socket(address);
	int rc;

	if (fd < 0)
		return fd;
	if ((rc = set_options(fd, gid_is_ipv4(&address->gid))) ||
		(rc = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1)) || (rc = bar(fd)) ||
		(rc = bind_socket(fd, address))) {
		close(fd);
		return rc;
	}
	return fd;
}

bool group_has_survivors(const struct agent_address *address)
{
	/*
	 * Behind all others: nothing is steered to it, and when it closes the kernel moves nothing.
	 */
	int fd = member_open(address);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* Make the group pick the socket whose number is the slot, and socket 0 for slots without one. */
static int steer(const struct group *group)
{
	struct sock_filter pick[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, QPN_TOP_BYTE),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, group->count, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};

	return attach(group->sockets[0], SO_ATTACH_REUSEPORT_CBPF, pick, ARRAY_COUNT(pick));
}

static int grow_step(struct group *group, int bag)
{
	struct bag_label label = {
		.version = AGENT_VERSION,
		.kind = BAG_SOCKETS,
		.address = group->address,
		.first_slot = group->count,
	};
	uint32_t end = min_u32(group->count + GROUP_STEP, AGENT_SLOTS);
	int rc;

	while (group->count < end) {
		rc = member_open(&group->address);
		if (rc < 0)
			goto fail_close;
		group->sockets[group->count++] = rc;
	}
	label.count = group->count - label.first_slot;
	rc = bag_put(bag, &label, group->sockets + label.first_slot);
	if (rc)
		goto fail_close;
	rc = steer(group);
	/* In the bag, the sockets are there to stay. */
	return rc;
fail_close:
	/* The last ones of the group: the kernel moves nothing. */
	while (group->count > label.first_slot)
		close(group->sockets[--group->count]);
	return rc;
}

uint32_t group_sockets_missing(const struct group *group, uint8_t slot)
{
	uint32_t end = (slot / GROUP_STEP + 1u) * GROUP_STEP;

	return end > group->count ? end - group->count : 0;
}

int group_grow(struct group *group, uint8_t slot, int bag)
{
	int rc;

	if (group->count == 0) {
		rc = probe(&group->address);
		if (rc)
			return rc;
	}
	while (group->count <= slot) {
		bool is_first = group->count == 0;

		rc = grow_step(group, bag);
		if (rc)
			return rc;
		if (is_first)
			group_admit(group, 0, false);
	}
	return 0;
}

/* Is `fd` a socket as member_open() makes them, made by this user? */
static bool is_member(int fd, const struct agent_address *address)
{
	union socket_address name = {0};
	socklen_t bytes = sizeof(name);
	int type, reuse;
	socklen_t type_bytes = sizeof(type), reuse_bytes = sizeof(reuse);
	struct gid gid;
	struct stat status;

	if (fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode) || status.st_uid != geteuid())
		return false;
	if (getsockname(fd, &name.base, &bytes) != 0 ||
		(name.base.sa_family != AF_INET && name.base.sa_family != AF_INET6))
		return false;
	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &type, &type_bytes) != 0 ||
		getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &reuse, &reuse_bytes) != 0)
		return false;
	gid = socket_address_gid(&name);
	return type == IPPROTO_UDP && reuse && socket_address_port(&name) == ROCE_UDP_PORT &&
		gid_is_equal(&gid, &address->gid) &&
		(!gid_is_link_local(&gid) || name.ipv6.sin6_scope_id == address->scope_ifindex);
}

bool group_adopt(struct group *group, uint32_t first_slot, const int *fds, uint32_t count)
{
	if (first_slot != group->count || count > AGENT_SLOTS - group->count)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (!is_member(fds[i], &group->address))
			return false;
	}
	for (uint32_t i = 0; i < count; i++)
		group->sockets[group->count++] = fds[i];
	/* The last urnicd may have died between putting these into the bag and steering to them. */
	steer(group);
	return true;
}

bool group_is_barred(const struct group *group, uint8_t slot)
{
	socklen_t instructions = 0;

	/* The owner's own filter (port/udp_link.c) is longer. */
	return getsockopt(group->sockets[slot], SOL_SOCKET, SO_GET_FILTER, NULL, &instructions) ==
		0 &&
		instructions == 1;
}

void group_bar(struct group *group, uint8_t slot)
{
	if (slot < group->count)
		bar(group->sockets[slot]);
}

void group_admit(struct group *group, uint8_t slot, bool is_new_owner)
{
	const int unused = 0;
	uint8_t byte;

	if (slot >= group->count)
		return;
	/* While the filter is still on, so that this ends. */
	while (is_new_owner && recv(group->sockets[slot], &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
		;
	if (group_is_barred(group, slot))
		setsockopt(group->sockets[slot], SOL_SOCKET, SO_DETACH_FILTER, &unused,
			sizeof(unused));
}
