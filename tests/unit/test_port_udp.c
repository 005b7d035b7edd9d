/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP port over real sockets, in network namespaces of its own: loopback, and a veth pair with
 * an MTU of 1500. The kernel's refusals are played by a syscall() of our own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arith.h"
#include "port/address.h"
#include "port/udp.h"
#include "support/netns.h"
#include "wire/icrc.h"
#include "wire/roce.h"

enum { BTH = 12, RECEIVED_MAX = 4096, WAIT_MS = 3000 };

/* Two ends: `a` sends to `b`. */
static struct end {
	int netns;
	struct port_udp *port;
	struct port_udp_counters counters;
	struct gid gid;
} a, b;

static uint32_t received_count;
static uint32_t received_bytes[RECEIVED_MAX];
static uint32_t received_tag[RECEIVED_MAX];
static uint8_t received_tos;
static bool is_content_wrong;

static int home; /* the namespace with nothing but loopback */

/* What the kernel is to answer to the next sendmmsg() calls; 0: let it answer itself. */
static int refusal;
static unsigned refusals_left;
static bool is_only_super_refused;

static bool is_refused(const struct mmsghdr *messages)
{
	bool is_super = messages[0].msg_hdr.msg_controllen >= CMSG_SPACE(sizeof(uint16_t));

	return refusals_left > 0 && (is_super || !is_only_super_refused);
}

static unsigned argument_count(long number)
{
	assert_true(number == SYS_sendmmsg || number == SYS_recvmmsg || number == SYS_socket);
	if (number == SYS_socket)
		return 3;
	return number == SYS_sendmmsg ? 4 : 5;
}

/* In place of the C library's, with which the port makes its system calls. */
long syscall(long number, ...)
{
	static long (*real)(long number, ...);
	unsigned count = argument_count(number);
	long arguments[5] = {0};
	va_list list;

	if (!real)
		real = (long (*)(long, ...))(uintptr_t)dlsym(RTLD_NEXT, "syscall");
	va_start(list, number);
	for (unsigned i = 0; i < count; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_sendmmsg && is_refused((const struct mmsghdr *)arguments[1])) {
		refusals_left--;
		errno = refusal;
		return -1;
	}
	return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]);
}

static void refuse(int error, unsigned times, bool only_super)
{
	refusal = error;
	refusals_left = times;
	is_only_super_refused = only_super;
}

static struct gid gid_of(const char *text)
{
	struct gid gid = {{0}};
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) == 1)
		return gid_from_ipv4(ipv4);
	assert_int_equal(inet_pton(AF_INET6, text, gid.raw), 1);
	return gid;
}

/* IPV6_FLOWINFO of linux/in6.h, which does not go together with the C library's headers. */
#define LINUX_IPV6_FLOWINFO 11

static int bound_socket(const struct gid *gid, uint16_t port)
{
	union socket_address address;
	socklen_t bytes = socket_address_make(&address, gid, if_nametoindex("va"), port);
	int fd = socket(address.base.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, &address.base, bytes), 0);
	return fd;
}

static void end_open(struct end *end, const char *address, int netns)
{
	netns_switch(netns);
	memset(end, 0, sizeof(*end));
	end->netns = netns;
	end->gid = gid_of(address);
	assert_int_equal(port_udp_create(1, &end->counters, &end->port), 0);
	assert_int_equal(port_udp_add_address(
				 end->port, &end->gid, 0, bound_socket(&end->gid, ROCE_UDP_PORT)),
		0);
}

static uint32_t path_to(struct end *from, const struct end *to, uint8_t dscp, uint8_t hop_limit)
{
	struct port_udp_path settings = {
		.destination_slot = 1,
		.dscp = dscp,
		.hop_limit = hop_limit,
		.remote = to->gid,
	};
	uint32_t path;

	netns_switch(from->netns);
	assert_int_equal(port_udp_path_open(from->port, &settings, &path), 0);
	return path;
}

static void ends_open(const char *address_a, int netns_a, const char *address_b, int netns_b)
{
	end_open(&a, address_a, netns_a);
	end_open(&b, address_b, netns_b);
	received_count = 0;
	is_content_wrong = false;
	refuse(0, 0, false);
}

static int ends_close(void **state)
{
	(void)state;
	port_udp_destroy(a.port);
	port_udp_destroy(b.port);
	a.port = NULL;
	b.port = NULL;
	netns_switch(home);
	return 0;
}

/* A packet of `bytes` whose content follows from its tag. */
static void fill(uint8_t *data, uint32_t bytes, uint32_t tag)
{
	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(tag * 31 + i * 7 + (i >> 8));
	memcpy(data + 8, &tag, sizeof(tag));
}

static void stage(struct end *end, uint32_t path, uint32_t bytes, uint32_t tag)
{
	uint32_t capacity;
	uint8_t *buffer = port_udp_buffer(end->port, &capacity);

	assert_true(capacity >= bytes);
	fill(buffer, bytes, tag);
	port_udp_stage(end->port, path, bytes);
}

static void on_packet(void *context, const struct port_udp_packet *packet)
{
	static uint8_t expected[1 << 16];
	uint32_t tag;

	(void)context;
	memcpy(&tag, packet->data + 8, sizeof(tag));
	fill(expected, packet->data_bytes, tag);
	if (memcmp(expected, packet->data, packet->data_bytes) != 0 ||
		!gid_is_equal(packet->sgid, &a.gid) || !gid_is_equal(packet->dgid, &b.gid) ||
		packet->source_port < ROCE_SOURCE_PORT_MIN)
		is_content_wrong = true;
	received_tos = packet->tos;
	received_tag[received_count] = tag;
	received_bytes[received_count++] = packet->data_bytes;
}

/* Receive at `b` until `count` packets are there or nothing has come for a while. */
static void receive(uint32_t count)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];

	while (received_count < count) {
		if (poll(fds, port_udp_fds(b.port, fds), WAIT_MS) <= 0)
			break;
		port_udp_receive(b.port, on_packet, NULL);
	}
	assert_int_equal(received_count, count);
	assert_false(is_content_wrong);
}

static void assert_in_order(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(received_tag[i], i);
}

static void exchange_single_and_bundle(uint32_t packet_bytes)
{
	uint32_t path = path_to(&a, &b, 0, 0);

	stage(&a, path, BTH, 0);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(1);
	for (uint32_t i = 1; i <= 40; i++)
		stage(&a, path, i < 40 ? packet_bytes : packet_bytes / 2, i);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(41);
	assert_in_order(41);
	assert_int_equal(received_bytes[39], packet_bytes);
	assert_int_equal(received_bytes[40], packet_bytes / 2);
	assert_int_equal(received_tos, 2);
	assert_int_equal(a.counters.tx_packets, 41);
	assert_true(a.counters.tx_datagrams < 10);
	assert_int_equal(b.counters.rx_packets, 41);
	assert_int_equal(b.counters.rx_bytes, a.counters.tx_bytes);
	assert_int_equal(b.counters.rx_bad_icrc, 0);
	/* Super-packets cross both kinds of interface whole. */
	assert_true(b.counters.rx_datagrams < 10);
}

static void ipv4_loopback_delivers_singles_and_bundles(void **state)
{
	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	exchange_single_and_bundle(4096 + 16);
}

static void ipv6_loopback_delivers_singles_and_bundles(void **state)
{
	(void)state;
	netns_run("ip addr add fd00::1/128 dev lo nodad");
	ends_open("::1", home, "fd00::1", home);
	exchange_single_and_bundle(4096 + 16);
}

static int veth_a = -1, veth_b = -1;

static void veth_open(const char *address_a, const char *address_b)
{
	if (veth_a < 0)
		skip();
	ends_open(address_a, veth_a, address_b, veth_b);
}

static void ipv4_veth_delivers_singles_and_bundles(void **state)
{
	(void)state;
	veth_open("10.99.0.1", "10.99.0.2");
	exchange_single_and_bundle(1024 + 16);
}

static void ipv6_veth_delivers_singles_and_bundles(void **state)
{
	(void)state;
	veth_open("fd00:99::1", "fd00:99::2");
	exchange_single_and_bundle(1024 + 16);
}

static void dscp_and_hop_limit_of_a_path_arrive(void **state)
{
	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	for (uint32_t i = 0; i < 3; i++)
		stage(&a, path_to(&a, &b, 46, 9), 64, i);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(3);
	assert_int_equal(received_tos, 46 << 2 | 2);
}

/* Of the packet that waits at `b`; the port does not look at it. */
static uint32_t arrived_flow_label(void)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];
	uint8_t control[256], data[256];
	struct iovec iov = {data, sizeof(data)};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	uint32_t flow_info = 0;

	assert_int_equal(port_udp_fds(b.port, fds), 1);
	assert_int_equal(poll(fds, 1, 1000), 1);
	assert_true(recvmsg(fds[0].fd, &message, 0) > 0);
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message); cmsg;
		cmsg = CMSG_NXTHDR(&message, cmsg))
		if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == LINUX_IPV6_FLOWINFO)
			memcpy(&flow_info, CMSG_DATA(cmsg), sizeof(flow_info));
	return ntohl(flow_info) & 0xfffff;
}

static void flow_label_of_a_path_arrives(void **state)
{
	struct port_udp_path settings = {.destination_slot = 1};
	static const uint32_t labels[] = {0x12345, 0, 0xfffff};
	struct pollfd fds[PORT_UDP_FDS_MAX];
	const int on = 1;
	uint32_t path;

	(void)state;
	netns_run("ip addr add fd00::1/128 dev lo nodad");
	ends_open("::1", home, "fd00::1", home);
	settings.remote = b.gid;
	assert_int_equal(port_udp_fds(b.port, fds), 1);
	assert_int_equal(
		setsockopt(fds[0].fd, IPPROTO_IPV6, LINUX_IPV6_FLOWINFO, &on, sizeof(on)), 0);
	for (uint32_t i = 0; i < ARRAY_COUNT(labels); i++) {
		settings.flow_label = labels[i];
		assert_int_equal(port_udp_path_open(a.port, &settings, &path), 0);
		stage(&a, path, 64, i);
		assert_int_equal(port_udp_flush(a.port), 0);
		assert_int_equal(arrived_flow_label(), labels[i]);
	}
}

static void paths_interleaved_keep_their_order(void **state)
{
	uint32_t first, second;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	first = path_to(&a, &b, 0, 0);
	second = path_to(&a, &b, 10, 0);
	assert_int_not_equal(first, second);
	for (uint32_t i = 0; i < 300; i++)
		stage(&a, i / 3 % 2 ? first : second, i % 5 ? 256 : 128, i);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(300);
	assert_in_order(300);
}

static void packet_longer_than_the_mtu_is_dropped_and_counted(void **state)
{
	uint32_t path;

	(void)state;
	veth_open("10.99.0.1", "10.99.0.2");
	path = path_to(&a, &b, 0, 0);
	for (uint32_t i = 0; i < 3; i++)
		stage(&a, path, 2000, i);
	stage(&a, path, 64, 0);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(1);
	assert_int_equal(a.counters.tx_segment_refused, 1);
	assert_int_equal(a.counters.tx_too_long, 3);
	assert_int_equal(a.counters.tx_packets, 1);
}

static void refused_segmentation_falls_back_to_singles(void **state)
{
	uint32_t path;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	path = path_to(&a, &b, 0, 0);
	refuse(EIO, 1000, true);
	for (uint32_t i = 0; i < 50; i++)
		stage(&a, path, 1040, i);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(50);
	assert_in_order(50);
	assert_int_equal(a.counters.tx_segment_refused, 1);
	assert_int_equal(a.counters.tx_datagrams, 50);
}

static void full_queue_keeps_the_rest_until_a_later_flush(void **state)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];
	uint32_t capacity;
	uint32_t path;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	path = path_to(&a, &b, 0, 0);
	refuse(EAGAIN, 2, false);
	for (uint32_t i = 0; i < 10; i++)
		stage(&a, path, 1040, i);
	assert_int_equal(port_udp_flush(a.port), -EAGAIN);
	assert_true(port_udp_is_blocked(a.port));
	port_udp_buffer(a.port, &capacity);
	assert_int_equal(capacity, 0);
	assert_int_equal(port_udp_fds(a.port, fds), 2);
	assert_int_equal(fds[1].events, POLLOUT);
	assert_int_equal(port_udp_flush(a.port), -EAGAIN);
	assert_int_equal(a.counters.tx_blocked, 1);
	assert_int_equal(port_udp_flush(a.port), 0);
	assert_false(port_udp_is_blocked(a.port));
	port_udp_buffer(a.port, &capacity);
	assert_true(capacity > 4096);
	assert_int_equal(port_udp_fds(a.port, fds), 1);
	receive(10);
	assert_in_order(10);
}

static uint8_t lent[40][4096];

/* A packet whose bytes from `from` on are not in the port's buffer. */
static void stage_lent(struct end *end, uint32_t path, uint32_t bytes, uint32_t from, uint32_t tag)
{
	uint32_t capacity;
	uint8_t packet[4096], *buffer = port_udp_buffer(end->port, &capacity);

	assert_true(capacity >= bytes);
	fill(packet, bytes, tag);
	memcpy(buffer, packet, from);
	memset(buffer + from, 0xee, bytes - from);
	memcpy(lent[tag], packet + from, bytes - from);
	port_udp_stage_lent(end->port, path, bytes, lent[tag], bytes - from);
}

static void payloads_that_were_lent_arrive(void **state)
{
	static const uint32_t headers[] = {28, 12, 120};
	uint32_t path;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	path = path_to(&a, &b, 0, 0);
	for (uint32_t i = 0; i < 40; i++)
		if (i % 5 == 1)
			stage(&a, path, 2000, i);
		else
			stage_lent(&a, path, i % 7 ? 2000 : 300, headers[i % 3], i);
	assert_int_equal(port_udp_flush(a.port), 0);
	memset(lent, 0, sizeof(lent));
	receive(40);
	assert_in_order(40);
	assert_int_equal(b.counters.rx_bad_icrc, 0);
}

static void payload_that_has_to_wait_is_lent_no_longer(void **state)
{
	uint32_t path;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	path = path_to(&a, &b, 0, 0);
	refuse(EAGAIN, 1, false);
	for (uint32_t i = 0; i < 10; i++)
		stage_lent(&a, path, 1040, 16, i);
	assert_int_equal(port_udp_flush(a.port), -EAGAIN);
	memset(lent, 0, sizeof(lent));
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(10);
	assert_in_order(10);
}

static void path_that_was_closed_takes_nothing_nor_does_its_number(void **state)
{
	uint32_t gone, next;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	gone = path_to(&a, &b, 0, 0);
	port_udp_path_close(a.port, gone);
	next = path_to(&a, &b, 1, 0);
	assert_int_not_equal(next, gone);
	stage(&a, gone, 64, 0);
	assert_int_equal(a.counters.tx_path_closed, 1);
	stage(&a, next, 64, 0);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(1);
}

/* The top byte of the destination number is 31 times the tag, plus 35. */
static void shared_path_makes_super_packets_for_one_slot_only(void **state)
{
	static const uint32_t tags[] = {0, 0, 0, 1, 1, 0};
	struct port_udp_path settings = {.is_shared = true};
	uint32_t path;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	settings.remote = b.gid;
	assert_int_equal(port_udp_path_open(a.port, &settings, &path), 0);
	for (uint32_t i = 0; i < ARRAY_COUNT(tags); i++)
		stage(&a, path, 1040, tags[i]);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(ARRAY_COUNT(tags));
	assert_int_equal(a.counters.tx_datagrams, 3);
}

static void ipv6_packet_without_a_udp_checksum_is_taken(void **state)
{
	const int on = 1;
	uint8_t data[64 + ROCE_ICRC_BYTES];
	union socket_address to;
	struct icrc_flow flow;
	socklen_t to_bytes;
	int fd;

	(void)state;
	veth_open("fd00:99::1", "fd00:99::2");
	netns_switch(a.netns);
	fd = bound_socket(&a.gid, 0xc123);
	assert_int_equal(setsockopt(fd, SOL_UDP, UDP_NO_CHECK6_TX, &on, sizeof(on)), 0);
	fill(data, 64, 0);
	icrc_flow_init(&flow, a.gid.raw, b.gid.raw, 0xc123, ROCE_UDP_PORT);
	icrc_seal(&flow, 0, data, 64);
	to_bytes = socket_address_make(&to, &b.gid, 0, ROCE_UDP_PORT);
	assert_int_equal(sendto(fd, data, sizeof(data), 0, &to.base, to_bytes), sizeof(data));
	receive(1);
	close(fd);
}

static void quiet_address_is_still_served(void **state)
{
	struct gid other = gid_of("127.0.0.3");
	uint32_t path;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	assert_int_equal(
		port_udp_add_address(b.port, &other, 0, bound_socket(&other, ROCE_UDP_PORT)), 1);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(port_udp_receive(b.port, on_packet, NULL), 0);
	b.gid = other;
	path = path_to(&a, &b, 0, 0);
	for (uint32_t i = 0; i < 20; i++) {
		stage(&a, path, 64, i);
		assert_int_equal(port_udp_flush(a.port), 0);
		receive(i + 1);
	}
}

static void address_that_was_removed_makes_room(void **state)
{
	struct gid other = gid_of("127.0.0.3"), third = gid_of("127.0.0.4");
	struct pollfd fds[PORT_UDP_FDS_MAX];
	uint32_t path;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	port_udp_add_address(b.port, &other, 0, bound_socket(&other, ROCE_UDP_PORT));
	b.gid = other;
	stage(&a, path_to(&a, &b, 0, 0), 64, 0);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(1);
	port_udp_remove_address(b.port, 1);
	assert_int_equal(port_udp_fds(b.port, fds), 1);
	assert_int_equal(
		port_udp_add_address(b.port, &third, 0, bound_socket(&third, ROCE_UDP_PORT)), 1);
	b.gid = third;
	path = path_to(&a, &b, 0, 0);
	stage(&a, path, 64, 1);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(2);
}

static void path_closed_while_blocked_loses_its_packets(void **state)
{
	uint32_t stays, goes;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	stays = path_to(&a, &b, 0, 0);
	goes = path_to(&a, &b, 1, 0);
	stage(&a, goes, 64, 7);
	stage(&a, stays, 64, 0);
	refuse(EAGAIN, 2, false);
	assert_int_equal(port_udp_flush(a.port), -EAGAIN);
	port_udp_path_close(a.port, goes);
	assert_int_equal(a.counters.tx_path_closed, 1);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(1);
	assert_in_order(1);
}

static void unreachable_peer_is_counted_and_does_not_stop_others(void **state)
{
	struct end nowhere = {.gid = gid_of("192.0.2.1")};
	uint32_t there, gone;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	gone = path_to(&a, &nowhere, 0, 0);
	there = path_to(&a, &b, 0, 0);
	stage(&a, gone, 64, 5);
	stage(&a, there, 64, 0);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(1);
	assert_int_equal(a.counters.tx_unreachable + a.counters.tx_errors, 1);
}

static void equal_paths_are_shared_and_wrong_ones_refused(void **state)
{
	struct port_udp_path settings = {.remote = gid_of("::2")};
	uint32_t first, path;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	first = path_to(&a, &b, 0, 0);
	assert_int_equal(path_to(&a, &b, 0, 64), first);
	port_udp_path_close(a.port, first);
	stage(&a, first, 64, 0);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(1);
	assert_int_equal(port_udp_path_open(a.port, &settings, &path), -EINVAL);
	settings = (struct port_udp_path){.address = 1, .remote = b.gid};
	assert_int_equal(port_udp_path_open(a.port, &settings, &path), -EINVAL);
	settings = (struct port_udp_path){.dscp = 64, .remote = b.gid};
	assert_int_equal(port_udp_path_open(a.port, &settings, &path), -EINVAL);
}

/* As many as the address handles of three devices, to peers of their own each. */
static void paths_to_many_peers_are_all_there(void **state)
{
	enum { COUNT = 3 * 4096 };
	static uint32_t paths[COUNT];

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	for (uint32_t i = 0; i < COUNT; i++) {
		struct port_udp_path settings = {.is_shared = true};
		uint8_t ipv4[4] = {127, 1, (uint8_t)(i >> 8), (uint8_t)i};

		settings.remote = gid_from_ipv4(ipv4);
		assert_int_equal(port_udp_path_open(a.port, &settings, &paths[i]), 0);
	}
	for (uint32_t i = 0; i < COUNT; i++)
		port_udp_path_close(a.port, paths[i]);
	/* The number of one that is gone is nobody's. */
	stage(&a, path_to(&a, &b, 0, 0), 64, 1);
	stage(&a, paths[COUNT - 1], 64, 2);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(1);
	assert_int_equal(a.counters.tx_path_closed, 1);
}

static void full_stage_offers_no_room(void **state)
{
	uint32_t capacity = 1;
	uint32_t path;
	uint32_t count = 0;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	path = path_to(&a, &b, 0, 0);
	for (;;) {
		port_udp_buffer(a.port, &capacity);
		if (capacity < BTH)
			break;
		stage(&a, path, capacity < 4112 ? capacity & ~3u : 4112, count++);
	}
	assert_true(count >= PORT_UDP_STAGE_BYTES / 4120);
	assert_int_equal(port_udp_flush(a.port), 0);
	port_udp_buffer(a.port, &capacity);
	assert_true(capacity > 4112);
}

/* Send bytes to `b` as they are. */
static void send_raw(const uint8_t *data, size_t bytes)
{
	int fd = bound_socket(&a.gid, 0xc123);
	const int discover = IP_PMTUDISC_DO;
	union socket_address to;
	socklen_t to_bytes = socket_address_make(&to, &b.gid, 0, ROCE_UDP_PORT);

	assert_int_equal(
		setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover)), 0);
	assert_int_equal(sendto(fd, data, bytes, 0, &to.base, to_bytes), bytes);
	close(fd);
}

static void drain(void)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];

	assert_int_equal(poll(fds, port_udp_fds(b.port, fds), WAIT_MS), 1);
	assert_int_equal(port_udp_receive(b.port, on_packet, NULL), 1);
	assert_int_equal(port_udp_receive(b.port, on_packet, NULL), 0);
}

static void bad_packets_are_dropped_and_counted(void **state)
{
	struct icrc_flow flow;
	uint8_t data[256];

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	icrc_flow_init(&flow, a.gid.raw, b.gid.raw, 0xc123, ROCE_UDP_PORT);
	fill(data, 100, 0);
	icrc_seal(&flow, 0, data, 100);
	send_raw(data, 104);
	drain();
	assert_int_equal(received_count, 1);
	data[50] ^= 1;
	send_raw(data, 104);
	drain();
	assert_int_equal(b.counters.rx_bad_icrc, 1);
	send_raw(data, BTH + ROCE_ICRC_BYTES - 1);
	drain();
	send_raw(data, 1);
	drain();
	assert_int_equal(b.counters.rx_short, 2);
	assert_int_equal(received_count, 1);
}

/* An adapter numbers its packets as it likes; an ordinary socket does not show the numbers. */
static void ipv4_ids_of_any_sender_verify(void **state)
{
	static const uint16_t ids[] = {0x1234, 0x1235, 0xffff, 0, 7};
	struct icrc_flow flow;
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);

	(void)state;
	assert_true(fd >= 0);
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	icrc_flow_init(&flow, a.gid.raw, b.gid.raw, 0xc123, ROCE_UDP_PORT);
	for (uint32_t i = 0; i < ARRAY_COUNT(ids); i++) {
		struct sockaddr_in to = {
			.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
		struct iphdr ip = {
			.version = 4,
			.ihl = 5,
			.ttl = 64,
			/* The kernel chooses an id of its own when it is given 0. */
			.id = htons(ids[i]),
			.frag_off = htons(IP_DF),
			.protocol = IPPROTO_UDP,
			.saddr = htonl(0x7f000001),
			.daddr = to.sin_addr.s_addr,
		};
		struct udphdr udp = {.source = htons(0xc123), .dest = htons(ROCE_UDP_PORT)};
		uint8_t data[200];
		uint8_t *payload = data + sizeof(ip) + sizeof(udp);

		udp.len = htons(8 + 104);
		fill(payload, 100, i);
		icrc_seal(&flow, ids[i], payload, 100);
		memcpy(data, &ip, sizeof(ip));
		memcpy(data + sizeof(ip), &udp, sizeof(udp));
		if (ids[i] == 0)
			continue;
		assert_int_equal(sendto(fd, data, 28 + 104, 0, (struct sockaddr *)&to, sizeof(to)),
			28 + 104);
		drain();
	}
	close(fd);
	assert_int_equal(b.counters.rx_bad_icrc, 0);
	assert_int_equal(received_count, ARRAY_COUNT(ids) - 1);
}

static void overflowing_receive_queue_is_counted(void **state)
{
	uint32_t path;

	(void)state;
	ends_open("127.0.0.1", home, "127.0.0.2", home);
	path = path_to(&a, &b, 0, 0);
	for (unsigned round = 0; round < 200; round++) {
		for (uint32_t i = 0; i < 60; i++)
			stage(&a, path, 1024, 0);
		assert_int_equal(port_udp_flush(a.port), 0);
	}
	while (port_udp_receive(b.port, on_packet, NULL) > 0)
		;
	/* The count comes with a packet that was queued after the drop. */
	received_count = 0;
	stage(&a, path, 1024, 0);
	port_udp_flush(a.port);
	receive(1);
	assert_true(b.counters.rx_queue_overflows > 0);
	assert_int_equal(b.counters.rx_bad_icrc, 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ipv4_loopback_delivers_singles_and_bundles),
		TEST(ipv6_loopback_delivers_singles_and_bundles),
		TEST(ipv4_veth_delivers_singles_and_bundles),
		TEST(ipv6_veth_delivers_singles_and_bundles),
		TEST(dscp_and_hop_limit_of_a_path_arrive),
		TEST(flow_label_of_a_path_arrives),
		TEST(paths_interleaved_keep_their_order),
		TEST(packet_longer_than_the_mtu_is_dropped_and_counted),
		TEST(refused_segmentation_falls_back_to_singles),
		TEST(full_queue_keeps_the_rest_until_a_later_flush),
		TEST(payloads_that_were_lent_arrive),
		TEST(payload_that_has_to_wait_is_lent_no_longer),
		TEST(path_that_was_closed_takes_nothing_nor_does_its_number),
		TEST(shared_path_makes_super_packets_for_one_slot_only),
		TEST(ipv6_packet_without_a_udp_checksum_is_taken),
		TEST(quiet_address_is_still_served),
		TEST(address_that_was_removed_makes_room),
		TEST(path_closed_while_blocked_loses_its_packets),
		TEST(unreachable_peer_is_counted_and_does_not_stop_others),
		TEST(equal_paths_are_shared_and_wrong_ones_refused),
		TEST(paths_to_many_peers_are_all_there),
		TEST(full_stage_offers_no_room),
		TEST(bad_packets_are_dropped_and_counted),
		TEST(ipv4_ids_of_any_sender_verify),
		TEST(overflowing_receive_queue_is_counted),
	};

	home = netns_enter_new();
	if (home < 0)
		return 77;
	veth_a = netns_enter_new();
	veth_b = netns_enter_new();
	if (veth_a >= 0 && veth_b >= 0 && netns_join(veth_a, veth_b, 1500) != 0)
		veth_a = -1;
	netns_switch(home);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
