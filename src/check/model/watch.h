/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Full checks: does the program wait for a peer's WRITE by polling a byte that is not one of the
 * last? Common adapters place the last bytes of a WRITE after all others, and the others in any
 * order. The checker accepts a program that polls one of the last eight bytes.
 *
 * Before the lane places a WRITE, it calls the checker (src/lane/placer.h). The checker protects
 * the pages of the destination for a moment, and single-steps each instruction that accesses them.
 * So it sees which bytes the program reads. A thread that reads one byte again and again polls it:
 *
 *     it polls one of the last eight bytes    right; the lane places the WRITE as always
 *     it polls another byte                   the lane places all but the last eight, and waits
 *
 * In the second case the program sees its byte change while the last eight are still missing. A
 * program that then polls further bytes is right: it waits for the last bytes, or compares all.
 * A program that reads other bytes once, and then posts, exits or leaves its loop, has taken the
 * message as complete. The checker reports that.
 *
 * The checker does not watch a WRITE of at most eight bytes, nor memory whose pages are not wholly
 * within a region or that posted requests use. Of the WRITEs to a region it watches the first, and
 * then fewer and fewer, down to one in about 1024. While a thread of the program is inside a system
 * call that accesses memory, it watches none, because the call would fail on protected pages.
 *
 * Single-stepping needs x86-64. On other processors the checker watches nothing.
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
 * A fault at `address`, in the handler of SIGSEGV. Returns true if the watch has caused the fault;
 * then the instruction runs again.
 */
bool watch_fault(uintptr_t address, ucontext_t *context);

/*
 * Do what sigaction() does for SIGTRAP: the program sets its own action, or reads it. Returns false
 * if the checker has no handler.
 */
bool watch_set_action(const struct sigaction *action, struct sigaction *ret_before);

/*
 * The thread posts, waits for an event, or ends the program. If it has polled watched memory, it
 * has left its loop, and the watch ends.
 */
void watch_leave(void);

/*
 * The program is about to unmap these bytes, to map others there, or to change their protection. If
 * they are watched, the watch ends.
 */
void watch_end_at(uintptr_t start, uint64_t bytes);

/*
 * Does this thread poll watched memory? If so, the lane is locked by the thread that places the
 * WRITE, so a poll for completions finds nothing.
 */
bool watch_is_mine(void);

/* The child of a fork calls this. The thread that watched does not exist in the child. */
void watch_inherit(void);

#endif
