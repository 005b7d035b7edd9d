/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PORT_UDP_UDP_XDP_PROGRAM_H
#define URNIC_PORT_UDP_UDP_XDP_PROGRAM_H

/*
 * The XDP program of an interface, which gives lanes their packets (udp_xdp.c).
 *
 * An interface has one program. It redirects a packet to the AF_XDP socket of the receive queue if
 * the packet is RoCEv2 for the address and the slot of the lane that has the queue. It passes all
 * other packets to the network stack. The first lane of the host attaches the program, and later
 * lanes join it, also those of other processes.
 *
 * Each lane holds a descriptor of the link between program and interface. The kernel removes the
 * program when the last of these descriptors is closed, so nothing stays behind a killed process.
 * The kernel also removes a closed socket from the map of sockets. Packets of its queue then pass
 * to the network stack, and so to the lane's UDP socket.
 *
 * The program is made of instructions at run time, so it needs neither a compiler nor a library.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gid.h"

enum {
	XDP_FRAME_BYTES_MAX = 3840, /* what fits a page of UMEM behind the kernel's headroom */
	XDP_QUEUES_MAX = 256, /* receive queues of an interface */
};

struct xdp_program {
	int link; /* holds the program on the interface */
	int addresses; /* map: which lane's packets a queue redirects */
	int sockets; /* map: the socket of each queue */
	bool is_generic; /* the program is in front of the network stack, not in the driver */
};

/*
 * Join the program of the interface, or attach one.
 *
 * `is_generic`  Attach it in front of the network stack instead of in the driver. A program that is
 *               there already stays where it is.
 * `netns`       The cookie of this network namespace, because an interface's number is unique in
 *               its namespace only.
 *
 * Returns 0; -EPERM without CAP_BPF, CAP_NET_ADMIN and, to join, CAP_SYS_ADMIN in the first user
 * namespace; -EBUSY when another XDP program is on the interface, or urnic's with maps of another
 * layout; -EOPNOTSUPP when the driver has no XDP; or another -errno. After an error nothing is
 * open.
 */
int xdp_program_join(
	struct xdp_program *program, uint32_t ifindex, bool is_generic, uint64_t netns);

/*
 * Load the program and make its maps, without an interface. `program->link` is -1. Returns the
 * program's descriptor, which the caller closes, or -errno.
 */
int xdp_program_load(struct xdp_program *program, bool is_generic, uint64_t netns);

/*
 * Make `socket` the socket of the queue. Removes what an earlier, killed lane of this queue has
 * left in the maps. Returns 0 or -errno.
 */
int xdp_program_take_queue(const struct xdp_program *program, uint32_t queue, int socket);

/*
 * Redirect packets to this address and slot, and this Ethernet address, that arrive at the queue.
 * Returns 0 or -errno.
 */
int xdp_program_redirect(const struct xdp_program *program, uint32_t queue, const struct gid *gid,
	uint8_t slot, const uint8_t mac[6]);

/* Undo xdp_program_redirect(). */
void xdp_program_pass(
	const struct xdp_program *program, uint32_t queue, const struct gid *gid, uint8_t slot);

/* Close the descriptors. If they were the last ones, the kernel removes the program. */
void xdp_program_leave(struct xdp_program *program);

#endif
