/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/datagram.h"

#include <string.h>

#include "ib/message.h"
#include "ib/ud/ud.h"
#include "memory/copy.h"
#include "queue/rq_taker.h"
#include "wire/psn.h"

/* Each delivered datagram raises the budget of the next wait, at least by this time. */
#define WAIT_BUDGET_NS_GAIN 1000u

enum { PAYLOAD_BYTES_MAX = 4096 };

/*
 * The number of datagrams that may be sent as packets before the next one waits until all of them
 * have arrived. The receive buffer of a socket has room for that number.
 */
enum { FALLBACKS_MAX = 32 };

/* --- paths and routes --- */

void datagram_lane_init(struct datagram_lane *lane, void (*request_lookup)(void))
{
	memset(lane, 0, sizeof(*lane));
	for (uint32_t i = 0; i < DATAGRAM_PATH_BUCKETS; i++)
		list_init(&lane->paths[i]);
	for (uint32_t i = 0; i < DATAGRAM_ROUTE_BUCKETS; i++)
		list_init(&lane->routes[i]);
	lane->request_lookup = request_lookup;
}

static struct list *paths_at(struct datagram_lane *lane, uint32_t id)
{
	return &lane->paths[id % DATAGRAM_PATH_BUCKETS];
}

static struct list *routes_at(struct datagram_lane *lane, uint32_t path, uint32_t qpn)
{
	return &lane->routes[(path ^ qpn ^ qpn >> 16) % DATAGRAM_ROUTE_BUCKETS];
}

void datagram_path_add(struct datagram_lane *lane, struct datagram_path *path)
{
	list_append(paths_at(lane, path->id), &path->link);
}

void datagram_path_remove(struct datagram_lane *lane, struct datagram_path *path)
{
	if (lane->lookup.path == path)
		lane->lookup.path = NULL;
	list_remove(&path->link);
}

static const struct datagram_path *path_find(struct datagram_lane *lane, uint32_t id)
{
	list_for_each(path, paths_at(lane, id), struct datagram_path, link)
		if (path->id == id)
			return path;
	return NULL;
}

static struct datagram_route *route_find(struct datagram_lane *lane, uint32_t path, uint32_t qpn)
{
	list_for_each(route, routes_at(lane, path, qpn), struct datagram_route, link)
		if (route->path->id == path && route->qpn == qpn)
			return route;
	return NULL;
}

struct datagram_route *datagram_route_take(struct datagram_lane *lane,
	bool (*is_it)(const struct datagram_route *route, const void *context), const void *context)
{
	for (uint32_t i = 0; i < DATAGRAM_ROUTE_BUCKETS; i++)
		list_for_each(route, &lane->routes[i], struct datagram_route, link)
			if (is_it(route, context)) {
				list_remove(&route->link);
				lane->route_count--;
				return route;
			}
	return NULL;
}

bool datagram_route_is_idle(const struct datagram_route *route, const void *context)
{
	(void)context;
	return !route->endpoint || atomic_load(&route->endpoint->serial) != route->serial;
}

/*
 * Have the control thread look up the target's process, because the lookup needs system calls. The
 * control thread executes one lookup at a time.
 */
static void lookup_request(const struct ud_endpoint_qp *from, const struct datagram_route *known,
	const struct datagram_target *target, uint64_t now_ns)
{
	struct datagram_lane *lane = from->lane;
	struct datagram_lookup *lookup = &lane->lookup;
	const struct datagram_path *path = known ? known->path : path_find(lane, target->path);

	if (!path || (known && now_ns < known->again_ns))
		return;
	if (!lookup->path) {
		*lookup = (struct datagram_lookup){path, target->qpn, from->qp->qpn, 0};
		lane->request_lookup();
	}
	if (lookup->path == path && lookup->qpn == target->qpn)
		lookup->packets++;
}

void datagram_lookup_done(struct datagram_lane *lane, struct datagram_route *route)
{
	struct datagram_lookup *lookup = &lane->lookup;

	route->path = lookup->path;
	route->qpn = lookup->qpn;
	route->packets = lookup->packets;
	route->wait = (struct receive_wait){.budget_ns = RECEIVE_WAIT_NS_MAX, .gives_up = true};
	list_append(routes_at(lane, route->path->id, route->qpn), &route->link);
	lane->route_count++;
	lookup->path = NULL;
}

/* --- the endpoint --- */

static struct peer *peer_of(const struct datagram_route *route)
{
	return route->process.owner->peer;
}

static bool has_address(const struct ud_endpoint *endpoint, const struct gid *address)
{
	uint32_t count = atomic_load_explicit(&endpoint->address_count, memory_order_acquire);

	for (uint32_t i = 0; i < count && i < UD_ENDPOINT_ADDRESSES_MAX; i++)
		if (gid_is_equal(&endpoint->address[i], address))
			return true;
	return false;
}

/*
 * Read the endpoint. Returns false if the endpoint is closed, or is not the target's. The mark is
 * set, so the endpoint does not change.
 */
static bool endpoint_read(struct datagram_route *route, struct ud_endpoint *endpoint)
{
	struct peer *peer = peer_of(route);
	uint64_t serial = atomic_load(&endpoint->serial);

	if (!serial || endpoint->qpn != route->qpn || !has_address(endpoint, &route->path->remote))
		return false;
	route->rq = peer_at(peer, endpoint->rq_offset, sizeof(struct recv_queue));
	route->cq = peer_at(peer, endpoint->cq_offset, sizeof(struct cq_ring));
	if (!route->rq || !route->cq)
		return false;
	route->recv_pd = endpoint->recv_pd;
	route->is_rq_shared = endpoint->is_rq_shared;
	route->posted_seen = rq_taken(route->rq);
	route->receive = (struct mr_cached){.key_word = NULL};
	if (route->serial)
		route->packets = 0; /* the counted datagrams were sent to the previous endpoint */
	route->arrived_before = 0;
	receive_wait_begin(&route->wait, route->rq);
	route->serial = serial;
	route->endpoint = endpoint;
	return true;
}

/*
 * Set the in-use mark for `key`. Usually the mark is set already, because endpoint_enter() sets it
 * for the key of the previous receive request.
 */
static void key_mark(struct datagram_route *route, uint64_t key)
{
	struct request_channel *channel = route->process.channel;

	if (atomic_load_explicit(&channel->in_use, memory_order_relaxed) !=
		(CHANNEL_USES_KEY | key))
		borrower_channel_enter(channel, CHANNEL_USES_KEY | key);
	route->mark = CHANNEL_USES_KEY | key;
}

/* Set the mark. Returns whether the endpoint is open; if it is not, the mark is clear again. */
static bool endpoint_enter(struct datagram_route *route)
{
	const struct datagram_process *process = &route->process;
	struct ud_endpoint *endpoint = route->endpoint;
	uint64_t offset;

	borrower_channel_enter(process->channel, route->mark ? route->mark : CHANNEL_PUBLISHES);
	if (endpoint && atomic_load(&endpoint->serial) == route->serial)
		return true;
	route->endpoint = NULL;
	offset = atomic_load(&process->endpoints->offset[route->qpn % LANE_QP_COUNT_MAX]);
	endpoint = peer_at(peer_of(route), offset, sizeof(*endpoint));
	if (endpoint && endpoint_read(route, endpoint))
		return true;
	channel_leave(process->channel);
	return false;
}

/* --- the payload --- */

/*
 * The bytes for the receive buffer. `payload` points into `bytes`, or is in the sender's memory.
 */
struct datagram {
	const uint8_t *payload;
	uint8_t bytes[GRH_BYTES + PAYLOAD_BYTES_MAX];
};

static const uint8_t *own_find(struct ud_endpoint_qp *from, const struct sge *sge, uint32_t bytes)
{
	const struct qp *qp = from->qp;
	uint8_t *pointer;

	return mr_resolve_cached(qp->lane->mrs, &from->own, sge->lkey, qp->pd,
		       MR_LOCAL_READ | MR_TOUCH, sge->address, bytes, &pointer)
		? NULL
		: pointer;
}

/*
 * Find the payload. Returns false when a local key does not permit the read. Then the datagram
 * falls back to packets. ud_next_packet() finds the same error, and fails the request.
 */
static bool payload_find(
	struct ud_endpoint_qp *from, const struct send_wqe *wqe, struct datagram *ret_datagram)
{
	const struct qp *qp = from->qp;
	uint8_t *copy = ret_datagram->bytes + GRH_BYTES;

	if (wqe->flags & SEND_INLINE)
		ret_datagram->payload = wqe->inline_bytes;
	else if (wqe->sge_count == 1 && wqe->total_bytes)
		ret_datagram->payload = own_find(from, wqe->sge, wqe->total_bytes);
	else if (message_check(qp, wqe) == FAULT_NONE &&
		sge_gather(qp->lane->mrs, qp->pd, wqe->sge, wqe->sge_count, 0, wqe->total_bytes,
			copy) == MR_OK)
		ret_datagram->payload = copy;
	else
		ret_datagram->payload = NULL;
	return ret_datagram->payload != NULL;
}

/* Make the 40 bytes before the payload: the GRH or IP header that a packet would have had. */
static void grh_make(
	const struct datagram_route *route, const struct send_wqe *wqe, uint8_t to[GRH_BYTES])
{
	const struct datagram_path *path = route->path;
	const struct packet_origin origin = {
		.source = &path->local,
		.destination = &path->remote,
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
	};
	bool has_imm = wr_table[wqe->opcode].has_imm;
	struct packet packet;

	packet_init(&packet, has_imm ? OPCODE_UD_SEND_ONLY_IMM : OPCODE_UD_SEND_ONLY);
	packet_set_payload(&packet, NULL, wqe->total_bytes);
	ud_grh_make(&packet, &origin, to);
}

/* --- the receive request --- */

/*
 * Find the part `at` of the receive buffer. The mark names the key of that part, or is
 * CHANNEL_PUBLISHES.
 */
static enum mr_fault theirs_find(
	struct datagram_route *route, const struct sge *at, struct peer_place *ret_place)
{
	const struct mr_user user = {route->recv_pd, 0};

	return peer_find_cached(peer_of(route), &route->receive, at->lkey, user, MR_LOCAL_WRITE,
		at->address, at->bytes, ret_place);
}

/* May all of the receive buffer be written now? */
static bool theirs_check(struct datagram_route *route, const struct recv_wqe *receive, size_t bytes)
{
	struct peer_place place;

	for (size_t done = 0; done < bytes;) {
		struct sge at = sge_slice(receive->sge, receive->sge_count, done, bytes - done);

		if (theirs_find(route, &at, &place))
			return false;
		done += at.bytes;
	}
	return true;
}

/*
 * The lookup of `key` has failed, although the key was valid when the request was taken. See
 * owner_await_key().
 */
static bool await_key(struct datagram_route *route, uint32_t key, uint32_t round)
{
	borrower_channel_enter(route->process.channel, CHANNEL_PUBLISHES);
	route->mark = 0;
	return owner_await_key(route->process.owner, key, round);
}

enum { REVOKED_MAX = 16 }; /* number of revoked marks after which the write fails */

static enum mr_fault theirs_put(struct datagram_route *route, const struct recv_wqe *receive,
	const uint8_t *from, size_t bytes)
{
	struct peer_place place;
	uint32_t round = 0, revoked = 0;
	enum mr_fault fault;

	for (size_t done = 0; done < bytes;) {
		struct sge at = sge_slice(receive->sge, receive->sge_count, done, bytes - done);

		key_mark(route, at.lkey);
		fault = theirs_find(route, &at, &place);
		if (fault == MR_FAULT_KEY && await_key(route, at.lkey, round++))
			continue;
		if (!fault && channel_mark_holds(route->process.channel) &&
			!peer_put(peer_of(route), &place, 0, from + done, at.bytes))
			fault = MR_FAULT_PAGE;
		if (fault)
			return fault;
		if (channel_mark_holds(route->process.channel))
			done += at.bytes;
		else if (revoked++ == REVOKED_MAX)
			return MR_FAULT_PAGE;
		/* The mark was revoked, so write the same bytes again. */
		else
			borrower_channel_enter(route->process.channel, CHANNEL_PUBLISHES);
	}
	return MR_OK;
}

/*
 * The address of the receive buffer, if the buffer is one piece that this process has mapped;
 * otherwise NULL.
 */
static uint8_t *theirs_mapped(
	struct datagram_route *route, const struct recv_wqe *receive, size_t bytes)
{
	struct peer_place place;
	struct sge at = sge_slice(receive->sge, receive->sge_count, 0, bytes);

	key_mark(route, at.lkey);
	return at.bytes < bytes || theirs_find(route, &at, &place) ? NULL : place.here;
}

static void fill_at(const struct datagram_route *route, const struct send_wqe *wqe,
	const struct datagram *datagram, uint8_t *to)
{
	grh_make(route, wqe, to);
	if (to + GRH_BYTES != datagram->payload)
		memcpy(to + GRH_BYTES, datagram->payload, wqe->total_bytes);
}

/* Fill the buffer of the taken receive request. If the mark was revoked, fill it again. */
static enum mr_fault receive_fill(struct datagram_route *route, const struct recv_wqe *receive,
	const struct send_wqe *wqe, struct datagram *datagram)
{
	size_t bytes = GRH_BYTES + wqe->total_bytes;
	uint8_t *to = theirs_mapped(route, receive, bytes);
	bool is_mapped = to != NULL;

	if (!is_mapped)
		to = datagram->bytes;
	fill_at(route, wqe, datagram, to);
	if (is_mapped && !channel_mark_holds(route->process.channel)) {
		to = datagram->bytes;
		is_mapped = false;
		fill_at(route, wqe, datagram, to);
		borrower_channel_enter(route->process.channel, CHANNEL_PUBLISHES);
	}
	return is_mapped ? MR_OK : theirs_put(route, receive, to, bytes);
}

enum { FASTER_MAX = 1000 }; /* number of attempts while other senders take each request first */

/*
 * Take a receive request into which the datagram fits. Returns QP_LOCAL_LATER when no request is
 * posted, or the channel has no room for a record. *ret_taken is the number of requests that were
 * taken before this one.
 */
static enum qp_local_result receive_take(struct datagram_route *route, const struct send_wqe *wqe,
	struct recv_wqe *receive, uint64_t *ret_taken)
{
	const struct peer *peer = peer_of(route);
	size_t bytes = GRH_BYTES + wqe->total_bytes;
	uint32_t attempt = 0;

	do {
		if (attempt++ == FASTER_MAX)
			return QP_LOCAL_PACKETS;
		if (!borrower_channel_has_room(route->process.channel) ||
			!rq_peek_borrowed(route->rq, peer->base, peer->bytes, &route->posted_seen,
				receive, ret_taken))
			return QP_LOCAL_LATER;
		if (bytes > receive->total_bytes || !theirs_check(route, receive, bytes))
			return QP_LOCAL_PACKETS;
	} while (!rq_take_peeked(route->rq, *ret_taken));
	return QP_LOCAL_DONE;
}

static void route_kick(const struct datagram_route *route)
{
	peer_of(route)->ops->kick(peer_of(route), route->process.lane);
}

/* Publish the record of the receive request. Its buffer was filled; if not, `fault` says why. */
static void record_publish(const struct ud_endpoint_qp *from, const struct datagram_route *route,
	const struct send_wqe *wqe, const struct recv_wqe *receive, uint64_t taken,
	enum mr_fault fault)
{
	const struct datagram_process *process = &route->process;
	bool has_imm = wr_table[wqe->opcode].has_imm;
	const struct channel_record record = {
		.wr_id = receive->wr_id,
		.opcode = WC_RECV,
		.flags = WC_GRH | (has_imm ? WC_WITH_IMM : 0),
		.byte_count = GRH_BYTES + wqe->total_bytes,
		.imm = has_imm ? wqe->imm : 0,
		.number = route->qpn,
		.fault = message_local_fault(fault),
		.is_solicited = (wqe->flags & SEND_SOLICITED) != 0,
		.serial = route->serial,
		.qpn = from->qp->qpn,
		.service_level = gid_is_ipv4(&route->path->remote) ? WC_SERVICE_LEVEL_UDP_IPV4
								   : WC_SERVICE_LEVEL_UDP_IPV6,
		.taken = (uint32_t)taken,
	};

	/*
	 * This call cannot fail: receive_take() has found room in the channel, and only this lane
	 * publishes there.
	 */
	borrower_channel_publish(peer_of(route), process->owner->borrowers, process->channel,
		process->doorbell, &record);
	if (fault)
		route_kick(route);
}

/* --- waiting --- */

/*
 * If the datagram has begun to wait because the channel is full, wake the receiver, so that it
 * collects.
 */
static void wake_receiver(const struct datagram_route *route, uint64_t now_ns)
{
	if (receive_wait_is_new(&route->wait, now_ns) &&
		!borrower_channel_has_room(route->process.channel))
		route_kick(route);
}

static void waited_well(struct datagram_route *route)
{
	struct receive_wait *wait = &route->wait;
	uint64_t more_ns = WAIT_BUDGET_NS_GAIN + (wait->is_waiting ? wait->budget_ns : 0);

	wait->budget_ns = min_u64(wait->budget_ns + more_ns, RECEIVE_WAIT_NS_MAX);
	wait->is_waiting = false;
	wait->has_given_up = false;
}

/*
 * Have the datagrams that were sent as packets arrived? If so, returns QP_LOCAL_DONE. If not, the
 * next datagram also becomes a packet (QP_LOCAL_PACKETS), so that it follows them. With
 * FALLBACKS_MAX packets under way, the sender waits instead (QP_LOCAL_LATER). After a full wait,
 * missing datagrams count as lost.
 */
static enum qp_local_result packets_follow(
	struct datagram_route *route, uint64_t now_ns, uint64_t *ret_at_ns)
{
	uint32_t arrived = atomic_load_explicit(&route->endpoint->arrived, memory_order_acquire);

	if (route->packets && arrived - route->arrived_before < route->packets) {
		if (route->packets < FALLBACKS_MAX)
			return QP_LOCAL_PACKETS;
		if (receive_wait_more(&route->wait, now_ns, ret_at_ns) == QP_LOCAL_LATER)
			return QP_LOCAL_LATER;
	}
	route->packets = 0;
	return QP_LOCAL_DONE;
}

/* --- sending --- */

bool datagram_can_execute(struct qp *qp, const struct send_wqe *wqe)
{
	/* A datagram with a limited rate needs packets. */
	return !local_is_paced(qp) && !wqe->datagram.rate_kbps &&
		wqe->total_bytes <= qp->mtu_bytes && wqe->total_bytes <= PAYLOAD_BYTES_MAX;
}

/* Does the datagram have the receiver's Q_Key? */
static bool knows_key(const struct ud_endpoint_qp *from, const struct datagram_route *route,
	const struct send_wqe *wqe)
{
	uint32_t qkey = wqe->datagram.qkey;

	if (qkey & UD_QKEY_OWN)
		qkey = from->qp->attr.qkey;
	return qkey == atomic_load_explicit(&route->endpoint->qkey, memory_order_relaxed);
}

/* Deliver the datagram. The caller has set the mark. */
static enum qp_local_result datagram_deliver(struct ud_endpoint_qp *from,
	struct datagram_route *route, const struct send_wqe *wqe, uint64_t now_ns,
	uint64_t *ret_at_ns)
{
	struct datagram datagram;
	struct recv_wqe receive;
	enum qp_local_result result;
	uint64_t taken;

	if (!knows_key(from, route, wqe) || !payload_find(from, wqe, &datagram))
		return QP_LOCAL_PACKETS;
	result = packets_follow(route, now_ns, ret_at_ns);
	if (result != QP_LOCAL_DONE)
		return result;
	result = receive_take(route, wqe, &receive, &taken);
	if (result == QP_LOCAL_LATER)
		return receive_wait_for(&route->wait, route->rq, now_ns, ret_at_ns);
	if (result == QP_LOCAL_DONE) {
		record_publish(from, route, wqe, &receive, taken,
			receive_fill(route, &receive, wqe, &datagram));
		waited_well(route);
	}
	return result;
}

/*
 * The datagram was delivered. Wake the receiver's thread if it waits for a completion or for the
 * limit event.
 */
static void receiver_notify(const struct datagram_route *route, const struct send_wqe *wqe)
{
	if (route->is_rq_shared && rq_note_low(route->rq))
		route_kick(route);
	else
		peer_notify(peer_of(route), route->cq, route->process.lane,
			(wqe->flags & SEND_SOLICITED) != 0);
}

/* Count a datagram that falls back to packets although its endpoint is known. */
static void goes_by_packets(struct datagram_route *route)
{
	if (!route->packets)
		route->arrived_before =
			atomic_load_explicit(&route->endpoint->arrived, memory_order_acquire);
	route->packets++;
	route->wait.is_waiting = false;
}

static enum qp_local_result route_execute(struct ud_endpoint_qp *from, struct datagram_route *route,
	const struct send_wqe *wqe, uint64_t now_ns, uint64_t *ret_at_ns)
{
	enum qp_local_result result;

	if (atomic_load_explicit(&route->process.owner->is_gone, memory_order_relaxed) ||
		!endpoint_enter(route))
		return QP_LOCAL_PACKETS;
	result = datagram_deliver(from, route, wqe, now_ns, ret_at_ns);
	channel_leave(route->process.channel);
	if (result == QP_LOCAL_LATER)
		wake_receiver(route, now_ns);
	if (result == QP_LOCAL_DONE)
		receiver_notify(route, wqe);
	else if (result == QP_LOCAL_PACKETS)
		goes_by_packets(route);
	return result;
}

enum qp_local_result datagram_execute(struct qp *qp, const struct send_wqe *wqe, uint64_t now_ns,
	uint64_t *ret_at_ns, enum fault *ret_fault)
{
	struct ud_endpoint_qp *from = ud_endpoint_from_qp(qp);
	const struct datagram_target *target = &wqe->datagram;
	struct datagram_route *route = route_find(from->lane, target->path, target->qpn);
	enum qp_local_result result;

	(void)ret_fault;
	if (!route || !route->process.owner) {
		lookup_request(from, route, target, now_ns);
		return QP_LOCAL_PACKETS;
	}
	result = route_execute(from, route, wqe, now_ns, ret_at_ns);
	if (result == QP_LOCAL_DONE) {
		if (lane_is_captured(qp->lane))
			datagram_capture(from, route->path, wqe);
		qp_count(qp, COUNTER_local_requests, 1);
	} else if (result == QP_LOCAL_PACKETS)
		qp_count(qp, COUNTER_local_declined, 1);
	return result;
}
