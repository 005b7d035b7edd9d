/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions that do not depend on the kind of a backend, with the checks of each request.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "nvmf/target/backend/object.h"

uint16_t backend_status_nvme(enum backend_status status)
{
	static const uint16_t statuses[] = {
#define BACKEND_STATUS(name, nvme, sentence) [BACKEND_##name] = nvme,
#include "nvmf/target/backend/status.def"
#undef BACKEND_STATUS
	};
	assert(status < sizeof(statuses) / sizeof(statuses[0]));
	return statuses[status];
}

const char *backend_status_sentence(enum backend_status status)
{
	static const char *const sentences[] = {
#define BACKEND_STATUS(name, nvme, sentence) [BACKEND_##name] = sentence,
#include "nvmf/target/backend/status.def"
#undef BACKEND_STATUS
	};
	assert(status < sizeof(sentences) / sizeof(sentences[0]));
	return sentences[status];
}

int backend_refuse(char *sentence, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(sentence, BACKEND_SENTENCE_BYTES, format, arguments);
	va_end(arguments);
	return -error;
}

int backend_open(
	const struct backend_settings *settings, struct backend **ret_backend, char *sentence)
{
	uint32_t block_bytes = settings->block_bytes;

	if (block_bytes &&
		(block_bytes < BACKEND_BLOCK_BYTES_MIN || block_bytes > BACKEND_BLOCK_BYTES_MAX ||
			(block_bytes & (block_bytes - 1))))
		return backend_refuse(sentence, EINVAL,
			"a block size of %u bytes is not a power of two from %d to %d", block_bytes,
			BACKEND_BLOCK_BYTES_MIN, BACKEND_BLOCK_BYTES_MAX);
	if (settings->path)
		return backend_file_open(settings, ret_backend, sentence);
	return backend_memory_open(settings, ret_backend, sentence);
}

void backend_close(struct backend *backend)
{
	if (!backend)
		return;
	assert(!backend_pending(backend));
	backend->kind->close(backend);
}

uint64_t backend_size_bytes(const struct backend *backend)
{
	return backend->size_bytes;
}

uint32_t backend_block_bytes(const struct backend *backend)
{
	return backend->block_bytes;
}

bool backend_is_read_only(const struct backend *backend)
{
	return backend->is_read_only;
}

bool backend_discard_reads_zeroes(const struct backend *backend)
{
	return backend->discard_reads_zeroes;
}

unsigned backend_pending(const struct backend *backend)
{
	return atomic_load_explicit(&backend->pending, memory_order_acquire);
}

int backend_resize(struct backend *backend, uint64_t size_bytes, char *sentence)
{
	assert(!backend_pending(backend));
	return backend->kind->resize(backend, size_bytes, sentence);
}

static enum backend_status flush_verdict(
	const struct backend *backend, const struct backend_request *request)
{
	if (request->operation == BACKEND_FLUSH)
		return BACKEND_OK;
	if (backend->is_read_only && request->operation != BACKEND_READ)
		return BACKEND_READ_ONLY;
	if (request->offset_bytes > backend->size_bytes ||
		request->length_bytes > backend->size_bytes - request->offset_bytes)
		return BACKEND_OUT_OF_RANGE;
	return BACKEND_OK;
}

void backend_submit(
	struct backend *backend, struct backend_ring *ring, struct backend_request *request)
{
	enum backend_status status = flush_verdict(backend, request);

	assert(request->done);
	request->backend = backend;
	request->next = NULL;
	atomic_fetch_add_explicit(&backend->pending, 1, memory_order_relaxed);
	if (status != BACKEND_OK ||
		(request->operation != BACKEND_FLUSH && request->length_bytes == 0)) {
		backend_finish(request, status);
		return;
	}
	assert(request->offset_bytes % backend->block_bytes == 0);
	assert(request->length_bytes % backend->block_bytes == 0);
	backend->kind->submit(backend, ring, request);
}

void backend_finish(struct backend_request *request, enum backend_status status)
{
	unsigned before =
		atomic_fetch_sub_explicit(&request->backend->pending, 1, memory_order_release);

	assert(before > 0);
	request->done(request, status);
}
