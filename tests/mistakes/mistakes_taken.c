/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that give registered memory away, or a copy of it. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mistake.h"

enum { CHILD_SECONDS_MAX = 30 };

/* A thread that begins a request and leaves it open across a fork of the other. */
struct builder {
	struct ibv_qp_ex *qp;
	pthread_barrier_t begun, forked;
};

static void *request_build(void *argument)
{
	struct builder *builder = argument;

	ibv_wr_start(builder->qp);
	pthread_barrier_wait(&builder->begun);
	pthread_barrier_wait(&builder->forked);
	ibv_wr_abort(builder->qp);
	return NULL;
}

static void builder_make(struct builder *builder, const struct mistake *m)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = m->cq,
		.recv_cq = m->cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = m->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(m->context, &attr);

	builder->qp = qp ? ibv_qp_to_qp_ex(qp) : NULL;
	MUST(builder->qp && !pthread_barrier_init(&builder->begun, NULL, 2) &&
		!pthread_barrier_init(&builder->forked, NULL, 2));
}

/* Post a receive request, for one region of the heap, to a shared queue. */
static char *receive_shared(const struct mistake *m)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(m->pd, &attr);
	char *memory = malloc(REGION_BYTES);
	struct ibv_mr *mr = mistake_register(m, memory, NULL, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge entry = mistake_entry(memory, MESSAGE_BYTES, mr->lkey);
	struct ibv_recv_wr wr = {.sg_list = &entry, .num_sge = 1}, *bad;

	MUST(srq && !ibv_post_srq_recv(srq, &wr, &bad));
	return memory;
}

/* The child frees its copy. A thread that is not in the child has locked a queue. */
void right_child_frees_memory(struct mistake *m)
{
	char *memory = receive_shared(m);
	struct builder builder;
	pthread_t thread;
	int status;
	pid_t child;

	builder_make(&builder, m);
	MUST(!pthread_create(&thread, NULL, request_build, &builder));
	pthread_barrier_wait(&builder.begun);
	child = fork();
	if (child == 0) {
		alarm(CHILD_SECONDS_MAX);
		free(memory);
		exit(0);
	}
	pthread_barrier_wait(&builder.forked);
	MUST(waitpid(child, &status, 0) == child && status == 0);
	MUST(!pthread_join(thread, NULL));
}
