/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the application that the peer writes into directly (rsocket(7), riomap).
 *
 * riomap() announces a mapping by an entry in the peer's iomap table, which arrives before later
 * bytes of the stream. riowrite() looks up the offset in the local table, which the peer writes.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/arith.h"
#include "front/rsocket/stream/stream.h"

static bool is_decided(const struct rs *rs)
{
	return rs->state < RS_RESOLVING_ADDRESS || rs->state > RS_ACCEPTING;
}

static bool can_number_or_ended(const struct rs *rs)
{
	return rs->state != RS_CONNECTED || rs_can_number(rs);
}

static bool has_room_or_ended(const struct rs *rs)
{
	return rs->state != RS_CONNECTED || !rs->can_write ||
		(rs->send_slots > 0 && rs->send_free_bytes >= RS_SEND_BYTES_MIN);
}

/* The first free index in the peer's table; -1 when the table is full. */
static int free_index(const struct rs *rs)
{
	for (uint32_t index = 0; index < rs->peer_iomap.bytes; index++) {
		const struct rs_mapping *mapping = rs->mappings;

		while (mapping && mapping->index != (int)index)
			mapping = mapping->next;
		if (!mapping)
			return (int)index;
	}
	return -1;
}

static struct rs_mapping *mapping_find(const struct rs *rs, const void *buf, size_t len)
{
	struct rs_mapping *mapping = rs->mappings;

	while (mapping && (mapping->mr->addr != buf || mapping->mr->length != len))
		mapping = mapping->next;
	return mapping;
}

static int iomap_announce(struct rs *rs, struct rs_mapping *mapping, bool is_there)
{
	struct rs_iomap entry = {mapping->offset, {0, 0, 0}};
	int error = rs_wait(rs, can_number_or_ended, false);

	if (is_there)
		entry.sge = (struct rs_sge){(uintptr_t)mapping->mr->addr, mapping->mr->rkey,
			(uint32_t)mapping->mr->length};
	if (!error && rs->state != RS_CONNECTED)
		error = ENOTCONN;
	return error ? error : rs_iomap_send(rs, &entry, (uint32_t)mapping->index);
}

static int iomap_create(struct rs *rs, void *buf, size_t len, int prot, off_t *offset)
{
	bool is_remote = prot == PROT_WRITE;
	int access = is_remote ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
			       : IBV_ACCESS_LOCAL_WRITE;
	struct rs_mapping *mapping;
	int error = rs_wait(rs, is_decided, false);

	if (error)
		return error;
	if (rs->state != RS_CONNECTED)
		return ENOTCONN;
	if (len > UINT32_MAX || (prot != PROT_WRITE && prot != PROT_NONE))
		return EINVAL;
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		return rs_no_memory();
	mapping->index = is_remote ? free_index(rs) : -1;
	mapping->mr = ibv_reg_mr(rs->id->pd, buf, len, access);
	if (!mapping->mr)
		error = errno;
	else if (is_remote && mapping->index < 0)
		error = ENOBUFS;
	mapping->offset = *offset == -1 ? (uintptr_t)buf : (uint64_t)*offset;
	if (!error && is_remote)
		error = iomap_announce(rs, mapping, true);
	if (error) {
		if (mapping->mr)
			ibv_dereg_mr(mapping->mr);
		free(mapping);
		return error;
	}
	mapping->next = rs->mappings;
	rs->mappings = mapping;
	*offset = (off_t)mapping->offset;
	return 0;
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct rs *rs = rs_enter(socket);
	int error;

	(void)flags;
	if (!rs)
		return -1;
	rs_advance(rs);
	error = iomap_create(rs, buf, len, prot, &offset);
	rs_leave(rs);
	return error ? rs_result(error) : offset;
}

int riounmap(int socket, void *buf, size_t len)
{
	struct rs *rs = rs_enter(socket);
	struct rs_mapping *mapping;
	int error = 0;

	if (!rs)
		return -1;
	mapping = mapping_find(rs, buf, len);
	if (!mapping) {
		error = EINVAL;
	} else {
		struct rs_mapping **link = &rs->mappings;

		/* Empty the peer's entry before the memory is deregistered. */
		if (mapping->index >= 0 && rs->state == RS_CONNECTED)
			iomap_announce(rs, mapping, false);
		while (*link != mapping)
			link = &(*link)->next;
		*link = mapping->next;
		ibv_dereg_mr(mapping->mr);
		free(mapping);
	}
	rs_leave(rs);
	return rs_result(error);
}

/* The peer's mapping that holds `offset`. */
static const struct rs_iomap *iomap_find(const struct rs *rs, uint64_t offset)
{
	for (uint32_t i = 0; i < rs->options.iomap_count; i++) {
		const struct rs_iomap *entry = &rs->target_iomap[i];

		if (entry->sge.bytes && offset >= entry->offset &&
			offset - entry->offset < entry->sge.bytes)
			return entry;
	}
	return NULL;
}

/*
 * Write one piece: as many of `count` bytes as the mapping, the send buffer and the limit of a
 * transfer allow.
 */
static int iowrite_piece(
	struct rs *rs, struct pieces *from, size_t count, uint64_t offset, uint32_t *ret_bytes)
{
	const struct rs_iomap *entry = iomap_find(rs, offset);
	uint32_t bytes;
	struct rs_sge to;

	if (!entry)
		return EINVAL;
	to = entry->sge;
	to.address += offset - entry->offset;
	to.bytes -= (uint32_t)(offset - entry->offset);
	bytes = min_u32(min_u32(RS_TRANSFER_BYTES_MAX, to.bytes), rs->send_free_bytes);
	*ret_bytes = (uint32_t)min_u64(bytes, count);
	return rs_data_send(rs, from, *ret_bytes, &to, true);
}

static int iomap_write(struct rs *rs, const struct iovec *piece, uint64_t offset,
	bool is_nonblocking, size_t *ret_written)
{
	struct pieces from = pieces_begin(piece, 1);
	int error = 0;

	while (*ret_written < piece->iov_len && !error) {
		uint32_t bytes = 0;

		error = rs_wait(rs, has_room_or_ended, is_nonblocking);
		if (!error && rs->state != RS_CONNECTED)
			error = ENOTCONN;
		if (!error && !rs->can_write)
			error = EPIPE;
		if (!error)
			error = iowrite_piece(rs, &from, piece->iov_len - *ret_written,
				offset + *ret_written, &bytes);
		*ret_written += bytes;
	}
	return error;
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	const struct iovec piece = {(void *)(uintptr_t)buf, count};
	struct rs *rs = rs_enter(socket);
	size_t written = 0;
	int error;

	if (!rs)
		return (size_t)-1;
	rs_advance(rs);
	error = iomap_write(rs, &piece, (uint64_t)offset,
		rs->is_nonblocking || (flags & MSG_DONTWAIT), &written);
	rs_leave(rs);
	if (error && !written)
		return (size_t)rs_result(error);
	return written;
}
