/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets: the sockets API over RDMA (rsocket(7)), for librdmacm.so.1.
 *
 * The code uses only public verbs and rdma_cm, so it runs on an adapter as well as on urnic.
 *
 *     table.c     descriptors to sockets
 *     rsocket.c   life of a stream: socket, bind, listen, accept, connect, shutdown, close
 *     endpoint.c  its queue pair, buffers and tables; messages in and out
 *     datagram_socket.c  datagram sockets; datagram_endpoint.c their queue pairs
 *     wait.c      waiting for a stream, rpoll(), rselect()
 *     transfer.c  rsend(), rrecv() and their kin
 *     repoll.c    repoll_create(), repoll_ctl(), repoll_wait()
 *     iomap.c     riomap(), riounmap(), riowrite()
 *     option.c    options, flags, names
 *
 * A stream's descriptor is that of its rdma_cm event channel. The channel is non-blocking, even for
 * blocking sockets: a blocking call waits in poll(), for the event channel and the completion
 * channel at once. So a call that waits for data also sees the end of the connection.
 *
 * Threads: each stream has one lock, which covers all of it; only the wait is outside. One thread
 * at a time polls the descriptors, the others wait for that thread.
 */
#ifndef URNIC_FRONT_RSOCKET_RSOCKET_H
#define URNIC_FRONT_RSOCKET_RSOCKET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Declarations in the public headers are exported; all others are hidden. */
#pragma GCC visibility push(default)
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>

/* Of rdma-core 62 and newer. */
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);
#pragma GCC visibility pop

#include "front/rsocket/pieces.h"
#include "front/rsocket/protocol.h"

enum {
	RS_TARGET_COUNT = 2, /* entries of the target table: halves of the receive buffer */
	RS_CTRL_COUNT = 4, /* SGL and CTRL messages under way */
	RS_SEND_BYTES_MIN = 2048, /* free room below which the send buffer counts as full */
	RS_TRANSFER_BYTES_START = 2048, /* the first piece of a long send, the next is twice that */
	RS_TRANSFER_BYTES_MAX = 65536,
	RS_QUEUE_SIZE_MIN = 16,
	RS_QUEUE_SIZE_MAX = 0xfffe, /* sequence numbers have 16 bits */
	RS_QUEUE_SIZE_DEFAULT = 384,
	RS_INLINE_BYTES_DEFAULT = 64,
	RS_BUFFER_BYTES_DEFAULT = 1 << 17,
	RS_IOMAP_COUNT_MAX = 127 << 8,
	RS_RESOLVE_TIMEOUT_MS = 2000,
	RS_DATAGRAM_BYTES_MAX = 2020, /* any receiver has this much room, with the longest header */
	RS_DATAGRAM_PIECES_MAX = 16,
};

enum rs_state {
	RS_INIT, /* made */
	RS_BOUND, /* has a local address */
	RS_LISTENING, /* takes connections */
	RS_RESOLVING_ADDRESS,
	RS_RESOLVING_ROUTE,
	RS_CONNECTING, /* REQ sent */
	RS_ACCEPTING, /* REP sent */
	RS_CONNECTED,
	RS_DISCONNECTED, /* was connected; received bytes may still be read */
	RS_FAILED, /* `error` has the reason */
};

/* A mapping made with riomap(). */
struct rs_mapping {
	struct rs_mapping *next;
	struct ibv_mr *mr;
	uint64_t offset;
	int index; /* in the peer's iomap table; -1 for local use only */
};

/* Each number is of 32 bits: option.c sets and reads them by a table. */
struct rs_options {
	uint32_t send_buffer_bytes;
	uint32_t receive_buffer_bytes;
	uint32_t send_queue_size;
	uint32_t receive_queue_size;
	uint32_t inline_bytes;
	uint32_t iomap_count; /* mappings that the peer may announce */
	int is_address_reused;
	int is_v6_only;
	/* Stored and returned only. */
	int keepalive;
	int oob_inline;
	int no_delay;
	int keepalive_idle_s;
	int keepalive_interval_s;
	int keepalive_count;
	struct linger linger;
};

struct datagram; /* datagram.h */

struct rs {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_waited_for; /* a thread polls the descriptors */
	uint32_t users; /* calls that use it; freed when closed and 0 */

	int fd;
	int family;
	bool is_nonblocking;
	enum rs_state state;
	bool can_read; /* neither end has ended that direction */
	bool can_write;
	int error; /* errno of RS_FAILED, until SO_ERROR takes it */
	struct rs_options options;
	struct datagram *datagram; /* NULL: a stream; else nothing below is used */
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;

	bool is_iwarp; /* messages are SENDs; see protocol.h */
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	uint32_t unacknowledged_events;
	uint32_t send_slots; /* free slots for DATA and IOMAP messages */
	uint32_t ctrl_slots; /* free slots for SGL and CTRL messages */

	/* sending */
	uint8_t *send_buffer;
	struct ibv_mr *send_mr;
	uint32_t send_offset; /* of the next byte */
	uint32_t send_free_bytes;
	uint16_t send_sequence; /* of the next numbered message */
	uint16_t send_limit; /* the first that may not be sent yet */
	struct rs_sge *target; /* the peer writes here; see protocol.h */
	struct ibv_mr *target_mr;
	uint32_t target_index; /* the entry in use */
	struct rs_iomap *target_iomap; /* behind the target table */

	/* receiving */
	uint8_t *receive_buffer;
	struct ibv_mr *receive_mr;
	uint32_t *received; /* behind the receive buffer: payload of messages that are SENDs */
	uint32_t receive_index; /* of the next receive request to post */
	uint32_t *messages; /* bytes of each DATA message not read yet: a ring */
	uint32_t message_count;
	uint32_t message_head;
	uint32_t read_offset; /* of the next byte to read */
	uint32_t free_bytes; /* read, and not granted to the peer again */
	uint32_t free_offset; /* their first byte */
	uint16_t receive_sequence; /* DATA messages read */
	uint16_t grant_at; /* grant more to the peer at this sequence number */
	struct rs_sge peer_target; /* the peer's target table; `bytes` counts its entries */
	uint32_t peer_target_index; /* the entry to write next */
	struct rs_sge peer_iomap;
	bool is_peer_swapped; /* the peer's tables are in the other byte order */

	struct rs_mapping *mappings;
};

/* --- table.c --- */

/* Enter a new socket into the table, under rs->fd. 0 or a positive errno. */
int rs_table_add(struct rs *rs);
/* Remove the socket from the table. */
void rs_table_remove(struct rs *rs);
/* The socket of a descriptor, with one more user, or NULL with errno EBADF. Undo with rs_put(). */
struct rs *rs_get(int fd);
/* NULL for a descriptor that is no rsocket; errno is unchanged. */
struct rs *rs_find(int fd);
/* Drop a user. The last user of a closed socket frees it. */
void rs_put(struct rs *rs);
/* rs_get() with the socket locked; unlock, then rs_put(). */
struct rs *rs_enter(int fd);
void rs_leave(struct rs *rs);

/* --- rsocket.c --- */

/* Handle events of the connection. The stream is locked. */
void rs_connection_advance(struct rs *rs);
/* Put the stream into state RS_FAILED. */
void rs_fail(struct rs *rs, int error);
void rs_free(struct rs *rs);

/* --- endpoint.c --- */

/* Create queue pair, buffers and tables on rs->id, and post the receive requests. 0 or an errno. */
int rs_endpoint_create(struct rs *rs);
void rs_endpoint_destroy(struct rs *rs);
/* Encode the private data for the peer, and take in the peer's. The latter fails with EPROTO. */
void rs_conn_data_make(const struct rs *rs, struct rs_conn_data *to);
int rs_conn_data_take(struct rs *rs, const void *private_data, size_t bytes);

/* Handle completions of receives and sends. */
void rs_completions_take(struct rs *rs);
/* Arm the completion channel, then poll once more. */
void rs_completions_arm(struct rs *rs);

/*
 * Copy the next `bytes` bytes into the send buffer, which has room for them, and write them into
 * the peer's memory. `is_silent`: without a message to the peer.
 */
int rs_data_send(struct rs *rs, struct pieces *from, uint32_t bytes, const struct rs_sge *to,
	bool is_silent);
/* Write one entry of the peer's iomap table. */
int rs_iomap_send(struct rs *rs, const struct rs_iomap *entry, uint32_t index);
int rs_ctrl_send(struct rs *rs, enum rs_ctrl ctrl);
/* Grant the bytes read to the peer, if they are enough to be worth a message. */
void rs_grant(struct rs *rs);

/* Is there room for a numbered message, and for bytes in the peer's receive buffer? */
bool rs_can_number(const struct rs *rs);
bool rs_can_send(const struct rs *rs);
bool rs_is_sent(const struct rs *rs);

/* --- datagram_socket.c --- */

/* Open the UDP socket of a datagram socket: rs->fd. 0 or an errno; close in either case. */
int rs_datagram_open(struct rs *rs, int protocol);
void rs_datagram_close(struct rs *rs);
/* Wait until all datagrams are sent. */
void rs_datagram_finish(struct rs *rs);
/* 0 or an errno, as connect(). */
int rs_datagram_connect(struct rs *rs, const struct sockaddr *address, socklen_t bytes);

/* Send one datagram, to message->msg_name or to the connected peer. 0 or an errno. */
int rs_datagram_send(struct rs *rs, const struct msghdr *message, int flags);
int rs_datagram_receive(struct rs *rs, struct msghdr *message, int flags, size_t *ret_bytes);

/* Like the functions of streams below; one descriptor reports all events. */
void rs_datagram_advance(struct rs *rs);
void rs_datagram_arm(struct rs *rs);
int rs_datagram_watched(const struct rs *rs);
bool rs_datagram_can_receive(const struct rs *rs);
bool rs_datagram_can_send(const struct rs *rs);

/* --- wait.c --- */

typedef bool rs_condition_fn(const struct rs *rs);

/* Do all work that is possible without waiting. */
void rs_advance(struct rs *rs);

/*
 * Wait until the condition holds. The stream is locked, and unlocked during the wait. Returns 0;
 * EAGAIN when the condition does not hold and the caller does not wait; EINTR.
 */
int rs_wait(struct rs *rs, rs_condition_fn *condition, bool is_nonblocking);

/* errno = error, and -1; or 0. */
int rs_result(int error);

/* Close the descriptor of repoll_create(). False: it is none. */
bool rs_repoll_close(int fd);

#endif
