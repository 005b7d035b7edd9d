/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_AF_PACKET_H
#define URNIC_PORT_AF_PACKET_H

/*
 * The Ethernet port of one raw packet queue pair: whole frames in and out of an AF_PACKET socket.
 *
 * Receiving: the kernel writes frames into a ring that it shares with us (TPACKET_V2: a frame is
 * there as soon as it has arrived, and looking for one is no system call). While the port does not
 * listen, the kernel does not copy anything for it. Frames that the host itself sends on the
 * interface are seen too, except those of this port.
 *
 * Sending: frames are written into buffers of the port and handed over in batches.
 *
 * The socket is the process's own and needs CAP_NET_RAW in the network namespace; what it receives,
 * the kernel's stack gets as well. Nothing here blocks; the caller serializes all calls on one
 * port.
 */

#include <stdbool.h>
#include <stdint.h>

#include "wire/frame.h"

struct port_packet;

enum { PORT_PACKET_BATCH = 16 };

/* What the interface is asked to receive beyond what it would anyway. */
enum port_packet_wish {
	PORT_PACKET_NOTHING,
	PORT_PACKET_ADDRESS, /* frames to one address, unicast or multicast */
	PORT_PACKET_MULTICAST, /* all multicast frames */
	PORT_PACKET_EVERYTHING,
};

/*
 * Open a port on an interface.
 *
 * Returns 0; -EPERM without CAP_NET_RAW; -EOPNOTSUPP for an interface whose frames are not
 * Ethernet's; -ENOMEM; or another -errno of the socket.
 */
int port_packet_open(uint32_t ifindex, struct port_packet **ret_port);
void port_packet_close(struct port_packet *port);

/* For polling: readable while a frame waits. */
int port_packet_fd(const struct port_packet *port);

/* The longest frame that the interface had room for when the port was opened, without FCS. */
uint32_t port_packet_frame_bytes_max(const struct port_packet *port);

/* Start or stop to receive. Returns 0 or -errno. */
int port_packet_listen(struct port_packet *port, bool shall_listen);

/* Add a wish, or take one back; they are counted. `mac` is for PORT_PACKET_ADDRESS. 0 or -errno. */
int port_packet_ask(struct port_packet *port, enum port_packet_wish wish,
	const uint8_t mac[FRAME_MAC_BYTES], bool shall_have);

/*
 * A received frame, from the destination address on, VLAN tag included, without FCS. Borrowed for
 * the call. `is_departing` when this host sends it to somebody else.
 */
typedef void port_packet_frame_fn(
	void *context, const uint8_t *bytes, uint32_t count, bool is_departing);

/*
 * Take in what has arrived, at most one batch.
 *
 * Returns the number of frames that were there.
 */
unsigned port_packet_receive(
	struct port_packet *port, port_packet_frame_fn *on_frame, void *context);

/* Room for one frame of the next batch; `index` is below PORT_PACKET_BATCH. */
uint8_t *port_packet_buffer(struct port_packet *port, unsigned index);

/*
 * Hand the first `count` buffers to the kernel.
 *
 * `bytes`  The length of each.
 *
 * Returns how many it took. When it took none, *ret_error says why: -EAGAIN means later, anything
 * else never. Otherwise *ret_error is 0.
 */
unsigned port_packet_send(
	struct port_packet *port, const uint32_t *bytes, unsigned count, int *ret_error);

#endif
