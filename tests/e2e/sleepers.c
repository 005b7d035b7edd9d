/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs whose threads sleep until there is an event: in a blocking ibv_get_cq_event(), or at the
 * channel's descriptor.
 *
 * In each round there are several channels, each with several threads and queue pairs. Every queue
 * pair plays ping-pong, so one lost wake-up hangs the round. Signals that do not interrupt read(2)
 * arrive all the time. Meanwhile another thread polls a queue of its own, and reads the peer's
 * memory. Then the threads are interrupted, and cancelled.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

enum {
	PING_PONGS = 2000,
	CHANNELS_MAX = 2,
	THREADS_MAX = 2, /* of a channel */
	FLOWS_MAX = 3, /* of a channel */
	DEPTH = 4,
	MESSAGE_BYTES = 64,
	READS = 20,
	LATE_MS = 3, /* longer than a lane waits for the program's next sleep */
	WR_SEND = 1 << 20,
};

/* A queue pair that plays ping-pong. */
struct flow {
	pthread_mutex_t lock;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *memory;
	uint32_t received;
	uint32_t sent;
};

/* Where threads sleep. */
enum way {
	CALL, /* in ibv_get_cq_event() */
	POLL, /* in poll(2), and then in ibv_get_cq_event() */
	LEVEL, /* in epoll_wait(2); the descriptor does not block */
	EDGE, /* the same, edge-triggered */
	SIGNAL, /* until SIGIO */
	MANUAL, /* in poll(2); a readable descriptor without an event is an error */
};

struct round {
	uint32_t channels, threads, flows; /* threads and flows of each channel */
	enum way way;
};

static const struct round rounds[] = {
	{1, 1, 1, CALL},
	{1, 1, 3, CALL},
	{1, 2, 1, CALL},
	{1, 2, 3, CALL},
	{2, 1, 1, CALL},
	{2, 2, 2, CALL},
	{1, 1, 2, POLL},
	{1, 1, 1, LEVEL},
	{1, 1, 1, EDGE},
	{1, 1, 3, EDGE},
	{1, 2, 2, LEVEL},
	{1, 2, 2, EDGE},
	{2, 1, 1, EDGE},
	{2, 2, 1, LEVEL},
	{1, 1, 1, SIGNAL},
	{1, 1, 2, MANUAL},
};

static struct peer peer;
static uint32_t count;
static struct ibv_comp_channel *channels[CHANNELS_MAX];
static struct flow flows[CHANNELS_MAX * FLOWS_MAX];
static pthread_t threads[CHANNELS_MAX * THREADS_MAX];
static _Atomic uint32_t flows_done;
static _Atomic bool may_be_interrupted;
static _Atomic uint32_t interruptions;
static enum way way;

static void receive_post(struct flow *flow, uint64_t slot)
{
	peer_post_recv(flow->qp, slot, flow->memory, slot * MESSAGE_BYTES, MESSAGE_BYTES);
}

/* Locked. */
static void send_next(struct flow *flow)
{
	struct ibv_sge sge = peer_sge(flow->memory, (size_t)DEPTH * MESSAGE_BYTES, MESSAGE_BYTES);
	struct ibv_send_wr wr = {
		.wr_id = WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = flow->sent++,
		.send_flags = IBV_SEND_SIGNALED,
	};

	/* Now and then the program does something else first. */
	if (flow->sent % 256 == 0)
		peer_sleep_ms(LATE_MS);
	peer_post_send(flow->qp, &wr);
}

/* Locked. */
static void completion_take(struct flow *flow, const struct ibv_wc *wc)
{
	CHECK(wc->status == IBV_WC_SUCCESS, "status %d (%s)", wc->status,
		ibv_wc_status_str(wc->status));
	if (wc->wr_id == WR_SEND)
		return;
	CHECK(wc->imm_data == flow->received, "message %u instead of %u", wc->imm_data,
		flow->received);
	receive_post(flow, wc->wr_id);
	flow->received++;
	if (flow->sent < count)
		send_next(flow);
	if (flow->received == count)
		atomic_fetch_add(&flows_done, 1);
}

/* Arm, then take all: what comes later is another event. */
static void flow_drain(struct flow *flow)
{
	struct ibv_wc wc;

	pthread_mutex_lock(&flow->lock);
	CHECK(!ibv_req_notify_cq(flow->cq, 0), "no notification");
	while (ibv_poll_cq(flow->cq, 1, &wc))
		completion_take(flow, &wc);
	pthread_mutex_unlock(&flow->lock);
}

static bool is_blocking(void)
{
	return way == CALL || way == POLL;
}

/* A second thread may have taken the event; otherwise only some ways permit that there is none. */
static bool is_tolerant(void)
{
	return way == LEVEL || way == EDGE || way == SIGNAL;
}

/* Nothing but an event ends the sleep: not a signal, nor a time limit. */
static void descriptor_await(int fd, int epoll)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	struct epoll_event event;
	sigset_t signals;
	int before;

	sigemptyset(&signals);
	sigaddset(&signals, SIGIO);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
	if (way == SIGNAL)
		while (sigwaitinfo(&signals, NULL) != SIGIO)
			;
	else if (way == MANUAL)
		while (poll(&readable, 1, -1) != 1)
			;
	else
		while (epoll_wait(epoll, &event, 1, -1) != 1)
			;
	pthread_setcancelstate(before, &before);
}

/* As servers do: take events until there is none, then sleep. */
static struct flow *event_take(struct ibv_comp_channel *channel, int epoll)
{
	struct ibv_cq *cq;
	void *context;
	int result;

	if (way == MANUAL)
		descriptor_await(channel->fd, epoll);
	while ((result = ibv_get_cq_event(channel, &cq, &context)) && errno == EAGAIN &&
		is_tolerant())
		descriptor_await(channel->fd, epoll);
	CHECK(!result, "no event: %s", strerror(errno));
	ibv_ack_cq_events(cq, 1);
	return context;
}

/* Returns NULL after a signal that interrupts. The only place where the thread is cancelled. */
static struct flow *event_await(struct ibv_comp_channel *channel)
{
	struct pollfd readable = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;
	int before, result;

	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
	if (way == POLL)
		poll(&readable, 1, LATE_MS);
	result = ibv_get_cq_event(channel, &cq, &context);
	pthread_setcancelstate(before, &before);
	CHECK(!result || (errno == EINTR && atomic_load(&may_be_interrupted)), "no event: %s",
		strerror(errno));
	if (result) {
		atomic_fetch_add(&interruptions, 1);
		return NULL;
	}
	ibv_ack_cq_events(cq, 1);
	return context;
}

static void *sleeper(void *argument)
{
	struct ibv_comp_channel *channel = argument;
	struct epoll_event watch = {.events = way == EDGE ? EPOLLIN | EPOLLET : EPOLLIN};
	int before, epoll = epoll_create1(EPOLL_CLOEXEC);
	struct flow *flow;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &watch), "no epoll set");
	for (;;) {
		flow = is_blocking() ? event_await(channel) : event_take(channel, epoll);
		if (flow)
			flow_drain(flow);
	}
	return NULL;
}

static void flow_open(struct flow *flow, struct ibv_comp_channel *channel)
{
	*flow = (struct flow){.lock = PTHREAD_MUTEX_INITIALIZER};
	flow->cq = ibv_create_cq(peer.context, 4 * DEPTH, flow, channel, 0);
	CHECK(flow->cq, "no completion queue: %s", strerror(errno));
	flow->qp = peer_qp_create(&peer, flow->cq, DEPTH, 1, 0);
	flow->memory = peer_memory(&peer, (size_t)(DEPTH + 1) * MESSAGE_BYTES);
	peer_qp_connect(&peer, flow->qp, &peer_link_full);
	for (uint64_t slot = 0; slot < DEPTH; slot++)
		receive_post(flow, slot);
}

static void flow_close(struct flow *flow)
{
	CHECK(!ibv_destroy_qp(flow->qp) && !ibv_destroy_cq(flow->cq), "objects stay");
	peer_memory_free(flow->memory);
}

static void on_signal(int number)
{
	(void)number;
}

static void signal_handle(int flags)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};

	CHECK(!sigaction(SIGUSR1, &action, NULL), "no handler");
}

static void threads_signal(uint32_t thread_count)
{
	for (uint32_t i = 0; i < thread_count; i++)
		pthread_kill(threads[i], SIGUSR1);
}

/* Until all flows are done. Signals come all the time, and wait for nothing. */
static void flows_await(const struct round *round)
{
	uint64_t until_ms = peer_now_ms() + PEER_TIMEOUT_S * 1000;

	while (atomic_load(&flows_done) < round->channels * round->flows) {
		CHECK(peer_now_ms() < until_ms, "%u of %u queue pairs are done: a lost wake-up?",
			atomic_load(&flows_done), round->channels * round->flows);
		threads_signal(round->channels * round->threads);
		peer_sleep_ms(2);
	}
}

/* Each thread that sleeps is interrupted. */
static void threads_interrupt(const struct round *round)
{
	uint64_t until_ms = peer_now_ms() + PEER_TIMEOUT_S * 1000;

	atomic_store(&interruptions, 0);
	atomic_store(&may_be_interrupted, true);
	signal_handle(0);
	while (atomic_load(&interruptions) < 2 * round->channels * round->threads) {
		CHECK(peer_now_ms() < until_ms, "%u interruptions", atomic_load(&interruptions));
		threads_signal(round->channels * round->threads);
		peer_sleep_ms(1);
	}
	signal_handle(SA_RESTART);
}

static void threads_cancel(const struct round *round)
{
	void *result;

	for (uint32_t i = 0; i < round->channels * round->threads; i++) {
		pthread_cancel(threads[i]);
		CHECK(!pthread_join(threads[i], &result) && result == PTHREAD_CANCELED,
			"not cancelled");
	}
	atomic_store(&may_be_interrupted, false);
}

/* The client reads the server's memory while the server's program sleeps. */
static void memory_read(struct flow *flow, const struct peer_buffer *remote)
{
	struct ibv_sge sge = peer_sge(flow->memory, 0, MESSAGE_BYTES);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {remote->address, remote->rkey},
	};

	for (int i = 0; i < READS && !peer_is_server(&peer); i++) {
		memset(flow->memory->addr, 0, MESSAGE_BYTES);
		peer_post_send(flow->qp, &wr);
		peer_success(flow->cq);
		peer_pattern_check(flow->memory->addr, MESSAGE_BYTES, 1, "what was read");
	}
	peer_barrier(&peer);
}

static void round_begin(const struct round *round)
{
	uint32_t flow = 0, thread = 0;

	way = round->way;
	atomic_store(&flows_done, 0);
	for (uint32_t i = 0; i < round->channels; i++) {
		channels[i] = ibv_create_comp_channel(peer.context);
		CHECK(channels[i], "no completion channel");
		if (way == SIGNAL)
			fcntl(channels[i]->fd, F_SETOWN, getpid());
		if (!is_blocking())
			fcntl(channels[i]->fd, F_SETFL, O_NONBLOCK | (way == SIGNAL ? O_ASYNC : 0));
		for (uint32_t j = 0; j < round->flows; j++)
			flow_open(&flows[flow++], channels[i]);
		for (uint32_t j = 0; j < round->threads; j++)
			CHECK(!pthread_create(&threads[thread++], NULL, sleeper, channels[i]),
				"no thread");
	}
	for (uint32_t i = 0; i < flow; i++)
		flow_drain(&flows[i]);
	peer_barrier(&peer);
	for (uint32_t i = 0; i < flow && !peer_is_server(&peer); i++) {
		pthread_mutex_lock(&flows[i].lock);
		send_next(&flows[i]);
		pthread_mutex_unlock(&flows[i].lock);
	}
}

static void round_play(const struct round *round)
{
	struct peer_buffer ours, theirs;
	struct flow other;

	flow_open(&other, NULL);
	peer_pattern_fill(other.memory->addr, MESSAGE_BYTES, 1);
	ours = peer_buffer_of(other.memory);
	peer_exchange(&peer, &ours, &theirs, sizeof(ours));

	round_begin(round);
	memory_read(&other, &theirs);
	flows_await(round);
	peer_barrier(&peer);
	memory_read(&other, &theirs);
	if (round->way == CALL)
		threads_interrupt(round);
	threads_cancel(round);
	memory_read(&other, &theirs);

	for (uint32_t i = 0; i < round->channels * round->flows; i++)
		flow_close(&flows[i]);
	for (uint32_t i = 0; i < round->channels; i++)
		CHECK(!ibv_destroy_comp_channel(channels[i]), "the channel stays");
	flow_close(&other);
}

int main(int argc, char **argv)
{
	struct peer_options options;
	sigset_t signals;

	/* Threads wait for it. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGIO);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	peer_parse(&options, argc, argv);
	peer_open(&peer, &options);
	peer_meet(&peer);
	count = options.count ? options.count : PING_PONGS;
	signal_handle(SA_RESTART);
	for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++)
		round_play(&rounds[i]);
	peer_close(&peer);
	return 0;
}
