/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets (datagram_protocol.h). Shared by datagram_socket.c and datagram_endpoint.c;
 * other files use the functions in rsocket.h.
 */
#ifndef URNIC_FRONT_RSOCKET_DATAGRAM_SOCKET_H
#define URNIC_FRONT_RSOCKET_DATAGRAM_SOCKET_H

#include "front/rsocket/datagram_protocol.h"
#include "front/rsocket/rsocket.h"

enum {
	DATAGRAM_PEERS = 256, /* remembered peers; a power of two */
	DATAGRAM_ENDPOINTS_MAX = 16, /* local addresses */
};

/* The queue pair of one local address, with its memory. */
struct datagram_endpoint {
	union datagram_name name; /* with the socket's port */
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq;
	struct ibv_cq *receive_cq;
	uint32_t send_unacknowledged; /* sends since the last acknowledged event */
	uint32_t receive_unacknowledged;
	uint8_t *memory; /* slots to send from, slots to receive into, and a GRH */
	struct ibv_mr *mr;
	uint32_t *free_slots;
	uint32_t free_count;
	uint32_t send_count;
	uint32_t receive_count;
	uint32_t packet_bytes; /* of the longest packet */
	uint8_t header[DATAGRAM_HEADER_BYTES_MAX];
	size_t header_bytes;
};

struct datagram_peer {
	union datagram_name name;
	struct datagram_endpoint *endpoint; /* the endpoint that sends to the peer */
	struct ibv_ah *ah;
	uint32_t qpn; /* 0: not known yet */
	uint64_t requested_ns; /* the last request for its number, or answer */
};

/* A datagram that the application has not taken. */
struct datagram_message {
	union datagram_name from;
	const uint8_t *data; /* NULL: there is none */
	uint32_t bytes;
	struct datagram_endpoint
		*endpoint; /* the owner of its slot; NULL: the datagram came over UDP */
	uint32_t slot;
};

struct datagram {
	int epoll; /* readable when a message may be there */
	int error; /* of the UDP socket; 0: none */
	uint64_t udp_looked_ns; /* when the UDP socket was last read */
	bool is_closing;
	struct datagram_endpoint *endpoints[DATAGRAM_ENDPOINTS_MAX];
	uint32_t endpoint_count;
	uint32_t endpoint_next; /* the endpoint to receive from next */
	struct datagram_peer *peer; /* connected to; NULL: not connected */
	struct datagram_peer *peers[DATAGRAM_PEERS]; /* at the hash of their name */
	struct datagram_peer *to; /* the peer of the send under way */
	struct datagram_message message;
	uint8_t udp_buffer[DATAGRAM_SLOT_BYTES];
};

/*
 * The endpoint of a local address, created at its first use.
 *
 * `name`  Its port is ignored.
 *
 * Returns 0 or an errno: ENODEV where no device has the address.
 */
int datagram_endpoint_get(
	struct rs *rs, const union datagram_name *name, struct datagram_endpoint **ret_endpoint);
void datagram_endpoint_destroy(struct datagram_endpoint *endpoint);

/* Reclaim slots whose datagrams are sent. */
void datagram_endpoint_reclaim(struct datagram_endpoint *endpoint);

/*
 * Send the datagram in a slot that was taken from free_slots. 0 or an errno; after an error the
 * slot is free again.
 */
int datagram_endpoint_send(struct datagram_endpoint *endpoint, const struct datagram_peer *peer,
	uint32_t slot, size_t bytes);
uint8_t *datagram_endpoint_slot(struct datagram_endpoint *endpoint, uint32_t slot);

/* The next datagram. Returns false when there is none. */
bool datagram_endpoint_receive(
	struct datagram_endpoint *endpoint, struct datagram_message *ret_message);
/* Free the slot of a datagram. */
void datagram_endpoint_give_back(struct datagram_endpoint *endpoint, uint32_t slot);

/* Arm the channel; `wants_room`: also when a send completes. */
void datagram_endpoint_arm(struct datagram_endpoint *endpoint, bool wants_room);

/* Create a peer at this address and resolve the route to it. 0 or an errno: no route, no device. */
int datagram_peer_create(
	struct rs *rs, const union datagram_name *name, struct datagram_peer **ret_peer);
void datagram_peer_destroy(struct datagram_peer *peer);

#endif
