/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_TIMER_H
#define URNIC_WIRE_TIMER_H

/*
 * The two times that have five-bit codes: the RNR NAK timer (rnr_timer.def) and the local ACK
 * timeout.
 */

#include <stdint.h>

#define TIMER_CODE_MAX 31

#define TIMER_INFINITE_NS UINT64_MAX

/* How long an RNR NAK with `code`, 0 .. 31, makes the requester wait, in nanoseconds. */
uint64_t rnr_timer_ns(uint8_t code);

/*
 * The local ACK timeout for `code` 0 .. 31, in nanoseconds: 4.096 us * 2^code; code 0 is
 * TIMER_INFINITE_NS (IBTA 9.7.6.1.3, C9-140). A requester may wait up to four times this time.
 */
uint64_t ack_timeout_ns(uint8_t code);

#endif
