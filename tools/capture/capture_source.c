/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture/capture_source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/capture_socket.h"
#include "base/arith.h"
#include "common/command.h"
#include "os/clock.h"
#include "os/process.h"
#include "segment/nic_memory.h"

#define LIST_INTERVAL_NS 250000000u
/* A record may be a little newer than the clock that the reader has read before. */
#define FUTURE_NS 1000000000u

enum { NICS_PER_PROCESS_MAX = 16 /* a process has one NIC, and another one after each exec() */ };

/* --- a process --- */

static void ring_discard(struct capture_process *process, const struct record_ring *ring)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t start = (uint64_t)(ring->bytes - process->base) - ARENA_SIDE_BYTES;
	uint64_t end = (start + sizeof(ring->bytes)) & ~(page_bytes - 1);

	start = align_up_u64(start, page_bytes);
	fallocate(process->shared, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)start,
		(off_t)(end - start));
}

static void process_destroy(struct capture_process *process)
{
	if (process->public)
		atomic_store(&nic_public_capture(process->public)->session, 0);
	for (uint32_t i = 0; process->lanes && i < NIC_LANES_MAX; i++) {
		struct record_ring *ring = process->lanes[i].ring;

		if (!ring)
			continue;
		record_ring_skip(ring);
		ring_discard(process, ring);
		capture_lane_done(&process->lanes[i]);
	}
	if (process->base)
		munmap(process->base, ARENA_SPAN(process->bytes));
	if (process->memory >= 0)
		close(process->memory); /* also releases the lock */
	if (process->shared >= 0)
		close(process->shared);
	if (process->pidfd >= 0)
		close(process->pidfd);
	free(process->lanes);
	free(process);
}

/*
 * Open the process's NIC memory again, and lock the byte at NIC_CAPTURE_LOCK_OFFSET. A lock belongs
 * to an open file description, so this lock needs a description that no other descriptor shares.
 *
 * Returns 0; -EBUSY when another process captures; or another -errno.
 */
static int memory_open(struct capture_process *process, int memory, uid_t uid)
{
	struct flock lock = {.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)NIC_CAPTURE_LOCK_OFFSET,
		.l_len = 1};

	process->memory = nic_memory_open(memory, uid, &process->bytes);
	if (process->memory < 0)
		return process->memory;
	if (fcntl(process->memory, F_OFD_SETLK, &lock))
		return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
	return 0;
}

/*
 * Open the peers' side. If the process has sent a descriptor of it, only check that descriptor.
 * Returns 0 or -errno.
 */
static int shared_open(struct capture_process *process)
{
	const struct nic_public *public = nic_public_at(process->base);

	if (process->shared >= 0)
		return nic_memory_check_side(process->shared, process->bytes);
	process->shared = nic_memory_get_shared(process->pidfd, public->shared, process->bytes);
	return process->shared < 0 ? process->shared : 0;
}

static int memory_map(struct capture_process *process)
{
	int error = nic_memory_map(process->memory, process->bytes, &process->base);

	if (!error)
		error = shared_open(process);
	if (!error)
		error = nic_memory_map_shared(process->base, process->bytes, process->shared);
	if (!error)
		process->public = nic_public_at(process->base);
	return error;
}

/* Find the rings of lanes that have started since the last call. */
static void lanes_map(struct capture_process *process)
{
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++) {
		uint64_t offset = atomic_load_explicit(
			&process->public->lanes[i].capture_offset, memory_order_acquire);

		if (process->lanes[i].ring || !offset || offset % ARENA_BLOCK_BYTES_MIN ||
			!range_inside(offset, sizeof(struct record_ring), 0, process->bytes))
			continue;
		process->lanes[i].process = process;
		process->lanes[i].ring =
			(struct record_ring *)arena_peers_side(process->base + offset);
	}
}

/* Discard the records that an earlier capture has left in the rings. */
static void lanes_skip(struct capture_process *process)
{
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++) {
		if (process->lanes[i].ring)
			capture_lane_skip(&process->lanes[i]);
	}
}

/*
 * Turn the capture on, with a session number that most likely no earlier capture had. So the lanes
 * of the process record no repetition of a packet that only an earlier capture has read.
 */
static void session_begin(struct capture_process *process)
{
	process->session = (uint32_t)clock_now_ns() | 1;
	atomic_store(&nic_public_capture(process->public)->session, process->session);
}

static const char *why_not(int error)
{
	if (error == -EBUSY)
		return "another capture reads it";
	if (error == -EPROTO)
		return "it has another version of urnic";
	if (error == -EBADF)
		return "its NIC memory is not that of a NIC";
	if (error == -EACCES)
		return "its NIC memory belongs to another user";
	return strerror(-error);
}

/* --- all of them --- */

/*
 * Is the NIC memory known, or does the process pretend to have more NICs than any honest process?
 */
static bool is_known(const struct capture_sources *sources, pid_t pid, uint64_t identity)
{
	uint32_t nics = 0;

	for (uint32_t i = 0; i < sources->count; i++) {
		const struct capture_process *process = sources->processes[i];

		if (process->pid != pid || process->has_ended)
			continue;
		if (process->identity == identity || ++nics == NICS_PER_PROCESS_MAX)
			return true;
	}
	return false;
}

/* Add a process to the list. Returns NULL when out of memory. */
static struct capture_process *process_add(
	struct capture_sources *sources, pid_t pid, uint64_t identity)
{
	struct capture_process *process = calloc(1, sizeof(*process));
	struct capture_lane *lanes = calloc(NIC_LANES_MAX, sizeof(*lanes));
	struct capture_process **longer = reallocarray(
		sources->processes, sources->count + 1, sizeof(struct capture_process *));
	struct capture_lane **ready = reallocarray(sources->ready,
		(sources->count + 1) * NIC_LANES_MAX, sizeof(struct capture_lane *));

	if (longer)
		sources->processes = longer;
	if (ready)
		sources->ready = ready;
	if (!process || !lanes || !longer || !ready) {
		free(process);
		free(lanes);
		return NULL;
	}
	process->pid = pid;
	process->identity = identity;
	process->memory = -1;
	process->shared = -1;
	process->lanes = lanes;
	process->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	process_name_read(process->pid, process->comm);
	sources->processes[sources->count++] = process;
	return process;
}

/*
 * Begin to capture a process.
 *
 * `memory`  A descriptor of the owner's side of its NIC memory.
 * `shared`  A descriptor of the peers' side, from a process that announces itself. Such a process
 *           has turned its capture on already, so its records are kept. Otherwise -1.
 */
static void take_on(struct capture_sources *sources, pid_t pid, uid_t uid, int memory, int shared)
{
	uint64_t identity = 0;
	struct capture_process *process;
	int error;

	if (pid == getpid() || (sources->only && pid != sources->only))
		return;
	/*
	 * If `memory` is no NIC memory, `identity` stays 0, and memory_open() refuses the
	 * descriptor below. The process stays in the list with identity 0, so a second attempt ends
	 * at is_known(), and the user reads only one message about this process.
	 */
	if (nic_memory_check(memory) == 0 &&
		pread(memory, &identity, sizeof(identity),
			NIC_PUBLIC_OFFSET + offsetof(struct nic_public, identity)) !=
			sizeof(identity))
		return;
	if (is_known(sources, pid, identity))
		return;
	process = process_add(sources, pid, identity);
	if (!process)
		return;
	if (shared >= 0)
		process->shared = fcntl(shared, F_DUPFD_CLOEXEC, 0);
	error = memory_open(process, memory, uid);
	if (!error)
		error = memory_map(process);
	if (error) {
		complain("capture: cannot capture process %d (%s): %s", pid, process->comm,
			why_not(error));
		return;
	}
	lanes_map(process);
	if (shared < 0)
		lanes_skip(process);
	atomic_store(&nic_public_capture(process->public)->snap_bytes, sources->snap_bytes);
	atomic_store(&nic_public_capture(process->public)->with_events, sources->with_events);
	session_begin(process);
}

static void agent_leave(struct capture_sources *sources)
{
	if (sources->has_agent)
		agent_client_done(&sources->agent);
	sources->has_agent = false;
}

/* Capture the processes that urnicd lists. */
static void agent_list(struct capture_sources *sources)
{
	struct agent_process process;
	uint32_t index = 0;
	int error;

	if (!sources->has_agent && agent_client_connect_running(&sources->agent))
		return;
	sources->has_agent = true;
	while ((error = agent_client_list(&sources->agent, &index, &process)) == 0) {
		if (process.memory < 0)
			continue;
		take_on(sources, (pid_t)process.pid, process.uid, process.memory, -1);
		close(process.memory);
	}
	if (error != -ENOENT)
		agent_leave(sources);
}

static void listener_receive(struct capture_sources *sources)
{
	pid_t pid;
	uid_t uid;
	int memory, shared, error;

	while ((error = capture_socket_accept(
			sources->listener.socket, &pid, &uid, &memory, &shared)) != -EAGAIN) {
		if (error == -EMFILE || error == -ENFILE)
			return;
		if (error)
			continue;
		take_on(sources, pid, uid, memory, shared);
		close(memory);
		close(shared);
	}
}

static bool has_ended(const struct capture_process *process)
{
	struct pollfd pollfd = {.fd = process->pidfd, .events = POLLIN};

	return process->pidfd < 0 || poll(&pollfd, 1, 0) > 0;
}

static bool has_records(const struct capture_process *process)
{
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++) {
		const struct capture_lane *lane = &process->lanes[i];

		if (lane->has_record || lane->first ||
			(lane->ring && !record_ring_is_empty(lane->ring)))
			return true;
	}
	return false;
}

/* How many bytes of records wait in memory. */
static uint64_t held_bytes(const struct capture_sources *sources)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < sources->count; i++)
		for (uint32_t j = 0; j < NIC_LANES_MAX; j++)
			bytes += sources->processes[i]->lanes[j].held_bytes;
	return bytes;
}

static uint64_t process_dropped(const struct capture_process *process)
{
	uint64_t dropped = 0;

	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		dropped += capture_lane_dropped(&process->lanes[i]);
	return dropped;
}

/* Add the packets that the process lost after its last record, and free it. */
static void process_forget(struct capture_sources *sources, uint32_t index)
{
	sources->dropped += process_dropped(sources->processes[index]);
	process_destroy(sources->processes[index]);
	sources->processes[index] = sources->processes[--sources->count];
}

void capture_sources_update(struct capture_sources *sources)
{
	uint64_t now_ns = clock_now_ns();

	listener_receive(sources);
	if (now_ns - sources->listed_ns >= LIST_INTERVAL_NS) {
		agent_list(sources);
		sources->listed_ns = now_ns;
	}
	for (uint32_t i = sources->count; i-- > 0;) {
		struct capture_process *process = sources->processes[i];

		if (process->has_ended && !has_records(process)) {
			process_forget(sources, i);
			continue;
		}
		process->has_ended = process->has_ended || has_ended(process);
		if (!process->public)
			continue;
		lanes_map(process);
		/*
		 * The process clears this word when it finds no lock. Set the word again, because
		 * the process may have looked before memory_open() set the lock.
		 */
		atomic_store(&nic_public_capture(process->public)->session, process->session);
	}
}

void capture_sources_begin(struct capture_sources *sources)
{
	int64_t room_bytes = CAPTURE_HELD_BYTES_MAX - (int64_t)held_bytes(sources);

	/* Before the rings: a lane reads the clock before it writes a record. */
	sources->until_ns = clock_now_ns();
	sources->ready_count = 0;
	for (uint32_t i = 0; i < sources->count; i++) {
		for (uint32_t j = 0; j < NIC_LANES_MAX; j++) {
			struct capture_lane *lane = &sources->processes[i]->lanes[j];
			int64_t before_bytes = (int64_t)lane->held_bytes;

			if (lane->ring && capture_lane_move(lane, room_bytes))
				sources->ready[sources->ready_count++] = lane;
			room_bytes -= (int64_t)lane->held_bytes - before_bytes;
		}
	}
}

/*
 * Take the lane's next record. Returns whether it has one. A process that gives a record a time in
 * the future would keep all its records in memory, so no time is later than now.
 */
static bool lane_fill(struct capture_lane *lane, uint64_t until_ns)
{
	bool is_broken = false;
	bool has_record = capture_lane_fill(lane, &is_broken);

	if (is_broken)
		session_begin(lane->process);
	if (has_record && lane->time_ns > until_ns + FUTURE_NS)
		lane->time_ns = until_ns;
	return has_record;
}

struct capture_lane *capture_sources_next(struct capture_sources *sources)
{
	struct capture_lane *oldest = NULL;
	uint64_t oldest_ns = sources->until_ns;

	for (uint32_t i = sources->ready_count; i-- > 0;) {
		struct capture_lane *lane = sources->ready[i];

		if (!lane_fill(lane, sources->until_ns)) {
			sources->ready[i] = sources->ready[--sources->ready_count];
		} else if (lane->time_ns <= oldest_ns) {
			oldest = lane;
			oldest_ns = lane->time_ns;
		}
	}
	return oldest;
}

uint64_t capture_sources_dropped(const struct capture_sources *sources)
{
	uint64_t dropped = sources->dropped;

	for (uint32_t i = 0; i < sources->count; i++)
		dropped += process_dropped(sources->processes[i]);
	return dropped;
}

int capture_sources_open(
	struct capture_sources *sources, uint32_t snap_bytes, bool with_events, pid_t only)
{
	int error;

	*sources = (struct capture_sources){
		.snap_bytes = snap_bytes, .with_events = with_events, .only = only};
	error = capture_socket_listen(&sources->listener);
	if (error == -EADDRINUSE)
		complain(
			"capture: another capture of this user is running in this network namespace");
	else if (error)
		complain("capture: cannot listen: %s", strerror(-error));
	if (error)
		return error;
	capture_sources_update(sources);
	return 0;
}

void capture_sources_close(struct capture_sources *sources)
{
	while (sources->count > 0)
		process_forget(sources, 0);
	free(sources->processes);
	free(sources->ready);
	agent_leave(sources);
	place_leave(&sources->listener);
}
