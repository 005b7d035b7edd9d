/* SPDX-License-Identifier: BSD-2-Clause */
/* The failures that processes have kept (agent/failure_file.h). */
#include <arpa/inet.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arith.h"
#include "explain/explain.h"
#include "front/verbs/abi.h"

/* The two ends of a connection fail within this time, at most. */
#define PEER_WITHIN_NS 10000000000ull

enum { INDENT = 4 };

static bool process_keep(void *context, const struct failure_file *file)
{
	struct explain_processes *processes = context;

	processes->file[processes->count++] = *file;
	return processes->count < EXPLAIN_PROCESSES_MAX;
}

void processes_read(struct explain_processes *ret_processes)
{
	*ret_processes = (struct explain_processes){
		.file = calloc(EXPLAIN_PROCESSES_MAX, sizeof(struct failure_file))};
	if (ret_processes->file)
		failure_file_visit(process_keep, ret_processes);
}

bool process_is_alive(const struct failure_file *file)
{
	char comm[PROCESS_NAME_BYTES];

	process_name_read((pid_t)file->head.pid, comm);
	return strcmp(comm, file->head.comm) == 0;
}

static uint64_t distance_ns(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns - b_ns : b_ns - a_ns;
}

static bool is_of_peer(const struct failure *theirs, const struct failure *failure)
{
	return theirs->number && theirs->reason != REASON_FLUSHED &&
		theirs->qpn == failure->dest_qpn && theirs->dest_qpn == failure->qpn &&
		gid_is_equal(&theirs->local, &failure->remote) &&
		distance_ns(theirs->wall_ns, failure->wall_ns) < PEER_WITHIN_NS;
}

const struct failure *failure_of_peer(const struct explain_processes *all,
	const struct failure *failure, const struct failure_file **ret_file)
{
	const struct failure *found = NULL;

	for (uint32_t i = 0; failure->dest_qpn && i < all->count * FAILURES_MAX; i++) {
		const struct failure_file *theirs = &all->file[i / FAILURES_MAX];
		const struct failure *it = &theirs->list[i % FAILURES_MAX];

		if (it == failure || !is_of_peer(it, failure) ||
			(found && found->wall_ns <= it->wall_ns))
			continue;
		found = it;
		*ret_file = theirs;
	}
	return found;
}

/* The failure with the lowest number above `number`; NULL: there is none. */
static const struct failure *failure_next(const struct failure_file *file, uint64_t number)
{
	const struct failure *next = NULL;

	for (uint32_t i = 0; i < FAILURES_MAX; i++) {
		const struct failure *it = &file->list[i];

		if (it->number > number && (!next || it->number < next->number))
			next = it;
	}
	return next;
}

/* The time of the oldest failure in the file, or the time when the file was made. */
static uint64_t since_ns(const struct failure_file *file)
{
	const struct failure *first = failure_next(file, 0);

	return first ? first->wall_ns : file->head.wall_ns;
}

static uint32_t failure_count(const struct failure_file *file)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAILURES_MAX; i++)
		count += file->list[i].number != 0;
	return count;
}

static void time_text(uint64_t wall_ns, char *ret_text, size_t room)
{
	time_t seconds = (time_t)(wall_ns / 1000000000u);
	struct tm local;
	size_t bytes;

	localtime_r(&seconds, &local);
	bytes = strftime(ret_text, room, "%F %T", &local);
	snprintf(ret_text + bytes, room - bytes, ".%03u",
		(unsigned)(wall_ns % 1000000000u / 1000000u));
}

static void address_text(const struct gid *gid, char ret_text[INET6_ADDRSTRLEN])
{
	if (gid_is_ipv4(gid))
		inet_ntop(AF_INET, gid->raw + 12, ret_text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, gid->raw, ret_text, INET6_ADDRSTRLEN);
}

/* --- text --- */

static void heading_print(const struct failure *failure, const struct reason_row *row)
{
	char when[64];

	time_text(failure->wall_ns, when, sizeof(when));
	printf("\n%s  %s", when, row ? row->name : "?");
	if (row && row->kind == REASON_KIND_FAULT)
		printf(" (IBV_WC_%s, vendor_err %u)", status_name(row->status), row->number);
	if (failure->count > 1)
		printf(", %u times", failure->count);
	printf("\n");
}

static void place_print(const struct failure *failure)
{
	char address[INET6_ADDRSTRLEN];

	if (!failure->qpn)
		return;
	printf("    queue pair 0x%06x", failure->qpn);
	if (failure->has_wr_id)
		printf(", work request %" PRIu64, failure->wr_id);
	if (!gid_is_zero(&failure->remote)) {
		address_text(&failure->remote, address);
		printf(", peer %s", address);
	}
	printf("\n");
}

static void seen_print(const struct failure *failure, unsigned indent)
{
	char text[REASON_SENTENCE_BYTES];

	reason_tell(failure, text, sizeof(text));
	paragraph_print(indent, "", text);
	for (uint32_t i = 0; i < failure->facts.count; i++)
		if (reason_tell_fact(failure, i, text, sizeof(text)))
			paragraph_print(indent, "", text);
}

void peer_print(const struct failure *peer, const struct failure_file *file)
{
	const struct reason_row *row = reason_find(peer->reason);

	printf("    the peer, process %u (%s), kept %s:\n", file->head.pid, file->head.comm,
		row ? row->name : "?");
	seen_print(peer, 2 * INDENT);
}

static void failure_print(const struct explain_processes *all, const struct failure *failure)
{
	const struct reason_row *row = reason_find(failure->reason);
	const struct failure_file *peer_file;
	const struct failure *peer = failure_of_peer(all, failure, &peer_file);

	heading_print(failure, row);
	place_print(failure);
	seen_print(failure, INDENT);
	if (row)
		advice_print(row->clause, row->look, row->fix);
	if (peer)
		peer_print(peer, peer_file);
}

void process_print_line(const struct failure_file *file)
{
	char when[64];

	time_text(since_ns(file), when, sizeof(when));
	printf("process %u (%s), %s: %u failure%s since %s\n", file->head.pid, file->head.comm,
		process_is_alive(file) ? "running" : "ended", failure_count(file),
		failure_count(file) == 1 ? "" : "s", when);
}

void process_print(const struct explain_processes *all, const struct failure_file *file)
{
	const struct failure *failure = NULL;

	process_print_line(file);
	while ((failure = failure_next(file, failure ? failure->number : 0)))
		failure_print(all, failure);
}

/* --- JSON --- */

static void seen_add(cJSON *object, const struct failure *failure)
{
	char text[REASON_SENTENCE_BYTES];
	cJSON *list, *facts;

	reason_tell(failure, text, sizeof(text));
	cJSON_AddStringToObject(object, "seen", text);
	list = cJSON_AddArrayToObject(object, "more");
	for (uint32_t i = 0; i < failure->facts.count; i++)
		if (reason_tell_fact(failure, i, text, sizeof(text)))
			cJSON_AddItemToArray(list, cJSON_CreateString(text));
	facts = cJSON_AddArrayToObject(object, "facts");
	for (uint32_t i = 0; i < failure->facts.count; i++) {
		cJSON *fact = json_append_object(facts);

		cJSON_AddStringToObject(fact, "name", fact_rows[failure->facts.fact[i]].name);
		json_add_count(fact, "value", failure->facts.value[i]);
	}
}

static void reason_add(cJSON *object, const struct reason_row *row)
{
	bool is_fault = row && row->kind == REASON_KIND_FAULT;

	cJSON_AddStringToObject(object, "reason", row ? row->name : "?");
	json_add_text(object, "status", is_fault ? status_name(row->status) : NULL);
	if (is_fault)
		json_add_count(object, "vendor_err", row->number);
	else
		cJSON_AddNullToObject(object, "vendor_err");
}

void peer_add(cJSON *object, const struct failure *peer, const struct failure_file *file)
{
	cJSON *theirs;

	if (!peer) {
		cJSON_AddNullToObject(object, "peer");
		return;
	}
	theirs = cJSON_AddObjectToObject(object, "peer");
	json_add_count(theirs, "pid", file->head.pid);
	cJSON_AddStringToObject(theirs, "name", file->head.comm);
	reason_add(theirs, reason_find(peer->reason));
	seen_add(theirs, peer);
}

static void failure_json_add(
	cJSON *list, const struct explain_processes *all, const struct failure *failure)
{
	const struct reason_row *row = reason_find(failure->reason);
	const struct failure_file *peer_file = NULL;
	const struct failure *peer = failure_of_peer(all, failure, &peer_file);
	cJSON *object = json_append_object(list);

	reason_add(object, row);
	json_add_count(object, "time_ns", failure->wall_ns);
	json_add_count(object, "count", failure->count);
	json_add_count(object, "qpn", failure->qpn);
	json_add_count(object, "remote_qpn", failure->dest_qpn);
	json_add_gid(object, "local_gid", &failure->local);
	json_add_gid(object, "remote_gid", &failure->remote);
	if (failure->has_wr_id)
		json_add_count(object, "wr_id", failure->wr_id);
	else
		cJSON_AddNullToObject(object, "wr_id");
	seen_add(object, failure);
	json_add_text(object, "check", row ? row->clause : NULL);
	json_add_text(object, "look_at", row ? row->look : NULL);
	json_add_text(object, "what_works", row ? row->fix : NULL);
	peer_add(object, peer, peer_file);
}

void process_add(cJSON *list, const struct explain_processes *all, const struct failure_file *file)
{
	const struct failure *failure = NULL;
	cJSON *object = json_append_object(list);
	cJSON *failures;

	json_add_count(object, "pid", file->head.pid);
	cJSON_AddStringToObject(object, "name", file->head.comm);
	cJSON_AddBoolToObject(object, "running", process_is_alive(file));
	json_add_count(object, "since_ns", since_ns(file));
	failures = cJSON_AddArrayToObject(object, "failures");
	while ((failure = failure_next(file, failure ? failure->number : 0)))
		failure_json_add(failures, all, failure);
}
