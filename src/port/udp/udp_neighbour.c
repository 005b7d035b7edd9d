/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Ethernet addresses of next hops, for frames that bypass the kernel's UDP (udp_bypass.c).
 *
 * Any host on the link can send frames with the peer's IP address and its own Ethernet address. So
 * the port trusts no frame. It uses the Ethernet address that the kernel's neighbour table has for
 * the route's next hop. A thread of the NIC looks that address up (struct port_udp_lookup). So
 * packets go where the kernel would send them, and a host that forges frames cannot redirect them.
 *
 * A frame from that address with a packet that a queue pair has accepted shows that the neighbour
 * is alive; the port relies on that for UDP_HEARD_MS. A frame from another Ethernet address causes
 * a new lookup, but at most one in UDP_LOOKUP_MS. Each lookup that finds no address doubles the
 * pause before the next one. The port repeats a lookup after UDP_CONFIRM_MS, and uses no result
 * that is older than UDP_CONFIRMED_MS. The UDP socket sends the packets to a silent or unconfirmed
 * neighbour. It also sends one packet to every neighbour each UDP_ROUTED_MS. The kernel routes that
 * packet, so the port soon follows a changed route.
 */
#include <string.h>
#include <time.h>

#include "base/arith.h"
#include "port/udp/udp_internal.h"
#include "wire/bytes.h"
#include "wire/frame.h"

enum {
	UDP_LOOKUP_MS = 100,
	UDP_LOOKUP_UNKNOWN_MS_MIN = 10,
	UDP_LOOKUP_UNKNOWN_MS_MAX = 1000,
	UDP_CONFIRM_MS = 1000,
};

uint64_t udp_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct udp_neighbour *neighbour_at(
	struct port_udp *port, uint8_t address, const struct gid *gid)
{
	uint32_t hash = get_be32(gid->raw + 12) * 0x9e3779b1u ^ (uint32_t)address << 24;

	return &port->neighbours[(hash >> 24) % UDP_NEIGHBOURS_COUNT];
}

static bool neighbour_is(
	const struct udp_neighbour *neighbour, uint8_t address, const struct gid *gid)
{
	return neighbour->paths > 0 && neighbour->address == address &&
		gid_is_equal(&neighbour->gid, gid);
}

static void neighbour_lookup_request(
	struct port_udp *port, struct udp_neighbour *neighbour, uint64_t now_ms)
{
	if (!port->on_lookup || neighbour->is_lookup_pending || now_ms < neighbour->lookup_from_ms)
		return;
	neighbour->is_lookup_pending = true;
	neighbour->lookup_from_ms = now_ms + neighbour->lookup_pause_ms;
	port->lookup_count++;
	port->on_lookup(port->lookup_context);
}

void udp_neighbour_ref(struct port_udp *port, struct udp_path *path)
{
	uint8_t address = path->settings.address;
	struct udp_neighbour *neighbour = neighbour_at(port, address, &path->settings.remote);

	if (neighbour->paths == 0) {
		port->lookup_count -= neighbour->is_lookup_pending;
		*neighbour = (struct udp_neighbour){
			.address = address,
			.gid = path->settings.remote,
			.routed_ms = udp_now_ms(),
			.lookup_pause_ms = UDP_LOOKUP_UNKNOWN_MS_MIN,
		};
	} else if (!neighbour_is(neighbour, address, &path->settings.remote)) {
		return;
	}
	neighbour->paths++;
	path->neighbour = neighbour;
	/* Request the lookup now: its result usually arrives before the first frame is sent. */
	if (port->receivers[address].bypass && !gid_is_multicast(&neighbour->gid))
		neighbour_lookup_request(port, neighbour, udp_now_ms());
}

void udp_neighbour_unref(struct udp_path *path)
{
	if (path->neighbour)
		path->neighbour->paths--;
}

/* Has a recent lookup found the neighbour's address? */
static bool is_confirmed(const struct udp_neighbour *neighbour, uint64_t now_ms)
{
	return neighbour->confirmed_ms && now_ms - neighbour->confirmed_ms <= UDP_CONFIRMED_MS;
}

void udp_neighbour_heard(
	struct port_udp *port, uint8_t address, const struct gid *gid, const uint8_t *macs)
{
	struct udp_neighbour *neighbour = neighbour_at(port, address, gid);
	const uint8_t *own = macs, *from = macs + FRAME_MAC_BYTES;
	uint64_t now_ms;

	if (!neighbour_is(neighbour, address, gid))
		return;
	now_ms = udp_now_ms();
	if (!is_confirmed(neighbour, now_ms) ||
		memcmp(neighbour->macs, from, FRAME_MAC_BYTES) != 0) {
		neighbour_lookup_request(port, neighbour, now_ms);
		return;
	}
	/* `own` is the interface's address, because filter_ring() takes only PACKET_HOST. */
	memcpy(neighbour->macs + FRAME_MAC_BYTES, own, FRAME_MAC_BYTES);
	neighbour->heard_ms = now_ms;
	if (now_ms - neighbour->confirmed_ms > UDP_CONFIRM_MS)
		neighbour_lookup_request(port, neighbour, now_ms);
}

void port_udp_on_lookup(struct port_udp *port, port_udp_lookup_fn *on_lookup, void *context)
{
	port->on_lookup = on_lookup;
	port->lookup_context = context;
}

bool port_udp_next_lookup(struct port_udp *port, struct port_udp_lookup *ret_lookup)
{
	for (uint32_t i = 0; i < UDP_NEIGHBOURS_COUNT && port->lookup_count; i++) {
		struct udp_neighbour *neighbour = &port->neighbours[i];
		const struct udp_receiver *receiver = &port->receivers[neighbour->address];

		if (!neighbour->is_lookup_pending)
			continue;
		neighbour->is_lookup_pending = false;
		port->lookup_count--;
		if (!neighbour->paths || !receiver->bypass)
			continue;
		*ret_lookup = (struct port_udp_lookup){
			.neighbour = i,
			.ifindex = receiver->bypass->ifindex,
			.local = receiver->gid,
			.remote = neighbour->gid,
		};
		return true;
	}
	return false;
}

void port_udp_lookup_done(
	struct port_udp *port, const struct port_udp_lookup *lookup, const uint8_t *mac)
{
	struct udp_neighbour *neighbour = &port->neighbours[lookup->neighbour];

	if (!neighbour->paths || !gid_is_equal(&neighbour->gid, &lookup->remote) ||
		!gid_is_equal(&port->receivers[neighbour->address].gid, &lookup->local))
		/*
		 * The last path was closed meanwhile, so the entry may belong to another address.
		 */
		return;
	if (!mac || memcmp(neighbour->macs, mac, FRAME_MAC_BYTES) != 0)
		neighbour->heard_ms = 0;
	neighbour->confirmed_ms = mac ? udp_now_ms() : 0;
	neighbour->lookup_pause_ms = mac
		? UDP_LOOKUP_MS
		: min_u32(2 * neighbour->lookup_pause_ms, UDP_LOOKUP_UNKNOWN_MS_MAX);
	if (mac)
		memcpy(neighbour->macs, mac, FRAME_MAC_BYTES);
}
