/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapter of an InfiniBand fabric in the private view, with the files that Linux shows for a
 * port. All files but the counters keep the values that they have when the view is made.
 */
#include "run/view_fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/version.h"
#include "fabricd/client/fabric_client.h"
#include "fabricd/fabric_rate.h"
#include "os/setting.h"
#include "run/view.h"
#include "run/view_fabric_counters.h"

/* The names that libibverbs and libibumad give the adapter, and libibverbs its character device. */
#define DEVICE      "ibp0"
#define CHAR_DEVICE "uverbs0"

enum { VALUE_BYTES = 80, PATH_BYTES = 64 };

static const char *const state_names[] = {
	"0: NOP", "1: DOWN", "2: INIT", "3: ARMED", "4: ACTIVE", "5: ACTIVE_DEFER"};

static const char *const phys_state_names[] = {"0: No state change", "1: Sleep", "2: Polling",
	"3: Disabled", "4: PortConfigurationTraining", "5: LinkUp"};

static const char *name_of(const char *const *names, size_t count, uint8_t value)
{
	return value < count ? names[value] : "<unknown>";
}

/* Print a rate in the form "100 Gb/sec (4X EDR)". */
static void rate_print(const struct attach_port *port, char value[VALUE_BYTES])
{
	struct fabric_rate rate = fabric_rate_of(port);
	char fraction[] = {'.', (char)('0' + rate.tenths % 10), '\0'};

	snprintf(value, VALUE_BYTES, "%u%s Gb/sec (%uX%s%s)", rate.tenths / 10,
		rate.tenths % 10 ? fraction : "", rate.lanes, *rate.speed ? " " : "", rate.speed);
}

static void guid_print(uint64_t guid, char value[VALUE_BYTES])
{
	snprintf(value, VALUE_BYTES, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48),
		(unsigned)(guid >> 32 & 0xffff), (unsigned)(guid >> 16 & 0xffff),
		(unsigned)(guid & 0xffff));
}

static void gid_print(uint64_t prefix, uint64_t guid, char value[VALUE_BYTES])
{
	char low[VALUE_BYTES];

	guid_print(prefix, value);
	guid_print(guid, low);
	snprintf(value + 19, VALUE_BYTES - 19, ":%.19s", low);
}

/* Write ports/NUMBER/NAME with a value in the form of printf(3). */
__attribute__((format(printf, 4, 5))) static int port_write(
	int directory, uint32_t number, const char *name, const char *format, ...)
{
	char path[PATH_BYTES], value[VALUE_BYTES];
	va_list arguments;

	snprintf(path, sizeof(path), "ports/%u/%s", number, name);
	va_start(arguments, format);
	vsnprintf(value, sizeof(value), format, arguments);
	va_end(arguments);
	return view_write_line(directory, path, value);
}

static int tables_write(int directory, uint32_t number, const struct attach_port *port)
{
	char name[PATH_BYTES], value[VALUE_BYTES];
	int result = 0;

	for (uint32_t i = 0; i < port->guid_count && result == 0; i++) {
		snprintf(name, sizeof(name), "gids/%u", i);
		gid_print(port->gid_prefix, port->guids[i], value);
		result = port_write(directory, number, name, "%s", value);
		snprintf(name, sizeof(name), "gid_attrs/types/%u", i);
		if (result == 0)
			result = port_write(directory, number, name, "IB/RoCE v1");
	}
	for (uint32_t i = 0; i < port->pkey_count && result == 0; i++) {
		snprintf(name, sizeof(name), "pkeys/%u", i);
		result = port_write(directory, number, name, "0x%04x", port->pkeys[i]);
	}
	return result;
}

static int port_fill(int directory, uint32_t number, const struct attach_port *port)
{
	char rate[VALUE_BYTES];
	int result = port_write(directory, number, "state", "%s",
		name_of(state_names, ARRAY_COUNT(state_names), port->state));

	rate_print(port, rate);
	if (result == 0)
		result = port_write(directory, number, "phys_state", "%s",
			name_of(phys_state_names, ARRAY_COUNT(phys_state_names), port->phys_state));
	if (result == 0)
		result = port_write(directory, number, "lid", "0x%x", port->lid);
	if (result == 0)
		result = port_write(directory, number, "lid_mask_count", "%u", port->lmc);
	if (result == 0)
		result = port_write(directory, number, "sm_lid", "0x%x", port->sm_lid);
	if (result == 0)
		result = port_write(directory, number, "sm_sl", "%u", port->sm_sl);
	if (result == 0)
		result = port_write(directory, number, "cap_mask", "0x%08x", port->capability_mask);
	if (result == 0)
		result = port_write(directory, number, "rate", "%s", rate);
	if (result == 0)
		result = port_write(directory, number, "link_layer", "InfiniBand");
	return result == 0 ? tables_write(directory, number, port) : result;
}

static int node_fill(int directory, const struct attach_node *node)
{
	char guid[VALUE_BYTES], image[VALUE_BYTES];
	const char *const lines[][2] = {{"node_type", "1: CA"}, {"node_desc", node->name},
		{"node_guid", guid}, {"sys_image_guid", image}, {"fw_ver", urnic_version()},
		{"hw_rev", "0"}, {"hca_type", "urnic"}, {"board_id", "urnic"},
		{"device/numa_node", "-1"}};
	int result = 0;

	guid_print(node->node_guid, guid);
	guid_print(node->system_image_guid, image);
	for (size_t i = 0; i < ARRAY_COUNT(lines) && result == 0; i++)
		result = view_write_line(directory, lines[i][0], lines[i][1]);
	return result;
}

/*
 * UCX ignores a device whose character device it cannot open. Write the attributes by which it
 * finds the character device.
 */
static int char_device_write(void)
{
	int result = view_write_line(AT_FDCWD, VIEW_CHAR_DEVICES "/" CHAR_DEVICE "/ibdev", DEVICE);

	if (result == 0)
		result = view_write_line(AT_FDCWD,
			VIEW_CHAR_DEVICES "/" CHAR_DEVICE "/abi_version", VIEW_DRIVER_ABI_VERSION);
	if (result == 0 &&
		(symlink(VIEW_DEVICES "/" DEVICE "/device",
			 VIEW_CHAR_DEVICES "/" CHAR_DEVICE "/device") < 0 ||
			symlink("../null", VIEW_NODES "/" CHAR_DEVICE) < 0))
		result = -errno;
	return result;
}

static int client_write(struct fabric_client *client)
{
	const struct attach_node *node = fabric_client_node(client);
	int directory, result;

	/* The devices of libibverbs may be there already. */
	if (mkdir(VIEW_DEVICES "/" DEVICE, 0755) < 0)
		return errno == EEXIST ? 0 : -errno;
	directory = open(VIEW_DEVICES "/" DEVICE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return -errno;
	result = node_fill(directory, node);
	for (uint32_t number = 1; number <= node->port_count && result == 0; number++) {
		struct attach_port port;

		result = fabric_client_port(client, number, &port);
		if (result == 0)
			result = port_fill(directory, number, &port);
		if (result == 0)
			result = view_fabric_counters_add(directory, number, client);
	}
	close(directory);
	return result == 0 ? char_device_write() : result;
}

int view_fabric_write(void)
{
	const char *place = setting_text("URNIC_FABRIC");
	char why[ATTACH_TEXT_BYTES];
	struct fabric_client *client;
	int result;

	/* If the fabric does not run, a program has no adapter, and the view shows none. */
	if (!place || fabric_client_open_node(place, &client, why) < 0)
		return 0;
	result = client_write(client);
	fabric_client_close(client);
	return result;
}
