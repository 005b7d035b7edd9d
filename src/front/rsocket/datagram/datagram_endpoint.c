/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs of datagram rsockets, and routes to peers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arith.h"
#include "front/rsocket/datagram/datagram_socket.h"
#include "os/epoll.h"

enum { GRH_BYTES = 40, GIDS_MAX = 64 };

/* --- queue pairs --- */

uint8_t *datagram_endpoint_slot(struct datagram_endpoint *endpoint, uint32_t slot)
{
	return endpoint->memory + (size_t)slot * DATAGRAM_SLOT_BYTES;
}

void datagram_endpoint_give_back(struct datagram_endpoint *endpoint, uint32_t slot)
{
	size_t slots_bytes =
		(size_t)(endpoint->send_count + endpoint->receive_count) * DATAGRAM_SLOT_BYTES;
	struct ibv_sge list[2] = {
		{(uintptr_t)endpoint->memory + slots_bytes, GRH_BYTES, endpoint->mr->lkey},
		{(uintptr_t)datagram_endpoint_slot(endpoint, slot), DATAGRAM_SLOT_BYTES,
			endpoint->mr->lkey},
	};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = list, .num_sge = 2}, *bad;

	/* The receive queue has room, so posting fails only if the queue pair has failed. */
	ibv_post_recv(endpoint->id->qp, &wr, &bad);
}

static int memory_make(struct datagram_endpoint *endpoint, const struct rs_options *options)
{
	void *memory = NULL;
	size_t bytes;

	endpoint->send_count = max_u32(1,
		min_u32(options->send_queue_size,
			options->send_buffer_bytes / DATAGRAM_SLOT_BYTES));
	endpoint->receive_count = max_u32(1,
		min_u32(options->receive_queue_size,
			options->receive_buffer_bytes / DATAGRAM_SLOT_BYTES));
	bytes = (size_t)(endpoint->send_count + endpoint->receive_count) * DATAGRAM_SLOT_BYTES +
		GRH_BYTES;
	if (posix_memalign(&memory, (size_t)sysconf(_SC_PAGESIZE), bytes))
		return rs_no_memory();
	endpoint->memory = memory;
	endpoint->free_slots = calloc(endpoint->send_count, sizeof(*endpoint->free_slots));
	if (!endpoint->free_slots)
		return rs_no_memory();
	for (uint32_t slot = 0; slot < endpoint->send_count; slot++)
		endpoint->free_slots[endpoint->free_count++] = slot;
	endpoint->mr = ibv_reg_mr(endpoint->id->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
	return endpoint->mr ? 0 : errno;
}

static int queue_pair_make(struct datagram_endpoint *endpoint)
{
	struct ibv_context *context = endpoint->id->verbs;
	struct ibv_qp_init_attr init = {
		.qp_context = endpoint,
		.cap =
			{
				.max_send_wr = endpoint->send_count,
				.max_recv_wr = endpoint->receive_count,
				.max_send_sge = 1,
				.max_recv_sge = 2,
			},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};

	endpoint->channel = ibv_create_comp_channel(context);
	if (!endpoint->channel || fcntl(endpoint->channel->fd, F_SETFL, O_NONBLOCK))
		return errno;
	endpoint->send_cq =
		ibv_create_cq(context, (int)endpoint->send_count, NULL, endpoint->channel, 0);
	if (!endpoint->send_cq)
		return errno;
	endpoint->receive_cq =
		ibv_create_cq(context, (int)endpoint->receive_count, NULL, endpoint->channel, 0);
	if (!endpoint->receive_cq)
		return errno;
	init.send_cq = endpoint->send_cq;
	init.recv_cq = endpoint->receive_cq;
	return rdma_create_qp(endpoint->id, NULL, &init) ? errno : 0;
}

static in_port_t *port_of(union datagram_name *name)
{
	return name->base.sa_family == AF_INET ? &name->ipv4.sin_port : &name->ipv6.sin6_port;
}

/*
 * Resolve the address with itself as the destination, because that chooses the device. Binding to a
 * loopback address would choose none. The port may differ from the socket's, because no peer
 * requests the port from the connection manager.
 */
static int id_make(struct datagram_endpoint *endpoint, const union datagram_name *name)
{
	union datagram_name any_port = *name;
	struct ibv_port_attr port;

	*port_of(&any_port) = 0;
	if (rdma_create_id(NULL, &endpoint->id, NULL, RDMA_PS_UDP) ||
		rdma_resolve_addr(
			endpoint->id, &any_port.base, &any_port.base, RS_RESOLVE_TIMEOUT_MS))
		return errno;
	if (ibv_query_port(endpoint->id->verbs, endpoint->id->port_num, &port))
		return EIO;
	endpoint->packet_bytes = min_u32(DATAGRAM_SLOT_BYTES, 128u << port.active_mtu);
	return 0;
}

/*
 * Get the name of the socket itself. A socket without a port gets a port now, because datagrams
 * carry the port. Returns 0 or an errno.
 */
static int own_name(struct rs *rs, union datagram_name *ret_name)
{
	socklen_t bytes = sizeof(*ret_name);

	memset(ret_name, 0, sizeof(*ret_name));
	if (getsockname(rs->fd, &ret_name->base, &bytes))
		return errno;
	if (*port_of(ret_name) != 0)
		return 0;
	bytes = sizeof(*ret_name);
	if (bind(rs->fd, &ret_name->base, datagram_name_bytes(ret_name)) ||
		getsockname(rs->fd, &ret_name->base, &bytes))
		return errno;
	return 0;
}

static int endpoint_make(
	struct rs *rs, struct datagram_endpoint *endpoint, const union datagram_name *name)
{
	struct epoll_event event = {.events = EPOLLIN};
	union datagram_name own;
	int error = own_name(rs, &own);

	if (error)
		return error;
	endpoint->name = *name;
	*port_of(&endpoint->name) = *port_of(&own);
	endpoint->header_bytes = datagram_header_encode(endpoint->header, &endpoint->name);
	error = id_make(endpoint, name);
	if (!error)
		error = memory_make(endpoint, &rs->options);
	if (!error)
		error = queue_pair_make(endpoint);
	if (!error &&
		epoll_change(rs->datagram->epoll, EPOLL_CTL_ADD, endpoint->channel->fd, &event))
		error = errno;
	for (uint32_t i = 0; !error && i < endpoint->receive_count; i++)
		datagram_endpoint_give_back(endpoint, endpoint->send_count + i);
	return error;
}

static bool is_same_address(const union datagram_name *a, const union datagram_name *b)
{
	if (a->base.sa_family != b->base.sa_family)
		return false;
	if (a->base.sa_family == AF_INET)
		return a->ipv4.sin_addr.s_addr == b->ipv4.sin_addr.s_addr;
	return IN6_ARE_ADDR_EQUAL(&a->ipv6.sin6_addr, &b->ipv6.sin6_addr) &&
		a->ipv6.sin6_scope_id == b->ipv6.sin6_scope_id;
}

int datagram_endpoint_get(
	struct rs *rs, const union datagram_name *name, struct datagram_endpoint **ret_endpoint)
{
	struct datagram *datagram = rs->datagram;
	struct datagram_endpoint *endpoint;
	int error;

	for (uint32_t i = 0; i < datagram->endpoint_count; i++) {
		if (is_same_address(&datagram->endpoints[i]->name, name)) {
			*ret_endpoint = datagram->endpoints[i];
			return 0;
		}
	}
	if (datagram->endpoint_count == DATAGRAM_ENDPOINTS_MAX)
		return ENOBUFS;
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return rs_no_memory();
	error = endpoint_make(rs, endpoint, name);
	if (error) {
		datagram_endpoint_destroy(endpoint);
		return error;
	}
	datagram->endpoints[datagram->endpoint_count++] = endpoint;
	*ret_endpoint = endpoint;
	return 0;
}

void datagram_endpoint_destroy(struct datagram_endpoint *endpoint)
{
	if (endpoint->id && endpoint->id->qp)
		rdma_destroy_qp(endpoint->id);
	if (endpoint->send_cq) {
		ibv_ack_cq_events(endpoint->send_cq, endpoint->send_unacknowledged);
		ibv_destroy_cq(endpoint->send_cq);
	}
	if (endpoint->receive_cq) {
		ibv_ack_cq_events(endpoint->receive_cq, endpoint->receive_unacknowledged);
		ibv_destroy_cq(endpoint->receive_cq);
	}
	if (endpoint->channel)
		ibv_destroy_comp_channel(endpoint->channel);
	if (endpoint->mr)
		ibv_dereg_mr(endpoint->mr);
	if (endpoint->id)
		rdma_destroy_id(endpoint->id);
	free(endpoint->free_slots);
	free(endpoint->memory);
	free(endpoint);
}

void datagram_endpoint_reclaim(struct datagram_endpoint *endpoint)
{
	struct ibv_wc batch[16];
	int count;

	do {
		count = ibv_poll_cq(endpoint->send_cq, 16, batch);
		for (int i = 0; i < count; i++)
			endpoint->free_slots[endpoint->free_count++] = (uint32_t)batch[i].wr_id;
	} while (count == 16);
}

int datagram_endpoint_send(struct datagram_endpoint *endpoint, const struct datagram_peer *peer,
	uint32_t slot, size_t bytes)
{
	struct ibv_sge list = {(uintptr_t)datagram_endpoint_slot(endpoint, slot), (uint32_t)bytes,
		endpoint->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = slot,
		.sg_list = &list,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = {peer->ah, peer->qpn, RDMA_UDP_QKEY},
	};
	struct ibv_send_wr *bad;
	int error = ibv_post_send(endpoint->id->qp, &wr, &bad);

	if (error)
		endpoint->free_slots[endpoint->free_count++] = slot;
	return error;
}

bool datagram_endpoint_receive(
	struct datagram_endpoint *endpoint, struct datagram_message *ret_message)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(endpoint->receive_cq, 1, &wc) == 1) {
		uint32_t slot = (uint32_t)wc.wr_id;
		const uint8_t *data = datagram_endpoint_slot(endpoint, slot);
		size_t header_bytes = 0;

		if (wc.status == IBV_WC_SUCCESS && wc.byte_len >= GRH_BYTES)
			header_bytes = datagram_header_decode(
				&ret_message->from, data, wc.byte_len - GRH_BYTES);
		if (header_bytes) {
			ret_message->data = data + header_bytes;
			ret_message->bytes = wc.byte_len - GRH_BYTES - (uint32_t)header_bytes;
			ret_message->endpoint = endpoint;
			ret_message->slot = slot;
			return true;
		}
		if (wc.status == IBV_WC_SUCCESS)
			datagram_endpoint_give_back(endpoint, slot);
	}
	return false;
}

void datagram_endpoint_arm(struct datagram_endpoint *endpoint, bool wants_room)
{
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(endpoint->channel, &cq, &context) == 0) {
		if (cq == endpoint->send_cq)
			endpoint->send_unacknowledged++;
		else
			endpoint->receive_unacknowledged++;
	}
	ibv_req_notify_cq(endpoint->receive_cq, 0);
	if (wants_room)
		ibv_req_notify_cq(endpoint->send_cq, 0);
}

/* --- ways to peers --- */

static int gid_index_of(struct ibv_context *context, const union ibv_gid *gid)
{
	struct ibv_gid_entry entries[GIDS_MAX];
	ssize_t count = ibv_query_gid_table(context, entries, GIDS_MAX, 0);

	for (ssize_t i = 0; i < count; i++)
		if (memcmp(&entries[i].gid, gid, sizeof(*gid)) == 0)
			return (int)entries[i].gid_index;
	return -1;
}

/*
 * A socket that is not bound to an address sends from the address that the kernel's routing
 * chooses.
 */
static int destination_resolve(struct rs *rs, struct rdma_cm_id *id, const union datagram_name *to)
{
	union datagram_name own;
	int error = own_name(rs, &own);
	bool is_any;

	if (error)
		return error;
	*port_of(&own) = 0;
	is_any = own.base.sa_family == AF_INET ? own.ipv4.sin_addr.s_addr == htonl(INADDR_ANY)
					       : IN6_IS_ADDR_UNSPECIFIED(&own.ipv6.sin6_addr);
	if (rdma_resolve_addr(id, is_any ? NULL : &own.base,
		    (struct sockaddr *)(uintptr_t)&to->base, RS_RESOLVE_TIMEOUT_MS) ||
		rdma_resolve_route(id, RS_RESOLVE_TIMEOUT_MS))
		return errno;
	return 0;
}

static int way_make(struct datagram_peer *peer, const struct rdma_cm_id *id)
{
	const struct ibv_sa_path_rec *path = id->route.path_rec;
	struct ibv_ah_attr attr = {
		.grh = {.dgid = path->dgid,
			.hop_limit = path->hop_limit,
			.traffic_class = path->traffic_class},
		.sl = path->sl,
		.is_global = 1,
		.port_num = id->port_num,
	};
	int gid_index = gid_index_of(id->verbs, &path->sgid);

	if (gid_index < 0)
		return ENODEV;
	attr.grh.sgid_index = (uint8_t)gid_index;
	peer->ah = ibv_create_ah(peer->endpoint->id->pd, &attr);
	return peer->ah ? 0 : errno;
}

int datagram_peer_create(
	struct rs *rs, const union datagram_name *name, struct datagram_peer **ret_peer)
{
	struct datagram_peer *peer = calloc(1, sizeof(*peer));
	struct rdma_cm_id *id = NULL;
	union datagram_name local;
	int error;

	if (!peer)
		return rs_no_memory();
	peer->name = *name;
	error = rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP) ? errno : 0;
	if (!error)
		error = destination_resolve(rs, id, name);
	if (!error &&
		!datagram_name_from(
			&local, rdma_get_local_addr(id), sizeof(struct sockaddr_storage)))
		error = EAFNOSUPPORT;
	if (!error)
		error = datagram_endpoint_get(rs, &local, &peer->endpoint);
	if (!error)
		error = way_make(peer, id);
	if (id)
		rdma_destroy_id(id);
	if (error)
		datagram_peer_destroy(peer);
	else
		*ret_peer = peer;
	return error;
}

void datagram_peer_destroy(struct datagram_peer *peer)
{
	if (!peer)
		return;
	if (peer->ah)
		ibv_destroy_ah(peer->ah);
	free(peer);
}
