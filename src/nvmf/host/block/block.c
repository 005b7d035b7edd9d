/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf/host/block/block.h"

#include <errno.h>
#include <stddef.h>

static int range_check(const struct block_device *device, const struct block_request *request)
{
	uint64_t mask = device->block_bytes - 1;

	if (((request->offset_bytes | request->length_bytes) & mask) || !request->length_bytes)
		return -EINVAL;
	if (request->offset_bytes > device->size_bytes ||
		request->length_bytes > device->size_bytes - request->offset_bytes)
		return request->op == BLOCK_READ ? -EINVAL : -ENOSPC;
	return 0;
}

static int request_check(const struct block_device *device, const struct block_request *request)
{
	switch (request->op) {
	case BLOCK_FLUSH:
		return 0;
	case BLOCK_READ:
		return range_check(device, request);
	case BLOCK_TRIM:
		if (!device->has_trim)
			return -EOPNOTSUPP;
		break;
	case BLOCK_WRITE_ZEROES:
		if (!device->has_write_zeroes)
			return -EOPNOTSUPP;
		break;
	case BLOCK_WRITE:
		break;
	}
	if (device->is_read_only)
		return -EROFS;
	return range_check(device, request);
}

void block_submit(struct block_device *device, struct block_request *request)
{
	int error = request_check(device, request);

	if (error) {
		request->done(request, error);
		return;
	}
	device->was_written |= request->op != BLOCK_READ && request->op != BLOCK_FLUSH;
	device->ops->submit(device, request);
}

void block_device_destroy(struct block_device *device)
{
	if (device)
		device->ops->destroy(device);
}
