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
	const char *given = secure_getenv("URNIC_URNICD");
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

struct launch {
	const char *path;
	char **environment;
	volatile int
		error; /* written by the child, which shares our memory until it is another program */
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

/* Runs on its own stack in our memory, while the calling thread is suspended. */
static int launch_child(void *context)
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
	_exit(127);
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, __WALL) < 0) {
		if (errno == EINTR)
			continue;
		/* Another thread of the program waits with __WALL and was quicker: trying to connect will tell. */
		return errno == ECHILD ? 0 : -errno;
	}
	if (WIFEXITED(status) &&
		(WEXITSTATUS(status) == AGENT_EXIT_LISTENING ||
			WEXITSTATUS(status) == AGENT_EXIT_RUNNING))
		return 0;
	return -ECANCELED;
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
	stack = malloc(CHILD_STACK_BYTES);
	if (!launch.environment || !stack) {
		rc = -ENOMEM;
		goto fail_free;
	}
	/*
	 * No exit signal: the program gets no SIGCHLD and its wait() does not see our child. Signals stay
	 * blocked into urnicd (which unblocks them), so that no handler of the program runs in the child.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &saved);
	pid = clone(launch_child, stack + CHILD_STACK_BYTES, CLONE_VM | CLONE_VFORK, &launch);
	rc = pid < 0 ? -errno : wait_for(pid);
	if (launch.error)
		rc = -launch.error;
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_setcancelstate(cancel_state, NULL);
fail_free:
	free(stack);
	free(launch.environment);
	return rc;
}
