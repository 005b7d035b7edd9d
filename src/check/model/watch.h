/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Full checks: does the program wait for a WRITE of a peer by polling a byte that is not the last?
 * An adapter may place the bytes of a WRITE in any order but for the last ones.
 *
 * urnic asks before it places a WRITE (src/lane/placer.h). The checker protects the pages of the
 * destination for a moment, and single-steps each instruction that accesses them, so that it sees
 * which bytes the program reads. A thread that reads the same byte again and again polls it:
 *
 *     it polls the last eight bytes    right; the WRITE is placed as always
 *     it polls another byte            urnic places all but the last eight bytes, and waits
 *
 * In the second case the program sees its byte change, and the last ones are still missing. The
 * program that reads on from there again and again is right: it waits for the last bytes, too, or
 * compares all. One that reads other bytes once, and then posts, exits or does something else, has
 * taken the message as complete. That is reported.
 *
 * Where it cannot tell, the checker is silent: memory whose pages are not wholly within a region,
 * or that posted requests use; a WRITE of at most eight bytes. Of the WRITEs to a region it watches
 * the first, the third, the seventh and so on, later each 1024th. Threads of the program that are
 * inside of a system call which takes memory prevent it, because the call would fail on such pages.
 *
 * Single-stepping needs x86-64. Elsewhere nothing is watched.
 */
#ifndef URNIC_CHECK_MODEL_WATCH_H
#define URNIC_CHECK_MODEL_WATCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* Install the handler of SIGTRAP. Without this call nothing is watched. */
void watch_start(void);

/*
 * A fault at `address`, in the handler of SIGSEGV. Returns true if the watch was its cause; the
 * instruction then runs again.
 */
bool watch_fault(uintptr_t address, ucontext_t *context);

/*
 * The thread posts, waits for an event, or ends the program: if it polls watched memory, it has
 * left its loop. The watch is over.
 */
void watch_leave(void);

/* Does this thread poll watched memory? Then the lane is locked, and a poll finds nothing. */
bool watch_is_mine(void);

/* This process is a forked child, without the thread that watched. */
void watch_inherit(void);

#endif
