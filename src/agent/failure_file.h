/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_FAILURE_FILE_H
#define URNIC_AGENT_FAILURE_FILE_H

/*
 * The file in which a process keeps its failures (lane/failure.h), for `urnic explain`.
 *
 * A process makes its file with its first failure, in a directory of agent/place.h, and only the
 * process's user may read it. Each failure is written at once. So the file also tells of a process
 * that was killed, and of one whose urnicd was killed. A process that makes a file removes the
 * user's files that have not changed for FAILURE_FILE_LIFE_S, and the oldest ones beyond
 * FAILURE_FILES_MAX. When urnicd leaves, it removes those that have not changed for that time.
 *
 * The file is opened for each write: a program may close descriptors that it does not know, and
 * reuse their numbers.
 *
 * Another process of the user may write anything into a file. A reader checks all of it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/place_directory.h"
#include "lane/failure.h"
#include "os/process.h"

enum {
	FAILURE_FILES_MAX = 128, /* of one user in one directory */
	FAILURE_FILE_LIFE_S = 3600,
	FAILURE_PATH_BYTES = 128, /* a path, terminated */
};

struct failure_head {
	uint64_t magic;
	uint32_t version; /* of the layout, the facts and the reasons */
	uint32_t pid;
	uint64_t wall_ns; /* when the file was made, since 1970 */
	char comm[PROCESS_NAME_BYTES];
	uint64_t reserved[3];
};

struct failure_file {
	struct failure_head head;
	struct failure list[FAILURES_MAX];
};

/*
 * Make the file of this process, and write `failures` into it. Returns 0 and its path, or -errno:
 * there is no directory, or the program may not write files that long.
 */
int failure_file_create(const struct failure *failures, char ret_path[FAILURE_PATH_BYTES]);

/* Write one failure at its place. Returns 0 or -errno; -ENOENT: the file was removed. */
int failure_file_write(const char *path, const struct failure *failure, uint32_t place);

/* Returns false to end the visits. `file` is valid for the call. */
typedef bool failure_file_visit_fn(void *context, const struct failure_file *file);

/*
 * Read the files of this user's processes. A file that is being written, or is of another version
 * of urnic, is skipped. All texts are terminated and printable, and all numbers of facts in range.
 */
void failure_file_visit(failure_file_visit_fn *visit, void *context);

/*
 * Remove the files in this directory that have not changed for FAILURE_FILE_LIFE_S, and the oldest
 * ones beyond `kept`.
 */
void failure_file_sweep(int directory, uint32_t kept);

#endif
