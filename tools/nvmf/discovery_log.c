/* SPDX-License-Identifier: BSD-2-Clause */
#include "discovery_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "nvmf/common/codec/log_page.h"
#include "nvmf/host/controller/sqe.h"

enum {
	/* No honest target has more entries; a hostile target cannot make this host read more. */
	ENTRIES_MAX = 4096,
	ENTRIES_PER_READ = 16,
	ROUNDS_MAX = 10,
};

/* Read a part of the log page into `data`. */
static int part_read(struct session *session, uint64_t offset, void *data, uint32_t bytes)
{
	struct log_request part = {.lid = LOG_DISCOVERY, .bytes = bytes, .offset = offset};
	struct host_request request = {0};
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_GET_LOG_PAGE};

	log_request_encode(&part, &sqe);
	nvme_sqe_encode(&sqe, request.command.sqe);
	request.command.sqe[0] = NVME_ADMIN_GET_LOG_PAGE;
	host_sqe_data(&request.command, HOST_FROM_CONTROLLER, data, bytes);
	return session_admin(session, &request, "Reading the discovery log page");
}

static int header_read(struct session *session, struct discovery_header *ret_header)
{
	uint8_t bytes[DISCOVERY_HEADER_BYTES];

	if (part_read(session, 0, bytes, sizeof(bytes)))
		return 1;
	if (!discovery_header_decode(bytes, ret_header))
		return complain("the target's discovery log page has a format that is unknown");
	if (ret_header->numrec > ENTRIES_MAX)
		return complain("the target claims to have %" PRIu64 " entries, more than %d",
			ret_header->numrec, ENTRIES_MAX);
	return 0;
}

static int entries_read(struct session *session, struct discovery_log *log)
{
	static uint8_t bytes[ENTRIES_PER_READ * DISCOVERY_ENTRY_BYTES];
	uint64_t count = log->header.numrec;

	free(log->entries);
	log->count = 0;
	log->entries = calloc(count + 1, sizeof(*log->entries));
	if (!log->entries)
		return complain("no memory");
	for (uint64_t done = 0; done < count; done += ENTRIES_PER_READ) {
		uint64_t piece = count - done < ENTRIES_PER_READ ? count - done : ENTRIES_PER_READ;

		if (part_read(session, DISCOVERY_HEADER_BYTES + done * DISCOVERY_ENTRY_BYTES, bytes,
			    (uint32_t)piece * DISCOVERY_ENTRY_BYTES))
			return 1;
		for (uint64_t i = 0; i < piece; i++) {
			if (discovery_entry_decode(
				    bytes + i * DISCOVERY_ENTRY_BYTES, &log->entries[log->count]))
				log->count++;
			else
				complain("entry %" PRIu64 " is malformed and left out", done + i);
		}
	}
	return 0;
}

int discovery_log_read(struct session *session, struct discovery_log *log)
{
	struct discovery_header again;

	for (int round = 0; round < ROUNDS_MAX; round++) {
		if (header_read(session, &log->header) || entries_read(session, log) ||
			header_read(session, &again))
			return 1;
		if (again.genctr == log->header.genctr && again.numrec == log->header.numrec)
			return 0;
	}
	return complain("the discovery log page changes all the time; try again later");
}

int discovery_open(struct session *session, struct loop *loop, const struct nvmf_options *options,
	bool is_persistent)
{
	struct nvmf_options discovery = *options;

	/* A connection that is not persistent has no keep alive (NVMe base 2.0, section 3.9). */
	if (!is_persistent)
		discovery.keep_alive_seconds = 0;
	if (!discovery.trsvcid[0])
		snprintf(discovery.trsvcid, sizeof(discovery.trsvcid), "8009");
	return session_open(session, loop, &discovery,
		options->nqn[0] ? options->nqn : NVME_DISCOVERY_NQN, false);
}
