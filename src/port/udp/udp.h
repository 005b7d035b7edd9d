/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_UDP_UDP_H
#define URNIC_PORT_UDP_UDP_H

/*
 * The UDP port of a lane: RoCEv2 packets in and out of ordinary sockets.
 *
 * Receiving: for each local address urnicd has handed the port a socket, bound to (address, 4791).
 * The kernel steers packets by destination QPN, so all packets for this lane's slot arrive at that
 * socket. The kernel merges packets (UDP_GRO); the port splits them, and passes on those with a
 * good ICRC.
 *
 * Sending: the port has other sockets, one for each (local address, destination slot). Each has its
 * own source port. The receiving kernel may merge packets with the same addresses and ports, so
 * such packets must be for the same slot. A path is a sending socket and a remote address. The
 * caller writes packets one behind the other into the staging buffer. A flush writes the ICRC of
 * each, turns runs of packets of equal size on one path into super-packets (UDP_SEGMENT), and
 * passes them to the kernel. When the kernel's queue is full, the remaining packets stay staged, in
 * order. The caller can stage no more until a later flush has sent them.
 *
 * Where possible, the port bypasses the kernel's UDP in both directions: port_udp_use_bypass().
 *
 * With impairments (port_udp_impair()) the port copies each staged packet, keeps the copy until its
 * time, and sends it as a datagram of its own through the path's UDP socket.
 *
 * Nothing here blocks. The caller serializes all calls on a port (the lane's lock). create,
 * add_address and path_open allocate everything that the data path needs.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/gid.h"
#include "wire/packet_run.h"

struct impair;
struct pollfd;
struct port_udp;

enum {
	PORT_UDP_ADDRESSES_MAX = 48, /* local addresses of one lane */
	/*
	 * Open paths of a lane: up to four for each queue pair, and one for each address handle. A
	 * power of two.
	 */
	PORT_UDP_PATHS_MAX = 1 << 19,
	PORT_UDP_PACKET_BYTES_MAX = 65503, /* what a UDP datagram of IPv4 can carry, minus ICRC */
	PORT_UDP_STAGE_BYTES = 512 << 10, /* staging buffer, ICRCs included */
	PORT_UDP_STAGE_PACKETS = 1024, /* packets in the staging buffer */
	PORT_UDP_RUN_PACKETS_MAX = 64, /* packets in one call of port_udp_stage_run() */
	PORT_UDP_FDS_MAX = 2 * PORT_UDP_ADDRESSES_MAX + 1,
};

struct port_udp_counters {
#define COUNTER(name, sentence) uint64_t name;
#include "port/udp/udp_counters.def"
#undef COUNTER
};

/* A received packet with a good ICRC. The pointers are borrowed for the call of on_packet(). */
struct port_udp_packet {
	const uint8_t *data; /* BTH to the end of the pad, without the ICRC */
	uint32_t data_bytes; /* at least a BTH */
	const struct gid *sgid; /* the sender's address */
	const struct gid *dgid; /* our address, or that of a multicast group */
	uint32_t scope_ifindex; /* as given to port_udp_add_address() */
	uint16_t source_port;
	uint8_t tos; /* DSCP << 2 | ECN, as it arrived */
	uint8_t hop_limit; /* as it arrived; 0 without port_udp_report_hops() */
	uint8_t address; /* index of our address, from port_udp_add_address() */
};

/*
 * Process a packet. Returns whether a queue pair accepted it as sent by its peer. The port draws no
 * conclusion from any other packet, because any host can compute a good ICRC.
 */
typedef bool port_udp_packet_fn(void *context, const struct port_udp_packet *packet);

/*
 * Create a port without addresses or paths.
 *
 * `slot`      This lane's slot: the top byte of its queue pair numbers.
 * `counters`  Zeroed memory, which the caller keeps longer than the port. Other processes may read
 *             it.
 *
 * Returns 0, or -ENOMEM.
 */
int port_udp_create(uint8_t slot, struct port_udp_counters *counters, struct port_udp **ret_port);

/*
 * Impair all packets that the port sends (impair/impair.h). The caller does so before it opens the
 * first path. `impair` outlives the port. Staging then allocates memory. Returns 0 or -ENOMEM.
 */
int port_udp_impair(struct port_udp *port, struct impair *impair);

/* Close every socket of the port and free the port. Staged packets are lost. `port` may be NULL. */
void port_udp_destroy(struct port_udp *port);

/*
 * Receive on another local address, or from a multicast group.
 *
 * `scope_ifindex`  The interface of a link-local address or a group; otherwise ignored.
 * `socket`         Bound to (gid, 4791), or the end of a channel (udp_channel.h); from
 *                  agent_client_open(). The port owns it from here on, also when the call fails.
 *
 * Each address may cost a system call in each port_udp_receive(), so callers add only addresses
 * that are used. Returns the address's index (0 to PORT_UDP_ADDRESSES_MAX - 1), -ENOSPC, or the
 * -errno of a socket option.
 */
int port_udp_add_address(
	struct port_udp *port, const struct gid *gid, uint32_t scope_ifindex, int socket);

/*
 * Bypass IP and UDP where that is possible: exchange frames with the interface itself
 * (udp_bypass.c). A short packet then costs about half as much processor time. The packets are the
 * same on the wire, so peers need no support; but this host's firewall rules do not apply to them.
 *
 * `address`  From port_udp_add_address(). It is an address of the interface `ifindex`, not a group.
 *
 * Returns 0; -EACCES when the address has a channel instead of a socket (udp_channel.h); -EPERM
 * without CAP_NET_RAW; -EOPNOTSUPP for an interface that is not plain Ethernet, or a kernel before
 * 6.2; -EUSERS when BYPASS_SOCKETS_MAX packet sockets receive from the interface already, because
 * each further socket would slow all of them down; -ENOMEM; or another -errno. After an error the
 * port uses the address without bypass, as before.
 */
int port_udp_use_bypass(struct port_udp *port, uint32_t address, uint32_t ifindex);

/*
 * Like port_udp_use_bypass(), but through AF_XDP (udp_xdp.h). Call one of the two for an address.
 *
 * `is_generic`  Put the XDP program in front of the network stack. Otherwise the program goes into
 *               the driver, or in front of the network stack if the driver has no XDP.
 *
 * Returns 0; 1 when the driver moves packets without copying them; or one of these errors, after
 * which the port uses the address without bypass, as before:
 *
 * -EACCES      The address has a channel instead of a socket (udp_channel.h).
 * -EBUSY       Another XDP program is on the interface, or urnic's with maps of another layout.
 * -ENOBUFS     The process may not pin the memory.
 * -ENOEXEC     The kernel's verifier or a security module refuses the program.
 * -ENOMEM
 * -EOPNOTSUPP  The interface is not plain Ethernet, or the kernel has no AF_XDP.
 * -EPERM       The process lacks CAP_NET_RAW in this namespace, or CAP_NET_ADMIN or CAP_BPF in the
 *              first user namespace, or CAP_SYS_ADMIN there if a lane receives from the interface
 *              already.
 * -ERANGE      The interface's MTU is too long.
 * -EUSERS      Each receive queue of the interface has a lane.
 *
 * Other errors are those of system calls.
 */
int port_udp_use_xdp(struct port_udp *port, uint32_t address, uint32_t ifindex, bool is_generic);

/*
 * A request to look up the Ethernet address of a next hop, to which the port then sends frames. The
 * port trusts only the kernel's neighbour table. When a frame comes from another Ethernet address
 * than the table has, the port requests a new lookup. A lookup may block, so a thread outside the
 * data path executes it; the port calls `on_lookup` to wake that thread.
 */
struct port_udp_lookup {
	uint32_t neighbour; /* the port's number for the remote address */
	uint32_t ifindex; /* outgoing interface */
	struct gid local;
	struct gid remote;
};

typedef void port_udp_lookup_fn(void *context);

/*
 * Let port_udp_receive() and port_udp_path_open() call `on_lookup` when they request a lookup.
 * `on_lookup` must not block.
 */
void port_udp_on_lookup(struct port_udp *port, port_udp_lookup_fn *on_lookup, void *context);

/* Take the next lookup. Returns false if there is none. */
bool port_udp_next_lookup(struct port_udp *port, struct port_udp_lookup *ret_lookup);

/*
 * Give the port the result of a lookup. `mac` is the Ethernet address of the next hop, six bytes,
 * from the kernel's table. NULL: the table has no valid address, or the route to the remote address
 * uses another interface.
 */
void port_udp_lookup_done(
	struct port_udp *port, const struct port_udp_lookup *lookup, const uint8_t *mac);

/* From now on, set port_udp_packet.hop_limit. A program that receives IP headers needs it. */
void port_udp_report_hops(struct port_udp *port);

/* Stop receiving at the address of a multicast group. No path uses such an address. */
void port_udp_remove_address(struct port_udp *port, uint32_t index);

/*
 * Receive at most a batch of datagrams from each address.
 *
 * `on_packet`  Called for each good packet in order of arrival. It may stage packets and open or
 *              close paths; it must not flush or receive.
 *
 * Returns the number of datagrams read. 0 does not prove that the sockets are empty: with
 * port_udp_use_bypass() a datagram may wait for its mark (udp_bypass.c), and idle addresses are
 * read on every 16th call only. So a caller sleeps in a level-triggered poll of port_udp_fds(),
 * which returns at once if a socket has input.
 */
unsigned port_udp_receive(struct port_udp *port, port_udp_packet_fn *on_packet, void *context);

/* Make the next port_udp_receive() read every address. */
void port_udp_look_everywhere(struct port_udp *port);

/* The number of system calls that the last port_udp_receive() made. */
unsigned port_udp_looks(const struct port_udp *port);

struct port_udp_path {
	uint8_t address; /* index of the local address */
	uint8_t destination_slot; /* top byte of the peer's QPN */
	/* The path carries datagrams to queue pairs of any slot; destination_slot is then 0. */
	bool is_shared;
	uint8_t dscp; /* 0 to 63 */
	uint8_t hop_limit; /* 1 to 255; 0 means 64 */
	uint32_t ifindex; /* the local address's interface; for multicast only */
	uint32_t flow_label; /* IPv6: 20 bits; ignored for IPv4 */
	struct gid remote; /* same family as the local address; if link-local, same interface */
};

/*
 * Open a path, or take another reference to an equal open path.
 *
 * Returns 0 and the path's number, which no later path gets for a long time; -EINVAL for an unknown
 * address index or a remote address of another family; -ENOSPC when PORT_UDP_PATHS_MAX are open;
 * -EADDRNOTAVAIL when the local address has gone from its interface; -EADDRINUSE when no source
 * port is free; -EMFILE and the like from socket().
 */
int port_udp_path_open(
	struct port_udp *port, const struct port_udp_path *settings, uint32_t *ret_path);

/*
 * Drop a reference. When the last one is dropped, the path is closed. Its staged packets that wait
 * for the kernel are lost, and counted.
 */
void port_udp_path_close(struct port_udp *port, uint32_t path);

/*
 * The place of the next packet in the staging buffer.
 *
 * `ret_capacity_bytes`  Room for the packet from the BTH to the end of the pad; the ICRC has
 *                       additional room behind it. PORT_UDP_PACKET_BYTES_MAX while nothing is
 *                       staged. 0 while packets wait for the kernel, or the buffer is full; the
 *                       caller then flushes.
 */
uint8_t *port_udp_buffer(struct port_udp *port, uint32_t *ret_capacity_bytes);

/*
 * Stage the packet that the caller has written to port_udp_buffer().
 *
 * `path`   From port_udp_path_open(). Packets of a closed path are dropped, and counted.
 * `bytes`  From the first BTH byte to the last pad byte: a multiple of 4, at least a BTH, at most
 *          the capacity.
 */
void port_udp_stage(struct port_udp *port, uint32_t path, uint32_t bytes);

/*
 * Like port_udp_stage(), but for a run of at most PORT_UDP_RUN_PACKETS_MAX packets. All packets
 * together, with their ICRCs, are not longer than the capacity. Borrowed payloads are borrowed
 * until the next port_udp_flush() returns. If a payload changes earlier, its packet may arrive with
 * a wrong ICRC.
 *
 * `bytes`  Length of each packet, including its borrowed payload.
 */
void port_udp_stage_run(struct port_udp *port, uint32_t bytes, const struct packet_run *run);

/*
 * Write the ICRCs of the staged packets, and pass the packets to the kernel.
 *
 * Returns 0 when all were sent; -EAGAIN when the kernel's queue is full. Then the caller waits
 * until the descriptor that port_udp_fds() lists with POLLOUT is ready (or for a moment), and
 * flushes again. A packet that the kernel refuses permanently is dropped and counted.
 */
int port_udp_flush(struct port_udp *port);

/*
 * Do packets of an earlier flush wait for the kernel, or does the port keep as many impaired
 * packets as it can?
 */
bool port_udp_is_blocked(const struct port_udp *port);

/* The time when a flush sends the next impaired packet; DEADLINE_NEVER: no packet waits. */
uint64_t port_udp_held_until_ns(const struct port_udp *port);

/* Send all impaired packets now, because the process ends. */
void port_udp_release(struct port_udp *port);

/*
 * The first system call that the kernel, a sandbox or a firewall refused to this port, so that
 * packets were lost. `call` is NULL if none was refused. Any thread.
 */
struct port_udp_refusal {
	const char *call;
	int error; /* errno */
};
const struct port_udp_refusal *port_udp_refusal(const struct port_udp *port);

/*
 * List the descriptors to wait for: POLLIN for every address and bypass, POLLOUT for a blocked UDP
 * socket. A blocked AF_XDP socket has no POLLOUT, because poll() only says that its ring has room.
 *
 * `ret_fds`  Room for PORT_UDP_FDS_MAX. The port owns the descriptors.
 *
 * The descriptors with POLLIN change only in port_udp_add_address(), port_udp_use_bypass(),
 * port_udp_use_xdp() and port_udp_remove_address(). Returns the number of descriptors.
 */
unsigned port_udp_fds(const struct port_udp *port, struct pollfd *ret_fds);

#endif
