/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The InfiniBand device of a process on a subnet (nic/nic_fabric.h). It is the only device of such
 * a process, and lives as long as the process.
 */
#ifndef URNIC_FRONT_VERBS_DEVICE_IB_H
#define URNIC_FRONT_VERBS_DEVICE_IB_H

#include "front/verbs/device.h"

/* device_refresh() for a process on a subnet. */
int device_ib_refresh(void);

/* From now on the device's contexts get the events of its ports. Returns 0 or -errno. */
int device_ib_watch(void);

/* The state of a port, as of the last refresh. The device has the port. */
struct attach_port device_ib_port(struct device *device, uint32_t port);

/* Convert the state of a port to the attributes that programs get. */
void device_ib_port_attr(const struct attach_port *port, struct ibv_port_attr *attr);

/* The active MTU of a port in bytes. */
uint32_t device_ib_mtu_bytes(const struct attach_port *port);

/* --- device.c: the table of devices; device_lock is locked --- */

/*
 * Add a device. All its members are copied from `like`, except `index` and the names in `verbs`.
 * NULL: out of memory, or the table is full.
 */
struct device *device_insert(const struct device *like, const char *name);

/* From now on programs get this device, and no other. */
void device_present_only(struct device *device);

#endif
