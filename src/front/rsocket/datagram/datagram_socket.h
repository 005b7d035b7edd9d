/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram rsockets (datagram_protocol.h): datagram_socket.c has the sockets, datagram_endpoint.c
 * their queue pairs.
 */
#ifndef URNIC_FRONT_RSOCKET_DATAGRAM_DATAGRAM_SOCKET_H
#define URNIC_FRONT_RSOCKET_DATAGRAM_DATAGRAM_SOCKET_H

#include "front/rsocket/datagram/datagram_protocol.h"
#include "front/rsocket/rsocket.h"

extern const struct rs_kind rs_datagram_kind;

/*
 * Open the UDP socket of a datagram socket, rs->fd. Returns 0 or an errno. rs_free() closes the UDP
 * socket, also after an error.
 */
int rs_datagram_open(struct rs *rs, int protocol);
/* Wait until all datagrams are sent. */
void rs_datagram_finish(struct rs *rs);
/* Connect as connect(2) does. Returns 0 or an errno. */
int rs_datagram_connect(struct rs *rs, const struct sockaddr *address, socklen_t bytes);

/* Send one datagram, to message->msg_name or to the connected peer. Returns 0 or an errno. */
int rs_datagram_send(struct rs *rs, const struct msghdr *message, int flags);
int rs_datagram_receive(struct rs *rs, struct msghdr *message, int flags, size_t *ret_bytes);

/* --- for both files --- */

enum {
	DATAGRAM_PEERS = 256, /* how many peers a socket remembers; a power of two */
	DATAGRAM_ENDPOINTS_MAX = 16, /* the most local addresses of a socket */
};

/* The queue pair of one local address, with its memory. */
struct datagram_endpoint {
	union datagram_name name; /* the local address, with the socket's port */
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq;
	struct ibv_cq *receive_cq;
	uint32_t send_unacknowledged; /* events of send_cq that are not acknowledged */
	uint32_t receive_unacknowledged; /* events of receive_cq that are not acknowledged */
	uint8_t *memory; /* slots to send from, slots to receive into, and a GRH */
	struct ibv_mr *mr;
	uint32_t *free_slots;
	uint32_t free_count;
	uint32_t send_count;
	uint32_t receive_count;
	uint32_t packet_bytes; /* the longest payload of a packet, datagram header included */
	uint8_t header[DATAGRAM_HEADER_BYTES_MAX];
	size_t header_bytes;
};

struct datagram_peer {
	union datagram_name name;
	struct datagram_endpoint *endpoint; /* the endpoint that sends to the peer */
	struct ibv_ah *ah;
	uint32_t qpn; /* 0: not known yet */
	uint64_t requested_ns; /* when this socket last requested the number, or received it */
};

/* A datagram that the application has not taken. */
struct datagram_message {
	union datagram_name from;
	const uint8_t *data; /* NULL: there is none */
	uint32_t bytes;
	/* The endpoint that has the slot. NULL: the datagram came over UDP. */
	struct datagram_endpoint *endpoint;
	uint32_t slot;
};

struct datagram {
	int epoll; /* an epoll set, readable when a message may have arrived */
	int error; /* errno of the UDP socket; 0: none */
	uint64_t udp_looked_ns; /* when the UDP socket was last read */
	bool is_closing;
	struct datagram_endpoint *endpoints[DATAGRAM_ENDPOINTS_MAX];
	uint32_t endpoint_count;
	uint32_t endpoint_next; /* the endpoint to receive from next */
	struct datagram_peer *peer; /* the connected peer; NULL: not connected */
	struct datagram_peer *peers[DATAGRAM_PEERS]; /* each peer at the hash of its name */
	struct datagram_peer *to; /* the destination of a send that waits for room; else NULL */
	struct datagram_message message;
	uint8_t udp_buffer[DATAGRAM_SLOT_BYTES];
};

/*
 * Get the endpoint of a local address, or create it.
 *
 * `name`  Its port is ignored.
 *
 * Returns 0 or an errno, which is ENODEV if no device has the address.
 */
int datagram_endpoint_get(
	struct rs *rs, const union datagram_name *name, struct datagram_endpoint **ret_endpoint);
void datagram_endpoint_destroy(struct datagram_endpoint *endpoint);

/* Make the slots of sent datagrams free again. */
void datagram_endpoint_reclaim(struct datagram_endpoint *endpoint);

/*
 * Send the datagram in `slot`, which the caller has taken from free_slots. `bytes` includes the
 * header. Returns 0 or an errno; after an error the slot is free again.
 */
int datagram_endpoint_send(struct datagram_endpoint *endpoint, const struct datagram_peer *peer,
	uint32_t slot, size_t bytes);
uint8_t *datagram_endpoint_slot(struct datagram_endpoint *endpoint, uint32_t slot);

/* Take the next received datagram. Returns false when there is none. */
bool datagram_endpoint_receive(
	struct datagram_endpoint *endpoint, struct datagram_message *ret_message);
/* Post the slot of a received datagram again. */
void datagram_endpoint_give_back(struct datagram_endpoint *endpoint, uint32_t slot);

/* Arm the channel for received datagrams, and if `wants_room`, for completed sends. */
void datagram_endpoint_arm(struct datagram_endpoint *endpoint, bool wants_room);

/*
 * Create a peer at this address and resolve the route to it. Returns 0, or an errno that may mean
 * that there is no route or no device.
 */
int datagram_peer_create(
	struct rs *rs, const union datagram_name *name, struct datagram_peer **ret_peer);
void datagram_peer_destroy(struct datagram_peer *peer);

#endif
