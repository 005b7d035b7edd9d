/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/multicast.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static bool is_in(const struct lane_member *member, const struct gid *group, uint32_t ifindex)
{
	return member->ifindex == ifindex && gid_is_equal(&member->group, group);
}

int multicast_attach(struct qp *qp, const struct gid *group, uint32_t ifindex)
{
	struct lane *lane = qp->lane;
	size_t bytes = (lane->member_count + 1ull) * sizeof(struct lane_member);
	struct lane_member *members = realloc(lane->members, bytes);

	assert(qp->type == QP_TYPE_UD && gid_is_multicast(group));
	if (!members)
		return -ENOMEM;
	members[lane->member_count++] = (struct lane_member){qp, *group, ifindex};
	lane->members = members;
	return 0;
}

static void remove_at(struct lane *lane, uint32_t index)
{
	lane->members[index] = lane->members[--lane->member_count];
}

void multicast_detach(struct qp *qp, const struct gid *group, uint32_t ifindex)
{
	struct lane *lane = qp->lane;

	for (uint32_t i = lane->member_count; i-- > 0;)
		if (lane->members[i].qp == qp && is_in(&lane->members[i], group, ifindex))
			remove_at(lane, i);
}

void multicast_forget(struct qp *qp)
{
	struct lane *lane = qp->lane;

	for (uint32_t i = lane->member_count; i-- > 0;)
		if (lane->members[i].qp == qp)
			remove_at(lane, i);
}

/* On InfiniBand, has the packet the queue pair's P_Key (IBTA 10.9.3)? */
static bool has_pkey(const struct qp *qp, const struct link_origin *link)
{
	const uint32_t entry = qp->attr.pkey_index;

	return !link ||
		(entry < LINK_PKEYS_MAX && link->pkey_entries[entry / 64] >> entry % 64 & 1);
}

bool multicast_receive(struct lane *lane, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns)
{
	bool is_received = false;

	for (uint32_t i = 0; i < lane->member_count; i++) {
		struct qp *qp = lane->members[i].qp;

		if (!is_in(&lane->members[i], origin->destination, origin->ifindex) ||
			!qp_is_receiving(qp) || !has_pkey(qp, origin->link))
			continue;
		qp->transport->receive(qp, packet, origin, now_ns);
		is_received = true;
	}
	return is_received;
}
