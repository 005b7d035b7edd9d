/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that use memory, queues and objects in the wrong order. */
#include <string.h>

#include "mistake.h"

enum { TARGET_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

/* Post a WRITE of MESSAGE_BYTES. */
static void write_once(struct mistake *m, const struct ibv_mr *own, const struct ibv_mr *target)
{
	MUST(!mistake_post(m, IBV_WR_RDMA_WRITE, mistake_entry(m->memory, MESSAGE_BYTES, own->lkey),
		(uintptr_t)m->target_memory, target->rkey));
}

void mistake_source_written_before_completion(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_mr *target = mistake_register(m, m->target_memory, NULL, TARGET_ACCESS);

	mistake_connect(m);
	memset(m->memory, 1, MESSAGE_BYTES);
	write_once(m, own, target); /* wrong: source_written_before_completion */
	m->memory[MESSAGE_BYTES / 2] = 2;
	MUST(mistake_poll(m->cq).status == IBV_WC_SUCCESS);
}
