/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_CREDIT_H
#define URNIC_WIRE_CREDIT_H

/*
 * End-to-end flow control: receive requests counted in five bits (credit.def, IBTA 9.7.7.2).
 */

#include <stdint.h>

/* In an ACK: this responder gives no credits, send as you like (it has an SRQ, say). */
#define CREDIT_CODE_UNLIMITED 31

/* What credit_count() says for it: more than any queue holds. */
#define CREDIT_COUNT_UNLIMITED UINT32_MAX

/* How many requests `code`, 0 .. 31, allows. */
uint32_t credit_count(uint8_t code);

/*
 * The code of the largest count that is at most `count`: a responder never promises more than it
 * has. Never CREDIT_CODE_UNLIMITED.
 */
uint8_t credit_code(uint32_t count);

#endif
