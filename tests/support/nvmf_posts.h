/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_NVMF_POSTS_H
#define URNIC_TESTS_SUPPORT_NVMF_POSTS_H

/*
 * Counts the calls of ibv_post_send, and their work requests, on all queue pairs of one device
 * context. Host and target share that context, because both run in this process. So the test names
 * its own queue pair, `own`, whose calls are not counted.
 */

#include <infiniband/verbs.h>

static struct {
	struct ibv_context *verbs;
	const struct ibv_qp *own; /* whose calls do not count */
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	unsigned calls, requests;
} posts;

static int posts_count(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	posts.calls += qp != posts.own;
	for (struct ibv_send_wr *next = wr; next && qp != posts.own; next = next->next)
		posts.requests++;
	return posts.post_send(qp, wr, bad);
}

static void posts_begin(const struct ibv_qp *own)
{
	posts.verbs = own->context;
	posts.own = own;
	posts.post_send = posts.verbs->ops.post_send;
	posts.verbs->ops.post_send = posts_count;
	posts.calls = posts.requests = 0;
}

static void posts_end(void)
{
	posts.verbs->ops.post_send = posts.post_send;
}

#endif
