/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that the library allocates for the program to register. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arith.h"
#include "front/verbs/newer.h"
#include "front/verbs/result.h"
#include "os/log.h"

static size_t whole_pages(size_t bytes)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

void *buffer_alloc(struct ibv_pd *pd, size_t bytes, struct buffer **ret_buffer)
{
	struct buffer *buffer;

	if (!bytes || whole_pages(bytes) < bytes)
		return result_null("ibv_alloc_buf", result_cause(REASON_BUFFER_LENGTH));
	buffer = malloc(sizeof(*buffer));
	if (!buffer)
		return result_null("ibv_alloc_buf", result_cause(REASON_NO_MEMORY));
	*buffer = (struct buffer){.pd = pd, .bytes = bytes};
	buffer->address = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer->address == MAP_FAILED) {
		int error = -log_refusal("no memory for a buffer", "mmap");

		free(buffer);
		return result_null("ibv_alloc_buf", error);
	}
	*ret_buffer = buffer;
	return buffer->address;
}

void buffer_free(struct buffer *buffer)
{
	if (!buffer)
		return;
	munmap(buffer->address, whole_pages(buffer->bytes));
	free(buffer);
}

bool buffer_contains(
	const struct buffer *buffer, const struct ibv_pd *pd, const void *address, size_t length)
{
	return pd == buffer->pd &&
		range_inside((uintptr_t)address, length, (uintptr_t)buffer->address, buffer->bytes);
}

struct ibv_mr *buffer_register(
	struct ibv_pd *pd, struct buffer *buffer, void *address, size_t length, int access)
{
	if (!buffer_contains(buffer, pd, address, length))
		return result_null("ibv_reg_buf_mr", result_cause(REASON_BUFFER_RANGE));
	return ibv_reg_mr(pd, address, length, access);
}

int buffer_export_dmabuf(struct buffer *buffer)
{
	(void)buffer;
	return result_minus_one("ibv_export_buf_dmabuf_fd", result_cause(REASON_BUFFER_PRIVATE));
}
