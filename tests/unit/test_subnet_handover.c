/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The embedded subnet manager, while another one runs at the host h2 (IBTA 14.4.1): which of the
 * two is the master, and what SubnSet(SMInfo) does in each state.
 */
#include "other_manager.h"

#define HIGH_GUID 0xffffffffffffff00ull

static struct fixture fixture;

static struct other_manager other_make(uint8_t state, uint8_t priority, uint64_t guid)
{
	return (struct other_manager){
		.node = H2, .info = {.guid = guid, .state = state, .priority = priority}};
}

/* A subnet whose other manager, on standby, has taken over. */
static struct other_manager other_begin(uint8_t priority, uint64_t guid)
{
	struct other_manager other = other_make(IB_SM_STANDBY, priority, guid);

	fixture_init(&fixture, two_switches, true);
	other_manager_show(&fixture, &other, true);
	other_manager_pass(&fixture, &other, 500);
	assert_int_equal(other.info.state, IB_SM_MASTER);
	return other;
}

static bool embedded_has_issm(void)
{
	return fixture_port(&fixture, S1, 0).info->capability_mask & IB_CAPABILITY_IS_SM;
}

/* SubnSet(SMInfo) from h1; returns the status. */
static uint16_t control_send(enum ib_sm_control control, uint64_t guid, uint64_t sm_key)
{
	const struct ib_sm_info info = {.guid = guid, .sm_key = sm_key};

	return smp_status(embedded_ask(&fixture, MAD_METHOD_SET, control, &info));
}

static void master_hands_over_to_a_manager_of_higher_rank_and_stands_by(void **state)
{
	struct other_manager other;

	(void)state;
	other = other_begin(1, HIGH_GUID);
	assert_int_equal(other.controls[IB_SM_HANDOVER], 1);
	assert_int_equal(embedded_state(&fixture), IB_SM_STANDBY);
	assert_true(embedded_has_issm());
	fixture_done(&fixture);
}

/* As STANDBY it would be handed back the mastership by a manager that compares GUIDs. */
static void master_hands_over_to_an_equal_priority_and_is_not_active(void **state)
{
	struct other_manager other;

	(void)state;
	other = other_begin(0, HIGH_GUID);
	assert_int_equal(embedded_state(&fixture), IB_SM_NOT_ACTIVE);
	fixture_done(&fixture);
	other = other_begin(0, 1);
	assert_int_equal(embedded_state(&fixture), IB_SM_STANDBY);
	assert_int_equal(other.controls[IB_SM_HANDOVER], 1);
	fixture_done(&fixture);
}

static void master_waits_for_a_manager_that_discovers(void **state)
{
	struct other_manager other = other_make(IB_SM_DISCOVERING, 5, HIGH_GUID);

	(void)state;
	fixture_init(&fixture, two_switches, true);
	other_manager_show(&fixture, &other, true);
	other_manager_pass(&fixture, &other, 1000);
	assert_true(other.polls > 2);
	assert_int_equal(other.controls[IB_SM_HANDOVER], 0);
	assert_int_equal(embedded_state(&fixture), IB_SM_MASTER);
	other.info.state = IB_SM_STANDBY;
	other_manager_pass(&fixture, &other, 500);
	assert_int_equal(other.controls[IB_SM_HANDOVER], 1);
	assert_int_equal(embedded_state(&fixture), IB_SM_STANDBY);
	fixture_done(&fixture);
}

/* A port with IsSM whose manager does not answer does not end the embedded one's mastership. */
static void master_stays_beside_a_silent_manager(void **state)
{
	struct other_manager other = other_make(IB_SM_STANDBY, 5, HIGH_GUID);

	(void)state;
	fixture_init(&fixture, two_switches, true);
	other_manager_show(&fixture, &other, true);
	other_manager_pass(&fixture, NULL, 10000);
	assert_int_equal(embedded_state(&fixture), IB_SM_MASTER);
	fixture_done(&fixture);
}

static void two_masters_become_one(void **state)
{
	struct other_manager other = other_make(IB_SM_MASTER, 0, HIGH_GUID);

	(void)state;
	fixture_init(&fixture, two_switches, true);
	other_manager_show(&fixture, &other, true);
	other_manager_pass(&fixture, &other, 500);
	assert_true(other.controls[IB_SM_HANDOVER] >= 1);
	assert_int_equal(embedded_state(&fixture), IB_SM_NOT_ACTIVE);
	fixture_done(&fixture);
}

static void standby_takes_over_at_once_when_issm_is_cleared(void **state)
{
	struct other_manager other;
	uint16_t lid;

	(void)state;
	other = other_begin(1, HIGH_GUID);
	lid = fixture_lid(&fixture, H4);
	other_manager_show(&fixture, &other, false);
	assert_int_equal(embedded_state(&fixture), IB_SM_MASTER);
	assert_int_equal(fixture_lid(&fixture, H4), lid);
	fixture_done(&fixture);
}

static void standby_takes_over_after_four_lost_polls_and_not_after_three(void **state)
{
	struct other_manager other;
	uint32_t polls;

	(void)state;
	other = other_begin(1, HIGH_GUID);
	other_manager_pass(&fixture, &other, 20000);
	assert_int_equal(embedded_state(&fixture), IB_SM_STANDBY);
	polls = other.polls;
	assert_in_range(polls, 15, 25); /* one in a second */
	other_manager_pass(&fixture, NULL, 2900);
	assert_int_equal(embedded_state(&fixture), IB_SM_STANDBY);
	other.read = fixture.delivered_count;
	other_manager_pass(&fixture, &other, 3000);
	assert_int_equal(embedded_state(&fixture), IB_SM_STANDBY);
	other_manager_pass(&fixture, NULL, 7000);
	assert_int_equal(embedded_state(&fixture), IB_SM_MASTER);

	/* It goes on, still as a master: the embedded one hands over again. */
	other.read = fixture.delivered_count;
	other.controls[IB_SM_HANDOVER] = 0;
	other_manager_pass(&fixture, &other, 1000);
	assert_true(other.controls[IB_SM_HANDOVER] >= 1);
	assert_int_equal(embedded_state(&fixture), IB_SM_STANDBY);
	fixture_done(&fixture);
}

static void standby_takes_over_from_a_manager_that_answers_with_errors(void **state)
{
	struct other_manager other;

	(void)state;
	other = other_begin(1, HIGH_GUID);
	other.status = MAD_STATUS_UNSUPPORTED_METHOD_ATTRIBUTE;
	other_manager_pass(&fixture, &other, 20000);
	assert_int_equal(embedded_state(&fixture), IB_SM_MASTER);
	fixture_done(&fixture);
}

static void standby_leaves_the_subnet_to_another_standby(void **state)
{
	struct other_manager other;

	(void)state;
	other = other_begin(1, HIGH_GUID);
	other.info.state = IB_SM_STANDBY;
	other_manager_pass(&fixture, &other, 20000);
	assert_int_equal(embedded_state(&fixture), IB_SM_STANDBY);
	other.info.state = IB_SM_NOT_ACTIVE;
	other_manager_pass(&fixture, &other, 10000);
	assert_int_equal(embedded_state(&fixture), IB_SM_MASTER);
	fixture_done(&fixture);
}

static void handover_makes_a_standby_the_master_which_acknowledges(void **state)
{
	struct other_manager other;

	(void)state;
	other = other_begin(1, HIGH_GUID);
	other.info.state = IB_SM_STANDBY;
	assert_int_equal(control_send(IB_SM_HANDOVER, HIGH_GUID, 1), 0);
	assert_int_equal(embedded_state(&fixture), IB_SM_MASTER);
	other_manager_run(&fixture, &other);
	assert_int_equal(other.controls[IB_SM_ACKNOWLEDGE], 1);
	fixture_done(&fixture);
}

static void disable_and_standby_are_obeyed(void **state)
{
	struct other_manager other;

	(void)state;
	other = other_begin(1, HIGH_GUID);
	assert_int_equal(control_send(IB_SM_DISABLE, HIGH_GUID, 0), 0);
	assert_int_equal(embedded_state(&fixture), IB_SM_NOT_ACTIVE);
	/* A disabled manager does not poll, and does not take over. */
	other_manager_run(&fixture, &other);
	other.polls = 0;
	other_manager_pass(&fixture, &other, 5000);
	assert_int_equal(other.polls, 0);
	other_manager_show(&fixture, &other, false);
	other_manager_pass(&fixture, NULL, 10000);
	assert_int_equal(embedded_state(&fixture), IB_SM_NOT_ACTIVE);
	assert_int_equal(control_send(IB_SM_GO_STANDBY, HIGH_GUID, 0), 0);
	assert_int_equal(embedded_state(&fixture), IB_SM_MASTER);
	fixture_done(&fixture);
}

static void discover_makes_it_look_for_a_master_again(void **state)
{
	struct other_manager other;

	(void)state;
	other = other_begin(1, HIGH_GUID);
	assert_int_equal(control_send(IB_SM_DISCOVER, HIGH_GUID, 0), 0);
	assert_int_equal(embedded_state(&fixture), IB_SM_DISCOVERING);
	other_manager_pass(&fixture, &other, 1000);
	assert_int_equal(embedded_state(&fixture), IB_SM_STANDBY);
	fixture_done(&fixture);
}

static void illegal_controls_change_nothing(void **state)
{
	static const struct ib_sm_info stranger = {.sm_key = 2};

	(void)state;
	fixture_init(&fixture, two_switches, true);
	/* An ACKNOWLEDGE without a HANDOVER is legal for a master, and has no effect. */
	assert_int_equal(control_send(IB_SM_ACKNOWLEDGE, HIGH_GUID, 0), 0);
	for (uint32_t control = 0; control < 8; control++)
		if (control != IB_SM_HANDOVER && control != IB_SM_ACKNOWLEDGE &&
			control != IB_SM_DISCOVER)
			assert_int_equal(control_send((enum ib_sm_control)control, 1, 0),
				MAD_STATUS_INVALID_VALUE);
	assert_int_equal(embedded_state(&fixture), IB_SM_MASTER);
	fixture_done(&fixture);

	(void)other_begin(1, HIGH_GUID);
	assert_null(embedded_ask(&fixture, MAD_METHOD_SET, IB_SM_DISABLE, &stranger));
	assert_int_equal(embedded_state(&fixture), IB_SM_STANDBY);
	fixture_done(&fixture);
}

/* Without a switch the embedded manager is at a CA, where a program may set IsSM. */
static void program_at_the_managers_own_port_takes_its_place(void **state)
{
	(void)state;
	fixture_init(&fixture, "Ca 1 \"a\"\n[1] \"b\"[1]\n\nCa 1 \"b\"\n", true);
	subnet_port_capability(fixture.subnet, 0, 1, IB_CAPABILITY_IS_SM, 0, 0);
	assert_true(fixture_port(&fixture, 0, 1).info->capability_mask & IB_CAPABILITY_IS_SM);
	other_manager_pass(&fixture, NULL, 1000);
	assert_true(fixture_port(&fixture, 0, 1).info->capability_mask & IB_CAPABILITY_IS_SM);
	subnet_port_capability(fixture.subnet, 0, 1, 0, IB_CAPABILITY_IS_SM, 0);
	assert_true(fixture_port(&fixture, 0, 1).info->capability_mask & IB_CAPABILITY_IS_SM);
	fixture_done(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(master_hands_over_to_a_manager_of_higher_rank_and_stands_by),
		cmocka_unit_test(master_hands_over_to_an_equal_priority_and_is_not_active),
		cmocka_unit_test(master_waits_for_a_manager_that_discovers),
		cmocka_unit_test(master_stays_beside_a_silent_manager),
		cmocka_unit_test(two_masters_become_one),
		cmocka_unit_test(standby_takes_over_at_once_when_issm_is_cleared),
		cmocka_unit_test(standby_takes_over_after_four_lost_polls_and_not_after_three),
		cmocka_unit_test(standby_takes_over_from_a_manager_that_answers_with_errors),
		cmocka_unit_test(standby_leaves_the_subnet_to_another_standby),
		cmocka_unit_test(handover_makes_a_standby_the_master_which_acknowledges),
		cmocka_unit_test(disable_and_standby_are_obeyed),
		cmocka_unit_test(discover_makes_it_look_for_a_master_again),
		cmocka_unit_test(illegal_controls_change_nothing),
		cmocka_unit_test(program_at_the_managers_own_port_takes_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
