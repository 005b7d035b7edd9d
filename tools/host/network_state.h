/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The holder process of each network without a name, in a file per network.
 *
 * The directory is $XDG_RUNTIME_DIR/urnic-host or /tmp/urnic-host-<uid>; a directory of another
 * user is refused. A file has the holder's process ID and start time, which detects a reused ID.
 */
#ifndef TOOLS_NETWORK_STATE_H
#define TOOLS_NETWORK_STATE_H

#include <sys/types.h>

/* The holder of a network; 0: none. */
pid_t network_state_holder(const char *name);

/* Store or remove a holder. Return 0 or -errno. */
int network_state_write(const char *name, pid_t holder);
int network_state_remove(const char *name);

/* Call `visit` with each stored name whose holder lives. */
void network_state_for_each(void (*visit)(const char *name, void *context), void *context);

#endif
