/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager in the simulator: two programs, each with a manager, connect over a wire
 * that loses, duplicates, delays and reorders. The seed draws a plan for each program: accept or
 * refuse, at once or late, disconnect from either side or both, release the connection at any
 * moment. In every third history one of the programs dies. Each connection must end in time, as the
 * plan and the protocol say. Each program must get the events, and no connection may be left.
 */
#ifndef URNIC_TESTS_SIM_CM_HISTORY_H
#define URNIC_TESTS_SIM_CM_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

/* Run one history; aborts with the seed if it goes wrong. Returns the messages sent. */
uint64_t cm_history_run(uint64_t seed, bool is_traced);

/* After many of them: every state of a connection was met. */
void cm_history_check_states(void);

#endif
