/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SIM_KILLED_H
#define URNIC_TESTS_SIM_KILLED_H

#include <stdbool.h>
#include <stdint.h>

/*
 * One end disappears in the middle of a transfer: its host dies, or only its queue pair is
 * destroyed, reset, or put into the error state. Each request of the other end must complete once,
 * with an error, in the time that its retry settings promise.
 */
void killed_run(uint64_t seed, bool is_traced);

#endif
