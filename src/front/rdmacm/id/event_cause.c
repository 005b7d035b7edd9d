/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/rdmacm/id/event_cause.h"

#include <errno.h>
#include <limits.h>

#include "wire/cm/cm_message.h"

enum { GIVEN = INT_MAX };

/* Older headers do not define this event. */
#define RDMA_CM_EVENT_ADDRINFO_ERROR ID_EVENT_ADDRINFO_ERROR

static const struct cause_row {
	int type; /* enum rdma_cm_event_type */
	int status;
	enum reason reason;
	const char *why;
} cause_rows[] = {
#define EVENT_CAUSE(name, event, status, reason, why) \
	[CAUSE_##name] = {RDMA_CM_EVENT_##event, status, REASON_##reason, why},
#include "queue/event_cause.def"
#undef EVENT_CAUSE
};

static int cause_status(const struct cause_row *row, int given)
{
	return row->status == GIVEN ? given : row->status;
}

static void cause_report(const struct id *id, const struct cause_row *row, const char *why)
{
	id_report_failure(id, row->reason, row->why ? row->why : why);
}

void id_fail_event(struct id *id, struct id_event *event, enum event_cause cause, int given)
{
	const struct cause_row *row = &cause_rows[cause];

	cause_report(id, row, NULL);
	event->type = (enum rdma_cm_event_type)row->type;
	id_post_event(id, event, cause_status(row, given));
}

void id_fail_locked(struct id *id, enum event_cause cause, int given, const char *why)
{
	const struct cause_row *row = &cause_rows[cause];

	cause_report(id, row, why);
	id_post_locked(id, &id->events[row->type], cause_status(row, given));
}

void id_fail(struct id *id, enum event_cause cause, int given, const char *why)
{
	pthread_mutex_lock(&id_lock);
	id_fail_locked(id, cause, given, why);
	pthread_mutex_unlock(&id_lock);
}

void id_fail_taken(
	const struct id *id, struct rdma_cm_event *event, enum event_cause cause, int given)
{
	const struct cause_row *row = &cause_rows[cause];

	cause_report(id, row, NULL);
	event->event = (enum rdma_cm_event_type)row->type;
	event->status = cause_status(row, given);
}

enum event_cause event_cause_of_reject(uint32_t code)
{
	switch (code) {
	case CM_REJECT_INVALID_SERVICE_ID:
		return CAUSE_REJ_NO_LISTENER;
	case CM_REJECT_CONSUMER:
		return CAUSE_REJ_CONSUMER;
	default:
		return CAUSE_REJ_MANAGER;
	}
}

enum event_cause event_cause_of_stream(int error)
{
	switch (error) {
	case -ECONNREFUSED:
		return CAUSE_STREAM_REFUSED;
	case -ECONNRESET:
		return CAUSE_STREAM_RESET;
	case -ETIMEDOUT:
		return CAUSE_STREAM_SILENT;
	case -EHOSTUNREACH:
		return CAUSE_STREAM_NO_HOST;
	case -ENETUNREACH:
		return CAUSE_STREAM_NO_NET;
	case -EPROTO:
		return CAUSE_STREAM_INVALID;
	default:
		return CAUSE_STREAM_FAILED;
	}
}
