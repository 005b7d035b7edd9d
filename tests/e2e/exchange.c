/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does a SEND complete before the answer to it arrives? An adapter acknowledges a message before
 * its program can answer it.
 *
 *   exchange [OPTIONS] [-n ROUNDS] -w poll|sleep [SERVER]
 *
 * Client and server send each other one message after the other, each the answer to the one before.
 * Each end counts the messages that arrived before its own message, which they answer, was
 * complete. It fails when there is one. Each end stays on one processor: the kernel reorders two
 * packets that leave from two processors, whatever their order was when urnic sent them.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "peer.h"

enum {
	ROUNDS = 300,
	DEPTH = 16,
	BYTES_MAX = 65536,
};

/* One way to exchange messages. */
struct exchange {
	const char *name;
	uint32_t bytes;
	bool answers_by_other; /* the server answers through another queue pair than it was asked */
	bool has_two_queues; /* one completion queue for sends, one for receives */
};

static const struct exchange exchanges[] = {
	{"short", 8, false, false},
	{"short, by another queue pair", 8, true, false},
	{"some packets", 12000, false, false},
	{"many packets", BYTES_MAX, false, false},
	{"many packets, by another queue pair", BYTES_MAX, true, false},
};

struct ends {
	struct peer peer;
	struct ibv_comp_channel *channel; /* NULL: this end polls */
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *asks, *answers; /* the same, or not */
	struct ibv_mr *memory;
};

static struct ibv_qp *qp_create(struct ends *ends)
{
	struct ibv_qp_init_attr init = {
		.send_cq = ends->send_cq,
		.recv_cq = ends->recv_cq,
		.cap = {DEPTH, DEPTH, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(ends->peer.pd, &init);

	CHECK(qp, "no queue pair: %s", strerror(errno));
	return qp;
}

static void sleep_for_completion(struct ends *ends, struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct ibv_cq *woken;
	void *context;

	for (;;) {
		CHECK(!ibv_req_notify_cq(cq, 0), "no notification");
		if (ibv_poll_cq(cq, 1, wc) == 1)
			return;
		CHECK(!ibv_get_cq_event(ends->channel, &woken, &context), "no event: %s",
			strerror(errno));
		ibv_ack_cq_events(woken, 1);
		if (ibv_poll_cq(cq, 1, wc) == 1)
			return;
	}
}

static struct ibv_wc completion(struct ends *ends, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (!ends->channel)
		return peer_success(cq);
	sleep_for_completion(ends, cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	return wc;
}

/*
 * Poll until the next message arrives. Adds the number of requests that completed before it to
 * *sends.
 */
static void receive(struct ends *ends, uint32_t *sends)
{
	struct ibv_wc wc;

	while (completion(ends, ends->recv_cq).opcode != IBV_WC_RECV)
		++*sends;
	while (ends->send_cq != ends->recv_cq && ibv_poll_cq(ends->send_cq, 1, &wc) == 1) {
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		++*sends;
	}
}

static void send_one(struct ends *ends, struct ibv_qp *qp, uint32_t bytes)
{
	struct ibv_sge sge = peer_sge(ends->memory, 0, bytes);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	peer_post_send(qp, &wr);
}

/* Returns how many messages came too soon. */
static uint32_t play(struct ends *ends, const struct exchange *exchange, uint32_t rounds)
{
	bool is_server = peer_is_server(&ends->peer);
	struct ibv_qp *from = is_server ? ends->asks : ends->answers;
	struct ibv_qp *to = is_server ? ends->answers : ends->asks;
	uint32_t sent = 0, complete = 0, early = 0;

	for (uint32_t i = 0; i < DEPTH; i++)
		peer_post_recv(from, 0, ends->memory, BYTES_MAX, BYTES_MAX);
	peer_barrier(&ends->peer);
	if (!is_server) {
		send_one(ends, to, exchange->bytes);
		sent++;
	}
	for (uint32_t i = 0; i < rounds; i++) {
		receive(ends, &complete);
		early += complete < sent;
		peer_post_recv(from, 0, ends->memory, BYTES_MAX, BYTES_MAX);
		if (is_server || i + 1 < rounds) {
			send_one(ends, to, exchange->bytes);
			sent++;
		}
	}
	while (complete < sent) {
		completion(ends, ends->send_cq);
		complete++;
	}
	return early;
}

static uint32_t run(struct ends *ends, const struct exchange *exchange, uint32_t rounds)
{
	uint32_t early;

	ends->recv_cq = peer_cq_create(&ends->peer, 4 * DEPTH, ends->channel);
	ends->send_cq = exchange->has_two_queues
		? peer_cq_create(&ends->peer, 4 * DEPTH, ends->channel)
		: ends->recv_cq;
	ends->asks = qp_create(ends);
	ends->answers = exchange->answers_by_other ? qp_create(ends) : ends->asks;
	peer_qp_connect(&ends->peer, ends->asks, &peer_link_full);
	if (exchange->answers_by_other)
		peer_qp_connect(&ends->peer, ends->answers, &peer_link_full);
	early = play(ends, exchange, rounds);
	printf("%s: %u of %u answers before the completion of what they answer\n", exchange->name,
		early, rounds);
	peer_barrier(&ends->peer);
	CHECK(!ibv_destroy_qp(ends->asks), "the queue pair stays");
	if (exchange->answers_by_other)
		CHECK(!ibv_destroy_qp(ends->answers), "the queue pair stays");
	CHECK(!ibv_destroy_cq(ends->recv_cq), "the completion queue stays");
	if (exchange->has_two_queues)
		CHECK(!ibv_destroy_cq(ends->send_cq), "the completion queue stays");
	return early;
}

/* The server on the first processor that it may use, the client on the last. */
static void processor_keep(bool is_server)
{
	cpu_set_t allowed, one;
	int chosen = -1;

	CHECK(!sched_getaffinity(0, sizeof(allowed), &allowed), "no list of processors");
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &allowed) && (chosen < 0 || !is_server))
			chosen = i;
	CPU_ZERO(&one);
	CPU_SET(chosen, &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one), "the process may not stay on processor %d",
		chosen);
}

int main(int argc, char **argv)
{
	struct peer_options options;
	struct ends ends = {.channel = NULL};
	uint32_t rounds, failures = 0;

	peer_parse(&options, argc, argv);
	rounds = options.count ? options.count : ROUNDS;
	processor_keep(!options.server);
	peer_open(&ends.peer, &options);
	peer_meet(&ends.peer);
	ends.memory = peer_memory(&ends.peer, 2 * BYTES_MAX);
	if (options.what && !strcmp(options.what, "sleep")) {
		ends.channel = ibv_create_comp_channel(ends.peer.context);
		CHECK(ends.channel, "no channel: %s", strerror(errno));
	}
	for (size_t i = 0; i < sizeof(exchanges) / sizeof(exchanges[0]); i++)
		failures += run(&ends, &exchanges[i], rounds) > 0;
	if (ends.channel)
		CHECK(!ibv_destroy_comp_channel(ends.channel), "the channel stays");
	peer_memory_free(ends.memory);
	peer_close(&ends.peer);
	return failures > 0;
}
