/* SPDX-License-Identifier: BSD-2-Clause */
/* The UDP port with an AF_XDP socket: what is delivered, and where it is possible. */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_xdp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "port/udp/udp_xdp_program.h"
#include "wire/bth.h"

#include "support/bypass_ends.h"

enum {
	XDP_MTU = 1500,
	OTHER_NETNS = 12345,
	BLOCKED_US = 600000,
	CLOSE_US = 250000,
	ALIGNING_CALLS = 64, /* after which idle sockets are not read on each call */
};

static uint16_t xdp_flags; /* of the last bind() of an AF_XDP socket */
static int xdp_bind_error; /* why a bind() of such a socket fails; 0: it does not */
static int busy_fd = -1; /* the interface of this socket has no room */

/* Stands in for the C library's, by which AF_XDP sockets send. */
ssize_t sendto(int fd, const void *bytes, size_t count, int flags, const struct sockaddr *to,
	socklen_t to_bytes)
{
	if (fd == busy_fd) {
		errno = EAGAIN;
		return -1;
	}
	return syscall(SYS_sendto, fd, bytes, count, flags, to, to_bytes);
}

static bool may_fragment; /* sockets that are opened may send packets in fragments */

/* Stands in for the C library's. */
int setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
	static const int fragments = IPV6_PMTUDISC_DONT;

	if (may_fragment && level == IPPROTO_IPV6 && option == IPV6_MTU_DISCOVER)
		value = &fragments;
	return (int)syscall(SYS_setsockopt, fd, level, option, value, bytes);
}

static uint64_t netns_cookie(void)
{
	uint64_t cookie;
	socklen_t bytes = sizeof(cookie);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &bytes), 0);
	close(fd);
	return cookie;
}

static uint32_t bytes_of(uint32_t tag)
{
	return tag % 7 == 3 ? MEDIUM : tag % 5 == 4 ? 24 : SHORT;
}

/* Packets and super-packets, short and long. */
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
	receive(&b, count);
	assert_int_equal(a.counters.tx_packets, count);
	assert_int_equal(b.counters.rx_packets, count);
	assert_int_equal(b.counters.rx_bytes, a.counters.tx_bytes);
	assert_int_equal(b.counters.rx_bad_icrc, 0);
	assert_int_equal(a.counters.tx_link_refused, 0);
}

/* Which of the ends bypass UDP. */
enum { LEFT = 1, RIGHT = 2, BOTH = 3 };

static void exchange_between(unsigned links, bool is_ipv4)
{
	ends_open(is_ipv4, links & LEFT, links & RIGHT);
	exchange(200);
	if (links & RIGHT)
		assert_int_equal(b.counters.rx_frames, b.counters.rx_datagrams);
	else
		assert_int_equal(b.counters.rx_frames, 0);
}

static void ipv4_ends_deliver_all_in_order(void **state)
{
	(void)state;
	exchange_between(BOTH, true);
}

static void ipv6_ends_deliver_all_in_order(void **state)
{
	(void)state;
	exchange_between(BOTH, false);
}

static void end_understands_a_plain_sender(void **state)
{
	(void)state;
	exchange_between(RIGHT, true);
}

/* Its kernel checks the UDP checksums. */
static void plain_receiver_understands_an_end(void **state)
{
	(void)state;
	exchange_between(LEFT, true);
}

static void plain_ipv6_receiver_understands_an_end(void **state)
{
	(void)state;
	exchange_between(LEFT, false);
}

/* Stands in for the C library's. */
int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	if (address->sa_family == AF_XDP) {
		xdp_flags = ((const struct sockaddr_xdp *)(const void *)address)->sxdp_flags;
		if (xdp_bind_error) {
			errno = xdp_bind_error;
			return -1;
		}
	}
	return (int)syscall(SYS_bind, fd, address, bytes);
}

/* Also where the program is there already, and the socket would take one in the driver. */
static void socket_of_a_generic_program_asks_for_copies(void **state)
{
	struct xdp_program generic;

	(void)state;
	ends_open(true, true, false);
	assert_int_equal(xdp_flags & XDP_COPY, 0);
	netns_switch(b.netns);
	assert_int_equal(xdp_program_join(&generic, if_nametoindex("vb"), true, netns_cookie()), 0);
	assert_int_equal(end_use_link(&b), 0);
	xdp_program_leave(&generic);
	assert_int_equal(xdp_flags & XDP_COPY, XDP_COPY);
	send_one(&a, SHORT, 0);
	receive(&b, 1);
}

/* In front of the network stack, the frames of a plain sender are super-packets. */
static void generic_end_splits_super_packets(void **state)
{
	(void)state;
	way = WAY_XDP_GENERIC;
	ends_open(true, false, true);
	b_speaks();
	for (uint32_t i = 0; i < 60; i++) {
		stage(&a, a.path, i / 20 == 1 ? 24 : SHORT, i);
		if (i % 20 == 19)
			assert_int_equal(port_udp_flush(a.port), 0);
	}
	receive(&b, 60);
	assert_int_equal(b.counters.rx_bad_icrc, 0);
	assert_int_equal(b.counters.rx_frames, b.counters.rx_datagrams);
	assert_true(b.counters.rx_frames < 60);
}

static void dscp_and_hop_limit_of_a_path_arrive(void **state)
{
	(void)state;
	assert_path_fields_arrive();
}

/* Pages for sending are all in use, then free again. */
static void many_frames_without_a_reader_lose_none_that_was_taken(void **state)
{
	(void)state;
	ends_open(true, true, true);
	for (uint32_t round = 0; round < 20; round++) {
		b_speaks();
		for (uint32_t i = 0; i < 32; i++)
			send_one(&a, SHORT, round * 32 + i);
		receive(&b, (round + 1) * 32);
	}
	assert_int_equal(b.counters.rx_queue_overflows, 0);
}

/* A frame of `a` that its interface does not take. */
static void frame_leave_behind(void)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];
	unsigned count;

	ends_open(true, true, true);
	b_speaks();
	count = port_udp_fds(a.port, fds);
	busy_fd = fds[count - 1].fd;
	stage(&a, a.path, SHORT, 0);
	assert_int_equal(port_udp_flush(a.port), -EAGAIN);
	assert_true(port_udp_is_blocked(a.port));
}

static void frames_left_by_a_busy_interface_block_the_port_until_it_takes_them(void **state)
{
	uint32_t capacity;

	(void)state;
	frame_leave_behind();
	port_udp_buffer(a.port, &capacity);
	assert_int_equal(capacity, 0);
	assert_int_equal(port_udp_flush(a.port), -EAGAIN);
	assert_int_equal(a.counters.tx_blocked, 1);
	busy_fd = -1;
	assert_int_equal(port_udp_flush(a.port), 0);
	assert_false(port_udp_is_blocked(a.port));
	receive(&b, 1);
	send_one(&a, SHORT, 1);
	receive(&b, 2);
}

static void port_sends_without_an_interface_that_stays_busy(void **state)
{
	(void)state;
	frame_leave_behind();
	usleep(BLOCKED_US);
	assert_int_equal(port_udp_flush(a.port), 0);
	assert_false(port_udp_is_blocked(a.port));
	busy_fd = -1;
	b_speaks();
	send_one(&a, SHORT, 1); /* a datagram, because the kernel has routed none for long */
	send_one(&a, SHORT, 2);
	receive(&b, 3);
	assert_sent_frames(2);
}

static unsigned pauses;

/* Stands in for the C library's. */
int usleep(useconds_t us)
{
	const struct timespec pause = {us / 1000000, us % 1000000 * 1000L};

	pauses++;
	return nanosleep(&pause, NULL);
}

static int open_another(struct port_udp **ret_port, const char *address, uint8_t slot)
{
	static struct port_udp_counters counters;
	const struct gid gid = udp_gid(address);

	assert_int_equal(port_udp_create(slot, &counters, ret_port), 0);
	assert_int_equal(port_udp_add_address(*ret_port, &gid, 0, udp_bound_socket(&gid, 4791)), 0);
	return port_udp_use_xdp(*ret_port, 0, if_nametoindex(b.interface), false);
}

static void second_lane_has_another_queue_or_none(void **state)
{
	struct port_udp *second = NULL;

	(void)state;
	ends_open(true, true, true);
	netns_switch(b.netns);
	usleep(CLOSE_US); /* since the test before has closed its sockets */
	pauses = 0;
	assert_int_equal(open_another(&second, "fd00:99::2", SLOT + 1), -EUSERS);
	assert_int_equal(pauses, 0);
	port_udp_destroy(second);
	exchange(20);
	port_udp_destroy(b.port);
	netns_switch(b.netns);
	assert_int_equal(open_another(&b.port, "fd00:99::2", SLOT + 1), 0);
}

static void second_address_add(const struct gid *gid)
{
	netns_switch(b.netns);
	assert_int_equal(
		port_udp_add_address(b.port, gid, 0, udp_bound_socket(gid, ROCE_UDP_PORT)), 1);
	assert_int_equal(port_udp_use_xdp(b.port, 1, if_nametoindex("vb"), false), 0);
}

/* A path of `a` to it, by a UDP socket. */
static uint32_t path_to_second_address(const struct gid *gid)
{
	const struct gid own = udp_gid("fd00:99::1");
	const struct port_udp_path settings = {
		.address = 1, .destination_slot = SLOT, .remote = *gid};
	uint32_t path;

	netns_switch(a.netns);
	assert_int_equal(
		port_udp_add_address(a.port, &own, 0, udp_bound_socket(&own, ROCE_UDP_PORT)), 1);
	assert_int_equal(port_udp_path_open(a.port, &settings, &path), 0);
	return path;
}

/* Of one lane, they share the socket. */
static void second_address_of_the_lane_receives_too(void **state)
{
	const struct gid ipv6 = udp_gid("fd00:99::2");
	struct pollfd fds[PORT_UDP_FDS_MAX];
	uint32_t path;

	(void)state;
	ends_open(true, true, true);
	second_address_add(&ipv6);
	assert_int_equal(port_udp_fds(b.port, fds), 3);
	path = path_to_second_address(&ipv6);
	exchange(20);
	b.gid = ipv6; /* what on_packet() expects */
	stage(&a, path, SHORT, 20);
	assert_int_equal(port_udp_flush(a.port), 0);
	receive(&b, 21);
	assert_int_equal(b.counters.rx_frames, b.counters.rx_datagrams);
}

static uint32_t next_psn;

/* Packets come in their order. */
static bool note_next(void *context, const struct port_udp_packet *packet)
{
	struct bth bth;

	(void)context;
	bth_decode(&bth, packet->data);
	assert_int_equal(bth.psn.value, next_psn);
	next_psn++;
	return true;
}

static void send_numbered(uint32_t path, enum opcode opcode, uint32_t psn, uint32_t bytes)
{
	const struct bth bth = {.opcode = (uint8_t)opcode,
		.pkey = BTH_PKEY_DEFAULT,
		.dest_qpn = qpn_from(SLOT << 16 | 1),
		.psn = psn_from(psn)};
	uint32_t capacity;
	uint8_t *buffer = port_udp_buffer(a.port, &capacity);

	memset(buffer, 0, bytes);
	bth_encode(&bth, buffer);
	port_udp_stage(a.port, path, bytes);
	assert_int_equal(port_udp_flush(a.port), 0);
}

/* Until the port has just read all its UDP sockets, as it does on each UDP_QUIET_STEP-th call. */
static void calls_align(void)
{
	for (uint32_t i = 0; i < ALIGNING_CALLS || port_udp_looks(b.port) < 2; i++)
		port_udp_receive(b.port, note_next, NULL);
}

/* Until so many of b's sockets have something to read. */
static void readable_await(int count)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];
	uint64_t end_ms = now_ms() + WAIT_MS;
	nfds_t sockets = port_udp_fds(b.port, fds);

	while (poll(fds, sockets, 10) < count)
		assert_true(now_ms() < end_ms);
}

/* The middle packet comes in IP fragments, so by the UDP socket of the second address. */
static void end_of_a_message_to_the_second_address_waits_for_that_socket_only(void **state)
{
	const struct gid ipv6 = udp_gid("fd00:99::2");
	uint32_t path;

	(void)state;
	way = WAY_XDP_GENERIC;
	ends_open(true, false, true);
	second_address_add(&ipv6);
	may_fragment = true;
	path = path_to_second_address(&ipv6);
	may_fragment = false;
	next_psn = 0;
	send_numbered(path, OPCODE_RC_WRITE_FIRST, 0, SHORT);
	while (next_psn == 0)
		port_udp_receive(b.port, note_next, NULL);
	calls_align();
	send_numbered(path, OPCODE_RC_WRITE_MIDDLE, 1, LONG);
	readable_await(1);
	send_numbered(path, OPCODE_RC_WRITE_LAST, 2, SHORT);
	readable_await(2);
	port_udp_receive(b.port, note_next, NULL);
	assert_int_equal(next_psn, 2);
	port_udp_receive(b.port, note_next, NULL);
	assert_int_equal(next_psn, 3);
	assert_int_equal(b.counters.rx_frames, 2);
	assert_int_equal(b.counters.rx_datagrams, 3);
}

static void address_that_is_removed_receives_nothing_by_the_socket(void **state)
{
	const struct gid ipv6 = udp_gid("fd00:99::2");
	uint32_t path;

	(void)state;
	ends_open(true, true, true);
	second_address_add(&ipv6);
	path = path_to_second_address(&ipv6);
	port_udp_remove_address(b.port, 1);
	stage(&a, path, SHORT, 0);
	assert_int_equal(port_udp_flush(a.port), 0);
	b_speaks();
	send_one(&a, SHORT, 0);
	receive(&b, 1);
	assert_int_equal(b.counters.rx_elsewhere, 0);
}

static void place_where_it_is_impossible_is_refused(void **state)
{
	struct xdp_program other;
	struct end *end = &b;

	(void)state;
	ends_open(true, false, false);
	netns_switch(b.netns);
	assert_int_equal(port_udp_use_xdp(b.port, 0, if_nametoindex("lo"), false), -EOPNOTSUPP);
	assert_int_equal(port_udp_use_xdp(b.port, 0, 12345, false), -ENODEV);
	xdp_bind_error = EACCES;
	assert_int_equal(end_use_link(end), -ENOEXEC);
	xdp_bind_error = 0;
	assert_int_equal(xdp_program_join(&other, if_nametoindex("vb"), false, OTHER_NETNS), 0);
	assert_int_equal(end_use_link(end), -EBUSY);
	xdp_program_leave(&other);
	netns_run("ip link set vb mtu 9000");
	assert_int_equal(end_use_link(end), -ERANGE);
	netns_run("ip link set vb mtu %d", XDP_MTU);
	exchange(20);
	netns_switch(b.netns);
	assert_int_equal(end_use_link(end), 0);
}

static int bpf_call(int command, union bpf_attr *attr)
{
	int rc = (int)syscall(SYS_bpf, command, attr, sizeof(*attr));

	assert_true(rc >= 0);
	return rc;
}

static int map_create(enum bpf_map_type type, uint32_t key_bytes, uint32_t value_bytes)
{
	union bpf_attr attr = {.map_type = type,
		.key_size = key_bytes,
		.value_size = value_bytes,
		.max_entries = 8};

	return bpf_call(BPF_MAP_CREATE, &attr);
}

/*
 * Attach a program with urnic's name and two maps. The first one has urnic's keys, and the longest
 * values that the test has. Returns the descriptor of the link.
 */
static int foreign_program_attach(void)
{
	static const uint8_t value[1 << 16];
	const int first = map_create(BPF_MAP_TYPE_HASH, 24, sizeof(value));
	const int second = map_create(BPF_MAP_TYPE_XSKMAP, 4, 4);
	const struct bpf_insn code[] = {
		{BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, first},
		{0},
		{BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, second},
		{0},
		{BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, XDP_PASS},
		{BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
	};
	uint8_t key[24] = {0};
	union bpf_attr entry = {
		.map_fd = (uint32_t)first, .key = (uintptr_t)key, .value = (uintptr_t)value};
	union bpf_attr load = {.prog_type = BPF_PROG_TYPE_XDP,
		.insns = (uintptr_t)code,
		.insn_cnt = sizeof(code) / sizeof(code[0]),
		.license = (uintptr_t) "BSD",
		.prog_name = "urnic_roce",
		.expected_attach_type = BPF_XDP};
	union bpf_attr attach = {
		.link_create = {.target_ifindex = if_nametoindex("vb"), .attach_type = BPF_XDP}};
	int link;

	memset(key + 16, 0xff, 8);
	bpf_call(BPF_MAP_UPDATE_ELEM, &entry);
	attach.link_create.prog_fd = (uint32_t)bpf_call(BPF_PROG_LOAD, &load);
	link = bpf_call(BPF_LINK_CREATE, &attach);
	close((int)attach.link_create.prog_fd);
	close(first);
	close(second);
	return link;
}

/* The test crashes if the port reads the value of such a map. */
static void program_with_maps_of_another_layout_is_refused(void **state)
{
	int link;

	(void)state;
	ends_open(true, true, false);
	netns_switch(b.netns);
	link = foreign_program_attach();
	assert_int_equal(end_use_link(&b), -EBUSY);
	close(link);
	assert_int_equal(end_use_link(&b), 0);
	exchange(20);
}

static bool has_program(void)
{
	netns_switch(b.netns);
	return netns_run("ip -d link show vb | grep -q prog/xdp") == 0;
}

static void nothing_stays_of_a_port_or_a_killed_process(void **state)
{
	pid_t child;
	int pipe_fds[2];
	char byte;

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	child = fork();
	if (child == 0) {
		end_open(&b, "10.99.0.2", true);
		if (!has_program() || write(pipe_fds[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
	assert_true(has_program());
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	for (int i = 0; i < 10000 && has_program(); i++)
		usleep(1000);
	assert_false(has_program());
	ends_open(true, true, true);
	assert_true(has_program());
	exchange(20);
	port_udp_destroy(b.port);
	b.port = NULL;
	assert_false(has_program());
}

/* The last test, because it removes the interfaces. */
static void lost_interface_harms_nothing(void **state)
{
	struct pollfd fds[PORT_UDP_FDS_MAX];
	int error;
	socklen_t bytes = sizeof(error);

	(void)state;
	ends_open(true, true, true);
	exchange(20);
	b_speaks();
	netns_switch(a.netns);
	assert_int_equal(netns_run("ip link del va"), 0);
	for (uint32_t i = 0; i < 100; i++) {
		stage(&a, a.path, SHORT, i);
		port_udp_flush(a.port);
	}
	assert_int_equal(port_udp_receive(a.port, on_packet, &a), 0);
	/* As the worker does: an error is reported once, and then there is nothing to wait for. */
	for (unsigned i = 0, count = port_udp_fds(a.port, fds); i < count; i++)
		getsockopt(fds[i].fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
	assert_int_equal(poll(fds, port_udp_fds(a.port, fds), 0), 0);
}

static int way_restore(void **state)
{
	way = WAY_XDP;
	return ends_close(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ipv4_ends_deliver_all_in_order),
		TEST(ipv6_ends_deliver_all_in_order),
		TEST(end_understands_a_plain_sender),
		TEST(plain_receiver_understands_an_end),
		TEST(plain_ipv6_receiver_understands_an_end),
		TEST(socket_of_a_generic_program_asks_for_copies),
		cmocka_unit_test_teardown(generic_end_splits_super_packets, way_restore),
		TEST(dscp_and_hop_limit_of_a_path_arrive),
		TEST(many_frames_without_a_reader_lose_none_that_was_taken),
		TEST(frames_left_by_a_busy_interface_block_the_port_until_it_takes_them),
		TEST(port_sends_without_an_interface_that_stays_busy),
		TEST(second_lane_has_another_queue_or_none),
		TEST(second_address_of_the_lane_receives_too),
		cmocka_unit_test_teardown(
			end_of_a_message_to_the_second_address_waits_for_that_socket_only,
			way_restore),
		TEST(address_that_is_removed_receives_nothing_by_the_socket),
		TEST(place_where_it_is_impossible_is_refused),
		TEST(program_with_maps_of_another_layout_is_refused),
		TEST(nothing_stays_of_a_port_or_a_killed_process),
		TEST(lost_interface_harms_nothing),
	};

	way = WAY_XDP;
	if (!namespaces_begin() || netns_join_queues(a.netns, b.netns, XDP_MTU, 1) || !can_link())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
