/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_RC_SCRIPT_H
#define URNIC_TESTS_SUPPORT_RC_SCRIPT_H

/*
 * A reliable connection and its scripted peer, made for each test: TEST(name). A test program
 * includes this in its one source.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ib/rc/rc.h"
#include "support/script.h"

static struct script script;

static inline int setup(void **state)
{
	(void)state;
	script_start(&script, NULL);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	script_end(&script);
	return 0;
}

/* Start again with other attributes. */
static inline void restart(const struct script_options *options)
{
	script_end(&script);
	script_start(&script, options);
}

/* Post `count` requests of a packet each, the last one signaled, and send them. */
static inline void send_many(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		script_post(&script, WR_SEND, 1, i + 1 == count ? SEND_SIGNALED : 0);
	assert_int_equal(script_drain(&script), count);
}

static inline uint32_t window_packets(void)
{
	return rc_from_qp(script.qp)->requester.window_packets;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
