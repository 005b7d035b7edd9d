/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lock: `watch_lock` guards the snapshot and the epoch. id_lock, which guards the lists of
 * identifiers, may be taken with watch_lock locked.
 *
 * Thread: the watching thread of netdev/netdev_watch.h calls interfaces_changed().
 */
#include "front/rdmacm/id/watch.h"

#include <errno.h>
#include <stdlib.h>

#include "front/rdmacm/device.h"
#include "front/rdmacm/id/event_cause.h"
#include "netdev/netdev.h"
#include "netdev/netdev_watch.h"

/*
 * The program's identifiers, guarded by id_lock. Each is in the list of all identifiers, and in the
 * bucket that a hash of its address in memory selects. A bucket that was never used is zeroed.
 */
enum { BUCKETS = 1 << 10 };
static struct list watched_ids = {&watched_ids, &watched_ids};
static struct list id_buckets[BUCKETS];
pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
/* The interfaces as they were last read; NULL: they were not read yet. Guarded by `watch_lock`. */
static struct netdev_list *snapshot_before;
/* nic_cm_epoch() of the process that watches; 0: none. Guarded by `watch_lock`. */
static uint64_t watch_epoch;

/* The caller has locked id_lock. */
static struct list *bucket_of(const struct rdma_cm_id *public)
{
	uint64_t hash = ((uintptr_t) public >> 4) * 0x9e3779b97f4a7c15ull;
	struct list *bucket = &id_buckets[(hash >> 32) % BUCKETS];

	if (!bucket->next)
		list_init(bucket);
	return bucket;
}

void watch_add(struct id *id)
{
	pthread_mutex_lock(&id_lock);
	list_append(&watched_ids, &id->in_ids);
	list_append(bucket_of(&id->id), &id->in_bucket);
	pthread_mutex_unlock(&id_lock);
}

void watch_remove(struct id *id)
{
	pthread_mutex_lock(&id_lock);
	list_remove(&id->in_ids);
	list_remove(&id->in_bucket);
	pthread_mutex_unlock(&id_lock);
}

struct id *id_find(struct rdma_cm_id *public)
{
	struct id *found = NULL;

	pthread_mutex_lock(&id_lock);
	list_for_each(id, bucket_of(public), struct id, in_bucket)
		if (&id->id == public)
			found = id;
	pthread_mutex_unlock(&id_lock);
	if (!found)
		errno = id_cause(public ? REASON_NO_OBJECT : REASON_ATTR_MISSING);
	return found;
}

/* --- addresses that come later --- */

/*
 * The address families in which some listener receives requests at new addresses. These are
 * listeners at the zero address, and listeners at a loopback address (device_find_for_loopback()).
 * New addresses of these families are reported to urnicd, so that urnicd passes on the requests
 * that arrive there.
 */
struct families {
	bool ipv4;
	bool ipv6;
};

static struct families families_find(void)
{
	struct families families = {false, false};

	pthread_mutex_lock(&id_lock);
	list_for_each(id, &watched_ids, struct id, in_ids) {
		const struct cm_listener *listener = &id->listener;
		bool is_dual = gid_is_zero(&listener->address);

		if (id->epoch != nic_cm_epoch() || id->state != ID_LISTENING)
			continue;
		if (gid_is_loopback(&listener->address)) {
			families.ipv4 = families.ipv6 = true;
		} else if (cm_address_is_any(&listener->address)) {
			families.ipv6 |= is_dual;
			families.ipv4 |= !is_dual || !listener->is_ipv6_only;
		}
	}
	pthread_mutex_unlock(&id_lock);
	return families;
}

static void address_receive(const struct gid *gid, uint32_t ifindex, void *argument)
{
	const struct families *families = argument;
	const struct agent_address address = agent_address_of(gid, ifindex);

	if (gid_is_ipv4(gid) ? families->ipv4 : families->ipv6)
		nic_cm_receive_address(&address);
}

static void addresses_receive(void)
{
	struct families families = families_find();

	if (families.ipv4 || families.ipv6)
		device_for_each_gid(DEVICE_KIND_ROCE, address_receive, &families);
}

/* --- interfaces that change or go --- */

static void interface_report(uint32_t ifindex, enum event_cause cause)
{
	pthread_mutex_lock(&id_lock);
	list_for_each(id, &watched_ids, struct id, in_ids)
		if (id->epoch == nic_cm_epoch() && id->device && id->path.ifindex == ifindex)
			id_fail_locked(id, cause, 0, NULL);
	pthread_mutex_unlock(&id_lock);
}

static void interfaces_compare(const struct netdev_list *old, struct netdev_list *new)
{
	for (uint32_t i = 0; i < old->count; i++) {
		const struct netdev *was = &old->devices[i], *is = netdev_find(new, was->ifindex);

		if (!is && new->is_complete)
			interface_report(was->ifindex, CAUSE_INTERFACE_GONE);
		if (is && memcmp(is->mac, was->mac, sizeof(is->mac)) != 0)
			interface_report(was->ifindex, CAUSE_INTERFACE_CHANGED);
	}
}

static void interfaces_changed(void)
{
	struct netdev_list *now;

	addresses_receive();
	if (netdev_list_create(&now))
		return;
	pthread_mutex_lock(&watch_lock);
	if (snapshot_before)
		interfaces_compare(snapshot_before, now);
	free(snapshot_before);
	snapshot_before = now;
	pthread_mutex_unlock(&watch_lock);
}

/* The child of a fork calls this, and then starts to watch anew. */
void watch_fork_child(void)
{
	free(snapshot_before);
	snapshot_before = NULL;
	watch_epoch = 0;
}

void watch_start(void)
{
	bool is_first;

	pthread_mutex_lock(&watch_lock);
	is_first = watch_epoch != nic_cm_epoch();
	watch_epoch = nic_cm_epoch();
	if (is_first && netdev_list_create(&snapshot_before))
		snapshot_before = NULL;
	pthread_mutex_unlock(&watch_lock);
	if (is_first)
		netdev_watch_start(interfaces_changed);
}
