/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets (datagram_protocol.h). Inside of datagram.c and datagram_endpoint.c; others use
 * what rsocket.h has of them.
 */
#ifndef URNIC_FRONT_RSOCKET_DATAGRAM_H
#define URNIC_FRONT_RSOCKET_DATAGRAM_H

#include "front/rsocket/datagram_protocol.h"
#include "front/rsocket/rsocket.h"

enum {
	DATAGRAM_PEERS = 256, /* that are remembered; a power of two */
	DATAGRAM_ENDPOINTS_MAX = 16, /* local addresses */
};

/* Of one local address: a queue pair with its memory. */
struct datagram_endpoint {
	union datagram_name name; /* with the socket's port */
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq;
	struct ibv_cq *receive_cq;
	uint32_t send_unacknowledged; /* events */
	uint32_t receive_unacknowledged;
	uint8_t *memory; /* slots to send from, slots to receive into, a GRH */
	struct ibv_mr *mr;
	uint32_t *free_slots;
	uint32_t free_count;
	uint32_t send_count;
	uint32_t receive_count;
	uint32_t packet_bytes; /* the longest */
	uint8_t header[DATAGRAM_HEADER_BYTES_MAX];
	size_t header_bytes;
};

struct datagram_peer {
	union datagram_name name;
	struct datagram_endpoint *endpoint; /* from where it is reached */
	struct ibv_ah *ah;
	uint32_t qpn; /* 0: not known yet */
	uint64_t asked_ns; /* when it was last asked for its number, or told it */
};

/* A datagram that the application has not taken. */
struct datagram_message {
	union datagram_name from;
	const uint8_t *data; /* NULL: there is none */
	uint32_t bytes;
	struct datagram_endpoint *endpoint; /* whose slot is occupied; NULL: it came over UDP */
	uint32_t slot;
};

struct datagram {
	int epoll; /* readable when something may have come */
	int error; /* of the UDP socket; 0: none */
	uint64_t udp_looked_ns; /* when UDP was last looked at */
	bool is_closing;
	struct datagram_endpoint *endpoints[DATAGRAM_ENDPOINTS_MAX];
	uint32_t endpoint_count;
	uint32_t endpoint_next; /* whose turn it is */
	struct datagram_peer *peer; /* connected to; NULL: to none */
	struct datagram_peer *peers[DATAGRAM_PEERS]; /* at the hash of their name */
	struct datagram_peer *to; /* who is being sent to */
	struct datagram_message message;
	uint8_t udp_buffer[DATAGRAM_SLOT_BYTES];
};

/*
 * The endpoint of a local address, made when it is first needed.
 *
 * `name`  Its port does not matter.
 *
 * Returns 0 or an errno: ENODEV where no device has the address.
 */
int datagram_endpoint_get(
	struct rs *rs, const union datagram_name *name, struct datagram_endpoint **ret_endpoint);
void datagram_endpoint_destroy(struct datagram_endpoint *endpoint);

/* Take back slots whose datagrams are sent. */
void datagram_endpoint_reclaim(struct datagram_endpoint *endpoint);

/*
 * Send what is in a slot that was taken from free_slots. 0 or an errno; then the slot is free
 * again.
 */
int datagram_endpoint_send(struct datagram_endpoint *endpoint, const struct datagram_peer *peer,
	uint32_t slot, size_t bytes);
uint8_t *datagram_endpoint_slot(struct datagram_endpoint *endpoint, uint32_t slot);

/* The next datagram. Returns false when there is none. */
bool datagram_endpoint_receive(
	struct datagram_endpoint *endpoint, struct datagram_message *ret_message);
/* The slot of a datagram can be used again. */
void datagram_endpoint_give_back(struct datagram_endpoint *endpoint, uint32_t slot);

/* Ask for an event on the channel; `wants_room`: also when something is sent. */
void datagram_endpoint_arm(struct datagram_endpoint *endpoint, bool wants_room);

/* A peer at this address, with the way to it. 0 or an errno: no route, no device. */
int datagram_peer_create(
	struct rs *rs, const union datagram_name *name, struct datagram_peer **ret_peer);
void datagram_peer_destroy(struct datagram_peer *peer);

#endif
