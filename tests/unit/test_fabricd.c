/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fabric's process, in a thread, and its clients: two hosts at a switch, which the embedded
 * subnet manager sets up.
 */
#include "fabricd_fixture.h"

/* --- clients --- */

static void client_of_no_node_is_refused_with_a_sentence(void **state)
{
	char place[ATTACH_TEXT_BYTES], why[ATTACH_TEXT_BYTES];
	struct fabric_client *client;

	(void)state;
	assert_int_equal(fabric_client_open("unit-none:b", &client, why), -ECONNREFUSED);
	assert_non_null(strstr(why, "no fabric \"unit-none\" runs"));
	snprintf(place, sizeof(place), "%s:c", fabric_name);
	assert_int_equal(fabric_client_open(place, &client, why), -ENODEV);
	assert_non_null(strstr(why, "has no node \"c\""));
	snprintf(place, sizeof(place), "%s:s", fabric_name);
	assert_int_equal(fabric_client_open(place, &client, why), -ENODEV);
	assert_non_null(strstr(why, "is a switch"));
	assert_int_equal(fabric_client_open("", &client, why), -EINVAL);
	snprintf(place, sizeof(place), "%s:", fabric_name);
	assert_int_equal(fabric_client_open_node(place, &client, why), -EINVAL);
	assert_non_null(strstr(why, "names no node"));
}

static void client_sees_its_node_and_the_ports_that_it_has(void **state)
{
	struct fabric_client *client = client_make("host 1");
	const struct attach_node *node = fabric_client_node(client);
	struct fabric_client *by_guid;
	struct attach_port port;
	char guid[32];

	(void)state;
	assert_string_equal(node->name, "host 1");
	assert_int_equal(node->port_count, 1);
	await_state(client, PORT_ACTIVE, &port);
	assert_int_not_equal(port.lid, 0);
	assert_int_not_equal(port.sm_lid, 0);
	assert_int_equal(port.pkeys[0], 0xffff);
	assert_int_equal(port.vl_cap, 4); /* eight lanes */
	assert_int_equal(fabric_client_port(client, 0, &port), -ENODEV);
	assert_int_equal(fabric_client_port(client, 2, &port), -ENODEV);
	snprintf(guid, sizeof(guid), "0x%llx", (unsigned long long)node->node_guid);
	by_guid = client_make(guid);
	assert_int_equal(fabric_client_node(by_guid)->index, node->index);
	fabric_client_close(by_guid);
	fabric_client_close(client);
}

static void client_without_a_fabric_gets_a_sentence(void **state)
{
	struct fabric_client *client = client_make("");
	char why[ATTACH_TEXT_BYTES], *text;

	(void)state;
	shutdown(client->socket, SHUT_RDWR);
	assert_true(fabric_client_console(client, "dump", &text, why) < 0);
	assert_non_null(strstr(why, "the fabric does not answer"));
	fabric_client_close(client);
}

static void issm_file_sets_the_capability_while_it_is_open(void **state)
{
	struct fabric_client *client = client_make("b");
	char path[ATTACH_TEXT_BYTES];
	struct attach_port port;
	uint32_t wanted = IB_CAPABILITY_IS_SM;
	int fd;

	(void)state;
	assert_int_equal(fabric_client_issm_path(client, 1, path), 0);
	fd = open(path, O_NONBLOCK);
	assert_true(fd >= 0);
	for (unsigned step = 0; step < 2; step++) {
		for (unsigned i = 0; i < WAIT_MS; i++) {
			assert_int_equal(fabric_client_port(client, 1, &port), 0);
			if ((port.capability_mask & IB_CAPABILITY_IS_SM) == wanted)
				break;
			usleep(PAUSE_US);
		}
		assert_int_equal(port.capability_mask & IB_CAPABILITY_IS_SM, wanted);
		wanted = 0;
		if (step == 0)
			close(fd);
	}
	fabric_client_close(client);
}

static void cut_cable_is_an_event(void **state)
{
	struct fabric_client *client = client_make("b"), *console = client_make("");
	char why[ATTACH_TEXT_BYTES], *text;
	struct attach_event event = {0};
	struct attach_port port;
	struct fabric_flow *flow;
	int events;

	(void)state;
	await_state(client, PORT_ACTIVE, &port);
	events = fabric_client_events(client);
	assert_true(events >= 0);
	assert_int_equal(fabric_client_console(console, "unlink b[1]", &text, why), 0);
	free(text);
	await_readable(events);
	assert_int_equal(fabric_client_event(events, &event, &flow), 0);
	assert_null(flow);
	assert_int_equal(event.type, ATTACH_EVENT_PORT_ERROR);
	assert_int_equal(event.port, 1);
	assert_int_equal(fabric_client_console(console, "relink b[1]", &text, why), 0);
	free(text);
	await_state(client, PORT_ACTIVE, &port);
	/* A client of a node is no console. */
	assert_int_equal(fabric_client_console(client, "dump", &text, why), -EPERM);
	close(events);
	fabric_client_close(client);
	fabric_client_close(console);
}

/* --- MADs --- */

static void mad_that_needs_more_room_stays(void **state)
{
	struct attach_agent agent = {.management_class = MAD_CLASS_SUBN_ADM,
		.class_version = 2,
		.rmpp_version = 1,
		.qpn = 1};
	struct attach_mad mad = {
		.timeout_ms = 60000, .mad_bytes = MAD_BYTES, .qpn = 1, .qkey = GSI_QKEY};
	const struct mad_header header = {.base_version = 1,
		.management_class = MAD_CLASS_SUBN_ADM,
		.class_version = 2,
		.method = MAD_METHOD_GET,
		.attribute_id = PM_ATTRIBUTE_CLASS_PORT_INFO,
		.transaction_id = 7};
	uint8_t bytes[MAD_BYTES] = {0};
	uint32_t opening;
	int socket;

	(void)state;
	pair_begin();
	socket = fabric_mads_open(pair_.clients[0], 1, &opening);
	assert_true(socket >= 0);
	assert_int_equal(fabric_mads_agent_add(pair_.clients[0], opening, &agent), 0);
	mad.agent = agent.id;
	mad.lid = pair_.ports[0].sm_lid;
	mad_header_encode(&header, bytes);
	assert_int_equal(fabric_mads_receive(socket, &mad, bytes, sizeof(bytes)), -EAGAIN);
	assert_int_equal(fabric_mads_send(socket, &mad, bytes), 0);
	await_readable(socket);
	assert_int_equal(fabric_mads_receive(socket, &mad, bytes, MAD_BYTES - 1), -ENOSPC);
	assert_int_equal(mad.mad_bytes, MAD_BYTES);
	assert_int_equal(fabric_mads_receive(socket, &mad, bytes, MAD_BYTES), 0);
	assert_int_equal(mad.status, 0);
	assert_int_equal(mad.lid, pair_.ports[0].sm_lid);
	assert_int_equal(bytes[3], MAD_METHOD_GET_RESP);
	assert_int_equal(fabric_mads_agent_remove(pair_.clients[0], opening, agent.id), 0);
	assert_int_equal(fabric_mads_agent_remove(pair_.clients[0], opening, agent.id), -EINVAL);
	close(socket);
	pair_end();
}

/* --- frames --- */

/* A UD frame from one host to the other; returns its length. */
static void frame_reaches_the_channel_with_its_lease(void **state)
{
	struct fabric_frames *from, *to, *other;
	uint8_t frame[MAD_FRAME_BYTES_MAX];
	uint32_t bytes, port;

	(void)state;
	pair_begin();
	assert_int_equal(fabric_frames_open(pair_.clients[0], &from), 0);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &other), 0);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &to), 0);
	assert_int_not_equal(fabric_frames_lease(other), fabric_frames_lease(to));
	bytes = frame_make(
		frame, fabric_frames_lease(to) << ATTACH_LEASE_QPN_SHIFT | 7, pair_.ports[1].lid);
	for (unsigned i = 0; i < 100; i++) {
		frame_send(from, frame, bytes);
		frame_await(to, frame, bytes);
	}
	assert_int_equal(fabric_frames_receive(other, frame, &port), 0);
	/* A closed channel's lease is free again. */
	port = fabric_frames_lease(other);
	fabric_frames_close(other);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &other), 0);
	assert_int_equal(fabric_frames_lease(other), port);
	fabric_frames_close(from);
	fabric_frames_close(to);
	fabric_frames_close(other);
	pair_end();
}

/* A program's last acknowledgements are in the ring when it ends. */
static void frames_before_the_end_arrive(void **state)
{
	enum { FRAMES = 20000 }; /* more than the turns between two looks at clients take */
	uint8_t frame[MAD_FRAME_BYTES_MAX], got[RECORD_BYTES_MAX];
	struct fabric_frames *from, *to;
	uint32_t bytes, port, count = 0;
	int received;

	(void)state;
	pair_begin();
	assert_int_equal(fabric_frames_open(pair_.clients[0], &from), 0);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &to), 0);
	bytes = frame_make(
		frame, fabric_frames_lease(to) << ATTACH_LEASE_QPN_SHIFT | 7, pair_.ports[1].lid);
	const struct record_piece piece = {frame, bytes};
	for (unsigned i = 0; i < FRAMES; i++)
		assert_true(fabric_frames_send(from, 1, &piece, 1));
	fabric_frames_close(from);
	while (count < FRAMES) {
		if (fabric_frames_wait_begin(to))
			await_readable(fabric_frames_fd(to));
		fabric_frames_wait_end(to);
		while ((received = fabric_frames_receive(to, got, &port)) > 0)
			count++;
		assert_int_equal(received, 0);
	}
	fabric_frames_close(to);
	pair_end();
}

static void cm_send(struct fabric_frames *from, const struct cm_message *message, uint8_t *frame,
	uint32_t *ret_bytes)
{
	const struct mad_frame headers = {.dlid = pair_.ports[1].lid,
		.slid = pair_.ports[0].lid,
		.pkey = 0xffff,
		.dest_qpn = 1,
		.source_qpn = 1,
		.qkey = GSI_QKEY};
	uint8_t mad[MAD_BYTES];

	cm_message_encode(message, mad);
	*ret_bytes = mad_frame_encode(&headers, mad, frame);
	frame_send(from, frame, *ret_bytes);
}

static void cm_message_reaches_the_claim_or_the_lease(void **state)
{
	struct cm_message req = cm_message_begin(CM_REQ, 1, 77, 0), rep;
	struct fabric_frames *from, *listener, *other;
	uint8_t frame[MAD_FRAME_BYTES_MAX];
	uint32_t bytes;

	(void)state;
	pair_begin();
	assert_int_equal(fabric_frames_open(pair_.clients[0], &from), 0);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &other), 0);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &listener), 0);
	assert_int_equal(fabric_frames_claim(listener, SERVICE, UINT64_MAX), 0);
	assert_int_equal(fabric_frames_claim(other, SERVICE, UINT64_MAX), -EADDRINUSE);
	assert_int_equal(fabric_frames_claim(other, SERVICE & 0xff00, 0xff00), -EADDRINUSE);
	assert_int_equal(fabric_frames_release(other, SERVICE, UINT64_MAX), -EINVAL);
	req.req.service_id = SERVICE;
	cm_send(from, &req, frame, &bytes);
	frame_await(listener, frame, bytes);
	rep = cm_message_begin(
		CM_REP, 1, 78, fabric_frames_lease(other) << ATTACH_LEASE_COMM_ID_SHIFT | 5);
	cm_send(from, &rep, frame, &bytes);
	frame_await(other, frame, bytes);
	assert_int_equal(fabric_frames_release(listener, SERVICE, UINT64_MAX), 0);
	assert_int_equal(fabric_frames_claim(other, SERVICE, UINT64_MAX), 0);
	cm_send(from, &req, frame, &bytes);
	frame_await(other, frame, bytes);
	fabric_frames_close(from);
	fabric_frames_close(listener);
	fabric_frames_close(other);
	pair_end();
}

static void joins_of_a_channel_are_limited(void **state)
{
	const struct gid mgid = {{0xff}};
	struct fabric_frames *frames;
	uint32_t mlid = LID_MULTICAST_FIRST;

	(void)state;
	pair_begin();
	assert_int_equal(fabric_frames_open(pair_.clients[0], &frames), 0);
	while (mlid <= LID_MULTICAST_LAST &&
		fabric_frames_join(frames, 1, (uint16_t)mlid, &mgid) == 0)
		mlid++;
	assert_int_equal(mlid, LID_MULTICAST_FIRST + 4096);
	/* A second join to one group needs no room; a leave makes some. */
	assert_int_equal(fabric_frames_join(frames, 1, LID_MULTICAST_FIRST, &mgid), 0);
	assert_int_equal(fabric_frames_leave(frames, 1, LID_MULTICAST_FIRST + 1, &mgid), 0);
	assert_int_equal(fabric_frames_join(frames, 1, (uint16_t)mlid, &mgid), 0);
	fabric_frames_close(frames);
	pair_end();
}

/* The client says that it has written to the eventfd, and has not; a read would wait for it. */
static void eventfd_that_a_client_makes_blocking_delays_nobody(void **state)
{
	struct attach_message message = {.type = ATTACH_FRAMES_OPEN};
	struct attach_frames *shared;
	struct attach_port port;
	int fds[ATTACH_CHANNEL_DESCRIPTORS];

	(void)state;
	pair_begin();
	assert_int_equal(fabric_client_ask(pair_.clients[0], &message, fds, ARRAY_COUNT(fds)), 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_int_equal(fcntl(fds[2], F_SETFL, 0), 0);
	for (unsigned i = 0; i < 100; i++) {
		while (!atomic_exchange(&shared->is_fabric_waiting, 0))
			usleep(PAUSE_US);
		assert_int_equal(fabric_client_port(pair_.clients[1], 1, &port), 0);
	}
	munmap(shared, sizeof(*shared));
	for (unsigned i = 0; i < ARRAY_COUNT(fds); i++)
		close(fds[i]);
	pair_end();
}

/* The socket that wakes the client is full, and a write that may block would wait. */
static void socket_that_a_client_fills_and_makes_blocking_delays_nobody(void **state)
{
	struct attach_message message = {.type = ATTACH_FRAMES_OPEN};
	uint8_t frame[MAD_FRAME_BYTES_MAX];
	struct attach_frames *shared;
	struct fabric_frames *from;
	struct attach_port port;
	uint32_t bytes;
	int fds[ATTACH_CHANNEL_DESCRIPTORS];

	(void)state;
	pair_begin();
	assert_int_equal(fabric_client_ask(pair_.clients[0], &message, fds, ARRAY_COUNT(fds)), 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	while (send(fds[3], frame, 1, MSG_DONTWAIT) == 1)
		;
	assert_int_equal(fcntl(fds[3], F_SETFL, 0), 0);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &from), 0);
	bytes = frame_make(frame, message.frames.lease << ATTACH_LEASE_QPN_SHIFT | 7,
		pair_.ports[0].lid);
	for (unsigned i = 0; i < 100; i++) {
		atomic_store(&shared->is_client_waiting, 1);
		frame_send(from, frame, bytes);
		while (atomic_load(&shared->is_client_waiting))
			usleep(PAUSE_US);
		assert_int_equal(fabric_client_port(pair_.clients[1], 1, &port), 0);
	}
	munmap(shared, sizeof(*shared));
	for (unsigned i = 0; i < ARRAY_COUNT(fds); i++)
		close(fds[i]);
	fabric_frames_close(from);
	pair_end();
}

static void ended_client_leaves_nothing_behind(void **state)
{
	struct fabric_client *client;
	struct fabric_frames *frames;

	(void)state;
	for (unsigned i = 0; i < 2 * ATTACH_LEASES; i++) {
		client = client_make("b");
		assert_int_equal(fabric_frames_open(client, &frames), 0);
		assert_int_equal(fabric_frames_lease(frames), 1);
		assert_int_equal(fabric_frames_claim(frames, SERVICE, UINT64_MAX), 0);
		/* As when the process is killed. */
		fabric_frames_forget(frames);
		fabric_client_close(client);
	}
}

static uint64_t server_cpu_ms(void)
{
	struct timespec used;
	clockid_t clock;

	assert_int_equal(pthread_getcpuclockid(server_thread, &clock), 0);
	assert_int_equal(clock_gettime(clock, &used), 0);
	return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000;
}

/* A process that becomes a client as soon as it can read from `begin`. */
static pid_t client_fork(int begin)
{
	char place[ATTACH_TEXT_BYTES], why[ATTACH_TEXT_BYTES], byte;
	struct fabric_client *client;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	snprintf(place, sizeof(place), "%s:b", fabric_name);
	_exit(read(begin, &byte, 1) != 1 || fabric_client_open(place, &client, why));
}

/* A server that spins takes the whole time. */
static void client_waits_while_the_server_has_no_descriptor(void **state)
{
	struct rlimit all, none;
	uint64_t before_ms, used_ms;
	int begin[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(begin), 0);
	pid = client_fork(begin[0]);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	none = (struct rlimit){0, all.rlim_max};
	before_ms = server_cpu_ms();
	setrlimit(RLIMIT_NOFILE, &none);
	assert_int_equal(write(begin[1], "", 1), 1);
	usleep(400000);
	used_ms = server_cpu_ms() - before_ms;
	setrlimit(RLIMIT_NOFILE, &all);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_in_range(used_ms, 0, 100);
	close(begin[0]);
	close(begin[1]);
}

static void memory_that_may_shrink_is_no_flow(void **state)
{
	const struct {
		int seals;
		off_t bytes;
	} cases[] = {{F_SEAL_GROW, (off_t)attach_flow_memory()}, {F_SEAL_SHRINK, 4096}};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		int fd = memfd_create("test", MFD_ALLOW_SEALING);
		void *memory;

		assert_int_equal(ftruncate(fd, cases[i].bytes), 0);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, cases[i].seals), 0);
		assert_int_equal(fabric_memory_map(fd, attach_flow_memory(), &memory), -EPROTO);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(client_of_no_node_is_refused_with_a_sentence),
		cmocka_unit_test(client_sees_its_node_and_the_ports_that_it_has),
		cmocka_unit_test(client_without_a_fabric_gets_a_sentence),
		cmocka_unit_test(issm_file_sets_the_capability_while_it_is_open),
		cmocka_unit_test(cut_cable_is_an_event),
		cmocka_unit_test(mad_that_needs_more_room_stays),
		cmocka_unit_test(memory_that_may_shrink_is_no_flow),
		cmocka_unit_test(frame_reaches_the_channel_with_its_lease),
		cmocka_unit_test(frames_before_the_end_arrive),
		cmocka_unit_test(cm_message_reaches_the_claim_or_the_lease),
		cmocka_unit_test(joins_of_a_channel_are_limited),
		cmocka_unit_test(eventfd_that_a_client_makes_blocking_delays_nobody),
		cmocka_unit_test(socket_that_a_client_fills_and_makes_blocking_delays_nobody),
		cmocka_unit_test(ended_client_leaves_nothing_behind),
		cmocka_unit_test(client_waits_while_the_server_has_no_descriptor),
	};

	return cmocka_run_group_tests(tests, server_begin, server_end);
}
