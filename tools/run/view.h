/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private view: /sys/class/infiniband, /sys/class/infiniband_verbs and /dev/infiniband, as a
 * kernel driver would provide them.
 *
 * Programs that use only libibverbs do not need the view. Others do: UCX requires the character
 * device, infiniband-diags and monitoring agents read attribute files.
 *
 * The view is a mount namespace of this process and those that it starts. Only the mounts of /sys
 * and /dev are private; a program's other mounts work as before. Attribute files keep the values
 * that they have when the view is made; traffic counters change (view_counters.h).
 *
 *     /sys/class                   an overlay: the real one, with the directories that it lacks
 *     /sys/class/infiniband        a tmpfs, which view_files.c fills
 *     /sys/class/infiniband_verbs  a tmpfs, which view_files.c fills, too
 *     /dev                         a tmpfs of symbolic links to the real one, in /dev/.host
 *     /dev/infiniband              a tmpfs; uverbsN are links to ../null, a character device
 *
 * The view covers the directories of a real driver, because urnic's libraries cannot open the
 * devices of that driver.
 */
#ifndef TOOLS_VIEW_H
#define TOOLS_VIEW_H

#include <stdbool.h>

/*
 * Give this process the view.
 *
 * `may_change_users`  An ordinary user needs a user namespace for the view. In it, files of other
 *                     users belong to nobody, and set-user-id programs run as the caller.
 *
 * `ret_call`          After an error: the system call that failed, for a message.
 *
 * The process has no other threads. Returns 0; -EPERM if the system refuses; or another -errno.
 * After an error the new directories may be incomplete; all former files are still there.
 */
int view_enter(bool may_change_users, const char **ret_call);

/* The three directories of the view, for view.c and view_files.c. */
#define VIEW_DEVICES      "/sys/class/infiniband"
#define VIEW_CHAR_DEVICES "/sys/class/infiniband_verbs"
#define VIEW_NODES        "/dev/infiniband"

/* A device's abi_version: that of a driver without private commands. */
#define VIEW_DRIVER_ABI_VERSION "1"

/* Write an attribute file in the form of sysfs: one line. Returns 0 or -errno. */
int view_write_line(int directory, const char *path, const char *value);

/* Fill the three directories, which are empty. Returns 0 or -errno. */
int view_write_files(void);

#endif
