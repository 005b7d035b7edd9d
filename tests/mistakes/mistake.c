/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mistake --list: the table, a line each: name, reason and sentence, with tabs between.
 * mistake --list-checked: name, kind and modes of the mistakes in checked.def.
 * mistake --list-forgiven: name, reason and sentence of the programs in strict.def.
 * mistake --list-right: the names in right.def.
 * mistake NAME: make the mistake, or do what is right.
 */
#include "mistake.h"

#include <stdbool.h>
#include <string.h>

struct mistake_row {
	const char *name;
	const char *reason;
	const char *sentence;
	void (*make)(struct mistake *m);
};

static const struct mistake_row mistakes[] = {
#define MISTAKE(name, reason, sentence) {#name, #reason, sentence, mistake_##name},
#include "mistakes.def"
#undef MISTAKE
};

static const struct mistake_row forgiven[] = {
#define FORGIVEN(name, reason, sentence) {#name, #reason, sentence, mistake_##name},
#include "strict.def"
#undef FORGIVEN
};

static const struct {
	const char *name;
	const char *kind;
	const char *modes;
	void (*make)(struct mistake *m);
} checked[] = {
#define CHECKED(name, kind, modes) {#name, kind, modes, mistake_##name},
#include "checked.def"
#undef CHECKED
};

static const struct {
	const char *name;
	void (*make)(struct mistake *m);
} rights[] = {
#define RIGHT(name) {#name, right_##name},
#include "right.def"
#undef RIGHT
};

enum { RIGHT_COUNT = sizeof(rights) / sizeof(rights[0]) };
enum { CHECKED_COUNT = sizeof(checked) / sizeof(checked[0]) };
enum { FORGIVEN_COUNT = sizeof(forgiven) / sizeof(forgiven[0]) };
enum { MISTAKE_COUNT = sizeof(mistakes) / sizeof(mistakes[0]) };

/* The first index with an IPv4 address of RoCEv2; a device has one in this test's network. */
static void gid_choose(struct mistake *m)
{
	for (m->gid_index = 0;; m->gid_index++) {
		MUST(!ibv_query_gid(m->context, 1, m->gid_index, &m->gid));
		if (m->gid.raw[10] == 0xff && m->gid.raw[11] == 0xff)
			return;
	}
}

struct ibv_qp *mistake_qp(const struct mistake *m, enum ibv_qp_type type, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = SEND_DEPTH,
			.max_recv_wr = SEND_DEPTH,
			.max_send_sge = ENTRIES_MAX,
			.max_recv_sge = ENTRIES_MAX},
		.qp_type = type,
	};

	return ibv_create_qp(m->pd, &init);
}

struct ibv_qp_ex *mistake_qp_extended(const struct mistake *m)
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

	MUST(qp);
	return ibv_qp_to_qp_ex(qp);
}

void mistake_begin(struct mistake *m)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	MUST(devices && devices[0]);
	*m = (struct mistake){.settings = {.access = IBV_ACCESS_REMOTE_WRITE |
					      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
				      .timeout = 14,
				      .retry_cnt = 7,
				      .rnr_retry = 7,
				      .max_rd_atomic = 4,
				      .max_dest_rd_atomic = 4}};
	m->context = ibv_open_device(devices[0]);
	MUST(m->context);
	gid_choose(m);
	m->pd = ibv_alloc_pd(m->context);
	m->other_pd = ibv_alloc_pd(m->context);
	m->cq = ibv_create_cq(m->context, 2 * SEND_DEPTH, NULL, NULL, 0);
	m->sender = mistake_qp(m, IBV_QPT_RC, m->cq);
	m->target = mistake_qp(m, IBV_QPT_RC, m->cq);
	/* A page between them, and behind each, belongs to no region. */
	m->memory = aligned_alloc(REGION_BYTES, 4 * REGION_BYTES);
	MUST(m->pd && m->other_pd && m->cq && m->sender && m->target && m->memory);
	m->target_memory = m->memory + 2 * REGION_BYTES;
}

void mistake_to_init(struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)access};

	MUST(!ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

struct ibv_qp_attr mistake_rtr(const struct mistake *m, uint32_t dest_qpn, uint32_t rq_psn)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = rq_psn,
		.max_dest_rd_atomic = m->settings.max_dest_rd_atomic,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = m->gid,
				.sgid_index = (uint8_t)m->gid_index,
				.hop_limit = 64}},
	};
}

struct ibv_qp_attr mistake_rts(const struct mistake *m)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = m->settings.timeout,
		.retry_cnt = m->settings.retry_cnt,
		.rnr_retry = m->settings.rnr_retry,
		.max_rd_atomic = m->settings.max_rd_atomic,
	};
}

void mistake_connect(const struct mistake *m)
{
	static const union ibv_gid none;
	struct ibv_qp_attr rts = mistake_rts(m);
	uint32_t qpn = m->settings.target_qpn ? m->settings.target_qpn : m->target->qp_num;
	struct ibv_qp_attr rtr = mistake_rtr(m, qpn, 0);

	mistake_to_init(m->sender, 0);
	mistake_to_init(m->target, m->settings.access);
	if (memcmp(&m->settings.target_gid, &none, sizeof(none)) != 0)
		rtr.ah_attr.grh.dgid = m->settings.target_gid;
	MUST(!ibv_modify_qp(m->sender, &rtr, MISTAKE_RTR_MASK));
	rtr = mistake_rtr(m, m->sender->qp_num, m->settings.target_rq_psn);
	MUST(!ibv_modify_qp(m->target, &rtr, MISTAKE_RTR_MASK));
	MUST(!ibv_modify_qp(m->sender, &rts, MISTAKE_RTS_MASK));
	MUST(!ibv_modify_qp(m->target, &rts, MISTAKE_RTS_MASK));
}

struct ibv_mr *mistake_register(
	const struct mistake *m, char *memory, struct ibv_pd *pd, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd ? pd : m->pd, memory, REGION_BYTES, access);

	MUST(mr);
	return mr;
}

struct ibv_sge mistake_entry(const void *address, uint32_t bytes, uint32_t lkey)
{
	return (struct ibv_sge){.addr = (uintptr_t)address, .length = bytes, .lkey = lkey};
}

int mistake_post(const struct mistake *m, enum ibv_wr_opcode opcode, struct ibv_sge entry,
	uint64_t remote_address, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &entry,
		.num_sge = 1,
	};
	struct ibv_send_wr *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote_address;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = remote_address;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(m->sender, &wr, &bad);
}

int mistake_receive(const struct mistake *m, struct ibv_sge entry)
{
	struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = &entry, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(m->target, &wr, &bad);
}

struct ibv_wc mistake_poll(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	MUST(count == 1);
	return wc;
}

static void rows_print(const struct mistake_row *rows, int count)
{
	for (int i = 0; i < count; i++)
		printf("%s\t%s\t%s\n", rows[i].name, rows[i].reason, rows[i].sentence);
}

static void rights_print(void)
{
	for (int i = 0; i < RIGHT_COUNT; i++)
		printf("%s\n", rights[i].name);
}

static int lists_print(const char *option)
{
	if (strcmp(option, "--list") == 0)
		rows_print(mistakes, MISTAKE_COUNT);
	else if (strcmp(option, "--list-forgiven") == 0)
		rows_print(forgiven, FORGIVEN_COUNT);
	else if (strcmp(option, "--list-right") == 0)
		rights_print();
	else if (strcmp(option, "--list-checked") != 0)
		return 2;
	else
		for (int i = 0; i < CHECKED_COUNT; i++)
			printf("%s\t%s\t%s\n", checked[i].name, checked[i].kind, checked[i].modes);
	return 0;
}

int main(int argc, char **argv)
{
	void (*make)(struct mistake * m) = NULL;
	struct mistake m;

	if (argc != 2)
		return 2;
	for (int i = 0; i < MISTAKE_COUNT; i++)
		if (strcmp(argv[1], mistakes[i].name) == 0)
			make = mistakes[i].make;
	for (int i = 0; i < FORGIVEN_COUNT; i++)
		if (strcmp(argv[1], forgiven[i].name) == 0)
			make = forgiven[i].make;
	for (int i = 0; i < CHECKED_COUNT; i++)
		if (strcmp(argv[1], checked[i].name) == 0)
			make = checked[i].make;
	for (int i = 0; i < RIGHT_COUNT; i++)
		if (strcmp(argv[1], rights[i].name) == 0)
			make = rights[i].make;
	if (!make)
		return lists_print(argv[1]);
	mistake_begin(&m);
	make(&m);
	return 0;
}
