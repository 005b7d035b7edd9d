/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_TIMER_H
#define URNIC_WIRE_TIMER_H

/*
 * The two timers whose values travel as five-bit codes: the RNR NAK timer (rnr_timer.def) and the
 * local ACK timeout.
 */

#include <stdint.h>

#define TIMER_CODE_MAX 31

/* What no clock reaches. */
#define TIMER_INFINITE_NS UINT64_MAX

/* How long an RNR NAK with `code`, 0 .. 31, asks the requester to wait, in nanoseconds. */
uint64_t rnr_timer_ns(uint8_t code);

/*
 * The code of the shortest wait that is at least `wait_ns`; code 0, which is the longest, when all
 * others are shorter.
 */
uint8_t rnr_timer_code(uint64_t wait_ns);

/*
 * The local ACK timeout of a queue pair, in nanoseconds: 4.096 us * 2^code; code 0 is
 * TIMER_INFINITE_NS (IBTA 9.7.6.1.3, C9-140). A requester may wait up to four times as long.
 *
 * `code`  0 .. 31.
 */
uint64_t ack_timeout_ns(uint8_t code);

#endif
