/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opens a process of this host, so that its NIC memory is mapped, its other memory can be copied,
 * and its lanes can be woken. The operations of struct peer are here, in two kinds: for another
 * process, and for this one, whose memory needs no mapping and no system call.
 */
#include "peer/nic_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/once.h"
#include "nic/nic_control.h"
#include "nic/nic_internal.h"
#include "nic/object/nic_object.h"
#include "os/cancel.h"
#include "os/futex.h"
#include "os/kick.h"
#include "os/log.h"
#include "segment/nic_memory.h"

/*
 * The offset, in the file of a peer's NIC memory, of the bytes that its users lock. Process `who`
 * locks the byte number `who`.
 */
#define LOCKS_OFFSET (1ull << 40)

enum { PIECES_MAX = 2 };

/* --- other processes' memory --- */

static struct nic_peer *nic_peer_of(struct peer *peer)
{
	return container_of(peer, struct nic_peer, peer);
}

/*
 * Split the range so that its last eight bytes are a piece of their own. The kernel copies the
 * pieces in order, so these bytes, which the peer may poll, are written last.
 */
static unsigned pieces_of(uint8_t *start, size_t bytes, struct iovec pieces[PIECES_MAX])
{
	size_t tail_bytes = bytes > sizeof(uint64_t) ? sizeof(uint64_t) : 0;

	pieces[0] = (struct iovec){start, bytes - tail_bytes};
	pieces[1] = (struct iovec){start + bytes - tail_bytes, tail_bytes};
	return tail_bytes ? 2 : 1;
}

static bool process_write(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes)
{
	struct iovec local = {(void *)(uintptr_t)from, bytes};
	struct iovec remote[PIECES_MAX];
	unsigned count = pieces_of((uint8_t *)(uintptr_t)to, bytes, remote);

	return process_vm_writev((pid_t)nic_peer_of(peer)->pid, &local, 1, remote, count, 0) ==
		(ssize_t)bytes;
}

static bool process_read(struct peer *peer, uint8_t *to, uint64_t from, size_t bytes)
{
	struct iovec local = {to, bytes};
	struct iovec remote = {(void *)(uintptr_t)from, bytes};

	return process_vm_readv((pid_t)nic_peer_of(peer)->pid, &local, 1, &remote, 1, 0) ==
		(ssize_t)bytes;
}

static void peer_kick(struct peer *peer, uint32_t lane)
{
	struct nic_peer *nic_peer = nic_peer_of(peer);
	uint64_t one = 1;
	int before = cancel_forbid();
	int fd = lane < NIC_LANES_MAX ? nic_peer->kick[lane] : -1;

	if (fd >= 0 && write(fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		log_write(
			LOG_INFO, "process %u cannot be woken: %s", nic_peer->pid, strerror(errno));
	cancel_allow(before);
}

/* The function peer_ops.map. It finds the mapping by the extent that the region's slot names. */
static uint8_t *process_map(
	struct peer *peer, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	struct nic_peer *nic_peer = nic_peer_of(peer);
	struct mr_extent extent;
	uint64_t there;

	if (!mr_region_extent(&peer->mrs, region, &extent) || address >= extent.end)
		return NULL;
	if (address < extent.start) {
		*bytes = min_u64(*bytes, extent.start - address);
		return NULL;
	}
	*bytes = min_u64(*bytes, extent.end - address);
	if (extent.segment != SEGMENT_NIC_MEMORY)
		return peer_segments_at(&nic_peer->segments, extent.segment, address, *bytes);
	there = READ_ONCE(nic_peer->public->base) + ARENA_SIDE_BYTES;
	if (!range_inside(address, *bytes, there, peer->bytes))
		return NULL;
	return peer->base + ARENA_SIDE_BYTES + (address - there);
}

/*
 * Returns this process's copy of the waiter's eventfd, or a negative number. Any thread may call.
 */
static int eventfd_of(struct nic_peer *peer, const struct waiter *waiter)
{
	ptrdiff_t number = waiter - peer->peer.waiters->waiter;
	_Atomic int *slot = &peer->eventfd[number];
	int theirs = atomic_load(&waiter->eventfd);
	int fd = atomic_load(slot), none = -1;

	if (peer->is_self || fd != none)
		return peer->is_self ? theirs : fd;
	fd = (int)syscall(SYS_pidfd_getfd, peer->pidfd, theirs, 0);
	if (fd < 0)
		fd = NIC_PEER_REFUSED;
	atomic_store(&peer->raised[number], atomic_load(&waiter->cleared));
	if (atomic_compare_exchange_strong(slot, &none, fd))
		return fd;
	/* Another thread has stored its copy first. */
	if (fd >= 0)
		close(fd);
	return none;
}

static bool peer_wake(struct peer *peer, struct waiter *waiter, enum waiter_state state)
{
	struct nic_peer *nic_peer = nic_peer_of(peer);
	_Atomic uint32_t *raised = &nic_peer->raised[waiter - peer->waiters->waiter];
	uint32_t number;
	int fd;

	if (state == WAITER_SLEEPS) {
		futex_wake(waiter_wakes(waiter));
		return true;
	}
	fd = eventfd_of(nic_peer, waiter);
	if (fd < 0)
		return false;
	/*
	 * If the peer's program computes while many messages come, only the first message needs a
	 * write.
	 */
	if (waiter_is_raised(waiter, atomic_load(raised)))
		return true;
	number = atomic_fetch_add(waiter_raises(waiter), 1) + 1;
	kick_raise(fd);
	atomic_store(raised, number);
	return true;
}

/*
 * Does process `who` have its lock on the NIC memory `memory`, which this process has opened?
 * Returns true if `who` is this process.
 */
static bool has_lock(int memory, uint32_t who)
{
	struct flock lock = {.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)(LOCKS_OFFSET + who),
		.l_len = 1};

	if (who == nic.owner.who)
		return true;
	return fcntl(memory, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

static bool peer_is_alive(struct peer *peer, uint32_t who)
{
	const struct nic_peer *nic_peer = nic_peer_of(peer);

	return has_lock(nic_peer->is_self ? nic.memory : nic_peer->memory, who);
}

static const struct peer_ops process_ops = {
	.write = process_write,
	.read = process_read,
	.map = process_map,
	.kick = peer_kick,
	.wake = peer_wake,
	.is_alive = peer_is_alive,
};

/* --- ourselves --- */

static uint8_t *self_map(
	struct peer *peer, const struct mr_slot *region, uint64_t address, uint64_t *bytes)
{
	(void)peer;
	(void)region;
	(void)bytes;
	return (uint8_t *)(uintptr_t)address;
}

static const struct peer_ops self_ops = {
	.map = self_map,
	.kick = peer_kick,
	.wake = peer_wake,
	.is_alive = peer_is_alive,
};

/* --- opened and closed --- */

/*
 * Lock this process's byte, and map the owner's side, with address space for the peers' side above
 * it. The file is sealed, so the owner cannot shrink it while it is mapped. Returns 0 or -errno.
 */
static int memory_map(struct nic_peer *peer)
{
	struct flock lock = {.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)(LOCKS_OFFSET + nic.owner.who),
		.l_len = 1};
	int error;

	if (fcntl(peer->memory, F_OFD_SETLK, &lock))
		return -errno;
	error = nic_memory_map(peer->memory, peer->peer.bytes, &peer->peer.base);
	if (error)
		return error;
	madvise(peer->peer.base, ARENA_SPAN(peer->peer.bytes), MADV_DONTFORK);
	peer->public = nic_public_at(peer->peer.base);
	peer->identity = peer->public->identity;
	peer->is_elsewhere = peer->public->netns != nic.public->netns;
	peer->peer.waiters =
		peer_at(&peer->peer, peer->public->waiters_offset, sizeof(struct waiter_table));
	return mr_table_view(
		&peer->peer.mrs, peer->peer.base, peer->peer.bytes, &peer->public->mrs);
}

/* Map the peers' side, whose descriptor is copied from the peer's process. Returns 0 or -errno. */
static int shared_map(struct nic_peer *peer, const char **ret_call)
{
	int shared = nic_memory_get_shared(peer->pidfd, peer->public->shared, peer->peer.bytes);
	int error;

	if (shared < 0) {
		*ret_call = "pidfd_getfd";
		return shared;
	}
	error = nic_memory_map_shared(peer->peer.base, peer->peer.bytes, shared);
	close(shared);
	if (!error)
		madvise(peer->peer.base + ARENA_SIDE_BYTES, peer->peer.bytes, MADV_DONTFORK);
	return error;
}

/*
 * Check that the process is the one whose NIC memory is mapped, and that this process may access
 * its other memory. Then map the peers' side, and watch for the process's end. Returns 0 or -errno.
 */
static int process_open(struct nic_peer *peer, const char **ret_call)
{
	uint64_t identity = 0;
	uint64_t at =
		peer->public->base + NIC_PUBLIC_OFFSET + offsetof(struct nic_public, identity);
	int error;

	peer->pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
	if (peer->pidfd < 0) {
		*ret_call = "pidfd_open";
		return -errno;
	}
	errno = EFAULT; /* a read of too few bytes sets no errno */
	if (!process_read(&peer->peer, (uint8_t *)&identity, at, sizeof(identity))) {
		*ret_call = "process_vm_readv";
		return -errno;
	}
	if (identity != peer->identity)
		return -ESRCH;
	error = shared_map(peer, ret_call);
	if (error)
		return error;
	peer->life = (int)syscall(SYS_pidfd_getfd, peer->pidfd, peer->public->life, 0);
	if (peer->life < 0)
		return -errno;
	return nic_peer_has_ended(peer) ? -ESRCH : nic_control_watch_peer(peer->life);
}

void nic_peer_close(struct nic_peer *peer)
{
	if (!peer->is_self) {
		peer_segments_done(&peer->segments, !peer->peer.base);
		if (peer->peer.base)
			munmap(peer->peer.base, ARENA_SPAN(peer->peer.bytes));
		for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
			if (peer->kick[i] >= 0)
				close(peer->kick[i]);
		for (uint32_t i = 0; i < WAITER_COUNT; i++)
			if (peer->eventfd[i] >= 0)
				close(peer->eventfd[i]);
		if (peer->life >= 0)
			/* The close takes the pipe out of the control thread's epoll set */
			close(peer->life);
		if (peer->pidfd >= 0)
			close(peer->pidfd);
		if (peer->memory >= 0)
			close(peer->memory);
	}
	free(peer);
}

static int self_open(struct nic_peer *peer)
{
	int error;

	peer->is_self = true;
	peer->peer.base = nic.arena.base;
	peer->peer.bytes = nic.arena.bytes;
	peer->peer.ops = &self_ops;
	peer->public = nic.public;
	peer->identity = nic.public->identity;
	peer->peer.waiters = nic.waiters;
	error = mr_table_view(&peer->peer.mrs, nic.arena.base, nic.arena.bytes, &nic.public->mrs);
	peer->peer.mrs.touch = nic_memory_touch;
	return error;
}

static int segments_open(struct nic_peer *peer)
{
	const struct segment_public *list = peer_at(&peer->peer, peer->public->segments_offset,
		SEGMENT_COUNT_MAX * sizeof(struct segment_public));

	int error = peer_segments_init(&peer->segments, list, peer->pidfd);

	peer->segments.on_stale = nic_control_wake; /* the control thread then calls peers_tidy() */
	return error;
}

static int other_open(
	struct nic_peer *peer, const struct agent_process *process, const char **ret_call)
{
	int error;

	/*
	 * Root may get the memory of any user's process, but processes of different users do not
	 * share memory.
	 */
	if (process->memory < 0 || process->uid != geteuid())
		return -EPERM;
	peer->peer.ops = &process_ops;
	peer->memory = nic_memory_open(process->memory, geteuid(), &peer->peer.bytes);
	if (peer->memory < 0)
		return peer->memory;
	error = memory_map(peer);
	if (!error)
		error = process_open(peer, ret_call);
	return error ? error : segments_open(peer);
}

int nic_peer_open(
	const struct agent_process *process, struct nic_peer **ret_peer, const char **ret_call)
{
	struct nic_peer *peer = calloc(1, sizeof(*peer));
	int error;

	*ret_call = NULL;
	if (!peer)
		return -ENOMEM;
	peer->pid = process->pid;
	peer->memory = -1;
	peer->pidfd = -1;
	peer->life = -1;
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		peer->kick[i] = -1;
	for (uint32_t i = 0; i < WAITER_COUNT; i++)
		peer->eventfd[i] = -1;
	error = process->pid == (uint32_t)getpid() ? self_open(peer)
						   : other_open(peer, process, ret_call);
	if (error) {
		nic_peer_close(peer);
		return error;
	}
	*ret_peer = peer;
	return 0;
}

bool nic_peer_is_alive(uint32_t who)
{
	return has_lock(nic.memory, who);
}
