/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of librdmacm: each kind of event is raised. Errors are those of rdma-core's librdmacm
 * on the kernel's rdma_cm.
 */
#include "front/rdmacm/id/id.h"
#include "support/rdmacm_ids.h"

static void connection_raises_its_events_in_turn(void **state)
{
	struct rdma_cm_id *listener = id_listening(RDMA_PS_TCP, loopback());
	struct rdma_cm_id *active = id_resolved(RDMA_PS_TCP, loopback()), *passive;

	(void)state;
	qp_make(active, IBV_QPT_RC);
	ask(active);
	passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_fails(rdma_connect(active, NULL), EINVAL);
	assert_fails(rdma_connect(passive, NULL), EINVAL);
	qp_make(passive, IBV_QPT_RC);
	assert_int_equal(accept_it(passive), 0);
	assert_fails(accept_it(passive), EINVAL);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ESTABLISHED, 0), active);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ESTABLISHED, 0), passive);
	assert_fails(rdma_reject(passive, NULL, 0), EINVAL);
	assert_fails(rdma_establish(active), EINVAL);
	assert_int_equal(rdma_get_dst_port(active), htons(PORT));
	assert_int_equal(rdma_disconnect(active), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED, 0), passive);
	assert_int_equal(rdma_disconnect(passive), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED, 0), active);
	expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	rdma_destroy_ep(active);
	rdma_destroy_ep(passive);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static const char *device_of(const struct rdma_cm_id *id)
{
	return ibv_get_device_name(id->verbs->device);
}

static const struct sockaddr *connect_and_refuse(
	struct sockaddr *address, const struct rdma_cm_id *listener)
{
	static struct sockaddr_storage local;
	struct rdma_cm_id *active = id_resolved(RDMA_PS_TCP, address), *passive;

	assert_string_equal(device_of(active), "rocep_va");
	assert_memory_equal(rdma_get_peer_addr(active), address, sizeof(struct sockaddr_in));
	ask(active);
	passive = expect_request_of(listener);
	assert_string_equal(device_of(passive), "rocep_va");
	memcpy(&local, rdma_get_local_addr(passive), sizeof(local));
	assert_int_equal(rdma_reject(passive, NULL, 0), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_REJECTED, 28), active);
	rdma_destroy_id(active);
	rdma_destroy_id(passive);
	return (struct sockaddr *)&local;
}

/* The namespace has an interface, so loopback is no device. */
static void loopback_address_is_reached_through_the_first_device(void **state)
{
	struct sockaddr_in other = address_of(SECOND_ADDRESS, PORT);
	struct rdma_cm_id *at_loopback = id_listening(RDMA_PS_TCP, loopback());
	struct rdma_cm_id *at_other = id_listening(RDMA_PS_TCP, (struct sockaddr *)&other);

	(void)state;
	assert_null(at_loopback->verbs);
	assert_memory_equal(connect_and_refuse(loopback(), at_loopback), loopback(),
		sizeof(struct sockaddr_in));
	assert_memory_equal(
		connect_and_refuse((struct sockaddr *)&other, at_other), &other, sizeof(other));
	assert_int_equal(rdma_destroy_id(at_other), 0);
	/* The listener at the loopback address is not one of the other address. */
	at_other = id_resolved(RDMA_PS_TCP, (struct sockaddr *)&other);
	ask(at_other);
	assert_ptr_equal(expect(RDMA_CM_EVENT_REJECTED, 8), at_other);
	assert_int_equal(rdma_destroy_id(at_other), 0);
	assert_int_equal(rdma_destroy_id(at_loopback), 0);
}

/* What lay on a program's stack before (rping) must not come to ibv_modify_qp. */
static void assert_attributes_are_whole(struct rdma_cm_id *id)
{
	const struct ibv_qp_attr zero = {0};
	struct ibv_qp_attr attr;
	int mask = 0;

	memset(&attr, 0xa5, sizeof(attr));
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_true(mask & IBV_QP_AV);
	assert_int_equal(attr.qp_state, IBV_QPS_RTR);
	assert_int_equal(attr.ah_attr.is_global, 1);
	assert_int_equal(attr.ah_attr.static_rate, IBV_RATE_MAX);
	assert_int_equal(attr.ah_attr.dlid, 0);
	assert_int_equal(attr.ah_attr.grh.flow_label, 0);
	assert_memory_equal(&attr.alt_ah_attr, &zero.alt_ah_attr, sizeof(zero.alt_ah_attr));
}

static void program_with_its_own_queue_pair_hears_of_the_response(void **state)
{
	struct rdma_cm_id *listener = id_listening(RDMA_PS_TCP, loopback());
	struct rdma_cm_id *active = id_resolved(RDMA_PS_TCP, loopback()), *passive;

	(void)state;
	ask(active);
	passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(accept_it(passive), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_CONNECT_RESPONSE, 0), active);
	assert_attributes_are_whole(active);
	assert_int_equal(rdma_establish(active), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ESTABLISHED, 0), passive);
	/* Letting go of a connection ends it. */
	assert_int_equal(rdma_destroy_id(active), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED, 0), passive);
	assert_int_equal(rdma_destroy_id(passive), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static void refusal_brings_its_reason_and_data(void **state)
{
	static const char why[] = "not today";
	struct rdma_cm_id *listener = id_listening(RDMA_PS_TCP, loopback());
	struct rdma_cm_id *active = id_resolved(RDMA_PS_TCP, loopback()), *passive;
	struct rdma_cm_event *event;
	uint8_t too_long[255] = {0};

	(void)state;
	ask(active);
	passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_fails(rdma_reject(passive, too_long, sizeof(too_long)), EINVAL);
	assert_int_equal(rdma_reject(passive, why, sizeof(why)), 0);
	event = next(false);
	assert_int_equal(event->event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, 28);
	assert_memory_equal(event->param.conn.private_data, why, sizeof(why));
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_destroy_id(active), 0);
	assert_int_equal(rdma_destroy_id(passive), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	/* No program listens any more; urnicd waits a moment for one that may listen again. */
	active = id_resolved(RDMA_PS_TCP, loopback());
	ask(active);
	assert_ptr_equal(expect(RDMA_CM_EVENT_REJECTED, 8), active);
	assert_int_equal(rdma_destroy_id(active), 0);
}

/* As with the kernel's rdma_ucm, which knows no user context before the accept. */
static void request_that_its_peer_withdraws_raises_no_event(void **state)
{
	struct rdma_cm_id *listener = id_listening(RDMA_PS_TCP, loopback());
	struct rdma_cm_id *active = id_resolved(RDMA_PS_TCP, loopback()), *passive, *other;

	(void)state;
	ask(active);
	passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(rdma_destroy_id(active), 0);
	/* The request of another one arrives after the REJ. */
	active = id_resolved(RDMA_PS_TCP, loopback());
	ask(active);
	other = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_fails(accept_it(passive), EINVAL);
	assert_fails(rdma_reject(passive, NULL, 0), EINVAL);
	assert_int_equal(rdma_reject(other, NULL, 0), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_REJECTED, 28), active);
	expect_nothing();
	assert_int_equal(rdma_destroy_id(active), 0);
	assert_int_equal(rdma_destroy_id(passive), 0);
	assert_int_equal(rdma_destroy_id(other), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static void queue_pair_that_does_not_come_up_is_an_error_of_the_connection(void **state)
{
	struct rdma_cm_id *listener = id_listening(RDMA_PS_TCP, loopback());
	struct rdma_cm_id *active = id_resolved(RDMA_PS_TCP, loopback()), *passive;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)state;
	qp_make(active, IBV_QPT_RC);
	assert_int_equal(ibv_modify_qp(active->qp, &attr, IBV_QP_STATE), 0);
	ask(active);
	passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(accept_it(passive), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL), active);
	assert_ptr_equal(expect(RDMA_CM_EVENT_REJECTED, 28), passive);
	rdma_destroy_ep(active);
	assert_int_equal(rdma_destroy_id(passive), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static void datagram_service_is_found_or_not(void **state)
{
	struct rdma_cm_id *listener = id_listening(RDMA_PS_UDP, loopback());
	struct rdma_cm_id *active = id_resolved(RDMA_PS_UDP, loopback()), *passive;

	(void)state;
	ask(active);
	passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	qp_make(passive, IBV_QPT_UD);
	assert_int_equal(accept_it(passive), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ESTABLISHED, 0), active);
	assert_fails(rdma_disconnect(active), EINVAL);
	rdma_destroy_ep(passive);
	assert_int_equal(rdma_destroy_id(active), 0);
	active = id_resolved(RDMA_PS_UDP, loopback());
	ask(active);
	passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(rdma_reject(passive, NULL, 0), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_UNREACHABLE, 2), active);
	assert_int_equal(rdma_destroy_id(active), 0);
	assert_int_equal(rdma_destroy_id(passive), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

/* One more group than a queue pair can be in. */
static void group_that_cannot_be_joined_is_an_error(void **state)
{
	struct sockaddr_in group = address_of("239.1.0.1", 0);
	struct sockaddr_in local = address_of(SECOND_ADDRESS, 0);
	struct rdma_cm_id *id = id_make(RDMA_PS_UDP);
	enum rdma_cm_event_type got = RDMA_CM_EVENT_MULTICAST_JOIN;
	unsigned count = 0;

	(void)state;
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&local), 0);
	assert_fails(rdma_join_multicast(id, (struct sockaddr *)&local, NULL), EINVAL);
	qp_make(id, IBV_QPT_UD);
	while (got == RDMA_CM_EVENT_MULTICAST_JOIN && count++ < GROUPS_MAX) {
		struct rdma_cm_event *event;

		group.sin_addr.s_addr = htonl(ntohl(group.sin_addr.s_addr) + 1);
		assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
		event = next(false);
		got = event->event;
		assert_int_equal(event->status != 0, got == RDMA_CM_EVENT_MULTICAST_ERROR);
		rdma_ack_cm_event(event);
	}
	assert_int_equal(got, RDMA_CM_EVENT_MULTICAST_ERROR);
	assert_true(count > 1);
	rdma_destroy_ep(id);
}

static void path_record_stands_for_a_route(void **state)
{
	struct ibv_path_data data = {
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
		.path = {.mtu = IBV_MTU_512},
	};
	struct rdma_cm_id *id = id_make(RDMA_PS_TCP);

	(void)state;
	assert_fails(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof(data)),
		EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, loopback(), 1), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_fails(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, 8), EINVAL);
	assert_int_equal(
		rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof(data)), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(id->route.num_paths, 1);
	assert_int_equal(id->route.path_rec->mtu, IBV_MTU_512);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void interface_that_changes_and_goes_is_told(void **state)
{
	struct sockaddr_in local = address_of(SECOND_ADDRESS, 0);
	struct rdma_cm_id *bound = id_make(RDMA_PS_TCP), *elsewhere = id_make(RDMA_PS_TCP);
	struct rdma_cm_id *resolved = id_make(RDMA_PS_TCP);

	(void)state;
	assert_int_equal(rdma_bind_addr(bound, (struct sockaddr *)&local), 0);
	assert_int_equal(rdma_bind_addr(elsewhere, loopback()), 0);
	assert_int_equal(
		rdma_resolve_addr(resolved, NULL, (struct sockaddr *)&local, TIMEOUT_MS), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0), resolved);
	assert_int_equal(netns_run("ip link set va address 02:00:00:00:00:77"), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_CHANGE, 0), bound);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_CHANGE, 0), resolved);
	assert_int_equal(netns_run("ip link del va"), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DEVICE_REMOVAL, 0), bound);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DEVICE_REMOVAL, 0), resolved);
	assert_fails(rdma_resolve_route(resolved, TIMEOUT_MS), ENODEV);
	expect_nothing();
	assert_int_equal(rdma_destroy_id(resolved), 0);
	assert_int_equal(rdma_destroy_id(bound), 0);
	assert_int_equal(rdma_destroy_id(elsewhere), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connection_raises_its_events_in_turn),
		TEST(loopback_address_is_reached_through_the_first_device),
		TEST(program_with_its_own_queue_pair_hears_of_the_response),
		TEST(refusal_brings_its_reason_and_data),
		TEST(request_that_its_peer_withdraws_raises_no_event),
		TEST(queue_pair_that_does_not_come_up_is_an_error_of_the_connection),
		TEST(datagram_service_is_found_or_not),
		TEST(group_that_cannot_be_joined_is_an_error),
		TEST(path_record_stands_for_a_route),
		TEST(interface_that_changes_and_goes_is_told),
	};

	return rdmacm_begin() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
