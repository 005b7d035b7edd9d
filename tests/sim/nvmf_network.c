/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf_network_internal.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include "nvmf_verbs.h"

enum {
	FD_BASE = 1 << 20, /* no descriptor of the kernel */
	CAPACITY_MIN = 512,
	FIRST_PDU_BYTES = 128,
	PORT = 4420,
};

static void arrive(struct loop_timer *timer);

/* --- time --- */

static uint64_t delay(struct nvmf_network *network)
{
	return network->latency_ns / 2 + nvmf_any_size(network->world, 1, 2 * network->latency_ns);
}

unsigned stream_host(const struct stream *stream)
{
	return stream->end[0].machine;
}

bool nvmf_network_is_silent(const struct nvmf_network *network, unsigned host)
{
	return network->cut_until_ns[host] > network->world->now_ns ||
		network->machine[host].is_down || network->machine[NVMF_TARGET].is_down;
}

static bool is_silent(const struct stream *stream)
{
	return nvmf_network_is_silent(stream->network, stream_host(stream));
}

/* When what is sent now arrives. */
static uint64_t arrival_ns(struct stream *stream)
{
	struct nvmf_network *network = stream->network;
	uint64_t from_ns = network->world->now_ns;

	/* The kernel sends again, later and later. */
	if (is_silent(stream)) {
		if (from_ns < network->cut_until_ns[stream_host(stream)])
			from_ns = network->cut_until_ns[stream_host(stream)];
		from_ns += nvmf_below(network->world, 200 * NVMF_MS);
	}
	return from_ns + delay(network);
}

void pipe_schedule(struct pipe *pipe)
{
	uint64_t at_ns = arrival_ns(pipe->stream);

	if (list_is_linked(&pipe->timer.node))
		return;
	if (at_ns < pipe->stalled_until_ns)
		at_ns = pipe->stalled_until_ns;
	loop_timer_set(pipe->stream->network->world->clock, &pipe->timer, at_ns);
}

/* --- streams --- */

static void end_init(struct end *end, struct nvmf_network *network, unsigned machine)
{
	*end = (struct end){.network = network, .machine = machine, .fd = -1, .state = END_GONE};
	list_init(&end->backlog);
}

static int fd_take(struct end *end)
{
	struct nvmf_network *network = end->network;
	unsigned i = 0;

	while (i < network->end_limit && network->end[i])
		i++;
	NVMF_CHECK(network->world, i < ENDS_MAX, "descriptors are not closed");
	if (i == network->end_limit)
		network->end_limit++;
	network->end[i] = end;
	end->fd = FD_BASE + (int)i;
	return end->fd;
}

static void fd_drop(struct end *end)
{
	end->network->end[end->fd - FD_BASE] = NULL;
	end->fd = -1;
	end->watch = NULL;
}

static struct end *end_of(struct network *view, int fd)
{
	struct machine *machine = (struct machine *)view;
	struct nvmf_network *network = machine->owner;
	struct end *end = NULL;

	if (fd >= FD_BASE && fd < FD_BASE + ENDS_MAX)
		end = network->end[fd - FD_BASE];
	NVMF_CHECK(network->world, end && end->machine == machine->number,
		"machine %u uses descriptor %d, which it does not have", machine->number, fd);
	return end;
}

static bool is_over(const struct stream *stream)
{
	return stream->end[0].state == END_GONE && stream->end[1].state == END_GONE &&
		!list_is_linked(&stream->pipe[0].timer.node) &&
		!list_is_linked(&stream->pipe[1].timer.node);
}

static void stream_free(struct stream *stream)
{
	for (unsigned i = 0; i < 2; i++) {
		loop_timer_cancel(&stream->pipe[i].timer);
		list_remove(&stream->end[i].backlog);
	}
	loop_timer_cancel(&stream->connect);
	list_remove(&stream->node);
	free(stream);
}

static void free_if_over(struct stream *stream)
{
	if (is_over(stream))
		stream_free(stream);
}

void end_reset_arrived(struct end *end)
{
	if (end->state == END_GONE)
		return;
	end->error = ECONNRESET;
	if (end->state == END_CONNECTING)
		end->error = ECONNREFUSED;
	end->state = END_OPEN;
}

void pipe_reset(struct pipe *pipe)
{
	struct nvmf_network *network = pipe->stream->network;

	loop_timer_cancel(&pipe->timer);
	pipe->is_dead = true;
	network->counts.resets++;
	if (is_silent(pipe->stream) || pipe->is_reset) {
		pipe->written = pipe->arrived;
		return;
	}
	pipe->written = nvmf_between(network->world, pipe->arrived, pipe->written);
	pipe->is_reset = true;
	pipe->stalled_until_ns = 0;
	pipe_schedule(pipe);
}

static void piece_store(struct pipe *pipe, const uint8_t *bytes, size_t count)
{
	struct nvmf_network *network = pipe->stream->network;

	for (size_t done = 0; done < count;) {
		size_t at = (pipe->written + done) % PIPE_BYTES;
		size_t part = count - done < PIPE_BYTES - at ? count - done : PIPE_BYTES - at;

		memcpy(pipe->bytes + at, bytes + done, part);
		done += part;
	}
	while (pipe->bits_to_invert && count && pipe->written >= FIRST_PDU_BYTES) {
		uint64_t at = pipe->written + nvmf_below(network->world, count);

		pipe->bytes[at % PIPE_BYTES] ^= (uint8_t)(1 << nvmf_below(network->world, 8));
		pipe->bits_to_invert--;
		network->counts.inverted++;
	}
	pipe->written += count;
}

/* The next piece of what is on its way is there; then the end, or the reset. */
static void arrive(struct loop_timer *timer)
{
	struct pipe *pipe = container_of(timer, struct pipe, timer);
	struct stream *stream = pipe->stream;
	struct nvmf_network *network = stream->network;
	struct end *to = &stream->end[1 - pipe->from];
	uint64_t left = pipe->written - pipe->arrived;

	if (is_silent(stream) || pipe->stalled_until_ns > network->world->now_ns) {
		if (pipe->is_reset)
			pipe->written = pipe->arrived; /* nobody sends it again */
		else
			pipe_schedule(pipe);
		free_if_over(stream);
		return;
	}
	if (pipe->is_reset) {
		pipe->arrived = pipe->written;
		end_reset_arrived(to);
	} else if (left) {
		pipe->arrived += nvmf_below(network->world, 3)
			? left
			: nvmf_between(network->world, 1, left);
		network->counts.pieces++;
		if (to->state == END_GONE)
			pipe_reset(&stream->pipe[1 - pipe->from]);
		else if (pipe->arrived < pipe->written || pipe->is_ended)
			pipe_schedule(pipe);
	} else if (pipe->is_ended) {
		pipe->is_end_arrived = true;
	}
	if (to->state == END_GONE)
		pipe->arrived = pipe->read = pipe->written;
	free_if_over(stream);
}

void pipe_end(struct pipe *pipe)
{
	pipe->is_ended = true;
	pipe_schedule(pipe);
}

/* --- connecting --- */

static void request_arrived(struct stream *stream)
{
	struct nvmf_network *network = stream->network;
	struct end *server = &stream->end[1];

	if (network->listener.state == END_LISTENING) {
		server->state = END_BACKLOG;
		list_append(&network->listener.backlog, &server->backlog);
	}
	stream->has_answer = true;
}

static void answer_arrived(struct stream *stream)
{
	struct end *client = &stream->end[0];

	if (client->state != END_CONNECTING)
		return;
	client->state = END_OPEN;
	if (stream->end[1].state == END_GONE)
		client->error = ECONNREFUSED;
}

static void connect_step(struct loop_timer *timer)
{
	struct stream *stream = container_of(timer, struct stream, connect);
	struct nvmf_network *network = stream->network;

	if (stream->end[0].state == END_GONE) {
		free_if_over(stream);
		return;
	}
	if (is_silent(stream)) {
		loop_timer_set(network->world->clock, timer, network->world->now_ns + NVMF_S);
		return;
	}
	if (stream->has_answer) {
		answer_arrived(stream);
		return;
	}
	request_arrived(stream);
	loop_timer_set(network->world->clock, timer, arrival_ns(stream));
}

static int net_connect(struct network *view, const struct sockaddr_storage *local,
	const struct sockaddr_storage *remote)
{
	struct machine *machine = (struct machine *)view;
	struct nvmf_network *network = machine->owner;
	struct stream *stream = malloc(sizeof(*stream));

	(void)local;
	(void)remote;
	if (!stream)
		abort();
	memset(stream, 0, offsetof(struct stream, pipe));
	stream->network = network;
	stream->has_answer = false;
	for (unsigned i = 0; i < 2; i++) {
		struct pipe *pipe = &stream->pipe[i];

		memset(pipe, 0, offsetof(struct pipe, bytes));
		pipe->stream = stream;
		pipe->from = i;
		pipe->capacity = (uint32_t)nvmf_any_size(network->world, CAPACITY_MIN, PIPE_BYTES);
		loop_timer_init(&pipe->timer, arrive);
		end_init(&stream->end[i], network, i ? NVMF_TARGET : machine->number);
		stream->end[i].stream = stream;
		stream->end[i].number = i;
	}
	stream->end[0].state = END_CONNECTING;
	loop_timer_init(&stream->connect, connect_step);
	loop_timer_set(
		network->world->clock, &stream->connect, network->world->now_ns + delay(network));
	list_init(&stream->node);
	list_append(&network->streams, &stream->node);
	network->counts.streams++;
	return fd_take(&stream->end[0]);
}

static int net_connected(struct network *view, int fd)
{
	struct end *end = end_of(view, fd);
	int error = end->error;

	NVMF_CHECK(end->network->world, end->state == END_OPEN, "connected() comes too early");
	return -error;
}

static int net_listen(struct network *view, const struct sockaddr_storage *address)
{
	struct machine *machine = (struct machine *)view;
	struct end *listener = &machine->owner->listener;

	(void)address;
	if (listener->state == END_LISTENING)
		return -EADDRINUSE;
	end_init(listener, machine->owner, machine->number);
	listener->state = END_LISTENING;
	return fd_take(listener);
}

static int net_accept(struct network *view, int fd, struct sockaddr_storage *ret_peer)
{
	struct end *listener = end_of(view, fd);
	struct end *end;

	if (list_is_empty(&listener->backlog))
		return -EAGAIN;
	if (listener->network->starved) {
		listener->network->starved--;
		return -EMFILE;
	}
	end = list_first(&listener->backlog, struct end, backlog);
	list_remove(&end->backlog);
	end->state = END_OPEN;
	nvmf_network_address(ret_peer);
	return fd_take(end);
}

/* --- bytes --- */

static ssize_t net_send(struct network *view, int fd, const struct iovec *parts, size_t part_count)
{
	struct end *end = end_of(view, fd);
	struct pipe *pipe = &end->stream->pipe[end->number];
	struct nvmf_network *network = end->network;
	uint64_t room = pipe->capacity - (pipe->written - pipe->read);
	uint64_t sent = 0;

	if (end->error)
		return -end->error;
	if (pipe->is_ended)
		return -EPIPE;
	if (end->state != END_OPEN || room == 0)
		return -EAGAIN;
	if (nvmf_below(network->world, 4) == 0)
		room = nvmf_between(network->world, 1, room);
	for (size_t i = 0; i < part_count && room; i++) {
		size_t piece = parts[i].iov_len < room ? parts[i].iov_len : (size_t)room;

		if (!pipe->is_dead)
			piece_store(pipe, parts[i].iov_base, piece);
		sent += piece;
		room -= piece;
	}
	network->counts.bytes += sent;
	if (!pipe->is_dead)
		pipe_schedule(pipe);
	return (ssize_t)sent;
}

static ssize_t net_receive(
	struct network *view, int fd, const struct iovec *parts, size_t part_count)
{
	struct end *end = end_of(view, fd);
	struct pipe *pipe = &end->stream->pipe[1 - end->number];
	size_t got = 0;

	for (size_t i = 0; i < part_count; i++) {
		for (size_t used = 0; used < parts[i].iov_len && pipe->read < pipe->arrived;) {
			size_t at = pipe->read % PIPE_BYTES;
			size_t part = parts[i].iov_len - used;

			part = part < PIPE_BYTES - at ? part : PIPE_BYTES - at;
			part = part < pipe->arrived - pipe->read ? part
								 : pipe->arrived - pipe->read;
			memcpy((uint8_t *)parts[i].iov_base + used, pipe->bytes + at, part);
			used += part;
			got += part;
			pipe->read += part;
		}
	}
	if (got)
		return (ssize_t)got;
	if (end->error)
		return -end->error;
	return pipe->is_end_arrived ? 0 : -EAGAIN;
}

static void listener_close(struct end *listener)
{
	list_for_each_safe(end, &listener->backlog, struct end, backlog) {
		list_remove(&end->backlog);
		end->state = END_GONE;
		pipe_reset(&end->stream->pipe[1]);
	}
	fd_drop(listener);
	listener->state = END_GONE;
}

static void net_close(struct network *view, int fd)
{
	struct end *end = end_of(view, fd);
	struct stream *stream = end->stream;
	struct pipe *out, *in;
	bool was_open = end->state == END_OPEN && !end->error;
	bool is_client = end->number == 0;

	NVMF_CHECK(end->network->world, !end->watch, "descriptor %d is closed while it is watched",
		fd);
	if (!stream) {
		listener_close(end);
		return;
	}
	out = &stream->pipe[end->number];
	in = &stream->pipe[1 - end->number];
	fd_drop(end);
	/* The server may have accepted what the client does not know yet. */
	if (end->state == END_CONNECTING && stream->end[1].state != END_GONE)
		was_open = true;
	end->state = END_GONE;
	if (was_open && (is_client || in->arrived > in->read))
		pipe_reset(out);
	else if (was_open)
		pipe_end(out);
	else if (!out->is_reset)
		loop_timer_cancel(&out->timer);
	free_if_over(stream);
}

/* --- readiness --- */

static void net_watch(struct network *view, struct loop_watch *watch)
{
	struct end *end;

	/* Channels of adapters have descriptors of the kernel. */
	if (watch->fd < FD_BASE) {
		nvmf_verbs_watch(watch);
		return;
	}
	end = end_of(view, watch->fd);
	end->watch = watch->events ? watch : NULL;
}

static uint32_t ready_events(const struct end *end)
{
	const struct pipe *out, *in;
	uint32_t events = 0;

	if (end->state == END_LISTENING)
		return list_is_empty(&end->backlog) ? 0 : EPOLLIN;
	if (end->state != END_OPEN)
		return 0;
	out = &end->stream->pipe[end->number];
	in = &end->stream->pipe[1 - end->number];
	if (in->read < in->arrived || in->is_end_arrived)
		events |= EPOLLIN;
	if (out->written - out->read < out->capacity)
		events |= EPOLLOUT;
	if (end->error)
		events |= EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP;
	return events;
}

bool nvmf_network_report(struct nvmf_network *network, unsigned machine)
{
	bool is_any = false;
	unsigned first = (unsigned)nvmf_below(network->world, network->end_limit);

	for (unsigned i = 0; i < network->end_limit; i++) {
		struct end *end = network->end[(first + i) % network->end_limit];
		uint32_t events;

		if (!end || end->machine != machine || !end->watch)
			continue;
		events = ready_events(end) & (end->watch->events | EPOLLERR | EPOLLHUP);
		if (!events)
			continue;
		loop_report(network->world->loop[machine], end->watch, events);
		is_any = true;
	}
	return is_any;
}

unsigned nvmf_network_open_count(const struct nvmf_network *network, unsigned machine)
{
	unsigned count = 0;

	for (unsigned i = 0; i < network->end_limit; i++)
		count += network->end[i] && network->end[i]->machine == machine;
	return count;
}

/* --- the whole --- */

void nvmf_network_address(struct sockaddr_storage *ret_address)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	address.sin_addr.s_addr = htonl(0x0a000003);
	memset(ret_address, 0, sizeof(*ret_address));
	memcpy(ret_address, &address, sizeof(address));
}

struct network *nvmf_network_of(struct nvmf_network *network, unsigned machine)
{
	return &network->machine[machine].network;
}

const struct nvmf_network_counts *nvmf_network_counts(const struct nvmf_network *network)
{
	return &network->counts;
}

struct nvmf_network *nvmf_network_create(struct nvmf_world *world, uint64_t latency_ns)
{
	static const struct network calls = {
		.connect = net_connect,
		.connected = net_connected,
		.listen = net_listen,
		.accept = net_accept,
		.send = net_send,
		.receive = net_receive,
		.close = net_close,
		.watch = net_watch,
	};
	struct nvmf_network *network = calloc(1, sizeof(*network));

	if (!network)
		abort();
	network->world = world;
	network->latency_ns = latency_ns;
	for (unsigned i = 0; i < NVMF_MACHINES; i++)
		network->machine[i] =
			(struct machine){.network = calls, .owner = network, .number = i};
	end_init(&network->listener, network, NVMF_TARGET);
	list_init(&network->streams);
	return network;
}

void nvmf_network_destroy(struct nvmf_network *network)
{
	list_for_each_safe(stream, &network->streams, struct stream, node)
		stream_free(stream);
	free(network);
}
