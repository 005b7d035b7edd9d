/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parent domains and thread domains: objects that are created through them work like others, and
 * their memory comes from the program's allocator.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { TIMEOUT_HALF_A_SECOND = 17 };

static struct ibv_context *context;
static struct ibv_pd *pd;

/* What the allocator was asked, and what it shall answer. */
static struct {
	enum { GIVE, LEAVE, REFUSE } answer;
	uint32_t allocs;
	uint32_t frees;
	void *memory;
	size_t bytes;
	uint64_t resource_type;
	struct ibv_pd *pd;
} program;

static void *program_alloc(struct ibv_pd *domain, void *pd_context, size_t size, size_t alignment,
	uint64_t resource_type)
{
	MUST(pd_context == &program);
	MUST(size > 0 && alignment > 0 && size % alignment == 0);
	program.allocs++;
	if (program.answer != GIVE)
		return program.answer == LEAVE ? IBV_ALLOCATOR_USE_DEFAULT : NULL;
	MUST(program.memory = aligned_alloc(alignment, size));
	/* Not what the manual asks for, but what programs do. */
	memset(program.memory, 0xa5, size);
	program.bytes = size;
	program.resource_type = resource_type;
	program.pd = domain;
	return program.memory;
}

static void program_free(struct ibv_pd *domain, void *pd_context, void *ptr, uint64_t resource_type)
{
	MUST(pd_context == &program && domain == program.pd);
	MUST(ptr == program.memory && resource_type == program.resource_type);
	/* The domain exists while its allocator is called. */
	MUST(ibv_dealloc_pd(domain) == EBUSY);
	program.frees++;
	free(ptr);
}

static struct ibv_parent_domain_init_attr with_allocator(int answer)
{
	memset(&program, 0, sizeof(program));
	program.answer = answer;
	return (struct ibv_parent_domain_init_attr){
		.pd = pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = program_alloc,
		.free = program_free,
		.pd_context = &program,
	};
}

static struct ibv_pd *domain_make(struct ibv_parent_domain_init_attr attr)
{
	struct ibv_pd *domain = ibv_alloc_parent_domain(context, &attr);

	assert_non_null(domain);
	return domain;
}

static struct ibv_qp *qp_make(struct ibv_pd *domain, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {PAIR_DEPTH, PAIR_DEPTH, 1, 1, 64},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(domain, &init);
}

static void domain_fails(struct ibv_parent_domain_init_attr attr)
{
	errno = 0;
	assert_null(ibv_alloc_parent_domain(context, &attr));
	assert_int_equal(errno, EINVAL);
}

static int setup(void **state)
{
	(void)state;
	context = verbs_pair_open();
	MUST(pd = ibv_alloc_pd(context));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	MUST(!ibv_dealloc_pd(pd));
	return ibv_close_device(context);
}

static void domain_stands_for_its_protection_domain(void **state)
{
	struct verbs_end a, b;
	struct ibv_pd *domain;

	(void)state;
	verbs_end_make(&a, context, NULL);
	verbs_end_make(&b, context, NULL);
	domain = domain_make((struct ibv_parent_domain_init_attr){.pd = a.pd});
	/* The region is of the one, the queue pair of the other. */
	assert_int_equal(ibv_destroy_qp(a.qp), 0);
	assert_non_null(a.qp = qp_make(domain, a.cq));
	assert_ptr_equal(a.qp->pd, domain);
	verbs_ends_connect(&a, &b, TIMEOUT_HALF_A_SECOND);
	verbs_pattern_fill(a.buffer, 100, 1);
	assert_int_equal(verbs_post(&a, IBV_WR_RDMA_WRITE, &b, 0, 100), 0);
	assert_int_equal(verbs_poll_one(a.cq).status, IBV_WC_SUCCESS);
	assert_true(verbs_pattern_is(b.buffer, 100, 1));

	assert_int_equal(ibv_dealloc_pd(domain), EBUSY);
	assert_int_equal(ibv_dealloc_pd(a.pd), EBUSY);
	assert_int_equal(ibv_destroy_qp(a.qp), 0);
	struct ibv_pd copy = *domain;
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	assert_int_equal(ibv_dealloc_pd(&copy), ENOENT);
	assert_non_null(a.qp = qp_make(a.pd, a.cq));
	verbs_end_unmake(&a);
	verbs_end_unmake(&b);
}

static void domain_with_wrong_attributes_is_refused(void **state)
{
	struct ibv_parent_domain_init_attr attr = with_allocator(GIVE);
	struct ibv_pd *domain = domain_make(attr);

	(void)state;
	domain_fails((struct ibv_parent_domain_init_attr){.pd = NULL});
	domain_fails((struct ibv_parent_domain_init_attr){.pd = domain});
	attr.comp_mask |= 1u << 20;
	domain_fails(attr);
	attr = with_allocator(GIVE);
	attr.comp_mask |= 1u << 3;
	domain_fails(attr);
	attr = with_allocator(GIVE);
	attr.free = NULL;
	domain_fails(attr);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
}

/* IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC, which rdma-core 44 does not know yet. */
static void domain_that_allows_unprotected_buffers_is_made(void **state)
{
	struct ibv_parent_domain_init_attr attr = with_allocator(GIVE);
	struct ibv_pd *domain;

	(void)state;
	attr.comp_mask |= 1u << 2;
	domain = domain_make(attr);
	assert_non_null(domain);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
}

static void queue_pair_lies_where_the_allocator_put_it(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_pd *domain = domain_make(with_allocator(GIVE));
	struct ibv_qp *qp = qp_make(domain, cq);

	(void)state;
	assert_non_null(qp);
	assert_int_equal(program.allocs, 1);
	assert_true((uint8_t *)qp >= (uint8_t *)program.memory &&
		(uint8_t *)(qp + 1) <= (uint8_t *)program.memory + program.bytes);
	assert_ptr_equal(program.pd, domain);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(program.frees, 1);

	/* The memory of an object whose creation fails is freed. */
	assert_null(qp_make(domain, NULL));
	assert_int_equal(program.allocs, 2);
	assert_int_equal(program.frees, 2);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void completion_queue_lies_where_the_allocator_put_it(void **state)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 4,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = domain_make(with_allocator(GIVE)),
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &init);

	(void)state;
	assert_non_null(cq);
	assert_int_equal(program.allocs, 1);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(program.frees, 1);
	assert_int_equal(ibv_dealloc_pd(init.parent_domain), 0);
}

static void shared_queue_lies_where_the_allocator_put_it(void **state)
{
	struct ibv_pd *domain = domain_make(with_allocator(GIVE));
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(domain, &init);

	(void)state;
	assert_non_null(srq);
	assert_int_equal(program.allocs, 1);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(program.frees, 1);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
}

static void allocator_may_leave_it_to_us_or_refuse(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_pd *domain = domain_make(with_allocator(LEAVE));
	struct ibv_qp *qp = qp_make(domain, cq);

	(void)state;
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(program.allocs, 1);
	assert_int_equal(program.frees, 0);

	program.answer = REFUSE;
	errno = 0;
	assert_null(qp_make(domain, cq));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void thread_domain_stays_while_it_is_used(void **state)
{
	struct ibv_td_init_attr attr = {.comp_mask = 0};
	struct ibv_td *td = ibv_alloc_td(context, &attr);
	struct ibv_pd *domain;

	(void)state;
	assert_non_null(td);
	domain = domain_make((struct ibv_parent_domain_init_attr){.pd = pd, .td = td});
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);

	attr.comp_mask = 1;
	errno = 0;
	assert_null(ibv_alloc_td(context, &attr));
	assert_int_equal(errno, EINVAL);
}

static void context_closed_takes_its_domains_along(void **state)
{
	struct ibv_context *other = verbs_pair_open();
	struct ibv_td_init_attr td_attr = {.comp_mask = 0};
	struct ibv_parent_domain_init_attr attr = {
		.pd = ibv_alloc_pd(other),
		.td = ibv_alloc_td(other, &td_attr),
	};
	struct ibv_pd *domain = ibv_alloc_parent_domain(other, &attr);
	/* Static: what a closed device leaves behind is the program's, and no leak of ours. */
	static struct ibv_qp *qp;

	(void)state;
	assert_non_null(domain);
	qp = qp_make(domain, ibv_create_cq(other, 4, NULL, NULL, 0));
	assert_non_null(qp);
	assert_int_equal(ibv_close_device(other), 0);
	assert_int_equal(domain->handle, 0);
	assert_int_equal(attr.pd->handle, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(domain_stands_for_its_protection_domain),
		cmocka_unit_test(domain_with_wrong_attributes_is_refused),
		cmocka_unit_test(domain_that_allows_unprotected_buffers_is_made),
		cmocka_unit_test(queue_pair_lies_where_the_allocator_put_it),
		cmocka_unit_test(completion_queue_lies_where_the_allocator_put_it),
		cmocka_unit_test(shared_queue_lies_where_the_allocator_put_it),
		cmocka_unit_test(allocator_may_leave_it_to_us_or_refuse),
		cmocka_unit_test(thread_domain_stays_while_it_is_used),
		cmocka_unit_test(context_closed_takes_its_domains_along),
	};

	if (netns_enter_new() < 0)
		return 77;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return cmocka_run_group_tests(tests, setup, teardown);
}
