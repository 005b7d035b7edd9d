/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adapters of a small subnet send anything: frames that are malformed, and well-formed MADs with
 * any content. The input makes STEPS steps, each of STEP_BYTES bytes: one that chooses what
 * happens, one that chooses the adapter, and the frame or the MAD's fields. A short input is used
 * again, with changed bytes. After each step the subnet's ports have states, LIDs and tables that
 * can be.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "subnet/manager/manager.h"
#include "subnet/subnet.h"
#include "wire/infiniband/mad_frame.h"
#include "wire/infiniband/rmpp.h"
#include "wire/infiniband/sa_record.h"
#include "wire/infiniband/smp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char topology_text[] = "Switch 4 \"s1\"\n"
				    "[1] \"h1\"[1]\n"
				    "[2] \"h2\"[1]\n"
				    "[3] \"s2\"[3]\n"
				    "[4] \"s2\"[4]\n"
				    "\n"
				    "Switch 4 \"s2\"\n"
				    "[1] \"h2\"[2]\n"
				    "\n"
				    "Ca 1 \"h1\"\n"
				    "\n"
				    "Ca 2 \"h2\"\n";

enum { H1 = 2, H2 = 3, NODES = 4, STEPS = 48, STEP_BYTES = 40 };

static void frame_check(
	void *context, uint32_t node, uint32_t port, const uint8_t *frame, uint32_t frame_bytes)
{
	struct ib_frame headers;

	(void)context;
	if (node >= NODES || port == 0 || port > 4 ||
		!ib_frame_decode(&headers, frame, frame_bytes))
		abort();
}

static void port_check(const struct subnet *subnet, uint32_t node, uint32_t port)
{
	struct subnet_port_view view;

	if (!subnet_port(subnet, node, port, &view))
		return;
	if (view.info->port_state < IB_PORT_DOWN || view.info->port_state > IB_PORT_ACTIVE ||
		view.info->lid > LID_UNICAST_MAX || view.info->neighbor_mtu > 5 ||
		view.info->neighbor_mtu == 0 || view.info->operational_vls == 0)
		abort();
	if (view.info->port_state > IB_PORT_DOWN && port &&
		view.info->port_physical_state != IB_PHYSICAL_LINK_UP)
		abort();
}

static struct subnet *subnet_make(void)
{
	static struct subnet_topology *topology;
	const struct subnet_user user = {.deliver = frame_check, .trace = frame_check};
	char why[TOPOLOGY_WHY_BYTES];
	struct subnet *subnet;
	uint32_t line;

	if (!topology &&
		subnet_topology_read(topology_text, strlen(topology_text), &topology, &line, why))
		abort();
	if (subnet_create(topology, &user, &subnet_embedded_manager, &subnet))
		abort();
	return subnet;
}

/* The PortInfo of an adapter, with some bytes changed. */
static void port_info_fill(const struct subnet *subnet, const uint8_t *step, uint8_t *data)
{
	struct subnet_port_view view;
	struct ib_port_info info;

	if (!subnet_port(subnet, H2, 1, &view))
		abort();
	info = *view.info;
	info.port_state = step[18] % 5;
	info.port_physical_state = step[19] % 8 ? 0 : step[19] / 8 % 4;
	ib_port_info_encode(&info, data);
	if (step[20] & 1)
		data[step[21] % IB_PORT_INFO_BYTES] = step[22];
}

/* A query for a path or a group, with GIDs that exist. */
static void query_fill(const struct subnet *subnet, const uint8_t *step, uint8_t *mad)
{
	static const uint8_t attributes[] = {
		0x01, 0x11, 0x12, 0x14, 0x15, 0x18, 0x20, 0x30, 0x31, 0x33, 0x35, 0x38, 0x38, 0x38};
	const uint8_t attribute = attributes[step[5] % sizeof(attributes)];
	uint8_t *record = mad + SA_DATA_OFFSET;
	const struct sa_header sa = {.component_mask = attribute == 0x38
			? get_be32(step + 18) | 0x130c7
			: get_be32(step + 18) & get_be32(step + 22)};
	struct subnet_port_view view;

	put_be16(mad + 16, attribute);
	sa_header_encode(&sa, mad);
	if (!subnet_port(subnet, step[26] & 1 ? H1 : H2, 1, &view))
		abort();
	put_be64(record + 16, view.info->gid_prefix);
	put_be64(record + 24, view.guids[0]);
	if (attribute == 0x38) {
		memset(record, 0, 16);
		record[0] = step[27] & 15 ? 0xff : 0;
		record[15] = step[28] & 3;
		record[40] = record[41] = 0xff;
		memset(record + 32, 0, 4);
	}
}

/* A MAD whose fields are mostly possible, so that most pass the first checks. */
static void mad_send(
	struct subnet *subnet, uint32_t node, uint32_t port, const uint8_t *step, uint64_t now_ns)
{
	static const uint8_t classes[] = {MAD_CLASS_SUBN_DIRECTED, MAD_CLASS_SUBN_DIRECTED,
		MAD_CLASS_SUBN_LID_ROUTED, MAD_CLASS_PERF, MAD_CLASS_SUBN_ADM, MAD_CLASS_CM};
	static const uint8_t methods[] = {MAD_METHOD_GET, MAD_METHOD_SET, MAD_METHOD_SET,
		MAD_METHOD_TRAP_REPRESS, MAD_METHOD_TRAP, MAD_METHOD_GET_RESP, MAD_METHOD_GET_TABLE,
		MAD_METHOD_DELETE};
	const uint8_t class = classes[step[0] % sizeof(classes)];
	const bool is_subnet = mad_class_is_subnet(class);
	const bool is_directed = class == MAD_CLASS_SUBN_DIRECTED;
	const struct mad_header header = {
		.base_version = step[1] == 0 ? 7 : MAD_BASE_VERSION,
		.management_class = class,
		.class_version = class == MAD_CLASS_SUBN_ADM ? 2 : 1,
		.method = methods[step[2] % sizeof(methods)],
		.status = step[3] & 0x80 ? 0x8000 : 0,
		.class_specific = (uint16_t)(is_directed ? (step[3] & 7) << 8 | step[4] % 5 : 0),
		.attribute_id = step[5] & 0x80 ? step[5] & 0x3f : 0x10 + step[5] % 12,
		.attribute_modifier = (uint32_t)(step[6] & 0xf) << 28 |
			(uint32_t)(step[7] & 7) << 16 | (uint32_t)(step[8] & 7) << 8 | step[9] % 8,
		/* The embedded manager's own, so that responses may answer its polls. */
		.transaction_id =
			is_subnet && step[13] & 1 ? 0xfffffffeull << 32 | step[9] % 16 : 0,
	};
	const struct mad_frame frame = {
		.dlid = is_directed && !(step[10] & 0xf0) ? LID_PERMISSIVE : step[10] % 8,
		.slid = is_directed ? LID_PERMISSIVE : step[11] % 8,
		.vl = is_subnet ? LRH_VL_MANAGEMENT : 0,
		.pkey = step[12] ? 0xffff : 0x8001,
		.dest_qpn = is_subnet ? SMI_QPN : GSI_QPN,
		.source_qpn = is_subnet ? SMI_QPN : GSI_QPN,
		.qkey = is_subnet  ? 0
			: step[13] ? GSI_QKEY
				   : 1,
	};
	uint8_t mad[MAD_BYTES], bytes[MAD_FRAME_BYTES_MAX];

	for (uint32_t i = 0; i < MAD_BYTES; i++)
		mad[i] = step[14 + i % (STEP_BYTES - 14)];
	mad_header_encode(&header, mad);
	put_be64(mad + SMP_M_KEY, step[15] % 2);
	if (is_directed) {
		put_be16(mad + SMP_DR_SLID, step[16] & 0xf0 ? LID_PERMISSIVE : step[16]);
		put_be16(mad + SMP_DR_DLID, step[17] & 0xf0 ? LID_PERMISSIVE : step[17]);
		for (uint32_t i = 1; i < 6; i++) {
			mad[SMP_INITIAL_PATH + i] = step[17 + i] % 6;
			mad[SMP_RETURN_PATH + i] = step[22 + i] % 6;
		}
	}
	if (class == MAD_CLASS_SUBN_ADM)
		query_fill(subnet, step, mad);
	else if (is_subnet && header.attribute_id == SM_ATTRIBUTE_PORT_INFO)
		port_info_fill(subnet, step, mad + SMP_DATA);
	subnet_send(subnet, node, port, bytes, mad_frame_encode(&frame, mad, bytes), now_ns);
}

static void step_run(struct subnet *subnet, const uint8_t *step, uint64_t *now_ns)
{
	const uint32_t node = step[1] % 3 ? H2 : H1;
	const uint32_t port = node == H2 ? 1 + step[1] % 2 : 1;
	uint8_t frame[STEP_BYTES];

	switch (step[0] % 16) {
	case 0:
		memcpy(frame, step + 2, step[1] % 36u);
		put_be16(frame + 4, step[1] % 36u / 4);
		subnet_send(subnet, node, port, frame, step[1] % 36u, *now_ns);
		break;
	case 1:
		subnet_cable_cut(subnet, step[2] % NODES, step[3] % 5, *now_ns);
		break;
	case 2:
		subnet_cable_join(subnet, step[2] % NODES, step[3] % 5, *now_ns);
		break;
	case 3:
		subnet_cable_move(subnet, step[2] % NODES, step[3] % 5, step[4] % NODES,
			step[5] % 5, *now_ns);
		break;
	case 4:
		*now_ns += (uint64_t)step[2] << 24;
		subnet_port_capability(subnet, node, port, step[3] & IB_CAPABILITY_IS_SM,
			step[4] & IB_CAPABILITY_IS_SM, *now_ns);
		break;
	case 5:
	case 6:
		subnet_advance(subnet, *now_ns);
		break;
	default:
		mad_send(subnet, node, port, step, *now_ns);
		break;
	}
}

/* The bytes of a step; the first use of the input has them as they are. */
static void step_fill(uint8_t step[STEP_BYTES], uint32_t number, const uint8_t *data, size_t size)
{
	for (uint32_t i = 0; i < STEP_BYTES; i++) {
		const size_t at = number * STEP_BYTES + i;

		step[i] = (uint8_t)(data[at % size] + (at < size ? 0 : mix_u64(at)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct subnet *subnet;
	uint64_t now_ns = 0;

	if (!size)
		return 0;
	subnet = subnet_make();
	subnet_advance(subnet, now_ns);
	for (uint32_t i = 0; i < STEPS; i++) {
		uint8_t step[STEP_BYTES];

		step_fill(step, i, data, size);
		step_run(subnet, step, &now_ns);
		for (uint32_t node = 0; node < NODES; node++)
			for (uint32_t port = 0; port <= 4; port++)
				port_check(subnet, node, port);
	}
	subnet_destroy(subnet);
	return 0;
}
