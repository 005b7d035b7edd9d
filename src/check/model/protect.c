/* SPDX-License-Identifier: BSD-2-Clause */
#include "check/model/protect.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "check/check.h"
#include "check/model/request.h"
#include "check/model/watch.h"
#include "check/report.h"
#include "check/site.h"
#include "check/table.h"

enum { PAGE_SHIFT = 12, PAGE_BYTES = 1 << PAGE_SHIFT };

struct page {
	/* How many entries of requests read the page, and how many write it */
	uint32_t sources, targets;
	int protection; /* the present protection of the page */
	bool is_open; /* the page stays readable and writable until no request uses it */
	bool is_reported;
	uint32_t site; /* the site of the last post that uses the page */
	const struct queue_record *record;
};

static pthread_mutex_t protect_lock = PTHREAD_MUTEX_INITIALIZER;
static struct table pages; /* the pages, by address */
static bool is_started, is_inherited;
static struct sigaction program_action; /* the program's own action for SIGSEGV */
static __typeof__(&sigaction) real_sigaction;

int protect_pages(uintptr_t start, uint64_t bytes, int protection)
{
	return (int)syscall(SYS_mprotect, start, bytes, protection);
}

/* --- pages ----------------------------------------------------------------------------------- */

static struct page *page_find(uintptr_t address)
{
	return table_find(&pages, address | 1);
}

static struct page *page_make(uintptr_t address)
{
	struct page *page = page_find(address);

	if (page)
		return page;
	page = check_allocate(sizeof(*page));
	if (!page)
		return NULL;
	page->protection = PROT_READ | PROT_WRITE;
	pthread_mutex_lock(&check_lock);
	table_set(&pages, address | 1, page);
	pthread_mutex_unlock(&check_lock);
	return page;
}

static int page_protection(const struct page *page)
{
	if (page->is_open || page->sources + page->targets == 0 ||
		(page->sources > 0 && page->targets > 0))
		return PROT_READ | PROT_WRITE;
	return page->targets > 0 ? PROT_NONE : PROT_READ;
}

static void page_apply(struct page *page, uintptr_t address)
{
	int wanted = page_protection(page);

	if (wanted == page->protection)
		return;
	if (protect_pages(address, PAGE_BYTES, wanted) == 0)
		page->protection = wanted;
	else
		page->is_open = true;
}

#define FOR_EACH_PAGE(address, start, bytes)                                          \
	for (uintptr_t address = ((start) + PAGE_BYTES - 1) & -(uintptr_t)PAGE_BYTES; \
		(address) + PAGE_BYTES <= (start) + (bytes); (address) += PAGE_BYTES)

void protect_begin(const struct queue_record *record, uintptr_t start, uint64_t bytes,
	bool is_target, uint32_t site)
{
	if (!is_started || is_inherited || bytes < PAGE_BYTES)
		return;
	pthread_mutex_lock(&protect_lock);
	FOR_EACH_PAGE(address, start, bytes)
	{
		struct page *page = page_make(address);

		if (!page)
			continue;
		if (is_target)
			page->targets++;
		else
			page->sources++;
		page->site = site;
		page->record = record;
		page_apply(page, address);
	}
	pthread_mutex_unlock(&protect_lock);
}

bool protect_end(uintptr_t start, uint64_t bytes, bool is_target)
{
	bool was_reported = false;

	if (!is_started || is_inherited || bytes < PAGE_BYTES)
		return false;
	pthread_mutex_lock(&protect_lock);
	FOR_EACH_PAGE(address, start, bytes)
	{
		struct page *page = page_find(address);

		if (!page)
			continue;
		if (is_target && page->targets > 0)
			page->targets--;
		else if (!is_target && page->sources > 0)
			page->sources--;
		was_reported |= page->is_reported;
		page_apply(page, address);
		if (page->sources + page->targets == 0)
			page->is_open = page->is_reported = false;
	}
	pthread_mutex_unlock(&protect_lock);
	return was_reported;
}

void protect_open(uintptr_t start, uint64_t bytes)
{
	if (!is_started)
		return;
	pthread_mutex_lock(&protect_lock);
	FOR_EACH_PAGE(address, start, bytes)
	{
		struct page *page = page_find(address);

		if (!page || page->sources + page->targets == 0)
			continue;
		page->is_open = true;
		page_apply(page, address);
	}
	pthread_mutex_unlock(&protect_lock);
}

void protect_inherit(void)
{
	is_inherited = true;
	pthread_mutex_init(&protect_lock, NULL);
}

bool protect_is_possible(uintptr_t start, uint64_t bytes)
{
	FILE *maps = is_started ? fopen("/proc/self/maps", "re") : NULL;
	/* Everything before this address is mapped for reading and writing */
	uintptr_t known = start;
	uintptr_t low, high;
	char rights[5], line[512];

	while (maps && known < start + bytes && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &low, &high, rights) != 3 ||
			high <= known)
			continue;
		if (low > known || rights[0] != 'r' || rights[1] != 'w')
			break;
		known = high;
	}
	if (maps)
		fclose(maps);
	return maps && known >= start + bytes;
}

/* --- the handler ----------------------------------------------------------------------------- */

static uintptr_t context_pc(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#else
	return (uintptr_t)context->uc_mcontext.pc;
#endif
}

static bool context_is_write(const ucontext_t *context, const struct page *page)
{
#if defined(__x86_64__)
	(void)page;
	return context->uc_mcontext.gregs[REG_ERR] & 2;
#else
	(void)context;
	return page->protection == PROT_READ;
#endif
}

/* Pass a fault to the program's own handler, or let it end the process. */
static void fault_pass(int number, siginfo_t *info, void *context)
{
	if (program_action.sa_flags & SA_SIGINFO)
		program_action.sa_sigaction(number, info, context);
	else if (program_action.sa_handler != SIG_DFL && program_action.sa_handler != SIG_IGN)
		program_action.sa_handler(number);
	else /* then the instruction runs again, and the signal ends the process */
		real_sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

static void access_report(
	const struct page *was, uintptr_t address, const ucontext_t *context, bool is_write)
{
	uint32_t site = site_of_fault(context_pc(context));
	struct report report;

	if (site_has_library(site) || queue_is_idle(was->record))
		return;
	report_begin(&report, was->targets > 0 ? KIND_TARGET_ACCESSED : KIND_SOURCE_CHANGED);
	report_say(&report, "the program %s 0x%lx, which is the %s of a request of queue pair 0x%x",
		is_write ? "writes" : "reads", (unsigned long)address,
		was->targets > 0 ? "target" : "source", was->record->qp_num);
	report_site(&report, is_write ? "written at" : "read at", site);
	report_site(&report, "posted at", was->site);
	report_end(&report);
}

static void fault_handle(int number, siginfo_t *info, void *context)
{
	static __thread uintptr_t last_open __attribute__((tls_model("initial-exec")));
	uintptr_t address = (uintptr_t)info->si_addr;
	uintptr_t start = address & -(uintptr_t)PAGE_BYTES;
	struct page *page = info->si_code == SEGV_ACCERR ? page_find(start) : NULL;
	int kept_errno = errno;
	struct page was;
	bool is_write;

	if (info->si_code == SEGV_ACCERR && watch_fault(address, context)) {
		errno = kept_errno;
		return;
	}
	if (!page) {
		fault_pass(number, info, context);
		return;
	}
	pthread_mutex_lock(&protect_lock);
	was = *page;
	is_write = context_is_write(context, page);
	if (page->protection != (PROT_READ | PROT_WRITE)) {
		page->is_open = true;
		page->is_reported |= check_depth == 0;
		protect_pages(start, PAGE_BYTES, PROT_READ | PROT_WRITE);
		page->protection = PROT_READ | PROT_WRITE;
		last_open = 0;
	}
	pthread_mutex_unlock(&protect_lock);
	if (was.protection == (PROT_READ | PROT_WRITE)) {
		/*
		 * Another thread has opened the page meanwhile. A second fault at this address has
		 * another cause.
		 */
		if (last_open == address)
			fault_pass(number, info, context);
		last_open = address;
	} else if (check_depth == 0 && !is_inherited) {
		check_depth++;
		access_report(&was, address, context, is_write);
		check_depth--;
	}
	errno = kept_errno;
}

void protect_start(void)
{
	struct sigaction action = {
		.sa_sigaction = fault_handle,
		.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER,
	};

	real_sigaction = (__typeof__(real_sigaction))check_next("sigaction");
	if (sysconf(_SC_PAGESIZE) != PAGE_BYTES)
		return;
	is_started = real_sigaction(SIGSEGV, &action, &program_action) == 0;
}

/* --- the program's own use of signals -------------------------------------------------------- */

CHECK_EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
	CHECK_REAL(sigaction);
	struct sigaction kept = program_action;

	if (number == SIGTRAP && watch_set_action(action, before))
		return 0;
	if (number != SIGSEGV || !is_started)
		return real(number, action, before);
	if (action)
		program_action = *action;
	if (before)
		*before = kept;
	return 0;
}

CHECK_EXPORT sighandler_t signal(int number, sighandler_t handler)
{
	CHECK_REAL(signal);
	sighandler_t kept = program_action.sa_handler;
	struct sigaction action = {.sa_handler = handler}, before;

	if (number == SIGTRAP && watch_set_action(&action, &before))
		return before.sa_handler;
	if (number != SIGSEGV || !is_started)
		return real(number, handler);
	program_action = (struct sigaction){.sa_handler = handler};
	return kept;
}

/*
 * If `set` is to be blocked, copy it to `ret_set` without the signals that the checker needs.
 * Returns the set to use.
 */
static const sigset_t *mask_reduce(int how, const sigset_t *set, sigset_t *ret_set)
{
	if (!set || !is_started || how == SIG_UNBLOCK)
		return set;
	*ret_set = *set;
	sigdelset(ret_set, SIGSEGV);
	sigdelset(ret_set, SIGTRAP);
	return ret_set;
}

CHECK_EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
	CHECK_REAL(pthread_sigmask);
	sigset_t reduced;

	return real(how, mask_reduce(how, set, &reduced), before);
}

CHECK_EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
	CHECK_REAL(sigprocmask);
	sigset_t reduced;

	return real(how, mask_reduce(how, set, &reduced), before);
}
