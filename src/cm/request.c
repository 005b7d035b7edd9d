/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * New requests. The manager gives a REQ or SIDR_REQ a spare connection of its listener. It refuses
 * a request that no listener can accept. If the backlog of the listener is full, the manager drops
 * the request, which the peer then repeats.
 */
#include <string.h>

#include "base/arith.h"
#include "cm/cm_internal.h"

static struct cm_listener *find_listener(struct cm *cm, uint64_t service_id,
	const struct cm_path *path, const struct cm_message *message)
{
	struct gid address = cm_path_request_address(message, path, NULL);
	struct cm_listener *best = NULL;

	list_for_each(listener, &cm->listeners, struct cm_listener, node) {
		if (listener->service_id != service_id ||
			!cm_address_matches(&listener->address, listener->ifindex,
				listener->is_ipv6_only, &address, path->ifindex))
			continue;
		/* Prefer a listener at this address to a listener at any address. */
		if (!best || gid_is_equal(&listener->address, &address))
			best = listener;
	}
	return best;
}

static void request_refuse(struct cm *cm, const struct cm_path *path,
	const struct cm_message *message, uint16_t reason)
{
	struct cm_message answer;

	cm->counters.requests_refused++;
	if (!cm_answer_unknown(message, &answer))
		return;
	if (answer.attribute == CM_REJ)
		answer.rej.reason = reason;
	cm_emit(cm, path, &answer);
}

/*
 * Query by a LAP whether the peer still has the connection. The LAP changes nothing: a peer that
 * knows the connection refuses or ignores the LAP, and any other peer answers that the ID is
 * invalid. The LAP goes to the peer's address, and the answer names both communication IDs, so only
 * the peer can give it.
 */
static void peer_query(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	struct cm_peer_window *window = cm_peer_window(cm, &conn->path.remote, now_ns);
	struct cm_message lap = {
		.attribute = CM_LAP,
		.transaction_id = conn->transaction_id,
		.lap =
			{
				.local_comm_id = conn->local_comm_id,
				.remote_comm_id = conn->remote_comm_id,
				.remote_qpn = conn->remote_qpn,
				.remote_response_timeout = CM_RESPONSE_TIMEOUT,
				.alternate_local_lid = 0xffff,
				.alternate_remote_lid = 0xffff,
			},
	};

	if (conn->state != CM_STATE_ESTABLISHED ||
		(conn->queried_ns != 0 && now_ns - conn->queried_ns < CM_QUERY_PAUSE_NS) ||
		window->queries++ >= CM_QUERIES_OF_PEER_MAX) {
		cm->counters.stale_unasked++;
		return;
	}
	memcpy(lap.lap.alternate_local_gid, conn->path.local.raw, sizeof(conn->path.local.raw));
	memcpy(lap.lap.alternate_remote_gid, conn->path.remote.raw, sizeof(conn->path.remote.raw));
	conn->queried_ns = now_ns;
	conn->queries_out++;
	cm->counters.stale_asked++;
	cm_emit(cm, &conn->path, &lap);
}

/*
 * A REQ names the remote queue pair of `conn`, another connection to this peer. Either `conn` is
 * over and its DREQ was lost (IBTA 12.9.8.3.1), or a stranger has guessed the number and sends in
 * the peer's name. So the REQ does not end `conn`; the manager queries the peer.
 *
 * Some peers never answer (the kernel's manager ignores a LAP on Ethernet). After CM_QUERIES_MAX
 * queries the REQ counts as new. Its RTU then proves that the peer sent it, because the RTU names
 * an ID that a stranger does not know (take_rtu()). Returns whether to refuse the REQ.
 */
static bool is_stale(struct cm *cm, struct cm_conn *conn, uint64_t now_ns)
{
	if (conn->queries_out >= CM_QUERIES_MAX && now_ns - conn->queried_ns >= CM_QUERY_PAUSE_NS)
		return false;
	cm->counters.requests_stale++;
	peer_query(cm, conn, now_ns);
	return true;
}

/* Returns the reason to refuse this REQ, or 0. */
static enum cm_reject check_req(const struct cm_req *req, const struct cm_path *path)
{
	bool is_xrc = req->transport_service == CM_SERVICE_EXTENDED &&
		req->extended_transport == CM_EXTENDED_XRC;

	if (req->transport_service != CM_SERVICE_RC && req->transport_service != CM_SERVICE_UC &&
		!is_xrc)
		return CM_REJECT_INVALID_TRANSPORT;
	/* The REQ must name its sender's address, because the answers go there. */
	if (memcmp(req->primary_local_gid, path->remote.raw, sizeof(path->remote.raw)) != 0 ||
		memcmp(req->primary_remote_gid, path->local.raw, sizeof(path->local.raw)) != 0)
		return CM_REJECT_PRIMARY_GID;
	return (enum cm_reject)0;
}

/* Is there room for another half-open connection? */
static bool has_room(const struct cm_listener *listener, uint64_t now_ns)
{
	const struct cm_conn *oldest;

	if (listener->half_open_count < listener->half_open_max)
		return true;
	oldest = cm_oldest_half_open(listener);
	return oldest && now_ns - oldest->accepted_ns >= CM_HALF_OPEN_MIN_NS;
}

/* Take a spare connection of the listener for a request. */
static struct cm_conn *conn_begin(struct cm *cm, struct cm_listener *listener,
	const struct cm_path *path, const struct cm_message *message)
{
	struct cm_conn *conn;

	if (list_is_empty(&listener->spares)) {
		cm->counters.requests_overflown++;
		return NULL;
	}
	conn = list_first(&listener->spares, struct cm_conn, by_local);
	cm_conn_publish(cm, conn);
	conn->path = *path;
	conn->transaction_id = message->transaction_id;
	return conn;
}

static void tell_request(struct cm *cm, struct cm_conn *conn, struct cm_listener *listener,
	const struct cm_message *message)
{
	cm_tell(cm, conn, message->attribute == CM_REQ ? CM_EVENT_REQ : CM_EVENT_SIDR_REQ, message);
	cm->events[(cm->event_first + cm->event_count - 1) % CM_EVENTS].listener = listener;
}

void cm_request_new(struct cm *cm, const struct cm_path *path, const struct cm_message *message,
	uint64_t now_ns)
{
	const struct cm_req *req = &message->req;
	enum cm_reject fault = check_req(req, path);
	struct cm_listener *listener = find_listener(cm, req->service_id, path, message);
	struct cm_conn *stale =
		cm_find_qpn(cm, req->local_qpn, req->local_ca_guid, &path->remote, NULL);
	struct cm_conn *conn;

	if (fault == 0 && stale && is_stale(cm, stale, now_ns))
		fault = CM_REJECT_STALE_CONNECTION;
	if (fault == 0 && !listener)
		fault = CM_REJECT_INVALID_SERVICE_ID;
	if (fault != 0) {
		request_refuse(cm, path, message, (uint16_t)fault);
		return;
	}
	if (!has_room(listener, now_ns)) {
		cm->counters.requests_overflown++;
		return;
	}
	conn = conn_begin(cm, listener, path, message);
	if (!conn)
		return;
	conn->listener = listener;
	conn->accepted_ns = 0;
	list_append(&listener->pending, &conn->half_open);
	conn->remote_guid = req->local_ca_guid;
	conn->response_timeout = (uint8_t)min_u32(req->local_response_timeout, CM_SERVICE_TIMEOUT);
	conn->retries = req->max_cm_retries;
	cm_remember_remote(cm, conn, req->local_comm_id, req->local_qpn);
	cm_set_state(conn, CM_STATE_REQ_RCVD);
	tell_request(cm, conn, listener, message);
}

void cm_request_sidr(struct cm *cm, const struct cm_path *path, const struct cm_message *message)
{
	const struct cm_sidr_req *req = &message->sidr_req;
	struct cm_listener *listener = find_listener(cm, req->service_id, path, message);
	struct cm_conn *conn;

	if (req->request_id == 0) {
		cm->counters.messages_malformed++;
		return;
	}
	if (cm_find_remote(cm, req->request_id, &path->remote, true)) {
		cm->counters.duplicates++; /* the program has not answered yet */
		return;
	}
	if (!listener) {
		request_refuse(cm, path, message, 0);
		return;
	}
	conn = conn_begin(cm, listener, path, message);
	if (!conn)
		return;
	cm_set_state(conn, CM_STATE_SIDR_REQ_RCVD);
	cm_remember_remote(cm, conn, req->request_id, 0);
	tell_request(cm, conn, listener, message);
}
