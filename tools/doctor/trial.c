/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

/*
 * Run the trial in the child. The exit status is the errno, which is small enough. The child keeps
 * the pipe open only as its standard error. If the child starts urnicd, urnicd replaces its own
 * standard error, so it does not keep the pipe open.
 */
static void trial_child(trial_function *run, void *context, int output)
{
	const struct rlimit no_core = {0};

	setrlimit(RLIMIT_CORE, &no_core);
	dup2(output, STDERR_FILENO);
	close(output);
	alarm(TRIAL_SECONDS);
	_exit(-run(context) & 0xff);
}

/* Read all output, and keep the first line, without the prefix of urnic's log. */
static void output_read(int fd, char *said, size_t room)
{
	size_t used = 0;
	char rest[512];
	ssize_t bytes;
	char *start;

	while ((bytes = read(fd, rest, sizeof(rest))) > 0 || (bytes < 0 && errno == EINTR)) {
		size_t kept = bytes < 0 ? 0 : (size_t)bytes;

		if (kept > room - 1 - used)
			kept = room - 1 - used;
		memcpy(said + used, rest, kept);
		used += kept;
	}
	said[used] = '\0';
	said[strcspn(said, "\n")] = '\0';
	start = strstr(said, "]: ");
	if (strncmp(said, "urnic[", 6) == 0 && start)
		memmove(said, start + 3, strlen(start + 3) + 1);
	text_make_printable(said);
}

struct trial trial_run(trial_function *run, void *context)
{
	struct trial trial = {.result = 0};
	int output[2], status = 0;
	pid_t child;

	if (pipe2(output, O_CLOEXEC) < 0)
		return (struct trial){.result = -errno};
	fflush(NULL);
	child = fork();
	if (child == 0)
		trial_child(run, context, output[1]);
	if (child < 0)
		trial.result = -errno;
	close(output[1]);
	if (child > 0) {
		output_read(output[0], trial.said, sizeof(trial.said));
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		trial.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		trial.result = trial.signal ? -EINTR : -WEXITSTATUS(status);
	}
	close(output[0]);
	return trial;
}

const char *trial_reason(const struct trial *trial)
{
	static char text[64];

	if (trial->signal == 0)
		return strerror(-trial->result);
	snprintf(text, sizeof(text), "ended by SIG%s", sigabbrev_np(trial->signal));
	return text;
}
