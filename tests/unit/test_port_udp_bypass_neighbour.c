/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bypass of the kernel's UDP, and neighbours: it is used only while the port knows the Ethernet
 * address of the neighbour.
 */
#include "support/stranger.h"

#include "support/bypass_ends.h"

static void neighbour_that_is_silent_is_sent_datagrams(void **state)
{
	(void)state;
	ends_open(true, true, true);
	send_one(&a, SHORT, 0);
	assert_int_equal(a.counters.tx_frames, 0);
	b_speaks();
	send_one(&a, SHORT, 1);
	assert_sent_frames(1);
	uint64_t frames = a.counters.tx_frames;
	usleep(SILENCE_US);
	send_one(&a, SHORT, 2);
	assert_int_equal(a.counters.tx_frames, frames);
	receive(&b, 3);
}

static void route_that_has_gone_is_noticed_while_packets_flow(void **state)
{
	uint64_t start_ms;

	(void)state;
	ends_open(true, true, true);
	b_speaks();
	send_one(&a, SHORT, 0);
	assert_sent_frames(1);
	netns_switch(a.netns);
	assert_int_equal(netns_run("ip route add unreachable 10.99.0.2"), 0);
	start_ms = now_ms();
	while (a.counters.tx_unreachable == 0 && now_ms() - start_ms < 60000) {
		b_speaks();
		send_one(&a, SHORT, 0);
	}
	assert_true(a.counters.tx_unreachable > 0);
	assert_int_equal(netns_run("ip route del unreachable 10.99.0.2"), 0);
}

static void neighbour_with_a_new_address_is_found_again(void **state)
{
	(void)state;
	ends_open(true, true, true);
	b_speaks();
	netns_switch(b.netns);
	assert_int_equal(netns_run("ip link set vb address 02:00:00:00:00:99"), 0);
	usleep(LOOKUP_US);
	assert_int_equal(netns_run("ip neigh flush all"), 0);
	netns_switch(a.netns);
	assert_int_equal(netns_run("ip neigh flush all"), 0);
	send_one(&a, SHORT, 0);
	receive(&b, 1);
	b_speaks(); /* from an address that the kernel has not confirmed: it is looked up */
	b_speaks();
	send_one(&a, SHORT, 1);
	assert_sent_frames(1);
	receive(&b, 2);
}

/* Frames of a third host in the name of `b`. */
static void stranger_speaks(uint32_t count)
{
	static const uint8_t stranger_mac[] = {2, 0, 0, 0, 0, 0x66};
	struct stranger_route route = {
		.source = b.gid, .destination = a.gid, .source_port = ROCE_SOURCE_PORT_MIN};
	static struct stranger stranger;
	uint8_t packet[SHORT];

	netns_switch(a.netns);
	assert_int_equal(stranger_open(&stranger, "va"), 0);
	memcpy(route.macs, stranger.mac, sizeof(stranger.mac));
	close(stranger.fd);
	memcpy(route.macs + sizeof(stranger.mac), stranger_mac, sizeof(stranger_mac));
	netns_switch(b.netns);
	assert_int_equal(stranger_open(&stranger, "vb"), 0);
	for (uint32_t i = 0; i < count; i++) {
		fill(packet, sizeof(packet), a.received + i);
		stranger_send(&stranger, &route, packet, sizeof(packet));
	}
	assert_int_equal(stranger_flush(&stranger), count);
	close(stranger.fd);
	receive(&a, a.received + count);
}

static void frame_of_a_stranger_moves_no_neighbour(void **state)
{
	(void)state;
	ends_open(true, true, true);
	assert_int_equal(a.lookup_count, 1);
	usleep(LOOKUP_US);
	send_one(&a, SHORT, 0); /* by the socket, as once in a while */
	b_speaks();
	stranger_speaks(10);
	assert_int_equal(a.lookup_count, 2);
	send_one(&a, SHORT, 1);
	assert_sent_frames(1);
	receive(&b, 2);
}

/* Not even that the address has a neighbour. */
static void frame_of_a_stranger_does_not_speak_for_a_neighbour(void **state)
{
	(void)state;
	ends_open(true, true, true);
	stranger_speaks(1);
	send_one(&a, SHORT, 0);
	assert_int_equal(a.counters.tx_frames, 0);
	receive(&b, 1);
}

static void packet_that_nobody_takes_teaches_nothing(void **state)
{
	(void)state;
	ends_open(true, true, true);
	a.takes_nothing = true;
	for (uint32_t i = 0; i < 3; i++)
		b_says(i == 1 ? LONG : SHORT);
	send_one(&a, SHORT, 0);
	assert_int_equal(a.counters.tx_frames, 0);
	receive(&b, 1);
}

static void neighbour_that_the_kernel_does_not_confirm_is_sent_datagrams(void **state)
{
	(void)state;
	are_answered = false;
	ends_open(true, true, true);
	for (uint32_t i = 0; i < 3; i++)
		b_says(SHORT);
	send_one(&a, SHORT, 0);
	are_answered = true;
	assert_int_equal(a.counters.tx_frames, 0);
	receive(&b, 1);
}

/* A route that leads elsewhere is not the link's. */
static void neighbour_behind_another_interface_is_sent_datagrams(void **state)
{
	(void)state;
	ends_open(true, true, true);
	netns_switch(a.netns);
	assert_int_equal(netns_run("ip link add other type veth peer name another && "
				   "ip link set other up && ip link set another up && "
				   "ip route add 10.99.0.2 dev other"),
		0);
	usleep(CONFIRM_US);
	b_says(SHORT); /* time for another lookup */
	b_says(SHORT);
	send_one(&a, SHORT, 0);
	assert_int_equal(a.counters.tx_frames, 0);
	assert_int_equal(netns_run("ip link del other"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(neighbour_that_is_silent_is_sent_datagrams),
		TEST(route_that_has_gone_is_noticed_while_packets_flow),
		TEST(neighbour_with_a_new_address_is_found_again),
		TEST(frame_of_a_stranger_moves_no_neighbour),
		TEST(frame_of_a_stranger_does_not_speak_for_a_neighbour),
		TEST(packet_that_nobody_takes_teaches_nothing),
		TEST(neighbour_that_the_kernel_does_not_confirm_is_sent_datagrams),
		TEST(neighbour_behind_another_interface_is_sent_datagrams),
	};

	return bypass_begin() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
