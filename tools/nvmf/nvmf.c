/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf.h"

static const struct {
	const char *name;
	int (*run)(const struct nvmf_options *options);
	const char *sentence;
} commands[] = {
#define COMMAND(name, function, sentence) {name, command_##function, sentence},
#include "commands.def"
#undef COMMAND
};

enum { COMMANDS = sizeof(commands) / sizeof(*commands) };

static void print_option(FILE *stream, const char *name, char letter, bool has_value)
{
	if (letter)
		fprintf(stream, "  -%c, --%s%s\n", letter, name, has_value ? " VALUE" : "");
	else
		fprintf(stream, "      --%s%s\n", name, has_value ? " VALUE" : "");
}

static void print_usage(FILE *stream)
{
	fprintf(stream,
		"Usage: urnic-nvmf COMMAND [OPTION]...\n\n"
		"Uses NVMe over Fabrics from a program: no kernel module, no root.\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(stream, "  %-12s %s\n", commands[i].name, commands[i].sentence);
	fprintf(stream,
		"\nOptions; the manual page urnic-nvmf(1) says which command takes which:\n");
#define OPTION(name, letter, has_value, key) print_option(stream, name, letter, has_value);
#include "options.def"
#undef OPTION
	fprintf(stream, "\nFor example:\n  urnic-nvmf discover -a 192.0.2.1\n");
}

int complain(const char *format, ...)
{
	va_list arguments;

	fputs("urnic-nvmf: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputs(".\n", stderr);
	return 1;
}

static bool is_help(const char *word)
{
	return !strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h");
}

int main(int argc, char **argv)
{
	static struct nvmf_options options;

	signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		print_usage(stderr);
		return 2;
	}
	if (is_help(argv[1])) {
		print_usage(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "version") || !strcmp(argv[1], "--version")) {
		printf("urnic-nvmf %s\n", URNIC_VERSION);
		return 0;
	}
	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		if (argc > 2 && is_help(argv[2])) {
			print_usage(stdout);
			return 0;
		}
		options.command = commands[i].name;
		if (!options_parse(&options, argc - 1, argv + 1))
			return 2;
		return commands[i].run(&options);
	}
	complain("there is no command '%s'; run 'urnic-nvmf help' for those that there are",
		argv[1]);
	return 2;
}
