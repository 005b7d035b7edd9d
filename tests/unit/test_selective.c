/* SPDX-License-Identifier: BSD-2-Clause */
/* Selective repeat without a queue pair: maps, the store of early packets, passes over holes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ib/rc/selective_pass.h"
#include "ib/rc/selective_store.h"
#include "support/sim_random.h"

enum { COUNT = SELECTIVE_PACKETS_MAX };

/* --- maps --- */

static void expect_same(const struct selective_map *map, const bool twin[COUNT])
{
	bool is_empty = true;

	for (uint32_t i = 0; i < COUNT; i++) {
		assert_int_equal(selective_map_has(map, i), twin[i]);
		is_empty &= !twin[i];
	}
	assert_int_equal(selective_map_is_empty(map), is_empty);
	assert_false(selective_map_has(map, COUNT));
	for (uint32_t i = COUNT; i-- > 0 && !is_empty;)
		if (twin[i]) {
			assert_int_equal(selective_map_last(map), i);
			return;
		}
}

static void map_is_what_a_row_of_flags_is(void **state)
{
	struct sim_random random = {.state = 5};
	struct selective_map map = {{0, 0}};
	bool twin[COUNT] = {false};

	(void)state;
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t index = (uint32_t)sim_random_below(&random, COUNT);
		uint32_t shift = i % 7 ? 0 : (uint32_t)sim_random_below(&random, COUNT + 20);

		selective_map_set(&map, index);
		twin[index] = true;
		selective_map_shift(&map, shift);
		for (uint32_t j = 0; j < COUNT; j++)
			twin[j] = j + shift < COUNT && twin[j + shift];
		expect_same(&map, twin);
	}
	selective_map_shift(&map, 1u << 23);
	assert_true(selective_map_is_empty(&map));
}

static void map_begins_with_the_most_significant_bit_of_its_first_byte(void **state)
{
	uint8_t bytes[SELECTIVE_MAP_BYTES], expected[SELECTIVE_MAP_BYTES] = {0x40, 0x01, [15] = 1};
	struct selective_map map = {{0, 0}}, decoded;

	(void)state;
	selective_map_set(&map, 1);
	selective_map_set(&map, 15);
	selective_map_set(&map, 127);
	selective_map_encode(&map, bytes);
	assert_memory_equal(bytes, expected, sizeof(bytes));
	selective_map_decode(&decoded, bytes);
	assert_memory_equal(&decoded, &map, sizeof(map));
}

static struct selective_map map_of(uint64_t bits)
{
	struct selective_map map = {{0, 0}};

	for (uint32_t i = 0; i < 64; i++)
		if (bits >> i & 1)
			selective_map_set(&map, i);
	return map;
}

static void map_that_no_peer_sends_is_not_possible(void **state)
{
	struct psn missing = {0xffffff}, next = {9}; /* ten packets were sent */
	struct selective_map map = map_of(0);

	(void)state;
	assert_false(selective_map_is_possible(&map, missing, next));
	map = map_of(1 << 9);
	assert_true(selective_map_is_possible(&map, missing, next));
	map = map_of(1 << 10);
	assert_false(selective_map_is_possible(&map, missing, next));
	map = map_of(1 << 9 | 1);
	assert_false(selective_map_is_possible(&map, missing, next));
	map = map_of(1 << 1);
	assert_false(selective_map_is_possible(&map, next, next));
}

/* --- the store --- */

static struct packet packet_at(struct psn psn, const uint8_t *payload, uint32_t bytes)
{
	struct packet packet;

	memset(&packet, 0, sizeof(packet));
	packet_init(&packet, OPCODE_RC_SEND_ONLY);
	packet.bth.psn = psn;
	packet_set_payload(&packet, payload, bytes);
	return packet;
}

/* Store, take and skip at random; a row of flags says what is stored. */
static void queue_gives_what_was_stored_in_order(void **state)
{
	struct selective_store *store = selective_store_create(40);
	struct sim_random random = {.state = 6};
	struct psn expected = {0xffff00};
	struct selective_queue queue = {NULL, NULL, {{0, 0}}};
	bool twin[2 * COUNT] = {false};
	uint32_t count = 0, refused = 0, taken = 0;

	(void)state;
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t ahead = 1 + (uint32_t)sim_random_below(&random, COUNT + 2);
		uint8_t payload[4];

		put_be32(payload, psn_add(expected, ahead).value);
		struct packet packet = packet_at(psn_add(expected, ahead), payload, 4);
		bool is_stored = selective_queue_add(&queue, store, &packet, ahead, 1);
		bool is_known = twin[ahead];

		assert_int_equal(is_stored, ahead < COUNT && (is_known || count < 40));
		count += is_stored && !is_known;
		twin[ahead] = is_stored;
		refused += !is_stored;
		selective_queue_check(&queue, expected);
		assert_int_equal(selective_store_count(store), count);

		/* The expected packet comes, and with it all that follow it. */
		uint32_t steps = sim_random_below(&random, 4) ? 1 : 9;
		for (bool is_there = true; is_there || steps; steps -= steps > 0) {
			expected = psn_add(expected, 1);
			count -= twin[0];
			memmove(twin, twin + 1, sizeof(twin) - 1);
			selective_queue_advance(&queue, store, expected, 1);
			const struct packet *first = selective_queue_take(&queue, store, expected);
			is_there = first != NULL;
			assert_int_equal(is_there, twin[0]);
			if (!first)
				continue;
			assert_int_equal(get_be32(first->payload), expected.value);
			twin[0] = false;
			count--;
			taken++;
		}
		selective_queue_check(&queue, expected);
	}
	assert_true(refused > 100 && taken > 1000);
	selective_queue_clear(&queue, store);
	assert_int_equal(selective_store_count(store), 0);
	selective_store_destroy(store);
}

static void queue_has_a_bit_for_each_psn_of_a_packet(void **state)
{
	struct selective_store *store = selective_store_create(2);
	struct selective_queue queue = {NULL, NULL, {{0, 0}}};
	struct packet packet = packet_at((struct psn){120}, NULL, 0);

	(void)state;
	assert_true(selective_queue_add(&queue, store, &packet, 120, 1u << 23));
	for (uint32_t i = 0; i < COUNT; i++)
		assert_int_equal(selective_map_has(&queue.map, i), i >= 120);
	selective_queue_clear(&queue, store);
	assert_true(selective_map_is_empty(&queue.map));
	selective_store_destroy(store);
	selective_store_destroy(NULL);
}

static void packet_longer_than_any_mtu_is_not_stored(void **state)
{
	static uint8_t payload[SELECTIVE_PAYLOAD_BYTES_MAX + 4];
	struct selective_store *store = selective_store_create(2);
	struct selective_queue queue = {NULL, NULL, {{0, 0}}};
	struct packet packet = packet_at((struct psn){1}, payload, sizeof(payload));

	(void)state;
	assert_false(selective_queue_add(&queue, store, &packet, 1, 1));
	packet_set_payload(&packet, payload, SELECTIVE_PAYLOAD_BYTES_MAX);
	assert_true(selective_queue_add(&queue, store, &packet, 1, 1));
	selective_queue_clear(&queue, store);
	selective_store_destroy(store);
}

/* --- passes --- */

static uint32_t learn(struct selective_pass *pass, uint64_t bits, uint32_t una, uint32_t next,
	struct psn *ret_from)
{
	struct selective_map map = map_of(bits);
	struct psn last = psn_from(una + selective_map_last(&map));

	return selective_pass_learn(
		pass, &map, psn_from(una), last, last, psn_from(next), ret_from);
}

static void expect_holes(
	const struct selective_pass *pass, struct psn from, const uint32_t *holes, uint32_t count)
{
	struct psn psn = selective_pass_hole(pass, from);

	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(psn.value, psn_from(holes[i]).value);
		psn = selective_pass_hole(pass, psn_add(psn, 1));
	}
	assert_true(psn_equal(psn, pass->end));
}

static void pass_has_each_hole_once_in_a_round(void **state)
{
	struct selective_pass pass = {0};
	struct psn from;

	(void)state;
	/* Of 20 packets from 0xfffffe on, 3, 4 and 6 have arrived. */
	assert_int_equal(learn(&pass, 0x58, 0xfffffe, 18, &from), 4);
	expect_holes(&pass, from, (uint32_t[]){0xfffffe, 0xffffff, 0, 3}, 4);
	assert_int_equal(learn(&pass, 0x58, 0xfffffe, 18, &from), 0);
	/* 8 has arrived, too: only 7 is news. */
	assert_int_equal(learn(&pass, 0x158, 0xfffffe, 18, &from), 1);
	expect_holes(&pass, from, (uint32_t[]){5}, 1);
	/* The first three came. */
	assert_int_equal(learn(&pass, 0xa, 3, 18, &from), 0);
	assert_true(pass.is_open);
	selective_pass_advance(&pass, psn_from(17));
	assert_true(pass.is_open);
	selective_pass_advance(&pass, psn_from(18));
	assert_false(pass.is_open);
}

static void pass_begins_again_when_a_later_packet_has_overtaken_it(void **state)
{
	struct selective_pass pass = {0};
	struct psn from;

	(void)state;
	assert_int_equal(learn(&pass, 0x6, 10, 14, &from), 1);
	expect_holes(&pass, from, (uint32_t[]){10}, 1);
	/* 13 was sent before the hole was sent again, 14 after. */
	assert_int_equal(learn(&pass, 0xe, 10, 16, &from), 0);
	assert_int_equal(learn(&pass, 0x1e, 10, 16, &from), 1);
	expect_holes(&pass, from, (uint32_t[]){10}, 1);
	assert_int_equal(learn(&pass, 0x3e, 10, 20, &from), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(map_is_what_a_row_of_flags_is),
		cmocka_unit_test(map_begins_with_the_most_significant_bit_of_its_first_byte),
		cmocka_unit_test(map_that_no_peer_sends_is_not_possible),
		cmocka_unit_test(queue_gives_what_was_stored_in_order),
		cmocka_unit_test(queue_has_a_bit_for_each_psn_of_a_packet),
		cmocka_unit_test(packet_longer_than_any_mtu_is_not_stored),
		cmocka_unit_test(pass_has_each_hole_once_in_a_round),
		cmocka_unit_test(pass_begins_again_when_a_later_packet_has_overtaken_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
