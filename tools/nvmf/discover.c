/* SPDX-License-Identifier: BSD-2-Clause */
/* discover: prints the log page of a discovery controller. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "discovery_conf.h"
#include "discovery_log.h"

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

static void print_normal(const struct discovery_log *log)
{
	printf("\nDiscovery Log Number of Records %" PRIu64 ", Generation counter %" PRIu64 "\n",
		log->count, log->header.genctr);
	for (uint64_t i = 0; i < log->count; i++) {
		const struct discovery_entry *entry = &log->entries[i];

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

static int print_json(const struct discovery_log *log)
{
	cJSON *root = cJSON_CreateObject();
	cJSON *records;
	char *text;

	cJSON_AddNumberToObject(root, "genctr", (double)log->header.genctr);
	records = cJSON_AddArrayToObject(root, "records");
	for (uint64_t i = 0; i < log->count; i++) {
		const struct discovery_entry *entry = &log->entries[i];
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

static int discover_one(const struct nvmf_options *options)
{
	struct discovery_log log = {.entries = NULL};
	struct session session;
	int status;

	if (discovery_open(&session, NULL, options, false))
		return 1;
	status = discovery_log_read(&session, &log);
	session_close(&session);
	if (status == 0 && options->wants_json)
		status = print_json(&log);
	else if (status == 0)
		print_normal(&log);
	free(log.entries);
	return status;
}

int command_discover(const struct nvmf_options *options)
{
	struct discovery_conf conf;
	int status = discovery_conf_read(options, &conf);

	for (size_t i = 0; i < conf.count; i++)
		status |= discover_one(&conf.items[i]);
	discovery_conf_done(&conf);
	return status;
}
