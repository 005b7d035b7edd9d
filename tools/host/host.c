/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic host: the subcommand; network.c does the work. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "common/command.h"
#include "host/network.h"
#include "host/network_options.h"

#define NAME_DEFAULT "urnic"

const char command_host_help[] =
	"usage: urnic host up [-n NAME] [--mtu MTU] [--hosts N]\n"
	"       urnic host exec [-n NAME] HOST [--] PROGRAM [ARGUMENTS]\n"
	"       urnic host list\n"
	"       urnic host down [-n NAME]\n"
	"\n"
	"Makes a network of two hosts, `a` and `b`, on this machine: two network namespaces joined by\n"
	"a veth pair. As root they are named, urnic-a and urnic-b, for `ip netns` too; as any other\n"
	"user they live in a user namespace of that user, in which programs run as root. More hosts\n"
	"(`c`, `d` and so on) are joined by a bridge.\n"
	"\n"
	"  host a    10.99.0.1/24, fd00:99::1/64 on veth0\n"
	"  host b    10.99.0.2/24, fd00:99::2/64 on veth0\n"
	"\n"
	"  up      make the network; packets can flow on return. Succeeds if it is up already, with\n"
	"          this MTU and number of hosts if they are given.\n"
	"  exec    run PROGRAM on a host. The exit status is PROGRAM's. Sets URNIC_HOST_ID in its\n"
	"          environment unless you have set it, so that urnic takes the hosts for two machines.\n"
	"  list    the networks that are up\n"
	"  down    end the network\n"
	"\n"
	"  -n NAME           which network, where there are several (default urnic): lower-case\n"
	"                    letters, digits and hyphens\n"
	"  -m, --mtu MTU     of veth0, 1280 to 65535 bytes (default 9000)\n"
	"  --hosts N         2 to 26 (default 2)\n"
	"\n"
	"Example:\n"
	"  urnic host up\n"
	"  urnic host exec a -- urnic run ib_write_bw -F &\n"
	"  urnic host exec b -- urnic run ib_write_bw -F 10.99.0.1\n"
	"  urnic host down\n";

struct host_options {
	const char *name;
	struct network_settings wanted; /* a member is 0 if its option is not given */
	int first; /* index of the first argument that is no option */
};

static int parse_options(
	int argc, char **argv, const char *letters, struct host_options *ret_options)
{
	static const struct option names[] = {
		{"mtu", required_argument, NULL, 'm'},
		{"hosts", required_argument, NULL, 'h'},
		{0},
	};
	bool has_settings = strchr(letters, 'm') != NULL;
	struct host_options options = {.name = NAME_DEFAULT};
	int letter;

	while ((letter = getopt_long(
			argc, argv, letters, has_settings ? names : &names[2], NULL)) != -1) {
		if (letter == '?')
			return -EINVAL;
		if (letter == 'n')
			options.name = optarg;
		if (letter == 'm' && network_mtu_parse("host", optarg, &options.wanted.mtu) < 0)
			return -EINVAL;
		if (letter == 'h' && network_hosts_parse("host", optarg, &options.wanted.hosts) < 0)
			return -EINVAL;
	}
	if (!network_name_is_valid(options.name)) {
		complain(
			"host: a network's name has lower-case letters, digits and hyphens only, not '%s'",
			options.name);
		return -EINVAL;
	}
	options.first = optind;
	*ret_options = options;
	return 0;
}

static int usage_print(void)
{
	fputs(command_host_help, stderr);
	return EXIT_USAGE;
}

/* Compare a network that is up with what the user wants. Returns the exit status. */
static int settings_compare(const char *name, const struct network_settings *wanted)
{
	struct network network;
	unsigned mtu, hosts;

	if (network_open(name, &network) < 0)
		return EXIT_FAILED;
	mtu = network_mtu(&network);
	hosts = (unsigned)network.host_count;
	network_close(&network);
	if (wanted->mtu && mtu && wanted->mtu != mtu) {
		complain("host: %s is up already, with an MTU of %u, not %u", name, mtu,
			wanted->mtu);
		return EXIT_FAILED;
	}
	if (wanted->hosts && wanted->hosts != hosts) {
		complain("host: %s is up already, with %u hosts, not %u", name, hosts,
			wanted->hosts);
		return EXIT_FAILED;
	}
	printf("%s is up already\n", name);
	return EXIT_OK;
}

static int host_up(int argc, char **argv)
{
	struct host_options options;
	struct network_settings settings = {NETWORK_MTU_DEFAULT, HOSTS_MIN};
	int result;

	if (parse_options(argc, argv, "+n:m:", &options) < 0)
		return EXIT_USAGE;
	if (options.first != argc)
		return usage_print();
	if (options.wanted.mtu)
		settings.mtu = options.wanted.mtu;
	if (options.wanted.hosts)
		settings.hosts = options.wanted.hosts;
	result = network_make(options.name, &settings);
	if (result == -EEXIST)
		return settings_compare(options.name, &options.wanted);
	if (result < 0) {
		complain(
			"host: could not make the network %s: %s", options.name, strerror(-result));
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

static int host_down(int argc, char **argv)
{
	struct host_options options;
	struct network network;
	int result;

	if (parse_options(argc, argv, "+n:", &options) < 0)
		return EXIT_USAGE;
	if (options.first != argc)
		return usage_print();
	result = network_open(options.name, &network);
	if (result == 0) {
		network_close(&network);
		result = network_drop(options.name);
	}
	if (result < 0) {
		complain("host: %s: %s", options.name,
			result == -ENOENT ? "no such network is up" : strerror(-result));
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

static int host_index(const char *name)
{
	for (int host = 0; host < HOSTS_MAX; host++) {
		if (strcmp(host_facts(host).name, name) == 0)
			return host;
	}
	return -1;
}

static int host_exec(int argc, char **argv)
{
	struct host_options options;
	struct network network;
	int first, host, result;

	if (parse_options(argc, argv, "+n:", &options) < 0)
		return EXIT_USAGE;
	first = options.first + 1;
	if (first < argc && strcmp(argv[first], "--") == 0)
		first++;
	if (first >= argc)
		return usage_print();
	host = host_index(argv[options.first]);
	if (host < 0) {
		complain("host: hosts are a, b and so on, there is no '%s'", argv[options.first]);
		return EXIT_USAGE;
	}
	result = network_open(options.name, &network);
	if (result == -ENOENT) {
		complain("host: the network %s is not up; urnic host up", options.name);
		return EXIT_FAILED;
	}
	if (result == 0 && host >= network.host_count) {
		complain("host: the hosts of %s are a to %s, there is no '%s'", options.name,
			host_facts(network.host_count - 1).name, argv[options.first]);
		network_close(&network);
		return EXIT_USAGE;
	}
	if (result == 0) {
		result = network_enter(&network, host);
		network_close(&network);
	}
	if (result < 0) {
		complain(
			"host: cannot enter host %s: %s", host_facts(host).name, strerror(-result));
		return EXIT_FAILED;
	}
	network_identify(options.name, host);
	run_program(argv + first);
}

static void print_network(const char *name, void *context)
{
	struct network network;

	(void)context;
	if (network_open(name, &network) < 0)
		return;
	printf("%s\n", name);
	for (int host = 0; host < network.host_count; host++) {
		const struct host_facts facts = host_facts(host);

		printf("  host %s  " NETWORK_INTERFACE "  %s  %s\n", facts.name, facts.ipv4,
			facts.ipv6);
	}
	if (network.holder_pid > 0)
		printf("  held by process %d\n", network.holder_pid);
	network_close(&network);
}

static int host_list(int argc, char **argv)
{
	(void)argv;
	if (argc > 1)
		return usage_print();
	network_for_each(print_network, NULL);
	return EXIT_OK;
}

int command_host(int argc, char **argv)
{
	static const struct {
		const char *name;
		command_function *run;
	} actions[] = {
		{"up", host_up},
		{"down", host_down},
		{"exec", host_exec},
		{"list", host_list},
	};
	if (argc < 2)
		return usage_print();
	if (network_find_ip() < 0)
		return EXIT_FAILED;
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (strcmp(actions[i].name, argv[1]) == 0)
			return actions[i].run(argc - 1, argv + 1);
	}
	complain("host: no action '%s'; urnic host --help", argv[1]);
	return EXIT_USAGE;
}
