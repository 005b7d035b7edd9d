/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices: one per network interface that is up, has an address and is wanted, and transport that
 * is wanted.
 *
 * A device is made when its interface is first seen and stays for the life of the process, at one
 * address, under one name: programs compare device pointers, and may hold one whose interface has
 * gone. What can change (addresses, MTU, link) is read anew by device_refresh(); between two
 * refreshes all answers are of one snapshot. While a device is open, the interfaces are watched,
 * and each change of them is such a refresh, which also tells the device's contexts.
 *
 * A device whose interface was removed is gone for good; an interface that comes back is another
 * device, which may have its name.
 *
 * Every function here takes the locks of this file for itself; any thread may call.
 */
#ifndef URNIC_FRONT_VERBS_DEVICE_H
#define URNIC_FRONT_VERBS_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "front/verbs/abi.h"
#include "front/verbs/gid_table.h"
#include "front/verbs/limits.h"
#include "netdev/netdev.h"

/*
 * Interfaces that come and go under new names each take one for ever; those beyond are not offered.
 */
#define DEVICE_COUNT_MAX 128

/* The only port of every device (IBTA numbers ports of a channel adapter from 1). */
#define DEVICE_PORT 1

/*
 * The rate that it states: one lane of EDR, near to what a UDP socket carries. A static rate from
 * this on limits nothing.
 */
#define DEVICE_PORT_RATE_MBPS 25781

/* What that port says it can do, of IBTA's PortInfo:CapabilityMask. */
#define DEVICE_PORT_CAPABILITIES (IBV_PORT_IP_BASED_GIDS | IBV_PORT_CM_SUP)

/* What queue pairs of a device speak. */
enum device_transport { DEVICE_ROCE, DEVICE_IWARP, DEVICE_TRANSPORT_COUNT };

struct device {
	struct ibv_device verbs; /* what programs see; written once */
	enum device_transport transport; /* written once */
	uint32_t index; /* among all devices of this process */
	__be64 guid; /* written once */
	char ifname[NETDEV_NAME_BYTES];
	uint32_t ifindex;
	uint64_t netns_cookie; /* where that index is its interface */
	/* Below: under the lock of device.c. */
	bool is_present; /* in the last snapshot: up, with an address, wanted */
	bool is_active; /* up, and something is plugged in */
	bool is_gone; /* the interface was removed */
	uint32_t mtu_bytes;
	struct gid_table gids;
};

/* The state of a port at one moment. */
struct device_port {
	bool is_active;
	uint32_t gid_count;
	uint32_t mtu_bytes; /* of an IP packet on the interface */
};

/*
 * Read the interfaces again, bring all devices in line with them, and tell open contexts what has
 * changed. Returns 0 or -errno; on failure nothing has changed.
 */
int device_refresh(void);

/*
 * The devices of the last snapshot, in the order in which programs shall see them.
 *
 * `devices`  Room for DEVICE_COUNT_MAX pointers.
 *
 * Returns how many were written.
 */
uint32_t device_list(struct device **devices);

/*
 * The device behind a pointer that a program passed: any value. NULL when it is none of ours.
 */
struct device *device_lookup(const struct ibv_device *verbs);

/* The device with this sysfs path, NULL when there is none. */
struct device *device_lookup_path(const char *ibdev_path);

static inline bool device_is_iwarp(const struct device *device)
{
	return device->transport == DEVICE_IWARP;
}

/* Was its interface removed? */
bool device_is_gone(struct device *device);

/* The state of the port as of the last refresh. */
struct device_port device_port(struct device *device);

/* The largest path MTU whose packets fit the interface: the active MTU of the port. */
enum ibv_mtu device_mtu(const struct device_port *port);

/* The GID at `index`, any number, as of the last refresh. False when there is none. */
bool device_gid(struct device *device, uint32_t index, struct gid *ret_gid);

/* All of them. Returns how many were written. */
uint32_t device_gids(struct device *device, struct gid gids[GID_TABLE_LENGTH]);

#endif
