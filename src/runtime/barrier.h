/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_RUNTIME_BARRIER_H
#define URNIC_RUNTIME_BARRIER_H

/*
 * A memory barrier for all threads of the process, at the expense of who asks for it: membarrier(2).
 */

/* If the kernel has it, locks get owners from now on (base/bias.h). More than once is fine. */
void barrier_begin(void);

#endif
