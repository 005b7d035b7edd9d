/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any text is a topology, or is refused with a line of it and a sentence. Each cable of a topology
 * has two ends that name each other. The input's bytes choose from words that topologies consist
 * of.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "subnet/topology/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const words[] = {"Switch", "Ca", "Hca", " ", "\t", "\n", "\n\n", "[1]", "[2]",
	"\"a\"", "\"b\"", "\"c\"", "2", "8", "# \"x\" 4xEDR", "w=4",
	"caguid=", "switchguid=", "0x12", "(12)", "[ext 1]", "Switch 2 \"a\"\n", "Ca 1 \"b\"\n",
	"[1] \"b\"[1]\n"};

static void cables_check(const struct subnet_topology *topology)
{
	for (uint32_t node = 0; node < topology->node_count; node++) {
		for (uint32_t port = 1; port <= topology->nodes[node].port_count; port++) {
			const struct topology_port *end =
				&topology->ports[topology->nodes[node].first_port + port - 1];
			const struct topology_node *peer;

			if (end->peer_node == TOPOLOGY_NO_NODE)
				continue;
			peer = &topology->nodes[end->peer_node];
			end = &topology->ports[peer->first_port + end->peer_port - 1];
			if (end->peer_node != node || end->peer_port != port)
				abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t word_count = sizeof(words) / sizeof(words[0]);
	struct subnet_topology *topology;
	char text[512], why[TOPOLOGY_WHY_BYTES] = "";
	size_t bytes = 0;
	uint32_t line = 0;
	int error;

	for (size_t i = 0; i < size && bytes < sizeof(text) - 32; i++) {
		const char *word = words[data[i] % word_count];

		if (data[i] < 250) {
			memcpy(text + bytes, word, strlen(word));
			bytes += strlen(word);
		} else {
			text[bytes++] = (char)data[i];
		}
	}
	error = subnet_topology_read(text, bytes, &topology, &line, why);
	if (error) {
		if (error != -EINVAL || !why[0] || line > bytes + 1)
			abort();
		return 0;
	}
	cables_check(topology);
	subnet_topology_destroy(topology);
	return 0;
}
