/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that sleep until an event arrives.
 *
 * First, COUNT ping-pongs between two processes that poll their completion channel's descriptor.
 * One lost wake-up hangs them; the program counts superfluous wake-ups. Then solicited events only,
 * and an asynchronous one.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "peer.h"

enum {
	PING_PONGS = 20000,
	DEPTH = 16,
	MESSAGE_BYTES = 64,
	QUIET_MS = 100,
	WR_SEND = 1 << 20,
};

struct events {
	struct peer *peer;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *memory;
	int epoll;
	uint32_t wakeups;
};

static void arm(struct events *events, bool is_solicited_only)
{
	CHECK(!ibv_req_notify_cq(events->cq, is_solicited_only), "no notification");
}

/* Is there an event within `ms`? Takes it. */
static bool wait_event(struct events *events, int ms)
{
	struct epoll_event event;
	struct ibv_cq *cq;
	void *context;

	if (epoll_wait(events->epoll, &event, 1, ms) != 1)
		return false;
	CHECK(!ibv_get_cq_event(events->channel, &cq, &context), "readable, but no event: %s",
		strerror(errno));
	CHECK(cq == events->cq, "an event of another queue");
	ibv_ack_cq_events(cq, 1);
	return true;
}

/* The way of the man page: arm, look once more, sleep. */
static struct ibv_wc sleep_for_completion(struct events *events)
{
	struct ibv_wc wc;

	for (;;) {
		if (ibv_poll_cq(events->cq, 1, &wc) == 1)
			break;
		arm(events, false);
		if (ibv_poll_cq(events->cq, 1, &wc) == 1)
			break;
		CHECK(wait_event(events, PEER_TIMEOUT_S * 1000),
			"no event in %d s: a lost wake-up?", PEER_TIMEOUT_S);
		events->wakeups++;
	}
	CHECK(wc.status == IBV_WC_SUCCESS, "status %d (%s)", wc.status,
		ibv_wc_status_str(wc.status));
	return wc;
}

static void receive_post(struct events *events, uint32_t number)
{
	peer_post_recv(events->qp, number, events->memory, (size_t)(number % DEPTH) * MESSAGE_BYTES,
		MESSAGE_BYTES);
}

static void send_one(struct events *events, uint32_t number, int flags)
{
	struct ibv_sge sge = peer_sge(events->memory, (size_t)DEPTH * MESSAGE_BYTES, MESSAGE_BYTES);
	struct ibv_send_wr wr = {
		.wr_id = WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = number,
		.send_flags = (unsigned)flags,
	};

	peer_post_send(events->qp, &wr);
}

/* The message `number`, while completions of our own sends come in between. */
static void await(struct events *events, uint32_t number)
{
	struct ibv_wc wc;

	do
		wc = sleep_for_completion(events);
	while (wc.wr_id == WR_SEND);
	CHECK(wc.imm_data == number, "message %u instead of %u", wc.imm_data, number);
	receive_post(events, (uint32_t)wc.wr_id);
}

static void ping_pong(struct events *events, uint32_t count)
{
	bool is_server = peer_is_server(events->peer);

	for (uint32_t i = 0; i < count; i++) {
		if (!is_server)
			send_one(events, i, IBV_SEND_SIGNALED);
		await(events, i);
		if (is_server)
			send_one(events, i, IBV_SEND_SIGNALED);
	}
	peer_barrier(events->peer);
}

/* Take what is there, so that the next arming meets an empty queue. */
static void drain(struct events *events)
{
	struct ibv_wc wc;

	peer_sleep_ms(QUIET_MS);
	while (ibv_poll_cq(events->cq, 1, &wc))
		if (wc.wr_id != WR_SEND)
			receive_post(events, (uint32_t)wc.wr_id);
	while (wait_event(events, 0))
		;
}

static void solicited_only(struct events *events)
{
	static const struct {
		int flags;
		bool is_solicited;
	} steps[] = {{0, false}, {IBV_SEND_SOLICITED, true}};

	for (int i = 0; i < 2; i++) {
		drain(events);
		peer_barrier(events->peer);
		if (peer_is_server(events->peer))
			arm(events, true);
		peer_barrier(events->peer);
		if (!peer_is_server(events->peer))
			send_one(events, 0, steps[i].flags | IBV_SEND_SIGNALED);
		else if (steps[i].is_solicited)
			CHECK(wait_event(events, PEER_TIMEOUT_S * 1000), "no solicited event");
		else
			CHECK(!wait_event(events, QUIET_MS), "an event that nobody asked for");
		peer_barrier(events->peer);
	}
	/* Armed once is one event, however much comes. */
	drain(events);
	peer_barrier(events->peer);
	arm(events, false);
	arm(events, false);
	peer_barrier(events->peer);
	send_one(events, 0, 0);
	send_one(events, 1, IBV_SEND_SIGNALED);
	CHECK(wait_event(events, PEER_TIMEOUT_S * 1000), "no event");
	CHECK(!wait_event(events, QUIET_MS), "two events for one request");
	peer_barrier(events->peer);
}

/* Arming reports no completion that is in the queue already, only the next one. */
static void nonblocking(struct events *events)
{
	struct ibv_cq *cq;
	void *context;

	drain(events);
	fcntl(events->channel->fd, F_SETFL, fcntl(events->channel->fd, F_GETFL) | O_NONBLOCK);
	CHECK(ibv_get_cq_event(events->channel, &cq, &context) == -1 && errno == EAGAIN,
		"an event out of nothing, errno %d", errno);
	peer_barrier(events->peer);
}

/* The client asks for what it may not: the server's program hears of it asynchronously. */
static void asynchronous(struct events *events)
{
	struct pollfd fd = {.fd = events->peer->context->async_fd, .events = POLLIN};
	struct ibv_sge sge = peer_sge(events->memory, 0, MESSAGE_BYTES);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {0x1000, 0x1000},
	};
	struct ibv_async_event event;

	if (!peer_is_server(events->peer)) {
		peer_post_send(events->qp, &wr);
	} else {
		CHECK(poll(&fd, 1, PEER_TIMEOUT_S * 1000) == 1, "no asynchronous event");
		CHECK(!ibv_get_async_event(events->peer->context, &event), "none to get");
		CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == events->qp,
			"event %d", event.event_type);
		ibv_ack_async_event(&event);
	}
	peer_barrier(events->peer);
}

int main(int argc, char **argv)
{
	struct epoll_event watch = {.events = EPOLLIN};
	struct peer_options options;
	struct events events = {0};
	struct peer peer;

	peer_parse(&options, argc, argv);
	peer_open(&peer, &options);
	peer_meet(&peer);
	events.peer = &peer;
	events.channel = ibv_create_comp_channel(peer.context);
	CHECK(events.channel, "no completion channel");
	events.epoll = epoll_create1(EPOLL_CLOEXEC);
	CHECK(!epoll_ctl(events.epoll, EPOLL_CTL_ADD, events.channel->fd, &watch), "no epoll: %s",
		strerror(errno));
	events.cq = peer_cq_create(&peer, 4 * DEPTH, events.channel);
	events.qp = peer_qp_create(&peer, events.cq, DEPTH, 1, 0);
	events.memory = peer_memory(&peer, (size_t)(DEPTH + 1) * MESSAGE_BYTES);
	peer_qp_connect(&peer, events.qp, &peer_link_full);
	for (uint32_t i = 0; i < DEPTH; i++)
		receive_post(&events, i);
	peer_barrier(&peer);

	ping_pong(&events, options.count ? options.count : PING_PONGS);
	solicited_only(&events);
	nonblocking(&events);
	asynchronous(&events);
	printf("%u wake-ups\n", events.wakeups);

	close(events.epoll);
	CHECK(!ibv_destroy_qp(events.qp) && !ibv_destroy_cq(events.cq) &&
			!ibv_destroy_comp_channel(events.channel),
		"objects stay");
	peer_memory_free(events.memory);
	peer_close(&peer);
	return 0;
}
