/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_REMOTE_REMOTE_MESSAGE_H
#define URNIC_FABRICD_REMOTE_REMOTE_MESSAGE_H

/*
 * What two machines of one fabric say to each other: the listener, which has the subnet, and a
 * joiner, which has programs on some of its hosts. All integers are big-endian.
 *
 * The control connection is TCP (remote_control.h). It carries the messages below, and management
 * datagrams, so that none of these is lost. A UDP socket carries all other frames
 * (remote_datagram.h). A host is known by its index in the joiner's REMOTE_JOIN.
 *
 * The functions decode what a peer has sent: any bytes are legal input.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fabricd/attach_protocol.h"

enum {
	REMOTE_VERSION = 1,
	REMOTE_HOSTS_MAX = 64, /* of one machine */
	REMOTE_PORTS_MAX = 254, /* of one host */
	REMOTE_BODY_BYTES_MAX = 8192,
	REMOTE_FRAME_BYTES = 4, /* of a REMOTE_FRAME, before the frame */
};

enum remote_message_type {
	/* joiner: `window`, the UDP port, and the hosts that the machine wants to take */
	REMOTE_JOIN = 1,
	REMOTE_WELCOME, /* listener: `window`, the session, and the hosts' nodes */
	REMOTE_REFUSAL, /* listener: an errno and a sentence; the end of the connection */
	REMOTE_PORT, /* listener: the attributes of a port */
	REMOTE_COUNTERS, /* listener: the counters of a port */
	REMOTE_EVENT, /* listener: what has happened to a port */
	REMOTE_ISSM, /* joiner: whether processes have a port's IsSM file open */
	REMOTE_FRAME, /* both: a frame with a management datagram */
	REMOTE_ALIVE, /* both: the sender is alive; sent every 500 ms */
};

struct remote_message {
	uint32_t type;
	uint32_t bytes;
	const uint8_t *body; /* borrowed */
};

/* Writes a body. The caller knows that it fits. */
struct remote_writer {
	uint8_t body[REMOTE_BODY_BYTES_MAX];
	uint32_t bytes;
};

/* Reads a body. A read beyond its end returns 0, and sets is_short. */
struct remote_reader {
	const uint8_t *at;
	uint32_t left;
	bool is_short;
};

void remote_put(struct remote_writer *writer, uint64_t value, uint32_t bytes);
void remote_put_text(struct remote_writer *writer, const char *text, uint32_t bytes);
uint64_t remote_get(struct remote_reader *reader, uint32_t bytes);
/* `ret_text` has room for `bytes` bytes, and gets a terminated, printable text. */
void remote_get_text(struct remote_reader *reader, char *ret_text, uint32_t bytes);

/* Has the body been read to its end, and no further? */
static inline bool remote_is_whole(const struct remote_reader *reader)
{
	return !reader->is_short && reader->left == 0;
}

static inline struct remote_reader remote_reader_of(const struct remote_message *message)
{
	return (struct remote_reader){.at = message->body, .left = message->bytes};
}

struct remote_join {
	uint16_t window; /* datagrams that the sender of this message has room for */
	uint16_t udp_port;
	uint16_t host_count;
	char hosts[REMOTE_HOSTS_MAX][ATTACH_NAME_BYTES];
};

struct remote_welcome {
	uint16_t window;
	uint32_t session;
	uint16_t host_count;
	struct attach_node hosts[REMOTE_HOSTS_MAX]; /* without `index` and `fabric_pid` */
};

/* The port of a host. */
struct remote_place {
	uint16_t host;
	uint8_t port; /* from 1 */
};

void remote_join_encode(struct remote_writer *writer, const struct remote_join *join);
bool remote_join_decode(const struct remote_message *message, struct remote_join *ret_join);
void remote_welcome_encode(struct remote_writer *writer, const struct remote_welcome *welcome);
bool remote_welcome_decode(
	const struct remote_message *message, struct remote_welcome *ret_welcome);
void remote_port_encode(struct remote_writer *writer, const struct remote_place *place,
	const struct attach_port *info);
bool remote_port_decode(const struct remote_message *message, struct remote_place *ret_place,
	struct attach_port *ret_info);
void remote_counters_encode(struct remote_writer *writer, const struct remote_place *place,
	const struct attach_counters *values);
bool remote_counters_decode(const struct remote_message *message, struct remote_place *ret_place,
	struct attach_counters *ret_values);
/* REMOTE_EVENT with an enum attach_event_type, REMOTE_ISSM with 0 or 1. */
void remote_fact_encode(
	struct remote_writer *writer, const struct remote_place *place, uint8_t fact);
bool remote_fact_decode(
	const struct remote_message *message, struct remote_place *ret_place, uint8_t *ret_fact);
void remote_refusal_encode(struct remote_writer *writer, int error, const char *text);
bool remote_refusal_decode(
	const struct remote_message *message, int *ret_error, char ret_text[ATTACH_TEXT_BYTES]);
/* A frame of at most ATTACH_FRAME_BYTES_MAX bytes. `ret_frame` is within the message. */
void remote_frame_encode(struct remote_writer *writer, const struct remote_place *place,
	const uint8_t *frame, uint32_t bytes);
bool remote_frame_decode(const struct remote_message *message, struct remote_place *ret_place,
	const uint8_t **ret_frame, uint32_t *ret_bytes);

/* Is the frame for QP0 or QP1? Those travel on the control connection, where none is lost. */
bool remote_frame_is_management(const uint8_t *frame, uint32_t bytes);

#endif
