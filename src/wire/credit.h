/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WIRE_CREDIT_H
#define URNIC_WIRE_CREDIT_H

/* End-to-end flow control: receive requests counted in five bits (credit.def, IBTA 9.7.7.2). */

#include <stdint.h>

/*
 * In an ACK, this code says that credits do not limit the requester. A responder with a shared
 * receive queue sends it.
 */
#define CREDIT_CODE_UNLIMITED 31

/* The result of credit_count() for CREDIT_CODE_UNLIMITED. No queue has so many receive requests. */
#define CREDIT_COUNT_UNLIMITED UINT32_MAX

/* The number of receive requests that `code`, 0 .. 31, promises. */
uint32_t credit_count(uint8_t code);

/*
 * The code with the largest count that does not exceed `count`, so that a responder never promises
 * too much. The result is never CREDIT_CODE_UNLIMITED.
 */
uint8_t credit_code(uint32_t count);

#endif
