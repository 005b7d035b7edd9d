/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The user's settings in the environment (docs/environment.md).
 *
 * The library copies the environment when it is loaded, and reads only this copy. A program may
 * call setenv() in another thread at any time, and getenv() may crash meanwhile. Because of the
 * copy, any thread may call these functions.
 *
 * An empty variable counts as unset. An invalid value is reported in the log, and the default
 * applies. Each call parses and reports again, so callers keep the result.
 */
#ifndef URNIC_OS_SETTING_H
#define URNIC_OS_SETTING_H

#include "base/export.h"

/* The value of variable `name`, valid for the life of the process; NULL if unset or empty. */
const char *setting_text(const char *name) URNIC_EXPORT_AS(setting_text);

/*
 * setting_text() for a variable that names a file or program. Also returns NULL in a program that
 * runs with another user's rights (secure_getenv(3)).
 */
const char *setting_path(const char *name) URNIC_EXPORT_AS(setting_path);

/*
 * The copy of the whole environment, as in environ(7); the caller must not free it. NULL when there
 * was no memory for the copy.
 */
char *const *setting_environment(void);

/*
 * Copy the environment again, for a program (a test, `urnic`) that has changed its environment. No
 * other thread may use the library meanwhile. Earlier results of setting_text() become invalid.
 */
void settings_read(void);

/*
 * The variable's value as a decimal number from `lowest` to `highest`; `fallback` if the variable
 * is unset or invalid.
 */
unsigned setting_number(const char *name, unsigned lowest, unsigned highest, unsigned fallback);

/*
 * The index of the variable's value among the words. The first word is the default, so an unset or
 * invalid variable gives 0. The arguments are 2 to SETTING_WORDS_MAX words, then NULL.
 */
enum { SETTING_WORDS_MAX = 8 };
__attribute__((sentinel)) int setting_choice(const char *name, ...);

#endif
