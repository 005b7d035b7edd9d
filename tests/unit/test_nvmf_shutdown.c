/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A shutdown by CC.SHN: when it is complete, what is on the disk then, and what the host's next
 * association sees.
 */
#include "support/nvmf_slow_disk.h"

enum {
	ENABLE = NVME_CC_DEFAULT | NVME_CC_EN,
	SHUTDOWN_NORMAL = ENABLE | 1 << 14,
	SHUTDOWN_ABRUPT = ENABLE | 2 << 14,
	SLOW_DISKS = 2,
};

static void expect_flushes(void)
{
	await_kept(SLOW_DISKS);
	for (unsigned i = 0; i < SLOW_DISKS; i++)
		assert_int_equal(kept[i]->operation, BACKEND_FLUSH);
}

static void normal_shutdown_is_complete_when_all_is_flushed(void **state)
{
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	assert_int_equal(cc_set(&admin, SHUTDOWN_NORMAL), NVME_SUCCESS);
	for (unsigned i = 0; i < SLOW_DISKS; i++) {
		await_kept(SLOW_DISKS - i);
		assert_int_equal(kept[0]->operation, BACKEND_FLUSH);
		assert_int_equal(csts_of(&admin), NVME_CSTS_RDY | NVME_CSTS_SHST_OCCURRING);
		let_go();
	}
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY | NVME_CSTS_SHST_COMPLETE);
	close_both(&admin, &io);
}

static void abrupt_shutdown_flushes_nothing(void **state)
{
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	assert_int_equal(cc_set(&admin, SHUTDOWN_ABRUPT), NVME_SUCCESS);
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY | NVME_CSTS_SHST_COMPLETE);
	assert_int_equal(kept_count, 0);
	close_both(&admin, &io);
}

static void flush_that_fails_is_a_fatal_status(void **state)
{
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	assert_int_equal(cc_set(&admin, SHUTDOWN_NORMAL), NVME_SUCCESS);
	expect_flushes();
	end_kept(0, BACKEND_WRITE_FAULT);
	let_go();
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY | NVME_CSTS_SHST_COMPLETE | NVME_CSTS_CFS);
	close_both(&admin, &io);
}

/* The flushes go on. The new association is ready at once, and does not wait for them. */
static void shutdown_goes_on_when_the_host_disconnects(void **state)
{
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	assert_int_equal(cc_set(&admin, SHUTDOWN_NORMAL), NVME_SUCCESS);
	expect_flushes();
	close_both(&admin, &io);
	idle();
	assert_int_equal(target_tcp_connection_count(tcp), 0);
	assert_false(target_is_idle(target));
	open_host(&admin, &io, HOST_NQN);
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY);
	write_to(&io, 0);
	await_kept(SLOW_DISKS + 1);
	assert_int_equal(kept[SLOW_DISKS]->operation, BACKEND_WRITE);
	while (kept_count)
		let_go();
	assert_true(client_receive(&io, received));
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY);
	close_both(&admin, &io);
}

static void event_done(void *context, int error, const char *sentence)
{
	(void)sentence;
	assert_int_equal(error, 0);
	*(bool *)context = true;
}

/* The second host's writes may have come after the first one's flushes. Rounds do not pile up. */
static void shutdowns_share_the_next_round_of_flushes(void **state)
{
	struct client admins[3], ios[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		open_host(&admins[i], &ios[i], i ? OTHER_NQN : HOST_NQN);
		assert_int_equal(cc_set(&admins[i], SHUTDOWN_NORMAL), NVME_SUCCESS);
		await_kept(SLOW_DISKS);
	}
	/* The last one leaves; its round comes all the same. */
	close_both(&admins[2], &ios[2]);
	for (int i = 0; i < 2; i++) {
		expect_flushes();
		idle();
		for (int k = i; k < 2; k++)
			assert_int_equal(
				csts_of(&admins[k]), NVME_CSTS_RDY | NVME_CSTS_SHST_OCCURRING);
		let_go();
		let_go();
		assert_int_equal(csts_of(&admins[i]), NVME_CSTS_RDY | NVME_CSTS_SHST_COMPLETE);
	}
	idle();
	assert_int_equal(kept_count, 0);
	for (int i = 0; i < 2; i++)
		close_both(&admins[i], &ios[i]);
}

/* A resize runs alone, so it waits for a flush, and the next flush waits for it. */
static void flush_and_resize_wait_for_each_other(void **state)
{
	struct target_namespace *slow_ns = target_namespace_find(subsystem, 2);
	struct client admins[2], ios[2];
	bool is_resized = false;

	(void)state;
	for (int i = 0; i < 2; i++)
		open_host(&admins[i], &ios[i], i ? OTHER_NQN : HOST_NQN);
	assert_int_equal(cc_set(&admins[0], SHUTDOWN_NORMAL), NVME_SUCCESS);
	expect_flushes();
	target_namespace_resize(slow_ns, DISK_BYTES / 2, event_done, &is_resized);
	write_to(&ios[1], 0);
	idle();
	assert_int_equal(kept_count, SLOW_DISKS);
	assert_false(is_resized);
	let_go();
	assert_true(is_resized);
	await_kept(SLOW_DISKS);
	assert_int_equal(kept[1]->operation, BACKEND_WRITE);
	/* A job waits for the write; the flush waits for the job. */
	is_resized = false;
	target_namespace_resize(slow_ns, DISK_BYTES, event_done, &is_resized);
	let_go();
	assert_int_equal(cc_set(&admins[1], SHUTDOWN_NORMAL), NVME_SUCCESS);
	await_kept(2);
	let_go();
	assert_true(is_resized);
	/* The namespace goes while it is flushed. */
	await_kept(SLOW_DISKS);
	target_namespace_remove(slow_ns);
	while (kept_count)
		let_go();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(csts_of(&admins[i]), NVME_CSTS_RDY | NVME_CSTS_SHST_COMPLETE);
		close_both(&admins[i], &ios[i]);
	}
}

/* The host may set EN only after CSTS.RDY is 0, that is, when its commands have ended. */
static void reset_after_a_shutdown_waits_for_commands_but_not_for_flushes(void **state)
{
	struct client admin, io;

	(void)state;
	open_host(&admin, &io, HOST_NQN);
	write_to(&io, 0);
	await_kept(1);
	assert_int_equal(cc_set(&admin, SHUTDOWN_NORMAL), NVME_SUCCESS);
	await_kept(1 + SLOW_DISKS);
	assert_int_equal(cc_set(&admin, NVME_CC_DEFAULT), NVME_SUCCESS);
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY);
	let_go();
	idle();
	assert_int_equal(csts_of(&admin), 0);
	assert_int_equal(cc_set(&admin, ENABLE), NVME_SUCCESS);
	while (kept_count)
		let_go();
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY);
	close_both(&admin, &io);
}

static void open_with_kato(struct client *client, const char *hostnqn)
{
	struct nvme_connect connect = {.sqsize = 31, .kato_ms = 100};
	struct nvme_cqe cqe;

	client_initialize(client, 0);
	cqe = client_connect_as(client, SUBSYSTEM_NQN, hostnqn, connect, NVME_CNTLID_DYNAMIC);
	assert_int_equal(cqe.status, NVME_SUCCESS);
	client_property(client, ENABLE);
}

/* Base 2.0, section 3.9: the timer stops. The other controller shows when time has passed. */
static void keep_alive_ends_with_a_shutdown(void **state)
{
	struct client admin, silent;

	(void)state;
	open_with_kato(&admin, HOST_NQN);
	assert_int_equal(cc_set(&admin, SHUTDOWN_ABRUPT), NVME_SUCCESS);
	open_with_kato(&silent, OTHER_NQN);
	assert_false(client_receive(&silent, received));
	assert_int_equal(target_counters(target)->keep_alive_expired, 1);
	assert_int_equal(csts_of(&admin), NVME_CSTS_RDY | NVME_CSTS_SHST_COMPLETE);
	/* It begins anew when the host enables the controller again. */
	assert_int_equal(cc_set(&admin, NVME_CC_DEFAULT), NVME_SUCCESS);
	assert_int_equal(cc_set(&admin, ENABLE), NVME_SUCCESS);
	assert_false(client_receive(&admin, received));
	assert_int_equal(target_counters(target)->keep_alive_expired, 2);
	close_both(&admin, &silent);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, slow_begin, slow_end)
	const struct CMUnitTest tests[] = {
		TEST(normal_shutdown_is_complete_when_all_is_flushed),
		TEST(abrupt_shutdown_flushes_nothing),
		TEST(flush_that_fails_is_a_fatal_status),
		TEST(shutdown_goes_on_when_the_host_disconnects),
		TEST(shutdowns_share_the_next_round_of_flushes),
		TEST(flush_and_resize_wait_for_each_other),
		TEST(reset_after_a_shutdown_waits_for_commands_but_not_for_flushes),
		TEST(keep_alive_ends_with_a_shutdown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
