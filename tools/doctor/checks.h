/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The checks of `urnic doctor`. Each appends its findings, and leaves this process as it was: a
 * step that could change or end the process runs in a child (doctor/trial.h).
 */
#ifndef TOOLS_CHECKS_H
#define TOOLS_CHECKS_H

#include <limits.h>
#include <stdbool.h>

#include "doctor/findings.h"

/* Check the kernel, namespaces, Yama, capabilities, /proc, /dev/shm and limits. */
void check_system(struct findings *findings);

/* Try each system call that urnic makes, once (doctor/system_call.def). */
void check_calls(struct findings *findings);

/* Check urnicd, interfaces, devices and UDP port 4791; then let a queue pair write to itself. */
void check_network(struct findings *findings);

/* A program, as `urnic run` would start it. */
struct program_facts {
	char path[PATH_MAX]; /* path of the binary; for a script, of its interpreter */
	char libibverbs[PATH_MAX]; /* path of the loaded library; "": the program loads none */
	char librdmacm[PATH_MAX];
};

/*
 * `name`       As in a shell: a path, or a name on PATH.
 * `libraries`  The absolute path of urnic's libraries. The check sets LD_LIBRARY_PATH as `urnic
 *              run` does, so no other check may follow it.
 */
void check_program(struct findings *findings, const char *name, const char *libraries,
	struct program_facts *ret_facts);

#endif
