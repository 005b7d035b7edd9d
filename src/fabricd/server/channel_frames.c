/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames in channels: from clients to the subnet, and back. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/arith.h"
#include "fabricd/server/server_internal.h"

enum { NS_PER_US = 1000 };

/* Put a frame into the client's ring. Returns false when the client is behind. */
static bool frame_put(struct channel *channel, uint32_t port, const uint8_t *frame, uint32_t bytes)
{
	const struct record_piece pieces[] = {{&port, sizeof(port)}, {frame, bytes}};

	channel->is_touched = true;
	return record_ring_put(&channel->shared->to_client, pieces, ARRAY_COUNT(pieces));
}

void channel_put(struct channel *channel, uint32_t port, const uint8_t *frame, uint32_t bytes)
{
	if (!frame_put(channel, port, frame, bytes))
		channel->client->server->counters.frames_dropped++;
}

/* --- frames that wait for their receiver --- */

static bool frame_park(struct fabric_server *server, struct channel *channel, uint32_t port,
	const uint8_t *frame, uint32_t bytes)
{
	struct channel *sender = server->sender;

	if (channel->is_stalled || !sender || sender == channel || sender->is_draining ||
		bytes > ATTACH_FRAME_BYTES_MAX)
		return false;
	if (!sender->parked.frame)
		sender->parked.frame = malloc(ATTACH_FRAME_BYTES_MAX);
	if (!sender->parked.frame)
		return false;
	memcpy(sender->parked.frame, frame, bytes);
	sender->parked.to = channel;
	sender->parked.port = port;
	sender->parked.bytes = bytes;
	sender->parked.since_ns = server->now_ns;
	server->parked_count++;
	return true;
}

static void parked_forget(struct channel *channel)
{
	if (!channel->parked.to)
		return;
	channel->parked.to = NULL;
	channel->client->server->parked_count--;
}

void channel_put_data(struct channel *channel, uint32_t port, const uint8_t *frame, uint32_t bytes)
{
	struct fabric_server *server = channel->client->server;

	if (frame_put(channel, port, frame, bytes)) {
		channel->is_stalled = false;
		return;
	}
	if (frame_park(server, channel, port, frame, bytes))
		return;
	server->counters.frames_dropped++;
	subnet_port_behind(server->subnet, channel->node, port, 1, 0);
}

/* Try to deliver the parked frame; drop it after its lifetime. Returns false if it stays parked. */
static bool parked_put(struct fabric_server *server, struct channel *sender)
{
	struct channel *to = sender->parked.to;
	const uint64_t wait_ns = server->now_ns - sender->parked.since_ns;
	const bool is_put =
		frame_put(to, sender->parked.port, sender->parked.frame, sender->parked.bytes);

	if (!is_put && !sender->is_draining &&
		wait_ns < subnet_port_lifetime_ns(server->subnet, to->node, sender->parked.port))
		return false;
	if (!sender->is_draining)
		to->is_stalled = !is_put;
	server->counters.frames_dropped += !is_put;
	subnet_port_behind(
		server->subnet, to->node, sender->parked.port, !is_put, wait_ns / NS_PER_US);
	parked_forget(sender);
	return true;
}

void channel_frames_end(struct channel *channel)
{
	struct fabric_server *server = channel->client->server;

	list_for_each(sender, &server->channels, struct channel, server_link)
		if (sender->parked.to == channel)
			parked_forget(sender);
	parked_forget(channel);
	free(channel->parked.frame);
}

/* --- frames from clients --- */

static void frame_send(struct fabric_server *server, struct channel *channel, uint32_t port,
	uint8_t *frame, uint32_t bytes)
{
	server->sender = channel;
	server->sender_port = port;
	server_send(server, channel->node, port, frame, bytes);
	server->sender = NULL;
}

/* Handle a record: the number of a port, perhaps with a violation, and a frame. */
static void record_handle(struct fabric_server *server, struct channel *channel, uint8_t *record,
	uint32_t frame_bytes)
{
	uint8_t *frame = record + sizeof(uint32_t);
	uint32_t port, violations;

	memcpy(&port, record, sizeof(port));
	violations = port & ATTACH_RECORD_VIOLATIONS;
	port &= ~(uint32_t)ATTACH_RECORD_VIOLATIONS;
	if (!server_port_find(server, channel->node, port))
		server->counters.frames_malformed++;
	else if (violations)
		server_report(server, channel->node, port, violations, frame, frame_bytes);
	else
		frame_send(server, channel, port, frame, frame_bytes);
}

/* Take a frame from the client, and send it. Returns false when the channel is empty. */
static bool frame_take(struct fabric_server *server, struct channel *channel)
{
	uint8_t record[RECORD_BYTES_MAX];
	int bytes = record_ring_take(&channel->shared->to_fabric, record);

	if (bytes == 0)
		return false;
	if (bytes < (int)(sizeof(uint32_t) + ATTACH_FRAME_BYTES_MIN) ||
		bytes > (int)(sizeof(uint32_t) + ATTACH_FRAME_BYTES_MAX)) {
		server->counters.frames_malformed++;
		return bytes > 0;
	}
	record_handle(server, channel, record, (uint32_t)bytes - (uint32_t)sizeof(uint32_t));
	return true;
}

/* Take up to `limit` frames. Returns their number. */
static uint32_t frames_take(struct fabric_server *server, struct channel *channel, uint32_t limit)
{
	uint32_t count = 0;

	if (channel->parked.to && !parked_put(server, channel))
		return 0;
	while (count < limit && !channel->parked.to && server_has_room(server) &&
		frame_take(server, channel))
		count++;
	if (count)
		atomic_store_explicit(&channel->shared->forwarded,
			atomic_load_explicit(
				&channel->shared->to_fabric.read, memory_order_relaxed),
			memory_order_release);
	return count;
}

/*
 * Drop a frame whose receiver is behind: the channel is about to end, and frames behind it may be
 * for other receivers.
 */
void channel_drain(struct channel *channel)
{
	channel->is_draining = true;
	frames_take(channel->client->server, channel, LAST_FRAMES_MAX);
}

uint32_t channels_run(struct fabric_server *server)
{
	struct channel *first = NULL;
	uint32_t count = 0;

	list_for_each(channel, &server->channels, struct channel, server_link) {
		count += frames_take(server, channel, FRAMES_PER_TURN);
		if (count && !first)
			first = channel;
	}
	/* The first channel may use up the uplink's window, which all share: move it to the end. */
	if (first && server->uplink) {
		list_remove(&first->server_link);
		list_append(&server->channels, &first->server_link);
	}
	return count;
}

/* Make the client's socket readable. If send() fails because the socket is full, it is already. */
static void channel_wake(const struct channel *channel)
{
	const uint8_t byte = 0;

	send(channel->wake_client, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void channels_wake(struct fabric_server *server)
{
	atomic_thread_fence(memory_order_seq_cst);
	list_for_each(channel, &server->channels, struct channel, server_link) {
		_Atomic uint32_t *is_waiting = &channel->shared->is_client_waiting;

		if (!channel->is_touched)
			continue;
		channel->is_touched = false;
		if (atomic_load_explicit(is_waiting, memory_order_relaxed) &&
			atomic_exchange_explicit(is_waiting, 0, memory_order_relaxed))
			channel_wake(channel);
	}
}

bool channels_wait_begin(struct fabric_server *server)
{
	list_for_each(channel, &server->channels, struct channel, server_link)
		atomic_store_explicit(&channel->shared->is_fabric_waiting, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	list_for_each(channel, &server->channels, struct channel, server_link)
		if (!channel->parked.to && !record_ring_is_empty(&channel->shared->to_fabric))
			return !server_has_room(server);
	return true;
}

void channels_wait_end(struct fabric_server *server)
{
	list_for_each(channel, &server->channels, struct channel, server_link)
		atomic_store_explicit(&channel->shared->is_fabric_waiting, 0, memory_order_relaxed);
}
