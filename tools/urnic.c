/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic: finds the subcommand and calls it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/version.h"
#include "common/command.h"

struct command {
	const char *name;
	const char *summary;
	const char *help;
	command_function *run;
};

static const struct command commands[] = {
#define COMMAND(name, summary) {#name, summary, command_##name##_help, command_##name},
#include "common/commands.def"
#undef COMMAND
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

void complain(const char *format, ...)
{
	va_list arguments;

	fputs("urnic: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

noreturn void run_program(char **argv)
{
	execvp(argv[0], argv);
	complain("%s: %s", argv[0], strerror(errno));
	exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN);
}

static void print_overview(FILE *stream)
{
	fputs("usage: urnic COMMAND [ARGUMENTS]\n"
	      "\n"
	      "A software RDMA NIC in user space: programs written for RDMA hardware run on it unchanged.\n"
	      "\n",
		stream);
	for (int i = 0; i < COMMAND_COUNT; i++)
		fprintf(stream, "  %-10s%s\n", commands[i].name, commands[i].summary);
	fputs("\n"
	      "  urnic COMMAND --help    what a command does, in full\n"
	      "  urnic --version         the version\n",
		stream);
}

static const struct command *command_find(const char *name)
{
	for (int i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

static int print_help(const char *name)
{
	const struct command *command = command_find(name);

	if (!command) {
		complain("no command '%s'; urnic --help lists them", name);
		return EXIT_USAGE;
	}
	fputs(command->help, stdout);
	return EXIT_OK;
}

static int is_help_option(const char *argument)
{
	return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

int main(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2) {
		print_overview(stderr);
		return EXIT_USAGE;
	}
	if (is_help_option(argv[1]) || strcmp(argv[1], "help") == 0) {
		if (argc > 2)
			return print_help(argv[2]);
		print_overview(stdout);
		return EXIT_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("urnic %s\n", urnic_version());
		return EXIT_OK;
	}
	command = command_find(argv[1]);
	if (!command)
		return print_help(argv[1]);
	if (argc > 2 && is_help_option(argv[2]))
		return print_help(argv[1]);
	return command->run(argc - 1, argv + 1);
}
