/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic run: puts urnic's libraries first on a program's library path, and shows it urnic's
 * devices.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "common/libraries.h"
#include "fabricd/client/fabric_client.h"
#include "os/setting.h"
#include "os/strict.h"
#include "run/view.h"

const char command_run_help[] =
	"usage: urnic run [--fabric HOST] [--view | --no-view] [--rsocket] [--strict]\n"
	"                 [--check] [--report FILE] [--suppress FILE] [--] PROGRAM [ARGUMENTS]\n"
	"       urnic run --print\n"
	"\n"
	"Runs PROGRAM with urnic's libibverbs.so.1 in place of the system's, by putting urnic's\n"
	"library directory first on LD_LIBRARY_PATH. PROGRAM and what it starts see one RDMA device\n"
	"per network interface that is up and has an address. Nothing is installed or changed.\n"
	"\n"
	"Some programs also look at /sys/class/infiniband or /dev/infiniband: UCX and MPIs on it,\n"
	"ibstat, monitoring agents. For root, a private view shows them the devices there; other users\n"
	"pass --view. Without the view, a line on standard error says so. In the view `rdma link show`\n"
	"of iproute2 lists urnic's devices, too.\n"
	"\n"
	"  --fabric HOST\n"
	"               run PROGRAM on a host of an InfiniBand fabric, which `urnic fabric up` is.\n"
	"               PROGRAM sees this host's adapter. HOST is its name or GUID, behind the fabric's\n"
	"               name and a colon if that is not \"default\".\n"
	"  --view       give PROGRAM the view. Users other than root need user namespaces for it; in\n"
	"               the view other users' files then belong to nobody, and set-user-id programs\n"
	"               run as you.\n"
	"  --no-view    no view, also as root, and no line about it\n"
	"  --rsocket    make RDMA connections of PROGRAM's TCP and UDP sockets, by rdma-core's\n"
	"               librspreload.so (Debian has it in the package librdmacm1); see rsocket(7)\n"
	"  --strict     devices that refuse what common adapters refuse: their lowest limits, pinned\n"
	"               memory, no patience with late receive requests (docs/strict.md).\n"
	"               With --strict=LIST of only some adapters: mlx5, irdma, bnxt\n"
	"  --check      report mistakes of PROGRAM in its use of verbs, with the line of the program:\n"
	"               memory that is written or freed before a completion, queues that are never\n"
	"               polled, objects that are used after their end, and more (docs/debugging.md).\n"
	"               As --check=cheap, which looks at samples of large messages, and at samples\n"
	"               after the first 1024 requests of a queue; --check=full looks at each byte,\n"
	"               and has the whole stack of each post\n"
	"  --report FILE    write the reports, also those of programs that PROGRAM starts, to FILE; a\n"
	"                   name that ends with .sarif has that format\n"
	"  --suppress FILE  leave reports out; a line is KIND:TEXT, TEXT a part of the name of a\n"
	"                   function, file or library in a stack of the report\n"
	"  --print      print the library directory and run nothing\n"
	"\n"
	"The dynamic loader ignores LD_LIBRARY_PATH for programs with file capabilities or set-user-id\n"
	"bits; such a program runs on the system's libraries.\n"
	"\n"
	"The exit status is PROGRAM's; 66 if --check has reports; 127 if PROGRAM was not found, 126\n"
	"if it could not be run.\n"
	"\n"
	"Examples:\n"
	"  urnic run ibv_devices\n"
	"  urnic run -- ib_write_bw -F 192.0.2.7\n"
	"  urnic run --view -- ucx_info -d\n"
	"  urnic run --strict -- ./my_program\n"
	"  urnic run --check -- ./my_program\n"
	"  urnic run --rsocket -- iperf3 -c 192.0.2.7\n";

/* Directories below the library directory: the programs for the view, and libibumad for a fabric */
#define VIEW_PROGRAMS    "view"
#define FABRIC_LIBRARIES "fabric"

/* --check preloads this library, which is in the library directory. */
#define CHECKER "liburnic-check.so"

/*
 * Where distributions have rdma-core's library that turns a program's socket calls into rsocket
 * calls. It works with urnic's librdmacm.so.1 too.
 */
static const char *const rsocket_places[] = {
	"/usr/lib/*/rsocket/librspreload.so",
	"/usr/lib64/rsocket/librspreload.so",
	"/usr/lib/rsocket/librspreload.so",
};

static int rsocket_preload(void)
{
	for (size_t i = 0; i < sizeof(rsocket_places) / sizeof(rsocket_places[0]); i++) {
		glob_t found;
		int result = -1;

		if (glob(rsocket_places[i], 0, NULL, &found) == 0)
			result = path_list_prepend("LD_PRELOAD", found.gl_pathv[0]);
		globfree(&found);
		if (result == 0)
			return 0;
	}
	complain(
		"run: there is no librspreload.so in /usr/lib*/rsocket: install rdma-core's librdmacm "
		"(on Debian and Ubuntu the package librdmacm1)");
	return -1;
}

enum view_choice { VIEW_IF_FREE, VIEW_ALWAYS, VIEW_NEVER };

struct options {
	const char *check; /* NULL: no checks */
	const char *report; /* NULL: to standard error */
	const char *suppress; /* NULL: nothing */
	const char *strict; /* the value for URNIC_STRICT; NULL: as it is */
	const char *fabric; /* [NAME:]NODE; NULL: none */
	bool is_print;
	bool is_rsocket;
	enum view_choice view;
	int first; /* index of the program */
};

static bool check_is_mode(const char *word)
{
	return strcmp(word, "cheap") == 0 || strcmp(word, "full") == 0;
}

static int parse_options(int argc, char **argv, struct options *ret_options)
{
	static const struct option names[] = {
		{"check", optional_argument, NULL, 'c'},
		{"fabric", required_argument, NULL, 'f'},
		{"no-view", no_argument, NULL, 'n'},
		{"print", no_argument, NULL, 'p'},
		{"report", required_argument, NULL, 'o'},
		{"rsocket", no_argument, NULL, 'r'},
		{"strict", optional_argument, NULL, 't'},
		{"suppress", required_argument, NULL, 's'},
		{"view", no_argument, NULL, 'v'},
		{0},
	};
	struct options options = {0};
	uint32_t adapters;
	int letter;

	while ((letter = getopt_long(argc, argv, "+", names, NULL)) != -1) {
		if (letter == 'f')
			options.fabric = optarg;
		else if (letter == 'n')
			options.view = VIEW_NEVER;
		else if (letter == 'c')
			options.check = optarg ? optarg : "cheap";
		else if (letter == 'o')
			options.report = optarg;
		else if (letter == 's')
			options.suppress = optarg;
		else if (letter == 't')
			options.strict = optarg ? optarg : "1";
		else if (letter == 'p')
			options.is_print = true;
		else if (letter == 'r')
			options.is_rsocket = true;
		else if (letter == 'v')
			options.view = VIEW_ALWAYS;
		else
			return -EINVAL;
	}
	if (options.strict && !strict_parse(options.strict, &adapters))
		return -EINVAL;
	if (options.check ? !check_is_mode(options.check) : options.report || options.suppress)
		return -EINVAL;
	options.first = optind;
	*ret_options = options;
	return 0;
}

/*
 * Make the view without log lines. They would report mistakes in the environment, which the library
 * in the started program reports anyway. A process reads URNIC_LOG only once, so this process logs
 * nothing even after the variable is restored.
 */
static int view_enter_quietly(bool is_wanted, const char **ret_call)
{
	const char *before = getenv("URNIC_LOG");
	char *kept = before ? strdup(before) : NULL;
	int result;

	setenv("URNIC_LOG", "off", 1);
	settings_read();
	result = view_enter(is_wanted, ret_call);
	if (kept)
		setenv("URNIC_LOG", kept, 1);
	else
		unsetenv("URNIC_LOG");
	free(kept);
	return result;
}

/*
 * Put the programs of the view on PATH. They replace programs that ask the kernel for RDMA devices,
 * because the kernel does not know urnic's devices.
 */
static int view_programs_add(const char *libraries)
{
	char *programs;
	int result;

	if (!getenv("PATH"))
		return 0; /* the system searches programs in its default directories */
	if (asprintf(&programs, "%s/" VIEW_PROGRAMS, libraries) < 0)
		return -ENOMEM;
	result = path_list_prepend("PATH", programs) < 0 ? -errno : 0;
	free(programs);
	return result;
}

/*
 * Most programs do not need the view. If it is impossible and was not requested, say so, and run
 * without it.
 */
static int choose_view(enum view_choice choice, const char *libraries)
{
	const char *level = getenv("URNIC_LOG");
	const char *call = "setenv";
	int result;

	if (choice == VIEW_NEVER)
		return 0;
	result = view_enter_quietly(choice == VIEW_ALWAYS, &call);
	if (result == 0)
		result = view_programs_add(libraries);
	if (result == 0)
		return 0;
	if (choice == VIEW_ALWAYS) {
		complain("run: this system refuses a private view of /sys and /dev: %s: %s", call,
			strerror(-result));
		return result;
	}
	if (!level || strcmp(level, "off") != 0)
		complain(
			"run: /sys and /dev do not show the devices (%s: %s), so UCX and ibstat find "
			"none; %s, --no-view hides this line",
			call, strerror(-result),
			geteuid() == 0 ? "`urnic doctor` says what to allow" : "--view shows them");
	return 0;
}

/* Set a variable of the checker to the absolute name of `path`; NULL sets nothing. */
static int check_path_set(const char *name, const char *path)
{
	char *directory = path && path[0] != '/' ? getcwd(NULL, 0) : NULL;
	char *absolute = NULL;
	int result;

	if (!path || !directory)
		return path ? setenv(name, path, 1) : 0;
	result = asprintf(&absolute, "%s/%s", directory, path) < 0 ? -1 : setenv(name, absolute, 1);
	free(absolute);
	free(directory);
	return result;
}

/* Empty the file of reports, to which each process of the run adds. Returns 0 or -1. */
static int report_empty(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	return fd < 0 ? -1 : close(fd);
}

/* Put the checker before the program's libraries. Returns 0, or -1 with errno set. */
static int check_preload(const struct options *options, const char *libraries)
{
	char *checker;
	int result;

	if (asprintf(&checker, "%s/" CHECKER, libraries) < 0)
		return -1;
	result = path_list_prepend("LD_PRELOAD", checker);
	free(checker);
	if (result == 0)
		result = setenv("URNIC_CHECK", options->check, 1);
	if (result == 0 && options->report)
		result = report_empty(options->report);
	if (result == 0)
		result = check_path_set("URNIC_CHECK_REPORT", options->report);
	if (result == 0)
		result = check_path_set("URNIC_CHECK_SUPPRESS", options->suppress);
	return result;
}

/* PROGRAM is on a fabric: let it find urnic's libibumad. Returns 0, or -1 with errno set. */
static int fabric_libraries_add(const char *libraries)
{
	char *directory;
	int result;

	if (asprintf(&directory, "%s/" FABRIC_LIBRARIES, libraries) < 0)
		return -1;
	result = path_list_prepend("LD_LIBRARY_PATH", directory);
	free(directory);
	return result;
}

/*
 * Tell PROGRAM's libraries the node. A wrong name fails here, with a sentence, and not in the
 * program.
 */
static int fabric_choose(const char *place)
{
	struct fabric_client *client;
	char why[ATTACH_TEXT_BYTES];

	if (fabric_client_open_node(place, &client, why) < 0) {
		complain("run: %s", why);
		return -1;
	}
	fabric_client_close(client);
	return setenv("URNIC_FABRIC", place, 1);
}

static int program_run(const struct options *options, char **argv, const char *libraries)
{
	if (path_list_prepend("LD_LIBRARY_PATH", libraries) < 0) {
		complain("run: %s", strerror(errno));
		return EXIT_FAILED;
	}
	if (options->fabric && fabric_choose(options->fabric) < 0)
		return EXIT_FAILED;
	if ((options->fabric || setting_text("URNIC_FABRIC")) &&
		fabric_libraries_add(libraries) < 0) {
		complain("run: %s", strerror(errno));
		return EXIT_FAILED;
	}
	if (choose_view(options->view, libraries) < 0)
		return EXIT_FAILED;
	if (options->check && check_preload(options, libraries) < 0) {
		complain("run: %s", strerror(errno));
		return EXIT_FAILED;
	}
	if (options->strict && setenv("URNIC_STRICT", options->strict, 1) < 0) {
		complain("run: %s", strerror(errno));
		return EXIT_FAILED;
	}
	if (options->is_rsocket && rsocket_preload() < 0)
		return EXIT_FAILED;
	run_program(argv + options->first);
}

int command_run(int argc, char **argv)
{
	struct options options;
	char *libraries;
	int status = EXIT_OK;

	if (parse_options(argc, argv, &options) < 0)
		return EXIT_USAGE;
	if (!options.is_print && options.first >= argc) {
		fputs(command_run_help, stderr);
		return EXIT_USAGE;
	}
	libraries = libraries_find("run");
	if (!libraries)
		return EXIT_FAILED;
	if (options.is_print)
		puts(libraries);
	else
		status = program_run(&options, argv, libraries);
	free(libraries);
	return status;
}
