/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_REMOTE_REMOTE_DATAGRAM_H
#define URNIC_FABRICD_REMOTE_REMOTE_DATAGRAM_H

/*
 * Frames between two machines of a fabric, over a UDP socket that is connected to the peer.
 *
 * A datagram is a header and a part of one frame, or the whole frame if it fits; or a header alone:
 *
 *	tag(8) | session(4) | host(2) | port(1) | violation(1) | number(8) | received(8) |
 *	offset(2) | bytes of the frame(2) | 0(4) | part
 *
 * The tag is the SipHash of all that follows it, by the sender's key. Numbers rise by 1. A receiver
 * takes only numbers above all that it has taken, so it drops what is repeated, and what is late: a
 * link of InfiniBand keeps frames in order. A frame of which a part is missing is dropped.
 *
 * `received` is the highest number that the sender has taken from its peer. A sender sends no frame
 * while `window` or more of its datagrams are unacknowledged, so the peer's socket buffer does not
 * overflow. After CREDIT_LOSS_NS without an acknowledgement the sender takes them for lost.
 *
 * datagram_take() and datagram_begin() make no system call. Any bytes are legal input.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/siphash.h"
#include "fabricd/remote/remote_message.h"

enum {
	DATAGRAM_HEADER_BYTES = 40,
	DATAGRAM_BYTES_MIN = 576, /* any path carries a datagram of this length */
	DATAGRAM_BYTES_MAX = DATAGRAM_HEADER_BYTES + ATTACH_FRAME_BYTES_MAX,
	DATAGRAM_PARTS_MAX = 16, /* of one frame */
	DATAGRAM_WINDOW_MIN = DATAGRAM_PARTS_MAX,
	CREDIT_LOSS_NS = 50000000,
};

/* Which datagrams a receiver drops: DATAGRAM_DROP(name, sentence). */
#define DATAGRAM_DROPS(DROP)                                                \
	DROP(malformed, "datagrams with wrong lengths or numbers of ports") \
	DROP(foreign, "datagrams with another session or a wrong tag")      \
	DROP(late, "datagrams that came again, or after later ones")        \
	DROP(partial, "frames of which a part was lost")

struct datagram_drops {
#define DROP(name, sentence) uint64_t name;
	DATAGRAM_DROPS(DROP)
#undef DROP
};

/* Print what was dropped, a line each, on standard output; nothing if there was nothing. */
void datagram_drops_print(const struct datagram_drops *drops, uint64_t mads_dropped);

/* A whole frame. */
struct remote_frame {
	struct remote_place place;
	uint32_t violation; /* 0, or ATTACH_RECORD_* */
	const uint8_t *bytes; /* valid until the next datagram_take() */
	uint32_t count;
};

/* Zeroed, it is closed. */
struct remote_datagrams {
	bool is_open;
	bool is_segmented; /* the kernel cuts what is sent into datagrams of bytes_max */
	int fd;
	uint32_t session;
	struct siphash_key own; /* seals what this end sends */
	struct siphash_key peer;
	uint32_t bytes_max; /* of a datagram that this end sends */
	uint32_t window; /* how many datagrams the peer's socket has room for */
	uint64_t sent; /* the number of the last datagram that this end sent */
	uint64_t acknowledged; /* the highest number that the peer has received, or that is lost */
	bool is_full; /* the last datagram_expire() found no room */
	uint64_t progress_ns; /* when `acknowledged` last rose, or `is_full` was last false */
	uint64_t received;
	uint32_t unacknowledged; /* parts received since this end sent its last datagram */
	struct remote_place place; /* of the frame that is being put together */
	uint32_t violation;
	uint32_t filled; /* how many bytes of that frame have come; 0: there is no such frame */
	uint32_t total;
	uint8_t frame[ATTACH_FRAME_BYTES_MAX];
	struct datagram_drops drops;
};

/*
 * A UDP socket from the address of the TCP socket `control`, and from `port`; 0: any port. Returns
 * the socket or -errno. datagram_socket_port() is its port. Ports are in host order.
 */
int datagram_socket(int control, uint16_t port);
uint16_t datagram_socket_port(int fd);
/* Connect a UDP socket to the address of the TCP socket's peer, and to `port`. */
int datagram_socket_connect(int fd, int control, uint16_t port);
/* For how many datagrams of this size the socket's receive buffer has room. */
uint16_t datagram_socket_window(int fd, uint32_t datagram_bytes);
/* The longest datagram that the path of the TCP socket carries in one piece. */
uint32_t datagram_bytes_max(int control);

/* The caller has connected `fd`, and has set session, own, peer, bytes_max and window. */
void datagram_open(struct remote_datagrams *datagrams);

/* May a frame be sent? */
bool datagram_has_room(const struct remote_datagrams *datagrams);
/*
 * If the peer has acknowledged nothing for CREDIT_LOSS_NS since the first call that found no room,
 * take all unacknowledged datagrams for lost.
 */
void datagram_expire(struct remote_datagrams *datagrams, uint64_t now_ns);

/* Send a frame of at most ATTACH_FRAME_BYTES_MAX bytes. What the socket does not take is lost. */
void datagram_send(struct remote_datagrams *datagrams, const struct remote_frame *frame);
/* Send a header alone, so that the peer learns what was received. */
void datagram_acknowledge(struct remote_datagrams *datagrams);
/* Is an acknowledgement due? */
bool datagram_is_due(const struct remote_datagrams *datagrams);

/* Take a received datagram. Returns whether it completes a frame. */
bool datagram_take(struct remote_datagrams *datagrams, const uint8_t *bytes, uint32_t count,
	uint64_t now_ns, struct remote_frame *ret_frame);

/*
 * Take what the socket has received, up to a limit for each turn, hand whole frames to `deliver`,
 * and send an acknowledgement if one is due. Returns the number of datagrams.
 */
uint32_t datagrams_receive(struct remote_datagrams *datagrams, uint64_t now_ns,
	void (*deliver)(void *context, const struct remote_frame *frame), void *context);

/*
 * Write the next datagram: its header, and the part of `count` bytes of the frame. `to` has room
 * for both.
 */
void datagram_begin(struct remote_datagrams *datagrams, const struct remote_frame *frame,
	uint32_t offset, uint32_t count, uint8_t *to);

#endif
