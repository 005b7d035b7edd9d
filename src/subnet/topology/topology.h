/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_SUBNET_TOPOLOGY_TOPOLOGY_H
#define URNIC_SUBNET_TOPOLOGY_TOPOLOGY_H

/*
 * The nodes and cables of a subnet, as a file describes them.
 *
 * The format is what ibnetdiscover prints and ibsim reads. A record is a header line of a node,
 * lines of its cables, and an empty line. Lines of the form name=value before the header describe
 * the node, too.
 *
 *	sysimgguid=0x2c90000100003
 *	switchguid=0x2c90000100001(2c90000100001)
 *	Switch	8 "S-0002c90000100001"		# "spine 1" base port 0 lid 1 lmc 0
 *	[1]	"H-0002c90000200001"[1](2c90000200002)		# "host 1" lid 2 4xEDR
 *
 *	caguid=0x2c90000200001
 *	Ca	2 "H-0002c90000200001"		# "host 1"
 *	[1](2c90000200002)	"S-0002c90000100001"[1]		# lid 2 lmc 0 "spine 1" lid 1 4xEDR
 *
 * `Hca` is ibsim's word for `Ca`. The first quoted text is the name by which other lines refer to
 * the node. The quoted text in the comment of a header line is the NodeDescription; without one it
 * is the name. A line of a cable may end with a width and a speed (4xEDR) in its comment, or have
 * ibsim's w=4 and s=4. LIDs are ignored, because a subnet manager assigns them. A cable may have a
 * line in the record of either end's node, or in both.
 *
 * A GUID that the file does not have is made from the node's number.
 */

#include <stddef.h>
#include <stdint.h>

enum {
	TOPOLOGY_NAME_BYTES = 64, /* terminated */
	TOPOLOGY_NODES_MAX = 8192,
	TOPOLOGY_SWITCH_PORTS_MAX = 254,
	TOPOLOGY_CA_PORTS_MAX = 254,
	TOPOLOGY_WHY_BYTES = 192,
};

#define TOPOLOGY_NO_NODE UINT32_MAX

/* Values as in NodeInfo. */
enum topology_node_kind {
	TOPOLOGY_CA = 1,
	TOPOLOGY_SWITCH = 2,
};

/* In the order of their rates per lane. */
enum topology_speed {
	TOPOLOGY_SDR,
	TOPOLOGY_DDR,
	TOPOLOGY_QDR,
	TOPOLOGY_FDR,
	TOPOLOGY_EDR,
	TOPOLOGY_HDR,
	TOPOLOGY_NDR,
};

struct topology_port {
	uint64_t guid; /* of a CA's port; a switch's ports have none */
	uint32_t peer_node; /* TOPOLOGY_NO_NODE: no cable */
	uint8_t peer_port;
	uint8_t width; /* lanes of the cable: 1, 2, 4, 8 or 12 */
	enum topology_speed speed;
};

struct topology_node {
	enum topology_node_kind kind;
	uint8_t port_count;
	uint32_t first_port; /* its port 1 is ports[first_port] of the subnet's topology */
	uint32_t line; /* the number of its header line */
	uint32_t vendor_id;
	uint16_t device_id;
	uint64_t guid;
	uint64_t system_guid;
	char name[TOPOLOGY_NAME_BYTES]; /* the name in other lines; unique */
	char description[TOPOLOGY_NAME_BYTES]; /* its NodeDescription */
};

struct subnet_topology {
	struct topology_node *nodes;
	struct topology_port *ports;
	uint32_t node_count;
	uint32_t port_count;
};

/*
 * Read a file's text.
 *
 * `text`      `bytes` bytes, which need no terminator.
 * `ret_line`  After -EINVAL: the number of the wrong line, from 1.
 * `why`       After -EINVAL: a sentence about it.
 *
 * Returns 0, -EINVAL or -ENOMEM. The caller ends a topology with subnet_topology_destroy().
 */
int subnet_topology_read(const char *text, size_t bytes, struct subnet_topology **ret_topology,
	uint32_t *ret_line, char why[TOPOLOGY_WHY_BYTES]);
void subnet_topology_destroy(struct subnet_topology *topology);

#endif
