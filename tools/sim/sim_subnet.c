/* SPDX-License-Identifier: BSD-2-Clause */
/* The report on InfiniBand links: lanes that waited for credits, and discarded packets. */
#include "base/arith.h"
#include "common/json.h"
#include "fabric/deadlock/loop.h"
#include "sim/sim.h"

enum { LANE_ROWS_MAX = 8 };

/* Find a credit loop of the paths of the scenario's service levels. Returns whether one exists. */
static bool loop_find(const struct sim_run *run, struct deadlock *ret_loop)
{
	uint8_t service_levels = 0;

	for (uint32_t i = 0; i < run->scenario.flow_count; i++)
		service_levels |= (uint8_t)(1u << run->scenario.flows[i].priority);
	return infiniband_loop_find(run->fabric, service_levels, ret_loop) > 0;
}

static const struct infiniband_vl *vl_of(const struct fabric *fabric, uint32_t lane)
{
	return &fabric->infiniband->ports[lane / IB_VL_COUNT].vls[lane % IB_VL_COUNT];
}

static uint64_t lane_wait_ps(const struct fabric *fabric, uint32_t lane)
{
	return infiniband_wait_ps(fabric, lane / IB_VL_COUNT, lane % IB_VL_COUNT);
}

static bool lane_is_used(const struct fabric *fabric, uint32_t lane)
{
	const struct infiniband_vl *of = vl_of(fabric, lane);

	return of->sent_packets || of->received_packets || of->discards ||
		lane_wait_ps(fabric, lane);
}

/* --- text --- */

void sim_subnet_totals_print(const struct fabric *fabric)
{
	uint64_t link_packets = 0;
	uint64_t discards = 0;
	uint64_t dropped = 0;
	uint64_t lost = 0;
	uint64_t refused = 0;

	for (uint32_t i = 0; i < fabric->port_count; i++) {
		const struct infiniband_port *port = &fabric->infiniband->ports[i];

		link_packets += port->link_packets;
		dropped += port->vl15_dropped;
		refused += port->rcv_constraint_errors + port->xmit_constraint_errors +
			port->pkey_violations;
		lost += fabric->ports[i].lost_frames + fabric->ports[i].corrupted_frames;
		for (uint32_t vl = 0; vl < IB_VL_COUNT; vl++)
			discards += port->vls[vl].discards;
	}
	printf("InfiniBand: %llu flow control packets, %llu packets discarded, %llu of lane 15 "
	       "dropped, %llu lost on cables, %llu with a wrong P_Key\n",
		(unsigned long long)link_packets, (unsigned long long)discards,
		(unsigned long long)dropped, (unsigned long long)lost, (unsigned long long)refused);
}

/* The next lane to print: of those that waited less than the last one, the one that waited most. */
static uint32_t lane_next(const struct fabric *fabric, uint64_t below_ps, uint32_t last)
{
	uint32_t best = UINT32_MAX;
	uint64_t best_ps = 0;

	for (uint32_t i = 0; i < fabric->port_count * IB_VL_COUNT; i++) {
		uint64_t wait_ps = lane_wait_ps(fabric, i);
		bool is_behind = wait_ps < below_ps ||
			(wait_ps == below_ps && last != UINT32_MAX && i > last);

		if (is_behind && wait_ps > best_ps) {
			best = i;
			best_ps = wait_ps;
		}
	}
	return best;
}

static void lanes_print(const struct fabric *fabric)
{
	uint64_t below_ps = UINT64_MAX;
	uint32_t lane = UINT32_MAX;

	printf("\n%-14s%10s%12s%14s%14s%12s\n%-36s%14s%14s\n", "lane", "VL", "packets", "Gbit/s",
		"no credits", "discarded", "", "", "%");
	for (uint32_t i = 0; i < LANE_ROWS_MAX; i++) {
		const struct infiniband_vl *of;
		char name[SIM_PORT_NAME_BYTES];

		lane = lane_next(fabric, below_ps, lane);
		if (lane == UINT32_MAX)
			return;
		of = vl_of(fabric, lane);
		below_ps = lane_wait_ps(fabric, lane);
		sim_port_name(fabric, lane / IB_VL_COUNT, name);
		printf("%-14s%10u%12llu%14.3f%14.1f%12llu\n", name, lane % IB_VL_COUNT,
			(unsigned long long)of->sent_packets,
			(double)of->sent_bytes * 8 * FABRIC_PS_PER_NS /
				(double)max_u64(fabric->now_ps, 1),
			100.0 * (double)below_ps / (double)max_u64(fabric->now_ps, 1),
			(unsigned long long)of->discards);
	}
}

static void loop_print(const struct sim_run *run)
{
	struct deadlock loop;

	if (!loop_find(run, &loop))
		return;
	printf("\ncredit loop of VL %u:", loop.priority);
	for (uint32_t i = 0; i < loop.port_count; i++) {
		char name[SIM_PORT_NAME_BYTES];

		sim_port_name(run->fabric, loop.ports[i], name);
		printf(" %s", name);
	}
	printf("\n");
}

void sim_subnet_print(const struct sim_run *run)
{
	if (!run->fabric->infiniband)
		return;
	lanes_print(run->fabric);
	loop_print(run);
}

/* --- JSON --- */

static void lane_add(const struct fabric *fabric, cJSON *list, uint32_t lane)
{
	const struct infiniband_vl *of = vl_of(fabric, lane);
	char name[SIM_PORT_NAME_BYTES];
	cJSON *object = json_append_object(list);

	sim_port_name(fabric, lane / IB_VL_COUNT, name);
	cJSON_AddStringToObject(object, "port", name);
	json_add_count(object, "vl", lane % IB_VL_COUNT);
	json_add_count(object, "port_xmit_packets", of->sent_packets);
	json_add_count(object, "port_rcv_packets", of->received_packets);
	json_add_count(object, "xmit_bytes", of->sent_bytes);
	cJSON_AddNumberToObject(
		object, "port_xmit_wait_us", (double)lane_wait_ps(fabric, lane) / FABRIC_PS_PER_US);
	json_add_count(object, "port_xmit_discards", of->discards);
	json_add_count(object, "VL15_dropped",
		lane % IB_VL_COUNT == IB_VL_MANAGEMENT
			? fabric->infiniband->ports[lane / IB_VL_COUNT].vl15_dropped
			: 0);
}

static void lanes_add(const struct fabric *fabric, cJSON *root)
{
	cJSON *list = cJSON_AddArrayToObject(root, "lanes");

	for (uint32_t i = 0; i < fabric->port_count * IB_VL_COUNT; i++)
		if (lane_is_used(fabric, i))
			lane_add(fabric, list, i);
}

/* The ports that have refused packets for their P_Keys. */
static void refusals_add(const struct fabric *fabric, cJSON *root)
{
	cJSON *list = cJSON_AddArrayToObject(root, "pkey_refusals");

	for (uint32_t i = 0; i < fabric->port_count; i++) {
		const struct infiniband_port *port = &fabric->infiniband->ports[i];
		char name[SIM_PORT_NAME_BYTES];
		cJSON *object;

		if (!port->rcv_constraint_errors && !port->xmit_constraint_errors &&
			!port->pkey_violations)
			continue;
		object = json_append_object(list);
		sim_port_name(fabric, i, name);
		cJSON_AddStringToObject(object, "port", name);
		json_add_count(object, "port_rcv_constraint_errors", port->rcv_constraint_errors);
		json_add_count(object, "port_xmit_constraint_errors", port->xmit_constraint_errors);
		json_add_count(object, "p_key_violations", port->pkey_violations);
	}
}

static void loop_add(const struct sim_run *run, cJSON *root)
{
	struct deadlock loop;
	cJSON *list;

	if (!loop_find(run, &loop)) {
		cJSON_AddNullToObject(root, "credit_loop");
		return;
	}
	list = cJSON_AddArrayToObject(root, "credit_loop");
	for (uint32_t i = 0; i < loop.port_count; i++) {
		cJSON *object = json_append_object(list);
		char name[SIM_PORT_NAME_BYTES];

		sim_port_name(run->fabric, loop.ports[i], name);
		cJSON_AddStringToObject(object, "port", name);
		json_add_count(object, "vl", loop.lanes[i]);
	}
}

void sim_subnet_add(const struct sim_run *run, cJSON *root)
{
	if (run->fabric->infiniband) {
		lanes_add(run->fabric, root);
		loop_add(run, root);
		refusals_add(run->fabric, root);
		return;
	}
	cJSON_AddNullToObject(root, "lanes");
	cJSON_AddNullToObject(root, "credit_loop");
	cJSON_AddNullToObject(root, "pkey_refusals");
}
