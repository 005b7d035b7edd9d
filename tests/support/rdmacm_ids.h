/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_RDMACM_IDS_H
#define URNIC_TESTS_SUPPORT_RDMACM_IDS_H

/*
 * Identifiers of librdmacm and their events. Both sides are in this process, in a network namespace
 * of their own. main() calls rdmacm_begin().
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

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

static inline struct sockaddr_in address_of(const char *text, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
	return address;
}

static inline struct sockaddr *loopback(void)
{
	static struct sockaddr_in address;

	address = address_of("127.0.0.1", PORT);
	return (struct sockaddr *)&address;
}

/* --- events --- */

/* The next event; its time waits are over at any time, and asked for where they matter. */
static inline struct rdma_cm_event *next(bool with_timewait)
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
static inline struct rdma_cm_id *expect(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event = next(type == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	struct rdma_cm_id *id = event->id;

	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	assert_int_equal(event->status, status);
	rdma_ack_cm_event(event);
	return id;
}

/* The next event is a request to this listener. Returns its identifier. */
static inline struct rdma_cm_id *expect_request_of(const struct rdma_cm_id *listener)
{
	struct rdma_cm_event *event = next(false);
	struct rdma_cm_id *id = event->id;

	assert_string_equal(
		rdma_event_str(event->event), rdma_event_str(RDMA_CM_EVENT_CONNECT_REQUEST));
	assert_ptr_equal(event->listen_id, listener);
	rdma_ack_cm_event(event);
	return id;
}

static inline void expect_nothing(void)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};

	assert_int_equal(poll(&fd, 1, 0), 0);
}

/* --- identifiers in this state or that --- */

static inline struct rdma_cm_id *id_make(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, ps), 0);
	return id;
}

static inline struct rdma_cm_id *id_listening(enum rdma_port_space ps, struct sockaddr *address)
{
	struct rdma_cm_id *id = id_make(ps);

	assert_int_equal(rdma_bind_addr(id, address), 0);
	assert_int_equal(rdma_listen(id, 4), 0);
	return id;
}

static inline struct rdma_cm_id *id_resolved(enum rdma_port_space ps, struct sockaddr *address)
{
	struct rdma_cm_id *id = id_make(ps);

	assert_int_equal(rdma_resolve_addr(id, NULL, address, 1000), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

static inline void qp_make(struct rdma_cm_id *id, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
	};

	assert_int_equal(rdma_create_qp(id, NULL, &init), 0);
}

static inline struct rdma_conn_param param_for(const struct rdma_cm_id *id)
{
	return (struct rdma_conn_param){
		.qp_num = id->qp ? id->qp->qp_num : 1, .retry_count = 7, .rnr_retry_count = 7};
}

static inline void ask(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = param_for(id);

	assert_int_equal(rdma_connect(id, &param), 0);
}

static inline int accept_it(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = param_for(id);

	return rdma_accept(id, &param);
}

static inline int open_channel(void **state)
{
	(void)state;
	channel = rdma_create_event_channel();
	return channel ? 0 : -1;
}

static inline int close_channel(void **state)
{
	(void)state;
	rdma_destroy_event_channel(channel);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_channel, close_channel)

/* Make the namespace. Returns false if this machine cannot run the tests. */
static inline bool rdmacm_begin(void)
{
	int home = netns_enter_new(), away = home < 0 ? -1 : netns_enter_new();

	if (away < 0 || netns_join(home, away, 1500))
		return false;
	unsetenv("URNIC_DEVICE_NAME");
	unsetenv("URNIC_INTERFACES");
	settings_read();
	return true;
}

#endif
