/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which queue pair a frame is steered to. The table only compares owners, so they are numbers here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>

#include "ether/flow.h"
#include "support/frames.h"

enum { IFINDEX = 3, RULES_MAX = 16 };

static struct flow_rule rules[RULES_MAX];
static uint32_t rule_count;
static struct flow_table *table;
static struct flow_frame frame;

static const struct qp *owner(uintptr_t number)
{
	return (const struct qp *)number;
}

static int setup(void **state)
{
	struct frame bytes = frame_ethernet();

	(void)state;
	rule_count = 0;
	table = NULL;
	frame_add_ipv4(&bytes, 17);
	frame_add_ports(&bytes);
	frame = (struct flow_frame){.ifindex = IFINDEX, .bytes = bytes.count};
	frame_key_read(&frame.key, bytes.bytes, bytes.count);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(table);
	return 0;
}

static struct flow_rule *add(uintptr_t number, enum flow_kind kind, uint16_t priority)
{
	struct flow_rule *rule = &rules[rule_count++];
	struct flow_table *longer;

	*rule = (struct flow_rule){
		.kind = kind,
		.priority = priority,
		.does_trap = true,
		.ifindex = IFINDEX,
		.owner = owner(number),
	};
	longer = flow_table_with(table, rule);
	assert_non_null(longer);
	free(table);
	table = longer;
	return rule;
}

/* `expected` is a decimal digit per owner that gets the frame. */
static void expect(uint32_t expected)
{
	uint32_t found = 0;

	for (uintptr_t number = 1; number <= 5; number++)
		if (flow_table_find(table, &frame, owner(number)))
			found = found * 10 + (uint32_t)number;
	assert_int_equal(found, expected);
}

static void flow_without_rules_goes_nowhere(void **state)
{
	(void)state;
	expect(0);
}

static void flow_goes_to_the_best_priority_only(void **state)
{
	(void)state;
	add(1, FLOW_NORMAL, 7);
	add(2, FLOW_NORMAL, 2);
	add(3, FLOW_ALL_DEFAULT, 0);
	expect(2);
}

static void flow_of_equal_priority_goes_to_all(void **state)
{
	(void)state;
	add(1, FLOW_NORMAL, 2);
	add(2, FLOW_NORMAL, 2);
	add(3, FLOW_NORMAL, 3);
	expect(12);
}

static void flow_that_does_not_trap_goes_on(void **state)
{
	(void)state;
	add(1, FLOW_NORMAL, 1)->does_trap = false;
	add(2, FLOW_NORMAL, 2);
	add(3, FLOW_NORMAL, 3);
	expect(12);
}

static void flow_default_takes_what_nobody_traps(void **state)
{
	struct flow_rule *rule = add(1, FLOW_NORMAL, 0);

	(void)state;
	add(2, FLOW_ALL_DEFAULT, 0);
	expect(1);
	rule->mask.dst_port = 0xffff;
	expect(2);
}

static void flow_multicast_default_takes_multicast_only(void **state)
{
	(void)state;
	add(1, FLOW_MULTICAST_DEFAULT, 0);
	expect(0);
	frame.key.dst_mac[0] |= 1;
	expect(1);
	add(2, FLOW_ALL_DEFAULT, 0);
	expect(1);
}

static void flow_sniffer_takes_a_copy_of_everything(void **state)
{
	(void)state;
	add(1, FLOW_NORMAL, 0);
	add(2, FLOW_SNIFFER, 0);
	add(3, FLOW_SNIFFER, 0);
	expect(123);
	frame.is_departing = true;
	expect(23);
}

static void flow_of_another_interface_goes_elsewhere(void **state)
{
	(void)state;
	add(1, FLOW_ALL_DEFAULT, 0)->ifindex = IFINDEX + 1;
	add(2, FLOW_SNIFFER, 0)->ifindex = IFINDEX + 1;
	expect(0);
}

static void flow_matches_under_its_mask_only(void **state)
{
	struct flow_rule *rule = add(1, FLOW_NORMAL, 0);

	(void)state;
	rule->mask.src_ip[0] = 0xf0;
	rule->value.src_ip[0] = 0x40;
	expect(1);
	rule->value.src_ip[0] = 0x50;
	expect(0);
}

/* Every single bit of the key counts when it is in the mask, and only then. */
static void flow_every_bit_counts(void **state)
{
	struct flow_rule *rule = add(1, FLOW_NORMAL, 0);
	uint8_t *value = (uint8_t *)&rule->value;
	uint8_t *mask = (uint8_t *)&rule->mask;

	(void)state;
	for (size_t bit = 0; bit < sizeof(frame.key) * 8; bit++) {
		rule->value = frame.key;
		value[bit / 8] ^= (uint8_t)(1u << bit % 8);
		mask[bit / 8] = (uint8_t)(1u << bit % 8);
		expect(0);
		value[bit / 8] ^= (uint8_t)(1u << bit % 8);
		expect(1);
		mask[bit / 8] = 0;
	}
}

static void flow_removed_rule_steers_no_more(void **state)
{
	struct flow_rule *first = add(1, FLOW_NORMAL, 1);

	(void)state;
	add(2, FLOW_NORMAL, 2);
	expect(1);
	flow_table_remove(table, first);
	expect(2);
	flow_table_remove(table, &rules[1]);
	expect(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(flow_without_rules_goes_nowhere, setup, teardown),
		cmocka_unit_test_setup_teardown(
			flow_goes_to_the_best_priority_only, setup, teardown),
		cmocka_unit_test_setup_teardown(
			flow_of_equal_priority_goes_to_all, setup, teardown),
		cmocka_unit_test_setup_teardown(flow_that_does_not_trap_goes_on, setup, teardown),
		cmocka_unit_test_setup_teardown(
			flow_default_takes_what_nobody_traps, setup, teardown),
		cmocka_unit_test_setup_teardown(
			flow_multicast_default_takes_multicast_only, setup, teardown),
		cmocka_unit_test_setup_teardown(
			flow_sniffer_takes_a_copy_of_everything, setup, teardown),
		cmocka_unit_test_setup_teardown(
			flow_of_another_interface_goes_elsewhere, setup, teardown),
		cmocka_unit_test_setup_teardown(flow_matches_under_its_mask_only, setup, teardown),
		cmocka_unit_test_setup_teardown(flow_every_bit_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(flow_removed_rule_steers_no_more, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
