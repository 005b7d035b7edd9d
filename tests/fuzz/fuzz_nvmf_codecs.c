/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw bytes for each structure that peers of NVMe over Fabrics send: private data of RDMA's REQ,
 * REP and REJ, data of Connect, queue entries, discovery entries, namespace descriptors, log pages.
 * The first byte of the input chooses the structure. An accepted value is encoded, and must decode
 * to an equal value.
 */
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/codec/discovery.h"
#include "nvmf/common/codec/identify.h"
#include "nvmf/common/codec/log_page.h"
#include "nvmf/common/rdma/rdma_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const void *a, const void *b, size_t bytes)
{
	if (memcmp(a, b, bytes) != 0)
		abort();
}

/* A copy of exactly `bytes` bytes, filled up with zeroes. */
static uint8_t *copy_of(const uint8_t *data, size_t size, size_t bytes)
{
	uint8_t *copy = calloc(1, bytes);

	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size < bytes ? size : bytes);
	return copy;
}

static void fuzz_request(const uint8_t *data, size_t size)
{
	struct rdma_request request, again;
	uint8_t bytes[RDMA_REQUEST_BYTES];

	if (rdma_request_decode(data, size, 1024, &request) != RDMA_ACCEPT)
		return;
	if (request.hsqsize == 0 || request.hsqsize >= 1024 || request.hrqsize == 0)
		abort();
	rdma_request_encode(&request, bytes);
	if (rdma_request_decode(bytes, sizeof(bytes), 1024, &again) != RDMA_ACCEPT)
		abort();
	check_same(&request, &again, sizeof(request));
}

static void fuzz_reply(const uint8_t *data, size_t size)
{
	uint16_t crqsize;

	if (rdma_reply_decode(data, size, &crqsize) && crqsize == 0)
		abort();
	if (!rdma_reject_sentence(data, size)[0])
		abort();
}

static void fuzz_connect(const uint8_t *data, size_t size)
{
	uint8_t *bytes = copy_of(data, size, NVME_CONNECT_DATA_BYTES);
	uint8_t encoded[NVME_CONNECT_DATA_BYTES];
	struct nvme_connect_data connect, again;
	uint16_t offset;

	if (nvme_connect_data_decode(bytes, &connect, &offset)) {
		nvme_connect_data_encode(&connect, encoded);
		if (!nvme_connect_data_decode(encoded, &again, &offset))
			abort();
		check_same(&connect, &again, sizeof(connect));
	}
	free(bytes);
}

static void fuzz_entries(const uint8_t *data, size_t size)
{
	uint8_t *bytes = copy_of(data, size, NVME_SQE_BYTES);
	uint8_t encoded[NVME_SQE_BYTES];
	struct nvme_sqe sqe = nvme_sqe_decode(bytes), again;
	struct log_request log = log_request_decode(&sqe);

	nvme_sqe_encode(&sqe, encoded);
	again = nvme_sqe_decode(encoded);
	if (again.cid != sqe.cid || again.sgl.length != sqe.sgl.length ||
		again.sgl.address != sqe.sgl.address || again.cdw15 != sqe.cdw15)
		abort();
	if (log.bytes == 0 || log.bytes % 4)
		abort();
	free(bytes);
}

static void fuzz_discovery(const uint8_t *data, size_t size)
{
	uint8_t *bytes = copy_of(data, size, DISCOVERY_ENTRY_BYTES);
	uint8_t encoded[DISCOVERY_ENTRY_BYTES];
	struct discovery_entry entry, again;

	if (discovery_entry_decode(bytes, &entry)) {
		discovery_entry_encode(&entry, encoded);
		if (!discovery_entry_decode(encoded, &again))
			abort();
		if (strcmp(entry.subnqn, again.subnqn) != 0 ||
			strcmp(entry.traddr, again.traddr) != 0 ||
			strcmp(entry.trsvcid, again.trsvcid) != 0)
			abort();
	}
	free(bytes);
}

static void fuzz_descriptors(const uint8_t *data, size_t size)
{
	uint8_t *bytes = copy_of(data, size, IDENTIFY_BYTES);
	struct identify_descriptors descriptors;

	(void)identify_descriptors_decode(bytes, &descriptors);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const entries[])(const uint8_t *data, size_t size) = {fuzz_request,
		fuzz_reply, fuzz_connect, fuzz_entries, fuzz_discovery, fuzz_descriptors};

	if (size > 0)
		entries[data[0] % (sizeof(entries) / sizeof(entries[0]))](data + 1, size - 1);
	return 0;
}
