/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the fabric's process does when a process or a listener ends, and what a process reports of
 * the frames that its queue pairs refuse.
 */
#include "cm/cm.h"
#include "fabricd_fixture.h"

enum { LAST_QPN = 0x1234, COMM_ID = 5, OTHER_COMM_ID = 6, OFFSET = 4096 };

/* A memfd with room for last messages at OFFSET; with `seals` it cannot shrink. */
static int memory_make(int seals)
{
	int fd = memfd_create("unit", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(
		ftruncate(fd, OFFSET + CM_LAST_MESSAGES_MAX * sizeof(struct cm_last_message)), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static struct gid gid_of(const struct attach_port *port)
{
	struct gid gid = {{0}};

	put_be64(gid.raw, port->gid_prefix);
	put_be64(gid.raw + 8, port->guid);
	return gid;
}

/* Of a connection from the first host's channel `from` to the second one's channel `to`. */
static struct cm_last_message last_message_to(uint32_t from_lease, const struct fabric_frames *to)
{
	return (struct cm_last_message){
		.attribute = CM_DREQ,
		.local_comm_id = from_lease << ATTACH_LEASE_COMM_ID_SHIFT | COMM_ID,
		.remote_comm_id = fabric_frames_lease(to) << ATTACH_LEASE_COMM_ID_SHIFT |
			OTHER_COMM_ID,
		.remote_qpn = LAST_QPN,
		.local = gid_of(&pair_.ports[0]),
		.remote = gid_of(&pair_.ports[1]),
		.ib = {.port = 1, .slid = pair_.ports[0].lid, .dlid = pair_.ports[1].lid},
	};
}

/* Receive the next message of the connection manager. */
static void message_await(struct fabric_frames *frames, struct cm_message *ret_message)
{
	uint8_t bytes[RECORD_BYTES_MAX];
	struct mad_frame headers;
	struct ib_frame decoded;
	const uint8_t *mad;
	uint32_t port;
	int count;

	while (fabric_frames_wait_begin(frames)) {
		await_readable(fabric_frames_fd(frames));
		fabric_frames_wait_end(frames);
	}
	count = fabric_frames_receive(frames, bytes, &port);
	assert_true(count > 0);
	assert_true(ib_frame_decode(&decoded, bytes, (uint32_t)count));
	assert_true(decoded.has_grh);
	assert_true(mad_frame_decode(&headers, &decoded, bytes, (uint32_t)count, &mad));
	assert_true(cm_message_decode(ret_message, mad));
}

static void peer_of_a_process_that_ends_gets_its_last_message(void **state)
{
	struct fabric_client *dying;
	struct fabric_frames *from, *to;
	struct cm_last_message last;
	struct cm_message message;
	uint32_t lease;
	int memory = memory_make(F_SEAL_SHRINK | F_SEAL_GROW);

	(void)state;
	pair_begin();
	dying = client_make("host 1");
	assert_int_equal(fabric_frames_open(dying, &from), 0);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &to), 0);
	lease = fabric_frames_lease(from);
	/* The messages of other leases are not this channel's. */
	last = last_message_to(lease + 1, to);
	assert_int_equal(pwrite(memory, &last, sizeof(last), OFFSET), sizeof(last));
	last = last_message_to(lease, to);
	assert_int_equal(pwrite(memory, &last, sizeof(last), OFFSET + 100 * sizeof(last)),
		sizeof(last));
	assert_int_equal(fabric_frames_keep_last_messages(from, memory, OFFSET), 0);
	assert_int_equal(fabric_frames_keep_last_messages(from, memory, OFFSET), -EINVAL);
	close(memory);
	fabric_client_close(dying);
	message_await(to, &message);
	assert_int_equal(message.attribute, CM_DREQ);
	assert_int_equal(message.dreq.local_comm_id, last.local_comm_id);
	assert_int_equal(message.dreq.remote_comm_id, last.remote_comm_id);
	assert_int_equal(message.dreq.remote_qpn, LAST_QPN);
	fabric_frames_forget(from);
	fabric_frames_close(to);
	pair_end();
}

static void memory_that_may_shrink_or_block_keeps_no_messages(void **state)
{
	struct fabric_frames *frames;
	int memory = memory_make(0), pipes[2];

	(void)state;
	pair_begin();
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(fabric_frames_open(pair_.clients[0], &frames), 0);
	assert_int_equal(fabric_frames_keep_last_messages(frames, memory, OFFSET), -EINVAL);
	assert_int_equal(fabric_frames_keep_last_messages(frames, pipes[0], 0), -EINVAL);
	close(memory);
	memory = memory_make(F_SEAL_SHRINK);
	assert_int_equal(fabric_frames_keep_last_messages(frames, memory, UINT64_MAX), -EINVAL);
	close(memory);
	close(pipes[0]);
	close(pipes[1]);
	fabric_frames_close(frames);
	pair_end();
}

static void request_send(struct fabric_frames *from, uint64_t service_id)
{
	struct cm_message req = cm_message_begin(
		CM_REQ, 1, fabric_frames_lease(from) << ATTACH_LEASE_COMM_ID_SHIFT | COMM_ID, 0);
	const struct mad_frame headers = {.dlid = pair_.ports[1].lid,
		.slid = pair_.ports[0].lid,
		.pkey = 0xffff,
		.dest_qpn = 1,
		.source_qpn = 1,
		.qkey = GSI_QKEY,
		.has_grh = true,
		.grh = {.hop_limit = 1,
			.sgid = gid_of(&pair_.ports[0]),
			.dgid = gid_of(&pair_.ports[1])}};
	uint8_t mad[MAD_BYTES], frame[MAD_FRAME_BYTES_MAX];

	req.req.service_id = service_id;
	cm_message_encode(&req, mad);
	frame_send(from, frame, mad_frame_encode(&headers, mad, frame));
}

/* The first request is left without an answer, so the answer is that to the second one. */
static void request_for_a_listener_that_has_just_ended_gets_no_answer(void **state)
{
	struct fabric_frames *from, *listener;
	struct cm_message message;
	uint8_t frame[RECORD_BYTES_MAX];
	uint32_t port;

	(void)state;
	pair_begin();
	assert_int_equal(fabric_frames_open(pair_.clients[0], &from), 0);
	assert_int_equal(fabric_frames_open(pair_.clients[1], &listener), 0);
	assert_int_equal(fabric_frames_claim(listener, SERVICE, UINT64_MAX), 0);
	assert_int_equal(fabric_frames_release(listener, SERVICE, UINT64_MAX), 0);
	request_send(from, SERVICE);
	request_send(from, SERVICE + 1);
	message_await(from, &message);
	assert_int_equal(message.attribute, CM_REJ);
	assert_int_equal(fabric_frames_receive(from, frame, &port), 0);
	fabric_frames_close(from);
	fabric_frames_close(listener);
	pair_end();
}

static void frames_that_a_queue_pair_refuses_are_counted_at_the_port(void **state)
{
	struct attach_port port = {0};
	struct fabric_frames *frames;
	uint8_t frame[MAD_FRAME_BYTES_MAX];
	uint32_t bytes;

	(void)state;
	pair_begin();
	assert_int_equal(fabric_frames_open(pair_.clients[1], &frames), 0);
	bytes = frame_make(
		frame, fabric_frames_lease(frames) << ATTACH_LEASE_QPN_SHIFT, pair_.ports[1].lid);
	assert_true(fabric_frames_report(frames, 1, ATTACH_RECORD_BAD_PKEY, frame, bytes));
	for (unsigned i = 0; i < 2; i++)
		assert_true(fabric_frames_report(frames, 1, ATTACH_RECORD_BAD_QKEY, frame, bytes));
	fabric_frames_flush(frames);
	for (unsigned i = 0; i < WAIT_MS && port.qkey_violations < 2; i++) {
		assert_int_equal(fabric_client_port(pair_.clients[1], 1, &port), 0);
		usleep(PAUSE_US);
	}
	assert_int_equal(port.bad_pkeys, 1);
	assert_int_equal(port.qkey_violations, 2);
	fabric_frames_close(frames);
	pair_end();
}

static void membership_is_released_as_often_as_it_is_held(void **state)
{
	const struct gid mgid = {{0xff, 0x12}};
	struct fabric_client *client = client_make("b");

	(void)state;
	assert_int_equal(fabric_client_group_hold(client, 2, &mgid, 1), -ENODEV);
	assert_int_equal(fabric_client_group_hold(client, 1, &mgid, 1), 0);
	assert_int_equal(fabric_client_group_hold(client, 1, &mgid, 1), 0);
	assert_int_equal(fabric_client_group_release(client, 1, &mgid, 8), -EINVAL);
	assert_int_equal(fabric_client_group_release(client, 1, &mgid, 1), 0);
	assert_int_equal(fabric_client_group_release(client, 1, &mgid, 1), 0);
	assert_int_equal(fabric_client_group_release(client, 1, &mgid, 1), -EINVAL);
	fabric_client_close(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peer_of_a_process_that_ends_gets_its_last_message),
		cmocka_unit_test(memory_that_may_shrink_or_block_keeps_no_messages),
		cmocka_unit_test(request_for_a_listener_that_has_just_ended_gets_no_answer),
		cmocka_unit_test(frames_that_a_queue_pair_refuses_are_counted_at_the_port),
		cmocka_unit_test(membership_is_released_as_often_as_it_is_held),
	};

	return cmocka_run_group_tests(tests, server_begin, server_end);
}
