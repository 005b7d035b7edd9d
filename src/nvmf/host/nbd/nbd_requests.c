/* SPDX-License-Identifier: BSD-2-Clause */
/* The transmission phase: each request of the client becomes a request of the device. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/host/nbd/nbd_internal.h"

struct header {
	uint16_t flags;
	uint16_t type;
	uint64_t cookie;
	uint64_t offset_bytes;
	uint32_t length_bytes;
};

static uint32_t wire_error(int error)
{
	switch (error) {
	case 0:
		return 0;
	case -EROFS:
	case -EPERM:
		return NBD_EPERM;
	case -ENOMEM:
		return NBD_ENOMEM;
	case -EINVAL:
		return NBD_EINVAL;
	case -ENOSPC:
		return NBD_ENOSPC;
	case -EOPNOTSUPP:
		return NBD_ENOTSUP;
	case -ENOTCONN:
		return NBD_ESHUTDOWN;
	default:
		return NBD_EIO;
	}
}

/* Drop the data of a request whose reply has no data. */
static void data_drop(struct nbd_request *request)
{
	request->session->memory_bytes -= request->data_bytes;
	request->data_bytes = 0;
}

static uint8_t *chunk_head(struct nbd_request *request, enum nbd_chunk type, size_t bytes)
{
	uint8_t *end = nbd_put32(request->head, NBD_STRUCTURED_MAGIC);

	end = nbd_put16(end, NBD_CHUNK_DONE);
	end = nbd_put16(end, (uint16_t)type);
	end = nbd_put64(end, request->cookie);
	return nbd_put32(end, (uint32_t)bytes);
}

static uint8_t *simple_head(struct nbd_request *request, uint32_t error)
{
	uint8_t *end = nbd_put32(request->head, NBD_SIMPLE_MAGIC);

	end = nbd_put32(end, error);
	return nbd_put64(end, request->cookie);
}

static uint8_t *error_head(struct nbd_request *request, uint32_t error)
{
	uint8_t *end;

	if (!request->session->is_structured)
		return simple_head(request, error);
	end = chunk_head(request, NBD_CHUNK_ERROR, 6);
	end = nbd_put32(end, error);
	return nbd_put16(end, 0);
}

/* Reply to a request that the device has ended with `error`, or that the session refuses. */
static void request_answer(struct nbd_request *request, int error)
{
	bool is_read = request->block.op == BLOCK_READ;
	uint8_t *end;

	if (error || !is_read)
		data_drop(request);
	if (error)
		end = error_head(request, wire_error(error));
	else if (is_read && request->session->is_structured)
		end = nbd_put64(
			chunk_head(request, NBD_CHUNK_OFFSET_DATA, 8 + (size_t)request->data_bytes),
			request->block.offset_bytes);
	else
		/* Even with structured replies, a reply without data may be a simple reply. */
		end = simple_head(request, 0);
	request->head_bytes = (uint32_t)(end - request->head);
	nbd_request_reply(request);
}

static void block_done(struct block_request *block, int error)
{
	struct nbd_request *request = container_of(block, struct nbd_request, block);
	struct nbd_session *session = request->session;

	session->pending_count--;
	if (session->is_destroyed) {
		nbd_request_free(request);
		if (session->pending_count == 0)
			free(session);
		return;
	}
	request_answer(request, error);
	if (!session->is_parsing)
		session->ready(session, session->context);
}

static void request_submit(struct nbd_request *request)
{
	request->session->pending_count++;
	block_submit(request->session->export->device, &request->block);
}

static void request_refuse(struct nbd_session *session, const struct header *header, int error)
{
	struct nbd_request *request = nbd_request_create(session, 0);

	if (!request)
		return;
	request->cookie = header->cookie;
	request_answer(request, error);
}

/* Reply with one extent of type "data", because NVMe does not report which blocks are holes. */
static void block_status(struct nbd_session *session, const struct header *header)
{
	uint64_t size = session->export->device->size_bytes;
	struct nbd_request *request;
	uint8_t *end;

	if (!session->has_block_status || !header->length_bytes || header->offset_bytes > size ||
		header->length_bytes > size - header->offset_bytes ||
		(header->flags & ~(NBD_FLAG_REQ_ONE | NBD_FLAG_FUA))) {
		request_refuse(session, header, -EINVAL);
		return;
	}
	request = nbd_request_create(session, 0);
	if (!request)
		return;
	request->cookie = header->cookie;
	end = chunk_head(request, NBD_CHUNK_BLOCK_STATUS, 12);
	end = nbd_put32(end, 1); /* BLOCK_STATUS_CONTEXT of nbd_options.c, the only context */
	end = nbd_put32(end, header->length_bytes);
	end = nbd_put32(end, 0);
	request->head_bytes = (uint32_t)(end - request->head);
	nbd_request_reply(request);
}

/*
 * The device's operation for a request, or -1. The protocol allows FUA on each request, but FUA has
 * no effect on reads and flushes.
 */
static int operation_of(const struct nbd_session *session, const struct header *header)
{
	uint16_t flags = header->flags & ~NBD_FLAG_FUA;
	uint16_t offered = nbd_transmission_flags(session);

	if ((header->flags & NBD_FLAG_FUA) && !(offered & NBD_SEND_FUA))
		return -1;
	switch (header->type) {
	case NBD_CMD_READ:
		return flags & ~(session->is_structured ? NBD_FLAG_DF : 0) ? -1 : BLOCK_READ;
	case NBD_CMD_WRITE:
		return flags ? -1 : BLOCK_WRITE;
	case NBD_CMD_FLUSH:
		return flags || header->offset_bytes || header->length_bytes ? -1 : BLOCK_FLUSH;
	case NBD_CMD_TRIM:
		return flags ? -1 : BLOCK_TRIM;
	case NBD_CMD_WRITE_ZEROES:
		return flags & ~NBD_FLAG_NO_HOLE ? -1 : BLOCK_WRITE_ZEROES;
	default:
		return -1;
	}
}

/* Create a request. The device fills a read's data; the client's payload fills a write's data. */
static struct nbd_request *request_make(
	struct nbd_session *session, const struct header *header, int operation)
{
	bool has_data = header->type == NBD_CMD_READ || header->type == NBD_CMD_WRITE;
	struct nbd_request *request =
		nbd_request_create(session, has_data ? header->length_bytes : 0);

	if (!request)
		return NULL;
	request->cookie = header->cookie;
	request->block.op = (enum block_op)operation;
	request->block.offset_bytes = header->offset_bytes;
	request->block.length_bytes = header->length_bytes;
	request->block.data = request->data;
	request->block.done = block_done;
	if (header->flags & NBD_FLAG_FUA)
		request->block.flags |= BLOCK_FUA;
	if (header->flags & NBD_FLAG_NO_HOLE)
		request->block.flags |= BLOCK_NO_HOLE;
	return request;
}

/*
 * Begin to receive a write's payload, which arrives even if the write is refused. A malformed write
 * gets length 0, so that the device refuses it.
 */
static void write_begin(struct nbd_session *session, const struct header *header)
{
	bool is_bad = operation_of(session, header) < 0;

	if (header->length_bytes > NBD_PAYLOAD_BYTES_MAX) {
		nbd_session_finish(session, NBD_PAYLOAD_TOO_LONG);
		return;
	}
	if (header->length_bytes == 0) {
		request_refuse(session, header, -EINVAL);
		return;
	}
	session->writing = request_make(session, header, BLOCK_WRITE);
	if (!session->writing)
		return;
	if (is_bad)
		session->writing->block.length_bytes = 0;
	session->writing_bytes = 0;
	session->state = NBD_WAIT_PAYLOAD;
}

void nbd_payload_arrived(struct nbd_session *session)
{
	struct nbd_request *request = session->writing;

	session->writing = NULL;
	session->state = NBD_WAIT_REQUEST;
	request_submit(request);
}

static void request_serve(struct nbd_session *session, const struct header *header)
{
	int operation = operation_of(session, header);
	struct nbd_request *request;

	if (header->type == NBD_CMD_DISC) {
		nbd_session_finish(session, NBD_DISCONNECTED);
	} else if (header->type == NBD_CMD_WRITE) {
		write_begin(session, header);
	} else if (header->type == NBD_CMD_BLOCK_STATUS) {
		block_status(session, header);
	} else if (operation < 0 ||
		(operation == BLOCK_READ && header->length_bytes > NBD_PAYLOAD_BYTES_MAX)) {
		request_refuse(session, header, -EINVAL);
	} else {
		request = request_make(session, header, operation);
		if (request)
			request_submit(request);
	}
}

size_t nbd_request_parse(struct nbd_session *session, const uint8_t *bytes, size_t size)
{
	struct header header;

	if (size < NBD_REQUEST_BYTES)
		return 0;
	if (nbd_get32(bytes) != NBD_REQUEST_MAGIC) {
		nbd_session_finish(session, NBD_BAD_REQUEST);
		return 0;
	}
	header.flags = nbd_get16(bytes + 4);
	header.type = nbd_get16(bytes + 6);
	header.cookie = nbd_get64(bytes + 8);
	header.offset_bytes = nbd_get64(bytes + 16);
	header.length_bytes = nbd_get32(bytes + 24);
	request_serve(session, &header);
	return NBD_REQUEST_BYTES;
}
