/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/view_fabric_counters.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/setting.h"
#include "run/view.h"

static struct {
	uint32_t number; /* of the port; 0: none */
	struct attach_counters written; /* what the files contain */
} ports[VIEW_FABRIC_PORTS_MAX];

static int directories[VIEW_FABRIC_PORTS_MAX];
static uint32_t port_count;

/* Linux has one name with capitals. */
static const char *name_of(const char *name)
{
	return strcmp(name, "vl15_dropped") == 0 ? "VL15_dropped" : name;
}

/* Write a value in place, because a program may keep the file open and read it again. */
static int value_write(int directory, const char *name, uint64_t value)
{
	char text[24];
	int length = snprintf(text, sizeof(text), "%" PRIu64 "\n", value);
	int fd = openat(directory, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	int result = -errno;

	if (fd < 0)
		return result;
	result = pwrite(fd, text, (size_t)length, 0) == length && ftruncate(fd, length) == 0
		? 0
		: -errno;
	close(fd);
	return result;
}

/* Write the counters that have changed. `was`: what the files contain; NULL: there are none yet. */
static int counters_write(
	int directory, const struct attach_counters *now, const struct attach_counters *was)
{
	int result = 0;

#define SUBNET_COUNTER(name, is_of_drops, sentence)          \
	if (result == 0 && (!was || was->name != now->name)) \
		result = value_write(directory, name_of(#name), now->name);
#include "subnet/counter.def"
#undef SUBNET_COUNTER
	return result;
}

int view_fabric_counters_add(int directory, uint32_t number, struct fabric_client *client)
{
	struct attach_counters counters;
	char path[64];
	int result;

	if (port_count == VIEW_FABRIC_PORTS_MAX)
		return 0;
	result = fabric_client_counters(client, number, &counters);
	if (result)
		return result;
	snprintf(path, sizeof(path), "ports/%u/counters", number);
	if (mkdirat(directory, path, 0755) < 0)
		return -errno;
	directories[port_count] = openat(directory, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directories[port_count] < 0)
		return -errno;
	ports[port_count].number = number;
	ports[port_count].written = counters;
	return counters_write(directories[port_count++], &counters, NULL);
}

const int *view_fabric_counters_directories(uint32_t *ret_count)
{
	*ret_count = port_count;
	return directories;
}

bool view_fabric_counters_update(void)
{
	const char *place = setting_text("URNIC_FABRIC");
	char why[ATTACH_TEXT_BYTES];
	struct attach_counters counters;
	struct fabric_client *client;

	if (!port_count || !place || fabric_client_open_node(place, &client, why) < 0)
		return false;
	for (uint32_t i = 0; i < port_count; i++)
		if (fabric_client_counters(client, ports[i].number, &counters) == 0 &&
			counters_write(directories[i], &counters, &ports[i].written) == 0)
			ports[i].written = counters;
	fabric_client_close(client);
	return true;
}
