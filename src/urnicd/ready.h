/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_READY_H
#define URNIC_URNICD_READY_H

/*
 * Messages of urnicd to the service manager that started it, by the protocol of sd_notify(3):
 * datagrams to the socket that NOTIFY_SOCKET names. Without that variable, or if the socket cannot
 * be reached, the functions do nothing.
 */

#include <stdbool.h>

/* Is there a service manager? */
bool ready_has_manager(void);

/*
 * Say that urnicd listens. A manager that waits for that and does not hear it ends urnicd when its
 * limit on the start time has passed.
 */
void ready_tell(void);

/*
 * Ask the manager to keep a descriptor while it restarts urnicd, and to pass it on under `name`.
 * A manager may refuse silently.
 */
void ready_keep(const char *name, int fd);
/* Ask the manager to close the descriptors that it keeps under `name`. */
void ready_forget(const char *name);

#endif
