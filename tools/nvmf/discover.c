/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * discover: the log page of a discovery controller.
 *
 * It is read in pieces. If its generation counter has changed meanwhile, it is read again.
 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf.h"
#include "nvmf/common/discovery.h"
#include "nvmf/common/log_page.h"
#include "nvmf/host/sqe.h"

enum {
	ENTRIES_MAX = 4096, /* more than any target has; a hostile one ends there */
	ENTRIES_PER_READ = 16,
	ROUNDS_MAX = 10,
};

struct page {
	struct discovery_header header;
	struct discovery_entry *entries;
	uint64_t count;
};

static const char *trtype_name(uint8_t trtype)
{
	static const char *const names[] = {"unrecognized", "rdma", "fibre-channel", "tcp"};

	return trtype < sizeof(names) / sizeof(*names) ? names[trtype] : names[0];
}

static const char *adrfam_name(uint8_t adrfam)
{
	static const char *const names[] = {"unrecognized", "ipv4", "ipv6", "infiniband"};

	return adrfam < sizeof(names) / sizeof(*names) ? names[adrfam] : names[0];
}

static const char *subtype_name(uint8_t subtype)
{
	static const char *const names[] = {"unrecognized", "discovery subsystem referral",
		"nvme subsystem", "current discovery subsystem"};

	return subtype < sizeof(names) / sizeof(*names) ? names[subtype] : names[0];
}

static const char *treq_name(uint8_t treq)
{
	static const char *const names[] = {
		"not specified", "required", "not required", "reserved"};

	return names[treq & 3];
}

/* Read a part of the log page into `data`. */
static int log_read(struct session *session, uint64_t offset, void *data, uint32_t bytes)
{
	struct log_request log = {.lid = LOG_DISCOVERY, .bytes = bytes, .offset = offset};
	struct host_request request = {0};
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_GET_LOG_PAGE};

	log_request_encode(&log, &sqe);
	nvme_sqe_encode(&sqe, request.command.sqe);
	request.command.sqe[0] = NVME_ADMIN_GET_LOG_PAGE;
	host_sqe_data(&request.command, HOST_FROM_CONTROLLER, data, bytes);
	return session_admin(session, &request, "Reading the discovery log page");
}

static int header_read(struct session *session, struct discovery_header *ret_header)
{
	uint8_t bytes[DISCOVERY_HEADER_BYTES];

	if (log_read(session, 0, bytes, sizeof(bytes)))
		return 1;
	if (!discovery_header_decode(bytes, ret_header))
		return complain("the target's discovery log page has a format that is unknown");
	if (ret_header->numrec > ENTRIES_MAX)
		return complain("the target claims to have %" PRIu64 " entries, more than %d",
			ret_header->numrec, ENTRIES_MAX);
	return 0;
}

static int entries_read(struct session *session, struct page *page)
{
	static uint8_t bytes[ENTRIES_PER_READ * DISCOVERY_ENTRY_BYTES];
	uint64_t count = page->header.numrec;

	free(page->entries);
	page->count = 0;
	page->entries = calloc(count + 1, sizeof(*page->entries));
	if (!page->entries)
		return complain("no memory");
	for (uint64_t done = 0; done < count; done += ENTRIES_PER_READ) {
		uint64_t piece = count - done < ENTRIES_PER_READ ? count - done : ENTRIES_PER_READ;

		if (log_read(session, DISCOVERY_HEADER_BYTES + done * DISCOVERY_ENTRY_BYTES, bytes,
			    (uint32_t)piece * DISCOVERY_ENTRY_BYTES))
			return 1;
		for (uint64_t i = 0; i < piece; i++) {
			if (discovery_entry_decode(
				    bytes + i * DISCOVERY_ENTRY_BYTES, &page->entries[page->count]))
				page->count++;
			else
				complain("entry %" PRIu64 " is malformed and left out", done + i);
		}
	}
	return 0;
}

static int page_read(struct session *session, struct page *page)
{
	struct discovery_header again;

	for (int round = 0; round < ROUNDS_MAX; round++) {
		if (header_read(session, &page->header) || entries_read(session, page) ||
			header_read(session, &again))
			return 1;
		if (again.genctr == page->header.genctr && again.numrec == page->header.numrec)
			return 0;
	}
	return complain("the discovery log page changes all the time; try again later");
}

static void print_normal(const struct page *page)
{
	printf("\nDiscovery Log Number of Records %" PRIu64 ", Generation counter %" PRIu64 "\n",
		page->count, page->header.genctr);
	for (uint64_t i = 0; i < page->count; i++) {
		const struct discovery_entry *entry = &page->entries[i];

		printf("=====Discovery Log Entry %" PRIu64 "======\n", i);
		printf("trtype:  %s\n", trtype_name(entry->trtype));
		printf("adrfam:  %s\n", adrfam_name(entry->adrfam));
		printf("subtype: %s\n", subtype_name(entry->subtype));
		printf("treq:    %s%s\n", treq_name(entry->treq),
			entry->treq & DISCOVERY_TREQ_NO_FLOW_CONTROL
				? ", sq flow control disable supported"
				: "");
		printf("portid:  %u\n", entry->portid);
		printf("trsvcid: %s\n", entry->trsvcid);
		printf("subnqn:  %s\n", entry->subnqn);
		printf("traddr:  %s\n", entry->traddr);
	}
}

static int print_json(const struct page *page)
{
	cJSON *root = cJSON_CreateObject();
	cJSON *records;
	char *text;

	cJSON_AddNumberToObject(root, "genctr", (double)page->header.genctr);
	records = cJSON_AddArrayToObject(root, "records");
	for (uint64_t i = 0; i < page->count; i++) {
		const struct discovery_entry *entry = &page->entries[i];
		cJSON *object = cJSON_CreateObject();

		cJSON_AddItemToArray(records, object);
		cJSON_AddStringToObject(object, "trtype", trtype_name(entry->trtype));
		cJSON_AddStringToObject(object, "adrfam", adrfam_name(entry->adrfam));
		cJSON_AddStringToObject(object, "subtype", subtype_name(entry->subtype));
		cJSON_AddStringToObject(object, "treq", treq_name(entry->treq));
		cJSON_AddNumberToObject(object, "portid", entry->portid);
		cJSON_AddStringToObject(object, "trsvcid", entry->trsvcid);
		cJSON_AddStringToObject(object, "subnqn", entry->subnqn);
		cJSON_AddStringToObject(object, "traddr", entry->traddr);
	}
	text = cJSON_Print(root);
	cJSON_Delete(root);
	if (!text)
		return complain("no memory");
	puts(text);
	free(text);
	return 0;
}

int command_discover(const struct nvmf_options *options)
{
	struct nvmf_options discovery = *options;
	struct page page = {.entries = NULL};
	struct session session;
	int status;

	/* A connection that is not persistent has no keep alive (NVMe base 2.0, section 3.9). */
	discovery.keep_alive_seconds = 0;
	if (!discovery.trsvcid[0])
		snprintf(discovery.trsvcid, sizeof(discovery.trsvcid), "8009");
	if (session_open(&session, &discovery, options->nqn[0] ? options->nqn : NVME_DISCOVERY_NQN,
		    false))
		return 1;
	status = page_read(&session, &page);
	session_close(&session);
	if (status == 0 && options->wants_json)
		status = print_json(&page);
	else if (status == 0)
		print_normal(&page);
	free(page.entries);
	return status;
}
