/* SPDX-License-Identifier: BSD-2-Clause */
/* A client's channel of frames. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arith.h"
#include "fabricd/client/fabric_client_internal.h"

enum { PIECES_MAX = 8 };

/* Open a channel. `message` is the request; the answer replaces it. */
static int frames_open(struct fabric_client *client, struct attach_message *message,
	struct fabric_frames **ret_frames)
{
	struct fabric_frames *frames = calloc(1, sizeof(*frames));
	int fds[ATTACH_CHANNEL_DESCRIPTORS];
	void *memory;
	int rc = frames ? fabric_client_ask(client, message, fds, ARRAY_COUNT(fds)) : -ENOMEM;

	if (rc) {
		free(frames);
		return rc;
	}
	*frames = (struct fabric_frames){.client = client,
		.lease = message->frames.lease,
		.wait_fd = fds[1],
		.wake_fabric = fds[2],
		.wake_self = fds[3]};
	rc = fabric_memory_map(fds[0], sizeof(*frames->shared), &memory);
	close(fds[0]);
	if (rc) {
		fabric_frames_close(frames);
		return rc;
	}
	frames->shared = memory;
	*ret_frames = frames;
	return 0;
}

int fabric_frames_open(struct fabric_client *client, struct fabric_frames **ret_frames)
{
	struct attach_message message = {.type = ATTACH_FRAMES_OPEN};

	return frames_open(client, &message, ret_frames);
}

int fabric_frames_take_host(struct fabric_client *client, struct fabric_frames **ret_frames,
	char why[ATTACH_TEXT_BYTES])
{
	struct attach_message message = {.type = ATTACH_HOST_TAKE};
	int rc = frames_open(client, &message, ret_frames);

	if (rc)
		snprintf(
			why, ATTACH_TEXT_BYTES, "%s", *message.text ? message.text : strerror(-rc));
	return rc;
}

void fabric_frames_forget(struct fabric_frames *frames)
{
	if (!frames)
		return;
	flow_list_clear(&frames->out);
	flow_list_clear(&frames->in);
	if (frames->shared)
		munmap(frames->shared, sizeof(*frames->shared));
	close(frames->wake_fabric);
	close(frames->wait_fd);
	close(frames->wake_self);
	free(frames);
}

void fabric_frames_close(struct fabric_frames *frames)
{
	struct attach_message message = {.type = ATTACH_FRAMES_CLOSE};

	if (!frames)
		return;
	message.frames.lease = frames->lease;
	fabric_client_ask(frames->client, &message, NULL, 0);
	fabric_frames_forget(frames);
}

uint32_t fabric_frames_lease(const struct fabric_frames *frames)
{
	return frames->lease;
}

bool fabric_frames_send(struct fabric_frames *frames, uint32_t port,
	const struct record_piece *pieces, uint32_t count)
{
	struct record_piece all[1 + PIECES_MAX] = {{&port, sizeof(port)}};
	enum flow_result result;

	if (count > PIECES_MAX)
		return false;
	result = flow_list_send(&frames->out, frames->shared, port, pieces, count);
	if (result != FLOW_NONE)
		return result == FLOW_SENT;
	memcpy(all + 1, pieces, count * sizeof(*pieces));
	frames->has_put = true;
	return record_ring_put(&frames->shared->to_fabric, all, count + 1);
}

bool fabric_frames_report(struct fabric_frames *frames, uint32_t port, uint32_t violation,
	const uint8_t *frame, uint32_t bytes)
{
	const uint32_t marked = port | violation;
	const struct record_piece pieces[] = {{&marked, sizeof(marked)}, {frame, bytes}};

	frames->has_put = true;
	return record_ring_put(&frames->shared->to_fabric, pieces, ARRAY_COUNT(pieces));
}

bool fabric_frames_has_room(struct fabric_frames *frames, uint32_t bytes)
{
	return record_ring_room(&frames->shared->to_fabric) >= bytes &&
		flow_list_has_room(&frames->out, frames->shared, bytes);
}

bool fabric_frames_route_has_room(
	struct fabric_frames *frames, const struct attach_flow *flow, uint32_t bytes)
{
	const struct fabric_flow *found = flow_list_find(&frames->out, flow);

	return found ? found->has_room : record_ring_room(&frames->shared->to_fabric) >= bytes;
}

static void fabric_wake(struct fabric_frames *frames)
{
	_Atomic uint32_t *is_waiting = &frames->shared->is_fabric_waiting;

	if (atomic_load_explicit(is_waiting, memory_order_relaxed) &&
		atomic_exchange_explicit(is_waiting, 0, memory_order_relaxed))
		eventfd_write(frames->wake_fabric, 1);
}

void fabric_frames_flush(struct fabric_frames *frames)
{
	flow_list_publish(&frames->out);
	/* Pairs with the fence between a reader's `is_waiting` and its look at the ring. */
	atomic_thread_fence(memory_order_seq_cst);
	/* Frames of flows need no wake-up of the fabric's process, which takes microseconds. */
	if (frames->has_put) {
		frames->has_put = false;
		fabric_wake(frames);
	}
	flow_list_flush(&frames->out);
}

void fabric_frames_add(struct fabric_frames *frames, struct fabric_flow *flow)
{
	flow_list_add(flow->is_outgoing ? &frames->out : &frames->in, flow);
	/* The ring is empty: the fabric gives it to the sender after fabric_flow_ready(). */
	if (!flow->is_outgoing)
		flow_list_wait(&frames->in, frames->is_waiting);
}

void fabric_frames_kick(struct fabric_frames *frames)
{
	const uint8_t byte = 0;

	send(frames->wake_self, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int fabric_frames_receive(struct fabric_frames *frames, uint8_t *to, uint32_t *ret_port)
{
	/* Look at the flows first: a frame that the ring has after that is older than theirs. */
	const bool has_frame = flow_list_has_frame(&frames->in, frames->shared);
	int bytes = record_ring_take(&frames->shared->to_client, to);

	if (bytes == 0 && has_frame)
		return flow_list_receive(&frames->in, to, ret_port);
	if (bytes <= 0)
		return bytes;
	if (bytes < (int)sizeof(*ret_port)) {
		record_ring_skip(&frames->shared->to_client);
		return -EPROTO;
	}
	memcpy(ret_port, to, sizeof(*ret_port));
	bytes -= (int)sizeof(*ret_port);
	memmove(to, to + sizeof(*ret_port), (size_t)bytes);
	return bytes;
}

bool fabric_frames_wait_begin(struct fabric_frames *frames)
{
	atomic_store_explicit(&frames->shared->is_client_waiting, 1, memory_order_relaxed);
	flow_list_wait(&frames->in, true);
	atomic_thread_fence(memory_order_seq_cst);
	if (record_ring_is_empty(&frames->shared->to_client) &&
		!flow_list_has_frame(&frames->in, frames->shared)) {
		frames->is_waiting = true;
		return true;
	}
	atomic_store_explicit(&frames->shared->is_client_waiting, 0, memory_order_relaxed);
	flow_list_wait(&frames->in, false);
	return false;
}

void fabric_frames_wait_end(struct fabric_frames *frames)
{
	uint8_t bytes[64];

	frames->is_waiting = false;
	atomic_store_explicit(&frames->shared->is_client_waiting, 0, memory_order_relaxed);
	flow_list_wait(&frames->in, false);
	while (recv(frames->wait_fd, bytes, sizeof(bytes), MSG_DONTWAIT) == sizeof(bytes))
		;
}

int fabric_frames_fd(const struct fabric_frames *frames)
{
	return frames->wait_fd;
}

static int ask_of_group(struct fabric_frames *frames, enum attach_message_type type, uint32_t port,
	uint16_t mlid, const struct gid *mgid)
{
	struct attach_message message = {.type = type};

	message.frames.lease = frames->lease;
	message.frames.port = port;
	message.frames.mlid = mlid;
	message.frames.mgid = *mgid;
	return fabric_client_ask(frames->client, &message, NULL, 0);
}

int fabric_frames_join(
	struct fabric_frames *frames, uint32_t port, uint16_t mlid, const struct gid *mgid)
{
	return ask_of_group(frames, ATTACH_MULTICAST_JOIN, port, mlid, mgid);
}

int fabric_frames_leave(
	struct fabric_frames *frames, uint32_t port, uint16_t mlid, const struct gid *mgid)
{
	return ask_of_group(frames, ATTACH_MULTICAST_LEAVE, port, mlid, mgid);
}

static int ask_of_service(struct fabric_frames *frames, enum attach_message_type type,
	uint64_t service_id, uint64_t mask)
{
	struct attach_message message = {.type = type};

	message.frames.lease = frames->lease;
	message.frames.service_id = service_id;
	message.frames.service_mask = mask;
	return fabric_client_ask(frames->client, &message, NULL, 0);
}

int fabric_frames_claim(struct fabric_frames *frames, uint64_t service_id, uint64_t mask)
{
	return ask_of_service(frames, ATTACH_SERVICE_CLAIM, service_id, mask);
}

int fabric_frames_release(struct fabric_frames *frames, uint64_t service_id, uint64_t mask)
{
	return ask_of_service(frames, ATTACH_SERVICE_RELEASE, service_id, mask);
}

int fabric_frames_keep_last_messages(struct fabric_frames *frames, int memory, uint64_t offset)
{
	struct attach_message message = {.type = ATTACH_LAST_MESSAGES};

	message.frames.lease = frames->lease;
	message.frames.offset = offset;
	return fabric_client_give(frames->client, &message, memory);
}
