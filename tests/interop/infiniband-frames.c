/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of InfiniBand for tests/interop/infiniband-frames, which compares what Wireshark makes of
 * them with what they were made of.
 *
 *	infiniband-frames FILE
 *
 * FILE becomes a capture of ERF records (type 21). Standard output gets a line for each field: the
 * frame's number, Wireshark's name of the field, its value.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "wire/infiniband/attribute.h"
#include "wire/infiniband/mad_frame.h"
#include "wire/infiniband/rmpp.h"
#include "wire/infiniband/sa_record.h"
#include "wire/infiniband/smp.h"

enum { PM_DATA = 64, ERF_HEADER_BYTES = 16, ERF_INFINIBAND = 21, LINKTYPE_ERF = 197 };

static FILE *capture;
static uint32_t frames;

static void put_le(uint8_t *to, uint32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> 8 * i);
}

static void capture_begin(const char *path)
{
	uint8_t header[24] = {0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0};

	put_le(header + 16, 65535);
	put_le(header + 20, LINKTYPE_ERF);
	capture = fopen(path, "wb");
	fwrite(header, sizeof(header), 1, capture);
}

/* One frame, with the VCRC that belongs to its link. */
static void capture_add(const uint8_t *frame, uint32_t bytes)
{
	uint8_t record[16 + ERF_HEADER_BYTES] = {0};
	uint8_t vcrc[IB_VCRC_BYTES];
	const uint32_t erf_bytes = ERF_HEADER_BYTES + bytes + IB_VCRC_BYTES;

	vcrc[0] = (uint8_t)ib_vcrc(frame, bytes);
	vcrc[1] = (uint8_t)(ib_vcrc(frame, bytes) >> 8);
	put_le(record + 8, erf_bytes);
	put_le(record + 12, erf_bytes);
	record[16 + 8] = ERF_INFINIBAND;
	record[16 + 9] = 4; /* varying lengths */
	put_be16(record + 16 + 10, (uint16_t)erf_bytes);
	put_be16(record + 16 + 14, (uint16_t)(bytes + IB_VCRC_BYTES));
	fwrite(record, sizeof(record), 1, capture);
	fwrite(frame, bytes, 1, capture);
	fwrite(vcrc, sizeof(vcrc), 1, capture);
	frames++;
}

static void expect(const char *field, uint64_t value)
{
	printf("%u infiniband.%s %" PRIu64 "\n", frames, field, value);
}

static void mad_add(const struct mad_header *header, const struct mad_frame *to, uint8_t *mad)
{
	uint8_t frame[MAD_FRAME_BYTES_MAX];

	mad_header_encode(header, mad);
	capture_add(frame, mad_frame_encode(to, mad, frame));
	expect("lrh.vl", to->vl);
	expect("lrh.sl", to->sl);
	expect("lrh.dlid", to->dlid);
	expect("lrh.slid", to->slid);
	expect("bth.p_key", to->pkey);
	expect("bth.destqp", to->dest_qpn);
	expect("deth.srcqp", to->source_qpn);
	expect("deth.q_key", to->qkey);
	expect("mad.mgmtclass", header->management_class);
	expect("mad.method", header->method);
	expect("mad.attributeid", header->attribute_id);
	expect("mad.attributemodifier", header->attribute_modifier);
	expect("mad.transactionid", header->transaction_id);
}

static void smp_add(uint16_t attribute_id, uint8_t class, uint8_t *mad)
{
	const bool is_directed = class == MAD_CLASS_SUBN_DIRECTED;
	const struct mad_frame to = {
		.dlid = is_directed ? LID_PERMISSIVE : 0x1234,
		.slid = is_directed ? LID_PERMISSIVE : 0x0567,
		.sl = 5,
		.vl = LRH_VL_MANAGEMENT,
		.pkey = 0xffff,
	};
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = class,
		.class_version = 1,
		.method = MAD_METHOD_GET_RESP,
		.class_specific = is_directed ? 0x0304 : 0,
		.attribute_id = attribute_id,
		.attribute_modifier = 0x80000007,
		.transaction_id = 0x1122334455667788,
	};

	if (is_directed) {
		put_be16(mad + SMP_DR_SLID, LID_PERMISSIVE);
		put_be16(mad + SMP_DR_DLID, 0x0789);
	}
	mad_add(&header, &to, mad);
	if (is_directed) {
		expect("smpdirected.hoppointer", 3);
		expect("smpdirected.hopcount", 4);
		expect("smpdirected.drslid", LID_PERMISSIVE);
		expect("smpdirected.drdlid", 0x0789);
	}
}

static void gmp_add(uint8_t class, uint8_t method, uint16_t attribute_id, uint8_t *mad)
{
	const struct mad_frame to = {
		.dlid = 0x1234,
		.slid = 0x0567,
		.sl = 3,
		.vl = 2,
		.pkey = 0x8001,
		.dest_qpn = GSI_QPN,
		.source_qpn = GSI_QPN,
		.qkey = GSI_QKEY,
		.has_grh = true,
	};
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = class,
		.class_version = class == MAD_CLASS_SUBN_ADM ? SA_CLASS_VERSION : 1,
		.method = method,
		.attribute_id = attribute_id,
		.transaction_id = 42,
	};

	mad_add(&header, &to, mad);
}

/* Bytes of which each differs from its neighbours. */
static void bytes_fill(uint8_t *bytes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)mix_u64(i + 1);
}

/* Each frame has random bytes as its attribute; the decoded members are what to expect. */
static void node_info_add(void)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct ib_node_info info;

	bytes_fill(mad + SMP_DATA, IB_NODE_INFO_BYTES);
	ib_node_info_decode(&info, mad + SMP_DATA);
	smp_add(SM_ATTRIBUTE_NODE_INFO, MAD_CLASS_SUBN_DIRECTED, mad);
	expect("nodeinfo.baseversion", info.base_version);
	expect("nodeinfo.classversion", info.class_version);
	expect("nodeinfo.nodetype", info.node_type);
	expect("nodeinfo.numports", info.num_ports);
	expect("nodeinfo.systemimageguid", info.system_guid);
	expect("nodeinfo.nodeguid", info.node_guid);
	expect("nodeinfo.portguid", info.port_guid);
	expect("nodeinfo.partitioncap", info.partition_cap);
	expect("nodeinfo.deviceid", info.device_id);
	expect("nodeinfo.revision", info.revision);
	expect("nodeinfo.localportnum", info.local_port);
	expect("nodeinfo.vendorid", info.vendor_id);
}

static void switch_info_add(void)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct ib_switch_info info;

	bytes_fill(mad + SMP_DATA, IB_SWITCH_INFO_BYTES);
	ib_switch_info_decode(&info, mad + SMP_DATA);
	smp_add(SM_ATTRIBUTE_SWITCH_INFO, MAD_CLASS_SUBN_LID_ROUTED, mad);
	expect("switchinfo.linearfdbcap", info.linear_fdb_cap);
	expect("switchinfo.randomfdbcap", info.random_fdb_cap);
	expect("switchinfo.multicastfdbcap", info.multicast_fdb_cap);
	expect("switchinfo.linearfdbtop", info.linear_fdb_top);
	expect("switchinfo.defaultport", info.default_port);
	expect("switchinfo.defaultmulticastprimaryport", info.default_multicast_primary_port);
	expect("switchinfo.defaultmulticastnotprimaryport", info.default_multicast_other_port);
	expect("switchinfo.lifetimevalue", info.life_time);
	expect("switchinfo.portstatechange", info.port_state_change);
	expect("switchinfo.optimizedsltovlmappingprogramming", info.optimized_sl_to_vl);
	expect("switchinfo.lidsperport", info.lids_per_port);
	expect("switchinfo.partitionenforcementcap", info.partition_enforcement_cap);
	expect("switchinfo.inboundenforcementcap", info.inbound_enforcement_cap);
	expect("switchinfo.outboundenforcementcap", info.outbound_enforcement_cap);
	expect("switchinfo.filterrawinboundcap", info.filter_raw_inbound_cap);
	expect("switchinfo.filterrawoutboundcap", info.filter_raw_outbound_cap);
	expect("switchinfo.enhancedportzero", info.enhanced_port0);
}

static void port_info_expect(const struct ib_port_info *info)
{
	expect("portinfo.m_key", info->m_key);
	expect("portinfo.lid", info->lid);
	expect("portinfo.mastersmlid", info->sm_lid);
	expect("portinfo.capabilitymask", info->capability_mask);
	expect("portinfo.diagcode", info->diag_code);
	expect("portinfo.m_keyleaseperiod", info->m_key_lease_period);
	expect("portinfo.localportnum", info->local_port);
	expect("portinfo.linkwidthenabled", info->link_width_enabled);
	expect("portinfo.linkwidthsupported", info->link_width_supported);
	expect("portinfo.linkwidthactive", info->link_width_active);
	expect("portinfo.linkspeedsupported", info->link_speed_supported);
	expect("portinfo.portstate", info->port_state);
	expect("portinfo.portphysicalstate", info->port_physical_state);
	expect("portinfo.linkdowndefaultstate", info->link_down_default_state);
	expect("portinfo.m_keyprotectbits", info->m_key_protect);
	expect("portinfo.lmc", info->lmc);
	expect("portinfo.linkspeedactive", info->link_speed_active);
	expect("portinfo.linkspeedenabled", info->link_speed_enabled);
	expect("portinfo.neighbormtu", info->neighbor_mtu);
	expect("portinfo.mastersmsl", info->sm_sl);
	expect("portinfo.vlcap", info->vl_cap);
	expect("portinfo.inittype", info->init_type);
	expect("portinfo.vlhighlimit", info->vl_high_limit);
	expect("portinfo.vlarbitrationhighcap", info->vl_arbitration_high_cap);
	expect("portinfo.vlarbitrationlowcap", info->vl_arbitration_low_cap);
	expect("portinfo.inittypereply", info->init_type_reply);
	expect("portinfo.mtucap", info->mtu_cap);
	expect("portinfo.vlstallcount", info->vl_stall_count);
	expect("portinfo.hoqlife", info->hoq_life);
	expect("portinfo.operationalvls", info->operational_vls);
	expect("portinfo.partitionenforcementinbound", info->partition_enforcement_in);
	expect("portinfo.partitionenforcementoutbound", info->partition_enforcement_out);
	expect("portinfo.filterrawinbound", info->filter_raw_in);
	expect("portinfo.filterrawoutbound", info->filter_raw_out);
	expect("portinfo.m_keyviolations", info->m_key_violations);
	expect("portinfo.p_keyviolations", info->p_key_violations);
	expect("portinfo.q_keyviolations", info->q_key_violations);
	expect("portinfo.guidcap", info->guid_cap);
	expect("portinfo.clientreregister", info->client_reregister);
	expect("portinfo.subnettimeout", info->subnet_timeout);
	expect("portinfo.resptimevalue", info->resp_time);
	expect("portinfo.localphyerrors", info->local_phy_errors);
	expect("portinfo.overrunerrors", info->overrun_errors);
	expect("portinfo.maxcredithint", info->max_credit_hint);
	expect("portinfo.linkroundtriplatency", info->link_round_trip_latency);
}

static void port_info_add(void)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct ib_port_info info;

	bytes_fill(mad + SMP_DATA, IB_PORT_INFO_BYTES);
	ib_port_info_decode(&info, mad + SMP_DATA);
	smp_add(SM_ATTRIBUTE_PORT_INFO, MAD_CLASS_SUBN_DIRECTED, mad);
	port_info_expect(&info);
}

static void notice_add(void)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct ib_notice notice;

	bytes_fill(mad + SMP_DATA, IB_NOTICE_BYTES);
	ib_notice_decode(&notice, mad + SMP_DATA);
	smp_add(SM_ATTRIBUTE_NOTICE, MAD_CLASS_SUBN_LID_ROUTED, mad);
	expect("notice.isgeneric", notice.is_generic);
	expect("notice.type", notice.type);
	expect("notice.producertypevendorid", notice.producer_type);
	expect("notice.trapnumberdeviceid", notice.trap_number);
	expect("notice.issuerlid", notice.issuer_lid);
}

static void port_counters_add(void)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct ib_port_counters counters;

	bytes_fill(mad + PM_DATA, IB_PORT_COUNTERS_BYTES);
	ib_port_counters_decode(&counters, mad + PM_DATA);
	gmp_add(MAD_CLASS_PERF, MAD_METHOD_GET_RESP, PM_ATTRIBUTE_PORT_COUNTERS, mad);
#define EXPECT(field, member) expect("portcounters." field, counters.member);
	EXPECT("portselect", port_select)
	EXPECT("counterselect", counter_select)
	EXPECT("symbolerrorcounter", symbol_error)
	EXPECT("linkerrorrecoverycounter", link_error_recovery)
	EXPECT("linkdownedcounter", link_downed)
	EXPECT("portrcverrors", port_rcv_errors)
	EXPECT("portrcvremotephysicalerrors", port_rcv_remote_physical_errors)
	EXPECT("portrcvswitchrelayerrors", port_rcv_switch_relay_errors)
	EXPECT("portxmitdiscards", port_xmit_discards)
	EXPECT("portxmitconstrainterrors", port_xmit_constraint_errors)
	EXPECT("portrcvconstrainterrors", port_rcv_constraint_errors)
	EXPECT("locallinkintegrityerrors", local_link_integrity_errors)
	EXPECT("excessivebufferoverrunerrors", excessive_buffer_overrun_errors)
	EXPECT("vl15dropped", vl15_dropped)
	EXPECT("portxmitdata", port_xmit_data)
	EXPECT("portrcvdata", port_rcv_data)
	EXPECT("portxmitpkts", port_xmit_packets)
	EXPECT("portrcvpkts", port_rcv_packets)
#undef EXPECT
}

static void port_counters_ext_add(void)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct ib_port_counters_ext counters;

	bytes_fill(mad + PM_DATA, IB_PORT_COUNTERS_EXT_BYTES);
	ib_port_counters_ext_decode(&counters, mad + PM_DATA);
	gmp_add(MAD_CLASS_PERF, MAD_METHOD_GET_RESP, PM_ATTRIBUTE_PORT_COUNTERS_EXT, mad);
#define EXPECT(field, member) expect("portcounters_ext." field, counters.member);
	EXPECT("portselect", port_select)
	EXPECT("counterselect", counter_select)
	EXPECT("portxmitdata", port_xmit_data)
	EXPECT("portrcvdata", port_rcv_data)
	EXPECT("portxmitpkts", port_xmit_packets)
	EXPECT("portrcvpkts", port_rcv_packets)
	EXPECT("portunicastxmitpkts", unicast_xmit_packets)
	EXPECT("portunicastrcvpkts", unicast_rcv_packets)
	EXPECT("portmulticastxmitpkts", multicast_xmit_packets)
	EXPECT("portmulticastrcvpkts", multicast_rcv_packets)
#undef EXPECT
}

static void path_add(void)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct sa_path path;

	bytes_fill(mad + SA_DATA_OFFSET, SA_PATH_BYTES);
	sa_path_decode(&path, mad + SA_DATA_OFFSET);
	gmp_add(MAD_CLASS_SUBN_ADM, MAD_METHOD_GET_RESP, SA_ATTRIBUTE_PATH, mad);
#define EXPECT(field, member) expect("pathrecord." field, path.member);
	EXPECT("dlid", dlid)
	EXPECT("slid", slid)
	EXPECT("rawtraffic", is_raw)
	EXPECT("flowlabel", flow_label)
	EXPECT("hoplimit", hop_limit)
	EXPECT("tclass", traffic_class)
	EXPECT("reversible", is_reversible)
	EXPECT("numbpath", path_count)
	EXPECT("p_key", pkey)
	EXPECT("sl", sl)
	EXPECT("mtuselector", mtu_selector)
	EXPECT("mtu", mtu)
	EXPECT("rateselector", rate_selector)
	EXPECT("rate", rate)
	EXPECT("packetlifetimeselector", life_selector)
	EXPECT("packetlifetime", life)
	EXPECT("preference", preference)
#undef EXPECT
}

static void mc_member_add(void)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct sa_mc_member member;

	bytes_fill(mad + SA_DATA_OFFSET, SA_MC_MEMBER_BYTES);
	sa_mc_member_decode(&member, mad + SA_DATA_OFFSET);
	gmp_add(MAD_CLASS_SUBN_ADM, MAD_METHOD_GET_RESP, SA_ATTRIBUTE_MC_MEMBER, mad);
#define EXPECT(field, member_) expect("mcmemberrecord." field, member.member_);
	EXPECT("q_key", qkey)
	EXPECT("mlid", mlid)
	EXPECT("mtuselector", mtu_selector)
	EXPECT("mtu", mtu)
	EXPECT("tclass", traffic_class)
	EXPECT("p_key", pkey)
	EXPECT("rateselector", rate_selector)
	EXPECT("rate", rate)
	EXPECT("packetlifetimeselector", life_selector)
	EXPECT("packetlifetime", life)
	EXPECT("sl", sl)
	EXPECT("flowlabel", flow_label)
	EXPECT("hoplimit", hop_limit)
	EXPECT("scope", scope)
	EXPECT("joinstate", join_state)
	EXPECT("proxyjoin", is_proxy_join)
#undef EXPECT
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: infiniband-frames FILE\n");
		return 2;
	}
	capture_begin(argv[1]);
	if (!capture) {
		perror(argv[1]);
		return 1;
	}
	node_info_add();
	switch_info_add();
	port_info_add();
	notice_add();
	port_counters_add();
	port_counters_ext_add();
	path_add();
	mc_member_add();
	return fclose(capture) ? 1 : 0;
}
