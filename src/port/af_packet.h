/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_AF_PACKET_H
#define URNIC_PORT_AF_PACKET_H

/*
 * The Ethernet port of a raw packet queue pair: whole frames in and out of an AF_PACKET socket.
 *
 * Receiving: the kernel writes frames into a ring that it shares with the port (TPACKET_V2: a frame
 * is readable as soon as it has arrived, without a system call). While the port does not listen,
 * the kernel copies no frames for it. The port also receives frames that this host sends on the
 * interface, except those that the port itself sends.
 *
 * Sending: the caller writes frames into buffers of the port, and sends them in batches.
 *
 * The process opens the socket itself, for which it needs CAP_NET_RAW in its network namespace. The
 * kernel's network stack receives the same frames. Nothing here blocks; the caller serializes all
 * calls on a port.
 */

#include <stdbool.h>
#include <stdint.h>

#include "wire/frame.h"

struct port_packet;

enum { PORT_PACKET_BATCH = 16 };

/* Frames that the interface shall receive in addition to those for its own address. */
enum port_packet_wish {
	PORT_PACKET_NOTHING,
	PORT_PACKET_ADDRESS, /* frames to one address, unicast or multicast */
	PORT_PACKET_MULTICAST, /* all multicast frames */
	PORT_PACKET_EVERYTHING,
};

/*
 * Open a port on an interface.
 *
 * Returns 0; -EPERM without CAP_NET_RAW; -EOPNOTSUPP for an interface that is not Ethernet;
 * -ENOMEM; or another -errno of the socket.
 */
int port_packet_open(uint32_t ifindex, struct port_packet **ret_port);
void port_packet_close(struct port_packet *port);

/* A descriptor for poll(2), which is readable while the ring has a frame. The port owns it. */
int port_packet_fd(const struct port_packet *port);

/* The longest frame, without FCS, that the interface accepted when the port was opened. */
uint32_t port_packet_frame_bytes_max(const struct port_packet *port);

/* Start or stop receiving. Returns 0 or -errno. */
int port_packet_listen(struct port_packet *port, bool shall_listen);

/*
 * Add a wish (`shall_have`), or remove it. A wish that was added twice has to be removed twice.
 * Only PORT_PACKET_ADDRESS reads `mac`. Returns 0 or -errno.
 */
int port_packet_request(struct port_packet *port, enum port_packet_wish wish,
	const uint8_t mac[FRAME_MAC_BYTES], bool shall_have);

/*
 * Process a received frame. `bytes` are the frame's `count` bytes from the destination address on,
 * with its VLAN tag, without FCS, borrowed for the call. `is_departing`: this host sends the frame.
 */
typedef void port_packet_frame_fn(
	void *context, const uint8_t *bytes, uint32_t count, bool is_departing);

/* Receive at most a batch of frames. Returns their number. */
unsigned port_packet_receive(
	struct port_packet *port, port_packet_frame_fn *on_frame, void *context);

/* The buffer for frame `index` of the next batch; `index` is below PORT_PACKET_BATCH. */
uint8_t *port_packet_buffer(struct port_packet *port, unsigned index);

/*
 * Send the frames of the first `count` buffers; bytes[i] is the length of frame i. Returns how many
 * the kernel took. If it took none, *ret_error is -EAGAIN to try again later, or the -errno of a
 * permanent refusal. Otherwise *ret_error is 0.
 */
unsigned port_packet_send(
	struct port_packet *port, const uint32_t *bytes, unsigned count, int *ret_error);

#endif
