/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/target/core/target.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "nvmf/target/core/objects.h"

enum { RING_RETRY_NS = 2000000 };

/* If the kernel refuses requests for lack of memory, try again after RING_RETRY_NS. */
void target_flush(struct target *target)
{
	(void)backend_ring_poll(target->ring);
	if (backend_ring_is_put_off(target->ring))
		loop_timer_set(target->loop, &target->ring_retry,
			loop_now_ns(target->loop) + RING_RETRY_NS);
}

static void ring_ready(struct loop_watch *watch, uint32_t events)
{
	(void)events;
	target_flush(container_of(watch, struct target, ring_watch));
}

static void flush_requests(struct loop_work *work)
{
	target_flush(container_of(work, struct target, flush));
}

static void ring_retry(struct loop_timer *timer)
{
	target_flush(container_of(timer, struct target, ring_retry));
}

static int discovery_create(struct target *target)
{
	const struct target_subsystem_settings settings = {
		.nqn = NVME_DISCOVERY_NQN, .allow_any_host = true};
	int error = target_subsystem_create(target, &settings, &target->discovery);

	if (!error)
		target->discovery->is_discovery = true;
	return error;
}

int target_create(struct loop *loop, struct target **ret_target)
{
	struct target *target = calloc(1, sizeof(*target));
	int error;

	if (!target)
		return -ENOMEM;
	target->loop = loop;
	target->genctr = 1;
	target->ring_watch.ready = ring_ready;
	loop_work_init(&target->flush, flush_requests);
	loop_timer_init(&target->ring_retry, ring_retry);
	list_init(&target->ports);
	list_init(&target->subsystems);
	list_init(&target->opening);
	list_init(&target->peer_hosts);
	list_init(&target->connections);
	target->connections_max = connections_default();
	list_init(&target->dying);
	list_init(&target->rules);
	error = discovery_create(target);
	if (!error)
		error = backend_ring_create(
			TARGET_RINGS_ENTRIES, !loop_is_virtual(loop), &target->ring);
	if (!error && backend_ring_fd(target->ring) >= 0)
		error = loop_watch(
			loop, &target->ring_watch, backend_ring_fd(target->ring), EPOLLIN);
	if (error) {
		target_destroy(target);
		return error;
	}
	*ret_target = target;
	return 0;
}

void target_destroy(struct target *target)
{
	if (!target)
		return;
	assert(target_is_idle(target));
	list_for_each_safe(port, &target->ports, struct target_port, node)
		target_port_destroy(port);
	list_for_each_safe(subsystem, &target->subsystems, struct target_subsystem, node)
		target_subsystem_destroy(subsystem);
	target_inject_clear(target);
	loop_defer_cancel(&target->flush);
	loop_timer_cancel(&target->ring_retry);
	loop_unwatch(target->loop, &target->ring_watch);
	backend_ring_destroy(target->ring);
	free(target);
}

void target_disconnect_all(struct target *target)
{
	list_for_each_safe(queue, &target->opening, struct target_queue, node)
		queue_close(queue);
	list_for_each(subsystem, &target->subsystems, struct target_subsystem, node)
		list_for_each_safe(
			controller, &subsystem->controllers, struct target_controller, node)
			controller_end(controller);
}

bool target_is_idle(const struct target *target)
{
	return target->queues == 0 && target->commands == 0 && target->flushes == 0;
}

struct loop *target_loop(const struct target *target)
{
	return target->loop;
}

const struct target_counters *target_counters(const struct target *target)
{
	return &target->counters;
}

static void text_copy(char *to, size_t bytes, const char *text, const char *otherwise)
{
	const char *from = text && text[0] ? text : otherwise;

	memset(to, 0, bytes);
	memcpy(to, from, strnlen(from, bytes - 1));
}

/* The default serial number of a subsystem: 16 hex digits, a hash of the NQN. */
static void serial_of(const char *nqn, char *ret_serial)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *nqn; nqn++)
		hash = (hash ^ (uint8_t)*nqn) * 0x100000001b3u;
	for (int i = 0; i < 16; i++)
		ret_serial[i] = "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
	ret_serial[16] = 0;
}

int target_subsystem_create(struct target *target, const struct target_subsystem_settings *settings,
	struct target_subsystem **ret_subsystem)
{
	struct target_subsystem *subsystem;
	char serial[17];

	if (!nvme_nqn_is_valid(settings->nqn, NVME_NQN_BYTES) ||
		settings->cntlid_max > TARGET_CNTLID_LAST ||
		(settings->cntlid_max && settings->cntlid_min > settings->cntlid_max))
		return -EINVAL;
	if (target_subsystem_find(target, settings->nqn))
		return -EEXIST;
	subsystem = calloc(1, sizeof(*subsystem));
	if (!subsystem)
		return -ENOMEM;
	subsystem->target = target;
	subsystem->allow_any_host = settings->allow_any_host;
	serial_of(settings->nqn, serial);
	text_copy(subsystem->nqn, sizeof(subsystem->nqn), settings->nqn, "");
	text_copy(subsystem->serial, sizeof(subsystem->serial), settings->serial, serial);
	text_copy(subsystem->model, sizeof(subsystem->model), settings->model, "urnic");
	text_copy(subsystem->firmware, sizeof(subsystem->firmware), settings->firmware,
		URNIC_VERSION);
	subsystem->cntlid_min = settings->cntlid_min ? settings->cntlid_min : 1;
	subsystem->cntlid_max = settings->cntlid_max ? settings->cntlid_max : TARGET_CNTLID_LAST;
	subsystem->cntlid_next = subsystem->cntlid_min;
	subsystem->qid_max = settings->qid_max ? settings->qid_max : TARGET_QIDS_DEFAULT;
	list_init(&subsystem->hosts);
	list_init(&subsystem->controllers);
	list_append(&target->subsystems, &subsystem->node);
	*ret_subsystem = subsystem;
	return 0;
}

void target_subsystem_destroy(struct target_subsystem *subsystem)
{
	struct target *target = subsystem->target;

	list_for_each_safe(controller, &subsystem->controllers, struct target_controller, node)
		controller_end(controller);
	list_for_each(port, &target->ports, struct target_port, node)
		target_port_unlink(port, subsystem);
	while (subsystem->namespace_count)
		target_namespace_remove(subsystem->namespaces[0]);
	list_for_each_safe(host, &subsystem->hosts, struct target_host, node)
		free(host);
	shutdown_flush_leave(subsystem);
	list_remove(&subsystem->node);
	free(subsystem->namespaces);
	free(subsystem);
}

struct target_subsystem *target_subsystem_find(struct target *target, const char *nqn)
{
	list_for_each(subsystem, &target->subsystems, struct target_subsystem, node)
		if (!strcmp(subsystem->nqn, nqn))
			return subsystem;
	return NULL;
}

static struct target_host *host_find(const struct target_subsystem *subsystem, const char *nqn)
{
	list_for_each(host, &subsystem->hosts, struct target_host, node)
		if (!strcmp(host->nqn, nqn))
			return host;
	return NULL;
}

bool subsystem_allows(const struct target_subsystem *subsystem, const char *hostnqn)
{
	return subsystem->allow_any_host || host_find(subsystem, hostnqn);
}

static void end_disallowed(struct target_subsystem *subsystem)
{
	list_for_each_safe(controller, &subsystem->controllers, struct target_controller, node)
		if (!subsystem_allows(subsystem, controller->hostnqn))
			controller_end(controller);
	discovery_changed(subsystem->target);
}

int target_subsystem_allow(struct target_subsystem *subsystem, const char *hostnqn)
{
	struct target_host *host;

	if (!nvme_nqn_is_valid(hostnqn, NVME_NQN_BYTES))
		return -EINVAL;
	if (host_find(subsystem, hostnqn))
		return 0;
	host = calloc(1, sizeof(*host));
	if (!host)
		return -ENOMEM;
	text_copy(host->nqn, sizeof(host->nqn), hostnqn, "");
	list_append(&subsystem->hosts, &host->node);
	discovery_changed(subsystem->target);
	return 0;
}

void target_subsystem_disallow(struct target_subsystem *subsystem, const char *hostnqn)
{
	struct target_host *host = host_find(subsystem, hostnqn);

	if (!host)
		return;
	list_remove(&host->node);
	free(host);
	end_disallowed(subsystem);
}

void target_subsystem_allow_any(struct target_subsystem *subsystem, bool allow_any_host)
{
	subsystem->allow_any_host = allow_any_host;
	end_disallowed(subsystem);
}
