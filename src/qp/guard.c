/* SPDX-License-Identifier: BSD-2-Clause */
#include "qp/guard.h"

#include "base/arith.h"
#include "qp/qp.h"
#include "wire/bytes.h"

/* The number of tries, and the time in which one try is regained. */
struct allowance {
	uint64_t tries;
	uint64_t try_ns;
};

static const struct allowance of_qp = {GUARD_TRIES, GUARD_TRY_NS};
static const struct allowance of_peer = {GUARD_PEER_TRIES, GUARD_PEER_TRY_NS};

/* The guard is up until the returned time, at which one try is regained. */
static uint64_t up_until_ns(const struct guard *guard, const struct allowance *allowance)
{
	uint64_t spare_ns = (allowance->tries - 1) * allowance->try_ns;

	return guard->whole_at_ns > spare_ns ? guard->whole_at_ns - spare_ns : 0;
}

/* Spend a try, if one is left. Returns the time until which the guard is up. */
static uint64_t allowance_spend(
	struct guard *guard, const struct allowance *allowance, uint64_t now_ns)
{
	uint64_t limit_ns = now_ns + allowance->tries * allowance->try_ns;

	guard->whole_at_ns =
		min_u64(max_u64(guard->whole_at_ns, now_ns) + allowance->try_ns, limit_ns);
	return up_until_ns(guard, allowance);
}

static uint32_t peer_of(const struct gid *gid)
{
	uint32_t hash = get_be32(gid->raw + 12) ^ get_be32(gid->raw + 8) * 0x85ebca6bu ^
		get_be32(gid->raw + 4) * 0xc2b2ae35u ^ get_be32(gid->raw);

	return hash * 0x9e3779b1u >> 26;
}

void guard_note(struct lane *lane, struct qp *qp, enum guard_kind kind,
	const struct packet_origin *origin, uint64_t now_ns)
{
	uint64_t *until_ns = &lane->guards.until_ns[kind];
	struct guard *peer = &lane->guards.peer[peer_of(origin->source)][kind];

	*until_ns = max_u64(*until_ns, allowance_spend(peer, &of_peer, now_ns));
	if (qp)
		*until_ns = max_u64(*until_ns, allowance_spend(&qp->guard[kind], &of_qp, now_ns));
}

bool guard_is_up(const struct qp *qp, enum guard_kind kind, const struct packet_origin *origin,
	uint64_t now_ns)
{
	const struct guards *guards = &qp->lane->guards;

	return now_ns < guards->until_ns[kind] &&
		(now_ns < up_until_ns(&qp->guard[kind], &of_qp) ||
			now_ns < up_until_ns(
					 &guards->peer[peer_of(origin->source)][kind], &of_peer));
}

bool guard_refuses(struct qp *qp, const struct packet_origin *origin)
{
	/* The queue pair itself refuses a packet from another address (qp_is_from_peer). */
	if (!qp->peer_port || origin->source_port == qp->peer_port ||
		!gid_is_equal(&qp->attr.path.remote, origin->source))
		return false;
	qp_count(qp, COUNTER_guarded_drops, 1);
	return true;
}
