/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SIM_STARVED_H
#define URNIC_TESTS_SIM_STARVED_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Two processes of an overloaded machine, neither of which runs for up to half a second at a time.
 * No packet is lost, and (retries + 1) local ACK timeouts are shorter: no request may fail.
 */
void starved_run(uint64_t seed, bool is_traced);

#endif
