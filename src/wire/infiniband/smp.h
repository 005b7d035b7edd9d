/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_INFINIBAND_SMP_H
#define URNIC_WIRE_INFINIBAND_SMP_H

/*
 * Subnet management packets (IBTA 14.2.1): MADs of class 0x01, which are routed by LID, and 0x81,
 * which name the output port of each hop. Behind the MAD header:
 *
 *      24 ..  31  M_Key
 *      32 ..  33  class 0x81: source LID of the directed part, or permissive
 *      34 ..  35  class 0x81: destination LID of the directed part, or permissive
 *      64 .. 127  attribute
 *     128 .. 191  class 0x81: initial path: output ports, from byte 1
 *     192 .. 255  class 0x81: return path: the input ports that the packet saw, from byte 1
 *
 * In the header of class 0x81 the top bit of the status is the direction, and the two bytes for
 * the class are the hop pointer and the hop count.
 *
 * The subnet management interface of each node on the route executes smp_step() (IBTA 14.2.2).
 */

#include <stdbool.h>
#include <stdint.h>

#include "wire/infiniband/mad.h"

enum {
	SMP_M_KEY = 24, /* offsets in the SMP */
	SMP_DR_SLID = 32,
	SMP_DR_DLID = 34,
	SMP_DATA = 64,
	SMP_INITIAL_PATH = 128,
	SMP_RETURN_PATH = 192,

	SMP_DATA_BYTES = 64,
	SMP_PATH_BYTES = 64,
	SMP_HOPS_MAX = 63,
	SMP_STATUS_DIRECTION = 0x8000, /* set: the packet returns */
};

/* What a node does with a directed-route SMP. */
enum smp_way {
	SMP_DISCARD,
	SMP_HERE, /* pass it to the node's agent, or to its subnet manager */
	SMP_BY_PORT, /* send it out of a port */
	SMP_BY_LID, /* route it by LID for the rest of its way */
};

struct smp_step {
	enum smp_way way;
	uint8_t port; /* for SMP_BY_PORT; 0 at a switch: the switch's own port 0 */
	uint16_t dlid; /* for SMP_BY_LID */
};

/*
 * Execute one step of a directed-route SMP, at one node.
 *
 * `mad`        The SMP's 256 bytes. The function changes the hop pointer and the return path.
 * `is_switch`  Only a switch passes SMPs on.
 * `in_port`    The port at which the SMP arrived; 0 for an SMP that the node itself sends.
 */
struct smp_step smp_step(uint8_t mad[MAD_BYTES], bool is_switch, uint8_t in_port);

/* Turn a request into a response: set the method and status, and in class 0x81 the direction. */
void smp_turn(uint8_t mad[MAD_BYTES], uint16_t status);

#endif
