/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending and receiving bytes.
 */
#include <errno.h>

#include "base/arith.h"
#include "front/rsocket/datagram/datagram_socket.h"
#include "front/rsocket/stream/stream.h"

/* --- out --- */

static bool can_send_or_ended(const struct rs *rs)
{
	bool is_opening = rs->state >= RS_RESOLVING_ADDRESS && rs->state <= RS_ACCEPTING;

	if (is_opening)
		return false;
	return rs->state != RS_CONNECTED || !rs->can_write || rs_can_send(rs);
}

/* The reason why nothing can be sent any more; 0 while sending is possible. */
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

	/*
	 * Update the entry before the send. After the send, the peer may already have written a new
	 * entry there.
	 */
	target->address += bytes;
	target->bytes -= bytes;
	if (!target->bytes)
		rs->target_index = (rs->target_index + 1) % RS_TARGET_COUNT;
	return rs_data_send(rs, from, bytes, &to, false);
}

/*
 * Begin with short pieces, so that the wire is busy while longer ones are copied. Returns the
 * number of bytes sent; -1 with errno only if an error came before the first byte.
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

static ssize_t message_send(int socket, const struct msghdr *message, int flags)
{
	struct rs *rs = rs_enter(socket);
	ssize_t sent;

	if (!rs)
		return -1;
	if (rs->datagram) {
		sent = rs_result(rs_datagram_send(rs, message, flags));
		if (sent == 0)
			sent = (ssize_t)pieces_bytes(message->msg_iov, (int)message->msg_iovlen);
	} else if (message->msg_name) {
		sent = rs_result(EISCONN);
	} else {
		rs_advance(rs);
		sent = send_all(rs, message->msg_iov, (int)message->msg_iovlen,
			rs->is_nonblocking || (flags & MSG_DONTWAIT));
	}
	rs_leave(rs);
	return sent;
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
	const struct sockaddr *dest_addr, socklen_t addrlen)
{
	struct iovec piece = {(void *)(uintptr_t)buf, len};
	const struct msghdr message = {
		.msg_name = addrlen ? (void *)(uintptr_t)dest_addr : NULL,
		.msg_namelen = addrlen,
		.msg_iov = &piece,
		.msg_iovlen = 1,
	};

	return message_send(socket, &message, flags);
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	return rsendto(socket, buf, len, flags, NULL, 0);
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	if (msg->msg_control && msg->msg_controllen)
		return rs_result(ENOTSUP);
	return message_send(socket, msg, flags);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	const struct msghdr message = {
		.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)iovcnt};

	return message_send(socket, &message, 0);
}

/* --- in --- */

static bool can_receive_or_ended(const struct rs *rs)
{
	bool is_opening = rs->state >= RS_RESOLVING_ADDRESS && rs->state <= RS_ACCEPTING;

	return !is_opening && (rs->message_count || rs->state != RS_CONNECTED || !rs->can_read);
}

/* Copy up to `bytes` received bytes. If `is_peek`, they stay in the receive buffer. */
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
	/*
	 * The program rstream reads errno at the end of a stream, too. So errno must not be EAGAIN,
	 * nor a value that an earlier or an inner call has left.
	 */
	errno = error;
	return error ? -1 : 0;
}

static ssize_t message_receive(int socket, struct msghdr *message, int flags)
{
	struct rs *rs = rs_enter(socket);
	size_t bytes = 0;
	ssize_t received;

	if (!rs)
		return -1;
	if (rs->datagram) {
		received = rs_result(rs_datagram_receive(rs, message, flags, &bytes));
		if (received == 0)
			received = (ssize_t)bytes;
	} else {
		rs_advance(rs);
		received = receive_all(rs, message->msg_iov, (int)message->msg_iovlen, flags);
	}
	pthread_mutex_unlock(&rs->lock);
	/* For a stream, too, report the name of the sender. */
	if (!rs->datagram && received > 0 && message->msg_name)
		rgetpeername(socket, message->msg_name, &message->msg_namelen);
	rs_put(rs);
	return received;
}

ssize_t rrecvfrom(
	int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen)
{
	struct iovec piece = {buf, len};
	struct msghdr message = {
		.msg_name = addrlen ? src_addr : NULL,
		.msg_namelen = addrlen ? *addrlen : 0,
		.msg_iov = &piece,
		.msg_iovlen = 1,
	};
	ssize_t received = message_receive(socket, &message, flags);

	if (received >= 0 && src_addr && addrlen)
		*addrlen = message.msg_namelen;
	return received;
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	return rrecvfrom(socket, buf, len, flags, NULL, NULL);
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	if (msg->msg_control && msg->msg_controllen)
		return rs_result(ENOTSUP);
	return message_receive(socket, msg, flags);
}

ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	struct msghdr message = {
		.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)iovcnt};

	return message_receive(socket, &message, 0);
}
