/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <stdio.h>

#include "base/arith.h"
#include "base/version.h"
#include "front/verbs/context.h"
#include "front/verbs/device_ib.h"
#include "front/verbs/limits.h"
#include "front/verbs/newer.h"
#include "front/verbs/ops.h"
#include "front/verbs/result.h"
#include "front/verbs/srq.h"
#include "front/verbs/strict.h"
#include "front/verbs/wq.h"
#include "memory/mr.h"
#include "nic/object/nic.h"
#include "qp/qp.h"
#include "queue/sq.h"
#include "wire/bth.h"

/* Size of struct ibv_port_attr for programs built before port_cap_flags2 was added at its end. */
#define PORT_ATTR_BYTES_V1 offsetof(struct ibv_port_attr, port_cap_flags2)

/*
 * Values of PortInfo (IBTA 14.2.5.6): one lane with 25 Gbit/s, which is near to the rate of a UDP
 * socket. The NIC itself does not use these values.
 */
#define WIDTH_1X             1
#define SPEED_EDR            32
#define SPEED_EDR_1X_100MBPS 250
#define PHYS_STATE_DISABLED  3
#define PHYS_STATE_LINK_UP   5

/* The rate of the clock for timestamps of completions, which are in nanoseconds. */
#define TIMESTAMP_KHZ 1000000

/* Flags of the kernel's device_cap_flags_ex that the headers of the build do not have. */
#define DEVICE_FLUSH_GLOBAL (1ull << 38)
#define DEVICE_ATOMIC_WRITE (1ull << 40)

/*
 * Remove what iWARP does not have. Its only type of queue pairs is RC. It has no address handles,
 * multicast, RNR NAKs, path migration or flow steering.
 */
static void iwarp_attributes(struct ibv_device_attr *attr)
{
	attr->device_cap_flags &= ~(unsigned int)(IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_XRC |
		IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_MANAGED_FLOW_STEERING);
	attr->max_ah = 0;
	attr->max_mcast_grp = 0;
	attr->max_mcast_qp_attach = 0;
	attr->max_total_mcast_qp_attach = 0;
	attr->local_ca_ack_delay = 0;
}

static void device_attributes(const struct device *device, struct ibv_device_attr *attr)
{
	*attr = device_limits;
	if (device_is_iwarp(device))
		iwarp_attributes(attr);
	if (device_is_ib(device)) {
		attr->phys_port_cnt = (uint8_t)device->port_count;
		attr->max_pkeys = ATTACH_PKEYS_MAX;
		attr->device_cap_flags &= ~(unsigned int)IBV_DEVICE_MANAGED_FLOW_STEERING;
	}
	attr->node_guid = device->guid;
	attr->sys_image_guid = device->guid;
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "urnic %s", urnic_version());
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	device_attributes(context_of(context)->device, attr);
	return 0;
}

/* IBV_ODP_SUPPORT_FLUSH and IBV_ODP_SUPPORT_ATOMIC_WRITE of newer headers. */
#define ODP_ANNEX (1u << 6 | 1u << 7)

/* No memory is pinned, so every transport supports on-demand paging. */
static const struct ibv_odp_caps odp_caps = {
	.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
	.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
		IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
		IBV_ODP_SUPPORT_SRQ_RECV | ODP_ANNEX,
	.per_transport_caps.uc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
		IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV,
	.per_transport_caps.ud_odp_caps =
		IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV,
};

static void iwarp_attributes_ex(struct ibv_device_attr_ex *attr)
{
	attr->odp_caps.per_transport_caps.rc_odp_caps &= ~ODP_ANNEX;
	attr->odp_caps.per_transport_caps.uc_odp_caps = 0;
	attr->odp_caps.per_transport_caps.ud_odp_caps = 0;
	attr->xrc_odp_caps = 0;
	attr->device_cap_flags_ex = attr->orig_attr.device_cap_flags;
	attr->rss_caps = (struct ibv_rss_caps){0};
	attr->tm_caps = (struct ibv_tm_caps){0};
	attr->max_wq_type_rq = 0;
	attr->packet_pacing_caps = (struct ibv_packet_pacing_caps){0};
}

/* Clear what the adapters of URNIC_STRICT do not have. */
static void strict_attributes_ex(struct ibv_device_attr_ex *attr)
{
	if (!strict_has(STRICT_HAS_ON_DEMAND)) {
		attr->odp_caps = (struct ibv_odp_caps){0};
		attr->xrc_odp_caps = 0;
	}
	if (!strict_has(STRICT_HAS_DEVICE_MEMORY))
		attr->max_dm_size = 0;
	if (!strict_has(STRICT_HAS_TIMESTAMPS)) {
		attr->completion_timestamp_mask = 0;
		attr->hca_core_clock = 0;
	}
	if (!strict_has(STRICT_HAS_MODERATION))
		attr->cq_mod_caps = (struct ibv_cq_moderation_caps){0};
	if (!strict_has(STRICT_HAS_FLUSH)) {
		attr->device_cap_flags_ex &= ~DEVICE_FLUSH_GLOBAL;
		attr->odp_caps.per_transport_caps.rc_odp_caps &= ~ODP_ANNEX;
	}
	if (!strict_has(STRICT_HAS_ATOMIC_WRITE))
		attr->device_cap_flags_ex &= ~DEVICE_ATOMIC_WRITE;
	if (!strict_has(STRICT_HAS_WORK_QUEUES)) {
		attr->rss_caps = (struct ibv_rss_caps){0};
		attr->max_wq_type_rq = 0;
	}
	if (!strict_has(STRICT_HAS_TAG_MATCHING))
		attr->tm_caps = (struct ibv_tm_caps){0};
	if (!strict_has(STRICT_HAS_RATE_LIMIT))
		attr->packet_pacing_caps = (struct ibv_packet_pacing_caps){0};
}

int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
	struct ibv_device_attr_ex *attr, size_t attr_bytes)
{
	struct ibv_device_attr_ex full = {
		.phys_port_cnt_ex = context_of(context)->device->port_count,
		.max_dm_size = DM_BYTES_MAX,
		.odp_caps = odp_caps,
		.xrc_odp_caps = odp_caps.per_transport_caps.rc_odp_caps & ~ODP_ANNEX,
	};

	if (input && input->comp_mask)
		return result_of("ibv_query_device_ex", result_cause(REASON_UNKNOWN_BITS));
	if (attr_bytes < sizeof(full.orig_attr))
		return result_of("ibv_query_device_ex", result_cause(REASON_ATTR_SIZE));
	device_attributes(context_of(context)->device, &full.orig_attr);
	full.completion_timestamp_mask = UINT64_MAX;
	full.hca_core_clock = TIMESTAMP_KHZ;
	full.cq_mod_caps = (struct ibv_cq_moderation_caps){UINT16_MAX, UINT16_MAX};
	full.device_cap_flags_ex =
		full.orig_attr.device_cap_flags | DEVICE_FLUSH_GLOBAL | DEVICE_ATOMIC_WRITE;
	full.rss_caps = (struct ibv_rss_caps){
		.supported_qpts = 1 << IBV_QPT_RAW_PACKET,
		.max_rwq_indirection_tables = WQ_TABLE_COUNT_MAX,
		.max_rwq_indirection_table_size = WQ_TABLE_ENTRIES_MAX,
		.rx_hash_fields_mask = RSS_FIELDS_ALL,
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	};
	full.tm_caps = (struct ibv_tm_caps){
		.max_rndv_hdr_size = TAGS_RENDEZVOUS_BYTES_MAX,
		.max_num_tags = TAGS_COUNT_MAX,
		.flags = IBV_TM_CAP_RC,
		.max_ops = SRQ_TAG_OPS_MAX,
		.max_sge = SGE_COUNT_MAX,
	};
	full.max_wq_type_rq = NIC_WQ_COUNT_MAX;
	full.packet_pacing_caps = (struct ibv_packet_pacing_caps){
		.qp_rate_limit_min = PACE_RATE_KBPS_MIN,
		.qp_rate_limit_max = PACE_RATE_KBPS_MAX,
		.supported_qpts = 1u << IBV_QPT_RC | 1u << IBV_QPT_UC | 1u << IBV_QPT_UD |
			1u << IBV_QPT_XRC_SEND | 1u << IBV_QPT_RAW_PACKET,
	};
	if (device_is_iwarp(context_of(context)->device))
		iwarp_attributes_ex(&full);
	strict_attributes_ex(&full);
	memset(attr, 0, attr_bytes);
	memcpy(attr, &full, min_u64(attr_bytes, sizeof(full)));
	return 0;
}

int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
	size_t attr_bytes)
{
	struct device *device = context_of(context)->device;
	struct device_port port;
	struct ibv_port_attr full;

	if (!device_has_port(device, port_num))
		return result_of("ibv_query_port", result_cause(REASON_PORT_NUMBER));
	/*
	 * Refresh, because the link may have changed. If the refresh fails, the answer comes from
	 * the last snapshot.
	 */
	device_refresh();
	port = device_port(device);
	full = (struct ibv_port_attr){
		.state = port.is_active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = device_mtu(&port),
		.gid_tbl_len = (int)port.gid_count,
		.port_cap_flags = DEVICE_PORT_CAPABILITIES,
		.max_msg_sz = strict_max(STRICT_MESSAGE_BYTES_MAX),
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.active_width = WIDTH_1X,
		.active_speed = SPEED_EDR,
		.phys_state = port.is_active ? PHYS_STATE_LINK_UP : PHYS_STATE_DISABLED,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.flags = device_is_iwarp(device) ? 0 : IBV_QPF_GRH_REQUIRED,
	};
	if (device_is_ib(device)) {
		struct attach_port ib = device_ib_port(device, port_num);

		device_ib_port_attr(&ib, &full);
	}
	memset(attr, 0, attr_bytes);
	memcpy(attr, &full, min_u64(attr_bytes, sizeof(full)));
	return 0;
}

int port_speed_query(struct ibv_context *context, uint32_t port, uint64_t *ret_speed)
{
	(void)context;
	if (port != DEVICE_PORT)
		return result_of("ibv_query_port_speed", result_cause(REASON_PORT_NUMBER));
	*ret_speed = SPEED_EDR_1X_100MBPS;
	return 0;
}

int ibv_query_port(
	struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port_num, (struct ibv_port_attr *)attr, PORT_ATTR_BYTES_V1);
}

/*
 * The P_Key at an index of a port's table. On Ethernet the table has only the default P_Key.
 * Returns false if the table has no such entry.
 */
static bool pkey_at(struct device *device, uint8_t port_num, int index, uint16_t *ret_pkey)
{
	struct attach_port port = {.pkey_count = 1, .pkeys = {BTH_PKEY_DEFAULT}};

	if (!device_has_port(device, port_num))
		return false;
	if (device_is_ib(device))
		port = device_ib_port(device, port_num);
	if (index < 0 || index >= port.pkey_count)
		return false;
	*ret_pkey = port.pkeys[index];
	return true;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	uint16_t found;

	if (device_is_ib(context_of(context)->device))
		device_refresh();
	if (!pkey_at(context_of(context)->device, port_num, index, &found))
		return result_minus_one("ibv_query_pkey", result_cause(REASON_PKEY_INDEX));
	*pkey = htobe16(found);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	uint16_t found;

	for (int i = 0; pkey_at(context_of(context)->device, port_num, i, &found); i++)
		if (found == be16toh(pkey))
			return i;
	return result_minus_one("ibv_get_pkey_index", result_cause(REASON_PKEY_ABSENT));
}
