/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The events that a program gets when links and addresses of its interface change, and when the
 * interface is removed. In a namespace of its own, on one end of a veth pair.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/netns.h"
#include "support/sanitizer.h"
#include "support/verbs_pair.h"

enum { TIMEOUT_MS = 60000, QUIET_MS = 150 };

static struct ibv_context *context;

static struct ibv_context *device_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *opened = NULL;

	assert_non_null(list);
	for (int i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			opened = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return opened;
}

static bool is_listed(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool is_there = false;

	assert_non_null(list);
	for (int i = 0; list[i]; i++)
		is_there |= strcmp(ibv_get_device_name(list[i]), name) == 0;
	ibv_free_device_list(list);
	return is_there;
}

static void interface_make(void)
{
	assert_int_equal(netns_run("ip link add va type veth peer name vb && "
				   "ip link set va addrgenmode none && "
				   "ip link set vb up && ip addr add 10.99.0.1/24 dev va && "
				   "ip link set va up"),
		0);
}

static int setup(void **state)
{
	(void)state;
	interface_make();
	context = device_open("rocep_va");
	return context ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(ibv_close_device(context), 0);
	netns_run("ip link del va");
	return 0;
}

static bool has_event(int ms)
{
	struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};

	return poll(&fd, 1, ms) == 1;
}

static void expect_event(enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert_true(has_event(TIMEOUT_MS));
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, type);
	if (type != IBV_EVENT_DEVICE_FATAL)
		assert_int_equal(event.element.port_num, 1);
	ibv_ack_async_event(&event);
}

/* No event, except late ones of the veth's other end. */
static void expect_quiet(void)
{
	assert_false(has_event(QUIET_MS));
}

static struct ibv_port_attr port(void)
{
	struct ibv_port_attr attr;

	assert_int_equal(ibv_query_port(context, 1, &attr), 0);
	return attr;
}

static void gid_is(int index, const char *ipv4)
{
	union ibv_gid gid;
	char text[INET_ADDRSTRLEN];

	assert_int_equal(ibv_query_gid(context, 1, index, &gid), 0);
	inet_ntop(AF_INET, gid.raw + 12, text, sizeof(text));
	assert_string_equal(text, ipv4);
}

static void port_that_loses_its_link_says_so(void **state)
{
	(void)state;
	assert_int_equal(port().state, IBV_PORT_ACTIVE);
	assert_int_equal(netns_run("ip link set vb down"), 0);
	expect_event(IBV_EVENT_PORT_ERR);
	assert_int_equal(port().state, IBV_PORT_DOWN);
	assert_int_equal(netns_run("ip link set vb up"), 0);
	expect_event(IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(port().state, IBV_PORT_ACTIVE);
	expect_quiet();
}

static void interface_that_goes_down_keeps_its_addresses(void **state)
{
	(void)state;
	assert_int_equal(netns_run("ip link set va down"), 0);
	expect_event(IBV_EVENT_PORT_ERR);
	assert_int_equal(port().state, IBV_PORT_DOWN);
	assert_int_equal(port().gid_tbl_len, 1);
	assert_false(is_listed("rocep_va"));
	assert_int_equal(netns_run("ip link set va up"), 0);
	expect_event(IBV_EVENT_PORT_ACTIVE);
	assert_true(is_listed("rocep_va"));
	expect_quiet();
}

static void address_that_comes_and_goes_changes_the_table(void **state)
{
	(void)state;
	assert_int_equal(port().gid_tbl_len, 1);
	assert_int_equal(netns_run("ip addr add 10.98.0.1/24 dev va"), 0);
	expect_event(IBV_EVENT_GID_CHANGE);
	gid_is(1, "10.98.0.1");
	assert_int_equal(port().gid_tbl_len, 2);
	assert_int_equal(netns_run("ip addr del 10.99.0.1/24 dev va"), 0);
	expect_event(IBV_EVENT_GID_CHANGE);
	assert_int_equal(port().gid_tbl_len, 1);
	gid_is(0, "10.98.0.1");
	assert_int_equal(netns_run("ip addr del 10.98.0.1/24 dev va"), 0);
	expect_event(IBV_EVENT_GID_CHANGE);
	assert_int_equal(port().gid_tbl_len, 0);
	assert_int_equal(port().state, IBV_PORT_ACTIVE);
	assert_false(is_listed("rocep_va"));
	expect_quiet();
}

/* A change that a query notices raises an event, too, and only one. */
static void query_that_comes_first_does_not_swallow_the_event(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(netns_run("ip addr add 10.98.0.1/24 dev va"), 0);
		assert_int_equal(port().gid_tbl_len, 2);
		expect_event(IBV_EVENT_GID_CHANGE);
		assert_int_equal(netns_run("ip addr del 10.98.0.1/24 dev va"), 0);
		assert_int_equal(port().gid_tbl_len, 1);
		expect_event(IBV_EVENT_GID_CHANGE);
		expect_quiet();
	}
}

static void change_of_another_interface_posts_no_event(void **state)
{
	(void)state;
	assert_int_equal(netns_run("ip addr add 10.97.0.1/24 dev vb; ip link set lo mtu 9000"), 0);
	expect_quiet();
}

static void queue_pair_keeps_its_address_when_the_table_moves(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct verbs_pair pair;

	(void)state;
	assert_int_equal(netns_run("ip addr add 10.98.0.1/24 dev va"), 0);
	expect_event(IBV_EVENT_GID_CHANGE);
	verbs_pair_make(&pair, context);
	assert_int_equal(netns_run("ip addr add 10.96.0.1/24 dev va && "
				   "ip addr del 10.98.0.1/24 dev va"),
		0);
	expect_event(IBV_EVENT_GID_CHANGE);
	verbs_post_recv(&pair.b, 1, 0, 10);
	MUST(!verbs_post(&pair.a, IBV_WR_SEND, NULL, 0, 10));
	assert_int_equal(verbs_poll_one(pair.b.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(verbs_poll_one(pair.a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_query_qp(pair.a.qp, &attr, IBV_QP_AV, &init), 0);
	assert_int_equal(attr.ah_attr.grh.sgid_index, 0);
	verbs_pair_unmake(&pair);
}

static void interface_that_is_removed_is_fatal(void **state)
{
	struct ibv_device *device = context->device;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_context *again;
	struct verbs_pair pair;
	struct verbs_end extra;

	(void)state;
	verbs_pair_make(&pair, context);
	verbs_end_make(&extra, context, NULL);
	verbs_post_recv(&pair.a, 7, 0, 10);
	MUST(!ibv_req_notify_cq(pair.a.cq, 0));
	assert_int_equal(netns_run("ip link del va"), 0);
	expect_event(IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(verbs_wait_one(&pair.a).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(verbs_post(&pair.a, IBV_WR_SEND, NULL, 0, 10), 0);
	assert_int_equal(verbs_poll_one(pair.a.cq).status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(port().state, IBV_PORT_DOWN);
	assert_int_equal(port().gid_tbl_len, 0);
	assert_int_equal(
		ibv_modify_qp(extra.qp, &attr,
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		EIO);
	struct ibv_qp_init_attr init = {
		.send_cq = pair.a.cq,
		.recv_cq = pair.a.cq,
		.qp_type = IBV_QPT_RC,
	};
	assert_null(ibv_create_qp(pair.a.pd, &init));
	assert_int_equal(errno, EIO);
	assert_null(ibv_open_device(device));
	assert_int_equal(errno, ENODEV);
	expect_quiet();

	/* Another device with the same name. */
	interface_make();
	again = device_open("rocep_va");
	assert_non_null(again);
	assert_ptr_not_equal(again->device, device);
	assert_int_equal(ibv_close_device(again), 0);
	expect_quiet();
	verbs_end_unmake(&extra);
	verbs_pair_unmake(&pair);
}

static void every_context_hears_it(void **state)
{
	struct ibv_context *other = device_open("rocep_va");
	struct pollfd fd = {.fd = other->async_fd, .events = POLLIN};

	(void)state;
	assert_int_equal(netns_run("ip link set vb down"), 0);
	expect_event(IBV_EVENT_PORT_ERR);
	assert_int_equal(poll(&fd, 1, TIMEOUT_MS), 1);
	assert_int_equal(ibv_close_device(other), 0);
	assert_int_equal(netns_run("ip link set vb up"), 0);
	expect_event(IBV_EVENT_PORT_ACTIVE);
}

static struct ibv_qp_attr qp_query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr;
}

static void rearm(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.alt_ah_attr = {.is_global = 1, .port_num = 1, .grh.sgid_index = 1},
		.alt_port_num = 1,
		.alt_timeout = 14,
		.path_mig_state = IBV_MIG_REARM,
	};

	assert_int_equal(ibv_query_gid(context, 1, 1, &attr.alt_ah_attr.grh.dgid), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
}

static void exchange(struct verbs_pair *pair)
{
	verbs_post_recv(&pair->a, 1, 0, 10);
	verbs_post_recv(&pair->b, 1, 0, 10);
	MUST(!verbs_post(&pair->a, IBV_WR_SEND, NULL, 0, 10));
	MUST(!verbs_post(&pair->b, IBV_WR_SEND, NULL, 0, 10));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(verbs_poll_one(pair->a.cq).status, IBV_WC_SUCCESS);
		assert_int_equal(verbs_poll_one(pair->b.cq).status, IBV_WC_SUCCESS);
	}
}

/*
 * The address of the primary path is removed. After (7 + 1) times 67 ms both ends migrate to the
 * other path.
 */
static void queue_pairs_migrate_when_their_address_goes(void **state)
{
	struct ibv_async_event event;
	struct verbs_pair pair;
	int migrated = 0;

	(void)state;
	assert_int_equal(netns_run("ip addr add 10.98.0.1/24 dev va"), 0);
	expect_event(IBV_EVENT_GID_CHANGE);
	verbs_end_make(&pair.a, context, NULL);
	verbs_end_make(&pair.b, context, NULL);
	verbs_ends_connect(&pair.a, &pair.b, 14);
	rearm(pair.a.qp);
	rearm(pair.b.qp);
	exchange(&pair);
	assert_int_equal(qp_query(pair.a.qp).path_mig_state, IBV_MIG_ARMED);
	assert_int_equal(qp_query(pair.b.qp).path_mig_state, IBV_MIG_ARMED);
	assert_int_equal(netns_run("ip addr del 10.99.0.1/24 dev va"), 0);
	exchange(&pair);
	for (bool has_gid_change = false; migrated < 2 || !has_gid_change;) {
		assert_true(has_event(TIMEOUT_MS));
		assert_int_equal(ibv_get_async_event(context, &event), 0);
		migrated += event.event_type == IBV_EVENT_PATH_MIG;
		has_gid_change |= event.event_type == IBV_EVENT_GID_CHANGE;
		ibv_ack_async_event(&event);
	}
	assert_int_equal(qp_query(pair.a.qp).path_mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(qp_query(pair.a.qp).ah_attr.grh.sgid_index, 0);
	assert_int_equal(qp_query(pair.a.qp).ah_attr.grh.dgid.raw[13], 98);
	assert_int_equal(qp_query(pair.a.qp).alt_ah_attr.grh.sgid_index, 0xff);
	exchange(&pair);
	verbs_pair_unmake(&pair);
}

/* A child that closes what it inherited, and opens anew. */
static void forked_child_watches_for_itself(void **state)
{
	int status;
	pid_t child;

	(void)state;
	if (HAS_THREAD_SANITIZER)
		skip();
	child = fork();
	if (child == 0) {
		struct ibv_async_event event;
		struct ibv_context *own = device_open("rocep_va");

		MUST(own && !ibv_close_device(context));
		MUST(netns_run("ip addr add 10.98.0.1/24 dev va") == 0);
		MUST(!ibv_get_async_event(own, &event));
		MUST(event.event_type == IBV_EVENT_GID_CHANGE);
		MUST(!ibv_close_device(own));
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	expect_event(IBV_EVENT_GID_CHANGE);
}

/* Opening and closing while the interface changes: the watch starts and ends. */
static void watch_starts_and_ends_with_the_contexts(void **state)
{
	(void)state;
	assert_int_equal(ibv_close_device(context), 0);
	for (int i = 0; i < 50; i++) {
		netns_run("ip addr %s 10.98.0.1/24 dev va", i % 2 ? "del" : "add");
		context = device_open("rocep_va");
		assert_non_null(context);
		assert_int_equal(ibv_close_device(context), 0);
	}
	context = device_open("rocep_va");
	assert_int_equal(netns_run("ip addr add 10.98.0.1/24 dev va"), 0);
	expect_event(IBV_EVENT_GID_CHANGE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(port_that_loses_its_link_says_so),
		TEST(interface_that_goes_down_keeps_its_addresses),
		TEST(address_that_comes_and_goes_changes_the_table),
		TEST(query_that_comes_first_does_not_swallow_the_event),
		TEST(change_of_another_interface_posts_no_event),
		TEST(queue_pair_keeps_its_address_when_the_table_moves),
		TEST(interface_that_is_removed_is_fatal),
		TEST(every_context_hears_it),
		TEST(queue_pairs_migrate_when_their_address_goes),
		TEST(forked_child_watches_for_itself),
		TEST(watch_starts_and_ends_with_the_contexts),
	};

	if (netns_enter_new() < 0)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
