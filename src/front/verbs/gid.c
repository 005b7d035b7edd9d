/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GID table, as programs read it. The four calls report errors differently, each as its man
 * page says.
 */
#include "base/arith.h"
#include "front/verbs/context.h"
#include "front/verbs/result.h"

/* Answers of ibv_query_gid_type(): the kernel's numbers, not those of enum ibv_gid_type. */
#define KERNEL_GID_TYPE_IB      0
#define KERNEL_GID_TYPE_ROCE_V2 1

static struct ibv_gid_entry entry_make(
	const struct device *device, uint32_t index, const struct gid *gid)
{
	struct ibv_gid_entry entry = {
		.gid_index = index,
		.port_num = DEVICE_PORT,
		.gid_type = device_is_iwarp(device) ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = device->ifindex,
	};

	memcpy(entry.gid.raw, gid->raw, sizeof(entry.gid.raw));
	return entry;
}

/* An empty entry reads as zero; an index outside of the table is an error. */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	struct gid found = {{0}};

	if (port_num != DEVICE_PORT || index < 0 || index >= GID_TABLE_LENGTH) {
		errno = EINVAL;
		return -1;
	}
	device_gid(context_of(context)->device, (uint32_t)index, &found);
	memcpy(gid->raw, found.raw, sizeof(gid->raw));
	return 0;
}

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type)
{
	if (port_num != DEVICE_PORT || index >= GID_TABLE_LENGTH) {
		errno = EINVAL;
		return -1;
	}
	*type = device_is_iwarp(context_of(context)->device) ? KERNEL_GID_TYPE_IB
							     : KERNEL_GID_TYPE_ROCE_V2;
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
	struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct device *device = context_of(context)->device;
	struct ibv_gid_entry full;
	struct gid gid;

	if (flags)
		return result_of("ibv_query_gid_ex", EOPNOTSUPP);
	if (port_num != DEVICE_PORT || gid_index >= GID_TABLE_LENGTH)
		return result_of("ibv_query_gid_ex", EINVAL);
	if (!device_gid(device, gid_index, &gid))
		/* programs find the end of the table like this: do not log */
		return errno = ENODATA;
	full = entry_make(device, gid_index, &gid);
	memset(entry, 0, entry_size);
	memcpy(entry, &full, min_u64(entry_size, sizeof(full)));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
	size_t max_entries, uint32_t flags, size_t entry_size)
{
	struct device *device = context_of(context)->device;
	uint8_t *out = (uint8_t *)entries;
	size_t count = 0;

	if (flags)
		return -result_of("ibv_query_gid_table", EOPNOTSUPP);
	for (uint32_t i = 0; i < GID_TABLE_LENGTH; i++) {
		struct ibv_gid_entry full;
		struct gid gid;

		if (!device_gid(device, i, &gid))
			continue;
		if (count == max_entries)
			return -result_of("ibv_query_gid_table", EINVAL);
		full = entry_make(device, i, &gid);
		memset(out + count * entry_size, 0, entry_size);
		memcpy(out + count * entry_size, &full, min_u64(entry_size, sizeof(full)));
		count++;
	}
	return (ssize_t)count;
}
