/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/worker_frames.h"

#include <errno.h>
#include <sys/socket.h>

#include "os/epoll.h"

struct flow_table *worker_flows;

static void frames_watch(
	const struct worker *worker, const struct worker_frames *frames, bool shall_watch)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = WORKER_SOURCE_SOCKET};

	epoll_change(worker->epoll_all, shall_watch ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
		port_packet_fd(frames->port), &event);
}

void worker_frames_add(struct worker *worker, struct worker_frames *frames)
{
	list_append(&worker->frames, &frames->link);
	if (worker->is_watching_sockets)
		frames_watch(worker, frames, true);
	if (worker_wait_is_used(&worker->wait))
		worker_wait_return(worker);
}

void worker_frames_remove(struct worker *worker, struct worker_frames *frames)
{
	list_remove(&frames->link);
	if (worker->is_watching_sockets)
		frames_watch(worker, frames, false);
}

void worker_frames_forget(struct worker *worker)
{
	list_for_each(frames, &worker->frames, struct worker_frames, link) {
		port_packet_close(frames->port);
		frames->port = NULL;
	}
}

void worker_frames_watch(struct worker *worker, bool shall_watch)
{
	list_for_each(frames, &worker->frames, struct worker_frames, link)
		frames_watch(worker, frames, shall_watch);
}

struct reception {
	struct worker *worker;
	struct raw_qp *raw;
};

static void on_frame(void *context, const uint8_t *bytes, uint32_t count, bool is_departing)
{
	struct reception *reception = context;

	raw_receive(reception->raw, worker_flows, bytes, count, is_departing,
		reception->worker->now_ns);
}

void worker_frames_clear_errors(struct worker *worker)
{
	socklen_t bytes = sizeof(int);
	int error;

	list_for_each(frames, &worker->frames, struct worker_frames, link)
		getsockopt(port_packet_fd(frames->port), SOL_SOCKET, SO_ERROR, &error, &bytes);
}

unsigned worker_frames_receive(struct worker *worker)
{
	struct reception reception = {.worker = worker};
	unsigned taken = 0;

	list_for_each(frames, &worker->frames, struct worker_frames, link) {
		reception.raw = frames->raw;
		taken += port_packet_receive(frames->port, on_frame, &reception);
	}
	return taken;
}

static struct worker_frames *frames_of(const struct worker *worker, const struct raw_qp *raw)
{
	list_for_each(frames, &worker->frames, struct worker_frames, link)
		if (frames->raw == raw)
			return frames;
	return NULL;
}

/* Send a batch of one queue pair. */
static void send_batch(struct worker *worker, struct raw_qp *raw)
{
	struct port_packet *port = frames_of(worker, raw)->port;
	uint32_t bytes[PORT_PACKET_BATCH];
	unsigned count = 0, sent;
	int error;

	while (count < PORT_PACKET_BATCH) {
		bytes[count] = raw_next_frame(raw, port_packet_buffer(port, count), worker->now_ns);
		if (!bytes[count])
			break;
		count++;
	}
	if (!count)
		return;
	sent = port_packet_send(port, bytes, count, &error);
	raw_frames_sent(raw, sent, worker->now_ns);
	if (error == -EAGAIN)
		raw_frames_blocked(raw, worker->now_ns);
	else if (error)
		raw_frame_dropped(raw, worker->now_ns);
}

void worker_frames_send(struct worker *worker)
{
	struct raw_qp *raw;

	while ((raw = raw_first(&worker->lane)))
		send_batch(worker, raw);
}
