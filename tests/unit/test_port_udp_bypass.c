/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP port with the bypass of the kernel's UDP: two ends on a veth pair between namespaces of
 * their own, each with and without the bypass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/arith.h"
#include "netdev/neighbour.h"
#include "port/address.h"
#include "port/udp.h"
#include "support/netns.h"
#include "support/stranger.h"
#include "support/udp_ends.h"
#include "wire/bth.h"
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

static int home;
static bool a_has_link;
static bool are_answered = true; /* lookups of neighbours */

static void on_lookup(void *context)
{
	struct end *end = context;

	end->lookup_count++;
}

/* What a thread of the NIC does. */
static void lookups_execute(struct end *end)
{
	struct port_udp_lookup lookup;
	uint8_t mac[NEIGHBOUR_MAC_BYTES];

	netns_switch(end->netns);
	while (are_answered && port_udp_next_lookup(end->port, &lookup)) {
		bool is_known = neighbour_mac(&lookup.local, &lookup.remote, lookup.ifindex, mac);

		port_udp_lookup_done(end->port, &lookup, is_known ? mac : NULL);
	}
}

static void end_open(struct end *end, const char *address, bool has_link)
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
		assert_int_equal(
			port_udp_use_bypass(end->port, 0, if_nametoindex(end->interface)), 0);
}

static uint32_t path_to(struct end *from, const struct end *to, uint8_t dscp, uint8_t hop_limit)
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
static void acquaint(const struct end *from, const struct end *to)
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

static void ends_open(bool is_ipv4, bool has_a_link, bool has_b_link)
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

static void fill(uint8_t *data, uint32_t bytes, uint32_t tag)
{
	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(tag * 31 + i * 7 + (i >> 8));
	data[0] = OPCODE_UD_SEND_ONLY;
	data[SLOT_OFFSET] = SLOT;
	memcpy(data + TAG_OFFSET, &tag, sizeof(tag));
}

static void stage(struct end *end, uint32_t path, uint32_t bytes, uint32_t tag)
{
	uint32_t capacity;
	uint8_t *buffer = port_udp_buffer(end->port, &capacity);

	assert_true(capacity >= bytes);
	fill(buffer, bytes, tag);
	port_udp_stage(end->port, path, bytes);
}

static bool on_packet(void *context, const struct port_udp_packet *packet)
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
static void receive(struct end *end, uint32_t count)
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

static void send_one(struct end *from, uint32_t bytes, uint32_t tag)
{
	stage(from, from->path, bytes, tag);
	assert_int_equal(port_udp_flush(from->port), 0);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t spoke_ms;

static void b_says(uint32_t bytes)
{
	spoke_ms = now_ms();
	send_one(&b, bytes, a.received);
	receive(&a, a.received + 1);
}

/* For a moment `a` knows where `b` is, if it has a link. */
static void b_speaks(void)
{
	b_says(SHORT);
}

/* Unless this machine has let the moment pass. */
static void assert_sent_frames(uint64_t count)
{
	if (now_ms() - spoke_ms < TRUST_MS)
		assert_int_equal(a.counters.tx_frames, count);
}

static uint32_t bytes_of(uint32_t tag)
{
	return tag % 7 == 3 ? LONG : tag % 5 == 4 ? 24 : SHORT;
}

/* Short ones, long ones, and super-packets of both: the link has the short messages. */
static void exchange(uint32_t count)
{
	b_speaks();
	for (uint32_t i = 0; i < count; i++) {
		stage(&a, a.path, bytes_of(i / 4), i);
		if (i % 16 == 15 || i + 1 == count)
			assert_int_equal(port_udp_flush(a.port), 0);
	}
	if (!a_has_link)
		assert_sent_frames(0);
	else if (now_ms() - spoke_ms < TRUST_MS)
		assert_true(a.counters.tx_frames > 0);
	assert_true(count <= 12 || a.counters.tx_frames < a.counters.tx_datagrams);
	receive(&b, count);
	assert_int_equal(a.counters.tx_packets, count);
	assert_int_equal(b.counters.rx_packets, count);
	assert_int_equal(b.counters.rx_bytes, a.counters.tx_bytes);
	assert_int_equal(b.counters.rx_bad_icrc, 0);
	assert_int_equal(b.counters.rx_marks_lost, 0);
	assert_int_equal(a.counters.tx_link_refused, 0);
}

/* A mark says where its datagram came from. */
static void long_packet_tells_where_its_sender_is(void **state)
{
	(void)state;
	ends_open(true, true, true);
	b_says(LONG);
	send_one(&a, SHORT, 0);
	assert_sent_frames(1);
	send_one(&a, LONG, 1);
	assert_sent_frames(1);
	receive(&b, 2);
}

static void ipv4_links_deliver_all_in_order(void **state)
{
	(void)state;
	ends_open(true, true, true);
	exchange(200);
	assert_true(b.counters.rx_frames > 0);
	assert_true(b.counters.rx_frames < b.counters.rx_datagrams);
}

static void ipv6_links_deliver_all_in_order(void **state)
{
	(void)state;
	ends_open(false, true, true);
	exchange(200);
	assert_true(b.counters.rx_frames > 0);
}

static void link_understands_a_plain_sender(void **state)
{
	(void)state;
	ends_open(true, false, true);
	exchange(200);
	assert_true(b.counters.rx_frames > 0);
}

static void plain_receiver_understands_a_link(void **state)
{
	(void)state;
	ends_open(true, true, false);
	exchange(200);
	assert_int_equal(b.counters.rx_frames, 0);
}

static void plain_ipv6_receiver_understands_a_link(void **state)
{
	(void)state;
	ends_open(false, true, false);
	exchange(200);
}

static void dscp_and_hop_limit_of_a_path_arrive_in_frames(void **state)
{
	(void)state;
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

static void message_that_the_link_refuses_goes_through_the_socket(void **state)
{
	(void)state;
	ends_open(true, true, true);
	netns_switch(a.netns);
	assert_int_equal(netns_run("ip link set va mtu 1000"), 0);
	b_speaks();
	send_one(&a, MEDIUM, 9); /* which has no way to send it either */
	send_one(&a, SHORT, 0);
	assert_sent_frames(0);
	if (now_ms() - spoke_ms < TRUST_MS)
		assert_int_equal(a.counters.tx_link_refused, 1);
	assert_int_equal(netns_run("ip link set va mtu %d", MTU), 0);
	receive(&b, 1);
	assert_int_equal(a.counters.tx_too_long, 1);
}

/* What comes by another interface is not on the link. */
static void packet_of_this_host_comes_by_the_socket(void **state)
{
	struct end peer = {.netns = b.netns};

	(void)state;
	ends_open(true, true, true);
	netns_switch(b.netns);
	netns_run("ip addr add 10.99.0.3/32 dev lo");
	end_open(&peer, "10.99.0.3", false);
	peer.path = path_to(&peer, &b, 0, 0);
	for (uint32_t i = 0; i < 100; i++) {
		send_one(&peer, i % 3 ? SHORT : LONG, i);
		receive(&b, i + 1);
	}
	port_udp_destroy(peer.port);
	assert_int_equal(b.counters.rx_frames, 0);
	assert_int_equal(b.counters.rx_marks_lost, 0);
}

static int socket_of(struct end *end)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];

	assert_int_equal(port_udp_fds(end->port, fds), 2);
	return fds[0].fd;
}

static int ring_of(struct end *end)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];

	assert_int_equal(port_udp_fds(end->port, fds), 2);
	return fds[1].fd;
}

static void filter_set(int fd, struct sock_filter *code, unsigned short count)
{
	const struct sock_fprog program = {count, code};

	assert_int_equal(
		setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)), 0);
}

/* What a sends to b meanwhile does not come to this socket of b. */
static void while_deaf(int fd, void (*send)(void))
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_filter before[64];
	socklen_t count = ARRAY_COUNT(before);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, before, &count), 0);
	filter_set(fd, &nothing, 1);
	send();
	filter_set(fd, before, (unsigned short)count);
}

static void send_long(void)
{
	send_one(&a, LONG, 9);
}

static void mark_without_its_datagram_is_given_up(void **state)
{
	(void)state;
	ends_open(true, true, true);
	while_deaf(socket_of(&b), send_long);
	for (uint32_t i = 0; i < 3; i++)
		send_one(&a, i == 1 ? LONG : SHORT, i);
	receive(&b, 3);
	assert_int_equal(b.counters.rx_marks_lost, 1);
}

/* One packet of a queue pair, of SHORT or LONG bytes. */
static void stage_numbered(
	const struct end *from, enum opcode opcode, uint32_t qpn, uint32_t psn, uint32_t bytes)
{
	const struct bth bth = {.opcode = (uint8_t)opcode,
		.pkey = BTH_PKEY_DEFAULT,
		.dest_qpn = qpn_from(SLOT << 16 | qpn),
		.psn = psn_from(psn)};
	uint32_t capacity;
	uint8_t *buffer = port_udp_buffer(from->port, &capacity);

	memset(buffer, 0, bytes);
	bth_encode(&bth, buffer);
	port_udp_stage(from->port, from->path, bytes);
}

static void send_numbered(
	const struct end *from, enum opcode opcode, uint32_t qpn, uint32_t psn, uint32_t bytes)
{
	stage_numbered(from, opcode, qpn, psn, bytes);
	assert_int_equal(port_udp_flush(from->port), 0);
}

static struct numbers {
	uint32_t count;
	uint32_t psn[64];
} numbers;

static bool note_number(void *context, const struct port_udp_packet *packet)
{
	struct bth bth;

	(void)context;
	bth_decode(&bth, packet->data);
	assert_true(numbers.count < ARRAY_COUNT(numbers.psn));
	numbers.psn[numbers.count++] = bth.psn.value;
	return true;
}

/* `count` packets come, with these numbers. */
static void receive_numbered(const struct end *end, const uint32_t *psn, uint32_t count)
{
	uint64_t end_ms = now_ms() + WAIT_MS;

	numbers.count = 0;
	while (numbers.count < count && now_ms() < end_ms)
		port_udp_receive(end->port, note_number, NULL);
	assert_int_equal(numbers.count, count);
	assert_memory_equal(numbers.psn, psn, count * sizeof(*psn));
}

#define EXPECT_NUMBERS(...)                                   \
	receive_numbered(&b, (const uint32_t[]){__VA_ARGS__}, \
		ARRAY_COUNT(((const uint32_t[]){__VA_ARGS__})))

/*
 * Middle packets have no marks. Later packets from the bypass wait until the port has read the
 * socket.
 */
static void end_of_a_message_does_not_overtake_its_middle(void **state)
{
	(void)state;
	ends_open(true, false, true);
	for (uint32_t psn = 0; psn < 20; psn += 5) {
		send_numbered(&a, OPCODE_RC_WRITE_FIRST, 1, psn, LONG + 16);
		stage_numbered(&a, OPCODE_RC_WRITE_MIDDLE, 1, psn + 1, LONG);
		stage_numbered(&a, OPCODE_RC_WRITE_MIDDLE, 1, psn + 2, LONG);
		send_numbered(&a, OPCODE_RC_WRITE_LAST, 1, psn + 3, LONG);
		send_numbered(&a, OPCODE_RC_WRITE_ONLY, 1, psn + 4, SHORT);
		EXPECT_NUMBERS(psn, psn + 1, psn + 2, psn + 3, psn + 4);
	}
	assert_int_equal(b.counters.rx_frames, 4);
	assert_int_equal(b.counters.rx_marks_lost, 0);
}

/* Requests and responses are numbered apart, and so are those of each queue pair. */
static void packets_of_others_do_not_wait_for_a_message(void **state)
{
	(void)state;
	ends_open(true, false, true);
	send_numbered(&a, OPCODE_RC_READ_RESPONSE_FIRST, 1, 10, LONG);
	EXPECT_NUMBERS(10);
	send_numbered(&a, OPCODE_RC_WRITE_ONLY, 1, 900, SHORT);
	send_numbered(&a, OPCODE_RC_WRITE_ONLY, 2, 901, SHORT);
	send_numbered(&a, OPCODE_RC_ACKNOWLEDGE, 1, 9, SHORT);
	send_numbered(&a, OPCODE_RC_ACKNOWLEDGE, 1, 14, SHORT);
	send_numbered(&a, OPCODE_RC_READ_RESPONSE_MIDDLE, 1, 11, LONG);
	stage_numbered(&a, OPCODE_RC_READ_RESPONSE_MIDDLE, 1, 12, LONG);
	send_numbered(&a, OPCODE_RC_READ_RESPONSE_LAST, 1, 13, SHORT);
	EXPECT_NUMBERS(900, 901, 9, 11, 12, 13, 14);
}

static void middle_that_does_not_come_is_given_up(void **state)
{
	(void)state;
	ends_open(true, false, true);
	send_numbered(&a, OPCODE_RC_WRITE_FIRST, 1, 0, LONG);
	send_numbered(&a, OPCODE_RC_WRITE_LAST, 1, 2, SHORT);
	send_numbered(&a, OPCODE_RC_WRITE_ONLY, 1, 3, SHORT);
	EXPECT_NUMBERS(0, 2, 3);
	assert_int_equal(b.counters.rx_marks_lost, 0);
}

static void send_numbered_long(void)
{
	send_numbered(&a, OPCODE_RC_SEND_ONLY, 1, FRAMES_PER_CALL + 1, LONG);
}

/*
 * The socket has a datagram a moment before the ring has its mark. Frames that arrived in the ring
 * before the datagram are delivered before it nevertheless. The mark that arrives later delays
 * nothing.
 */
static void datagram_without_its_mark_overtakes_nothing(void **state)
{
	uint32_t expected[FRAMES_PER_CALL + 2];

	(void)state;
	ends_open(true, false, true);
	for (uint32_t psn = 0; psn < ARRAY_COUNT(expected); psn++)
		expected[psn] = psn;
	for (uint32_t psn = 0; psn <= FRAMES_PER_CALL; psn++)
		send_numbered(&a, OPCODE_RC_SEND_ONLY, 1, psn, SHORT);
	while_deaf(ring_of(&b), send_numbered_long);
	port_udp_look_everywhere(b.port); /* the socket, too, although the ring has a batch */
	receive_numbered(&b, expected, ARRAY_COUNT(expected));

	while_deaf(socket_of(&b), send_numbered_long);
	send_numbered(&a, OPCODE_RC_SEND_ONLY, 1, 100, SHORT);
	EXPECT_NUMBERS(100);
	assert_int_equal(b.counters.rx_marks_lost, 0);
}

/*
 * More frames than the ring has room for: short ones are lost, and long ones arrive without their
 * marks.
 */
static void ring_that_overflows_loses_short_packets_only(void **state)
{
	uint32_t arrived;

	(void)state;
	ends_open(true, false, true);
	for (uint32_t i = 0; i < 1100; i++)
		send_one(&a, SHORT, i);
	for (uint32_t i = 0; i < 4; i++)
		send_one(&a, LONG, 5000);
	for (uint32_t i = 0; i < 2000; i++)
		port_udp_receive(b.port, on_packet, &b);
	arrived = b.received;
	assert_true(b.counters.rx_queue_overflows >= 1100 + 4 - 1024);
	assert_int_equal(arrived, 1024 + 4);
	b.is_wrong = false;
	send_one(&a, SHORT, arrived);
	receive(&b, arrived + 1);
}

static void filter_of_a_former_owner_is_taken_off(void **state)
{
	int fd;

	(void)state;
	ends_open(true, false, true);
	fd = dup(socket_of(&b));
	port_udp_destroy(b.port);
	assert_int_equal(port_udp_create(SLOT, &b.counters, &b.port), 0);
	assert_int_equal(port_udp_add_address(b.port, &b.gid, 0, fd), 0);
	send_one(&a, SHORT, 0);
	receive(&b, 1);
	assert_int_equal(b.counters.rx_frames, 0);
}

static void interface_without_ethernet_has_no_link(void **state)
{
	(void)state;
	ends_open(true, true, false);
	netns_switch(b.netns);
	assert_int_equal(port_udp_use_bypass(b.port, 0, if_nametoindex("lo")), -EOPNOTSUPP);
	assert_int_equal(port_udp_use_bypass(b.port, 0, 12345), -ENODEV);
	exchange(20);
}

static void links_on_one_interface_are_few(void **state)
{
	struct port_udp_counters counters = {0};
	struct port_udp *ports[16];
	unsigned count = 0;
	int error = 0;

	(void)state;
	ends_open(true, true, false);
	netns_switch(b.netns);
	for (; count < ARRAY_COUNT(ports) && !error; count++) {
		const struct gid other =
			gid_from_ipv4((uint8_t[]){127, 0, 0, (uint8_t)(count + 1)});

		assert_int_equal(port_udp_create(SLOT, &counters, &ports[count]), 0);
		assert_int_equal(port_udp_add_address(ports[count], &other, 0,
					 udp_bound_socket(&other, ROCE_UDP_PORT)),
			0);
		error = port_udp_use_bypass(ports[count], 0, if_nametoindex("vb"));
	}
	assert_int_equal(error, -EUSERS);
	while (count > 0)
		port_udp_destroy(ports[--count]);
}

/* Is this a kernel and a user that can do it? */
static bool can_link(void)
{
	int error;

	netns_switch(a.netns);
	end_open(&a, "10.99.0.1", false);
	error = port_udp_use_bypass(a.port, 0, if_nametoindex("va"));
	ends_close(NULL);
	if (error)
		printf("skipped: no link to an interface: %s\n", strerror(-error));
	return !error;
}

#define TEST(name) cmocka_unit_test_teardown(name, ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(long_packet_tells_where_its_sender_is),
		TEST(ipv4_links_deliver_all_in_order),
		TEST(ipv6_links_deliver_all_in_order),
		TEST(link_understands_a_plain_sender),
		TEST(plain_receiver_understands_a_link),
		TEST(plain_ipv6_receiver_understands_a_link),
		TEST(dscp_and_hop_limit_of_a_path_arrive_in_frames),
		TEST(neighbour_that_is_silent_is_sent_datagrams),
		TEST(route_that_has_gone_is_noticed_while_packets_flow),
		TEST(neighbour_with_a_new_address_is_found_again),
		TEST(frame_of_a_stranger_moves_no_neighbour),
		TEST(frame_of_a_stranger_does_not_speak_for_a_neighbour),
		TEST(packet_that_nobody_takes_teaches_nothing),
		TEST(neighbour_that_the_kernel_does_not_confirm_is_sent_datagrams),
		TEST(neighbour_behind_another_interface_is_sent_datagrams),
		TEST(message_that_the_link_refuses_goes_through_the_socket),
		TEST(packet_of_this_host_comes_by_the_socket),
		TEST(mark_without_its_datagram_is_given_up),
		TEST(datagram_without_its_mark_overtakes_nothing),
		TEST(end_of_a_message_does_not_overtake_its_middle),
		TEST(packets_of_others_do_not_wait_for_a_message),
		TEST(middle_that_does_not_come_is_given_up),
		TEST(ring_that_overflows_loses_short_packets_only),
		TEST(filter_of_a_former_owner_is_taken_off),
		TEST(interface_without_ethernet_has_no_link),
		TEST(links_on_one_interface_are_few),
	};

	home = netns_enter_new();
	a.netns = netns_enter_new();
	b.netns = netns_enter_new();
	if (home < 0 || a.netns < 0 || b.netns < 0 || netns_join(a.netns, b.netns, MTU) ||
		!can_link())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
