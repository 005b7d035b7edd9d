/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnicd: arguments, becoming a daemon, and, for a system-wide one, the keeper.
 *
 * A system-wide urnicd is two processes. The keeper holds the listening socket and the fd store,
 * and restarts the other process, the server, when that dies. Clients of other users cannot pass
 * the sockets to a new server, because they do not get the fd store.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_protocol.h"
#include "agent/place.h"
#include "base/arith.h"
#include "base/text.h"
#include "base/version.h"
#include "os/setting.h"
#include "urnicd/kept.h"
#include "urnicd/lease/event_log.h"
#include "urnicd/lease/fd_store.h"
#include "urnicd/ready.h"
#include "urnicd/server.h"

enum {
	RESTART_PAUSE_US = 100000,
	LOCK_PAUSES = 5,
};

struct options {
	bool is_foreground;
	bool is_system;
	uint32_t idle_s;
};

static void usage_print(FILE *to)
{
	fprintf(to,
		"usage: urnicd [--foreground] [--system] [--idle SECONDS]\n"
		"\n"
		"The helper that urnic's programs share: it opens UDP port 4791 and hands each\n"
		"process the sockets of its slots. Programs start it when they need it.\n"
		"\n"
		"  -f, --foreground    stay in the foreground and report on standard error\n"
		"  -s, --system        serve every user of this namespace (root only); stay\n"
		"  -i, --idle SECONDS  leave after this time without programs; 0: stay (default %d,\n"
		"                      or the environment's URNICD_IDLE_S)\n"
		"  -h, --help          print this\n"
		"  -V, --version       print the version\n"
		"\n"
		"With URNICD_LOG=FILE in the environment it appends its log to FILE.\n"
		"Exit status: 0 it listens (in the background) or has left, 1 it failed,\n"
		"2 wrong usage, 3 another urnicd listens already, 4 too few open files allowed,\n"
		"5 no directory for its socket.\n",
		AGENT_IDLE_S);
}

/* Returns an exit status, or -1 to go on. */
static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{"foreground", no_argument, NULL, 'f'},
		{"system", no_argument, NULL, 's'},
		{"idle", required_argument, NULL, 'i'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{0},
	};
	const char *idle = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "fsi:hV", names, NULL)) != -1) {
		switch (option) {
		case 'f':
			options->is_foreground = true;
			break;
		case 's':
			options->is_system = true;
			break;
		case 'i':
			idle = optarg;
			break;
		case 'h':
			usage_print(stdout);
			return EXIT_SUCCESS;
		case 'V':
			printf("urnicd %s\n", urnic_version());
			return EXIT_SUCCESS;
		default:
			usage_print(stderr);
			return AGENT_EXIT_USAGE;
		}
	}
	options->idle_s = setting_number(
		"URNICD_IDLE_S", 0, AGENT_IDLE_S_MAX, options->is_system ? 0 : AGENT_IDLE_S);
	if (optind != argc || (idle && !text_number(idle, 0, AGENT_IDLE_S_MAX, &options->idle_s))) {
		usage_print(stderr);
		return AGENT_EXIT_USAGE;
	}
	if (options->is_system && geteuid() != 0) {
		fprintf(stderr, "urnicd: --system needs root\n");
		return AGENT_EXIT_USAGE;
	}
	return -1;
}

/*
 * How many sockets may lie in the fd store. A program cannot pass a descriptor while more
 * descriptors of its user are in messages than the program may open. So leave room below the limit
 * that programs usually have. Only root may run a system-wide urnicd, and root has no such limit.
 */
static uint32_t sockets_max(bool is_system)
{
	const uint32_t all = SERVER_GROUPS_MAX * AGENT_SLOTS;
	struct rlimit files;

	if (is_system || getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur / 4 >= all)
		return all;
	return (uint32_t)files.rlim_cur / 4 * 3;
}

/*
 * Is the limit on open files sufficient? urnicd inherits the limit from the program that starts it,
 * and serves all programs.
 */
static bool may_open_enough(void)
{
	struct rlimit files;

	return getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= AGENT_FILES_MIN;
}

/*
 * signal() refuses the signals that the C library keeps for itself, 32 and 33. The program that
 * started urnicd may still have set them to be ignored, by a direct system call; make does so for
 * its commands.
 */
static void reserved_signal_reset(int signal_number)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} action = {0};
	const size_t mask_bytes = sizeof(action.mask);

	if (syscall(SYS_rt_sigaction, signal_number, NULL, &action, mask_bytes) == 0 &&
		action.handler == SIG_IGN) {
		action.handler = SIG_DFL;
		syscall(SYS_rt_sigaction, signal_number, &action, NULL, mask_bytes);
	}
}

/*
 * Undo settings that urnicd has inherited from the program that started it. The first `kept_count`
 * descriptors after standard error stay open.
 */
static void shed_inheritance(unsigned kept_count)
{
	static const int limits[] = {
		RLIMIT_NOFILE /* urnicd needs one for each socket */, RLIMIT_CPU, RLIMIT_FSIZE};
	struct rlimit limit;
	sigset_t none;

	for (int signal_number = 1; signal_number < NSIG; signal_number++)
		if (signal(signal_number, SIG_DFL) == SIG_ERR)
			reserved_signal_reset(signal_number);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(077);
	close_range(STDERR_FILENO + 1 + kept_count, ~0u, 0);
	for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
		if (getrlimit(limits[i], &limit))
			continue;
		limit.rlim_cur = limit.rlim_max;
		setrlimit(limits[i], &limit);
	}
}

/* Continue in a child in the background. The exit of this process reports that urnicd listens. */
static void become_daemon(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid = fork();

	if (pid != 0)
		_exit(pid > 0 ? AGENT_EXIT_LISTENING : AGENT_EXIT_FAILED);
	setsid();
	if (chdir("/") != 0)
		log_line("cannot change to the root directory");
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		close(null);
	}
}

static int server_serve(const struct server_settings *settings)
{
	struct server *server;
	int rc = server_create(settings, &server);

	if (rc == 0) {
		rc = server_run(server);
		server_destroy(server);
	}
	if (rc)
		log_line("failed: %s", strerror(-rc));
	return rc ? AGENT_EXIT_FAILED : EXIT_SUCCESS;
}

/* Start a server. Returns its process number, or -1. */
static pid_t keep_start(const struct server_settings *settings)
{
	pid_t pid = fork();
	sigset_t none;

	if (pid != 0)
		return pid;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	_exit(server_serve(settings));
}

/*
 * Restart the server whenever it dies, until it exits by itself or a signal ends the keeper.
 */
static int server_keep(const struct server_settings *settings)
{
	sigset_t events;
	pid_t server;

	/*
	 * Block the signals that sigwaitinfo() takes below, so that none is lost between a check
	 * and a wait.
	 */
	sigemptyset(&events);
	sigaddset(&events, SIGCHLD);
	sigaddset(&events, SIGTERM);
	sigaddset(&events, SIGINT);
	sigprocmask(SIG_BLOCK, &events, NULL);
	server = keep_start(settings);
	for (;;) {
		int event = sigwaitinfo(&events, NULL);
		int status = 0;

		if (event == SIGTERM || event == SIGINT) {
			if (server > 0)
				kill(server, SIGKILL);
			return EXIT_SUCCESS;
		}
		if (server > 0 && waitpid(server, &status, WNOHANG) != server)
			continue;
		if (server > 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
			return EXIT_SUCCESS;
		log_line("the server has died: starting another");
		usleep(RESTART_PAUSE_US);
		server = keep_start(settings);
	}
}

/* Prints the reason. Returns an exit status. */
static int cannot_listen(int error, bool is_system)
{
	if (error == -EADDRINUSE) {
		fprintf(stderr, "urnicd: another urnicd listens already\n");
		return AGENT_EXIT_RUNNING;
	}
	if (error == -ENOPROTOOPT || error == -EMFILE || error == -ENFILE || error == -ENOMEM) {
		fprintf(stderr, "urnicd: cannot make its socket: %s\n",
			error == -ENOPROTOOPT ? "this needs Linux 5.14 or newer"
					      : strerror(-error));
		return AGENT_EXIT_FAILED;
	}
	fprintf(stderr, "urnicd: no directory for its socket: %s: %s\n",
		is_system ? "/run/urnic must belong to root, and no other user may write to it"
			  : "none can be made in /run, /dev/shm and /tmp that is the user's alone",
		strerror(-error));
	return AGENT_EXIT_PLACE;
}

/*
 * The kernel may still hold the lock of an urnicd that was killed just now, so the system's urnicd
 * tries for a moment. A program that starts an urnicd tries again by itself; a service manager or a
 * user does not.
 */
static int listen_at_place(bool is_system, struct place_listener *listener)
{
	int rc = place_listen(PLACE_URNICD, is_system, listener);

	for (unsigned i = 0; rc == -EADDRINUSE && is_system && i < LOCK_PAUSES; i++) {
		usleep(RESTART_PAUSE_US);
		rc = place_listen(PLACE_URNICD, is_system, listener);
	}
	return rc;
}

/*
 * Listen. If the service manager has kept usable descriptors of the last urnicd, go on with those.
 * Returns 0 and sets *ret_fd_store, which may be -errno; or returns -errno.
 *
 * `kept`  NULL: the manager has kept nothing.
 */
static int listen_or_adopt(bool is_system, bool is_managed, const struct kept *kept,
	struct place_listener *listener, int *ret_fd_store)
{
	int rc;

	*ret_fd_store = kept ? kept_adopt(kept, listener) : -EINVAL;
	if (*ret_fd_store >= 0)
		return 0;
	if (is_managed)
		kept_forget();
	rc = listen_at_place(is_system, listener);
	if (!rc)
		*ret_fd_store = fd_store_create();
	return rc;
}

int main(int argc, char **argv)
{
	struct options options = {0};
	struct server_settings settings;
	struct place_listener listener;
	struct kept kept;
	int status = parse_options(argc, argv, &options);
	bool has_kept, is_managed;
	uint32_t limit;
	int rc, fd_store;

	if (status >= 0)
		return status;
	if (!may_open_enough()) {
		fprintf(stderr, "urnicd: needs %d open files: raise the limit (ulimit -n)\n",
			AGENT_FILES_MIN);
		return AGENT_EXIT_FILES;
	}
	limit = sockets_max(options.is_system);
	is_managed = options.is_system && options.is_foreground && ready_has_manager();
	has_kept = is_managed && kept_take(&kept);
	shed_inheritance(has_kept ? KEPT_COUNT : 0);
	rc = listen_or_adopt(
		options.is_system, is_managed, has_kept ? &kept : NULL, &listener, &fd_store);
	if (rc)
		return cannot_listen(rc, options.is_system);
	settings = (struct server_settings){
		.sockets_max = limit,
		.listener = listener.socket,
		.fd_store = fd_store,
		.is_system = options.is_system,
		.idle_ms = options.idle_s * 1000,
	};
	if (fd_store < 0) {
		fprintf(stderr, "urnicd: cannot make its sockets: %s\n", strerror(-fd_store));
		place_leave(&listener);
		return AGENT_EXIT_FAILED;
	}
	log_open(options.is_foreground);
	if (is_managed)
		kept_pass(&listener, fd_store);
	if (options.is_foreground)
		ready_tell();
	else
		become_daemon();
	status = options.is_system ? server_keep(&settings) : server_serve(&settings);
	/* Close the stored sockets first: a program that finds no urnicd needs a free port. */
	close(fd_store);
	if (is_managed)
		place_pass_on(&listener);
	else
		place_leave(&listener);
	return status;
}
