/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/rdmacm/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/arith.h"
#include "nic/nic_failure.h"

enum { GIDS_MAX = 64 /* how many GIDs of one device are read at most */ };

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[DEVICE_COUNT_MAX];
static uint32_t device_count;

static bool is_known(const struct ibv_device *verbs)
{
	for (uint32_t i = 0; i < device_count; i++)
		if (devices[i].verbs == verbs)
			return true;
	return false;
}

/* Open a device and add it to the table. A device that cannot be opened is left out. */
static void device_add(struct ibv_device *verbs)
{
	struct device *device = &devices[device_count];
	struct ibv_device_attr attr;

	if (is_known(verbs) || device_count == DEVICE_COUNT_MAX)
		return;
	device->verbs = verbs;
	device->kind =
		verbs->transport_type == IBV_TRANSPORT_IWARP ? DEVICE_KIND_IWARP : DEVICE_KIND_ROCE;
	device->context = ibv_open_device(verbs);
	if (!device->context)
		return;
	device->pd = ibv_alloc_pd(device->context);
	if (!device->pd || ibv_query_device(device->context, &attr)) {
		if (device->pd)
			ibv_dealloc_pd(device->pd);
		ibv_close_device(device->context);
		return;
	}
	device->responder_resources_max =
		(uint8_t)min_u32((uint32_t)attr.max_qp_rd_atom, UINT8_MAX);
	device->initiator_depth_max =
		(uint8_t)min_u32((uint32_t)attr.max_qp_init_rd_atom, UINT8_MAX);
	device_count++;
}

int devices_refresh(void)
{
	struct ibv_device **list;
	int count, rc;

	pthread_mutex_lock(&devices_lock);
	list = ibv_get_device_list(&count);
	for (int i = 0; list && i < count; i++)
		device_add(list[i]);
	rc = list ? (int)device_count : -errno;
	if (list)
		ibv_free_device_list(list);
	pthread_mutex_unlock(&devices_lock);
	return rc;
}

struct ibv_xrcd *device_xrcd(struct device *device)
{
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	pthread_mutex_lock(&devices_lock);
	if (!device->xrcd)
		device->xrcd = ibv_open_xrcd(device->context, &init);
	pthread_mutex_unlock(&devices_lock);
	return device->xrcd;
}

struct device *device_at(uint32_t index)
{
	return &devices[index];
}

bool device_exists(enum device_kind kind)
{
	int count = devices_refresh();

	for (int i = 0; i < count; i++)
		if (devices[i].kind == kind)
			return true;
	return false;
}

/* Read the GIDs of a device. Returns their number; 0 if `kinds` lacks the device's kind. */
static ssize_t entries_read(
	const struct device *device, uint32_t kinds, struct ibv_gid_entry entries[GIDS_MAX])
{
	return device->kind & kinds ? ibv_query_gid_table(device->context, entries, GIDS_MAX, 0)
				    : 0;
}

struct device *device_find(uint32_t kinds, const struct gid *gid, uint32_t ifindex,
	uint32_t *ret_gid_index, uint32_t *ret_ifindex)
{
	int count = devices_refresh();

	for (int i = 0; i < count; i++) {
		struct ibv_gid_entry entries[GIDS_MAX];
		ssize_t gids = entries_read(&devices[i], kinds, entries);

		for (ssize_t j = 0; j < gids; j++) {
			if (memcmp(entries[j].gid.raw, gid->raw, sizeof(gid->raw)) != 0 ||
				(ifindex != 0 && ifindex != entries[j].ndev_ifindex))
				continue;
			*ret_gid_index = entries[j].gid_index;
			*ret_ifindex = entries[j].ndev_ifindex;
			return &devices[i];
		}
	}
	return NULL;
}

static bool is_active(const struct device *device)
{
	struct ibv_port_attr port;

	return ibv_query_port(device->context, DEVICE_PORT, &port) == 0 &&
		port.state == IBV_PORT_ACTIVE;
}

struct device *device_find_for_loopback(uint32_t kinds, bool is_ipv4, struct gid *ret_gid,
	uint32_t *ret_gid_index, uint32_t *ret_ifindex)
{
	int count = devices_refresh();

	for (int i = 0; i < count; i++) {
		struct ibv_gid_entry entries[GIDS_MAX];
		ssize_t gids =
			is_active(&devices[i]) ? entries_read(&devices[i], kinds, entries) : 0;

		for (ssize_t j = 0; j < gids; j++) {
			memcpy(ret_gid->raw, entries[j].gid.raw, sizeof(ret_gid->raw));
			*ret_gid_index = entries[j].gid_index;
			*ret_ifindex = entries[j].ndev_ifindex;
			if (gid_is_ipv4(ret_gid) == is_ipv4)
				break;
		}
		if (gids > 0)
			return &devices[i];
	}
	return NULL;
}

void device_for_each_gid(uint32_t kinds,
	void (*visit)(const struct gid *gid, uint32_t ifindex, void *argument), void *argument)
{
	int count = devices_refresh();

	for (int i = 0; i < count; i++) {
		struct ibv_gid_entry entries[GIDS_MAX];
		ssize_t gids = entries_read(&devices[i], kinds, entries);

		for (ssize_t j = 0; j < gids; j++) {
			struct gid gid;

			memcpy(gid.raw, entries[j].gid.raw, sizeof(gid.raw));
			visit(&gid, entries[j].ndev_ifindex, argument);
		}
	}
}

/* --- the public part --- */

struct ibv_context **rdma_get_devices(int *num_devices)
{
	int count = devices_refresh();
	struct ibv_context **list =
		count < 0 ? NULL : calloc((size_t)count + 1, sizeof(struct ibv_context *));

	if (!list && count >= 0)
		nic_failure_end("rdma_get_devices", errno);
	for (int i = 0; list && i < count; i++)
		list[i] = devices[i].context;
	if (num_devices)
		*num_devices = list ? count : 0;
	return list;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
