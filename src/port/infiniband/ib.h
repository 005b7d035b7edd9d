/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_INFINIBAND_IB_H
#define URNIC_PORT_INFINIBAND_IB_H

/*
 * The InfiniBand port of a lane: packets in and out of a subnet.
 *
 * A packet on the wire is LRH, perhaps GRH, BTH to pad, ICRC and VCRC. The engine writes BTH to
 * pad; the port adds LRH, GRH and ICRC, and the subnet adds the VCRC. A path is a port of the node,
 * a destination LID, a service level, and perhaps a GRH. The caller writes packets into a buffer as
 * for a UDP port (port/udp/udp.h), but each packet leaves at once, so nothing is staged:
 * port_ib_flush() only wakes the subnet.
 *
 * The port reads what the subnet manager decides (LIDs, P_Keys, GIDs) anew for each packet. So the
 * first packet after port_ib_set_state() has the new LID.
 *
 * A received packet comes from an unknown host. The port passes on a packet only if its length, its
 * LIDs, its GRH, its P_Key and its ICRC are those of a packet to the port.
 *
 * The lane's lock serializes all calls. Nothing here blocks.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/gid.h"
#include "base/record_ring.h"
#include "qp/qp.h"
#include "wire/packet_run.h"

enum {
	PORT_IB_PORTS_MAX = 2, /* of a node, numbered from 1 */
	PORT_IB_PKEYS_MAX = LINK_PKEYS_MAX,
	PORT_IB_GUIDS_MAX = 8,
	PORT_IB_PATHS_MAX = 1 << 19, /* a power of two */
	PORT_IB_PACKET_BYTES_MAX = 4200, /* BTH to pad, with the longest extended headers */
	PORT_IB_BUFFER_BYTES = 72 << 10,
};

/*
 * Why a queue pair refuses a packet that the port has accepted (IBTA 14.2.5.1: traps 257 and 258).
 */
enum port_ib_violation {
	PORT_IB_BAD_PKEY,
	PORT_IB_BAD_QKEY,
};

/* The fields by which the subnet routes a frame. */
struct port_ib_route {
	uint32_t port;
	uint16_t dlid;
	uint16_t pkey;
	uint8_t sl;
	uint8_t slot; /* the top byte of the destination QPN, which names a process */
};

/*
 * The functions by which the port passes frames to the subnet, and takes frames from it. `context`
 * is the first argument of each function.
 */
struct port_ib_wire {
	void *context;
	/* Send LRH to ICRC, in pieces. Returns false when there is no room: the frame is lost. */
	bool (*send)(
		void *context, uint32_t port, const struct record_piece *pieces, uint32_t count);
	/*
	 * has_room(): has every route room for frames of `bytes` bytes together, the headers of its
	 * records included? route_has_room(): has this one route that room?
	 */
	bool (*has_room)(void *context, uint32_t bytes);
	bool (*route_has_room)(void *context, const struct port_ib_route *route, uint32_t bytes);
	void (*flush)(void *context);
	/* Report a received frame that a queue pair refuses. The report may be lost. */
	void (*violate)(void *context, uint32_t port, enum port_ib_violation violation,
		const uint8_t *frame, uint32_t bytes);
	/*
	 * Take the oldest received frame, LRH to ICRC. `to` has room for RECORD_BYTES_MAX bytes.
	 * Returns its length; 0: there is none; or -errno.
	 */
	int (*receive)(void *context, uint8_t *to, uint32_t *ret_port);
	/*
	 * wait_begin() has the next frame make `fd` readable. It returns false if a frame already
	 * waits. wait_end() makes `fd` unreadable.
	 */
	bool (*wait_begin)(void *context);
	void (*wait_end)(void *context);
	void (*kick)(void *context); /* make `fd` readable */
	int fd;
};

/* A port of the node, as the subnet manager has set it. */
struct port_ib_state {
	uint16_t lid; /* 0: the port has none yet */
	uint8_t lmc;
	uint8_t gid_count;
	uint16_t pkey_count;
	struct gid gids[PORT_IB_GUIDS_MAX];
	uint16_t pkeys[PORT_IB_PKEYS_MAX];
};

struct port_ib_counters {
#define COUNTER(name, sentence) uint64_t name;
#include "port/infiniband/ib_counters.def"
#undef COUNTER
};

/* A received packet. The pointers are borrowed for the call of on_packet(). */
struct port_ib_packet {
	const uint8_t *data; /* BTH to the end of the pad */
	uint32_t data_bytes; /* at least a BTH */
	struct packet_origin origin;
	struct link_origin link;
	uint16_t pkey; /* one of the port's */
};

/*
 * Process a packet. Returns whether a queue pair accepted it as sent by its peer.
 */
typedef bool port_ib_packet_fn(void *context, const struct port_ib_packet *packet);

struct port_ib;

/* Create a port without paths. `wire` outlives it. Returns 0 or -ENOMEM. */
int port_ib_create(const struct port_ib_wire *wire, struct port_ib **ret_port);

/* `port` may be NULL. */
void port_ib_destroy(struct port_ib *port);

/* From now on, port `number`, from 1, has this state. */
void port_ib_set_state(struct port_ib *port, uint32_t number, const struct port_ib_state *state);

const struct port_ib_counters *port_ib_counters(const struct port_ib *port);

/* The P_Key at `index` of a port's table; 0, which is no valid P_Key, if there is none. */
uint16_t port_ib_pkey(const struct port_ib *port, uint32_t number, uint32_t index);

/*
 * Open a path. settings->ib has the port, the DLID and the path bits, and says whether packets have
 * a GRH. The LRH also has settings->service_level. The addresses, the traffic class, the flow label
 * and the hop limit of `settings` are for the GRH.
 *
 * `pkey_index`  Packets get the P_Key at this index of the port's table. PORT_IB_PKEY_OF_PACKET:
 *               the caller writes the index into each packet, in the place of its P_Key.
 *
 * Returns 0 and the path's number; -EINVAL for a port that the node does not have; -ENOSPC when
 * PORT_IB_PATHS_MAX are open; -ENOMEM.
 */
#define PORT_IB_PKEY_OF_PACKET UINT32_MAX
int port_ib_path_open(struct port_ib *port, const struct qp_path *settings, uint32_t pkey_index,
	uint32_t *ret_path);
void port_ib_path_close(struct port_ib *port, uint32_t id);

/*
 * The place for the packets of a run. The caller leaves 4 bytes behind each packet for its ICRC.
 *
 * `ret_capacity_bytes`  PORT_IB_BUFFER_BYTES. While the port is blocked, the caller sends only
 *                       packets for which port_ib_path_has_room() is true; others may be lost.
 */
uint8_t *port_ib_buffer(struct port_ib *port, uint32_t *ret_capacity_bytes);

/*
 * Send a run of packets. Each has `bytes` bytes, its borrowed payload included. Packets of a closed
 * path are dropped, and counted.
 */
void port_ib_send_run(struct port_ib *port, uint32_t bytes, const struct packet_run *run);

/*
 * Tell the subnet about the packets since the last call. Returns 0, or -EAGAIN while the port is
 * blocked: a route has no room until its receiver, or the subnet's process, takes packets. The
 * caller tries again after a moment.
 */
int port_ib_flush(struct port_ib *port);

bool port_ib_is_blocked(const struct port_ib *port);

/*
 * Does the ring to the path's destination have room for a full buffer? Each receiving process has a
 * ring for each service level. So a process that takes no packets stops only packets to itself.
 *
 * `pkey_index`  The index of the packet's P_Key, for a path opened with PORT_IB_PKEY_OF_PACKET.
 */
bool port_ib_path_has_room(
	const struct port_ib *port, uint32_t id, uint32_t pkey_index, uint32_t dest_qpn);

/*
 * Say whether a thread may sleep on the descriptor. The default is no. Then a frame costs no system
 * call: its sender wakes no thread, and the receiver does not read the descriptor. After a call
 * with `is_watched` the descriptor is readable, or becomes readable with the next frame.
 */
void port_ib_watch(struct port_ib *port, bool is_watched);

/*
 * Receive a batch of packets. Returns the number of frames taken. If the descriptor is watched and
 * frames may be left, the descriptor is readable after the call, or becomes readable with the next
 * frame.
 */
unsigned port_ib_receive(struct port_ib *port, port_ib_packet_fn *on_packet, void *context);

/*
 * on_packet() calls this when a queue pair refuses the packet because of its P_Key or Q_Key. The
 * subnet's port counts the violation and tells the subnet manager.
 */
void port_ib_violate(struct port_ib *port, enum port_ib_violation violation);

/*
 * The descriptor that becomes readable when a frame arrives, while the descriptor is watched. The
 * wire owns it.
 */
int port_ib_fd(const struct port_ib *port);

#endif
