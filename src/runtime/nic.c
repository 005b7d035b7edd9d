/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of the process's NIC: memory, fork, the end.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/arith.h"
#include "runtime/cancel.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/nic_internal.h"
#include "runtime/own_thread.h"
#include "runtime/segment.h"
#include "runtime/setting.h"

/* Address space of NIC memory. Pages that are never touched cost nothing. */
#define NIC_MEMORY_BYTES (64ull << 30)

enum { NIC_LANES_DEFAULT_MAX = 4 };

/* The set-up lock, and what its holder's cancellation state was. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_before;
pthread_mutex_t nic_agent_lock = PTHREAD_MUTEX_INITIALIZER;
struct nic nic;
uint64_t nic_epoch = 1;

void nic_enter(void)
{
	int before = cancel_forbid();

	pthread_mutex_lock(&lock);
	cancel_before = before;
}

void nic_leave(void)
{
	int before = cancel_before;

	pthread_mutex_unlock(&lock);
	cancel_allow(before);
}

uint64_t nic_random_u64(void)
{
	uint64_t value = 0;

	while (getrandom(&value, sizeof(value), 0) != sizeof(value))
		assert(errno == EINTR);
	return value;
}

uint64_t nic_now_ns(void)
{
	return clock_now_ns();
}

void nic_for_each_worker(void (*act)(struct worker *worker))
{
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		if (nic.worker[i])
			act(nic.worker[i]);
}

/* Lock the NIC; if memory of the program's was moved (runtime/segment.h), alone if possible. Returns whether the caller is. */
static bool fork_enter(void)
{
	bool is_moved, is_alone;

	nic_enter();
	is_moved = nic.is_up && segments_count();
	nic_leave();
	is_alone = is_moved && own_threads_park();
	nic_enter();
	return is_alone;
}

/* So that the child finds nothing half done, and shares no memory with its parent. */
static void fork_prepare(void)
{
	bool is_alone = fork_enter();

	nic_cm_fork_prepare();
	nic_iwcm_fork_prepare();
	nic_for_each_worker(worker_lock);
	if (nic.is_up && segments_count()) {
		mr_table_suspend(&nic.mrs);
		segments_unmap(&nic.mrs);
		segments_move_out(is_alone);
		mr_table_resume(&nic.mrs);
	}
	if (is_alone)
		own_threads_unpark();
	pthread_mutex_lock(&nic_agent_lock);
	nic_cm_fork_prepare_user();
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&nic_agent_lock);
	nic_for_each_worker(worker_unlock);
	nic_iwcm_fork_parent();
	nic_cm_fork_parent();
	nic_leave();
}

/*
 * The child has no NIC. The parent's memory must not be touched through what the child inherited,
 * so zeros are laid over it: stray polls and posts on old objects find empty queues of no depth.
 */
static void fork_child(void)
{
	if (nic.is_up) {
		for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
			if (nic.worker[i])
				worker_destroy(nic.worker[i], true);
		nic_flows_forget();
		nic_target_forget();
		nic_far_forget();
		nic_peers_forget();
		close(nic.life[0]);
		close(nic.life[1]);
		free(nic.free_inboxes);
		if (nic.has_agent)
			agent_client_forget(&nic.agent);
		free(nic.srqs);
		segments_forget();
		close(nic.memory);
		void *zeros = mmap(nic.arena.base, NIC_MEMORY_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		if (zeros == MAP_FAILED)
			abort(); /* going on would corrupt the parent */
		memset(&nic, 0, sizeof(nic));
	}
	nic_import_forget();
	nic_iwcm_fork_child();
	nic_cm_fork_child();
	nic_epoch++;
	pthread_mutex_unlock(&nic_agent_lock);
	nic_leave();
}

static void fork_watch(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

void nic_worker_pass(struct worker *worker)
{
	worker_lock(worker);
	worker_unlock(worker);
}

/* A program that ends without destroying its queue pairs still owes what nic_qp_destroy() sends. */
static void worker_say_goodbye(struct worker *worker)
{
	if (worker_try_lock(worker)) {
		worker_send(worker, true);
		worker_unlock(worker);
	}
}

__attribute__((destructor)) static void nic_say_goodbye(void)
{
	nic_for_each_worker(worker_say_goodbye);
}

static uint32_t lane_count_choose(void)
{
	cpu_set_t cpus;
	uint32_t count = 1;

	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		count = (uint32_t)CPU_COUNT(&cpus);
	count = min_u32(max_u32(count, 1), NIC_LANES_DEFAULT_MAX);
	return setting_number("URNIC_LANES", 1, NIC_LANES_MAX, count);
}

/* Past that limit the kernel would not say so, but end the program (SIGXFSZ). */
static bool file_may_be_so_long(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= bytes;
}

static int memory_open(void)
{
	void *base;

	if (!file_may_be_so_long(NIC_MEMORY_BYTES)) {
		log_write(LOG_ERROR,
			"no file for NIC memory: lift the limit on file sizes (ulimit -f)");
		return -EFBIG;
	}

	nic.memory = memfd_create("urnic", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (nic.memory < 0)
		return -errno;
	/* Who maps it relies on its pages. */
	if (ftruncate(nic.memory, (off_t)NIC_MEMORY_BYTES) ||
		fcntl(nic.memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		goto fail_close;
	base = mmap(NULL, NIC_MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		nic.memory, 0);
	if (base == MAP_FAILED)
		goto fail_close;
	arena_init(&nic.arena, base, NIC_MEMORY_BYTES);
	return 0;

fail_close:;
	int error = -errno;
	close(nic.memory);
	log_write(LOG_ERROR,
		"no address space for NIC memory (%s): raise the limit on virtual memory (ulimit -v)",
		strerror(-error));
	return error;
}

int nic_start(void)
{
	static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
	uint64_t offset;
	int error;

	if (nic.is_up)
		return 0;
	pthread_once(&fork_once, fork_watch);
	error = memory_open();
	if (error)
		return error;
	offset = arena_alloc(&nic.arena, sizeof(struct nic_public));
	assert(offset == NIC_PUBLIC_OFFSET);
	nic.public = arena_at(&nic.arena, offset);
	error = mr_table_init(
		&nic.mrs, &nic.arena, MR_SLOT_COUNT_MAX, nic_random_u64(), nic_random_u64());
	if (error)
		goto fail_close_memory;
	error = -ENOMEM;
	nic.srqs = calloc(1, sizeof(*nic.srqs));
	if (!nic.srqs)
		goto fail_mrs_done;
	error = nic_local_start();
	if (error)
		goto fail_free_srqs;
	error = nic_far_start();
	if (error)
		goto fail_close_life;
	error = nic_channel_start();
	if (error)
		goto fail_close_asked;
	list_init(&nic.ahs);
	list_init(&nic.memberships);
	nic.mrs.touch = nic_memory_touch;
	nic.public->magic = NIC_PUBLIC_MAGIC;
	nic.public->version = NIC_PUBLIC_VERSION;
	nic.public->pid = (uint32_t)getpid();
	nic.public->segments_offset = segments_init(&nic.arena);
	nic.lane_count = lane_count_choose();
	nic.link = (enum nic_link)setting_choice("URNIC_LINK", "auto", "off", "on");
	nic_capture_start();
	log_is_on(
		LOG_ERROR); /* tells what is wrong with URNIC_LOG before there is anything to log */
	nic.is_up = true;
	return 0;

fail_close_asked:
	close(nic.asked);
fail_close_life:
	close(nic.life[0]);
	close(nic.life[1]);
fail_free_srqs:
	free(nic.srqs);
fail_mrs_done:
	mr_table_done(&nic.mrs);
fail_close_memory:
	munmap(nic.arena.base, NIC_MEMORY_BYTES);
	close(nic.memory);
	return error;
}
