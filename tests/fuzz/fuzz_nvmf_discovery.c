/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log page of a hostile discovery controller, as urnic-nvmf reads it. The first bytes of the
 * input are the header's fields; the rest is a list of entries that are right but for what the
 * input changes. Whatever is read has an NQN and addresses that are safe to print.
 */
#include <stdlib.h>
#include <string.h>

#include "discovery_log.h"
#include "nvmf/common/bytes.h"
#include "nvmf/common/codec/log_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ENTRIES = 24, CHANGE_BYTES = 4, HEADER_BYTES = 4 };

static uint8_t page[DISCOVERY_HEADER_BYTES + ENTRIES * DISCOVERY_ENTRY_BYTES];
static uint8_t changes_of_genctr; /* so many readings of the header see another one */
static uint8_t failing_read; /* 0: none */
static unsigned reads;

int complain(const char *format, ...)
{
	(void)format;
	return 1;
}

int session_open(struct session *session, struct loop *loop, const struct nvmf_options *options,
	const char *nqn, bool has_namespace)
{
	(void)session, (void)loop, (void)options, (void)nqn, (void)has_namespace;
	abort();
}

/* The controller's answer to Get Log Page. Beyond the page there are zeroes. */
int session_admin(struct session *session, struct host_request *request, const char *action)
{
	const struct nvme_sqe sqe = nvme_sqe_decode(request->command.sqe);
	const struct log_request log = log_request_decode(&sqe);
	uint64_t left = log.offset < sizeof(page) ? sizeof(page) - log.offset : 0;

	(void)session, (void)action;
	if (log.lid != LOG_DISCOVERY || log.bytes != request->command.data_bytes)
		abort();
	if (++reads == failing_read)
		return 1;
	if (log.offset == 0 && changes_of_genctr) {
		changes_of_genctr--;
		page[0]++;
	}
	memset(request->command.data, 0, request->command.data_bytes);
	left = left < log.bytes ? left : log.bytes;
	if (left)
		memcpy(request->command.data, page + log.offset, left);
	return 0;
}

static void page_make(const uint8_t *data, size_t size)
{
	struct discovery_entry entry = {.trtype = DISCOVERY_TCP,
		.adrfam = DISCOVERY_IPV4,
		.subtype = DISCOVERY_NVM,
		.traddr = "192.0.2.1",
		.trsvcid = "4420",
		.subnqn = "nqn.2026-01.org.example:disk"};
	struct discovery_header header = {.genctr = 1, .numrec = data[0] % (ENTRIES + 1)};

	if (data[0] == 0xff)
		header.numrec = (uint64_t)data[1] << 56 | data[2];
	header.recfmt = data[3] == 0xff;
	discovery_header_encode(&header, page);
	for (unsigned i = 0; i < ENTRIES; i++)
		discovery_entry_encode(
			&entry, page + DISCOVERY_HEADER_BYTES + i * DISCOVERY_ENTRY_BYTES);
	for (size_t at = HEADER_BYTES; size - at >= CHANGE_BYTES; at += CHANGE_BYTES) {
		uint32_t place = le16_get(data + at) % (ENTRIES * DISCOVERY_ENTRY_BYTES);
		uint32_t count = 1 + data[at + 2] % 64 * 8;

		for (uint32_t i = 0; i < count && place + i < ENTRIES * DISCOVERY_ENTRY_BYTES; i++)
			page[DISCOVERY_HEADER_BYTES + place + i] = data[at + 3];
	}
}

static void text_check(const char *text, size_t bytes)
{
	size_t length = strnlen(text, bytes);

	if (length == bytes)
		abort();
	for (size_t i = 0; i < length; i++)
		if ((uint8_t)text[i] < 0x20 || text[i] == 0x7f)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct discovery_log log = {0};
	struct session session = {0};

	if (size < HEADER_BYTES)
		return 0;
	page_make(data, size);
	changes_of_genctr = data[1] % 16;
	failing_read = data[2] % 32;
	reads = 0;
	if (discovery_log_read(&session, &log) == 0) {
		if (log.count > log.header.numrec)
			abort();
		for (uint64_t i = 0; i < log.count; i++) {
			text_check(log.entries[i].subnqn, sizeof(log.entries[i].subnqn));
			text_check(log.entries[i].traddr, sizeof(log.entries[i].traddr));
			text_check(log.entries[i].trsvcid, sizeof(log.entries[i].trsvcid));
		}
	}
	free(log.entries);
	return 0;
}
