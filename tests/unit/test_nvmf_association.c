/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which writes of a host reach a backend, and when, if the host begins a new association before the
 * target knows of the end of the old one: the network has failed.
 */
#include "support/nvmf_slow_disk.h"

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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, slow_begin, slow_end)
	const struct CMUnitTest tests[] = {
		TEST(write_of_a_new_association_waits_for_those_at_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
