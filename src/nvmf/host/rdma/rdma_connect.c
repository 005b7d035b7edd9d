/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a queue connects by rdma_cm: address, route, REQ and REP.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "nvmf/common/rdma/rdma_private.h"
#include "nvmf/host/rdma/rdma_queue.h"

enum {
	RESOLVE_TIMEOUT_MS = 5000,
	RETRY_COUNT = 7, /* the largest count; for RNR NAKs 7 means without limit */
	PRIVATE_REJECT_STATUS = 28, /* REJ reason: consumer defined (IBTA 12.6.7.2) */
};

void host_rdma_lost(struct host_rdma *rdma, int error, const char *format, ...)
{
	char reason[HOST_REASON_BYTES];
	va_list arguments;

	if (rdma->state == HOST_RDMA_LOST)
		return;
	rdma->state = HOST_RDMA_LOST;
	rdma_completions_stop(&rdma->completions);
	va_start(arguments, format);
	vsnprintf(reason, sizeof(reason), format, arguments);
	va_end(arguments);
	rdma->settings.lost(rdma->settings.context, error, reason);
}

/* Create memory, completion queue and queue pair on the device that rdma_cm has found. */
static int make_queue_pair(struct host_rdma *rdma)
{
	uint32_t depth = rdma->settings.depth;
	uint64_t capsules = (uint64_t)depth * rdma->capsule_bytes +
		(uint64_t)rdma->receive_count * HOST_RDMA_CAPSULE_ALIGN;
	uint64_t pool = 2ull * rdma->settings.data_bytes_max;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = depth + 1,
			.max_recv_wr = rdma->receive_count,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	int error;

	if (pool < (uint64_t)depth * RDMA_POOL_PAGE_BYTES)
		pool = (uint64_t)depth * RDMA_POOL_PAGE_BYTES;
	if (pool < HOST_RDMA_POOL_BYTES_MIN)
		pool = HOST_RDMA_POOL_BYTES_MIN;
	errno = 0;
	rdma->pd = ibv_alloc_pd(rdma->id->verbs);
	if (!rdma->pd)
		return errno ? -errno : -ENOMEM;
	error = rdma_pool_init(&rdma->capsules, rdma->pd, capsules, 0);
	if (error == 0)
		error = rdma_pool_init(&rdma->pool, rdma->pd, pool,
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	if (error == 0)
		error = rdma_completions_init(&rdma->completions, rdma->settings.loop,
			rdma->id->verbs, depth + 1 + rdma->receive_count, host_rdma_completed);
	if (error)
		return error;
	attr.send_cq = attr.recv_cq = rdma->completions.cq;
	if (rdma_create_qp(rdma->id, rdma->pd, &attr))
		return -errno;
	for (uint32_t i = 0; i < rdma->receive_count; i++) {
		if (!host_rdma_post_receive(rdma, i))
			return -EIO;
	}
	return 0;
}

static void address_resolved(struct host_rdma *rdma)
{
	int error = make_queue_pair(rdma);

	if (error == 0 && rdma_resolve_route(rdma->id, RESOLVE_TIMEOUT_MS))
		error = -errno;
	if (error)
		host_rdma_lost(rdma, error,
			"cannot make an RDMA queue pair: %s; use fewer or "
			"shorter queues, or raise the limit of locked memory (ulimit -l)",
			strerror(-error));
	else
		rdma->state = HOST_RDMA_ROUTE;
}

static void route_resolved(struct host_rdma *rdma)
{
	const struct rdma_request request = {
		.qid = rdma->settings.qid,
		.hrqsize = (uint16_t)rdma->receive_count,
		.hsqsize = (uint16_t)rdma->settings.depth,
		.cntlid = rdma->settings.qid ? rdma->settings.cntlid : 0,
	};
	uint8_t private_data[RDMA_REQUEST_BYTES];
	struct ibv_device_attr device = {.max_qp_rd_atom = 1};
	struct rdma_conn_param param = {
		.private_data = private_data,
		.private_data_len = sizeof(private_data),
		.retry_count = RETRY_COUNT,
		.rnr_retry_count = RETRY_COUNT,
	};

	(void)ibv_query_device(rdma->id->verbs, &device);
	/* Only the controller issues RDMA READs. */
	param.responder_resources =
		(uint8_t)(device.max_qp_rd_atom < 255 ? device.max_qp_rd_atom : 255);
	rdma_request_encode(&request, private_data);
	if (rdma_connect(rdma->id, &param))
		host_rdma_lost(rdma, -errno, "cannot connect: %s", strerror(errno));
	else
		rdma->state = HOST_RDMA_REPLY;
}

static void connection_established(struct host_rdma *rdma, const struct rdma_conn_param *param)
{
	uint16_t crqsize;

	if (!rdma_reply_decode(param->private_data, param->private_data_len, &crqsize)) {
		host_rdma_lost(rdma, -EPROTO, "the peer is no controller of NVMe over RDMA");
		return;
	}
	if (crqsize < rdma->settings.depth) {
		host_rdma_lost(rdma, -EPROTO,
			"the controller receives %u commands at once, fewer than the queue has",
			crqsize);
		return;
	}
	rdma->state = HOST_RDMA_READY;
	rdma->settings.connected(rdma->settings.context);
}

static void connection_rejected(struct host_rdma *rdma, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;

	/* Over iWARP, rdma_cm reports a rejection with a negative errno as the status. */
	host_rdma_lost(rdma, -ECONNREFUSED, "%s",
		event->status == PRIVATE_REJECT_STATUS || event->status < 0
			? rdma_reject_sentence(param->private_data, param->private_data_len)
			: rdma_reject_sentence(NULL, 0));
}

static void event_happened(struct host_rdma *rdma, const struct rdma_cm_event *event)
{
	int error = event->status < 0 ? event->status : -EHOSTUNREACH;

	if (rdma->state == HOST_RDMA_LOST)
		return;
	switch ((int)event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		address_resolved(rdma);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		route_resolved(rdma);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		connection_established(rdma, &event->param.conn);
		break;
	case RDMA_CM_EVENT_REJECTED:
		connection_rejected(rdma, event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		host_rdma_lost(rdma, error, "no RDMA device reaches this address");
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		host_rdma_lost(rdma, -ETIMEDOUT, "nobody answers at this address and port");
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		host_rdma_lost(rdma, error, "the connection cannot be made: %s", strerror(-error));
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		/* Take the responses that arrived before the disconnection. */
		rdma_completions_poll(&rdma->completions);
		host_rdma_lost(rdma, -ECONNRESET, "the controller has ended the connection");
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		host_rdma_lost(rdma, -ENODEV, "the RDMA device is gone");
		break;
	default:
		break;
	}
}

static void events_ready(struct loop_watch *watch, uint32_t events)
{
	struct host_rdma *rdma = container_of(watch, struct host_rdma, events_watch);
	struct rdma_cm_event *event;

	(void)events;
	while (rdma_get_cm_event(rdma->events, &event) == 0) {
		event_happened(rdma, event);
		rdma_ack_cm_event(event);
	}
}

static int resolve_address(struct host_rdma *rdma)
{
	struct sockaddr *local = (struct sockaddr *)&rdma->settings.local;
	int flags;

	rdma->events = rdma_create_event_channel();
	if (!rdma->events)
		return -errno;
	flags = fcntl(rdma->events->fd, F_GETFL);
	if (flags < 0 || fcntl(rdma->events->fd, F_SETFL, flags | O_NONBLOCK) ||
		rdma_create_id(rdma->events, &rdma->id, rdma, RDMA_PS_TCP) ||
		rdma_resolve_addr(rdma->id, local->sa_family ? local : NULL,
			(struct sockaddr *)&rdma->settings.remote, RESOLVE_TIMEOUT_MS))
		return -errno;
	rdma->events_watch.ready = events_ready;
	return loop_watch(rdma->settings.loop, &rdma->events_watch, rdma->events->fd, EPOLLIN);
}

int host_rdma_connect(struct host_rdma *rdma, char *ret_reason)
{
	int error = resolve_address(rdma);

	if (error) {
		snprintf(ret_reason, HOST_REASON_BYTES,
			"cannot use RDMA: %s; check that there is a device (urnic devices) and an "
			"address of the same family",
			strerror(-error));
		host_rdma_disconnect(rdma);
	}
	return error;
}

void host_rdma_disconnect(struct host_rdma *rdma)
{
	if (rdma->events_watch.events)
		loop_unwatch(rdma->settings.loop, &rdma->events_watch);
	if (rdma->id && rdma->id->qp) {
		(void)rdma_disconnect(rdma->id);
		rdma_destroy_qp(rdma->id);
	}
	rdma_completions_done(&rdma->completions);
	rdma_pool_done(&rdma->pool);
	rdma_pool_done(&rdma->capsules);
	if (rdma->pd)
		(void)ibv_dealloc_pd(rdma->pd);
	if (rdma->id)
		(void)rdma_destroy_id(rdma->id);
	if (rdma->events)
		rdma_destroy_event_channel(rdma->events);
}
