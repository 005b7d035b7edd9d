/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which writes of a host reach a backend, and when, around the end of a connection.
 */
#include "support/nvmf_slow_disk.h"

static void reset_is_complete_when_the_last_command_has_ended(void **state)
{
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	assert_int_equal(cc_set(&admin, NVME_CC_DEFAULT), NVME_SUCCESS);
	idle();
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY);
	/* The host is to wait. */
	assert_int_equal(cc_set(&admin, NVME_CC_DEFAULT | NVME_CC_EN), NVME_INVALID_FIELD);
	let_go();
	idle();
	assert_int_equal(csts_of(&admin), 0);
	assert_int_equal(cc_set(&admin, NVME_CC_DEFAULT | NVME_CC_EN), NVME_SUCCESS);
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY);
	close_both(&admin, &io);
}

static void shutdown_is_complete_when_the_last_command_has_ended(void **state)
{
	const uint32_t shutdown = NVME_CC_DEFAULT | NVME_CC_EN | 1 << 14;
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	assert_int_equal(cc_set(&admin, shutdown), NVME_SUCCESS);
	idle();
	/* The namespaces are flushed; the write is the first of the requests. */
	await_kept(3);
	assert_int_equal(kept[1]->operation, BACKEND_FLUSH);
	end_kept(1, BACKEND_OK);
	end_kept(1, BACKEND_OK);
	idle();
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY | NVME_CSTS_SHST_OCCURRING);
	let_go();
	idle();
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY | NVME_CSTS_SHST_COMPLETE);
	close_both(&admin, &io);
}

/* A command that waits for its data when the controller is reset. */
static void data_that_comes_after_a_reset_is_not_written(void **state)
{
	struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, 0, 16, 8192);
	struct client admin, io;
	struct tcp_pdu pdu = {.type = TCP_PDU_H2C_DATA, .flags = TCP_LAST, .data_bytes = 8192};
	uint8_t head[TCP_HEADER_BYTES_MAX];
	struct nvme_property_access access = {.offset = NVME_CC, .value = NVME_CC_DEFAULT};
	struct tcp_pdu reset = {.type = TCP_PDU_CAPSULE_CMD};
	uint32_t bytes;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	sqe.nsid = 2;
	client_capsule(&io, &sqe, NULL, 0);
	assert_true(client_receive(&io, received));
	assert_int_equal(io.rx.pdu.type, TCP_PDU_R2T);
	/* Both without a step of the loop: the reset first, the data before the queue is closed. */
	idle();
	nvme_property_set_encode(&access, &sqe);
	sqe.sgl = sgl_of(NVME_SGL_TRANSPORT, 0);
	sqe.cid = admin.cid++;
	nvme_sqe_encode(&sqe, reset.sqe);
	bytes = tcp_pdu_encode(&reset, &admin.options, head);
	assert_int_equal(send(admin.fd, head, bytes, 0), bytes);
	pdu.data = io.rx.pdu.data;
	bytes = tcp_pdu_encode(&pdu, &io.options, head);
	assert_int_equal(send(io.fd, head, bytes, 0), bytes);
	assert_int_equal(send(io.fd, data, 8192, 0), 8192);
	idle();
	assert_int_equal(kept_count, 0);
	assert_true(client_receive(&admin, received));
	close_both(&admin, &io);
}

/* The host is cut off, connects anew, and repeats its write. Another host is not concerned. */
static void repeated_write_waits_for_that_of_the_lost_connection(void **state)
{
	struct client admin, io, others_admin, others;

	(void)state;
	open_host(&others_admin, &others, OTHER_NQN);
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	close_both(&admin, &io);
	idle();
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	write_to(&io, 1);
	idle();
	assert_int_equal(kept_count, 1);
	assert_int_equal(target_counters(target)->waited_for_lost, 2);
	write_to(&others, 0);
	await_kept(2);
	let_go();
	await_kept(3);
	let_go();
	assert_true(client_receive(&others, received));
	let_go();
	let_go();
	for (int i = 0; i < 2; i++) {
		assert_true(client_receive(&io, received));
		assert_int_equal(nvme_cqe_decode(io.rx.pdu.cqe).status, NVME_SUCCESS);
	}
	close_both(&admin, &io);
	close_both(&others_admin, &others);
}

/* The host uses two controllers, and repeats on the second what it has lost on the first. */
static void write_on_another_path_waits_for_that_of_the_lost_one(void **state)
{
	struct client admins[2], paths[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		open_host(&admins[i], &paths[i], HOST_NQN);
	write_to(&paths[0], 0);
	await_kept(1);
	write_to(&paths[1], 1);
	await_kept(2);
	close(paths[0].fd);
	idle();
	write_to(&paths[1], 0);
	idle();
	assert_int_equal(kept_count, 2);
	let_go();
	await_kept(2);
	let_go();
	let_go();
	for (int i = 0; i < 2; i++)
		assert_true(client_receive(&paths[1], received));
	close(paths[1].fd);
	close(admins[0].fd);
	close(admins[1].fd);
}

/* A disk that hangs stops no other namespace of its host. */
static void write_to_another_namespace_does_not_wait(void **state)
{
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	close_both(&admin, &io);
	idle();
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	idle();
	assert_int_equal(kept_count, 1);
	write_to_namespace(&io, 3, 0);
	await_kept(2);
	let_go();
	await_kept(2);
	let_go();
	let_go();
	for (int i = 0; i < 2; i++)
		assert_true(client_receive(&io, received));
	close_both(&admin, &io);
}

/* A second association loses a write that waits: it is executed, before what follows it. */
static void lost_write_that_waits_does_not_wait_for_itself(void **state)
{
	struct client admins[3], ios[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		open_host(&admins[i], &ios[i], HOST_NQN);
		write_to(&ios[i], 0);
		if (i == 0)
			await_kept(1);
		else
			idle();
	}
	assert_int_equal(target_counters(target)->waited_for_lost, 2);
	for (int i = 0; i < 3; i++) {
		await_kept(1);
		idle();
		assert_int_equal(kept_count, 1);
		let_go();
		assert_true(client_receive(&ios[i], received));
		assert_int_equal(nvme_cqe_decode(ios[i].rx.pdu.cqe).status, NVME_SUCCESS);
	}
	for (int i = 0; i < 3; i++)
		close_both(&admins[i], &ios[i]);
}

/* The halves name two namespaces, and a lost command is at work in the first half's only. */
static void second_half_waits_behind_its_first_half(void **state)
{
	struct nvme_sqe compare = io_sqe(NVME_IO_COMPARE, 0, 1, 512);
	struct nvme_sqe write = io_sqe(NVME_IO_WRITE, 0, 1, 512);
	const uint16_t statuses[] = {NVME_INVALID_FIELD, NVME_FUSED_FAILED};
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	close_both(&admin, &io);
	idle();
	open_host(&admin, &io, HOST_NQN);
	compare.nsid = 2;
	write.nsid = 3;
	compare.sgl.type = write.sgl.type = NVME_SGL_IN_CAPSULE;
	compare.fuse = NVME_FUSE_FIRST;
	write.fuse = NVME_FUSE_SECOND;
	client_capsule(&io, &compare, data, 512);
	client_capsule(&io, &write, data, 512);
	idle();
	let_go();
	for (int i = 0; i < 2; i++) {
		assert_true(client_receive(&io, received));
		assert_int_equal(nvme_cqe_decode(io.rx.pdu.cqe).status, statuses[i]);
	}
	close_both(&admin, &io);
}

/* What waits ends with its own connection, and is not written. */
static void write_that_waits_ends_with_its_connection(void **state)
{
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	close_both(&admin, &io);
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	idle();
	close_both(&admin, &io);
	idle();
	let_go();
	idle();
	assert_int_equal(kept_count, 0);
	assert_true(target_is_idle(target));
}

static void reset_waits_for_the_end_of_a_fused_pair(void **state)
{
	struct nvme_sqe compare = io_sqe(NVME_IO_COMPARE, 0, 1, 512);
	struct nvme_sqe write = io_sqe(NVME_IO_WRITE, 0, 1, 512);
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	compare.nsid = write.nsid = 2;
	compare.sgl.type = write.sgl.type = NVME_SGL_IN_CAPSULE;
	compare.fuse = NVME_FUSE_FIRST;
	write.fuse = NVME_FUSE_SECOND;
	client_capsule(&io, &compare, data, 512);
	client_capsule(&io, &write, data, 512);
	await_kept(1);
	memcpy(kept[0]->iov->iov_base, data, 512);
	assert_int_equal(cc_set(&admin, NVME_CC_DEFAULT), NVME_SUCCESS);
	let_go();
	await_kept(1);
	assert_int_equal(kept[0]->operation, BACKEND_WRITE);
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY);
	let_go();
	idle();
	assert_int_equal(csts_of(&admin), 0);
	close_both(&admin, &io);
}

/* The steps of a command of a lost connection end early. */
static void long_command_ends_with_its_connection(void **state)
{
	struct nvme_sqe sqe = io_sqe(NVME_IO_VERIFY, 0, 16384, 0);
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	sqe.nsid = 2;
	client_capsule(&io, &sqe, NULL, 0);
	await_kept(1);
	close_both(&admin, &io);
	idle();
	let_go();
	idle();
	assert_int_equal(kept_count, 0);
	assert_true(target_is_idle(target));
}

/* Its memory stays, too, so that a host that comes and goes gets no more than its share. */
static void connection_counts_until_its_last_command_has_ended(void **state)
{
	struct client admin, io, last;

	(void)state;
	target_set_connections_max(target, 4);
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	close_both(&admin, &io);
	idle();
	client_initialize(&admin, 0);
	client_initialize(&last, 0);
	idle();
	assert_int_equal(target_counters(target)->connections_refused, 1);
	let_go();
	close(last.fd);
	idle();
	client_initialize(&last, 0);
	idle();
	assert_int_equal(target_counters(target)->connections_refused, 1);
	close_both(&admin, &last);
}

/* The delay ends after Disconnect and before the connection is closed. */
static void delayed_command_of_a_closing_queue_is_not_executed(void **state)
{
	const struct target_rule rule = {
		.fault = TARGET_FAULT_DELAY, .delay_ns = 1000000, .nsid = 2};
	struct nvme_sqe sqe = {.opcode = NVME_OPCODE_FABRICS,
		.psdt = 1,
		.nsid = NVME_FABRICS_DISCONNECT,
		.sgl = {.type = NVME_SGL_TRANSPORT}};
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD};
	uint8_t head[TCP_HEADER_BYTES_MAX];
	struct client admin, io;
	uint32_t bytes;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	assert_int_equal(target_inject(target, &rule), 0);
	write_to(&io, 0);
	for (int i = 0; i < STEPS_MAX && !target_counters(target)->injected; i++)
		loop_step(loop, 0);
	assert_int_equal(kept_count, 0);
	sqe.cid = io.cid++;
	nvme_sqe_encode(&sqe, pdu.sqe);
	bytes = tcp_pdu_encode(&pdu, &io.options, head);
	assert_int_equal(send(io.fd, head, bytes, 0), bytes);
	usleep(5000);
	idle();
	assert_int_equal(kept_count, 0);
	close_both(&admin, &io);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, slow_begin, slow_end)
	const struct CMUnitTest tests[] = {
		TEST(reset_is_complete_when_the_last_command_has_ended),
		TEST(shutdown_is_complete_when_the_last_command_has_ended),
		TEST(data_that_comes_after_a_reset_is_not_written),
		TEST(repeated_write_waits_for_that_of_the_lost_connection),
		TEST(write_on_another_path_waits_for_that_of_the_lost_one),
		TEST(write_to_another_namespace_does_not_wait),
		TEST(lost_write_that_waits_does_not_wait_for_itself),
		TEST(second_half_waits_behind_its_first_half),
		TEST(write_that_waits_ends_with_its_connection),
		TEST(reset_waits_for_the_end_of_a_fused_pair),
		TEST(long_command_ends_with_its_connection),
		TEST(connection_counts_until_its_last_command_has_ended),
		TEST(delayed_command_of_a_closing_queue_is_not_executed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
