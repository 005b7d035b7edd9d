/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups and their sockets.
 *
 * The kernel copies a multicast packet to every socket that is bound to the group's address and has
 * joined the group. (A unicast packet goes to only one socket.) So each lane with an attached queue
 * pair opens its own socket for each group, without urnicd. Processes of several users can bind
 * sockets to one group (SO_REUSEADDR).
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/multicast.h"
#include "nic/nic_fabric.h"
#include "nic/object/nic_object.h"
#include "os/log.h"
#include "port/address.h"
#include "port/socket.h"
#include "wire/infiniband/lrh.h"
#include "wire/roce.h"

enum { RECEIVE_BUFFER_BYTES = 8 << 20 };

/* One queue pair in one group. */
struct membership {
	struct list link; /* in nic.memberships */
	struct nic_qp *qp;
	struct gid group;
	uint32_t ifindex;
	uint16_t mlid; /* InfiniBand only */
};

/* --- sockets --- */

static int join_ipv4(int fd, const struct gid *group, uint32_t ifindex)
{
	struct ip_mreqn request = {.imr_ifindex = (int)ifindex};
	int error;

	memcpy(&request.imr_multiaddr, group->raw + 12, sizeof(request.imr_multiaddr));
	/*
	 * Receive only packets of groups that this socket has joined, not of those that other
	 * sockets of the host have joined.
	 */
	error = socket_set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	if (!error && setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof(request)))
		error = -errno;
	return error;
}

static int join_ipv6(int fd, const struct gid *group, uint32_t ifindex)
{
	struct ipv6_mreq request = {.ipv6mr_interface = ifindex};
	int error;

	memcpy(&request.ipv6mr_multiaddr, group->raw, sizeof(request.ipv6mr_multiaddr));
	error = socket_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	if (!error && setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof(request)))
		error = -errno;
	return error;
}

static int bind_group(int fd, const struct gid *group, uint32_t ifindex)
{
	union socket_address address;
	socklen_t bytes = socket_address_make(&address, group, ifindex, ROCE_UDP_PORT);

	if (address.base.sa_family == AF_INET6)
		address.ipv6.sin6_scope_id = ifindex;
	return bind(fd, &address.base, bytes) ? -errno : 0;
}

/* Returns a socket that receives the group's packets on this interface, or -errno. */
static int group_open(const struct gid *group, uint32_t ifindex)
{
	bool is_ipv4 = gid_is_ipv4(group);
	int fd = socket_open(is_ipv4 ? AF_INET : AF_INET6,
		SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
	int error;

	if (fd < 0)
		return -errno;
	/*
	 * If the system's limit is lower than this, the kernel makes the buffer smaller, and
	 * reports no error.
	 */
	if (socket_set(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES))
		socket_set(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER_BYTES);
	error = socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (!error && !is_ipv4)
		error = socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (!error)
		error = bind_group(fd, group, ifindex);
	if (!error)
		error = is_ipv4 ? join_ipv4(fd, group, ifindex) : join_ipv6(fd, group, ifindex);
	if (!error)
		return fd;
	close(fd);
	return error;
}

/* --- memberships; the NIC is locked --- */

static bool is_of(const struct membership *membership, const struct gid *group, uint32_t ifindex)
{
	return membership->ifindex == ifindex && gid_is_equal(&membership->group, group);
}

static struct membership *membership_find(
	const struct nic_qp *qp, const struct gid *group, uint32_t ifindex)
{
	list_for_each(membership, &nic.memberships, struct membership, link)
		if (membership->qp == qp && is_of(membership, group, ifindex))
			return membership;
	return NULL;
}

/* Is this the first membership of its group? */
static bool is_first(const struct membership *wanted)
{
	list_for_each(membership, &nic.memberships, struct membership, link)
		if (is_of(membership, &wanted->group, wanted->ifindex))
			return membership == wanted;
	return false;
}

/* Is there room for one more queue pair in this group? */
static bool has_room(const struct gid *group, uint32_t ifindex)
{
	uint32_t members = 0, groups = 0;

	list_for_each(membership, &nic.memberships, struct membership, link) {
		members += is_of(membership, group, ifindex);
		groups += is_first(membership);
	}
	return members ? members < NIC_GROUP_QP_COUNT_MAX : groups < NIC_GROUP_COUNT_MAX;
}

/* The port of an InfiniBand device that receives the packets of the queue pair's groups. */
static uint32_t port_of(const struct nic_qp *qp)
{
	return qp->qp->attr.port ? qp->qp->attr.port : 1;
}

/* group_receive() for a worker on an InfiniBand fabric. The fabric counts the joins. */
static int group_join(const struct membership *membership)
{
	const struct nic_qp *qp = membership->qp;

	if (membership->mlid < LID_MULTICAST_FIRST || membership->mlid > LID_MULTICAST_LAST)
		return -EINVAL;
	return nic_fabric_join(
		qp->worker->lane.index, port_of(qp), membership->mlid, &membership->group);
}

/* Make the worker receive the group's packets. Returns 0 or -errno. */
static int group_receive(struct worker *worker, const struct gid *group, uint32_t ifindex)
{
	int index, socket;

	worker_lock(worker);
	index = worker_address_find(worker, group, ifindex);
	worker_unlock(worker);
	if (index >= 0)
		return 0;
	socket = group_open(group, ifindex);
	if (socket < 0) {
		errno = -socket;
		return log_refusal("cannot join a multicast group", "socket, setsockopt or bind");
	}
	worker_lock(worker);
	index = worker_address_add(worker, group, ifindex, socket);
	worker_unlock(worker);
	return index < 0 ? index : 0;
}

/* Close the worker's socket of a group, if no queue pair of the worker is in the group any more. */
static void group_leave_if_unused(struct worker *worker, const struct gid *group, uint32_t ifindex)
{
	int index;

	list_for_each(membership, &nic.memberships, struct membership, link)
		if (membership->qp->worker == worker && is_of(membership, group, ifindex))
			return;
	worker_lock(worker);
	index = worker_address_find(worker, group, ifindex);
	if (index >= 0)
		worker_address_remove(worker, (uint32_t)index);
	worker_unlock(worker);
}

static void membership_end(struct membership *membership)
{
	struct nic_qp *qp = membership->qp;

	worker_lock(qp->worker);
	multicast_detach(qp->qp, &membership->group, membership->ifindex);
	worker_unlock(qp->worker);
	list_remove(&membership->link);
	if (qp->worker->ib)
		nic_fabric_leave(
			qp->worker->lane.index, port_of(qp), membership->mlid, &membership->group);
	else
		group_leave_if_unused(qp->worker, &membership->group, membership->ifindex);
	free(membership);
}

static int group_attach(struct nic_qp *qp, const struct gid *group, uint32_t ifindex, uint16_t mlid)
{
	struct membership *membership;
	int error;

	if (membership_find(qp, group, ifindex))
		return 0;
	membership = has_room(group, ifindex) ? malloc(sizeof(*membership)) : NULL;
	if (!membership)
		return -ENOMEM;
	*membership =
		(struct membership){.qp = qp, .group = *group, .ifindex = ifindex, .mlid = mlid};
	error = qp->worker->ib ? group_join(membership) : group_receive(qp->worker, group, ifindex);
	if (!error) {
		worker_lock(qp->worker);
		error = multicast_attach(qp->qp, group, ifindex);
		worker_unlock(qp->worker);
		if (error && qp->worker->ib)
			nic_fabric_leave(qp->worker->lane.index, port_of(qp), mlid, group);
		else if (error)
			group_leave_if_unused(qp->worker, group, ifindex);
	}
	if (error)
		free(membership);
	else
		list_append(&nic.memberships, &membership->link);
	return error;
}

void nic_multicast_refuse_scope(void)
{
	log_write(LOG_ERROR,
		"a multicast group of FF01::/16 is interface-local (RFC 4291, 2.7): IP stacks drop "
		"its packets between hosts; take one of FF02::/16 or wider, or of IPv4 (perftest: "
		"-M 255:2:0:...)");
}

/* The destination address in a group's packets. Over InfiniBand it is the GID itself. */
static struct gid group_address(const struct nic_qp *qp, const struct gid *mgid)
{
	return qp->worker->ib ? *mgid : gid_ip_address(mgid);
}

int nic_multicast_attach(struct nic_qp *qp, const struct gid *mgid, uint32_t ifindex, uint16_t mlid)
{
	struct gid group;
	int error = -EINVAL;

	nic_enter();
	if (qp->epoch != nic_epoch) {
		nic_leave();
		return -EIO;
	}
	group = group_address(qp, mgid);
	if (!qp->worker->ib && gid_is_interface_local(&group))
		nic_multicast_refuse_scope();
	else if (qp->qp->type == QP_TYPE_UD && gid_is_multicast(&group))
		error = group_attach(qp, &group, ifindex, mlid);
	nic_leave();
	return error;
}

int nic_multicast_detach(struct nic_qp *qp, const struct gid *mgid, uint32_t ifindex, uint16_t mlid)
{
	struct membership *membership = NULL;
	struct gid group;

	(void)mlid;
	nic_enter();
	if (qp->epoch == nic_epoch) {
		group = group_address(qp, mgid);
		membership = membership_find(qp, &group, ifindex);
	}
	if (membership)
		membership_end(membership);
	nic_leave();
	return membership ? 0 : -EINVAL;
}

static struct membership *membership_of(const struct nic_qp *qp)
{
	list_for_each(membership, &nic.memberships, struct membership, link)
		if (membership->qp == qp)
			return membership;
	return NULL;
}

bool nic_multicast_is_attached(const struct nic_qp *qp)
{
	bool is_attached;

	nic_enter();
	is_attached = qp->epoch == nic_epoch && membership_of(qp);
	nic_leave();
	return is_attached;
}

void nic_multicast_forget(struct nic_qp *qp)
{
	struct membership *membership;

	while ((membership = membership_of(qp)))
		membership_end(membership);
}
