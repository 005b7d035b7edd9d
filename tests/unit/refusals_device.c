/* SPDX-License-Identifier: BSD-2-Clause */
/* Refused calls about devices, their tables, and addresses. */
#include "refusals.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peer/nic_import.h"

/* --- devices --- */

PROVOKE(ibv_open_device, DEVICE_GONE)
{
	return refusal_of(ibv_open_device(refusals.fading->device));
}

PROVOKE(ibv_close_device, CONTEXT_CLOSED)
{
	struct ibv_context never = {.device = refusals.context->device};

	return ibv_close_device(&never);
}

PROVOKE(ibv_import_device, IMPORT_CLOSED)
{
	return refusal_of(ibv_import_device(9999));
}

PROVOKE(ibv_import_device, IMPORT_FILE)
{
	int fd = memfd_create("refusals", MFD_CLOEXEC);
	int error = refusal_of(ibv_import_device(fd));

	close(fd);
	return error;
}

/*
 * Import a copy of the descriptor of `context`, which is none of this process's, with another value
 * at the place `back` bytes before its end.
 */
static int import_copy(const struct ibv_context *context, size_t back, uint32_t value)
{
	uint8_t bytes[4096];
	ssize_t count = pread(context->cmd_fd, bytes, sizeof(bytes), 0);
	int fd = memfd_create("refusals", MFD_CLOEXEC);
	int error = 0;

	memcpy(bytes + count - back, &value, sizeof(value));
	if (write(fd, bytes, (size_t)count) == count)
		error = refusal_of(ibv_import_device(fd));
	close(fd);
	return error;
}

enum { BACK_IFINDEX = 8, BACK_TRANSPORT = 4 };

PROVOKE(ibv_import_device, IMPORT_DEVICE)
{
	return import_copy(refusals.context, BACK_IFINDEX, 9999);
}

PROVOKE(ibv_import_device, IMPORT_USER)
{
	int error;

	refusal_is_other_user = true;
	error = import_copy(refusals.context, BACK_IFINDEX, 9999);
	refusal_is_other_user = false;
	return error;
}

PROVOKE(ibv_import_device, NOT_ON_IWARP)
{
	uint32_t transport;
	char bytes[4096];
	ssize_t count = pread(refusals.iwarp->cmd_fd, bytes, sizeof(bytes), 0);

	memcpy(&transport, bytes + count - BACK_TRANSPORT, sizeof(transport));
	return import_copy(refusals.iwarp, BACK_TRANSPORT, transport);
}

/* What the inline function of the public header calls, which has checks of its own. */
static int query(const struct ibv_query_device_ex_input *input, size_t bytes)
{
	struct verbs_context *context =
		container_of(refusals.context, struct verbs_context, context);
	struct ibv_device_attr_ex attr;

	return context->query_device_ex(refusals.context, input, &attr, bytes);
}

PROVOKE(ibv_query_device_ex, UNKNOWN_BITS)
{
	struct ibv_query_device_ex_input input = {.comp_mask = 1u << 31};

	return query(&input, sizeof(struct ibv_device_attr_ex));
}

PROVOKE(ibv_query_device_ex, ATTR_SIZE)
{
	return query(NULL, 8);
}

/* --- tables of ports --- */

PROVOKE(ibv_query_port, PORT_NUMBER)
{
	struct ibv_port_attr attr;

	return ibv_query_port(refusals.context, 9, (struct _compat_ibv_port_attr *)&attr);
}

PROVOKE(ibv_query_port_speed, PORT_NUMBER)
{
	uint64_t speed;

	return port_speed_query(refusals.context, 9, &speed);
}

PROVOKE(ibv_query_pkey, PKEY_INDEX)
{
	__be16 pkey;

	return ibv_query_pkey(refusals.context, 1, 9, &pkey) ? errno : 0;
}

PROVOKE(ibv_get_pkey_index, PKEY_ABSENT)
{
	return ibv_get_pkey_index(refusals.context, 1, 0x1234) < 0 ? errno : 0;
}

PROVOKE(ibv_query_gid, GID_INDEX)
{
	union ibv_gid gid;

	return ibv_query_gid(refusals.context, 1, 9999, &gid) ? errno : 0;
}

PROVOKE(ibv_query_gid_type, GID_INDEX)
{
	int type;

	return ibv_query_gid_type(refusals.context, 1, 9999, &type) ? errno : 0;
}

PROVOKE(ibv_query_gid_ex, GID_INDEX)
{
	struct ibv_gid_entry entry;

	return ibv_query_gid_ex(refusals.context, 1, 9999, &entry, 0);
}

PROVOKE(ibv_query_gid_ex, UNSUPPORTED_BITS)
{
	struct ibv_gid_entry entry;

	return ibv_query_gid_ex(refusals.context, 1, 0, &entry, 1);
}

PROVOKE(ibv_query_gid_table, UNSUPPORTED_BITS)
{
	struct ibv_gid_entry entry;

	return (int)-ibv_query_gid_table(refusals.context, &entry, 1, 1);
}

PROVOKE(ibv_query_gid_table, GID_ROOM)
{
	struct ibv_gid_entry entry;

	return (int)-ibv_query_gid_table(refusals.context, &entry, 0, 0);
}

/* --- addresses --- */

static struct ibv_ah_attr own_address(void)
{
	return (struct ibv_ah_attr){
		.is_global = 1, .port_num = 1, .grh = {.dgid = refusals.gid, .hop_limit = 8}};
}

static int create_ah(struct ibv_pd *pd, struct ibv_ah_attr attr)
{
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);

	return ah ? ibv_destroy_ah(ah) : errno;
}

static int made_ibv_create_ah(void)
{
	return create_ah(refusals.pd, own_address());
}

WITHOUT_MEMORY(ibv_create_ah)
AT_LIMIT(ibv_create_ah, max_ah)
NEVER_MADE(ibv_destroy_ah, struct ibv_ah, ibv_destroy_ah(&gone))

PROVOKE(ibv_create_ah, ADDRESS)
{
	struct ibv_ah_attr attr = own_address();

	attr.grh.sgid_index = 77;
	return create_ah(refusals.pd, attr);
}

PROVOKE(ibv_create_ah, AH_NO_DGID)
{
	struct ibv_ah_attr attr = own_address();

	attr.grh.dgid = (union ibv_gid){.raw = {0}};
	return create_ah(refusals.pd, attr);
}

PROVOKE(ibv_create_ah, AH_FAMILY)
{
	struct ibv_ah_attr attr = own_address();
	bool is_ipv4 = refusals.gid.raw[10] == 0xff && refusals.gid.raw[11] == 0xff;

	attr.grh.dgid = is_ipv4
		? (union ibv_gid){.raw = {0xfd, [15] = 1}}
		: (union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}};
	return create_ah(refusals.pd, attr);
}

PROVOKE(ibv_create_ah, NO_PARENT)
{
	struct ibv_pd pd = {.context = refusals.context, .handle = 0x77777};

	return create_ah(&pd, own_address());
}

PROVOKE(ibv_create_ah, NOT_ON_IWARP)
{
	struct ibv_pd *pd = ibv_alloc_pd(refusals.iwarp);
	int error = create_ah(pd, own_address());

	return ibv_dealloc_pd(pd) ? 0 : error;
}

static int address_from(uint8_t port, unsigned int flags, const uint8_t *grh)
{
	struct ibv_wc wc = {.wc_flags = flags};
	struct ibv_ah_attr attr;
	struct ibv_grh copy;

	memcpy(&copy, grh, sizeof(copy));
	return ibv_init_ah_from_wc(refusals.context, port, &wc, &copy, &attr) ? errno : 0;
}

PROVOKE(ibv_init_ah_from_wc, PORT_NUMBER)
{
	return address_from(9, IBV_WC_GRH, (const uint8_t[40]){0});
}

PROVOKE(ibv_init_ah_from_wc, WC_NO_GRH)
{
	return address_from(1, 0, (const uint8_t[40]){0});
}

PROVOKE(ibv_init_ah_from_wc, WC_GID)
{
	/* An IPv6 header to an address that no machine has. */
	return address_from(1, IBV_WC_GRH,
		(const uint8_t[40]){0x60, [6] = 17, [7] = 1, [8] = 0xfd, [24] = 0xfd, [39] = 9});
}

static int mac_of(union ibv_gid gid)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid}};
	uint8_t mac[6];
	uint16_t vid;

	return ibv_resolve_eth_l2_from_gid(refusals.context, &attr, mac, &vid);
}

PROVOKE(ibv_resolve_eth_l2_from_gid, MAC_FAMILY)
{
	return mac_of((union ibv_gid){.raw = {0xfd, [15] = 1}});
}

PROVOKE(ibv_resolve_eth_l2_from_gid, MAC_UNKNOWN)
{
	return mac_of((union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}});
}
