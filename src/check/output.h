/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where reports are written: standard error, or a file that several processes share. These
 * processes are the program, its forks, and the programs that it starts. `urnic run` empties the
 * file. Each process appends its reports, each report with one write.
 *
 * A SARIF file is complete at any time: it ends with OUTPUT_SARIF_END, and each result is inserted
 * before that end.
 *
 * The caller of each function but output_open() has the lock of report.c.
 */
#ifndef URNIC_CHECK_OUTPUT_H
#define URNIC_CHECK_OUTPUT_H

#include <stdbool.h>

/* The text at the end of a SARIF file. */
#define OUTPUT_SARIF_END "\n]}]}\n"

/* Open the file. If the file cannot be used, the process says why and ends. */
void output_open(const char *path);

/* Does the file have the format SARIF? */
bool output_is_sarif(void);

/* Add to the text of the present report, which ends with output_end(). */
void output_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Write the text of the report. In a SARIF file the text is a result. */
void output_end(void);

#endif
