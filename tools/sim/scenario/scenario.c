/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/scenario/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "fabric/traffic/engine_host.h"

enum {
	CABLE_PS_PER_M = 5000, /* light in a fiber */
	HEADER_BYTES = 62, /* of a frame in the middle of a RoCEv2 message; plain sources use it */
	LOCAL_HEADER_BYTES = 26, /* the same on InfiniBand links: LRH, BTH, ICRC and VCRC */
};

/* Numbers as the scenario has them, before they become parameters of the network. */
struct scenario_numbers {
	uint64_t seed;
	uint64_t duration_ps;
	/* "topology" */
	uint64_t hosts;
	uint64_t hosts_right;
	uint64_t leaves;
	uint64_t spines;
	uint64_t k;
	uint64_t switches;
	uint64_t rate_mbps;
	uint64_t cable_ps;
	uint64_t switch_rate_mbps; /* 0: rate_mbps */
	uint64_t switch_cable_ps; /* UINT64_MAX: cable_ps */
	/* "hosts" */
	uint64_t mtu_bytes;
	uint64_t message_bytes;
	uint64_t depth;
	uint64_t timeout;
	uint64_t retry_count;
	uint64_t cnp_priority;
	/* "pause" */
	uint64_t quanta;
	uint64_t response_quanta;
};

static const struct scenario_numbers defaults = {
	.seed = 1,
	.duration_ps = 10 * FABRIC_PS_PER_MS,
	.hosts = 2,
	.hosts_right = 2,
	.leaves = 2,
	.spines = 2,
	.k = 4,
	.switches = 1,
	.rate_mbps = 100000,
	.cable_ps = 20ull * CABLE_PS_PER_M,
	.switch_cable_ps = UINT64_MAX,
	.mtu_bytes = 1024,
	.message_bytes = 1 << 20,
	.depth = 2,
	.timeout = 14,
	.retry_count = 7,
	.cnp_priority = 6,
	.quanta = FABRIC_PAUSE_QUANTA_MAX,
	.response_quanta = FABRIC_RESPONSE_OF_RATE,
};

#define NUMBER(member, name, scale, low, high) \
	SCENARIO_NUMBER(struct scenario_numbers, member, name, scale, low, high)

#define RATE_LOW  0.001
#define RATE_HIGH (FABRIC_RATE_MBPS_MAX / 1000.)

/* --- nodes --- */

bool scenario_read_node(const struct scenario_text *text, const struct scenario *scenario,
	const cJSON *item, struct fabric_node *ret_node)
{
	const char *name = cJSON_IsString(item) ? item->valuestring : "";
	bool is_host = name[0] == 'h';
	uint32_t count = is_host ? topology_host_count(&scenario->topology)
				 : topology_switch_count(&scenario->topology);
	unsigned long number;
	char *end;

	if (!cJSON_IsString(item))
		return scenario_refuse(text, item, "the name of a node is not a string");
	if ((!is_host && name[0] != 's') || name[1] < '0' || name[1] > '9')
		return scenario_refuse(text, item,
			"\"%s\" is no node: hosts are h0, h1, ..., switches s0, s1, ...", name);
	number = strtoul(name + 1, &end, 10);
	if (*end || number >= count)
		return scenario_refuse(text, item, "unknown %s \"%s\": there are %c0 to %c%u",
			is_host ? "host" : "switch", name, name[0], name[0], count - 1);
	*ret_node = (struct fabric_node){is_host, (uint32_t)number};
	return true;
}

bool scenario_read_host(const struct scenario_text *text, const struct scenario *scenario,
	const cJSON *item, uint32_t *ret_host)
{
	struct fabric_node node = {0};

	if (!scenario_read_node(text, scenario, item, &node))
		return false;
	if (!node.is_host)
		return scenario_refuse(
			text, item, "\"%s\" is a switch, not a host", item->valuestring);
	*ret_host = node.number;
	return true;
}

/* --- the network --- */

static const char *const topology_words[] = {
	"star", "dumbbell", "leaf-spine", "fat-tree", "custom", NULL};

static bool link_layer_read(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	static const char *const words[] = {"ethernet", "infiniband", NULL};
	uint32_t place = 0;

	if (item && !scenario_read_word(text, item, "link layer", words, &place))
		return false;
	scenario->is_infiniband = place;
	return true;
}

static const struct scenario_field topology_fields[] = {
	SCENARIO_OTHER("kind"),
	SCENARIO_OTHER("link_layer"),
	NUMBER(hosts, "hosts", 1, 1, SCENARIO_HOST_COUNT_MAX),
	NUMBER(hosts_right, "hosts_right", 1, 1, SCENARIO_HOST_COUNT_MAX),
	NUMBER(leaves, "leaves", 1, 1, 1024),
	NUMBER(spines, "spines", 1, 1, 1024),
	NUMBER(k, "k", 1, 2, 64),
	NUMBER(switches, "switches", 1, 1, 4096),
	SCENARIO_OTHER("cables"),
	NUMBER(rate_mbps, "rate_gbps", 1000, RATE_LOW, RATE_HIGH),
	NUMBER(cable_ps, "cable_m", CABLE_PS_PER_M, 0, 100000),
	NUMBER(switch_rate_mbps, "switch_rate_gbps", 1000, RATE_LOW, RATE_HIGH),
	NUMBER(switch_cable_ps, "switch_cable_m", CABLE_PS_PER_M, 0, 100000),
};

static bool topology_read(const struct scenario_text *text, struct scenario *scenario,
	const cJSON *item, struct scenario_numbers *numbers)
{
	const cJSON *kind = scenario_member(item, "kind");
	struct topology *topology = &scenario->topology;
	uint32_t place = TOPOLOGY_STAR;

	if (!scenario_read_object(text, item, "\"topology\"", topology_fields,
		    ARRAY_COUNT(topology_fields), numbers))
		return false;
	if (!link_layer_read(text, scenario, scenario_member(item, "link_layer")))
		return false;
	if (!kind)
		return scenario_refuse(text, item, "\"topology\" has no \"kind\"");
	if (!scenario_read_word(text, kind, "topology", topology_words, &place))
		return false;
	topology->kind = (enum topology_kind)place;
	topology->hosts = (uint32_t)numbers->hosts;
	topology->hosts_right = (uint32_t)numbers->hosts_right;
	topology->leaves = (uint32_t)numbers->leaves;
	topology->spines = (uint32_t)numbers->spines;
	topology->k = (uint32_t)numbers->k;
	topology->switch_count = (uint32_t)numbers->switches;
	if (topology->kind == TOPOLOGY_FAT_TREE && topology->k % 2)
		return scenario_refuse(text, item, "\"k\" is %u: it is even", topology->k);
	if (topology_host_count(topology) > SCENARIO_HOST_COUNT_MAX)
		return scenario_refuse(text, item, "%u hosts are more than %d",
			topology_host_count(topology), SCENARIO_HOST_COUNT_MAX);
	if (topology_host_count(topology) < 2)
		return scenario_refuse(text, item, "a network has two hosts or more");
	return scenario_read_cables(text, scenario, item);
}

static void links_set(struct scenario *scenario, const struct scenario_numbers *numbers)
{
	struct topology *topology = &scenario->topology;

	topology->host_link =
		(struct topology_link){(uint32_t)numbers->rate_mbps, numbers->cable_ps};
	topology->switch_link = topology->host_link;
	if (numbers->switch_rate_mbps)
		topology->switch_link.rate_mbps = (uint32_t)numbers->switch_rate_mbps;
	if (numbers->switch_cable_ps != UINT64_MAX)
		topology->switch_link.delay_ps = numbers->switch_cable_ps;
}

/* --- hosts --- */

static const char *const host_words[] = {"source", "engine", NULL};
static const char *const recovery_words[] = {"none", "go-back-n", "go-back-0", NULL};

static bool hosts_read(const struct scenario_text *text, struct scenario *scenario,
	const cJSON *item, struct scenario_numbers *numbers)
{
	static const struct scenario_field fields[] = {
		SCENARIO_OTHER("kind"),
		SCENARIO_OTHER("recovery"),
		SCENARIO_OTHER("dcb"),
		NUMBER(mtu_bytes, "mtu", 1, 256, 4096),
		NUMBER(message_bytes, "message_bytes", 1, 1, 1 << 28),
		NUMBER(depth, "depth", 1, 1, 1024),
		NUMBER(timeout, "timeout", 1, 0, 31),
		NUMBER(retry_count, "retry_cnt", 1, 0, 7),
		NUMBER(cnp_priority, "cnp_priority", 1, 0, FABRIC_PRIORITY_COUNT - 1),
	};
	const cJSON *kind = scenario_member(item, "kind");
	const cJSON *word = scenario_member(item, "recovery");
	uint32_t place = 0;
	uint32_t recovery = SOURCE_NO_RECOVERY;

	if (!scenario_read_dcb(text, scenario, scenario_member(item, "dcb")))
		return false;
	if (!item)
		return true;
	if (!scenario_read_object(text, item, "\"hosts\"", fields, ARRAY_COUNT(fields), numbers) ||
		(kind && !scenario_read_word(text, kind, "kind of host", host_words, &place)) ||
		(word && !scenario_read_word(text, word, "recovery", recovery_words, &recovery)))
		return false;
	if (place && word)
		return scenario_refuse(text, word, "the engine has a recovery of its own");
	scenario->recovery = (enum source_recovery)recovery;
	if (numbers->mtu_bytes & (numbers->mtu_bytes - 1))
		return scenario_refuse(text, scenario_member(item, "mtu"),
			"\"mtu\" is %u: it is 256, 512, 1024, 2048 or 4096",
			(unsigned)numbers->mtu_bytes);
	scenario->has_engine = place;
	return true;
}

/*
 * Read "congestion", in the words of URNIC_CC. A flow without a limit has the rate of `rate_gbps`.
 */
static bool congestion_read(
	const struct scenario_text *text, struct scenario *scenario, const cJSON *item)
{
	struct cc_params *cc = &scenario->cc;
	char why[CC_WHY_BYTES];

	cc_params_init(cc, CC_OFF, CC_PRESET_SIGCOMM15);
	if (!item)
		return true;
	if (!cJSON_IsString(item))
		return scenario_refuse(text, item, "\"congestion\" is not a string");
	if (!cc_params_parse(cc, item->valuestring, why))
		return scenario_refuse(text, item, "\"congestion\" has %s", why);
	if (cc->algorithm == CC_SWIFT && !scenario->has_engine)
		return scenario_refuse(text, item,
			"plain sources measure no delay: swift is for hosts of kind \"engine\"");
	if (!cc->rp_max_rate)
		cc->rp_max_rate = scenario->topology.host_link.rate_mbps;
	return true;
}

static bool pause_read(
	const struct scenario_text *text, const cJSON *item, struct scenario_numbers *numbers)
{
	static const struct scenario_field fields[] = {
		NUMBER(quanta, "quanta", 1, 1, FABRIC_PAUSE_QUANTA_MAX),
		NUMBER(response_quanta, "response_quanta", 1, 0, FABRIC_PAUSE_QUANTA_MAX),
	};

	return !item ||
		scenario_read_object(text, item, "\"pause\"", fields, ARRAY_COUNT(fields), numbers);
}

static uint32_t header_bytes(const struct scenario *scenario)
{
	return scenario->is_infiniband ? LOCAL_HEADER_BYTES : HEADER_BYTES;
}

static void config_set(struct scenario *scenario, const struct scenario_numbers *numbers)
{
	bool has_engine = scenario->has_engine;
	uint32_t mtu_bytes = (uint32_t)numbers->mtu_bytes;

	scenario->duration_ps = numbers->duration_ps;
	scenario->mtu_bytes = mtu_bytes;
	scenario->message_bytes = (uint32_t)numbers->message_bytes;
	scenario->depth = (uint32_t)numbers->depth;
	scenario->timeout = (uint32_t)numbers->timeout;
	scenario->retry_count = (uint32_t)numbers->retry_count;
	scenario->cnp_priority = (uint8_t)numbers->cnp_priority;
	scenario->config = (struct fabric_config){
		.seed = numbers->seed,
		.frame_bytes_max = has_engine ? engine_host_frame_bytes(mtu_bytes)
					      : header_bytes(scenario) + mtu_bytes,
		.gap_bytes = scenario->is_infiniband ? IB_DELIMITER_BYTES : FABRIC_GAP_BYTES,
		.pause_quanta = (uint32_t)numbers->quanta,
		.response_quanta = (uint32_t)numbers->response_quanta,
		.data_capacity = has_engine ? engine_host_data_bytes(mtu_bytes) : 0,
	};
}

/* Set what all flows have in common. */
static void flows_finish(struct scenario *scenario)
{
	for (uint32_t i = 0; i < scenario->flow_count; i++) {
		struct fabric_random random =
			fabric_random_make(scenario->config.seed, FABRIC_RANDOM_FLOW, i);

		scenario->flows[i].source_port =
			(uint16_t)(0xc000 + fabric_random_below(&random, 0x4000));
		scenario->flows[i].payload_bytes = scenario->mtu_bytes;
		scenario->flows[i].header_bytes = header_bytes(scenario);
	}
}

static bool text_parse(
	const struct scenario_text *text, struct scenario *scenario, const uint64_t *seed)
{
	static const struct scenario_field fields[] = {
		NUMBER(seed, "seed", 1, 0, 9007199254740992.),
		NUMBER(duration_ps, "duration_us", 1e6, 1, 1e9),
		SCENARIO_OTHER("topology"),
		SCENARIO_OTHER("routes"),
		SCENARIO_OTHER("switch"),
		SCENARIO_OTHER("subnet"),
		SCENARIO_OTHER("hosts"),
		SCENARIO_OTHER("congestion"),
		SCENARIO_OTHER("pause"),
		SCENARIO_OTHER("workloads"),
		SCENARIO_OTHER("faults"),
	};
	struct scenario_numbers numbers = defaults;

	if (!scenario_read_object(
		    text, text->root, "a scenario", fields, ARRAY_COUNT(fields), &numbers))
		return false;
	if (!scenario_member(text->root, "topology"))
		return scenario_refuse(text, text->root, "the scenario has no \"topology\"");
	if (!topology_read(text, scenario, scenario_member(text->root, "topology"), &numbers) ||
		!hosts_read(text, scenario, scenario_member(text->root, "hosts"), &numbers) ||
		!pause_read(text, scenario_member(text->root, "pause"), &numbers))
		return false;
	if (seed)
		numbers.seed = *seed;
	links_set(scenario, &numbers);
	config_set(scenario, &numbers);
	if (!scenario_read_routes(text, scenario, scenario_member(text->root, "routes")) ||
		!congestion_read(text, scenario, scenario_member(text->root, "congestion")) ||
		!scenario_read_subnet(text, scenario, scenario_member(text->root, "subnet")) ||
		!scenario_read_switch(text, scenario, scenario_member(text->root, "switch")) ||
		!scenario_read_workloads(
			text, scenario, scenario_member(text->root, "workloads")) ||
		!scenario_read_faults(text, scenario, scenario_member(text->root, "faults")))
		return false;
	flows_finish(scenario);
	return true;
}

bool scenario_read(struct scenario *scenario, const char *path, const uint64_t *seed)
{
	struct scenario_text text;
	bool is_read;

	memset(scenario, 0, sizeof(*scenario));
	is_read = scenario_text_read(&text, path) && text_parse(&text, scenario, seed);
	scenario_text_done(&text);
	return is_read;
}

void scenario_done(struct scenario *scenario)
{
	free(scenario->flows);
	free(scenario->workloads);
	free(scenario->faults);
	free(scenario->cables);
	free(scenario->cable_mbps);
	free(scenario->switch_configs);
	free(scenario->routes);
	free(scenario->forwarding);
	free(scenario->service_levels);
	free(scenario->lanes);
	free(scenario->pkeys);
	free(scenario->roles);
}
