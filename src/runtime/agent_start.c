/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime/agent_start.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arith.h"
#include "runtime/agent_protocol.h"
#include "runtime/log.h"
#include "runtime/setting.h"

/*
 * The C library's other name of clone(). Under the usual one ThreadSanitizer takes every call for a
 * fork(), and breaks down in a child that shares its memory.
 */
int __clone(int (*run)(void *), void *stack_end, int flags, void *context, ...);

enum { CHILD_STACK_BYTES = 64 << 10 };

/* Where urnicd lies, seen from the directory of the library (or, in tests, of the program). */
static const char *const places[] = {
	"urnicd", "../urnicd", /* build/lib/liburnic.so */
	"../../urnicd", /* build/tests/unit/test_agent */
	"../libexec/urnic/urnicd", /* PREFIX/bin/urnic, PREFIX/lib/liburnic.so */
	"../../libexec/urnic/urnicd", /* PREFIX/lib/urnic/liburnic.so */
	"../../../libexec/urnic/urnicd", /* PREFIX/lib/x86_64-linux-gnu/urnic/liburnic.so */
};

int agent_find(char *ret_path, size_t path_bytes)
{
	const char *given = setting_path("URNIC_URNICD");
	char self[PATH_MAX];
	char *slash;
	Dl_info info;

	if (given) {
		if (access(given, X_OK) != 0)
			return -ENOENT;
		return (size_t)snprintf(ret_path, path_bytes, "%s", given) < path_bytes ? 0
											: -ENOENT;
	}
	if (!dladdr((void *)(uintptr_t)agent_find, &info) || !realpath(info.dli_fname, self))
		return -ENOENT;
	slash = strrchr(self, '/');
	*slash = '\0';
	for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
		int length = snprintf(ret_path, path_bytes, "%s/%s", self, places[i]);

		if ((size_t)length < path_bytes && access(ret_path, X_OK) == 0)
			return 0;
	}
	return -ENOENT;
}

/* The calling thread's; both children run in its memory while it is suspended. */
struct launch {
	const char *path;
	char **environment;
	char *stack; /* of CHILD_STACK_BYTES, for the inner child */
	int status; /* of urnicd, from waitpid() */
	int error; /* why it did not run, or 0 */
};

/*
 * The environment without what would load another program's libraries into urnicd.
 *
 * Returns an array to be freed, with borrowed strings.
 */
static char **clean_environment(void)
{
	size_t count = 0;
	char **clean;
	size_t used = 0;

	while (environ && environ[count])
		count++;
	clean = calloc(count + 1, sizeof(*clean));
	if (!clean)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 &&
			strncmp(environ[i], "LD_AUDIT=", 9) != 0)
			clean[used++] = environ[i];
	}
	return clean;
}

/* The inner child: becomes urnicd. */
static int launch_program(void *context)
{
	struct launch *launch = context;
	char *const arguments[] = {(char *)"urnicd", NULL};
	int null = open("/dev/null", O_RDWR);

	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
	}
	execve(launch->path, arguments, launch->environment);
	launch->error = errno;
	return EXIT_FAILURE;
}

/*
 * The outer child: starts the inner one and waits for it. A child that executes a program sends
 * SIGCHLD when it ends, however it was made; this one does not, and so can do without.
 */
static int launch_and_wait(void *context)
{
	struct launch *launch = context;
	pid_t pid = __clone(launch_program, launch->stack + CHILD_STACK_BYTES,
		CLONE_VM | CLONE_VFORK | SIGCHLD, launch);

	if (pid < 0 || waitpid(pid, &launch->status, 0) < 0)
		launch->error = errno;
	return EXIT_SUCCESS;
}

static int launch_result(const struct launch *launch)
{
	if (launch->error)
		return -launch->error;
	if (WIFEXITED(launch->status) &&
		(WEXITSTATUS(launch->status) == AGENT_EXIT_LISTENING ||
			WEXITSTATUS(launch->status) == AGENT_EXIT_RUNNING))
		return 0;
	if (WIFEXITED(launch->status) && WEXITSTATUS(launch->status) == AGENT_EXIT_FILES)
		return -EMFILE;
	return -ECANCELED;
}

void agent_settings_check(void)
{
	const char *path = setting_path("URNICD_LOG");
	int fd;

	setting_number("URNICD_IDLE_S", 0, AGENT_IDLE_S_MAX, AGENT_IDLE_S);
	if (!path)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	else
		log_write(LOG_ERROR,
			"URNICD_LOG is '%.100s', which cannot be written (%s); there is no log",
			path, strerror(errno));
}

int agent_start(const char *path)
{
	struct launch launch = {.path = path};
	sigset_t all, saved;
	int cancel_state;
	char *stack;
	pid_t pid;
	int rc;

	launch.environment = clean_environment();
	stack = malloc((size_t)2 * CHILD_STACK_BYTES);
	if (!launch.environment || !stack) {
		rc = -ENOMEM;
		goto fail_free;
	}
	launch.stack = stack + CHILD_STACK_BYTES;
	/*
	 * No exit signal: the program gets no SIGCHLD and its wait() does not see our child.
	 * Signals stay blocked into urnicd (which unblocks them), so that no handler of the
	 * program runs in the children.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &saved);
	pid = __clone(launch_and_wait, stack + CHILD_STACK_BYTES, CLONE_VM | CLONE_VFORK, &launch);
	if (pid < 0) {
		rc = -errno;
	} else {
		/* It has ended. Another thread may have been quicker, with __WALL: no matter. */
		waitpid(pid, NULL, __WALL);
		rc = launch_result(&launch);
	}
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_setcancelstate(cancel_state, NULL);
fail_free:
	free(stack);
	free(launch.environment);
	return rc;
}
