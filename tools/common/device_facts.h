/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices that programs see, in the order of ibv_get_device_list().
 *
 * The facts come from urnic's libibverbs through its public interface, so they are what programs
 * with the same URNIC_* variables see.
 */
#ifndef TOOLS_DEVICE_FACTS_H
#define TOOLS_DEVICE_FACTS_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/gid.h"

enum {
	DEVICE_NAME_BYTES = 64,
	DEVICE_GUID_BYTES = 20,
	DEVICE_GIDS_MAX = 64,
};

struct device_gid {
	uint32_t index; /* in the device's GID table, which may have gaps */
	struct gid gid;
};

struct device_facts {
	char name[DEVICE_NAME_BYTES];
	/* The name that the device would have below /dev/infiniband with a kernel driver. */
	char char_device[DEVICE_NAME_BYTES];
	char guid[DEVICE_GUID_BYTES]; /* as in sysfs: 0123:4567:89ab:cdef */
	char interface[IF_NAMESIZE];
	uint32_t ifindex;
	uint32_t interface_mtu_bytes; /* largest IP packet; 0: the interface has gone meanwhile */
	uint32_t active_mtu_bytes; /* the most RDMA payload of a packet */
	bool is_active;
	bool is_iwarp; /* false: RoCE */
	uint32_t gid_count;
	struct device_gid gids[DEVICE_GIDS_MAX];
};

/*
 * List all devices.
 *
 * `ret_devices`  The caller passes it to free(), even if there are no devices.
 *
 * Returns 0 or -errno.
 */
int device_facts_create(struct device_facts **ret_devices, uint32_t *ret_count);

/* The device on an interface; NULL: none. */
const struct device_facts *device_facts_find(
	const struct device_facts *devices, uint32_t count, uint32_t ifindex);

/*
 * Replace characters in the names of devices and interfaces that a terminal should not get. The
 * name of an interface may have any characters.
 */
void device_facts_make_printable(struct device_facts *devices, uint32_t count);

#endif
