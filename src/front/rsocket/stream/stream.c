/* SPDX-License-Identifier: BSD-2-Clause */
/* The connection of a stream, and what a waiting call does for the stream. */
#include "front/rsocket/stream/stream.h"

#include <errno.h>
#include <fcntl.h>

int rs_stream_open(struct rs *rs)
{
	rs->events = rdma_create_event_channel();
	if (!rs->events || fcntl(rs->events->fd, F_SETFL, O_NONBLOCK))
		return errno;
	rs->fd = rs->events->fd;
	return 0;
}

static void stream_free(struct rs *rs)
{
	rs_endpoint_destroy(rs);
	if (rs->id)
		rdma_destroy_id(rs->id);
	rdma_destroy_event_channel(rs->events);
}

void rs_fail(struct rs *rs, int error)
{
	if (rs->state == RS_FAILED)
		return;
	rs->state = RS_FAILED;
	rs->error = error;
	rs->can_read = false;
	rs->can_write = false;
}

/* --- the connection's events --- */

static int connect_now(struct rs *rs)
{
	struct rs_conn_data data;
	struct rdma_conn_param param = {
		.private_data = &data,
		.private_data_len = sizeof(data),
		.flow_control = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	int error = rs_endpoint_create(rs);

	if (error)
		return error;
	rs_conn_data_make(rs, &data);
	return rdma_connect(rs->id, &param) ? errno : 0;
}

static int error_of_event(const struct rdma_cm_event *event)
{
	switch ((int)event->event) {
	case RDMA_CM_EVENT_REJECTED:
		return ECONNREFUSED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return event->status == -ETIMEDOUT ? ETIMEDOUT : ENETUNREACH;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return event->status == -ETIMEDOUT ? EHOSTUNREACH : ENETUNREACH;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return ENODEV;
	default:
		return event->status < 0 ? -event->status : ECONNABORTED;
	}
}

static void stream_established(struct rs *rs, const struct rdma_cm_event *event)
{
	int error = 0;

	if (rs->state == RS_CONNECTING)
		error = rs_conn_data_take(
			rs, event->param.conn.private_data, event->param.conn.private_data_len);
	if (error)
		rs_fail(rs, error);
	else
		rs->state = RS_CONNECTED;
}

static void stream_disconnected(struct rs *rs)
{
	if (rs->cq)
		rs_completions_take(rs); /* handle data that arrived before the end */
	if (rs->state == RS_CONNECTED || rs->state == RS_ACCEPTING)
		rs->state = RS_DISCONNECTED;
	rs->can_read = false;
	rs->can_write = false;
}

static void event_take(struct rs *rs, const struct rdma_cm_event *event)
{
	int error = 0;

	switch ((int)event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		rs->state = RS_RESOLVING_ROUTE;
		if (rdma_resolve_route(rs->id, RS_RESOLVE_TIMEOUT_MS))
			error = errno;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		rs->state = RS_CONNECTING;
		error = connect_now(rs);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		stream_established(rs, event);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		stream_disconnected(rs);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		error = error_of_event(event);
	}
	if (error)
		rs_fail(rs, error);
}

void rs_connection_advance(struct rs *rs)
{
	struct rdma_cm_event *event;

	if (rs->state == RS_LISTENING)
		return;
	while (rdma_get_cm_event(rs->events, &event) == 0) {
		event_take(rs, event);
		rdma_ack_cm_event(event);
	}
}

/* --- what a wait does --- */

static bool stream_look(struct rs *rs)
{
	if (!rs->cq)
		return false;
	rs_completions_take(rs);
	rs_grant(rs);
	return true;
}

static void stream_advance(struct rs *rs)
{
	rs_connection_advance(rs);
	stream_look(rs);
}

static void stream_arm(struct rs *rs)
{
	if (rs->cq)
		rs_completions_arm(rs);
}

static nfds_t stream_watch(const struct rs *rs, struct pollfd *ret_fds)
{
	nfds_t count = 0;

	ret_fds[count++] = (struct pollfd){.fd = rs->events->fd, .events = POLLIN};
	if (rs->completions)
		ret_fds[count++] = (struct pollfd){.fd = rs->completions->fd, .events = POLLIN};
	return count;
}

static short stream_readiness(const struct rs *rs)
{
	short events = 0;

	switch (rs->state) {
	case RS_INIT:
	case RS_BOUND:
		return POLLOUT | POLLHUP;
	case RS_LISTENING: {
		struct pollfd fd = {.fd = rs->events->fd, .events = POLLIN};

		return poll(&fd, 1, 0) == 1 ? POLLIN : 0;
	}
	case RS_RESOLVING_ADDRESS:
	case RS_RESOLVING_ROUTE:
	case RS_CONNECTING:
	case RS_ACCEPTING:
		return 0;
	case RS_CONNECTED:
		if (rs->message_count || !rs->can_read)
			events |= POLLIN;
		if (rs_can_send(rs) || !rs->can_write)
			events |= POLLOUT;
		return events;
	case RS_DISCONNECTED: /* report the received bytes first, then the end */
		return rs->message_count ? POLLIN : POLLIN | POLLOUT | POLLHUP;
	case RS_FAILED:
		return POLLIN | POLLOUT | POLLHUP | POLLERR;
	}
	return 0;
}

const struct rs_kind rs_stream_kind = {
	.advance = stream_advance,
	.look = stream_look,
	.arm = stream_arm,
	.watch = stream_watch,
	.readiness = stream_readiness,
	.close = stream_free,
};
