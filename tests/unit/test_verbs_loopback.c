/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loopback: when it is a device, and the error of a queue pair whose peer cannot be on this host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "queue/completion.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { TIMEOUT_OFF = 0 /* of struct ibv_qp_attr: without it the request would wait for ever */ };

static int device_count(void)
{
	struct ibv_device **list;
	int count;

	MUST(list = ibv_get_device_list(&count));
	ibv_free_device_list(list);
	return count;
}

static void loopback_is_the_device_of_a_host_without_network(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)state;
	assert_string_equal(ibv_get_device_name(list[0]), "rocep_lo");
	assert_int_equal(device_count(), 1);
	ibv_free_device_list(list);
}

static void write_to_a_queue_pair_that_is_not_there_fails_at_once(void **state)
{
	struct ibv_context *context = verbs_pair_open();
	struct verbs_pair pair;
	struct ibv_wc wc;

	(void)state;
	verbs_end_make(&pair.a, context, NULL);
	verbs_end_make(&pair.b, context, NULL);
	/* Its slot is leased, and the 16 bits of another queue pair. */
	verbs_qp_connect(pair.a.qp, pair.b.qp->qp_num ^ 1, TIMEOUT_OFF);
	MUST(!verbs_post(&pair.a, IBV_WR_RDMA_WRITE, &pair.b, 0, 8));
	wc = verbs_poll_one(pair.a.cq);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc.vendor_err, FAULT_PEER_MISSING);
	verbs_end_unmake(&pair.a);
	/* No process leases the slot. */
	verbs_end_make(&pair.a, context, NULL);
	verbs_qp_connect(pair.a.qp, 0xfe0001, TIMEOUT_OFF);
	MUST(!verbs_post(&pair.a, IBV_WR_RDMA_WRITE, &pair.b, 0, 8));
	wc = verbs_poll_one(pair.a.cq);
	assert_int_equal(wc.vendor_err, FAULT_PEER_MISSING);
	/* The queue pair is as good as any after a reset. */
	MUST(!ibv_modify_qp(pair.a.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE));
	verbs_ends_connect(&pair.a, &pair.b, TIMEOUT_OFF);
	MUST(!verbs_post(&pair.a, IBV_WR_RDMA_WRITE, &pair.b, 0, 8));
	assert_int_equal(verbs_poll_one(pair.a.cq).status, IBV_WC_SUCCESS);
	verbs_pair_unmake(&pair);
	ibv_close_device(context);
}

/* A device of this process stays one; the interface comes first. */
static void loopback_that_is_a_device_stays_one(void **state)
{
	struct ibv_device **list;

	(void)state;
	assert_int_equal(netns_run("ip link add va type veth peer name vb && "
				   "ip addr add 10.99.0.1/24 dev va && "
				   "ip link set va up && ip link set vb up"),
		0);
	assert_int_equal(device_count(), 2);
	list = ibv_get_device_list(NULL);
	assert_string_equal(ibv_get_device_name(list[0]), "rocep_va");
	ibv_free_device_list(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loopback_is_the_device_of_a_host_without_network),
		cmocka_unit_test(write_to_a_queue_pair_that_is_not_there_fails_at_once),
		cmocka_unit_test(loopback_that_is_a_device_stays_one),
	};

	if (netns_enter_new() < 0)
		return 77;
	unsetenv("URNIC_INTERFACES");
	unsetenv("URNIC_DEVICE_NAME");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
