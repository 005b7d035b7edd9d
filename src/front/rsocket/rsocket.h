/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets: the sockets API over RDMA (rsocket(7)), for librdmacm.so.1.
 *
 * The code uses only public verbs and rdma_cm, so it runs on an adapter as well as on urnic.
 *
 *     table.c     descriptors to sockets
 *     rsocket.c   life of a stream: socket, bind, listen, accept, connect, shutdown, close
 *     endpoint.c  a stream's queue pair, buffers and tables; messages in and out
 *     datagram_socket.c  datagram sockets; datagram_endpoint.c their queue pairs
 *     wait.c      waiting for a stream, rpoll(), rselect()
 *     transfer.c  rsend(), rrecv() and their variants
 *     repoll.c    repoll_create(), repoll_ctl(), repoll_wait()
 *     iomap.c     riomap(), riounmap(), riowrite()
 *     option.c    options, flags, names
 *
 * A stream's descriptor is that of its rdma_cm event channel. The channel is non-blocking, even if
 * the socket is blocking, because a blocking call waits in poll(), for the event channel and the
 * completion channel at once. So a call that waits for data also sees the end of the connection.
 *
 * Threads: each socket has one lock, which guards all of its state. A call has the lock from its
 * start to its end, except while it sleeps. Of the threads that wait for a socket, one polls the
 * descriptors; the others wait until that thread wakes them.
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

/* Calls of rdma-core 62 and newer. */
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);
#pragma GCC visibility pop

#include "front/rsocket/pieces.h"
#include "front/rsocket/protocol.h"

enum {
	/* Entries of the target table, one for each half of the receive buffer */
	RS_TARGET_COUNT = 2,
	RS_CTRL_COUNT = 4, /* the most SGL and CTRL messages under way */
	RS_SEND_BYTES_MIN = 2048, /* with fewer free bytes, the send buffer counts as full */
	/* The first piece of a long send; the second is twice as long */
	RS_TRANSFER_BYTES_START = 2048,
	RS_TRANSFER_BYTES_MAX = 65536,
	RS_QUEUE_SIZE_MIN = 16,
	RS_QUEUE_SIZE_MAX = 0xfffe, /* sequence numbers have 16 bits */
	RS_QUEUE_SIZE_DEFAULT = 384,
	RS_INLINE_BYTES_DEFAULT = 64,
	RS_BUFFER_BYTES_DEFAULT = 1 << 17,
	RS_IOMAP_COUNT_MAX = 127 << 8,
	RS_RESOLVE_TIMEOUT_MS = 2000,
	RS_DATAGRAM_BYTES_MAX = 2020, /* a receiver's 2048 bytes, less the longest header */
	RS_DATAGRAM_PIECES_MAX = 16,
};

enum rs_state {
	RS_INIT, /* created */
	RS_BOUND, /* has a local address */
	RS_LISTENING, /* accepts connections */
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
	int index; /* index in the peer's iomap table; -1: not announced to the peer */
};

/* Every member but `linger` has 32 bits, because option.c sets and reads them by a table. */
struct rs_options {
	uint32_t send_buffer_bytes;
	uint32_t receive_buffer_bytes;
	uint32_t send_queue_size;
	uint32_t receive_queue_size;
	uint32_t inline_bytes;
	uint32_t iomap_count; /* the most mappings that the peer may announce */
	int is_address_reused;
	int is_v6_only;
	/* Options without effect, which rgetsockopt() returns. */
	int keepalive;
	int oob_inline;
	int no_delay;
	int keepalive_idle_s;
	int keepalive_interval_s;
	int keepalive_count;
	struct linger linger;
};

struct datagram; /* defined in datagram_socket.h */

struct rs {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_waited_for; /* a thread polls the descriptors */
	/* The number of calls that use the socket, and 1 for the table; the last user frees it */
	uint32_t users;

	int fd;
	int family;
	bool is_nonblocking;
	enum rs_state state;
	bool can_read; /* false once either side has ended the direction to this socket */
	bool can_write; /* false once either side has ended the direction to the peer */
	int error; /* the reason for RS_FAILED, an errno; 0 after SO_ERROR has been read */
	struct rs_options options;
	struct datagram *datagram; /* NULL: a stream. Otherwise no member below is used. */
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;

	bool is_iwarp; /* SENDs carry the immediate data; see protocol.h */
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	uint32_t unacknowledged_events;
	uint32_t send_slots; /* number of free slots for DATA and IOMAP messages */
	uint32_t ctrl_slots; /* number of free slots for SGL and CTRL messages */

	/* sending */
	uint8_t *send_buffer;
	struct ibv_mr *send_mr;
	uint32_t send_offset; /* the place in send_buffer of the next byte to be sent */
	uint32_t send_free_bytes;
	uint16_t send_sequence; /* the sequence number of the next numbered message */
	uint16_t send_limit; /* the first sequence number that may not be sent yet */
	struct rs_sge *target; /* the target table, which the peer writes; see protocol.h */
	struct ibv_mr *target_mr;
	uint32_t target_index; /* index of the entry that the next DATA message uses */
	/* The iomap table, which follows the target table in memory */
	struct rs_iomap *target_iomap;

	/* receiving */
	uint8_t *receive_buffer;
	struct ibv_mr *receive_mr;
	/* iWARP: the payloads of received SENDs, in memory behind the receive buffer */
	uint32_t *received;
	uint32_t receive_index; /* the index of the next receive request to post */
	uint32_t *messages; /* a ring: the number of unread bytes of each received DATA message */
	uint32_t message_count;
	uint32_t message_head;
	uint32_t read_offset; /* the place in receive_buffer of the next byte to read */
	uint32_t free_bytes; /* bytes that are read, and not yet granted to the peer again */
	uint32_t free_offset; /* where the first of the free_bytes is in receive_buffer */
	uint16_t receive_sequence; /* counts the numbered messages that are read */
	uint16_t grant_at; /* when receive_sequence reaches this, grant the peer more messages */
	struct rs_sge peer_target; /* the peer's target table; `bytes` counts its entries */
	uint32_t peer_target_index; /* the index of the entry to write next */
	struct rs_sge peer_iomap;
	bool is_peer_swapped; /* the peer's tables are not in this host's byte order */

	struct rs_mapping *mappings;
};

/* --- table.c --- */

/* Enter a new socket into the table, under rs->fd. Returns 0 or an errno. */
int rs_table_add(struct rs *rs);
/* Remove the socket from the table. */
void rs_table_remove(struct rs *rs);
/* The socket of a descriptor, with one more user, or NULL with errno EBADF. Undo with rs_put(). */
struct rs *rs_get(int fd);
/* Do what rs_get() does, but leave errno unchanged if the descriptor is no rsocket. */
struct rs *rs_find(int fd);
/* Drop one user of the socket. The last one frees it. */
void rs_put(struct rs *rs);
/* rs_enter() calls rs_get() and locks the socket. rs_leave() unlocks it and calls rs_put(). */
struct rs *rs_enter(int fd);
void rs_leave(struct rs *rs);

/* --- rsocket.c --- */

/* Handle events of the connection. The stream is locked. */
void rs_connection_advance(struct rs *rs);
/* Put the stream into state RS_FAILED. */
void rs_fail(struct rs *rs, int error);
void rs_free(struct rs *rs);

/* --- endpoint.c --- */

/*
 * Create queue pair, buffers and tables on rs->id, and post the receive requests. Returns 0 or an
 * errno.
 */
int rs_endpoint_create(struct rs *rs);
void rs_endpoint_destroy(struct rs *rs);
/*
 * rs_conn_data_make() encodes the private data for the peer. rs_conn_data_take() decodes the peer's
 * private data. It returns 0, or EPROTO if they are not valid.
 */
void rs_conn_data_make(const struct rs *rs, struct rs_conn_data *to);
int rs_conn_data_take(struct rs *rs, const void *private_data, size_t bytes);

/* Handle completions of receives and sends. */
void rs_completions_take(struct rs *rs);
/* Arm the completion channel. The caller then polls once more. */
void rs_completions_arm(struct rs *rs);

/*
 * Copy the next `bytes` bytes of `from` into the send buffer, which has room for them, and write
 * them into the peer's memory `to`. If `is_silent`, the peer gets no message. Returns 0 or an
 * errno.
 */
int rs_data_send(struct rs *rs, struct pieces *from, uint32_t bytes, const struct rs_sge *to,
	bool is_silent);
/* Write one entry of the peer's iomap table. */
int rs_iomap_send(struct rs *rs, const struct rs_iomap *entry, uint32_t index);
int rs_ctrl_send(struct rs *rs, enum rs_ctrl ctrl);
/*
 * Grant the peer free bytes or more messages, once half of the receive buffer or of the receive
 * queue is free.
 */
void rs_grant(struct rs *rs);

/*
 * rs_can_number(): may a numbered message be sent? rs_can_send(): may a DATA message be sent, and
 * have the send buffer and the peer's receive buffer room for its bytes? rs_is_sent(): are all
 * messages sent, or is the stream no longer connected?
 */
bool rs_can_number(const struct rs *rs);
bool rs_can_send(const struct rs *rs);
bool rs_is_sent(const struct rs *rs);

/* --- datagram_socket.c --- */

/*
 * Open the UDP socket of a datagram socket, rs->fd. Returns 0 or an errno. The caller calls
 * rs_datagram_close() also after an error.
 */
int rs_datagram_open(struct rs *rs, int protocol);
void rs_datagram_close(struct rs *rs);
/* Wait until all datagrams are sent. */
void rs_datagram_finish(struct rs *rs);
/* Connect as connect(2) does. Returns 0 or an errno. */
int rs_datagram_connect(struct rs *rs, const struct sockaddr *address, socklen_t bytes);

/* Send one datagram, to message->msg_name or to the connected peer. Returns 0 or an errno. */
int rs_datagram_send(struct rs *rs, const struct msghdr *message, int flags);
int rs_datagram_receive(struct rs *rs, struct msghdr *message, int flags, size_t *ret_bytes);

/*
 * wait.c calls these for a datagram socket. The descriptor that rs_datagram_watched() returns
 * reports all events of the socket.
 */
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
 * Wait until the condition holds. The socket is locked; this call unlocks it while it sleeps.
 * Returns 0; EAGAIN if `is_nonblocking` and the condition does not hold; or EINTR.
 */
int rs_wait(struct rs *rs, rs_condition_fn *condition, bool is_nonblocking);

/* If `error` is not 0, set errno to it and return -1; otherwise return 0. */
int rs_result(int error);

/* Close an instance of repoll_create(). Returns false if `fd` is not an instance. */
bool rs_repoll_close(int fd);

#endif
