/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sandbox that refuses system calls:
 *
 *   refuse CALL[,CALL]... ERRNO PROGRAM ARGUMENTS...
 *
 * In PROGRAM and all that it starts, each CALL fails with ERRNO (EPERM, ENOSYS), or kills the
 * caller by SIGSYS (KILL). The call "ptracer" is prctl() with PR_SET_PTRACER alone.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALLS_MAX = 32, STEPS = 5 /* of the filter, for a call */ };

/* Calls that aarch64 does not have; no call has this number. */
#ifndef SYS_epoll_wait
enum {
	SYS_access = -1,
	SYS_dup2 = -1,
	SYS_epoll_wait = -1,
	SYS_mkdir = -1,
	SYS_poll = -1,
	SYS_readlink = -1,
};
#endif

static const struct {
	const char *name;
	int number;
} known[] = {
#define CALL(name, ...) {#name, SYS_##name},
#include "attack/syscall_faults.def"
	{"io_uring_setup", SYS_io_uring_setup},
	{"mount", SYS_mount},
	{"move_mount", SYS_move_mount},
	{"open_tree", SYS_open_tree},
	{"unshare", SYS_unshare},
};

static const struct {
	const char *name;
	unsigned action;
} errors[] = {
	{"EPERM", SECCOMP_RET_ERRNO | EPERM},
	{"ENOSYS", SECCOMP_RET_ERRNO | ENOSYS},
	{"KILL", SECCOMP_RET_KILL_PROCESS},
};

static void usage_fail(const char *what)
{
	fprintf(stderr, "refuse: %s\n", what);
	exit(EXIT_FAILURE);
}

static int number_of(const char *name)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].number;
	usage_fail(name);
	return -1;
}

static unsigned action_of(const char *name)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (strcmp(errors[i].name, name) == 0)
			return errors[i].action;
	usage_fail(name);
	return 0;
}

static void step_add(struct sock_fprog *filter, struct sock_filter step)
{
	filter->filter[filter->len++] = step;
}

/* Go on if the word at `offset` of the call is `value`, else skip the next `skipped` steps. */
static void test_add(struct sock_fprog *filter, size_t offset, unsigned value, uint8_t skipped)
{
	step_add(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
	step_add(
		filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped));
}

static void call_refuse(struct sock_fprog *filter, const char *name, unsigned action)
{
	bool is_ptracer = strcmp(name, "ptracer") == 0;

	test_add(filter, offsetof(struct seccomp_data, nr),
		(unsigned)number_of(is_ptracer ? "prctl" : name), is_ptracer ? 3 : 1);
	if (is_ptracer)
		test_add(filter, offsetof(struct seccomp_data, args), PR_SET_PTRACER, 1);
	step_add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

int main(int argc, char **argv)
{
	struct sock_filter code[STEPS * CALLS_MAX + 1];
	struct sock_fprog filter = {.len = 0, .filter = code};

	if (argc < 4)
		usage_fail("usage: refuse CALL[,CALL]... ERRNO PROGRAM ARGUMENTS...");
	for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ",")) {
		if (filter.len > STEPS * (CALLS_MAX - 1))
			usage_fail("too many calls");
		call_refuse(&filter, name, action_of(argv[2]));
	}
	step_add(&filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		usage_fail(strerror(errno));
	execvp(argv[3], argv + 3);
	usage_fail(strerror(errno));
}
