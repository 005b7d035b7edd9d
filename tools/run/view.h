/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private view: /sys/class/infiniband, /sys/class/infiniband_verbs and /dev/infiniband as they
 * would be with a kernel driver.
 *
 * Programs that keep to libibverbs need none of it. Some look past it: UCX wants the character
 * device to be there, infiniband-diags and monitoring agents read attribute files.
 *
 * It is a mount namespace of this process and those that it starts; nobody else sees it. Only the
 * mounts of /sys and /dev are cut off from the outside: what a program mounts elsewhere goes where
 * it always went. Attribute files show the devices as they are now, and do not change; traffic
 * counters do (view_counters.h).
 *
 *     /sys/class                   an overlay: the real one, with the directories that it lacks
 *     /sys/class/infiniband        a tmpfs, view_files.c fills it
 *     /sys/class/infiniband_verbs  a tmpfs, likewise
 *     /dev                         a tmpfs of symbolic links to the real one, in /dev/.host
 *     /dev/infiniband              a tmpfs; uverbsN are links to ../null, a character device
 *
 * Directories that a real driver has made are covered, not extended: its devices are none that our
 * libraries would open.
 */
#ifndef TOOLS_VIEW_H
#define TOOLS_VIEW_H

#include <stdbool.h>

/*
 * Give this process the view.
 *
 * `may_change_users`  An ordinary user needs a user namespace of its own for that, in which other
 *                     users' files belong to nobody and set-user-id programs run as oneself.
 *
 * The process has no other threads. Returns 0; -EPERM if the system does not let us; or another
 * -errno. Then our directories may be there without all that belongs into them; nothing that was
 * there before is missing.
 */
int view_enter(bool may_change_users);

/* For view.c: the three directories and what is in them. */
#define VIEW_DEVICES      "/sys/class/infiniband"
#define VIEW_CHAR_DEVICES "/sys/class/infiniband_verbs"
#define VIEW_NODES        "/dev/infiniband"

/* Write what is in the three directories, all empty now. Returns 0 or -errno. */
int view_write_files(void);

#endif
