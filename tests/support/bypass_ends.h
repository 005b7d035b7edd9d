/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_BYPASS_ENDS_H
#define URNIC_TESTS_SUPPORT_BYPASS_ENDS_H

/*
 * Two ends on a veth pair between namespaces of their own, each with and without the bypass of the
 * kernel's UDP. main() calls bypass_begin().
 */
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "netdev/neighbour.h"
#include "port/udp/udp.h"
#include "support/netns.h"
#include "support/udp_ends.h"
#include "wire/bytes.h"
#include "wire/opcode.h"
#include "wire/roce.h"

enum {
	SLOT = 1,
	SLOT_OFFSET = 5,
	TAG_OFFSET = 8,
	SHORT = 64,
	MEDIUM = 1200,
	LONG = 4096 + 16,
	MTU = 9000,
	WAIT_MS = 60000,
	FRAMES_PER_CALL = 32, /* that port_udp_receive() takes from a ring */
	TRUST_MS =
		40, /* a little less than the port trusts the address of a neighbour it has heard */
	CONFIRM_US = 1100000, /* after which a confirmed address is looked up again */
	LOOKUP_US = 120000, /* a little more than the pause between lookups of one neighbour */
	SILENCE_US = 80000, /* after which a neighbour's address is no longer trusted */
};

static struct end {
	int netns;
	struct port_udp *port;
	struct port_udp_counters counters;
	struct gid gid;
	const char *interface;
	uint32_t path; /* to the other */
	uint32_t received;
	uint8_t tos;
	uint8_t hop_limit;
	bool is_wrong;
	bool takes_nothing; /* as if no queue pair wanted what comes */
	uint32_t lookup_count;
} a = {.netns = -1, .interface = "va"}, b = {.netns = -1, .interface = "vb"};

/* How the ends bypass UDP. */
static enum { WAY_PACKET, WAY_XDP, WAY_XDP_GENERIC } way;

static int home;
static bool a_has_link;
static bool are_answered = true; /* lookups of neighbours */

static inline void on_lookup(void *context)
{
	struct end *end = context;

	end->lookup_count++;
}

/* What a thread of the NIC does. */
static inline void lookups_execute(struct end *end)
{
	struct port_udp_lookup lookup;
	uint8_t mac[NEIGHBOUR_MAC_BYTES];

	netns_switch(end->netns);
	while (are_answered && port_udp_next_lookup(end->port, &lookup)) {
		bool is_known = neighbour_mac(&lookup.local, &lookup.remote, lookup.ifindex, mac);

		port_udp_lookup_done(end->port, &lookup, is_known ? mac : NULL);
	}
}

/* Bypass UDP in the way that the test has chosen. Returns 0 or -errno. */
static inline int end_use_link(struct end *end)
{
	uint32_t ifindex = if_nametoindex(end->interface);

	if (way == WAY_PACKET)
		return port_udp_use_bypass(end->port, 0, ifindex);
	return port_udp_use_xdp(end->port, 0, ifindex, way == WAY_XDP_GENERIC);
}

static inline void end_open(struct end *end, const char *address, bool has_link)
{
	netns_switch(end->netns);
	memset(&end->counters, 0, sizeof(end->counters));
	end->received = 0;
	end->is_wrong = false;
	end->takes_nothing = false;
	end->lookup_count = 0;
	end->gid = udp_gid(address);
	assert_int_equal(port_udp_create(SLOT, &end->counters, &end->port), 0);
	assert_int_equal(port_udp_add_address(end->port, &end->gid, 0,
				 udp_bound_socket(&end->gid, ROCE_UDP_PORT)),
		0);
	port_udp_on_lookup(end->port, on_lookup, end);
	if (has_link)
		assert_int_equal(end_use_link(end), 0);
}

static inline uint32_t path_to(
	struct end *from, const struct end *to, uint8_t dscp, uint8_t hop_limit)
{
	const struct port_udp_path settings = {
		.destination_slot = SLOT,
		.dscp = dscp,
		.hop_limit = hop_limit,
		.flow_label = 0x12345,
		.remote = to->gid,
	};
	uint32_t path;

	netns_switch(from->netns);
	assert_int_equal(port_udp_path_open(from->port, &settings, &path), 0);
	return path;
}

/* Until the kernel knows where the other is. */
static inline void acquaint(const struct end *from, const struct end *to)
{
	uint32_t ifindex;
	uint8_t mac[NEIGHBOUR_MAC_BYTES];

	netns_switch(from->netns);
	ifindex = if_nametoindex(from->interface);
	for (int i = 0; i < 10000 && !neighbour_mac(&from->gid, &to->gid, ifindex, mac); i++) {
		neighbour_look(&from->gid, &to->gid, ifindex);
		usleep(1000);
	}
}

static inline void ends_open(bool is_ipv4, bool has_a_link, bool has_b_link)
{
	a_has_link = has_a_link;
	end_open(&a, is_ipv4 ? "10.99.0.1" : "fd00:99::1", has_a_link);
	end_open(&b, is_ipv4 ? "10.99.0.2" : "fd00:99::2", has_b_link);
	acquaint(&a, &b);
	acquaint(&b, &a);
	a.path = path_to(&a, &b, 0, 0);
	b.path = path_to(&b, &a, 0, 0);
	lookups_execute(&a);
	lookups_execute(&b);
}

static inline int ends_close(void **state)
{
	(void)state;
	port_udp_destroy(a.port);
	port_udp_destroy(b.port);
	a.port = NULL;
	b.port = NULL;
	netns_switch(home);
	return 0;
}

static inline void fill(uint8_t *data, uint32_t bytes, uint32_t tag)
{
	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(tag * 31 + i * 7 + (i >> 8));
	data[0] = OPCODE_UD_SEND_ONLY;
	put_be16(data + 2, 0xffff); /* P_Key */
	data[SLOT_OFFSET] = SLOT;
	memcpy(data + TAG_OFFSET, &tag, sizeof(tag));
}

static inline void stage(struct end *end, uint32_t path, uint32_t bytes, uint32_t tag)
{
	uint32_t capacity;
	uint8_t *buffer = port_udp_buffer(end->port, &capacity);

	assert_true(capacity >= bytes);
	fill(buffer, bytes, tag);
	port_udp_stage(end->port, path, bytes);
}

static inline bool on_packet(void *context, const struct port_udp_packet *packet)
{
	static uint8_t expected[1 << 16];
	struct end *end = context;

	fill(expected, packet->data_bytes, end->received);
	if (memcmp(expected, packet->data, packet->data_bytes) != 0 ||
		!gid_is_equal(packet->dgid, &end->gid))
		end->is_wrong = true;
	end->tos = packet->tos;
	end->hop_limit = packet->hop_limit;
	end->received++;
	return !end->takes_nothing;
}

/* Until `count` packets with the tags 0, 1, 2 ... are there. */
static inline void receive(struct end *end, uint32_t count)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];

	while (end->received < count) {
		if (poll(fds, port_udp_fds(end->port, fds), WAIT_MS) <= 0)
			break;
		port_udp_receive(end->port, on_packet, end);
	}
	assert_int_equal(end->received, count);
	assert_false(end->is_wrong);
	lookups_execute(end);
}

static inline void send_one(struct end *from, uint32_t bytes, uint32_t tag)
{
	stage(from, from->path, bytes, tag);
	assert_int_equal(port_udp_flush(from->port), 0);
}

static inline uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t spoke_ms;

static inline void b_says(uint32_t bytes)
{
	spoke_ms = now_ms();
	send_one(&b, bytes, a.received);
	receive(&a, a.received + 1);
}

/* For a moment `a` knows where `b` is, if it has a link. */
static inline void b_speaks(void)
{
	b_says(SHORT);
}

/* Unless this machine has let the moment pass. */
static inline void assert_sent_frames(uint64_t count)
{
	if (now_ms() - spoke_ms < TRUST_MS)
		assert_int_equal(a.counters.tx_frames, count);
}

/* Is this a kernel and a user that can do it? */
static inline bool can_link(void)
{
	int error;

	netns_switch(a.netns);
	end_open(&a, "10.99.0.1", false);
	error = end_use_link(&a);
	ends_close(NULL);
	if (error)
		printf("skipped: no link to an interface: %s\n", strerror(-error));
	return !error;
}

#define TEST(name) cmocka_unit_test_teardown(name, ends_close)

/* The path's DSCP and hop limit arrive with a frame. */
static inline void assert_path_fields_arrive(void)
{
	ends_open(true, true, true);
	port_udp_report_hops(b.port);
	b_speaks();
	a.path = path_to(&a, &b, 46, 9);
	send_one(&a, SHORT, 0);
	assert_sent_frames(1);
	receive(&b, 1);
	assert_int_equal(b.tos, 46 << 2 | 2);
	assert_int_equal(b.hop_limit, 9);
}

/* Make the namespaces, without interfaces. Returns false if this machine has none. */
static inline bool namespaces_begin(void)
{
	home = netns_enter_new();
	a.netns = netns_enter_new();
	b.netns = netns_enter_new();
	return home >= 0 && a.netns >= 0 && b.netns >= 0;
}

/* Make the namespaces. Returns false if this machine cannot run the tests. */
static inline bool bypass_begin(void)
{
	return namespaces_begin() && !netns_join(a.netns, b.netns, MTU) && can_link();
}

#endif
