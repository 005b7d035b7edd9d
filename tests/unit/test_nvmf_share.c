/* SPDX-License-Identifier: BSD-2-Clause */
/* How much of the target one host may use, so that other hosts are still served. */
#include "support/nvmf_slow_disk.h"

#include "nvmf/target/core/objects.h"

enum { VERIFIES = 10, VERIFY_BLOCKS = 1024, OTHERS_SLBA = 8 };

static void send_pair(struct client *io, uint64_t slba)
{
	struct nvme_sqe compare = io_sqe(NVME_IO_COMPARE, slba, 1, 512);
	struct nvme_sqe write = io_sqe(NVME_IO_WRITE, slba, 1, 512);

	compare.nsid = write.nsid = 2;
	compare.sgl.type = write.sgl.type = NVME_SGL_IN_CAPSULE;
	compare.fuse = NVME_FUSE_FIRST;
	write.fuse = NVME_FUSE_SECOND;
	client_capsule(io, &compare, data, 512);
	client_capsule(io, &write, data, 512);
}

/* The comparison of a pair, which then writes nothing. */
static void let_comparison_fail(void)
{
	assert_int_equal(kept[0]->operation, BACKEND_READ);
	memset(kept[0]->iov->iov_base, 0xff, 512);
	let_go();
}

/* A host always has another pair waiting when one ends. */
static void write_has_its_turn_between_fused_pairs(void **state)
{
	struct client admin, io, others_admin, others;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	open_host(&others_admin, &others, OTHER_NQN);
	send_pair(&io, 0);
	await_kept(1);
	send_pair(&io, 1);
	write_to(&others, OTHERS_SLBA);
	idle();
	assert_int_equal(kept_count, 1);
	let_comparison_fail();
	idle();
	assert_int_equal(kept_count, 1);
	assert_int_equal(kept[0]->operation, BACKEND_WRITE);
	assert_int_equal(kept[0]->offset_bytes, 512 * OTHERS_SLBA);
	/* What comes now waits for the second pair. */
	write_to(&others, OTHERS_SLBA + 1);
	idle();
	assert_int_equal(kept_count, 1);
	let_go();
	await_kept(1);
	let_comparison_fail();
	await_kept(1);
	assert_int_equal(kept[0]->offset_bytes, 512 * (OTHERS_SLBA + 1));
	let_go();
	for (int i = 0; i < 2; i++) {
		assert_true(client_receive(&others, received));
		assert_int_equal(nvme_cqe_decode(others.rx.pdu.cqe).status, NVME_SUCCESS);
	}
	close_both(&admin, &io);
	close_both(&others_admin, &others);
}

static void send_verifies(struct client *io)
{
	struct nvme_sqe sqe = io_sqe(NVME_IO_VERIFY, 0, VERIFY_BLOCKS, 0);

	sqe.nsid = 2;
	for (int i = 0; i < VERIFIES; i++)
		client_capsule(io, &sqe, NULL, 0);
	idle();
	assert_int_equal(kept_count, TARGET_SCRATCHES_MAX);
}

static void queue_has_few_scratch_buffers(void **state)
{
	struct client admin, io;
	int ended = 0;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	send_verifies(&io);
	while (kept_count) {
		assert_in_range(kept_count, 1, TARGET_SCRATCHES_MAX);
		let_go();
		idle();
	}
	for (; ended < VERIFIES; ended++) {
		assert_true(client_receive(&io, received));
		assert_int_equal(nvme_cqe_decode(io.rx.pdu.cqe).status, NVME_SUCCESS);
	}
	close_both(&admin, &io);
}

static void command_without_scratch_buffer_ends_with_its_connection(void **state)
{
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	send_verifies(&io);
	close_both(&admin, &io);
	idle();
	while (kept_count)
		let_go();
	idle();
	assert_int_equal(kept_count, 0);
	assert_true(target_is_idle(target));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, slow_begin, slow_end)
	const struct CMUnitTest tests[] = {
		TEST(write_has_its_turn_between_fused_pairs),
		TEST(queue_has_few_scratch_buffers),
		TEST(command_without_scratch_buffer_ends_with_its_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
