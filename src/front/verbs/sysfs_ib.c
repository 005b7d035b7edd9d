/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/sysfs_ib.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "fabricd/fabric_rate.h"
#include "front/verbs/device_ib.h"

static const char *const state_names[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE"};

static const char *const phys_state_names[] = {
	"No state change", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp"};

static int state_text(const char *const *names, size_t count, uint8_t state, char *buf, size_t size)
{
	return snprintf(buf, size, "%u: %s", state, state < count ? names[state] : "<unknown>");
}

/* Write the text of a port's rate, such as "100 Gb/sec (4X EDR)". */
static int rate_text(const struct attach_port *port, char *buf, size_t size)
{
	struct fabric_rate rate = fabric_rate_of(port);
	const char *space = *rate.speed ? " " : "";

	if (rate.tenths % 10)
		return snprintf(buf, size, "%u.%u Gb/sec (%uX%s%s)", rate.tenths / 10,
			rate.tenths % 10, rate.lanes, space, rate.speed);
	return snprintf(
		buf, size, "%u Gb/sec (%uX%s%s)", rate.tenths / 10, rate.lanes, space, rate.speed);
}

static int port_value(const struct attach_port *port, const char *name, char *buf, size_t size)
{
	unsigned index;

	if (strcmp(name, "state") == 0)
		return state_text(state_names, ARRAY_COUNT(state_names), port->state, buf, size);
	if (strcmp(name, "phys_state") == 0)
		return state_text(phys_state_names, ARRAY_COUNT(phys_state_names), port->phys_state,
			buf, size);
	if (strcmp(name, "lid") == 0)
		return snprintf(buf, size, "0x%x", port->lid);
	if (strcmp(name, "lid_mask_count") == 0)
		return snprintf(buf, size, "%u", port->lmc);
	if (strcmp(name, "sm_lid") == 0)
		return snprintf(buf, size, "0x%x", port->sm_lid);
	if (strcmp(name, "sm_sl") == 0)
		return snprintf(buf, size, "%u", port->sm_sl);
	if (strcmp(name, "cap_mask") == 0)
		return snprintf(buf, size, "0x%08x", port->capability_mask);
	if (strcmp(name, "link_layer") == 0)
		return snprintf(buf, size, "InfiniBand");
	if (strcmp(name, "rate") == 0)
		return rate_text(port, buf, size);
	if (sscanf(name, "pkeys/%u", &index) == 1 && index < port->pkey_count)
		return snprintf(buf, size, "0x%04x", port->pkeys[index]);
	return -1;
}

int sysfs_ib_value(struct device *device, const char *file, char *buf, size_t size)
{
	struct attach_port port;
	unsigned number;
	int start = 0;

	if (sscanf(file, "ports/%u/%n", &number, &start) != 1 || !start || number < 1 ||
		number > device->port_count)
		return -1;
	port = device_ib_port(device, number);
	return port_value(&port, file + start, buf, size);
}
