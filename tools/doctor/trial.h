/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A trial: a function that may change or end the process, and therefore runs in a child.
 */
#ifndef TOOLS_TRIAL_H
#define TOOLS_TRIAL_H

enum {
	TRIAL_SECONDS = 30, /* a child that takes longer is killed */
	TRIAL_SAID_BYTES = 512,
};

/* Runs in the child. Returns 0, or a negative errno. */
typedef int trial_function(void *context);

struct trial {
	int result; /* what the function returned; -EINTR: a signal ended the child */
	int signal; /* the signal that ended the child; 0: none */
	char said[TRIAL_SAID_BYTES]; /* the first line on the child's standard error; may be "" */
};

/*
 * Run `run` in a child, and wait for the child to end. If there is no child, the result is the
 * -errno of the call that should have made it.
 */
struct trial trial_run(trial_function *run, void *context);

/* Why the trial failed: a phrase such as "Operation not permitted" or "ended by SIGSYS". */
const char *trial_reason(const struct trial *trial);

#endif
