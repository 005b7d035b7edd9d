/* SPDX-License-Identifier: BSD-2-Clause */
#include "agent/agent_start.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_protocol.h"
#include "base/arith.h"
#include "os/log.h"
#include "os/setting.h"

/*
 * The C library's other name of clone(). ThreadSanitizer takes each call of clone() for a fork(),
 * and fails in a child that shares its memory.
 */
int __clone(int (*run)(void *), void *stack_end, int flags, void *context, ...);

enum {
	CHILD_STACK_BYTES = 64 << 10,
	SECURE_FILES = 65536, /* enough for 64 addresses with 256 slots, and for the programs */
	BEGIN_TIMEOUT_MS = 20000, /* urnicd starts in milliseconds unless it is stopped */
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
	int length = snprintf(ret_path, path_bytes, "%s/urnicd", self);
	return (size_t)length < path_bytes && access(ret_path, X_OK) == 0 ? 0 : -ENOENT;
}

/*
 * The state of a start, on the calling thread's stack. Both children use it while that thread
 * waits.
 */
struct launch {
	const char *path;
	char **environment;
	char *stack; /* CHILD_STACK_BYTES bytes, for the inner child */
	bool is_secure; /* the program runs with another user's rights (AT_SECURE) */
	int status; /* wait status of urnicd, from waitpid() */
	int error; /* the errno for which urnicd did not run, or 0 */
};

/*
 * The environment without variables that would load libraries of the program into urnicd. It is
 * empty for a program with AT_SECURE, whose caller is not the user that urnicd runs as.
 *
 * Returns an array to be freed, with borrowed strings.
 */
static char **clean_environment(bool is_secure)
{
	char *const *all = is_secure ? NULL : setting_environment();
	size_t count = 0;
	char **clean;
	size_t used = 0;

	while (all && all[count])
		count++;
	clean = calloc(count + 1, sizeof(*clean));
	if (!clean)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (strncmp(all[i], "LD_PRELOAD=", 11) != 0 && strncmp(all[i], "LD_AUDIT=", 9) != 0)
			clean[used++] = all[i];
	}
	return clean;
}

/*
 * Make the effective user the real and saved one, too. The caller of a setuid program is its real
 * user and may signal every process with that real user. The group of a setgid program is dropped,
 * because urnicd serves all programs of the user.
 *
 * The function uses system calls, because the C library would change all threads of the program.
 * Returns 0 or -1.
 */
static int leave_caller(void)
{
	uid_t real = getuid(), uid = geteuid();
	gid_t gid = real == uid ? getgid() : getegid();

	if (real != uid && uid == 0) {
		gid = 0;
		if (syscall(SYS_setgroups, 0, NULL))
			return -1;
	}
	if ((getgid() != gid || getegid() != gid) && syscall(SYS_setresgid, gid, gid, gid))
		return -1;
	return real != uid ? (int)syscall(SYS_setresuid, uid, uid, uid) : 0;
}

/*
 * Undo, where permitted, the limits by which the caller of a setuid program could end urnicd,
 * starve it, or make it refuse the user's other programs.
 */
static void leave_limits(void)
{
	static const int limits[] = {RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_AS};
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	const struct rlimit files = {SECURE_FILES, SECURE_FILES};
	const struct sched_param normal = {0};
	struct rlimit given;
	uint8_t processors[128];

	for (size_t i = 0; i < ARRAY_COUNT(limits); i++)
		syscall(SYS_prlimit64, 0, limits[i], &none, NULL);
	if (!syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &given) &&
		given.rlim_max < SECURE_FILES)
		syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &files, NULL);
	syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &normal);
	syscall(SYS_setpriority, PRIO_PROCESS, 0, 0);
	memset(processors, UINT8_MAX, sizeof(processors));
	syscall(SYS_sched_setaffinity, 0, sizeof(processors), processors);
}

/* The inner child: becomes urnicd. */
static int launch_program(void *context)
{
	struct launch *launch = context;
	char *const arguments[] = {(char *)"urnicd", NULL};
	int null = open("/dev/null", O_RDWR);

	/* A new session: the program's terminal must not signal urnicd. */
	setsid();
	if (launch->is_secure)
		leave_limits();
	if (leave_caller()) {
		launch->error = errno;
		return EXIT_FAILURE;
	}
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
 * Has the process ended in time? In a sandbox that refuses a pidfd the answer is yes, and the
 * caller's waitpid() waits without a limit.
 */
static bool has_ended_in_time(pid_t pid)
{
	struct pollfd pollfd = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	bool has_ended = pollfd.fd < 0;

	if (has_ended)
		return true;
	/* No signal interrupts poll(), because all are blocked. */
	has_ended = poll(&pollfd, 1, BEGIN_TIMEOUT_MS) != 0;
	close(pollfd.fd);
	return has_ended;
}

/*
 * The outer child: starts the inner one and waits for it. A child that executes a program sends
 * SIGCHLD at its end in any case. The outer child executes none, so the program gets no signal.
 */
static int launch_and_wait(void *context)
{
	struct launch *launch = context;
	pid_t pid = __clone(launch_program, launch->stack + CHILD_STACK_BYTES,
		CLONE_VM | CLONE_VFORK | SIGCHLD, launch);

	if (pid < 0)
		launch->error = errno;
	else if (!has_ended_in_time(pid))
		launch->error = ETIMEDOUT;
	else if (waitpid(pid, &launch->status, 0) < 0)
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
	if (WIFEXITED(launch->status) && WEXITSTATUS(launch->status) == AGENT_EXIT_PLACE)
		return -ENOTDIR;
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

int agent_in_child(int (*run)(void *context), void *context)
{
	char *stack = malloc(CHILD_STACK_BYTES);
	sigset_t all, saved;
	int cancel_state, rc = 0;
	pid_t pid;

	if (!stack)
		return -ENOMEM;
	/*
	 * The child has no exit signal, so the program gets no SIGCHLD and its wait() does not see
	 * the child. Signals stay blocked in the child, so that no handler of the program runs
	 * there.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &saved);
	pid = __clone(run, stack + CHILD_STACK_BYTES, CLONE_VM | CLONE_VFORK, context);
	if (pid < 0)
		rc = -errno;
	else
		/* The child has ended. Another thread may have reaped it with __WALL. */
		waitpid(pid, NULL, __WALL);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_setcancelstate(cancel_state, NULL);
	free(stack);
	return rc;
}

int agent_start(const char *path)
{
	struct launch launch = {.path = path, .is_secure = getauxval(AT_SECURE) != 0};
	int rc = -ENOMEM;

	launch.environment = clean_environment(launch.is_secure);
	launch.stack = malloc(CHILD_STACK_BYTES);
	/* Signals are still blocked when urnicd begins. urnicd unblocks them itself. */
	if (launch.environment && launch.stack)
		rc = agent_in_child(launch_and_wait, &launch);
	if (!rc)
		rc = launch_result(&launch);
	free(launch.stack);
	free(launch.environment);
	return rc;
}
