/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bypass of the kernel's UDP, and order: short packets come by the ring, long ones by the
 * socket, and the port delivers them in the order in which they were sent.
 */
#include <linux/filter.h>

#include "base/arith.h"
#include "wire/bth.h"

#include "support/bypass_ends.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(mark_without_its_datagram_is_given_up),
		TEST(end_of_a_message_does_not_overtake_its_middle),
		TEST(packets_of_others_do_not_wait_for_a_message),
		TEST(middle_that_does_not_come_is_given_up),
		TEST(datagram_without_its_mark_overtakes_nothing),
		TEST(ring_that_overflows_loses_short_packets_only),
		TEST(filter_of_a_former_owner_is_taken_off),
	};

	return bypass_begin() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
