/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The backends without a file. Both finish a request within backend_submit().
 *
 *   memory   an anonymous mapping. Pages that were never written take no memory, and discarded
 *            pages go back to the system
 *   null     no memory. Reads fill the buffer with zeroes, because the buffer may have data of
 *            another host's command
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nvmf/target/backend/object.h"

enum {
	/* A multiple of each block size, so that no block is in two stripes. */
	STRIPE_BYTES = BACKEND_BLOCK_BYTES_MAX,
	LOCK_COUNT = 64,
};

struct memory {
	struct backend backend;
	/* NULL: a null backend. */
	char *bytes;
	pthread_mutex_t locks[LOCK_COUNT];
};

static struct memory *memory_of(struct backend *backend)
{
	return (struct memory *)backend;
}

/* Give whole pages back to the system, which zeroes them; write zeroes to the rest of the range. */
static void zero_bytes(char *bytes, uint64_t length)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)bytes, end = start + length;
	uintptr_t first = (start + page - 1) & ~(page - 1), last = end & ~(page - 1);

	if (first >= last || madvise((void *)first, last - first, MADV_DONTNEED)) {
		memset(bytes, 0, length);
		return;
	}
	memset(bytes, 0, first - start);
	memset((void *)last, 0, end - last);
}

static size_t iov_bytes(const struct backend_request *request)
{
	size_t sum = 0;

	for (unsigned i = 0; i < request->iov_count; i++)
		sum += request->iov[i].iov_len;
	return sum;
}

/* Execute the part of a request that lies within one stripe. */
static void do_part(const struct memory *memory, enum backend_operation operation, uint64_t offset,
	char *buffer, uint64_t bytes)
{
	if (operation == BACKEND_READ && !memory->bytes)
		memset(buffer, 0, bytes);
	else if (operation == BACKEND_READ)
		memcpy(buffer, memory->bytes + offset, bytes);
	else if (operation == BACKEND_WRITE && memory->bytes)
		memcpy(memory->bytes + offset, buffer, bytes);
	else if (memory->bytes)
		zero_bytes(memory->bytes + offset, bytes);
}

/*
 * Execute a request stripe by stripe, with the lock of the stripe held. A block is within one
 * stripe, so a thread that reads the block never sees a part of another thread's write. The null
 * backend needs no lock.
 */
static void do_range(struct memory *memory, enum backend_operation operation, uint64_t offset,
	char *buffer, uint64_t bytes)
{
	while (bytes) {
		uint64_t part = STRIPE_BYTES - offset % STRIPE_BYTES;
		pthread_mutex_t *lock = &memory->locks[offset / STRIPE_BYTES % LOCK_COUNT];

		if (part > bytes)
			part = bytes;
		if (memory->bytes)
			pthread_mutex_lock(lock);
		do_part(memory, operation, offset, buffer, part);
		if (memory->bytes)
			pthread_mutex_unlock(lock);
		offset += part;
		bytes -= part;
		if (buffer)
			buffer += part;
	}
}

static void memory_submit(
	struct backend *backend, struct backend_ring *ring, struct backend_request *request)
{
	struct memory *memory = memory_of(backend);
	uint64_t offset = request->offset_bytes;

	(void)ring;
	if (request->operation == BACKEND_READ || request->operation == BACKEND_WRITE) {
		assert(iov_bytes(request) == request->length_bytes);
		for (unsigned i = 0; i < request->iov_count; i++) {
			do_range(memory, request->operation, offset, request->iov[i].iov_base,
				request->iov[i].iov_len);
			offset += request->iov[i].iov_len;
		}
	} else if (request->operation != BACKEND_FLUSH && memory->bytes) {
		do_range(memory, request->operation, offset, NULL, request->length_bytes);
	}
	backend_finish(request, BACKEND_OK);
}

static int check_size(const struct backend *backend, uint64_t size_bytes, char *sentence)
{
	if (size_bytes < backend->block_bytes || size_bytes > INT64_MAX)
		return backend_refuse(sentence, EINVAL,
			"a size of %llu bytes is less than a block or more than 8 EiB",
			(unsigned long long)size_bytes);
	return 0;
}

/*
 * Zero the rest of the page at the new end, so that those bytes do not reappear when the namespace
 * grows again. mremap() has given back the pages after this page.
 */
static void zero_rest(char *end)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	memset(end, 0, -(uintptr_t)end & (page - 1));
}

static int memory_resize(struct backend *backend, uint64_t size_bytes, char *sentence)
{
	struct memory *memory = memory_of(backend);
	int error = check_size(backend, size_bytes, sentence);

	if (error)
		return error;
	size_bytes -= size_bytes % backend->block_bytes;
	if (memory->bytes) {
		char *bytes =
			mremap(memory->bytes, backend->size_bytes, size_bytes, MREMAP_MAYMOVE);
		if (bytes == MAP_FAILED)
			return backend_refuse(sentence, errno, "no room for %llu bytes of memory",
				(unsigned long long)size_bytes);
		memory->bytes = bytes;
		if (size_bytes < backend->size_bytes)
			zero_rest(bytes + size_bytes);
	}
	backend->size_bytes = size_bytes;
	return 0;
}

static void close_memory(struct backend *backend)
{
	struct memory *memory = memory_of(backend);

	if (memory->bytes)
		(void)munmap(memory->bytes, backend->size_bytes);
	free(memory);
}

static const struct backend_kind memory_kind = {memory_submit, memory_resize, close_memory};

int backend_memory_open(
	const struct backend_settings *settings, struct backend **ret_backend, char *sentence)
{
	struct memory *memory = calloc(1, sizeof(*memory));
	int error;

	if (!memory)
		return backend_refuse(sentence, ENOMEM, "no memory for a namespace");
	for (unsigned i = 0; i < LOCK_COUNT; i++)
		(void)pthread_mutex_init(&memory->locks[i], NULL);
	memory->backend.kind = &memory_kind;
	memory->backend.block_bytes =
		settings->block_bytes ? settings->block_bytes : BACKEND_BLOCK_BYTES_MIN;
	memory->backend.is_read_only = settings->is_read_only;
	memory->backend.discard_reads_zeroes = true;
	error = check_size(&memory->backend, settings->size_bytes, sentence);
	if (error)
		goto fail_free;
	memory->backend.size_bytes =
		settings->size_bytes - settings->size_bytes % memory->backend.block_bytes;
	if (!settings->is_null) {
		memory->bytes = mmap(NULL, memory->backend.size_bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory->bytes == MAP_FAILED) {
			error = backend_refuse(sentence, errno, "no room for %llu bytes of memory",
				(unsigned long long)memory->backend.size_bytes);
			goto fail_free;
		}
	}
	*ret_backend = &memory->backend;
	return 0;
fail_free:
	free(memory);
	return error;
}
