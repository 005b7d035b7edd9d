/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the user sets in the environment (docs/environment.md).
 *
 * A variable that is empty counts as one that is not set. A value that makes no sense is said in one sentence in the log, and the
 * default holds. Each call reads and, if need be, says it anew: a caller keeps what it got. Any thread that may call getenv().
 */
#ifndef URNIC_RUNTIME_SETTING_H
#define URNIC_RUNTIME_SETTING_H

#include <stdbool.h>

/* The value of the variable `name`, borrowed from the environment; NULL if it is not set or empty. */
const char *setting_text(const char *name);

/* The same; NULL, too, in a program that runs with another's rights (secure_getenv(3)): for files and programs. */
const char *setting_path(const char *name);

/*
 * A number of decimal digits from `lowest` to `highest`. `fallback` if the variable is not set, or anything else.
 */
unsigned setting_number(const char *name, unsigned lowest, unsigned highest, unsigned fallback);

/* Is `text` such a number? Sets *ret_value if it is. */
bool setting_parse(const char *text, unsigned lowest, unsigned highest, unsigned *ret_value);

/*
 * Which of three words, or two if `third` is NULL: 0, 1 or 2. `first` is the default.
 */
int setting_choice(const char *name, const char *first, const char *second, const char *third);

#endif
