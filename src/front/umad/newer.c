/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls of releases after rdma-core 44. They distinguish an adapter's SMI and GSI, because some
 * adapters have a separate device for each. Here both are the same device.
 *
 * The C names differ from the exported names, because newer headers declare functions with the
 * exported names.
 */
#include <stdio.h>
#include <string.h>

#include "front/umad/abi.h"
#include "front/umad/device.h"

#define EXPORTED_AS(name) __asm__(name) __attribute__((visibility("default")))

/* struct umad_ca_pair of newer headers. */
struct ca_pair {
	char smi_name[UMAD_CA_NAME_LEN];
	uint32_t smi_preferred_port;
	char gsi_name[UMAD_CA_NAME_LEN];
	uint32_t gsi_preferred_port;
};

int open_smi_port(const char *ca_name, int portnum) EXPORTED_AS("umad_open_smi_port");
int get_smi_gsi_pairs(struct ca_pair *pairs, size_t max) EXPORTED_AS("umad_get_smi_gsi_pairs");
int get_smi_gsi_pair_by_ca_name(const char *ca_name, uint8_t portnum, struct ca_pair *pair,
	unsigned enforce_smi) EXPORTED_AS("umad_get_smi_gsi_pair_by_ca_name");

int open_smi_port(const char *ca_name, int portnum)
{
	return umad_open_port(ca_name, portnum);
}

/* Returns 0, or 1 if there is no such adapter or port. */
static int pair_fill(const char *ca_name, int portnum, struct ca_pair *pair)
{
	struct fabric_client *client;
	uint32_t port;

	if (device_open(ca_name, portnum, &client, &port))
		return 1;
	fabric_client_close(client);
	*pair = (struct ca_pair){.smi_preferred_port = port, .gsi_preferred_port = port};
	snprintf(pair->smi_name, sizeof(pair->smi_name), "%s", DEVICE_NAME);
	memcpy(pair->gsi_name, pair->smi_name, sizeof(pair->gsi_name));
	return 0;
}

int get_smi_gsi_pairs(struct ca_pair *pairs, size_t max)
{
	return max > 0 && pair_fill(NULL, UMAD_ANY_PORT, pairs) == 0 ? 1 : 0;
}

int get_smi_gsi_pair_by_ca_name(
	const char *ca_name, uint8_t portnum, struct ca_pair *pair, unsigned enforce_smi)
{
	(void)enforce_smi; /* unused, because each port here has an SMI */
	return pair_fill(ca_name, portnum, pair);
}
