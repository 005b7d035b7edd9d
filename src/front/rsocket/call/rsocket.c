/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls that make, connect and close sockets.
 */
#include <errno.h>
#include <stdlib.h>

#include "front/rsocket/call/call.h"
#include "front/rsocket/datagram/datagram_socket.h"
#include "front/rsocket/stream/stream.h"

static const struct rs_options options_default = {
	.send_buffer_bytes = RS_BUFFER_BYTES_DEFAULT,
	.receive_buffer_bytes = RS_BUFFER_BYTES_DEFAULT,
	.send_queue_size = RS_QUEUE_SIZE_DEFAULT,
	.receive_queue_size = RS_QUEUE_SIZE_DEFAULT,
	.inline_bytes = RS_INLINE_BYTES_DEFAULT,
};

/* --- made --- */

static int socket_open(struct rs *rs, bool is_datagram, int protocol)
{
	int error = is_datagram ? rs_datagram_open(rs, protocol) : rs_stream_open(rs);

	if (!error && !is_datagram && rdma_create_id(rs->events, &rs->id, rs, RDMA_PS_TCP))
		error = errno;
	return error ? error : rs_table_add(rs);
}

int rsocket(int domain, int type, int protocol)
{
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct rs *rs;
	int error;

	if (domain != PF_INET && domain != PF_INET6)
		return rs_result(EAFNOSUPPORT);
	if (kind != SOCK_STREAM && kind != SOCK_DGRAM)
		return rs_result(EPROTONOSUPPORT);
	if (protocol && protocol != (kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
		return rs_result(EPROTONOSUPPORT);
	rs = rs_alloc(kind == SOCK_STREAM ? &rs_stream_kind : &rs_datagram_kind, domain,
		&options_default);
	if (!rs)
		return -1;
	rs->is_nonblocking = (type & SOCK_NONBLOCK) != 0;
	error = socket_open(rs, kind == SOCK_DGRAM, protocol);
	if (error) {
		rs_free(rs);
		return rs_result(error);
	}
	return rs->fd;
}

/* --- passive --- */

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rs *rs = rs_enter(socket);
	int error = 0;

	if (!rs)
		return -1;
	if (rs->datagram)
		error = bind(rs->fd, addr, addrlen) ? errno : 0;
	else if (rs->state != RS_INIT)
		error = EINVAL;
	else if (rdma_bind_addr(rs->id, (struct sockaddr *)(uintptr_t)addr))
		error = errno;
	else
		rs->state = RS_BOUND;
	rs_leave(rs);
	return rs_result(error);
}

int rlisten(int socket, int backlog)
{
	struct rs *rs = rs_enter(socket);
	int error = 0;

	if (!rs)
		return -1;
	if (rs->datagram)
		error = EOPNOTSUPP;
	else if (rs->state != RS_BOUND && rs->state != RS_LISTENING)
		error = rs->state == RS_INIT ? EDESTADDRREQ : EINVAL;
	else if (rs->state == RS_BOUND && rdma_listen(rs->id, backlog))
		error = errno;
	else
		rs->state = RS_LISTENING;
	rs_leave(rs);
	return rs_result(error);
}

static bool has_connection_event(const struct rs *rs)
{
	struct pollfd fd = {.fd = rs->events->fd, .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

/* Accept a request with a new stream. Returns NULL with errno if it refused the request instead. */
static struct rs *accept_request(struct rs *listener, struct rdma_cm_event *event)
{
	struct rs_conn_data data;
	struct rdma_conn_param param = {
		.private_data = &data,
		.private_data_len = sizeof(data),
		.flow_control = 1,
		.rnr_retry_count = 7,
	};
	struct rdma_cm_id *id = event->id;
	struct rs *rs = rs_alloc(listener->kind, listener->family, &listener->options);
	int error = rs ? rs_stream_open(rs) : errno;

	if (rs) {
		rs->id = id;
		id->context = rs;
	}
	if (!error)
		error = rs_endpoint_create(rs);
	if (!error)
		error = rs_conn_data_take(
			rs, event->param.conn.private_data, event->param.conn.private_data_len);
	/* Acknowledge before rdma_migrate_id(), which waits for the acknowledgement */
	rdma_ack_cm_event(event);
	if (!error && rdma_migrate_id(id, rs->events))
		error = errno;
	if (!error) {
		rs_conn_data_make(rs, &data);
		rs->state = RS_ACCEPTING;
		error = rdma_accept(id, &param) ? errno : rs_table_add(rs);
	}
	if (!error)
		return rs;
	rdma_reject(id, NULL, 0);
	if (rs)
		rs_free(rs);
	else
		rdma_destroy_id(id);
	errno = error;
	return NULL;
}

/* Take the next connection request; a listener ignores other events. NULL: none. */
static struct rdma_cm_event *request_take(struct rs *rs)
{
	struct rdma_cm_event *event;

	while (rdma_get_cm_event(rs->events, &event) == 0) {
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			return event;
		rdma_ack_cm_event(event);
	}
	return NULL;
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rs *rs = rs_enter(socket);
	struct rdma_cm_event *event = NULL;
	struct rs *accepted = NULL;
	int error = 0;

	if (!rs)
		return -1;
	if (rs->state != RS_LISTENING)
		error = rs->datagram ? EOPNOTSUPP : EINVAL;
	while (!error && !accepted) {
		error = rs_wait(rs, has_connection_event, rs->is_nonblocking);
		event = error ? NULL : request_take(rs);
		if (event)
			accepted = accept_request(rs, event);
		/*
		 * EPROTO is an error of the peer, so wait for the next request. Other errors are
		 * errors of this side.
		 */
		if (event && !accepted && errno != EPROTO)
			error = errno;
	}
	rs_leave(rs);
	if (error)
		return rs_result(error);
	if (addr && addrlen)
		rgetpeername(accepted->fd, addr, addrlen);
	return accepted->fd;
}

/* --- active --- */

static bool is_connection_decided(const struct rs *rs)
{
	return rs->state == RS_CONNECTED || rs->state == RS_DISCONNECTED || rs->state == RS_FAILED;
}

static int connect_start(struct rs *rs, const struct sockaddr *addr)
{
	switch (rs->state) {
	case RS_INIT:
	case RS_BOUND:
		break;
	case RS_RESOLVING_ADDRESS:
	case RS_RESOLVING_ROUTE:
	case RS_CONNECTING:
		return EALREADY;
	case RS_CONNECTED:
	case RS_ACCEPTING:
		return EISCONN;
	case RS_FAILED:
		return 0; /* the caller reports rs->error */
	case RS_LISTENING:
	case RS_DISCONNECTED:
		return EINVAL;
	}
	if (rdma_resolve_addr(
		    rs->id, NULL, (struct sockaddr *)(uintptr_t)addr, RS_RESOLVE_TIMEOUT_MS))
		return errno;
	rs->state = RS_RESOLVING_ADDRESS;
	return 0;
}

static int stream_connect(struct rs *rs, const struct sockaddr *addr)
{
	int error;

	rs_connection_advance(rs);
	error = connect_start(rs, addr);
	if (!error)
		error = rs_wait(rs, is_connection_decided, rs->is_nonblocking);
	if (error == EAGAIN)
		error = EINPROGRESS;
	if (!error && rs->state == RS_FAILED)
		error = rs->error;
	return error;
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rs *rs = rs_enter(socket);
	int error;

	if (!rs)
		return -1;
	error = rs->datagram ? rs_datagram_connect(rs, addr, addrlen) : stream_connect(rs, addr);
	rs_leave(rs);
	return rs_result(error);
}

/* --- the end --- */

static bool has_ctrl_slot(const struct rs *rs)
{
	return rs->ctrl_slots > 0 || rs->state != RS_CONNECTED;
}

static int stream_shutdown(struct rs *rs, int how)
{
	bool is_end = how == SHUT_RDWR || !rs->can_read;
	int error;

	rs_advance(rs);
	if (rs->state != RS_CONNECTED)
		return rs->state == RS_DISCONNECTED ? 0 : ENOTCONN;
	if (how == SHUT_RD)
		rs->can_read = false;
	if (how == SHUT_RD || (!rs->can_write && how == SHUT_WR))
		return 0;
	rs->can_write = false;
	if (is_end)
		rs->can_read = false;
	error = rs_wait(rs, has_ctrl_slot, false);
	if (!error && rs->state == RS_CONNECTED)
		rs_ctrl_send(rs, is_end ? RS_CTRL_DISCONNECT : RS_CTRL_SHUTDOWN);
	if (!error && is_end) {
		error = rs_wait(rs, rs_is_sent, false);
		if (rs->state == RS_CONNECTED)
			rs->state = RS_DISCONNECTED;
	}
	return error;
}

int rshutdown(int socket, int how)
{
	struct rs *rs = rs_enter(socket);
	int error;

	if (!rs)
		return -1;
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		error = EINVAL;
	else if (rs->datagram)
		error = shutdown(rs->fd, how) ? errno : 0;
	else
		error = stream_shutdown(rs, how);
	rs_leave(rs);
	return rs_result(error);
}

static void stream_close(struct rs *rs)
{
	rs_advance(rs);
	if (rs->state == RS_CONNECTED) {
		rs->can_read = false;
		rs->can_write = false;
		rs_wait(rs, has_ctrl_slot, false);
		if (rs->state == RS_CONNECTED)
			rs_ctrl_send(rs, RS_CTRL_DISCONNECT);
		rs_wait(rs, rs_is_sent, false);
	}
	if (rs->id->qp)
		rdma_disconnect(rs->id);
}

int rclose(int socket)
{
	struct rs *rs = rs_get(socket);

	if (!rs)
		return rs_repoll_close(socket) ? 0 : rs_result(EBADF);
	rs_table_remove(rs);
	pthread_mutex_lock(&rs->lock);
	if (rs->datagram)
		rs_datagram_finish(rs);
	else
		stream_close(rs);
	pthread_cond_broadcast(&rs->changed);
	pthread_mutex_unlock(&rs->lock);
	rs_put(rs); /* this call no longer uses the socket */
	rs_put(rs); /* the table no longer uses it either */
	return 0;
}
