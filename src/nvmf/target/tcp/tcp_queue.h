/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_TCP_QUEUE_H
#define URNIC_NVMF_TARGET_TCP_QUEUE_H

/*
 * One connection of the TCP transport. Only tcp*.c use this header.
 *
 * tcp_receive.c receives PDUs, tcp_send.c sends them, tcp_queue.c creates and ends connections and
 * has the functions that the core calls.
 */

#include "nvmf/common/network.h"
#include "nvmf/common/tcp/digest.h"
#include "nvmf/common/tcp/tcp_rx.h"
#include "nvmf/target/tcp/tcp.h"

enum {
	TCP_STAGING_BYTES = 256 << 10, /* a listener's buffer for one recvmsg() */
	TCP_QUEUE_DATA_MAX = 4 << 20, /* the most data of a queue, without in-capsule data */
	TCP_INDEX_BITS = 11, /* the low bits of a TTAG; the others are a generation */
	TCP_TAIL_BYTES = 4 + 24 + 4, /* data digest, CapsuleResp, header digest */
	TCP_ENTRIES_EARLY = 1, /* commands before Connect */
};

/* The state of the data of a command. */
enum tcp_data_state {
	TCP_DATA_NONE, /* the core has called neither fetch() nor prepare() */
	TCP_DATA_WAITING, /* waits for memory */
	TCP_DATA_ASKING, /* waits until the R2T is sent */
	TCP_DATA_OUTSTANDING, /* waits for H2CData */
	TCP_DATA_HERE, /* the buffer is complete (fetch) or ready (prepare) */
};

struct tcp_command {
	struct target_command command;
	struct list node; /* in `free`, `output`, `waiting` or `granted` of the queue */
	uint16_t index;
	uint8_t generation;
	bool is_used;
	bool is_responding; /* the PDUs in `output` are the response; false: an R2T */
	bool is_damaged; /* a data digest was wrong */
	enum tcp_data_state state;
	uint8_t *buffer; /* allocated; NULL: none */
	uint32_t buffer_bytes;
	uint32_t received; /* bytes of H2CData that have arrived */
	uint32_t asked; /* bytes that R2Ts have requested */
	uint64_t deadline_ns; /* TCP_DATA_OUTSTANDING: when the data must be here */
	/* The bytes to send: a header (head), data (body), then digest and CapsuleResp (tail). */
	uint32_t head_bytes, body_bytes, tail_bytes, sent;
	uint8_t head[24 + 4 + 128];
	uint8_t tail[TCP_TAIL_BYTES];
};

struct tcp_queue {
	struct target_queue queue;
	struct target_tcp *tcp;
	struct list node; /* in the listener's `queues` */
	struct loop_watch watch;
	struct loop_work send;
	struct loop_work close;
	struct loop_timer timer; /* ends the wait for ICReq, and the connection after a TermReq */
	struct loop_timer r2t_timer; /* the deadline of a command in `granted` */
	struct tcp_rx rx;
	struct tcp_options options; /* for the PDUs that this end sends */
	struct tcp_command early; /* the only command before set_entries(), for Connect */
	struct tcp_command *commands; /* an array of `entries`; NULL before set_entries() */
	uint16_t entries;
	uint16_t used; /* how many commands are not free */
	struct list free;
	struct list output;
	struct list waiting; /* commands that wait for memory */
	struct list granted; /* commands that wait for H2CData, by their deadlines */
	uint32_t data_bytes; /* the sum of the buffers of fetch() and prepare() */
	bool is_resuming;
	struct tcp_command *receiving; /* the data of the present PDU belongs to this command */
	uint8_t own[128]; /* ICResp */
	uint32_t own_bytes, own_sent;
	uint8_t *last; /* the last bytes to send: the rest of a PDU, then a TermReq; malloc() */
	uint32_t last_bytes, last_sent;
	bool is_blocked; /* the socket has no room: wait for EPOLLOUT */
	bool is_refused; /* only `last` is sent, and received bytes are dropped */
	bool is_over;
};

struct target_tcp {
	struct target_tcp_settings settings;
	struct loop *loop;
	struct network *network; /* loop_network() of `loop` */
	struct loop_watch watch;
	struct loop_timer retry; /* watches the socket again after accept() lacked descriptors */
	struct list queues;
	uint32_t count;
	uint64_t data_bytes; /* the sum of tcp_queue.data_bytes of all queues */
	struct target_tcp_counters counters;
	uint8_t staging[TCP_STAGING_BYTES];
};

extern const struct target_transport target_tcp_transport;

/* tcp_receive.c: receive the bytes that the socket has. May end the connection. */
void tcp_queue_receive(struct tcp_queue *q);

/* tcp_send.c: send the output. Returns false if the connection is broken. */
bool tcp_queue_send(struct tcp_queue *q);
void tcp_send_response(struct tcp_queue *q, struct tcp_command *c);
void tcp_send_r2t(struct tcp_queue *q, struct tcp_command *c);
/* Call tcp_queue_send() before the loop sleeps. */
void tcp_send_soon(struct tcp_queue *q);
/*
 * Put the rest of the PDU that is being sent and a TermReq into `last`. Returns false if there is
 * no TermReq to send, or no memory.
 */
bool tcp_send_last(struct tcp_queue *q);

/* tcp_queue.c */
/* The R2T of a command is sent: now its data is due. */
void tcp_r2t_sent(struct tcp_queue *q, struct tcp_command *c);
struct tcp_command *tcp_command_take(struct tcp_queue *q);
void tcp_command_release(struct tcp_queue *q, struct tcp_command *c);
bool tcp_command_allocate(struct tcp_command *c, uint32_t bytes);
struct tcp_command *tcp_command_of_ttag(struct tcp_queue *q, uint16_t ttag);
/* End the connection. May free the queue. */
void tcp_queue_end(struct tcp_queue *q);
/* Send a TermReq, then end the connection. May free the queue. */
void tcp_queue_refuse(struct tcp_queue *q);

static inline uint16_t tcp_ttag(const struct tcp_command *c)
{
	return (uint16_t)(c->index | c->generation << TCP_INDEX_BITS);
}

#endif
