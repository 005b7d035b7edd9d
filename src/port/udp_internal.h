/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_UDP_INTERNAL_H
#define URNIC_PORT_UDP_INTERNAL_H

/*
 * For the files of the UDP port only. udp.c creates and destroys the port. udp_receive.c and
 * udp_send.c are the data path, udp_tail.c orders acknowledgements, and udp_path.c opens paths and
 * their sockets. udp_bypass.c exchanges frames with the interface itself: udp_bypass_open.c sets it
 * up, udp_neighbour.c has Ethernet addresses, and udp_order.c keeps its order with the socket.
 */

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "port/address.h"
#include "port/udp.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/psn.h"
#include "wire/roce.h"
#include "wire/roce_frame.h"

enum {
	UDP_SLOTS = 256,
	UDP_SLOT_OFFSET = 5, /* in a packet: the top byte of the destination QPN */
	UDP_BUFFER_BYTES_RECEIVE = 1 << 16, /* a GRO bundle is an IP packet: at most this */
	UDP_RECEIVE_BATCH = 16,
	UDP_RECEIVE_BYTES = 1 << 17, /* of a batch, about: two full bundles */
	UDP_EMPTY_LOOKS = 64, /* in a row, before a receiver counts as quiet */
	UDP_QUIET_STEP = 16, /* calls per look at a quiet receiver */
	UDP_SEND_BATCH = 64,
	UDP_SEND_PIECES = 1024, /* of a batch: one message takes 3 at most for each packet */
	UDP_SEGMENTS_MAX = 64, /* the kernel's UDP_MAX_SEGMENTS (128 in later kernels) */
	UDP_SUPER_BYTES_MAX = 65000, /* a super-packet is an IP packet */
	UDP_SOCKET_BUFFER_BYTES = 4 << 20,
	UDP_FLOWS_COUNT = 64, /* power of two */
	UDP_ORDERS_COUNT = 64, /* power of two */
	UDP_NEIGHBOURS_COUNT = 256, /* power of two */
	UDP_TAILS_COUNT = 64, /* power of two */
	UDP_VNET_BYTES = 10, /* struct virtio_net_hdr */
	UDP_CE = 3, /* RFC 3168 */
	UDP_ECN_MASK = 3,
	/*
	 * After the kernel has accepted no packet for this time, the port drops the waiting
	 * packets, so that the requester's retries run out. Sending a super-packet takes that long
	 * at 1 Mbit/s.
	 */
	UDP_BLOCKED_MS_MAX = 500,
	UDP_FLOW_LABEL_MASK = 0xfffff,
};

/* Sending: TOS, hop limit and UDP_SEGMENT. Receiving: TOS, segment size and overflow count. */
struct udp_control {
	_Alignas(struct cmsghdr) uint8_t bytes[128];
};

/*
 * A neighbour on the link, to which some path leads, with the Ethernet addresses for frames to it,
 * once the kernel has confirmed them. Direct-mapped: a path whose place has another neighbour goes
 * without.
 */
struct udp_neighbour {
	uint32_t paths; /* that lead to it; 0: free */
	uint8_t address; /* our own */
	struct gid gid;
	uint8_t macs[ROCE_MACS_BYTES]; /* of frames to it: the kernel's answer, then our own */
	bool is_lookup_pending; /* a lookup waits to be taken */
	uint64_t lookup_from_ms; /* no lookup before that */
	uint32_t lookup_pause_ms; /* between lookups */
	uint64_t confirmed_ms; /* when the kernel last gave this address; 0: it has none */
	uint64_t heard_ms; /* of its last frame; 0: none, or its link refused one of ours */
	uint64_t routed_ms; /* when the kernel last found a route to it */
};

/* udp_bypass.c */
enum {
	BYPASS_SLOT_BYTES = 2048,
	BYPASS_SLOTS_COUNT = 1024,
	BYPASS_UNMARKED_COUNT = 8, /* a mark is late by some microseconds: by one datagram or two */
	UDP_HEARD_MS = 50,
	UDP_ROUTED_MS = 100,
	UDP_CONFIRMED_MS = 3000,
};

/* A datagram that was delivered before its mark appeared in the ring. */
struct udp_unmarked {
	bool is_used;
	uint8_t start[BTH_BYTES];
};

struct udp_bypass {
	int fd;
	uint32_t ifindex;
	uint8_t *ring;
	uint32_t next_slot;
	uint32_t stalled_looks;
	uint32_t next_unmarked; /* overwrites the oldest */
	struct udp_unmarked unmarked[BYPASS_UNMARKED_COUNT];
};

struct udp_receiver {
	int fd; /* -1: removed */
	bool is_channel; /* from urnicd, in place of the socket (udp_channel.h) */
	struct udp_bypass *bypass; /* NULL: only the socket */
	uint32_t scope_ifindex;
	uint32_t overflows_seen; /* the socket's own count, modulo 2^32 */
	uint32_t empty_looks; /* in a row */
	unsigned batch; /* datagrams to read next: few while few arrive */
	bool was_full; /* the last call got the whole batch */
	struct gid gid;
};

/* The state of a sender, for faster ICRC checks. Direct-mapped: a collision replaces. */
struct udp_flow {
	bool is_used;
	bool is_counting; /* its ids count from datagram to datagram, instead of from 0 */
	uint8_t address;
	uint16_t source_port;
	uint16_t next_id;
	struct gid sgid;
	struct icrc_flow icrc;
};

/* A sender within a message (udp_order.c). Direct-mapped, too. */
struct udp_order {
	const struct udp_flow *flow; /* NULL: free */
	uint32_t stream; /* destination QPN, and whether these are its responses */
	struct psn next; /* the first missing PSN */
};

/* Do acknowledgements travel as tails to and from a host (udp_tail.c)? */
struct udp_tails {
	bool is_used;
	bool has_come; /* a tail has come from there */
	uint8_t address; /* our own */
	uint8_t copies; /* that were sent there */
	struct gid remote;
};

struct udp_sender {
	int fd;
	uint16_t source_port;
	uint32_t paths; /* that use it; the last one closes it */
};

struct udp_path {
	uint32_t id; /* its index, and a generation in the upper bits */
	struct port_udp_path settings;
	uint32_t references;
	bool can_segment; /* until the device refuses */
	struct udp_sender *sender;
	union socket_address remote;
	socklen_t remote_bytes;
	struct icrc_flow icrc;
	struct udp_control control; /* TOS and hop limit where they differ from the socket's */
	size_t control_bytes;
	uint32_t held; /* impaired packets that wait */
	struct udp_neighbour *neighbour; /* NULL: none */
	struct roce_frame_headers headers;
	struct udp_path *next; /* in its bucket of path_buckets */
};

enum { UDP_PATH_BUCKETS = 1 << 14 }; /* a power of two */

struct udp_staged {
	struct udp_path *path; /* NULL once it was closed */
	uint32_t offset; /* of what is not borrowed; the ICRC follows */
	uint32_t bytes; /* without ICRC */
	const uint8_t *borrowed; /* the last borrowed_bytes of them; NULL: in the buffer */
	uint32_t borrowed_bytes;
	uint32_t whole_offset; /* a place with room for all of it */
};

struct port_udp {
	struct port_udp_counters *counters;
	uint8_t slot;
	bool is_blocked;
	uint64_t blocked_since_ms; /* while is_blocked: since when the kernel takes nothing */
	struct port_udp_refusal refusal;
	struct udp_impairments *impairments; /* NULL: none */

	/* receiving */
	bool reports_hops;
	uint32_t receiver_count;
	uint32_t receive_calls;
	uint32_t busiest; /* the receiver of the last packet */
	struct udp_receiver receivers[PORT_UDP_ADDRESSES_MAX];
	struct mmsghdr in[UDP_RECEIVE_BATCH];
	struct iovec in_iov[UDP_RECEIVE_BATCH];
	union socket_address in_from[UDP_RECEIVE_BATCH];
	struct udp_control in_control[UDP_RECEIVE_BATCH];
	uint8_t *in_buffers;
	struct icrc_lengths lengths;
	struct udp_flow flows[UDP_FLOWS_COUNT];
	struct udp_order orders[UDP_ORDERS_COUNT];
	struct udp_neighbour neighbours[UDP_NEIGHBOURS_COUNT];
	struct udp_tails tails[UDP_TAILS_COUNT];
	uint32_t lookup_count;
	port_udp_lookup_fn *on_lookup; /* NULL: lookups are not executed */
	void *lookup_context;
	uint32_t looks; /* system calls of the last port_udp_receive() */

	/*
	 * Sending: staged[staged_first .. staged_end) lie behind each other in `stage`, except for
	 * tails (udp_tail.c).
	 */
	uint32_t staged_first;
	uint32_t staged_end;
	uint32_t stage_used_bytes;
	struct udp_staged staged[PORT_UDP_STAGE_PACKETS];
	uint8_t *stage;
	struct mmsghdr out[UDP_SEND_BATCH];
	struct udp_message {
		uint32_t bytes; /* of data */
		struct udp_control control;
		uint8_t headers[UDP_VNET_BYTES + ROCE_FRAME_HEADER_BYTES_MAX];
	} out_message[UDP_SEND_BATCH];
	struct iovec out_iov[UDP_SEND_PIECES]; /* of all messages */
	uint32_t out_piece_count;
	uint32_t out_packets[UDP_SEND_BATCH]; /* staged packets in each message */

	/*
	 * Paths by number, and by their destination. Freed indexes wait in a ring, the oldest
	 * first; those from path_limit on were never used. So opening and closing take the same
	 * time whatever the number of paths.
	 */
	uint32_t path_limit;
	uint32_t path_free_head; /* in path_free */
	uint32_t path_free_count;
	uint32_t path_generation; /* of the next path */
	struct udp_path *paths[PORT_UDP_PATHS_MAX];
	uint32_t path_free[PORT_UDP_PATHS_MAX];
	struct udp_path *path_buckets[UDP_PATH_BUCKETS];
	struct udp_sender *senders[PORT_UDP_ADDRESSES_MAX][UDP_SLOTS];
};

/*
 * The two system calls of the data path, without the C library's cancellation points. Those cost a
 * threaded program more than the rest of a call that finds nothing.
 */
static inline int udp_recvmmsg(int fd, struct mmsghdr *messages, unsigned count)
{
	return (int)syscall(SYS_recvmmsg, fd, messages, count, MSG_DONTWAIT, NULL);
}

static inline int udp_sendmmsg(int fd, struct mmsghdr *messages, unsigned count)
{
	return (int)syscall(SYS_sendmmsg, fd, messages, count, MSG_DONTWAIT);
}

/* Keeps the first refusal. */
static inline void udp_refused(struct port_udp *port, const char *call, int error)
{
	if (port->refusal.call)
		return;
	port->refusal.error = error;
	__atomic_store_n(&port->refusal.call, call, __ATOMIC_RELEASE);
}

/* The path with this number; NULL when it was closed. */
static inline struct udp_path *udp_path_find(const struct port_udp *port, uint32_t id)
{
	struct udp_path *path = port->paths[id % PORT_UDP_PATHS_MAX];

	return path && path->id == id ? path : NULL;
}

/* The information about a datagram, from the kernel or a frame's headers. */
struct udp_datagram {
	uint8_t address;
	uint8_t tos;
	uint8_t hop_limit;
	uint32_t segment_bytes; /* of each packet except the last, ICRC included */
};

/*
 * Split a datagram into its packets and pass on the good ones. Returns whether a queue pair
 * accepted one as its peer's.
 */
bool udp_datagram_split(struct port_udp *port, const struct udp_datagram *datagram,
	struct udp_flow *flow, const uint8_t *data, size_t bytes, port_udp_packet_fn *on_packet,
	void *context);

/* The entry of a sender, which may be new. */
struct udp_flow *udp_flow_of(
	struct port_udp *port, uint8_t address, const struct gid *sgid, uint16_t source_port);

/* Read at most a batch of datagrams from the socket of an address. Returns how many. */
unsigned udp_socket_receive(
	struct port_udp *port, uint8_t address, port_udp_packet_fn *on_packet, void *context);

/* --- channels (udp_channel.c) --- */

/* Is the descriptor a channel's end, and not a UDP socket? */
bool udp_is_channel(int fd);

/*
 * udp_socket_receive() for a channel. Returns the number of datagrams, or -1 and errno; adds their
 * bytes.
 */
int udp_channel_receive(struct port_udp *port, uint8_t address, uint32_t *ret_bytes,
	port_udp_packet_fn *on_packet, void *context);

/* --- order between bypass and socket (udp_order.c) --- */

/* A queue pair accepted this packet, of at least a BTH. */
void udp_order_note(struct port_udp *port, const struct udp_flow *flow, const uint8_t *packet);

/* Does a packet, of at least a BTH, have to wait for earlier ones, the middle of a message? */
bool udp_order_is_early(struct port_udp *port, const struct udp_flow *flow, const uint8_t *packet);

/*
 * Is the packet, of at least a BTH, from the middle of a message? Datagrams that begin with it have
 * no mark.
 */
bool udp_order_is_middle(const uint8_t *packet);

/* --- acknowledgements as tails of super-packets (udp_tail.c) --- */

/*
 * How many staged packets from `first` on make a super-packet: one path, equal sizes, of which the
 * last may be shorter.
 */
uint32_t udp_run_length(const struct port_udp *port, uint32_t first);

/*
 * Are all packets of the super-packet for one slot? They must be, because a receiver may get it in
 * one piece, at the slot of its first packet.
 */
bool udp_is_for_same_slot(
	const struct port_udp *port, const struct udp_staged *a, const struct udp_staged *b);

/*
 * The packets from `first` on are in no message yet. An acknowledgement there may move behind
 * requests, or get a copy there.
 */
void udp_tail_arrange(struct port_udp *port, uint32_t first);

/*
 * The offset, in a datagram of `bytes`, of the acknowledgement that is delivered before the
 * requests in front of it; 0: there is none.
 */
size_t udp_tail_find(const uint8_t *data, size_t bytes, size_t segment_bytes);

/* A tail with a good ICRC came from there. */
void udp_tail_heard(struct port_udp *port, uint8_t address, const struct gid *remote);

/* --- the bypass (udp_bypass.c) --- */

/* Receive from the bypass of an address. Returns the number of datagrams. */
unsigned udp_bypass_receive(
	struct port_udp *port, uint8_t address, port_udp_packet_fn *on_packet, void *context);

/*
 * A datagram was read from the socket. Deliver the frames before it, and remove its mark. Returns
 * whether it had a mark, and then the Ethernet addresses of its frame.
 */
bool udp_bypass_catch_up(struct port_udp *port, uint8_t address, const uint8_t *data, size_t bytes,
	uint8_t ret_macs[ROCE_MACS_BYTES], port_udp_packet_fn *on_packet, void *context);

/*
 * A queue pair accepted a packet from this neighbour, in a frame that begins with `macs`. The
 * neighbour counts as alive if the kernel has confirmed the frame's source address; else the port
 * looks that up.
 */
void udp_neighbour_heard(
	struct port_udp *port, uint8_t address, const struct gid *gid, const uint8_t *macs);

void udp_bypass_close(struct udp_bypass *bypass);
int udp_bypass_fd(const struct udp_bypass *bypass);

/*
 * The bypass for a message of a path; NULL: its socket. `data_bytes` of UDP payload, `now_ms` of
 * udp_now_ms().
 */
struct udp_bypass *udp_bypass_of(const struct port_udp *port, const struct udp_path *path,
	uint32_t data_bytes, uint64_t now_ms);

/* The time to a few milliseconds, at almost no cost. */
uint64_t udp_now_ms(void);

/*
 * Make the headers of a frame with `data_bytes`, segmented into packets of `segment_bytes` (0:
 * one). Returns their length.
 */
uint32_t udp_bypass_headers_make(
	const struct udp_path *path, uint32_t data_bytes, uint32_t segment_bytes, uint8_t *to);

/* The counter of a packet that the kernel refused with this error. */
uint64_t *udp_error_counter(struct port_udp_counters *counters, int error);

/* --- impairments (udp_impair.c); the port has some --- */

/* port_udp_stage_run() */
void udp_impair_stage(struct port_udp *port, struct udp_path *path, uint32_t bytes,
	const struct packet_run *run);

/* port_udp_flush() */
int udp_impair_flush(struct port_udp *port);

/* Must staging wait? */
bool udp_impair_is_full(const struct port_udp *port);

/* The path is about to be closed: send its packets now. */
void udp_impair_path_close(struct port_udp *port, struct udp_path *path);

void udp_impair_close(struct port_udp *port);

/* Add or remove the reference of a path to the neighbour at its end. */
void udp_neighbour_ref(struct port_udp *port, struct udp_path *path);
void udp_neighbour_unref(struct udp_path *path);

/* Close all paths and their sockets, whatever their references. */
void udp_paths_destroy(struct port_udp *port);

/* Append a control message. Returns the bytes used so far. */
size_t udp_control_append(struct udp_control *control, size_t used_bytes, int level, int type,
	const void *value, size_t value_bytes);

#endif
