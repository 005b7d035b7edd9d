/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels, and what happens when the program takes an event. For example, the thread that
 * takes the event of an accepted connection brings up the queue pair.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arith.h"
#include "front/rdmacm/device.h"
#include "front/rdmacm/id/event_cause.h"
#include "front/rdmacm/id/iwarp_connect.h"
#include "front/rdmacm/id/multicast.h"
#include "front/rdmacm/id/user_event.h"
#include "os/clock.h"

/* How long rdma_destroy_event_channel() waits for a thread to take the next event. */
#define RETURN_NS 20000000

enum { RETURN_POLL_US = 100 };

/* An event that the program has taken and not acknowledged. */
struct held {
	struct rdma_cm_event public; /* first, because programs hold its address */
	struct id *owner; /* rdma_destroy_id() waits until the event is acknowledged */
	uint8_t private_data[256];
	/* The group of a multicast event; NULL for others. Used only while the event is taken */
	struct multicast_group *group;
	/* The program's event, from rdma_write_cm_event(). Used only while the event is taken */
	struct user_event *user;
};

static struct channel *channel_of(struct rdma_event_channel *public)
{
	return container_of(public, struct channel, public);
}

struct channel *channel_create(void)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	int rc;

	if (!channel)
		return NULL;
	rc = event_queue_init(&channel->queue);
	if (rc) {
		free(channel);
		errno = -rc;
		return NULL;
	}
	channel->public.fd = channel->queue.fd;
	return channel;
}

/*
 * Is a thread in rdma_get_cm_event(), or about to call it? The thread that took the last event
 * (`taker`) may have acknowledged the event, and may not have called again yet. If the channel were
 * destroyed now, that call would find a closed descriptor, and the program would report an error.
 * So wait a moment for the call.
 */
static bool channel_has_reader(struct channel *channel)
{
	pid_t taker = atomic_load(&channel->taker);
	uint64_t until_ns = clock_now_ns() + RETURN_NS;

	while (!atomic_load(&channel->readers)) {
		if (!taker || taker == gettid() || tgkill(getpid(), taker, 0) < 0 ||
			event_queue_is_blocking(&channel->queue) != 1 || clock_now_ns() >= until_ns)
			return false;
		usleep(RETURN_POLL_US);
	}
	return true;
}

void channel_destroy(struct channel *channel)
{
	if (!channel)
		return;
	/*
	 * Programs (rping) destroy a channel while a thread waits for its events, and expect that
	 * thread to wait until the process ends. With the kernel's rdma_cm the thread does so,
	 * because the kernel keeps a closed file until the call returns. So do not free the
	 * channel, and leave both descriptors of its queue open. The thread reads them again after
	 * a signal, or if event_queue_forget() has removed the event that woke the thread.
	 */
	if (channel_has_reader(channel))
		return;
	event_queue_done(&channel->queue);
	free(channel);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel;
	int count = devices_refresh();

	if (count <= 0) {
		fail_errno(count < 0 ? -count : id_cause(REASON_CM_NO_DEVICES));
		return NULL;
	}
	channel = channel_create();
	if (!channel) {
		fail_errno(errno);
		return NULL;
	}
	return &channel->public;
}

void rdma_destroy_event_channel(struct rdma_event_channel *public)
{
	if (public)
		channel_destroy(channel_of(public));
}

/* --- the contents of an event --- */

static void held_set_data(struct held *held, const void **ret_data, uint8_t *ret_bytes,
	const uint8_t *data, size_t bytes)
{
	memcpy(held->private_data, data, bytes);
	*ret_data = held->private_data;
	*ret_bytes = (uint8_t)bytes;
}

static void report_req(struct held *held, const struct cm_req *req)
{
	struct rdma_conn_param *conn = &held->public.param.conn;

	held_set_data(held, &conn->private_data, &conn->private_data_len,
		req->private_data + IP_CM_HEADER_BYTES, IP_CM_REQ_DATA_BYTES);
	conn->responder_resources = req->initiator_depth;
	conn->initiator_depth = req->responder_resources;
	conn->flow_control = req->has_flow_control;
	conn->retry_count = req->retry_count;
	conn->rnr_retry_count = req->rnr_retry_count;
	conn->srq = req->has_srq;
	conn->qp_num = req->local_qpn;
}

static void report_sidr_req(struct held *held, const struct cm_sidr_req *req)
{
	struct rdma_ud_param *ud = &held->public.param.ud;

	held_set_data(held, &ud->private_data, &ud->private_data_len,
		req->private_data + IP_CM_HEADER_BYTES, IP_CM_SIDR_DATA_BYTES);
}

static void report_rep(struct held *held, const struct cm_rep *rep)
{
	struct rdma_conn_param *conn = &held->public.param.conn;

	held_set_data(held, &conn->private_data, &conn->private_data_len, rep->private_data,
		sizeof(rep->private_data));
	conn->responder_resources = rep->initiator_depth;
	conn->initiator_depth = rep->responder_resources;
	conn->flow_control = rep->has_flow_control;
	conn->rnr_retry_count = rep->rnr_retry_count;
	conn->srq = rep->has_srq;
	conn->qp_num = rep->local_qpn;
}

static void report_sidr_rep(struct held *held, const struct cm_sidr_rep *rep, const struct id *id)
{
	struct rdma_ud_param *ud = &held->public.param.ud;

	held_set_data(held, &ud->private_data, &ud->private_data_len, rep->private_data,
		sizeof(rep->private_data));
	ud->qp_num = rep->qpn;
	ud->qkey = rep->qkey;
	ud->ah_attr = id_address_vector(id, &id->path.remote);
}

static void report_response(struct held *held, struct id *id)
{
	if (id->is_iwarp) {
		if (id->iw.mpa.is_active)
			iwarp_report(id, &held->public.param.conn, held->private_data);
		return;
	}
	switch (id->response.attribute) {
	case CM_REP:
		report_rep(held, &id->response.rep);
		break;
	case CM_SIDR_REP:
		report_sidr_rep(held, &id->response.sidr_rep, id);
		break;
	case CM_REJ:
		held_set_data(held, &held->public.param.conn.private_data,
			&held->public.param.conn.private_data_len, id->response.rej.private_data,
			sizeof(id->response.rej.private_data));
		break;
	case CM_REQ:
	case CM_MRA:
	case CM_RTU:
	case CM_DREQ:
	case CM_DREP:
	case CM_SIDR_REQ:
	case CM_LAP:
	case CM_APR:
		break;
	}
}

/* --- what an event does --- */

/*
 * Give the program the identifier of a request. Returns false when that fails; the program then
 * does not see the request, and the peer is rejected. Only the log has the reason.
 */
static bool take_request(struct held *held, struct id *id)
{
	struct id *listen = id->listen;
	int rc = id->is_iwarp ? iwarp_open_request(id) : id_open_request(id);

	if (rc) {
		nic_failure_end("rdma_get_cm_event (a connection request)", -rc);
		rdma_destroy_id(&id->id);
		return false;
	}
	id_replace_spares(listen, &listen->spares_missing, id_add_spare);
	id_replace_spares(listen, &listen->iw_spares_missing, iwarp_add_spare);
	held->owner = listen;
	held->public.listen_id = &listen->id;
	held->public.id = &id->id;
	if (id->is_iwarp)
		iwarp_report(id, &held->public.param.conn, held->private_data);
	else if (id->request.attribute == CM_REQ)
		report_req(held, &id->request.req);
	else
		report_sidr_req(held, &id->request.sidr_req);
	if (listen->is_sync && rdma_migrate_id(&id->id, NULL)) {
		rdma_destroy_id(&id->id);
		return false;
	}
	return true;
}

/*
 * The peer has accepted. Over iWARP, the peer's reply is the last message. Over RoCE, if the
 * identifier has a queue pair, move the queue pair to RTS and send the RTU. If the identifier has
 * no queue pair, the program later calls rdma_establish().
 */
static void take_response(struct held *held, struct id *id)
{
	const struct cm_rej rej = {.reason = CM_REJECT_CONSUMER};
	enum event_cause cause = id->is_iwarp ? CAUSE_STREAM_NOT_TAKEN : CAUSE_QP_NOT_READY;
	int rc;

	report_response(held, id);
	if (!id->is_iwarp && !id->id.qp) {
		id->state = ID_RESPONDED;
		return;
	}
	rc = id->is_iwarp ? iwarp_establish(id) : -id_qp_connect(id);
	if (rc == 0 && !id->is_iwarp) {
		cause = CAUSE_RTU_TOO_LATE;
		rc = nic_cm_ready(&id->conn);
	}
	if (rc && !id->is_iwarp) {
		nic_cm_reject(&id->conn, &rej);
		id_qp_fail(id);
	}
	id->state = rc ? ID_OVER : ID_CONNECTED;
	held->public.event = RDMA_CM_EVENT_ESTABLISHED;
	if (rc)
		id_fail_taken(id, &held->public, cause, rc);
}

/*
 * Where a struct rdma_cm_event has the argument of rdma_write_cm_event(). Older headers do not name
 * this member.
 */
static uint64_t *held_argument(struct held *held)
{
	return (uint64_t *)&held->public.param;
}

/*
 * Change the identifier as the event requires. Returns false when the program must not get the
 * event.
 */
static bool event_take(struct held *held, struct id *id)
{
	int error;

	switch ((int)held->public.event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return take_request(held, id);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		take_response(held, id);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		id->state = ID_CONNECTED;
		report_response(held, id);
		break;
	case RDMA_CM_EVENT_REJECTED:
		report_response(held, id);
		id->state = ID_OVER;
		id_qp_fail(id);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		id->state = ID_OVER;
		id_qp_fail(id);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (!id->is_iwarp)
			nic_cm_await_acknowledgements(&id->conn);
		id->state = ID_OVER;
		break;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		error = group_taken(held->group, &held->public);
		if (error)
			id_fail_taken(id, &held->public, CAUSE_GROUP_NOT_ATTACHED, -error);
		break;
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		group_failed(held->group, &held->public);
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (id->state == ID_RESOLVING)
			id->state = ID_ADDRESS_RESOLVED;
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		id->state = ID_BOUND;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		/* The subnet administrator has found a path. */
		if (id->state == ID_ROUTING) {
			id_path_fill(id);
			id->state = ID_ROUTE_RESOLVED;
		}
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		id->state = ID_ADDRESS_RESOLVED;
		break;
	case ID_EVENT_USER:
	case ID_EVENT_INTERNAL:
		*held_argument(held) = held->user->argument;
		user_event_free(held->user);
		break;
	default: /* the event changes nothing */
		break;
	}
	return true;
}

/* Copy what rdma_get_cm_event() needs, while the queue's lock keeps the event's source alive. */
static void event_hold(struct event *event, void *argument)
{
	const struct id_event *source = container_of(event, struct id_event, event);
	struct held *held = argument;
	struct id *owner;

	held->public.event = source->type;
	held->public.status = source->status;
	held->owner = source->id;
	held->group = source->group;
	held->user = source->user;
	if (held->user)
		held->user->is_taken = true;
	owner = source->type == RDMA_CM_EVENT_CONNECT_REQUEST ? source->id->listen : source->id;
	pthread_mutex_lock(&owner->mutex);
	owner->events_taken++;
	pthread_mutex_unlock(&owner->mutex);
}

static int take_event(struct channel *channel, struct held *held)
{
	int rc;

	atomic_fetch_add(&channel->readers, 1);
	rc = event_queue_take(&channel->queue, event_hold, held);
	atomic_store(&channel->taker, gettid());
	atomic_fetch_sub(&channel->readers, 1);
	return rc;
}

int rdma_get_cm_event(struct rdma_event_channel *public, struct rdma_cm_event **event)
{
	struct held *held;

	if (!public || !event)
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	held = calloc(1, sizeof(*held));
	if (!held)
		return fail_errno(id_cause(REASON_NO_MEMORY));
	for (;;) {
		struct id *id, *listen;
		int rc = take_event(channel_of(public), held);

		if (rc) {
			free(held);
			return fail_quietly(-rc);
		}
		id = held->owner;
		listen = id->listen;
		held->public.id = &id->id;
		if (event_take(held, id))
			break;
		pthread_mutex_lock(&listen->mutex);
		listen->events_taken--;
		pthread_mutex_unlock(&listen->mutex);
	}
	*event = &held->public;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct held *held;
	struct id *owner;

	if (!event)
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	held = container_of(event, struct held, public);
	owner = held->owner;
	pthread_mutex_lock(&owner->mutex);
	owner->events_acked++;
	pthread_cond_broadcast(&owner->cond);
	pthread_mutex_unlock(&owner->mutex);
	free(held);
	return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const names[ID_EVENT_COUNT] = {
#define EVENT(name) [name] = #name
		EVENT(RDMA_CM_EVENT_ADDR_RESOLVED),
		EVENT(RDMA_CM_EVENT_ADDR_ERROR),
		EVENT(RDMA_CM_EVENT_ROUTE_RESOLVED),
		EVENT(RDMA_CM_EVENT_ROUTE_ERROR),
		EVENT(RDMA_CM_EVENT_CONNECT_REQUEST),
		EVENT(RDMA_CM_EVENT_CONNECT_RESPONSE),
		EVENT(RDMA_CM_EVENT_CONNECT_ERROR),
		EVENT(RDMA_CM_EVENT_UNREACHABLE),
		EVENT(RDMA_CM_EVENT_REJECTED),
		EVENT(RDMA_CM_EVENT_ESTABLISHED),
		EVENT(RDMA_CM_EVENT_DISCONNECTED),
		EVENT(RDMA_CM_EVENT_DEVICE_REMOVAL),
		EVENT(RDMA_CM_EVENT_MULTICAST_JOIN),
		EVENT(RDMA_CM_EVENT_MULTICAST_ERROR),
		EVENT(RDMA_CM_EVENT_ADDR_CHANGE),
		EVENT(RDMA_CM_EVENT_TIMEWAIT_EXIT),
#undef EVENT
		[ID_EVENT_ADDRINFO_RESOLVED] = "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
		[ID_EVENT_ADDRINFO_ERROR] = "RDMA_CM_EVENT_ADDRINFO_ERROR",
		[ID_EVENT_USER] = "RDMA_CM_EVENT_USER",
		[ID_EVENT_INTERNAL] = "RDMA_CM_EVENT_INTERNAL",
	};

	if ((unsigned)event >= ID_EVENT_COUNT)
		return "UNKNOWN EVENT";
	return names[event];
}
