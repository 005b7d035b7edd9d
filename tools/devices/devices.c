/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic devices: the RDMA devices that programs see, and their interfaces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/device_facts.h"
#include "common/json.h"
#include "os/setting.h"
#include "port/address.h"

const char command_devices_help[] =
	"usage: urnic devices [--json]\n"
	"\n"
	"Lists the RDMA devices as a program run with `urnic run` sees them: one per network interface\n"
	"that is up and has an address. For each its name, interface, state, the MTU of the interface,\n"
	"the largest RDMA path MTU that fits it, the GUID, and the GIDs with their indices (what\n"
	"perftest calls -x).\n"
	"\n"
	"  --json    the same for programs\n"
	"\n"
	"URNIC_INTERFACES and URNIC_DEVICE_NAME choose and name devices; docs/environment.md.\n"
	"\n"
	"The exit status is 1 if there is no device.\n";

static const char *state_of(const struct device_facts *device)
{
	return device->is_active ? "active" : "down";
}

static void print_device(const struct device_facts *device)
{
	char text[ADDRESS_TEXT_BYTES];

	printf("%-16s %-16s %-7s %6u %6u  %s\n", device->name, device->interface, state_of(device),
		device->interface_mtu_bytes, device->active_mtu_bytes, device->guid);
	for (uint32_t i = 0; i < device->gid_count; i++)
		printf("    GID %u  %s\n", device->gids[i].index,
			gid_to_text(&device->gids[i].gid, device->ifindex, text));
}

static void print_table(const struct device_facts *devices, uint32_t count)
{
	printf("%-16s %-16s %-7s %6s %6s  %s\n", "device", "interface", "state", "MTU", "active",
		"GUID");
	for (uint32_t i = 0; i < count; i++)
		print_device(&devices[i]);
}

static void json_add_device(cJSON *list, const struct device_facts *device)
{
	cJSON *object = json_append_object(list);
	cJSON *gids;

	cJSON_AddStringToObject(object, "name", device->name);
	cJSON_AddStringToObject(object, "interface", device->interface);
	json_add_count(object, "ifindex", device->ifindex);
	cJSON_AddStringToObject(object, "guid", device->guid);
	cJSON_AddStringToObject(object, "state", state_of(device));
	json_add_count(object, "interface_mtu_bytes", device->interface_mtu_bytes);
	json_add_count(object, "active_mtu_bytes", device->active_mtu_bytes);
	gids = cJSON_AddArrayToObject(object, "gids");
	for (uint32_t i = 0; i < device->gid_count; i++) {
		cJSON *gid = json_append_object(gids);

		json_add_count(gid, "index", device->gids[i].index);
		json_add_gid(gid, "gid", &device->gids[i].gid);
	}
}

static int print_json(const struct device_facts *devices, uint32_t count)
{
	cJSON *root = cJSON_CreateObject();
	cJSON *list = cJSON_AddArrayToObject(root, "devices");

	for (uint32_t i = 0; i < count; i++)
		json_add_device(list, &devices[i]);
	return json_print(root);
}

/* Print why there is no device. */
static void complain_about_none(void)
{
	/* If URNIC_INTERFACES matches no interface, the library has logged that. */
	if (!setting_text("URNIC_INTERFACES"))
		complain("devices: no network interface is up and has an address");
}

int command_devices(int argc, char **argv)
{
	int is_json = argc == 2 && strcmp(argv[1], "--json") == 0;
	struct device_facts *devices;
	uint32_t count;
	int result;

	if (argc > 1 && !is_json) {
		fputs(command_devices_help, stderr);
		return EXIT_USAGE;
	}
	result = device_facts_create(&devices, &count);
	if (result < 0) {
		complain("devices: cannot list the network interfaces: %s", strerror(-result));
		return EXIT_FAILED;
	}
	device_facts_make_printable(devices, count);
	if (is_json)
		result = print_json(devices, count);
	else if (count > 0)
		print_table(devices, count);
	if (count == 0)
		complain_about_none();
	free(devices);
	return count == 0 || result < 0 ? EXIT_FAILED : EXIT_OK;
}
