/* SPDX-License-Identifier: BSD-2-Clause */
#include "attack/syscall_ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum {
	DEPTH = 8,
	MESSAGE_BYTES = 64,
	BLOCK_BYTES = 256 << 10,
	BLOCK_EVERY = 8, /* rounds */
	TIMEOUT = 12, /* 16.8 ms, */
	RETRIES = 3, /* four times */
	CM_TIMEOUT_MS = 2000,
};

/* One reliable connection. */
struct link {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp; /* of rdma_cm's identifier, if that has one */
	struct rdma_cm_id *id;
	uint32_t sent; /* completions of sends */
	uint32_t received;
};

static struct stage *stage;
static struct end *own, *other;
static struct end_options options;
static _Alignas(4096) uint8_t memory[2 * BLOCK_BYTES]; /* for each direction */

/* --- what happens is told --- */

static void name_set(char *name, const char *text)
{
	strncpy(name, text, NAME_BYTES - 1);
}

static bool failed(const char *step, int error)
{
	if (!own->failed[0]) {
		own->error = error;
		name_set(own->failed, step);
	}
	return false;
}

/* A call that returns 0 and sets errno, or returns an error number. */
#define CALL(name, result) (name_set(own->step, name), errno = 0, told_result(name, result))
/* A call that returns an object, or NULL and sets errno. */
#define MAKE(object, name, ...)                 \
	(name_set(own->step, #name), errno = 0, \
		((object) = name(__VA_ARGS__)) || failed(#name, errno))

static bool told_result(const char *name, int result)
{
	return result == 0 || failed(name, result > 0 ? result : errno);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Without a system call that might be the one that fails. */
static void pause_shortly(void)
{
	const struct timespec time = {0, 200000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* Until the other end is as far; false if it is over. */
static bool meet(void)
{
	unsigned phase = atomic_fetch_add(&own->phase, 1) + 1;

	name_set(own->step, "meet");
	while (atomic_load(&other->phase) < phase && !atomic_load(&other->is_over))
		pause_shortly();
	return atomic_load(&other->phase) >= phase;
}

/* --- traffic --- */

static bool event_take(struct link *link)
{
	struct ibv_cq *cq;
	void *context;

	if (!CALL("ibv_get_cq_event", ibv_get_cq_event(link->channel, &cq, &context)))
		return false;
	ibv_ack_cq_events(cq, 1);
	return true;
}

static bool completions_take(struct link *link)
{
	struct ibv_wc wc;
	int count;

	name_set(own->step, "ibv_poll_cq");
	while ((count = ibv_poll_cq(link->cq, 1, &wc)) > 0) {
		if (wc.status != IBV_WC_SUCCESS) {
			if (!own->status)
				own->status = (int)wc.status;
			return false;
		}
		if (wc.opcode & IBV_WC_RECV)
			link->received++;
		else
			link->sent++;
	}
	return count == 0 || failed("ibv_poll_cq", -count);
}

/* Is there something to read within 50 ms? By select(), which the libraries do not use. */
static bool is_readable(int fd)
{
	struct timeval time = {0, 50000};
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	name_set(own->step, "select");
	return select(fd + 1, &set, NULL, NULL, &time) > 0;
}

/*
 * Sleep until there is a completion, for some time at most. With `is_sure` a request is under way,
 * which completes in any case, so the program blocks in ibv_get_cq_event().
 */
static bool completion_await(struct link *link, bool is_sure)
{
	return is_sure || is_readable(link->channel->fd) ? event_take(link) : true;
}

/* Until so many sends and receives have completed. */
static bool traffic_await(struct link *link, uint32_t sent, uint32_t received)
{
	uint64_t until_ms = now_ms() + TIMEOUT_MS;

	for (;;) {
		if (!completions_take(link))
			return false;
		if (link->sent >= sent && link->received >= received)
			return true;
		if (!CALL("ibv_req_notify_cq", ibv_req_notify_cq(link->cq, 0)) ||
			!completions_take(link))
			return false;
		if (link->sent >= sent && link->received >= received)
			continue;
		if (!completion_await(link, link->sent < sent))
			return false;
		if (now_ms() > until_ms)
			return failed("wait for a completion", 0);
	}
}

static bool receive_post(struct link *link)
{
	struct ibv_sge sge = {(uintptr_t)memory + BLOCK_BYTES, MESSAGE_BYTES, link->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	return CALL("ibv_post_recv", ibv_post_recv(link->qp, &wr, &bad));
}

static bool send_post(struct link *link, enum ibv_wr_opcode opcode, const struct card *card)
{
	bool is_send = opcode == IBV_WR_SEND;
	struct ibv_sge sge = {
		(uintptr_t)memory, is_send ? MESSAGE_BYTES : BLOCK_BYTES, link->mr->lkey};
	struct ibv_send_wr wr = {
		.opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = card->address;
	wr.wr.rdma.rkey = card->rkey;
	return CALL("ibv_post_send", ibv_post_send(link->qp, &wr, &bad));
}

static bool client_round(struct link *link, const struct card *card, uint32_t round)
{
	uint32_t sent = link->sent + 1;

	if (!receive_post(link))
		return false;
	if (round % BLOCK_EVERY == 0) {
		if (!send_post(link, IBV_WR_RDMA_WRITE, card) ||
			!send_post(link, IBV_WR_RDMA_READ, card))
			return false;
		sent += 2;
	}
	return send_post(link, IBV_WR_SEND, card) && traffic_await(link, sent, round);
}

static bool server_round(struct link *link, const struct card *card, uint32_t round)
{
	return traffic_await(link, link->sent, round) && receive_post(link) &&
		send_post(link, IBV_WR_SEND, card) && traffic_await(link, link->sent + 1, round);
}

/* A ping and a pong each. The server has posted its first receive request. */
static bool traffic(struct link *link, const struct card *card, uint32_t rounds)
{
	for (uint32_t round = 1; round <= rounds; round++) {
		if (!(options.role == END_CLIENT ? client_round : server_round)(link, card, round))
			return false;
		own->rounds++;
	}
	return true;
}

/* --- objects --- */

static bool link_make(struct link *link, struct ibv_pd *pd)
{
	return MAKE(link->channel, ibv_create_comp_channel, pd->context) &&
		MAKE(link->cq, ibv_create_cq, pd->context, 4 * DEPTH, NULL, link->channel, 0) &&
		MAKE(link->mr, ibv_reg_mr, pd, memory, 2 * (size_t)BLOCK_BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
}

static struct ibv_qp_init_attr qp_wish(const struct link *link)
{
	return (struct ibv_qp_init_attr){
		.send_cq = link->cq,
		.recv_cq = link->cq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
}

static void link_destroy(struct link *link)
{
	if (link->id && link->id->qp) {
		name_set(own->step, "rdma_destroy_qp");
		rdma_destroy_qp(link->id);
	} else if (link->qp && !link->id) {
		CALL("ibv_destroy_qp", ibv_destroy_qp(link->qp));
	}
	if (link->cq)
		CALL("ibv_destroy_cq", ibv_destroy_cq(link->cq));
	if (link->channel)
		CALL("ibv_destroy_comp_channel", ibv_destroy_comp_channel(link->channel));
	if (link->mr)
		CALL("ibv_dereg_mr", ibv_dereg_mr(link->mr));
}

static void card_fill(const struct link *link, int index, const union ibv_gid *gid)
{
	struct card *card = &own->cards[index];

	card->gid = *gid;
	card->address = (uintptr_t)memory;
	card->rkey = link->mr->rkey;
	card->qpn = link->qp->qp_num;
}

/* --- connected by ibv_modify_qp() --- */

static bool qp_connect(struct ibv_qp *qp, const struct card *card)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

	if (!CALL("ibv_modify_qp to INIT",
		    ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)))
		return false;
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = card->qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = card->gid, .hop_limit = 64}}};
	if (!CALL("ibv_modify_qp to RTR",
		    ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER)))
		return false;
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
		.timeout = TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = 7,
		.max_rd_atomic = 1};
	return CALL("ibv_modify_qp to RTS",
		ibv_modify_qp(qp, &attr,
			IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static bool plain_run(struct link *link, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init;
	union ibv_gid gid;

	if (!link_make(link, pd))
		return false;
	init = qp_wish(link);
	if (!MAKE(link->qp, ibv_create_qp, pd, &init) ||
		!CALL("ibv_query_gid", ibv_query_gid(pd->context, 1, 0, &gid)))
		return false;
	card_fill(link, 0, &gid);
	return meet() && qp_connect(link->qp, &other->cards[0]) &&
		(options.role == END_CLIENT || receive_post(link)) && meet() &&
		traffic(link, &other->cards[0], ROUNDS) && meet();
}

static void plain(struct ibv_pd *pd)
{
	struct link link = {0};

	plain_run(&link, pd);
	link_destroy(&link);
}

/* --- connected by rdma_cm --- */

/*
 * Await a request of the other end. The library rejects one that it cannot take, and reports only
 * the next one. So the call does not block here.
 */
static bool request_await(struct rdma_event_channel *events, struct rdma_cm_event **ret_event)
{
	int flags = fcntl(events->fd, F_GETFL), rc = -1;

	fcntl(events->fd, F_SETFL, flags | O_NONBLOCK);
	while (rc && !atomic_load(&other->is_over)) {
		is_readable(events->fd);
		name_set(own->step, "rdma_get_cm_event");
		rc = rdma_get_cm_event(events, ret_event);
		if (rc && errno != EAGAIN)
			return failed("rdma_get_cm_event", errno);
	}
	fcntl(events->fd, F_SETFL, flags);
	return !rc;
}

/*
 * Take the next event, which should be `wanted`. Its identifier stays valid: events are
 * acknowledged at once.
 */
static bool event_await(struct rdma_event_channel *events, enum rdma_cm_event_type wanted,
	struct rdma_cm_id **ret_id)
{
	uint64_t until_ms = now_ms() + TIMEOUT_MS;
	struct rdma_cm_event *event;
	int status;

	if (wanted == RDMA_CM_EVENT_CONNECT_REQUEST) {
		if (!request_await(events, &event))
			return false;
	} else {
		while (!is_readable(events->fd))
			if (now_ms() > until_ms)
				return failed("wait for an event", 0);
		if (!CALL("rdma_get_cm_event", rdma_get_cm_event(events, &event)))
			return false;
	}
	status = event->event == wanted ? 0 : event->status ? event->status : (int)event->event;
	if (ret_id)
		*ret_id = event->id;
	CALL("rdma_ack_cm_event", rdma_ack_cm_event(event));
	if (status && !own->status)
		own->status = status;
	return status == 0;
}

static bool id_equip(struct link *link)
{
	struct ibv_qp_init_attr init;

	if (!link_make(link, link->id->pd))
		return false;
	init = qp_wish(link);
	if (!CALL("rdma_create_qp", rdma_create_qp(link->id, link->id->pd, &init)))
		return false;
	link->qp = link->id->qp;
	card_fill(link, 1, &(union ibv_gid){{0}});
	return true;
}

static struct sockaddr_in server_address(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(stage->port)};

	inet_pton(AF_INET, options.address, &address.sin_addr);
	return address;
}

static struct rdma_conn_param connection_wish(void)
{
	return (struct rdma_conn_param){.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = RETRIES,
		.rnr_retry_count = 7};
}

static bool server_connect(
	struct rdma_event_channel *events, struct link *link, struct rdma_cm_id **ret_listener)
{
	struct sockaddr_in address = server_address();
	struct rdma_conn_param wish = connection_wish();

	if (!CALL("rdma_create_id", rdma_create_id(events, ret_listener, NULL, RDMA_PS_TCP)) ||
		!CALL("rdma_bind_addr",
			rdma_bind_addr(*ret_listener, (struct sockaddr *)&address)) ||
		!CALL("rdma_listen", rdma_listen(*ret_listener, 1)))
		return false;
	return meet() && event_await(events, RDMA_CM_EVENT_CONNECT_REQUEST, &link->id) &&
		id_equip(link) && receive_post(link) &&
		CALL("rdma_accept", rdma_accept(link->id, &wish)) &&
		event_await(events, RDMA_CM_EVENT_ESTABLISHED, NULL);
}

static bool client_connect(struct rdma_event_channel *events, struct link *link)
{
	struct sockaddr_in address = server_address();
	struct rdma_conn_param wish = connection_wish();

	return meet() &&
		CALL("rdma_create_id", rdma_create_id(events, &link->id, NULL, RDMA_PS_TCP)) &&
		CALL("rdma_resolve_addr",
			rdma_resolve_addr(
				link->id, NULL, (struct sockaddr *)&address, CM_TIMEOUT_MS)) &&
		event_await(events, RDMA_CM_EVENT_ADDR_RESOLVED, NULL) &&
		CALL("rdma_resolve_route", rdma_resolve_route(link->id, CM_TIMEOUT_MS)) &&
		event_await(events, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL) && id_equip(link) &&
		CALL("rdma_connect", rdma_connect(link->id, &wish)) &&
		event_await(events, RDMA_CM_EVENT_ESTABLISHED, NULL);
}

static bool cm_run(
	struct rdma_event_channel *events, struct link *link, struct rdma_cm_id **ret_listener)
{
	if (!(options.role == END_CLIENT ? client_connect(events, link)
					 : server_connect(events, link, ret_listener)))
		return false;
	return meet() && traffic(link, &other->cards[1], options.is_iwarp ? ROUNDS : CM_ROUNDS) &&
		meet() && CALL("rdma_disconnect", rdma_disconnect(link->id)) &&
		event_await(events, RDMA_CM_EVENT_DISCONNECTED, NULL);
}

static void by_cm(void)
{
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener = NULL;
	struct link link = {0};

	if (!MAKE(events, rdma_create_event_channel))
		return;
	cm_run(events, &link, &listener);
	atomic_store(&own->is_over, true);
	link_destroy(&link);
	if (link.id)
		CALL("rdma_destroy_id", rdma_destroy_id(link.id));
	if (listener)
		CALL("rdma_destroy_id", rdma_destroy_id(listener));
	name_set(own->step, "rdma_destroy_event_channel");
	rdma_destroy_event_channel(events);
}

/* --- all of it --- */

static void device_use(struct ibv_context *context)
{
	struct ibv_port_attr port;
	struct ibv_pd *pd;

	if (CALL("ibv_query_port", ibv_query_port(context, 1, &port)) &&
		MAKE(pd, ibv_alloc_pd, context)) {
		plain(pd);
		CALL("ibv_dealloc_pd", ibv_dealloc_pd(pd));
	}
	if (!own->failed[0] && !own->status && !atomic_load(&other->is_over))
		by_cm();
	atomic_store(&own->is_over, true);
}

static void everything(void)
{
	struct ibv_context *context = NULL;
	struct ibv_device **devices;

	if (options.is_iwarp) {
		by_cm();
		return;
	}
	if (!MAKE(devices, ibv_get_device_list, NULL))
		return;
	for (int i = 0; devices[i] && !context; i++)
		if (strcmp(ibv_get_device_name(devices[i]), "rocep_veth0") == 0 &&
			!MAKE(context, ibv_open_device, devices[i]))
			break;
	ibv_free_device_list(devices);
	if (!context) {
		failed("find the device", ENODEV);
		return;
	}
	device_use(context);
	CALL("ibv_close_device", ibv_close_device(context));
}

void end_run(struct stage *the_stage, const struct end_options *the_options)
{
	stage = the_stage;
	options = *the_options;
	own = &stage->ends[options.role];
	other = &stage->ends[!options.role];
	while (options.is_second && !atomic_load(&other->phase) && !atomic_load(&other->is_over))
		pause_shortly();
	everything();
	atomic_store(&own->is_over, true);
	name_set(own->step, "end");
	atomic_store(&own->is_done, true);
}
