/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the subcommands of urnic share.
 *
 * A subcommand is a row in commands.def and a folder of its own. Its function gets the arguments of
 * urnic from the name of the subcommand on, and returns the exit status. main() has handled --help.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <stdnoreturn.h>

enum exit_status {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2, /* illegal arguments */
	EXIT_NOT_RUN = 126, /* as in a shell: found, but could not be run */
	EXIT_NOT_FOUND = 127,
};

/* argv[0] is the subcommand's own name. */
typedef int command_function(int argc, char **argv);

#define COMMAND(name, summary)                     \
	extern const char command_##name##_help[]; \
	command_function command_##name;
#include "common/commands.def"
#undef COMMAND

/*
 * Print "urnic: <message>" and a line feed on standard error.
 */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Replace this process by a program, found on PATH. If that fails, complain and end the process.
 *
 * `argv`  NULL-terminated; argv[0] is the program.
 */
noreturn void run_program(char **argv);

#endif
