/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_PROCESS_H
#define URNIC_OS_PROCESS_H

/* What /proc says about other processes. */

#include <sys/types.h>

#include "base/export.h"

enum { PROCESS_NAME_BYTES = 16 }; /* the kernel's TASK_COMM_LEN, with the final 0 */

/*
 * The name of a process, in printable characters, because another user may have chosen it.
 *
 * `directory`  A descriptor of /proc/PID.
 *
 * Both functions set `ret_name` to "" when the process has ended or /proc is not readable.
 */
void process_name_read(pid_t pid, char ret_name[PROCESS_NAME_BYTES])
	URNIC_EXPORT_AS(process_name_read);
void process_name_read_in(int directory, char ret_name[PROCESS_NAME_BYTES]);

#endif
