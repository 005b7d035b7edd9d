/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_YAMA_H
#define URNIC_OS_YAMA_H

/*
 * yama, a Linux security module that restricts which processes of a user may access each other's
 * memory and descriptors (ptrace(2), "/proc/sys/kernel/yama/ptrace_scope").
 */

enum yama_scope {
	YAMA_ABSENT = -1, /* or /proc does not show it */
	YAMA_ALL = 0, /* no restriction */
	YAMA_RELATED = 1, /* access by ancestors, and by the process named with PR_SET_PTRACER */
	YAMA_PRIVILEGED = 2, /* access by processes with CAP_SYS_PTRACE */
	YAMA_NONE = 3, /* access by no process; the scope cannot be changed any more */
};

/* The scope that is in force, an enum yama_scope. Any thread may call. */
int yama_scope(void);

/*
 * If the scope is YAMA_RELATED, let the other processes of this user access this process, as they
 * could without yama. No effect in a program that runs with another user's rights (AT_SECURE).
 */
void yama_admit_all(void);

#endif
