/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_UDP_UDP_INTERNAL_H
#define URNIC_PORT_UDP_UDP_INTERNAL_H

/*
 * For the files of the UDP port only. udp.c creates and destroys the port. udp_receive.c and
 * udp_send.c are the data path, udp_tail.c orders acknowledgements, and udp_path.c opens paths and
 * their sockets. udp_channel.c reads channels of urnicd. udp_bypass.c exchanges frames with the
 * interface: udp_bypass_open.c sets that up, udp_neighbour.c has the Ethernet addresses, and
 * udp_order.c keeps packets of the bypass in order with those of the UDP socket. udp_xdp_port.c
 * exchanges frames through an AF_XDP socket: udp_xdp_open.c sets that up, udp_xdp.c has its rings,
 * and udp_xdp_program.c the program on the interface.
 */

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "port/address.h"
#include "port/udp/udp.h"
#include "wire/bth.h"
#include "wire/frame.h"
#include "wire/icrc.h"
#include "wire/psn.h"
#include "wire/roce_frame.h"

enum {
	UDP_SLOTS = 256,
	UDP_SLOT_OFFSET = 5, /* in a packet: the top byte of the destination QPN */
	UDP_BUFFER_BYTES_RECEIVE = 1 << 16, /* the most that GRO merges into one datagram */
	UDP_RECEIVE_BATCH = 16, /* datagrams that one call reads at most */
	UDP_RECEIVE_BYTES = 1 << 17, /* rough limit of a batch: two of the longest datagrams */
	UDP_EMPTY_LOOKS = 64, /* consecutive empty reads, after which a receiver is quiet */
	UDP_QUIET_STEP = 16, /* a quiet receiver is read on every 16th call */
	UDP_SEND_BATCH = 64, /* messages that one call sends at most */
	UDP_SEND_PIECES = 1024, /* iovecs of a batch; a message takes up to 3 for each packet */
	UDP_SEGMENTS_MAX = 64, /* the kernel's UDP_MAX_SEGMENTS (128 in later kernels) */
	UDP_SUPER_BYTES_MAX = 65000, /* below 64 KiB, because a super-packet is one IP packet */
	UDP_SOCKET_BUFFER_BYTES = 4 << 20,
	UDP_FLOWS_COUNT = 64, /* power of two */
	UDP_ORDERS_COUNT = 64, /* power of two */
	UDP_NEIGHBOURS_COUNT = 256, /* power of two */
	UDP_TAILS_COUNT = 64, /* power of two */
	UDP_VNET_BYTES = 10, /* struct virtio_net_hdr */
	/*
	 * When the kernel has accepted no packet for this time, the port drops the waiting packets,
	 * so that the requester's retries run out. At 1 Mbit/s, sending a super-packet takes this
	 * time.
	 */
	UDP_BLOCKED_MS_MAX = 500,
	UDP_FLOW_LABEL_MASK = 0xfffff,
};

/*
 * Control messages. When sending: TOS, hop limit and UDP_SEGMENT. When receiving: TOS, hop limit,
 * segment size and overflow count.
 */
struct udp_control {
	_Alignas(struct cmsghdr) uint8_t bytes[128];
};

/*
 * The remote address of one or more paths, and the Ethernet addresses of frames to it as soon as
 * the kernel has confirmed them. The table is direct-mapped: a path has no neighbour if another
 * remote address occupies the entry.
 */
struct udp_neighbour {
	uint32_t paths; /* number of paths to it; 0: the entry is free */
	uint8_t address; /* index of our local address */
	struct gid gid;
	uint8_t macs[ROCE_MACS_BYTES]; /* destination (the lookup's result) and source of frames */
	bool is_lookup_pending; /* port_udp_next_lookup() has not taken the lookup yet */
	uint64_t lookup_from_ms; /* the time of the next lookup at the earliest */
	uint32_t lookup_pause_ms; /* the shortest time between two lookups */
	uint64_t confirmed_ms; /* when a lookup last found the address; 0: the last one did not */
	/* When the last frame from it arrived; 0: the port treats it as silent. */
	uint64_t heard_ms;
	uint64_t routed_ms; /* when the kernel last routed a packet to it */
};

/* Sizes and times of the bypass (udp_bypass.c). */
enum {
	BYPASS_SLOT_BYTES = 2048,
	BYPASS_SLOTS_COUNT = 1024,
	BYPASS_BATCH = 32, /* frames per call */
	BYPASS_STALLED_LOOKS_MAX = 256, /* reads after which earlier packets count as lost */
	/* Usually only one or two datagrams are delivered before their marks. */
	BYPASS_UNMARKED_COUNT = 8,
	UDP_HEARD_MS = 50,
	UDP_ROUTED_MS = 100,
	UDP_CONFIRMED_MS = 3000,
};

/* A datagram that was delivered before its mark appeared in the ring (udp_bypass.c). */
struct udp_unmarked {
	bool is_used;
	uint8_t start[BTH_BYTES];
};

struct udp_bypass {
	int fd; /* -1: none, because another address of the port reads `xdp` */
	uint32_t ifindex;
	struct udp_xdp *xdp; /* NULL: `fd` is an AF_PACKET socket */
	bool splits_messages; /* packets of a message may arrive here and at the UDP socket */
	uint32_t stalled_looks; /* consecutive reads that waited for packets of the UDP socket */

	/* Members for an AF_PACKET socket only. */
	uint8_t *ring;
	uint32_t next_slot;
	uint32_t next_unmarked; /* the entry to write next, which is the oldest */
	struct udp_unmarked unmarked[BYPASS_UNMARKED_COUNT];
};

struct udp_receiver {
	int fd; /* -1: removed */
	bool is_channel; /* `fd` is the end of a channel of urnicd, not a socket (udp_channel.h) */
	struct udp_bypass *bypass; /* NULL: this address has none */
	uint32_t scope_ifindex;
	uint32_t overflows_seen; /* last value of the socket's drop count, modulo 2^32 */
	uint32_t empty_looks; /* consecutive reads that found nothing */
	unsigned batch; /* number of datagrams that the next call reads at most (batch_adapt) */
	bool was_full; /* the last call read a whole batch */
	struct gid gid;
};

/*
 * A remote sender (address and source port), for faster ICRC checks. The table is direct-mapped: a
 * new sender replaces the previous one in its place.
 */
struct udp_flow {
	bool is_used;
	bool is_counting; /* its IPv4 identifications increase from datagram to datagram */
	uint8_t address;
	uint16_t source_port;
	uint16_t next_id;
	struct gid sgid;
	struct icrc_flow icrc;
};

/*
 * A message of which packets are still to come (udp_order.c). The table is direct-mapped: a new
 * message replaces the previous one in its place.
 */
struct udp_order {
	const struct udp_flow *flow; /* NULL: the entry is free */
	uint32_t stream; /* destination QPN, and whether the packets are responses */
	struct psn next; /* the first missing PSN */
};

/*
 * What the port knows about tails to and from a host. A tail is an acknowledgement that is the last
 * packet of a super-packet (udp_tail.c).
 */
struct udp_tails {
	bool is_used;
	bool has_come; /* a tail has come from `remote` */
	uint8_t address; /* index of our local address */
	uint8_t copies; /* number of copies sent as tails to `remote` */
	struct gid remote;
};

struct udp_sender {
	int fd;
	uint16_t source_port;
	/* Number of paths that use the sender; when the last one is closed, so is the sender. */
	uint32_t paths;
};

struct udp_path {
	uint32_t id; /* the path's number: its index, and a generation in the upper bits */
	struct port_udp_path settings;
	uint32_t references;
	bool can_segment; /* false after the device has refused a super-packet */
	struct udp_sender *sender;
	union socket_address remote;
	socklen_t remote_bytes;
	struct icrc_flow icrc;
	struct udp_control control; /* TOS and hop limit if they differ from the socket's */
	size_t control_bytes;
	uint32_t held; /* impaired packets that wait */
	struct udp_neighbour *neighbour; /* NULL: none */
	struct roce_frame_headers headers;
	struct udp_path *next; /* the next path in the same bucket of path_buckets */
};

enum { UDP_PATH_BUCKETS = 1 << 14 }; /* a power of two */

struct udp_staged {
	struct udp_path *path; /* NULL: the path was closed after the packet was staged */
	/* Where the stage has the packet's own bytes, which are not borrowed, and then its ICRC. */
	uint32_t offset;
	uint32_t bytes; /* length of the packet without ICRC */
	const uint8_t *borrowed; /* the last borrowed_bytes of the packet; NULL: not borrowed */
	uint32_t borrowed_bytes;
	uint32_t whole_offset; /* where the stage has room for the packet with its borrowed bytes */
};

struct port_udp {
	struct port_udp_counters *counters;
	uint8_t slot;
	bool is_blocked;
	uint64_t blocked_since_ms; /* if is_blocked: since when the kernel's queue is full */
	bool is_xdp_blocked; /* an AF_XDP socket keeps frames for which its interface had no room */
	struct port_udp_refusal refusal;
	struct udp_impairments *impairments; /* NULL: none */

	/* Members for receiving. */
	bool reports_hops;
	uint32_t receiver_count;
	uint32_t receive_calls;
	uint32_t busiest; /* index of the receiver that got the last packet */
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
	uint32_t looks; /* count of system calls in the last port_udp_receive() */

	/*
	 * Sending: the packets staged[staged_first .. staged_end) lie in this order in `stage`,
	 * except for tails (udp_tail.c).
	 */
	uint32_t staged_first;
	uint32_t staged_end;
	uint32_t stage_used_bytes;
	struct udp_staged staged[PORT_UDP_STAGE_PACKETS];
	uint8_t *stage;
	struct mmsghdr out[UDP_SEND_BATCH];
	struct udp_message {
		uint32_t bytes; /* length of the UDP payload */
		struct udp_control control;
		uint8_t headers[UDP_VNET_BYTES + ROCE_FRAME_HEADER_BYTES_MAX];
	} out_message[UDP_SEND_BATCH];
	struct iovec out_iov[UDP_SEND_PIECES]; /* the pieces of all messages of a batch */
	uint32_t out_piece_count;
	uint32_t out_packets[UDP_SEND_BATCH]; /* number of staged packets in each message */

	/*
	 * Paths by index (`paths`), and by a hash of their settings (`path_buckets`). Freed indexes
	 * are in a ring, the oldest first. Indexes from path_limit on were never used. So opening
	 * or closing a path takes no longer with many paths.
	 */
	uint32_t path_limit;
	uint32_t path_free_head; /* where path_free has the oldest freed index */
	uint32_t path_free_count;
	uint32_t path_generation; /* the generation of the path that is opened next */
	struct udp_path *paths[PORT_UDP_PATHS_MAX];
	uint32_t path_free[PORT_UDP_PATHS_MAX];
	struct udp_path *path_buckets[UDP_PATH_BUCKETS];
	struct udp_sender *senders[PORT_UDP_ADDRESSES_MAX][UDP_SLOTS];
};

/*
 * The two system calls of the data path, without the C library. The library's functions are
 * cancellation points. In a threaded program, the cancellation point costs more time than the rest
 * of a call that receives nothing.
 */
static inline int udp_recvmmsg(int fd, struct mmsghdr *messages, unsigned count)
{
	return (int)syscall(SYS_recvmmsg, fd, messages, count, MSG_DONTWAIT, NULL);
}

static inline int udp_sendmmsg(int fd, struct mmsghdr *messages, unsigned count)
{
	return (int)syscall(SYS_sendmmsg, fd, messages, count, MSG_DONTWAIT);
}

/* Note that the kernel has refused a system call. Only the first refusal is kept. */
static inline void udp_refused(struct port_udp *port, const char *call, int error)
{
	if (port->refusal.call)
		return;
	port->refusal.error = error;
	__atomic_store_n(&port->refusal.call, call, __ATOMIC_RELEASE);
}

/* The open path with this number; NULL when it was closed. */
static inline struct udp_path *udp_path_find(const struct port_udp *port, uint32_t id)
{
	struct udp_path *path = port->paths[id % PORT_UDP_PATHS_MAX];

	return path && path->id == id ? path : NULL;
}

/* What the port knows of a datagram, from the kernel's control messages or a frame's headers. */
struct udp_datagram {
	uint8_t address;
	uint8_t tos;
	uint8_t hop_limit;
	uint32_t segment_bytes; /* length of each packet except the last, with ICRC */
};

/*
 * Split a datagram into its packets and pass on the good ones. Returns whether a queue pair
 * accepted one of them as sent by its peer.
 */
bool udp_datagram_split(struct port_udp *port, const struct udp_datagram *datagram,
	struct udp_flow *flow, const uint8_t *data, size_t bytes, port_udp_packet_fn *on_packet,
	void *context);

/* Find the entry of a remote sender, or make it. */
struct udp_flow *udp_flow_of(
	struct port_udp *port, uint8_t address, const struct gid *sgid, uint16_t source_port);

/* Read at most a batch of datagrams from the socket of an address. Returns how many. */
unsigned udp_socket_receive(
	struct port_udp *port, uint8_t address, port_udp_packet_fn *on_packet, void *context);

/* --- channels (udp_channel.c) --- */

/* Is the descriptor a channel's end, and not a UDP socket? */
bool udp_is_channel(int fd);

/*
 * Read at most a batch of datagrams from a channel. Returns the number of datagrams, or -1 with
 * errno set. Adds the bytes of the datagrams to *ret_bytes.
 */
int udp_channel_receive(struct port_udp *port, uint8_t address, uint32_t *ret_bytes,
	port_udp_packet_fn *on_packet, void *context);

/* --- order between bypass and socket (udp_order.c) --- */

/*
 * Record the PSN that follows this packet, which a queue pair has accepted. The packet has at least
 * a BTH.
 */
void udp_order_note(struct port_udp *port, const struct udp_flow *flow, const uint8_t *packet);

/* Does the packet have to wait for earlier packets of its message? It has at least a BTH. */
bool udp_order_is_early(struct port_udp *port, const struct udp_flow *flow, const uint8_t *packet);

/*
 * Is the packet, which has at least a BTH, a middle packet of its message? Datagrams that begin
 * with a middle packet have no mark.
 */
bool udp_order_is_middle(const uint8_t *packet);

/* --- acknowledgements as tails of super-packets (udp_tail.c) --- */

/*
 * How many staged packets from `first` on make a super-packet? They have one path and equal
 * lengths; only the last may be shorter.
 */
uint32_t udp_run_length(const struct port_udp *port, uint32_t first);

/*
 * Are the packets `a` and `b` of one path for the same slot? The packets of a super-packet must be,
 * because the receiving kernel may pass the whole super-packet to the socket for the slot of its
 * first packet.
 */
bool udp_is_for_same_slot(
	const struct port_udp *port, const struct udp_staged *a, const struct udp_staged *b);

/*
 * The caller is about to make a message of the packets from `first` on. If `first` is an
 * acknowledgement, move or copy it behind the requests that follow it, where that is possible.
 */
void udp_tail_arrange(struct port_udp *port, uint32_t first);

/*
 * Find the tail of a datagram of `bytes`: the acknowledgement at its end, which the port delivers
 * before the requests in front of it. Returns the tail's offset; 0: the datagram has no tail.
 */
size_t udp_tail_find(const uint8_t *data, size_t bytes, size_t segment_bytes);

/* Note that a tail with a good ICRC has come from `remote`. */
void udp_tail_heard(struct port_udp *port, uint8_t address, const struct gid *remote);

/* --- the bypass (udp_bypass.c) --- */

/*
 * Check that the interface is Ethernet, and not a member of another interface (a VRF, for example),
 * to which the network stack would assign its packets. `fd` is a socket of the caller's. Returns 0
 * and the interface's Ethernet address, or -errno.
 */
int udp_link_check(int fd, uint32_t ifindex, uint8_t ret_mac[FRAME_MAC_BYTES]);

/*
 * Deliver a frame that bypassed the UDP socket.
 *
 * `macs`           The beginning of the frame.
 * `segment_bytes`  As in struct udp_datagram.
 * `may_be_early`   Deliver it also when earlier packets of its message have not arrived yet.
 *
 * Returns false, and delivers nothing, when the frame has to wait for those packets.
 */
bool udp_frame_take(struct port_udp *port, uint8_t address, const struct roce_frame *frame,
	const uint8_t *macs, uint32_t segment_bytes, bool may_be_early,
	port_udp_packet_fn *on_packet, void *context);

/* udp_bypass_receive() for an address with an AF_XDP socket (udp_xdp_port.c). */
unsigned udp_xdp_receive(
	struct port_udp *port, uint8_t address, port_udp_packet_fn *on_packet, void *context);

/*
 * Send the first `count` messages of the batch as frames. Returns how many of them the socket has
 * taken, or -1 with errno set, as sendmmsg() does.
 */
int udp_xdp_send_batch(struct port_udp *port, struct udp_xdp *xdp, unsigned count);

/* Send the frames for which an interface had no room, and set port->is_xdp_blocked anew. */
void udp_xdp_retry(struct port_udp *port);

/* Receive from the bypass of an address. Returns the number of datagrams. */
unsigned udp_bypass_receive(
	struct port_udp *port, uint8_t address, port_udp_packet_fn *on_packet, void *context);

/*
 * The caller has read a datagram from the UDP socket. Deliver the frames that arrived before the
 * datagram, and remove the datagram's mark. Returns whether there was a mark; if so, ret_macs has
 * the Ethernet addresses of the datagram's frame.
 */
bool udp_bypass_catch_up(struct port_udp *port, uint8_t address, const uint8_t *data, size_t bytes,
	uint8_t ret_macs[ROCE_MACS_BYTES], port_udp_packet_fn *on_packet, void *context);

/*
 * A queue pair accepted a packet from `gid`, in a frame that begins with `macs`. The neighbour
 * counts as alive if the frame's source is the Ethernet address that a lookup has confirmed.
 * Otherwise the port requests a lookup.
 */
void udp_neighbour_heard(
	struct port_udp *port, uint8_t address, const struct gid *gid, const uint8_t *macs);

/* Close the bypass of an address, if it has one. */
void udp_bypass_close(struct port_udp *port, uint32_t address);
int udp_bypass_fd(const struct udp_bypass *bypass);

/*
 * The bypass that sends a message of `data_bytes` of UDP payload to a path; NULL: the path's UDP
 * socket sends it. `now_ms` is the result of udp_now_ms().
 */
struct udp_bypass *udp_bypass_of(const struct port_udp *port, const struct udp_path *path,
	uint32_t data_bytes, uint64_t now_ms);

/* The time in ms, exact to a few milliseconds, at almost no cost. */
uint64_t udp_now_ms(void);

/*
 * Make the headers of a frame with `data_bytes` of UDP payload, which the kernel segments into
 * packets of `segment_bytes` (0: one packet). Returns the length of the headers.
 */
uint32_t udp_bypass_headers_make(
	const struct udp_path *path, uint32_t data_bytes, uint32_t segment_bytes, uint8_t *to);

/* The counter of a packet that the kernel refused with this error. */
uint64_t *udp_error_counter(struct port_udp_counters *counters, int error);

/* --- impairments (udp_impair.c); only for a port with impairments --- */

/* Does the work of port_udp_stage_run(). */
void udp_impair_stage(
	struct port_udp *port, struct udp_path *path, uint32_t bytes, const struct packet_run *run);

/* Does the work of port_udp_flush(). */
int udp_impair_flush(struct port_udp *port);

/*
 * Does staging have to wait, because the port keeps as many impaired packets as it can, or the link
 * of limited rate has too long a backlog?
 */
bool udp_impair_is_full(const struct port_udp *port);

/* The path is about to be closed: send its impaired packets now. */
void udp_impair_path_close(struct port_udp *port, struct udp_path *path);

void udp_impair_close(struct port_udp *port);

/* Add or remove the reference of a path to the neighbour of its remote address. */
void udp_neighbour_ref(struct port_udp *port, struct udp_path *path);
void udp_neighbour_unref(struct udp_path *path);

/* Close all paths and their sockets, whatever their references. */
void udp_paths_destroy(struct port_udp *port);

/* Append a control message behind the first `used_bytes`. Returns the new number of used bytes. */
size_t udp_control_append(struct udp_control *control, size_t used_bytes, int level, int type,
	const void *value, size_t value_bytes);

#endif
