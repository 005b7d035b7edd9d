/* SPDX-License-Identifier: BSD-2-Clause */
/* User namespaces, which let an ordinary user make other namespaces. */
#ifndef TOOLS_USER_NAMESPACE_H
#define TOOLS_USER_NAMESPACE_H

#include <sys/types.h>

/*
 * Put this process into a new user namespace, with every capability there until it runs a program.
 *
 * `uid`, `gid`  The caller's user and group inside; 0 makes them root there. All other users map to
 *               nobody, and set-user-id bits have no effect.
 *
 * The process has no other threads. Returns 0, or -errno if the kernel refuses. After an error,
 * part of the work may be done.
 */
int user_namespace_enter(uid_t uid, gid_t gid);

#endif
