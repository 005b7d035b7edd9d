/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which claims of a port exclude each other, and which claim gets a request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "cm/cm.h"
#include "urnicd/lease/claim.h"

enum { SERVICE = 0x01061c06, SERVICE_OF_DATAGRAMS = 0x01111c06 };

static struct claim_table table;

static const struct agent_address any = {{{0}}, 0};
static const struct agent_address any_ipv4 = {{{[10] = 0xff, [11] = 0xff}}, 0};
static const struct agent_address one = {{{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}}, 0};
static const struct agent_address two = {{{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}}, 0};
static const struct agent_address six = {{{0xfd, [15] = 1}}, 0};

static int begin(void **state)
{
	(void)state;
	table = (struct claim_table){.count = 0};
	return 0;
}

static int put(uint32_t client, const struct agent_address *address, uint32_t flags)
{
	const struct claim claim = {.client = client,
		.id = 1,
		.service_id = SERVICE,
		.address = *address,
		.flags = flags};
	uint64_t service_id;

	return claim_table_put(&table, &claim, &service_id);
}

static void port_of_one_address_is_claimed_once(void **state)
{
	(void)state;
	assert_int_equal(put(1, &one, 0), 0);
	assert_int_equal(put(2, &one, 0), -EADDRINUSE);
	assert_int_equal(put(2, &two, 0), 0);
	claim_table_drop_client(&table, 1);
	assert_int_equal(put(3, &one, 0), 0);
}

static void any_address_excludes_all_others(void **state)
{
	(void)state;
	assert_int_equal(put(1, &any, 0), 0);
	assert_int_equal(put(2, &one, 0), -EADDRNOTAVAIL);
	assert_int_equal(put(2, &six, 0), -EADDRNOTAVAIL);
	assert_int_equal(put(2, &any_ipv4, 0), -EADDRNOTAVAIL);
}

static void families_that_do_not_meet_do_not_exclude_each_other(void **state)
{
	(void)state;
	assert_int_equal(put(1, &any, AGENT_CLAIM_IPV6_ONLY), 0);
	assert_int_equal(put(2, &any_ipv4, 0), 0);
	assert_int_equal(put(3, &six, 0), -EADDRNOTAVAIL);
	assert_int_equal(put(3, &one, 0), -EADDRNOTAVAIL);
}

static void shared_port_has_one_listener(void **state)
{
	(void)state;
	assert_int_equal(put(1, &one, AGENT_CLAIM_SHARES), 0);
	assert_int_equal(put(2, &one, AGENT_CLAIM_SHARES), 0);
	assert_int_equal(put(3, &one, 0), -EADDRINUSE);
	assert_int_equal(put(1, &one, AGENT_CLAIM_SHARES | AGENT_CLAIM_LISTENS), 0);
	assert_int_equal(put(2, &one, AGENT_CLAIM_SHARES | AGENT_CLAIM_LISTENS), -EADDRINUSE);
}

static void port_0_gets_a_free_one_each_time(void **state)
{
	struct claim claim = {.service_id = SERVICE & ~0xffffull, .address = one};
	uint64_t first, second;

	(void)state;
	claim.id = 1;
	assert_int_equal(claim_table_put(&table, &claim, &first), 0);
	claim.id = 2;
	assert_int_equal(claim_table_put(&table, &claim, &second), 0);
	assert_int_not_equal(first, second);
	assert_true((uint16_t)first >= 32768);
	assert_int_equal(first >> 16, SERVICE >> 16);
}

static void request_goes_to_who_listens_at_that_address(void **state)
{
	(void)state;
	assert_int_equal(put(1, &one, AGENT_CLAIM_LISTENS), 0);
	assert_int_equal(put(2, &two, 0), 0);
	assert_int_equal(claim_table_listener(&table, SERVICE, &one)->client, 1);
	assert_null(claim_table_listener(&table, SERVICE, &two));
	assert_null(claim_table_listener(&table, SERVICE + 1, &one));
}

static void listener_is_expected_back_for_a_moment(void **state)
{
	(void)state;
	assert_int_equal(put(1, &one, AGENT_CLAIM_LISTENS), 0);
	claim_table_drop(&table, 1, 1, 5000);
	assert_true(claim_table_expects(&table, SERVICE, 5000 + CM_LISTENER_EXPECTED_MS - 1));
	assert_false(claim_table_expects(&table, SERVICE, 5000 + CM_LISTENER_EXPECTED_MS));
	assert_false(claim_table_expects(&table, SERVICE + 1, 5000));
	assert_true(claim_table_expects(&table, SERVICE_OF_DATAGRAMS, 5000));
}

/* The table against one without indexes, in what can be asked of it. */
static void indexes_agree_with_all_claims(void **state)
{
	static struct claim twin[AGENT_CLAIMS_MAX];
	uint32_t count = 0;

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		struct claim claim = {.client = (uint32_t)random() % 5,
			.id = 1 + (uint32_t)random() % 40,
			.service_id = SERVICE + (uint64_t)(random() % 60),
			.address = random() % 2 ? one : two,
			.flags = AGENT_CLAIM_LISTENS};
		uint32_t same = 0;
		uint64_t service_id;
		int expected = 0, rc;

		while (same < count &&
			(twin[same].client != claim.client || twin[same].id != claim.id))
			same++;
		assert_int_equal(claim_table_has(&table, claim.client, claim.id), same < count);
		if (random() % 3 == 0) {
			claim_table_drop(&table, claim.client, claim.id, 0);
			if (same < count)
				twin[same] = twin[--count];
			continue;
		}
		for (uint32_t i = 0; i < count; i++)
			if (i != same && twin[i].service_id == claim.service_id &&
				gid_is_equal(&twin[i].address.gid, &claim.address.gid))
				expected = -EADDRINUSE;
		rc = claim_table_put(&table, &claim, &service_id);
		assert_int_equal(rc, expected);
		if (rc == 0)
			twin[same] = claim;
		count += rc == 0 && same == count;
		assert_int_equal(table.count, count);
	}
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(
			claim_table_listener(&table, twin[i].service_id, &twin[i].address)->id,
			twin[i].id);
	claim_table_drop_client(&table, 0);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(
			claim_table_has(&table, twin[i].client, twin[i].id), twin[i].client != 0);
}

static void table_is_bounded(void **state)
{
	struct claim claim = {.address = one};
	uint64_t service_id;

	(void)state;
	for (uint32_t i = 0; i < AGENT_CLAIMS_MAX; i++) {
		claim.id = i + 1;
		claim.service_id = 0x01060000 + 1 + i;
		assert_int_equal(claim_table_put(&table, &claim, &service_id), 0);
	}
	claim.id++;
	claim.service_id++;
	assert_int_equal(claim_table_put(&table, &claim, &service_id), -ENOSPC);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, begin)
	const struct CMUnitTest tests[] = {
		TEST(port_of_one_address_is_claimed_once),
		TEST(any_address_excludes_all_others),
		TEST(families_that_do_not_meet_do_not_exclude_each_other),
		TEST(shared_port_has_one_listener),
		TEST(port_0_gets_a_free_one_each_time),
		TEST(request_goes_to_who_listens_at_that_address),
		TEST(listener_is_expected_back_for_a_moment),
		TEST(indexes_agree_with_all_claims),
		TEST(table_is_bounded),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
