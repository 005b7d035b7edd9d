/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host's NVMe/TCP queue: a tcp_session on a stream and an event loop. Its interface is host_tcp
 * of transport.h.
 *
 * Commands that are submitted during one step of the loop are sent by one system call. close() of
 * the network drops the bytes that the kernel has not sent yet. So no old write command reaches the
 * controller after the host has repeated that command on a new connection.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "nvmf/common/network.h"
#include "nvmf/host/controller/transport.h"
#include "nvmf/host/tcp/tcp_session.h"

enum {
	STAGING_BYTES = 64 << 10, /* for headers, and for data that is not read to its place */
	DIRECT_BYTES_MIN = 4096, /* less data is copied through the staging buffer */
	PARTS_MAX = 96, /* the most parts that one sendmsg() sends: 32 PDUs of 3 parts */
	READS_MAX = 16, /* reads in one step, so that the loop's other queues have their turn */
};

struct tcp_queue {
	struct host_queue queue;
	struct host_queue_settings settings;
	struct network *network;
	struct tcp_session session;
	struct loop_watch watch;
	struct loop_work flush;
	int fd;
	bool is_established;
	bool is_blocked; /* the socket has no room: wait for EPOLLOUT */
	bool is_over; /* lost() was called */
	uint8_t staging[STAGING_BYTES];
};

static const char *connect_advice(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return "start the target, or check the port";
	case ENETUNREACH:
	case EHOSTUNREACH:
		return "check the address and the routes to it";
	case ETIMEDOUT:
		return "check that the target runs and that no firewall is between";
	case EADDRNOTAVAIL:
		return "the local address must be one of this machine";
	default:
		return "check the address";
	}
}

static void connect_reason(
	const struct host_queue_settings *settings, int error, char *text, size_t text_bytes)
{
	char address[INET6_ADDRSTRLEN + 32];

	network_address_text(&settings->remote, address, sizeof(address));
	snprintf(text, text_bytes, "cannot connect to %s: %s; %s", address, strerror(error),
		connect_advice(error));
}

static void go_over(struct tcp_queue *queue)
{
	if (queue->is_over)
		return;
	queue->is_over = true;
	loop_unwatch(queue->settings.loop, &queue->watch);
	loop_defer_cancel(&queue->flush);
	queue->settings.lost(queue->settings.context, queue->session.error, queue->session.reason);
}

static void fail_by_errno(struct tcp_queue *queue, int error, const char *action)
{
	char address[INET6_ADDRSTRLEN + 32];

	network_address_text(&queue->settings.remote, address, sizeof(address));
	tcp_session_fail(
		&queue->session, -error, "%s %s failed: %s", action, address, strerror(error));
}

/* Send the output of the session until all is sent or the socket has no room. */
static void send_output(struct tcp_queue *queue)
{
	struct iovec parts[PARTS_MAX];

	for (;;) {
		int count = tcp_session_output(&queue->session, parts, PARTS_MAX);
		ssize_t sent;

		if (count == 0)
			break;
		sent = queue->network->send(queue->network, queue->fd, parts, (size_t)count);
		if (sent == -EAGAIN) {
			queue->is_blocked = true;
			break;
		}
		if (sent < 0) {
			fail_by_errno(queue, (int)-sent, "sending to");
			return;
		}
		tcp_session_sent(&queue->session, (size_t)sent);
	}
}

/* Read once. Returns true if the socket may have more bytes, and the session is not over. */
static bool receive_input(struct tcp_queue *queue)
{
	uint32_t direct_bytes = 0;
	void *direct = tcp_rx_direct(&queue->session.rx, &direct_bytes);
	struct iovec parts[2];
	size_t part_count = 0;
	size_t placed;
	ssize_t got;

	if (direct && direct_bytes >= DIRECT_BYTES_MIN)
		parts[part_count++] = (struct iovec){direct, direct_bytes};
	else
		direct_bytes = 0;
	parts[part_count++] = (struct iovec){queue->staging, STAGING_BYTES};
	got = queue->network->receive(queue->network, queue->fd, parts, part_count);
	if (got == -EAGAIN)
		return false;
	if (got < 0) {
		fail_by_errno(queue, (int)-got, "receiving from");
		return false;
	}
	if (got == 0) {
		tcp_session_fail(
			&queue->session, -ECONNRESET, "the controller closed the connection");
		return false;
	}
	placed = (size_t)got < direct_bytes ? (size_t)got : direct_bytes;
	tcp_session_received(&queue->session, placed, queue->staging, (size_t)got - placed);
	return queue->session.error == 0 && (size_t)got == direct_bytes + STAGING_BYTES;
}

/* After sending or receiving: watch for the events that are needed now, or end the queue. */
static void responses_complete(struct tcp_queue *queue)
{
	uint32_t events = EPOLLIN | (queue->is_blocked ? (uint32_t)EPOLLOUT : 0);

	if (queue->session.error == 0) {
		loop_rewatch(queue->settings.loop, &queue->watch, events);
		return;
	}
	/* Send the TermReq, if there is one and the socket has room. */
	send_output(queue);
	go_over(queue);
}

static void receive_all(struct tcp_queue *queue)
{
	bool was_ready = queue->session.is_ready;

	for (int i = 0; i < READS_MAX && receive_input(queue); i++)
		;
	if (!was_ready && queue->session.is_ready && queue->session.error == 0)
		queue->settings.connected(queue->settings.context);
}

static void queue_established(struct tcp_queue *queue)
{
	int error = queue->network->connected(queue->network, queue->fd);

	if (error) {
		char reason[HOST_REASON_BYTES];

		connect_reason(&queue->settings, -error, reason, sizeof(reason));
		tcp_session_fail(&queue->session, error, "%s", reason);
	}
	queue->is_established = true;
}

static void socket_ready(struct loop_watch *watch, uint32_t events)
{
	struct tcp_queue *queue = container_of(watch, struct tcp_queue, watch);

	if (!queue->is_established)
		queue_established(queue);
	if (queue->session.error == 0 && (events & ~(uint32_t)EPOLLOUT))
		receive_all(queue);
	queue->is_blocked = false;
	if (queue->session.error == 0)
		send_output(queue);
	responses_complete(queue);
}

static void flush_run(struct loop_work *work)
{
	struct tcp_queue *queue = container_of(work, struct tcp_queue, flush);

	if (!queue->is_over && !queue->is_blocked) {
		send_output(queue);
		responses_complete(queue);
	}
}

static int tcp_open(
	const struct host_queue_settings *settings, struct host_queue **ret_queue, char *ret_reason)
{
	struct tcp_queue *queue = calloc(1, sizeof(*queue));
	int status = -ENOMEM;

	if (!queue || tcp_session_init(&queue->session, settings) != 0) {
		snprintf(ret_reason, HOST_REASON_BYTES, "no memory for a connection");
		goto fail_free;
	}
	queue->queue.transport = &host_tcp;
	queue->settings = *settings;
	queue->network = loop_network(settings->loop);
	loop_work_init(&queue->flush, flush_run);
	queue->watch.ready = socket_ready;
	queue->fd = status =
		queue->network->connect(queue->network, &settings->local, &settings->remote);
	if (status < 0) {
		connect_reason(settings, -status, ret_reason, HOST_REASON_BYTES);
		goto fail_session;
	}
	status = loop_watch(settings->loop, &queue->watch, queue->fd, EPOLLOUT);
	if (status < 0) {
		snprintf(ret_reason, HOST_REASON_BYTES, "cannot watch a socket: %s",
			strerror(-status));
		goto fail_socket;
	}
	*ret_queue = &queue->queue;
	return 0;

fail_socket:
	queue->network->close(queue->network, queue->fd);
fail_session:
	tcp_session_end(&queue->session);
fail_free:
	free(queue);
	return status;
}

static void tcp_submit(struct host_queue *base, struct host_command *command)
{
	struct tcp_queue *queue = container_of(base, struct tcp_queue, queue);

	tcp_session_submit(&queue->session, command);
	if (!queue->is_over)
		loop_defer(queue->settings.loop, &queue->flush);
}

static unsigned tcp_poll(struct host_queue *base)
{
	struct tcp_queue *queue = container_of(base, struct tcp_queue, queue);
	uint64_t before = queue->session.done_count;

	if (queue->is_over || !queue->is_established)
		return 0;
	loop_defer_cancel(&queue->flush);
	if (!queue->is_blocked)
		send_output(queue);
	if (queue->session.error == 0)
		receive_all(queue);
	responses_complete(queue);
	return (unsigned)(queue->session.done_count - before);
}

static void tcp_close(struct host_queue *base)
{
	struct tcp_queue *queue = container_of(base, struct tcp_queue, queue);

	queue->is_over = true;
	loop_unwatch(queue->settings.loop, &queue->watch);
	loop_defer_cancel(&queue->flush);
	queue->network->close(queue->network, queue->fd);
	tcp_session_end(&queue->session);
	free(queue);
}

const struct host_transport host_tcp = {
	.name = "tcp",
	.trtype = 3,
	.open = tcp_open,
	.submit = tcp_submit,
	.poll = tcp_poll,
	.close = tcp_close,
};
