/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limit of connections of a host. A host may open a connection while it has fewer connections
 * than the target can still admit. So no host can keep the others out, and a host that is alone
 * gets half of the target's connections. A connection counts until the core has responded to its
 * last command, because the transport keeps the connection's memory until then.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "nvmf/target/core/objects.h"

enum { CONNECTIONS_MAX = 1024, CONNECTIONS_MIN = 16, OWN_DESCRIPTORS = 64 };

#define REPORT_NS 60000000000u

/* The length of the address in "ADDRESS:PORT". */
static int address_bytes(const char *peer)
{
	const char *colon = strrchr(peer, ':');

	return (int)(colon ? (size_t)(colon - peer) : strlen(peer));
}

static bool is_same_host(const char *peer, const char *other)
{
	int bytes = address_bytes(peer);

	return bytes == address_bytes(other) && !memcmp(peer, other, (size_t)bytes);
}

struct share {
	uint32_t own; /* admitted connections of the host */
	uint32_t all; /* admitted connections of all hosts */
	uint32_t surplus; /* surplus connections of all hosts */
};

static struct share share_of(const struct target *target, const char *peer)
{
	struct share share = {0};

	list_for_each(queue, &target->connections, struct target_queue, connection) {
		if (queue->is_surplus) {
			share.surplus++;
			continue;
		}
		share.all++;
		share.own += is_same_host(queue->peer, peer);
	}
	return share;
}

static bool has_room(const struct target *target, const struct share *share)
{
	return share->all < target->connections_max &&
		share->own < target->connections_max - share->all;
}

/* Whether to report this reason now, so that no host fills the log. */
static bool may_report(struct target *target, enum target_report reason)
{
	uint64_t now_ns = loop_now_ns(target->loop);
	uint64_t *last_ns = &target->reported_ns[reason];

	if (!target->report || (*last_ns && now_ns - *last_ns < REPORT_NS))
		return false;
	*last_ns = now_ns;
	return true;
}

static void admission_report(struct target *target, const char *peer, uint32_t own)
{
	char sentence[TARGET_PEER_BYTES + 128];

	target->counters.connections_refused++;
	if (!may_report(target, TARGET_REPORT_CONNECTIONS))
		return;
	snprintf(sentence, sizeof(sentence),
		"%.*s has %u connections, as many as are left for all other hosts; it gets no more "
		"until some of them end",
		address_bytes(peer), peer, own);
	target->report(target->report_context, sentence);
}

void target_report_no_data(struct target_queue *queue)
{
	struct target *target = queue->target;
	char sentence[TARGET_PEER_BYTES + 128];

	if (!may_report(target, TARGET_REPORT_NO_DATA))
		return;
	snprintf(sentence, sizeof(sentence),
		"%s has not sent the data of a write that the target has asked for; its connection "
		"ends",
		queue->peer);
	target->report(target->report_context, sentence);
}

enum target_admission target_admit(struct target *target, const char *peer)
{
	struct share share = share_of(target, peer);

	if (has_room(target, &share))
		return TARGET_ADMITTED;
	admission_report(target, peer, share.own);
	return share.surplus < TARGET_SURPLUS_MAX ? TARGET_ADMITTED_AS_SURPLUS
						  : TARGET_NOT_ADMITTED;
}

uint32_t connections_left(const struct target_queue *queue)
{
	struct share share = share_of(queue->target, queue->peer);

	/* Each connection that the host opens also leaves one less for the other hosts. */
	return has_room(queue->target, &share)
		? (queue->target->connections_max - share.all - share.own + 1) / 2
		: 0;
}

void connection_opened(struct target_queue *queue)
{
	list_init(&queue->connection);
	list_append(&queue->target->connections, &queue->connection);
}

void connection_check(struct target_queue *queue)
{
	if (queue->is_closed && queue->pending == 0)
		list_remove(&queue->connection);
}

void target_set_report(struct target *target,
	void (*report_to)(void *context, const char *sentence), void *context)
{
	target->report = report_to;
	target->report_context = context;
}

void target_set_connections_max(struct target *target, uint32_t connections_max)
{
	target->connections_max = connections_max;
}

uint32_t connections_default(void)
{
	struct rlimit limit;
	rlim_t connections;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return CONNECTIONS_MAX;
	/* A connection over RDMA may take two descriptors. */
	connections = limit.rlim_cur > OWN_DESCRIPTORS ? (limit.rlim_cur - OWN_DESCRIPTORS) / 2 : 0;
	if (connections < CONNECTIONS_MIN)
		return CONNECTIONS_MIN;
	return connections < CONNECTIONS_MAX ? (uint32_t)connections : CONNECTIONS_MAX;
}
