/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "subnet/topology/topology.h"

/* What ibnetdiscover prints of a switch with two hosts, one of which has two ports. */
static const char printed[] =
	"#\n"
	"# Topology file: generated on Thu Jan  1 00:00:00 2026\n"
	"#\n"
	"\n"
	"vendid=0x2c9\n"
	"devid=0xb924\n"
	"sysimgguid=0x2c90000000103\n"
	"switchguid=0x2c90000000100(2c90000000100)\n"
	"Switch\t24 \"S-0002c90000000100\"\t\t# \"spine 1\" base port 0 lid 3 lmc 0\n"
	"[1]\t\"H-0002c90000000200\"[1](2c90000000201) \t\t# \"host 1\" lid 1 4xEDR\n"
	"[2][ext 7]\t\"H-0002c90000000300\"[2](2c90000000302) \t\t# \"host 2\" lid 2 12xQDR\n"
	"\n"
	"vendid=0x2c9\n"
	"devid=0x1003\n"
	"sysimgguid=0x2c90000000203\n"
	"caguid=0x2c90000000200\n"
	"Ca\t1 \"H-0002c90000000200\"\t\t# \"host 1\"\n"
	"[1](2c90000000201) \t\"S-0002c90000000100\"[1]\t\t# lid 1 lmc 0 \"spine 1\" lid 3 4xEDR\n"
	"\n"
	"caguid=0x2c90000000300\n"
	"Ca\t2 \"H-0002c90000000300\"\t\t# \"host 2\"\n"
	"[2](2c90000000302) \t\"S-0002c90000000100\"[2][ext 7]\t\t# lid 2 lmc 0 \"x\" lid 3 12xQDR\n";

static struct subnet_topology *topology_of(const char *text)
{
	struct subnet_topology *topology;
	char why[TOPOLOGY_WHY_BYTES];
	uint32_t line;

	assert_int_equal(subnet_topology_read(text, strlen(text), &topology, &line, why), 0);
	return topology;
}

static const struct topology_port *port_of(
	const struct subnet_topology *topology, uint32_t node, uint32_t port)
{
	return &topology->ports[topology->nodes[node].first_port + port - 1];
}

static void file_of_ibnetdiscover_has_its_nodes_and_cables(void **state)
{
	struct subnet_topology *topology = topology_of(printed);
	const struct topology_node *nodes = topology->nodes;

	(void)state;
	assert_int_equal(topology->node_count, 3);
	assert_int_equal(nodes[0].kind, TOPOLOGY_SWITCH);
	assert_int_equal(nodes[0].port_count, 24);
	assert_int_equal(nodes[0].guid, 0x2c90000000100);
	assert_int_equal(nodes[0].system_guid, 0x2c90000000103);
	assert_int_equal(nodes[0].vendor_id, 0x2c9);
	assert_int_equal(nodes[1].device_id, 0x1003);
	assert_string_equal(nodes[0].name, "S-0002c90000000100");
	assert_string_equal(nodes[0].description, "spine 1");
	assert_int_equal(nodes[2].kind, TOPOLOGY_CA);
	assert_int_equal(nodes[2].vendor_id, 0);
	assert_int_equal(port_of(topology, 0, 2)->peer_node, 2);
	assert_int_equal(port_of(topology, 0, 2)->peer_port, 2);
	assert_int_equal(port_of(topology, 0, 2)->width, 12);
	assert_int_equal(port_of(topology, 0, 2)->speed, TOPOLOGY_QDR);
	assert_int_equal(port_of(topology, 1, 1)->peer_node, 0);
	assert_int_equal(port_of(topology, 1, 1)->guid, 0x2c90000000201);
	assert_int_equal(port_of(topology, 1, 1)->speed, TOPOLOGY_EDR);
	assert_int_equal(port_of(topology, 2, 1)->peer_node, TOPOLOGY_NO_NODE);
	assert_int_equal(port_of(topology, 2, 1)->guid, 0x2c90000000301);
	subnet_topology_destroy(topology);
}

static void file_of_ibsim_needs_no_guids(void **state)
{
	struct subnet_topology *topology = topology_of("Switch\t8 \"S1\"\n"
						       "[3]\t\"Hca1\"[1]\tw=1 s=2\n"
						       "\n"
						       "Hca 2 \"Hca1\"\n"
						       "[1] \"S1\"[3]\n"
						       "[2] \"S1\"[5]");

	(void)state;
	assert_int_equal(topology->node_count, 2);
	assert_int_not_equal(topology->nodes[0].guid, 0);
	assert_int_not_equal(topology->nodes[0].guid, topology->nodes[1].guid);
	assert_int_equal(topology->nodes[1].system_guid, topology->nodes[1].guid);
	assert_int_equal(port_of(topology, 1, 1)->guid, topology->nodes[1].guid + 1);
	assert_int_equal(port_of(topology, 1, 1)->width, 1);
	assert_int_equal(port_of(topology, 1, 1)->speed, TOPOLOGY_DDR);
	assert_int_equal(port_of(topology, 0, 5)->peer_port, 2);
	assert_string_equal(topology->nodes[1].description, "Hca1");
	subnet_topology_destroy(topology);
}

static void wrong_file_is_refused_with_its_line(void **state)
{
	static const struct {
		const char *text;
		uint32_t line;
		const char *why;
	} wrong[] = {
		{"", 0, "there is no node"},
		{"Switch 8 \"S1\"\n[9] \"S1\"[1]\n", 2, "does not have this port"},
		{"Switch 8 \"S1\"\n[1] \"S1\"[9]\n", 2, "\"S1\" does not have this port"},
		{"Switch 8 \"S1\"\n[1] \"S1\"[1]\n", 2, "itself"},
		{"Switch 8 \"S1\"\n[1] \"S2\"[1]\n", 2, "no node named \"S2\""},
		{"Switch 8 \"S1\"\n\n[1] \"S1\"[2]\n", 3, "below the line of its node"},
		{"Switch 8 \"S1\"\n\nSwitch 8 \"S1\"\n", 3, "two nodes named \"S1\""},
		{"Switch 0 \"S1\"\n", 1, "1 to 254 ports"},
		{"Switch 255 \"S1\"\n", 1, "1 to 254 ports"},
		{"Switch \"S1\"\n", 1, "number of its ports"},
		{"Switch 8 S1\n", 1, "in quotes"},
		{"Switch 8 \"\"\n", 1, "1 to 63 letters"},
		{"Rt 2 \"R1\"\n", 1, "routers"},
		{"\ninclude other\n", 2, "a line begins with"},
		{"caguid=zz\n", 1, "hexadecimal"},
		{"caguid=0x11112222333344445\n", 1, "hexadecimal"},
		{"Switch 8 \"S1\"\n[1 \"S1\"[2]\n", 2, "begins with its port"},
		{"Switch 8 \"S1\"\n[1] S1[2]\n", 2, "a name in quotes and a port"},
		{"Switch 8 \"S1\"\n[1] \"S1\"[2] w=3\n", 2, "w=1, 2, 4, 8 or 12"},
		{"Switch 8 \"S1\"\n[1] \"S1\"[2]\n[1] \"S1\"[3]\n", 3, "has another cable"},
		{"Switch 8 \"S1\"\n[1] \"S1\"[2]\n[3] \"S1\"[2]\n", 3,
			"of node \"S1\" has another"},
		{"caguid=5\nCa 1 \"A\"\n\ncaguid=5\nCa 1 \"B\"\n", 5, "another node has the GUID"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct subnet_topology *topology;
		char why[TOPOLOGY_WHY_BYTES];
		uint32_t line;

		assert_int_equal(subnet_topology_read(wrong[i].text, strlen(wrong[i].text),
					 &topology, &line, why),
			-EINVAL);
		if (!strstr(why, wrong[i].why) || line != wrong[i].line)
			fail_msg("row %zu: line %u: %s", i, line, why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_of_ibnetdiscover_has_its_nodes_and_cables),
		cmocka_unit_test(file_of_ibsim_needs_no_guids),
		cmocka_unit_test(wrong_file_is_refused_with_its_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
