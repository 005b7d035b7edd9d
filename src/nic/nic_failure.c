/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/nic_failure.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/failure_file.h"
#include "nic/nic_probe.h"
#include "os/clock.h"
#include "os/failure_text.h"
#include "os/lock_order.h"
#include "os/log.h"
#include "wire/roce.h"

enum { LINES_PER_SECOND = 20 };

static void failure_noted(const struct failure *failure, uint32_t place);

static struct failures failures = {.noted = failure_noted};
static __thread bool is_explained;
static __thread bool is_cause_logged; /* the log has why the call that ends now has failed */
/* What nic_failure_cause() was told last; reason 0: nothing. */
static __thread struct {
	enum reason reason;
	uint32_t qpn; /* 0: the cause belongs to no queue pair */
	struct failure_facts facts; /* the first fact is the errno */
	/* A sentence about the cause; "": the row of the reason has the whole sentence */
	char why[80];
} cause;

/* Protects all below. A holder takes no other lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char file_path[FAILURE_PATH_BYTES]; /* "": there is no file yet */
static bool is_file_refused; /* no file can be made, so no further attempt is made */
static uint64_t lines_since_ns;
static uint32_t lines;

struct failures *nic_failures(void)
{
	return &failures;
}

/* --- the file --- */

/*
 * Were the requests flushed without an earlier failure? Programs end their connections in this way.
 */
static bool is_plain_flush(const struct failure *failure)
{
	uint64_t first;

	return failure->reason == REASON_FLUSHED &&
		!(failure_fact(failure, FACT_first, &first) && first);
}

/* Does the failure come from a program that searches a table up to its end? */
static bool is_probe(const struct failure *failure)
{
	return failure->reason == REASON_GID_INDEX || failure->reason == REASON_PKEY_INDEX ||
		failure->reason == REASON_PKEY_ABSENT;
}

/*
 * Does this failure alone deserve a file? Some do not: programs also ask for features that a device
 * may lack.
 */
static bool is_worth_a_file(const struct failure *failure)
{
	uint64_t value;

	if (is_plain_flush(failure) || is_probe(failure))
		return false;
	return !failure_fact(failure, FACT_error, &value) || value != EOPNOTSUPP;
}

/* The time of the wall clock at the monotonic time `at_ns`. */
static uint64_t wall_of_ns(uint64_t at_ns)
{
	struct timespec now;
	uint64_t now_ns = clock_now_ns();

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec -
		(now_ns > at_ns ? now_ns - at_ns : 0);
}

/* Make the file with all failures of the list. The lock is held. */
static void file_begin(void)
{
	static struct failure copy[FAILURES_MAX];

	spin_lock(&failures.lock);
	memcpy(copy, failures.list, sizeof(copy));
	spin_unlock(&failures.lock);
	for (uint32_t i = 0; i < FAILURES_MAX; i++)
		if (copy[i].number)
			copy[i].wall_ns = wall_of_ns(copy[i].at_ns);
	if (failure_file_create(copy, file_path)) {
		file_path[0] = '\0';
		is_file_refused = true;
	}
}

static void file_note(const struct failure *failure, uint32_t place)
{
	int error = file_path[0] ? failure_file_write(file_path, failure, place) : -ENOENT;

	if (error != -ENOENT || is_file_refused || !is_worth_a_file(failure))
		return;
	file_begin();
	if (file_path[0])
		failure_file_write(file_path, failure, place);
}

/* --- the log --- */

/* May another line be written to the log now? Logs once per second that lines are left out. */
static bool line_is_due(void)
{
	uint64_t now_ns = clock_now_ns();

	if (!lines_since_ns || now_ns - lines_since_ns >= 1000000000) {
		lines_since_ns = now_ns;
		lines = 0;
	}
	if (++lines == LINES_PER_SECOND)
		log_write(LOG_INFO, "further failures of this second are not logged");
	return lines < LINES_PER_SECOND;
}

/* Does the machine lack what the call needs? */
static bool is_shortage(const struct failure *failure)
{
	return failure->reason == REASON_NO_MEMORY || failure->reason == REASON_NO_DESCRIPTORS;
}

/* A shortage is in the log by default, like a system call that is refused. */
static enum log_level level_of(const struct failure *failure)
{
	return is_shortage(failure) && !is_cause_logged ? LOG_ERROR : LOG_INFO;
}

/* What to do about a shortage, as the end of a sentence; "" for other failures. */
static const char *advice_of(const struct failure *failure)
{
	uint64_t error;

	return is_shortage(failure) && failure_fact(failure, FACT_error, &error)
		? log_advice((int)error)
		: "";
}

static void failure_log(const struct failure *failure)
{
	const struct reason_row *row = reason_find(failure->reason);
	const enum log_level level = level_of(failure);
	char text[REASON_SENTENCE_BYTES], more[REASON_SENTENCE_BYTES], line[1000];
	size_t bytes = 0;

	if (!log_is_on(level) || failure->count > 1 || is_plain_flush(failure) || !line_is_due())
		return;
	if (failure->qpn)
		bytes += (size_t)snprintf(line, sizeof(line), "queue pair 0x%06x: ", failure->qpn);
	if (failure->has_wr_id)
		bytes += (size_t)snprintf(line + bytes, sizeof(line) - bytes,
			"work request %" PRIu64 ": ", failure->wr_id);
	reason_tell(failure, text, sizeof(text));
	bytes += (size_t)snprintf(line + bytes, sizeof(line) - bytes, "%s", text);
	for (uint32_t i = 0; i < failure->facts.count; i++)
		if (reason_tell_fact(failure, i, more, sizeof(more)) && bytes < sizeof(line))
			bytes += (size_t)snprintf(line + bytes, sizeof(line) - bytes, "; %s", more);
	log_write(level, "%.800s%.120s [%s]", line, advice_of(failure), row ? row->name : "?");
}

/* --- reports --- */

/* Add to the failure what the network says of the peer (nic_probe()). The lock is held. */
static void probe_note(struct failure *failure)
{
	int error = nic_probe(&failure->local, &failure->remote);

	if (error == ECONNREFUSED)
		failure_facts_add(&failure->facts, FACT_closed, ROCE_UDP_PORT);
	else if (error)
		failure_facts_add(&failure->facts, FACT_no_way, (uint64_t)error);
}

static void failure_noted(const struct failure *failure, uint32_t place)
{
	struct failure timed = *failure;
	int error = errno;

	timed.wall_ns = wall_of_ns(failure->at_ns);
	pthread_mutex_lock(&lock);
	if (failure->reason == REASON_RETRY_EXCEEDED)
		probe_note(&timed);
	file_note(&timed, place);
	failure_log(&timed);
	pthread_mutex_unlock(&lock);
	errno = error;
}

void nic_failure_add(struct failure *failure)
{
	const struct reason_row *row = reason_find(failure->reason);

	failure->at_ns = clock_now_ns();
	failure->is_repeated = true;
	failures_add(&failures, failure);
	is_explained = row && row->kind == REASON_KIND_CALL;
}

void nic_failure_call(enum reason reason, int error, const char *format, ...)
{
	struct failure failure = {.reason = reason};
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(failure.text, sizeof(failure.text), format, arguments);
	va_end(arguments);
	if (error)
		failure_facts_add(&failure.facts, FACT_error, (uint64_t)error);
	nic_failure_add(&failure);
}

static int cause_begin(enum reason reason, int error)
{
	assert(error > 0);
	cause.reason = reason;
	cause.qpn = 0;
	cause.facts.count = 0;
	cause.why[0] = '\0';
	failure_facts_add(&cause.facts, FACT_error, (uint64_t)error);
	return error;
}

int nic_failure_cause(enum reason reason)
{
	const struct reason_row *row = reason_find(reason);

	assert(row && row->kind == REASON_KIND_CALL);
	return cause_begin(reason, row->error);
}

int nic_failure_cause_text(enum reason reason, int error, const char *format, ...)
{
	va_list arguments;

	cause_begin(reason, error);
	va_start(arguments, format);
	vsnprintf(cause.why, sizeof(cause.why), format, arguments);
	va_end(arguments);
	return error;
}

int nic_failure_cause_fact(enum reason reason, enum fact fact, uint64_t value)
{
	int error = nic_failure_cause(reason);

	failure_facts_add(&cause.facts, fact, value);
	return error;
}

int nic_failure_cause_limit(enum reason reason, uint64_t given, uint64_t limit)
{
	int error = nic_failure_cause_fact(reason, FACT_given, given);

	failure_facts_add(&cause.facts, FACT_limit, limit);
	return error;
}

int nic_failure_cause_if(int error, enum reason reason)
{
	const struct reason_row *row = reason_find(reason);

	return row && row->error == error ? nic_failure_cause(reason) : error;
}

void nic_failure_cause_qpn(uint32_t qpn)
{
	cause.qpn = qpn;
}

/* The reason for an errno of the kernel or the C library, which no check of urnic has explained. */
static enum reason machine_reason(int error)
{
	switch (error) {
	case ENOMEM:
		return REASON_NO_MEMORY;
	case EMFILE:
	case ENFILE:
		return REASON_NO_DESCRIPTORS;
	case EPERM:
	case EACCES:
		return REASON_NOT_PERMITTED;
	case EIO:
		return REASON_GONE;
	default:
		return REASON_REFUSED_CALL;
	}
}

void nic_failure_end(const char *call, int error)
{
	struct failure failure = {.reason = cause.reason, .qpn = cause.qpn, .facts = cause.facts};
	bool is_noted = cause.reason && cause.facts.value[0] == (uint64_t)error;

	is_cause_logged = log_error_take();
	cause.reason = REASON_NONE;
	if (nic_failure_is_explained())
		return;
	if (!is_noted) {
		failure = (struct failure){.reason = machine_reason(error)};
		failure_facts_add(&failure.facts, FACT_error, (uint64_t)error);
	}
	if (is_noted && cause.why[0])
		snprintf(failure.text, sizeof(failure.text), "%s fails: %s: %s", call,
			strerror(error), cause.why);
	else
		snprintf(failure.text, sizeof(failure.text), "%s", call);
	nic_failure_add(&failure);
	nic_failure_is_explained();
	is_cause_logged = false;
	log_error_take(); /* the line of this call says nothing about the next call */
}

bool nic_failure_is_explained(void)
{
	bool is = is_explained;

	is_explained = false;
	return is;
}

void nic_failures_forget(void)
{
	memset(&failures.list, 0, sizeof(failures.list));
	failures.count = 0;
	failures.lock = (struct spin){0};
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	file_path[0] = '\0';
	is_file_refused = false;
	lines_since_ns = 0;
}
