/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The resolving thread (resolver.h) reports each result as an event. When the program takes the
 * event, event_channel.c changes the identifier's state.
 *
 * Lock: `resolver_lock` guards the list. The thread takes id_lock, and the lock of the event queue,
 * with resolver_lock locked.
 */
#include "front/rdmacm/id/resolver.h"

#include <time.h>

#include "front/rdmacm/id/event_cause.h"
#include "netdev/neighbour.h"
#include "os/clock.h"
#include "os/own_thread.h"

enum { LOOK_NS = 2000000 };

pthread_mutex_t resolver_lock = PTHREAD_MUTEX_INITIALIZER;
/* Of struct id, linked by in_resolving */
static struct list ids_waiting = {&ids_waiting, &ids_waiting};
static uint32_t waiting_count;
static bool is_running; /* the thread runs */

/* If the identifier has a result, report it. Returns whether it has one. */
static bool id_decide(struct id *id, uint64_t now_ns)
{
	if (neighbour_look(&id->path.local, &id->path.remote, id->path.ifindex) ==
		NEIGHBOUR_KNOWN) {
		id_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
		return true;
	}
	if (now_ns < id->resolve_until_ns)
		return false;
	id_fail(id, CAUSE_NEXT_HOP_SILENT, 0, NULL);
	return true;
}

/* Check each identifier once. Returns false when none is left; the thread must then end. */
static bool ids_check(void)
{
	uint64_t now_ns = clock_now_ns();
	bool has_more;

	pthread_mutex_lock(&resolver_lock);
	for (uint32_t turns = waiting_count; turns > 0; turns--) {
		struct id *id = list_first(&ids_waiting, struct id, in_resolving);

		list_remove(&id->in_resolving);
		if (id_decide(id, now_ns))
			waiting_count--;
		else
			list_append(&ids_waiting, &id->in_resolving);
	}
	has_more = waiting_count > 0;
	is_running = has_more;
	pthread_mutex_unlock(&resolver_lock);
	return has_more;
}

static void *thread_main(void *unused)
{
	const struct timespec pause = {0, LOOK_NS};

	(void)unused;
	own_thread_wake();
	do {
		own_thread_sleep();
		nanosleep(&pause, NULL);
		own_thread_wake();
	} while (ids_check());
	own_thread_end();
	return NULL;
}

/* The child of a fork calls this, because it does not resolve for its parent. */
void resolver_fork_child(void)
{
	nic_fabric_query_fork_child();
	while (!list_is_empty(&ids_waiting))
		list_remove(&list_first(&ids_waiting, struct id, in_resolving)->in_resolving);
	waiting_count = 0;
	is_running = false;
}

int resolver_wait(struct id *id, int timeout_ms)
{
	int rc = 0;

	pthread_mutex_lock(&resolver_lock);
	if (!is_running)
		rc = own_thread_start(NULL, "urnic-resolver", thread_main, NULL);
	if (rc == 0) {
		is_running = true;
		id->resolve_until_ns =
			clock_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000u;
		list_append(&ids_waiting, &id->in_resolving);
		waiting_count++;
	}
	pthread_mutex_unlock(&resolver_lock);
	return rc;
}

void resolver_forget(struct id *id)
{
	nic_fabric_query_forget(&id->query);
	pthread_mutex_lock(&resolver_lock);
	if (list_is_linked(&id->in_resolving)) {
		list_remove(&id->in_resolving);
		waiting_count--;
	}
	pthread_mutex_unlock(&resolver_lock);
}
