/* SPDX-License-Identifier: BSD-2-Clause */
/* What went wrong in a capture: refusals, packets that were sent again or dropped, and why. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/packet_story.h"
#include "explain/explain.h"

enum { INDENT = 4 };

static const char *const kind_words[] = {
	[STORY_REQUEST] = "request",
	[STORY_RESPONSE] = "response",
	[STORY_DATAGRAM] = "datagram",
	[STORY_AGAIN] = "sent again",
	[STORY_NAK] = "refused",
	[STORY_RNR] = "receiver not ready",
	[STORY_MARK] = "congestion",
	[STORY_DAMAGED] = "damaged",
	[STORY_MISSING] = "behind a gap",
	[STORY_UNANSWERED] = "no answer",
};

enum { KIND_COUNT = STORY_UNANSWERED + 1 };

struct explained_capture {
	const struct explain_processes *all;
	cJSON *events; /* NULL: print text */
	uint64_t first_ns;
	uint64_t packets;
	uint64_t counts[KIND_COUNT];
	/* Packets that were sent again in a row, by one queue pair, are one item. */
	uint32_t row_count;
	uint32_t row_last;
	struct story_entry row;
};

static const struct topic *reason_topic(uint16_t number)
{
	for (int i = 0; i < topic_count; i++)
		if (topics[i].kind >= TOPIC_FAULT && topics[i].number == number)
			return &topics[i];
	return NULL;
}

static void end_print(const struct gid *gid, uint32_t qpn)
{
	char name[INET6_ADDRSTRLEN];
	bool is_ipv4 = gid_is_ipv4(gid);

	inet_ntop(is_ipv4 ? AF_INET : AF_INET6, is_ipv4 ? gid->raw + 12 : gid->raw, name,
		sizeof(name));
	printf("%s", name);
	if (qpn)
		printf(" queue pair 0x%06x", qpn);
}

/*
 * The first reason is what the sender of the request reports; the others are what the receiver may
 * have checked.
 */
static void reasons_print(const struct story_entry *entry)
{
	char label[64];

	for (uint32_t i = 0; i < entry->reason_count; i++) {
		const struct topic *topic = reason_topic(entry->reasons[i]);

		if (!topic)
			continue;
		if (i == 1)
			paragraph_print(INDENT, "",
				entry->reason_count == 2 ? "the check behind it:"
							 : "one of these checks is behind it:");
		snprintf(label, sizeof(label), "%s: ", topic->name);
		paragraph_print(i ? INDENT + 2 : INDENT, label, topic->sentence);
		if (i == 0 || entry->reason_count == 2)
			advice_print(topic->clause, topic->look, topic->fix);
	}
}

/*
 * Find the failure that the process which refused a request has kept. NULL: it has kept none, or
 * belongs to another user or machine.
 */
static const struct failure *kept_find(const struct explained_capture *capture,
	const struct story_entry *entry, const struct failure_file **ret_file)
{
	const struct failure ours = {.qpn = entry->qpn,
		.dest_qpn = entry->from_qpn,
		.remote = entry->source,
		.wall_ns = entry->time_ns};

	if (entry->kind != STORY_NAK && entry->kind != STORY_RNR)
		return NULL;
	return failure_of_peer(capture->all, &ours, ret_file);
}

static void item_print(const struct explained_capture *capture, const struct story_entry *entry,
	uint32_t count, uint32_t last)
{
	char text[STORY_TEXT_BYTES + STORY_NAME_BYTES + 64];
	const struct failure_file *file;
	const struct failure *kept = kept_find(capture, entry, &file);

	printf("frame %u", entry->number);
	if (count > 1)
		printf(" to %u", last);
	printf(", %.3f ms: ", (double)(int64_t)(entry->time_ns - capture->first_ns) / 1e6);
	end_print(&entry->source, entry->from_qpn);
	printf(" to ");
	end_print(&entry->destination, entry->qpn);
	printf("\n");
	if (count > 1)
		snprintf(text, sizeof(text), "%u packets from PSN 0x%06x on: %s", count, entry->psn,
			entry->text);
	else
		snprintf(text, sizeof(text), "%s, PSN 0x%06x: %s", entry->name, entry->psn,
			entry->text);
	paragraph_print(INDENT, "", text);
	if (entry->about)
		printf("%*s%s frame %u\n", INDENT, "",
			entry->is_response ? "it answers" : "it repeats", entry->about);
	reasons_print(entry);
	if (kept)
		peer_print(kept, file);
	printf("\n");
}

static void item_add(const struct explained_capture *capture, const struct story_entry *entry,
	uint32_t count, uint32_t last)
{
	cJSON *object = json_append_object(capture->events), *reasons;
	const struct failure_file *file = NULL;
	const struct failure *kept = kept_find(capture, entry, &file);

	json_add_count(object, "frame", entry->number);
	json_add_count(object, "last_frame", last);
	json_add_count(object, "packets", count);
	cJSON_AddNumberToObject(
		object, "time_us", (double)(int64_t)(entry->time_ns - capture->first_ns) / 1e3);
	cJSON_AddStringToObject(object, "kind", kind_words[entry->kind]);
	cJSON_AddStringToObject(object, "name", entry->name);
	json_add_gid(object, "source", &entry->source);
	json_add_count(object, "source_qpn", entry->from_qpn);
	json_add_gid(object, "destination", &entry->destination);
	json_add_count(object, "destination_qpn", entry->qpn);
	json_add_count(object, "psn", entry->psn);
	json_add_count(object, "about", entry->about);
	cJSON_AddStringToObject(object, "seen", entry->text);
	reasons = cJSON_AddArrayToObject(object, "reasons");
	for (uint32_t i = 0; i < entry->reason_count; i++) {
		const struct topic *topic = reason_topic(entry->reasons[i]);

		if (topic)
			cJSON_AddItemToArray(reasons, cJSON_CreateString(topic->name));
	}
	peer_add(object, kept, file);
}

static void item_show(const struct explained_capture *capture, const struct story_entry *entry,
	uint32_t count, uint32_t last)
{
	if (capture->events)
		item_add(capture, entry, count, last);
	else
		item_print(capture, entry, count, last);
}

static void row_end(struct explained_capture *capture)
{
	if (capture->row_count)
		item_show(capture, &capture->row, capture->row_count, capture->row_last);
	capture->row_count = 0;
}

static bool is_in_row(const struct explained_capture *capture, const struct story_entry *entry)
{
	const struct story_entry *row = &capture->row;

	return capture->row_count && entry->kind == STORY_AGAIN && entry->qpn == row->qpn &&
		gid_is_equal(&entry->source, &row->source) &&
		gid_is_equal(&entry->destination, &row->destination);
}

static void entry_take(struct explained_capture *capture, const struct story_entry *entry)
{
	if (!capture->packets)
		capture->first_ns = entry->time_ns;
	capture->packets += entry->kind != STORY_UNANSWERED;
	capture->counts[entry->kind]++;
	if (!story_is_trouble(entry))
		return;
	if (is_in_row(capture, entry)) {
		capture->row_count++;
		capture->row_last = entry->number;
		return;
	}
	row_end(capture);
	if (entry->kind != STORY_AGAIN) {
		item_show(capture, entry, 1, entry->number);
		return;
	}
	capture->row = *entry;
	capture->row_count = 1;
	capture->row_last = entry->number;
}

static void summary_print(const struct explained_capture *capture)
{
	bool has_trouble = false;

	printf("%llu packet%s", (unsigned long long)capture->packets,
		capture->packets == 1 ? "" : "s");
	for (uint32_t kind = STORY_AGAIN; kind < KIND_COUNT; kind++) {
		if (!capture->counts[kind])
			continue;
		printf(", %llu %s", (unsigned long long)capture->counts[kind], kind_words[kind]);
		has_trouble |= kind != STORY_MARK;
	}
	printf(has_trouble ? "\n" : ": nothing went wrong that packets show\n");
}

bool capture_show(cJSON *list, const struct explain_processes *all, const char *path)
{
	struct explained_capture capture = {.all = all};
	struct capture_file_frame frame;
	struct capture_file *file;
	struct story_entry entry;
	struct story *story;
	cJSON *object;

	if (capture_file_open(path, &file))
		return false;
	story = story_create();
	if (list) {
		object = json_append_object(list);
		cJSON_AddStringToObject(object, "file", path);
		capture.events = cJSON_AddArrayToObject(object, "events");
	}
	while (story && capture_file_next(file, &frame))
		if (story_take(story, &frame, &entry))
			entry_take(&capture, &entry);
	row_end(&capture);
	while (story && story_next_unanswered(story, &entry))
		entry_take(&capture, &entry);
	if (list)
		json_add_count(object, "packets", capture.packets);
	else
		summary_print(&capture);
	capture_file_close(file);
	if (story)
		story_destroy(story);
	return story != NULL;
}
