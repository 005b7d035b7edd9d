/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork() under an open device.
 *
 * A thread of the parent moves data between two queue pairs of the process without a pause, while
 * the main thread forks. Children use a NIC of their own, find the inherited objects dead, do
 * nothing, or run another program. The parent's transfers go on without errors.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

enum {
	CHILDREN = 24,
	BYTES = 60000,
	TRANSFERS = 20, /* by each child */
};

/* Two queue pairs of one process, and memory to move to and fro. */
struct loop {
	struct peer peer;
	struct ibv_cq *cq;
	struct ibv_qp *from, *to;
	struct ibv_mr *out, *in;
};

static void loop_open(struct loop *loop, const struct peer_options *options)
{
	peer_open(&loop->peer, options);
	loop->cq = peer_cq_create(&loop->peer, 16, NULL);
	loop->from = peer_qp_create(&loop->peer, loop->cq, 4, 1, 0);
	loop->to = peer_qp_create(&loop->peer, loop->cq, 4, 1, 0);
	loop->out = peer_memory(&loop->peer, BYTES);
	loop->in = peer_memory(&loop->peer, BYTES);
	peer_qp_join(&loop->peer, loop->from, loop->to);
}

static void loop_close(struct loop *loop)
{
	CHECK(!ibv_destroy_qp(loop->from) && !ibv_destroy_qp(loop->to) && !ibv_destroy_cq(loop->cq),
		"objects stay");
	peer_memory_free(loop->out);
	peer_memory_free(loop->in);
	peer_close(&loop->peer);
}

/* One SEND of the whole memory, checked. */
static void loop_transfer(struct loop *loop, uint64_t seed)
{
	struct ibv_sge sge = peer_sge(loop->out, 0, BYTES);
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	peer_pattern_fill(loop->out->addr, BYTES, seed);
	peer_post_recv(loop->to, 0, loop->in, 0, BYTES);
	peer_post_send(loop->from, &wr);
	peer_success(loop->cq);
	peer_success(loop->cq);
	peer_pattern_check(loop->in->addr, BYTES, seed, "received");
}

struct mover {
	struct loop *loop;
	atomic_bool is_stopping;
	_Atomic uint64_t transfers;
};

static void *move(void *argument)
{
	struct mover *mover = argument;

	while (!atomic_load(&mover->is_stopping))
		loop_transfer(mover->loop, atomic_fetch_add(&mover->transfers, 1));
	return NULL;
}

/* The inherited objects are the parent's: here they do nothing, and above all not to the parent. */
static void child_touches(struct loop *inherited)
{
	struct ibv_sge sge = peer_sge(inherited->out, 0, 8);
	struct ibv_send_wr *bad_send, send = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_recv_wr *bad_recv, receive = {.sg_list = &sge, .num_sge = 1};
	struct ibv_wc wc;

	memset(inherited->out->addr, 0xee, BYTES); /* its copy */
	CHECK(ibv_post_send(inherited->from, &send, &bad_send), "an inherited queue pair sends");
	CHECK(ibv_post_recv(inherited->to, &receive, &bad_recv), "an inherited queue receives");
	CHECK(ibv_poll_cq(inherited->cq, 1, &wc) <= 0, "an inherited queue completes");
}

static void child_works(const struct peer_options *options)
{
	struct loop loop;

	loop_open(&loop, options);
	for (uint64_t i = 0; i < TRANSFERS; i++)
		loop_transfer(&loop, i);
	loop_close(&loop);
}

__attribute__((noreturn)) static void child(
	struct loop *inherited, const struct peer_options *options, int kind)
{
	switch (kind) {
	case 0:
		child_touches(inherited);
		child_works(options);
		break;
	case 1:
		child_works(options);
		break;
	case 2:
		execlp("true", "true", (char *)NULL);
		_exit(EXIT_FAILURE);
	default:
		break;
	}
	_exit(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
	struct mover mover = {0};
	struct peer_options options;
	struct loop loop;
	pthread_t thread;
	int status;

	peer_parse(&options, argc, argv);
	loop_open(&loop, &options);
	loop_transfer(&loop, 1);
	mover.loop = &loop;
	CHECK(!pthread_create(&thread, NULL, move, &mover), "no thread");
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0, "no fork: %s", strerror(errno));
		if (pid == 0)
			child(&loop, &options, i % 4);
		/* One at a time and two at a time. */
		if (i % 3)
			CHECK(wait(&status) > 0 && status == 0, "child %d ends with 0x%x", i,
				status);
	}
	while (wait(&status) > 0)
		CHECK(status == 0, "a child ends with 0x%x", status);
	atomic_store(&mover.is_stopping, true);
	pthread_join(thread, NULL);
	printf("%d children, %llu transfers\n", CHILDREN, (unsigned long long)mover.transfers);
	loop_close(&loop);
	return 0;
}
