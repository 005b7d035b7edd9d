/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of urnicd, of interfaces and devices, and of UDP port 4791 of each address. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent_client.h"
#include "common/device_facts.h"
#include "doctor/checks.h"
#include "doctor/traffic.h"
#include "doctor/trial.h"
#include "netdev/netdev.h"
#include "os/setting.h"
#include "port/address.h"
#include "port/socket.h"
#include "urnicd/port_holder.h"
#include "wire/roce.h"

/* --- urnicd --- */

/* The urnicd that programs here would use. */
struct urnicd {
	bool is_broken; /* it does not answer, or does not start */
	bool is_running;
	uint32_t uid;
};

/* The name of the user `uid`, or its number as text if it has no name. */
static const char *user_text(uint32_t uid, char text[32])
{
	const struct passwd *user = getpwuid(uid);

	if (user)
		snprintf(text, 32, "%s", user->pw_name);
	else
		snprintf(text, 32, "%u", uid);
	return text;
}

static void urnicd_describe(struct findings *findings, const struct agent_client *client)
{
	struct ucred peer = {.uid = 0};
	socklen_t bytes = sizeof(peer);
	char link[32], path[256] = "", user[32];
	ssize_t path_bytes;

	getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
	snprintf(link, sizeof(link), "/proc/%u/exe", client->agent_pid);
	path_bytes = readlink(link, path, sizeof(path) - 1);
	path[path_bytes > 0 ? path_bytes : 0] = '\0';
	finding_add(findings, "urnicd", NULL, FINDING_OK,
		"runs as process %u of user %s, protocol %d%s%s", client->agent_pid,
		user_text(peer.uid, user), AGENT_VERSION, path[0] ? ", from " : "", path);
}

/* A trial: start urnicd, as a program's first queue pair does. */
static int urnicd_start(void *unused)
{
	struct agent_client client;
	int result = agent_client_connect(&client);

	(void)unused;
	if (result < 0)
		fputs(client.why, stderr);
	else
		agent_client_done(&client);
	return result;
}

static struct urnicd check_urnicd(struct findings *findings)
{
	struct urnicd urnicd = {.is_running = false};
	struct agent_client client;
	struct ucred peer = {.uid = 0};
	socklen_t bytes = sizeof(peer);
	struct trial trial;
	int result = agent_client_connect_running(&client);

	if (result == 0) {
		urnicd_describe(findings, &client);
		getsockopt(client.fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
		urnicd = (struct urnicd){.is_running = true, .uid = peer.uid};
		agent_client_done(&client);
		return urnicd;
	}
	if (result != -ECONNREFUSED) {
		finding_add(findings, "urnicd", NULL, FINDING_FAILS, "%s", client.why);
		urnicd.is_broken = true;
		return urnicd;
	}
	trial = trial_run(urnicd_start, NULL);
	urnicd.is_broken = trial.result < 0;
	if (trial.result == 0)
		finding_add(findings, "urnicd", NULL, FINDING_OK,
			"did not run, and starts when a program needs it");
	else
		finding_add(findings, "urnicd", NULL, FINDING_FAILS, "does not start: %s",
			trial.said[0] ? trial.said : trial_reason(&trial));
	/* The urnicd of the trial counts as not running: it has no socket, and ends when idle. */
	return urnicd;
}

/* --- interfaces and devices --- */

/*
 * Add a finding that says why an interface without a device has none. Returns false if the
 * interface should have a device, which therefore cannot be opened.
 */
static bool interface_describe(struct findings *findings, const struct netdev *netdev)
{
	const char *patterns = setting_text("URNIC_INTERFACES");
	const char *why = NULL;

	if (!netdev->is_up)
		why = "it is down (ip link set up)";
	else if (netdev->gid_count == 0)
		why = "it has no address (ip address add)";
	else if (patterns)
		why = "URNIC_INTERFACES selects others";
	else if (netdev->is_loopback)
		why = "another interface has an address; URNIC_INTERFACES='*,lo' adds it";
	finding_add(findings, "interface", netdev->name, why ? FINDING_NOTE : FINDING_FAILS,
		"MTU %u, no device: %s", netdev->mtu_bytes, why ? why : "it cannot be opened");
	return why;
}

static void device_describe(struct findings *findings, const struct device_facts *device)
{
	char address[ADDRESS_TEXT_BYTES] = "no address";

	if (device->gid_count > 0)
		gid_to_text(&device->gids[0].gid, device->ifindex, address);
	if (device->is_active)
		finding_add(findings, "device", device->name, FINDING_OK,
			"on %s, %s, MTU %u, RDMA path MTU %u", device->interface, address,
			device->interface_mtu_bytes, device->active_mtu_bytes);
	else
		finding_add(findings, "device", device->name, FINDING_LIMITED,
			"on %s, %s: its link is down (cable, or `ip link set %s up`)",
			device->interface, address, device->interface);
}

static void check_devices(
	struct findings *findings, const struct device_facts *devices, uint32_t count)
{
	struct netdev_list *list;
	int result = netdev_list_create(&list);
	bool is_explained = true;

	if (result < 0) {
		finding_add(findings, "device", NULL, FINDING_FAILS,
			"the network interfaces cannot be listed: %s", strerror(-result));
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		device_describe(findings, &devices[i]);
	for (uint32_t i = 0; i < list->count; i++)
		if (!device_facts_find(devices, count, list->devices[i].ifindex))
			is_explained =
				interface_describe(findings, &list->devices[i]) && is_explained;
	free(list);
	if (count == 0 && is_explained)
		finding_add(findings, "device", NULL, FINDING_FAILS,
			"there is none: set an interface up, give it an address, or let "
			"URNIC_INTERFACES select it");
}

/* --- the port --- */

/* Bind a socket to UDP port 4791 of the address, and close it. Returns 0 or -errno. */
static int port_try(const struct agent_address *address)
{
	union socket_address bound;
	socklen_t bytes =
		socket_address_make(&bound, &address->gid, address->scope_ifindex, ROCE_UDP_PORT);
	int fd = socket_open(bound.base.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int result;

	if (fd < 0)
		return -errno;
	result = bind(fd, &bound.base, bytes) < 0 ? -errno : 0;
	close(fd);
	return result;
}

static void check_port(
	struct findings *findings, const struct agent_address *address, const struct urnicd *urnicd)
{
	char text[ADDRESS_TEXT_BYTES], why[256], user[32];
	int result = port_try(address);
	struct port_holder holder;

	gid_to_text(&address->gid, address->scope_ifindex, text);
	if (result == 0) {
		finding_add(findings, "port", text, FINDING_OK, "UDP port 4791 is free");
		return;
	}
	if (result != -EADDRINUSE) {
		finding_add(findings, "port", text, FINDING_FAILS,
			"UDP port 4791 cannot be bound: %s", strerror(-result));
		return;
	}
	if (urnicd->is_running && port_holder_find(address, &holder) && holder.uid == urnicd->uid) {
		finding_add(findings, "port", text, FINDING_OK,
			"UDP port 4791 belongs to urnicd of user %s", user_text(holder.uid, user));
		return;
	}
	port_holder_describe(address, why, sizeof(why));
	finding_add(findings, "port", text, FINDING_FAILS, "%s", why);
}

static void check_ports(struct findings *findings, const struct device_facts *devices,
	uint32_t count, const struct urnicd *urnicd)
{
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t j = 0; j < devices[i].gid_count && !devices[i].is_iwarp; j++) {
			const struct agent_address address =
				agent_address_of(&devices[i].gids[j].gid, devices[i].ifindex);

			check_port(findings, &address, urnicd);
		}
	}
}

void check_network(struct findings *findings)
{
	struct urnicd urnicd = check_urnicd(findings);
	struct device_facts *devices;
	uint32_t count;
	int result = device_facts_create(&devices, &count);

	if (result < 0) {
		finding_add(findings, "device", NULL, FINDING_FAILS,
			"the devices cannot be listed: %s", strerror(-result));
		return;
	}
	check_devices(findings, devices, count);
	/* If urnicd does not answer, its ports look like those of a foreign program. */
	if (!urnicd.is_broken)
		check_ports(findings, devices, count, &urnicd);
	for (uint32_t i = 0; i < count; i++)
		if (devices[i].is_active)
			check_traffic(findings, devices[i].name);
	free(devices);
}
