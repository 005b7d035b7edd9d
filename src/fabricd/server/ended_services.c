/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/cm.h"
#include "fabricd/server/server_internal.h"
#include "wire/cm/cm_message.h"

#define EXPECTED_NS (CM_LISTENER_EXPECTED_MS * 1000000ull)

void ended_service_add(struct server_node *node, uint64_t service_id, uint64_t now_ns)
{
	node->ended_services[node->ended_service_next++ % ENDED_SERVICES_MAX] =
		(struct ended_service){.service_id = service_id, .until_ns = now_ns + EXPECTED_NS};
}

bool ended_service_is_expected(const struct server_node *node, uint64_t service_id, uint64_t now_ns)
{
	for (uint32_t i = 0; i < ENDED_SERVICES_MAX; i++)
		if (now_ns < node->ended_services[i].until_ns &&
			ip_cm_service_port(node->ended_services[i].service_id) ==
				ip_cm_service_port(service_id))
			return true;
	return false;
}
