/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where reports are written: standard error, or a file that several processes share. These are the
 * program, the processes that it forks, and those that it starts. `urnic run` empties the file;
 * each process adds to it, a report with one write.
 *
 * A SARIF file is complete at any time: it ends with OUTPUT_SARIF_END, and each result goes before
 * that.
 *
 * All functions but output_open() are called with the lock of report.c.
 */
#ifndef URNIC_CHECK_OUTPUT_H
#define URNIC_CHECK_OUTPUT_H

#include <stdbool.h>

/* What ends a SARIF file. */
#define OUTPUT_SARIF_END "\n]}]}\n"

/* Open the file. If it cannot be used, the process ends, after a sentence. */
void output_open(const char *path);

/* Does the file have the format SARIF? */
bool output_is_sarif(void);

/* Add to the text of the present report, which ends with output_end(). */
void output_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Write the text. In a SARIF file it is a result. */
void output_end(void);

#endif
