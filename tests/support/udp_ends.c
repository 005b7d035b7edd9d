/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/udp_ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "port/address.h"
#include "support/netns.h"
#include "wire/roce.h"

enum { SLOT = 1, TAG_OFFSET = 8, VETH_MTU = 1500 };

struct udp_end udp_a, udp_b;
struct udp_received udp_received;

static bool is_content_wrong;
static int home, veth_a, veth_b;

bool udp_ends_enter(void)
{
	home = netns_enter_new();
	if (home < 0)
		return false;
	veth_a = netns_enter_new();
	veth_b = netns_enter_new();
	if (veth_a >= 0 && veth_b >= 0 && netns_join(veth_a, veth_b, VETH_MTU) != 0)
		veth_a = -1;
	netns_switch(home);
	return true;
}

struct gid udp_gid(const char *text)
{
	struct gid gid = {{0}};
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) == 1)
		return gid_from_ipv4(ipv4);
	assert_int_equal(inet_pton(AF_INET6, text, gid.raw), 1);
	return gid;
}

int udp_bound_socket(const struct gid *gid, uint16_t port)
{
	union socket_address address;
	socklen_t bytes = socket_address_make(&address, gid, if_nametoindex("va"), port);
	int fd = socket(address.base.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, &address.base, bytes), 0);
	return fd;
}

static void end_open(struct udp_end *end, const char *address, int netns)
{
	netns_switch(netns);
	memset(end, 0, sizeof(*end));
	end->netns = netns;
	end->gid = udp_gid(address);
	assert_int_equal(port_udp_create(SLOT, &end->counters, &end->port), 0);
	assert_int_equal(port_udp_add_address(end->port, &end->gid, 0,
				 udp_bound_socket(&end->gid, ROCE_UDP_PORT)),
		0);
}

static void ends_open(const char *address_a, int netns_a, const char *address_b, int netns_b)
{
	end_open(&udp_a, address_a, netns_a);
	end_open(&udp_b, address_b, netns_b);
	udp_received.count = 0;
	is_content_wrong = false;
}

void udp_ends_open(const char *address_a, const char *address_b)
{
	ends_open(address_a, home, address_b, home);
}

void udp_ends_open_veth(const char *address_a, const char *address_b)
{
	if (veth_a < 0)
		skip();
	ends_open(address_a, veth_a, address_b, veth_b);
}

int udp_ends_close(void **state)
{
	(void)state;
	port_udp_destroy(udp_a.port);
	port_udp_destroy(udp_b.port);
	udp_a.port = NULL;
	udp_b.port = NULL;
	netns_switch(home);
	return 0;
}

uint32_t udp_path_to(
	struct udp_end *from, const struct udp_end *to, uint8_t dscp, uint8_t hop_limit)
{
	struct port_udp_path settings = {
		.destination_slot = SLOT,
		.dscp = dscp,
		.hop_limit = hop_limit,
		.remote = to->gid,
	};
	uint32_t path;

	netns_switch(from->netns);
	assert_int_equal(port_udp_path_open(from->port, &settings, &path), 0);
	return path;
}

void udp_fill(uint8_t *data, uint32_t bytes, uint32_t tag)
{
	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(tag * 31 + i * 7 + (i >> 8));
	memcpy(data + TAG_OFFSET, &tag, sizeof(tag));
}

void udp_stage(struct udp_end *end, uint32_t path, uint32_t bytes, uint32_t tag)
{
	uint32_t capacity;
	uint8_t *buffer = port_udp_buffer(end->port, &capacity);

	assert_true(capacity >= bytes);
	udp_fill(buffer, bytes, tag);
	port_udp_stage(end->port, path, bytes);
}

void udp_stage_borrowed(struct udp_end *end, uint32_t path, uint32_t bytes, uint32_t from,
	uint32_t tag, uint32_t packets, void *borrowed)
{
	uint8_t packet[UDP_BORROWED_BYTES_MAX];
	uint32_t capacity, borrowed_bytes = bytes - from;
	uint8_t *buffer = port_udp_buffer(end->port, &capacity);

	assert_true(capacity >= packets * (bytes + ROCE_ICRC_BYTES));
	assert_true(bytes <= sizeof(packet) && packets * borrowed_bytes <= UDP_BORROWED_BYTES_MAX);
	memset(buffer, 0xee, bytes);
	for (uint32_t i = 0; i < packets; i++) {
		udp_fill(packet, bytes, tag + i);
		memcpy(buffer + i * (from + ROCE_ICRC_BYTES), packet, from);
		memcpy((uint8_t *)borrowed + i * borrowed_bytes, packet + from, borrowed_bytes);
	}
	port_udp_stage_run(end->port, bytes,
		&(struct packet_run){.packets = packets,
			.path = path,
			.borrowed_bytes = borrowed_bytes,
			.borrowed = borrowed});
}

static bool on_packet(void *context, const struct port_udp_packet *packet)
{
	static uint8_t expected[1 << 16];
	uint32_t tag;

	(void)context;
	memcpy(&tag, packet->data + TAG_OFFSET, sizeof(tag));
	udp_fill(expected, packet->data_bytes, tag);
	if (memcmp(expected, packet->data, packet->data_bytes) != 0 ||
		!gid_is_equal(packet->sgid, &udp_a.gid) ||
		!gid_is_equal(packet->dgid, &udp_b.gid) ||
		packet->source_port < ROCE_SOURCE_PORT_MIN)
		is_content_wrong = true;
	assert_true(udp_received.count < UDP_RECEIVED_MAX);
	udp_received.tos = packet->tos;
	udp_received.tag[udp_received.count] = tag;
	udp_received.bytes[udp_received.count++] = packet->data_bytes;
	return true;
}

int udp_receive_some(void)
{
	return (int)port_udp_receive(udp_b.port, on_packet, NULL);
}

void udp_receive(uint32_t count)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];

	while (udp_received.count < count) {
		if (poll(fds, port_udp_fds(udp_b.port, fds), UDP_WAIT_MS) <= 0)
			break;
		udp_receive_some();
	}
	assert_int_equal(udp_received.count, count);
	assert_false(is_content_wrong);
}

void udp_assert_in_order(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(udp_received.tag[i], i);
}
