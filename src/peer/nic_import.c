/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer/nic_import.h"

#include <assert.h>
#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arith.h"
#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "nic/object/nic_object.h"
#include "os/log.h"
#include "peer/nic_owner.h"
#include "peer/nic_peer.h"

#define EXPORT_COUNT (1u << NIC_EXPORT_INDEX_BITS)

static_assert(sizeof(struct nic_export) == 64, "a cache line each");

/* What an importer reads at nic_locator.address in the owner's memory. */
struct location {
	uint64_t nonce; /* random, the same as in the locator; 0: not drawn yet */
	int32_t memory; /* the owner's descriptor of its NIC memory; -1: nothing was exported yet */
	uint32_t reserved;
};

static struct location location = {.memory = -1};

/* --- the owner --- */

void nic_locate(struct nic_locator *ret_locator)
{
	nic_enter();
	while (!location.nonce)
		location.nonce = nic_random_u64();
	*ret_locator = (struct nic_locator){
		.pid = (uint32_t)getpid(),
		.address = (uintptr_t)&location,
		.nonce = location.nonce,
	};
	nic_leave();
}

static void import_fork_child(void)
{
	location = (struct location){.memory = -1};
}

const struct nic_part nic_import_part = {.fork_child = import_fork_child};

int nic_export_start(void)
{
	int error;

	nic_enter();
	error = nic_start();
	nic_leave();
	return error;
}

/*
 * Get the table of exports in NIC memory; the first call allocates it. Returns NULL when NIC memory
 * is full. Also returns NULL when there is no NIC, because objects from before a fork cannot be
 * exported. The NIC is locked.
 */
static struct nic_export *table_get(void)
{
	if (!nic.is_up)
		return NULL;
	if (!nic.public->exports_offset)
		nic.public->exports_offset =
			arena_alloc(&nic.arena, EXPORT_COUNT * sizeof(struct nic_export));
	location.memory = nic.memory;
	return nic.public->exports_offset ? arena_at(&nic.arena, nic.public->exports_offset) : NULL;
}

static void export_write(uint32_t handle, const struct nic_export *export)
{
	struct nic_export *table;

	nic_enter();
	table = table_get();
	if (table) {
		struct nic_export *place = &table[handle % EXPORT_COUNT];

		place->kind = export->kind;
		place->opening = export->opening;
		place->key = export->key;
		place->bytes = export->bytes;
		place->offset = export->offset;
		atomic_store_explicit(&place->handle, handle, memory_order_release);
	}
	nic_leave();
}

void nic_export_pd(uint32_t handle, uint64_t opening)
{
	export_write(handle, &(struct nic_export){.kind = NIC_EXPORT_PD, .opening = opening});
}

void nic_export_mr(uint32_t handle, uint64_t opening, uint32_t key, uint64_t bytes)
{
	struct nic_export export = {
		.kind = NIC_EXPORT_MR, .opening = opening, .key = key, .bytes = bytes};

	export_write(handle, &export);
}

void nic_export_dm(uint32_t handle, uint64_t opening, const struct nic_dm *dm)
{
	struct nic_export export = {.kind = NIC_EXPORT_DM, .opening = opening, .bytes = dm->bytes};

	if (!arena_contains(&nic.arena, dm->memory))
		return; /* device memory that is itself imported cannot be exported */
	export.offset = arena_offset(&nic.arena, arena_owners_side(dm->memory));
	export_write(handle, &export);
}

void nic_export_end(uint32_t handle)
{
	nic_enter();
	if (nic.is_up && nic.public->exports_offset) {
		struct nic_export *table = arena_at(&nic.arena, nic.public->exports_offset);
		struct nic_export *place = &table[handle % EXPORT_COUNT];

		if (atomic_load(&place->handle) == handle)
			atomic_store(&place->handle, 0);
	}
	nic_leave();
}

/* --- the importer --- */

static int object_locate(const struct nic_locator *locator, struct location *ret_location)
{
	struct iovec local = {ret_location, sizeof(*ret_location)};
	struct iovec remote = {(void *)(uintptr_t)locator->address, sizeof(*ret_location)};

	if (process_vm_readv((pid_t)locator->pid, &local, 1, &remote, 1, 0) !=
		sizeof(*ret_location))
		return errno == EFAULT ? -ESRCH : -errno;
	return ret_location->nonce == locator->nonce ? 0 : -ESRCH;
}

int nic_import_look(const struct nic_locator *locator)
{
	struct location there;

	return object_locate(locator, &there);
}

/*
 * `call` has failed. If the process has ended, or is another user's, that is an answer for the
 * caller, and is not logged. Returns -errno.
 */
static int import_refused(const char *call)
{
	return errno == ESRCH || errno == EPERM ? -errno
						: log_refusal("no object is imported", call);
}

/*
 * Get a descriptor of the NIC memory of the process at `locator`. Returns the descriptor, or
 * -errno.
 */
static int memory_get(const struct nic_locator *locator)
{
	struct location there;
	int error = object_locate(locator, &there);
	int pidfd, memory;

	if (error)
		return error;
	if (there.memory < 0)
		return -ENOENT; /* that process has never exported anything */
	pidfd = (int)syscall(SYS_pidfd_open, locator->pid, 0);
	if (pidfd < 0)
		return import_refused("pidfd_open");
	memory = (int)syscall(SYS_pidfd_getfd, pidfd, there.memory, 0);
	if (memory < 0)
		memory = import_refused("pidfd_getfd");
	close(pidfd);
	return memory;
}

/*
 * Prepare to wake one lane of the owner. That lane executes the requests that only the owner can
 * execute; without a lane that can be woken, these requests fail.
 */
static void reach_some_lane(struct nic_owner *owner)
{
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		if (owner->process.doorbell_offset[i] ||
			!nic_peer_reach_lane(owner->peer, i, &owner->process.doorbell_offset[i]))
			return;
}

/*
 * Get the owner at `locator`, and a reference to it. The NIC is locked. Returns 0 or -errno.
 */
static int host_open(const struct nic_locator *locator, struct nic_owner **ret_owner)
{
	struct worker *worker;
	int memory, error;

	error = locator->pid == (uint32_t)getpid() ? -EINVAL : nic_start();
	if (!error)
		/* This starts the control thread, which notices the end of the owner */
		error = nic_worker_get(0, &worker);
	if (error)
		return error;
	memory = memory_get(locator);
	if (memory < 0)
		return memory;
	error = nic_owner_get_process(locator->pid, memory, ret_owner);
	if (!error)
		reach_some_lane(*ret_owner);
	return error;
}

/* Read the owner's entry for the object. Returns 0 or -ENOENT. */
static int export_read(const struct nic_owner *owner, uint64_t opening, uint32_t handle,
	enum nic_export_kind kind, struct nic_export *ret_export)
{
	const struct peer *peer = &owner->peer->peer;
	const struct nic_export *table =
		peer_at(peer, owner->peer->public->exports_offset, EXPORT_COUNT * sizeof(*table));
	const struct nic_export *place;

	if (!table || !handle)
		return -ENOENT;
	place = &table[handle % EXPORT_COUNT];
	if (atomic_load_explicit(&place->handle, memory_order_acquire) != handle)
		return -ENOENT;
	ret_export->kind = place->kind;
	ret_export->opening = place->opening;
	ret_export->key = place->key;
	ret_export->bytes = place->bytes;
	ret_export->offset = place->offset;
	return ret_export->kind == kind && ret_export->opening == opening ? 0 : -ENOENT;
}

/*
 * Find the owner and its entry for the object. The NIC is locked. On success the caller has a
 * reference to *ret_owner.
 */
static int object_import(const struct nic_locator *locator, uint64_t opening, uint32_t handle,
	enum nic_export_kind kind, struct nic_owner **ret_owner, struct nic_export *ret_export)
{
	int error = host_open(locator, ret_owner);

	if (error)
		return error;
	error = export_read(*ret_owner, opening, handle, kind, ret_export);
	if (error)
		nic_owner_put(*ret_owner);
	return error;
}

int nic_import_pd(
	const struct nic_locator *locator, uint64_t opening, uint32_t handle, uint32_t *ret_pd)
{
	struct nic_export export;
	struct nic_owner *owner;
	int error;

	nic_enter();
	error = object_import(locator, opening, handle, NIC_EXPORT_PD, &owner, &export);
	if (!error) {
		error = nic_domain_add(owner, handle, ret_pd);
		nic_owner_put(owner);
	}
	nic_leave();
	return error;
}

void nic_unimport_pd(uint32_t pd)
{
	nic_enter();
	if (nic.is_up)
		nic_domain_remove(pd);
	nic_leave();
}

int nic_import_mr(const struct nic_locator *locator, uint64_t opening, uint32_t handle,
	uint32_t *ret_key, uint64_t *ret_bytes)
{
	struct nic_export export;
	struct nic_owner *owner;
	int error;

	nic_enter();
	error = object_import(locator, opening, handle, NIC_EXPORT_MR, &owner, &export);
	if (!error) {
		*ret_key = export.key;
		*ret_bytes = export.bytes;
		nic_owner_put(owner);
	}
	nic_leave();
	return error;
}

int nic_import_dm(
	const struct nic_locator *locator, uint64_t opening, uint32_t handle, struct nic_dm *ret_dm)
{
	struct nic_export export;
	struct nic_owner *owner;
	int error;

	nic_enter();
	error = object_import(locator, opening, handle, NIC_EXPORT_DM, &owner, &export);
	if (!error && !range_inside(export.offset, export.bytes, 0, owner->peer->peer.bytes)) {
		nic_owner_put(owner);
		error = -EINVAL;
	}
	if (!error)
		*ret_dm = (struct nic_dm){
			.memory = arena_peers_side(owner->peer->peer.base + export.offset),
			.bytes = export.bytes,
			.epoch = nic_epoch,
			.owner = owner,
			.release = nic_owner_put,
		};
	nic_leave();
	return error;
}
