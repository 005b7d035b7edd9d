/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket that sends from QP1: it sends sealed packets, and reports those that do not arrive.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/gsi_socket.h"
#include "port/address.h"
#include "support/netns.h"
#include "wire/icrc.h"

enum { TIMEOUT_MS = 60000, TRAFFIC_CLASS = 0x20 };

static struct agent_address address_of(const char *text)
{
	struct agent_address address = {0};
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) == 1)
		address.gid = gid_from_ipv4(ipv4);
	else
		assert_int_equal(inet_pton(AF_INET6, text, address.gid.raw), 1);
	return address;
}

static void packet_make(uint8_t packet[GSI_PACKET_BYTES])
{
	gsi_packet_encode(7, packet);
	memset(packet + GSI_PACKET_BYTES - MAD_BYTES, 0x5a, MAD_BYTES);
}

static int receiver_open(const struct agent_address *at)
{
	union socket_address name;
	socklen_t bytes = socket_address_make(&name, &at->gid, 0, ROCE_UDP_PORT);
	int fd = socket(name.base.sa_family, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, &name.base, bytes), 0);
	return fd;
}

static void packet_arrives_sealed(const char *text)
{
	struct agent_address address = address_of(text);
	uint8_t packet[GSI_PACKET_BYTES], got[2 * GSI_PACKET_BYTES];
	int receiver = receiver_open(&address);
	struct pollfd fd = {.fd = receiver, .events = POLLIN};
	struct gsi_socket gsi;
	struct icrc_flow flow;

	packet_make(packet);
	assert_int_equal(gsi_socket_open(&gsi, &address), 0);
	assert_true(gsi.source_port >= ROCE_SOURCE_PORT_MIN);
	assert_int_equal(gsi_socket_send(&gsi, &address.gid, TRAFFIC_CLASS, packet), 0);
	assert_int_equal(poll(&fd, 1, TIMEOUT_MS), 1);
	assert_int_equal(recv(receiver, got, sizeof(got), 0), GSI_PACKET_BYTES + ROCE_ICRC_BYTES);
	assert_memory_equal(got, packet, GSI_PACKET_BYTES);
	icrc_flow_init(&flow, address.gid.raw, address.gid.raw, gsi.source_port, ROCE_UDP_PORT);
	assert_true(icrc_verify(&flow, 0, ICRC_IPV4_DF, got, GSI_PACKET_BYTES));
	gsi_socket_close(&gsi);
	close(receiver);
}

static void packet_over_either_family_arrives_sealed(void **state)
{
	(void)state;
	packet_arrives_sealed("127.0.0.1");
	packet_arrives_sealed("::1");
}

static void packet_to_a_closed_port_is_reported_with_its_destination(void **state)
{
	struct agent_address address = address_of("127.0.0.1"), got_to = {0};
	uint8_t packet[GSI_PACKET_BYTES], got[GSI_PACKET_BYTES];
	struct pollfd fd;
	struct gsi_socket gsi;

	(void)state;
	packet_make(packet);
	assert_int_equal(gsi_socket_open(&gsi, &address), 0);
	assert_int_equal(gsi_socket_report(&gsi, &got_to.gid, got), -EAGAIN);
	assert_int_equal(gsi_socket_send(&gsi, &address.gid, 0, packet), 0);
	fd = (struct pollfd){.fd = gsi.fd};
	assert_int_equal(poll(&fd, 1, TIMEOUT_MS), 1);
	assert_int_equal(gsi_socket_report(&gsi, &got_to.gid, got), ECONNREFUSED);
	assert_memory_equal(got, packet, GSI_PACKET_BYTES);
	assert_true(gid_is_equal(&got_to.gid, &address.gid));
	assert_int_equal(gsi_socket_report(&gsi, &got_to.gid, got), -EAGAIN);
	gsi_socket_close(&gsi);
}

static void packet_after_a_report_is_sent_all_the_same(void **state)
{
	struct agent_address address = address_of("127.0.0.1");
	uint8_t packet[GSI_PACKET_BYTES];
	struct gsi_socket gsi;
	int receiver;

	(void)state;
	packet_make(packet);
	assert_int_equal(gsi_socket_open(&gsi, &address), 0);
	assert_int_equal(gsi_socket_send(&gsi, &address.gid, 0, packet), 0);
	receiver = receiver_open(&address);
	assert_int_equal(gsi_socket_send(&gsi, &address.gid, 0, packet), 0);
	assert_int_equal(recv(receiver, packet, sizeof(packet), MSG_TRUNC | MSG_DONTWAIT),
		GSI_PACKET_BYTES + ROCE_ICRC_BYTES);
	gsi_socket_close(&gsi);
	close(receiver);
}

static void address_that_is_not_ours_or_of_another_family_is_refused(void **state)
{
	struct agent_address address = address_of("192.0.2.1"), ipv6 = address_of("::1");
	uint8_t packet[GSI_PACKET_BYTES];
	struct gsi_socket gsi;

	(void)state;
	packet_make(packet);
	assert_int_equal(gsi_socket_open(&gsi, &address), -EADDRNOTAVAIL);
	address = address_of("127.0.0.1");
	assert_int_equal(gsi_socket_open(&gsi, &address), 0);
	assert_int_equal(gsi_socket_send(&gsi, &ipv6.gid, 0, packet), -EAFNOSUPPORT);
	address = address_of("192.0.2.1");
	assert_int_equal(gsi_socket_send(&gsi, &address.gid, 0, packet), -ENETUNREACH);
	gsi_socket_close(&gsi);
}

/* What is sent to it is not kept. */
static void packet_to_the_socket_is_dropped(void **state)
{
	struct agent_address address = address_of("127.0.0.1");
	int sender = socket(AF_INET, SOCK_DGRAM, 0);
	struct gsi_socket gsi;
	union socket_address name;
	socklen_t bytes;

	(void)state;
	assert_int_equal(gsi_socket_open(&gsi, &address), 0);
	bytes = socket_address_make(&name, &address.gid, 0, gsi.source_port);
	assert_int_equal(sendto(sender, "x", 1, 0, &name.base, bytes), 1);
	assert_int_equal(recv(gsi.fd, &name, sizeof(name), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	gsi_socket_close(&gsi);
	close(sender);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packet_over_either_family_arrives_sealed),
		cmocka_unit_test(packet_to_a_closed_port_is_reported_with_its_destination),
		cmocka_unit_test(packet_after_a_report_is_sent_all_the_same),
		cmocka_unit_test(address_that_is_not_ours_or_of_another_family_is_refused),
		cmocka_unit_test(packet_to_the_socket_is_dropped),
	};

	if (netns_enter_new() < 0)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
