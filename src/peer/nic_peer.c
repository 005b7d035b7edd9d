/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer/nic_peer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/namespace_lookup.h"
#include "netdev/netdev.h"
#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/yama.h"
#include "peer/absence.h"

static struct list peer_list = {&peer_list, &peer_list}; /* a list of struct nic_peer */
/* the network namespace and the host of this process */
static struct namespace_id own_name;

/* --- getting one --- */

static bool is_of_slot(
	const struct nic_public *public, uint64_t bytes, uint8_t slot, uint32_t *ret_lane)
{
	const uint8_t *base = (const uint8_t *)public - NIC_PUBLIC_OFFSET;

	for (uint32_t i = 0; i < NIC_LANES_MAX; i++) {
		uint64_t offset = atomic_load(&public->lanes[i].lane_offset);
		const struct lane_public *lane;

		if (!offset || offset % ARENA_BLOCK_BYTES_MIN || offset > bytes - sizeof(*lane))
			continue;
		lane = (const struct lane_public *)(const void *)(base + offset);
		if (lane->slot == slot) {
			*ret_lane = i;
			return true;
		}
	}
	return false;
}

bool nic_peer_has_ended(const struct nic_peer *peer)
{
	struct pollfd pollfd = {.fd = peer->life};

	return peer->is_dead || (!peer->is_self && poll(&pollfd, 1, 0) != 0);
}

/*
 * Find the known peer that leases `slot` in this network namespace. Returns NULL when there is
 * none.
 */
static struct nic_peer *peer_of_slot(uint8_t slot)
{
	uint32_t lane;

	list_for_each(peer, &peer_list, struct nic_peer, link)
		if (!peer->is_elsewhere &&
			is_of_slot(peer->public, peer->peer.bytes, slot, &lane) &&
			!nic_peer_has_ended(peer))
			return peer;
	return NULL;
}

/*
 * Get the process that leases the slot, and a descriptor of its NIC memory, from urnicd. The caller
 * has locked the NIC and has its turn (nic_turn_take()). Returns 0 or -errno.
 */
static int process_find(uint8_t slot, struct agent_process *ret_process)
{
	int error;

	nic_request_enter();
	error = agent_client_find(&nic.agent, slot, ret_process);
	nic_request_leave(error ? -1 : ret_process->memory);
	return error;
}

static int identity_read(int memory, uint64_t *ret_identity)
{
	uint64_t magic;
	uint32_t version;

	if (pread(memory, &magic, sizeof(magic),
		    NIC_PUBLIC_OFFSET + offsetof(struct nic_public, magic)) != sizeof(magic) ||
		pread(memory, &version, sizeof(version),
			NIC_PUBLIC_OFFSET + offsetof(struct nic_public, version)) !=
			sizeof(version) ||
		pread(memory, ret_identity, sizeof(*ret_identity),
			NIC_PUBLIC_OFFSET + offsetof(struct nic_public, identity)) !=
			sizeof(*ret_identity))
		return -EPROTO;
	return magic == NIC_PUBLIC_MAGIC && version == NIC_PUBLIC_VERSION ? 0 : -EPROTO;
}

int nic_peer_identify(uint8_t slot, uint64_t *ret_identity)
{
	struct agent_process process;
	int error = nic_request_begin();

	if (error)
		return error;
	error = process_find(slot, &process);
	nic_request_end();
	if (error)
		return error;
	if (process.memory < 0 || process.uid != geteuid())
		error = -EPERM;
	else
		error = identity_read(process.memory, ret_identity);
	if (process.memory >= 0)
		close(process.memory);
	return error;
}

struct qp_public *nic_peer_find_qp(const struct nic_peer *peer, uint32_t number)
{
	const struct lane_public *lane;
	uint64_t offset;
	uint32_t index;

	if (!is_of_slot(peer->public, peer->peer.bytes, (uint8_t)(number >> 16), &index))
		return NULL;
	lane = peer_at(
		&peer->peer, atomic_load(&peer->public->lanes[index].lane_offset), sizeof(*lane));
	offset = lane ? atomic_load(&lane->first_qp_offset) : 0;
	for (uint32_t i = 0; i < LANE_QP_COUNT_MAX; i++) {
		struct qp_public *qp = peer_at(&peer->peer, offset, sizeof(*qp));

		if (!qp || qp->qpn == number)
			return qp;
		offset = qp->next_offset;
	}
	return NULL;
}

static int peer_create(
	const struct agent_process *process, struct nic_peer **ret_peer, const char **ret_call)
{
	int error = nic_peer_open(process, ret_peer, ret_call);

	if (!error)
		list_append(&peer_list, &(*ret_peer)->link);
	return error;
}

/*
 * Log why packets are needed to reach the process. If yama forbids the access, the first such line
 * is at level "error", because the program cannot know that root may allow it.
 *
 * `call`  The system call that failed, or NULL.
 */
static void refusal_say(const struct agent_process *process, int error, const char *call)
{
	static bool is_said;
	/* Yama restricts calls that act like ptrace; pidfd_open() is not one of them. */
	bool may_be_yama = call && error == -EPERM && strcmp(call, "pidfd_open") != 0;
	int scope = may_be_yama ? yama_scope() : YAMA_ABSENT;
	enum log_level level = scope > YAMA_ALL && !is_said ? LOG_ERROR : LOG_INFO;
	char why[128];

	if (scope == YAMA_NONE)
		snprintf(why, sizeof(why),
			"yama forbids %s until a reboot with kernel.yama.ptrace_scope=1", call);
	else if (scope > YAMA_ALL)
		snprintf(why, sizeof(why),
			"yama forbids %s (`sysctl kernel.yama.ptrace_scope=%d` allows it)", call,
			scope == YAMA_RELATED ? YAMA_ALL : YAMA_RELATED);
	else if (call)
		snprintf(why, sizeof(why), "%s: %s%s", call, strerror(-error),
			error == -EPERM || error == -ENOSYS
				? ": a sandbox (seccomp) or a security module refuses it"
				: "");
	else if (error == -EPERM)
		snprintf(why, sizeof(why), "it is another user's");
	else if (error == -EPROTO)
		snprintf(why, sizeof(why), "it runs another version of urnic");
	else
		snprintf(why, sizeof(why), "%s", strerror(-error));
	is_said |= scope > YAMA_ALL;
	log_write(level, "process %u is on this host, but packets are needed to reach it: %s",
		process->pid, why);
}

/* peer_create() that also logs a failure. */
static int create_or_say(const struct agent_process *process, struct nic_peer **ret_peer)
{
	const char *call;
	int error = peer_create(process, ret_peer, &call);

	if (error)
		refusal_say(process, error, call);
	return error;
}

/*
 * Find the process that has the slot, or open it. The caller has locked the NIC and has its turn
 * (nic_turn_take()). Returns 0 or -errno.
 */
static int find_or_create(uint8_t slot, struct nic_peer **ret_peer)
{
	struct agent_process process;
	int error;

	*ret_peer = peer_of_slot(slot);
	if (*ret_peer)
		return 0;
	error = process_find(slot, &process);
	if (error)
		return error;
	error = create_or_say(&process, ret_peer);
	if (process.memory >= 0)
		close(process.memory);
	return error;
}

int nic_peer_get(uint8_t slot, struct nic_peer **ret_peer)
{
	struct nic_peer *peer = peer_of_slot(slot);
	int error = peer ? 0 : nic_request_begin();

	if (!error && !peer) {
		error = find_or_create(slot, &peer);
		nic_request_end();
	}
	if (error)
		return error;
	peer->users++;
	*ret_peer = peer;
	return 0;
}

static struct nic_peer *find_process(uint32_t pid)
{
	list_for_each(peer, &peer_list, struct nic_peer, link)
		if (peer->pid == pid && !nic_peer_has_ended(peer))
			return peer;
	return NULL;
}

int nic_peer_get_process(uint32_t pid, int memory, struct nic_peer **ret_peer)
{
	struct agent_process process = {.pid = pid, .memory = memory};
	struct nic_peer *found = find_process(pid);
	const char *call;
	struct stat stat;
	int error = 0;

	if (fstat(memory, &stat))
		return -errno;
	process.uid = stat.st_uid;
	if (!found)
		error = peer_create(&process, &found, &call);
	if (error) {
		/*
		 * These errors are answers: the process has ended, or is of another user or
		 * version.
		 */
		errno = -error;
		return error == -ESRCH || error == -EPERM || error == -EPROTO
			? error
			: log_refusal("no object is imported", call ? call : "mmap");
	}
	found->users++;
	*ret_peer = found;
	return 0;
}

/* --- in other network namespaces --- */

struct search {
	uint32_t number; /* the number of the queue pair that is searched for */
	struct nic_peer *peer; /* the process that has it; NULL: not found yet */
	bool has_visited; /* true when the search has found a process that has the slot */
	int error;
};

static bool is_it(const struct nic_peer *peer, uint32_t number)
{
	return peer->is_elsewhere && !nic_peer_has_ended(peer) && nic_peer_find_qp(peer, number);
}

/*
 * The process has the slot. If it also has the queue pair, set search->peer, and return true. The
 * NIC is locked.
 */
static bool search_process(struct search *search, const struct agent_process *process)
{
	struct nic_peer *peer = find_process(process->pid);

	/*
	 * The search is in other network namespaces, and this process is in none of them. So a
	 * process there with this PID is in another PID namespace.
	 */
	if (process->pid == (uint32_t)getpid())
		return false;
	if (!peer)
		search->error = create_or_say(process, &peer);
	if (!peer)
		return false;
	peer->users++;
	if (is_it(peer, search->number))
		search->peer = peer;
	else
		nic_peer_put(peer);
	return search->peer;
}

/* The callback of namespace_lookup(), which calls search_process(). The NIC is not locked. */
static bool search_visit(void *context, const struct agent_process *process)
{
	struct search *search = context;
	bool is_found;

	search->has_visited = true;
	nic_enter();
	is_found = search_process(search, process);
	nic_leave();
	return is_found;
}

static int peer_get_elsewhere(const struct gid *gid, uint32_t number, struct nic_peer **ret_peer)
{
	struct search search = {.number = number, .error = -ENOENT};
	const struct gid copy = *gid;
	uint8_t slot = (uint8_t)(number >> 16);
	int before;

	list_for_each(peer, &peer_list, struct nic_peer, link)
		if (is_it(peer, number)) {
			peer->users++;
			*ret_peer = peer;
			return 0;
		}
	if (absence_is_known(&copy, slot, clock_now_ns()))
		return -ENOENT;
	before = nic_wait_begin();
	namespace_lookup(&own_name, slot, &copy, search_visit, &search);
	nic_wait_end(before);
	if (!search.has_visited)
		absence_note(&copy, slot, clock_now_ns());
	if (!search.peer)
		return search.error;
	*ret_peer = search.peer;
	return 0;
}

int nic_peer_get_at(
	const struct gid *gid, uint32_t ifindex, uint32_t number, struct nic_peer **ret_peer)
{
	return netdev_has_address(gid, ifindex) ? nic_peer_get((uint8_t)(number >> 16), ret_peer)
						: peer_get_elsewhere(gid, number, ret_peer);
}

static void part_forget(struct nic_peer *peer)
{
	list_remove(&peer->link);
	nic_peer_close(peer);
}

/* Find the first unused peer in the list, and count the unused ones. */
static struct nic_peer *unused_find(uint32_t *ret_count)
{
	struct nic_peer *first = NULL;

	*ret_count = 0;
	list_for_each(peer, &peer_list, struct nic_peer, link) {
		if (peer->users)
			continue;
		if (!first)
			first = peer;
		++*ret_count;
	}
	return first;
}

void nic_peer_put(struct nic_peer *peer)
{
	struct nic_peer *oldest;
	uint32_t unused_count;

	if (!peer || --peer->users)
		return;
	if (nic_peer_has_ended(peer)) {
		part_forget(peer);
		return;
	}
	list_remove(&peer->link);
	list_append(&peer_list, &peer->link);
	oldest = unused_find(&unused_count);
	if (unused_count > NIC_PEERS_UNUSED_MAX)
		part_forget(oldest);
}

struct nic_peer *nic_peer_ended(void)
{
	list_for_each(peer, &peer_list, struct nic_peer, link)
		if (!peer->is_dead && nic_peer_has_ended(peer))
			return peer;
	return NULL;
}

void nic_peers_end(void)
{
	list_for_each_safe(peer, &peer_list, struct nic_peer, link)
		if (!peer->users && nic_peer_has_ended(peer))
			part_forget(peer);
}

/* Open the eventfd that wakes a lane of the peer. Returns 0 or -errno. */
static int kick_open(struct nic_peer *peer, uint32_t lane)
{
	int fd = peer->public->lanes[lane].kick;

	if (peer->kick[lane] >= 0)
		return 0;
	if (!peer->is_self)
		fd = (int)syscall(SYS_pidfd_getfd, peer->pidfd, fd, 0);
	if (fd < 0)
		return -errno;
	peer->kick[lane] = fd;
	return 0;
}

int nic_peer_reach_lane(struct nic_peer *peer, uint32_t lane, uint64_t *ret_doorbell_offset)
{
	uint64_t offset;

	if (lane >= NIC_LANES_MAX)
		return -ENOENT;
	offset = atomic_load(&peer->public->lanes[lane].doorbell_offset);
	if (!peer_at(&peer->peer, offset, sizeof(struct doorbell)))
		return -ENOENT;
	*ret_doorbell_offset = offset;
	return kick_open(peer, lane);
}

const struct channel_table *nic_peer_channels(struct nic_peer *peer, uint8_t slot)
{
	uint32_t lane;

	if (!is_of_slot(peer->public, peer->peer.bytes, slot, &lane) || kick_open(peer, lane))
		return NULL;
	return peer_at(&peer->peer, atomic_load(&peer->public->lanes[lane].channels_offset),
		sizeof(struct channel_table));
}

const struct ud_endpoint_table *nic_peer_endpoints(
	const struct nic_peer *peer, uint8_t slot, uint32_t *ret_lane)
{
	if (!is_of_slot(peer->public, peer->peer.bytes, slot, ret_lane))
		return NULL;
	return peer_at(&peer->peer, atomic_load(&peer->public->lanes[*ret_lane].endpoints_offset),
		sizeof(struct ud_endpoint_table));
}

/* Unmap segments that peers have withdrawn. */
static void peers_tidy(void)
{
	struct peer_stale *stale = peer_segments_stale();

	if (!stale)
		return;
	nic_enter();
	nic_for_each_worker(nic_worker_pass); /* wait for copies that were in progress */
	nic_leave();
	peer_segments_unmap(stale);
}

/* In the child of a fork: close the descriptors that the child has inherited. */
static void peers_forget(void)
{
	list_for_each_safe(peer, &peer_list, struct nic_peer, link) {
		peer->peer.base = NULL; /* the child has not inherited this mapping */
		nic_peer_close(peer);
	}
	list_init(&peer_list);
}

static void peers_start(void)
{
	own_name = namespace_id_own();
	nic.public->netns = own_name.netns;
}

const struct nic_part nic_peer_part = {
	.start = peers_start,
	.work = peers_tidy,
	.forget = peers_forget,
};
