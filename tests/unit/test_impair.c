/* SPDX-License-Identifier: BSD-2-Clause */
/* Impairments: what users may write, and the fates that follow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "impair/impair.h"
#include "wire/bth.h"
#include "wire/opcode.h"

enum { MTU = 1024, PSN_FIRST = 0xfffff0, HEADERS_MAX = 64 };

static struct impair impair;

static void plan_begin(const char *settings, const char *faults)
{
	struct impair_plan plan = {.loss = 0};
	char why[IMPAIR_WHY_BYTES];

	assert_true(impair_plan_parse(&plan, settings, why));
	assert_true(impair_faults_parse(&plan, faults, why));
	impair_init(&impair, &plan);
}

static struct impair_flow flow_new(uint32_t qp)
{
	struct impair_flow flow = {.qp = qp};

	impair_flow_bind(&flow, PSN_FIRST, PSN_FIRST, MTU);
	return flow;
}

/* The fate of a packet that is `after` PSNs behind the first one. */
static struct impair_fate fate_of(struct impair_flow *flow, uint8_t opcode, uint32_t after)
{
	uint8_t packet[HEADERS_MAX + MTU] = {0};
	const struct bth bth = {
		.opcode = opcode, .psn = psn_from(PSN_FIRST + after), .pkey = BTH_PKEY_DEFAULT};
	const struct opcode_info *info = opcode_info(opcode);
	bool has_payload = info->payload == PAYLOAD_MTU || info->payload == PAYLOAD_SOME;
	struct impair_fate fate;

	bth_encode(&bth, packet);
	if (info->operation == OPERATION_READ)
		put_be32(packet + 24, 10 * MTU);
	impair_decide(&impair, flow, packet, info->header_bytes + (has_payload ? MTU : 0u), &fate);
	return fate;
}

#define WRITE(flow, after) fate_of(flow, OPCODE_RC_WRITE_MIDDLE, after)

/* --- parsing --- */

static void settings_of_all_kinds_are_parsed(void **state)
{
	struct impair_plan plan = {.loss = 0};
	char why[IMPAIR_WHY_BYTES];

	(void)state;
	assert_true(impair_plan_parse(&plan,
		"loss=1%, duplicate=0.1%,corrupt=100%,reorder=0.0000001%,delay=2.5ms,rate=10G,"
		"seed=4294967295,side=client,server=17,client=18,report=/tmp/x",
		why));
	assert_int_equal(plan.loss, 10000000);
	assert_int_equal(plan.duplicate, 1000000);
	assert_int_equal(plan.corrupt, IMPAIR_SHARE_ALL);
	assert_int_equal(plan.reorder, 1);
	assert_int_equal(plan.delay, 2500000);
	assert_int_equal(plan.rate, 10000000000);
	assert_int_equal(plan.seed, UINT32_MAX);
	assert_int_equal(plan.side, IMPAIR_SIDE_CLIENT);
	assert_int_equal(plan.server, 17);
	assert_int_equal(plan.client, 18);
	assert_string_equal(plan.report, "/tmp/x");
}

static void wrong_settings_are_refused_with_the_word(void **state)
{
	static const struct {
		const char *text;
		const char *why;
	} wrong[] = {
		{"los=1%", "there is no impairment 'los'; write NAME=VALUE with one of: loss"},
		{"loss", "loss is ''; it may be a percentage, 0% to 100%"},
		{"loss=1", "loss is '1'; it may be a percentage, 0% to 100%"},
		{"loss=101%", "loss is '101%'"},
		{"loss=1.%", "loss is '1.%'"},
		{"loss=.1%", "loss is '.1%'"},
		{"loss=-1%", "loss is '-1%'"},
		{"loss=1000000000000000%", "loss is '1000000000000000%'"},
		{"loss=99999999999999999999%", "loss is '99999999999999999999%'"},
		{"delay=2", "delay is '2'; it may be a time with a unit"},
		{"delay=11s", "delay is '11s'"},
		{"rate=1K", "rate is '1K'; it may be bits per second"},
		{"rate=401G", "rate is '401G'"},
		{"seed=x", "seed is 'x'; it may be a number"},
		{"side=left", "side is 'left'; it may be server or client"},
		{"loss=\n%", "loss is '?%'"},
	};
	char why[IMPAIR_WHY_BYTES];

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
		struct impair_plan plan = {.loss = 0};

		assert_false(impair_plan_parse(&plan, wrong[i].text, why));
		assert_memory_equal(why, wrong[i].why, strlen(wrong[i].why));
	}
}

static void faults_of_all_kinds_are_parsed(void **state)
{
	struct impair_plan plan = {.side = IMPAIR_SIDE_SERVER};
	char why[IMPAIR_WHY_BYTES];

	(void)state;
	assert_true(impair_faults_parse(&plan,
		"# a comment; drop nothing\n"
		"drop READ response 3 of qp 1; corrupt WRITE 4 2 times # another\n"
		"\n;\n"
		"delay ATOMIC request 1 by 20ms of qp 7\n"
		"rnr 5 times at server\n"
		"rnr 6 times at client\n"
		"kill peer after 1MiB;kill client after 100",
		why));
	assert_int_equal(plan.fault_count, 6);
	assert_int_equal(plan.faults[0].verb, IMPAIR_VERB_drop);
	assert_int_equal(plan.faults[0].operations, 1u << OPERATION_READ_RESPONSE);
	assert_int_equal(plan.faults[0].number, 3);
	assert_int_equal(plan.faults[0].times, 1);
	assert_int_equal(plan.faults[0].qp, 1);
	assert_int_equal(plan.faults[1].verb, IMPAIR_VERB_corrupt);
	assert_int_equal(plan.faults[1].times, 2);
	assert_int_equal(plan.faults[1].qp, 0);
	assert_int_equal(plan.faults[2].amount, 20000000);
	assert_int_equal(plan.faults[2].qp, 7);
	assert_int_equal(plan.faults[3].verb, IMPAIR_VERB_rnr);
	assert_int_equal(plan.faults[3].times, 5);
	assert_int_equal(plan.faults[4].amount, 1 << 20);
	assert_int_equal(plan.faults[4].victim, IMPAIR_SIDE_SERVER);
	assert_int_equal(plan.faults[5].amount, 100);
	assert_int_equal(plan.faults[5].victim, IMPAIR_SIDE_CLIENT);
}

static void wrong_faults_are_refused_with_the_word(void **state)
{
	static const struct {
		const char *text;
		const char *why;
	} wrong[] = {
		{"dorp WRITE 1", "there is no fault 'dorp'; a fault begins with drop, corrupt"},
		{"drop READ 1", "'READ' is wrong in 'drop READ 1'; write drop PACKET [every] N"},
		{"drop", "'the end' is wrong in 'drop'; write drop PACKET [every] N"},
		{"drop WRITE", "'the end' is wrong in 'drop WRITE'"},
		{"drop WRITE 0", "'0' is wrong in"},
		{"drop WRITE 1 2", "'the end' is wrong in"},
		{"drop WRITE 1 of", "'the end' is wrong in"},
		{"drop WRITE 1 of qp x", "'x' is wrong in"},
		{"drop WRITE 1 at home", "'home' is wrong in"},
		{"drop WRITE 1 now", "'now' is wrong in"},
		{"delay WRITE 1", "'the end' is wrong in 'delay WRITE 1'; write delay PACKET [every] N by"},
		{"rnr 5", "'the end' is wrong in 'rnr 5'; write rnr N times"},
		{"rnr every 1", "'the end' is wrong in 'rnr every 1'"},
		{"rnr every 3 4", "'the end' is wrong in"},
		{"drop WRITE every", "'the end' is wrong in"},
		{"drop every WRITE 3", "'every' is wrong in"},
		{"drop WRITE every 0", "'0' is wrong in"},
		{"kill me after 1", "'me' is wrong in"},
		{"kill peer after 1TB", "'1TB' is wrong in"},
		{"rnr 1 times\nrnr", "'the end' is wrong in 'rnr'"},
		{"a b c d e f g h i j k l m n o p q", "too many words"},
	};
	char why[IMPAIR_WHY_BYTES];

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
		struct impair_plan plan = {.loss = 0};

		assert_false(impair_faults_parse(&plan, wrong[i].text, why));
		assert_memory_equal(why, wrong[i].why, strlen(wrong[i].why));
	}
}

static void fault_of_every_packet_is_parsed(void **state)
{
	struct impair_plan plan = {.side = IMPAIR_SIDE_SERVER};
	char why[IMPAIR_WHY_BYTES];

	(void)state;
	assert_true(impair_faults_parse(&plan,
		"delay ACK every 3 by 2ms; drop WRITE every 1 5 times of qp 2 at server; rnr every 4",
		why));
	assert_int_equal(plan.fault_count, 3);
	assert_true(plan.faults[0].is_periodic);
	assert_int_equal(plan.faults[0].number, 3);
	assert_int_equal(plan.faults[0].amount, 2000000);
	assert_int_equal(plan.faults[0].times, UINT32_MAX);
	assert_int_equal(plan.faults[1].number, 1);
	assert_int_equal(plan.faults[1].times, 5);
	assert_int_equal(plan.faults[1].qp, 2);
	assert_int_equal(plan.faults[2].number, 4);
	assert_int_equal(plan.faults[2].times, UINT32_MAX);
}

static void faults_beyond_the_most_are_refused(void **state)
{
	struct impair_plan plan = {.loss = 0};
	char why[IMPAIR_WHY_BYTES];

	(void)state;
	for (int i = 0; i < IMPAIR_FAULTS_MAX; i++)
		assert_true(impair_faults_parse(&plan, "rnr 1 times", why));
	assert_false(impair_faults_parse(&plan, "rnr 1 times", why));
	assert_int_equal(plan.fault_count, IMPAIR_FAULTS_MAX);
}

/* --- fates --- */

/* Which of the first packets of a flow the seed drops. */
static uint64_t drops_of(const char *settings, uint32_t qp)
{
	struct impair_flow flow = flow_new(qp);
	uint64_t drops = 0;

	plan_begin(settings, "");
	for (uint32_t i = 0; i < 64; i++)
		drops |= (uint64_t)WRITE(&flow, i).is_dropped << i;
	return drops;
}

/* Golden fates: a seed means the same in the next version. */
static void fates_follow_from_the_seed_and_the_flow(void **state)
{
	(void)state;
	assert_int_equal(drops_of("loss=10%,seed=1", 1), 0x11109400004010);
	assert_int_equal(drops_of("loss=10%,seed=1", 1), 0x11109400004010);
	assert_int_equal(drops_of("loss=10%,seed=2", 1), 0x420800510084);
	assert_int_equal(drops_of("loss=10%,seed=1", 2), 0x420000002080);
	assert_int_equal(drops_of("loss=10%,seed=1,side=client", 1), 0x1822040800100008);
	assert_int_equal(drops_of("loss=0%,seed=1", 1), 0);
	assert_int_equal(drops_of("loss=100%,seed=1", 1), UINT64_MAX);
}

static void shares_are_near_what_was_asked_for(void **state)
{
	struct impair_flow flow = flow_new(1);
	unsigned dropped = 0, duplicated = 0, corrupted = 0, reordered = 0;

	(void)state;
	plan_begin("loss=1%,duplicate=2%,corrupt=3%,reorder=4%", "");
	for (uint32_t i = 0; i < 100000; i++) {
		const struct impair_fate fate = WRITE(&flow, i);

		assert_true(fate.is_first);
		dropped += fate.is_dropped;
		duplicated += fate.is_duplicated;
		corrupted += fate.is_corrupted;
		reordered += fate.is_reordered;
		assert_false(fate.is_dropped && fate.is_duplicated);
	}
	assert_in_range(dropped, 900, 1100);
	assert_in_range(duplicated, 1850, 2150);
	assert_in_range(corrupted, 2800, 3200);
	assert_in_range(reordered, 3750, 4250);
}

/* The receiver's ICRC check has to find each inverted bit. */
static void corruption_hits_no_byte_without_icrc(void **state)
{
	struct impair_flow flow = flow_new(1);
	unsigned last = 0;

	(void)state;
	plan_begin("corrupt=100%", "");
	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t bit = WRITE(&flow, i).corrupt_bit;

		assert_int_not_equal(bit / 8, 4);
		assert_in_range(bit / 8, 0, BTH_BYTES + MTU + 3);
		last += bit / 8 == BTH_BYTES + MTU + 3;
	}
	assert_int_not_equal(last, 0);
}

static void retransmission_is_not_first_and_draws_anew(void **state)
{
	struct impair_flow flow = flow_new(1), other = flow_new(1);
	unsigned dropped = 0;

	(void)state;
	plan_begin("loss=50%,seed=3", "");
	for (uint32_t i = 0; i < 4; i++)
		assert_true(WRITE(&flow, i).is_first);
	for (uint32_t round = 0; round < 64; round++)
		for (uint32_t i = 2; i < 4; i++) {
			const struct impair_fate fate = WRITE(&flow, i);

			assert_false(fate.is_first);
			dropped += fate.is_dropped;
		}
	assert_in_range(dropped, 40, 88);
	/* What follows has the fate that it has without the retransmissions. */
	for (uint32_t i = 0; i < 4; i++)
		WRITE(&other, i);
	for (uint32_t i = 4; i < 64; i++)
		assert_int_equal(WRITE(&flow, i).is_dropped, WRITE(&other, i).is_dropped);
}

static void read_that_is_repeated_in_part_is_not_first(void **state)
{
	struct impair_flow flow = flow_new(1);

	(void)state;
	plan_begin("", "");
	assert_true(fate_of(&flow, OPCODE_RC_READ_REQUEST, 0).is_first);
	assert_false(fate_of(&flow, OPCODE_RC_READ_REQUEST, 7).is_first);
	assert_false(fate_of(&flow, OPCODE_RC_READ_REQUEST, 9).is_first);
	assert_true(fate_of(&flow, OPCODE_RC_READ_REQUEST, 10).is_first);
}

static void response_behind_many_acknowledged_writes_is_first(void **state)
{
	struct impair_flow flow = flow_new(1);
	uint32_t after;

	(void)state;
	plan_begin("", "");
	assert_false(fate_of(&flow, OPCODE_RC_ACKNOWLEDGE, U24_MASK).is_first);
	for (after = 0; after < 3u << 23; after += 1u << 22)
		assert_false(fate_of(&flow, OPCODE_RC_ACKNOWLEDGE, after).is_first);
	assert_true(fate_of(&flow, OPCODE_RC_READ_RESPONSE_ONLY, after).is_first);
	assert_false(fate_of(&flow, OPCODE_RC_READ_RESPONSE_ONLY, after).is_first);
}

/* Its PSN is 0, which is no position of the flow. */
static void response_behind_a_congestion_notification_is_first(void **state)
{
	struct impair_flow flow = flow_new(1);

	(void)state;
	plan_begin("", "");
	assert_false(fate_of(&flow, OPCODE_CNP_NOTIFICATION, U24_MASK + 1 - PSN_FIRST).is_first);
	assert_true(fate_of(&flow, OPCODE_RC_READ_RESPONSE_ONLY, 0).is_first);
}

static void flow_that_is_connected_anew_begins_anew(void **state)
{
	struct impair_flow flow = flow_new(1);

	(void)state;
	plan_begin("", "");
	for (uint32_t i = 0; i < 8; i++)
		WRITE(&flow, i);
	impair_flow_bind(&flow, PSN_FIRST - 4, PSN_FIRST, MTU);
	assert_true(WRITE(&flow, U24_MASK - 3).is_first);
	assert_true(WRITE(&flow, 0).is_first);
	/* After a reset with the same PSN, too. */
	assert_false(WRITE(&flow, U24_MASK - 3).is_first);
	impair_flow_reset(&flow);
	impair_flow_bind(&flow, PSN_FIRST - 4, PSN_FIRST, MTU);
	assert_true(WRITE(&flow, U24_MASK - 3).is_first);
}

/* --- aimed faults --- */

static void periodic_fault_hits_first_transmissions_by_their_count(void **state)
{
	struct impair_flow flow = flow_new(1), other = flow_new(2);

	(void)state;
	plan_begin("",
		"drop WRITE every 3 2 times of qp 1; duplicate ACK every 2; rnr every 3 2 times");
	for (uint32_t i = 0; i < 12; i++) {
		bool is_hit = i == 2 || i == 5;

		assert_false(WRITE(&other, i).is_aimed);
		assert_int_equal(WRITE(&flow, i).is_dropped, is_hit);
		assert_false(WRITE(&flow, i).is_aimed); /* a retransmission */
	}
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(
			fate_of(&flow, OPCODE_RC_ACKNOWLEDGE, i).is_duplicated, i % 2 == 1);
	for (uint32_t i = 1; i <= 12; i++)
		assert_int_equal(impair_refuses_receive(&impair, &flow), i == 3 || i == 6);
}

static void fault_hits_the_packet_that_it_names(void **state)
{
	struct impair_flow flow = flow_new(1), other = flow_new(2);

	(void)state;
	plan_begin("", "drop WRITE 3 2 times of qp 1; duplicate READ request 1");
	for (uint32_t i = 0; i < 8; i++)
		assert_false(WRITE(&other, i).is_aimed);
	assert_false(WRITE(&flow, 0).is_aimed);
	assert_false(WRITE(&flow, 1).is_aimed);
	assert_true(WRITE(&flow, 2).is_dropped);
	assert_false(WRITE(&flow, 3).is_aimed);
	/* The first retransmission of this packet, too, and then no more. */
	assert_false(WRITE(&flow, 1).is_aimed);
	assert_true(WRITE(&flow, 2).is_dropped);
	assert_false(WRITE(&flow, 2).is_aimed);
	assert_true(fate_of(&other, OPCODE_RC_READ_REQUEST, 8).is_duplicated);
	assert_false(fate_of(&flow, OPCODE_RC_READ_REQUEST, 8).is_aimed);
}

static void acknowledgements_are_counted_as_they_leave(void **state)
{
	struct impair_flow flow = flow_new(1);

	(void)state;
	plan_begin("", "drop ACK 2 2 times");
	assert_false(fate_of(&flow, OPCODE_RC_ACKNOWLEDGE, 5).is_aimed);
	assert_true(fate_of(&flow, OPCODE_RC_ACKNOWLEDGE, 5).is_dropped);
	assert_true(fate_of(&flow, OPCODE_RC_ACKNOWLEDGE, 6).is_dropped);
	assert_false(fate_of(&flow, OPCODE_RC_ACKNOWLEDGE, 6).is_aimed);
}

static void delay_of_a_fault_adds_to_that_of_all(void **state)
{
	struct impair_flow flow = flow_new(1);

	(void)state;
	plan_begin("delay=1ms", "delay WRITE 2 by 20ms");
	assert_int_equal(WRITE(&flow, 0).hold_ns, 1000000);
	assert_int_equal(WRITE(&flow, 1).hold_ns, 21000000);
	assert_int_equal(WRITE(&flow, 2).hold_ns, 1000000);
}

static void receive_is_refused_as_often_as_asked(void **state)
{
	struct impair_flow flow = flow_new(1), other = flow_new(2);

	(void)state;
	plan_begin("", "rnr 2 times of qp 2");
	assert_false(impair_refuses_receive(&impair, &flow));
	assert_true(impair_refuses_receive(&impair, &other));
	assert_true(impair_refuses_receive(&impair, &other));
	assert_false(impair_refuses_receive(&impair, &other));
	assert_int_equal(impair.report->rnr_naks, 2);
}

/* Retransmissions are no new payload. */
static void victim_dies_once_after_its_payload(void **state)
{
	struct impair_flow flow = flow_new(1);

	(void)state;
	plan_begin("server=5", "kill peer after 3KiB");
	assert_int_equal(WRITE(&flow, 0).victim, IMPAIR_SIDE_NONE);
	assert_int_equal(WRITE(&flow, 1).victim, IMPAIR_SIDE_NONE);
	assert_int_equal(WRITE(&flow, 0).victim, IMPAIR_SIDE_NONE);
	assert_int_equal(WRITE(&flow, 2).victim, IMPAIR_SIDE_SERVER);
	assert_int_equal(WRITE(&flow, 3).victim, IMPAIR_SIDE_NONE);
}

static void link_of_limited_rate_takes_its_time(void **state)
{
	(void)state;
	plan_begin("rate=1G", "");
	assert_int_equal(impair_link_reserve(&impair, 125, 1000), 2000);
	assert_int_equal(impair_link_reserve(&impair, 1250, 1000), 12000);
	assert_int_equal(impair_link_reserve(&impair, 125, 50000), 51000);
	plan_begin("", "");
	assert_int_equal(impair_link_reserve(&impair, 125, 1000), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_of_all_kinds_are_parsed),
		cmocka_unit_test(wrong_settings_are_refused_with_the_word),
		cmocka_unit_test(faults_of_all_kinds_are_parsed),
		cmocka_unit_test(wrong_faults_are_refused_with_the_word),
		cmocka_unit_test(faults_beyond_the_most_are_refused),
		cmocka_unit_test(fates_follow_from_the_seed_and_the_flow),
		cmocka_unit_test(shares_are_near_what_was_asked_for),
		cmocka_unit_test(corruption_hits_no_byte_without_icrc),
		cmocka_unit_test(retransmission_is_not_first_and_draws_anew),
		cmocka_unit_test(read_that_is_repeated_in_part_is_not_first),
		cmocka_unit_test(response_behind_many_acknowledged_writes_is_first),
		cmocka_unit_test(response_behind_a_congestion_notification_is_first),
		cmocka_unit_test(flow_that_is_connected_anew_begins_anew),
		cmocka_unit_test(fault_of_every_packet_is_parsed),
		cmocka_unit_test(periodic_fault_hits_first_transmissions_by_their_count),
		cmocka_unit_test(fault_hits_the_packet_that_it_names),
		cmocka_unit_test(acknowledgements_are_counted_as_they_leave),
		cmocka_unit_test(delay_of_a_fault_adds_to_that_of_all),
		cmocka_unit_test(receive_is_refused_as_often_as_asked),
		cmocka_unit_test(victim_dies_once_after_its_payload),
		cmocka_unit_test(link_of_limited_rate_takes_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
