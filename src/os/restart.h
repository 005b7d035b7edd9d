/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_RESTART_H
#define URNIC_OS_RESTART_H

/*
 * The effect of a signal on a wait.
 *
 * Linux restarts an interrupted read(2) if the signal's handler has SA_RESTART, and otherwise the
 * call returns EINTR. It never restarts ppoll(2). A function that waits in ppoll(2) and has to
 * behave as read(2) finds out here what read(2) would have done.
 *
 * ppoll(2) does not tell which signal came. So the answer is certain only while all handlers of the
 * process are of one kind. Handlers of faults (SIGSEGV and others) do not count: they interrupt no
 * wait.
 *
 * Any thread may call.
 */

#include <stdbool.h>
#include <stdint.h>

/*
 * How long restart_is_certain() relies on a reading of the handlers, because a reading takes some
 * 60 system calls.
 */
#define RESTART_LOOK_NS 100000000

/*
 * Are all handlers of one kind, so that restart_is_due() knows the answer? Reads the handlers if
 * the last reading is older than RESTART_LOOK_NS. `now_ns` is monotonic.
 */
bool restart_is_certain(uint64_t now_ns);

/*
 * A signal has interrupted a wait. Would Linux have restarted a read(2)? Reads the handlers anew.
 * Returns false if there are handlers of both kinds.
 */
bool restart_is_due(void);

#endif
