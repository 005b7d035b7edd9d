/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_UDP_H
#define URNIC_PORT_UDP_H

/*
 * The UDP port of a lane: RoCEv2 packets in and out of ordinary sockets.
 *
 * Receiving: the port has a socket per local address, bound to (address, 4791), which urnicd handed
 * out. The kernel steers by destination QPN, so all packets for this lane's slot arrive there. The
 * kernel merges packets (UDP_GRO); the port splits them and passes on those with a good ICRC.
 *
 * Sending: other sockets are used, one per (local address, destination slot). The receiving kernel
 * may merge packets with the same addresses and ports, so these must be for the same slot. A path
 * is such a socket with a remote address. Packets are written behind each other into the staging
 * buffer. A flush seals each with its ICRC, turns runs of equal size on a path into super-packets
 * (UDP_SEGMENT) and passes them to the kernel. When the kernel's queue is full, the rest stays
 * staged, in order, and nothing can be staged until a later flush has sent it.
 *
 * Where possible, the port bypasses the kernel's UDP in both directions: port_udp_use_bypass().
 *
 * With impairments (port_udp_impair()) each packet is copied when it is staged, waits for its time,
 * and leaves alone through its path's socket.
 *
 * Nothing here blocks. The caller serializes all calls on a port (the lane's lock). create,
 * add_address and path_open allocate everything that the data path needs.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/deadline.h"
#include "base/gid.h"
#include "wire/packet_run.h"

struct impair;
struct pollfd;
struct port_udp;

enum {
	PORT_UDP_ADDRESSES_MAX = 48, /* local addresses of one lane */
	/* Different paths of a lane, a power of two: two per queue pair, and address handles. */
	PORT_UDP_PATHS_MAX = 1 << 19,
	PORT_UDP_PACKET_BYTES_MAX = 65503, /* the room of an IPv4 datagram, without ICRC */
	PORT_UDP_STAGE_BYTES = 512 << 10, /* staging buffer, ICRCs included */
	PORT_UDP_STAGE_PACKETS = 1024, /* packets in it */
	PORT_UDP_RUN_PACKETS_MAX = 64, /* of port_udp_stage_run() */
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
	const struct gid *sgid; /* the sender */
	const struct gid *dgid; /* our address, or a multicast group's */
	uint32_t scope_ifindex; /* as given to port_udp_add_address() */
	uint16_t source_port;
	uint8_t tos; /* DSCP << 2 | ECN, as it arrived */
	uint8_t hop_limit; /* as it arrived; 0 without port_udp_report_hops() */
	uint8_t address; /* index of our address, from port_udp_add_address() */
};

/*
 * Process a packet. Returns whether a queue pair accepted it as its peer's. The port learns nothing
 * from any other packet: any host can compute a good ICRC.
 */
typedef bool port_udp_packet_fn(void *context, const struct port_udp_packet *packet);

/*
 * Create a port without addresses or paths.
 *
 * `slot`      This lane's slot: the top byte of its queue pair numbers.
 * `counters`  Caller's memory, zeroed, outliving the port. Other processes may read it.
 *
 * Returns 0, or -ENOMEM.
 */
int port_udp_create(uint8_t slot, struct port_udp_counters *counters, struct port_udp **ret_port);

/*
 * Impair all packets that the port sends (impair/impair.h). Called before the first path is opened.
 * `impair` outlives the port. Staging then allocates memory. Returns 0 or -ENOMEM.
 */
int port_udp_impair(struct port_udp *port, struct impair *impair);

/* Close every socket of the port and free it. Staged packets are lost. NULL is fine. */
void port_udp_destroy(struct port_udp *port);

/*
 * Receive on another local address, or from a multicast group.
 *
 * `scope_ifindex`  The interface of a link-local address or a group, else ignored.
 * `socket`         Bound to (gid, 4791), or the end of a channel (udp_channel.h); from
 *                  agent_client_open(). Owned by the port from here on, also when the call fails.
 *
 * Each address costs a system call per port_udp_receive(), so callers add only used addresses.
 * Returns the address's index (0 to PORT_UDP_ADDRESSES_MAX - 1), -ENOSPC, or the -errno of a socket
 * option.
 */
int port_udp_add_address(
	struct port_udp *port, const struct gid *gid, uint32_t scope_ifindex, int socket);

/*
 * Exchange packets with the interface itself where possible, and not only through sockets. Short
 * packets then cost about half. The packets are the same, and no peer notices; but this host's
 * firewall rules do not apply.
 *
 * `address`  From port_udp_add_address(), of `ifindex`'s interface; not a group.
 *
 * Returns 0; -EACCES for a channel's end; -EPERM without CAP_NET_RAW; -EOPNOTSUPP for an interface
 * that is not plain Ethernet, or a kernel before 6.2; -EUSERS when so many ports bypass UDP there
 * that they would slow each other down; -ENOMEM; or another -errno. After an error the address
 * works as before.
 */
int port_udp_use_bypass(struct port_udp *port, uint32_t address, uint32_t ifindex);

/*
 * A lookup of the Ethernet address to which the port wants to send frames. The port trusts only the
 * kernel's neighbour table; a frame from another address than the table's makes the port look it up
 * again. The lookup may block, so `on_lookup` reports it, and a thread off the data path executes
 * it.
 */
struct port_udp_lookup {
	uint32_t neighbour;
	uint32_t ifindex; /* outgoing interface */
	struct gid local;
	struct gid remote;
};

typedef void port_udp_lookup_fn(void *context);

/* `on_lookup` is called by port_udp_receive() and port_udp_path_open(). It does not block. */
void port_udp_on_lookup(struct port_udp *port, port_udp_lookup_fn *on_lookup, void *context);

/* Take the next lookup. False: there is none. */
bool port_udp_next_lookup(struct port_udp *port, struct port_udp_lookup *ret_lookup);

/*
 * The result of a lookup. `mac` is the Ethernet address of the next hop, six bytes, from the
 * kernel's table; NULL: the table has no valid address, or the route to the remote address uses
 * another interface.
 */
void port_udp_lookup_done(
	struct port_udp *port, const struct port_udp_lookup *lookup, const uint8_t *mac);

/* Report the hop limit of received packets, for programs that read IP headers. */
void port_udp_report_hops(struct port_udp *port);

/* Stop receiving there. For a multicast group, which has no paths. */
void port_udp_remove_address(struct port_udp *port, uint32_t index);

/*
 * Receive at most a batch of datagrams per address.
 *
 * `on_packet`  Called for each good packet in order of arrival. It may stage packets and open or
 *              close paths; it must not flush or receive.
 *
 * Returns the number of datagrams read; 0 means that the sockets are empty. But with
 * port_udp_use_bypass() a datagram may be between the two sockets, and idle addresses are read on
 * every 16th call only. So a caller that is about to sleep sleeps in a level-triggered poll of
 * port_udp_fds().
 */
unsigned port_udp_receive(struct port_udp *port, port_udp_packet_fn *on_packet, void *context);

/* Make the next port_udp_receive() read every address. */
void port_udp_look_everywhere(struct port_udp *port);

/* The number of system calls of the last port_udp_receive(). */
unsigned port_udp_looks(const struct port_udp *port);

struct port_udp_path {
	uint8_t address; /* index of the local address */
	uint8_t destination_slot; /* top byte of the peer's QPN */
	bool is_shared; /* by peers of different slots: datagrams. destination_slot is then 0 */
	uint8_t dscp; /* 0 to 63 */
	uint8_t hop_limit; /* 1 to 255; 0 means 64 */
	uint32_t ifindex; /* of the local address; for multicast only */
	uint32_t flow_label; /* IPv6: 20 bits; ignored for IPv4 */
	struct gid remote; /* of the local address's family; link-local: on the same interface */
};

/*
 * Open a path, or take another reference to an equal open path.
 *
 * Returns 0 and the path's number, which is not reused for a long time; -EINVAL for an unknown
 * address index or a remote address of another family; -ENOSPC when PORT_UDP_PATHS_MAX are open;
 * -EADDRNOTAVAIL when the local address has gone from its interface; -EADDRINUSE when no source
 * port is free; -EMFILE and the like from socket().
 */
int port_udp_path_open(
	struct port_udp *port, const struct port_udp_path *settings, uint32_t *ret_path);

/*
 * Drop a reference. With the last one, staged packets of this path that wait for the kernel are
 * lost, and counted.
 */
void port_udp_path_close(struct port_udp *port, uint32_t path);

/*
 * The place and room of the next packet.
 *
 * `ret_capacity_bytes`  Room from the BTH to the end of the pad, without the ICRC's:
 *                       PORT_UDP_PACKET_BYTES_MAX while nothing is staged. 0 while packets wait
 *                       for the kernel, or the buffer is full: flush.
 */
uint8_t *port_udp_buffer(struct port_udp *port, uint32_t *ret_capacity_bytes);

/*
 * The packet at port_udp_buffer() is complete.
 *
 * `path`   From port_udp_path_open(). Packets of a closed path are dropped, and counted.
 * `bytes`  From the first BTH byte to the last pad byte: a multiple of 4, at least a BTH, at most
 *          the capacity.
 */
void port_udp_stage(struct port_udp *port, uint32_t path, uint32_t bytes);

/*
 * port_udp_stage() for a run of at most PORT_UDP_RUN_PACKETS_MAX packets, which together, with
 * ICRCs, are not longer than the capacity. Their payloads are borrowed until the next
 * port_udp_flush() returns. If one changes meanwhile, its packet arrives with a wrong ICRC.
 *
 * `bytes`  Of each packet, borrowed ones included.
 */
void port_udp_stage_run(struct port_udp *port, uint32_t bytes, const struct packet_run *run);

/*
 * Seal the staged packets and pass them to the kernel.
 *
 * Returns 0 when all were sent, -EAGAIN when the kernel's queue is full. Then wait until the
 * descriptor that port_udp_fds() lists with POLLOUT is ready (or for a moment), and flush again. A
 * packet that the kernel refuses for good is dropped and counted, as a network would.
 */
int port_udp_flush(struct port_udp *port);

/*
 * Do packets of an earlier flush wait for the kernel, or has the port as many impaired packets as
 * it holds?
 */
bool port_udp_is_blocked(const struct port_udp *port);

/* When port_udp_flush() next has an impaired packet to send; DEADLINE_NEVER: it has none. */
uint64_t port_udp_held_until_ns(const struct port_udp *port);

/* Send all impaired packets now, because the process ends. */
void port_udp_release(struct port_udp *port);

/*
 * The system call that the kernel, a sandbox or a firewall refused to this port, so that packets
 * were lost; `call` is NULL when there was none. Any thread.
 */
struct port_udp_refusal {
	const char *call;
	int error; /* errno */
};
const struct port_udp_refusal *port_udp_refusal(const struct port_udp *port);

/*
 * List the descriptors to wait for: POLLIN for every address and bypass, POLLOUT for a blocked
 * socket.
 *
 * `ret_fds`  Room for PORT_UDP_FDS_MAX. The descriptors stay the port's.
 *
 * The POLLIN part changes only in port_udp_add_address() and port_udp_remove_address(). Returns how
 * many.
 */
unsigned port_udp_fds(const struct port_udp *port, struct pollfd *ret_fds);

#endif
