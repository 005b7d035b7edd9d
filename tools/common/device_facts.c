/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/device_facts.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/text.h"
#include "netdev/netdev.h"

/* The only port of every device. */
#define PORT 1

static void take_guid(struct ibv_device *verbs, struct device_facts *facts)
{
	uint64_t guid = be64toh(ibv_get_device_guid(verbs));

	snprintf(facts->guid, sizeof(facts->guid), "%04x:%04x:%04x:%04x",
		(unsigned)(guid >> 48) & 0xffff, (unsigned)(guid >> 32) & 0xffff,
		(unsigned)(guid >> 16) & 0xffff, (unsigned)guid & 0xffff);
}

static int take_gids(struct ibv_context *context, struct device_facts *facts)
{
	struct ibv_gid_entry entries[DEVICE_GIDS_MAX];
	ssize_t count = ibv_query_gid_table(context, entries, DEVICE_GIDS_MAX, 0);

	if (count < 0)
		return (int)count;
	for (ssize_t i = 0; i < count; i++) {
		struct device_gid *gid = &facts->gids[facts->gid_count++];

		gid->index = entries[i].gid_index;
		memcpy(gid->gid.raw, entries[i].gid.raw, sizeof(gid->gid.raw));
		facts->ifindex = entries[i].ndev_ifindex;
	}
	return 0;
}

static int take_device(struct ibv_device *verbs, struct device_facts *ret_facts)
{
	struct device_facts facts = {0};
	struct ibv_context *context = ibv_open_device(verbs);
	struct ibv_port_attr port;
	int error;

	if (!context)
		return -errno;
	error = -ibv_query_port(context, PORT, &port);
	if (!error)
		error = take_gids(context, &facts);
	ibv_close_device(context);
	if (error)
		return error;
	snprintf(facts.name, sizeof(facts.name), "%s", ibv_get_device_name(verbs));
	snprintf(facts.char_device, sizeof(facts.char_device), "%s", verbs->dev_name);
	take_guid(verbs, &facts);
	facts.is_active = port.state == IBV_PORT_ACTIVE;
	facts.is_iwarp = verbs->transport_type == IBV_TRANSPORT_IWARP;
	facts.active_mtu_bytes = 128u << port.active_mtu;
	if (!if_indextoname(facts.ifindex, facts.interface))
		return -ENODEV;
	*ret_facts = facts;
	return 0;
}

static void take_interface_mtus(struct device_facts *devices, uint32_t count)
{
	struct netdev_list *list;

	if (netdev_list_create(&list) < 0)
		return;
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t j = 0; j < list->count; j++) {
			if (list->devices[j].ifindex == devices[i].ifindex)
				devices[i].interface_mtu_bytes = list->devices[j].mtu_bytes;
		}
	}
	free(list);
}

int device_facts_create(struct device_facts **ret_devices, uint32_t *ret_count)
{
	int present = 0;
	struct ibv_device **list = ibv_get_device_list(&present);
	struct device_facts *devices;
	uint32_t count = 0;

	if (!list)
		return -errno;
	devices = calloc((size_t)present + 1, sizeof(*devices));
	/* Skip a device whose interface has gone meanwhile. */
	for (int i = 0; devices && i < present; i++) {
		if (take_device(list[i], &devices[count]) == 0)
			count++;
	}
	ibv_free_device_list(list);
	if (!devices)
		return -ENOMEM;
	take_interface_mtus(devices, count);
	*ret_devices = devices;
	*ret_count = count;
	return 0;
}

const struct device_facts *device_facts_find(
	const struct device_facts *devices, uint32_t count, uint32_t ifindex)
{
	for (uint32_t i = 0; i < count; i++) {
		if (devices[i].ifindex == ifindex)
			return &devices[i];
	}
	return NULL;
}

void device_facts_make_printable(struct device_facts *devices, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		text_make_printable(devices[i].name);
		text_make_printable(devices[i].interface);
	}
}
