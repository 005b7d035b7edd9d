/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm as a program calls it: each public call with wrong arguments and in the wrong state,
 * each kind of event raised, calls that wait. Both sides are in this process, in a network
 * namespace of their own. Errors are those of rdma-core's librdmacm on the kernel's rdma_cm.
 * test_cm.c tests the protocol below, tests/e2e/connect.sh Debian's programs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "base/arith.h"
/* front/rdmacm/id.h does not go together with cmocka.h. */
extern pthread_mutex_t id_lock;
#include "os/setting.h"
#include "support/netns.h"

enum { PORT = 7471, TIMEOUT_MS = 120000, GROUPS_MAX = 256 };

#define SECOND_ADDRESS "10.99.0.1"

static struct rdma_event_channel *channel;

#define assert_fails(call, error)                 \
	do {                                      \
		errno = 0;                        \
		assert_int_equal((call), -1);     \
		assert_int_equal(errno, (error)); \
	} while (0)

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
	return address;
}

static struct sockaddr *loopback(void)
{
	static struct sockaddr_in address;

	address = address_of("127.0.0.1", PORT);
	return (struct sockaddr *)&address;
}

/* --- events --- */

/* The next event; its time waits are over at any time, and asked for where they matter. */
static struct rdma_cm_event *next(bool with_timewait)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	for (;;) {
		assert_int_equal(poll(&fd, 1, TIMEOUT_MS), 1);
		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		if (event->event != RDMA_CM_EVENT_TIMEWAIT_EXIT || with_timewait)
			return event;
		rdma_ack_cm_event(event);
	}
}

/* The event is of this type. Returns its identifier. */
static struct rdma_cm_id *expect(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event = next(type == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	struct rdma_cm_id *id = event->id;

	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	assert_int_equal(event->status, status);
	rdma_ack_cm_event(event);
	return id;
}

/* The next event is a request to this listener. Returns its identifier. */
static struct rdma_cm_id *expect_request_of(const struct rdma_cm_id *listener)
{
	struct rdma_cm_event *event = next(false);
	struct rdma_cm_id *id = event->id;

	assert_string_equal(
		rdma_event_str(event->event), rdma_event_str(RDMA_CM_EVENT_CONNECT_REQUEST));
	assert_ptr_equal(event->listen_id, listener);
	rdma_ack_cm_event(event);
	return id;
}

static void expect_nothing(void)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};

	assert_int_equal(poll(&fd, 1, 0), 0);
}

/* --- identifiers in this state or that --- */

static struct rdma_cm_id *id_make(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, ps), 0);
	return id;
}

static struct rdma_cm_id *id_listening(enum rdma_port_space ps, struct sockaddr *address)
{
	struct rdma_cm_id *id = id_make(ps);

	assert_int_equal(rdma_bind_addr(id, address), 0);
	assert_int_equal(rdma_listen(id, 4), 0);
	return id;
}

static struct rdma_cm_id *id_resolved(enum rdma_port_space ps, struct sockaddr *address)
{
	struct rdma_cm_id *id = id_make(ps);

	assert_int_equal(rdma_resolve_addr(id, NULL, address, 1000), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

static void qp_make(struct rdma_cm_id *id, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
	};

	assert_int_equal(rdma_create_qp(id, NULL, &init), 0);
}

static struct rdma_conn_param param_for(const struct rdma_cm_id *id)
{
	return (struct rdma_conn_param){
		.qp_num = id->qp ? id->qp->qp_num : 1, .retry_count = 7, .rnr_retry_count = 7};
}

static void ask(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = param_for(id);

	assert_int_equal(rdma_connect(id, &param), 0);
}

static int accept_it(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = param_for(id);

	return rdma_accept(id, &param);
}

/* --- wrong arguments, wrong state --- */

static void arguments_that_cannot_be_are_refused(void **state)
{
	struct sockaddr strange = {.sa_family = AF_UNIX};
	struct rdma_cm_id *id = id_make(RDMA_PS_TCP);
	struct rdma_cm_join_mc_attr_ex attr = {0};
	struct ibv_qp_attr qp_attr = {.qp_state = IBV_QPS_INIT};
	const struct rdma_addrinfo hints = {0};
	struct rdma_addrinfo *res;
	struct rdma_cm_event *event;
	struct ibv_ece ece = {.vendor_id = 1};
	int number = 1, mask;

	(void)state;
	assert_fails(rdma_bind_addr(NULL, loopback()), EINVAL);
	assert_fails(rdma_bind_addr(id, &strange), EINVAL);
	assert_fails(rdma_resolve_addr(id, NULL, NULL, 1), EINVAL);
	assert_fails(rdma_resolve_addr(id, NULL, &strange, 1), EINVAL);
	assert_fails(rdma_get_cm_event(NULL, &event), EINVAL);
	assert_fails(rdma_get_cm_event(channel, NULL), EINVAL);
	assert_fails(rdma_ack_cm_event(NULL), EINVAL);
	assert_fails(rdma_destroy_id(NULL), EINVAL);
	assert_fails(rdma_init_qp_attr(id, &qp_attr, &mask), EINVAL);
	assert_fails(rdma_join_multicast(id, NULL, NULL), EINVAL);
	assert_fails(rdma_join_multicast_ex(id, NULL, NULL), EINVAL);
	assert_fails(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	assert_fails(rdma_leave_multicast(id, &strange), EINVAL);
	assert_fails(rdma_leave_multicast(id, loopback()), EADDRNOTAVAIL);
	assert_fails(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
	assert_true(!res->ai_src_addr && !res->ai_dst_addr);
	rdma_freeaddrinfo(res);
	assert_fails(rdma_getaddrinfo("127.0.0.1", NULL, NULL, NULL), EINVAL);
	assert_fails(rdma_create_ep(NULL, NULL, NULL, NULL), EINVAL);
	assert_fails(rdma_notify(id, IBV_EVENT_QP_FATAL), EINVAL);
	assert_fails(rdma_set_option(id, 77, 0, &number, sizeof(number)), ENOSYS);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, 77, &number, sizeof(number)), ENOSYS);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &number, 4), EINVAL);
	assert_fails(
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &number, 1), EINVAL);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1), EINVAL);
	assert_fails(rdma_set_local_ece(id, NULL), EINVAL);
	assert_fails(rdma_set_local_ece(id, &ece), EOPNOTSUPP);
	assert_fails(rdma_get_remote_ece(id, NULL), EINVAL);
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)99), "UNKNOWN EVENT");
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void calls_on_an_idle_identifier_are_refused(void **state)
{
	struct rdma_cm_id *id = id_make(RDMA_PS_TCP), *request;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};

	(void)state;
	assert_fails(rdma_resolve_route(id, 1), EINVAL);
	assert_fails(rdma_connect(id, NULL), EINVAL);
	assert_fails(rdma_accept(id, NULL), EINVAL);
	assert_fails(rdma_reject(id, NULL, 0), EINVAL);
	assert_fails(rdma_reject_ece(id, NULL, 0), EINVAL);
	assert_fails(rdma_establish(id), EINVAL);
	assert_fails(rdma_disconnect(id), EINVAL);
	assert_fails(rdma_get_request(id, &request), EINVAL);
	assert_fails(rdma_create_qp(id, NULL, &init), EINVAL);
	assert_int_equal(rdma_get_src_port(id), 0);
	assert_int_equal(rdma_get_dst_port(id), 0);
	expect_nothing();
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void calls_on_a_listener_are_refused(void **state)
{
	struct rdma_cm_id *id = id_listening(RDMA_PS_TCP, loopback()), *second;
	int on = 1, off = 0;

	(void)state;
	assert_fails(rdma_bind_addr(id, loopback()), EINVAL);
	assert_fails(rdma_listen(id, 1), EINVAL);
	assert_fails(rdma_resolve_addr(id, NULL, loopback(), 1), EINVAL);
	assert_fails(rdma_connect(id, NULL), EINVAL);
	assert_fails(rdma_accept(id, NULL), EINVAL);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)),
		EINVAL);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)),
		EINVAL);
	assert_fails(
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &off, sizeof(off)),
		EINVAL);
	assert_int_equal(rdma_get_src_port(id), htons(PORT));
	/* The port is taken; not in another port space. */
	second = id_make(RDMA_PS_TCP);
	assert_fails(rdma_bind_addr(second, loopback()), EADDRINUSE);
	assert_int_equal(rdma_destroy_id(second), 0);
	second = id_make(RDMA_PS_UDP);
	assert_int_equal(rdma_bind_addr(second, loopback()), 0);
	assert_fails(rdma_set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &on, 1),
		EINVAL);
	assert_int_equal(rdma_destroy_id(second), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void addresses_without_a_way_or_a_device_are_told_apart(void **state)
{
	struct sockaddr_in nowhere = address_of("192.0.2.1", PORT);
	struct sockaddr_in not_ours = address_of("10.99.0.9", 0);
	struct rdma_cm_id *id = id_make(RDMA_PS_TCP);

	(void)state;
	assert_fails(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nowhere, 1), ENETUNREACH);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = id_make(RDMA_PS_TCP);
	assert_fails(rdma_bind_addr(id, (struct sockaddr *)&not_ours), EADDRNOTAVAIL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* perftest goes on with an identifier that it has destroyed, when the server was not there yet. */
static void identifier_that_was_destroyed_is_an_error(void **state)
{
	struct sockaddr_in address = address_of("10.99.0.2", PORT);
	struct sockaddr *to = (struct sockaddr *)&address;
	struct rdma_cm_id *id = id_make(RDMA_PS_TCP);
	struct rdma_conn_param param = {0};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};
	struct ibv_srq_init_attr srq = {.attr = {1, 1, 0}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	uint8_t tos = 0;
	int mask;

	(void)state;
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_fails(rdma_resolve_addr(id, NULL, to, 100), ENOENT);
	assert_fails(rdma_resolve_route(id, 100), ENOENT);
	assert_fails(rdma_bind_addr(id, to), ENOENT);
	assert_fails(rdma_listen(id, 1), ENOENT);
	assert_fails(rdma_connect(id, &param), ENOENT);
	assert_fails(rdma_accept(id, &param), ENOENT);
	assert_fails(rdma_reject(id, NULL, 0), ENOENT);
	assert_fails(rdma_disconnect(id), ENOENT);
	assert_fails(rdma_notify(id, IBV_EVENT_COMM_EST), ENOENT);
	assert_fails(rdma_establish(id), ENOENT);
	assert_fails(rdma_create_qp(id, NULL, &init), ENOENT);
	assert_fails(rdma_create_srq(id, NULL, &srq), ENOENT);
	assert_fails(rdma_init_qp_attr(id, &attr, &mask), ENOENT);
	assert_fails(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), ENOENT);
	assert_fails(rdma_join_multicast(id, to, NULL), ENOENT);
	assert_fails(rdma_leave_multicast(id, to), ENOENT);
	assert_fails(rdma_migrate_id(id, NULL), ENOENT);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	assert_fails(rdma_destroy_id(id), ENOENT);
	rdma_destroy_ep(id);
	assert_fails(rdma_resolve_addr(NULL, NULL, to, 100), EINVAL);
}

/*
 * A host of this network that does not answer: an address error, as with an adapter's driver. Then
 * a host that answers.
 */
static void host_that_is_dead_is_an_error_of_the_address(void **state)
{
	struct sockaddr_in dead = address_of("10.99.0.9", PORT);
	struct sockaddr_in alive = address_of("10.99.0.2", PORT);
	struct rdma_cm_id *id = id_make(RDMA_PS_TCP), *given_up = id_make(RDMA_PS_TCP);

	(void)state;
	assert_int_equal(rdma_resolve_addr(given_up, NULL, (struct sockaddr *)&dead, 60000), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dead, 200), 0);
	assert_fails(rdma_resolve_route(id, 1), EINVAL);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT), id);
	assert_int_equal(rdma_destroy_id(given_up), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&alive, 5000), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0), id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* --- each kind of event --- */

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

/* --- calls that wait --- */

static void calls_without_a_channel_wait_for_their_event(void **state)
{
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, loopback(), 1000), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_fails(rdma_connect(id, &(struct rdma_conn_param){.qp_num = 1}), ECONNREFUSED);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* The call does not wait once the identifier has a channel. */
static void identifier_moves_from_channel_to_channel(void **state)
{
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, loopback(), 1000), 0);
	assert_int_equal(rdma_migrate_id(id, channel), 0);
	assert_ptr_equal(id->channel, channel);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_ptr_equal(expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0), id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void channel_that_does_not_block_says_so(void **state)
{
	struct rdma_cm_event *event;

	(void)state;
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_fails(rdma_get_cm_event(channel, &event), EAGAIN);
	assert_int_equal(fcntl(channel->fd, F_SETFL, 0), 0);
}

/* --- a channel that is destroyed while a thread waits in it --- */

static atomic_bool has_returned;
static atomic_int reader_tid;

static void *wait_for_ever(void *argument)
{
	struct rdma_cm_event *event;

	reader_tid = (int)syscall(SYS_gettid);
	rdma_get_cm_event(argument, &event);
	has_returned = true;
	return NULL;
}

static void on_signal(int signal)
{
	(void)signal;
}

/* The number that follows `label` at the start of a line of the thread's file in /proc. */
static long task_number(int tid, const char *name, const char *label)
{
	char path[64], line[256];
	long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, name);
	file = fopen(path, "re");
	assert_non_null(file);
	while (number < 0 && fgets(line, sizeof(line), file))
		if (strncmp(line, label, strlen(label)) == 0)
			number = strtol(line + strlen(label), NULL, 10);
	fclose(file);
	return number;
}

/*
 * Wait until the thread sleeps in a call of recv(), for at least the `sleep`-th time since it
 * began. Returns how often it has slept. The signal handler could not count the wake-ups:
 * ThreadSanitizer calls it only when recv() returns.
 */
static long await_reader(long sleep)
{
	long slept = 0;

	while (!has_returned) {
		slept = reader_tid ? task_number(reader_tid, "status", "voluntary_ctxt_switches:")
				   : 0;
		if (slept >= sleep && reader_tid &&
			task_number(reader_tid, "syscall", "") == SYS_recvfrom)
			break;
		poll(NULL, 0, 1);
	}
	return slept;
}

/* As on an adapter, where the kernel keeps the descriptor's file until the call returns. */
static void reader_of_a_destroyed_channel_sleeps_on(void **state)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct rdma_event_channel *own = rdma_create_event_channel();
	pthread_t thread;
	long slept;

	(void)state;
	assert_non_null(own);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, own), 0);
	slept = await_reader(1);
	rdma_destroy_event_channel(own);
	assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
	await_reader(slept + 1);
	assert_false(has_returned);
	assert_int_equal(pthread_detach(thread), 0);
}

static int open_channel(void **state)
{
	(void)state;
	channel = rdma_create_event_channel();
	return channel ? 0 : -1;
}

static int close_channel(void **state)
{
	(void)state;
	rdma_destroy_event_channel(channel);
	return 0;
}

/* --- fork --- */

static atomic_bool is_inside;

static void *change_something(void *unused)
{
	pthread_mutex_lock(&id_lock);
	is_inside = true;
	poll(NULL, 0, 100);
	is_inside = false;
	pthread_mutex_unlock(&id_lock);
	return unused;
}

static int child_main(void)
{
	struct rdma_cm_id *id;

	alarm(TIMEOUT_MS / 1000);
	if (is_inside)
		return 1;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return 2;
	return rdma_destroy_id(id) ? 3 : 0;
}

static void fork_waits_for_who_changes_identifiers(void **state)
{
	struct rdma_cm_id *id;
	pthread_t thread;
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(pthread_create(&thread, NULL, change_something, NULL), 0);
	while (!is_inside)
		sched_yield();
	child = fork();
	if (child == 0)
		_exit(child_main());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pthread_join(thread, NULL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_channel, close_channel)
	const struct CMUnitTest tests[] = {
		TEST(arguments_that_cannot_be_are_refused),
		TEST(calls_on_an_idle_identifier_are_refused),
		TEST(calls_on_a_listener_are_refused),
		TEST(addresses_without_a_way_or_a_device_are_told_apart),
		TEST(identifier_that_was_destroyed_is_an_error),
		TEST(host_that_is_dead_is_an_error_of_the_address),
		TEST(connection_raises_its_events_in_turn),
		TEST(loopback_address_is_reached_through_the_first_device),
		TEST(program_with_its_own_queue_pair_hears_of_the_response),
		TEST(refusal_brings_its_reason_and_data),
		TEST(queue_pair_that_does_not_come_up_is_an_error_of_the_connection),
		TEST(datagram_service_is_found_or_not),
		TEST(group_that_cannot_be_joined_is_an_error),
		TEST(path_record_stands_for_a_route),
		TEST(calls_without_a_channel_wait_for_their_event),
		TEST(identifier_moves_from_channel_to_channel),
		TEST(channel_that_does_not_block_says_so),
		TEST(reader_of_a_destroyed_channel_sleeps_on),
		TEST(fork_waits_for_who_changes_identifiers),
		TEST(interface_that_changes_and_goes_is_told),
	};
	int home = netns_enter_new(), away = home < 0 ? -1 : netns_enter_new();

	if (away < 0 || netns_join(home, away, 1500))
		return 77;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
