/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic env: prints the environment of `urnic run`, for programs that are started otherwise. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/command.h"
#include "common/libraries.h"

const char command_env_help[] =
	"usage: urnic env [--format sh|docker|github]\n"
	"\n"
	"Prints the environment by which programs find urnic's libraries without `urnic run`: its\n"
	"library directory, first on LD_LIBRARY_PATH. They get no view of /sys and /dev (urnic run\n"
	"--help), so UCX and ibstat find no device.\n"
	"\n"
	"  --format sh        for a shell, and its profile (the default)\n"
	"  --format docker    for a Dockerfile or Containerfile\n"
	"  --format github    for the file of $GITHUB_ENV, with the LD_LIBRARY_PATH of now behind it\n"
	"\n"
	"Examples:\n"
	"  eval \"$(urnic env)\" && ibv_devinfo\n"
	"  urnic env --format docker >>Dockerfile\n"
	"  urnic env --format github >>\"$GITHUB_ENV\"\n";

#define VARIABLE "LD_LIBRARY_PATH"

/* Print `text` with a backslash before each character of `special`. */
static void print_escaped(const char *text, const char *special)
{
	for (; *text; text++) {
		if (strchr(special, *text))
			putchar('\\');
		putchar(*text);
	}
}

/* The shell, or Docker, appends the variable's earlier value, if there is one. */
static void print_quoted(const char *before, const char *libraries)
{
	printf("%s" VARIABLE "=\"", before);
	print_escaped(libraries, "\"\\$`");
	puts("${" VARIABLE ":+:$" VARIABLE "}\"");
}

static void print_sh(const char *libraries)
{
	print_quoted("export ", libraries);
}

static void print_docker(const char *libraries)
{
	print_quoted("ENV ", libraries);
}

/* GitHub's environment file has no quotes and expands nothing, so append the present value. */
static void print_github(const char *libraries)
{
	const char *before = getenv(VARIABLE);

	if (before && strchr(before, '\n'))
		before = NULL; /* a line feed would begin another variable */
	printf(VARIABLE "=%s%s%s\n", libraries, before && before[0] ? ":" : "",
		before ? before : "");
}

static const struct format {
	const char *name;
	void (*print)(const char *libraries);
} formats[] = {
	{"sh", print_sh},
	{"docker", print_docker},
	{"github", print_github},
};

enum { FORMAT_COUNT = sizeof(formats) / sizeof(formats[0]) };

static int parse_options(int argc, char **argv, const struct format **ret_format)
{
	static const struct option names[] = {
		{"format", required_argument, NULL, 'f'},
		{0},
	};
	const struct format *format = &formats[0];
	int letter;

	while ((letter = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (letter != 'f')
			return -EINVAL;
		format = NULL;
		for (int i = 0; i < FORMAT_COUNT; i++)
			if (strcmp(optarg, formats[i].name) == 0)
				format = &formats[i];
		if (!format) {
			complain("env: --format must be sh, docker or github, not '%s'", optarg);
			return -EINVAL;
		}
	}
	if (optind != argc) {
		fputs(command_env_help, stderr);
		return -EINVAL;
	}
	*ret_format = format;
	return 0;
}

int command_env(int argc, char **argv)
{
	const struct format *format;
	char *libraries;

	if (parse_options(argc, argv, &format) < 0)
		return EXIT_USAGE;
	libraries = libraries_find("env");
	if (!libraries)
		return EXIT_FAILED;
	if (strchr(libraries, '\n')) {
		complain("env: the path of the libraries has a line feed");
		free(libraries);
		return EXIT_FAILED;
	}
	format->print(libraries);
	free(libraries);
	return EXIT_OK;
}
