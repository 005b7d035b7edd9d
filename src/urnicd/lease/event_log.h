/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_EVENT_LOG_H
#define URNIC_URNICD_EVENT_LOG_H

#include <stdbool.h>

/*
 * urnicd's log: one line per event of its life, none per packet. Nothing is written unless the
 * environment asks for it (URNICD_LOG=FILE), or urnicd runs in the foreground.
 */

/* Open the log. `is_foreground`: write to standard error when no file is named. */
void log_open(bool is_foreground);

__attribute__((format(printf, 1, 2))) void log_line(const char *format, ...);

#endif
