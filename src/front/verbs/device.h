/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices: one for each wanted transport on each wanted network interface. An interface is wanted
 * when it is up, has an address, and the environment does not exclude it.
 *
 * A device is created when its interface is first seen. It keeps its address in memory and its name
 * until the process ends, because programs compare device pointers, and may keep one whose
 * interface was removed. device_refresh() reads addresses, MTU and link state anew; between two
 * refreshes all answers come from one snapshot. While a device is open, each change of the
 * interfaces causes a refresh, which posts events to the device's contexts.
 *
 * A device whose interface was removed stays gone. If the interface comes back, it gets another
 * device, perhaps of the same name.
 *
 * These functions take the locks of device.c; any thread may call them.
 */
#ifndef URNIC_FRONT_VERBS_DEVICE_H
#define URNIC_FRONT_VERBS_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabricd/attach_protocol.h"
#include "front/verbs/abi.h"
#include "front/verbs/gid_table.h"
#include "front/verbs/limits.h"
#include "netdev/netdev.h"

/*
 * The size of the table of devices. A device keeps its entry until the process ends, and an
 * interface gets another device with each new name. If the table is full, further interfaces get no
 * device.
 */
#define DEVICE_COUNT_MAX 128

/* The only port of a RoCE or iWARP device (IBTA numbers ports from 1). */
#define DEVICE_PORT 1

/*
 * The port's rate: one lane of EDR, which is close to what a UDP socket sends. A static rate that
 * is not below this rate limits nothing.
 */
#define DEVICE_PORT_RATE_MBPS 25781

/* The value of PortInfo:CapabilityMask (IBTA 14.2.5.6) of the port. */
#define DEVICE_PORT_CAPABILITIES (IBV_PORT_IP_BASED_GIDS | IBV_PORT_CM_SUP)

/* The protocol of a device's queue pairs. */
enum device_transport {
	DEVICE_ROCE,
	DEVICE_IWARP,
	DEVICE_TRANSPORT_COUNT, /* number of transports that network interfaces can have */
	DEVICE_INFINIBAND = DEVICE_TRANSPORT_COUNT, /* the device of a subnet (device_ib.h) */
};

/* The most ports of an InfiniBand device. */
#define DEVICE_IB_PORTS_MAX 2

struct device {
	struct ibv_device verbs; /* what programs see; written once */
	enum device_transport transport; /* written once */
	uint32_t index; /* the device's index among all devices of this process */
	__be64 guid; /* written once */
	char ifname[NETDEV_NAME_BYTES];
	uint32_t ifindex;
	uint64_t netns_cookie; /* the network namespace to which `ifindex` belongs */
	atomic_bool is_announced; /* device_announce() has logged the device */
	/* device_lock guards the fields below. */
	bool is_active; /* the interface is up and has a carrier */
	bool is_gone; /* the interface was removed */
	uint32_t mtu_bytes;
	struct gid_table gids;
	uint32_t port_count; /* written once */
	struct attach_port *ib_ports; /* port_count entries; NULL unless this is InfiniBand */
};

struct device_port {
	bool is_active;
	uint32_t gid_count;
	uint32_t mtu_bytes; /* the longest IP packet on the interface */
};

/*
 * Read the interfaces again, update all devices, and post events of the changes to open contexts.
 * Returns 0 or -errno; on failure nothing has changed.
 */
int device_refresh(void);

/*
 * The devices of the last snapshot, in the order in which programs get them.
 *
 * `devices`  Room for DEVICE_COUNT_MAX pointers.
 *
 * Returns the number of pointers.
 */
uint32_t device_list(struct device **devices);

/* The device for a program's pointer, which may have any value. NULL: none. */
struct device *device_lookup(const struct ibv_device *verbs);

/* The device with this sysfs path; NULL: none. */
struct device *device_lookup_path(const char *ibdev_path);

static inline bool device_is_iwarp(const struct device *device)
{
	return device->transport == DEVICE_IWARP;
}

static inline bool device_is_ib(const struct device *device)
{
	return device->transport == DEVICE_INFINIBAND;
}

/* Does the device have a port with this number? `port` may have any value. */
static inline bool device_has_port(const struct device *device, uint32_t port)
{
	return port >= 1 && port <= device->port_count;
}

/* Log once per process, at level "info", that the device is used. */
void device_announce(struct device *device);

/* Was the device's interface removed? */
bool device_is_gone(struct device *device);

/* The state of the port as of the last refresh. */
struct device_port device_port(struct device *device);

/* The active MTU of the port: the largest path MTU whose packets fit the interface. */
enum ibv_mtu device_mtu(const struct device_port *port);

/*
 * Get the GID at `index`, which may be any number, as of the last refresh. Returns false if there
 * is none.
 */
bool device_gid(struct device *device, uint32_t index, struct gid *ret_gid);

/*
 * device_gid() for one port, which the device has. On InfiniBand each port has a table of its own.
 */
bool device_port_gid(struct device *device, uint32_t port, uint32_t index, struct gid *ret_gid);

/*
 * The index of a GID. If the table lacks the GID, this is DEVICE_GID_NONE, which ibv_query_qp() may
 * report.
 */
#define DEVICE_GID_NONE 0xff
uint8_t device_gid_index(struct device *device, const struct gid *gid);

/* device_gid_index() for the table of one port, which the device has. */
uint8_t device_port_gid_index(struct device *device, uint32_t port, const struct gid *gid);

/* Get all GIDs. Returns their number. */
uint32_t device_gids(struct device *device, struct gid gids[GID_TABLE_LENGTH]);

#endif
