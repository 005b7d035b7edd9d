/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic pair: the subcommand; pair_run.c does the work. */
#include "pair/pair.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "common/command.h"
#include "host/network_options.h"

const char command_pair_help[] =
	"usage: urnic pair [OPTIONS] -- SERVER [ARGUMENTS] -- CLIENT [ARGUMENTS]\n"
	"\n"
	"Runs a server and its client on urnic, on two hosts of a network made for them: the server on\n"
	"host a (10.99.0.1), the client on host b (10.99.0.2). The client starts when the server\n"
	"listens. When both have ended, the network and all that the programs have left are removed,\n"
	"also after ^C. Needs root, or a kernel that lets users make user namespaces.\n"
	"\n"
	"  --hosts N         2 to 26 (default 2); the client runs on each host but the server's\n"
	"  --mtu MTU         of the network, 1280 to 65535 bytes (default 9000)\n"
	"  --wait SECONDS    start the client after that time, if the server does not listen\n"
	"                    (default 10)\n"
	"  --grace SECONDS   end a server that still runs so long after its client (default 5)\n"
	"\n"
	"SERVER and CLIENT may begin with options of `urnic run`.\n"
	"\n"
	"The exit status is the worst of the programs'; not counting a server that has to be ended.\n"
	"\n"
	"Example:\n"
	"  urnic pair -- ib_write_bw -F -- ib_write_bw -F 10.99.0.1\n";

static int usage_print(void)
{
	fputs(command_pair_help, stderr);
	return EXIT_USAGE;
}

/* Split the arguments at the first "--". Returns 0 or -EINVAL. */
static int programs_split(char **argv, struct pair_settings *settings)
{
	char **split = argv;

	while (*split && strcmp(*split, "--") != 0)
		split++;
	if (split == argv || !*split || !split[1])
		return -EINVAL;
	*split = NULL;
	settings->server = argv;
	settings->client = split + 1;
	return 0;
}

static int seconds_parse(const char *what, const char *text, unsigned *ret_seconds)
{
	if (text_number(text, 0, PAIR_SECONDS_MAX, ret_seconds))
		return 0;
	complain("pair: --%s must be a number of seconds up to %d, not '%s'", what,
		PAIR_SECONDS_MAX, text);
	return -EINVAL;
}

static int options_parse(int argc, char **argv, struct pair_settings *settings)
{
	static const struct option names[] = {
		{"grace", required_argument, NULL, 'g'},
		{"hosts", required_argument, NULL, 'h'},
		{"mtu", required_argument, NULL, 'm'},
		{"wait", required_argument, NULL, 'w'},
		{0},
	};
	int letter, result = 0;

	while (result == 0 && (letter = getopt_long(argc, argv, "+", names, NULL)) != -1) {
		if (letter == 'g')
			result = seconds_parse("grace", optarg, &settings->grace_s);
		else if (letter == 'h')
			result = network_hosts_parse("pair", optarg, &settings->network.hosts);
		else if (letter == 'm')
			result = network_mtu_parse("pair", optarg, &settings->network.mtu);
		else if (letter == 'w')
			result = seconds_parse("wait", optarg, &settings->wait_s);
		else
			result = -EINVAL;
	}
	return result;
}

int command_pair(int argc, char **argv)
{
	struct pair_settings settings = {
		.network = {NETWORK_MTU_DEFAULT, HOSTS_MIN},
		.wait_s = 10,
		.grace_s = 5,
	};

	if (options_parse(argc, argv, &settings) < 0)
		return EXIT_USAGE;
	if (strcmp(argv[optind - 1], "--") != 0 || programs_split(argv + optind, &settings) < 0)
		return usage_print();
	if (network_find_ip() < 0)
		return EXIT_FAILED;
	return pair_run(&settings);
}
