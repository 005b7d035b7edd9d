/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes have a key, in which the fields of missing layers are zero. Any key can be matched and
 * hashed.
 */
#include <stdlib.h>
#include <string.h>

#include "ether/flow.h"
#include "ether/rss.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct flow_rule all = {.kind = FLOW_NORMAL, .does_trap = true};
	static const uint8_t hash_key[RSS_KEY_BYTES] = {0x6d, 0x5a, 0x56, 0xda};
	struct flow_frame frame = {.bytes = (uint32_t)size};
	uint8_t *exact = malloc(size ? size : 1);
	struct flow_table *table = flow_table_with(NULL, &all);

	if (!exact || !table)
		abort();
	memcpy(exact, data, size);
	frame_key_read(&frame.key, exact, size);
	bool has_ip = frame.key.layers & (FRAME_LAYER_IPV4 | FRAME_LAYER_IPV6);
	bool has_ports = frame.key.layers & (FRAME_LAYER_TCP | FRAME_LAYER_UDP);
	if ((has_ports && !has_ip) || (!has_ports && frame.key.src_port))
		abort();
	if (flow_table_find(table, &frame, NULL) != &all)
		abort();
	rss_hash(hash_key, RSS_FIELDS_ALL, &frame.key);
	free(table);
	free(exact);
	return 0;
}
