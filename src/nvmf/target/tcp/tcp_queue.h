/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_TARGET_TCP_QUEUE_H
#define URNIC_NVMF_TARGET_TCP_QUEUE_H

/*
 * One connection of the TCP transport; only tcp*.c use it.
 *
 * tcp_receive.c takes PDUs in, tcp_send.c sends them, tcp_queue.c is the life of connections and
 * commands.
 */

#include "nvmf/common/network.h"
#include "nvmf/common/tcp/digest.h"
#include "nvmf/common/tcp/tcp_rx.h"
#include "nvmf/target/tcp/tcp.h"

enum {
	TCP_STAGING_BYTES = 256 << 10, /* of a listener: what recvmsg() reads at once */
	TCP_QUEUE_DATA_MAX = 4 << 20, /* bytes beside capsules that commands of a queue have */
	TCP_INDEX_BITS = 11, /* of a TTAG; the others are a generation */
	TCP_TAIL_BYTES = 4 + 24 + 4, /* data digest, CapsuleResp with digest */
	TCP_ENTRIES_EARLY = 1, /* before Connect */
};

/* Where the data of a command towards the controller is. */
enum tcp_data_state {
	TCP_DATA_NONE, /* not asked for */
	TCP_DATA_WAITING, /* for memory */
	TCP_DATA_ASKING, /* the R2T is not sent yet */
	TCP_DATA_OUTSTANDING, /* H2CData is to come */
	TCP_DATA_HERE,
};

struct tcp_command {
	struct target_command command;
	struct list node; /* free, output or waiting */
	uint16_t index;
	uint8_t generation;
	bool is_used;
	bool is_responding; /* what is in `output` is the response, not an R2T */
	bool is_damaged; /* a data digest was wrong */
	enum tcp_data_state state;
	uint8_t *buffer; /* allocated */
	uint32_t buffer_bytes;
	uint32_t received; /* bytes of H2CData */
	uint32_t asked; /* bytes that R2Ts have asked for */
	/* What is to be sent: a header, data, and what follows it. */
	uint32_t head_bytes, body_bytes, tail_bytes, sent;
	uint8_t head[24 + 4 + 128];
	uint8_t tail[TCP_TAIL_BYTES];
};

struct tcp_queue {
	struct target_queue queue;
	struct target_tcp *tcp;
	struct list node; /* of the listener */
	struct loop_watch watch;
	struct loop_work send;
	struct loop_work close;
	struct loop_timer timer; /* ICReq, and after a TermReq */
	struct tcp_rx rx;
	struct tcp_options options; /* of what is sent */
	struct tcp_command early; /* the first command, which is Connect */
	struct tcp_command *commands; /* `entries` of them, from Connect on */
	uint16_t entries;
	uint16_t used; /* commands that are not free */
	struct list free;
	struct list output;
	struct list waiting; /* for memory */
	uint32_t data_bytes; /* in buffers of fetch() and prepare() */
	bool is_resuming;
	struct tcp_command *receiving; /* whose data the present PDU is */
	uint8_t own[128]; /* ICResp */
	uint32_t own_bytes, own_sent;
	uint8_t *last; /* allocated: the rest of a PDU, and a TermReq */
	uint32_t last_bytes, last_sent;
	bool is_blocked; /* the socket takes no more now */
	bool is_refused; /* only `last` is sent, and nothing is taken in */
	bool is_over;
};

struct target_tcp {
	struct target_tcp_settings settings;
	struct loop *loop;
	struct network *network; /* of the loop */
	struct loop_watch watch;
	struct loop_timer retry; /* accept() failed for lack of descriptors */
	struct list queues;
	uint32_t count;
	uint64_t data_bytes; /* of all queues, as tcp_queue.data_bytes */
	struct target_tcp_counters counters;
	uint8_t staging[TCP_STAGING_BYTES];
};

extern const struct target_transport target_tcp_transport;

/* tcp_receive.c: take in what the socket has. May end the connection. */
void tcp_queue_receive(struct tcp_queue *q);

/* tcp_send.c: send what is due; false: the connection is broken. */
bool tcp_queue_send(struct tcp_queue *q);
void tcp_send_response(struct tcp_queue *q, struct tcp_command *c);
void tcp_send_r2t(struct tcp_queue *q, struct tcp_command *c);
/* Let the loop send before it sleeps. */
void tcp_send_soon(struct tcp_queue *q);
/* Prepare a TermReq, behind the PDU that is on its way. False: there is none, or no memory. */
bool tcp_send_last(struct tcp_queue *q);

/* tcp_queue.c */
struct tcp_command *tcp_command_take(struct tcp_queue *q);
void tcp_command_release(struct tcp_queue *q, struct tcp_command *c);
bool tcp_command_allocate(struct tcp_command *c, uint32_t bytes);
struct tcp_command *tcp_command_of_ttag(struct tcp_queue *q, uint16_t ttag);
/* The connection has ended. The queue may be freed. */
void tcp_queue_end(struct tcp_queue *q);
/* Send a TermReq, then end. */
void tcp_queue_refuse(struct tcp_queue *q);

static inline uint16_t tcp_ttag(const struct tcp_command *c)
{
	return (uint16_t)(c->index | c->generation << TCP_INDEX_BITS);
}

#endif
