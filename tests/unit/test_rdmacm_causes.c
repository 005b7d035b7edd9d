/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each row of src/queue/event_cause.def: the program gets the event with its status, and what is
 * kept for `urnic explain` names the reason and the cause. A row without a function does not
 * compile.
 *
 * cause_<name>() makes the event pending. What takes a minute, another machine or a fabric is the
 * report of a manager, which the function makes itself.
 */
#include <limits.h>
#include <netdb.h>

#include "front/rdmacm/id/event_cause.h"
#include "front/rdmacm/id/iwarp_connect.h"
#include "front/rdmacm/id/multicast.h"
#include "front/rdmacm/id/path_query.h"
#include "support/last_failure.h"
#include "support/rdmacm_ids.h"

#define RDMA_CM_EVENT_ADDRINFO_ERROR ID_EVENT_ADDRINFO_ERROR

enum { GIVEN = INT_MAX, MADE_MAX = 8 };

/* Of the row that is being tested. */
static struct rdma_cm_id *made[MADE_MAX];
static uint32_t made_count;
static int given; /* the status that the row's function expects */
static const char *words; /* that the row's function expects to be kept */

static struct rdma_cm_id *keep(struct rdma_cm_id *id)
{
	assert_true(made_count < MADE_MAX);
	return made[made_count++] = id;
}

/* --- what the managers report --- */

static void manager_reports(enum cm_event_kind kind, enum cm_state state, uint16_t code)
{
	struct cm_conn conn = {.user = id_of(keep(id_make(RDMA_PS_TCP))), .state = state};
	struct cm_event event = {.kind = kind, .conn = &conn};

	event.message.rej.reason = code;
	id_take_event(&event);
}

static void iwarp_manager_reports(enum nic_iw_event event, int error)
{
	struct nic_iw_conn conn = {.user = id_of(keep(id_make(RDMA_PS_TCP))), .error = error};

	iwarp_take_event(event, &conn);
}

/* The subnet administrator answers. The query itself fails, because there is no fabric. */
static void address_query_ends(int error)
{
	struct id *id = id_of(keep(id_make(RDMA_PS_TCP)));
	struct sockaddr_in lid_9 = address_of("100.64.0.9", 0);
	struct nic_fabric_query *query = &id->query;

	assert_int_not_equal(path_query_address(id, (struct sockaddr *)&lid_9, 1), 0);
	assert_non_null(query->on_answer);
	query->on_answer(query, error, NULL);
}

static void route_query_ends(int error)
{
	struct id *id = id_of(keep(id_make(RDMA_PS_TCP)));

	assert_int_not_equal(path_query_route(id, 1), 0);
	id->query.on_answer(&id->query, error, NULL);
}

static void join_ends(int error)
{
	struct sockaddr_in local = address_of(SECOND_ADDRESS, 0), to = address_of("239.1.0.1", 0);
	struct rdma_cm_id *id = keep(id_make(RDMA_PS_UDP));
	struct multicast_group *group;

	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&local), 0);
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&to, NULL), 0);
	expect(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	group = list_first(&id_of(id)->groups, struct multicast_group, node);
	group->query.on_answer(&group->query, error, NULL);
}

/* --- connections within this process --- */

/* A request of `active` at a listener. Returns its passive side. */
static struct rdma_cm_id *request_make(enum rdma_port_space ps, struct rdma_cm_id **ret_active)
{
	keep(id_listening(ps, loopback()));
	*ret_active = keep(id_resolved(ps, loopback()));
	ask(*ret_active);
	return keep(expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0));
}

static void connection_is_rejected(uint16_t code)
{
	struct cm_rej rej = {.reason = code};
	struct rdma_cm_id *active, *passive = request_make(RDMA_PS_TCP, &active);

	assert_int_equal(nic_cm_reject(&id_of(passive)->conn, &rej), 0);
	id_of(passive)->state = ID_OVER;
	given = code;
	words = cm_reject_sentence(code);
}

/* --- the rows --- */

static void cause_NEXT_HOP_SILENT(void)
{
	struct sockaddr_in nobody = address_of("10.99.0.77", PORT);

	assert_int_equal(
		rdma_resolve_addr(keep(id_make(RDMA_PS_TCP)), NULL, (struct sockaddr *)&nobody, 10),
		0);
}

#define AFTER(name, ...)               \
	static void cause_##name(void) \
	{                              \
		__VA_ARGS__;           \
	}

AFTER(ADDRESS_SILENT, address_query_ends(-ETIMEDOUT))
AFTER(ADDRESS_UNKNOWN, address_query_ends(-EHOSTUNREACH))
AFTER(ADDRESS_CUT_OFF, address_query_ends(-ENETDOWN))
AFTER(ADDRESS_INVALID, address_query_ends(given = -EPROTO))
AFTER(ROUTE_SILENT, route_query_ends(-ETIMEDOUT))
AFTER(ROUTE_UNKNOWN, route_query_ends(-EHOSTUNREACH))
AFTER(ROUTE_CUT_OFF, route_query_ends(-ENETDOWN))
AFTER(ROUTE_INVALID, route_query_ends(given = -EPROTO))
AFTER(GROUP_SILENT, join_ends(-ETIMEDOUT))
AFTER(GROUP_CUT_OFF, join_ends(-ENETDOWN))
AFTER(GROUP_REFUSED, join_ends(given = -EINVAL))
AFTER(REJ_NO_LISTENER, connection_is_rejected(CM_REJECT_INVALID_SERVICE_ID))
AFTER(REJ_CONSUMER, connection_is_rejected(CM_REJECT_CONSUMER))
AFTER(REJ_MANAGER, connection_is_rejected(CM_REJECT_NO_RESOURCES))
AFTER(HOST_UNREACHABLE, manager_reports(CM_EVENT_UNREACHABLE, CM_STATE_IDLE, 0))
AFTER(REQ_SILENT, manager_reports(CM_EVENT_REQ_TIMEOUT, CM_STATE_IDLE, 0))
AFTER(REP_SILENT, manager_reports(CM_EVENT_REP_TIMEOUT, CM_STATE_TIMEWAIT, 0))
AFTER(DREQ_SILENT, manager_reports(CM_EVENT_DREQ_TIMEOUT, CM_STATE_TIMEWAIT, 0))
AFTER(STREAM_REFUSED, iwarp_manager_reports(NIC_IW_FAILED, -ECONNREFUSED))
AFTER(STREAM_RESET, iwarp_manager_reports(NIC_IW_FAILED, -ECONNRESET))
AFTER(STREAM_REJECTED, iwarp_manager_reports(NIC_IW_REJECTED, 0))
AFTER(STREAM_SILENT, iwarp_manager_reports(NIC_IW_FAILED, -ETIMEDOUT))
AFTER(STREAM_NO_HOST, iwarp_manager_reports(NIC_IW_FAILED, -EHOSTUNREACH))
AFTER(STREAM_NO_NET, iwarp_manager_reports(NIC_IW_FAILED, -ENETUNREACH))
AFTER(STREAM_INVALID, iwarp_manager_reports(NIC_IW_FAILED, -EPROTO))

static void cause_STREAM_FAILED(void)
{
	words = strerror(ENOBUFS);
	iwarp_manager_reports(NIC_IW_FAILED, given = -ENOBUFS);
}

static void cause_PEER_FORGOT(void)
{
	words = cm_reject_sentence(CM_REJECT_INVALID_COMM_ID);
	manager_reports(CM_EVENT_REJ, CM_STATE_TIMEWAIT, CM_REJECT_INVALID_COMM_ID);
}

/* Each status of a SIDR_REP, one after the other; the last one stays pending. */
static void cause_SERVICE_REFUSED(void)
{
	static const struct {
		enum cm_sidr_status status;
		const char *words;
	} answers[] = {
		{CM_SIDR_UNSUPPORTED, "no program listens"},
		{CM_SIDR_NO_QP, "no queue pair to spare"},
		{CM_SIDR_REDIRECT, "redirections are not followed"},
		{CM_SIDR_UNSUPPORTED_VERSION, "does not support this version"},
		{CM_SIDR_REJECTED, "the program at the other end refused"},
	};

	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		struct cm_conn conn = {.user = id_of(keep(id_make(RDMA_PS_UDP)))};
		struct cm_event event = {.kind = CM_EVENT_SIDR_REP, .conn = &conn};

		if (words) {
			expect(RDMA_CM_EVENT_UNREACHABLE, given);
			assert_non_null(strstr(last_failure().text, words));
		}
		given = answers[i].status;
		words = answers[i].words;
		event.message.sidr_rep.status = (uint8_t)given;
		id_take_event(&event);
	}
}

static void cause_NAME_UNKNOWN(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST};

	given = EAI_NONAME;
	words = gai_strerror(EAI_NONAME);
	assert_int_equal(
		rdma_resolve_addrinfo(keep(id_make(RDMA_PS_TCP)), "no address", NULL, &hints), 0);
}

static void cause_QP_NOT_READY(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct rdma_cm_id *active, *passive;

	keep(id_listening(RDMA_PS_TCP, loopback()));
	active = keep(id_resolved(RDMA_PS_TCP, loopback()));
	qp_make(active, IBV_QPT_RC);
	assert_int_equal(ibv_modify_qp(active->qp, &attr, IBV_QP_STATE), 0);
	ask(active);
	passive = keep(expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0));
	assert_int_equal(accept_it(passive), 0);
	given = -EINVAL;
}

/* The response is here, and this side's manager ends the connection before the program takes it. */
static void cause_RTU_TOO_LATE(void)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
	const struct cm_rej rej = {.reason = CM_REJECT_TIMEOUT};
	struct rdma_cm_id *active, *passive;

	keep(id_listening(RDMA_PS_TCP, loopback()));
	active = keep(id_resolved(RDMA_PS_TCP, loopback()));
	qp_make(active, IBV_QPT_RC);
	ask(active);
	passive = keep(expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0));
	assert_int_equal(accept_it(passive), 0);
	assert_int_equal(poll(&fd, 1, TIMEOUT_MS), 1);
	assert_int_equal(nic_cm_reject(&id_of(active)->conn, &rej), 0);
	given = -EINVAL;
}

/* The queue pair of a connection over iWARP is of RoCE. */
static void cause_STREAM_NOT_TAKEN(void)
{
	struct id *id = id_of(keep(id_make(RDMA_PS_TCP)));
	struct nic_iw_conn conn = {.user = id};

	id->is_iwarp = true;
	iwarp_take_event(NIC_IW_ACCEPTED, &conn);
	given = -EINVAL;
}

/* One more group than a queue pair can be in. */
static void cause_GROUP_NOT_ATTACHED(void)
{
	struct sockaddr_in local = address_of(SECOND_ADDRESS, 0), to = address_of("239.1.0.1", 0);
	struct rdma_cm_id *id = keep(id_make(RDMA_PS_UDP));

	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&local), 0);
	qp_make(id, IBV_QPT_UD);
	for (int i = 0; i < GROUPS_MAX; i++) {
		to.sin_addr.s_addr = htonl(ntohl(to.sin_addr.s_addr) + 1);
		assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&to, NULL), 0);
	}
	given = -ENOMEM;
}

static void interface_run(const char *command)
{
	struct sockaddr_in local = address_of(SECOND_ADDRESS, 0);

	assert_int_equal(rdma_bind_addr(keep(id_make(RDMA_PS_TCP)), (struct sockaddr *)&local), 0);
	assert_int_equal(netns_run("%s", command), 0);
}

AFTER(INTERFACE_CHANGED, interface_run("ip link set va address 02:00:00:00:00:77"))
AFTER(INTERFACE_GONE, interface_run("ip link del va"))

static const struct row {
	const char *name;
	int type;
	int status;
	enum reason reason;
	const char *why;
	void (*provoke)(void);
} rows[] = {
#define EVENT_CAUSE(name, event, status, reason, why) \
	{#name, RDMA_CM_EVENT_##event, status, REASON_##reason, why, cause_##name},
#include "queue/event_cause.def"
#undef EVENT_CAUSE
};

/* Is there a failure of this reason, with these words? */
static bool is_kept(enum reason reason, const char *why)
{
	const struct failures *kept = nic_failures();

	for (int i = 0; i < FAILURES_MAX; i++)
		if (kept->list[i].number && kept->list[i].reason == reason &&
			strstr(kept->list[i].text, why))
			return true;
	return false;
}

static void row_test(const struct row *row)
{
	struct rdma_cm_event *event;

	nic_failures_forget();
	given = row->status;
	words = NULL;
	row->provoke();
	while ((event = next(false))->event != (enum rdma_cm_event_type)row->type)
		rdma_ack_cm_event(event);
	if (event->status != (row->status == GIVEN ? given : row->status))
		fail_msg("%s: the status is %d", row->name, event->status);
	rdma_ack_cm_event(event);
	if (!is_kept(row->reason, row->why ? row->why : words))
		fail_msg("%s: urnic kept '%s'", row->name, last_failure().text);
	while (made_count > 0)
		rdma_destroy_ep(made[--made_count]);
}

static void event_with_an_error_names_its_cause(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		row_test(&rows[i]);
	print_message("%zu causes\n", sizeof(rows) / sizeof(*rows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(event_with_an_error_names_its_cause),
	};

	return rdmacm_begin() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
