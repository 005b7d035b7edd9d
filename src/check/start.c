/* SPDX-License-Identifier: BSD-2-Clause */
/* The start of the checker, when the loader has loaded it, and its end at the program's exit. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check/check.h"
#include "check/object.h"
#include "check/protect.h"
#include "check/report.h"
#include "check/request.h"
#include "check/site.h"
#include "check/watch.h"

pthread_mutex_t check_lock = PTHREAD_MUTEX_INITIALIZER;
bool check_is_full;
__thread unsigned check_depth;

/*
 * A library that a program loads with dlopen() is not in the order of RTLD_NEXT, so it is asked by
 * its name.
 */
void *check_next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);
	void *library;

	if (!found && strncmp(name, "ibv_", 4) == 0) {
		library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
		found = library ? dlsym(library, name) : NULL;
	}
	if (!found) {
		fprintf(stderr, "urnic check: no library has %s()\n", name);
		abort();
	}
	return found;
}

void *check_allocate(size_t bytes)
{
	enum { CHUNK_BYTES = 1 << 20 };
	static pthread_mutex_t allocate_lock = PTHREAD_MUTEX_INITIALIZER;
	static char *next;
	static size_t left;
	size_t needed = (bytes + 15) & ~(size_t)15;
	void *memory = NULL;

	pthread_mutex_lock(&allocate_lock);
	if (needed > left) {
		size_t chunk = needed > CHUNK_BYTES ? needed : CHUNK_BYTES;
		void *mapped = mmap(
			NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		next = mapped == MAP_FAILED ? NULL : mapped;
		left = next ? chunk : 0;
	}
	if (needed <= left) {
		memory = next;
		next += needed;
		left -= needed;
	}
	pthread_mutex_unlock(&allocate_lock);
	return memory;
}

static void leaks_report(void)
{
	struct object *object;

	for (uint32_t i = 0; (object = object_next(&i));) {
		struct report report;

		report_begin(&report, KIND_OBJECT_LEAKED);
		report_say(&report, "this %s exists at exit", object_kind_name(object->kind));
		report_site(&report, "made at", object->site_made);
		report_end(&report);
	}
}

static void errors_report(void)
{
	struct queue_record *record;

	for (uint32_t i = 0; (record = queue_next(&i));) {
		struct report report;

		if (!record->qp || record->has_failed || record->was_stopped ||
			record->known->is_inherited || !queue_is_idle(record) ||
			record->sends.tail + record->receives.tail == 0)
			continue;
		report_begin(&report, KIND_ERROR_UNNOTICED);
		report_say(&report, "queue pair 0x%x is in the error state", record->qp_num);
		report_site(&report, "made at", record->known->site_made);
		report_end(&report);
	}
}

/* Only the thread that called fork() is in the child, so no lock is in use. */
static void child_begin(void)
{
	pthread_mutex_init(&check_lock, NULL);
	objects_inherit();
	watch_inherit();
	report_inherit();
}

static void check_finish(int status, void *unused)
{
	(void)unused;
	watch_leave();
	check_depth++;
	errors_report();
	if (status == 0)
		leaks_report();
	report_finish();
	if (report_count() > 0) {
		fflush(NULL);
		_exit(CHECK_EXIT_STATUS);
	}
}

__attribute__((constructor)) static void check_start(void)
{
	const char *mode = secure_getenv("URNIC_CHECK");

	check_is_full = mode && strcmp(mode, "full") == 0;
	report_start(secure_getenv("URNIC_CHECK_REPORT"), secure_getenv("URNIC_CHECK_SUPPRESS"));
	if (check_is_full) {
		protect_start();
		watch_start();
	}
	pthread_atfork(NULL, NULL, child_begin);
	on_exit(check_finish, NULL);
}
