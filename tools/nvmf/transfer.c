/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * read copies blocks of a namespace to a file. write copies a file to blocks of a namespace, then
 * flushes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvmf.h"

enum { PIECE_BYTES = 1 << 20 };

/*
 * Choose the range: by blocks, with nvme-cli's options, or by bytes, with fio's. Returns false
 * after a sentence on standard error.
 */
static bool range_choose(const struct nvmf_options *options, const struct block_device *device,
	uint64_t *ret_offset, uint64_t *ret_size)
{
	uint64_t offset = options->offset_bytes;
	uint64_t size = options->size_bytes;

	if (options->has_start_block) {
		if (options->start_block > device->size_bytes / device->block_bytes) {
			complain("the namespace has only %" PRIu64 " blocks",
				device->size_bytes / device->block_bytes);
			return false;
		}
		offset = options->start_block * device->block_bytes;
		size = ((uint64_t)options->block_count + 1) * device->block_bytes;
	}
	if (offset > device->size_bytes || (size && size > device->size_bytes - offset) ||
		(offset | size) % device->block_bytes) {
		complain("offset and size must be multiples of %u within the %" PRIu64
			 " bytes of the namespace",
			device->block_bytes, device->size_bytes);
		return false;
	}
	*ret_offset = offset;
	*ret_size = size ? size : device->size_bytes - offset;
	return true;
}

static int copy_out(struct session *session, FILE *file, uint64_t offset, uint64_t size)
{
	static uint8_t piece[PIECE_BYTES];

	while (size > 0) {
		uint64_t length = size < sizeof(piece) ? size : sizeof(piece);
		struct block_request request = {.op = BLOCK_READ,
			.offset_bytes = offset,
			.length_bytes = length,
			.data = piece};
		int error = session_block(session, &request);

		if (error)
			return complain(
				"reading at %" PRIu64 " failed: %s", offset, strerror(-error));
		if (fwrite(piece, 1, length, file) != length)
			return complain(
				"writing the file failed: %s; free some space", strerror(errno));
		offset += length;
		size -= length;
	}
	return fflush(file) ? complain("writing the file failed: %s", strerror(errno)) : 0;
}

static int copy_in(struct session *session, FILE *file, uint64_t offset, uint64_t size)
{
	static uint8_t piece[PIECE_BYTES];
	uint32_t block_bytes = remote_device(session->remote)->block_bytes;
	struct block_request flush = {.op = BLOCK_FLUSH};
	int error;

	for (;;) {
		size_t length = fread(piece, 1, sizeof(piece), file);
		struct block_request request = {
			.op = BLOCK_WRITE, .offset_bytes = offset, .data = piece};

		if (length == 0)
			break;
		if (length > size)
			return complain("the file is longer than the range; give a larger --size");
		/* Zeroes fill the rest of the last block. */
		request.length_bytes = (length + block_bytes - 1) / block_bytes * block_bytes;
		memset(piece + length, 0, request.length_bytes - length);
		error = session_block(session, &request);
		if (error)
			return complain(
				"writing at %" PRIu64 " failed: %s", offset, strerror(-error));
		offset += length;
		size -= length;
	}
	if (ferror(file))
		return complain("reading the file failed: %s", strerror(errno));
	error = session_block(session, &flush);
	return error ? complain("the flush failed: %s", strerror(-error)) : 0;
}

static int transfer_run(const struct nvmf_options *options, bool is_write)
{
	struct session session;
	FILE *file = is_write ? stdin : stdout;
	uint64_t offset, size;
	int status = 1;

	if (options->data && strcmp(options->data, "-") != 0)
		file = fopen(options->data, is_write ? "re" : "we");
	if (!file)
		return complain("cannot open '%s': %s", options->data, strerror(errno));
	if (session_open(&session, NULL, options, options->nqn, true) == 0) {
		if (range_choose(options, remote_device(session.remote), &offset, &size))
			status = is_write ? copy_in(&session, file, offset, size)
					  : copy_out(&session, file, offset, size);
		session_close(&session);
	}
	if (file != stdin && file != stdout)
		fclose(file);
	return status;
}

int command_read(const struct nvmf_options *options)
{
	return transfer_run(options, false);
}

int command_write(const struct nvmf_options *options)
{
	return transfer_run(options, true);
}
