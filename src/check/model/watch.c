/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/model/watch.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check/check.h"
#include "check/model/placer.h"
#include "check/model/protect.h"
#include "check/model/region.h"
#include "check/model/request.h"
#include "check/model/watch_calls.h"
#include "check/report.h"
#include "check/site.h"

#define NS_PER_MS 1000000u

enum {
	PAGE_BYTES = 4096,
	TAIL_BYTES = 8, /* the last bytes of a WRITE, which adapters and urnic store at once */
	WATCHED_BYTES_MAX = 1 << 20,
	READS_MAX = 64,
	POLL_COUNT = 4, /* this many reads of one byte by one instruction count as polling */
	/* Processor time of other threads without any access, after which no thread polls */
	IDLE_WORK_MS = 2,
	OTHER_WORK_MS =
		/*
		 * Processor time of other threads since the last access, after which the polling
		 * thread has left its loop
		 */
	10,
	WAIT_MS = 250, /* the longest wait, for the case that the other threads get no processor */
	POST_WAIT_MS = 50, /* the longest wait for the end of posts by other threads */
	SLEEP_SAMPLES = 20,
	INTERVAL_SHIFT_MAX = 10,
	TRAP_FLAG = 0x100,
};

enum watch_phase {
	WATCH_OFF,
	WATCH_BEFORE, /* no byte is placed; the pages are protected */
	/* A thread polls, and waits in the handler until all bytes but the tail are placed */
	WATCH_PLACING,
	WATCH_AFTER, /* all bytes but the tail are placed; the pages are protected */
};

/* Reads of one address by one instruction of one thread. */
struct watch_read {
	pid_t thread;
	uintptr_t pc, address;
	bool is_library; /* a function of an RDMA library is on the stack */
	bool was_before; /* the thread has read there before anything was placed */
	uint32_t count; /* number of these reads */
	uint32_t site;
};

static struct {
	_Atomic(enum watch_phase) phase;
	uint64_t number; /* the number of the watched WRITE */
	uintptr_t pages, pages_end;
	uintptr_t start, tail; /* the WRITE's first byte, and the first of its last eight */
	struct watch_read reads[READS_MAX];
	uint32_t read_count;
	_Atomic uint64_t access_count; /* number of accesses to the WRITE's range, by any thread */
	const struct watch_read *polled; /* NULL: no thread polls */
	/* A read of another byte by the polling thread since then; NULL: none */
	const struct watch_read *_Atomic taken;
	clockid_t poller_clock;
	_Atomic uint64_t poller_ns; /* processor time of the poller at its last read */
	/* The program waits for the WRITE's last bytes, or the checker cannot tell */
	atomic_bool is_right;
	atomic_bool has_left;
} watch;

/* Guards `watch`. place_begin() and place_wait() read the atomic members without the lock. */
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
/* A WRITE is watched; only one is watched at a time */
static atomic_flag is_busy = ATOMIC_FLAG_INIT;
static bool is_started;
static struct sigaction program_trap;
static __thread bool is_stepping __attribute__((tls_model("initial-exec")));

/* --- pages ----------------------------------------------------------------------------------- */

static void pages_protect(int protection)
{
	protect_pages(watch.pages, watch.pages_end - watch.pages, protection);
}

static bool phase_is_watched(void)
{
	return watch.phase == WATCH_BEFORE || watch.phase == WATCH_AFTER;
}

/* watch_lock is locked. */
static void watch_end(void)
{
	if (phase_is_watched())
		pages_protect(PROT_READ | PROT_WRITE);
	watch.phase = WATCH_OFF;
}

/* --- reads, in handlers of signals ----------------------------------------------------------- */

static pid_t thread_id(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now = {0};

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000 * NS_PER_MS + (uint64_t)now.tv_nsec;
}

static struct watch_read *read_find(pid_t thread, uintptr_t pc, uintptr_t address)
{
	for (uint32_t i = 0; i < watch.read_count; i++) {
		struct watch_read *read = &watch.reads[i];

		if (read->thread == thread && read->pc == pc && read->address == address)
			return read;
	}
	return NULL;
}

/*
 * Add the thread's first read of this address by this instruction. The unwinder may take the
 * loader's lock. A thread that has that lock may wait for watch_lock, so unlock this meanwhile.
 * Returns NULL if the watch is over then, or another one has begun.
 */
static struct watch_read *read_add(pid_t thread, uintptr_t pc, uintptr_t address)
{
	struct watch_read read = {.thread = thread, .pc = pc, .address = address};
	uint64_t number = watch.number;

	pthread_mutex_unlock(&watch_lock);
	read.site = site_of_fault(pc);
	read.is_library = site_has_library(read.site);
	pthread_mutex_lock(&watch_lock);
	if (watch.number != number || !phase_is_watched() || watch.read_count == READS_MAX)
		return NULL;
	read.was_before = watch.phase == WATCH_BEFORE;
	watch.reads[watch.read_count] = read;
	return &watch.reads[watch.read_count++];
}

static struct watch_read *read_note(uintptr_t pc, uintptr_t address)
{
	pid_t thread = thread_id();
	struct watch_read *read = read_find(thread, pc, address);

	if (!read && watch.read_count < READS_MAX)
		read = read_add(thread, pc, address);
	if (read)
		read->count++;
	return read;
}

/*
 * The polling thread waits here until the lane has placed all bytes but the tail. So the thread's
 * next read of the polled byte finds the new value.
 */
static void placing_await(void)
{
	watch.phase = WATCH_PLACING;
	pages_protect(PROT_READ | PROT_WRITE);
	pthread_mutex_unlock(&watch_lock);
	while (atomic_load(&watch.phase) == WATCH_PLACING)
		sched_yield();
	pthread_mutex_lock(&watch_lock);
}

/* A thread reads within the WRITE's range, in the phase WATCH_BEFORE. */
static void read_before(struct watch_read *read)
{
	if (read->address >= watch.tail)
		watch.is_right = true;
	if (read->count < POLL_COUNT || watch.is_right)
		return;
	watch.polled = read;
	pthread_getcpuclockid(pthread_self(), &watch.poller_clock);
	placing_await();
	if (watch.phase == WATCH_AFTER)
		read->count++;
}

/* A thread reads within the WRITE's range, in the phase WATCH_AFTER. */
static void read_after(const struct watch_read *read)
{
	if (read->thread != watch.polled->thread)
		return;
	if (read->count >= POLL_COUNT)
		watch.is_right = true;
	if (!read->was_before && read->address < watch.tail &&
		read->address / TAIL_BYTES != watch.polled->address / TAIL_BYTES && !watch.taken)
		watch.taken = read;
}

static void access_note(uintptr_t pc, uintptr_t address)
{
	struct watch_read *read;

	if (address < watch.start || address >= watch.tail + TAIL_BYTES)
		return;
	watch.access_count++;
	read = read_note(pc, address);
	/*
	 * If there are too many different reads to note (READS_MAX), those that are noted say
	 * enough.
	 */
	if (!read || read->is_library)
		return;
	if (watch.phase == WATCH_BEFORE)
		read_before(read);
	else
		read_after(read);
	if (watch.polled && watch.polled->thread == read->thread)
		watch.poller_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Can a signal handler make a thread execute a single instruction? */
#ifdef __x86_64__
enum { HAS_STEPS = true };

static void step_begin(ucontext_t *context)
{
	context->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
	is_stepping = true;
}

static void step_end(ucontext_t *context)
{
	context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	is_stepping = false;
}

static uintptr_t context_pc(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}
#else
enum { HAS_STEPS = false };

static void step_begin(ucontext_t *context)
{
	(void)context;
}

static void step_end(ucontext_t *context)
{
	(void)context;
}

static uintptr_t context_pc(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.pc;
}
#endif

bool watch_fault(uintptr_t address, ucontext_t *context)
{
	static __thread uintptr_t last __attribute__((tls_model("initial-exec")));
	bool is_ours;

	if (!is_started)
		return false;
	pthread_mutex_lock(&watch_lock);
	is_ours = address >= watch.pages && address < watch.pages_end;
	if (is_ours && phase_is_watched()) {
		if (check_depth > 0) {
			watch_end();
		} else {
			check_depth++;
			access_note(context_pc(context), address);
			check_depth--;
			if (phase_is_watched()) {
				pages_protect(PROT_READ | PROT_WRITE);
				step_begin(context);
			}
		}
		last = 0;
	} else if (is_ours) {
		/*
		 * The watch has ended meanwhile. A second fault at this address has another cause.
		 */
		is_ours = last != address;
		last = address;
	}
	pthread_mutex_unlock(&watch_lock);
	return is_ours;
}

static void trap_pass(int number, siginfo_t *info, void *context)
{
	if (program_trap.sa_flags & SA_SIGINFO)
		program_trap.sa_sigaction(number, info, context);
	else if (program_trap.sa_handler != SIG_DFL && program_trap.sa_handler != SIG_IGN)
		program_trap.sa_handler(number);
	else if (program_trap.sa_handler == SIG_DFL)
		kill(getpid(), SIGKILL);
}

static void trap_handle(int number, siginfo_t *info, void *context)
{
	int kept_errno = errno;

	if (!is_stepping) {
		trap_pass(number, info, context);
		return;
	}
	step_end(context);
	pthread_mutex_lock(&watch_lock);
	if (phase_is_watched())
		pages_protect(PROT_NONE);
	pthread_mutex_unlock(&watch_lock);
	errno = kept_errno;
}

bool watch_set_action(const struct sigaction *action, struct sigaction *ret_before)
{
	struct sigaction kept = program_trap;

	if (!is_started)
		return false;
	if (action)
		program_trap = *action;
	if (ret_before)
		*ret_before = kept;
	return true;
}

/* --- the program's calls --------------------------------------------------------------------- */

void watch_leave(void)
{
	if (watch.phase == WATCH_OFF)
		return;
	pthread_mutex_lock(&watch_lock);
	if (watch.phase == WATCH_AFTER)
		watch.has_left |= watch.polled->thread == thread_id();
	watch_end();
	pthread_mutex_unlock(&watch_lock);
}

void watch_end_at(uintptr_t start, uint64_t bytes)
{
	if (watch.phase == WATCH_OFF)
		return;
	pthread_mutex_lock(&watch_lock);
	if (start < watch.pages_end && watch.pages < start + bytes)
		watch_end();
	pthread_mutex_unlock(&watch_lock);
}

bool watch_is_mine(void)
{
	bool is_mine;

	if (watch.phase != WATCH_AFTER)
		return false;
	pthread_mutex_lock(&watch_lock);
	is_mine = watch.phase == WATCH_AFTER && watch.polled->thread == thread_id();
	pthread_mutex_unlock(&watch_lock);
	return is_mine;
}

void watch_inherit(void)
{
	pthread_mutex_init(&watch_lock, NULL);
	watch_end();
	is_started = false;
}

/* --- placing, in a thread of urnic ----------------------------------------------------------- */

/*
 * Is this WRITE to the region one to watch? The more WRITEs to it were watched, the longer is the
 * interval to the next one.
 */
static bool turn_has_come(struct region *region)
{
	if (region->writes++ < region->watched_next)
		return false;
	region->watched_next = region->writes + (1u << region->watched);
	if (region->watched < INTERVAL_SHIFT_MAX)
		region->watched++;
	return true;
}

/*
 * The processor time of other threads. The result is not exact, because the two clocks are read one
 * after the other.
 */
static uint64_t others_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void pause_shortly(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/*
 * Do all other threads sleep? Look several times, because a polling thread may sleep for a moment
 * while it handles a fault.
 */
static bool others_sleep(void)
{
	for (int i = 0; i < SLEEP_SAMPLES; i++) {
		if (watch_others_run())
			return false;
		pause_shortly();
	}
	return true;
}

/*
 * Wait until a thread polls a byte before the tail. The wait also ends when the other threads have
 * run for a while without an access, or when all of them sleep.
 */
static bool poller_await(void)
{
	uint64_t seen_ns = others_ns(), seen_count = 0;
	uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + WAIT_MS * NS_PER_MS;

	while (watch.phase == WATCH_BEFORE && !watch.is_right &&
		clock_ns(CLOCK_MONOTONIC) < until_ns &&
		others_ns() < seen_ns + (seen_count ? OTHER_WORK_MS : IDLE_WORK_MS) * NS_PER_MS &&
		!others_sleep()) {
		if (watch.access_count != seen_count)
			seen_ns = others_ns();
		seen_count = watch.access_count;
		pause_shortly();
	}
	return watch.phase == WATCH_PLACING;
}

/*
 * Does a posted request use the pages? Look again for some time, because another thread may be in
 * the middle of a post.
 */
static bool request_uses(uintptr_t pages, uint64_t bytes)
{
	uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + POST_WAIT_MS * NS_PER_MS;

	while (request_may_use(pages, bytes)) {
		if (clock_ns(CLOCK_MONOTONIC) > until_ns)
			return true;
		pause_shortly();
	}
	return false;
}

static bool place_begin(const void *memory, size_t bytes, size_t rest)
{
	uintptr_t start = (uintptr_t)memory, end = start + bytes + rest;
	uintptr_t pages = start & -(uintptr_t)PAGE_BYTES;
	uintptr_t pages_end = (end + PAGE_BYTES - 1) & -(uintptr_t)PAGE_BYTES;
	struct region *region;
	bool is_polled;

	if (bytes + rest <= TAIL_BYTES || bytes + rest > WATCHED_BYTES_MAX ||
		(rest > 0 && rest < TAIL_BYTES) || check_depth > 0 ||
		atomic_flag_test_and_set(&is_busy))
		return false;
	region = region_around(pages, pages_end - pages);
	if (!region || !region->is_protectable || !turn_has_come(region) || others_sleep() ||
		watch_calls_count() > 0 || request_uses(pages, pages_end - pages)) {
		atomic_flag_clear(&is_busy);
		return false;
	}
	pthread_mutex_lock(&watch_lock);
	watch.number++;
	watch.pages = pages;
	watch.pages_end = pages_end;
	watch.start = start;
	watch.tail = end - TAIL_BYTES;
	watch.read_count = 0;
	watch.access_count = 0;
	watch.polled = NULL;
	watch.taken = NULL;
	watch.is_right = false;
	watch.has_left = false;
	watch.phase = WATCH_BEFORE;
	pages_protect(PROT_NONE);
	pthread_mutex_unlock(&watch_lock);
	is_polled = poller_await();
	pthread_mutex_lock(&watch_lock);
	if (!is_polled) {
		watch_end();
		atomic_flag_clear(&is_busy);
	}
	pthread_mutex_unlock(&watch_lock);
	return is_polled;
}

static void early_report(void)
{
	struct report report;

	report_begin(&report, KIND_WRITE_POLLED_EARLY);
	report_say(&report,
		"the program polls byte %lu of a WRITE of %lu bytes to 0x%lx, and then reads byte "
		"%lu; the last bytes were not there yet",
		(unsigned long)(watch.polled->address - watch.start),
		(unsigned long)(watch.tail + TAIL_BYTES - watch.start), (unsigned long)watch.start,
		(unsigned long)(watch.taken->address - watch.start));
	report_site(&report, "polled at", watch.polled->site);
	report_site(&report, "read at", watch.taken->site);
	report_end(&report);
}

static void place_wait(void)
{
	uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + WAIT_MS * NS_PER_MS;

	pthread_mutex_lock(&watch_lock);
	for (uint32_t i = 0; i < watch.read_count; i++)
		watch.reads[i].count = 0;
	watch.poller_ns = clock_ns(watch.poller_clock);
	watch.phase = WATCH_AFTER;
	pages_protect(PROT_NONE);
	pthread_mutex_unlock(&watch_lock);
	while (watch.phase == WATCH_AFTER && !watch.is_right && !watch.has_left &&
		clock_ns(CLOCK_MONOTONIC) < until_ns) {
		pause_shortly();
		if (watch.taken &&
			clock_ns(watch.poller_clock) > watch.poller_ns + OTHER_WORK_MS * NS_PER_MS)
			watch.has_left = true;
	}
	pthread_mutex_lock(&watch_lock);
	watch_end();
	pthread_mutex_unlock(&watch_lock);
	if (watch.taken && watch.has_left && !watch.is_right)
		early_report();
	atomic_flag_clear(&is_busy);
}

/* The function that urnic looks for (src/lane/placer.h). */
CHECK_EXPORT const struct urnic_placer *urnic_check_placer(void);

CHECK_EXPORT const struct urnic_placer *urnic_check_placer(void)
{
	static const struct urnic_placer placer = {place_begin, place_wait};

	return is_started ? &placer : NULL;
}

void watch_start(void)
{
	struct sigaction action = {
		.sa_sigaction = trap_handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	if (!HAS_STEPS)
		return;
	is_started = sysconf(_SC_PAGESIZE) == PAGE_BYTES &&
		sigaction(SIGTRAP, &action, &program_trap) == 0;
	site_of_fault(0); /* the first unwinding of a stack takes long, so do it here */
}
