/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic pair: the subcommand; pair_run.c does the work. */
#include "pair/pair.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
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
	"Impairments of what both programs send; a table at the end counts them. The same seed impairs\n"
	"the same packets:\n"
	"\n"
	"  --loss 1%         drop packets\n"
	"  --duplicate 1%    send packets twice\n"
	"  --corrupt 0.1%    invert a bit, which the receiver's ICRC check finds\n"
	"  --reorder 5%      send packets after the next one\n"
	"  --delay 2ms       hold each packet so long\n"
	"  --rate 10G        send at most so many bits per second\n"
	"  --seed N          draw others (default 1)\n"
	"  --fault FAULT     aim: 'drop READ response 3 of qp 1', 'delay WRITE 7 by 20ms',\n"
	"                    'rnr 5 times', 'kill peer after 1MiB'; urnic-pair(1) has all of them\n"
	"  --faults FILE     a fault per line\n"
	"  --hostile         peers at the edge of what the specification allows: late\n"
	"                    acknowledgements, RNR NAKs, requests and responses late or twice\n"
	"\n"
	"  --capture FILE    write the packets of host a into FILE, for Wireshark; FILE.pcapng has a\n"
	"                    comment at packets that were sent again, refused or damaged\n"
	"  --events          record posts, completions and state changes on all hosts, too, for\n"
	"                    `urnic timeline`; FILE is pcapng\n"
	"\n"
	"SERVER and CLIENT may begin with options of `urnic run`.\n"
	"\n"
	"The exit status is the worst of the programs'; not counting a server that has to be ended.\n"
	"\n"
	"Examples:\n"
	"  urnic pair -- ib_write_bw -F -- ib_write_bw -F 10.99.0.1\n"
	"  urnic pair --loss 1% --delay 2ms -- ib_read_bw -F -- ib_read_bw -F 10.99.0.1\n";

enum { SEED_DEFAULT = 1, FAULT_FILE_BYTES_MAX = 16384 };

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

/* Add an impairment, NAME=VALUE as in URNIC_IMPAIR. Returns 0, or -EINVAL after a complaint. */
static int impairment_add(struct pair_settings *settings, const char *name, const char *value)
{
	size_t used = strlen(settings->impairments);
	char why[IMPAIR_WHY_BYTES];
	int bytes;

	if (!impair_plan_set(&settings->plan, name, value, why)) {
		complain("pair: --%s", why);
		return -EINVAL;
	}
	bytes = snprintf(settings->impairments + used, sizeof(settings->impairments) - used,
		"%s=%s,", name, value);
	if (bytes < 0 || (size_t)bytes >= sizeof(settings->impairments) - used) {
		complain("pair: too many impairments");
		return -EINVAL;
	}
	settings->is_impaired = true;
	return 0;
}

/* Add the text of a file of faults, or of one fault. Returns 0, or -EINVAL after a complaint. */
static int faults_add(struct pair_settings *settings, const char *text)
{
	char why[IMPAIR_WHY_BYTES];
	char *longer;

	if (!impair_faults_parse(&settings->plan, text, why)) {
		complain("pair: %s", why);
		return -EINVAL;
	}
	if (asprintf(&longer, "%s%s\n", settings->faults ? settings->faults : "", text) < 0)
		return -EINVAL;
	free(settings->faults);
	settings->faults = longer;
	settings->is_impaired = true;
	return 0;
}

/*
 * A connection with retries survives these: no message is refused twice in a row, and no
 * retransmission is touched. A late acknowledgement may be overtaken, as one for several messages.
 */
static const char hostile_faults[] = "delay ACK every 3 by 2ms\n"
				     "delay READ response every 5 by 2ms\n"
				     "duplicate READ response every 7\n"
				     "duplicate WRITE every 6\n"
				     "duplicate READ request every 4\n"
				     "duplicate ATOMIC request every 3\n"
				     "duplicate ATOMIC response every 4\n"
				     "rnr every 5";

static int fault_file_add(struct pair_settings *settings, const char *path)
{
	FILE *file = fopen(path, "re");
	char text[FAULT_FILE_BYTES_MAX];
	size_t bytes;

	if (!file) {
		complain("pair: %s: %s", path, strerror(errno));
		return -EINVAL;
	}
	bytes = fread(text, 1, sizeof(text), file);
	fclose(file);
	if (bytes == sizeof(text)) {
		complain("pair: %s is longer than %d bytes", path, FAULT_FILE_BYTES_MAX - 1);
		return -EINVAL;
	}
	text[bytes] = '\0';
	return faults_add(settings, text);
}

/*
 * Refuse impairments with iWARP, on which they have no effect. Returns 0, or -EINVAL after a
 * complaint.
 */
static int transport_check(const struct pair_settings *settings)
{
	const char *transports = getenv("URNIC_TRANSPORTS");

	if (!settings->is_impaired || !transports || !strstr(transports, "iwarp"))
		return 0;
	complain("pair: impairments have no effect on iWARP (URNIC_TRANSPORTS=%s), because the "
		 "sender of a TCP stream cannot lose its packets",
		transports);
	return -EINVAL;
}

static int options_parse(int argc, char **argv, struct pair_settings *settings)
{
	static const struct option names[] = {
		{"capture", required_argument, NULL, 'c'},
		{"corrupt", required_argument, NULL, 'i'},
		{"delay", required_argument, NULL, 'i'},
		{"duplicate", required_argument, NULL, 'i'},
		{"events", no_argument, NULL, 'e'},
		{"fault", required_argument, NULL, 'f'},
		{"faults", required_argument, NULL, 'F'},
		{"loss", required_argument, NULL, 'i'},
		{"rate", required_argument, NULL, 'i'},
		{"reorder", required_argument, NULL, 'i'},
		{"seed", required_argument, NULL, 'i'},
		{"grace", required_argument, NULL, 'g'},
		{"hostile", no_argument, NULL, 'H'},
		{"hosts", required_argument, NULL, 'h'},
		{"mtu", required_argument, NULL, 'm'},
		{"wait", required_argument, NULL, 'w'},
		{0},
	};
	int letter, index, result = 0;

	while (result == 0 && (letter = getopt_long(argc, argv, "+", names, &index)) != -1) {
		if (letter == 'c')
			settings->capture = optarg;
		else if (letter == 'e')
			settings->with_events = true;
		else if (letter == 'f')
			result = faults_add(settings, optarg);
		else if (letter == 'H')
			result = faults_add(settings, hostile_faults);
		else if (letter == 'F')
			result = fault_file_add(settings, optarg);
		else if (letter == 'i')
			result = impairment_add(settings, names[index].name, optarg);
		else if (letter == 'g')
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
	if (result == 0 && settings->with_events && !settings->capture) {
		complain("pair: --events needs --capture FILE");
		result = -EINVAL;
	}
	return result == 0 ? transport_check(settings) : result;
}

int command_pair(int argc, char **argv)
{
	struct pair_settings settings = {
		.plan = {.seed = SEED_DEFAULT},
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
