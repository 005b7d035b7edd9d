/* SPDX-License-Identifier: BSD-2-Clause */
#include "states.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"

#define MS 1000000ull

static uint64_t between(struct states *states, uint64_t low, uint64_t high)
{
	return sim_random_between(&states->world->random, low, high);
}

static uint64_t now_ns(const struct states *states)
{
	return sim_now_ns(states->world->sim);
}

static void modify(struct states *states, struct qp *qp, enum qp_state to, uint32_t mask,
	const struct qp_attr *attr)
{
	int error = qp_modify(qp, to, mask, attr, now_ns(states));

	WORLD_CHECK(states->world, !error, "qp %06x: mask %x refused: %d", qp->qpn, mask, error);
}

void states_init(struct states *states, struct world *world)
{
	memset(states, 0, sizeof(*states));
	states->world = world;
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		states->address[i] = world->host[i].address;
		states->address[i].raw[14] ^= 0x80;
		states->other[i] = sim_add_address(world->sim, i, &states->address[i]);
	}
	states->may_cut = between(states, 0, 1);
}

static void rearm(struct states *states, struct qp *qp)
{
	struct qp_attr attr = {.migration = QP_REARM};

	modify(states, qp, qp->state, ATTR_PATH_MIG, &attr);
	states->actions[2]++;
}

void states_add(struct states *states, struct qp *a, struct qp *b)
{
	struct qp *qp[WORLD_HOST_COUNT] = {a, b};

	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		struct qp_attr attr = {
			.alt_path = {.id = sim_path(states->other[i], states->other[1 - i]),
				.local = states->address[i],
				.remote = states->address[1 - i]},
			.alt_port = 1,
			.alt_timeout = qp[i]->attr.timeout,
		};

		modify(states, qp[i], QP_RTS, ATTR_ALT_PATH, &attr);
		if (between(states, 0, 3))
			rearm(states, qp[i]);
		states->qp[states->connection_count][i] = qp[i];
	}
	states->connection_count++;
}

static void drain(struct states *states, struct qp *qp)
{
	struct qp_attr attr = {.has_drain_event = between(states, 0, 1)};

	if (qp->state == QP_RTS) {
		modify(states, qp, QP_SQD, ATTR_STATE | ATTR_SQD_NOTIFY, &attr);
		states->was_drained |= attr.has_drain_event;
		states->actions[0]++;
	}
}

/* What may be changed only there, and on. */
static void resume(struct states *states, struct qp *qp)
{
	struct qp_attr attr = {
		.timeout = (uint32_t)between(states, 15, 16),
		.max_rd_atomic = (uint32_t)between(states, 1, qp->attr.max_dest_rd_atomic),
	};
	const struct send_queue *sq = qp->sq;

	if (qp->state != QP_SQD || qp->is_sq_draining)
		return;
	WORLD_CHECK(states->world,
		sq->completed == sq->posted || !sq_at(qp->sq, sq->completed)->is_started,
		"qp %06x is drained, and has sent what is not complete", qp->qpn);
	if (between(states, 0, 1))
		modify(states, qp, QP_SQD, ATTR_TIMEOUT | ATTR_MAX_RD_ATOMIC, &attr);
	modify(states, qp, QP_RTS, ATTR_STATE, &attr);
}

static void pace(struct states *states, struct qp *qp)
{
	uint32_t rate_kbps = between(states, 0, 1) ? (uint32_t)between(states, 50000, 2000000) : 0;
	uint32_t burst_bytes = between(states, 0, 1) ? (uint32_t)between(states, 1, 20000) : 0;
	int error;

	if (qp->state != QP_RTS)
		return;
	error = qp_set_rate(qp, rate_kbps, rate_kbps ? burst_bytes : 0);
	WORLD_CHECK(states->world, !error, "qp %06x: rate refused: %d", qp->qpn, error);
	states->actions[1]++;
}

/* Nobody is sent back to a path that is cut. */
static void migrate(struct states *states, struct qp *qp)
{
	struct qp_attr attr = {.migration = QP_MIGRATED};

	if (states->is_cut || qp->state != QP_RTS)
		return;
	if (qp->attr.migration == QP_MIGRATED) {
		rearm(states, qp);
	} else if (qp->attr.migration == QP_ARMED && between(states, 0, 3) == 0) {
		modify(states, qp, QP_RTS, ATTR_PATH_MIG, &attr);
		states->actions[3]++;
	}
}

/* Is everybody on the first path, or could leave it? */
static bool is_first_path_dispensable(const struct states *states)
{
	for (uint32_t i = 0; i < states->connection_count; i++) {
		const struct qp *const *qp = (const struct qp *const *)states->qp[i];

		if (qp[0]->attr.path.id != sim_path(0, 1) || qp[1]->attr.path.id != sim_path(1, 0))
			return false;
		if (qp[0]->attr.migration != QP_ARMED || qp[1]->attr.migration != QP_ARMED)
			return false;
	}
	return true;
}

static void cut(struct states *states)
{
	for (uint32_t i = 0; i < WORLD_HOST_COUNT; i++) {
		struct sim_link *link = sim_link(states->world->sim, i, 1 - i);

		link->partition_count = 1;
		link->partition[0] = (struct sim_partition){now_ns(states), UINT64_MAX};
	}
	states->is_cut = true;
}

void states_act(struct states *states)
{
	uint32_t i = (uint32_t)between(states, 0, states->connection_count - 1);
	struct qp *qp = states->qp[i][between(states, 0, 1)];

	switch (between(states, 0, 15)) {
	case 0:
		drain(states, qp);
		break;
	case 1:
		pace(states, qp);
		break;
	case 2:
		migrate(states, qp);
		break;
	case 3:
		if (states->may_cut && !states->is_cut && is_first_path_dispensable(states))
			cut(states);
		break;
	default:
		resume(states, qp);
	}
}

void states_check_final(const struct states *states)
{
	const struct world *world = states->world;
	uint32_t events = world->events[0] | world->events[1];

	WORLD_CHECK(world, !states->was_drained || (events & SIGNAL_QP_DRAINED), "nobody was told");
	WORLD_CHECK(world, !(events & SIGNAL_QP_NOT_MIGRATED), "a migration was refused");
	WORLD_CHECK(world, !states->actions[3] || (events & SIGNAL_QP_MIGRATED),
		"nobody heard of a migration");
}
