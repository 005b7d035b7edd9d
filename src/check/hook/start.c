/* SPDX-License-Identifier: BSD-2-Clause */
/* The start of the checker, after the loader has loaded it, and its end, at the program's exit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/check.h"
#include "check/model/object.h"
#include "check/model/protect.h"
#include "check/model/request.h"
#include "check/model/watch.h"
#include "check/report.h"
#include "check/site.h"

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

		if (record->has_failed || record->was_stopped || !queue_has_error(record) ||
			record->sends.tail + record->receives.tail == 0)
			continue;
		report_begin(&report, KIND_ERROR_UNNOTICED);
		report_say(&report, "queue pair 0x%x is in the error state", record->qp_num);
		report_site(&report, "made at", record->known->site_made);
		report_end(&report);
	}
}

/* The child of a fork has only the thread that called fork(), so no thread has a lock. */
static void child_begin(void)
{
	struct queue_record *record;

	check_inherit();
	requests_inherit();
	for (uint32_t i = 0; (record = queue_next(&i));) {
		record->rest.lock = record->sends.lock = record->receives.lock =
			(struct owned_lock){0};
		queue_wake(record->object);
	}
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

	check_find_real();
	check_is_full = mode && strcmp(mode, "full") == 0;
	report_start(secure_getenv("URNIC_CHECK_REPORT"), secure_getenv("URNIC_CHECK_SUPPRESS"));
	if (check_is_full) {
		protect_start();
		watch_start();
	}
	pthread_atfork(NULL, NULL, child_begin);
	on_exit(check_finish, NULL);
}
