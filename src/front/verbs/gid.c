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

static bool is_roce(const struct device *device)
{
	return device->transport == DEVICE_ROCE;
}

/*
 * Write entry `index` to `entry`. `bytes` is the size of the structure as the program knows it.
 * Returns false if the table has no such entry.
 */
static bool entry_write(
	struct device *device, uint32_t port, uint32_t index, void *entry, size_t bytes)
{
	struct ibv_gid_entry full = {
		.gid_index = index,
		.port_num = port,
		.gid_type = is_roce(device) ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB,
		.ndev_ifindex = device->ifindex,
	};
	struct gid gid;

	if (!device_port_gid(device, port, index, &gid))
		return false;
	memcpy(full.gid.raw, gid.raw, sizeof(full.gid.raw));
	memset(entry, 0, bytes);
	memcpy(entry, &full, min_u64(bytes, sizeof(full)));
	return true;
}

/* An entry without a GID reads as zero; an index outside of the table is an error. */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	struct device *device = context_of(context)->device;
	struct gid found = {{0}};

	if (!device_has_port(device, port_num) || index < 0 || index >= GID_TABLE_LENGTH)
		return result_minus_one("ibv_query_gid", result_cause(REASON_GID_INDEX));
	device_port_gid(device, port_num, (uint32_t)index, &found);
	memcpy(gid->raw, found.raw, sizeof(gid->raw));
	return 0;
}

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type)
{
	const struct device *device = context_of(context)->device;

	if (!device_has_port(device, port_num) || index >= GID_TABLE_LENGTH)
		return result_minus_one("ibv_query_gid_type", result_cause(REASON_GID_INDEX));
	*type = is_roce(device) ? KERNEL_GID_TYPE_ROCE_V2 : KERNEL_GID_TYPE_IB;
	return 0;
}

/* Export ibv_query_gid_type() under the versions of other rdma-core releases, too (symbols.def). */
#define GID_TYPE_OF_RELEASE(release)                                                           \
	__attribute__((visibility("default"))) int query_gid_type_##release(                   \
		struct ibv_context *context, uint8_t port_num, unsigned int index, int *type); \
	__asm__(".symver query_gid_type_" #release                                             \
		", ibv_query_gid_type@IBVERBS_PRIVATE_" #release ", remove");                  \
	int query_gid_type_##release(                                                          \
		struct ibv_context *context, uint8_t port_num, unsigned int index, int *type)  \
	{                                                                                      \
		return ibv_query_gid_type(context, port_num, index, type);                     \
	}

#define NODE(version)
#define SYMBOL(name)
#define COMPAT_POINTER(name, version)
#define COMPAT_INT(name, version)
#define COMPAT_GUID(name, version)
#define COMPAT_VOID(name, version)
#define PRIVATE(release) GID_TYPE_OF_RELEASE(release)
#define NODE_END(previous)
#include "front/verbs/symbols.def"

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
	struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	if (flags)
		return result_of("ibv_query_gid_ex", result_cause(REASON_UNSUPPORTED_BITS));
	if (!device_has_port(context_of(context)->device, port_num) ||
		gid_index >= GID_TABLE_LENGTH)
		return result_of("ibv_query_gid_ex", result_cause(REASON_GID_INDEX));
	if (!entry_write(context_of(context)->device, port_num, gid_index, entry, entry_size))
		/* Do not log this, because programs find the end of the table this way. */
		return errno = ENODATA;
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
	size_t max_entries, uint32_t flags, size_t entry_size)
{
	struct device *device = context_of(context)->device;
	uint8_t *out = (uint8_t *)entries;
	struct ibv_gid_entry beyond;
	size_t count = 0;

	if (flags)
		return -result_of(
			"ibv_query_gid_table", result_cause(REASON_UNSUPPORTED_BITS));
	for (uint32_t port = 1; port <= device->port_count; port++)
		for (uint32_t index = 0; index < GID_TABLE_LENGTH; index++) {
			if (count < max_entries)
				count += entry_write(device, port, index,
					out + count * entry_size, entry_size);
			else if (entry_write(device, port, index, &beyond, sizeof(beyond)))
				return -result_of(
					"ibv_query_gid_table", result_cause(REASON_GID_ROOM));
		}
	return (ssize_t)count;
}
