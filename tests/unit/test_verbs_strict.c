/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strict devices: each limit of front/verbs/strict.def at its value and one above, each feature
 * that an adapter lacks, and pinned memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "base/arith.h"
#include "front/verbs/gid_table.h"
#include "front/verbs/limits.h"
#include "front/verbs/newer.h"
#include "front/verbs/strict.h"
#include "nic/nic_failure.h"
#include "os/setting.h"
#include "os/strict.h"
#include "queue/sq.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { ALL = (1 << STRICT_ADAPTER_COUNT) - 1 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static uint8_t memory[4096];

/* --- the setting -------------------------------------------------------------------------- */

static void strict_setting_is_a_number_or_a_list(void **state)
{
	static const struct {
		const char *text;
		uint32_t adapters;
	} right[] = {{"0", 0}, {"1", ALL}, {"mlx5", 1 << STRICT_MLX5}, {"irdma", 1 << STRICT_IRDMA},
		{"bnxt", 1 << STRICT_BNXT}, {"bnxt, mlx5", 1 << STRICT_BNXT | 1 << STRICT_MLX5},
		{"mlx5,", 1 << STRICT_MLX5}, {"mlx5,irdma,bnxt", ALL}};
	static const char *const wrong[] = {
		"2", "01", "on", "", ",", "mlx", "mlx55", "mlx5;bnxt", "mlx5,1", "MLX5"};
	uint32_t adapters;

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(right); i++) {
		adapters = 77;
		assert_true(strict_parse(right[i].text, &adapters));
		assert_int_equal(adapters, right[i].adapters);
	}
	for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
		adapters = 77;
		assert_false(strict_parse(wrong[i], &adapters));
		assert_int_equal(adapters, 77);
	}
}

/* --- the tables --------------------------------------------------------------------------- */

static uint64_t lowest(
	uint32_t adapters, uint64_t own, uint64_t mlx5, uint64_t irdma, uint64_t bnxt)
{
	own = adapters & 1 << STRICT_MLX5 ? min_u64(own, mlx5) : own;
	own = adapters & 1 << STRICT_IRDMA ? min_u64(own, irdma) : own;
	return adapters & 1 << STRICT_BNXT ? min_u64(own, bnxt) : own;
}

static void strict_limits_are_the_lowest_of_each_set_of_adapters(void **state)
{
	(void)state;
	for (uint32_t adapters = 0; adapters <= ALL; adapters++) {
		struct ibv_device_attr own, attr;

		memset(&own, 0x7f, sizeof(own));
		attr = own;
		strict_limits_lower(adapters, &attr);
#define STRICT_LIMIT(field, mlx5, irdma, bnxt, source) \
	assert_true(                                   \
		(uint64_t)attr.field == lowest(adapters, (uint64_t)own.field, mlx5, irdma, bnxt));
#define STRICT_VALUE(NAME, ours, mlx5, irdma, bnxt, meaning, source)   \
	assert_int_equal(strict_lowest(adapters, STRICT_##NAME##_MAX), \
		lowest(adapters, ours, mlx5, irdma, bnxt));
#define STRICT_FEATURE(NAME, mlx5, irdma, bnxt, flag, what, source)                           \
	assert_int_equal(strict_all_have(adapters, STRICT_HAS_##NAME),                        \
		lowest(adapters, 1, mlx5, irdma, bnxt));                                      \
	assert_int_equal((attr.device_cap_flags & (flag)) == (own.device_cap_flags & (flag)), \
		strict_all_have(adapters, STRICT_HAS_##NAME) || !((flag)&own.device_cap_flags));
#include "front/verbs/strict.def"
	}
}

static void strict_device_states_the_lowest_limits(void **state)
{
	struct ibv_device_attr_ex ex;
	struct ibv_port_attr port;

	(void)state;
	assert_int_equal(ibv_query_device_ex(context, NULL, &ex), 0);
	assert_int_equal(verbs_get_ctx(context)->query_port(context, 1, &port, sizeof(port)), 0);
#define STRICT_LIMIT(field, mlx5, irdma, bnxt, source) \
	assert_true((uint64_t)ex.orig_attr.field <= lowest(ALL, UINT64_MAX, mlx5, irdma, bnxt));
#include "front/verbs/strict.def"
	assert_int_equal(port.max_msg_sz, 1u << 30);
	assert_int_equal(ex.orig_attr.atomic_cap, IBV_ATOMIC_NONE);
	assert_int_equal(ex.orig_attr.max_mcast_grp, 0);
	assert_int_equal(ex.orig_attr.max_mw, 0);
	assert_int_equal(ex.odp_caps.general_caps, 0);
	assert_int_equal(ex.tm_caps.max_num_tags, 0);
	assert_int_equal(ex.max_wq_type_rq, 0);
	assert_int_equal(ex.max_dm_size, 0);
	assert_int_equal(ex.completion_timestamp_mask, 0);
	assert_int_equal(ex.cq_mod_caps.max_cq_count, 0);
	assert_int_equal(ex.packet_pacing_caps.supported_qpts, 0);
	assert_int_equal(ex.device_cap_flags_ex, ex.orig_attr.device_cap_flags);
}

/* --- limits ------------------------------------------------------------------------------- */

static struct ibv_qp_init_attr qp_init(struct ibv_qp_cap cap, enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){.send_cq = cq, .recv_cq = cq, .cap = cap, .qp_type = type};
}

static int qp_try(struct ibv_qp_cap cap, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = qp_init(cap, type);
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	return qp ? ibv_destroy_qp(qp) : errno;
}

static void strict_queue_pair_is_refused_one_above_each_limit(void **state)
{
	const struct ibv_qp_cap most = {4351, 4351, 6, 6, 96};
	struct ibv_qp_cap cap;

	(void)state;
	assert_int_equal(qp_try(most, IBV_QPT_RC), 0);
#define ONE_ABOVE(member) \
	cap = most;       \
	cap.member++;     \
	assert_int_equal(qp_try(cap, IBV_QPT_RC), EINVAL);
	ONE_ABOVE(max_send_wr)
	ONE_ABOVE(max_recv_wr)
	ONE_ABOVE(max_send_sge)
	ONE_ABOVE(max_recv_sge)
	ONE_ABOVE(max_inline_data)
#undef ONE_ABOVE
}

/* It is within the limits of the device; RLIMIT_MEMLOCK of an ordinary user may forbid it. */
static void assert_is_allowed(int error)
{
	assert_true(error == 0 || error == ENOMEM);
}

static int cq_try(int cqe)
{
	struct ibv_cq *made = ibv_create_cq(context, cqe, NULL, NULL, 0);

	return made ? ibv_destroy_cq(made) : errno;
}

static void strict_completion_queue_is_refused_one_above_the_limit(void **state)
{
	(void)state;
	assert_is_allowed(cq_try(1048574));
	assert_int_equal(cq_try(1048575), EINVAL);
	assert_int_equal(ibv_resize_cq(cq, 1048575), EINVAL);
	assert_int_equal(ibv_resize_cq(cq, 200), 0);
}

static void strict_region_is_refused_one_above_the_limit(void **state)
{
	const size_t most = (size_t)1 << 39;
	void *space =
		mmap(NULL, most + 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_mr *mr;

	(void)state;
	if (space == MAP_FAILED)
		skip(); /* a sanitizer, or a limit on address space */
	errno = 0;
	assert_null(ibv_reg_mr(pd, space, most + 1, 0));
	assert_int_equal(errno, EINVAL);
	mr = ibv_reg_mr(pd, space, most, 0);
	assert_is_allowed(mr ? ibv_dereg_mr(mr) : errno);
	munmap(space, most + 1);
}

static void strict_queue_has_a_power_of_two_of_entries(void **state)
{
	static const uint32_t depths[][2] = {{0, 0}, {1, 1}, {2, 2}, {3, 4}, {64, 64}, {65, 128},
		{2049, 4096}, {4097, 4351}, {4351, 4351}};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(depths); i++) {
		struct ibv_qp_init_attr init = qp_init(
			(struct ibv_qp_cap){depths[i][0], depths[i][0], 1, 1, 0}, IBV_QPT_RC);
		struct ibv_qp *qp = ibv_create_qp(pd, &init);
		struct ibv_qp_attr attr;

		assert_non_null(qp);
		assert_int_equal(init.cap.max_send_wr, depths[i][1]);
		assert_int_equal(init.cap.max_recv_wr, depths[i][1]);
		assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
		assert_int_equal(init.cap.max_send_wr, depths[i][1]);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

static void strict_queue_pair_takes_sixteen_reads_and_no_more(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .max_rd_atomic = 17, .timeout = 14};
	struct verbs_end end, other;

	(void)state;
	verbs_end_make(&end, context, NULL);
	verbs_end_make(&other, context, NULL);
	verbs_ends_connect(&end, &other, 14);
	assert_int_equal(ibv_modify_qp(end.qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC), EINVAL);
	attr.max_dest_rd_atomic = 17;
	assert_int_equal(ibv_modify_qp(end.qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC), EINVAL);
	verbs_end_unmake(&end);
	verbs_end_unmake(&other);
}

/* --- features ----------------------------------------------------------------------------- */

/* The reason of the last failure that the process keeps. */
static enum reason reason_of_last(void)
{
	const struct failures *failures = nic_failures();

	return (enum reason)failures->list[(failures->count - 1) % FAILURES_MAX].reason;
}

static void strict_device_lacks_what_an_adapter_lacks(void **state)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_qp_cap cap = {1, 1, 1, 1, 0};
	union ibv_gid group = {{0xff}};
	struct ibv_parent_domain_init_attr parent = {.pd = pd};
	struct ibv_sge sge = {(uintptr_t)memory, 1, 0};
	struct ibv_qp_init_attr init = qp_init(cap, IBV_QPT_UD);
	struct ibv_qp_init_attr_ex extended = {.send_cq = cq,
		.recv_cq = cq,
		.cap = cap,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), 0);

	(void)state;
	assert_int_equal(qp_try(cap, IBV_QPT_UC), EOPNOTSUPP);
	assert_int_equal(reason_of_last(), REASON_STRICT);
	assert_int_equal(qp_try(cap, IBV_QPT_RAW_PACKET), EOPNOTSUPP);
	assert_int_equal(qp_try(cap, IBV_QPT_XRC_SEND), EOPNOTSUPP);
	assert_null(ibv_create_qp_ex(context, &extended));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_create_srq(pd, &srq));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	assert_null(ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_ON_DEMAND));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
		IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_attach_mcast(qp, &group, 0), EOPNOTSUPP);
	assert_null(ibv_import_device(context->cmd_fd));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_alloc_td(context, &(struct ibv_td_init_attr){0}));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_alloc_parent_domain(context, &parent));
	assert_null(ibv_alloc_dm(context, &(struct ibv_alloc_dm_attr){.length = 1}));
	assert_null(ibv_alloc_null_mr(pd));
	assert_null(ibv_create_cq_ex(context, &(struct ibv_cq_init_attr_ex){.cqe = 1}));
	assert_int_equal(ibv_modify_cq(cq, &(struct ibv_modify_cq_attr){0}), EOPNOTSUPP);
	assert_int_equal(ibv_query_rt_values_ex(context, &(struct ibv_values_ex){0}), EOPNOTSUPP);
	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EOPNOTSUPP);
	assert_null(ibv_open_xrcd(context, &(struct ibv_xrcd_init_attr){0}));
	assert_null(ibv_create_wq(context, &(struct ibv_wq_init_attr){0}));
	assert_null(ibv_create_rwq_ind_table(
		context, &(struct ibv_rwq_ind_table_init_attr){.ind_tbl = NULL}));
	assert_null(ibv_create_counters(context, &(struct ibv_counters_init_attr){0}));
	assert_null(ibv_create_flow(qp, &(struct ibv_flow_attr){0}));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(
		ibv_modify_qp_rate_limit(qp, &(struct ibv_qp_rate_limit_attr){0}), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/*
 * What stands before a refused request is posted, and bad_wr names the refused one. The list is
 * only read: it is on a page without write access.
 */
static void strict_post_refuses_atomics_in_their_order(void **state)
{
	struct verbs_pair pair;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct ibv_send_wr *wrs =
		mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_send_wr *bad = NULL;
	struct ibv_sge sge;

	(void)state;
	verbs_pair_make(&pair, context);
	assert_true(wrs != MAP_FAILED);
	sge = (struct ibv_sge){(uintptr_t)pair.a.buffer, 8, pair.a.mr->lkey};
	wrs[0] = (struct ibv_send_wr){.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE};
	wrs[0].sg_list = &sge;
	wrs[0].num_sge = 1;
	wrs[0].send_flags = IBV_SEND_SIGNALED;
	wrs[0].wr.rdma.remote_addr = (uintptr_t)pair.b.buffer;
	wrs[0].wr.rdma.rkey = pair.b.mr->rkey;
	wrs[2] = wrs[0];
	wrs[1] = wrs[0];
	wrs[1].opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wrs[0].next = &wrs[1];
	wrs[1].next = &wrs[2];
	assert_int_equal(mprotect(wrs, page, PROT_READ), 0);
	assert_int_equal(ibv_post_send(pair.a.qp, wrs, &bad), EINVAL);
	assert_ptr_equal(bad, &wrs[1]);
	assert_int_equal(mprotect(wrs, page, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(verbs_poll_one(pair.a.cq).wr_id, 1);
	wrs[0].next = NULL;
	sge.length = UINT32_MAX;
	assert_int_equal(ibv_post_send(pair.a.qp, wrs, &bad), EINVAL);
	assert_ptr_equal(bad, &wrs[0]);
	/* Only the first entry can be read. */
	sge.length = 8;
	wrs[0].num_sge = INT_MAX;
	assert_int_equal(ibv_post_send(pair.a.qp, wrs, &bad), EINVAL);
	munmap(wrs, page);
	verbs_pair_unmake(&pair);
}

/* --- pinned memory ------------------------------------------------------------------------ */

static void capability_drop(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void strict_registrations_count_against_memlock(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *pages =
		mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rlimit before, limit;
	struct ibv_mr *mrs[2];

	(void)state;
	assert_true(pages != MAP_FAILED);
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	capability_drop();
	strict_pins_forget();
	limit = (struct rlimit){4 * page, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	/* Two bytes, of two pages; the same again counts again. */
	for (int i = 0; i < 2; i++)
		assert_non_null(mrs[i] = ibv_reg_mr(pd, pages + page - 1, 2, 0));
	errno = 0;
	assert_null(ibv_reg_mr(pd, pages, 1, 0));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(reason_of_last(), REASON_PINNED);
	assert_int_equal(cq_try(1), ENOMEM);
	assert_int_equal(qp_try((struct ibv_qp_cap){1, 1, 1, 1, 0}, IBV_QPT_RC), ENOMEM);
	assert_int_equal(ibv_dereg_mr(mrs[1]), 0);
	assert_int_equal(cq_try(1), 0);
	assert_int_equal(cq_try(128), 0); /* two pages of 64 bytes each */
	assert_int_equal(cq_try(129), ENOMEM);
	assert_non_null(mrs[1] = ibv_reg_mr(pd, pages, 2 * page, 0));
	assert_null(ibv_reg_mr(pd, pages, 1, 0));
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
	munmap(pages, 4 * page);
}

static int open_all(void **state)
{
	(void)state;
	context = verbs_pair_open();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 100, NULL, NULL, 0);
	return pd && cq ? 0 : -1;
}

static int close_all(void **state)
{
	(void)state;
	return ibv_close_device(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strict_setting_is_a_number_or_a_list),
		cmocka_unit_test(strict_limits_are_the_lowest_of_each_set_of_adapters),
		cmocka_unit_test(strict_device_states_the_lowest_limits),
		cmocka_unit_test(strict_queue_pair_is_refused_one_above_each_limit),
		cmocka_unit_test(strict_completion_queue_is_refused_one_above_the_limit),
		cmocka_unit_test(strict_queue_has_a_power_of_two_of_entries),
		cmocka_unit_test(strict_queue_pair_takes_sixteen_reads_and_no_more),
		cmocka_unit_test(strict_device_lacks_what_an_adapter_lacks),
		cmocka_unit_test(strict_post_refuses_atomics_in_their_order),
		cmocka_unit_test(strict_region_is_refused_one_above_the_limit),
		cmocka_unit_test(strict_registrations_count_against_memlock),
	};

	if (netns_enter_new() < 0)
		return 77;
	if (netns_run("ip link set lo up") != 0)
		return 77;
	setenv("URNIC_STRICT", "1", 1);
	settings_read();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
