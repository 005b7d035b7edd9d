/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In each example of a subnet, each host reaches each other host, and the ports count what a log of
 * all frames has.
 */
#include <stdio.h>
#include <stdlib.h>

#include "subnet_fixture.h"

enum { TEXT_BYTES_MAX = 1 << 20 };

static struct fixture fixture;

static const char *text_read(FILE *file)
{
	static char text[TEXT_BYTES_MAX];
	size_t bytes;

	assert_non_null(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	assert_in_range(bytes, 1, sizeof(text) - 2);
	text[bytes] = '\0';
	return text;
}

static FILE *example_open(const char *name, bool is_program)
{
	const char *root = getenv("SOURCE_ROOT");
	char path[4096];

	snprintf(path, sizeof(path), "%s%s/examples/infiniband/%s", is_program ? "sh " : "",
		root ? root : ".", name);
	return is_program ? popen(path, "re") : fopen(path, "re");
}

static bool node_is_host(uint32_t node)
{
	struct subnet_node_view view;

	subnet_node(fixture.subnet, node, &view);
	return view.kind == TOPOLOGY_CA;
}

static void frame_send(uint32_t from, uint32_t to)
{
	const struct mad_frame frame = {.dlid = fixture_lid(&fixture, to),
		.slid = fixture_lid(&fixture, from),
		.pkey = 0xffff,
		.dest_qpn = 0x42,
		.source_qpn = 0x43};
	const uint8_t mad[MAD_BYTES] = {0};

	fixture.delivered_count = 0;
	fixture_send_mad(&fixture, from, &frame, mad);
	assert_int_equal(fixture.delivered_count, 1);
	assert_int_equal(fixture.delivered[0].node, to);
}

/* Each port has counted what the log says: what it sent, and what its neighbour sent. */
static void counters_check(void)
{
	for (uint32_t node = 0; node < subnet_node_count(fixture.subnet); node++) {
		struct subnet_node_view view;

		subnet_node(fixture.subnet, node, &view);
		for (uint32_t port = 1; port <= view.port_count; port++) {
			const struct subnet_port_view at = fixture_port(&fixture, node, port);

			assert_int_equal(
				at.counters->port_xmit_packets, fixture.log[node][port].frames);
			assert_int_equal(
				at.counters->port_xmit_data, fixture.log[node][port].words);
			if (at.peer_node == TOPOLOGY_NO_NODE)
				continue;
			assert_int_equal(at.counters->port_rcv_packets,
				fixture.log[at.peer_node][at.peer_port].frames);
			assert_int_equal(at.counters->port_rcv_data,
				fixture.log[at.peer_node][at.peer_port].words);
		}
	}
}

/* Returns the number of hosts. */
static uint32_t all_pairs_check(const char *text)
{
	uint32_t hosts = 0;

	fixture_init(&fixture, text, true);
	for (uint32_t from = 0; from < subnet_node_count(fixture.subnet); from++) {
		if (!node_is_host(from))
			continue;
		hosts++;
		for (uint32_t to = 0; to < subnet_node_count(fixture.subnet); to++)
			if (node_is_host(to))
				frame_send(from, to);
	}
	counters_check();
	return hosts;
}

static void hosts_of_each_file_reach_each_other(void **state)
{
	static const struct {
		const char *name;
		uint32_t hosts;
	} files[] = {{"two-hosts.topo", 2}, {"ring.topo", 8}, {"chain.topo", 6}};

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		FILE *file = example_open(files[i].name, false);

		assert_int_equal(all_pairs_check(text_read(file)), files[i].hosts);
		fclose(file);
		fixture_done(&fixture);
	}
}

/* Each spine has the same share of the routes from a leaf. */
static void hosts_of_a_fat_tree_reach_each_other_by_all_cables(void **state)
{
	FILE *program = example_open("fat-tree", true);
	const int leaf = 9; /* the first one behind the spines */
	uint32_t lids_of_port[37] = {0};

	(void)state;
	assert_int_equal(all_pairs_check(text_read(program)), 324);
	assert_int_equal(pclose(program), 0);
	for (uint16_t lid = 1; lid <= 324 + 27; lid++) {
		const uint8_t port = subnet_switch_route(fixture.subnet, leaf, lid);

		assert_in_range(port, 0, 36);
		lids_of_port[port]++;
	}
	for (uint32_t port = 19; port <= 36; port++)
		assert_in_range(lids_of_port[port], 17, 20);
	fixture_done(&fixture);
}

static void hosts_of_a_torus_reach_each_other(void **state)
{
	FILE *program = example_open("torus", true);

	(void)state;
	assert_int_equal(all_pairs_check(text_read(program)), 27);
	assert_int_equal(pclose(program), 0);
	fixture_done(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_of_each_file_reach_each_other),
		cmocka_unit_test(hosts_of_a_torus_reach_each_other),
		cmocka_unit_test(hosts_of_a_fat_tree_reach_each_other_by_all_cables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
