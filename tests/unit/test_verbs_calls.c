/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libibverbs as a program calls it: objects that are created, modified and queried. Two queue pairs
 * of this process on the loopback interface, in a network namespace of their own. The tests of the
 * engine cover the data path; this file tests arguments, errors, and lifetimes of objects.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/setting.h"
#include "support/netns.h"
#include "support/verbs_ends.h"

/* --- devices and contexts ----------------------------------------------------------------- */

static void device_pointers_stay_the_same(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int count = -1;
	struct ibv_device **again = ibv_get_device_list(&count);

	(void)state;
	assert_int_equal(count, 1);
	assert_ptr_equal(list[0], again[0]);
	assert_null(again[1]);
	assert_string_equal(ibv_get_device_name(list[0]), "rocep_lo");
	assert_int_not_equal(ibv_get_device_guid(list[0]), 0);
	/* What RDMA netlink calls it, which knows of none. */
	assert_int_equal(ibv_get_device_index(list[0]), -1);
	ibv_free_device_list(list);
	ibv_free_device_list(again);
}

static void device_that_is_none_is_not_opened(void **state)
{
	struct ibv_device device = {.name = "rocep_lo"};

	(void)state;
	assert_null(ibv_open_device(&device));
	assert_int_equal(errno, ENODEV);
}

static void context_closed_with_objects_takes_them_along(void **state)
{
	struct ibv_context *second = ibv_open_device(context->device);
	static struct end end;

	(void)state;
	assert_non_null(second);
	end.pd = ibv_alloc_pd(second);
	end.channel = ibv_create_comp_channel(second);
	end.cq = ibv_create_cq(second, 1, NULL, end.channel, 0);
	end.qp = qp_make(&end, (struct ibv_qp_cap){1, 1, 1, 1, 0});
	assert_non_null(end.qp);
	assert_int_equal(ibv_close_device(second), 0);
	/*
	 * Only the structures are left, because a program may still read them. `end` is static, so
	 * that leak checkers find them.
	 */
}

static void object_of_another_opening_is_refused(void **state)
{
	struct ibv_context *second = ibv_open_device(context->device);
	struct ibv_qp_init_attr init = {
		.send_cq = a.cq,
		.recv_cq = a.cq,
		.cap = {1, 1, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_pd *pd;
	struct ibv_pd foreign;

	(void)state;
	assert_non_null(second);
	pd = ibv_alloc_pd(second);
	assert_non_null(pd);
	assert_null(ibv_create_qp(pd, &init));
	assert_int_equal(errno, ENOENT);
	assert_null(ibv_import_pd(second, a.pd->handle));
	assert_int_equal(errno, ENOENT);
	foreign = *a.pd;
	foreign.context = second;
	assert_null(ibv_reg_mr(&foreign, a.buffer, 10, 0));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_dealloc_pd(&foreign), ENOENT);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

static void imported_context_knows_the_domains_of_the_first(void **state)
{
	struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	(void)state;
	assert_non_null(imported);
	pd = ibv_import_pd(imported, a.pd->handle);
	assert_non_null(pd);
	mr = ibv_reg_mr(pd, a.buffer, 10, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(ibv_import_pd(imported, a.cq->handle));
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(imported), 0);
}

static void queries_of_other_ports_and_indices_are_refused(void **state)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	__be16 pkey;

	(void)state;
	assert_int_equal(ibv_query_port(context, 0, &port), EINVAL);
	assert_int_equal(ibv_query_port(context, 2, &port), EINVAL);
	assert_int_equal(ibv_query_gid(context, 1, 1000, &gid), -1);
	assert_int_equal(ibv_query_gid(context, 1, -1, &gid), -1);
	assert_int_equal(ibv_query_gid_ex(context, 1, 31, &entry, 0), ENODATA);
	assert_int_equal(ibv_query_gid_ex(context, 1, 1000, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_table(context, &entry, 0, 0), -EINVAL);
	assert_int_equal(ibv_query_pkey(context, 1, 1, &pkey), -1);
}

/* --- regions ------------------------------------------------------------------------------ */

static void reg_fails(void *address, size_t bytes, int access, int expected)
{
	assert_null(ibv_reg_mr(a.pd, address, bytes, access));
	assert_int_equal(errno, expected);
}

static void region_of_memory_that_is_not_there_is_refused(void **state)
{
	uint8_t *pages =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *readable = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *mixed =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	(void)state;
	/* Good at both ends. */
	mprotect(mixed + 4096, 4096, PROT_READ);
	reg_fails(mixed, 3 * 4096, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	mprotect(mixed + 4096, 4096, PROT_NONE);
	reg_fails(mixed, 3 * 4096, 0, EFAULT);
	munmap(mixed, 3 * 4096);
	munmap(pages + 4096, 4096);
	reg_fails(pages, 3 * 4096, 0, EFAULT);
	reg_fails(pages + 4096, 1, 0, EFAULT);
	reg_fails((void *)(UINTPTR_MAX - 4), 100, 0, EFAULT);
	reg_fails(readable, 4096, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	mr = ibv_reg_mr(a.pd, readable, 4096, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(pages, 4096);
	munmap(pages + 2 * 4096, 4096);
	munmap(readable, 4096);
}

static void region_with_rights_that_contradict_is_refused(void **state)
{
	(void)state;
	reg_fails(a.buffer, 10, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	reg_fails(a.buffer, 10, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
	reg_fails(a.buffer, 10, 1 << 12, EINVAL);
}

static void region_in_use_keeps_its_domain(void **state)
{
	(void)state;
	assert_int_equal(ibv_dealloc_pd(a.pd), EBUSY);
}

static void handle_that_is_none_is_refused(void **state)
{
	struct ibv_pd pd = {.context = context, .handle = a.mr->handle};
	struct ibv_cq cq = {.context = context, .handle = 0xffffffff};
	struct ibv_qp qp = {.context = context, .handle = 0};
	struct ibv_mr mr = {.context = context, .handle = a.pd->handle};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	assert_int_equal(ibv_dealloc_pd(&pd), ENOENT);
	assert_null(ibv_reg_mr(&pd, a.buffer, 10, 0));
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_destroy_cq(&cq), ENOENT);
	assert_int_equal(ibv_destroy_qp(&qp), ENOENT);
	assert_int_equal(ibv_modify_qp(&qp, &attr, IBV_QP_STATE), ENOENT);
	assert_int_equal(ibv_dereg_mr(&mr), ENOENT);
}

/* --- queues ------------------------------------------------------------------------------- */

static void queue_of_absurd_size_is_refused(void **state)
{
	static const struct ibv_qp_cap caps[] = {
		{1u << 20, 1, 1, 1, 0},
		{1, UINT32_MAX, 1, 1, 0},
		{1, 1, 1000, 1, 0},
		{1, 1, 1, 1000, 0},
		{1, 1, 1, 1, 1u << 20},
	};

	(void)state;
	assert_null(ibv_create_cq(context, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(context, INT32_MAX, NULL, NULL, 0));
	assert_null(ibv_create_cq(context, 1, NULL, NULL, -1));
	assert_null(ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors));
	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		errno = 0;
		assert_null(qp_make(&a, caps[i]));
		assert_int_equal(errno, EINVAL);
	}
}

static void queue_pair_of_a_type_that_is_not_there_is_not_supported(void **state)
{
	struct ibv_qp_init_attr init = {
		.send_cq = a.cq, .recv_cq = a.cq, .qp_type = IBV_QPT_DRIVER};

	(void)state;
	assert_null(ibv_create_qp(a.pd, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	init.qp_type = (enum ibv_qp_type)77;
	assert_null(ibv_create_qp(a.pd, &init));
	assert_int_equal(errno, EINVAL);
	init.qp_type = IBV_QPT_RC;
	init.recv_cq = NULL;
	assert_null(ibv_create_qp(a.pd, &init));
	assert_int_equal(errno, EINVAL);
}

static struct ibv_qp_init_attr_ex extended_attr(uint32_t comp_mask)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RC,
		.send_cq = a.cq,
		.recv_cq = a.cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = comp_mask,
		.pd = a.pd,
	};
}

static void create_ex_fails(struct ibv_qp_init_attr_ex attr, int expected)
{
	errno = 0;
	assert_null(ibv_create_qp_ex(context, &attr));
	assert_int_equal(errno, expected);
}

static void queue_pair_with_extensions_that_are_not_there_is_refused(void **state)
{
	struct ibv_qp_init_attr_ex attr =
		extended_attr(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS);
	struct ibv_qp *qp;

	(void)state;
	qp = ibv_create_qp_ex(context, &attr);
	assert_non_null(qp);
	assert_ptr_equal(qp->pd, a.pd);
	assert_int_equal(ibv_destroy_qp(qp), 0);

	create_ex_fails(extended_attr(IBV_QP_INIT_ATTR_CREATE_FLAGS), EINVAL);
	create_ex_fails(extended_attr(IBV_QP_INIT_ATTR_PD | 1u << 20), EINVAL);
	create_ex_fails(
		extended_attr(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER), EOPNOTSUPP);
	attr.create_flags = IBV_QP_CREATE_SOURCE_QPN;
	create_ex_fails(attr, EOPNOTSUPP);
}

static void queue_in_use_is_not_destroyed(void **state)
{
	(void)state;
	assert_int_equal(ibv_destroy_cq(a.cq), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(a.channel), EBUSY);
}

static void options_of_other_vendors_are_not_accepted(void **state)
{
	struct ibv_ece ece = {.vendor_id = 0x15b3, .options = 7};

	(void)state;
	assert_int_equal(ibv_set_ece(a.qp, &ece), 0);
	assert_int_equal(ece.vendor_id, 0);
	assert_int_equal(ece.options, 0);
	ece.vendor_id = 1;
	assert_int_equal(ibv_query_ece(a.qp, &ece), 0);
	assert_int_equal(ece.vendor_id, 0);
	ece.comp_mask = 1;
	assert_int_equal(ibv_set_ece(a.qp, &ece), EINVAL);
}

static void modify_out_of_turn_is_refused(void **state)
{
	struct ibv_qp_attr attr = rtr_attr(b.qp->qp_num);

	(void)state;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask), EINVAL);
	assert_int_equal(to_rts(a.qp), EINVAL);
	assert_int_equal(to_init(a.qp), 0);
	assert_int_equal(to_rts(a.qp), EINVAL);
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask & ~IBV_QP_DEST_QPN), EINVAL);
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask | IBV_QP_QKEY), EINVAL);
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask | 1 << 30), EINVAL);
	state_is(a.qp, IBV_QPS_INIT);
}

static void modify_to_an_address_that_is_none_is_refused(void **state)
{
	struct ibv_qp_attr attr = rtr_attr(b.qp->qp_num);

	(void)state;
	assert_int_equal(to_init(a.qp), 0);
	attr.ah_attr.is_global = 0;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask), EINVAL);
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.sgid_index = 31;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask), EINVAL);
	attr.ah_attr.grh.sgid_index = 0;
	attr.ah_attr.port_num = 2;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask), EINVAL);
	attr.ah_attr.port_num = 1;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask), 0);
}

static void query_tells_what_modify_set(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)state;
	assert_int_equal(ibv_query_qp(a.qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, b.qp->qp_num);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.rnr_retry, 1);
	assert_int_equal(attr.max_rd_atomic, 4);
	assert_int_equal(attr.qp_access_flags, ACCESS_ALL);
	assert_int_equal(attr.ah_attr.is_global, 1);
	assert_int_equal(attr.cap.max_send_wr, DEPTH);
	assert_int_equal(attr.cap.max_inline_data, 64);
	assert_ptr_equal(init.send_cq, a.cq);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
}

/* What was set is what is answered, address by address. */
static void assert_same_ah(const struct ibv_ah_attr *read, const struct ibv_ah_attr *set)
{
	assert_memory_equal(&read->grh.dgid, &set->grh.dgid, sizeof(read->grh.dgid));
	assert_int_equal(read->grh.flow_label, set->grh.flow_label);
	assert_int_equal(read->grh.sgid_index, set->grh.sgid_index);
	assert_int_equal(read->grh.hop_limit, set->grh.hop_limit);
	assert_int_equal(read->grh.traffic_class, set->grh.traffic_class);
	assert_int_equal(read->dlid, set->dlid);
	assert_int_equal(read->sl, set->sl);
	assert_int_equal(read->src_path_bits, set->src_path_bits);
	assert_int_equal(read->static_rate, set->static_rate);
	assert_int_equal(read->is_global, set->is_global);
	assert_int_equal(read->port_num, set->port_num);
}

static void query_answers_the_paths(void **state)
{
	struct ibv_qp_attr attr = rtr_attr(0xabcdef);
	struct ibv_ah_attr ah = attr.ah_attr;
	struct ibv_qp_init_attr init;

	(void)state;
	ah.grh.flow_label = 0x12345;
	ah.grh.traffic_class = 0x68;
	ah.grh.hop_limit = 7;
	ah.sl = 3;
	ah.static_rate = IBV_RATE_10_GBPS;
	attr.ah_attr = ah;
	attr.alt_ah_attr = ah;
	attr.alt_ah_attr.grh.traffic_class = 0;
	attr.alt_ah_attr.sl = 5;
	attr.alt_port_num = 1;
	attr.alt_timeout = 9;
	assert_int_equal(to_init(a.qp), 0);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_AV, &init), 0);
	assert_int_equal(attr.ah_attr.port_num, 0);

	attr = rtr_attr(0xabcdef);
	attr.ah_attr = ah;
	attr.alt_ah_attr = ah;
	attr.alt_ah_attr.grh.traffic_class = 0;
	attr.alt_port_num = 1;
	attr.alt_timeout = 9;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, rtr_mask | IBV_QP_ALT_PATH), 0);
	assert_int_equal(to_rts(a.qp), 0);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_AV | IBV_QP_ALT_PATH, &init), 0);
	assert_same_ah(&attr.ah_attr, &ah);
	ah.grh.traffic_class = 0;
	assert_same_ah(&attr.alt_ah_attr, &ah);
	assert_int_equal(attr.alt_port_num, 1);
	assert_int_equal(attr.alt_timeout, 9);
	assert_int_equal(attr.path_mig_state, IBV_MIG_MIGRATED);
	attr.path_mig_state = IBV_MIG_REARM;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_PATH_MIG_STATE), 0);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_PATH_MIG_STATE, &init), 0);
	assert_int_equal(attr.path_mig_state, IBV_MIG_REARM);
	attr.qp_state = IBV_QPS_SQD;
	attr.en_sqd_async_notify = 1;
	assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	struct ibv_async_event event = async_take();
	assert_int_equal(event.event_type, IBV_EVENT_SQ_DRAINED);
	assert_ptr_equal(event.element.qp, a.qp);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_SQD);
	assert_int_equal(attr.sq_draining, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_pointers_stay_the_same),
		cmocka_unit_test(device_that_is_none_is_not_opened),
		cmocka_unit_test(queries_of_other_ports_and_indices_are_refused),
		cmocka_unit_test(context_closed_with_objects_takes_them_along),
		UNCONNECTED(object_of_another_opening_is_refused),
		UNCONNECTED(imported_context_knows_the_domains_of_the_first),
		UNCONNECTED(region_of_memory_that_is_not_there_is_refused),
		UNCONNECTED(region_with_rights_that_contradict_is_refused),
		UNCONNECTED(region_in_use_keeps_its_domain),
		UNCONNECTED(handle_that_is_none_is_refused),
		UNCONNECTED(queue_of_absurd_size_is_refused),
		UNCONNECTED(queue_pair_of_a_type_that_is_not_there_is_not_supported),
		UNCONNECTED(queue_pair_with_extensions_that_are_not_there_is_refused),
		UNCONNECTED(queue_in_use_is_not_destroyed),
		UNCONNECTED(options_of_other_vendors_are_not_accepted),
		UNCONNECTED(modify_out_of_turn_is_refused),
		UNCONNECTED(modify_to_an_address_that_is_none_is_refused),
		CONNECTED(query_tells_what_modify_set),
		UNCONNECTED(query_answers_the_paths),
	};
	int netns = netns_enter_new();

	if (netns < 0)
		return 77;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
