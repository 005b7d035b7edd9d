/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting call by call (ibv_wr_*): every request arrives as if ibv_post_send() had posted it.
 * test_verbs_qp_ex_region.c tests the requests between wr_start and wr_complete as a whole.
 */
#include "support/verbs_builder.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

/* Constants of FLUSH from headers newer than rdma-core 44's. */
enum {
	WITH_FLUSH = 1 << 11, /* IBV_QP_EX_WITH_FLUSH */
	ACCESS_FLUSH_GLOBAL = 1 << 8,
	FLUSH_GLOBAL = 1,
	FLUSH_PERSISTENT = 2,
	FLUSH_RANGE = 0,
	FLUSH_MR = 1,
	WC_FLUSH = 8,
};

struct newer_qp_ex {
	char before_flush[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *)];
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
		uint8_t type, uint8_t level);
};

static void writes_and_reads_move_what_they_should(void **state)
{
	struct ibv_sge list[] = {
		{(uintptr_t)a.buffer + 100, 50, a.mr->lkey},
		{(uintptr_t)a.buffer, 100, a.mr->lkey},
	};
	struct ibv_wc wc;

	(void)state;
	verbs_pattern_fill(a.buffer, 150, 1);
	verbs_post_recv(&b, 3, 0, 0);
	ibv_wr_start(qp);
	qp->wr_id = 1;
	ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
	ibv_wr_set_sge_list(qp, 2, list);
	qp->wr_id = 2;
	ibv_wr_rdma_write_imm(qp, b.mr->rkey, far(200), htobe32(0xabcd));
	set_near(0, 150);
	qp->wr_id = 3;
	ibv_wr_rdma_read(qp, b.mr->rkey, far(200));
	set_near(1000, 150);
	assert_int_equal(ibv_wr_complete(qp), 0);
	completes(1);
	completes(2);
	completes(3);
	assert_memory_equal(b.buffer, a.buffer + 100, 50);
	assert_memory_equal(b.buffer + 50, a.buffer, 100);
	assert_true(verbs_pattern_is(b.buffer + 200, 150, 1));
	assert_true(verbs_pattern_is(a.buffer + 1000, 150, 1));
	wc = verbs_poll_one(b.cq);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.imm_data, htobe32(0xabcd));
	assert_int_equal(wc.byte_len, 150);
}

static void sends_arrive_with_what_was_inline(void **state)
{
	struct ibv_data_buf parts[] = {{a.buffer + 10, 20}, {a.buffer, 10}, {NULL, 0}};
	struct ibv_wc wc;

	(void)state;
	verbs_pattern_fill(a.buffer, 30, 2);
	verbs_post_recv(&b, 1, 0, 100);
	verbs_post_recv(&b, 2, 100, 100);
	verbs_post_recv(&b, 3, 200, 100);
	ibv_wr_start(qp);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data_list(qp, 3, parts);
	ibv_wr_send_imm(qp, htobe32(7));
	ibv_wr_set_inline_data(qp, a.buffer, 30);
	ibv_wr_send(qp); /* of nothing */
	assert_int_equal(ibv_wr_complete(qp), 0);
	memset(a.buffer, 0, 30); /* was copied */
	wc = verbs_poll_one(b.cq);
	assert_int_equal(wc.byte_len, 30);
	assert_int_equal(wc.wc_flags, 0);
	wc = verbs_poll_one(b.cq);
	assert_int_equal(wc.byte_len, 30);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, htobe32(7));
	wc = verbs_poll_one(b.cq);
	assert_int_equal(wc.byte_len, 0);
	assert_true(verbs_pattern_is(b.buffer + 100, 30, 2));
	assert_memory_equal(b.buffer, b.buffer + 110, 20);
	assert_memory_equal(b.buffer + 20, b.buffer + 100, 10);
}

static void atomics_change_what_they_should(void **state)
{
	uint64_t *near = (uint64_t *)(void *)a.buffer;
	uint64_t *remote = (uint64_t *)(void *)b.buffer;

	(void)state;
	*remote = 40;
	ibv_wr_start(qp);
	ibv_wr_atomic_fetch_add(qp, b.mr->rkey, far(0), 2);
	set_near(0, 8);
	ibv_wr_atomic_cmp_swp(qp, b.mr->rkey, far(0), 42, 99);
	set_near(8, 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	verbs_poll_one(a.cq);
	verbs_poll_one(a.cq);
	assert_int_equal(near[0], 40);
	assert_int_equal(near[1], 42);
	assert_int_equal(*remote, 99);
}

static void windows_are_bound_and_invalidated(void **state)
{
	struct ibv_mr *region = ibv_reg_mr(a.pd, a.buffer, PAIR_BYTES,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(a.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = {region, (uintptr_t)a.buffer, 100, IBV_ACCESS_REMOTE_WRITE};
	uint32_t key;

	(void)state;
	assert_non_null(region);
	assert_non_null(mw);
	key = ibv_inc_rkey(mw->rkey);
	ibv_wr_start(qp);
	ibv_wr_bind_mw(qp, mw, key, &info);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_SUCCESS);
	/* The peer writes through it. */
	b.buffer[0] = 77;
	struct ibv_sge sge = {(uintptr_t)b.buffer, 1, b.mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)a.buffer, key},
	};
	struct ibv_send_wr *bad;
	assert_int_equal(ibv_post_send(b.qp, &wr, &bad), 0);
	assert_int_equal(verbs_poll_one(b.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(a.buffer[0], 77);

	ibv_wr_start(qp);
	ibv_wr_local_inv(qp, key);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_SUCCESS);
	/* Only the tag of the key counts. */
	ibv_wr_start(qp);
	ibv_wr_bind_mw(qp, mw, key ^ 0x100, &info);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_SUCCESS);
	ibv_wr_start(qp);
	ibv_wr_local_inv(qp, key);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_post_send(b.qp, &wr, &bad), 0);
	assert_int_equal(verbs_poll_one(b.cq).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(region), 0);
}

static void flush(size_t bytes, uint8_t type, uint8_t level, uint32_t rkey)
{
	struct newer_qp_ex *newer = (struct newer_qp_ex *)(void *)qp;

	qp->wr_id = 44;
	qp->wr_flags = IBV_SEND_SIGNALED;
	newer->wr_flush(qp, rkey, (uintptr_t)b.buffer, bytes, type, level);
}

/* b grants what its region grants to FLUSH; a may ask for it. */
static struct ibv_mr *flush_prepare(void)
{
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | ACCESS_FLUSH_GLOBAL};
	struct ibv_mr *region;

	MUST(!ibv_destroy_qp(a.qp));
	MUST(a.qp = qp_make(a.pd, IBV_QPT_RC, OPS | WITH_FLUSH));
	MUST(qp = ibv_qp_to_qp_ex(a.qp));
	MUST(!ibv_destroy_qp(b.qp));
	struct ibv_qp_init_attr init = {
		.send_cq = b.cq, .recv_cq = b.cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	MUST(b.qp = ibv_create_qp(b.pd, &init));
	verbs_ends_connect(&a, &b, TIMEOUT_HALF_A_SECOND);
	MUST(!ibv_modify_qp(b.qp, &attr, IBV_QP_ACCESS_FLAGS));
	MUST(region = ibv_reg_mr(b.pd, b.buffer, PAIR_BYTES,
		     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | ACCESS_FLUSH_GLOBAL));
	return region;
}

static void flush_completes_behind_the_writes_before_it(void **state)
{
	struct ibv_mr *region = flush_prepare();
	struct ibv_wc wc;

	(void)state;
	verbs_pattern_fill(a.buffer, 100, 9);
	ibv_wr_start(qp);
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, region->rkey, (uintptr_t)b.buffer);
	ibv_wr_set_sge(qp, a.mr->lkey, (uintptr_t)a.buffer, 100);
	flush(100, FLUSH_GLOBAL, FLUSH_RANGE, region->rkey);
	flush(0, FLUSH_GLOBAL, FLUSH_MR, region->rkey);
	assert_int_equal(ibv_wr_complete(qp), 0);
	for (int i = 0; i < 2; i++) {
		wc = verbs_poll_one(a.cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, WC_FLUSH);
		assert_int_equal(wc.wr_id, 44);
	}
	assert_true(verbs_pattern_is(b.buffer, 100, 9));
	/* Data does not belong to it, and no message is so long. */
	ibv_wr_start(qp);
	flush(100, FLUSH_GLOBAL, FLUSH_RANGE, region->rkey);
	ibv_wr_set_sge(qp, a.mr->lkey, (uintptr_t)a.buffer, 8);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	ibv_wr_start(qp);
	flush((size_t)1 << 32, FLUSH_GLOBAL, FLUSH_RANGE, region->rkey);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	assert_int_equal(ibv_dereg_mr(region), 0);
}

static void flush_to_persistence_or_without_the_right_is_refused(void **state)
{
	struct ibv_mr *region = flush_prepare();

	(void)state;
	ibv_wr_start(qp);
	flush(100, FLUSH_PERSISTENT, FLUSH_RANGE, region->rkey);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(region), 0);
	region = flush_prepare();
	ibv_wr_start(qp);
	flush(100, FLUSH_GLOBAL, FLUSH_RANGE, b.mr->rkey);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(region), 0);
	assert_null(qp_make(a.pd, IBV_QPT_UC, IBV_QP_EX_WITH_SEND | WITH_FLUSH));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void send_invalidates_the_window_of_the_peer(void **state)
{
	struct ibv_mr *region =
		ibv_reg_mr(b.pd, b.buffer, PAIR_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr bind = {
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {mw, ibv_inc_rkey(mw->rkey),
			{region, (uintptr_t)b.buffer, 8, IBV_ACCESS_REMOTE_READ}},
	};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(ibv_post_send(b.qp, &bind, &bad), 0);
	assert_int_equal(verbs_poll_one(b.cq).status, IBV_WC_SUCCESS);
	verbs_post_recv(&b, 2, 0, 8);
	ibv_wr_start(qp);
	ibv_wr_send_inv(qp, bind.bind_mw.rkey);
	set_near(0, 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc = verbs_poll_one(b.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, bind.bind_mw.rkey);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(region), 0);
}

static void atomic_write_takes_its_operand_along(void **state)
{
	uint64_t operand = 0x1122334455667788;

	(void)state;
	memset(b.buffer, 0, 24);
	ibv_wr_start(qp);
	ibv_wr_atomic_write(qp, b.mr->rkey, far(8), &operand);
	operand = 0;
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)(b.buffer + 8), 0x1122334455667788);
	assert_int_equal(*(uint64_t *)(void *)(b.buffer + 16), 0);
	/* The builder takes no other data. */
	ibv_wr_start(qp);
	ibv_wr_atomic_write(qp, b.mr->rkey, far(8), &operand);
	set_near(0, 8);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
}

static void flush_and_atomic_write_page_on_demand(void **state)
{
	uint64_t operand = 0x1122334455667788;
	struct ibv_mr *region = flush_prepare();
	struct ibv_mr *everything = ibv_reg_mr(b.pd, NULL, SIZE_MAX,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | ACCESS_FLUSH_GLOBAL |
			IBV_ACCESS_ON_DEMAND);
	uint64_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_non_null(everything);
	assert_ptr_not_equal(page, MAP_FAILED);
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(qp, everything->rkey, (uintptr_t)page, &operand);
	flush(100, FLUSH_GLOBAL, FLUSH_RANGE, everything->rkey);
	assert_int_equal(ibv_wr_complete(qp), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(*page, operand);
	munmap(page, 4096);
	assert_int_equal(ibv_dereg_mr(everything), 0);
	assert_int_equal(ibv_dereg_mr(region), 0);
}

static void flags_are_those_at_the_time_of_the_call(void **state)
{
	(void)state;
	ibv_wr_start(qp);
	qp->wr_flags = 0;
	qp->wr_id = 1;
	ibv_wr_rdma_write(qp, b.mr->rkey, far(0));
	set_near(0, 8);
	qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_INLINE;
	qp->wr_id = 2;
	ibv_wr_rdma_write(qp, b.mr->rkey, far(8));
	set_near(0, 8);
	assert_int_equal(ibv_wr_complete(qp), 0);
	completes(2);
}

/* A datagram queue pair that sends to itself. */
static struct ibv_qp *datagram_make(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234};
	struct ibv_qp *made = qp_make(a.pd, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);

	assert_non_null(made);
	assert_int_equal(ibv_modify_qp(made, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(made, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(made, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	return made;
}

static void datagram_goes_where_it_was_told_or_not_at_all(void **state)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};
	struct ibv_sge sge = {(uintptr_t)a.buffer, 100, a.mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 5, .sg_list = &sge, .num_sge = 1};
	struct ibv_qp *made = datagram_make();
	struct ibv_qp_ex *datagram = ibv_qp_to_qp_ex(made);
	struct ibv_recv_wr *bad;
	struct ibv_wc wc;
	struct ibv_ah *ah;

	(void)state;
	assert_int_equal(ibv_query_gid(context, 1, 0, &attr.grh.dgid), 0);
	assert_non_null(ah = ibv_create_ah(a.pd, &attr));
	assert_int_equal(ibv_post_recv(made, &recv, &bad), 0);
	ibv_wr_start(datagram);
	ibv_wr_send(datagram);
	ibv_wr_set_ud_addr(datagram, ah, made->qp_num, 0x1234);
	ibv_wr_set_inline_data(datagram, a.buffer + 200, 8);
	assert_int_equal(ibv_wr_complete(datagram), 0);
	wc = verbs_poll_one(a.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(wc.byte_len, 48); /* with the GRH */
	assert_int_equal(wc.src_qp, made->qp_num);

	/* The address is missing, in the last request or before. */
	ibv_wr_start(datagram);
	ibv_wr_send(datagram);
	assert_int_equal(ibv_wr_complete(datagram), EINVAL);
	ibv_wr_start(datagram);
	ibv_wr_send(datagram);
	ibv_wr_send(datagram);
	ibv_wr_set_ud_addr(datagram, ah, made->qp_num, 0x1234);
	assert_int_equal(ibv_wr_complete(datagram), EINVAL);
	assert_int_equal(ibv_destroy_qp(made), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* --- creation ----------------------------------------------------------------------------- */

static void queue_pair_has_what_it_was_asked_for(void **state)
{
	struct ibv_qp_ex *sender;
	struct ibv_qp *other = qp_make(a.pd, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);

	(void)state;
	assert_non_null(other);
	sender = ibv_qp_to_qp_ex(other);
	assert_non_null(sender->wr_send);
	assert_null(sender->wr_rdma_write);
	assert_int_equal(ibv_destroy_qp(other), 0);
	assert_null(ibv_qp_to_qp_ex(b.qp));

	errno = 0;
	assert_null(qp_make(a.pd, IBV_QPT_RC, IBV_QP_EX_WITH_TSO));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(qp_make(a.pd, IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ));
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(qp_make(a.pd, IBV_QPT_RC, IBV_QP_EX_WITH_SEND | 1ull << 50));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void queue_pair_of_a_thread_domain_does_not_lock(void **state)
{
	struct ibv_td_init_attr td_attr = {.comp_mask = 0};
	struct ibv_parent_domain_init_attr attr = {.pd = a.pd};
	struct ibv_qp *single;
	struct ibv_pd *domain;

	(void)state;
	attr.td = ibv_alloc_td(context, &td_attr);
	domain = ibv_alloc_parent_domain(context, &attr);
	assert_non_null(domain);
	assert_non_null(single = qp_make(domain, IBV_QPT_RC, IBV_QP_EX_WITH_SEND));
	/* What a lock would not survive. */
	ibv_wr_start(ibv_qp_to_qp_ex(single));
	ibv_wr_start(ibv_qp_to_qp_ex(single));
	ibv_wr_abort(ibv_qp_to_qp_ex(single));
	assert_int_equal(ibv_destroy_qp(single), 0);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	assert_int_equal(ibv_dealloc_td(attr.td), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR(writes_and_reads_move_what_they_should),
		PAIR(sends_arrive_with_what_was_inline),
		PAIR(atomics_change_what_they_should),
		PAIR(windows_are_bound_and_invalidated),
		PAIR(flush_completes_behind_the_writes_before_it),
		PAIR(flush_to_persistence_or_without_the_right_is_refused),
		PAIR(send_invalidates_the_window_of_the_peer),
		PAIR(atomic_write_takes_its_operand_along),
		PAIR(flush_and_atomic_write_page_on_demand),
		PAIR(flags_are_those_at_the_time_of_the_call),
		PAIR(datagram_goes_where_it_was_told_or_not_at_all),
		PAIR(queue_pair_has_what_it_was_asked_for),
		PAIR(queue_pair_of_a_thread_domain_does_not_lock),
	};

	return builder_begin() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
