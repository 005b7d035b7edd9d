/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Impairments of the packets that a port sends. impair/impair.h decides the fate of each packet.
 * The port sends each packet as a separate datagram through the path's UDP socket: not as a part of
 * a super-packet, and not by the bypass.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/deadline.h"
#include "base/list.h"
#include "impair/impair.h"
#include "os/clock.h"
#include "port/udp/udp_internal.h"
#include "wire/packet_run.h"

enum {
	HELD_COUNT_MAX = 16384,
	/*
	 * While the link of limited rate has a longer backlog than this, staging has to wait, and
	 * so the requester waits.
	 */
	LINK_BACKLOG_NS_MAX = 2000000,
	KERNEL_PAUSE_NS = 50000, /* until the next attempt, when the kernel's queue is full */
	/*
	 * Bytes of a frame besides BTH to pad: Ethernet with preamble, FCS and gap; IPv4; UDP;
	 * ICRC.
	 */
	FRAME_BYTES = 38 + 20 + 8 + ROCE_ICRC_BYTES,
};

/* A packet that waits for its time. */
struct udp_held {
	struct list link;
	uint64_t due_ns;
	struct udp_path *path;
	uint32_t bytes; /* length of the packet with the ICRC */
	uint8_t data[];
};

struct udp_impairments {
	struct impair *impair;
	struct list held; /* struct udp_held, the earliest first */
	uint32_t held_count;
	struct udp_held *aside; /* waits until the next packet has overtaken it; NULL: none */
	uint64_t kernel_ns; /* the time of the next attempt, after the kernel's queue was full */
	/* When the link of limited rate will have sent the last packet. */
	uint64_t backlog_until_ns;
	struct icrc_lengths lengths;
};

/* Count an event in the port's counters and in the process's report. */
#define IMPAIR_COUNT(port, name)                                                                  \
	do {                                                                                      \
		(port)->counters->name++;                                                         \
		atomic_fetch_add_explicit(&(port)->impairments->impair->report->counters.name, 1, \
			memory_order_relaxed);                                                    \
	} while (0)

int port_udp_impair(struct port_udp *port, struct impair *impair)
{
	port->impairments = calloc(1, sizeof(*port->impairments));
	if (!port->impairments)
		return -ENOMEM;
	port->impairments->impair = impair;
	list_init(&port->impairments->held);
	return 0;
}

static void held_drop(struct udp_impairments *impairments, struct udp_held *held)
{
	if (impairments->aside == held)
		impairments->aside = NULL;
	list_remove(&held->link);
	impairments->held_count--;
	held->path->held--;
	free(held);
}

void udp_impair_close(struct port_udp *port)
{
	struct udp_impairments *impairments = port->impairments;

	list_for_each_safe(held, &impairments->held, struct udp_held, link)
		held_drop(impairments, held);
	free(impairments);
	port->impairments = NULL;
}

/* --- staging --- */

/* Insert the packet by its time, behind all packets that have the same time. */
static void held_insert(struct udp_impairments *impairments, struct udp_held *held)
{
	struct list *before = impairments->held.prev;

	while (before != &impairments->held &&
		container_of(before, struct udp_held, link)->due_ns > held->due_ns)
		before = before->prev;
	list_append(before->next, &held->link);
}

/*
 * If a packet waits to be overtaken, `next` overtakes it: make the waiting packet due right behind
 * `next`.
 */
static void aside_end(struct udp_impairments *impairments, const struct udp_held *next)
{
	struct udp_held *aside = impairments->aside;

	if (!aside)
		return;
	impairments->aside = NULL;
	list_remove(&aside->link);
	aside->due_ns = min_u64(aside->due_ns, next->due_ns);
	held_insert(impairments, aside);
}

/* A copy of a packet, with its ICRC. NULL: out of memory. */
static struct udp_held *packet_copy(struct udp_impairments *impairments, struct udp_path *path,
	const uint8_t *own, uint32_t own_bytes, const uint8_t *borrowed, uint32_t borrowed_bytes)
{
	uint32_t bytes = own_bytes + borrowed_bytes;
	struct udp_held *held = malloc(sizeof(*held) + bytes + ROCE_ICRC_BYTES);

	if (!held)
		return NULL;
	*held = (struct udp_held){.path = path, .bytes = bytes + ROCE_ICRC_BYTES};
	list_init(&held->link);
	memcpy(held->data, own, own_bytes);
	if (borrowed)
		memcpy(held->data + own_bytes, borrowed, borrowed_bytes);
	icrc_seal_borrowed(&path->icrc, &impairments->lengths, 0, held->data, bytes, NULL, 0);
	return held;
}

static void packet_hold(struct udp_impairments *impairments, struct udp_held *held,
	uint64_t hold_ns, uint64_t now_ns)
{
	uint64_t link_ns =
		impair_link_reserve(impairments->impair, held->bytes + FRAME_BYTES, now_ns);

	impairments->backlog_until_ns = link_ns;
	held->due_ns = link_ns + hold_ns;
	held_insert(impairments, held);
	impairments->held_count++;
	held->path->held++;
}

static void fate_count(struct port_udp *port, const struct impair_fate *fate)
{
#define FATE_COUNT(word)                                         \
	do {                                                     \
		if (fate->is_##word)                             \
			IMPAIR_COUNT(port, impair_##word);       \
		if (fate->is_##word && fate->is_first)           \
			IMPAIR_COUNT(port, impair_first_##word); \
	} while (0)

	IMPAIR_COUNT(port, impair_packets);
	if (fate->is_first)
		IMPAIR_COUNT(port, impair_first);
	if (fate->is_aimed)
		IMPAIR_COUNT(port, impair_aimed);
	FATE_COUNT(dropped);
	FATE_COUNT(duplicated);
	FATE_COUNT(corrupted);
	FATE_COUNT(reordered);
#undef FATE_COUNT
}

/* Count the kill before sending the signal, because the victim may be this process. */
static void victim_kill(struct impair *impair, enum impair_side victim)
{
	bool is_client = victim == IMPAIR_SIDE_CLIENT;
	uint32_t group = is_client ? impair->plan.client : impair->plan.server;

	if (!group || group > INT32_MAX)
		return;
	atomic_fetch_add(
		is_client ? &impair->report->client_kills : &impair->report->server_kills, 1);
	kill(-(pid_t)group, SIGKILL);
}

static bool icrc_is_good(struct udp_impairments *impairments, const struct udp_held *held)
{
	uint16_t id;

	return icrc_verify_any_id(&held->path->icrc, &impairments->lengths, 0, held->data,
		held->bytes - ROCE_ICRC_BYTES, &id);
}

/*
 * Invert `bit`. If the receiver's ICRC check would not notice that, invert the first later bit
 * whose inversion it notices. The check does not know the IPv4 identification, so it mistakes a few
 * inversions for a different identification.
 */
static void packet_corrupt(struct udp_impairments *impairments, struct udp_held *held, uint32_t bit)
{
	for (;; bit = (bit + 1) % (held->bytes * 8)) {
		uint8_t mask = (uint8_t)(1u << bit % 8);

		held->data[bit / 8] ^= mask;
		if (!icrc_is_good(impairments, held))
			return;
		held->data[bit / 8] ^= mask;
	}
}

/* Impair a packet as `fate` says, and queue it until it is due. */
static void packet_impair(struct port_udp *port, const struct impair_fate *fate,
	struct udp_held *held, uint64_t now_ns)
{
	struct udp_impairments *impairments = port->impairments;
	struct udp_held *twin = NULL;
	bool is_aside;

	if (fate->is_corrupted)
		packet_corrupt(impairments, held, fate->corrupt_bit);
	if (fate->is_duplicated)
		twin = malloc(sizeof(*twin) + held->bytes);
	if (twin) {
		memcpy(twin, held, sizeof(*twin) + held->bytes);
		list_init(&twin->link);
	}
	/* If two consecutive packets are to be reordered, the second one overtakes the first. */
	is_aside = fate->is_reordered && !impairments->aside;
	packet_hold(impairments, held, fate->hold_ns + (is_aside ? IMPAIR_REORDER_NS : 0), now_ns);
	aside_end(impairments, held);
	if (is_aside)
		impairments->aside = held;
	if (twin)
		packet_hold(impairments, twin, fate->hold_ns, now_ns);
}

static void packet_stage(
	struct port_udp *port, struct impair_flow *flow, struct udp_held *held, uint64_t now_ns)
{
	struct udp_impairments *impairments = port->impairments;
	struct impair_fate fate = {.hold_ns = impairments->impair->plan.delay};

	if (flow)
		impair_decide(impairments->impair, flow, held->data, held->bytes - ROCE_ICRC_BYTES,
			&fate);
	fate_count(port, &fate);
	if (fate.is_dropped)
		free(held);
	else
		packet_impair(port, &fate, held, now_ns);
	if (fate.victim != IMPAIR_SIDE_NONE)
		victim_kill(impairments->impair, fate.victim);
}

void udp_impair_stage(
	struct port_udp *port, struct udp_path *path, uint32_t bytes, const struct packet_run *run)
{
	uint32_t own_bytes = bytes - run->borrowed_bytes;
	const uint8_t *own = port->stage, *borrowed = run->borrowed;
	uint64_t now_ns = clock_now_ns();

	for (uint32_t i = 0; i < run->packets; i++) {
		struct udp_held *held = packet_copy(
			port->impairments, path, own, own_bytes, borrowed, run->borrowed_bytes);

		if (held)
			packet_stage(port, run->flow, held, now_ns);
		else
			port->counters->tx_errors++;
		own += own_bytes + ROCE_ICRC_BYTES;
		borrowed = borrowed ? borrowed + run->borrowed_bytes : NULL;
	}
}

/* --- sending --- */

/* Returns 0 or -errno. */
static int packet_send(struct udp_held *held)
{
	struct udp_path *path = held->path;
	struct iovec piece = {held->data, held->bytes};
	struct mmsghdr message = {
		.msg_hdr = {
			.msg_name = &path->remote,
			.msg_namelen = path->remote_bytes,
			.msg_iov = &piece,
			.msg_iovlen = 1,
			.msg_control = path->control_bytes ? &path->control : NULL,
			.msg_controllen = path->control_bytes,
		}};
	int sent;

	do {
		sent = udp_sendmmsg(path->sender->fd, &message, 1);
	} while (sent < 0 && errno == EINTR);
	return sent == 1 ? 0 : -errno;
}

/* Send a packet, or drop it if the kernel refuses it for good. Returns false if it has to wait. */
static bool held_send(struct port_udp *port, struct udp_held *held)
{
	int error = packet_send(held);

	if (error == -EAGAIN || error == -ENOBUFS || error == -ENOMEM)
		return false;
	if (error == -EPERM || error == -EACCES || error == -ENOSYS)
		udp_refused(port, "sendmmsg", -error);
	if (error) {
		(*udp_error_counter(port->counters, -error))++;
	} else {
		port->counters->tx_datagrams++;
		port->counters->tx_packets++;
		port->counters->tx_bytes += held->bytes - ROCE_ICRC_BYTES;
	}
	held_drop(port->impairments, held);
	return true;
}

bool udp_impair_is_full(const struct port_udp *port)
{
	const struct udp_impairments *impairments = port->impairments;

	return impairments->held_count >= HELD_COUNT_MAX ||
		(impairments->held_count &&
			impairments->backlog_until_ns >= clock_now_ns() + LINK_BACKLOG_NS_MAX);
}

int udp_impair_flush(struct port_udp *port)
{
	struct udp_impairments *impairments = port->impairments;
	uint64_t now_ns = clock_now_ns();

	while (!list_is_empty(&impairments->held) && now_ns >= impairments->kernel_ns) {
		struct udp_held *held = list_first(&impairments->held, struct udp_held, link);

		if (held->due_ns > now_ns)
			break;
		if (!held_send(port, held))
			impairments->kernel_ns = now_ns + KERNEL_PAUSE_NS;
	}
	return udp_impair_is_full(port) ? -EAGAIN : 0;
}

uint64_t port_udp_held_until_ns(const struct port_udp *port)
{
	const struct udp_impairments *impairments = port->impairments;

	if (!impairments || list_is_empty(&impairments->held))
		return DEADLINE_NEVER;
	return max_u64(list_first(&impairments->held, struct udp_held, link)->due_ns,
		impairments->kernel_ns);
}

void port_udp_release(struct port_udp *port)
{
	struct udp_impairments *impairments = port->impairments;

	if (!impairments)
		return;
	list_for_each_safe(held, &impairments->held, struct udp_held, link)
		if (!held_send(port, held))
			return;
}

void udp_impair_path_close(struct port_udp *port, struct udp_path *path)
{
	struct udp_impairments *impairments = port->impairments;

	list_for_each_safe(held, &impairments->held, struct udp_held, link) {
		if (!path->held)
			return;
		if (held->path == path && !held_send(port, held)) {
			port->counters->tx_path_closed++;
			held_drop(impairments, held);
		}
	}
}
