/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrong keys, ranges, rights and domains. */
#include <arpa/inet.h>

#include "mistake.h"

enum {
	REMOTE_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC,
};

/* One request of the sender's memory at `address` of the target by `rkey`; it has to fail. */
static void request(struct mistake *m, enum ibv_wr_opcode opcode, uint32_t bytes,
	const void *address, uint32_t rkey)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, IBV_ACCESS_LOCAL_WRITE);

	MUST(!mistake_post(
		m, opcode, mistake_entry(m->memory, bytes, own->lkey), (uintptr_t)address, rkey));
	MUST(mistake_poll(m->cq).status != IBV_WC_SUCCESS);
}

void mistake_wrong_rkey(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->target_memory, NULL, REMOTE_ALL);

	mistake_connect(m);
	request(m, IBV_WR_RDMA_WRITE, MESSAGE_BYTES, m->target_memory, mr->rkey + 1);
}

void mistake_rkey_in_network_order(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->target_memory, NULL, REMOTE_ALL);

	mistake_connect(m);
	request(m, IBV_WR_RDMA_WRITE, MESSAGE_BYTES, m->target_memory, htonl(mr->rkey));
}

void mistake_target_deregistered_too_early(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->target_memory, NULL, REMOTE_ALL);
	uint32_t rkey = mr->rkey;

	mistake_connect(m);
	MUST(!ibv_dereg_mr(mr));
	request(m, IBV_WR_RDMA_WRITE, MESSAGE_BYTES, m->target_memory, rkey);
}

void mistake_write_beyond_the_end(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->target_memory, NULL, REMOTE_ALL);

	mistake_connect(m);
	request(m, IBV_WR_RDMA_WRITE, MESSAGE_BYTES,
		m->target_memory + REGION_BYTES - MESSAGE_BYTES / 2, mr->rkey);
}

void mistake_offset_as_remote_address(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->target_memory, NULL, REMOTE_ALL);

	mistake_connect(m);
	request(m, IBV_WR_RDMA_WRITE, MESSAGE_BYTES, (void *)(uintptr_t)0x40, mr->rkey);
}

void mistake_write_without_remote_write(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->target_memory, NULL, IBV_ACCESS_LOCAL_WRITE);

	mistake_connect(m);
	request(m, IBV_WR_RDMA_WRITE, MESSAGE_BYTES, m->target_memory, mr->rkey);
}

void mistake_read_without_remote_read(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(
		m, m->target_memory, NULL, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	mistake_connect(m);
	request(m, IBV_WR_RDMA_READ, MESSAGE_BYTES, m->target_memory, mr->rkey);
}

void mistake_atomic_without_remote_atomic(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(
		m, m->target_memory, NULL, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	mistake_connect(m);
	request(m, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, m->target_memory, mr->rkey);
}

void mistake_queue_pair_without_access_flags(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->target_memory, NULL, REMOTE_ALL);

	m->settings.access = 0;
	mistake_connect(m);
	request(m, IBV_WR_RDMA_WRITE, MESSAGE_BYTES, m->target_memory, mr->rkey);
}

void mistake_target_of_another_domain(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->target_memory, m->other_pd, REMOTE_ALL);

	mistake_connect(m);
	request(m, IBV_WR_RDMA_WRITE, MESSAGE_BYTES, m->target_memory, mr->rkey);
}

void mistake_atomic_misaligned(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->target_memory, NULL, REMOTE_ALL);

	mistake_connect(m);
	request(m, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, m->target_memory + 4, mr->rkey);
}

void mistake_refusal_as_the_sender_sees_it(struct mistake *m)
{
	mistake_wrong_rkey(m);
}

/* One SEND of this entry; it has to fail. */
static void send_entry(struct mistake *m, struct ibv_sge entry)
{
	mistake_connect(m);
	MUST(!mistake_post(m, IBV_WR_SEND, entry, 0, 0));
	MUST(mistake_poll(m->cq).status != IBV_WC_SUCCESS);
}

void mistake_wrong_lkey(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->memory, NULL, 0);

	send_entry(m, mistake_entry(m->memory, MESSAGE_BYTES, mr->lkey + 1));
}

void mistake_second_entry_wrong(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->memory, NULL, 0);
	struct ibv_sge entries[] = {
		mistake_entry(m->memory, MESSAGE_BYTES, mr->lkey),
		mistake_entry(m->memory + MESSAGE_BYTES, MESSAGE_BYTES, 0),
	};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = entries, .num_sge = 2};
	struct ibv_send_wr *bad;

	mistake_connect(m);
	MUST(!ibv_post_send(m->sender, &wr, &bad));
	MUST(mistake_poll(m->cq).status == IBV_WC_LOC_PROT_ERR);
}

void mistake_source_deregistered_too_early(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->memory, NULL, 0);
	struct ibv_sge entry = mistake_entry(m->memory, MESSAGE_BYTES, mr->lkey);

	MUST(!ibv_dereg_mr(mr));
	send_entry(m, entry); /* wrong: source_deregistered_too_early */
}

void mistake_source_of_another_domain(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->memory, m->other_pd, 0);

	send_entry(m, mistake_entry(m->memory, MESSAGE_BYTES, mr->lkey));
}

void mistake_entry_too_long(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->memory, NULL, 0);
	char *start = m->memory + REGION_BYTES - 16;
	struct ibv_sge entry = mistake_entry(start, MESSAGE_BYTES, mr->lkey);

	send_entry(m, entry); /* wrong: entry_too_long */
}

void mistake_read_into_read_only_memory(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->target_memory, NULL, REMOTE_ALL);
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);

	mistake_connect(m);
	MUST(!mistake_post(m, IBV_WR_RDMA_READ, mistake_entry(m->memory, MESSAGE_BYTES, own->lkey),
		(uintptr_t)m->target_memory, mr->rkey));
	MUST(mistake_poll(m->cq).status == IBV_WC_LOC_PROT_ERR);
}

void mistake_receive_into_read_only_memory(struct mistake *m)
{
	struct ibv_mr *own = mistake_register(m, m->memory, NULL, 0);
	struct ibv_mr *mr = mistake_register(m, m->target_memory, NULL, 0);

	mistake_connect(m);
	MUST(!mistake_receive(m, mistake_entry(m->target_memory, MESSAGE_BYTES, mr->lkey)));
	MUST(!mistake_post(
		m, IBV_WR_SEND, mistake_entry(m->memory, MESSAGE_BYTES, own->lkey), 0, 0));
	MUST(mistake_poll(m->cq).status != IBV_WC_SUCCESS);
}

void mistake_atomic_result_too_short(struct mistake *m)
{
	struct ibv_mr *mr = mistake_register(m, m->target_memory, NULL, REMOTE_ALL);

	mistake_connect(m);
	request(m, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, m->target_memory, mr->rkey);
}
