/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_UDP_H
#define URNIC_PORT_UDP_H

/*
 * The UDP port of one lane: RoCEv2 packets in and out of ordinary sockets.
 *
 * Receiving: one socket per local address, bound to (address, 4791) and handed to us by urnicd,
 * which steers by destination QPN, so that everything meant for this lane's slot arrives here. The
 * kernel merges packets (UDP_GRO); the port splits them again and lets through only what has a
 * good ICRC.
 *
 * Sending: from other sockets, one per (local address, destination slot), because packets that the
 * receiving kernel may merge (same addresses and ports) must be for the same slot. A path is one
 * such socket with a remote address. Packets are written one behind the other into the staging
 * buffer; a flush seals each with its ICRC, turns runs of equal size on one path into super-packets
 * (UDP_SEGMENT) and hands them to the kernel. When the kernel's queue is full the rest stays
 * staged, in order, and nothing more can be staged until a later flush has got rid of it.
 *
 * Where it may, the port goes around the kernel's UDP in both directions: port_udp_use_bypass().
 *
 * Nothing here blocks. The caller serializes all calls on one port (the lane's lock). Everything
 * the data path needs is allocated by create, add_address and path_open.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/gid.h"

struct pollfd;
struct port_udp;

enum {
	PORT_UDP_ADDRESSES_MAX = 48, /* local addresses of one lane */
	/*
	 * Different paths of one lane, a power of two: two for each queue pair, and address handles
	 * besides.
	 */
	PORT_UDP_PATHS_MAX = 1 << 19,
	PORT_UDP_STAGE_BYTES = 512 << 10, /* staging buffer, ICRCs included */
	PORT_UDP_STAGE_PACKETS = 1024, /* packets in it */
	PORT_UDP_RUN_PACKETS_MAX = 64, /* of port_udp_stage_lent() */
	PORT_UDP_FDS_MAX = 2 * PORT_UDP_ADDRESSES_MAX + 1,
};

struct port_udp_counters {
#define COUNTER(name, sentence) uint64_t name;
#include "port/udp_counters.def"
#undef COUNTER
};

/* A received packet whose ICRC was good. Everything is borrowed for the call. */
struct port_udp_packet {
	const uint8_t *data; /* BTH to the end of the pad, without the ICRC */
	uint32_t data_bytes; /* at least a BTH */
	const struct gid *sgid; /* who sent it */
	const struct gid *dgid; /* our address, or that of a multicast group */
	uint32_t scope_ifindex; /* as given to port_udp_add_address() */
	uint16_t source_port;
	uint8_t tos; /* DSCP << 2 | ECN, as it arrived */
	uint8_t hop_limit; /* that was left; 0 without port_udp_report_hops() */
	uint8_t address; /* index of our address, from port_udp_add_address() */
};

/*
 * Take in a packet. Returns whether a queue pair took it for its peer's. The port learns nothing
 * from any other packet: a good ICRC says only that the packet is whole, and anybody can compute
 * one.
 */
typedef bool port_udp_packet_fn(void *context, const struct port_udp_packet *packet);

/*
 * Create a port without addresses or paths.
 *
 * `slot`      This lane's slot: the top byte of its queue pair numbers.
 * `counters`  Where to count; caller's memory, zeroed, outliving the port. Other processes may
 *             read it.
 *
 * Returns 0, or -ENOMEM.
 */
int port_udp_create(uint8_t slot, struct port_udp_counters *counters, struct port_udp **ret_port);

/* Close every socket of the port and free it. What is still staged is lost. NULL is fine. */
void port_udp_destroy(struct port_udp *port);

/*
 * Receive on one more local address, or from a multicast group.
 *
 * `scope_ifindex`  The interface of a link-local address or a group, else ignored.
 * `socket`         Bound to (gid, 4791), or the end of a channel that has its place
 *                  (udp_channel.h); from agent_client_open(). Owned by the port from here on, also
 *                  when the call fails.
 *
 * Each address costs a system call per port_udp_receive(): add those in use, not all there are.
 * Returns the address's index (0 to PORT_UDP_ADDRESSES_MAX - 1), -ENOSPC, or the -errno of a
 * socket option.
 */
int port_udp_add_address(
	struct port_udp *port, const struct gid *gid, uint32_t scope_ifindex, int socket);

/*
 * Exchange packets with the interface itself where that is possible, and not only through sockets:
 * short packets then cost about half. What comes in and goes out is the same, and whoever is at the
 * other end does not notice; but firewall rules of this host do not see it.
 *
 * `address`  From port_udp_add_address(), of `ifindex`'s interface; not a group.
 *
 * Returns 0; -EACCES for a channel's end; -EPERM without CAP_NET_RAW; -EOPNOTSUPP for an interface
 * that is not plain Ethernet, or a kernel before 6.2; -EUSERS when there are so many who do the
 * same there that they would slow each other down; -ENOMEM; or another -errno. After any of these
 * the address works as before.
 */
int port_udp_use_bypass(struct port_udp *port, uint32_t address, uint32_t ifindex);

/*
 * Whose Ethernet address the port wants to know before it sends frames there. Only the kernel's
 * neighbour table is believed; a frame that comes from another address than the table has makes the
 * port ask again. The port does not ask by itself, because that may block: `on_question` is told
 * that there is a question, and a thread off the data path answers it.
 */
struct port_udp_question {
	uint32_t neighbour;
	uint32_t ifindex; /* the interface that frames leave by */
	struct gid local;
	struct gid remote;
};

typedef void port_udp_question_fn(void *context);

/* `on_question` is called by port_udp_receive() and port_udp_path_open(). It does not block. */
void port_udp_on_question(struct port_udp *port, port_udp_question_fn *on_question, void *context);

/* The next question that nobody has taken. False: there is none. */
bool port_udp_next_question(struct port_udp *port, struct port_udp_question *ret_question);

/*
 * The answer. `mac` is the Ethernet address of the next hop, six bytes, as the kernel's table has
 * it; NULL: it has none that holds, or the way to the remote address does not lead through the
 * interface.
 */
void port_udp_answer(
	struct port_udp *port, const struct port_udp_question *question, const uint8_t *mac);

/* Let packets say how many hops they had left: for who hands on their headers. */
void port_udp_report_hops(struct port_udp *port);

/* Receive there no longer. No path goes out from it: a multicast group. */
void port_udp_remove_address(struct port_udp *port, uint32_t index);

/*
 * Take in what has arrived, at most one batch of datagrams per address.
 *
 * `on_packet`  Called for each good packet in order of arrival. It may stage packets and open or
 *              close paths; it must not flush or receive.
 *
 * Returns the number of datagrams read. 0 means that the sockets are empty; but a datagram may be
 * on its way from one to the other (port_udp_use_bypass()), and an address where nothing has come
 * for a while is looked at in each 16th call only. So a caller about to sleep sleeps in a
 * level-triggered poll of port_udp_fds().
 */
unsigned port_udp_receive(struct port_udp *port, port_udp_packet_fn *on_packet, void *context);

/* Have the next port_udp_receive() look at every address. */
void port_udp_look_everywhere(struct port_udp *port);

/* The system calls that the last port_udp_receive() made. */
unsigned port_udp_looks(const struct port_udp *port);

struct port_udp_path {
	uint8_t address; /* index of the local address */
	uint8_t destination_slot; /* top byte of the peer's QPN */
	bool is_shared; /* by peers of different slots: datagrams. destination_slot is then 0 */
	uint8_t dscp; /* 0 to 63 */
	uint8_t hop_limit; /* 1 to 255; 0 means 64 */
	uint32_t ifindex; /* of the local address; matters to multicast only */
	uint32_t flow_label; /* IPv6: 20 bits; ignored for IPv4 */
	struct gid remote; /* of the local address's family; link-local: on the same interface */
};

/*
 * Open a path, or take another reference to an equal one that is open.
 *
 * Returns 0 and the path's number, which no other path has for a long time after this one was
 * closed; -EINVAL for an address index that is not there or a remote
 * address of another family, -ENOSPC when PORT_UDP_PATHS_MAX are open, -EADDRNOTAVAIL when the
 * local address has gone from its interface, -EADDRINUSE when no source port is free, -EMFILE and
 * the like from socket().
 */
int port_udp_path_open(
	struct port_udp *port, const struct port_udp_path *settings, uint32_t *ret_path);

/*
 * Drop one reference. With the last one, packets of this path that a full kernel queue left staged
 * are lost, and counted.
 */
void port_udp_path_close(struct port_udp *port, uint32_t path);

/*
 * Where the next packet is to be written, and how long it may be.
 *
 * `ret_capacity_bytes`  Room from the BTH to the end of the pad; the ICRC's room is already taken
 *                       off. 0 while a rest waits for the kernel, or the buffer is full: flush.
 */
uint8_t *port_udp_buffer(struct port_udp *port, uint32_t *ret_capacity_bytes);

/*
 * The packet just written at port_udp_buffer() is complete.
 *
 * `path`   From port_udp_path_open(). Packets for one that was closed are dropped, and counted.
 * `bytes`  From the first BTH byte to the last pad byte: a multiple of 4, at least a BTH, at most
 *          the capacity.
 */
void port_udp_stage(struct port_udp *port, uint32_t path, uint32_t bytes);

/*
 * The same, where the last `lent_bytes` of the packet, at most all behind its BTH, are not in the
 * buffer but at `lent`. Borrowed until the next port_udp_flush() returns. If they change meanwhile,
 * the packet arrives with a wrong ICRC.
 *
 * `packets`  So many of equal length, at most PORT_UDP_RUN_PACKETS_MAX, whose lent parts follow
 *            each other; the buffer has the others, with room for an ICRC behind each. All of them
 *            together, with ICRCs, are not longer than the capacity.
 */
void port_udp_stage_lent(struct port_udp *port, uint32_t path, uint32_t bytes, const uint8_t *lent,
	uint32_t lent_bytes, uint32_t packets);

/*
 * Seal what is staged and hand it to the kernel.
 *
 * Returns 0 when nothing is left, -EAGAIN when the kernel's queue is full: wait until the
 * descriptor that port_udp_fds() lists with POLLOUT is ready (or a moment has passed), then flush
 * again. A packet that the kernel refuses for good is dropped and counted, as a network would.
 */
int port_udp_flush(struct port_udp *port);

/* Is a rest of an earlier flush waiting for the kernel? */
bool port_udp_is_blocked(const struct port_udp *port);

/*
 * A system call that the kernel, a sandbox or a firewall refused to this port, so that packets were
 * lost; `call` is NULL when there was none. Any thread may look.
 */
struct port_udp_refusal {
	const char *call;
	int error; /* errno */
};
const struct port_udp_refusal *port_udp_refusal(const struct port_udp *port);

/*
 * List what to wait for: POLLIN for every address and link, POLLOUT for the socket that blocks, if
 * one does.
 *
 * `ret_fds`  Room for PORT_UDP_FDS_MAX. The descriptors stay the port's.
 *
 * The POLLIN part changes only in port_udp_add_address() and port_udp_remove_address(). Returns how
 * many.
 */
unsigned port_udp_fds(const struct port_udp *port, struct pollfd *ret_fds);

#endif
