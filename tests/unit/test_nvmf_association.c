/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which writes of a host reach a backend, and when, if the host begins a new association before the
 * target knows of the end of the old one: the network has failed.
 */
#include "support/nvmf_slow_disk.h"

#include "nvmf/target/core/objects.h"

/*
 * The network has failed: the host connects anew, and the target still waits for the old connection
 * to end or for its keep alive.
 */
static void write_of_a_new_association_waits_for_those_at_work(void **state)
{
	struct client admins[2], ios[2];

	(void)state;
	open_host(&admins[0], &ios[0], HOST_NQN);
	write_to(&ios[0], 0);
	await_kept(1);
	open_host(&admins[1], &ios[1], HOST_NQN);
	write_to(&ios[1], 0);
	idle();
	assert_int_equal(kept_count, 1);
	let_go();
	await_kept(1);
	/* Later ones do not wait for each other. */
	write_to(&ios[0], 1);
	await_kept(2);
	let_go();
	let_go();
	assert_true(client_receive(&ios[1], received));
	for (int i = 0; i < 2; i++)
		close_both(&admins[i], &ios[i]);
}

static void close_two(struct client admins[2], struct client ios[2])
{
	for (int i = 0; i < 2; i++)
		close_both(&admins[i], &ios[i]);
}

static void expect_success(struct client *io)
{
	assert_true(client_receive(io, received));
	assert_int_equal(nvme_cqe_decode(io->rx.pdu.cqe).status, NVME_SUCCESS);
}

/* The old write runs alone; then the new one does, and gets a response. */
static void expect_old_then_new(struct client *io)
{
	await_kept(1);
	assert_int_equal(kept[0]->offset_bytes, 0);
	idle();
	assert_int_equal(kept_count, 1);
	let_go();
	await_kept(1);
	assert_int_equal(kept[0]->offset_bytes, 512);
	let_go();
	expect_success(io);
}

static void inject_into_one(struct target_rule rule)
{
	rule.nsid = 2;
	rule.count = 1;
	assert_int_equal(target_inject(target, &rule), 0);
}

static void await_injected(void)
{
	for (int i = 0; i < STEPS_MAX && !target_counters(target)->injected; i++)
		loop_step(loop, 0);
	assert_int_equal(target_counters(target)->injected, 1);
}

static void write_of_a_new_association_waits_for_a_delayed_one(void **state)
{
	struct client admins[2], ios[2];

	(void)state;
	open_host(&admins[0], &ios[0], HOST_NQN);
	inject_into_one((struct target_rule){.fault = TARGET_FAULT_DELAY, .delay_ns = 1000000000});
	write_to(&ios[0], 0);
	await_injected();
	open_host(&admins[1], &ios[1], HOST_NQN);
	write_to(&ios[1], 1);
	idle();
	assert_int_equal(kept_count, 0);
	expect_old_then_new(&ios[1]);
	close_two(admins, ios);
}

static void write_of_a_new_association_does_not_wait_for_a_dropped_one(void **state)
{
	struct client admins[2], ios[2];

	(void)state;
	open_host(&admins[0], &ios[0], HOST_NQN);
	inject_into_one((struct target_rule){.fault = TARGET_FAULT_DROP});
	write_to(&ios[0], 0);
	await_injected();
	open_host(&admins[1], &ios[1], HOST_NQN);
	write_to(&ios[1], 1);
	await_kept(1);
	let_go();
	close_two(admins, ios);
}

/* A read changes nothing, however late it comes. */
static void write_of_a_new_association_does_not_wait_for_a_delayed_read(void **state)
{
	struct nvme_sqe read = io_sqe(NVME_IO_READ, 0, 1, 512);
	struct client admins[2], ios[2];

	(void)state;
	open_host(&admins[0], &ios[0], HOST_NQN);
	inject_into_one((struct target_rule){.fault = TARGET_FAULT_DELAY, .delay_ns = 60000000000});
	read.nsid = 2;
	client_capsule(&ios[0], &read, NULL, 0);
	await_injected();
	open_host(&admins[1], &ios[1], HOST_NQN);
	write_to(&ios[1], 1);
	await_kept(1);
	let_go();
	close_two(admins, ios);
}

static void resize_done(void *context, int error, const char *sentence)
{
	(void)context;
	(void)sentence;
	assert_int_equal(error, 0);
}

/* A write is at work, a resize waits for its end, and another write for the resize. */
static void write_of_a_new_association_waits_for_one_behind_a_resize(void **state)
{
	struct client admins[2], ios[2];

	(void)state;
	open_host(&admins[0], &ios[0], HOST_NQN);
	write_to(&ios[0], 2);
	await_kept(1);
	target_namespace_resize(target_namespace_find(subsystem, 2), DISK_BYTES, resize_done, NULL);
	write_to(&ios[0], 0);
	idle();
	open_host(&admins[1], &ios[1], HOST_NQN);
	write_to(&ios[1], 1);
	idle();
	assert_int_equal(kept_count, 1);
	let_go();
	expect_old_then_new(&ios[1]);
	close_two(admins, ios);
}

/* Its data may still come; here its connection ends. */
static void write_of_a_new_association_waits_for_one_without_data(void **state)
{
	struct nvme_sqe sqe = io_sqe(NVME_IO_WRITE, 0, 16, 8192);
	struct client admins[2], ios[2];

	(void)state;
	open_host(&admins[0], &ios[0], HOST_NQN);
	sqe.nsid = 2;
	client_capsule(&ios[0], &sqe, NULL, 0);
	assert_true(client_receive(&ios[0], received));
	assert_int_equal(ios[0].rx.pdu.type, TCP_PDU_R2T);
	open_host(&admins[1], &ios[1], HOST_NQN);
	write_to(&ios[1], 1);
	idle();
	assert_int_equal(kept_count, 0);
	close_both(&admins[0], &ios[0]);
	await_kept(1);
	assert_int_equal(kept[0]->offset_bytes, 512);
	let_go();
	assert_true(client_receive(&ios[1], received));
	close_both(&admins[1], &ios[1]);
}

/* Without a step of the loop. */
static void send_half(struct client *io, enum nvme_fuse fuse, uint64_t slba)
{
	struct nvme_sqe sqe =
		io_sqe(fuse == NVME_FUSE_FIRST ? NVME_IO_COMPARE : NVME_IO_WRITE, slba, 1, 512);
	struct tcp_pdu pdu = {.type = TCP_PDU_CAPSULE_CMD, .data_bytes = 512};
	uint8_t bytes[TCP_HEADER_BYTES_MAX + 512];
	uint32_t head_bytes;

	sqe.nsid = 2;
	sqe.psdt = 1;
	sqe.sgl.type = NVME_SGL_IN_CAPSULE;
	sqe.fuse = (uint8_t)fuse;
	sqe.cid = io->cid++;
	nvme_sqe_encode(&sqe, pdu.sqe);
	head_bytes = tcp_pdu_encode(&pdu, &io->options, bytes);
	memcpy(bytes + head_bytes, data, 512);
	assert_int_equal(send(io->fd, bytes, head_bytes + 512, 0), head_bytes + 512);
}

/* The comparison finds what it is to find. */
static void let_comparison_go(void)
{
	assert_int_equal(kept[0]->operation, BACKEND_READ);
	memcpy(kept[0]->iov->iov_base, data, 512);
	let_go();
	await_kept(1);
	assert_int_equal(kept[0]->operation, BACKEND_WRITE);
}

static void write_of_a_new_association_waits_for_half_a_pair(void **state)
{
	struct client admins[2], ios[2];

	(void)state;
	open_host(&admins[0], &ios[0], HOST_NQN);
	send_half(&ios[0], NVME_FUSE_FIRST, 0);
	idle();
	open_host(&admins[1], &ios[1], HOST_NQN);
	write_to(&ios[1], 1);
	idle();
	assert_int_equal(kept_count, 0);
	send_half(&ios[0], NVME_FUSE_SECOND, 0);
	await_kept(1);
	let_comparison_go();
	expect_old_then_new(&ios[1]);
	close_two(admins, ios);
}

static void pair_of_a_new_association_waits_for_a_delayed_write(void **state)
{
	struct client admins[2], ios[2];

	(void)state;
	open_host(&admins[0], &ios[0], HOST_NQN);
	inject_into_one((struct target_rule){.fault = TARGET_FAULT_DELAY, .delay_ns = 1000000000});
	write_to(&ios[0], 0);
	await_injected();
	open_host(&admins[1], &ios[1], HOST_NQN);
	send_half(&ios[1], NVME_FUSE_FIRST, 1);
	send_half(&ios[1], NVME_FUSE_SECOND, 1);
	idle();
	assert_int_equal(kept_count, 0);
	await_kept(1);
	assert_int_equal(kept[0]->offset_bytes, 0);
	let_go();
	await_kept(1);
	let_comparison_go();
	let_go();
	expect_success(&ios[1]);
	expect_success(&ios[1]);
	close_two(admins, ios);
}

/* The second half arrives when the last lost command has ended, and the first half still waits. */
static void second_half_follows_a_first_half_that_waited(void **state)
{
	struct client admins[2], ios[2];

	(void)state;
	open_host(&admins[0], &ios[0], HOST_NQN);
	write_to(&ios[0], 0);
	await_kept(1);
	open_host(&admins[1], &ios[1], HOST_NQN);
	send_half(&ios[1], NVME_FUSE_FIRST, 1);
	idle();
	/* The second half comes before the loop resumes the first one. */
	let_go();
	send_half(&ios[1], NVME_FUSE_SECOND, 1);
	await_kept(1);
	let_comparison_go();
	let_go();
	expect_success(&ios[1]);
	expect_success(&ios[1]);
	close_two(admins, ios);
}

/* Each association waits for those before it, and the second one not for itself. */
static void writes_of_three_associations_run_in_their_order(void **state)
{
	struct client admins[3], ios[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		open_host(&admins[i], &ios[i], HOST_NQN);
		write_to(&ios[i], i);
		await_kept(1);
		idle();
		assert_int_equal(kept_count, 1);
	}
	for (unsigned i = 0; i < 3; i++) {
		await_kept(1);
		assert_int_equal(kept[0]->offset_bytes, 512 * i);
		idle();
		assert_int_equal(kept_count, 1);
		let_go();
		assert_true(client_receive(&ios[i], received));
	}
	for (int i = 0; i < 3; i++)
		close_both(&admins[i], &ios[i]);
}

/* What another association of the host has delayed is no command of this controller. */
static void reset_does_not_wait_for_a_delayed_write_of_another_association(void **state)
{
	struct client admins[2], ios[2];

	(void)state;
	open_host(&admins[0], &ios[0], HOST_NQN);
	inject_into_one((struct target_rule){.fault = TARGET_FAULT_DELAY, .delay_ns = 60000000000});
	write_to(&ios[0], 0);
	await_injected();
	open_host(&admins[1], &ios[1], HOST_NQN);
	assert_int_equal(cc_set(&admins[1], NVME_CC_DEFAULT), NVME_SUCCESS);
	assert_int_equal(csts_of(&admins[1]), 0);
	close_two(admins, ios);
}

/* Another host's write is at work in the namespace, and the host of the pair goes meanwhile. */
static void pair_that_waits_outlives_its_host(void **state)
{
	struct client admins[2], ios[2];
	unsigned without_host = 0;

	(void)state;
	open_host(&admins[0], &ios[0], OTHER_NQN);
	write_to(&ios[0], 0);
	await_kept(1);
	open_host(&admins[1], &ios[1], HOST_NQN);
	send_half(&ios[1], NVME_FUSE_FIRST, 1);
	send_half(&ios[1], NVME_FUSE_SECOND, 1);
	idle();
	close_both(&admins[1], &ios[1]);
	idle();
	list_for_each(queue, &target->connections, struct target_queue, connection)
		without_host += queue->pending == 2 && !queue->host;
	assert_int_equal(without_host, 1);
	open_host(&admins[1], &ios[1], HOST_NQN);
	let_go();
	idle();
	assert_int_equal(kept_count, 0);
	close_two(admins, ios);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, slow_begin, slow_end)
	const struct CMUnitTest tests[] = {
		TEST(write_of_a_new_association_waits_for_those_at_work),
		TEST(write_of_a_new_association_waits_for_a_delayed_one),
		TEST(write_of_a_new_association_does_not_wait_for_a_dropped_one),
		TEST(write_of_a_new_association_does_not_wait_for_a_delayed_read),
		TEST(write_of_a_new_association_waits_for_one_behind_a_resize),
		TEST(write_of_a_new_association_waits_for_one_without_data),
		TEST(write_of_a_new_association_waits_for_half_a_pair),
		TEST(pair_of_a_new_association_waits_for_a_delayed_write),
		TEST(second_half_follows_a_first_half_that_waited),
		TEST(writes_of_three_associations_run_in_their_order),
		TEST(reset_does_not_wait_for_a_delayed_write_of_another_association),
		TEST(pair_that_waits_outlives_its_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
