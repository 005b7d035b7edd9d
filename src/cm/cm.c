/* SPDX-License-Identifier: BSD-2-Clause */
/* The manager's creation and end, its tables and its timers. */
#include "cm/cm.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arith.h"
#include "cm/cm_internal.h"
#include "wire/bytes.h"

enum {
	COMM_ID_NUMBER_MASK = 0xffffff, /* the top byte is the slot */
};

/* --- tables --- */

const struct cm_state_info cm_states[CM_STATE_COUNT] = {
#define CM_STATE(NAME, rejects, timeout, last, sentence) \
	[CM_STATE_##NAME] = {CM_ANSWERED_##rejects, CM_EVENT_##timeout, CM_##last},
#include "cm/cm_state.def"
#undef CM_STATE
};

static struct list *table_bucket(struct list *buckets, uint32_t key)
{
	key *= 0x9e3779b1u;
	return &buckets[key >> 16 & (CM_BUCKETS - 1)];
}

struct cm_conn *cm_find_local(struct cm *cm, uint32_t comm_id)
{
	list_for_each(conn, table_bucket(cm->by_local, comm_id), struct cm_conn, by_local)
		if (conn->local_comm_id == comm_id)
			return conn;
	return NULL;
}

static bool is_sidr(const struct cm_conn *conn)
{
	return conn->state == CM_STATE_SIDR_REQ_SENT || conn->state == CM_STATE_SIDR_REQ_RCVD;
}

struct cm_conn *cm_find_remote(
	struct cm *cm, uint32_t comm_id, const struct gid *remote, bool wants_sidr)
{
	list_for_each(conn, table_bucket(cm->by_remote, comm_id), struct cm_conn, by_remote)
		if (conn->remote_comm_id == comm_id && is_sidr(conn) == wants_sidr &&
			gid_is_equal(&conn->path.remote, remote))
			return conn;
	return NULL;
}

/*
 * Is the connection established, or disconnecting? A connection that has only a REQ does not count,
 * because any host may send a REQ in the peer's name. Such a REQ must not cause the refusal of a
 * REQ that the peer itself sends.
 */
static bool was_established(const struct cm_conn *conn)
{
	return conn->state == CM_STATE_ESTABLISHED || conn->state == CM_STATE_DREQ_SENT ||
		conn->state == CM_STATE_DREQ_RCVD;
}

struct cm_conn *cm_find_qpn(struct cm *cm, uint32_t qpn, uint64_t guid, const struct gid *remote,
	const struct cm_conn *except)
{
	list_for_each(conn, table_bucket(cm->by_qpn, qpn), struct cm_conn, by_qpn)
		if (conn->remote_qpn == qpn && conn->remote_guid == guid && conn != except &&
			was_established(conn) && gid_is_equal(&conn->path.remote, remote))
			return conn;
	return NULL;
}

struct cm_peer_window *cm_peer_window(struct cm *cm, const struct gid *remote, uint64_t now_ns)
{
	uint32_t hash = (get_be32(remote->raw + 12) ^ get_be32(remote->raw + 4)) * 0x9e3779b1u;
	struct cm_peer_window *window = &cm->windows[hash >> 16 & (CM_PEER_WINDOWS - 1)];

	if (now_ns - window->since_ns >= CM_PEER_WINDOW_NS)
		*window = (struct cm_peer_window){.since_ns = now_ns};
	return window;
}

/* Write the message that urnicd sends to the peer if the process dies in this state. */
static void last_message_write(struct cm_conn *conn)
{
	struct cm_last_message *last_message = conn->last_message;
	const struct cm_state_info *info = &cm_states[conn->state];

	if (!last_message)
		return;
	last_message->local_comm_id = conn->local_comm_id;
	last_message->remote_comm_id = conn->remote_comm_id;
	last_message->remote_qpn = conn->remote_qpn;
	last_message->answered = info->rejects == CM_NONE ? 0 : (uint16_t)info->rejects;
	last_message->reason = (uint16_t)cm_release_reason(conn->state);
	last_message->ifindex = conn->path.ifindex;
	last_message->local = conn->path.local;
	last_message->remote = conn->path.remote;
	last_message->ib = conn->path.ib;
	last_message->attribute = info->last_message == CM_NONE ? 0 : (uint32_t)info->last_message;
}

/* Take a free entry of last_messages. Returns NULL when all are used. */
static struct cm_last_message *last_message_take(struct cm *cm)
{
	while (cm->last_message_next < cm->last_message_count) {
		struct cm_last_message *last_message = &cm->last_messages[cm->last_message_next++];

		if (last_message->local_comm_id == 0) {
			last_message->ca_guid = cm->guid;
			return last_message;
		}
	}
	return NULL;
}

void cm_leave_last_message(struct cm *cm, struct cm_conn *conn)
{
	if (!conn->last_message)
		conn->last_message = last_message_take(cm);
	last_message_write(conn);
}

/*
 * Free the connection's entry. last_message_take() starts at the lowest free entry, so entries that
 * are never needed stay untouched memory.
 */
static void last_message_give_back(struct cm *cm, struct cm_conn *conn)
{
	if (!conn->last_message)
		return;
	memset(conn->last_message, 0, sizeof(*conn->last_message));
	cm->last_message_next =
		min_u32(cm->last_message_next, (uint32_t)(conn->last_message - cm->last_messages));
	conn->last_message = NULL;
}

void cm_keep_last_messages(struct cm *cm, struct cm_last_message *last_messages, uint32_t count)
{
	cm->last_messages = last_messages;
	cm->last_message_count = count;
}

void cm_set_state(struct cm_conn *conn, enum cm_state state)
{
	conn->state = state;
	last_message_write(conn);
}

void cm_remember_remote(struct cm *cm, struct cm_conn *conn, uint32_t comm_id, uint32_t qpn)
{
	conn->remote_comm_id = comm_id;
	conn->remote_qpn = qpn;
	list_append(table_bucket(cm->by_remote, comm_id), &conn->by_remote);
	if (qpn != 0)
		list_append(table_bucket(cm->by_qpn, qpn), &conn->by_qpn);
	if (!conn->last_message && !is_sidr(conn))
		cm_leave_last_message(cm, conn);
}

/* --- results: messages and events --- */

void cm_emit(struct cm *cm, const struct cm_path *path, const struct cm_message *message)
{
	struct cm_outgoing *outgoing;

	if (cm->outbox_count == CM_OUTBOX) {
		cm->counters.outbox_overflown++;
		return;
	}
	outgoing = &cm->outbox[(cm->outbox_first + cm->outbox_count++) % CM_OUTBOX];
	outgoing->path = *path;
	cm_message_encode(message, outgoing->mad);
}

bool cm_next_packet(struct cm *cm, struct cm_path *ret_path, uint8_t ret_packet[GSI_PACKET_BYTES])
{
	const struct cm_outgoing *outgoing = &cm->outbox[cm->outbox_first];

	if (cm->outbox_count == 0)
		return false;
	*ret_path = outgoing->path;
	gsi_packet_encode(cm->next_psn++, ret_packet);
	memcpy(ret_packet + GSI_PACKET_BYTES - MAD_BYTES, outgoing->mad, MAD_BYTES);
	cm->outbox_first = (cm->outbox_first + 1) % CM_OUTBOX;
	cm->outbox_count--;
	cm->counters.messages_sent++;
	return true;
}

static struct cm_event *event_add(struct cm *cm, struct cm_conn *conn, enum cm_event_kind kind)
{
	struct cm_event *event;

	assert(cm->event_count < CM_EVENTS);
	event = &cm->events[(cm->event_first + cm->event_count++) % CM_EVENTS];
	memset(event, 0, sizeof(*event));
	event->kind = kind;
	event->conn = conn;
	return event;
}

void cm_tell(struct cm *cm, struct cm_conn *conn, enum cm_event_kind kind,
	const struct cm_message *message)
{
	struct cm_event *event;

	if (conn->is_released)
		return;
	event = event_add(cm, conn, kind);
	if (message)
		event->message = *message;
}

bool cm_next_event(struct cm *cm, struct cm_event *ret_event)
{
	if (cm->event_count == 0)
		return false;
	*ret_event = cm->events[cm->event_first];
	cm->event_first = (cm->event_first + 1) % CM_EVENTS;
	cm->event_count--;
	return true;
}

/* --- timers --- */

void cm_stop_sending(struct cm *cm, struct cm_conn *conn)
{
	deadline_set(&cm->deadlines, &conn->deadline, DEADLINE_NEVER);
}

void cm_send_until_answered(struct cm *cm, struct cm_conn *conn, uint8_t retries, uint64_t now_ns)
{
	uint64_t timeout_ns = cm_timeout_ns(conn->response_timeout);

	conn->retry_ns = min_u64(CM_FIRST_RETRY_NS, timeout_ns);
	conn->give_up_ns = now_ns + (retries + 1u) * timeout_ns;
	conn->is_repeated = false;
	cm_emit(cm, &conn->path, &conn->sent);
	deadline_set(&cm->deadlines, &conn->deadline, now_ns + conn->retry_ns);
}

void cm_enter_timewait(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	list_remove(&conn->by_qpn);
	cm_leave_half_open(conn);
	last_message_give_back(cm, conn);
	cm_set_state(conn, CM_STATE_TIMEWAIT);
	deadline_set(&cm->deadlines, &conn->deadline, now_ns + cm_timeout_ns(CM_LIFETIME_CODE));
}

void cm_enter_idle(struct cm *cm, struct cm_conn *conn)
{
	cm_stop_sending(cm, conn);
	list_remove(&conn->by_remote);
	list_remove(&conn->by_qpn);
	cm_leave_half_open(conn);
	last_message_give_back(cm, conn);
	conn->remote_comm_id = 0;
	conn->remote_qpn = 0;
	cm_set_state(conn, CM_STATE_IDLE);
	if (!conn->is_released)
		return;
	list_remove(&conn->by_local);
	cm->conn_count--;
	event_add(cm, conn, CM_EVENT_RELEASED);
}

void cm_leave_half_open(struct cm_conn *conn)
{
	if (!conn->listener)
		return;
	list_remove(&conn->half_open);
	if (conn->accepted_ns)
		conn->listener->half_open_count--;
	conn->listener = NULL;
}

void cm_give_up(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	const struct cm_state_info *info = &cm_states[conn->state];

	assert(info->timeout != CM_NONE && conn->state != CM_STATE_TIMEWAIT);
	if (info->rejects == CM_ANSWERED_OTHER)
		cm_send_reject(cm, conn, CM_ANSWERED_OTHER, CM_REJECT_TIMEOUT);
	cm_tell(cm, conn, (enum cm_event_kind)info->timeout, NULL);
	if (conn->state == CM_STATE_DREQ_SENT)
		cm_enter_timewait(cm, conn, now_ns);
	else
		cm_enter_idle(cm, conn);
}

static void message_repeat(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	cm->counters.messages_repeated++;
	conn->is_repeated = true;
	cm_emit(cm, &conn->path, &conn->sent);
	conn->retry_ns = min_u64(conn->retry_ns * 2, cm_timeout_ns(conn->response_timeout));
	deadline_set(&cm->deadlines, &conn->deadline,
		min_u64(now_ns + conn->retry_ns, max_u64(conn->give_up_ns, now_ns + 1)));
}

uint64_t cm_deadline_ns(const struct cm *cm)
{
	const struct deadline *first = deadline_heap_first(&cm->deadlines);

	return first ? first->at_ns : DEADLINE_NEVER;
}

bool cm_expire(struct cm *cm, uint64_t now_ns)
{
	struct deadline *first = deadline_heap_first(&cm->deadlines);
	struct cm_conn *conn;

	if (!first || first->at_ns > now_ns)
		return false;
	conn = container_of(first, struct cm_conn, deadline);
	cm_stop_sending(cm, conn);
	if (conn->state == CM_STATE_TIMEWAIT) {
		cm_tell(cm, conn, CM_EVENT_TIMEWAIT_EXIT, NULL);
		cm_enter_idle(cm, conn);
	} else if (now_ns >= conn->give_up_ns) {
		cm->counters.timeouts++;
		cm_give_up(cm, conn, now_ns);
	} else {
		message_repeat(cm, conn, now_ns);
	}
	return true;
}

/* --- life --- */

void cm_init(struct cm *cm, uint8_t slot, uint64_t guid, const struct permutation *permutation,
	uint64_t random)
{
	memset(cm, 0, sizeof(*cm));
	cm->slot = slot;
	cm->guid = guid;
	cm->next_id = (uint32_t)random & COMM_ID_NUMBER_MASK;
	cm->next_psn = (uint32_t)(random >> 32);
	cm->permutation = *permutation;
	deadline_heap_init(&cm->deadlines);
	list_init(&cm->listeners);
	for (uint32_t i = 0; i < CM_BUCKETS; i++) {
		list_init(&cm->by_local[i]);
		list_init(&cm->by_remote[i]);
		list_init(&cm->by_qpn[i]);
	}
}

void cm_done(struct cm *cm)
{
	assert(cm->conn_count == 0 && list_is_empty(&cm->listeners));
	deadline_heap_done(&cm->deadlines);
}

/* Returns an unused ID. Each of the 2^24 numbers comes once before any number comes again. */
static uint32_t comm_id_next(struct cm *cm)
{
	uint32_t comm_id;

	do {
		uint32_t number =
			permute_forward(&cm->permutation, cm->next_id++ & COMM_ID_NUMBER_MASK);

		comm_id = (uint32_t)cm->slot << 24 | number;
	} while (comm_id == 0 || cm_find_local(cm, comm_id));
	return comm_id;
}

int cm_conn_create(struct cm *cm, struct cm_conn *conn, void *user)
{
	if (deadline_heap_reserve(&cm->deadlines, cm->conn_count + 1))
		return -ENOMEM;
	cm->conn_count++;
	memset(conn, 0, sizeof(*conn));
	conn->user = user;
	conn->response_timeout = CM_RESPONSE_TIMEOUT;
	list_init(&conn->by_local);
	list_init(&conn->by_remote);
	list_init(&conn->by_qpn);
	list_init(&conn->half_open);
	conn->local_comm_id = comm_id_next(cm);
	list_append(table_bucket(cm->by_local, conn->local_comm_id), &conn->by_local);
	return 0;
}

void cm_listen(struct cm *cm, struct cm_listener *listener)
{
	list_init(&listener->spares);
	list_init(&listener->node);
	list_init(&listener->half_open);
	list_init(&listener->pending);
	listener->half_open_count = 0;
	listener->half_open_max = max_u32(listener->half_open_max, CM_HALF_OPEN_MIN);
	list_append(&cm->listeners, &listener->node);
}

void cm_listener_add(struct cm_listener *listener, struct cm_conn *conn)
{
	assert(conn->state == CM_STATE_IDLE);
	list_remove(&conn->by_local);
	list_append(&listener->spares, &conn->by_local);
}

struct cm_conn *cm_listener_take(struct cm_listener *listener)
{
	struct cm_conn *conn;

	if (list_is_empty(&listener->spares))
		return NULL;
	conn = list_first(&listener->spares, struct cm_conn, by_local);
	list_remove(&conn->by_local);
	return conn;
}

void cm_conn_publish(struct cm *cm, struct cm_conn *conn)
{
	list_remove(&conn->by_local);
	list_append(table_bucket(cm->by_local, conn->local_comm_id), &conn->by_local);
}

void cm_unlisten(struct cm_listener *listener)
{
	assert(list_is_empty(&listener->spares));
	while (!list_is_empty(&listener->half_open))
		cm_leave_half_open(list_first(&listener->half_open, struct cm_conn, half_open));
	while (!list_is_empty(&listener->pending))
		cm_leave_half_open(list_first(&listener->pending, struct cm_conn, half_open));
	list_remove(&listener->node);
}

static void check_conn(const struct cm_conn *conn)
{
	assert((conn->deadline.position != 0) == (cm_states[conn->state].timeout != CM_NONE));
	assert(!list_is_linked(&conn->by_remote) || conn->remote_comm_id != 0);
	assert(!list_is_linked(&conn->by_qpn) || conn->remote_qpn != 0);
	assert(conn->state != CM_STATE_IDLE || !list_is_linked(&conn->by_remote));
	assert(list_is_linked(&conn->half_open) == (conn->listener != NULL));
	assert(!conn->listener || (conn->state != CM_STATE_IDLE && !was_established(conn)));
}

void cm_check(const struct cm *cm)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < CM_BUCKETS; i++) {
		list_for_each(conn, &cm->by_local[i], struct cm_conn, by_local) {
			check_conn(conn);
			assert(!conn->is_released || conn->state != CM_STATE_IDLE);
			count++;
		}
	}
	list_for_each(listener, &cm->listeners, struct cm_listener, node) {
		uint32_t half_open = 0;

		list_for_each(conn, &listener->half_open, struct cm_conn, half_open) {
			assert(conn->listener == listener && conn->accepted_ns != 0);
			half_open++;
		}
		assert(half_open == listener->half_open_count);
		list_for_each(conn, &listener->spares, struct cm_conn, by_local) {
			check_conn(conn);
			assert(conn->state == CM_STATE_IDLE);
			count++;
		}
	}
	assert(count == cm->conn_count);
}
