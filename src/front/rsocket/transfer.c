/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes out and in.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "front/rsocket/rsocket.h"

/* --- out --- */

static bool can_send_or_ended(const struct rs *rs)
{
	bool is_opening = rs->state >= RS_RESOLVING_ADDRESS && rs->state <= RS_ACCEPTING;

	if (is_opening)
		return false;
	return rs->state != RS_CONNECTED || !rs->can_write || rs_can_send(rs);
}

/* Why nothing can be sent any more; 0 while it can. */
static int send_error(const struct rs *rs)
{
	if (rs->state == RS_FAILED)
		return rs->error ? rs->error : ECONNRESET;
	if (rs->state == RS_DISCONNECTED || (rs->state == RS_CONNECTED && !rs->can_write))
		return EPIPE;
	return rs->state == RS_CONNECTED ? 0 : ENOTCONN;
}

static int send_piece(struct rs *rs, struct pieces *from, uint32_t bytes)
{
	struct rs_sge *target = &rs->target[rs->target_index];
	struct rs_sge to = *target;
	int error = rs_data_send(rs, from, bytes, &to, false);

	target->address += bytes;
	target->bytes -= bytes;
	if (!target->bytes)
		rs->target_index = (rs->target_index + 1) % RS_TARGET_COUNT;
	return error;
}

/*
 * Short pieces first, so that the wire is busy while later ones are copied. Returns what was sent
 * before an error; the error only when nothing was.
 */
static ssize_t send_all(struct rs *rs, const struct iovec *list, int count, bool is_nonblocking)
{
	struct pieces from = pieces_begin(list, count);
	size_t left = pieces_bytes(list, count);
	size_t sent = 0;
	uint32_t piece_bytes = RS_TRANSFER_BYTES_START;
	int error = 0;

	while (left && !error) {
		uint32_t bytes;

		if (!can_send_or_ended(rs) || rs->state != RS_CONNECTED)
			error = rs_wait(rs, can_send_or_ended, is_nonblocking);
		if (!error)
			error = send_error(rs);
		if (error)
			break;
		bytes = min_u32(piece_bytes, rs->target[rs->target_index].bytes);
		bytes = min_u32(bytes, rs->send_free_bytes);
		bytes = left < bytes ? (uint32_t)left : bytes;
		error = send_piece(rs, &from, bytes);
		sent += bytes;
		left -= bytes;
		piece_bytes = min_u32(piece_bytes * 2, RS_TRANSFER_BYTES_MAX);
	}
	if (sent || !error)
		return (ssize_t)sent;
	return rs_result(error);
}

static ssize_t send_pieces_of(int socket, const struct iovec *list, int count, int flags)
{
	struct rs *rs = rs_get(socket);
	ssize_t sent;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rs_advance(rs);
	sent = send_all(rs, list, count, rs->is_nonblocking || (flags & MSG_DONTWAIT));
	pthread_mutex_unlock(&rs->lock);
	rs_put(rs);
	return sent;
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	struct iovec piece = {(void *)(uintptr_t)buf, len};

	return send_pieces_of(socket, &piece, 1, flags);
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
	const struct sockaddr *dest_addr, socklen_t addrlen)
{
	if (dest_addr || addrlen)
		return rs_result(EISCONN);
	return rsend(socket, buf, len, flags);
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	if (msg->msg_control && msg->msg_controllen)
		return rs_result(ENOTSUP);
	return send_pieces_of(socket, msg->msg_iov, (int)msg->msg_iovlen, flags);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	return send_pieces_of(socket, iov, iovcnt, 0);
}

/* --- in --- */

static bool can_receive_or_ended(const struct rs *rs)
{
	bool is_opening = rs->state >= RS_RESOLVING_ADDRESS && rs->state <= RS_ACCEPTING;

	return !is_opening && (rs->message_count || rs->state != RS_CONNECTED || !rs->can_read);
}

/* What is there, up to `bytes`. Peeking leaves it there. */
static size_t receive_there(struct rs *rs, struct pieces *to, size_t bytes, bool is_peek)
{
	uint32_t size = rs->options.receive_buffer_bytes;
	uint32_t queue_size = rs->options.receive_queue_size;
	uint32_t offset = rs->read_offset;
	size_t received = 0;

	for (uint32_t i = 0; i < rs->message_count && received < bytes; i++) {
		uint32_t *message_bytes = &rs->messages[(rs->message_head + i) % queue_size];
		uint32_t part = (uint32_t)min_u64(bytes - received, *message_bytes);

		pieces_copy_ring(to, rs->receive_buffer, size, offset, part, PIECES_IN);
		offset = (offset + part) % size;
		received += part;
		if (is_peek)
			continue;
		*message_bytes -= part;
		rs->read_offset = offset;
		rs->free_bytes += part;
	}
	while (!is_peek && rs->message_count && !rs->messages[rs->message_head]) {
		rs->message_head = (rs->message_head + 1) % queue_size;
		rs->message_count--;
		rs->receive_sequence++;
	}
	return received;
}

static ssize_t receive_all(struct rs *rs, const struct iovec *list, int count, int flags)
{
	struct pieces to = pieces_begin(list, count);
	bool is_nonblocking = rs->is_nonblocking || (flags & MSG_DONTWAIT);
	bool is_peek = flags & MSG_PEEK;
	size_t left = pieces_bytes(list, count);
	size_t received = 0;
	int error = 0;

	while (left && !error) {
		size_t part;

		if (!rs->message_count)
			error = rs_wait(rs, can_receive_or_ended, is_nonblocking);
		if (error)
			break;
		part = receive_there(rs, &to, left, is_peek);
		if (!is_peek)
			rs_grant(rs);
		received += part;
		left -= part;
		if (part == 0 || is_peek || !(flags & MSG_WAITALL))
			break;
	}
	if (received)
		return (ssize_t)received;
	if (!error && rs->state == RS_FAILED && rs->error)
		error = rs->error;
	if (!error && rs->state < RS_RESOLVING_ADDRESS)
		error = ENOTCONN;
	return error ? rs_result(error) : 0;
}

static ssize_t receive_pieces_of(int socket, const struct iovec *list, int count, int flags)
{
	struct rs *rs = rs_get(socket);
	ssize_t received;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rs_advance(rs);
	received = receive_all(rs, list, count, flags);
	pthread_mutex_unlock(&rs->lock);
	rs_put(rs);
	return received;
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	struct iovec piece = {buf, len};

	return receive_pieces_of(socket, &piece, 1, flags);
}

ssize_t rrecvfrom(
	int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen)
{
	ssize_t received = rrecv(socket, buf, len, flags);

	if (received > 0 && src_addr && addrlen)
		rgetpeername(socket, src_addr, addrlen);
	return received;
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	if (msg->msg_control && msg->msg_controllen)
		return rs_result(ENOTSUP);
	return receive_pieces_of(socket, msg->msg_iov, (int)msg->msg_iovlen, flags);
}

ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	return receive_pieces_of(socket, iov, iovcnt, 0);
}
