/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ends on lanes of their own, with a thread each, exchange data without packets, as two
 * processes do: each executes its requests in the other's queues, tables and memory. Both ends have
 * these at the same addresses, so ThreadSanitizer detects missing order, also of payloads
 * (tests/tsan_within.supp). Meanwhile a third thread registers and deregisters memory.
 *
 * WITHIN_MESSAGES: how many requests per end, 400 unless set.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum {
	SENDS = 8, /* under way */
	RECEIVES = 64,
	WINDOWS = 32, /* messages that the receiver may not have looked at */
	SLOT_BYTES = 8192,
	HEADER_BYTES = 40,
	WR_RECEIVE = 1 << 20, /* added to a receive request's number */
	QKEY = 0x1234,
	LOST_MAX = 8, /* datagrams */
	TIMEOUT_S = 60, /* sanitizers are slow */
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC,
};

enum kind { RC, RC_SHARED, UC, UC_SHARED, UD, XRC };
enum operation { SEND, WRITE_READ, ADD, WRITE_IMM, NOTHING };

struct memory {
	struct ibv_mr *mr;
	uint8_t *bytes;
};

struct end {
	enum kind kind;
	struct end *other;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint32_t srqn;
	struct ibv_qp *qp;
	struct ibv_qp *target; /* of XRC; else qp */
	struct ibv_ah *ah;
	struct memory out; /* a slot for each request under way */
	struct memory in; /* for each receive request */
	struct memory
		window; /* for the other's requests and messages, and its counter at the end */
	struct {
		enum operation operation;
		uint32_t number;
		uint32_t bytes;
	} slots[SENDS];
	uint32_t done;
	uint32_t added;
	uint32_t sent; /* messages */
	_Atomic uint32_t received;
	_Atomic bool is_done;
	_Atomic uint32_t sent_in_all; /* when it is done */
	uint64_t random;
};

struct head {
	uint32_t number;
	uint32_t bytes; /* of pattern, behind it */
};

static struct ibv_context *context;
static struct ibv_xrcd *domain;
static union ibv_gid gid;
static uint32_t message_count;
static _Atomic bool is_over;

static time_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static uint32_t random_of(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* --- making and connecting --- */

static struct memory memory_make(struct ibv_pd *pd, size_t bytes)
{
	struct memory memory = {.bytes = aligned_alloc(4096, bytes)};

	MUST(memory.bytes);
	memset(memory.bytes, 0, bytes);
	MUST(memory.mr = ibv_reg_mr(pd, memory.bytes, bytes, ACCESS));
	return memory;
}

static void memory_unmake(struct memory *memory)
{
	MUST(!ibv_dereg_mr(memory->mr));
	free(memory->bytes);
}

static void shared_queue_make(struct end *end)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = {.max_wr = RECEIVES, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.pd = end->pd,
		.srq_type = IBV_SRQT_BASIC,
	};

	if (end->kind == XRC) {
		init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		init.srq_type = IBV_SRQT_XRC;
		init.xrcd = domain;
		init.cq = end->cq;
	}
	MUST(end->srq = ibv_create_srq_ex(context, &init));
	if (end->kind == XRC)
		MUST(!ibv_get_srq_num(end->srq, &end->srqn));
}

static void queue_pairs_make(struct end *end)
{
	static const enum ibv_qp_type types[] = {[RC] = IBV_QPT_RC,
		[RC_SHARED] = IBV_QPT_RC,
		[UC] = IBV_QPT_UC,
		[UC_SHARED] = IBV_QPT_UC,
		[UD] = IBV_QPT_UD,
		[XRC] = IBV_QPT_XRC_SEND};
	struct ibv_qp_init_attr_ex init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.srq = end->kind == XRC ? NULL : end->srq,
		.cap = {2 * SENDS, RECEIVES, 1, 1, 0},
		.qp_type = types[end->kind],
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = end->pd,
	};

	MUST(end->target = end->qp = ibv_create_qp_ex(context, &init));
	if (end->kind != XRC)
		return;
	init = (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = domain};
	MUST(end->target = ibv_create_qp_ex(context, &init));
}

static void end_make(struct end *end, enum kind kind, struct end *other)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid}};

	*end = (struct end){.kind = kind, .other = other, .random = kind};
	MUST(end->pd = ibv_alloc_pd(context));
	MUST(end->cq = ibv_create_cq(context, 4 * SENDS + RECEIVES, NULL, NULL, 0));
	if (kind == RC_SHARED || kind == UC_SHARED || kind == XRC)
		shared_queue_make(end);
	if (kind == UD)
		MUST(end->ah = ibv_create_ah(end->pd, &attr));
	queue_pairs_make(end);
	end->out = memory_make(end->pd, 2 * SENDS * SLOT_BYTES);
	end->in = memory_make(end->pd, RECEIVES * SLOT_BYTES);
	end->window = memory_make(end->pd, (SENDS + WINDOWS + 1) * SLOT_BYTES);
}

static void end_unmake(struct end *end)
{
	if (end->target != end->qp)
		MUST(!ibv_destroy_qp(end->target));
	MUST(!ibv_destroy_qp(end->qp));
	if (end->srq)
		MUST(!ibv_destroy_srq(end->srq));
	if (end->ah)
		MUST(!ibv_destroy_ah(end->ah));
	MUST(!ibv_destroy_cq(end->cq));
	memory_unmake(&end->out);
	memory_unmake(&end->in);
	memory_unmake(&end->window);
	MUST(!ibv_dealloc_pd(end->pd));
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	MUST(!ibv_modify_qp(qp, attr, IBV_QP_STATE | mask));
}

static void unreliable_connect(struct ibv_qp *qp, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = ACCESS,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}},
	};
	bool is_uc = qp->qp_type == IBV_QPT_UC;

	modify(qp, &attr,
		IBV_QP_PKEY_INDEX | IBV_QP_PORT | (is_uc ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	modify(qp, &attr,
		is_uc ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN : 0);
	attr.qp_state = IBV_QPS_RTS;
	modify(qp, &attr, IBV_QP_SQ_PSN);
}

static void end_connect(struct end *end)
{
	enum { TIMEOUT_HALF_A_SECOND = 17 };

	if (end->kind == UC || end->kind == UC_SHARED || end->kind == UD) {
		unreliable_connect(end->qp, end->other->qp->qp_num);
		return;
	}
	verbs_qp_connect(end->target, end->other->qp->qp_num, TIMEOUT_HALF_A_SECOND);
	if (end->qp != end->target)
		verbs_qp_connect(end->qp, end->other->target->qp_num, TIMEOUT_HALF_A_SECOND);
}

/* --- requests --- */

static struct ibv_sge sge_of(const struct memory *memory, size_t slot, uint32_t bytes)
{
	return (struct ibv_sge){
		(uintptr_t)memory->bytes + slot * SLOT_BYTES, bytes, memory->mr->lkey};
}

static uint8_t *slot_at(const struct memory *memory, size_t slot)
{
	return memory->bytes + slot * SLOT_BYTES;
}

static void receive_post(struct end *end, uint32_t slot)
{
	struct ibv_sge sge = sge_of(&end->in, slot, SLOT_BYTES);
	struct ibv_recv_wr *bad, wr = {.wr_id = WR_RECEIVE + slot, .sg_list = &sge, .num_sge = 1};

	MUST(!(end->srq ? ibv_post_srq_recv(end->srq, &wr, &bad)
			: ibv_post_recv(end->qp, &wr, &bad)));
}

static bool is_unreliable(const struct end *end)
{
	return end->kind == UC || end->kind == UC_SHARED || end->kind == UD;
}

/* Messages must find a receive request, and a window of theirs that was looked at. */
static enum operation choose(struct end *end)
{
	uint32_t random = random_of(&end->random);

	if (!is_unreliable(end) && random % 3)
		return random % 3 == 1 ? WRITE_READ : ADD;
	if (end->sent - atomic_load_explicit(&end->other->received, memory_order_acquire) >=
		WINDOWS)
		return NOTHING;
	return end->kind != UD && random / 3 % 2 ? WRITE_IMM : SEND;
}

static void message_fill(struct end *end, uint32_t slot, uint32_t bytes)
{
	const struct head head = {end->sent, bytes - (uint32_t)sizeof(head)};
	uint8_t *out = slot_at(&end->out, slot);

	memcpy(out, &head, sizeof(head));
	verbs_pattern_fill(out + sizeof(head), head.bytes, head.number);
}

/* READ back what was written just before. */
static void write_read_post(struct end *end, uint32_t slot, uint32_t bytes)
{
	const struct memory *window = &end->other->window;
	uint64_t remote = (uintptr_t)slot_at(window, slot);
	struct ibv_sge out = sge_of(&end->out, slot, bytes);
	struct ibv_sge back = sge_of(&end->out, SENDS + slot, bytes);
	struct ibv_send_wr *bad,
		read = {
			.wr_id = slot,
			.sg_list = &back,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_READ,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {remote, window->mr->rkey},
			.qp_type.xrc.remote_srqn = end->other->srqn,
		};
	struct ibv_send_wr write = read;

	write.next = &read;
	write.sg_list = &out;
	write.opcode = IBV_WR_RDMA_WRITE;
	write.send_flags = 0;
	verbs_pattern_fill(slot_at(&end->out, slot), bytes, slot);
	memset(slot_at(&end->out, SENDS + slot), 0, bytes);
	MUST(!ibv_post_send(end->qp, &write, &bad));
}

static void add_post(struct end *end, uint32_t slot)
{
	const struct memory *window = &end->other->window;
	struct ibv_sge back = sge_of(&end->out, SENDS + slot, 8);
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = slot,
			.sg_list = &back,
			.num_sge = 1,
			.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.atomic = {.remote_addr = (uintptr_t)slot_at(window, SENDS + WINDOWS),
				.compare_add = 1,
				.rkey = window->mr->rkey},
			.qp_type.xrc.remote_srqn = end->other->srqn,
		};

	MUST(!ibv_post_send(end->qp, &wr, &bad));
}

static void message_post(struct end *end, uint32_t slot, uint32_t bytes, bool is_write)
{
	const struct memory *window = &end->other->window;
	uint32_t place = SENDS + end->sent % WINDOWS;
	struct ibv_sge sge = sge_of(&end->out, slot, bytes);
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = slot,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = is_write ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
			.imm_data = place,
			.qp_type.xrc.remote_srqn = end->other->srqn,
		};

	message_fill(end, slot, bytes);
	if (is_write) {
		wr.wr.rdma.remote_addr = (uintptr_t)slot_at(window, place);
		wr.wr.rdma.rkey = window->mr->rkey;
	} else if (end->kind == UD) {
		wr.wr.ud.ah = end->ah;
		wr.wr.ud.remote_qpn = end->other->qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	end->sent++;
	MUST(!ibv_post_send(end->qp, &wr, &bad));
}

static void post(struct end *end, uint32_t slot)
{
	uint32_t bytes_max = end->kind == UD ? 1024 : SLOT_BYTES;
	uint32_t bytes = 8 + random_of(&end->random) % (bytes_max - 8);
	enum operation operation = choose(end);

	end->slots[slot].operation = operation;
	end->slots[slot].bytes = bytes;
	switch (operation) {
	case SEND:
	case WRITE_IMM:
		message_post(end, slot, bytes, operation == WRITE_IMM);
		break;
	case WRITE_READ:
		write_read_post(end, slot, bytes);
		break;
	case ADD:
		add_post(end, slot);
		break;
	case NOTHING:
		break;
	}
}

static void finish(struct end *end, uint32_t slot)
{
	const uint8_t *back = slot_at(&end->out, SENDS + slot);
	uint64_t before;

	if (end->slots[slot].operation == WRITE_READ)
		MUST(verbs_pattern_is(back, end->slots[slot].bytes, slot));
	if (end->slots[slot].operation == ADD) {
		memcpy(&before, back, sizeof(before));
		MUST(before == end->added);
		end->added++;
	}
	end->slots[slot].operation = NOTHING;
	end->done++;
}

static void received(struct end *end, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id - WR_RECEIVE;
	uint32_t header = end->kind == UD ? HEADER_BYTES : 0;
	bool is_write = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	const uint8_t *bytes =
		is_write ? slot_at(&end->window, wc->imm_data) : slot_at(&end->in, slot) + header;
	uint32_t count = atomic_load_explicit(&end->received, memory_order_relaxed);
	struct head head;

	memcpy(&head, bytes, sizeof(head));
	MUST(end->kind == UD || head.number == count);
	MUST(is_write || wc->byte_len == header + sizeof(head) + head.bytes);
	MUST(verbs_pattern_is(bytes + sizeof(head), head.bytes, head.number));
	atomic_store_explicit(&end->received, count + 1, memory_order_release);
	receive_post(end, slot);
}

static bool poll_one(struct end *end)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(end->cq, 1, &wc) != 1)
		return false;
	MUST(wc.status == IBV_WC_SUCCESS);
	if (wc.wr_id >= WR_RECEIVE)
		received(end, &wc);
	else
		finish(end, (uint32_t)wc.wr_id);
	return true;
}

static bool has_heard_all(const struct end *end)
{
	uint32_t lost_max = end->kind == UD ? LOST_MAX : 0;

	return atomic_load_explicit(&end->other->is_done, memory_order_relaxed) &&
		atomic_load_explicit(&end->received, memory_order_relaxed) + lost_max >=
		atomic_load_explicit(&end->other->sent_in_all, memory_order_relaxed);
}

static void *work(void *argument)
{
	time_t until = now_s() + TIMEOUT_S;
	struct end *end = argument;

	while (end->done < message_count || !has_heard_all(end)) {
		for (uint32_t i = 0; i < SENDS && end->done < message_count; i++)
			if (end->slots[i].operation == NOTHING)
				post(end, i);
		while (poll_one(end))
			;
		if (end->done >= message_count) {
			atomic_store_explicit(&end->sent_in_all, end->sent, memory_order_relaxed);
			atomic_store_explicit(&end->is_done, true, memory_order_relaxed);
		}
		MUST(now_s() < until);
	}
	return NULL;
}

static void *register_and_deregister(void *argument)
{
	struct ibv_pd *pd = argument;

	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		struct memory memory = memory_make(pd, 65536);
		const struct timespec pause = {0, 200000};

		memory_unmake(&memory);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void exchange(enum kind kind)
{
	struct end ends[2];
	pthread_t threads[3];

	for (int i = 0; i < 2; i++)
		end_make(&ends[i], kind, &ends[1 - i]);
	for (int i = 0; i < 2; i++) {
		end_connect(&ends[i]);
		for (uint32_t slot = 0; slot < SENDS; slot++)
			ends[i].slots[slot].operation = NOTHING;
		for (uint32_t slot = 0; slot < RECEIVES; slot++)
			receive_post(&ends[i], slot);
	}
	atomic_store(&is_over, false);
	for (int i = 0; i < 2; i++)
		MUST(!pthread_create(&threads[i], NULL, work, &ends[i]));
	MUST(!pthread_create(&threads[2], NULL, register_and_deregister, ends[0].pd));
	for (int i = 0; i < 2; i++)
		MUST(!pthread_join(threads[i], NULL));
	atomic_store(&is_over, true);
	MUST(!pthread_join(threads[2], NULL));
	for (int i = 0; i < 2; i++)
		end_unmake(&ends[i]);
}

static void reliable_ends_find_their_bytes(void **state)
{
	(void)state;
	exchange(RC);
}

static void reliable_ends_with_shared_queues_find_their_bytes(void **state)
{
	(void)state;
	exchange(RC_SHARED);
}

static void unreliable_ends_find_their_bytes(void **state)
{
	(void)state;
	exchange(UC);
	exchange(UC_SHARED);
}

static void datagrams_find_their_ends(void **state)
{
	(void)state;
	exchange(UD);
}

static void ends_of_a_domain_find_their_bytes(void **state)
{
	(void)state;
	exchange(XRC);
}

/* --- the program --- */

static int open_context(void **state)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	const char *messages = getenv("WITHIN_MESSAGES");

	(void)state;
	context = verbs_pair_open();
	MUST(!ibv_query_gid(context, 1, 0, &gid));
	MUST(domain = ibv_open_xrcd(context, &init));
	message_count = messages ? (uint32_t)strtoul(messages, NULL, 0) : 400;
	return 0;
}

static int close_context(void **state)
{
	(void)state;
	MUST(!ibv_close_xrcd(domain));
	return ibv_close_device(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reliable_ends_find_their_bytes),
		cmocka_unit_test(reliable_ends_with_shared_queues_find_their_bytes),
		cmocka_unit_test(unreliable_ends_find_their_bytes),
		cmocka_unit_test(datagrams_find_their_ends),
		cmocka_unit_test(ends_of_a_domain_find_their_bytes),
	};

	if (netns_enter_new() < 0)
		return 77;
	setenv("URNIC_LANES", "2", 1);
	settings_read();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
