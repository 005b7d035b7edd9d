/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/nic_fabric_query.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/arith.h"
#include "fabricd/client/fabric_client.h"
#include "nic/nic_fabric.h"
#include "nic/nic_internal.h"
#include "os/clock.h"
#include "os/kick.h"
#include "os/own_thread.h"
#include "wire/bytes.h"
#include "wire/infiniband/mad.h"
#include "wire/infiniband/rmpp.h"
#include "wire/infiniband/sa_record.h"

enum {
	REPEAT_MS = 200, /* after this time the fabric's process repeats a query */
	/*
	 * How long to wait beyond a query's timeout. The fabric's process answers before that,
	 * unless it could not take the query.
	 */
	SLACK_NS = 1000000000,
	NS_PER_MS = 1000000,
	/* Offset in a MAD of the part of the transaction ID that the sender chooses */
	MAD_TRANSACTION = 12,
};

/* `query_lock` guards all of these. */
static pthread_mutex_t query_lock = PTHREAD_MUTEX_INITIALIZER;
/* The queries without an answer (struct nic_fabric_query) */
static struct list queries = {&queries, &queries};
static uint32_t transaction_last;
static bool is_running; /* the thread runs */
static int kick;
static struct sa_socket {
	bool is_open;
	int fd;
	uint32_t agent;
} sockets[PORT_IB_PORTS_MAX + 1]; /* indexed by port number */

/* --- answers --- */

static void query_end(struct nic_fabric_query *query, int error, const uint8_t *record)
{
	list_remove(&query->link);
	query->on_answer(query, error, record);
}

static struct nic_fabric_query *query_find(uint32_t port, uint32_t transaction)
{
	list_for_each(query, &queries, struct nic_fabric_query, link)
		if (query->port == port && query->transaction == transaction)
			return query;
	return NULL;
}

/* What an answer says. Returns 0 or -errno. */
static int answer_error(const struct attach_mad *head, const uint8_t mad[MAD_BYTES])
{
	struct mad_header header;

	if (head->status)
		return -(int)head->status;
	mad_header_decode(&header, mad);
	if (head->mad_bytes < MAD_BYTES || header.management_class != MAD_CLASS_SUBN_ADM ||
		header.method != MAD_METHOD_GET_RESP)
		return -EPROTO;
	if (!header.status)
		return 0;
	return header.attribute_id == SA_ATTRIBUTE_PATH ? -EHOSTUNREACH : -EINVAL;
}

/* The fabric's process has ended: close the port's socket, and end its queries. */
static void socket_end(uint32_t port)
{
	close(sockets[port].fd);
	sockets[port].is_open = false;
	list_for_each_safe(query, &queries, struct nic_fabric_query, link)
		if (query->port == port)
			query_end(query, -ENETDOWN, NULL);
}

static void answers_take(uint32_t port)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct attach_mad head;
	int error;

	while ((error = fabric_mads_receive(sockets[port].fd, &head, mad, sizeof(mad))) == 0) {
		struct nic_fabric_query *query = query_find(port, get_be32(mad + MAD_TRANSACTION));

		if (query)
			query_end(query, answer_error(&head, mad), mad + SA_DATA_OFFSET);
	}
	if (error != -EAGAIN)
		socket_end(port);
}

/* End the queries whose time is over. Returns when to call this function again. */
static uint64_t queries_expire(uint64_t now_ns)
{
	uint64_t until_ns = UINT64_MAX;

	list_for_each_safe(query, &queries, struct nic_fabric_query, link) {
		if (query->until_ns <= now_ns)
			query_end(query, -ETIMEDOUT, NULL);
		else
			until_ns = min_u64(until_ns, query->until_ns);
	}
	return until_ns;
}

static void *queries_main(void *unused)
{
	struct pollfd fds[PORT_IB_PORTS_MAX + 1];
	uint64_t until_ns;

	(void)unused;
	own_thread_wake();
	for (;;) {
		pthread_mutex_lock(&query_lock);
		fds[0] = (struct pollfd){.fd = kick, .events = POLLIN};
		for (uint32_t port = 1; port <= PORT_IB_PORTS_MAX; port++) {
			if (sockets[port].is_open)
				answers_take(port);
			fds[port] =
				(struct pollfd){.fd = sockets[port].is_open ? sockets[port].fd : -1,
					.events = POLLIN};
		}
		until_ns = queries_expire(clock_now_ns());
		pthread_mutex_unlock(&query_lock);
		own_thread_poll(fds, ARRAY_COUNT(fds), clock_ms_until(until_ns));
		kick_clear(kick);
	}
	return NULL;
}

/* --- queries; `query_lock` is locked --- */

static int thread_start(void)
{
	int error;

	if (is_running)
		return 0;
	kick = kick_create("no queries to the subnet administrator");
	if (kick < 0)
		return kick;
	error = own_thread_start(NULL, "urnic-sa", queries_main, NULL);
	if (error)
		close(kick);
	is_running = !error;
	return error;
}

static int socket_open(uint32_t port)
{
	struct attach_agent agent = {
		.port = port,
		.management_class = MAD_CLASS_SUBN_ADM,
		.class_version = SA_CLASS_VERSION,
		.qpn = GSI_QPN,
	};
	uint32_t opening;
	int error, fd;

	if (sockets[port].is_open)
		return 0;
	fd = fabric_mads_open(nic_fabric_client(), port, &opening);
	if (fd < 0)
		return fd;
	error = fabric_mads_agent_add(nic_fabric_client(), opening, &agent);
	if (error)
		close(fd);
	else
		sockets[port] = (struct sa_socket){.is_open = true, .fd = fd, .agent = agent.id};
	return error;
}

/* Fill in the fields that all queries have in common. */
static void mad_begin(uint8_t mad[MAD_BYTES], enum mad_method method, enum sa_attribute attribute,
	uint64_t component_mask)
{
	const struct sa_header sa = {.component_mask = component_mask};
	const struct mad_header header = {.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_SUBN_ADM,
		.class_version = SA_CLASS_VERSION,
		.method = (uint8_t)method,
		.attribute_id = (uint16_t)attribute};

	mad_header_encode(&header, mad);
	sa_header_encode(&sa, mad);
}

static int query_send(struct nic_fabric_query *query, const struct attach_port *info,
	uint32_t timeout_ms, uint8_t mad[MAD_BYTES])
{
	const uint32_t sends = max_u32(timeout_ms / REPEAT_MS, 1);
	struct attach_mad head = {
		.timeout_ms = max_u32(timeout_ms / sends, 1),
		.retries = sends - 1,
		.mad_bytes = MAD_BYTES,
		.qpn = GSI_QPN,
		.qkey = GSI_QKEY,
		.lid = info->sm_lid,
		.sl = info->sm_sl,
	};
	int error = thread_start();

	if (!error)
		error = socket_open(query->port);
	if (error)
		return error;
	if (!transaction_last)
		transaction_last = (uint32_t)nic_random_u64();
	query->transaction = ++transaction_last;
	put_be32(mad + MAD_TRANSACTION, query->transaction);
	head.agent = sockets[query->port].agent;
	error = fabric_mads_send(sockets[query->port].fd, &head, mad);
	if (error)
		return error;
	query->until_ns = clock_now_ns() + (uint64_t)timeout_ms * NS_PER_MS + SLACK_NS;
	list_append(&queries, &query->link);
	kick_raise(kick);
	return 0;
}

static int query_begin(struct nic_fabric_query *query, uint32_t port,
	const struct attach_port *info, uint32_t timeout_ms, uint8_t mad[MAD_BYTES])
{
	int error;

	pthread_mutex_lock(&query_lock);
	query->port = port;
	error = query_send(query, info, timeout_ms, mad);
	pthread_mutex_unlock(&query_lock);
	return error;
}

/* The port's state and its first GID. Returns 0 or -errno. */
static int port_read(uint32_t port, struct attach_port *ret_info, struct gid *ret_gid)
{
	int error = port > PORT_IB_PORTS_MAX ? -EINVAL : nic_fabric_port(port, ret_info);

	if (error)
		return error;
	return ret_info->sm_lid && nic_fabric_gid(ret_info, 0, ret_gid) ? 0 : -ENETUNREACH;
}

int nic_fabric_query_path(struct nic_fabric_query *query, uint32_t port, const struct gid *dgid,
	uint16_t dlid, uint32_t timeout_ms)
{
	struct sa_path wanted = {.dlid = dlid, .is_reversible = 1, .path_count = 1};
	uint8_t mad[MAD_BYTES] = {0};
	struct attach_port info;
	struct gid own;
	int error = port_read(port, &info, &own);

	if (error)
		return error;
	memcpy(wanted.sgid, own.raw, sizeof(wanted.sgid));
	if (dgid)
		memcpy(wanted.dgid, dgid->raw, sizeof(wanted.dgid));
	mad_begin(mad, MAD_METHOD_GET, SA_ATTRIBUTE_PATH,
		sa_mask_path_sgid | sa_mask_path_is_reversible | sa_mask_path_path_count |
			(dgid ? sa_mask_path_dgid : sa_mask_path_dlid));
	sa_path_encode(&wanted, mad + SA_DATA_OFFSET);
	return query_begin(query, port, &info, timeout_ms, mad);
}

int nic_fabric_query_join(struct nic_fabric_query *query, uint32_t port, const struct gid *mgid,
	uint8_t join_state, uint16_t pkey, uint32_t qkey, uint32_t timeout_ms)
{
	struct sa_mc_member wanted = {.join_state = join_state, .pkey = pkey, .qkey = qkey};
	uint8_t mad[MAD_BYTES] = {0};
	struct attach_port info;
	struct gid own;
	int error = port_read(port, &info, &own);

	if (error)
		return error;
	memcpy(wanted.mgid, mgid->raw, sizeof(wanted.mgid));
	memcpy(wanted.port_gid, own.raw, sizeof(wanted.port_gid));
	mad_begin(mad, MAD_METHOD_SET, SA_ATTRIBUTE_MC_MEMBER,
		sa_mask_mc_member_mgid | sa_mask_mc_member_port_gid | sa_mask_mc_member_join_state |
			sa_mask_mc_member_qkey | sa_mask_mc_member_pkey | sa_mask_mc_member_sl |
			sa_mask_mc_member_flow_label | sa_mask_mc_member_traffic_class);
	sa_mc_member_encode(&wanted, mad + SA_DATA_OFFSET);
	return query_begin(query, port, &info, timeout_ms, mad);
}

int nic_fabric_group_hold(uint32_t port, const struct gid *mgid, uint8_t join_state)
{
	struct fabric_client *client = nic_fabric_client();

	return client ? fabric_client_group_hold(client, port, mgid, join_state) : -ENODEV;
}

void nic_fabric_group_leave(uint32_t port, const struct gid *mgid, uint8_t join_state)
{
	struct fabric_client *client = nic_fabric_client();

	if (client)
		fabric_client_group_release(client, port, mgid, join_state);
}

void nic_fabric_query_forget(struct nic_fabric_query *query)
{
	pthread_mutex_lock(&query_lock);
	if (list_is_linked(&query->link))
		list_remove(&query->link);
	pthread_mutex_unlock(&query_lock);
}

/* --- fork --- */

void nic_fabric_query_fork_prepare(void)
{
	pthread_mutex_lock(&query_lock);
}

void nic_fabric_query_fork_parent(void)
{
	pthread_mutex_unlock(&query_lock);
}

void nic_fabric_query_fork_child(void)
{
	while (!list_is_empty(&queries))
		list_remove(&list_first(&queries, struct nic_fabric_query, link)->link);
	for (uint32_t port = 1; port <= PORT_IB_PORTS_MAX; port++)
		if (sockets[port].is_open)
			close(sockets[port].fd);
	memset(sockets, 0, sizeof(sockets));
	if (is_running)
		close(kick);
	is_running = false;
	transaction_last = 0;
}
