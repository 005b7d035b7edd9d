/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each row of src/queue/refusal_cm.def: the call fails with the errno of the reason, and the
 * failure that is kept names the call and the reason. A row without a function does not compile.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include "front/rdmacm/id/id.h"

#include "base/arith.h"
#include "nic/nic_failure.h"
#include "os/failure_text.h"
#include "os/setting.h"
#include "support/last_failure.h"
#include "support/netns.h"
#include "support/verbs_pair.h"

enum { PORT = 7471 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *idle; /* TCP, as it was made */
static struct rdma_cm_id *bound; /* TCP, at the device's address */
static struct rdma_cm_id *listener; /* TCP, at the device's address and PORT */
static struct rdma_cm_id *datagrams; /* UDP, at the device's address */
static struct rdma_cm_id *resolved; /* TCP, with a route to the device's own address */
static struct rdma_cm_id *request; /* of `client` at the listener */
static struct rdma_cm_id *client;
static struct rdma_cm_id stranger; /* of no rdma_create_id() */

static struct sockaddr_in at(const char *address, uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};

	MUST(inet_pton(AF_INET, address, &to.sin_addr) == 1);
	return to;
}

/* The errno of a call that returns -1. */
static int error_of(int rc)
{
	return rc ? errno : 0;
}

#define PROVOKE(call, reason, ...)                  \
	static int refusal_##call##_##reason(void)  \
	{                                           \
		return error_of(__VA_ARGS__);       \
	}

/* A call whose identifier, `id`, is unknown or NULL. */
#define WITHOUT_ID(call, ...)                                   \
	static int without_id_##call(struct rdma_cm_id *id)     \
	{                                                       \
		return error_of(__VA_ARGS__);                   \
	}                                                       \
	static int refusal_##call##_NO_OBJECT(void)             \
	{                                                       \
		return without_id_##call(&stranger);            \
	}                                                       \
	static int refusal_##call##_ATTR_MISSING(void)          \
	{                                                       \
		return without_id_##call(NULL);                 \
	}

static struct ibv_qp_init_attr cap_init(void)
{
	return (struct ibv_qp_init_attr){.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
}

static int create_qp(struct rdma_cm_id *id, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = cap_init();

	return rdma_create_qp(id, pd, &init);
}

static int create_qp_ex(struct rdma_cm_id *id, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC,
		.cap = {1, 1, 1, 1, 0},
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd};

	return rdma_create_qp_ex(id, &init);
}

static int create_srq_ex(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr_ex init = {.attr = {.max_wr = 1, .max_sge = 1}};

	return rdma_create_srq_ex(id, &init);
}

static int create_srq(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};

	return rdma_create_srq(id, NULL, &init);
}

static int init_attr(struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	return rdma_init_qp_attr(id, &attr, &mask);
}

static int bind_to(struct rdma_cm_id *id, const char *address, uint16_t port)
{
	struct sockaddr_in to = at(address, port);

	return rdma_bind_addr(id, (struct sockaddr *)&to);
}

static int resolve(struct rdma_cm_id *id, const char *from, uint16_t port, const char *address)
{
	struct sockaddr_in source = at(from, port), to = at(address, PORT);

	return rdma_resolve_addr(id, (struct sockaddr *)&source, (struct sockaddr *)&to, 1000);
}

static int join(struct rdma_cm_id *id, struct sockaddr_in to)
{
	return rdma_join_multicast(id, (struct sockaddr *)&to, NULL);
}

static int leave(struct rdma_cm_id *id, struct sockaddr_in to)
{
	return rdma_leave_multicast(id, (struct sockaddr *)&to);
}

static int set_tos(struct rdma_cm_id *id, int level, int name, size_t bytes)
{
	uint64_t value = 1;

	return rdma_set_option(id, level, name, &value, bytes);
}

static int get_request(struct rdma_cm_id *id)
{
	struct rdma_cm_id *got;

	return rdma_get_request(id, &got);
}

static int query_info(struct rdma_cm_id *id)
{
	struct rdma_addrinfo *info;

	return rdma_query_addrinfo(id, &info);
}

static struct rdma_conn_param much_data(void)
{
	static const uint8_t data[255];

	return (struct rdma_conn_param){.private_data = data, .private_data_len = sizeof(data)};
}

static int connect_with_much(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = much_data();

	return rdma_connect(id, &param);
}

static int accept_with_much(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = much_data();

	return rdma_accept(id, &param);
}

/* Calls `refused` with a new identifier, which is destroyed afterwards. */
static int with_new(enum rdma_port_space ps, int (*refused)(struct rdma_cm_id *id))
{
	struct rdma_cm_id *id;
	int rc, error;

	MUST(!rdma_create_id(channel, &id, NULL, ps));
	rc = refused(id);
	error = errno;
	rdma_destroy_id(id);
	errno = error;
	return rc;
}

WITHOUT_ID(rdma_accept, rdma_accept(id, NULL))
WITHOUT_ID(rdma_bind_addr, bind_to(id, "10.99.0.1", 0))
WITHOUT_ID(rdma_connect, rdma_connect(id, NULL))
WITHOUT_ID(rdma_create_qp, create_qp(id, NULL))
WITHOUT_ID(rdma_create_qp_ex, create_qp_ex(id, NULL))
WITHOUT_ID(rdma_create_srq, create_srq(id))
WITHOUT_ID(rdma_create_srq_ex, create_srq_ex(id))
WITHOUT_ID(rdma_destroy_id, rdma_destroy_id(id))
WITHOUT_ID(rdma_disconnect, rdma_disconnect(id))
WITHOUT_ID(rdma_establish, rdma_establish(id))
WITHOUT_ID(rdma_get_request, get_request(id))
WITHOUT_ID(rdma_init_qp_attr, init_attr(id, IBV_QPS_INIT))
WITHOUT_ID(rdma_join_multicast_ex, join(id, at("239.1.1.1", 0)))
WITHOUT_ID(rdma_leave_multicast, leave(id, at("239.1.1.1", 0)))
WITHOUT_ID(rdma_listen, rdma_listen(id, 1))
WITHOUT_ID(rdma_migrate_id, rdma_migrate_id(id, channel))
WITHOUT_ID(rdma_notify, rdma_notify(id, IBV_EVENT_COMM_EST))
WITHOUT_ID(rdma_query_addrinfo, query_info(id))
WITHOUT_ID(rdma_reject, rdma_reject(id, NULL, 0))
WITHOUT_ID(rdma_reject_ece, rdma_reject_ece(id, NULL, 0))
WITHOUT_ID(rdma_resolve_addr, resolve(id, "10.99.0.1", 0, "10.99.0.1"))
WITHOUT_ID(rdma_resolve_addrinfo, rdma_resolve_addrinfo(id, "10.99.0.1", NULL, NULL))
WITHOUT_ID(rdma_resolve_route, rdma_resolve_route(id, 1000))
WITHOUT_ID(rdma_set_option, set_tos(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1))
WITHOUT_ID(rdma_write_cm_event, rdma_write_cm_event(id, (enum rdma_cm_event_type)100, 0, 0))

PROVOKE(rdma_ack_cm_event, ATTR_MISSING, rdma_ack_cm_event(NULL))
PROVOKE(rdma_create_ep, ATTR_MISSING, rdma_create_ep(NULL, NULL, NULL, NULL))
PROVOKE(rdma_get_cm_event, ATTR_MISSING, rdma_get_cm_event(NULL, NULL))
PROVOKE(rdma_get_remote_ece, ATTR_MISSING, rdma_get_remote_ece(NULL, NULL))
PROVOKE(rdma_getaddrinfo, ATTR_MISSING, rdma_getaddrinfo(NULL, NULL, NULL, NULL))
PROVOKE(rdma_set_local_ece, ATTR_MISSING, rdma_set_local_ece(NULL, NULL))

PROVOKE(rdma_accept, CM_STATE, rdma_accept(idle, NULL))
PROVOKE(rdma_bind_addr, CM_STATE, bind_to(bound, "10.99.0.1", 0))
PROVOKE(rdma_connect, CM_STATE, rdma_connect(idle, NULL))
PROVOKE(rdma_disconnect, CM_STATE, rdma_disconnect(idle))
PROVOKE(rdma_establish, CM_STATE, rdma_establish(idle))
PROVOKE(rdma_get_request, CM_STATE, get_request(idle))
PROVOKE(rdma_listen, CM_STATE, rdma_listen(listener, 1))
PROVOKE(rdma_reject, CM_STATE, rdma_reject(idle, NULL, 0))
PROVOKE(rdma_reject_ece, CM_STATE, rdma_reject_ece(idle, NULL, 0))
PROVOKE(rdma_resolve_addr, CM_STATE, resolve(listener, "10.99.0.1", 0, "10.99.0.1"))
PROVOKE(rdma_resolve_route, CM_STATE, rdma_resolve_route(idle, 1000))
PROVOKE(rdma_set_option, CM_STATE, set_tos(listener, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4))

PROVOKE(rdma_set_option, CM_OPTION, set_tos(idle, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 8))
PROVOKE(rdma_set_option, CM_OPTION_UNKNOWN, set_tos(idle, RDMA_OPTION_ID, 99, 1))

PROVOKE(rdma_connect, CM_DATA, connect_with_much(resolved))
PROVOKE(rdma_accept, CM_DATA, accept_with_much(request))
static int refusal_rdma_accept_CM_QP_MOVE(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	int error;

	MUST(!create_qp(request, NULL) && !ibv_modify_qp(request->qp, &attr, IBV_QP_STATE));
	error = error_of(rdma_accept(request, NULL));
	rdma_destroy_qp(request);
	return error;
}

PROVOKE(rdma_reject, CM_DATA, rdma_reject(request, much_data().private_data, 255))
PROVOKE(rdma_reject_ece, CM_DATA, rdma_reject_ece(request, much_data().private_data, 255))

PROVOKE(rdma_notify, CM_EVENT, rdma_notify(bound, IBV_EVENT_PATH_MIG))
PROVOKE(rdma_write_cm_event, CM_EVENT,
	rdma_write_cm_event(bound, RDMA_CM_EVENT_ESTABLISHED, 0, 0))
PROVOKE(rdma_init_qp_attr, CM_UNCONNECTED, init_attr(bound, IBV_QPS_RTR))
PROVOKE(rdma_init_qp_attr, CM_QP_STATE, init_attr(bound, IBV_QPS_SQD))
PROVOKE(rdma_create_qp_ex, CM_QP, create_qp_ex(idle, NULL))
PROVOKE(rdma_create_srq_ex, CM_QP, create_srq_ex(idle))

static int refusal_rdma_create_qp_ex_CM_QP_PD(void)
{
	struct ibv_context *context = ibv_open_device(bound->verbs->device);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	int error = error_of(create_qp_ex(bound, pd));

	MUST(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return error;
}

PROVOKE(rdma_query_addrinfo, CM_NO_ADDRINFO, query_info(bound))
PROVOKE(rdma_resolve_addrinfo, UNSUPPORTED_BITS,
	rdma_resolve_addrinfo(
		bound, "10.99.0.1", NULL, &(struct rdma_addrinfo){.ai_flags = 0x10}))
/* A thread answers, so the first call may have ended before the second one. */
static int resolve_twice(struct rdma_cm_id *id)
{
	int rc = 0;

	for (int i = 0; i < 1000 && !rc; i++)
		rc = rdma_resolve_addrinfo(id, "10.99.0.1", NULL, NULL);
	return rc;
}

PROVOKE(rdma_resolve_addrinfo, CM_RESOLVING, with_new(RDMA_PS_TCP, resolve_twice))
PROVOKE(rdma_set_local_ece, UNSUPPORTED_BITS,
	rdma_set_local_ece(bound, &(struct ibv_ece){.vendor_id = 1}))

/* --- addresses --- */

static int bind_to_nothing(struct rdma_cm_id *id)
{
	struct sockaddr_in nothing = {.sin_family = AF_UNSPEC};

	return rdma_bind_addr(id, (struct sockaddr *)&nothing);
}

static int bind_elsewhere(struct rdma_cm_id *id)
{
	return bind_to(id, "10.11.12.13", 0);
}

static int bind_without_device(struct rdma_cm_id *id)
{
	return bind_to(id, "10.98.0.1", 0);
}

static int bind_taken(struct rdma_cm_id *id)
{
	return bind_to(id, "10.99.0.1", PORT);
}

PROVOKE(rdma_bind_addr, CM_FAMILY, with_new(RDMA_PS_TCP, bind_to_nothing))
PROVOKE(rdma_bind_addr, CM_LOCAL_ADDRESS, with_new(RDMA_PS_TCP, bind_elsewhere))
PROVOKE(rdma_bind_addr, CM_NO_DEVICE, with_new(RDMA_PS_TCP, bind_without_device))
PROVOKE(rdma_bind_addr, CM_PORT_TAKEN, with_new(RDMA_PS_TCP, bind_taken))

static int resolve_other_family(struct rdma_cm_id *id)
{
	struct sockaddr_in6 source = {.sin6_family = AF_INET6};
	struct sockaddr_in to = at("10.99.0.1", PORT);

	return rdma_resolve_addr(id, (struct sockaddr *)&source, (struct sockaddr *)&to, 1000);
}

static int resolve_from_elsewhere(struct rdma_cm_id *id)
{
	return resolve(id, "10.11.12.13", 0, "10.99.0.1");
}

static int resolve_from_taken(struct rdma_cm_id *id)
{
	return resolve(id, "10.99.0.1", PORT, "10.99.0.1");
}

PROVOKE(rdma_resolve_addr, CM_FAMILY, with_new(RDMA_PS_TCP, resolve_other_family))
PROVOKE(rdma_resolve_addr, CM_LOCAL_ADDRESS, with_new(RDMA_PS_TCP, resolve_from_elsewhere))
PROVOKE(rdma_resolve_addr, CM_PORT_TAKEN, with_new(RDMA_PS_TCP, resolve_from_taken))

/* Two may bind a port, and one of them listen. */
static int listen_second(struct rdma_cm_id *second)
{
	struct rdma_cm_id *first;
	int on = 1, rc, error;

	MUST(!rdma_create_id(channel, &first, NULL, RDMA_PS_TCP));
	MUST(!rdma_set_option(first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)));
	MUST(!rdma_set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)));
	MUST(!bind_to(first, "10.99.0.1", PORT + 1) && !bind_to(second, "10.99.0.1", PORT + 1));
	MUST(!rdma_listen(first, 1));
	rc = rdma_listen(second, 1);
	error = errno;
	rdma_destroy_id(first);
	errno = error;
	return rc;
}

PROVOKE(rdma_listen, CM_PORT_TAKEN, with_new(RDMA_PS_TCP, listen_second))

PROVOKE(rdma_join_multicast_ex, CM_GROUP_ID, join(bound, at("239.1.1.1", 0)))
PROVOKE(rdma_join_multicast_ex, CM_FAMILY, join(datagrams, (struct sockaddr_in){.sin_port = 1}))
PROVOKE(rdma_join_multicast_ex, GROUP_ADDRESS, join(datagrams, at("10.99.0.1", 0)))
PROVOKE(rdma_leave_multicast, CM_FAMILY, leave(datagrams, (struct sockaddr_in){.sin_port = 1}))
PROVOKE(rdma_leave_multicast, CM_GROUP_ABSENT, leave(datagrams, at("239.1.1.1", 0)))

/* --- a process without devices --- */

static int refusal_rdma_create_event_channel_CM_NO_DEVICES(void)
{
	return rdma_create_event_channel() ? 0 : errno;
}

static int refusal_rdma_create_id_CM_NO_DEVICES(void)
{
	struct rdma_cm_id *id;

	return error_of(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
}

static int refusal_rdma_getaddrinfo_CM_NO_DEVICES(void)
{
	struct rdma_addrinfo *info;

	return error_of(rdma_getaddrinfo("10.99.0.1", NULL, NULL, &info));
}

/* --- the rows --- */

static const struct row {
	const char *call;
	const char *name;
	enum reason reason;
	int (*provoke)(void);
} rows[] = {
#define REFUSAL(call, reason) {#call, #reason, REASON_##reason, refusal_##call##_##reason},
#include "queue/refusal_cm.def"
#undef REFUSAL
};

/* Was the row refused as it says? */
static bool row_is_right(const struct row *row)
{
	char said[REASON_SENTENCE_BYTES];
	struct failure last;
	int error;

	nic_failures_forget();
	error = row->provoke();
	last = last_failure();
	reason_tell(&last, said, sizeof(said));
	if (error == reason_find(row->reason)->error && last.reason == row->reason &&
		strncmp(said, row->call, strlen(row->call)) == 0)
		return true;
	print_error("%s %s: it failed with %s; urnic said: %s\n", row->call, row->name,
		strerror(error), last.number ? said : "nothing");
	return false;
}

static bool is_without_devices(const struct row *row)
{
	return row->reason == REASON_CM_NO_DEVICES;
}

static void refused_call_names_its_reason(void **state)
{
	uint32_t wrong = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		wrong += !is_without_devices(&rows[i]) && !row_is_right(&rows[i]);
	print_message("%zu refusals\n", ARRAY_COUNT(rows));
	assert_int_equal(wrong, 0);
}

/* In a child, whose settings are its own. */
static int child_without_devices(void)
{
	int wrong = 0;

	setenv("URNIC_INTERFACES", "none", 1);
	settings_read();
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		wrong += is_without_devices(&rows[i]) && !row_is_right(&rows[i]);
	return wrong;
}

static bool is_right_without_devices(void)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(child_without_devices());
	return waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

static void event_await(enum rdma_cm_event_type type, struct rdma_cm_id **ret_id)
{
	struct rdma_cm_event *event;

	MUST(!rdma_get_cm_event(channel, &event));
	MUST(event->event == type);
	if (ret_id)
		*ret_id = event->id;
	rdma_ack_cm_event(event);
}

static struct rdma_cm_id *route_make(void)
{
	struct rdma_cm_id *id;

	MUST(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	MUST(!resolve(id, "10.99.0.1", 0, "10.99.0.1"));
	event_await(RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	MUST(!rdma_resolve_route(id, 1000));
	event_await(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	return id;
}

/* Connect to the listener, whose side rejects with `code`; the client's event has the code. */
static void connection_is_rejected(uint16_t code)
{
	struct rdma_conn_param param = {.qp_num = 7};
	struct cm_rej rej = {.reason = code};
	struct rdma_cm_id *from = route_make(), *to;
	struct rdma_cm_event *event;

	MUST(!rdma_connect(from, &param));
	event_await(RDMA_CM_EVENT_CONNECT_REQUEST, &to);
	MUST(!nic_cm_reject(&id_of(to)->conn, &rej));
	MUST(!rdma_get_cm_event(channel, &event));
	assert_int_equal(event->event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, code);
	rdma_ack_cm_event(event);
	rdma_destroy_id(from);
	id_of(to)->state = ID_OVER;
	rdma_destroy_id(to);
}

static enum reason rejected_reason(uint16_t code)
{
	switch (code) {
	case CM_REJECT_INVALID_SERVICE_ID:
		return REASON_CM_NO_LISTENER;
	case CM_REJECT_CONSUMER:
		return REASON_CM_CONSUMER;
	default:
		return REASON_CM_REJECTED;
	}
}

static void rejection_is_explained_by_its_code(void **state)
{
	static const uint16_t codes[] = {
#define CM_REJECT(name, code, sentence) code,
#include "wire/cm/cm_reject.def"
#undef CM_REJECT
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(codes); i++) {
		struct failure last;

		nic_failures_forget();
		connection_is_rejected(codes[i]);
		last = last_failure();
		if (last.reason != rejected_reason(codes[i]) ||
			!strstr(last.text, cm_reject_sentence(codes[i])))
			fail_msg("code %u: urnic said '%s'", codes[i], last.text);
	}
}

static int setup(void **state)
{
	struct rdma_conn_param param = {.qp_num = 7};

	(void)state;
	channel = rdma_create_event_channel();
	MUST(channel);
	MUST(!rdma_create_id(channel, &idle, NULL, RDMA_PS_TCP));
	MUST(!rdma_create_id(channel, &bound, NULL, RDMA_PS_TCP));
	MUST(!bind_to(bound, "10.99.0.1", 0));
	MUST(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	MUST(!bind_to(listener, "10.99.0.1", PORT) && !rdma_listen(listener, 4));
	MUST(!rdma_create_id(channel, &datagrams, NULL, RDMA_PS_UDP));
	MUST(!bind_to(datagrams, "10.99.0.1", 0));
	resolved = route_make();
	client = route_make();
	MUST(!rdma_connect(client, &param));
	event_await(RDMA_CM_EVENT_CONNECT_REQUEST, &request);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_call_names_its_reason),
		cmocka_unit_test(rejection_is_explained_by_its_code),
	};

	if (netns_enter_new() < 0)
		return 77;
	MUST(!netns_run("ip link add va type veth peer name vb && ip link add vc type veth peer "
			"name vd && ip address add 10.99.0.1/24 dev va && ip address add "
			"10.98.0.1/24 dev vc && ip link set va up && ip link set vb up && "
			"ip link set vc up && ip link set vd up"));
	unsetenv("URNIC_DEVICE_NAME");
	MUST(is_right_without_devices());
	setenv("URNIC_INTERFACES", "va", 1);
	settings_read();
	return cmocka_run_group_tests(tests, setup, NULL);
}
