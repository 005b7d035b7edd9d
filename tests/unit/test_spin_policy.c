/* SPDX-License-Identifier: BSD-2-Clause */
/* How long a lane's thread spins, by a clock that a test sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lane/spin_policy.h"

enum {
	LOOK_NS = 500, /* a turn without packets */
	TURN_NS = 400, /* a turn with packets */
	WAKE_NS = 40000, /* from a packet's arrival to the turn of a thread that slept */
	SECOND_NS = 1000000000,
};

/* A thread by the policy, and what it did. */
struct spinner {
	struct spin_policy policy;
	bool is_busy; /* it spins */
	uint64_t now_ns;
	uint64_t spun_ns;
	unsigned bridged, slept;
	uint64_t saved_ns; /* what the wake-ups would have taken that bridged gaps save */
};

/* The next packet arrives `gap_ns` after the last turn with packets. */
static void packet_arrives(struct spinner *spinner, uint64_t gap_ns)
{
	uint64_t from_ns = spinner->now_ns, at_ns = spinner->now_ns + gap_ns;

	while (spinner->is_busy && spinner->now_ns + LOOK_NS < at_ns) {
		spinner->now_ns += LOOK_NS;
		spinner->is_busy = spin_policy_silence(&spinner->policy, spinner->now_ns);
	}
	if (spinner->is_busy) {
		spinner->now_ns = at_ns;
		spinner->saved_ns += gap_ns < SPIN_WAKE_NS ? gap_ns : SPIN_WAKE_NS;
		spinner->bridged++;
	}
	spinner->spun_ns += spinner->now_ns - from_ns;
	if (!spinner->is_busy) {
		spinner->now_ns = at_ns + WAKE_NS;
		spinner->slept++;
	}
	spinner->is_busy = spin_policy_packets(&spinner->policy, true, spinner->now_ns);
	spin_policy_turn_over(&spinner->policy, spinner->now_ns + TURN_NS);
}

static void packets_arrive(struct spinner *spinner, unsigned count, uint64_t gap_ns)
{
	while (count--)
		packet_arrives(spinner, gap_ns);
}

static struct spinner new_spinner(void)
{
	return (struct spinner){.now_ns = 1000ull * SECOND_NS};
}

static void lone_packet_makes_no_thread_spin(void **state)
{
	struct spinner spinner = new_spinner();

	(void)state;
	packet_arrives(&spinner, SECOND_NS);
	assert_false(spinner.is_busy);
	assert_false(spin_policy_silence(&spinner.policy, spinner.now_ns + 1));
}

static void requests_of_a_peer_that_polls_find_the_thread_spinning(void **state)
{
	struct spinner spinner = new_spinner();

	(void)state;
	packets_arrive(&spinner, 1000000, 6000);
	assert_in_range(spinner.slept, 1, 3);
}

static void spinning_ends_when_the_flow_does(void **state)
{
	struct spinner spinner = new_spinner();

	(void)state;
	packets_arrive(&spinner, 1000, 6000);
	spinner.spun_ns = 0;
	packet_arrives(&spinner, SECOND_NS);
	assert_in_range(spinner.spun_ns, 6000, 4 * 6000 + LOOK_NS);
	assert_int_equal(spinner.slept, 3);
}

/* Five seconds of each flow that is too slow to be bridged. */
static void flow_too_slow_to_bridge_does_not_spin(void **state)
{
	static const uint64_t gaps_ns[] = {80000, 120000, 200000, 300000, 1000000, 10000000};

	(void)state;
	for (unsigned i = 0; i < sizeof(gaps_ns) / sizeof(*gaps_ns); i++) {
		struct spinner spinner = new_spinner();

		packets_arrive(&spinner, (unsigned)(5ull * SECOND_NS / gaps_ns[i]), gaps_ns[i]);
		assert_int_equal(spinner.bridged, 0);
		assert_in_range(spinner.spun_ns, 0, 5ull * SECOND_NS / 500);
	}
}

/* Each gap is bridged, at more than a wake-up would have taken: the credit decides. */
static void spinning_takes_its_share_of_a_processor_and_no_more(void **state)
{
	struct spinner spinner = new_spinner();
	uint64_t from_ns = spinner.now_ns, passed_ns, extra_ns;

	(void)state;
	packets_arrive(&spinner, 100000, 50000);
	passed_ns = spinner.now_ns - from_ns;
	extra_ns = spinner.spun_ns - spinner.saved_ns;
	assert_true(spinner.bridged > 1000);
	assert_in_range(extra_ns, passed_ns / SPIN_SHARE * 9 / 10,
		passed_ns / SPIN_SHARE + SPIN_CREDIT_NS_MAX);
}

static void thread_that_lost_its_processor_rests(void **state)
{
	struct spinner spinner = new_spinner();

	(void)state;
	packets_arrive(&spinner, 1000, 6000);
	assert_true(spin_policy_silence(&spinner.policy, spinner.now_ns += LOOK_NS));
	spinner.now_ns += SPIN_STOLEN_NS;
	assert_false(spin_policy_silence(&spinner.policy, spinner.now_ns));
	spinner.is_busy = false;
	packets_arrive(&spinner, SPIN_STOLEN_REST_NS / (6000 + WAKE_NS) - 2, 6000);
	assert_false(spinner.is_busy);
	packets_arrive(&spinner, 10, 6000);
	assert_true(spinner.is_busy);
}

/* The peer has got the processor, and its next request was there first. */
static void thread_that_lost_its_processor_to_the_peer_rests(void **state)
{
	struct spinner spinner = new_spinner();

	(void)state;
	packets_arrive(&spinner, 1000, 6000);
	assert_true(spin_policy_silence(&spinner.policy, spinner.now_ns + LOOK_NS));
	spinner.now_ns += LOOK_NS + SPIN_STOLEN_NS;
	assert_false(spin_policy_packets(&spinner.policy, true, spinner.now_ns));
}

/* Another thread has got the processor before the first look. */
static void thread_that_lost_its_processor_after_a_packet_rests(void **state)
{
	struct spinner spinner = new_spinner();

	(void)state;
	packets_arrive(&spinner, 1000, 6000);
	spinner.now_ns += TURN_NS + SPIN_STOLEN_NS;
	assert_false(spin_policy_packets(&spinner.policy, true, spinner.now_ns));
	packets_arrive(&spinner, 2000, 6000);
	assert_true(spinner.is_busy);
	spinner.now_ns += TURN_NS + SPIN_STOLEN_NS;
	assert_false(spin_policy_silence(&spinner.policy, spinner.now_ns));
}

/* Long, because the thread sends much, or another thread gets the processor for as long. */
static void long_turn_with_packets_keeps_the_window_short(void **state)
{
	struct spinner spinner = new_spinner();
	uint64_t window_ns;

	(void)state;
	packets_arrive(&spinner, 1000, 6000);
	window_ns = spinner.policy.window_ns;
	spinner.now_ns += 6000;
	assert_true(spin_policy_packets(&spinner.policy, true, spinner.now_ns));
	spinner.now_ns += 4000000;
	spin_policy_turn_over(&spinner.policy, spinner.now_ns);
	spinner.now_ns += 6000;
	assert_true(spin_policy_packets(&spinner.policy, true, spinner.now_ns));
	assert_in_range(spinner.policy.window_ns, window_ns, window_ns * 3 / 2);
	packets_arrive(&spinner, 10, 6000);
	assert_in_range(spinner.policy.window_ns, window_ns, window_ns * 9 / 8);
}

static void thread_spins_for_no_program_that_drives_its_lane(void **state)
{
	struct spin_policy policy = {0};

	(void)state;
	for (uint64_t now_ns = SECOND_NS; now_ns < 2 * SECOND_NS; now_ns += 10000)
		assert_false(spin_policy_packets(&policy, false, now_ns));
}

static void policy_that_is_off_never_spins(void **state)
{
	struct spinner spinner = new_spinner();

	(void)state;
	spinner.policy.is_off = true;
	packets_arrive(&spinner, 1000, 6000);
	assert_int_equal(spinner.spun_ns, 0);
	assert_int_equal(spinner.bridged, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lone_packet_makes_no_thread_spin),
		cmocka_unit_test(requests_of_a_peer_that_polls_find_the_thread_spinning),
		cmocka_unit_test(spinning_ends_when_the_flow_does),
		cmocka_unit_test(flow_too_slow_to_bridge_does_not_spin),
		cmocka_unit_test(spinning_takes_its_share_of_a_processor_and_no_more),
		cmocka_unit_test(thread_that_lost_its_processor_rests),
		cmocka_unit_test(thread_that_lost_its_processor_to_the_peer_rests),
		cmocka_unit_test(thread_that_lost_its_processor_after_a_packet_rests),
		cmocka_unit_test(long_turn_with_packets_keeps_the_window_short),
		cmocka_unit_test(thread_spins_for_no_program_that_drives_its_lane),
		cmocka_unit_test(policy_that_is_off_never_spins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
