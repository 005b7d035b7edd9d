/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair/pair.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arith.h"
#include "common/command.h"
#include "host/network_options.h"
#include "os/clock.h"

#define SECOND_NS 1000000000u

enum {
	SERVER = 0,
	PATIENCE_S = 2, /* seconds between SIGTERM and SIGKILL */
};

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* --- processes --- */

/* The signals that this process waits for. They are blocked, except in its programs. */
static sigset_t signals_awaited(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < ARRAY_COUNT(signals); i++)
		sigaddset(&set, signals[i]);
	return set;
}

static int status_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static struct pair_process *process_find(struct pair *pair, pid_t pid)
{
	if (pair->watcher.pid == pid)
		return &pair->watcher;
	if (pair->capturer.pid == pid)
		return &pair->capturer;
	for (int host = 0; host < pair->network.host_count; host++) {
		if (pair->programs[host].pid == pid)
			return &pair->programs[host];
		if (pair->reporters[host].pid == pid)
			return &pair->reporters[host];
	}
	return NULL;
}

/*
 * Note which processes have ended. Processes that became children because their parent ended are
 * not in struct pair, and are only reaped.
 */
static void processes_reap(struct pair *pair)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct pair_process *process = process_find(pair, pid);

		if (!process)
			continue;
		process->is_running = false;
		process->status = status_of(status);
	}
}

/*
 * Wait until a process ends or a signal comes, at most until `until_ns`. Returns false when that
 * time has come, or when a signal has asked urnic pair to end.
 */
static bool event_wait(struct pair *pair, uint64_t until_ns)
{
	sigset_t set = signals_awaited();
	uint64_t now_ns = clock_now_ns();
	uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	const struct timespec limit = {(time_t)(left_ns / SECOND_NS), (long)(left_ns % SECOND_NS)};
	int signal = sigtimedwait(&set, NULL, until_ns == UINT64_MAX ? NULL : &limit);

	processes_reap(pair);
	if (signal > 0 && signal != SIGCHLD)
		pair->signal = signal;
	return !pair->signal && clock_now_ns() < until_ns;
}

static uint64_t seconds_from_now(unsigned seconds)
{
	return clock_now_ns() + (uint64_t)seconds * SECOND_NS;
}

/* Put this child process on its host, and let the kernel kill it when urnic pair ends. */
static void child_prepare(const struct pair *pair, int host)
{
	char name[NETWORK_NAME_BYTES_MAX];
	sigset_t set = signals_awaited();

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (network_enter(&pair->network, host) < 0) {
		complain("pair: cannot enter host %s: %s", host_facts(host).name, strerror(errno));
		_exit(EXIT_FAILED);
	}
	snprintf(name, sizeof(name), "pair-%d", (int)getppid());
	network_identify(name, host);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/*
 * Replace the standard input of the server, and that of a client if it is a terminal, by /dev/null.
 * The programs are background jobs, which a read from the terminal would suspend.
 */
static void input_close(int host)
{
	int null_fd;

	if (host != SERVER && !isatty(STDIN_FILENO))
		return;
	null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null_fd >= 0)
		dup2(null_fd, STDIN_FILENO);
}

/*
 * The path of this program. It is read before a process enters another mount namespace, because in
 * a chroot the kernel afterwards shows the path outside of the chroot.
 */
static char program_path[PATH_MAX] = "/proc/self/exe";

static void program_path_read(void)
{
	char path[PATH_MAX];
	ssize_t bytes = readlink(program_path, path, sizeof(path) - 1);

	if (bytes <= 0)
		return;
	path[bytes] = '\0';
	memcpy(program_path, path, (size_t)bytes + 1);
}

/* Replace this process by `urnic run` with the arguments. */
static noreturn void program_exec(char **arguments)
{
	size_t count = 0;
	char **argv;

	while (arguments[count])
		count++;
	argv = calloc(count + 3, sizeof(*argv));
	if (argv) {
		argv[0] = (char *)"urnic";
		argv[1] = (char *)"run";
		memcpy(argv + 2, arguments, count * sizeof(*argv));
		execv(program_path, argv);
	}
	complain("pair: %s: %s", arguments[0], strerror(errno));
	_exit(EXIT_NOT_RUN);
}

/* Make the process of a program, which waits for program_start(). Returns 0 or -errno. */
static int program_prepare(struct pair *pair, int host)
{
	struct pair_process *process = &pair->programs[host];
	char impairments[PAIR_IMPAIR_BYTES];
	int go[2];

	if (pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	process->pid = fork();
	if (process->pid == 0) {
		child_prepare(pair, host);
		input_close(host);
		close(go[1]);
		if (read(go[0], impairments, sizeof(impairments)) <= 0)
			_exit(EXIT_FAILED);
		if (impairments[0])
			setenv("URNIC_IMPAIR", impairments, 1);
		if (pair->settings->faults)
			setenv("URNIC_FAULTS", pair->settings->faults, 1);
		program_exec(host == SERVER ? pair->settings->server : pair->settings->client);
	}
	close(go[0]);
	process->go_fd = go[1];
	if (process->pid < 0) {
		process->pid = 0;
		return -errno;
	}
	setpgid(process->pid, process->pid);
	process->is_running = true;
	return 0;
}

static void program_start(struct pair *pair, int host)
{
	struct pair_process *process = &pair->programs[host];
	char impairments[PAIR_IMPAIR_BYTES];

	pair_impairments_write(pair, host, impairments);
	/* Ignore a failure: the process has ended, and its status will say so. */
	if (write(process->go_fd, impairments, strlen(impairments) + 1) < 0)
		errno = 0;
	close(process->go_fd);
	process->go_fd = -1;
}

static void process_signal(const struct pair_process *process, int signal)
{
	if (process->pid > 0 && process->is_running)
		kill(-process->pid, signal);
}

static bool clients_are_running(const struct pair *pair)
{
	for (int host = SERVER + 1; host < pair->network.host_count; host++)
		if (pair->programs[host].is_running)
			return true;
	return false;
}

/* --- the end --- */

/*
 * Processes and groups that were sent a SIGTERM. They get no second one, which a program may take
 * as an order to end at once. If the list is full, further ones get only SIGKILL.
 */
struct told {
	int ids[256]; /* for kill(): a process, or a group as a negative number */
	int count;
};

/* Send a signal to a process or group, but SIGTERM only once to each. */
static void told_signal(struct told *told, int id, int signal)
{
	for (int i = 0; signal == SIGTERM && i < told->count; i++)
		if (told->ids[i] == id)
			return;
	if (signal == SIGTERM) {
		if (told->count == (int)(sizeof(told->ids) / sizeof(told->ids[0])))
			return;
		told->ids[told->count++] = id;
	}
	kill(id, signal);
}

/* Signal each child of this process, or its group. Returns whether there were any. */
static bool children_signal(struct told *told, int signal)
{
	DIR *directory = opendir("/proc");
	const struct dirent *entry;
	bool has_children = false;

	while (directory && (entry = readdir(directory))) {
		char path[64], text[512], *end;
		const char *field;
		FILE *file;
		int parent, group;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/stat", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		end = fgets(text, sizeof(text), file);
		fclose(file);
		field = end ? strrchr(text, ')') : NULL;
		if (!field || sscanf(field + 1, " %*c %d %d", &parent, &group) != 2 ||
			parent != getpid())
			continue;
		has_children = true;
		told_signal(told,
			group == getpgrp() ? (int)strtol(entry->d_name, NULL, 10) : -group, signal);
	}
	if (directory)
		closedir(directory);
	return has_children;
}

/* End the programs and what they have left behind. Orphans become children of this process. */
static void everything_end(struct pair *pair)
{
	uint64_t until_ns = seconds_from_now(PATIENCE_S);
	struct told told = {.count = 0};
	int signal = SIGTERM;

	while (children_signal(&told, signal)) {
		const struct timespec pause = {.tv_nsec = 2000000};

		nanosleep(&pause, NULL);
		processes_reap(pair);
		if (clock_now_ns() >= until_ns)
			signal = SIGKILL;
	}
}

/* --- the run --- */

static bool is_pcapng(const char *path)
{
	const char *end = strrchr(path, '.');

	return end && strcmp(end, ".pcapng") == 0;
}

/* Wait until a helper, made by fork(), has written a byte to `ready`. Returns 0 or -errno. */
static int helper_await(struct pair_process *helper, const int ready[2])
{
	int result = 0;
	char byte;

	if (helper->pid < 0) {
		helper->pid = 0;
		result = -errno;
	}
	close(ready[1]);
	if (result == 0) {
		helper->is_running = true;
		if (read(ready[0], &byte, 1) != 1)
			result = -EIO;
	}
	close(ready[0]);
	return result;
}

/* Start a process on each host that writes its events into the pipe. Returns 0 or -errno. */
static int reporters_start(struct pair *pair, int pipe_fd)
{
	int ready[2], result = 0;

	for (int host = 0; host < pair->network.host_count && result == 0; host++) {
		if (pipe2(ready, O_CLOEXEC) < 0)
			return -errno;
		pair->reporters[host].pid = fork();
		if (pair->reporters[host].pid == 0) {
			close(ready[0]);
			child_prepare(pair, host);
			_exit(pair_events(pipe_fd, host, ready[1]));
		}
		result = helper_await(&pair->reporters[host], ready);
	}
	return result;
}

/* Start the capture, which is on when this returns. Returns 0 or -errno. */
static int capturer_start(struct pair *pair)
{
	const struct pair_settings *settings = pair->settings;
	int file = open(settings->capture, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	int events[2] = {-1, -1}, ready[2], result;

	if (file < 0 || pipe2(ready, O_CLOEXEC) < 0 ||
		(settings->with_events && pipe2(events, O_CLOEXEC) < 0)) {
		complain("pair: %s: %s", settings->capture, strerror(errno));
		return -errno;
	}
	pair->capturer.pid = fork();
	if (pair->capturer.pid == 0) {
		close(ready[0]);
		close(events[1]);
		child_prepare(pair, SERVER);
		fcntl(events[0], F_SETFL, O_NONBLOCK);
		_exit(pair_capture(file, settings->with_events || is_pcapng(settings->capture),
			events[0], pair->network.host_count, ready[1]));
	}
	close(file);
	close(events[0]);
	result = helper_await(&pair->capturer, ready);
	if (result == 0 && settings->with_events)
		result = reporters_start(pair, events[1]);
	close(events[1]);
	return result;
}

/* End the capture, after it has written all frames that have come so far. */
static void capturer_end(struct pair *pair)
{
	for (int host = 0; host < pair->network.host_count; host++) {
		process_signal(&pair->reporters[host], SIGTERM);
		while (pair->reporters[host].is_running)
			event_wait(pair, seconds_from_now(1));
	}
	process_signal(&pair->capturer, SIGTERM);
	while (pair->capturer.is_running)
		event_wait(pair, seconds_from_now(1));
}

static int watcher_start(struct pair *pair)
{
	pair->watcher.pid = fork();
	if (pair->watcher.pid == 0) {
		child_prepare(pair, SERVER);
		pair_wait_for_listener();
		_exit(EXIT_OK);
	}
	if (pair->watcher.pid < 0) {
		pair->watcher.pid = 0;
		return -errno;
	}
	pair->watcher.is_running = true;
	return 0;
}

/*
 * Wait until the server listens, at most the time of --wait. Returns whether to start the clients:
 * not after a signal, and not if the server has failed.
 */
static bool server_await(struct pair *pair)
{
	const struct pair_process *server = &pair->programs[SERVER];
	uint64_t until_ns = seconds_from_now(pair->settings->wait_s);
	bool is_in_time = true;

	while (is_in_time && server->is_running && pair->watcher.is_running)
		is_in_time = event_wait(pair, until_ns);
	if (!is_in_time && !pair->signal && server->is_running && pair->watcher.is_running)
		complain("pair: the server does not listen after %u s; starting the client",
			pair->settings->wait_s);
	process_signal(&pair->watcher, SIGKILL);
	return !pair->signal && (server->is_running || server->status == 0);
}

static int programs_run(struct pair *pair)
{
	struct pair_process *server = &pair->programs[SERVER];
	uint64_t until_ns;
	int error = pair->settings->capture ? capturer_start(pair) : 0;

	if (error < 0)
		return error;
	program_start(pair, SERVER);
	error = watcher_start(pair);
	if (error < 0)
		return error;
	if (!server_await(pair))
		return 0;
	for (int host = SERVER + 1; host < pair->network.host_count; host++)
		program_start(pair, host);
	while (!pair->signal && clients_are_running(pair))
		event_wait(pair, UINT64_MAX);
	until_ns = seconds_from_now(pair->settings->grace_s);
	while (!pair->signal && server->is_running && event_wait(pair, until_ns))
		continue;
	server->is_ended_by_us = server->is_running;
	return 0;
}

/* The exit status of urnic pair: the worst of all programs except those that urnic pair ended. */
static int status_choose(const struct pair *pair)
{
	int worst = EXIT_OK;

	if (pair->signal)
		return 128 + pair->signal;
	if (pair->capturer.status)
		worst = EXIT_FAILED;
	for (int host = 0; host < pair->network.host_count; host++) {
		const struct pair_process *process = &pair->programs[host];

		/* A client that was never started has no status. */
		if (!process->is_ended_by_us && process->go_fd < 0 && process->status > worst)
			worst = process->status;
	}
	return worst;
}

int pair_run(const struct pair_settings *settings)
{
	struct pair pair = {.settings = settings};
	sigset_t set = signals_awaited();
	int error, status;

	program_path_read();
	sigprocmask(SIG_BLOCK, &set, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	error = network_make_private(&settings->network, &pair.network);
	if (error < 0)
		return EXIT_FAILED;
	error = pair_reports_make(&pair);
	for (int host = 0; host < pair.network.host_count && !error; host++)
		error = program_prepare(&pair, host);
	if (!error)
		error = programs_run(&pair);
	capturer_end(&pair);
	everything_end(&pair);
	pair_reports_read(&pair);
	status = status_choose(&pair);
	if (!error && settings->is_impaired && !pair.signal)
		pair_reports_print(&pair);
	network_close(&pair.network);
	if (error < 0) {
		complain("pair: %s", strerror(-error));
		return EXIT_FAILED;
	}
	return status;
}
