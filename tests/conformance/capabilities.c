/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints the capabilities that a device and its port report, one per line: "attribute value" for a
 * number that is not 0, "attribute NAME" for a bit that is set. Uses the loopback device of a
 * network namespace of its own.
 */
#include <inttypes.h>
#include <stdio.h>

#include <infiniband/verbs.h>

#include "base/arith.h"
#include "support/netns.h"

struct number {
	const char *name;
	uint64_t value;
};

struct bit {
	uint64_t mask;
	const char *name;
};

#define BIT(name)           \
	{                   \
		name, #name \
	}
#define QPT(name)                 \
	{                         \
		1u << name, #name \
	}
#define END       \
	{         \
		0 \
	}
#define NUMBER(field)                     \
	{                                 \
#field, (uint64_t)(field) \
	}

/* clang-format off */
static const struct bit device_bits[] = {
	BIT(IBV_DEVICE_RESIZE_MAX_WR), BIT(IBV_DEVICE_BAD_PKEY_CNTR), BIT(IBV_DEVICE_BAD_QKEY_CNTR),
	BIT(IBV_DEVICE_RAW_MULTI), BIT(IBV_DEVICE_AUTO_PATH_MIG), BIT(IBV_DEVICE_CHANGE_PHY_PORT),
	BIT(IBV_DEVICE_UD_AV_PORT_ENFORCE), BIT(IBV_DEVICE_CURR_QP_STATE_MOD),
	BIT(IBV_DEVICE_SHUTDOWN_PORT), BIT(IBV_DEVICE_INIT_TYPE), BIT(IBV_DEVICE_PORT_ACTIVE_EVENT),
	BIT(IBV_DEVICE_SYS_IMAGE_GUID), BIT(IBV_DEVICE_RC_RNR_NAK_GEN), BIT(IBV_DEVICE_SRQ_RESIZE),
	BIT(IBV_DEVICE_N_NOTIFY_CQ), BIT(IBV_DEVICE_MEM_WINDOW), BIT(IBV_DEVICE_UD_IP_CSUM),
	BIT(IBV_DEVICE_XRC), BIT(IBV_DEVICE_MEM_MGT_EXTENSIONS), BIT(IBV_DEVICE_MEM_WINDOW_TYPE_2A),
	BIT(IBV_DEVICE_MEM_WINDOW_TYPE_2B), BIT(IBV_DEVICE_RC_IP_CSUM), BIT(IBV_DEVICE_RAW_IP_CSUM),
	BIT(IBV_DEVICE_MANAGED_FLOW_STEERING),
	{1ull << 34, "RAW_SCATTER_FCS"}, {1ull << 36, "PCI_WRITE_END_PADDING"},
	/* Later than the headers of rdma-core 44. */
	{1ull << 38, "FLUSH_GLOBAL"}, {1ull << 39, "FLUSH_PERSISTENT"}, {1ull << 40, "ATOMIC_WRITE"},
	END,
};
static const struct bit port_bits[] = {
	BIT(IBV_PORT_SM), BIT(IBV_PORT_NOTICE_SUP), BIT(IBV_PORT_TRAP_SUP), BIT(IBV_PORT_OPT_IPD_SUP),
	BIT(IBV_PORT_AUTO_MIGR_SUP), BIT(IBV_PORT_SL_MAP_SUP), BIT(IBV_PORT_MKEY_NVRAM),
	BIT(IBV_PORT_PKEY_NVRAM), BIT(IBV_PORT_LED_INFO_SUP), BIT(IBV_PORT_SYS_IMAGE_GUID_SUP),
	BIT(IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP), BIT(IBV_PORT_EXTENDED_SPEEDS_SUP),
	BIT(IBV_PORT_CAP_MASK2_SUP), BIT(IBV_PORT_CM_SUP), BIT(IBV_PORT_SNMP_TUNNEL_SUP),
	BIT(IBV_PORT_REINIT_SUP), BIT(IBV_PORT_DEVICE_MGMT_SUP), BIT(IBV_PORT_VENDOR_CLASS_SUP),
	BIT(IBV_PORT_DR_NOTICE_SUP), BIT(IBV_PORT_CAP_MASK_NOTICE_SUP), BIT(IBV_PORT_BOOT_MGMT_SUP),
	BIT(IBV_PORT_LINK_LATENCY_SUP), BIT(IBV_PORT_CLIENT_REG_SUP), BIT(IBV_PORT_IP_BASED_GIDS),
	END,
};
static const struct bit odp_bits[] = {
	BIT(IBV_ODP_SUPPORT_SEND), BIT(IBV_ODP_SUPPORT_RECV), BIT(IBV_ODP_SUPPORT_WRITE),
	BIT(IBV_ODP_SUPPORT_READ), BIT(IBV_ODP_SUPPORT_ATOMIC), BIT(IBV_ODP_SUPPORT_SRQ_RECV),
	/* Of newer headers. */
	{1 << 6, "IBV_ODP_SUPPORT_FLUSH"}, {1 << 7, "IBV_ODP_SUPPORT_ATOMIC_WRITE"}, END,
};
static const struct bit odp_general_bits[] = {BIT(IBV_ODP_SUPPORT), BIT(IBV_ODP_SUPPORT_IMPLICIT), END};
static const struct bit type_bits[] = {
	QPT(IBV_QPT_RC), QPT(IBV_QPT_UC), QPT(IBV_QPT_UD), QPT(IBV_QPT_RAW_PACKET), QPT(IBV_QPT_XRC_SEND),
	QPT(IBV_QPT_XRC_RECV), END,
};
static const struct bit hash_field_bits[] = {
	BIT(IBV_RX_HASH_SRC_IPV4), BIT(IBV_RX_HASH_DST_IPV4), BIT(IBV_RX_HASH_SRC_IPV6),
	BIT(IBV_RX_HASH_DST_IPV6), BIT(IBV_RX_HASH_SRC_PORT_TCP), BIT(IBV_RX_HASH_DST_PORT_TCP),
	BIT(IBV_RX_HASH_SRC_PORT_UDP), BIT(IBV_RX_HASH_DST_PORT_UDP), BIT(IBV_RX_HASH_IPSEC_SPI),
	BIT(IBV_RX_HASH_INNER), END,
};
static const struct bit hash_function_bits[] = {BIT(IBV_RX_HASH_FUNC_TOEPLITZ), END};
static const struct bit raw_bits[] = {
	BIT(IBV_RAW_PACKET_CAP_CVLAN_STRIPPING), BIT(IBV_RAW_PACKET_CAP_SCATTER_FCS),
	BIT(IBV_RAW_PACKET_CAP_IP_CSUM), BIT(IBV_RAW_PACKET_CAP_DELAY_DROP), END,
};
static const struct bit tag_matching_bits[] = {BIT(IBV_TM_CAP_RC), END};
/* clang-format on */

static void print_numbers(const struct number *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (numbers[i].value)
			printf("%s %" PRIu64 "\n", numbers[i].name, numbers[i].value);
}

static void print_bits(const char *name, uint64_t value, const struct bit *bits)
{
	for (; bits->mask; bits++)
		if (value & bits->mask) {
			printf("%s %s\n", name, bits->name);
			value &= ~bits->mask;
		}
	if (value)
		printf("%s unknown:0x%" PRIx64 "\n", name, value);
}

static void print_device(const struct ibv_device_attr_ex *ex)
{
	const struct ibv_device_attr attr = ex->orig_attr;
	const struct ibv_rss_caps rss_caps = ex->rss_caps;
	const struct ibv_tm_caps tm_caps = ex->tm_caps;
	const struct ibv_cq_moderation_caps cq_mod_caps = ex->cq_mod_caps;
	const struct ibv_pci_atomic_caps pci_atomic_caps = ex->pci_atomic_caps;
	const struct ibv_packet_pacing_caps packet_pacing_caps = ex->packet_pacing_caps;
#define ATTR(field)                          \
	{                                    \
#field, (uint64_t)attr.field \
	}
#define EX(field)                           \
	{                                   \
#field, (uint64_t)ex->field \
	}
	const struct number numbers[] = {
		ATTR(node_guid),
		ATTR(sys_image_guid),
		ATTR(max_mr_size),
		ATTR(page_size_cap),
		ATTR(vendor_id),
		ATTR(vendor_part_id),
		ATTR(hw_ver),
		ATTR(max_qp),
		ATTR(max_qp_wr),
		ATTR(max_sge),
		ATTR(max_sge_rd),
		ATTR(max_cq),
		ATTR(max_cqe),
		ATTR(max_mr),
		ATTR(max_pd),
		ATTR(max_qp_rd_atom),
		ATTR(max_ee_rd_atom),
		ATTR(max_res_rd_atom),
		ATTR(max_qp_init_rd_atom),
		ATTR(max_ee_init_rd_atom),
		ATTR(atomic_cap),
		ATTR(max_ee),
		ATTR(max_rdd),
		ATTR(max_mw),
		ATTR(max_raw_ipv6_qp),
		ATTR(max_raw_ethy_qp),
		ATTR(max_mcast_grp),
		ATTR(max_mcast_qp_attach),
		ATTR(max_total_mcast_qp_attach),
		ATTR(max_ah),
		ATTR(max_fmr),
		ATTR(max_map_per_fmr),
		ATTR(max_srq),
		ATTR(max_srq_wr),
		ATTR(max_srq_sge),
		ATTR(max_pkeys),
		ATTR(local_ca_ack_delay),
		ATTR(phys_port_cnt),
		EX(phys_port_cnt_ex),
		EX(completion_timestamp_mask),
		EX(hca_core_clock),
		EX(max_wq_type_rq),
		EX(max_dm_size),
		EX(tso_caps.max_tso),
		NUMBER(rss_caps.max_rwq_indirection_tables),
		NUMBER(rss_caps.max_rwq_indirection_table_size),
		NUMBER(packet_pacing_caps.qp_rate_limit_min),
		NUMBER(packet_pacing_caps.qp_rate_limit_max),
		NUMBER(tm_caps.max_rndv_hdr_size),
		NUMBER(tm_caps.max_num_tags),
		NUMBER(tm_caps.max_ops),
		NUMBER(tm_caps.max_sge),
		NUMBER(cq_mod_caps.max_cq_count),
		NUMBER(cq_mod_caps.max_cq_period),
		NUMBER(pci_atomic_caps.fetch_add),
		NUMBER(pci_atomic_caps.swap),
		NUMBER(pci_atomic_caps.compare_swap),
	};

	print_numbers(numbers, ARRAY_COUNT(numbers));
	print_bits(
		"device_cap_flags", attr.device_cap_flags | ex->device_cap_flags_ex, device_bits);
	print_bits("odp_caps", ex->odp_caps.general_caps, odp_general_bits);
	print_bits("rc_odp_caps", ex->odp_caps.per_transport_caps.rc_odp_caps, odp_bits);
	print_bits("uc_odp_caps", ex->odp_caps.per_transport_caps.uc_odp_caps, odp_bits);
	print_bits("ud_odp_caps", ex->odp_caps.per_transport_caps.ud_odp_caps, odp_bits);
	print_bits("xrc_odp_caps", ex->xrc_odp_caps, odp_bits);
	print_bits("tso_caps", ex->tso_caps.supported_qpts, type_bits);
	print_bits("rss_caps", rss_caps.supported_qpts, type_bits);
	print_bits("rx_hash_fields_mask", rss_caps.rx_hash_fields_mask, hash_field_bits);
	print_bits("rx_hash_function", rss_caps.rx_hash_function, hash_function_bits);
	print_bits("packet_pacing_caps", packet_pacing_caps.supported_qpts, type_bits);
	print_bits("raw_packet_caps", ex->raw_packet_caps, raw_bits);
	print_bits("tm_caps", tm_caps.flags, tag_matching_bits);
}

static void print_port(const struct ibv_port_attr *port, int num_comp_vectors)
{
	const struct number numbers[] = {
		{"max_msg_sz", port->max_msg_sz},
		{"max_mtu", port->max_mtu},
		{"gid_tbl_len", (uint64_t)port->gid_tbl_len},
		{"pkey_tbl_len", port->pkey_tbl_len},
		{"port_cap_flags2", port->port_cap_flags2},
		{"num_comp_vectors", (uint64_t)num_comp_vectors},
	};

	print_numbers(numbers, ARRAY_COUNT(numbers));
	print_bits("port_cap_flags", port->port_cap_flags, port_bits);
}

int main(void)
{
	struct ibv_device **list;
	struct ibv_device_attr_ex device;
	struct ibv_context *context;
	struct ibv_port_attr port;

	if (netns_enter_new() < 0)
		return 77;
	list = ibv_get_device_list(NULL);
	if (!list || !list[0])
		return 1;
	context = ibv_open_device(list[0]);
	if (!context || ibv_query_device_ex(context, NULL, &device) ||
		ibv_query_port(context, 1, &port))
		return 1;
	print_device(&device);
	print_port(&port, context->num_comp_vectors);
	ibv_close_device(context);
	ibv_free_device_list(list);
	return 0;
}
