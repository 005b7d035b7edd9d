/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which process holds a network that has no names, remembered in a file per network.
 *
 * The directory is $XDG_RUNTIME_DIR/urnic-host or /tmp/urnic-host-<uid>; one that another user owns
 * is refused. A file says the holder's process id and when that process started, so that a reused
 * id is not mistaken for it.
 */
#ifndef TOOLS_NETWORK_STATE_H
#define TOOLS_NETWORK_STATE_H

#include <sys/types.h>

/*
 * The holder of a network, or 0 if there is none (any more).
 */
pid_t network_state_holder(const char *name);

/*
 * Remember or forget a holder. 0 or -errno.
 */
int network_state_write(const char *name, pid_t holder);
int network_state_remove(const char *name);

/*
 * Call back with each remembered name whose holder lives.
 */
void network_state_for_each(void (*visit)(const char *name, void *context), void *context);

#endif
