/* SPDX-License-Identifier: BSD-2-Clause */
/* The NIC of the process from start to end: its memory, forks, and the exit of the program. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/arith.h"
#include "lane/placer.h"
#include "local/channel/borrower.h"
#include "memory/copy.h"
#include "nic/nic_control.h"
#include "nic/nic_fabric.h"
#include "nic/nic_failure.h"
#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "os/cancel.h"
#include "os/kick.h"
#include "os/log.h"
#include "os/own_thread.h"
#include "os/setting.h"
#include "os/strict.h"
#include "segment/segment.h"
#include "worker/worker_streams.h"

/*
 * The size of each of the two sides of NIC memory. NIC memory is address space: the kernel
 * allocates a page only when the process touches that page. Valgrind's search for leaks reads all
 * of NIC memory, and so makes the kernel allocate all pages. So NIC memory is smaller under
 * Valgrind.
 */
#define NIC_MEMORY_BYTES          ARENA_SIDE_BYTES
#define NIC_MEMORY_BYTES_VALGRIND (256ull << 20)

enum { NIC_LANES_DEFAULT_MAX = 4, LAST_TRIES = 100 };

/* The set-up lock, and the cancellation state that its holder had before it took the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_before;
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

int nic_wait_begin(void)
{
	int before = cancel_before;

	pthread_mutex_unlock(&lock);
	return before;
}

void nic_wait_end(int before)
{
	pthread_mutex_lock(&lock);
	cancel_before = before;
}

struct worker *nic_worker_next(uint32_t *index)
{
	struct worker *worker = NULL;

	while (!worker && *index < NIC_LANES_MAX)
		worker = __atomic_load_n(&nic.worker[(*index)++], __ATOMIC_ACQUIRE);
	return worker;
}

void nic_for_each_worker(void (*act)(struct worker *worker))
{
	struct worker *worker;

	for (uint32_t i = 0; (worker = nic_worker_next(&i));)
		act(worker);
}

struct worker *nic_worker_of_slot(uint32_t slot)
{
	struct worker *worker;
	uint32_t i = 0;

	do
		worker = nic_worker_next(&i);
	while (worker && worker->lane.slot != slot);
	return worker;
}

/*
 * Lock the NIC. If memory of the program was moved (segment/segment.h), first park urnic's threads.
 * That works only if the caller is the only other thread. Returns whether they are parked.
 */
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

/*
 * Before a fork: take all locks, so that the child gets consistent objects, and stop sharing the
 * program's memory, so that parent and child do not share it.
 */
static void fork_prepare(void)
{
	bool is_alone = fork_enter();

	nic_for_each_worker(worker_lock);
	NIC_PARTS_CALL_BACKWARDS(fork_prepare);
	if (nic.is_up && segments_count()) {
		bool is_quiet = mr_table_suspend(&nic.mrs);

		segments_unmap(&nic.mrs);
		segments_move_out(is_alone, is_quiet);
		mr_table_resume(&nic.mrs);
	}
	if (is_alone)
		own_threads_unpark();
	pthread_mutex_lock(&nic_agent_lock);
	NIC_PARTS_CALL_BACKWARDS(fork_prepare_last);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&nic_agent_lock);
	NIC_PARTS_CALL(fork_parent);
	nic_for_each_worker(worker_unlock);
	nic_leave();
}

/*
 * The child has no NIC. Map zeros over NIC memory, because it is the parent's. If the child polls
 * or posts to an inherited object, it finds an empty queue of depth 0.
 */
static void fork_child(void)
{
	if (nic.is_up) {
		for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
			if (nic.worker[i]) {
				lock_order_give(&nic.worker[i]->lock);
				worker_destroy(nic.worker[i], true);
			}
		nic_link_forget();
		nic_control_forget();
		NIC_PARTS_CALL_BACKWARDS(forget);
		close(nic.work_kick);
		close(nic.life[0]);
		close(nic.life[1]);
		nic_agent_forget();
		free(nic.srqs);
		segments_forget();
		close(nic.memory);
		close(nic.shared);
		void *zeros =
			mmap(nic.arena.base, ARENA_SPAN(nic.arena.bytes), PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		if (zeros == MAP_FAILED)
			abort(); /* otherwise the child would write to the parent's NIC memory */
		memset(&nic, 0, sizeof(nic));
	}
	NIC_PARTS_CALL(fork_child);
	nic_random_forget();
	nic_fabric_forget();
	nic_failures_forget();
	nic_epoch++;
	pthread_mutex_unlock(&nic_agent_lock);
	nic_leave();
}

static void fork_hooks_add(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

void nic_fork_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fork_hooks_add);
}

void nic_worker_pass(struct worker *worker)
{
	worker_lock(worker);
	worker_unlock(worker);
}

/*
 * The program ends without destroying its queue pairs: send what nic_qp_destroy() would send. This
 * function only tries to lock the worker: if a signal handler has called exit(), this thread itself
 * may have the worker locked already.
 */
static void worker_send_last(struct worker *worker)
{
	const struct timespec pause = {.tv_nsec = 100000};

	for (int tries = 0; tries < LAST_TRIES; tries++) {
		if (worker_try_lock(worker)) {
			worker_send(worker, true);
			if (worker->port)
				port_udp_release(worker->port);
			worker_streams_finish(worker);
			worker_unlock(worker);
			return;
		}
		nanosleep(&pause, NULL);
	}
}

__attribute__((destructor)) static void nic_send_last(void)
{
	nic_for_each_worker(worker_send_last);
}

static uint32_t lane_count_choose(void)
{
	cpu_set_t cpus;
	uint32_t count = 1;

	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		count = (uint32_t)CPU_COUNT(&cpus);
	count = placer_find() ? 1 : min_u32(max_u32(count, 1), NIC_LANES_DEFAULT_MAX);
	return setting_number("URNIC_LANES", 1, NIC_LANES_MAX, count);
}

static uint64_t memory_bytes_choose(void)
{
	const char *preloads = setting_text("LD_PRELOAD");

	return preloads && strstr(preloads, "/vgpreload_") ? NIC_MEMORY_BYTES_VALGRIND
							   : NIC_MEMORY_BYTES;
}

/*
 * Does RLIMIT_FSIZE permit a file of this size? If not, the kernel would return no error, but would
 * end the program by SIGXFSZ.
 */
static bool file_may_be_so_long(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= bytes;
}

/*
 * Create the memfd of one side. It is sealed against shrinking, because peers would crash if pages
 * that they have mapped vanished. Returns the memfd or -errno.
 */
static int side_open(const char *name, uint64_t bytes)
{
	int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	int error;

	if (file < 0)
		return log_refusal("no NIC memory", "memfd_create");
	if (!ftruncate(file, (off_t)bytes) &&
		!fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return file;
	error = log_refusal("no NIC memory", "ftruncate");
	close(file);
	return error;
}

static bool side_map(uint8_t *at, uint64_t bytes, int file)
{
	return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file,
		       0) != MAP_FAILED;
}

/*
 * Map both sides (base/arena.h): the owner's side, and the peers' side ARENA_SIDE_BYTES behind its
 * start. Returns 0 or -errno.
 */
static int sides_map(uint64_t bytes)
{
	uint8_t *base = mmap(NULL, ARENA_SPAN(bytes), PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int error;

	if (base == MAP_FAILED)
		return -errno;
	if (!side_map(base, bytes, nic.memory) ||
		!side_map(base + ARENA_SIDE_BYTES, bytes, nic.shared)) {
		error = -errno;
		munmap(base, ARENA_SPAN(bytes));
		return error;
	}
	/*
	 * From here on no other process can map the owner's side for writing. Linux before 5.1 does
	 * not have this seal.
	 */
	fcntl(nic.memory, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	arena_init(&nic.arena, base, bytes);
	return 0;
}

static void memory_close(void)
{
	munmap(nic.arena.base, ARENA_SPAN(nic.arena.bytes));
	close(nic.shared);
	close(nic.memory);
}

static int memory_open(void)
{
	uint64_t bytes = memory_bytes_choose();
	int error;

	if (!file_may_be_so_long(bytes)) {
		log_write(LOG_ERROR,
			"no file for NIC memory: lift the limit on file sizes (ulimit -f)");
		return -EFBIG;
	}
	nic.memory = side_open("urnic", bytes);
	if (nic.memory < 0)
		return nic.memory;
	nic.shared = side_open("urnic-shared", bytes);
	if (nic.shared < 0) {
		close(nic.memory);
		return nic.shared;
	}
	error = sides_map(bytes);
	if (!error)
		return 0;
	close(nic.shared);
	close(nic.memory);
	log_write(LOG_ERROR,
		"no address space for NIC memory (%s): raise the limit on virtual memory (ulimit -v)",
		strerror(-error));
	return error;
}

static int key_table_init(void)
{
	struct permutation *permutation = nic_permutation_draw();
	int error;

	if (!permutation)
		return -ENOMEM;
	error = mr_table_init(&nic.mrs, &nic.arena, MR_SLOT_COUNT_MAX, permutation);
	free(permutation);
	return error;
}

/*
 * Create the table in which borrowers of this process's memory leave requests. Returns NULL when
 * out of memory.
 */
static struct borrower_table *borrowers_make(void)
{
	uint64_t offset = arena_alloc(&nic.arena, sizeof(struct borrower_table));

	if (!offset)
		return NULL;
	nic.public->borrowers_offset = offset;
	return arena_peers_side(arena_at(&nic.arena, offset));
}

/* Allocate the waiters of completion channels. Returns 0 or -ENOMEM. */
static int waiters_make(void)
{
	uint64_t offset = arena_alloc(&nic.arena, sizeof(struct waiter_table));

	if (!offset)
		return -ENOMEM;
	nic.waiters = arena_at(&nic.arena, offset);
	nic.public->waiters_offset = offset;
	return 0;
}

/* Make the pipe that breaks when this process ends, and the eventfd of nic_control_wake(). */
static int life_make(void)
{
	if (pipe2(nic.life, O_CLOEXEC))
		return log_refusal("no NIC", "pipe2");
	nic.public->life = nic.life[0];
	nic.work_kick = kick_create("no NIC");
	if (nic.work_kick >= 0)
		return 0;
	close(nic.life[0]);
	close(nic.life[1]);
	return nic.work_kick;
}

/* Make the tables of objects. Returns 0 or -errno. */
static int tables_make(void)
{
	int error = key_table_init();

	if (error)
		return error;
	error = -ENOMEM;
	nic.srqs = calloc(1, sizeof(*nic.srqs));
	if (!nic.srqs)
		goto fail_mrs_done;
	nic.owner.borrowers = borrowers_make();
	if (!nic.owner.borrowers)
		goto fail_free_srqs;
	error = waiters_make();
	if (error)
		goto fail_free_srqs;
	list_init(&nic.ahs);
	list_init(&nic.memberships);
	list_init(&nic.xrcds);
	nic.mrs.now_ns = clock_now_ns;
	return 0;

fail_free_srqs:
	free(nic.srqs);
fail_mrs_done:
	mr_table_done(&nic.mrs);
	return error;
}

/* Fill in what other processes have to know of this process. */
static void public_fill(void)
{
	nic.public->magic = NIC_PUBLIC_MAGIC;
	nic.public->version = NIC_PUBLIC_VERSION;
	nic.public->pid = (uint32_t)getpid();
	nic.public->shared = nic.shared;
	nic.public->segments_offset = segments_init(&nic.arena);
}

static void choices_read(void)
{
	nic.lane_count = lane_count_choose();
	nic_congestion_start();
	nic_impair_start();
	nic.is_selective_on = setting_choice("URNIC_SELECTIVE", "on", "off", NULL) == 0;
	nic.is_spinning_off = setting_choice("URNIC_POLL", "on", "off", NULL) != 0;
	nic.is_local_on = setting_choice("URNIC_LOCAL", "on", "off", NULL) == 0 && !nic.impair &&
		!nic_fabric_is_wanted() && !strict_adapters() && !placer_find();
	if (strict_adapters())
		place_payload = copy_place_tail_first;
	nic.link = (enum nic_link)setting_choice(
		"URNIC_LINK", "auto", "off", "on", "xdp", "xdp-generic", NULL);
}

int nic_start(void)
{
	uint64_t offset;
	int error;

	if (nic.is_up)
		return 0;
	nic_fork_watch();
	error = nic_random_start();
	if (!error)
		error = memory_open();
	if (error)
		return error;
	offset = arena_alloc(&nic.arena, sizeof(struct nic_public));
	assert(offset == NIC_PUBLIC_OFFSET);
	nic.public = arena_at(&nic.arena, offset);
	error = tables_make();
	if (error)
		goto fail_close_memory;
	error = life_make();
	if (error)
		goto fail_done_tables;
	nic_agent_start();
	public_fill();
	choices_read();
	NIC_PARTS_CALL(start);
	nic_capture_start();
	/* Reports an invalid value of URNIC_LOG, before any other line of the log */
	log_is_on(LOG_ERROR);
	nic.is_up = true;
	return 0;

fail_done_tables:
	free(nic.srqs);
	mr_table_done(&nic.mrs);
fail_close_memory:
	memory_close();
	return error;
}
