/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fabric, its listener and a machine that has joined as host "b", in one process, over the
 * loopback interface.
 */
#include "fabricd_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "fabricd/remote/fabric_join.h"
#include "fabricd/remote/fabric_join_internal.h"
#include "fabricd/remote/fabric_listen.h"
#include "fabricd/remote/fabric_listen_internal.h"

enum { PORT_DOWN = 1, MANY_FRAMES = 500, LONG_BYTES = 4000, IDLE_ROUNDS = 12 };

static struct {
	struct remote_key key;
	struct remote_address address;
	char name[32]; /* of the fabric on the machine that joins */
	struct fabric_listen_settings listen_settings;
	struct fabric_join_settings join_settings;
	struct fabric_listen *listen;
	struct fabric_join *join;
	pthread_t listen_thread;
	pthread_t join_thread;
	_Atomic bool listen_ends;
	_Atomic bool join_ends;
	struct fabric_client *clients[2]; /* of "host 1", and of "b" on the machine */
} far_;

static void *listen_run(void *argument)
{
	(void)argument;
	while (!far_.listen_ends)
		if (fabric_listen_turn(far_.listen) == 0)
			usleep(PAUSE_US / 10);
	return NULL;
}

static void *join_run(void *argument)
{
	(void)argument;
	while (!far_.join_ends)
		if (fabric_join_turn(far_.join) == 0)
			usleep(PAUSE_US / 10);
	return NULL;
}

static void join_go_on(void)
{
	far_.join_ends = false;
	assert_int_equal(pthread_create(&far_.join_thread, NULL, join_run, NULL), 0);
}

static void join_stop(void)
{
	far_.join_ends = true;
	pthread_join(far_.join_thread, NULL);
}

/* At another port, if a test beside this one has it. */
static void address_choose(void)
{
	char why[ATTACH_TEXT_BYTES], text[32];
	int port = 20000 + getpid() % 10000, rc;

	do {
		snprintf(text, sizeof(text), "127.0.0.1:%d", port++);
		assert_int_equal(remote_address_find(text, &far_.address, why), 0);
		rc = fabric_listen_create(&far_.listen_settings, &far_.listen, why);
	} while (rc == -EADDRINUSE);
	assert_int_equal(rc, 0);
	fabric_listen_destroy(far_.listen);
}

static void listen_begin(void)
{
	char why[ATTACH_TEXT_BYTES];

	assert_int_equal(fabric_listen_create(&far_.listen_settings, &far_.listen, why), 0);
	far_.listen_ends = false;
	assert_int_equal(pthread_create(&far_.listen_thread, NULL, listen_run, NULL), 0);
}

static void listen_end(void)
{
	far_.listen_ends = true;
	pthread_join(far_.listen_thread, NULL);
	fabric_listen_destroy(far_.listen);
}

static struct fabric_client *far_client_make(void)
{
	char place[ATTACH_TEXT_BYTES], why[ATTACH_TEXT_BYTES];
	struct fabric_client *client;

	snprintf(place, sizeof(place), "%s:b", far_.name);
	assert_int_equal(fabric_client_open(place, &client, why), 0);
	return client;
}

static void machines_begin(void)
{
	static const char *const hosts[] = {"b"};
	char why[ATTACH_TEXT_BYTES];

	snprintf(far_.name, sizeof(far_.name), "far-%d", getpid());
	memset(far_.key.bytes, 7, 32);
	far_.key.count = 32;
	far_.listen_settings = (struct fabric_listen_settings){
		.name = fabric_name, .address = &far_.address, .key = &far_.key};
	far_.join_settings = (struct fabric_join_settings){.name = far_.name,
		.address = &far_.address,
		.key = &far_.key,
		.hosts = hosts,
		.host_count = 1};
	address_choose();
	listen_begin();
	assert_int_equal(fabric_join_create(&far_.join_settings, &far_.join, why), 0);
	join_go_on();
	far_.clients[0] = client_make("host 1");
	far_.clients[1] = far_client_make();
	for (unsigned i = 0; i < 2; i++)
		await_state(far_.clients[i], PORT_ACTIVE, &pair_.ports[i]);
}

static void machines_end(void)
{
	for (unsigned i = 0; i < 2; i++)
		fabric_client_close(far_.clients[i]);
	join_stop();
	fabric_join_destroy(far_.join);
	listen_end();
}

/* A frame from host `from` to a channel of the other one. */
static uint32_t long_frame_make(uint8_t *frame, unsigned from, uint32_t lease, uint32_t psn)
{
	const uint32_t bytes = LONG_BYTES;
	const struct lrh lrh = {.next = LRH_BTH,
		.dlid = pair_.ports[!from].lid,
		.slid = pair_.ports[from].lid,
		.words = (uint16_t)(bytes / 4)};
	struct bth bth = {.opcode = 4, .pkey = 0xffff};

	memset(frame, (int)psn, bytes);
	bth.dest_qpn.value = lease << ATTACH_LEASE_QPN_SHIFT | 5;
	bth.psn.value = psn;
	lrh_encode(&lrh, frame);
	bth_encode(&bth, frame + LRH_BYTES);
	return bytes;
}

static void frames_pass(struct fabric_frames *const channels[2], unsigned from)
{
	uint8_t frame[RECORD_BYTES_MAX], got[RECORD_BYTES_MAX];
	uint32_t sent = 0, received = 0, port;

	while (received < MANY_FRAMES) {
		int bytes;

		/* As a sender with a window: what is under way has room everywhere. */
		if (sent < MANY_FRAMES && sent - received < 64) {
			frame_send(channels[from], frame,
				long_frame_make(
					frame, from, fabric_frames_lease(channels[!from]), sent++));
			continue;
		}
		bytes = fabric_frames_receive(channels[!from], got, &port);
		if (bytes == 0) {
			usleep(PAUSE_US / 10);
			continue;
		}
		assert_int_equal(bytes,
			long_frame_make(
				frame, from, fabric_frames_lease(channels[!from]), received));
		lrh_set_vl(frame, (uint8_t)(got[0] >> 4));
		assert_memory_equal(got, frame, bytes);
		received++;
	}
}

static void frames_pass_in_order_between_machines(void **state)
{
	struct fabric_frames *channels[2];

	(void)state;
	machines_begin();
	assert_int_equal(pair_.ports[1].guid_count, 8);
	assert_int_not_equal(pair_.ports[0].lid, pair_.ports[1].lid);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fabric_frames_open(far_.clients[i], &channels[i]), 0);
	for (unsigned from = 0; from < 2; from++)
		frames_pass(channels, from);
	for (unsigned i = 0; i < 2; i++)
		fabric_frames_close(channels[i]);
	machines_end();
}

/* A request to the SMA of the machine's own port. */
static void management_datagrams_of_a_machine_are_answered(void **state)
{
	const uint8_t get[MAD_BYTES] = {1, 1, 1, 1, [16] = 0, [17] = 0x15, [23] = 1};
	struct attach_agent agent = {.management_class = 1, .class_version = 1, .qpn = 0};
	struct attach_mad mad = {.timeout_ms = 1000, .retries = 3, .mad_bytes = MAD_BYTES};
	uint8_t answer[MAD_BYTES];
	uint32_t opening;
	int socket;

	(void)state;
	machines_begin();
	socket = fabric_mads_open(far_.clients[1], 1, &opening);
	assert_true(socket >= 0);
	assert_int_equal(fabric_mads_agent_add(far_.clients[1], opening, &agent), 0);
	for (unsigned i = 0; i < 2; i++) {
		mad.agent = agent.id;
		mad.lid = pair_.ports[i].lid;
		assert_int_equal(fabric_mads_send(socket, &mad, get), 0);
		await_readable(socket);
		assert_int_equal(fabric_mads_receive(socket, &mad, answer, sizeof(answer)), 0);
		assert_int_equal(mad.status, 0);
		assert_int_equal(answer[3], 0x81);
		assert_int_equal(answer[64 + 16] << 8 | answer[64 + 17], pair_.ports[i].lid);
		mad = (struct attach_mad){.timeout_ms = 1000, .retries = 3, .mad_bytes = MAD_BYTES};
	}
	close(socket);
	machines_end();
}

static void issm_of_a_machine_is_that_of_its_port(void **state)
{
	struct attach_port port = {0};
	char path[ATTACH_TEXT_BYTES];
	int fd;

	(void)state;
	machines_begin();
	assert_int_equal(fabric_client_issm_path(far_.clients[1], 1, path), 0);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	for (unsigned i = 0; i < WAIT_MS && !(port.capability_mask & IB_CAPABILITY_IS_SM); i++) {
		assert_int_equal(fabric_client_port(far_.clients[1], 1, &port), 0);
		usleep(PAUSE_US);
	}
	assert_true(port.capability_mask & IB_CAPABILITY_IS_SM);
	close(fd);
	for (unsigned i = 0; i < WAIT_MS && port.capability_mask & IB_CAPABILITY_IS_SM; i++) {
		assert_int_equal(fabric_client_port(far_.clients[1], 1, &port), 0);
		usleep(PAUSE_US);
	}
	assert_false(port.capability_mask & IB_CAPABILITY_IS_SM);
	machines_end();
}

static void machine_outlives_its_listener(void **state)
{
	struct fabric_frames *channels[2];
	struct attach_port port;

	(void)state;
	machines_begin();
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fabric_frames_open(far_.clients[i], &channels[i]), 0);
	listen_end();
	await_state(far_.clients[1], PORT_DOWN, &port);
	listen_begin();
	await_state(far_.clients[1], PORT_ACTIVE, &port);
	assert_int_equal(port.lid, pair_.ports[1].lid);
	for (unsigned from = 0; from < 2; from++)
		frames_pass(channels, from);
	for (unsigned i = 0; i < 2; i++)
		fabric_frames_close(channels[i]);
	machines_end();
}

/* Anything, from anywhere, at the listener's ports. */
static void strangers_disturb_nobody(void **state)
{
	const struct sockaddr *address = (const struct sockaddr *)&far_.address.socket;
	struct fabric_frames *channels[2];
	uint8_t bytes[1400];
	int streams[20];

	(void)state;
	machines_begin();
	for (unsigned i = 0; i < ARRAY_COUNT(streams); i++) {
		streams[i] = socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(connect(streams[i], address, far_.address.bytes), 0);
		memset(bytes, (int)i, sizeof(bytes));
		memcpy(bytes, "urnicIB\n\0\0\0\1", i % 3 ? 12 : 0);
		send(streams[i], bytes, i * 50, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fabric_frames_open(far_.clients[i], &channels[i]), 0);
	for (unsigned i = 0; i < 200; i++) {
		const int datagrams = socket(AF_INET, SOCK_DGRAM, 0);

		sendto(datagrams, bytes, i * 7, 0, address, far_.address.bytes);
		close(datagrams);
	}
	frames_pass(channels, 0);
	for (unsigned i = 0; i < ARRAY_COUNT(streams); i++)
		close(streams[i]);
	for (unsigned i = 0; i < 2; i++)
		fabric_frames_close(channels[i]);
	machines_end();
}

/* --- a listener's parts --- */

/* `count` frames from each host of a machine to the other one. */
static void hosts_send(struct machine *machine, uint32_t count)
{
	uint8_t bytes[LONG_BYTES];

	for (uint32_t i = 0; i < 2 * count; i++) {
		const struct remote_frame frame = {
			.place = {.host = i % 2, .port = 1}, .bytes = bytes, .count = LONG_BYTES};

		long_frame_make(bytes, i % 2, 1, i);
		machine_host_send(machine, &frame);
		fabric_frames_flush(machine->hosts[i % 2].channel);
		usleep(PAUSE_US);
	}
}

static void window_drain(int fd, uint32_t counts[2])
{
	uint8_t datagram[DATAGRAM_BYTES_MAX];

	while (recv(fd, datagram, sizeof(datagram), 0) > 0)
		counts[datagram[13]]++;
}

/* Take frames until the window is full. Add to `counts` those of each host, which come by `fd`. */
static void window_fill(struct machine *machine, int fd, uint32_t counts[2])
{
	for (unsigned i = 0; i < WAIT_MS && datagram_has_room(&machine->datagrams); i++)
		if (machine_hosts_frames(machine) == 0)
			usleep(PAUSE_US);
	assert_false(datagram_has_room(&machine->datagrams));
	window_drain(fd, counts);
	machine->datagrams.acknowledged = machine->datagrams.sent;
}

static struct machine machine;
static struct fabric_listen_settings machine_settings = {.name = fabric_name};
static struct fabric_listen machine_listen = {.settings = &machine_settings};

/* A machine that is both hosts, whose datagrams come by sockets[1]. */
static void machine_take(int sockets[2], uint32_t counts[2])
{
	static const struct remote_join join = {.host_count = 2, .hosts = {"host 1", "b"}};
	char why[ATTACH_TEXT_BYTES];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, sockets), 0);
	memset(&machine, 0, sizeof(machine));
	machine.listen = &machine_listen;
	machine_listen.loop.epoll = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(machine_hosts_take(&machine, &join, why), 0);
	machine.datagrams.fd = sockets[0];
	machine.datagrams.bytes_max = DATAGRAM_BYTES_MAX;
	machine.datagrams.window = 64;
	for (unsigned i = 0; i < 2; i++)
		await_state(machine.hosts[i].client, PORT_ACTIVE, &pair_.ports[i]);
	/* The links of taken hosts go down and up again: wait until both pass frames. */
	for (unsigned i = 0; i < WAIT_MS && (!counts[0] || !counts[1]); i++) {
		hosts_send(&machine, 1);
		machine_hosts_frames(&machine);
		machine.datagrams.acknowledged = machine.datagrams.sent;
		window_drain(sockets[1], counts);
	}
	machine.datagrams.window = 4;
	counts[0] = counts[1] = 0;
}

static void machine_give_back(const int sockets[2])
{
	machine_hosts_return(&machine);
	for (unsigned i = 0; i < 2; i++)
		close(sockets[i]);
	close(machine_listen.loop.epoll);
}

static void hosts_of_a_machine_share_its_credits(void **state)
{
	uint32_t counts[2] = {0};
	int sockets[2];

	(void)state;
	machine_take(sockets, counts);
	hosts_send(&machine, 20);
	for (unsigned i = 0; i < 4; i++)
		window_fill(&machine, sockets[1], counts);
	assert_int_equal(counts[0] + counts[1], 16);
	assert_true(counts[0] >= 4);
	assert_true(counts[1] >= 4);
	machine_give_back(sockets);
}

/* A MAD from the second host to the first one, for an agent of its programs. */
static void mad_to_host_send(void)
{
	const struct mad_frame headers = {.dlid = pair_.ports[0].lid,
		.slid = pair_.ports[1].lid,
		.pkey = 0xffff,
		.dest_qpn = GSI_QPN,
		.source_qpn = GSI_QPN,
		.qkey = GSI_QKEY};
	const uint8_t mad[MAD_BYTES] = {1, 0x32, 1, 1};
	uint8_t bytes[MAD_FRAME_BYTES_MAX];
	struct remote_frame frame = {.place = {.host = 1, .port = 1}, .bytes = bytes};

	frame.count = mad_frame_encode(&headers, mad, bytes);
	machine_host_send(&machine, &frame);
	fabric_frames_flush(machine.hosts[1].channel);
}

static void management_datagram_passes_data_that_waits_for_credits(void **state)
{
	uint32_t counts[2] = {0}, data = 0;
	int sockets[2], control[2];

	(void)state;
	machine_take(sockets, counts);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, control), 0);
	assert_int_equal(remote_control_init(&machine.control, control[0], false, &far_.key), 0);
	machine.control.state = REMOTE_CONTROL_OPEN;
	hosts_send(&machine, 20);
	mad_to_host_send();
	for (unsigned i = 0; i < WAIT_MS && machine.control.sent == 0; i++) {
		machine_hosts_frames(&machine);
		usleep(PAUSE_US);
	}
	/* With it go the events of its port. */
	assert_true(machine.control.sent > 0);
	assert_false(datagram_has_room(&machine.datagrams));
	/* No data is lost. */
	for (unsigned i = 0; i < WAIT_MS && data < 40; i++) {
		machine_hosts_frames(&machine);
		machine.datagrams.acknowledged = machine.datagrams.sent;
		window_drain(sockets[1], counts);
		data = counts[0] + counts[1];
		usleep(PAUSE_US / 10);
	}
	assert_int_equal(counts[0], 20);
	assert_int_equal(counts[1], 20);
	machine_give_back(sockets);
	remote_control_done(&machine.control);
	close(control[1]);
}

static void listener_without_descriptors_rests_and_goes_on(void **state)
{
	struct rlimit all, none;
	struct pollfd polled = {.events = POLLIN};
	char why[ATTACH_TEXT_BYTES];
	int stranger;

	(void)state;
	assert_int_equal(fabric_listen_create(&far_.listen_settings, &far_.listen, why), 0);
	stranger = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(stranger, (const struct sockaddr *)&far_.address.socket,
				 far_.address.bytes),
		0);
	polled.fd = far_.listen->loop.epoll;
	assert_int_equal(poll(&polled, 1, WAIT_MS), 1);
	getrlimit(RLIMIT_NOFILE, &all);
	none = (struct rlimit){0, all.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	assert_int_equal(fabric_listen_turn(far_.listen), 0);
	setrlimit(RLIMIT_NOFILE, &all);
	assert_int_equal(far_.listen->machine_count, 0);
	assert_int_equal(poll(&polled, 1, 0), 0);
	for (unsigned i = 0; i < WAIT_MS && far_.listen->machine_count == 0; i++) {
		assert_int_equal(fabric_listen_turn(far_.listen), 0);
		usleep(PAUSE_US);
	}
	assert_int_equal(far_.listen->machine_count, 1);
	close(stranger);
	fabric_listen_destroy(far_.listen);
}

/* A turn leaves nothing to do, also when it came late: the uplink's descriptor is not readable. */
static void idle_joiner_sleeps(void **state)
{
	unsigned readable = 0;

	(void)state;
	machines_begin();
	join_stop();
	for (unsigned i = 0; i < IDLE_ROUNDS; i++) {
		struct pollfd polled = {.fd = far_.join->epoll, .events = POLLIN};

		poll(NULL, 0, 70);
		fabric_join_turn(far_.join);
		poll(NULL, 0, 35);
		fabric_join_turn(far_.join);
		readable += poll(&polled, 1, 0) == 1;
	}
	/* A message of the listener may have come between the turn and the look. */
	assert_in_range(readable, 0, IDLE_ROUNDS / 4);
	join_go_on();
	machines_end();
}

static void fabric_with_other_hosts_ends_the_joiner(void **state)
{
	uint64_t *guid;
	int rc = 0;

	(void)state;
	machines_begin();
	join_stop();
	listen_end();
	guid = &far_.join->hosts[0].node.node_guid;
	*guid ^= 1;
	listen_begin();
	for (unsigned i = 0; rc >= 0 && i < WAIT_MS; i++) {
		rc = fabric_join_turn(far_.join);
		usleep(PAUSE_US);
	}
	assert_int_equal(rc, -ESTALE);
	assert_non_null(strstr(far_.join->why, "start urnic fabric join again"));
	far_.join->is_stale = false;
	*guid ^= 1;
	join_go_on();
	machines_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_pass_in_order_between_machines),
		cmocka_unit_test(management_datagrams_of_a_machine_are_answered),
		cmocka_unit_test(issm_of_a_machine_is_that_of_its_port),
		cmocka_unit_test(machine_outlives_its_listener),
		cmocka_unit_test(strangers_disturb_nobody),
		cmocka_unit_test(idle_joiner_sleeps),
		cmocka_unit_test(fabric_with_other_hosts_ends_the_joiner),
		cmocka_unit_test(hosts_of_a_machine_share_its_credits),
		cmocka_unit_test(management_datagram_passes_data_that_waits_for_credits),
		cmocka_unit_test(listener_without_descriptors_rests_and_goes_on),
	};

	return cmocka_run_group_tests(tests, server_begin, server_end);
}
