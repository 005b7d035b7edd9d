/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the user sets in the environment (docs/environment.md).
 *
 * The library copies the environment when it is loaded, and reads this copy from then on. Another
 * thread of the program may call setenv() at any time, which getenv() does not survive. So these
 * functions may be called by any thread.
 *
 * A variable that is empty counts as one that is not set. A value that makes no sense is said in
 * one sentence in the log, and the default holds. Each call parses the value and, if need be,
 * complains anew: a caller keeps what it got.
 */
#ifndef URNIC_OS_SETTING_H
#define URNIC_OS_SETTING_H

#include <stdbool.h>

#include "base/export.h"

/*
 * The value of the variable `name`, valid for the life of the process; NULL if it is not set or
 * empty.
 */
const char *setting_text(const char *name) URNIC_EXPORT_AS(setting_text);

/*
 * The same; NULL, too, in a program that runs with another's rights (secure_getenv(3)): for files
 * and programs.
 */
const char *setting_path(const char *name) URNIC_EXPORT_AS(setting_path);

/* All of the copy, as in environ(7). Borrowed; NULL when there was no memory for it. */
char *const *setting_environment(void);

/*
 * Copy the environment anew, for a program (a test, `urnic`) that has changed it itself. No other
 * thread may be at work in the library, and what setting_text() returned before is gone.
 */
void settings_read(void);

/*
 * A number of decimal digits from `lowest` to `highest`. `fallback` if the variable is not set, or
 * anything else.
 */
unsigned setting_number(const char *name, unsigned lowest, unsigned highest, unsigned fallback);

/*
 * Which of three words, or two if `third` is NULL: 0, 1 or 2. `first` is the default.
 */
int setting_choice(const char *name, const char *first, const char *second, const char *third);

#endif
