/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One lock (`device_lock`) guards the table and the changing parts of a device. With it locked, a
 * thread takes no other lock. A thread locks `refresh_lock` before it takes a snapshot, and unlocks
 * `refresh_lock` after it has posted the events. So an older snapshot never replaces a newer one. A
 * thread takes refresh_lock before device_lock or context_lock.
 */
#include "front/verbs/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "front/verbs/context.h"
#include "front/verbs/device_ib.h"
#include "front/verbs/fork.h"
#include "front/verbs/result.h"
#include "front/verbs/select.h"
#include "netdev/netdev_change.h"
#include "nic/nic_fabric.h"
#include "nic/object/nic.h"
#include "os/log.h"
#include "os/setting.h"
#include "port/address.h"

/*
 * The bytes of a packet besides its payload: IPv6, UDP, BTH, the longest extended headers of a
 * packet with payload (RETH and immediate data), and the ICRC.
 */
#define HEADER_BYTES_MAX (40 + 8 + 12 + 16 + 4 + 4)

pthread_mutex_t refresh_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static struct device *device_table[DEVICE_COUNT_MAX];
static uint32_t table_count;
/* The devices of the last snapshot, in the order in which programs get them. */
static struct device *present_devices[DEVICE_COUNT_MAX];
static uint32_t present_count;

/*
 * Make a hardware address for an interface without one: FNV-1a of the names of the host and the
 * interface. The address is the same each time, most likely unique among hosts, and in the range of
 * locally administered addresses.
 */
static void mac_invent(const char *ifname, uint8_t mac[6])
{
	char text[256 + NETDEV_NAME_BYTES] = "";
	uint64_t hash = 0xcbf29ce484222325;
	size_t bytes;

	gethostname(text, 256);
	bytes = strnlen(text, 256);
	bytes += (size_t)snprintf(text + bytes, sizeof(text) - bytes, "%s", ifname);
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3;
	memcpy(mac, &hash, 6);
	mac[0] = 0x02;
}

static const struct {
	const char *name; /* the transport's word in URNIC_TRANSPORTS */
	const char *prefix; /* the names of this transport's devices begin with this prefix */
	enum ibv_node_type node_type;
	enum ibv_transport_type verbs;
} transports[DEVICE_TRANSPORT_COUNT] = {
	[DEVICE_ROCE] = {"roce", "rocep", IBV_NODE_CA, IBV_TRANSPORT_IB},
	[DEVICE_IWARP] = {"iwarp", "iwp", IBV_NODE_RNIC, IBV_TRANSPORT_IWARP},
};

/*
 * A modified EUI-64 of the hardware address, as the kernel's RDMA drivers make it (RFC 4291
 * appendix A). The RoCE and the iWARP device of an interface get different GUIDs.
 */
static __be64 guid_from_netdev(const struct netdev *netdev, enum device_transport transport)
{
	static const uint8_t none[6];
	uint8_t mac[6];
	uint8_t guid[8];
	__be64 value;

	memcpy(mac, netdev->mac, 6);
	if (memcmp(mac, none, 6) == 0)
		mac_invent(netdev->name, mac);
	memcpy(guid, mac, 3);
	guid[0] ^= 0x02;
	guid[3] = 0xff;
	guid[4] = (uint8_t)(0xfe - transport);
	memcpy(guid + 5, mac + 3, 3);
	memcpy(&value, guid, 8);
	return value;
}

static bool is_name_taken(const char *name)
{
	for (uint32_t i = 0; i < table_count; i++)
		if (!device_table[i]->is_gone && strcmp(device_table[i]->verbs.name, name) == 0)
			return true;
	return false;
}

static struct device *device_find(
	const struct netdev *netdev, uint64_t netns_cookie, enum device_transport transport)
{
	for (uint32_t i = 0; i < table_count; i++)
		if (!device_table[i]->is_gone && device_table[i]->netns_cookie == netns_cookie &&
			device_table[i]->transport == transport &&
			device_table[i]->ifindex == netdev->ifindex &&
			strcmp(device_table[i]->ifname, netdev->name) == 0)
			return device_table[i];
	return NULL;
}

struct device *device_insert(const struct device *like, const char *name)
{
	struct device *device;
	struct ibv_device *verbs;

	if (table_count == DEVICE_COUNT_MAX)
		return NULL;
	device = calloc(1, sizeof(*device));
	if (!device)
		return log_refusal("an interface has no device", "calloc"), NULL;
	*device = *like;
	device->index = table_count;
	verbs = &device->verbs;
	snprintf(verbs->name, sizeof(verbs->name), "%s", name);
	snprintf(verbs->dev_name, sizeof(verbs->dev_name), "uverbs%u", device->index);
	snprintf(verbs->dev_path, sizeof(verbs->dev_path), "/sys/class/infiniband_verbs/%s",
		verbs->dev_name);
	snprintf(verbs->ibdev_path, sizeof(verbs->ibdev_path), "/sys/class/infiniband/%s",
		verbs->name);
	device_table[table_count++] = device;
	return device;
}

void device_present_only(struct device *device)
{
	present_devices[0] = device;
	present_count = 1;
}

static struct device *device_add(const struct netdev *netdev, uint64_t netns_cookie,
	enum device_transport transport, const char *name)
{
	struct device like = {
		.transport = transport,
		.guid = guid_from_netdev(netdev, transport),
		.ifindex = netdev->ifindex,
		.netns_cookie = netns_cookie,
		.port_count = 1,
	};
	char unique[IBV_SYSFS_NAME_MAX];

	memcpy(like.ifname, netdev->name, sizeof(like.ifname));
	like.verbs.node_type = transports[transport].node_type;
	like.verbs.transport_type = transports[transport].verbs;
	if (!is_name_taken(name))
		return device_insert(&like, name);
	snprintf(unique, sizeof(unique), "%s%u_%s", transports[transport].prefix, table_count,
		like.ifname);
	return device_insert(&like, unique);
}

/* Update the device from the interface. Returns its events, bits of enum context_event_bit. */
static uint32_t device_update(struct device *device, const struct netdev *netdev)
{
	bool is_active = netdev->is_up && netdev->has_carrier;
	uint32_t events = 0;

	if (is_active != device->is_active)
		events |= is_active ? CONTEXT_PORT_ACTIVE : CONTEXT_PORT_ERR;
	if (gid_table_update(&device->gids, netdev->gids, netdev->gid_count))
		events |= CONTEXT_GID_CHANGE;
	device->is_active = is_active;
	device->mtu_bytes = netdev->mtu_bytes;
	return events;
}

/* Does the device's interface still exist, perhaps under another name? */
static bool is_listed(const struct netdev_list *list, const struct device *device)
{
	if (!list->is_complete || list->netns_cookie != device->netns_cookie)
		return true;
	for (uint32_t i = 0; i < list->count; i++)
		if (list->devices[i].ifindex == device->ifindex)
			return true;
	return false;
}

/* Can an interface besides loopback reach other hosts now? */
static bool has_network(const struct netdev_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (!list->devices[i].is_loopback && list->devices[i].has_carrier &&
			netdev_is_usable(&list->devices[i]))
			return true;
	return false;
}

/*
 * Programs assume that devices of one subnet on two hosts are connected, and 127.0.0.0/8 is the
 * same subnet on every host. So the loopback interface gets a device only on a host without a
 * network, or if the environment names it. Once this process has such a device, the device stays.
 */
static bool is_loopback_wanted(const struct netdev_list *list, const struct netdev *loopback)
{
	if (!has_network(list))
		return true;
	if (select_is_named(setting_text("URNIC_INTERFACES"), setting_text("URNIC_DEVICE_NAME"),
		    loopback->name))
		return true;
	for (int i = 0; i < DEVICE_TRANSPORT_COUNT; i++)
		if (device_find(loopback, list->netns_cookie, (enum device_transport)i))
			return true;
	return false;
}

/*
 * List the wanted interfaces in the order of their devices. Returns their number. device_lock is
 * locked.
 */
static uint32_t netdevs_order(struct netdev_list *list, struct netdev *order[NETDEV_COUNT_MAX])
{
	const char *patterns = setting_text("URNIC_INTERFACES");
	int places[NETDEV_COUNT_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		int place = select_place(patterns, list->devices[i].name);
		uint32_t at = count;

		if (place < 0 ||
			(list->devices[i].is_loopback &&
				!is_loopback_wanted(list, &list->devices[i])))
			continue;
		for (; at > 0 && places[at - 1] > place; at--) {
			places[at] = places[at - 1];
			order[at] = order[at - 1];
		}
		places[at] = place;
		order[at] = &list->devices[i];
		count++;
	}
	return count;
}

/* If a new device did not get its name in URNIC_DEVICE_NAME, log why. device_lock is locked. */
static void name_check(
	const struct device *device, bool is_good, const char *name, const char *names)
{
	if (!device || !names)
		return;
	if (!is_good)
		log_write(LOG_ERROR,
			"URNIC_DEVICE_NAME is '%.100s'; a name may have letters, digits and _-.: and at most %d of them; the device on %s is %s",
			names, IBV_SYSFS_NAME_MAX - 1, device->ifname, device->verbs.name);
	else if (strcmp(device->verbs.name, name) != 0)
		log_write(LOG_ERROR,
			"URNIC_DEVICE_NAME is '%.100s'; there is a device %s already; the one on %s is %s",
			names, name, device->ifname, device->verbs.name);
}

/*
 * Make or update a device of this transport for each wanted interface. device_lock is locked.
 */
static void transport_update(const struct netdev_list *list, struct netdev *const *order,
	uint32_t count, enum device_transport transport, const char *names, uint32_t *events)
{
	unsigned int unnamed = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct device *device = device_find(order[i], list->netns_cookie, transport);
		char name[IBV_SYSFS_NAME_MAX];

		if (netdev_is_usable(order[i])) {
			bool is_good = select_name(names, transports[transport].prefix,
				order[i]->name, &unnamed, name, sizeof(name));

			if (!device) {
				device = device_add(order[i], list->netns_cookie, transport, name);
				name_check(device, is_good, name, names);
			}
			if (!device || present_count == DEVICE_COUNT_MAX)
				continue;
			present_devices[present_count++] = device;
		}
		if (device)
			events[device->index] |= device_update(device, order[i]);
	}
}

/*
 * The value of URNIC_TRANSPORTS. NULL: the default applies. It also applies if the value has a
 * mistake, which is logged once. device_lock is locked.
 */
static const char *transports_choose(void)
{
	static bool is_logged;
	const char *list = setting_text("URNIC_TRANSPORTS");
	int known = 0;

	for (int i = 0; list && i < DEVICE_TRANSPORT_COUNT; i++)
		known += select_transport_place(list, transports[i].name) >= 0;
	if (!list || select_count(list) == known)
		return list;
	if (!is_logged)
		log_write(LOG_ERROR,
			"URNIC_TRANSPORTS is '%.40s'; it may be roce, iwarp, or both with a comma between them; using roce",
			list);
	is_logged = true;
	return NULL;
}

/* Log once if URNIC_INTERFACES leaves no device. device_lock is locked. */
static void interfaces_check(void)
{
	static bool is_logged;
	const char *patterns = setting_text("URNIC_INTERFACES");

	if (present_count > 0 || !patterns || is_logged)
		return;
	log_write(LOG_ERROR,
		"URNIC_INTERFACES=%.100s (shell patterns, with commas between them) matches no interface that is up and has an address: there is no device",
		patterns);
	is_logged = true;
}

/*
 * Update the table from a snapshot. `events` has an entry for each device, at the device's index.
 * The names in URNIC_DEVICE_NAME apply only to the first transport. device_lock is locked.
 */
static void table_update(const struct netdev_list *list, struct netdev *const *order,
	uint32_t count, uint32_t *events)
{
	const char *wanted = transports_choose();
	const char *names = setting_text("URNIC_DEVICE_NAME");

	present_count = 0;
	for (uint32_t i = 0; i < table_count; i++) {
		if (!device_table[i]->is_gone && !is_listed(list, device_table[i])) {
			device_table[i]->is_gone = true;
			device_table[i]->is_active = false;
			gid_table_update(&device_table[i]->gids, NULL, 0);
			events[i] |= CONTEXT_FATAL;
		}
	}
	for (int place = 0; place < DEVICE_TRANSPORT_COUNT; place++)
		for (int i = 0; i < DEVICE_TRANSPORT_COUNT; i++)
			if (select_transport_place(wanted, transports[i].name) == place)
				transport_update(list, order, count, (enum device_transport)i,
					place == 0 ? names : NULL, events);
	interfaces_check();
}

/* Pass the events to the NIC. */
static void nic_update(struct device *device, uint32_t events)
{
	struct gid gids[GID_TABLE_LENGTH];
	uint32_t count;

	if (events & CONTEXT_FATAL)
		nic_interface_removed(device->ifindex);
	if (events & CONTEXT_GID_CHANGE) {
		count = device_gids(device, gids);
		nic_addresses_changed(device->ifindex, gids, count);
	}
}

/* Take a snapshot and apply it. Returns 0 or -errno. refresh_lock is locked. */
static int snapshot_apply(uint32_t events[DEVICE_COUNT_MAX])
{
	struct netdev *order[NETDEV_COUNT_MAX];
	struct netdev_list *list;
	uint32_t count;
	int error = netdev_list_create(&list);

	if (error)
		return error;
	pthread_mutex_lock(&device_lock);
	count = netdevs_order(list, order);
	table_update(list, order, count, events);
	count = table_count;
	pthread_mutex_unlock(&device_lock);
	for (uint32_t i = 0; i < count; i++)
		if (events[i])
			contexts_post(device_table[i], events[i]);
	free(list);
	return 0;
}

int device_refresh(void)
{
	static bool is_stale = true; /* there is no snapshot yet, or the last attempt failed */
	uint32_t events[DEVICE_COUNT_MAX] = {0};
	int error = 0;

	fork_watch(); /* before the NIC, so that fork() calls these prepare handlers last */
	limits_configure();
	if (nic_fabric_is_wanted())
		return device_ib_refresh();
	pthread_mutex_lock(&refresh_lock);
	if (netdev_has_changes() || is_stale) {
		error = snapshot_apply(events);
		is_stale = error != 0;
	}
	pthread_mutex_unlock(&refresh_lock);
	for (uint32_t i = 0; i < DEVICE_COUNT_MAX; i++)
		if (events[i])
			nic_update(device_table[i], events[i]);
	return error;
}

uint32_t device_list(struct device **devices)
{
	uint32_t count;

	pthread_mutex_lock(&device_lock);
	count = present_count;
	for (uint32_t i = 0; i < count; i++)
		devices[i] = present_devices[i];
	pthread_mutex_unlock(&device_lock);
	return count;
}

struct device *device_lookup(const struct ibv_device *verbs)
{
	struct device *device = NULL;

	pthread_mutex_lock(&device_lock);
	for (uint32_t i = 0; i < table_count && !device; i++)
		if (&device_table[i]->verbs == verbs)
			device = device_table[i];
	pthread_mutex_unlock(&device_lock);
	return device;
}

struct device *device_lookup_path(const char *ibdev_path)
{
	struct device *device = NULL;

	pthread_mutex_lock(&device_lock);
	for (uint32_t i = 0; i < table_count && !device; i++)
		if (!device_table[i]->is_gone &&
			strcmp(device_table[i]->verbs.ibdev_path, ibdev_path) == 0)
			device = device_table[i];
	pthread_mutex_unlock(&device_lock);
	return device;
}

static const char *transport_name(const struct device *device)
{
	return device_is_ib(device) ? "InfiniBand" : device_is_iwarp(device) ? "iWARP" : "RoCE";
}

void device_announce(struct device *device)
{
	char address[ADDRESS_TEXT_BYTES] = "no address";
	struct device_port port;
	struct gid gid;

	if (!log_is_on(LOG_INFO) || atomic_exchange(&device->is_announced, true))
		return;
	port = device_port(device);
	if (device_gid(device, 0, &gid))
		gid_to_text(&gid, device->ifindex, address);
	log_write(LOG_INFO, "device %s is used: %s on %s, %s, MTU %u, RDMA path MTU %u",
		device->verbs.name, transport_name(device), device->ifname, address, port.mtu_bytes,
		128u << device_mtu(&port));
}

bool device_is_gone(struct device *device)
{
	bool is_gone;

	pthread_mutex_lock(&device_lock);
	is_gone = device->is_gone;
	pthread_mutex_unlock(&device_lock);
	return is_gone;
}

struct device_port device_port(struct device *device)
{
	struct device_port port;

	pthread_mutex_lock(&device_lock);
	port.is_active = device->is_active;
	port.gid_count = device->gids.count;
	port.mtu_bytes = device->mtu_bytes;
	if (device_is_ib(device))
		port.mtu_bytes = device_ib_mtu_bytes(&device->ib_ports[0]) + HEADER_BYTES_MAX;
	pthread_mutex_unlock(&device_lock);
	return port;
}

enum ibv_mtu device_mtu(const struct device_port *port)
{
	for (int mtu = IBV_MTU_4096; mtu > IBV_MTU_256; mtu--)
		if (port->mtu_bytes >= (128u << mtu) + HEADER_BYTES_MAX)
			return (enum ibv_mtu)mtu;
	return IBV_MTU_256;
}

uint32_t device_gids(struct device *device, struct gid gids[GID_TABLE_LENGTH])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < GID_TABLE_LENGTH; i++)
		count += device_gid(device, i, &gids[count]);
	return count;
}

bool device_gid(struct device *device, uint32_t index, struct gid *ret_gid)
{
	return device_port_gid(device, DEVICE_PORT, index, ret_gid);
}

bool device_port_gid(struct device *device, uint32_t port, uint32_t index, struct gid *ret_gid)
{
	const struct gid *gid = NULL;
	bool is_there;

	pthread_mutex_lock(&device_lock);
	if (device_is_ib(device)) {
		is_there = nic_fabric_gid(&device->ib_ports[port - 1], index, ret_gid);
	} else {
		gid = gid_table_at(&device->gids, index);
		is_there = gid != NULL;
		if (gid)
			*ret_gid = *gid;
	}
	pthread_mutex_unlock(&device_lock);
	return is_there;
}

uint8_t device_gid_index(struct device *device, const struct gid *gid)
{
	return device_port_gid_index(device, DEVICE_PORT, gid);
}

uint8_t device_port_gid_index(struct device *device, uint32_t port, const struct gid *gid)
{
	struct gid entry;

	for (uint8_t i = 0; i < GID_TABLE_LENGTH; i++)
		if (device_port_gid(device, port, i, &entry) && gid_is_equal(&entry, gid))
			return i;
	return DEVICE_GID_NONE;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct device *devices[DEVICE_COUNT_MAX];
	struct ibv_device **list;
	uint32_t count;
	int error;

	if (num_devices)
		*num_devices = 0;
	error = device_refresh();
	if (error)
		return result_null("ibv_get_device_list", -error);
	count = device_list(devices);
	list = calloc(count + 1, sizeof(struct ibv_device *));
	if (!list)
		return result_null("ibv_get_device_list", errno);
	for (uint32_t i = 0; i < count; i++)
		list[i] = &devices[i]->verbs;
	if (num_devices)
		*num_devices = (int)count;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	struct device *front = device_lookup(device);

	return front ? front->verbs.name : NULL;
}

/*
 * Return no index. Programs look an index up by RDMA netlink, which knows only devices of the
 * kernel, and UCX prints an error when that fails.
 */
int ibv_get_device_index(struct ibv_device *device)
{
	(void)device;
	return -1;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	struct device *front = device_lookup(device);

	return front ? front->guid : 0;
}
