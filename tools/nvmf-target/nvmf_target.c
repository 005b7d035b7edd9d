/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nvmf/common/loop.h"
#include "nvmf/target/config/config.h"
#include "nvmf/target/ctl/ctl.h"
#include "nvmf/target/service/service.h"
#include "transports.h"

enum { STOP_SECONDS = 5 /* how long connections may take to end */ };
#define NS_PER_S 1000000000ull

static const char usage[] =
	"Usage: urnic-nvmf-target -c FILE [-s SOCKET] [--busy]\n"
	"       urnic-nvmf-target --check -c FILE\n"
	"       urnic-nvmf-target ctl -s SOCKET WORD...\n"
	"\n"
	"Serves namespaces by NVMe over Fabrics, over TCP and RDMA: no kernel module, no root.\n"
	"\n"
	"  -c, --config FILE    the ports, subsystems and namespaces, in nvmetcli's words\n"
	"  -s, --socket SOCKET  where control commands come; \"ctl help\" lists them\n"
	"      --busy           poll sockets and RDMA queues instead of sleeping\n"
	"      --check          read the file only, and say what is wrong with it\n";

struct arguments {
	const char *config;
	const char *socket;
	bool is_busy;
	bool is_check;
};

static struct loop *loop;

static void target_say(const char *sentence)
{
	fprintf(stderr, "urnic-nvmf-target: %s\n", sentence);
}

static void target_report(void *context, const char *sentence)
{
	(void)context;
	target_say(sentence);
}

static void stop_loop(int signal_number)
{
	(void)signal_number;
	loop_stop(loop);
}

static void catch_signals(void)
{
	struct sigaction action = {.sa_handler = stop_loop};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Each connection takes one or two descriptors, so raise the soft limit to the hard limit. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Wait until all connections have ended. Returns false if some do not within STOP_SECONDS. */
static bool wait_for_idle(const struct service *service, const struct transports *transports)
{
	uint64_t end_ns;

	loop_step(loop, 0);
	end_ns = loop_now_ns(loop) + STOP_SECONDS * NS_PER_S;
	while (!service_is_idle(service) || !transports_are_idle(transports)) {
		if (loop_now_ns(loop) >= end_ns)
			return false;
		loop_step(loop, NS_PER_S / 100);
	}
	return true;
}

/* Run the target until SIGINT or SIGTERM. Returns the exit status of the process. */
static int run_service(
	const struct arguments *arguments, struct transports *transports, struct service *service)
{
	char sentence[CTL_SENTENCE_BYTES];
	struct ctl_server *server = NULL;
	int error = 0;

	if (arguments->socket)
		error = ctl_server_create(
			loop, arguments->socket, service_serve, service, &server, sentence);
	if (error) {
		target_say(sentence);
	} else {
		puts("ready");
		fflush(stdout);
		loop_run(loop);
	}
	ctl_server_destroy(server);
	service_stop(service);
	if (wait_for_idle(service, transports)) {
		transports_done(transports);
		service_destroy(service);
	}
	return error ? 1 : 0;
}

static int run_target(const struct arguments *arguments)
{
	struct transports transports = {.is_busy = arguments->is_busy};
	char sentence[SERVICE_SENTENCE_BYTES];
	struct target_config *config;
	struct service *service;
	int error = target_config_load(arguments->config, &config, sentence);

	if (error || arguments->is_check) {
		if (error)
			target_say(sentence);
		else
			target_config_destroy(config);
		return error ? 1 : 0;
	}
	error = loop_create(&loop);
	if (error) {
		target_say(strerror(-error));
		return 1;
	}
	if (arguments->is_busy)
		loop_set_polling(loop);
	catch_signals();
	raise_descriptor_limit();
	transports.loop = loop;
	transports_init(&transports);
	error = service_create(loop, config, transports.table, transports.count, target_report,
		NULL, &service, sentence);
	target_config_destroy(config);
	if (error) {
		target_say(sentence);
		return 1;
	}
	return run_service(arguments, &transports, service);
}

/* The command "ctl": send the words to a running target, and print its answer. */
static int run_ctl(int count, char **words)
{
	const char *path = NULL;
	char *text = NULL;
	int error;

	if (count >= 2 && (!strcmp(words[0], "-s") || !strcmp(words[0], "--socket"))) {
		path = words[1];
		count -= 2;
		words += 2;
	}
	if (!path || count == 0 || count > CTL_WORDS_MAX) {
		fputs(usage, stderr);
		return 2;
	}
	error = ctl_call(path, (unsigned)count, (const char *const *)words, &text);
	if (error)
		target_say(text ? text : "no memory");
	else
		fputs(text, stdout);
	free(text);
	return error ? 1 : 0;
}

static bool parse_arguments(int argc, char **argv, struct arguments *ret_arguments)
{
	static const struct option options[] = {
		{"config", required_argument, NULL, 'c'},
		{"socket", required_argument, NULL, 's'},
		{"busy", no_argument, NULL, 'b'},
		{"check", no_argument, NULL, 'k'},
		{0},
	};
	int option;

	*ret_arguments = (struct arguments){0};
	while ((option = getopt_long(argc, argv, "c:s:", options, NULL)) >= 0) {
		if (option == 'c')
			ret_arguments->config = optarg;
		else if (option == 's')
			ret_arguments->socket = optarg;
		else if (option == 'b')
			ret_arguments->is_busy = true;
		else if (option == 'k')
			ret_arguments->is_check = true;
		else
			return false;
	}
	return ret_arguments->config && optind == argc;
}

int main(int argc, char **argv)
{
	struct arguments arguments;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(usage, stdout);
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "--version")) {
		printf("urnic-nvmf-target %s\n", URNIC_VERSION);
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "ctl"))
		return run_ctl(argc - 2, argv + 2);
	if (!parse_arguments(argc, argv, &arguments)) {
		fputs(usage, stderr);
		return 2;
	}
	return run_target(&arguments);
}
