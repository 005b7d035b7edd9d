/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic fabric: an InfiniBand subnet in software, and its console. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/command.h"
#include "fabric/fabric_internal.h"
#include "fabricd/client/fabric_client.h"
#include "fabricd/console/console.h"
#include "fabricd/fabric_name.h"
#include "fabricd/server/fabric_server.h"

const char command_fabric_help[] =
	"usage: urnic fabric up [--name NAME] [--no-sm] [--pcap CAPTURE] FILE\n"
	"       urnic fabric listen [--name NAME] --key FILE ADDR[:PORT]\n"
	"       urnic fabric join [--name NAME] --key FILE ADDR[:PORT] HOST...\n"
	"       urnic fabric [--name NAME] link END END\n"
	"       urnic fabric [--name NAME] unlink END\n"
	"       urnic fabric [--name NAME] relink END\n"
	"       urnic fabric [--name NAME] error END RATE [ATTRIBUTE]\n"
	"       urnic fabric [--name NAME] dump [NODE]\n"
	"       urnic fabric [--name NAME] dump --json\n"
	"       urnic fabric [--name NAME] route LID LID\n"
	"       urnic fabric [--name NAME] explain [HOST HOST [SL]]\n"
	"       urnic fabric [--name NAME] explain --json\n"
	"       urnic fabric [--name NAME] scenario\n"
	"       urnic fabric [--name NAME] clients\n"
	"       urnic fabric [--name NAME] console\n"
	"\n"
	"`up` is an InfiniBand subnet: switches, hosts and cables, as FILE describes them. It stays in\n"
	"the foreground until SIGINT or SIGTERM. Programs use a host of it by\n"
	"`urnic run --fabric NODE -- PROGRAM`: OpenSM, infiniband-diags, programs of verbs. FILE is\n"
	"what ibnetdiscover prints, so the file of a real cluster works, too.\n"
	"\n"
	"`listen` lets other machines join a fabric that is up, and `join`, on another machine, joins it:\n"
	"programs there use the HOSTs as on the fabric's own machine. Both stay in the foreground. FILE\n"
	"is a key that both machines have: 16 bytes or more, which no other user can read.\n"
	"\n"
	"The other words act on a subnet that is up; they are those of ibsim's console. NODE is a name\n"
	"of FILE, a NodeDescription, or a GUID (0x...). END is NODE[PORT].\n"
	"\n"
	"  link         connect two ends that have no cable, or whose cables are cut\n"
	"  unlink       cut a cable; with a NODE, all its cables\n"
	"  relink       connect the ends of a cut cable again\n"
	"  error        drop RATE percent of the frames that END receives; with ATTRIBUTE, only subnet\n"
	"               management packets with this attribute ID\n"
	"  dump         print nodes, ports, cables and counters; with --json, for programs\n"
	"  route        print the route of packets from one LID to another\n"
	"  explain      say which ports and paths do not work and why, whether the paths have a credit\n"
	"               loop, what was dropped, and which ports are slow; with two hosts, print the\n"
	"               path from one to the other, with service level SL, and why it ends;\n"
	"               with --json, print ports, paths and a credit loop for programs\n"
	"  scenario     print the subnet for `urnic sim`, which shows whether its paths deadlock\n"
	"  clients      print the processes that use the fabric\n"
	"  console      read such commands from standard input, one a line\n"
	"\n"
	"  --name NAME  the name of the fabric, of several on one machine (\"default\")\n"
	"  --key FILE   the key that the machines share\n"
	"  --no-sm      no subnet manager inside: ports stay in Init until OpenSM runs\n"
	"  --pcap CAPTURE\n"
	"               write the frames of all cables into this file as pcapng, for Wireshark\n"
	"\n"
	"Examples:\n"
	"  urnic fabric up examples/infiniband/three-switches.topo &\n"
	"  urnic run --fabric host1 -- opensm\n"
	"  urnic run --fabric host2 -- ibnetdiscover\n"
	"  urnic fabric unlink 'spine[1]'\n"
	"  urnic fabric listen --key fabric.key 10.0.0.1\n"
	"  urnic fabric join --key fabric.key 10.0.0.1 host5 host6\n";

enum { FILE_BYTES_MAX = 1 << 26, LINE_BYTES = 1024 };

static int parse_options(int argc, char **argv, struct fabric_options *ret_options)
{
	static const struct option names[] = {
		{"name", required_argument, NULL, 'n'},
		{"key", required_argument, NULL, 'k'},
		{"no-sm", no_argument, NULL, 's'},
		{"pcap", required_argument, NULL, 'p'},
		{0},
	};
	int letter;

	while ((letter = getopt_long(argc, argv, "+", names, NULL)) != -1) {
		if (letter == 'n')
			ret_options->name = optarg;
		else if (letter == 'k')
			ret_options->key = optarg;
		else if (letter == 'p')
			ret_options->pcap = optarg;
		else if (letter == 's')
			ret_options->is_unmanaged = true;
		else
			return -EINVAL;
	}
	ret_options->first = optind;
	if (fabric_name_is_legal(ret_options->name))
		return 0;
	complain("fabric: \"%s\" is no name: it needs letters, digits, '-', '_' and '.'",
		ret_options->name);
	return -EINVAL;
}

/* --- up --- */

/* Read a whole file; the caller frees *ret_text. Returns 0 or -errno. */
static int file_read(const char *path, char **ret_text, size_t *ret_bytes)
{
	FILE *file = fopen(path, "re");
	char *text = file ? malloc(FILE_BYTES_MAX) : NULL;
	int rc = 0;

	if (!text) {
		rc = -errno;
		if (file)
			fclose(file);
		return rc;
	}
	*ret_bytes = fread(text, 1, FILE_BYTES_MAX, file);
	if (ferror(file))
		rc = -EIO;
	else if (*ret_bytes == FILE_BYTES_MAX)
		rc = -EFBIG;
	fclose(file);
	if (rc)
		free(text);
	else
		*ret_text = text;
	return rc;
}

static int topology_load(const char *path, struct subnet_topology **ret_topology)
{
	char why[TOPOLOGY_WHY_BYTES];
	uint32_t line;
	size_t bytes = 0;
	char *text = NULL;
	int rc = file_read(path, &text, &bytes);

	if (rc) {
		complain("fabric: %s: %s", path, strerror(-rc));
		return rc;
	}
	rc = subnet_topology_read(text, bytes, ret_topology, &line, why);
	free(text);
	if (rc == -EINVAL)
		complain("fabric: %s:%u: %s", path, line, why);
	else if (rc)
		complain("fabric: %s: %s", path, strerror(-rc));
	return rc;
}

/* Each client needs some descriptors, so allow as many as the system does. */
void fabric_files_allow(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

static void print_ready(const struct subnet_topology *topology, const char *name)
{
	uint32_t switches = 0, cables = 0;

	for (uint32_t i = 0; i < topology->node_count; i++)
		switches += topology->nodes[i].kind == TOPOLOGY_SWITCH;
	for (uint32_t i = 0; i < topology->port_count; i++)
		cables += topology->ports[i].peer_node != TOPOLOGY_NO_NODE;
	printf("fabric \"%s\" is up: %u switches, %u hosts, %u cables\n", name, switches,
		topology->node_count - switches, cables / 2);
	fflush(stdout);
}

/* Serve until a signal comes. Returns an exit status. */
static int topology_serve(const struct fabric_options *options,
	const struct subnet_topology *topology, struct fabric_pcap *pcap)
{
	const struct fabric_server_settings settings = {.name = options->name,
		.console = console_run,
		.is_unmanaged = options->is_unmanaged,
		.trace = options->pcap ? fabric_pcap_frame : NULL,
		.trace_context = pcap};
	struct fabric_server *server;
	char why[ATTACH_TEXT_BYTES];
	int rc;

	fabric_files_allow();
	rc = fabric_server_create(&settings, topology, &server, why);
	if (rc) {
		complain("fabric: %s", why);
		return EXIT_FAILED;
	}
	/*
	 * Open the file only if no fabric of this name runs already, because that fabric may write
	 * to the same file.
	 */
	if (!fabric_pcap_open(pcap, options->pcap, topology)) {
		fabric_server_destroy(server);
		return EXIT_FAILED;
	}
	print_ready(topology, options->name);
	rc = fabric_server_run(server);
	if (rc)
		complain("fabric: %s", strerror(-rc));
	fabric_server_destroy(server);
	return rc ? EXIT_FAILED : EXIT_OK;
}

static int fabric_up(const struct fabric_options *options, int argc, char **argv)
{
	struct subnet_topology *topology;
	struct fabric_pcap pcap = {.file = NULL};
	int status;

	if (argc != 1) {
		complain("fabric up: it needs one file; urnic fabric --help");
		return EXIT_USAGE;
	}
	if (topology_load(argv[0], &topology))
		return EXIT_FAILED;
	status = topology_serve(options, topology, &pcap);
	if (!fabric_pcap_close(&pcap))
		status = EXIT_FAILED;
	subnet_topology_destroy(topology);
	return status;
}

/* --- the console --- */

static int console_open(const char *name, struct fabric_client **ret_client)
{
	char place[ATTACH_NAME_BYTES + 1], why[ATTACH_TEXT_BYTES];
	int rc;

	snprintf(place, sizeof(place), "%s:", name);
	rc = fabric_client_open(place, ret_client, why);
	if (rc)
		complain("fabric: %s", why);
	return rc;
}

static int console_ask(struct fabric_client *client, const char *command)
{
	char why[ATTACH_TEXT_BYTES];
	char *text;
	int rc = fabric_client_console(client, command, &text, why);

	if (rc) {
		complain("fabric: %s", *why ? why : strerror(-rc));
		return rc;
	}
	fputs(text, stdout);
	fflush(stdout);
	free(text);
	return 0;
}

/* Append a word. If it has blanks, add the quotation marks that the shell has removed. */
static bool word_append(char *command, size_t room, const char *word)
{
	size_t used = strlen(command);
	const char *bracket = strrchr(word, '[');
	size_t name_bytes = bracket ? (size_t)(bracket - word) : strlen(word);
	bool needs_quotes = strchr(word, ' ') && *word != '"';
	int bytes;

	if (needs_quotes)
		bytes = snprintf(command + used, room - used, "%s\"%.*s\"%s", used ? " " : "",
			(int)name_bytes, word, bracket ? bracket : "");
	else
		bytes = snprintf(command + used, room - used, "%s%s", used ? " " : "", word);
	return (size_t)bytes < room - used;
}

static int console_once(const struct fabric_options *options, int argc, char **argv)
{
	struct fabric_client *client;
	char command[ATTACH_TEXT_BYTES] = "";
	int rc;

	for (int i = 0; i < argc; i++)
		if (!word_append(command, sizeof(command), argv[i])) {
			complain("fabric: the command is too long");
			return EXIT_USAGE;
		}
	if (console_open(options->name, &client))
		return EXIT_FAILED;
	rc = console_ask(client, command);
	fabric_client_close(client);
	return rc ? EXIT_FAILED : EXIT_OK;
}

static int console_lines(const struct fabric_options *options)
{
	struct fabric_client *client;
	char line[LINE_BYTES];
	int status = EXIT_OK;

	if (console_open(options->name, &client))
		return EXIT_FAILED;
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "quit") == 0)
			break;
		if (line[strspn(line, " \t")] == '\0' || *line == '#')
			continue;
		if (console_ask(client, line))
			status = EXIT_FAILED;
	}
	fabric_client_close(client);
	return status;
}

/* The command for a word whose process stays in the foreground; NULL: a word of the console. */
static fabric_command *command_that_stays(const char *word)
{
	if (strcmp(word, "up") == 0)
		return fabric_up;
	if (strcmp(word, "listen") == 0)
		return fabric_listen_command;
	return strcmp(word, "join") == 0 ? fabric_join_command : NULL;
}

int command_fabric(int argc, char **argv)
{
	struct fabric_options options = {.name = FABRIC_NAME_DEFAULT};
	fabric_command *stay;
	const char *word;

	if (parse_options(argc, argv, &options) < 0)
		return EXIT_USAGE;
	if (options.first >= argc) {
		fputs(command_fabric_help, stderr);
		return EXIT_USAGE;
	}
	word = argv[options.first];
	if (strcmp(word, "console") == 0)
		return console_lines(&options);
	stay = command_that_stays(word);
	if (!stay)
		return console_once(&options, argc - options.first, argv + options.first);
	/* Options may follow the word, too. */
	argc -= options.first;
	argv += options.first;
	optind = 0;
	if (parse_options(argc, argv, &options) < 0)
		return EXIT_USAGE;
	return stay(&options, argc - options.first, argv + options.first);
}
