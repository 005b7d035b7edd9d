/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The holder of each held network (network.h), in a file per network.
 *
 * The directory is $XDG_RUNTIME_DIR/urnic-host or /tmp/urnic-host-<uid>; a directory of another
 * user is refused. A file has the process ID and the start time of the holder. If the start time is
 * not that of the process, the kernel has reused the ID, and the holder has ended.
 */
#ifndef TOOLS_NETWORK_STATE_H
#define TOOLS_NETWORK_STATE_H

#include <sys/types.h>

/* The running holder of a network; 0: none. */
pid_t network_state_holder(const char *name);

/* Make or remove the file of a holder. Return 0 or -errno. */
int network_state_write(const char *name, pid_t holder);
int network_state_remove(const char *name);

/* Call `visit` with the name of each network whose holder runs. */
void network_state_for_each(void (*visit)(const char *name, void *context), void *context);

#endif
