/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identifiers: their creation, their events, and their end. request.c completes the identifiers of
 * requests.
 */
#include "front/rdmacm/id/id.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arith.h"
#include "front/rdmacm/address.h"
#include "front/rdmacm/device.h"
#include "front/rdmacm/id/event_cause.h"
#include "front/rdmacm/id/iwarp_connect.h"
#include "front/rdmacm/id/multicast.h"
#include "front/rdmacm/id/resolver.h"
#include "front/rdmacm/id/user_event.h"
#include "front/rdmacm/id/watch.h"

pthread_mutex_t id_lock = PTHREAD_MUTEX_INITIALIZER;

static void fork_prepare(void)
{
	nic_fabric_query_fork_prepare();
	pthread_mutex_lock(&resolver_lock);
	pthread_mutex_lock(&watch_lock);
	pthread_mutex_lock(&id_lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&id_lock);
	pthread_mutex_unlock(&watch_lock);
	pthread_mutex_unlock(&resolver_lock);
	nic_fabric_query_fork_parent();
}

static void fork_child(void)
{
	watch_fork_child();
	resolver_fork_child();
	fork_parent();
}

static const struct nic_cm_user manager_user = {
	.on_event = id_take_event,
	.fork_prepare = fork_prepare,
	.fork_parent = fork_parent,
	.fork_child = fork_child,
};

/* Start the services that all identifiers need. Returns 0 or -errno. */
static int services_start(void)
{
	int count = devices_refresh(), rc;

	if (count < 0)
		return count;
	if (count == 0)
		return -id_cause(REASON_CM_NO_DEVICES);
	rc = nic_cm_start(be64toh(ibv_get_device_guid(device_at(0)->verbs)), &manager_user);
	if (rc == 0)
		watch_start();
	return rc;
}

static void id_free(struct id *id)
{
	pthread_mutex_destroy(&id->mutex);
	pthread_cond_destroy(&id->cond);
	free(id->id.route.path_rec);
	rdma_freeaddrinfo(id->addrinfo);
	free(id->connect_data);
	free(id->qp_init);
	free(id);
}

void id_unref(struct id *id)
{
	bool is_last;

	pthread_mutex_lock(&id_lock);
	is_last = --id->references == 0;
	pthread_mutex_unlock(&id_lock);
	if (is_last)
		id_free(id);
}

struct id *id_alloc(
	struct channel *channel, enum rdma_port_space ps, enum ibv_qp_type qp_type, void *context)
{
	struct id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->id.channel = channel ? &channel->public : NULL;
	id->id.ps = ps;
	id->id.qp_type = qp_type;
	id->id.context = context;
	id->references = 1;
	id->epoch = nic_cm_epoch();
	id->ack_timeout = ID_ACK_TIMEOUT;
	pthread_mutex_init(&id->mutex, NULL);
	pthread_cond_init(&id->cond, NULL);
	list_init(&id->requests);
	list_init(&id->in_requests);
	list_init(&id->in_ids);
	list_init(&id->in_bucket);
	list_init(&id->in_resolving);
	list_init(&id->query.link);
	list_init(&id->groups);
	list_init(&id->user_events);
	list_init(&id->listener.node);
	list_init(&id->iw_spares);
	list_init(&id->iw.node);
	list_init(&id->iw_listener.node);
	for (unsigned i = 0; i < ID_EVENT_COUNT; i++) {
		event_init(&id->events[i].event);
		id->events[i].id = id;
		id->events[i].type = (enum rdma_cm_event_type)i;
	}
	return id;
}

/* Create an identifier with a connection of the manager. NULL with errno on failure. */
static struct id *id_create(
	struct channel *channel, enum rdma_port_space ps, enum ibv_qp_type qp_type, void *context)
{
	struct id *id;
	int rc = services_start();

	if (rc) {
		errno = -rc;
		return NULL;
	}
	id = id_alloc(channel, ps, qp_type, context);
	if (!id)
		return NULL;
	rc = nic_cm_conn_create(&id->conn, id);
	if (rc) {
		id_free(id);
		errno = -rc;
		return NULL;
	}
	id->has_conn = true;
	id->references = 2; /* one of the program, one of the connection manager */
	return id;
}

int rdma_create_id(struct rdma_event_channel *public, struct rdma_cm_id **ret_id, void *context,
	enum rdma_port_space ps)
{
	struct channel *channel =
		public ? container_of(public, struct channel, public) : channel_create();
	struct id *id;

	if (!channel)
		return fail_errno(errno);
	id = id_create(channel, ps,
		ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC, context);
	if (!id) {
		if (!public)
			channel_destroy(channel);
		return fail_errno(errno);
	}
	id->is_sync = !public;
	watch_add(id);
	*ret_id = &id->id;
	return 0;
}

/* --- events --- */

static struct channel *channel_of(const struct id *id)
{
	return container_of(id->id.channel, struct channel, public);
}

/* The caller has locked id_lock. */
static bool is_before_accept(const struct id *id, const struct id_event *event)
{
	return id->listen && !id->is_accepted && !event->user &&
		event->type != RDMA_CM_EVENT_CONNECT_REQUEST;
}

/* The channel of a request is its listener's until the program has taken the request. */
void id_post_locked(struct id *id, struct id_event *event, int status)
{
	if (is_before_accept(id, event))
		return;
	event->status = status;
	if (id->id.channel)
		event_queue_post(&channel_of(id)->queue, &event->event);
}

void id_post_event(struct id *id, struct id_event *event, int status)
{
	pthread_mutex_lock(&id_lock);
	id_post_locked(id, event, status);
	pthread_mutex_unlock(&id_lock);
}

void id_post(struct id *id, enum rdma_cm_event_type type, int status)
{
	id_post_event(id, &id->events[type], status);
}

void id_forget_event(struct id *id, struct id_event *event)
{
	pthread_mutex_lock(&id_lock);
	if (id->id.channel)
		event_queue_forget(&channel_of(id)->queue, &event->event);
	pthread_mutex_unlock(&id_lock);
}

void id_set_accepted(struct id *id, bool is_accepted)
{
	pthread_mutex_lock(&id_lock);
	id->is_accepted = is_accepted;
	if (!is_accepted && id->id.channel)
		for (unsigned i = 0; i < ID_EVENT_COUNT; i++)
			event_queue_forget(&channel_of(id)->queue, &id->events[i].event);
	pthread_mutex_unlock(&id_lock);
}

void id_request(struct id *id, struct id *listen, uint32_t *missing)
{
	id->listen = listen;
	id->state = ID_REQUESTED;
	pthread_mutex_lock(&id_lock);
	++*missing;
	id->id.channel = listen->id.channel;
	list_append(&listen->requests, &id->in_requests);
	pthread_mutex_unlock(&id_lock);
	id_post(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
}

static void on_request(const struct cm_event *event)
{
	struct id *id = event->conn->user;
	struct id *listen = event->listener->user;

	id->request = event->message;
	id->path = event->conn->path;
	id_request(id, listen, &listen->spares_missing);
}

/* The peer has accepted: agree on the lower of the two sides' numbers of READs and atomics. */
static void agreement_make(struct id *id, const struct cm_rep *rep)
{
	struct id_agreement *agreement = &id->agreement;

	agreement->remote_qpn = rep->local_qpn;
	agreement->sq_psn = rep->starting_psn;
	agreement->responder_resources =
		(uint8_t)min_u32(agreement->responder_resources, rep->initiator_depth);
	agreement->initiator_depth =
		(uint8_t)min_u32(agreement->initiator_depth, rep->responder_resources);
	agreement->rnr_retry_count = rep->rnr_retry_count;
}

static const char *sidr_sentence(uint8_t status)
{
	switch (status) {
	case CM_SIDR_UNSUPPORTED:
		return "no program listens on this port there";
	case CM_SIDR_REJECTED:
		return "the program at the other end refused";
	case CM_SIDR_NO_QP:
		return "the peer has no queue pair to spare";
	case CM_SIDR_REDIRECT:
		return "the service is at another port, and redirections are not followed";
	case CM_SIDR_UNSUPPORTED_VERSION:
		return "the peer does not support this version of the service";
	default:
		return "the status of the peer's answer is unknown";
	}
}

static void on_sidr_answer(struct id *id, const struct cm_sidr_rep *rep)
{
	if (rep->status == CM_SIDR_SUCCESS) {
		id->agreement.remote_qpn = rep->qpn;
		id->agreement.remote_qkey = rep->qkey;
		id_post(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	} else {
		id_fail(id, CAUSE_SERVICE_REFUSED, rep->status, sidr_sentence(rep->status));
	}
}

/* The address of the client that has sent the request `id`. It does not change. */
static void requester_address(const struct id *id, struct sockaddr_storage *ret_address)
{
	const struct gid *gid = id->is_iwarp ? &id->iw.remote.gid : &id->conn.path.remote;

	address_make(ret_address, gid, 0, id->path.ifindex);
}

void id_report_failure(const struct id *id, enum reason reason, const char *why)
{
	const struct sockaddr *to = &id->id.route.addr.dst_addr;
	char text[INET6_ADDRSTRLEN] = "?", port[16] = "";
	struct sockaddr_storage requester;

	if (id->listen) {
		requester_address(id, &requester);
		to = (struct sockaddr *)&requester;
	} else if (address_bytes(to) == 0) {
		to = &id->id.route.addr.src_addr;
	}
	getnameinfo(to, address_bytes(to), text, sizeof(text), NULL, 0, NI_NUMERICHOST);
	if (address_port(to))
		snprintf(port, sizeof(port), " port %u", address_port(to));
	nic_failure_call(reason, 0, "%s%s: %s", text, port, why);
}

static void on_reject(const struct cm_event *event)
{
	uint16_t code = event->message.rej.reason;
	/* The connection was established, but the peer no longer knows it. */
	bool is_forgotten =
		event->conn->state == CM_STATE_TIMEWAIT && code != CM_REJECT_STALE_CONNECTION;

	id_fail(event->conn->user, is_forgotten ? CAUSE_PEER_FORGOT : event_cause_of_reject(code),
		code, cm_reject_sentence(code));
}

void id_take_event(const struct cm_event *event)
{
	struct id *id = event->conn->user;

	switch (event->kind) {
	case CM_EVENT_REQ:
	case CM_EVENT_SIDR_REQ:
		on_request(event);
		break;
	case CM_EVENT_REP:
		id->response = event->message;
		agreement_make(id, &event->message.rep);
		id_post(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
		break;
	case CM_EVENT_ESTABLISHED:
		id_post(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		break;
	case CM_EVENT_REJ:
		id->response = event->message;
		on_reject(event);
		break;
	case CM_EVENT_DREQ:
	case CM_EVENT_DREP:
		id_post(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	case CM_EVENT_DREQ_TIMEOUT:
		id_fail(id, CAUSE_DREQ_SILENT, 0, NULL);
		break;
	case CM_EVENT_TIMEWAIT_EXIT:
		id_post(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		break;
	case CM_EVENT_SIDR_REP:
		id->response = event->message;
		on_sidr_answer(id, &event->message.sidr_rep);
		break;
	case CM_EVENT_UNREACHABLE:
		id_fail(id, CAUSE_HOST_UNREACHABLE, 0, NULL);
		break;
	case CM_EVENT_REQ_TIMEOUT:
		id_fail(id, CAUSE_REQ_SILENT, 0, NULL);
		break;
	case CM_EVENT_REP_TIMEOUT:
		id_fail(id, CAUSE_REP_SILENT, 0, NULL);
		break;
	case CM_EVENT_RELEASED:
		id_unref(id);
		break;
	}
}

void id_ack_event(struct id *id)
{
	if (id->id.event)
		rdma_ack_cm_event(id->id.event);
	id->id.event = NULL;
}

int id_complete(struct id *id)
{
	int status;

	if (!id->is_sync)
		return 0;
	id_ack_event(id);
	if (rdma_get_cm_event(id->id.channel, &id->id.event))
		return -1;
	status = id->id.event->status;
	if (status == 0)
		return 0;
	if (id->id.event->event == RDMA_CM_EVENT_REJECTED)
		return fail_quietly(ECONNREFUSED);
	return fail_quietly(status < 0 ? -status : EIO);
}

/* --- requests in reserve --- */

int id_add_spare(struct id *listen)
{
	struct id *spare = id_alloc(NULL, listen->id.ps, listen->id.qp_type, listen->id.context);
	int rc;

	if (!spare)
		return -id_cause(REASON_NO_MEMORY);
	rc = nic_cm_conn_create(&spare->conn, spare);
	if (rc) {
		id_free(spare);
		return rc;
	}
	/*
	 * id_alloc() has counted one reference, which is that of the connection manager.
	 * id_open_request() adds the program's.
	 */
	spare->has_conn = true;
	nic_cm_listener_add(&listen->listener, &spare->conn);
	return 0;
}

static bool missing_take(uint32_t *missing)
{
	bool is_missing;

	pthread_mutex_lock(&id_lock);
	is_missing = *missing > 0;
	*missing -= is_missing;
	pthread_mutex_unlock(&id_lock);
	return is_missing;
}

void id_replace_spares(struct id *listen, uint32_t *missing, int (*add)(struct id *listen))
{
	while (missing_take(missing)) {
		if (add(listen) == 0)
			continue;
		pthread_mutex_lock(&id_lock);
		++*missing;
		pthread_mutex_unlock(&id_lock);
		return;
	}
}

/* --- the end --- */

/* Drop the listener's requests that the program has not taken. */
static void drop_requests(struct id *listen)
{
	for (;;) {
		struct id *request = NULL;

		pthread_mutex_lock(&id_lock);
		if (!list_is_empty(&listen->requests)) {
			request = list_first(&listen->requests, struct id, in_requests);
			list_remove(&request->in_requests);
		}
		pthread_mutex_unlock(&id_lock);
		if (!request)
			return;
		for (unsigned i = 0; i < ID_EVENT_COUNT; i++)
			event_queue_forget(&channel_of(listen)->queue, &request->events[i].event);
		pthread_mutex_lock(&id_lock);
		request->id.channel = NULL;
		pthread_mutex_unlock(&id_lock);
		nic_iwcm_close(&request->iw);
		if (request->has_conn)
			nic_cm_release(&request->conn);
		else
			id_unref(request);
	}
}

static void forget_events(struct id *id)
{
	struct rdma_event_channel *channel;

	pthread_mutex_lock(&id_lock);
	channel = id->id.channel;
	for (unsigned i = 0; channel && i < ID_EVENT_COUNT; i++)
		event_queue_forget(&channel_of(id)->queue, &id->events[i].event);
	if (channel)
		user_events_forget(id, &channel_of(id)->queue);
	id->id.channel = NULL;
	pthread_mutex_unlock(&id_lock);
	if (id->is_sync && channel)
		channel_destroy(container_of(channel, struct channel, public));
}

static void wait_for_acks(struct id *id)
{
	pthread_mutex_lock(&id->mutex);
	while (id->events_acked != id->events_taken)
		pthread_cond_wait(&id->cond, &id->mutex);
	pthread_mutex_unlock(&id->mutex);
}

int rdma_destroy_id(struct rdma_cm_id *public)
{
	struct id *id = id_find(public);

	if (!id)
		return fail_errno(errno);
	watch_remove(id);
	resolver_forget(id);
	/*
	 * If this process inherited the identifier by fork(), the connection belongs to the parent.
	 */
	if (id->epoch != nic_cm_epoch()) {
		forget_events(id);
		id_free(id);
		return 0;
	}
	if (id->state == ID_LISTENING) {
		if (id->listener.user)
			nic_cm_unlisten(&id->listener);
		iwarp_unlisten(id);
		drop_requests(id);
	}
	nic_iwcm_close(&id->iw);
	nic_cm_unclaim(&id->claim);
	id_ack_event(id);
	if (id->has_conn)
		nic_cm_release(&id->conn);
	while (!list_is_empty(&id->groups))
		group_leave(list_first(&id->groups, struct multicast_group, node));
	forget_events(id);
	wait_for_acks(id);
	id_unref(id);
	return 0;
}

void id_move_event(struct event *event, struct event_queue *from, struct event_queue *to)
{
	if (event->waiting == 0)
		return;
	event_queue_forget(from, event);
	event_queue_post(to, event);
}

int rdma_migrate_id(struct rdma_cm_id *public, struct rdma_event_channel *to)
{
	struct id *id = id_find(public);
	struct channel *channel;
	struct rdma_event_channel *before;

	if (!id)
		return fail_errno(errno);
	channel = to ? container_of(to, struct channel, public) : channel_create();
	if (!channel)
		return -1;
	id_ack_event(id);
	pthread_mutex_lock(&id_lock);
	before = id->id.channel;
	for (unsigned i = 0; i < ID_EVENT_COUNT; i++)
		id_move_event(&id->events[i].event, &channel_of(id)->queue, &channel->queue);
	list_for_each(group, &id->groups, struct multicast_group, node)
		id_move_event(&group->event.event, &channel_of(id)->queue, &channel->queue);
	user_events_move(id, &channel_of(id)->queue, &channel->queue);
	id->id.channel = &channel->public;
	pthread_mutex_unlock(&id_lock);
	if (id->is_sync && before)
		channel_destroy(container_of(before, struct channel, public));
	id->is_sync = !to;
	wait_for_acks(id);
	return 0;
}
