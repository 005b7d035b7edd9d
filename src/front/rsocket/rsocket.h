/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets: the sockets API over RDMA (rsocket(7)), for librdmacm.so.1.
 *
 * The code uses only public verbs and rdma_cm, so it runs on an adapter as well as on urnic.
 *
 *     table.c     sockets, and descriptors to sockets
 *     wait.c      waiting for a socket, rpoll(), rselect()
 *     stream/     a stream's connection, queue pair, buffers and tables; messages in and out
 *     datagram/   datagram sockets and their queue pairs
 *     call/       the calls of the sockets API
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

#include <poll.h>
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
	RS_SEND_BYTES_MIN = 2048, /* if the send buffer has fewer free bytes, it counts as full */
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

struct datagram; /* defined in datagram/datagram_socket.h */

enum { RS_FDS_MAX = 2 }; /* the most descriptors of one socket that report events */

struct rs;

/* What streams (stream/) and datagram sockets (datagram/) do differently. The socket is locked. */
struct rs_kind {
	/* Do all work that is possible without waiting. */
	void (*advance)(struct rs *rs);
	/*
	 * Process the completions that have arrived. Returns false when no completion can arrive.
	 */
	bool (*look)(struct rs *rs);
	/* Request a wake-up. The caller then calls advance() once more. */
	void (*arm)(struct rs *rs);
	/* List the descriptors that report events of the socket. Returns their number. */
	nfds_t (*watch)(const struct rs *rs, struct pollfd ret_fds[RS_FDS_MAX]);
	/* The events of poll(2) that the socket has. */
	short (*readiness)(const struct rs *rs);
	/*
	 * Free what this kind has allocated for the socket. The socket is not locked, because no
	 * other thread uses it.
	 */
	void (*close)(struct rs *rs);
};

struct rs {
	const struct rs_kind *kind;
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

	bool is_iwarp; /* SENDs carry the immediate data (protocol.h) */
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

/* Allocate a socket, which has no descriptor yet. Returns NULL with errno on failure. */
struct rs *rs_alloc(const struct rs_kind *kind, int family, const struct rs_options *options);
void rs_free(struct rs *rs);

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

/* The C library has no memory: log that. Returns ENOMEM. */
int rs_no_memory(void);

#endif
