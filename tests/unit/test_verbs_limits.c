/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program can create as many objects of each kind as the device reports, and no more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "front/verbs/limits.h"
#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

/* Every number is another one. */
#define LIMITS                                                                            \
	"max_qp=3,max_cq=5,max_mr=4,,max_mw=8,max_pd=6,max_srq=2,max_ah=7,max_qp_wr=100," \
	"max_cqe=1000,max_sge=2,max_srq_wr=50,max_srq_sge=1,max_pd=65537,max_mr=0,"       \
	"max_ah=x,max_ah=,max_nothing=1,max_pd,vendor_id=1,=,max_qp=99999999999999999999"

enum { OBJECTS_MAX = 16 };

static struct ibv_context *context;
static struct ibv_context *other;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static uint8_t memory[64];

/* --- one of each -------------------------------------------------------------------------- */

static void *pd_make(struct ibv_context *via)
{
	return ibv_alloc_pd(via);
}

static int pd_unmake(void *object)
{
	return ibv_dealloc_pd(object);
}

static void *cq_make(struct ibv_context *via)
{
	return ibv_create_cq(via, 1, NULL, NULL, 0);
}

static int cq_unmake(void *object)
{
	return ibv_destroy_cq(object);
}

static void *mr_make(struct ibv_context *via)
{
	(void)via;
	return ibv_reg_mr(pd, memory, sizeof(memory), 0);
}

static int mr_unmake(void *object)
{
	return ibv_dereg_mr(object);
}

static void *mw_make(struct ibv_context *via)
{
	(void)via;
	return ibv_alloc_mw(pd, IBV_MW_TYPE_1);
}

static int mw_unmake(void *object)
{
	return ibv_dealloc_mw(object);
}

static void *ah_make(struct ibv_context *via)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	MUST(!ibv_query_gid(via, 1, 0, &attr.grh.dgid));
	return ibv_create_ah(pd, &attr);
}

static int ah_unmake(void *object)
{
	return ibv_destroy_ah(object);
}

static void *srq_make(struct ibv_context *via)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};

	(void)via;
	return ibv_create_srq(pd, &init);
}

static int srq_unmake(void *object)
{
	return ibv_destroy_srq(object);
}

static void *qp_make(struct ibv_context *via)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};

	(void)via;
	return ibv_create_qp(pd, &init);
}

static int qp_unmake(void *object)
{
	return ibv_destroy_qp(object);
}

static const struct kind {
	const char *name;
	size_t offset; /* of an int in struct ibv_device_attr */
	uint32_t there; /* of these the tests have already */
	void *(*make)(struct ibv_context *via);
	int (*unmake)(void *object);
} kinds[] = {
	{"pd", offsetof(struct ibv_device_attr, max_pd), 1, pd_make, pd_unmake},
	{"cq", offsetof(struct ibv_device_attr, max_cq), 1, cq_make, cq_unmake},
	{"mr", offsetof(struct ibv_device_attr, max_mr), 0, mr_make, mr_unmake},
	{"mw", offsetof(struct ibv_device_attr, max_mw), 0, mw_make, mw_unmake},
	{"ah", offsetof(struct ibv_device_attr, max_ah), 0, ah_make, ah_unmake},
	{"srq", offsetof(struct ibv_device_attr, max_srq), 0, srq_make, srq_unmake},
	{"qp", offsetof(struct ibv_device_attr, max_qp), 0, qp_make, qp_unmake},
};

static uint32_t stated(const struct kind *kind)
{
	struct ibv_device_attr attr;
	int value;

	MUST(!ibv_query_device(context, &attr));
	memcpy(&value, (const uint8_t *)&attr + kind->offset, sizeof(value));
	return (uint32_t)value;
}

static void device_has_as_many_objects_as_it_states(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
		const struct kind *kind = &kinds[i];
		uint32_t limit = stated(kind) - kind->there;
		void *objects[OBJECTS_MAX] = {0};

		print_message("%s: %u\n", kind->name, limit);
		assert_in_range(limit, 1, OBJECTS_MAX);
		for (uint32_t round = 0; round < 2; round++) {
			for (uint32_t made = 0; made < limit; made++) {
				objects[made] = kind->make(made % 2 ? other : context);
				assert_non_null(objects[made]);
			}
			errno = 0;
			assert_null(kind->make(context));
			assert_int_equal(errno, ENOMEM);
			assert_null(kind->make(other));
			/* Nothing is left of what was refused. */
			assert_int_equal(kind->unmake(objects[0]), 0);
			objects[0] = kind->make(context);
			assert_non_null(objects[0]);
			assert_null(kind->make(context));
			for (uint32_t made = 0; made < limit; made++)
				assert_int_equal(kind->unmake(objects[made]), 0);
		}
	}
}

/* Each device counts for itself. */
static void another_device_has_as_many_again(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *contexts[2] = {ibv_open_device(list[0]), ibv_open_device(list[1])};
	/* Static: what a closed device leaves behind is the program's, and no leak of ours. */
	static struct ibv_pd *pds[3][OBJECTS_MAX];

	(void)state;
	ibv_free_device_list(list);
	for (int i = 0; i < 2; i++) {
		uint32_t limit = 6 - (contexts[i]->device == context->device);

		for (uint32_t made = 0; made < limit; made++)
			assert_non_null(pds[i][made] = ibv_alloc_pd(contexts[i]));
		assert_null(ibv_alloc_pd(contexts[i]));
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_close_device(contexts[i]), 0);
	contexts[0] = ibv_open_device(context->device);
	assert_non_null(pds[2][0] = ibv_alloc_pd(contexts[0]));
	assert_int_equal(ibv_close_device(contexts[0]), 0);
}

/* Regions, windows and shared receive queues lie in tables that all devices of a process share. */
static void devices_share_what_is_in_one_table(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *contexts[2] = {ibv_open_device(list[0]), ibv_open_device(list[1])};
	struct ibv_pd *pds[2] = {ibv_alloc_pd(contexts[0]), ibv_alloc_pd(contexts[1])};
	struct ibv_mr *mrs[4];

	(void)state;
	ibv_free_device_list(list);
	for (int i = 0; i < 4; i++)
		assert_non_null(mrs[i] = ibv_reg_mr(pds[i % 2], memory, sizeof(memory), 0));
	for (int i = 0; i < 2; i++) {
		errno = 0;
		assert_null(ibv_reg_mr(pds[i], memory, sizeof(memory), 0));
		assert_int_equal(errno, ENOMEM);
	}
	assert_int_equal(ibv_dereg_mr(mrs[0]), 0);
	assert_non_null(mrs[0] = ibv_reg_mr(pds[1], memory, sizeof(memory), 0));
	for (int i = 0; i < 4; i++)
		assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_dealloc_pd(pds[i]), 0);
		assert_int_equal(ibv_close_device(contexts[i]), 0);
	}
}

/* --- sizes -------------------------------------------------------------------------------- */

static int qp_sizes(uint32_t send_wr, uint32_t recv_wr, uint32_t send_sge, uint32_t recv_sge)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {send_wr, recv_wr, send_sge, recv_sge, 0},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	return qp ? ibv_destroy_qp(qp) : errno;
}

static int srq_sizes(uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = wr, .max_sge = sge}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	return srq ? ibv_destroy_srq(srq) : errno;
}

static int cq_size(int cqe)
{
	struct ibv_cq *made = ibv_create_cq(context, cqe, NULL, NULL, 0);

	return made ? ibv_destroy_cq(made) : errno;
}

static void sizes_go_as_far_as_stated(void **state)
{
	struct ibv_device_attr attr;

	(void)state;
	assert_int_equal(ibv_query_device(context, &attr), 0);
	assert_int_equal(attr.max_qp_wr, 100);
	assert_int_equal(attr.max_sge, 2);
	assert_int_equal(qp_sizes(100, 100, 2, 2), 0);
	assert_int_equal(qp_sizes(101, 1, 1, 1), EINVAL);
	assert_int_equal(qp_sizes(1, 101, 1, 1), EINVAL);
	assert_int_equal(qp_sizes(1, 1, 3, 1), EINVAL);
	assert_int_equal(qp_sizes(1, 1, 1, 3), EINVAL);
	assert_int_equal(attr.max_srq_wr, 50);
	assert_int_equal(attr.max_srq_sge, 1);
	assert_int_equal(srq_sizes(50, 1), 0);
	assert_int_equal(srq_sizes(51, 1), EINVAL);
	assert_int_equal(srq_sizes(1, 2), EINVAL);
	assert_int_equal(attr.max_cqe, 1000);
	assert_int_equal(cq_size(1000), 0);
	assert_int_equal(cq_size(1001), EINVAL);
	assert_int_equal(ibv_resize_cq(cq, 1001), EINVAL);
	assert_int_equal(ibv_resize_cq(cq, 1000), 0);
	assert_int_equal(attr.max_res_rd_atom, 3 * attr.max_qp_rd_atom);
}

/* --- what is written in URNIC_LIMITS ------------------------------------------------------ */

static bool set_limit(struct ibv_device_attr *limits, const char *item, uint32_t *ret_highest)
{
	return limits_set(limits, &(struct text_part){item, strlen(item)}, ret_highest);
}

static void wrong_items_have_no_effect(void **state)
{
	static const struct {
		const char *item;
		uint32_t highest;
	} wrong[] = {{"", 0}, {"=", 0}, {"=1", 0}, {"max_qp", 0}, {"max_qp_=1", 0}, {"ax_qp=1", 0},
		{"max_qp =1", 0}, {"vendor_id=1", 0}, {"max_qp=", 1048560}, {"max_qp=0", 1048560},
		{"max_qp=-1", 1048560}, {"max_qp=1048561", 1048560}, {"max_qp=1x", 1048560},
		{"max_qp= 1", 1048560}, {"max_qp=4294967297", 1048560},
		{"max_qp=18446744073709551617", 1048560}};
	struct ibv_device_attr limits = {.max_qp = 7};
	uint32_t highest;

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
		assert_false(set_limit(&limits, wrong[i].item, &highest));
		assert_int_equal(highest, wrong[i].highest);
		assert_int_equal(limits.max_qp, 7);
	}
	assert_true(limits_set(&limits, &(struct text_part){"max_qp=12345", 9}, &highest));
	assert_int_equal(limits.max_qp, 12);
	assert_true(set_limit(&limits, "max_qp=1048560", &highest));
	assert_int_equal(limits.max_qp, 1048560);
}

static int open_all(void **state)
{
	(void)state;
	context = verbs_pair_open();
	other = ibv_open_device(context->device);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	return other && pd && cq ? 0 : -1;
}

static int close_all(void **state)
{
	(void)state;
	assert_int_equal(ibv_close_device(other), 0);
	assert_int_equal(ibv_close_device(context), 0);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_has_as_many_objects_as_it_states),
		cmocka_unit_test(another_device_has_as_many_again),
		cmocka_unit_test(devices_share_what_is_in_one_table),
		cmocka_unit_test(sizes_go_as_far_as_stated),
		cmocka_unit_test(wrong_items_have_no_effect),
	};

	if (netns_enter_new() < 0)
		return 77;
	if (netns_run("ip link add va type veth peer name vb && ip addr add 10.99.0.1/24 dev va && "
		      "ip link set va up && ip link set vb up") != 0)
		return 77;
	setenv("URNIC_INTERFACES", "va,lo", 1); /* two devices */
	setenv("URNIC_LIMITS", LIMITS, 1);
	settings_read();
	return cmocka_run_group_tests(tests, open_all, close_all);
}
