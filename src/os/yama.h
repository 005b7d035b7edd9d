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
	YAMA_RELATED = 1, /* ancestors, and whom the process names by PR_SET_PTRACER */
	YAMA_PRIVILEGED = 2, /* processes with CAP_SYS_PTRACE */
	YAMA_NONE = 3, /* no process; the scope cannot be changed any more */
};

/* The scope that is in force, an enum yama_scope. Any thread may call. */
int yama_scope(void);

/*
 * Where the scope is YAMA_RELATED, let all processes access this one that could without yama: those
 * of its user. A program that runs with another user's rights (AT_SECURE) lets none.
 */
void yama_admit_all(void);

#endif
