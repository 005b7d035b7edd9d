/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections within this host. This file finds the process of a queue pair's peer, and connects
 * the queue pair to it through src/local.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/spin.h"
#include "netdev/netdev.h"
#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "nic/object/nic_object.h"
#include "os/clock.h"
#include "os/cold_pool.h"
#include "os/log.h"
#include "os/strict.h"
#include "os/yama.h"
#include "peer/nic_peer.h"
#include "peer/path_log.h"
#include "port/address.h"

/* A queue pair's connection within this host. */
struct nic_local {
	struct local_qp local;
	struct list link; /* in `locals` */
	struct nic_peer *peer;
	uint64_t ring_offset;
};

static struct list locals = {&locals, &locals};

static struct cold_pool initiators = COLD_POOL_OF(struct local_initiator);

/* Offsets of a channel and its ring. */
struct channel_offsets {
	uint64_t channel;
	uint64_t ring;
};

static struct channel_offsets *free_channels; /* the array has room for all channels */
static uint32_t free_channel_count;
static uint32_t channels_made; /* number of channels that were ever allocated */

/*
 * A wait first spins, then yields, then sleeps. It yields only a few times, because a yield may
 * last a whole time slice when other threads want the processor; a sleep ends in time.
 */
enum { WAIT_SPINS = 200, WAIT_YIELDS = 204, WAIT_SLEEP_NS = 50000 };

/* The function local_owner.pause. */
static void wait_pause(uint32_t round)
{
	struct timespec sleep = {.tv_nsec = WAIT_SLEEP_NS};

	if (round < WAIT_SPINS)
		spin_pause();
	else if (round < WAIT_YIELDS)
		sched_yield();
	else
		clock_nanosleep(CLOCK_MONOTONIC, 0, &sleep, NULL);
}

/* The function local_owner.wait. */
static bool process_wait(uint32_t who, uint32_t round)
{
	if (round >= WAIT_YIELDS && !nic_peer_is_alive(who))
		return false;
	wait_pause(round);
	return true;
}

/*
 * How long two operations wait for a peer that was suspended in the middle of a copy: DEREGISTER_NS
 * for a deregistration, and SUSPEND_NS for an operation that suspends all keys (a fork, or a move
 * of memory).
 */
enum { DEREGISTER_NS = 100000000, SUSPEND_NS = 10000000 };

/* The function mr_table.quiesce. The NIC is locked. */
static bool key_quiesce(uint32_t key)
{
	uint64_t until_ns = clock_now_ns() + (key ? DEREGISTER_NS : SUSPEND_NS);
	bool is_quiet = borrower_quiesce(&nic.owner, &nic.mrs, key, until_ns);

	list_for_each(local, &locals, struct nic_local, link)
		is_quiet = channel_quiesce(
				   local->local.channel, &nic.owner, &nic.mrs, key, until_ns) &&
			is_quiet;
	if (!is_quiet)
		log_write(LOG_INFO,
			"a process of this host has stopped in the middle of a copy to or from "
			"registered memory: its request falls back to packets");
	return is_quiet;
}

static void local_start(void)
{
	if (nic.is_local_on)
		yama_admit_all();
	nic.owner.wait = process_wait;
	nic.owner.pause = wait_pause;
	nic.owner.now_ns = clock_now_ns;
	while (!nic.owner.who)
		nic.owner.who = (uint32_t)nic_random_u64();
	nic.mrs.quiesce = key_quiesce;
	mr_table_publish(&nic.mrs, &nic.arena, &nic.public->mrs);
	nic.public->base = (uint64_t)(uintptr_t)nic.arena.base;
	nic.public->identity = nic_random_u64();
}

static int local_lane_start(struct worker *worker, struct nic_public_lane *public)
{
	uint64_t doorbell, channels;

	doorbell = arena_alloc(&nic.arena, sizeof(struct doorbell));
	if (!doorbell)
		return -ENOMEM;
	worker->local.owner = &nic.owner;
	worker->local.doorbell = arena_peers_side(arena_at(&nic.arena, doorbell));
	public->kick = worker->kick;
	atomic_store(&public->doorbell_offset, doorbell);
	if (!nic.is_local_on)
		return 0;
	channels = arena_alloc(&nic.arena, sizeof(struct channel_table));
	if (!channels)
		return -ENOMEM;
	worker->channels = arena_at(&nic.arena, channels);
	atomic_store(&public->channels_offset, channels);
	return 0;
}

/* Allocate a channel, and room for it in `free_channels`. Returns 0 or -ENOMEM. */
static int channel_make(struct channel_offsets *ret_offsets)
{
	struct channel_offsets *grown;

	/*
	 * Double the array, because a program may have many queue pairs, and each takes a channel.
	 */
	if (!(channels_made & (channels_made - 1))) {
		grown = realloc(free_channels, (2 * channels_made + 1) * sizeof(*free_channels));
		if (!grown)
			return -ENOMEM;
		free_channels = grown;
	}
	ret_offsets->channel = arena_alloc_both(&nic.arena, sizeof(struct request_channel));
	ret_offsets->ring = arena_alloc_shared(&nic.arena, sizeof(struct channel_ring));
	if (!ret_offsets->channel || !ret_offsets->ring) {
		arena_free(&nic.arena, ret_offsets->channel);
		arena_free(&nic.arena, ret_offsets->ring);
		return -ENOMEM;
	}
	channels_made++;
	return 0;
}

/* Get a free channel, which was used before or is new. Returns 0 or -ENOMEM. */
static int channel_take(struct local_channel *place)
{
	struct channel_offsets offsets;

	if (free_channel_count) {
		offsets = free_channels[--free_channel_count];
	} else {
		int error = channel_make(&offsets);

		if (error)
			return error;
	}
	place->offset = offsets.channel;
	place->ring_offset = offsets.ring;
	place->channel = arena_peers_side(arena_at(&nic.arena, offsets.channel));
	place->ring = arena_peers_side(arena_at(&nic.arena, offsets.ring));
	return 0;
}

static _Atomic uint64_t *channel_entry(const struct nic_qp *qp)
{
	return &qp->worker->channels->offset[qp->qp->qpn % CHANNEL_TABLE_COUNT];
}

/* Has the queue pair one peer, with which it may exchange requests? */
static bool is_connected_type(enum qp_type type)
{
	return type == QP_TYPE_RC || type == QP_TYPE_UC || type == QP_TYPE_XRC_SEND ||
		type == QP_TYPE_XRC_RECV;
}

/*
 * Count the connection as local_unreachable. With -ENOENT no process of this host has the peer's
 * queue pair, and there is nothing to count. With any other `error` a process has the queue pair,
 * but its memory cannot be accessed, and nic_peer_get_at() has logged why.
 */
static void count_unreachable(const struct nic_qp *qp, int error)
{
	if (error == -ENOENT)
		return;
	worker_lock(qp->worker);
	qp_count(qp->qp, COUNTER_local_unreachable, 1);
	worker_unlock(qp->worker);
}

/* Find the process on this host that has the peer of the queue pair. Returns 0 or -errno. */
static int peer_find_of(const struct nic_qp *qp, struct nic_peer **ret_peer)
{
	const struct qp_attr *attr = &qp->qp->attr;
	const struct gid *remote = &attr->path.remote;
	int error = nic_peer_get_at(remote, attr->path.ifindex, attr->dest_qpn, ret_peer);

	if (!error)
		path_log_local(remote, (*ret_peer)->pid);
	else if (error == -ENOENT)
		path_log_packets(
			remote, "no process of this user that is visible here has its queue pair");
	else
		path_log_packets(remote, "its process is on this host and cannot be accessed");
	return error;
}

/*
 * Is queue pair `qpn` missing: does no process of this network namespace have it? If a process's
 * NIC memory cannot be read, its queue pair is assumed to exist.
 */
static bool is_missing(uint32_t qpn)
{
	struct nic_peer *peer;
	int error = nic_peer_get((uint8_t)(qpn >> 16), &peer);
	bool is_found;

	if (error)
		return error == -ENOENT;
	is_found = nic_peer_find_qp(peer, qpn) != NULL;
	nic_peer_put(peer);
	return !is_found;
}

static void check_loopback(struct nic_qp *qp)
{
	const struct qp_attr *attr = &qp->qp->attr;
	char text[ADDRESS_TEXT_BYTES];

	/*
	 * Do not check XRC queue pairs, because an XRC_RECV queue pair does not send to the number
	 * that it is connected with.
	 */
	if (qp->qp->type == QP_TYPE_XRC_SEND || qp->qp->type == QP_TYPE_XRC_RECV ||
		!gid_is_loopback(&attr->path.remote) || !is_missing(attr->dest_qpn))
		return;
	log_write(LOG_ERROR,
		"queue pair 0x%06x is connected with queue pair 0x%06x of %s, but no process here "
		"has that one; a loopback address never leads to another host: use a device of "
		"another interface",
		qp->qp->qpn, attr->dest_qpn, gid_to_text(&attr->path.remote, 0, text));
	worker_lock(qp->worker);
	qp->qp->is_peer_missing = true;
	worker_unlock(qp->worker);
}

static bool local_begin(struct nic_qp *qp)
{
	struct local_initiator *initiator;
	struct local_channel place;
	struct nic_peer *peer;
	struct nic_local *local;
	int error;

	if (!is_connected_type(qp->qp->type))
		return false;
	if (!nic.is_local_on)
		path_log_packets(&qp->qp->attr.path.remote,
			nic.impair                  ? "URNIC_IMPAIR or URNIC_FAULTS impairs them"
				: strict_adapters() ? "URNIC_STRICT is on"
						    : "URNIC_LOCAL is off");
	if (!nic.is_local_on || !qp->worker->channels || qp->local)
		return false;
	error = peer_find_of(qp, &peer);
	if (error) {
		count_unreachable(qp, error);
		return false;
	}
	local = calloc(1, sizeof(*local));
	initiator = cold_pool_take(&initiators);
	/*
	 * While the NIC was unlocked, another process that has this XRC_RECV queue pair open may
	 * have reset it, or connected it again.
	 */
	if (!local || !initiator || qp->local || atomic_load(&qp->qp->public->state) != QP_RTR ||
		channel_take(&place)) {
		nic_peer_put(peer);
		cold_pool_give(&initiators, initiator, false);
		free(local);
		return false;
	}
	local->peer = peer;
	local->ring_offset = place.ring_offset;
	place.lane = &qp->worker->local;
	place.srqs_offset = qp->qp->type == QP_TYPE_XRC_RECV ? nic_srq_share() : 0;
	list_append(&locals, &local->link);
	worker_lock(qp->worker);
	qp->local = local;
	local_connect(&local->local, initiator, qp->qp, &place, &local->peer->peer,
		nic_peer_channels(peer, (uint8_t)(qp->qp->attr.dest_qpn >> 16)));
	worker_unlock(qp->worker);
	atomic_store(channel_entry(qp), place.offset);
	return !peer->is_self;
}

static void peer_forget(struct nic_peer *peer)
{
	peer->is_dead = true;
	list_for_each(local, &locals, struct nic_local, link) {
		struct worker *worker;

		if (local->peer != peer)
			continue;
		worker = container_of(local->local.qp->lane, struct worker, lane);
		worker_lock(worker);
		local_forget_peer(&local->local);
		worker_unlock(worker);
	}
	NIC_PARTS_CALL(peer_exited, peer);
}

static void peers_check(void)
{
	struct nic_peer *peer;

	nic_enter();
	while ((peer = nic_peer_ended()))
		peer_forget(peer); /* the last user of the peer closes it */
	nic_peers_end();
	nic_leave();
}

static void local_end(struct nic_qp *qp)
{
	struct local_initiator *initiator = qp->qp->initiator;
	struct nic_local *local = qp->local;
	bool is_free;

	if (!local)
		return;
	atomic_store(channel_entry(qp), 0);
	worker_lock(qp->worker);
	is_free = local_disconnect(&local->local, clock_now_ns());
	qp->local = NULL;
	worker_unlock(qp->worker);
	if (is_free)
		free_channels[free_channel_count++] =
			(struct channel_offsets){local->local.channel_offset, local->ring_offset};
	list_remove(&local->link);
	nic_peer_put(local->peer);
	cold_pool_give(&initiators, initiator, initiator->qp != NULL);
	free(local);
}

static bool local_connected(struct nic_qp *qp)
{
	check_loopback(qp);
	return local_begin(qp);
}

/* The hook nic_part.srq_leave. */
static bool xrc_leave(void)
{
	bool is_free = true;

	list_for_each(local, &locals, struct nic_local, link)
		if (local->local.qp->type == QP_TYPE_XRC_RECV)
			is_free = local_wait(&local->local) && is_free;
	return is_free;
}

static bool local_borrowers_leave(void)
{
	return borrower_wait(&nic.owner);
}

static void local_forget(void)
{
	list_init(&locals);
	free(free_channels);
	free_channels = NULL;
	free_channel_count = 0;
	channels_made = 0;
}

const struct nic_part nic_local_part = {
	.start = local_start,
	.lane_start = local_lane_start,
	.peers_check = peers_check,
	.qp_connected = local_connected,
	.qp_disconnected = local_end,
	.srq_leave = xrc_leave,
	.borrowers_leave = local_borrowers_leave,
	.forget = local_forget,
};
