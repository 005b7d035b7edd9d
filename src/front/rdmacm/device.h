/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices that this library has opened. It opens each device once, for all identifiers, with a
 * default protection domain. Devices stay open until the process ends. Any thread may call these
 * functions.
 */
#ifndef URNIC_FRONT_RDMACM_DEVICE_H
#define URNIC_FRONT_RDMACM_DEVICE_H

#include "base/gid.h"
#include "front/rdmacm/abi.h"

enum { DEVICE_PORT = 1, DEVICE_COUNT_MAX = 128 };

/* Kinds of devices, as bits. */
enum device_kind {
	DEVICE_KIND_ROCE = 1 << 0,
	DEVICE_KIND_IWARP = 1 << 1,
	DEVICE_KIND_ANY = DEVICE_KIND_ROCE | DEVICE_KIND_IWARP,
};

struct device {
	struct ibv_device *verbs;
	enum device_kind kind;
	struct ibv_context *context;
	struct ibv_pd *pd;
	/* The device's default XRC domain; NULL until device_xrcd() opens it */
	struct ibv_xrcd *xrcd;
	uint8_t responder_resources_max;
	uint8_t initiator_depth_max;
};

/* Open the devices that are not open yet. Returns the number of open devices, or -errno. */
int devices_refresh(void);

/* The device at `index`, which is below the result of devices_refresh(). */
struct device *device_at(uint32_t index);

/*
 * The first device of these kinds that has a local address.
 *
 * `kinds`    Bits of enum device_kind.
 * `ifindex`  The interface of a link-local address; 0: any interface.
 *
 * Returns NULL when no device has the address.
 */
struct device *device_find(uint32_t kinds, const struct gid *gid, uint32_t ifindex,
	uint32_t *ret_gid_index, uint32_t *ret_ifindex);

/*
 * The device for a loopback address that no device has. As with the kernel's rdma_cm, it is the
 * first device of these kinds whose port is active.
 *
 * `is_ipv4`  The wanted family of *ret_gid, for a device with addresses of both families.
 * `ret_gid`  An address of the device, to which the packets go.
 *
 * Returns NULL when no device is active.
 */
struct device *device_find_for_loopback(uint32_t kinds, bool is_ipv4, struct gid *ret_gid,
	uint32_t *ret_gid_index, uint32_t *ret_ifindex);

/* Is there a device of this kind? */
bool device_exists(enum device_kind kind);

/* The device's default XRC domain. NULL with errno on failure. */
struct ibv_xrcd *device_xrcd(struct device *device);

/* Call `visit` with each local address of each device of these kinds. */
void device_for_each_gid(uint32_t kinds,
	void (*visit)(const struct gid *gid, uint32_t ifindex, void *argument), void *argument);

#endif
