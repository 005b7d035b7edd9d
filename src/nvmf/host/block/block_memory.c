/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nvmf/host/block/block.h"

struct block_memory {
	struct block_device device;
	uint8_t *bytes;
	struct list paused;
	bool is_paused;
	int error;
};

static void memory_serve(struct block_memory *memory, struct block_request *request)
{
	uint8_t *bytes = memory->bytes + request->offset_bytes;

	if (memory->error) {
		request->done(request, memory->error);
		return;
	}
	switch (request->op) {
	case BLOCK_READ:
		memcpy(request->data, bytes, request->length_bytes);
		break;
	case BLOCK_WRITE:
		memcpy(bytes, request->data, request->length_bytes);
		break;
	case BLOCK_TRIM:
	case BLOCK_WRITE_ZEROES:
		memset(bytes, 0, request->length_bytes);
		break;
	case BLOCK_FLUSH:
		break;
	}
	request->done(request, 0);
}

static void memory_submit(struct block_device *device, struct block_request *request)
{
	struct block_memory *memory = container_of(device, struct block_memory, device);

	if (memory->is_paused)
		list_append(&memory->paused, &request->link);
	else
		memory_serve(memory, request);
}

static void memory_destroy(struct block_device *device)
{
	struct block_memory *memory = container_of(device, struct block_memory, device);

	munmap(memory->bytes, device->size_bytes);
	free(memory);
}

static const struct block_device_ops memory_ops = {
	.submit = memory_submit,
	.destroy = memory_destroy,
};

struct block_device *block_memory_create(uint64_t size_bytes, uint32_t block_bytes)
{
	struct block_memory *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return NULL;
	memory->bytes = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory->bytes == MAP_FAILED) {
		free(memory);
		return NULL;
	}
	list_init(&memory->paused);
	memory->device = (struct block_device){
		.ops = &memory_ops,
		.size_bytes = size_bytes,
		.block_bytes = block_bytes,
		.has_write_cache = true,
		.has_trim = true,
		.has_write_zeroes = true,
		.has_fua = true,
	};
	return &memory->device;
}

void block_memory_pause(struct block_device *device, bool is_paused)
{
	struct block_memory *memory = container_of(device, struct block_memory, device);

	memory->is_paused = is_paused;
	while (!memory->is_paused && !list_is_empty(&memory->paused)) {
		struct block_request *request =
			container_of(memory->paused.prev, struct block_request, link);

		list_remove(&request->link);
		memory_serve(memory, request);
	}
}

void block_memory_fail(struct block_device *device, int error)
{
	container_of(device, struct block_memory, device)->error = error;
}
