/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_SCENARIO_H
#define TOOLS_SCENARIO_H

/*
 * A scenario: a network, its hosts, what they send, and what goes wrong. docs/fabric.md has its
 * format.
 *
 * Hosts are h0, h1 and so on, and switches s0, s1 and so on, in the order of fabric/topology.h.
 */

#include <stdbool.h>
#include <stdint.h>

#include "congestion/cc_params.h"
#include "fabric/fabric.h"
#include "fabric/infiniband/infiniband.h"
#include "fabric/topology.h"
#include "fabric/traffic/flow.h"
#include "fabric/traffic/source.h"
#include "sim/scenario/scenario_text.h"

enum {
	SCENARIO_NAME_BYTES = 40,
	SCENARIO_FLOW_COUNT_MAX = 1 << 20,
	SCENARIO_HOST_COUNT_MAX = 1 << 16,
};

#define SCENARIO_TIME_US_MAX    1e9
#define SCENARIO_FLOW_BYTES_MAX 1e15 /* of a flow */

/* Flows of one item of "workloads". */
struct scenario_workload {
	char name[SCENARIO_NAME_BYTES];
	uint32_t first_flow;
	uint32_t flow_count;
};

enum scenario_fault_kind {
	SCENARIO_LOSS,
	SCENARIO_DOWN,
	SCENARIO_STORM,
	SCENARIO_CORRUPTION,
	SCENARIO_SLOW,
	SCENARIO_FLAP, /* only in the text; the reader makes a fault SCENARIO_DOWN of each time */
};

struct scenario_fault {
	enum scenario_fault_kind kind;
	struct fabric_node from; /* of a cable: its ends; of a host: the host */
	struct fabric_node to;
	uint32_t priority; /* storm */
	uint32_t ppm; /* loss, corruption: of a million frames in the direction from `from` */
	uint32_t period; /* loss: one in so many frames is lost; 0: none */
	uint32_t take_mbps; /* slow */
	uint32_t limit_bytes; /* slow */
	uint64_t start_ps;
	uint64_t end_ps;
};

/* Frames to host `to` leave the switch `at` towards the switch `via`. */
struct scenario_route {
	uint32_t at;
	uint32_t to;
	uint32_t via;
};

/* How a host, or a switch between two of its cables, maps service levels to lanes. */
struct scenario_lane {
	struct fabric_node at;
	uint32_t from; /* of a switch: the cable by which packets come in */
	uint32_t to; /* of a switch: the cable by which they leave */
	uint8_t sl2vl[IB_SL_COUNT];
};

/* The P_Keys of a host. */
struct scenario_pkeys {
	uint16_t pkeys[IB_PKEYS_MAX];
	uint32_t count;
};

struct scenario {
	uint64_t duration_ps;
	bool has_engine; /* hosts are urnic's engine, else plain sources */
	enum source_recovery recovery; /* of plain sources */
	uint32_t mtu_bytes;
	uint32_t message_bytes;
	uint32_t depth;
	uint32_t timeout;
	uint32_t retry_count;
	struct cc_params cc;
	uint8_t cnp_priority;
	uint8_t priority_of_dscp[FABRIC_DSCP_COUNT]; /* at hosts */
	uint8_t pause_ignored; /* by hosts; a bit for each priority */
	bool has_classes; /* at hosts */
	struct egress egress; /* of hosts that have classes */
	struct fabric_ingress_config ingress; /* of hosts */
	struct fabric_config config;
	struct topology topology;
	bool is_infiniband; /* the link layer; else Ethernet */
	struct infiniband_config infiniband;
	bool is_embedded; /* the routes are those of the embedded subnet manager */
	uint32_t *forwarding; /* by switch and host: a cable's number; NULL: the engine's */
	uint8_t *service_levels; /* by two hosts; NULL: the engine's */
	struct scenario_lane *lanes; /* that differ from infiniband.sl2vl */
	uint32_t lane_count;
	struct scenario_pkeys *pkeys; /* by host; NULL: all have 0xffff */
	bool is_inbound_enforced; /* by the ports of switches that lead to hosts */
	bool is_outbound_enforced;
	uint8_t *roles; /* by group and host: enum infiniband_role */
	uint32_t group_count;
	struct fabric_flow *flows;
	uint32_t flow_count;
	struct scenario_workload *workloads;
	uint32_t workload_count;
	struct topology_cable *cables; /* of a custom topology */
	uint32_t *cable_mbps; /* their rates; 0: that of their kind */
	struct fabric_switch_config *switch_configs; /* if "config_db" has one for each switch */
	struct scenario_route *routes;
	uint32_t route_count;
	struct scenario_fault *faults;
	uint32_t fault_count;
};

/*
 * Read a scenario. Returns false, after a sentence, if the file has no legal scenario. The caller
 * calls scenario_done() in any case.
 *
 * `seed`  If not NULL, the seed instead of the scenario's.
 */
bool scenario_read(struct scenario *scenario, const char *path, const uint64_t *seed);
void scenario_done(struct scenario *scenario);

/* --- for the files of this folder --- */

/* The node with this name; the scenario's topology is read. */
bool scenario_read_node(const struct scenario_text *text, const struct scenario *scenario,
	const cJSON *item, struct fabric_node *ret_node);
bool scenario_read_host(const struct scenario_text *text, const struct scenario *scenario,
	const cJSON *item, uint32_t *ret_host);

/* The cables of a custom topology, and the item "routes" (scenario_paths.c). */
bool scenario_read_cables(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *list);
bool scenario_read_routes(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *list);

/*
 * The port of a node towards another one, in a network that was built of the scenario;
 * FABRIC_NO_PORT: there is no cable.
 */
uint32_t scenario_port_between(
	const struct fabric *fabric, struct fabric_node from, struct fabric_node to);

/* Set the routes in a network that was built of the scenario. Returns false without memory. */
bool scenario_set_routes(const struct scenario *scenario, struct fabric *fabric);

/* The item "config_db" of "switch", the path of a file of SONiC's (scenario_config_db.c). */
bool scenario_read_config_db(
	const struct scenario_text *text, const cJSON *item, struct fabric_switch_config *config);

/* The item "dcb" of "hosts" (scenario_dcb.c); NULL: none. */
bool scenario_read_dcb(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item);

/* "3,4": the priorities as bits. `name` names the item in a complaint. */
bool scenario_read_priorities(const struct scenario_text *text, const cJSON *item, const char *name,
	uint8_t *ret_priorities);

/* The item "subnet" (scenario_subnet.c). The caller has read "hosts" and "congestion" before. */
bool scenario_read_subnet(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item);

/* "qos_sl2vl" of `item`; service levels that it does not name keep their lanes. */
bool scenario_read_lanes(
	const struct scenario_text *text, const cJSON *item, uint32_t data_vls, uint8_t *sl2vl);

/* The tables in the item "subnet" (scenario_tables.c). */
bool scenario_read_tables(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item);

/* Set the tables in a subnet that was built of the scenario. Returns 0 or -ENOMEM. */
int scenario_set_tables(const struct scenario *scenario, struct fabric *fabric);

/* "pkey" of `object` (scenario_partition.c); *ret_pkey is not changed when there is none. */
bool scenario_read_pkey(const struct scenario_text *text, const cJSON *object, uint16_t *ret_pkey);

/* "partitions" and "part_enforce" in the item "subnet". */
bool scenario_read_partitions(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *subnet);

/* Set the partitions in a subnet that was built of the scenario. */
void scenario_set_partitions(const struct scenario *scenario, struct fabric *fabric);

/*
 * The P_Key of a flow: that of its workload; else the first one of its source with which packets
 * reach the other host, or the first one of all; 0: the source has none.
 */
uint16_t scenario_flow_pkey(const struct fabric *fabric, const struct fabric_flow *flow);

/* The items "switch", "workloads" and "faults". */
bool scenario_read_switch(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item);
bool scenario_read_workloads(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *list);
bool scenario_read_faults(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *list);

#endif
