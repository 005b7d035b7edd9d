/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * User namespaces: how an ordinary user gets to make other namespaces.
 */
#ifndef TOOLS_USER_NAMESPACE_H
#define TOOLS_USER_NAMESPACE_H

#include <sys/types.h>

/*
 * Put this process into a new user namespace, with every capability there until it runs a program.
 *
 * `uid`, `gid`  What our user and group are called inside; 0 makes us root of it. Nobody else's are
 *               known there: their files belong to nobody, and set-user-id bits do not count.
 *
 * The process has no other threads. Returns 0, or -errno where the kernel does not let us; then
 * nothing or half of it has happened.
 */
int user_namespace_enter(uid_t uid, gid_t gid);

#endif
